/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service thread. While there is a leader the thread ticks: it reads replies, fires timers and
 * repeats wake-ups that the leader left undone (drive/watch.h). It does the work of a stalled
 * leader until that moves. Ticks cost the callers nothing: the first of many calls wakes this
 * thread, and one tick after the last call it stops to tick.
 *
 * A round costs the same with any number of nodes: it serves the nodes that have an event or are
 * due (client.to_serve). The replies on all links are one descriptor for it (client.links_fd).
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <utlist.h>

#include "base/clock.h"
#include "drive/alarm.h"
#include "drive/loop.h"
#include "drive/router.h"
#include "lock/call/late.h"

#define TICK_US (50 * RLOCK__MS) /* the longest time for which a stalled leader delays others */
#define IDLE_LINKS_US                                                                              \
    RLOCK__SECOND     /* links that were idle for so long are read even if no reply is due */
#define EVENTS_MAX 64 /* that are taken in one round */
#define AGAIN_US (10 * RLOCK__MS) /* until it is tried again to register a connection */

/* ---- Cancellations ---- */

static void serve_cancels(struct rlock_client *client)
{
    struct epoll_event events[16];
    int n = epoll_wait(client->threads.cancel_fd, events, 16, 0);

    for (int i = 0; i < n; i++) {
        const void *cancel = (const void *)(uintptr_t)events[i].data.u64;

        rlock__enter(client);
        rlock__core_cancel(&client->core, cancel, rlock__now_us());
        rlock__leave(client);
        rlock__background_cancel(client, cancel);
    }
    rlock__drive(client);
}

/* ---- The thread ---- */

/* Returns when the next tick is; RLOCK__NEVER if a tick has nothing to look at. */
RLOCK__REQUIRES(core) static int64_t next_tick(struct rlock_client *client, int64_t now)
{
    struct rlock__watch *watch = &client->watch;

    if (!rlock__watch_wants_ticks(watch)) {
        watch->tick_at = RLOCK__NEVER;
    } else if (watch->tick_at == RLOCK__NEVER) {
        watch->tick_at = now + TICK_US;
    }
    return watch->tick_at;
}

bool rlock__io_is_unawaited(const struct rlock__io *io)
{
    const struct rlock_client *client = io->node->client;

    return client->watch.tick_at != RLOCK__NEVER && client->loop == NULL &&
           !atomic_load(&io->stuck) && io->link->pipeline.out.len == 0 &&
           rlock__link_is_late(io->link);
}

bool rlock__service_must_read(const struct rlock_client *client)
{
    const struct rlock__io *io = client->awaited;

    while (io != NULL && rlock__io_is_unawaited(io)) {
        io = io->awaited_next;
    }
    return io != NULL;
}

/*
 * Whether to poll the links for replies, and not only for their ends: if a reply is due and no
 * leader reads it, and if the links have been idle for a while, because then no byte may arrive. A
 * program's event loop always polls for replies: each change would cost a dispatch. Lowers
 * inout_until to the time at which the answer changes.
 */
RLOCK__REQUIRES(core)
static bool reads_links(const struct rlock_client *client, int64_t now, int64_t *inout_until)
{
    int64_t idle_at = client->read_at + IDLE_LINKS_US;

    if (client->loop != NULL) {
        return true;
    }
    if (!rlock__watch_is_left(&client->watch)) {
        return false;
    }
    if (client->awaited != NULL) {
        return rlock__service_must_read(client);
    }
    if (now < idle_at) {
        *inout_until = rlock__min(*inout_until, idle_at);
    }
    return now >= idle_at;
}

