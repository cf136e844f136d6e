/* SPDX-License-Identifier: Apache-2.0 */
/* What every show needs: the time, naps, and children that end with it. */
#ifndef RLOCK_EXAMPLES_SHOW_H
#define RLOCK_EXAMPLES_SHOW_H

#include <stdint.h>
#include <sys/types.h>

int64_t now_us(void);
void nap_us(long us);
void nap_ms(long ms);

/* Forks a child that dies with us. */
pid_t fork_bound(void);

#endif
