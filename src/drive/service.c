/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service thread. While a caller keeps watch it ticks: it reads what came and does what is due,
 * if that was left undone, and wakes again whom somebody began to wake. A caller that was found
 * standing still has its work done here until it moves. The tick costs the callers nothing: the
 * first of many calls wakes this thread, and a tick after the last it goes to sleep for good.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "drive/client.h"

#define TICK_US (50 * RLOCK__MS) /* how long a caller may stand still and keep others waiting */
#define IDLE_LINK_US                                                                               \
    RLOCK__SECOND /* what comes on a link that nobody used for so long is looked at */

/* ---- The link ---- */

/* FNV-1a; 0 of nothing. */
static uint64_t server_number(const char *run_id)
{
    uint64_t number = run_id[0] == '\0' ? 0 : 14695981039346656037U;

    for (const char *at = run_id; *at != '\0'; at++) {
        number = (number ^ (unsigned char)*at) * 1099511628211U;
    }
    return number;
}

RLOCK__REQUIRES(send) static void link_up(struct rlock_client *client)
{
    struct rlock__io *io = &client->io;
    struct rlock__server *server = &client->server;
    const struct rlock__greeting *got = rlock__conn_greeting(io->conn);
    int64_t now = rlock__now_us();

    atomic_store(&io->server, server_number(got->run_id));
    atomic_store(&io->fd, rlock__conn_fd(io->conn));
    rlock__enter(client);
    rlock__core_found(server, got->run_id, got->uptime_s, now);
    io->gen = rlock__core_link_up(&server->links[0], got->client_id, got->fenced, now);
    rlock__leave_with_link(client);
    rlock__look_again(client); /* there is a new socket to poll */
}

/* Begins to make the link when it is time, and goes on with that. Returns 0, or why it cannot be
 * made. */
RLOCK__REQUIRES(send) static int make_link(struct rlock_client *client, int64_t now)
{
    struct rlock__io *io = &client->io;
    struct rlock__link *link = &client->server.links[0];
    uint64_t unfenced[RLOCK__UNFENCED_MAX];
    size_t n;
    bool due;

    rlock__enter(client);
    due = now >= rlock__link_due(link);
    n = due ? rlock__link_begin(link, unfenced) : 0;
    rlock__core_mutex_unlock(&client->mutex);
    return due ? rlock__conn_start(io->conn, unfenced, n, now) : rlock__conn_step(io->conn, now);
}

static void serve_link(struct rlock_client *client, int64_t now)
{
    struct rlock__io *io = &client->io;

    rlock__take_link(client);
    if (io->gen == 0) {
        int code = make_link(client, now);

        if (code != 0) {
            rlock__link_broke(client, code, rlock__conn_error(io->conn));
        } else if (rlock__conn_is_up(io->conn)) {
            link_up(client);
        }
    }
    rlock__give_link(client);
}

/* ---- The subscriber connection ---- */

static void sub_failed(struct rlock_client *client)
{
    struct rlock__sub *sub = &client->sub;

    rlock__enter(client);
    rlock__core_sub_down(&client->server, rlock__now_us());
    rlock__leave(client);
    rlock__conn_close(sub->conn);
    rlock__buf_clear(&sub->out);
    sub->sent = 0;
    sub->up = false;
}

/* Sends what the core has for the subscriber connection. */
static int sub_flush(struct rlock_client *client)
{
    struct rlock__sub *sub = &client->sub;
    struct rlock__buf *wanted = &client->server.sub.out;
    bool whole;
    ssize_t n;

    rlock__enter(client);
    whole = !wanted->failed && rlock__buf_add(&sub->out, wanted->data, wanted->len);
    rlock__buf_clear(wanted);
    rlock__core_mutex_unlock(&client->mutex);
    if (!whole) {
        return RLOCK_ENOMEM;
    }
    if (sub->sent < sub->out.len) {
        n = rlock__conn_write(sub->conn, sub->out.data + sub->sent, sub->out.len - sub->sent);
        if (n < 0) {
            return (int)n;
        }
        sub->sent += (size_t)n;
        if (sub->sent == sub->out.len) {
            rlock__buf_clear(&sub->out);
            sub->sent = 0;
        }
    }
    return 0;
}