/* Returns until when to sleep for the core and its servers. */
RLOCK__REQUIRES(core)
static int64_t plan_core(struct rlock_client *client, int64_t now)
{
    struct rlock__watch *watch = &client->watch;
    int64_t until = rlock__min(next_tick(client, now), rlock__timers_next(&client->to_serve.due));

    until = rlock__min(until, rlock__timers_next(&client->to_serve.alarms_due));
    if (rlock__watch_is_left(watch)) {
        until = rlock__min(until, rlock__core_next(&client->core));
    }
    watch->service_reads = reads_links(client, now, &until);
    if (client->loop != NULL && rlock__is_to_dispatch(client)) {
        until = 0; /* this thread was awake when it became due */
    }
    if (client->to_serve.held_up != NULL && client->core.n_connecting < RLOCK__CONNECTING_MAX) {
        until = 0;
    }
    return watch->service_replans ? 0 : until;
}

bool rlock__service_plan(struct rlock_client *client, int64_t now, int64_t *ret_until)
{
    struct pollfd *fds = client->threads.polled;
    int64_t until = rlock__background_next(client);
    bool stop, reads;

    rlock__enter(client);
    stop = client->stop_service;
    until = rlock__min(until, plan_core(client, now));
    until = rlock__min(until, rlock__router_plan(client->router));
    until = rlock__min(until, rlock__loop_armed_at(client->loop));
    client->watch.service_until = until;
    reads = client->watch.service_reads;
    rlock__core_mutex_unlock(&client->mutex);
    fds[RLOCK__POLL_WAKE] = (struct pollfd){.fd = client->threads.wake_fd, .events = POLLIN};
    fds[RLOCK__POLL_CANCEL] = (struct pollfd){.fd = client->threads.cancel_fd, .events = POLLIN};
    fds[RLOCK__POLL_NODES] = (struct pollfd){.fd = client->threads.nodes_fd, .events = POLLIN};
    fds[RLOCK__POLL_LINKS] = reads ? rlock__links_polled(client) : (struct pollfd){.fd = -1};
    *ret_until = until;
    return !stop || !rlock__background_close(client);
}

/* Reads, and does what is due by now: at each tick, and while the work of a leader is left. */
static void keep_watch(struct rlock_client *client, bool readable, int64_t now)
{
    struct rlock__watch *watch = &client->watch;
    bool ticks, due, has_left, came = false;

    rlock__enter(client);
    ticks = now >= watch->tick_at;
    due = (ticks || rlock__watch_is_left(watch)) && rlock__core_next(&client->core) <= now;
    has_left = watch->has_left;
    rlock__core_mutex_unlock(&client->mutex);
    if (ticks || due) {
        came = rlock__drive_read_all(client);
    } else if (readable) {
        (void)rlock__drive_read(client, NULL);
    }
    rlock__enter(client);
    if (ticks) {
        rlock__watch_tick(watch, came || due || has_left, now + TICK_US);
    }
    if (due) {
        rlock__core_tick(&client->core, now);
    }
    rlock__alarms_ring(client, now);
    rlock__leave_and_drive(client);
}

/* ---- The nodes ---- */

/* A node with an event is due now. Returns whether the event is one of a link. */
RLOCK__REQUIRES(core) static bool note_event(struct rlock__node **of)
{
    struct rlock__sub *sub = &(*of)->sub;

    sub->is_ready = sub->is_ready || of == &sub->node;
    rlock__node_due(*of, 0);
    return of != &sub->node;
}

/* Registers the connection's events, and lowers inout_until to the time until which to sleep for it
 * at most. Returns false if the system has no room for that. */
static bool plan_conn(struct rlock__conn *conn, short events, struct rlock__node **data,
                      int64_t now, int64_t *inout_until)
{
    bool good = rlock__conn_register(conn, (*data)->client->threads.nodes_fd, events, data);
    int64_t until = good ? rlock__conn_deadline(conn) : now + AGAIN_US;

    *inout_until = rlock__min(*inout_until, until);
    return good;
}

/* Which events of a link concern the service thread, if it does not read the links. Nothing is read
 * on a link that was greeted before it is confirmed. */
RLOCK__REQUIRES(send) static short events_of(const struct rlock__io *io)
{
    if (io->gen != 0) {
        return POLLRDHUP;
    }
    if (io->greeted_at != 0) {
        return 0;
    }
    return rlock__conn_events(io->conn);
}

