/*
 * Assertions about time, and a witness of the machine's own stalls beside them.
 *
 * Each test runs under stall_run, which has a thread on each processor that sleeps for 1 ms again
 * and again and notes by how much it came late. Where an assertion about time fails, and the
 * stalls on one processor in the very interval that it speaks of sum up to at least what it was
 * missed by, the machine may have done that: the test is run again, up to three times, and
 * stall_run says so. The last failure counts. Where the witness saw less, the test has failed.
 * Nothing else is ever run twice.
 *
 * Threads: any, in any process of the test.
 */
#ifndef RLOCK_TEST_STALL_H
#define RLOCK_TEST_STALL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The sum of the stalls since then, on the processor that had most of them; 0 where no witness
 * runs.
 */
int64_t test_stalls_us(int64_t since_us);

/*
 * An assertion about time has failed: it speaks of the interval from since_us to now, and would
 * have held had that been shorter by missed_us. Says what the witness saw, and has the test run
 * again where that is the reason. Returns false, so that it can stand behind the condition:
 * assert_true(rlock_is_valid(lock) || test_missed(since_us, spare_us)). For a share or a rate
 * missed_us is a tenth of the interval.
 */
bool test_missed(int64_t since_us, int64_t missed_us);

/*
 * A hold has ended that was to be renewed every third of its lease: where the machine stood still
 * for such a third in the last lease, what fails because of that is run again. Returns false, for
 * assert_true(rlock_is_valid(lock) || test_expired(lease_us)); an on_lost() calls it as well.
 */
bool test_expired(int64_t lease_us);

/*
 * For a condition that has not come by end_us: yields the processor for about 1 ms; false, at
 * once, where the stalls since since_us are less than the time that has passed since end_us.
 */
bool test_pause_stalled(int64_t since_us, int64_t end_us);

/*
 * Whether something that began at since_us took no more than limit_us: test_missed() where it did.
 */
bool test_in_time(int64_t since_us, int64_t took_us, int64_t limit_us);

/* The same for something that has ended just now. */
bool test_took_at_most(int64_t took_us, int64_t limit_us);

/* What began at since_us is done within limit_us. */
#define assert_in_time(since_us, limit_us)                                                         \
    assert_true(test_in_time(since_us, test_elapsed_us(since_us), limit_us))

#endif
