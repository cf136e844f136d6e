/* SPDX-License-Identifier: Apache-2.0 */
/* rlock's async calls: bursts of them from one thread, and how soon one is told of a release. */
#include "lib.h"

#include "support/run.h"

#include <errno.h>
#include <poll.h>
#include <rlock/rlock.h>
#include <semaphore.h>
#include <stdlib.h>

enum { OPEN_TIMEOUT_MS = 10000, SETTLE_US = 2000 };

/* A worker's locks: as many as the case says. */
struct burst {
    struct rlock_client *client, *other;
    struct rlock_handle **locks, *others;
    long n, left;    /* operations that are not complete */
    int64_t done_at; /* when the last one was */
    sem_t done;      /* is posted then */
    bool looped;
};

static void must(int code, const char *what)
{
    if (code != 0) {
        test_die("%s: %s: %s", what, rlock_strerror(code), rlock_detail());
    }
}

static struct rlock_client *open_client(const struct bench_run *run, uint64_t flags)
{
    const struct rlock_client_opts *opts =
        RLOCK_CLIENT_OPTS(.url = run->url[0], .op_timeout_ms = OPEN_TIMEOUT_MS, .flags = flags);
    struct rlock_client *client = NULL;

    must(rlock_client_open(opts, &client), "open");
    return client;
}

static struct burst *burst_new(const struct bench_run *run, uint64_t flags)
{
    struct burst *burst = calloc(1, sizeof(*burst));

    TEST_CHECK(burst != NULL && sem_init(&burst->done, 0, 0) == 0);
    burst->looped = flags != 0;
    burst->client = open_client(run, flags);
    burst->n = run->one->locks;
    burst->locks = calloc((size_t)burst->n, sizeof(*burst->locks));
    TEST_CHECK(burst->locks != NULL);
    for (long i = 0; i < burst->n; i++) {
        char name[32];

        test_text(name, sizeof(name), "burst%06ld", i);
        must(rlock_reentrant_new(burst->client, name, NULL, &burst->locks[i]), name);
    }
    return burst;
}

/* ---- All of them, begun by one thread ---- */

static void on_done(struct rlock_op *op, void *payload)
{
    struct burst *burst = payload;

    must(rlock_op_code(op), rlock_op_detail(op));
    if (--burst->left == 0) {
        burst->done_at = bench_now_ns();
        (void)sem_post(&burst->done);
    }
}

/* Until all are complete. */
static void await(struct burst *burst)
{
    struct pollfd fd = {.fd = rlock_client_fd(burst->client), .events = POLLIN};

    while (burst->looped && burst->left > 0) {
        (void)poll(&fd, 1, -1);
        must(rlock_client_dispatch(burst->client), "dispatch");
    }
    while (sem_wait(&burst->done) != 0 && errno == EINTR) {
    }
}

static void take_and_leave_all(struct bench_worker *worker)
{
    struct burst *burst = worker->state;
    const int64_t began = bench_now_ns();

    burst->left = burst->n;
    for (long i = 0; i < burst->n; i++) {
        must(rlock_lock_async(burst->locks[i], 0, RLOCK_TAKE(.owner = 1), on_done, burst, NULL),
             "lock_async");
    }
    await(burst);
    bench_note(worker, burst->done_at - began);
    burst->left = burst->n;
    for (long i = 0; i < burst->n; i++) {
        must(rlock_unlock_async(burst->locks[i], 1, on_done, burst, NULL), "unlock_async");
    }
    await(burst);
}

static void start_dispatched(struct bench_worker *worker)
{
    worker->state = burst_new(worker->run, 0);
}

static void start_looped(struct bench_worker *worker)
{
    worker->state = burst_new(worker->run, RLOCK_CLIENT_USER_LOOP);
}

/* ---- How soon it is told ---- */

/* Another client has the lock, and leaves it while an operation waits. */
static void wake(struct bench_worker *worker)
{
    struct burst *burst = worker->state;
    int64_t began;

    must(rlock_lock(burst->others), "lock");
    burst->left = 1;
    must(rlock_lock_async(burst->locks[0], RLOCK_FOREVER, RLOCK_TAKE(.owner = 1), on_done, burst,
                          NULL),
         "lock_async");
    bench_hold(SETTLE_US); /* until it waits */
    began = bench_now_ns();
    must(rlock_unlock(burst->others), "unlock");
    await(burst);
    bench_note(worker, burst->done_at - began);
    burst->left = 1;
    must(rlock_unlock_async(burst->locks[0], 1, on_done, burst, NULL), "unlock_async");
    await(burst);
}

static void start_beside(struct bench_worker *worker)
{
    struct burst *burst = burst_new(worker->run, 0);

    burst->other = open_client(worker->run, 0);
    must(rlock_reentrant_new(burst->other, "burst000000", NULL, &burst->others), "other");
    worker->state = burst;
}

const struct bench_variant lib_burst = {
    .name = "rlock", .start = start_dispatched, .op = take_and_leave_all};
const struct bench_variant lib_burst_loop = {
    .name = "rlock, loop", .start = start_looped, .op = take_and_leave_all};
const struct bench_variant lib_wake = {.name = "rlock", .start = start_beside, .op = wake};
