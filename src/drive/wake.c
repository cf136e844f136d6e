/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking those who sleep: callers that are parked, the leader, the service thread, the dispatcher.
 *
 * It is done without any mutex, and so by a thread that may stand still before it is. What is to be
 * done therefore stays written down until it has been: a sleeper alone says that it is awake, and
 * a caller stands in client.woken until it has seen its signal. Whoever leaves the core next, or
 * the service thread at its tick, wakes it once more.
 */
#include <errno.h>
#include <utlist.h>

#include "drive/wanted.h"

/* What is to be done once the mutex is dropped. */
struct wakes {
    unsigned places[RLOCK__LOTS]; /* of callers */
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
    poke(client->wake_fd);
}

void rlock__enter(struct rlock_client *client)
{
    rlock__core_mutex_lock(&client->mutex);
}

/* ---- Callers ---- */

void rlock__signal(struct rlock_client *client, struct rlock__parker *parker,
                   enum rlock__park signal)
{
    if (parker->parked) {
        DL_DELETE(client->parked, parker);
        parker->parked = false;
        DL_APPEND(client->woken, parker);
        client->untold = client->untold == NULL ? parker : client->untold;
    }
    atomic_store_explicit(&parker->signal, (int)signal, memory_order_release);
}

void rlock__seen(struct rlock_client *client, struct rlock__parker *parker)
{
    if (client->untold == parker) {
        client->untold = parker->next;
    }
    DL_DELETE(client->woken, parker);
}

RLOCK__REQUIRES(core) static void signal_done(struct rlock_client *client)
{
    struct rlock__call *call;

    while ((call = client->core.done) != NULL) {
        DL_DELETE(client->core.done, call);
        if (call->finish != NULL) {
            call->finish(call); /* which may begin another */
        } else {
            rlock__signal(client, call->payload, RLOCK__PARK_DONE);
        }
    }
}

/* ---- Those who keep watch ---- */

/* Whether the leader sleeps, and longer than it may. */
RLOCK__REQUIRES(core) static bool leader_oversleeps(const struct rlock_client *client)
{
    const struct rlock__parker *leader = client->leader;

    return leader != NULL && client->leader_until != 0 &&
           (client->leader_looks || (client->leader_collects && client->woken == NULL) ||
            rlock__core_next(&client->core) < client->leader_until ||
            atomic_load(&leader->signal) == RLOCK__PARK_DONE);
}

/* Whether a link waits for a reply that the service thread does not poll for. */
RLOCK__REQUIRES(core) static bool replies_are_unread(const struct rlock_client *client)
{
    const struct rlock__io *io;
    bool are = false;

    DL_FOREACH2(client->awaited, io, awaited_next)
    {
        are = are || (!io->service_reads && !rlock__io_is_late(io));
    }
    return are;
}

/* Whether there is something to tell, or (closed) somebody waits until there is nothing to do. */
RLOCK__REQUIRES(core) static bool concerns_dispatcher(const struct rlock_client *client)
{
    return rlock__is_to_dispatch(client) || client->core.closed;
}

/* Whether the service thread sleeps, and longer than it may, or without an eye on what comes. */
RLOCK__REQUIRES(core) static bool service_oversleeps(const struct rlock_client *client)
{
    bool unheeded = client->leader != NULL && client->tick_at == RLOCK__NEVER;

    if (client->service_until == 0) {
        return false;
    }
    return client->service_looks || unheeded ||
           (client->loop != NULL && concerns_dispatcher(client)) ||
           (rlock__is_unwatched(client) &&
            (replies_are_unread(client) ||
             rlock__core_next(&client->core) < client->service_until));
}

/* ---- After an event: the servers that it changed ---- */

RLOCK__REQUIRES(core) static void look_at_link(struct rlock_client *client, struct rlock__io *io)
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

/* Whether the node has work for the service thread before that thread wakes by itself. */
RLOCK__REQUIRES(core)
static bool node_wants_service(const struct rlock__node *node, const struct rlock_client *client)
{
    const struct rlock__server *server = &node->server;
    int64_t until = client->service_until; /* 0: it is awake, and looks at all before it sleeps */
    bool wants = until != 0 && (server->sub.out.len != 0 || rlock__subscriber_due(server) < until);

    for (size_t i = 0; i < node->n_ios; i++) {
        const struct rlock__io *io = &node->ios[i];

        wants = wants || (rlock__link_due(io->link) < until && rlock__node_uses(io));
    }
    return wants;
}

void rlock__look_again(struct rlock_client *client)
{
    rlock__enter(client);
    client->leader_looks = client->service_looks = true;
    rlock__leave_with_link(client);
}

/* ---- Leaving ---- */

RLOCK__REQUIRES(core) static void note(struct rlock_client *client, struct wakes *wakes)
{
    const struct rlock__parker *parker = client->untold;

    wakes->callers = parker != NULL;
    if (wakes->callers) {
        memset(wakes->places, 0, sizeof(wakes->places));
    }
    for (; parker != NULL; parker = parker->next) {
        wakes->places[parker->place / 32] |= 1U << parker->place % 32;
    }
    client->untold = NULL;
    wakes->leader = leader_oversleeps(client);
    wakes->service = service_oversleeps(client);
    wakes->dispatcher = concerns_dispatcher(client);
}

static void carry_out(struct rlock_client *client, const struct wakes *wakes)
{
    for (unsigned i = 0; wakes->callers && i < RLOCK__LOTS; i++) {
        if (wakes->places[i] != 0) {
            rlock__unpark(&client->lots, i, wakes->places[i]);
        }
    }
    if (wakes->leader) {
        poke(client->leader_fd);
    }
    if (wakes->service) {
        rlock__wake_service(client);
    }
    if (wakes->dispatcher) {
        (void)pthread_cond_broadcast(&client->news);
    }
}

void rlock__settle(struct rlock_client *client)
{
    struct rlock__server *server;

    signal_done(client);
    while ((server = rlock__core_changed(&client->core)) != NULL) {
        struct rlock__node *node = rlock__node_of(server);

        for (size_t i = 0; i < node->n_ios; i++) {
            look_at_link(client, &node->ios[i]);
        }
        client->service_looks = client->service_looks || node_wants_service(node, client);
    }
}

void rlock__leave(struct rlock_client *client)
{
    struct wakes wakes;

    rlock__settle(client);
    atomic_store(&client->wake_wanted, false);
    note(client, &wakes);
    rlock__core_mutex_unlock(&client->mutex);
    carry_out(client, &wakes);
}

void rlock__leave_with_link(struct rlock_client *client)
{
    rlock__settle(client);
    if (client->untold != NULL || leader_oversleeps(client) || service_oversleeps(client) ||
        concerns_dispatcher(client)) {
        atomic_store(&client->wake_wanted, true);
    }
    rlock__core_mutex_unlock(&client->mutex);
}
