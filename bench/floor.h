/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floors: the least that the same work costs over raw hiredis. They send what rlock sends, made
 * beforehand, and do nothing that a library must: no renewal, no reconnecting, no deadline.
 */
#ifndef RLOCK_BENCH_FLOOR_H
#define RLOCK_BENCH_FLOOR_H

#include "bench.h"

struct redisContext;

/* ---- floor.c ---- */

struct redisContext *floor_connect(const char *url); /* redis://127.0.0.1:port */
/* Reads one reply and returns its first number: 1 is granted or done. Dies of an error. */
long long floor_read(struct redisContext *context);
/* Sends one call, without waiting. */
void floor_send(struct redisContext *context, const struct bench_calls *calls, size_t call);
/* An acquisition and its release, with their replies. */
void floor_take_and_give(struct redisContext *context, const struct bench_calls *calls);

extern const struct bench_variant floor_each;  /* each thread has a connection */
extern const struct bench_variant floor_alone; /* the same with one thread */
extern const struct bench_variant floor_pipe;  /* one thread, many calls in flight */

/* ---- floor_burst.c ---- */

extern const struct bench_variant floor_burst;

/* ---- floor_cluster.c ---- */

extern const struct bench_variant floor_direct; /* each thread has a connection to each server */

/* ---- floor_plain.c ---- */

extern const struct bench_variant floor_plain;         /* SET NX PX and compare-and-delete */
extern const struct bench_variant floor_plain_contend; /* the same, asking again and again */

/* ---- floor_queue.c ---- */

extern const struct bench_variant floor_queue; /* a release wakes the first waiter, which asks */
extern const struct bench_variant floor_push;  /* a release grants the lock to the first waiter */

/* ---- floor_pass.c, floor_redlock.c, floor_renew.c ---- */

extern const struct bench_variant floor_pass;
extern const struct bench_variant floor_quorum;
extern const struct bench_variant floor_renew;

/* ---- beside.c ---- */

extern const struct bench_variant floor_beside;
extern const struct bench_variant floor_undisturbed; /* nobody renews anything */

/* ---- startup.c ---- */

extern const struct bench_variant floor_run;   /* connects, takes a lock, runs, gives it back */
extern const struct bench_variant floor_flock; /* flock(1), where there is one */
extern const struct bench_variant floor_exec;  /* the program alone */

#endif
