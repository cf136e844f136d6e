/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "drive/client.h"

/* ---- The link ---- */

void rlock__link_broke(struct rlock_client *client, int code, const char *text)
{
    struct rlock__io *io = &client->io;
    uint64_t gen = io->gen;

    atomic_store(&io->fd, -1);
    atomic_store(&io->server, 0);
    atomic_store(&io->stuck, false);
    io->gen = 0;
    io->sent = io->unnoted = 0;
    rlock__buf_clear(&io->out);
    rlock__enter(client);
    rlock__core_link_down(&client->server.links[0], gen, code, rlock__conn_error_is_final(code),
                          text, rlock__now_us());
    rlock__leave_with_link(client);
    rlock__conn_close(io->conn);
    rlock__look_again(client);
}

/* Notes what went out. */
RLOCK__REQUIRES(send) RLOCK__REQUIRES(core) static void note_written(struct rlock_client *client)
{
    rlock__pipeline_wrote(&client->server.links[0].pipeline, client->io.unnoted);
    client->io.unnoted = 0;
}

enum taken { NOTHING, TO_SEND, TO_LOOK_AND_SEND, TO_CLOSE };

/* Takes what the core wants sent, which on a quiet link is looked at before; or the core wants the
 * link closed. */
RLOCK__REQUIRES(send)
RLOCK__REQUIRES(core) static enum taken take_within(struct rlock_client *client)
{
    struct rlock__io *io = &client->io;
    struct rlock__pipeline *pipeline = &client->server.links[0].pipeline;
    bool present = io->gen != 0 && pipeline->gen == io->gen, quiet = false;

    atomic_store(&client->send_wanted, false);
    if (present) {
        note_written(client);
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
        return TO_CLOSE;
    }
    return io->out.len == 0 ? NOTHING : quiet ? TO_LOOK_AND_SEND : TO_SEND;
}

RLOCK__REQUIRES(send) static enum taken take(struct rlock_client *client)
{
    enum taken taken;

    rlock__enter(client);
    taken = take_within(client);
    rlock__core_mutex_unlock(&client->mutex);
    return taken;
}

/* Closes the link, for the reason that the core gives. */
RLOCK__REQUIRES(send) static void close_link(struct rlock_client *client)
{
    char why[RLOCK__DETAIL_SIZE];

    rlock__enter(client);
    (void)snprintf(why, sizeof(why), "%s: %s", rlock__conn_peer(client->io.conn),
                   client->server.links[0].pipeline.why);
    rlock__core_mutex_unlock(&client->mutex);
    rlock__link_broke(client, RLOCK_ECONN, why);
}

/* Before something is sent on a quiet link: what came there unasked would be taken for its answer.
 * Returns whether nothing is there. */
RLOCK__REQUIRES(send) static bool is_silent(struct rlock_client *client)
{
    struct rlock__io *io = &client->io;
    struct rlock__link *link = &client->server.links[0];
    int n = rlock__conn_read(io->conn);

    if (n == 0) {
        return true;
    }
    rlock__enter(client);
    rlock__pipeline_untake(&link->pipeline, io->out.len);
    if (n > 0) {
        rlock__core_garbled(link, io->gen, rlock__now_us());
    }
    rlock__leave_with_link(client);
    if (n > 0) {
        close_link(client);
    } else {
        rlock__link_broke(client, n, rlock__conn_error(io->conn));
    }
    return false;
}

/* Whether something is to be sent, or the link to be closed, as far as anybody has said. */
RLOCK__REQUIRES(send) static bool is_wanted(const struct rlock_client *client)
{
    return client->io.sent < client->io.out.len || atomic_load(&client->send_wanted);
}

