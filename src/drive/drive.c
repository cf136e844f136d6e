/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <utlist.h>

#include "base/clock.h"
#include "drive/client.h"
#include "drive/router.h"
#include "drive/wanted.h"

#define MANY 8         /* replies that were read at once */
#define MANY_LINKS 64  /* that are looked at at once */
#define LEFT_MOST 2048 /* bytes that are left to the leader: a dozen commands */

/* ---- A link ---- */

/* Has the socket of a link that is up polled for what it is to be polled for. */
RLOCK__REQUIRES(send) static void arm(struct rlock__io *io, int how)
{
    const struct rlock_client *client = io->node->client;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = io};

    if (client->links_fd >= 0) {
        event.events |= atomic_load(&io->stuck) ? EPOLLOUT : 0;
        (void)epoll_ctl(client->links_fd, how, rlock__conn_fd(io->conn), &event);
    }
}

/* Notes whether its socket is full. Returns whether it was. */
RLOCK__REQUIRES(send) static bool set_stuck(struct rlock__io *io, bool stuck)
{
    struct rlock_client *client = io->node->client;
    bool was_stuck = atomic_exchange(&io->stuck, stuck);

    if (stuck && !was_stuck) {
        DL_APPEND2(client->stuck, io, stuck_prev, stuck_next);
    } else if (!stuck && was_stuck) {
        DL_DELETE2(client->stuck, io, stuck_prev, stuck_next);
    }
    return was_stuck;
}

void rlock__link_is_up(struct rlock__io *io)
{
    arm(io, EPOLL_CTL_ADD);
    rlock__replan(io->node->client); /* there is a new socket to poll */
}

void rlock__link_broke(struct rlock__io *io, int code, const char *text)
{
    struct rlock_client *client = io->node->client;
    uint64_t gen = io->gen;

    if (gen != 0) {
        arm(io, EPOLL_CTL_DEL);
    }
    atomic_store(&io->fd, -1);
    atomic_store(&io->server, 0);
    (void)set_stuck(io, false);
    io->gen = 0;
    io->sent = io->unnoted = 0;
    rlock__buf_clear(&io->out);
    rlock__enter(client);
    io->greeted_at = 0;
    rlock__router_want(client->router);
    rlock__core_link_down(io->link, gen, code,
                          rlock__conn_error_is_final(&io->node->conn_opts, code), text,
                          rlock__now_us());
    rlock__leave_with_link(client);
    rlock__conn_close(io->conn);
    rlock__replan(client);
}

/* Notes what went out. */
RLOCK__REQUIRES(send) RLOCK__REQUIRES(core) static void note_written(struct rlock__io *io)
{
    rlock__pipeline_wrote(&io->link->pipeline, io->unnoted);
    io->unnoted = 0;
}

/* Takes what the core wants sent, which on a quiet link is looked at before; or the core wants the
 * link closed. */
RLOCK__REQUIRES(send)
RLOCK__REQUIRES(core) static enum rlock__taken take_within(struct rlock__io *io)
{
    struct rlock__pipeline *pipeline = &io->link->pipeline;
    bool present = io->gen != 0 && pipeline->gen == io->gen, quiet = false;

    if (present) {
        note_written(io);
    }
    if (io->sent == io->out.len) {
        rlock__buf_clear(&io->out);
        io->sent = 0;
        if (present && pipeline->up) {
            quiet = rlock__pipeline_is_quiet(pipeline);
            rlock__pipeline_take(pipeline, &io->out);
        }
    }
    if (present && pipeline->close) {
        return RLOCK__TO_CLOSE;
    }
    return io->out.len == 0 ? RLOCK__NOTHING : quiet ? RLOCK__TO_LOOK_AND_SEND : RLOCK__TO_SEND;
}

RLOCK__REQUIRES(send) static enum rlock__taken take(struct rlock__io *io)
{
    enum rlock__taken taken;

    rlock__enter(io->node->client);
    taken = take_within(io);
    rlock__core_mutex_unlock(&io->node->client->mutex);
    return taken;
}

/* Closes the link, for the reason that the core gives. */
RLOCK__REQUIRES(send) static void close_link(struct rlock__io *io)
{
    char why[RLOCK__DETAIL_SIZE];

    rlock__enter(io->node->client);
    (void)snprintf(why, sizeof(why), "%s: %s", rlock__conn_peer(io->conn), io->link->pipeline.why);
    rlock__core_mutex_unlock(&io->node->client->mutex);
    rlock__link_broke(io, RLOCK_ECONN, why);
}

