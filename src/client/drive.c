/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <utlist.h>

#include "base/clock.h"
#include "client/client.h"
#include "lock/internal.h"

/* ---- The core's mutex ---- */

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

void rlock__wake_watch(struct rlock_client *client)
{
    rlock__enter(client);
    if (client->keeper != NULL && client->keeper_until != 0) {
        client->keeper_until = 0;
        poke(client->keeper_fd);
    } else if (client->keeper == NULL && client->service_until != 0) {
        client->service_until = 0;
        rlock__wake_service(client);
    }
    (void)pthread_mutex_unlock(&client->mutex);
}

void rlock__enter(struct rlock_client *client)
{
    (void)pthread_mutex_lock(&client->mutex);
}

/* Threads of complete calls go on. The keeper polls, the others are parked or have not parked yet.
 */
static void wake_done(struct rlock_client *client)
{
    struct rlock__call *call;

    while ((call = client->core.done) != NULL) {
        struct rlock__parker *parker = call->payload;

        DL_DELETE(client->core.done, call);
        if (call->finish != NULL) {
            call->finish(call); /* which may begin another */
        } else if (parker == client->keeper) {
            atomic_store_explicit(&parker->signal, RLOCK__PARK_DONE, memory_order_release);
            if (client->keeper_until != 0) {
                client->keeper_until = 0;
                poke(client->keeper_fd);
            }
        } else if (parker->listed) {
            DL_DELETE(client->parked, parker);
            parker->listed = false;
            rlock__unpark(parker, RLOCK__PARK_DONE);
        } else {
            atomic_store_explicit(&parker->signal, RLOCK__PARK_DONE, memory_order_release);
        }
    }
}

/* Whoever sleeps longer than the core can wait is woken, or without an eye on what comes. */
static void wake_sleepers(struct rlock_client *client)
{
    const struct rlock__core *core = &client->core;
    int64_t next = rlock__core_next(core);
    bool unread = core->server.flight.sent != NULL && !client->service_reads;
    bool subscribe = core->server.sub_out.len != 0 || (core->channels != NULL && !client->sub.up);

    if (client->keeper != NULL && next < client->keeper_until) {
        client->keeper_until = 0;
        poke(client->keeper_fd);
    }
    if ((client->keeper == NULL && next < client->service_until) ||
        (((client->keeper == NULL && unread) || subscribe) && client->service_until != 0)) {
        client->service_until = 0;
        rlock__wake_service(client);
    }
}

void rlock__leave(struct rlock_client *client)
{
    struct rlock__core *core = &client->core;

    wake_done(client);
    wake_sleepers(client);
    if (core->server.flight.out.len != 0 || core->server.flight.close) {
        atomic_store(&client->send_wanted, true);
    }
    if (core->lost != NULL || core->notes != NULL || core->closed) {
        (void)pthread_cond_broadcast(&client->news);
    }
    (void)pthread_mutex_unlock(&client->mutex);
}

/* ---- The link ---- */

static void remember_unfenced(struct rlock__link *link)
{
    uint64_t id = rlock__conn_client_id(link->conn);

    if (id == 0 || link->n_unfenced == RLOCK__UNFENCED_MAX) {
        link->unfenceable = true;
    } else {
        link->unfenced[link->n_unfenced++] = id;
    }
}

int64_t rlock__retry_pause(struct rlock_client *client, bool of_use, unsigned *failures)
{
    if (of_use) {
        *failures = 0;
        return 0;
    }
    return rlock__backoff(&client->core, (*failures)++);
}

void rlock__link_broke(struct rlock_client *client, int code, const char *text)
{
    struct rlock__link *link = &client->link;
    uint64_t gen = link->gen;
    bool final = rlock__conn_error_is_final(code);
    int64_t now = rlock__now_us();

    if (gen != 0) {
        remember_unfenced(link);
    }
    atomic_store(&link->fd, -1);
    atomic_store(&link->server, 0);
    atomic_store(&link->stuck, false);
    link->gen = 0;
    link->sent = 0;
    rlock__buf_clear(&link->out);
    rlock__enter(client);
    rlock__core_link_down(&client->core, gen, code, final, text, now);
    link->retry_at =
        now + rlock__retry_pause(client,
                                 gen != 0 && (link->heard || now >= link->up_at + RLOCK__SECOND),
                                 &link->failures);
    rlock__leave(client);
    rlock__conn_close(link->conn);
    link->connecting = false;
    rlock__wake_service(client);
}

