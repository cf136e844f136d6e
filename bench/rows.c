/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured. The first variant of a row is rlock. */
#include "bench.h"

#include "floor.h"
#include "lib.h"

#define OWN_NAMES                                                                                  \
    {                                                                                              \
        {.name = "1", .procs = 1, .threads = 1}, {.name = "8", .procs = 1, .threads = 8},          \
            {.name = "32", .procs = 1, .threads = 32},                                             \
        {                                                                                          \
            .name = "128", .procs = 1, .threads = 128                                              \
        }                                                                                          \
    }

/* A lock of each thread's own, of the kind. */
#define OWN(kind_name)                                                                             \
    static const struct bench_row own_##kind_name = {                                              \
        .name = "own-" #kind_name,                                                                 \
        .about = "lock + unlock, each thread a name of its own; cases: threads; latency: of both", \
        .kind = #kind_name,                                                                        \
        .variant = {&lib_pair, &floor_each, &floor_pipe},                                          \
        .cases = OWN_NAMES,                                                                        \
    }

OWN(reentrant);
OWN(nonreentrant);
OWN(spin);
OWN(fenced);
OWN(fair);
OWN(read);
OWN(write);

static const struct bench_row far = {
    .name = "far",
    .about =
        "lock + unlock over a network, each thread a name of its own; cases: threads, delay one "
        "way; latency: of both",
    .kind = "reentrant",
    .variant = {&lib_pair, &lib_pair_sent, &floor_each},
    .cases = {{.name = "1, 500us", .procs = 1, .threads = 1, .delay_us = 500},
              {.name = "8, 500us", .procs = 1, .threads = 8, .delay_us = 500},
              {.name = "1, 5ms", .procs = 1, .threads = 1, .delay_us = 5000}},
};

static const struct bench_row linger = {
    .name = "linger",
    .about = "lock + unlock of one free name again and again, each thread a name of its own; "
             "cases: threads, delay one way; latency: of both",
    .kind = "reentrant",
    .variant = {&lib_pair, &lib_pair_lingering, &floor_each},
    .cases = {{.name = "1", .procs = 1, .threads = 1},
              {.name = "8", .procs = 1, .threads = 8},
              {.name = "1, 500us", .procs = 1, .threads = 1, .delay_us = 500}},
};

#define IN_CLUSTER(n_threads)                                                                      \
    {                                                                                              \
        .name = #n_threads, .procs = 1, .threads = (n_threads), .nodes = 30, .locks = 256          \
    }

static const struct bench_row cluster = {
    .name = "cluster",
    .about = "lock + unlock in a cluster of 30 servers, each thread 256 names of its own that are "
             "spread over all slots; cases: threads; latency: of both",
    .kind = "reentrant",
    .variant = {&lib_pair_spread, &floor_direct},
    .cases = {IN_CLUSTER(1), IN_CLUSTER(8), IN_CLUSTER(32)},
};

static const struct bench_row one = {
    .name = "one",
    .about = "one name for all; cases: processes x threads, hold; latency: of the lock alone",
    .kind = "reentrant",
    .shared = true,
    .variant = {&lib_contend, &floor_pass},
    .cases = {{.name = "1x32, 0", .procs = 1, .threads = 32},
              {.name = "1x32, 100us", .procs = 1, .threads = 32, .hold_us = 100},
              {.name = "1x32, 1ms", .procs = 1, .threads = 32, .hold_us = 1000},
              {.name = "4x8, 0", .procs = 4, .threads = 8},
              {.name = "4x8, 100us", .procs = 4, .threads = 8, .hold_us = 100},
              {.name = "4x8, 1ms", .procs = 4, .threads = 8, .hold_us = 1000}},
};

static const struct bench_row fleet = {
    .name = "fleet",
    .about = "one name for all, a thread in each process; cases: processes, hold; latency: of the "
             "lock alone",
    .kind = "reentrant",
    .shared = true,
    .variant = {&lib_contend, &floor_pass, &floor_queue, &floor_push},
    .cases = {{.name = "16, 0", .procs = 16, .threads = 1},
              {.name = "16, 2ms", .procs = 16, .threads = 1, .hold_us = 2000},
              {.name = "48, 2ms", .procs = 48, .threads = 1, .hold_us = 2000},
              {.name = "100, 0", .procs = 100, .threads = 1},
              {.name = "100, 2ms", .procs = 100, .threads = 1, .hold_us = 2000},
              {.name = "100, 10ms", .procs = 100, .threads = 1, .hold_us = 10000}},
};

static const struct bench_row fair = {
    .name = "fair",
    .about = "one fair lock for all; cases: threads; latency: of the lock alone",
    .kind = "fair",
    .shared = true,
    .variant = {&lib_contend, &floor_alone},
    .cases = {{.name = "8", .procs = 1, .threads = 8},
              {.name = "64", .procs = 1, .threads = 64},
              {.name = "512", .procs = 1, .threads = 512}},
};

