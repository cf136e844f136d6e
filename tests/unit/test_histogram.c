/* SPDX-License-Identifier: Apache-2.0 */
/* Each range of a histogram ends where the interface says. */
#include "base/histogram.h"
#include "support/test.h"

enum { LAST = RLOCK_HISTOGRAM_BUCKETS - 1 };

/* Counts one duration. Returns its range. */
static size_t range_of(int64_t us)
{
    struct rlock_histogram histogram = {.sum_us = 0};
    size_t range = RLOCK_HISTOGRAM_BUCKETS;

    rlock__histogram_add(&histogram, us);
    for (size_t i = 0; i < RLOCK_HISTOGRAM_BUCKETS; i++) {
        assert_in_range(histogram.counts[i], 0, 1);
        if (histogram.counts[i] == 1) {
            assert_int_equal(range, RLOCK_HISTOGRAM_BUCKETS); /* one range alone has it */
            range = i;
        }
    }
    assert_int_equal(histogram.sum_us, us > 0 ? us : 1);
    return range;
}

TEST(a_range_ends_at_32_us_doubled_as_often)
{
    for (size_t i = 0; i < LAST; i++) {
        const int64_t end = INT64_C(32) << i;

        assert_int_equal(range_of(end), i);
        assert_int_equal(range_of(end - 1), i);
        assert_int_equal(range_of(end + 1), i + 1);
    }
}

TEST(the_last_range_has_no_end)
{
    assert_int_equal(range_of(INT64_MAX), LAST);
    assert_int_equal(range_of((INT64_C(32) << LAST) + 1), LAST);
}

/* Two threads may read the clock in another order than they act. */
TEST(a_duration_of_nothing_or_less_is_short)
{
    assert_int_equal(range_of(0), 0);
    assert_int_equal(range_of(-5), 0);
}
