/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that take locks of all kinds on many names all the time, alone and as multi-locks,
 * while a test breaks and moves their servers; and what they saw: who was inside with whom, tokens
 * that went back, calls that came late, losses, and what was left.
 *
 * What a call may return when servers fail is counted; any other code ends the process.
 */
#ifndef RLOCK_TEST_LOAD_H
#define RLOCK_TEST_LOAD_H

#include "support/fixture.h"

#include <stdint.h>

enum { LOAD_NAMES = 200, LOAD_PROCESSES = 8 };

struct load;

/* Starts them: before the test has threads. */
struct load *load_begin(const struct fixture *f, const char *url, int acks, int64_t lease_ms);
/* They leave, and close their clients. Dies where one of them stays. */
void load_end(struct load *load);
struct load *load_free(struct load *load);

/* The name with this number. Those from LOAD_NAMES on are held for long. */
void load_name(size_t number, char *out, size_t size);

/* How many grants there were. */
uint64_t load_grants(const struct load *load);
/* Waits until there were so many more; within 30 s. */
void load_await(const struct load *load, uint64_t grants);
/* How many holds were told to be gone on the server, or another one's. */
uint64_t load_stolen(const struct load *load);
/* Prints what was counted. Whether nothing was wrong: nobody overlapped, no token went back, no
 * call was late. */
bool load_is_clean(const struct load *load);
/* The same where grants may get lost: whether each lock that overlapped was told to be lost. */
bool load_overlaps_were_told(const struct load *load);
/* Whether a call on this name has come to no certain end since then: something may be left. */
bool load_is_excused(const struct load *load, size_t number, int64_t since_us);

#endif
