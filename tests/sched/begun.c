/* SPDX-License-Identifier: Apache-2.0 */
/* Async calls of the actors, and the loops that run clients of the program's. */
#include "begun.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "system.h"

/* ---- Operations ---- */

static void on_done(struct rlock_op *op, void *payload)
{
    struct begun *begun = payload;

    if (begun->begins && begun->thread == sched_self()) {
        sched_fail("a completion runs inside the call");
    }
    (void)pthread_mutex_lock(&begun->mutex);
    if (begun->complete) {
        sched_fail("an operation completes twice");
    }
    begun->complete = true;
    begun->code = rlock_op_code(op);
    (void)pthread_cond_broadcast(&begun->told);
    (void)pthread_mutex_unlock(&begun->mutex);
}

static void prepare(struct begun *begun)
{
    *begun = (struct begun){.mutex = PTHREAD_MUTEX_INITIALIZER,
                            .told = PTHREAD_COND_INITIALIZER,
                            .begins = true,
                            .thread = sched_self()};
}

/* The call has returned. */
static void note_begun(struct begun *begun, int code)
{
    begun->begins = false;
    begun->code = code != 0 ? code : begun->code;
}

void begun_take(struct begun *begun, struct rlock_handle *lock, int64_t wait_ms,
                const struct rlock_take *take)
{
    prepare(begun);
    note_begun(begun, rlock_lock_async(lock, wait_ms, take, on_done, begun, &begun->op));
}

void begun_leave(struct begun *begun, struct rlock_handle *lock, uint64_t owner)
{
    prepare(begun);
    note_begun(begun, rlock_unlock_async(lock, owner, on_done, begun, &begun->op));
}

int begun_end(struct begun *begun, struct rlock_grant *ret_grant)
{
    (void)pthread_mutex_lock(&begun->mutex);
    while (begun->op != NULL && !begun->complete) { /* without an operation it did not begin */
        (void)pthread_cond_wait(&begun->told, &begun->mutex);
    }
    (void)pthread_mutex_unlock(&begun->mutex);
    if (begun->op != NULL && begun->code == 0 && ret_grant != NULL) {
        SCHED_REQUIRE(rlock_op_grant(begun->op, ret_grant) == 0);
    }
    begun->op = rlock_op_unref(begun->op);
    return begun->code;
}

/* ---- Loops ---- */

static struct loop {
    struct rlock_client *client;
    pthread_t thread;
    int stop_fd;
} loops[STAGE_CLIENTS_MAX];

static void *loop_main(void *arg)
{
    const struct loop *loop = arg;
    struct pollfd fds[] = {{.fd = rlock_client_fd(loop->client), .events = POLLIN},
                           {.fd = loop->stop_fd, .events = POLLIN}};

    sched_set_name("loop");
    while (fds[1].revents == 0) {
        (void)poll(fds, 2, -1);
        if (rlock_client_dispatch(loop->client) != 0) {
            sched_fail("dispatch: %s", rlock_detail());
        }
    }
    return NULL;
}

void loop_start(unsigned i, struct rlock_client *client)
{
    loops[i] = (struct loop){.client = client, .stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    (void)pthread_create(&loops[i].thread, NULL, loop_main, &loops[i]);
}

void loop_stop(unsigned i)
{
    const uint64_t one = 1;

    (void)write(loops[i].stop_fd, &one, sizeof(one));
    (void)pthread_join(loops[i].thread, NULL);
    (void)close(loops[i].stop_fd);
}
