/* SPDX-License-Identifier: Apache-2.0 */
/* What a client says that it has counted. */
#ifndef RLOCK_TEST_COUNTS_H
#define RLOCK_TEST_COUNTS_H

#include <rlock/stats.h>

struct rlock_stats counts_of(const struct rlock_client *client);
/* The number of a lock's kind, RLOCK_KIND_…. */
unsigned counts_kind(const struct rlock_handle *lock);
/* Of an array of counters: the sum of all. */
uint64_t counts_sum(const uint64_t *counters, size_t n);

/* Fails unless so many takes of the lock's kind, and no others at all, ended with each code: rows
 * of codes and numbers, up to a number of 0. The same for unlocks. */
struct count {
    int code;
    uint64_t n;
};
#define assert_takes(stats, kind, ...)                                                             \
    assert_counts_at((stats)->takes[0], (kind), (const struct count[]){__VA_ARGS__, {0, 0}},       \
                     "takes", __FILE__, __LINE__)
#define assert_unlocks(stats, kind, ...)                                                           \
    assert_counts_at((stats)->unlocks[0], (kind), (const struct count[]){__VA_ARGS__, {0, 0}},     \
                     "unlocks", __FILE__, __LINE__)
void assert_counts_at(const uint64_t *counters, unsigned kind, const struct count *expected,
                      const char *what, const char *file, int line);

#endif
