/* SPDX-License-Identifier: Apache-2.0 */
/* How long a waiter of a spin lock pauses: Redisson's back-off (LockOptionsTest). */
#include "base/random.h"
#include "lock/core.h"
#include "support/test.h"

/* The pauses of a call lie in these ranges, in ms, over and over, whatever the random numbers. */
static void expect(const struct rlock__tuning *tuning, size_t n, const int64_t (*ranges)[2])
{
    int64_t least[16], most[16];

    for (size_t i = 0; i < n; i++) {
        least[i] = INT64_MAX;
        most[i] = 0;
    }
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t random = seed * 0x9E3779B97F4A7C15ULL;

        for (size_t i = 0; i < n; i++) {
            int64_t pause = rlock__spin_ops.pause(tuning, (unsigned)i, &random);

            assert_in_range(pause, ranges[i][0] * RLOCK__MS, ranges[i][1] * RLOCK__MS);
            least[i] = pause < least[i] ? pause : least[i];
            most[i] = pause > most[i] ? pause : most[i];
        }
    }
    for (size_t i = 0; i < n; i++) { /* and they fill them: synchronised waiters come apart */
        assert_true(most[i] - least[i] >= (ranges[i][1] - ranges[i][0]) * RLOCK__MS * 8 / 10);
    }
}

/* testExponentialBackoff */
TEST(pauses_grow_up_to_the_longest_and_then_by_chance)
{
    static const int64_t ranges[][2] = {{10, 10}, {30, 31}, {90, 92}, {100, 103}, {100, 104}};
    const struct rlock__tuning tuning = {
        .spin_initial_us = 10 * RLOCK__MS, .spin_max_us = 100 * RLOCK__MS, .spin_multiplier = 3};

    expect(&tuning, 5, ranges);
}

/* testConstantBackoff; ours have the jitter here as well, a ms more with each pause. */
TEST(pauses_that_do_not_grow_are_spread_all_the_same)
{
    static const int64_t ranges[][2] = {{30, 30}, {30, 31}, {30, 32}, {30, 33}, {30, 34}};
    const struct rlock__tuning tuning = {.spin_initial_us = 30 * RLOCK__MS, .spin_multiplier = 1};

    expect(&tuning, 5, ranges);
}

TEST(pauses_are_1_to_128_ms_unless_told)
{
    static const int64_t ranges[][2] = {{1, 1},   {2, 3},   {4, 6},     {8, 11},   {16, 20},
                                        {32, 37}, {64, 70}, {128, 135}, {128, 136}};
    const struct rlock__tuning tuning = {.spin_initial_us = 0};

    expect(&tuning, 9, ranges);
}

/* However long somebody waits, no pause is longer than twice the longest. */
TEST(jitter_is_never_longer_than_the_longest_pause)
{
    const struct rlock__tuning tuning = {.spin_initial_us = 0};
    uint64_t random = 4711;
    int64_t most = 0;

    for (unsigned i = 0; i < 100000; i++) {
        int64_t pause = rlock__spin_ops.pause(&tuning, i, &random);

        most = pause > most ? pause : most;
    }
    assert_in_range(most, 250 * RLOCK__MS, 256 * RLOCK__MS);
}
