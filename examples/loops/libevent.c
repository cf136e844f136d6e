/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks of one thread that count under a lock, in libevent's loop: libevent URL
 *
 * Each task reads the counter, lets others run for a millisecond, and writes it back. Without the
 * lock counts would be lost. The library has no thread here: the loop polls the client's descriptor
 * as any other one.
 */
#include <stdio.h>
#include <stdlib.h>

#include <event2/event.h>
#include <rlock/rlock.h>

enum { TASKS = 10, ROUNDS = 20 };

struct task {
    uint64_t owner; /* tasks share a thread, so each has an id of its own */
    struct event *timer;
    int seen, rounds;
};

static struct rlock_client *client;
static struct rlock_handle *lock;
static struct event_base *base;
static int counter, left = TASKS;

static void must(int code, const char *detail)
{
    if (code != 0) {
        (void)fprintf(stderr, "%s: %s\n", rlock_strerror(code), detail);
        exit(EXIT_FAILURE);
    }
}

static void on_locked(struct rlock_op *op, void *payload)
{
    const struct timeval in_1_ms = {.tv_usec = 1000};
    struct task *task = payload;

    must(rlock_op_code(op), rlock_op_detail(op));
    task->seen = counter;
    (void)event_add(task->timer, &in_1_ms);
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
        (void)event_base_loopbreak(base);
    }
}

static void on_timer(evutil_socket_t fd, short events, void *payload)
{
    struct task *task = payload;

    (void)fd, (void)events;
    counter = task->seen + 1;
    must(rlock_unlock_async(lock, task->owner, on_unlocked, task, NULL), rlock_detail());
}

static void on_readable(evutil_socket_t fd, short events, void *payload)
{
    (void)fd, (void)events, (void)payload;
    must(rlock_client_dispatch(client), rlock_detail());
}

int main(int argc, char **argv)
{
    const struct rlock_client_opts *opts =
        RLOCK_CLIENT_OPTS(.url = argc > 1 ? argv[1] : NULL, .flags = RLOCK_CLIENT_USER_LOOP);
    struct task tasks[TASKS];
    struct event *readable;

    base = event_base_new();
    must(rlock_client_open(opts, &client), rlock_detail());
    must(rlock_reentrant_new(client, "counter", NULL, &lock), rlock_detail());
    readable = event_new(base, rlock_client_fd(client), EV_READ | EV_PERSIST, on_readable, NULL);
    (void)event_add(readable, NULL);
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct task){.owner = rlock_owner_new(client)};
        tasks[i].timer = evtimer_new(base, on_timer, &tasks[i]);
        begin(&tasks[i]);
    }
    (void)event_base_dispatch(base);
    (void)printf("%d of %d\n", counter, TASKS * ROUNDS);
    lock = rlock_free(lock);
    for (int i = 0; i < TASKS; i++) {
        event_free(tasks[i].timer);
    }
    event_free(readable); /* before its descriptor is closed */
    client = rlock_client_close(client);
    event_base_free(base);
    return counter == TASKS * ROUNDS ? EXIT_SUCCESS : EXIT_FAILURE;
}
