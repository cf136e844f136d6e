/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking threads that sleep: parked callers, the leader, the service thread, the dispatcher.
 *
 * A thread wakes others after it dropped all mutexes, and can stall before it does. So the note of
 * a wake-up stays until the sleeper itself has reported that it is awake, or that it has seen its
 * signal (drive/watch.h). The next thread that leaves the core, or the service thread at its tick,
 * wakes the sleeper again.
 */
#include <errno.h>
#include <utlist.h>

#include "drive/wanted.h"
#include "lock/server/listener.h"

/* The wake-ups that are due once the mutex is dropped. */
struct wakes {
    unsigned bits[RLOCK__BUCKETS]; /* of callers */
    bool callers, leader, service, dispatcher;
};

static void poke(int fd)
{
    const uint64_t one = 1;

    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

void rlock__wake_service(const struct rlock_client *client)
{
    poke(client->threads.wake_fd);
}

void rlock__enter(struct rlock_client *client)
{
    rlock__core_mutex_lock(&client->mutex);
}

/* ---- Callers ---- */

RLOCK__REQUIRES(core) static void complete(struct rlock_client *client, struct rlock__call *call)
{
    DL_DELETE(client->core.done, call);
    if (call->finish != NULL) {
        call->finish(call);
    } else {
        rlock__watch_signal(&client->watch, call->payload, RLOCK__PARK_DONE);
    }
}

/* Completes calls, and reports to listeners. Both may begin calls, which may complete at once. */
RLOCK__REQUIRES(core) static void signal_done(struct rlock_client *client)
{
    struct rlock__core *core = &client->core;
    struct rlock__listener *listener;

    do {
        while (core->done != NULL) {
            complete(client, core->done);
        }
        listener = rlock__core_take_notified(core);
        if (listener != NULL) {
            listener->notify(listener);
        }
    } while (listener != NULL);
}

/* ---- Threads that sleep too long ---- */

RLOCK__REQUIRES(core) static bool leader_oversleeps(const struct rlock_client *client)
{
    const struct rlock__watch *watch = &client->watch;

    return watch->until != 0 && rlock__watch_oversleeps(watch, rlock__core_next(&client->core));
}

/* True if callbacks are pending, or close() waits for the client to become idle. */
RLOCK__REQUIRES(core) static bool concerns_dispatcher(const struct rlock_client *client)
{
    return rlock__is_to_dispatch(client) || client->core.closed;
}

/* True if the service thread is asleep past its next deadline, or does not poll a socket that it
 * must read. */
RLOCK__REQUIRES(core) static bool service_oversleeps(const struct rlock_client *client)
{
    const struct rlock__watch *watch = &client->watch;
    bool never_ticks = watch->leader != NULL && watch->tick_at == RLOCK__NEVER;

    if (watch->service_until == 0) {
        return false;
    }
    return watch->service_replans || never_ticks ||
           rlock__timers_next(&client->to_serve.due) < watch->service_until ||
           rlock__timers_next(&client->to_serve.alarms_due) < watch->service_until ||
           (client->loop != NULL && concerns_dispatcher(client)) ||
           (rlock__watch_is_left(watch) &&
            ((!watch->service_reads && rlock__service_must_read(client)) ||
             rlock__core_next(&client->core) < watch->service_until));
}

/* ---- After an event: the servers that it changed ---- */

RLOCK__REQUIRES(core) static void visit_link(struct rlock_client *client, struct rlock__io *io)
{
    const struct rlock__pipeline *pipeline = &io->link->pipeline;
    bool is_awaited = pipeline->sent != NULL;

    if (pipeline->out.len != 0 || pipeline->close) {
        rlock__wanted_add(io);
    }
    if (is_awaited && !io->is_awaited) {
        DL_APPEND2(client->awaited, io, awaited_prev, awaited_next);
    } else if (!is_awaited && io->is_awaited) {
        DL_DELETE2(client->awaited, io, awaited_prev, awaited_next);
    }
    io->is_awaited = is_awaited;
}

void rlock__replan(struct rlock_client *client)
{
    rlock__enter(client);
    client->watch.replans = client->watch.service_replans = true;
    rlock__leave_with_link(client);
}

/* ---- Leaving ---- */

RLOCK__REQUIRES(core) static void note(struct rlock_client *client, struct wakes *wakes)
{
    const struct rlock__waiter *waiter = client->watch.pending;

    wakes->callers = waiter != NULL;
    if (wakes->callers) {
        memset(wakes->bits, 0, sizeof(wakes->bits));
    }
    for (; waiter != NULL; waiter = waiter->next) {
        wakes->bits[waiter->bit / 32] |= 1U << waiter->bit % 32;
    }
    client->watch.pending = NULL;
    wakes->leader = leader_oversleeps(client);
    wakes->service = service_oversleeps(client);
    wakes->dispatcher = concerns_dispatcher(client);
}

static void carry_out(struct rlock_client *client, const struct wakes *wakes)
{
    for (unsigned i = 0; wakes->callers && i < RLOCK__BUCKETS; i++) {
        if (wakes->bits[i] != 0) {
            rlock__unpark(&client->buckets, i, wakes->bits[i]);
        }
    }
    if (wakes->leader) {
        poke(client->threads.leader_fd);
    }
    if (wakes->service) {
        rlock__wake_service(client);
    }
    if (wakes->dispatcher) {
        (void)pthread_cond_broadcast(&client->news);
    }
}

void rlock__distribute(struct rlock_client *client)
{
    struct rlock__server *server;

    signal_done(client);
    while ((server = rlock__core_changed(&client->core)) != NULL) {
        struct rlock__node *node = rlock__node_of(server);

        for (size_t i = 0; i < node->n_ios; i++) {
            visit_link(client, &node->ios[i]);
        }
        rlock__node_changed(node);
    }
}

void rlock__leave(struct rlock_client *client)
{
    struct wakes wakes;

    rlock__distribute(client);
    atomic_store(&client->wake_wanted, false);
    note(client, &wakes);
    rlock__core_mutex_unlock(&client->mutex);
    carry_out(client, &wakes);
}

void rlock__leave_with_link(struct rlock_client *client)
{
    rlock__distribute(client);
    if (client->watch.pending != NULL || leader_oversleeps(client) || service_oversleeps(client) ||
        concerns_dispatcher(client)) {
        atomic_store(&client->wake_wanted, true);
    }
    rlock__core_mutex_unlock(&client->mutex);
}