/* Takes what the core wants sent. Returns whether there is something; closes the link if the core
 * wants that. */
static bool take(struct rlock_client *client)
{
    struct rlock__link *link = &client->link;
    struct rlock__flight *flight = &client->core.server.flight;
    char why[RLOCK__DETAIL_SIZE];
    bool close;

    atomic_store(&client->send_wanted, false);
    rlock__enter(client);
    close = flight->close && flight->gen == link->gen;
    if (link->sent == link->out.len) {
        rlock__buf_clear(&link->out);
        link->sent = 0;
        if (flight->up && flight->gen == link->gen) {
            struct rlock__buf swap = link->out;

            link->out = flight->out;
            flight->out = swap;
        }
    }
    (void)pthread_mutex_unlock(&client->mutex);
    if (close && link->gen != 0) {
        (void)snprintf(why, sizeof(why), "%s: no answer in time", rlock__conn_peer(link->conn));
        rlock__link_broke(client, RLOCK_ECONN, why);
        return false;
    }
    return link->out.len != 0;
}

static void flush(struct rlock_client *client)
{
    struct rlock__link *link = &client->link;

    while (link->gen != 0 && take(client)) {
        ssize_t n =
            rlock__conn_write(link->conn, link->out.data + link->sent, link->out.len - link->sent);

        if (n < 0) {
            rlock__link_broke(client, (int)n, rlock__conn_error(link->conn));
            return;
        }
        link->sent += (size_t)n;
        atomic_store(&link->stuck, link->sent < link->out.len);
        if (link->sent < link->out.len) {
            rlock__wake_watch(client); /* it polls, perhaps, for reading alone */
            return;
        }
    }
}

/*
 * Whoever has the turn sends for all: a thread that does not get it leaves its bytes to the one who
 * has, who looks again after giving it up. So the turn must be given up by rlock__give_turn() only.
 */
void rlock__drive(struct rlock_client *client)
{
    while (pthread_mutex_trylock(&client->link.turn) == 0) {
        flush(client);
        (void)pthread_mutex_unlock(&client->link.turn);
        atomic_thread_fence(memory_order_seq_cst);
        if (!atomic_load(&client->send_wanted) || atomic_load(&client->link.fd) < 0) {
            return;
        }
    }
}

void rlock__take_turn(struct rlock_client *client)
{
    (void)pthread_mutex_lock(&client->link.turn);
}

void rlock__give_turn(struct rlock_client *client)
{
    (void)pthread_mutex_unlock(&client->link.turn);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&client->send_wanted)) {
        rlock__drive(client);
    }
}

/* Hands every whole reply to the core; false if the stream is broken. */
static bool deliver(struct rlock_client *client)
{
    struct rlock__link *link = &client->link;
    struct rlock__reply reply;
    int got;

    rlock__enter(client);
    while ((got = rlock__conn_next(link->conn, &reply)) > 0) {
        rlock__core_reply(&client->core, link->gen, &reply, rlock__now_us());
    }
    rlock__leave(client);
    return got == 0;
}

void rlock__drive_read(struct rlock_client *client)
{
    struct rlock__link *link = &client->link;
    int n = 0;

    rlock__take_turn(client);
    if (link->gen != 0) {
        n = rlock__conn_read(link->conn);
        if (n < 0 || (n > 0 && !deliver(client))) {
            rlock__link_broke(client, n < 0 ? n : RLOCK_ECONN, rlock__conn_error(link->conn));
        } else {
            link->heard = link->heard || n > 0;
            flush(client);
        }
    }
    rlock__give_turn(client);
}

/* ---- Calls ---- */

int rlock__timeout_ms(int64_t until, int64_t now)
{
    int64_t ms = until == RLOCK__NEVER ? -1 : rlock__ms_up(rlock__max(0, until - now));

    return (int)rlock__min(ms, 3600 * 1000);
}

