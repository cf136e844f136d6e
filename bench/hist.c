/* SPDX-License-Identifier: Apache-2.0 */
/* Latencies in buckets that grow with them: 32 for each power of two. */
#include "bench.h"

enum { SUB_BITS = 5, SUB = 1 << SUB_BITS };

static size_t bucket_of(uint64_t ns)
{
    if (ns < SUB) {
        return (size_t)ns;
    }
    const unsigned exponent = 63U - (unsigned)__builtin_clzll(ns);
    const uint64_t sub = (ns >> (exponent - SUB_BITS)) & (SUB - 1);
    const size_t bucket = (size_t)(exponent - SUB_BITS + 1) * SUB + (size_t)sub;

    return bucket < BENCH_BUCKETS ? bucket : BENCH_BUCKETS - 1;
}

/* The middle of a bucket. */
static double ns_of(size_t bucket)
{
    if (bucket < SUB) {
        return (double)bucket;
    }
    const unsigned shift = (unsigned)(bucket / SUB) - 1;
    const double width = (double)(1ULL << shift);

    return (double)((SUB + bucket % SUB) << shift) + width / 2;
}

void bench_hist_add(struct bench_hist *hist, int64_t ns)
{
    hist->count[bucket_of(ns > 0 ? (uint64_t)ns : 0)]++;
}

void bench_hist_merge(struct bench_hist *into, const struct bench_hist *from)
{
    for (size_t i = 0; i < BENCH_BUCKETS; i++) {
        into->count[i] += from->count[i];
    }
}

double bench_hist_percentile(const struct bench_hist *hist, double percent)
{
    uint64_t all = 0, seen = 0;

    for (size_t i = 0; i < BENCH_BUCKETS; i++) {
        all += hist->count[i];
    }
    for (size_t i = 0; i < BENCH_BUCKETS; i++) {
        seen += hist->count[i];
        if (hist->count[i] > 0 && (double)seen >= (double)all * percent / 100) {
            return ns_of(i) / 1000;
        }
    }
    return 0;
}
