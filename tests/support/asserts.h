/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests assert again and again: the code of a call, what its detail says, and how long it
 * took. Where one of these fails it names what it saw. */
#ifndef RLOCK_TEST_ASSERTS_H
#define RLOCK_TEST_ASSERTS_H

#include "support/stall.h"
#include <rlock/rlock.h>

#include "support/run.h"
#include "support/test.h"

/* Fails unless a call of the library returned this code. */
#define assert_code(call, expected) assert_code_at((call), (expected), #call, __FILE__, __LINE__)
void assert_code_at(int code, int expected, const char *call, const char *file, int line);

/* Fails unless rlock_detail() contains a text. */
#define assert_detail(part) assert_contains(rlock_detail(), part)
/* Fails unless a text contains a part. */
#define assert_contains(text, part) assert_contains_at((text), (part), __FILE__, __LINE__)
void assert_contains_at(const char *text, const char *part, const char *file, int line);

/* Fails unless rlock_detail() says in how many ms something is free, and that lies in a range. */
void assert_free_in(long long least_ms, long long most_ms);

/* How much later than its deadline a call may return here: the library promises 50 ms, and this
 * machine has other things to do. Stretched by test_slack(). */
#define CALL_LATE_MS 200

/* Fails unless no more time has passed than this, not stretched, and CALL_LATE_MS. */
void assert_within(int64_t since_us, int64_t ms);

/* How late a thing may come that is measured once, on a machine with other work to do. */
#define LATE_MS 500

/* Fails unless a time lies between. most_ms is stretched. */
#define assert_took(us, least_ms, most_ms) assert_took_at(us, least_ms, most_ms, __FILE__, __LINE__)
void assert_took_at(int64_t us, int64_t least_ms, int64_t most_ms, const char *file, int line);

/* The same for rounds of one thing on a busy machine: the middle one within usual_ms, all within
 * most_ms. */
#define assert_usually_took(us, n, usual_ms, most_ms)                                              \
    assert_usually_took_at(us, n, usual_ms, most_ms, __FILE__, __LINE__)
void assert_usually_took_at(int64_t *us, size_t n, int64_t usual_ms, int64_t most_ms,
                            const char *file, int line);

/* Waits in steps of a millisecond while `expr` is true; its value is whether it stayed so. */
#define STAYS(expr, ms)                                                                            \
    __extension__({                                                                                \
        const int64_t stays_end_us_ = test_now_us() + (ms)*1000;                                   \
        bool stays_ = (expr);                                                                      \
        while (stays_ && test_pause_until(stays_end_us_)) {                                        \
            stays_ = (expr);                                                                       \
        }                                                                                          \
        stays_;                                                                                    \
    })

/* The same of a hold that is renewed every third of its lease: the machine's stalls may end it. */
#define STAYS_KEPT(expr, ms, lease_ms) (STAYS(expr, ms) || test_expired((int64_t)(lease_ms)*1000))

/* Takes a lock with options of RLOCK_TAKE(), without a grant: TAKE(lock, 100, .owner = 1). */
#define TAKE(lock, wait_ms, ...) rlock_lock_for(lock, wait_ms, RLOCK_TAKE(__VA_ARGS__), NULL)

#endif
