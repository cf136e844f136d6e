/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor of one name with many threads: inside a process the lock passes from thread to thread
 * with a mutex, a queue and one futex wake, a few times; then the server is asked again. Other
 * processes are heard on the lock's channel.
 */
#include "floor.h"

#include "support/run.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_PASSES = 16, TURN_NS = 5000000, ASK_AGAIN_MS = 100 };
enum { WAITS, HAS_IT, ASKS };

struct waiter {
    _Atomic int state;
    STAILQ_ENTRY(waiter) next;
};

struct lock {
    pthread_mutex_t mutex; /* protects what follows, up to the connections */
    STAILQ_HEAD(, waiter) waiting;
    bool is_busy; /* some thread has it, or asks for it */
    int passes;
    int64_t turn_began;
    redisContext *commands, *messages; /* of whoever has it, or asks for it */
    struct bench_calls calls;
};

static void *open_lock(const struct bench_run *run)
{
    struct lock *lock = calloc(1, sizeof(*lock));

    TEST_CHECK(lock != NULL && pthread_mutex_init(&lock->mutex, NULL) == 0);
    STAILQ_INIT(&lock->waiting);
    lock->commands = floor_connect(run->url[0]);
    bench_calls_copy(run->calls, "name0000", "name0000", (unsigned)run->process, &lock->calls);
    if (run->procs > 1) {
        lock->messages = floor_connect(run->url[0]);
        freeReplyObject(
            redisCommand(lock->messages, "SUBSCRIBE redisson_lock__channel:{name0000}"));
    }
    return lock;
}

static long long call(struct lock *lock, size_t which)
{
    floor_send(lock->commands, &lock->calls, which);
    return floor_read(lock->commands);
}

static void forget_messages(int fd)
{
    char bytes[4096];

    while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
    }
}

static void ask_server(struct lock *lock)
{
    for (;;) {
        if (lock->messages != NULL) {
            forget_messages(lock->messages->fd);
        }
        if (call(lock, 0) == 1) {
            break;
        }
        TEST_CHECK(lock->messages != NULL);
        struct pollfd heard = {.fd = lock->messages->fd, .events = POLLIN};
        poll(&heard, 1, ASK_AGAIN_MS);
    }
    lock->passes = 0;
    lock->turn_began = bench_now_ns();
}

static void take(struct lock *lock)
{
    struct waiter self = {.state = WAITS};

    pthread_mutex_lock(&lock->mutex);
    if (lock->is_busy) {
        STAILQ_INSERT_TAIL(&lock->waiting, &self, next);
        pthread_mutex_unlock(&lock->mutex);
        while (atomic_load(&self.state) == WAITS) {
            syscall(SYS_futex, &self.state, FUTEX_WAIT_PRIVATE, WAITS, NULL, NULL, 0);
        }
    } else {
        lock->is_busy = true;
        self.state = ASKS;
        pthread_mutex_unlock(&lock->mutex);
    }
    if (self.state == ASKS) {
        ask_server(lock);
    }
}

static void give(struct lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    struct waiter *first = STAILQ_FIRST(&lock->waiting);
    const bool passes =
        first != NULL && lock->passes < MOST_PASSES && bench_now_ns() - lock->turn_began < TURN_NS;

    if (passes) {
        lock->passes++;
    } else {
        pthread_mutex_unlock(&lock->mutex);
        TEST_CHECK(call(lock, 1) > 0); /* 2: it is a turn of others, since no call here queues */
        pthread_mutex_lock(&lock->mutex);
        first = STAILQ_FIRST(&lock->waiting);
    }
    if (first != NULL) {
        STAILQ_REMOVE_HEAD(&lock->waiting, next);
    }
    lock->is_busy = first != NULL;
    pthread_mutex_unlock(&lock->mutex);
    if (first != NULL) {
        _Atomic int *state = &first->state; /* its thread may go on, and end it, at once */

        atomic_store(state, passes ? HAS_IT : ASKS);
        syscall(SYS_futex, state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

static void contend(struct bench_worker *worker)
{
    const int64_t began = bench_now_ns();

    take(worker->run->shared);
    bench_note(worker, bench_now_ns() - began);
    bench_hold(worker->run->one->hold_us);
    give(worker->run->shared);
}

const struct bench_variant floor_pass = {.name = "pass", .open = open_lock, .op = contend};