/* Reads what is there; without an answer for long it is broken. */
static int sub_read(struct rlock_client *client)
{
    struct rlock__server *server = &client->server;
    struct rlock__sub *sub = &client->sub;
    struct rlock__reply reply;
    int got = 0, n = rlock__conn_read(sub->conn);
    bool alive;

    if (n < 0) {
        return n;
    }
    rlock__enter(client);
    while (n > 0 && (got = rlock__conn_next(sub->conn, &reply)) > 0) {
        rlock__core_sub_reply(server, &reply, rlock__now_us());
    }
    alive = rlock__subscriber_check(server, rlock__now_us());
    rlock__leave(client);
    return got < 0 || alive ? got : RLOCK_ECONN;
}

/* A message counts only if it comes from the server that the commands go to. */
static bool sub_is_elsewhere(struct rlock_client *client)
{
    struct rlock__io *io = &client->io;
    bool elsewhere = false;

    rlock__take_link(client);
    if (io->gen != 0) {
        const char *sub = rlock__conn_greeting(client->sub.conn)->run_id;
        const char *link = rlock__conn_greeting(io->conn)->run_id;

        elsewhere = strcmp(rlock__conn_peer(io->conn), rlock__conn_peer(client->sub.conn)) != 0 ||
                    (sub[0] != '\0' && link[0] != '\0' && strcmp(sub, link) != 0);
    }
    rlock__give_link(client);
    return elsewhere;
}

static void serve_sub(struct rlock_client *client, short revents, int64_t now)
{
    struct rlock__sub *sub = &client->sub;
    bool due, begins;
    int code;

    rlock__enter(client);
    due = now >= rlock__subscriber_due(&client->server); /* to be made, or to be checked */
    begins = rlock__subscriber_begin(&client->server, now);
    rlock__core_mutex_unlock(&client->mutex);
    code = begins ? rlock__conn_start(sub->conn, NULL, 0, now) : rlock__conn_step(sub->conn, now);
    if (code == 0 && !sub->up && rlock__conn_is_up(sub->conn)) {
        sub->up = true;
        rlock__enter(client);
        rlock__core_sub_up(&client->server, rlock__now_us());
        rlock__leave(client);
    }
    if (code == 0 && sub->up) {
        code = (revents & ~POLLOUT) != 0 || due ? sub_read(client) : 0;
        code = code == 0 ? sub_flush(client) : code;
        code = code == 0 && sub_is_elsewhere(client) ? RLOCK_ECONN : code;
    }
    if (code < 0) {
        sub_failed(client);
    }
    rlock__drive(client);
}

/* ---- Cancellations ---- */

static void serve_cancels(struct rlock_client *client)
{
    struct epoll_event events[16];
    int n = epoll_wait(client->cancel_fd, events, 16, 0);

    for (int i = 0; i < n; i++) {
        const void *cancel = (const void *)(uintptr_t)events[i].data.u64;

        rlock__enter(client);
        rlock__core_cancel(&client->core, cancel, rlock__now_us());
        rlock__leave(client);
        rlock__begun_cancel(client, cancel);
    }
    rlock__drive(client);
}

/* ---- The thread ---- */

enum { WAKE, LINK, SUB, CANCEL, N_FDS };

/* When to look after the caller that keeps watch, or did since the last tick. */
RLOCK__REQUIRES(core) static int64_t next_tick(struct rlock_client *client, int64_t now)
{
    if (client->leader == NULL && !client->leader_moved && client->woken == NULL) {
        client->tick_at = RLOCK__NEVER;
    } else if (client->tick_at == RLOCK__NEVER) {
        client->tick_at = now + TICK_US;
    }
    return client->tick_at;
}

/*
 * Whether to look for replies on the link, not for its end alone: while no caller does and some are
 * awaited, and where nobody has used the link for a while, since then nothing may come. ret_until:
 * no later than when that is due.
 */
RLOCK__REQUIRES(core)
static bool reads_link(const struct rlock_client *client, bool watching, int64_t now,
                       int64_t *ret_until)
{
    const struct rlock__pipeline *pipeline = &client->server.links[0].pipeline;
    int64_t due = (pipeline->sent != NULL ? now : pipeline->heard_at) + IDLE_LINK_US;

    if (!pipeline->up) {
        return false;
    }
    if (pipeline->sent != NULL ? watching : now >= due) {
        return true;
    }
    *ret_until = rlock__min(*ret_until, due);
    return false;
}

