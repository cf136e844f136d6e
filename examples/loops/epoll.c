/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks of one thread that count under a lock, in a loop of plain epoll: epoll URL
 *
 * Each task reads the counter, lets others run for a millisecond, and writes it back. Without the
 * lock counts would be lost. The library has no thread here: the loop polls the client's descriptor
 * as any other one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <rlock/rlock.h>

enum { TASKS = 10, ROUNDS = 20 };

struct task {
    uint64_t owner; /* tasks share a thread, so each has an id of its own */
    int timer_fd, seen, rounds;
};

static struct rlock_client *client;
static struct rlock_handle *lock;
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
    const struct itimerspec in_1_ms = {.it_value.tv_nsec = 1000000};
    struct task *task = payload;

    must(rlock_op_code(op), rlock_op_detail(op));
    task->seen = counter;
    (void)timerfd_settime(task->timer_fd, 0, &in_1_ms, NULL);
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
    } else {
        left--;
    }
}

static void on_timer(struct task *task)
{
    uint64_t times;

    (void)!read(task->timer_fd, &times, sizeof(times));
    counter = task->seen + 1;
    must(rlock_unlock_async(lock, task->owner, on_unlocked, task, NULL), rlock_detail());
}

static void watch(int epoll_fd, int fd, struct task *task)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = task};

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        perror("epoll_ctl");
        exit(EXIT_FAILURE);
    }
}

int main(int argc, char **argv)
{
    const struct rlock_client_opts *opts =
        RLOCK_CLIENT_OPTS(.url = argc > 1 ? argv[1] : NULL, .flags = RLOCK_CLIENT_USER_LOOP);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct task tasks[TASKS];

    must(rlock_client_open(opts, &client), rlock_detail());
    must(rlock_reentrant_new(client, "counter", NULL, &lock), rlock_detail());
    watch(epoll_fd, rlock_client_fd(client), NULL);
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct task){.owner = rlock_owner_new(client),
                                 .timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)};
        watch(epoll_fd, tasks[i].timer_fd, &tasks[i]);
        begin(&tasks[i]);
    }
    while (left > 0) {
        struct epoll_event event;

        if (epoll_wait(epoll_fd, &event, 1, -1) != 1) {
            continue; /* a signal came */
        }
        if (event.data.ptr == NULL) {
            must(rlock_client_dispatch(client), rlock_detail());
        } else {
            on_timer(event.data.ptr);
        }
    }
    (void)printf("%d of %d\n", counter, TASKS * ROUNDS);
    lock = rlock_free(lock);
    client = rlock_client_close(client);
    return counter == TASKS * ROUNDS ? EXIT_SUCCESS : EXIT_FAILURE;
}