static void plan_node(struct rlock__node *node, int64_t now)
{
    struct rlock_client *client = node->client;
    struct rlock__sub *sub = &node->sub;
    int64_t until = RLOCK__NEVER;

    sub->is_ready = !plan_conn(sub->conn, rlock__conn_events(sub->conn), &sub->node, now, &until);
    rlock__take_link(client);
    for (size_t i = 0; i < node->n_ios; i++) {
        struct rlock__io *io = &node->ios[i];

        (void)plan_conn(io->conn, events_of(io), &io->node, now, &until);
    }
    rlock__give_link(client);
    rlock__enter(client);
    rlock__timer_unset(&client->to_serve.due, &node->due);
    rlock__node_due(node, until);
    rlock__node_changed(node);
    rlock__core_mutex_unlock(&client->mutex);
}

/* Takes the nodes that are due. */
static struct rlock__node *take_due(struct rlock_client *client, int64_t now)
{
    struct rlock__node *first = NULL, **end = &first;

    rlock__enter(client);
    for (unsigned n = client->core.n_connecting;
         client->to_serve.held_up != NULL && n < RLOCK__CONNECTING_MAX; n++) {
        struct rlock__node *node = client->to_serve.held_up;

        DL_DELETE2(client->to_serve.held_up, node, held_up_prev, held_up_next);
        node->is_held_up = false;
        rlock__node_due(node, 0);
    }
    while (rlock__timers_next(&client->to_serve.due) <= now) {
        struct rlock__node *node = RLOCK__OF(struct rlock__node, due, client->to_serve.due.root);

        rlock__timer_unset(&client->to_serve.due, &node->due);
        *end = node;
        end = &node->due_next;
    }
    rlock__core_mutex_unlock(&client->mutex);
    *end = NULL;
    return first;
}

static void serve_nodes(struct rlock_client *client, int64_t now)
{
    struct rlock__node *node = take_due(client, now);

    for (; node != NULL; node = node->due_next) {
        for (size_t i = 0; i < node->n_ios; i++) {
            rlock__serve_link(&node->ios[i], now);
        }
        rlock__serve_sub(node, now);
        plan_node(node, now);
    }
}

/* ---- Rounds ---- */

/* The thread is awake: what changes from here on needs no wake-up. Returns whether there may be
 * something to read on links. */
static bool wake_up(struct rlock_client *client)
{
    const struct pollfd *fds = client->threads.polled;
    bool readable = fds[RLOCK__POLL_LINKS].revents != 0;
    struct epoll_event events[EVENTS_MAX];
    uint64_t pokes;
    int n = 0;

    if ((fds[RLOCK__POLL_WAKE].revents & POLLIN) != 0) {
        (void)!read(client->threads.wake_fd, &pokes, sizeof(pokes));
    }
    if (fds[RLOCK__POLL_NODES].revents != 0) {
        n = epoll_wait(client->threads.nodes_fd, events, EVENTS_MAX, 0);
    }
    rlock__enter(client);
    client->watch.service_until = 0;
    client->watch.service_replans = false;
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr != NULL) {
            readable = note_event(events[i].data.ptr) || readable;
        }
    }
    rlock__core_mutex_unlock(&client->mutex);
    return readable;
}

void rlock__service_react(struct rlock_client *client, int64_t now)
{
    keep_watch(client, wake_up(client), now);
    serve_nodes(client, now);
    if (client->threads.polled[RLOCK__POLL_CANCEL].revents != 0) {
        serve_cancels(client);
    }
    rlock__background_serve(client, now);
    rlock__router_serve(client->router, now);
}

void *rlock__service_main(void *arg)
{
    struct rlock_client *client = arg;
    int64_t until, now = rlock__now_us();

    while (rlock__service_plan(client, now, &until)) {
        (void)poll(client->threads.polled, RLOCK__POLLED, rlock__timeout_ms(until, now));
        now = rlock__now_us(); /* before anything is read */
        rlock__service_react(client, now);
        now = rlock__now_us();
    }
    return NULL;
}
