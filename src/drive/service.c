/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service thread. While there is a leader the thread ticks: it reads replies, fires timers and
 * repeats wake-ups that the leader left undone (drive/watch.h). It does the work of a stalled
 * leader until that moves. Ticks cost the callers nothing: the first of many calls wakes this
 * thread, and one tick after the last call it stops to tick.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "drive/loop.h"
#include "drive/router.h"
#include "lock/call/late.h"

#define TICK_US (50 * RLOCK__MS) /* the longest time for which a stalled leader delays others */
#define IDLE_LINK_US                                                                               \
    RLOCK__SECOND /* a link that was idle for so long is read even if no reply is due */

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

/* The order of the descriptors: these two, the router's, those of each node. */
enum { WAKE, CANCEL, ROUTER = RLOCK__POLLED };
enum { LINK, SUB = RLOCK__NODE_LINKS, N_EACH = RLOCK__POLLED_EACH };

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

/*
 * Whether to poll the link for replies, and not only for its end: if a reply is due and no leader
 * reads it, and if the link has been idle for a while, because then no byte may arrive. A program's
 * event loop always polls for replies: each change would cost a dispatch. Lowers ret_until to the
 * time at which the answer changes.
 */
RLOCK__REQUIRES(core)
static bool reads_link(const struct rlock__io *io, bool watching, int64_t now, int64_t *ret_until)
{
    const struct rlock_client *client = io->node->client;
    const struct rlock__pipeline *pipeline = &io->link->pipeline;
    int64_t due = (pipeline->sent != NULL ? now : pipeline->heard_at) + IDLE_LINK_US;

    if (!pipeline->up) {
        return false;
    }
    if (client->loop != NULL || (pipeline->sent != NULL ? watching : now >= due)) {
        return true;
    }
    *ret_until = rlock__min(*ret_until, due);
    return false;
}

/* Returns until when to sleep for a link, and for which events to poll it. */
RLOCK__REQUIRES(send)
static int64_t plan_io(const struct rlock__io *io, struct pollfd *ret_fd)
{
    *ret_fd = (struct pollfd){.fd = rlock__conn_fd(io->conn), .events = POLLRDHUP};
    if (io->greeted_at != 0) { /* nothing is read before the link is confirmed */
        ret_fd->fd = -1;
    }
    if (io->gen != 0) {
        return RLOCK__NEVER;
    }
    ret_fd->events = rlock__conn_events(io->conn);
    return rlock__conn_deadline(io->conn);
}

/* Returns until when to sleep for a node's connections, and for which events to poll them. */
static int64_t plan_conns(struct rlock__node *node, struct pollfd fds[static N_EACH])
{
    struct rlock__sub *sub = &node->sub;
    int64_t until = rlock__conn_deadline(sub->conn);

    fds[SUB] = (struct pollfd){.fd = rlock__conn_fd(sub->conn)};
    fds[SUB].events = rlock__conn_events(sub->conn);
    rlock__take_link(node->client);
    for (size_t i = 0; i < RLOCK__NODE_LINKS; i++) {
        fds[LINK + i] = (struct pollfd){.fd = -1};
        if (i < node->n_ios) {
            until = rlock__min(until, plan_io(&node->ios[i], &fds[LINK + i]));
        }
    }
    rlock__give_link(node->client);
    return until;
}

/* Returns until when to sleep for what the core plans with a link. Adds replies to its events. */
RLOCK__REQUIRES(core)
static int64_t plan_link(struct rlock__io *io, struct pollfd *fd, int64_t now)
{
    bool watching = rlock__watch_is_left(&io->node->client->watch) && !rlock__io_is_unawaited(io);
    int64_t until = RLOCK__NEVER;

    if (rlock__node_uses(io)) {
        int64_t due = io->is_confirmed ? 0 : RLOCK__NEVER; /* during the handshake */

        until = io->greeted_at == 0 ? rlock__link_due(io->link) : due;
    }
    if (fd->events == POLLRDHUP && reads_link(io, watching, now, &until)) {
        fd->events = POLLIN | POLLRDHUP;
        fd->events |= atomic_load(&io->stuck) ? POLLOUT : 0;
    }
    io->service_reads = (fd->events & POLLIN) != 0;
    return until;
}

RLOCK__REQUIRES(core)
static int64_t plan_node(struct rlock__node *node, struct pollfd fds[static N_EACH], int64_t now)
{
    const struct rlock__server *server = &node->server;
    int64_t until = rlock__subscriber_due(server);

    for (size_t i = 0; i < node->n_ios; i++) {
        until = rlock__min(until, plan_link(&node->ios[i], &fds[LINK + i], now));
    }
    if (node->sub.up && server->sub.out.len != 0) {
        until = 0; /* this thread was awake when it became due */
    }
    return until;
}

