/* SPDX-License-Identifier: Apache-2.0 */
#include "support/counts.h"

#include <string.h>

#include "support/asserts.h"

struct rlock_stats counts_of(const struct rlock_client *client)
{
    struct rlock_stats stats = RLOCK_STATS_INIT;

    assert_code(rlock_client_stats(client, &stats), 0);
    return stats;
}

unsigned counts_kind(const struct rlock_handle *lock)
{
    static const char *const names[] = {"reentrant", "non-reentrant", "spin",    "fenced",
                                        "fair",      "read",          "write",   "multi",
                                        "redlock",   "setnx",         "permits", "semaphore"};
    unsigned kind = 0;

    while (strcmp(names[kind], rlock_kind(lock)) != 0) {
        kind++;
        TEST_CHECK(kind < sizeof(names) / sizeof(names[0]));
    }
    return kind;
}

uint64_t counts_sum(const uint64_t *counters, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += counters[i];
    }
    return sum;
}

static uint64_t expected_of(const struct count *expected, int code)
{
    while (expected->n != 0 && expected->code != code) {
        expected++;
    }
    return expected->n;
}

void assert_counts_at(const uint64_t *counters, unsigned kind, const struct count *expected,
                      const char *what, const char *file, int line)
{
    for (unsigned i = 0; i < RLOCK_STATS_KINDS; i++) {
        for (int code = 0; code < RLOCK_STATS_CODES; code++) {
            const uint64_t n = i == kind ? expected_of(expected, -code) : 0;

            if (counters[i * RLOCK_STATS_CODES + (unsigned)code] != n) {
                print_error("%llu %s of kind %u ended with %s, and not %llu\n",
                            (unsigned long long)counters[i * RLOCK_STATS_CODES + (unsigned)code],
                            what, i, rlock_code_name(-code), (unsigned long long)n);
                _fail(file, line);
            }
        }
    }
}