/* Until when to sleep for the core's sake, and whether with an eye on replies. */
RLOCK__REQUIRES(core)
static int64_t plan_core(struct rlock_client *client, struct pollfd *link, int64_t now)
{
    const struct rlock__core *core = &client->core;
    bool watching = rlock__is_unwatched(client);
    int64_t until = next_tick(client, now);

    if (watching) {
        until = rlock__min(until, rlock__core_next(core));
    }
    until = rlock__min(until, rlock__subscriber_due(&client->server));
    if (client->service_looks || (client->sub.up && client->server.sub.out.len != 0)) {
        until = 0; /* it came while this thread was awake */
    }
    if (link->events == POLLRDHUP && reads_link(client, watching, now, &until)) {
        link->events = POLLIN | POLLRDHUP;
        link->events |= atomic_load(&client->io.stuck) ? POLLOUT : 0;
    }
    client->service_reads = (link->events & POLLIN) != 0;
    return until;
}

/* What to poll for, and until when. Returns false when the thread is to end. */
static bool plan(struct rlock_client *client, struct pollfd fds[static N_FDS], int64_t now,
                 int64_t *ret_until)
{
    struct rlock__io *io = &client->io;
    struct rlock__sub *sub = &client->sub;
    int64_t until = rlock__min(rlock__begun_next(client), rlock__conn_deadline(sub->conn));
    bool stop;

    fds[WAKE] = (struct pollfd){.fd = client->wake_fd, .events = POLLIN};
    fds[CANCEL] = (struct pollfd){.fd = client->cancel_fd, .events = POLLIN};
    fds[SUB] = (struct pollfd){.fd = rlock__conn_fd(sub->conn)};
    fds[SUB].events = rlock__conn_events(sub->conn);
    rlock__take_link(client);
    fds[LINK] = (struct pollfd){.fd = rlock__conn_fd(io->conn), .events = POLLRDHUP};
    if (io->gen == 0) {
        fds[LINK].events = rlock__conn_events(io->conn);
        until = rlock__min(until, rlock__conn_deadline(io->conn));
    }
    rlock__give_link(client);
    rlock__enter(client);
    stop = client->stop_service;
    until = rlock__min(until, rlock__link_due(&client->server.links[0]));
    until = rlock__min(until, plan_core(client, &fds[LINK], now));
    client->service_until = until;
    rlock__core_mutex_unlock(&client->mutex);
    *ret_until = until;
    return !stop || !rlock__begun_close(client);
}

/* A leader that left something undone, and did not move, is not to be relied on until it does. */
RLOCK__REQUIRES(core)
static void look_after_leader(struct rlock_client *client, bool undone, int64_t now)
{
    client->leader_still = client->leader != NULL && !client->leader_moved && undone;
    client->leader_moved = false;
    client->untold = client->woken;
    client->tick_at = now + TICK_US;
}

/* Reads, and does what is due by now: where no caller does, and at each tick. */
static void watch(struct rlock_client *client, bool readable, int64_t now)
{
    bool ticks, due, came = false;

    rlock__enter(client);
    client->service_until = 0; /* what this thread sees from here on need not be told to it */
    client->service_looks = false;
    ticks = now >= client->tick_at;
    due = (ticks || rlock__is_unwatched(client)) && rlock__core_next(&client->core) <= now;
    rlock__core_mutex_unlock(&client->mutex);
    if (ticks || due) {
        came = rlock__drive_read_all(client);
    } else if (readable) {
        (void)rlock__drive_read(client, NULL);
    }
    rlock__enter(client);
    if (ticks) {
        look_after_leader(client, came || due, now);
    }
    if (due) {
        rlock__core_tick(&client->core, now);
    }
    rlock__leave_and_drive(client);
}

void *rlock__service_main(void *arg)
{
    struct rlock_client *client = arg;
    struct pollfd fds[N_FDS];
    int64_t until, now = rlock__now_us();
    uint64_t pokes;

    while (plan(client, fds, now, &until)) {
        (void)poll(fds, N_FDS, rlock__timeout_ms(until, now));
        now = rlock__now_us(); /* before anything is read */
        if ((fds[WAKE].revents & POLLIN) != 0) {
            (void)!read(client->wake_fd, &pokes, sizeof(pokes));
        }
        watch(client, fds[LINK].revents != 0 && atomic_load(&client->io.fd) == fds[LINK].fd, now);
        serve_link(client, now);
        serve_sub(client, fds[SUB].revents, now);
        if (fds[CANCEL].revents != 0) {
            serve_cancels(client);
        }
        rlock__begun_serve(client, now);
        now = rlock__now_us();
    }
    return NULL;
}