int64_t rlock__watch_plan(struct rlock_client *client, struct pollfd fds[static 2])
{
    int64_t until;

    rlock__enter(client);
    until = rlock__core_next(&client->core);
    client->keeper_until = until;
    (void)pthread_mutex_unlock(&client->mutex);
    fds[0] = (struct pollfd){.fd = client->keeper_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = atomic_load(&client->link.fd), .events = POLLIN};
    if (atomic_load(&client->link.stuck)) {
        fds[1].events = POLLIN | POLLOUT;
    }
    return until;
}

void rlock__watch_react(struct rlock_client *client, const struct pollfd fds[static 2],
                        int64_t until)
{
    uint64_t pokes;
    int64_t now;

    rlock__enter(client);
    client->keeper_until = 0; /* awake: nobody need wake it */
    (void)pthread_mutex_unlock(&client->mutex);
    if ((fds[0].revents & POLLIN) != 0) {
        (void)!read(client->keeper_fd, &pokes, sizeof(pokes));
    }
    if (fds[1].revents != 0) {
        rlock__drive_read(client);
    }
    now = rlock__now_us();
    if (now >= until) {
        rlock__enter(client);
        rlock__core_tick(&client->core, now);
        rlock__leave(client);
        rlock__drive(client);
    }
}

void rlock__watch_end(struct rlock_client *client)
{
    struct rlock__parker *next = client->parked;

    client->keeper = next;
    client->keeper_until = 0;
    if (next != NULL) {
        DL_DELETE(client->parked, next);
        next->listed = false;
        rlock__unpark(next, RLOCK__PARK_KEEP);
    } else if (client->core.server.flight.sent != NULL && client->service_until != 0) {
        client->service_until = 0;
        rlock__wake_service(client);
    }
}

static void keep_watch(struct rlock_client *client, struct rlock__parker *parker)
{
    struct pollfd fds[2];

    while (atomic_load_explicit(&parker->signal, memory_order_acquire) != RLOCK__PARK_DONE) {
        int64_t until = rlock__watch_plan(client, fds);

        /* who completes the call from here on pokes this thread; before, the signal says it */
        if (atomic_load(&parker->signal) != RLOCK__PARK_DONE) {
            (void)poll(fds, 2, rlock__timeout_ms(until, rlock__now_us()));
        }
        rlock__watch_react(client, fds, until);
    }
    rlock__enter(client);
    rlock__watch_end(client);
    rlock__leave(client);
}

static void wait_for(struct rlock_client *client, struct rlock__parker *parker)
{
    bool keeper;

    rlock__enter(client);
    if (atomic_load(&parker->signal) == RLOCK__PARK_DONE) {
        rlock__leave(client);
        return;
    }
    if (client->keeper == NULL) {
        client->keeper = parker;
        (void)pthread_mutex_unlock(&client->mutex);
        keep_watch(client, parker);
        return;
    }
    parker->listed = true;
    DL_APPEND(client->parked, parker);
    (void)pthread_mutex_unlock(&client->mutex);
    rlock__park(parker);
    rlock__enter(client);
    keeper = client->keeper == parker; /* and maybe complete as well */
    (void)pthread_mutex_unlock(&client->mutex);
    if (keeper) {
        int keep = RLOCK__PARK_KEEP;

        (void)atomic_compare_exchange_strong(&parker->signal, &keep, RLOCK__PARK_NONE);
        keep_watch(client, parker);
    }
}

int rlock__run(struct rlock_client *client, struct rlock__call *call,
               const struct rlock_cancel *cancel)
{
    struct rlock__parker parker = {0};
    bool keeper;

    call->payload = &parker;
    call->cancel = rlock__cancel_id(cancel);
    rlock__enter(client);
    keeper = client->keeper == NULL; /* from the start, so that the service thread sleeps on */
    if (keeper) {
        client->keeper = &parker;
    }
    /* one that is fired from here on is told to the service thread, which finds this call */
    call->cancelled = cancel != NULL && rlock__cancel_is_fired(cancel);
    rlock__core_begin(&client->core, call, rlock__now_us());
    rlock__leave(client);
    rlock__drive(client);
    if (keeper) {
        keep_watch(client, &parker);
    }
    while (atomic_load_explicit(&parker.signal, memory_order_acquire) != RLOCK__PARK_DONE) {
        wait_for(client, &parker);
    }
    if (call->code != 0) {
        return rlock__fail(call->code, "%s", call->detail);
    }
    return 0;
}