static const struct bench_row read_write = {
    .name = "rw",
    .about = "one read/write lock for all, 95 % read; cases: threads; latency: of the lock alone",
    .kind = "rw",
    .floors = "read",
    .shared = true,
    .variant = {&lib_read_write, &floor_each},
    .cases = {{.name = "8", .procs = 1, .threads = 8}, {.name = "32", .procs = 1, .threads = 32}},
};

static const struct bench_row multi = {
    .name = "multi",
    .about = "a multi-lock of each thread's own; cases: members x threads; latency: of both",
    .kind = "multi",
    .variant = {&lib_pair, &floor_each, &floor_pipe},
    .cases = {{.name = "3x1", .procs = 1, .threads = 1, .members = 3},
              {.name = "3x32", .procs = 1, .threads = 32, .members = 3},
              {.name = "10x1", .procs = 1, .threads = 1, .members = 10},
              {.name = "10x32", .procs = 1, .threads = 32, .members = 10}},
};

static const struct bench_row redlock = {
    .name = "redlock",
    .about = "a RedLock of each thread's own; cases: servers x threads, delay one way, that of the "
             "last server; latency: of the lock alone",
    .kind = "redlock",
    .floors = "reentrant", /* each server is sent what one lock's is */
    .variant = {&lib_contend, &floor_quorum},
    .cases = {{.name = "3x1", .procs = 1, .threads = 1, .members = 3},
              {.name = "5x1", .procs = 1, .threads = 1, .members = 5},
              {.name = "5x8", .procs = 1, .threads = 8, .members = 5},
              {.name = "5x32", .procs = 1, .threads = 32, .members = 5},
              {.name = "3x1, 2ms", .procs = 1, .threads = 1, .members = 3, .delay_us = 2000},
              {.name = "5x1, 2ms", .procs = 1, .threads = 1, .members = 5, .delay_us = 2000},
              {.name = "5x1, 500us, 25ms",
               .procs = 1,
               .threads = 1,
               .members = 5,
               .delay_us = 500,
               .slow_us = 25000}},
};

/* A run has half as much again as a period, which is a third of the lease: what was taken last is
 * renewed late in the first one. */
#define RENEWED(n_procs, n_locks, lease, period)                                                   \
    {                                                                                              \
        .name = #n_locks, .procs = (n_procs), .threads = 32, .locks = (n_locks),                   \
        .lease_ms = (lease), .at_least_ms = (period)                                               \
    }

static const struct bench_row renew = {
    .name = "renew",
    .about = "renewals of one hold; cases: holds; latency: of a call of the script",
    .kind = NULL,
    .count = "pexpire",
    .variant = {&lib_hold, &floor_renew},
    .cases = {RENEWED(1, 1000, 1500, 750), RENEWED(1, 10000, 6000, 3000),
              RENEWED(1, 100000, 30000, 15000)},
};

static const struct bench_row beside = {
    .name = "beside",
    .about = "lock + unlock over raw hiredis, while another process has holds renewed; cases: "
             "holds; latency: of both",
    .kind = NULL,
    .floors = "reentrant",
    .variant = {&lib_beside, &floor_beside, &floor_undisturbed},
    .cases = {RENEWED(2, 1000, 1500, 750), RENEWED(2, 10000, 6000, 3000),
              RENEWED(2, 100000, 30000, 15000)},
};

static const struct bench_row burst = {
    .name = "burst",
    .about = "async calls begun by one thread on names of their own, and the releases; cases: "
             "names; latency: until all are taken",
    .kind = "reentrant",
    .variant = {&lib_burst, &lib_burst_loop, &floor_burst},
    .cases = {{.name = "1", .procs = 1, .threads = 1, .locks = 1},
              {.name = "100", .procs = 1, .threads = 1, .locks = 100},
              {.name = "10000", .procs = 1, .threads = 1, .locks = 10000, .at_least_ms = 2000}},
};

static const struct bench_row wake = {
    .name = "wake",
    .about = "an async call that waits for another client's lock; latency: from the release on",
    .kind = "reentrant",
    .variant = {&lib_wake},
    .cases = {{.name = "1", .procs = 1, .threads = 1, .locks = 1, .at_least_ms = 2000}},
};

static const struct bench_row run = {
    .name = "run",
    .about = "`true` under a lock, from fork to its end",
    .kind = NULL,
    .variant = {&lib_run, &floor_run, &floor_flock, &floor_exec},
    .cases = {{.name = "1", .procs = 1, .threads = 1}},
};

const struct bench_row *const bench_rows[] = {
    &own_reentrant, &own_nonreentrant, &own_spin, &own_fenced, &own_fair, &own_read, &own_write,
    &far,           &linger,           &cluster,  &one,        &fleet,    &fair,     &read_write,
    &multi,         &redlock,          &burst,    &wake,       &renew,    &beside,   &run,
    NULL,
};
