/* SPDX-License-Identifier: Apache-2.0 */
/* The rows in which rlock is measured beside other libraries: bench/peers/. */
#include "bench.h"

#include "floor.h"
#include "lib.h"

enum { WARM_MS = 500 }; /* Redisson says itself when it is warm */

static const struct bench_variant redisson = {
    .name = "Redisson",
    .program = "redisson",
    .does = "re-entry, wake-up, renewal",
    .sends =
        "set", /* its scripts do; but for each it sends a DEL of the same key, an unlock latch */
    .warm_ms = 2 * WARM_MS,
};

static const struct bench_variant redsync = {
    .name = "redsync",
    .program = "redsync",
    .does = "validity; waiters poll",
    .sends = "set",
    .warm_ms = WARM_MS,
};

static const struct bench_variant redislock = {
    .name = "redislock",
    .program = "redislock",
    .does = "nothing else; waiters poll",
    .warm_ms = WARM_MS,
};

static const struct bench_variant rueidislock = {
    .name = "rueidislock",
    .program = "rueidislock",
    .does = "wake-up, renewal, loss",
    .warm_ms = WARM_MS,
};

static const struct bench_variant redis_plus_plus = {
    .name = "redis++",
    .program = "redis-plus-plus",
    .does = "renewal, loss; waiters poll",
    .sends = "set",
    .warm_ms = WARM_MS,
};

static const struct bench_variant redis_py = {
    .name = "redis-py",
    .program = "redis-py",
    .does = "nothing else; waiters poll",
    .sends = "set",
    .warm_ms = WARM_MS,
};

static const struct bench_variant node_redlock = {
    .name = "node redlock",
    .program = "node-redlock",
    .does = "validity; waiters poll",
    .warm_ms = 2 * WARM_MS,
};

#define EVERYBODY                                                                                  \
    &redisson, &redsync, &redislock, &rueidislock, &redis_plus_plus, &redis_py, &node_redlock

static const struct bench_row own = {
    .name = "own",
    .about = "lock + unlock, each thread a name of its own; cases: threads; latency: of both",
    .kind = "reentrant",
    .variant = {&lib_pair, &floor_plain, EVERYBODY},
    .cases = {{.name = "1", .procs = 1, .threads = 1}, {.name = "32", .procs = 1, .threads = 32}},
};

static const struct bench_row one = {
    .name = "one",
    .about = "one name for all; cases: processes x threads, hold; latency: of the lock alone",
    .kind = "reentrant",
    .shared = true,
    .variant = {&lib_contend, &floor_plain_contend, EVERYBODY},
    .cases = {{.name = "1x32, 0", .procs = 1, .threads = 32},
              {.name = "1x32, 1ms", .procs = 1, .threads = 32, .hold_us = 1000},
              {.name = "4x8, 0", .procs = 4, .threads = 8},
              {.name = "4x8, 1ms", .procs = 4, .threads = 8, .hold_us = 1000}},
};

static const struct bench_row fair = {
    .name = "fair",
    .about = "one fair lock for all; cases: threads; latency: of the lock alone",
    .kind = "fair",
    .shared = true,
    .variant = {&lib_contend, &redisson},
    .cases = {{.name = "8", .procs = 1, .threads = 8}, {.name = "64", .procs = 1, .threads = 64}},
};

static const struct bench_row read_write = {
    .name = "rw",
    .about = "one read/write lock for all, 95 % read; cases: threads; latency: of the lock alone",
    .kind = "rw",
    .floors = "read",
    .shared = true,
    .variant = {&lib_read_write, &redisson},
    .cases = {{.name = "8", .procs = 1, .threads = 8}, {.name = "32", .procs = 1, .threads = 32}},
};

static const struct bench_row multi = {
    .name = "multi",
    .about = "a multi-lock of each thread's own; cases: members x threads; latency: of both",
    .kind = "multi",
    .variant = {&lib_pair, &redisson},
    .cases = {{.name = "3x1", .procs = 1, .threads = 1, .members = 3},
              {.name = "3x32", .procs = 1, .threads = 32, .members = 3}},
};

#define OF_FIVE(n_threads, what, delay)                                                            \
    {                                                                                              \
        .name = "5x" #n_threads what, .procs = 1, .threads = (n_threads), .members = 5,            \
        .delay_us = (delay)                                                                        \
    }

static const struct bench_row redlock = {
    .name = "redlock",
    .about = "a RedLock of each thread's own; cases: servers x threads, delay one way; latency: of "
             "the lock alone",
    .kind = "redlock",
    .floors = "reentrant",
    .variant = {&lib_contend, &floor_quorum, &redisson, &redsync, &redis_plus_plus, &node_redlock},
    .cases = {OF_FIVE(1, "", 0), OF_FIVE(8, "", 0), OF_FIVE(32, "", 0), OF_FIVE(1, ", 2ms", 2000),
              OF_FIVE(8, ", 2ms", 2000), OF_FIVE(32, ", 2ms", 2000)},
};

/* As in rows.c. */
#define RENEWED(n_locks, lease, period)                                                            \
    {                                                                                              \
        {                                                                                          \
            .name = #n_locks, .procs = 1, .threads = 32, .locks = (n_locks), .lease_ms = (lease),  \
            .at_least_ms = (period)                                                                \
        }                                                                                          \
    }

static const struct bench_row renew = {
    .name = "renew",
    .about = "renewals of one hold; cases: holds; no latency",
    .count = "pexpire",
    .variant = {&lib_hold, &redisson},
    .cases = RENEWED(10000, 6000, 3000),
};

static const struct bench_row renew_many = {
    .name = "renew-many",
    .about = "renewals of one hold; cases: holds; no latency",
    .count = "pexpire",
    .only_named = true,
    .variant = {&lib_hold, &redisson},
    .cases = RENEWED(100000, 30000, 15000),
};

const struct bench_row *const bench_peers[] = {&own,     &one,   &fair,       &read_write, &multi,
                                               &redlock, &renew, &renew_many, NULL};