/* Returns until when to sleep for the core and its servers. */
RLOCK__REQUIRES(core)
static int64_t plan_core(struct rlock_client *client, struct pollfd *fds, int64_t now)
{
    struct rlock__node *node;
    int64_t until = next_tick(client, now);

    if (rlock__watch_is_left(&client->watch)) {
        until = rlock__min(until, rlock__core_next(&client->core));
    }
    RLOCK__EACH_NODE(client, node) {
        until = rlock__min(until, plan_node(node, fds, now));
        fds += N_EACH;
    }
    if (client->loop != NULL && rlock__is_to_dispatch(client)) {
        until = 0; /* this thread was awake when it became due */
    }
    return client->watch.service_replans ? 0 : until;
}

nfds_t rlock__service_plan(struct rlock_client *client, int64_t now, int64_t *ret_until)
{
    struct pollfd *fds = client->threads.polled;
    struct pollfd *nodes = &fds[ROUTER + rlock__router_polled(client->router)], *at = nodes;
    struct rlock__node *node;
    int64_t until = rlock__background_next(client);
    bool stop;

    fds[WAKE] = (struct pollfd){.fd = client->threads.wake_fd, .events = POLLIN};
    fds[CANCEL] = (struct pollfd){.fd = client->threads.cancel_fd, .events = POLLIN};
    RLOCK__EACH_NODE(client, node) {
        until = rlock__min(until, plan_conns(node, at));
        at += N_EACH;
    }
    rlock__enter(client);
    stop = client->stop_service;
    until = rlock__min(until, plan_core(client, nodes, now));
    until = rlock__min(until, rlock__router_plan(client->router, &fds[ROUTER]));
    until = rlock__min(until, rlock__loop_armed_at(client->loop));
    client->watch.service_until = until;
    rlock__core_mutex_unlock(&client->mutex);
    *ret_until = until;
    return !stop || !rlock__background_close(client) ? (nfds_t)(at - fds) : 0;
}

/* Reads, and does what is due by now: at each tick, and while the work of a leader is left. */
static void keep_watch(struct rlock_client *client, bool readable, int64_t now)
{
    struct rlock__watch *watch = &client->watch;
    bool ticks, due, has_left, came = false;

    rlock__enter(client);
    watch->service_until = 0; /* awake: what changes from here on needs no wake-up */
    watch->service_replans = false;
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
    rlock__leave_and_drive(client);
}

/* Whether poll() reported an event on a link that is up. */
static bool is_readable(struct rlock_client *client, const struct pollfd *fds)
{
    struct rlock__node *node;
    bool is = false;

    RLOCK__EACH_NODE(client, node) {
        for (size_t i = 0; i < node->n_ios; i++) {
            const struct pollfd *fd = &fds[LINK + i];

            is = is || (fd->revents != 0 && atomic_load(&node->ios[i].fd) == fd->fd);
        }
        fds += N_EACH;
    }
    return is;
}

static void serve_nodes(struct rlock_client *client, const struct pollfd *fds, int64_t now)
{
    struct rlock__node *node;

    RLOCK__EACH_NODE(client, node) {
        for (size_t i = 0; i < node->n_ios; i++) {
            rlock__serve_link(&node->ios[i], now);
        }
        rlock__serve_sub(node, fds[SUB].revents, now);
        fds += N_EACH;
    }
}

void rlock__service_react(struct rlock_client *client, int64_t now)
{
    const struct pollfd *fds = client->threads.polled;
    const struct pollfd *nodes = &fds[ROUTER + rlock__router_polled(client->router)];
    uint64_t pokes;

    if ((fds[WAKE].revents & POLLIN) != 0) {
        (void)!read(client->threads.wake_fd, &pokes, sizeof(pokes));
    }
    keep_watch(client, is_readable(client, nodes), now);
    serve_nodes(client, nodes, now);
    if (fds[CANCEL].revents != 0) {
        serve_cancels(client);
    }
    rlock__background_serve(client, now);
    rlock__router_serve(client->router, now);
}

void *rlock__service_main(void *arg)
{
    struct rlock_client *client = arg;
    int64_t until, now = rlock__now_us();
    nfds_t n;

    while ((n = rlock__service_plan(client, now, &until)) != 0) {
        (void)poll(client->threads.polled, n, rlock__timeout_ms(until, now));
        now = rlock__now_us(); /* before anything is read */
        rlock__service_react(client, now);
        now = rlock__now_us();
    }
    return NULL;
}
