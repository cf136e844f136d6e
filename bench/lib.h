/* SPDX-License-Identifier: Apache-2.0 */
/* The variants that use rlock. */
#ifndef RLOCK_BENCH_LIB_H
#define RLOCK_BENCH_LIB_H

#include "bench.h"

extern const struct bench_variant lib_pair;           /* the latency is of lock and unlock */
extern const struct bench_variant lib_pair_sent;      /* the same; an unlock does not wait */
extern const struct bench_variant lib_pair_lingering; /* the same; the holds linger */
extern const struct bench_variant lib_pair_spread;    /* the same; each thread has many names */
extern const struct bench_variant lib_contend;    /* of the lock alone; holds as the case says */
extern const struct bench_variant lib_read_write; /* the same; one in 20 writes */
extern const struct bench_variant lib_hold;
/* ---- lib_async.c ---- */
extern const struct bench_variant lib_burst, lib_burst_loop,
    lib_wake;                                 /* holds many locks, and does nothing */
extern const struct bench_variant lib_beside; /* beside.c: another process, while it holds */
extern const struct bench_variant lib_run;    /* the command, `rlock run` */

#endif