/* Sends what was taken, and what came to be wanted meanwhile. */
RLOCK__REQUIRES(send) static void send_all(struct rlock_client *client, enum taken taken)
{
    struct rlock__io *io = &client->io;
    bool was_stuck; /* what came to be wanted behind a rest was not taken */

    while (taken == TO_SEND || taken == TO_LOOK_AND_SEND) {
        ssize_t n;

        if (taken == TO_LOOK_AND_SEND && !is_silent(client)) {
            return;
        }
        n = rlock__conn_write(io->conn, io->out.data + io->sent, io->out.len - io->sent);
        if (n < 0) {
            rlock__link_broke(client, (int)n, rlock__conn_error(io->conn));
            return;
        }
        io->sent += (size_t)n;
        io->unnoted += (size_t)n;
        was_stuck = atomic_exchange(&io->stuck, io->sent < io->out.len);
        if (io->sent < io->out.len) {
            if (!was_stuck) { /* they poll, perhaps, for reading alone */
                rlock__look_again(client);
            }
            return;
        }
        taken = was_stuck || is_wanted(client) ? take(client) : NOTHING;
    }
    if (taken == TO_CLOSE) {
        close_link(client);
    }
}

void rlock__take_link(struct rlock_client *client)
{
    rlock__send_lock_take(&client->io.lock);
}

/* It wakes those whom what it did concerns. */
RLOCK__ALONE void rlock__give_link(struct rlock_client *client)
{
    do {
        if (client->io.gen != 0 && is_wanted(client)) {
            send_all(client, take(client));
        }
    } while (!rlock__send_lock_give(&client->io.lock));
    if (atomic_load(&client->wake_wanted)) {
        rlock__enter(client);
        rlock__leave(client);
    }
}

void rlock__drive(struct rlock_client *client)
{
    if (rlock__send_lock_wish(&client->io.lock)) {
        rlock__give_link(client);
    }
}

/* Tries the link within the core's mutex, against their order: who only tries waits for nobody. */
RLOCK__ALONE void rlock__leave_and_drive(struct rlock_client *client)
{
    enum taken taken;

    if (!rlock__send_lock_try(&client->io.lock)) {
        rlock__leave(client);
        rlock__drive(client);
        return;
    }
    taken = take_within(client);
    rlock__leave_with_link(client);
    send_all(client, taken);
    rlock__give_link(client);
}

/* Hands every whole reply to the core; the leader whose own call is complete by that hands the
 * watch on. Returns 0, or why the stream is broken. */
RLOCK__REQUIRES(send)
static int deliver(struct rlock_client *client, struct rlock__parker *leader)
{
    struct rlock__io *io = &client->io;
    struct rlock__reply reply;
    int got;

    rlock__enter(client);
    if (leader != NULL) {
        rlock__watch_moved(client);
    }
    note_written(client);
    while ((got = rlock__conn_next(io->conn, &reply)) > 0) {
        rlock__core_reply(&client->server.links[0], io->gen, &reply, rlock__now_us());
    }
    if (got == RLOCK_ECONN ||
        (got == 0 && rlock__pipeline_is_quiet(&client->server.links[0].pipeline) &&
         !rlock__conn_is_drained(io->conn))) {
        rlock__core_garbled(&client->server.links[0], io->gen, rlock__now_us());
    }
    rlock__settle(client);
    if (leader != NULL && atomic_load(&leader->signal) == RLOCK__PARK_DONE) {
        rlock__watch_end(client, leader);
    }
    rlock__leave_with_link(client);
    return got;
}

bool rlock__drive_read(struct rlock_client *client, struct rlock__parker *leader)
{
    struct rlock__io *io = &client->io;
    bool any = false;
    int n;

    rlock__take_link(client);
    if (io->gen != 0) {
        n = rlock__conn_read(io->conn);
        any = n > 0;
        if (any) {
            n = deliver(client, leader);
        }
        if (n < 0) {
            rlock__link_broke(client, n, rlock__conn_error(io->conn));
        }
    }
    rlock__give_link(client);
    return any;
}

bool rlock__drive_read_all(struct rlock_client *client)
{
    const struct rlock__pipeline *pipeline = &client->server.links[0].pipeline;
    bool any = false, awaited = true;
    uint64_t end;

    rlock__enter(client);
    end = pipeline->appended;
    rlock__core_mutex_unlock(&client->mutex);
    while (awaited && rlock__drive_read(client, NULL)) {
        any = true;
        rlock__enter(client); /* what was sent meanwhile need not be answered */
        awaited = pipeline->sent != NULL && pipeline->sent->end <= end;
        rlock__core_mutex_unlock(&client->mutex);
    }
    return any;
}
