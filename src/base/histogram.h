/* SPDX-License-Identifier: Apache-2.0 */
/* Counts a duration in a histogram of the interface. */
#ifndef RLOCK_BASE_HISTOGRAM_H
#define RLOCK_BASE_HISTOGRAM_H

#include <rlock/stats.h>

/* A duration of 0 counts as 1 us. The count is computed when the histogram is read. */
static inline void rlock__histogram_add(struct rlock_histogram *histogram, int64_t us)
{
    const uint64_t duration = us > 0 ? (uint64_t)us : 1;
    const unsigned range = 63 - (unsigned)__builtin_clzll((duration - 1) >> 4 | 1);

    histogram->counts[range < RLOCK_HISTOGRAM_BUCKETS ? range : RLOCK_HISTOGRAM_BUCKETS - 1]++;
    histogram->sum_us += duration;
}

#endif