/* Before something is sent on a quiet link: what came there unasked would be taken for its answer.
 * Returns whether nothing is there. */
RLOCK__REQUIRES(send) static bool is_silent(struct rlock__io *io)
{
    struct rlock__link *link = io->link;
    int n = rlock__conn_read(io->conn);

    if (n == 0) {
        return true;
    }
    rlock__enter(io->node->client);
    rlock__pipeline_untake(&link->pipeline, io->out.len);
    if (n > 0) {
        rlock__core_garbled(link, io->gen, rlock__now_us());
    }
    rlock__leave_with_link(io->node->client);
    if (n > 0) {
        close_link(io);
    } else {
        rlock__link_broke(io, n, rlock__conn_error(io->conn));
    }
    return false;
}

/* Sends what was taken. A link with a full socket takes nothing more until its rest is sent; then
 * it takes the next bytes here. */
RLOCK__REQUIRES(send) static void send_all(struct rlock__io *io, enum rlock__taken taken)
{
    bool was_stuck;

    while (taken == RLOCK__TO_SEND || taken == RLOCK__TO_LOOK_AND_SEND) {
        ssize_t n;

        if (taken == RLOCK__TO_LOOK_AND_SEND && !is_silent(io)) {
            return;
        }
        n = rlock__conn_write(io->conn, io->out.data + io->sent, io->out.len - io->sent);
        if (n < 0) {
            rlock__link_broke(io, (int)n, rlock__conn_error(io->conn));
            return;
        }
        io->sent += (size_t)n;
        io->unnoted += (size_t)n;
        was_stuck = set_stuck(io, io->sent < io->out.len);
        if (was_stuck != (io->sent < io->out.len)) {
            arm(io, EPOLL_CTL_MOD);
        }
        if (io->sent < io->out.len) {
            if (!was_stuck) { /* they poll, perhaps, for reading alone */
                rlock__replan(io->node->client);
            }
            return;
        }
        taken = was_stuck ? take(io) : RLOCK__NOTHING;
    }
    if (taken == RLOCK__TO_CLOSE) {
        close_link(io);
    }
}

/* ---- Sending ---- */

void rlock__take_link(struct rlock_client *client)
{
    rlock__send_lock_take(&client->send_lock);
}

RLOCK__REQUIRES(send) static void send_if_up(struct rlock__io *io)
{
    if (io->gen != 0) {
        send_all(io, take(io));
    }
}

/* Serves the links that are wanted now, and those with full sockets. */
RLOCK__REQUIRES(send) static void send_wanted(struct rlock_client *client)
{
    struct rlock__io *io, *next;

    DL_FOREACH_SAFE2(client->stuck, io, next, stuck_next)
    {
        send_if_up(io);
    }
    for (io = rlock__wanted_take(client); io != NULL; io = next) {
        next = rlock__wanted_next(io);
        send_if_up(io);
    }
}

/* It wakes those whom what it did concerns. */
RLOCK__ALONE void rlock__give_link(struct rlock_client *client)
{
    do {
        send_wanted(client);
    } while (!rlock__send_lock_give(&client->send_lock));
    if (atomic_load(&client->wake_wanted)) {
        rlock__enter(client);
        rlock__leave(client);
    }
}

void rlock__drive(struct rlock_client *client)
{
    if (rlock__send_lock_wish(&client->send_lock)) {
        rlock__give_link(client);
    }
}

/* Tries the send lock within the core's mutex, against their order: who only tries waits for
 * nobody. */
RLOCK__ALONE void rlock__leave_and_drive(struct rlock_client *client)
{
    struct rlock__io *io, *next, *taken = NULL;

    if (!rlock__send_lock_try(&client->send_lock)) {
        rlock__leave(client);
        rlock__drive(client);
        return;
    }
    rlock__distribute(client);
    for (io = rlock__wanted_take(client); io != NULL; io = next) {
        next = rlock__wanted_next(io);
        io->taken = take_within(io);
        io->taken_next = taken;
        taken = io;
    }
    rlock__leave_with_link(client);
    for (; taken != NULL; taken = taken->taken_next) {
        send_all(taken, taken->taken);
    }
    rlock__give_link(client);
}

/* Whether the leader is to send what a call wants sent. Others whom it woke begin theirs now, so
 * one write takes all. The server is not kept waiting for all of them. */
