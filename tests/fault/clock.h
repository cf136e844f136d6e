/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks under the test's hand. A program that is linked with this asks here for the time, and so
 * does the library in it: clock_gettime(), time(), gettimeofday() and poll() are ours. At the start
 * they say the truth. Threads: any.
 */
#ifndef RLOCK_TEST_FAULT_CLOCK_H
#define RLOCK_TEST_FAULT_CLOCK_H

#include <stddef.h>
#include <stdint.h>

/* Time passes: CLOCK_BOOTTIME is later at once, and who waits in poll() has waited that much
 * longer. */
void clock_skip_ms(int64_t ms);

/* The machine was asleep: CLOCK_BOOTTIME is later, and poll() knows nothing of it. */
void clock_suspend_ms(int64_t ms);

/* Somebody set the wall clock: CLOCK_REALTIME is so far off from now on. */
void clock_set_wall_ms(int64_t offset_ms);

/* How often anybody asked for the wall clock. */
size_t clock_wall_reads(void);

#endif
