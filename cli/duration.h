/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RLOCK_CLI_DURATION_H
#define RLOCK_CLI_DURATION_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * Reads "300ms", "2s", "1.5m", "1h", or a bare number of seconds as in flock(1); a part of a
 * millisecond counts as a whole one, so that only 0 is 0. Returns whether it was a duration, of a
 * hundred years at most.
 */
bool cli_duration_parse(const char *text, int64_t *ret_ms);

/* The time on the clock, in ms. */
int64_t cli_now_ms(clockid_t clock);

#endif
