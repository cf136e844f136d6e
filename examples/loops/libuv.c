/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks of one thread that count under a lock, in libuv's loop: libuv URL
 *
 * Each task reads the counter, lets others run for a millisecond, and writes it back. Without the
 * lock counts would be lost. The library has no thread here: the loop polls the client's descriptor
 * as any other one.
 */
#include <stdio.h>
#include <stdlib.h>

#include <rlock/rlock.h>
#include <uv.h>

enum { TASKS = 10, ROUNDS = 20 };

struct task {
    uint64_t owner; /* tasks share a thread, so each has an id of its own */
    uv_timer_t timer;
    int seen, rounds;
};

static struct rlock_client *client;
static struct rlock_handle *lock;
static uv_poll_t poll_client;
static int counter, left = TASKS;

static void must(int code, const char *detail)
{
    if (code != 0) {
        (void)fprintf(stderr, "%s: %s\n", rlock_strerror(code), detail);
        exit(EXIT_FAILURE);
    }
}

static void on_timer(uv_timer_t *timer);

static void on_locked(struct rlock_op *op, void *payload)
{
    struct task *task = payload;

    must(rlock_op_code(op), rlock_op_detail(op));
    task->seen = counter;
    (void)uv_timer_start(&task->timer, on_timer, 1, 0);
}

static void begin(struct task *task)
{
    must(rlock_lock_async(lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = task->owner), on_locked, task,
                          NULL),
         rlock_detail());
}

static void on_unlocked(struct rlock_op *op, void *payload)
{
    struct task *task = payload;

    must(rlock_op_code(op), rlock_op_detail(op));
    if (++task->rounds < ROUNDS) {
        begin(task);
    } else if (--left == 0) {
        (void)uv_poll_stop(&poll_client); /* nothing is left for the loop */
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct task *task = timer->data;

    counter = task->seen + 1;
    must(rlock_unlock_async(lock, task->owner, on_unlocked, task, NULL), rlock_detail());
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    (void)handle, (void)status, (void)events;
    must(rlock_client_dispatch(client), rlock_detail());
}

int main(int argc, char **argv)
{
    const struct rlock_client_opts *opts =
        RLOCK_CLIENT_OPTS(.url = argc > 1 ? argv[1] : NULL, .flags = RLOCK_CLIENT_USER_LOOP);
    uv_loop_t *loop = uv_default_loop();
    struct task tasks[TASKS];

    must(rlock_client_open(opts, &client), rlock_detail());
    must(rlock_reentrant_new(client, "counter", NULL, &lock), rlock_detail());
    (void)uv_poll_init(loop, &poll_client, rlock_client_fd(client));
    (void)uv_poll_start(&poll_client, UV_READABLE, on_readable);
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct task){.owner = rlock_owner_new(client)};
        (void)uv_timer_init(loop, &tasks[i].timer);
        tasks[i].timer.data = &tasks[i];
        begin(&tasks[i]);
    }
    (void)uv_run(loop, UV_RUN_DEFAULT);
    (void)printf("%d of %d\n", counter, TASKS * ROUNDS);
    lock = rlock_free(lock);
    client = rlock_client_close(client);
    return counter == TASKS * ROUNDS ? EXIT_SUCCESS : EXIT_FAILURE;
}