RLOCK__REQUIRES(core) static bool is_left(struct rlock_client *client)
{
    if (!atomic_load(&client->corked) || rlock__watch_is_left(&client->watch)) {
        return false;
    }
    rlock__distribute(client);
    return rlock__wanted_bytes(client) < LEFT_MOST;
}

void rlock__leave_and_wait(struct rlock_client *client)
{
    if (is_left(client)) {
        client->watch.has_left = true;
        rlock__leave(client);
    } else {
        rlock__leave_and_drive(client);
    }
}

/* ---- Reading ---- */

/* Hands every whole reply to the core; the leader whose own call is complete by that hands the
 * watch on. Returns 0, or why the stream is broken. */
RLOCK__REQUIRES(send) static int deliver(struct rlock__io *io, struct rlock__waiter *leader)
{
    struct rlock_client *client = io->node->client;
    struct rlock__link *link = io->link;
    struct rlock__reply reply;
    unsigned n = 0;
    bool many;
    int got;

    rlock__enter(client);
    client->read_at = rlock__now_us(); /* of all that was read: reading a clock takes time too */
    if (leader != NULL && leader->keeps) {
        rlock__watch_moved(&client->watch);
    }
    note_written(io);
    while ((got = rlock__conn_next(io->conn, &reply)) > 0) {
        rlock__core_reply(link, io->gen, &reply, client->read_at);
        n++;
    }
    if (got == RLOCK_ECONN || (got == 0 && rlock__pipeline_is_quiet(&link->pipeline) &&
                               !rlock__conn_is_drained(io->conn))) {
        rlock__core_garbled(link, io->gen, client->read_at);
    }
    rlock__distribute(client);
    if (leader != NULL && leader->keeps && atomic_load(&leader->signal) == RLOCK__PARK_DONE) {
        rlock__watch_end(&client->watch, leader);
    }
    many = n >= MANY || (n > 0 && client->corks_always);
    atomic_store(&client->corked, many && client->watch.state == RLOCK__WATCH_AWAKE);
    rlock__leave_with_link(client);
    return got;
}

/* The same of some of what is there on a link. Returns whether there was something. */
RLOCK__REQUIRES(send) static bool read_some(struct rlock__io *io, struct rlock__waiter *leader)
{
    int n = io->gen != 0 ? rlock__conn_read(io->conn) : 0;
    bool any = n > 0;

    if (any) {
        n = deliver(io, leader);
    }
    if (n < 0) {
        rlock__link_broke(io, n, rlock__conn_error(io->conn));
    }
    return any;
}

int64_t rlock__drive_read(struct rlock_client *client, struct rlock__waiter *leader)
{
    struct epoll_event events[16] = {
        {.data.ptr = client->nodes->ios}}; /* where it is the only one */
    int64_t read_at = 0;
    int n = 1;

    rlock__take_link(client);
    if (client->links_fd >= 0) {
        n = epoll_wait(client->links_fd, events, 16, 0);
    }
    for (int i = 0; i < n; i++) {
        if (read_some(events[i].data.ptr, leader)) {
            read_at = client->read_at;
        }
    }
    rlock__give_link(client);
    return read_at;
}

/* Reads what is there on one link, up to the answers to what was sent before. */
static bool read_all(struct rlock__io *io)
{
    struct rlock_client *client = io->node->client;
    const struct rlock__pipeline *pipeline = &io->link->pipeline;
    bool any = false, more = true;
    uint64_t end;

    rlock__enter(client);
    end = pipeline->appended;
    rlock__core_mutex_unlock(&client->mutex);
    while (more) {
        rlock__take_link(client);
        more = read_some(io, NULL);
        any = any || more;
        rlock__give_link(client);
        if (more) {
            rlock__enter(client); /* what was sent meanwhile need not be answered */
            more = pipeline->sent != NULL && pipeline->sent->end <= end;
            rlock__core_mutex_unlock(&client->mutex);
        }
    }
    return any;
}

bool rlock__drive_read_all(struct rlock_client *client)
{
    struct epoll_event events[MANY_LINKS];
    bool any = false;
    int n;

    if (client->links_fd < 0) {
        return read_all(client->nodes->ios);
    }
    do {
        n = epoll_wait(client->links_fd, events, MANY_LINKS, 0);
        for (int i = 0; i < n; i++) {
            any = read_all(events[i].data.ptr) || any;
        }
    } while (n == MANY_LINKS);
    return any;
}
