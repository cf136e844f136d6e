/* SPDX-License-Identifier: Apache-2.0 */
/* Calling threads wait for their calls: one leads, and keeps watch for all (drive/watch.h); the
 * others park. */
#include <poll.h>

#include "base/clock.h"
#include "drive/client.h"

#define COLLECT_MS 1 /* at most: a caller that was woken may stall */

int rlock__timeout_ms(int64_t until, int64_t now)
{
    int64_t ms = until == RLOCK__NEVER ? -1 : rlock__ms_up(rlock__max(0, until - now));

    return (int)rlock__min(ms, 60 * 1000);
}

bool rlock__lead_begin(struct rlock_client *client, struct rlock__waiter *waiter)
{
    bool begins = rlock__watch_begin(&client->watch, waiter);

    if (begins) {
        atomic_store(&client->corked, false);
    }
    return begins;
}

/* Returns until when the leader may sleep. From here on others wake it if something changes. */
RLOCK__REQUIRES(core) static int64_t plan(struct rlock_client *client)
{
    int64_t until = rlock__core_next(&client->core);

    atomic_store(&client->corked, false);
    rlock__watch_plan(&client->watch, until);
    return until;
}

struct pollfd rlock__links_polled(const struct rlock_client *client)
{
    const struct rlock__io *io = client->nodes->ios;
    struct pollfd fd = {.fd = client->links_fd, .events = POLLIN};

    if (client->links_fd < 0) {
        fd.fd = atomic_load(&io->fd);
        fd.events = atomic_load(&io->stuck) ? POLLIN | POLLOUT : POLLIN;
    }
    return fd;
}

static void watched_fds(const struct rlock_client *client, struct pollfd fds[static 2])
{
    fds[0] = (struct pollfd){.fd = client->threads.leader_fd, .events = POLLIN};
    fds[1] = rlock__links_polled(client);
}

int64_t rlock__lead_plan(struct rlock_client *client, struct pollfd fds[static 2])
{
    int64_t until;
    bool has_left;

    rlock__enter(client);
    until = plan(client);
    has_left = client->watch.has_left;
    client->watch.has_left = false;
    if (has_left) {
        rlock__leave_and_drive(client);
    } else {
        rlock__core_mutex_unlock(&client->mutex);
    }
    watched_fds(client, fds);
    return until;
}

/* Does what is due by now. Before that it reads all that came earlier. */
static void tick(struct rlock_client *client)
{
    int64_t now = rlock__now_us();

    (void)rlock__drive_read_all(client);
    rlock__enter(client);
    rlock__core_tick(&client->core, now);
    rlock__leave_and_drive(client);
}

void rlock__lead_react(struct rlock_client *client, const struct pollfd fds[static 2],
                       int64_t until, struct rlock__waiter *leader)
{
    int64_t read_at = 0;
    uint64_t pokes;

    if (leader == NULL || fds[1].revents == 0) { /* otherwise the read notes it */
        rlock__enter(client);
        rlock__watch_moved(&client->watch);
        rlock__core_mutex_unlock(&client->mutex);
    }
    if ((fds[0].revents & POLLIN) != 0) {
        (void)!read(client->threads.leader_fd, &pokes, sizeof(pokes));
    }
    if (fds[1].revents != 0) {
        read_at = rlock__drive_read(client, leader);
    }
    if ((read_at != 0 ? read_at : rlock__now_us()) >= until) {
        tick(client);
    }
}

/* Waits until the callers that the leader woke are awake. They begin their next calls, and leave
 * them to the leader, which sends all with one write. The last of them wakes it. sched_yield()
 * would be cheaper, but a kernel may take a whole time slice from a thread that yields. */
static void collect(struct rlock_client *client, struct pollfd fds[static 2],
                    struct rlock__waiter *leader)
{
    bool waits;

    if (!atomic_load(&client->corked)) {
        return;
    }
    rlock__enter(client);
    waits = rlock__watch_collect(&client->watch, rlock__now_us() + COLLECT_MS * RLOCK__MS);
    rlock__core_mutex_unlock(&client->mutex);
    if (waits) {
        fds[1].revents = 0; /* replies would wake more callers, and each write would take fewer */
        (void)poll(fds, 1, COLLECT_MS);
        rlock__lead_react(client, fds, RLOCK__NEVER, leader);
    }
}

/* until: what the caller planned already, at that time; 0: it has not planned. */
static void keep_watch(struct rlock_client *client, struct rlock__waiter *waiter, int64_t until,
                       int64_t planned_at)
{
    struct pollfd fds[2];

    watched_fds(client, fds);
    while (atomic_load_explicit(&waiter->signal, memory_order_acquire) != RLOCK__PARK_DONE) {
        if (until == 0) {
            collect(client, fds, waiter);
            until = rlock__lead_plan(client, fds);
            planned_at = rlock__now_us();
        }
        /* a thread that completes the call from here on pokes this one */
        if (atomic_load(&waiter->signal) != RLOCK__PARK_DONE) {
            (void)poll(fds, 2, rlock__timeout_ms(until, planned_at));
        }
        rlock__lead_react(client, fds, until, waiter);
        until = 0;
    }
    if (waiter->keeps) {
        rlock__enter(client);
        rlock__watch_end(&client->watch, waiter);
        rlock__leave(client);
    }
}

static void wait_for(struct rlock_client *client, struct rlock__waiter *waiter)
{
    bool leads;

    rlock__enter(client);
    if (atomic_load(&waiter->signal) == RLOCK__PARK_DONE) {
        rlock__leave(client);
        return;
    }
    leads = rlock__lead_begin(client, waiter);
    if (!leads) {
        rlock__watch_park(&client->watch, waiter);
        rlock__core_mutex_unlock(&client->mutex);
        rlock__park(&client->buckets, waiter);
        rlock__enter(client);
        rlock__watch_seen(&client->watch, waiter);
        leads = client->watch.leader == waiter; /* its call may be complete as well */
    }
    rlock__leave(client);
    if (leads) {
        int keep = RLOCK__PARK_KEEP;

        (void)atomic_compare_exchange_strong(&waiter->signal, &keep, RLOCK__PARK_NONE);
        keep_watch(client, waiter, 0, 0);
    }
}

int rlock__begin(struct rlock_client *client, struct rlock__call *call,
                 struct rlock__waiter *waiter, const struct rlock_cancel *cancel)
{
    const bool waits = waiter != NULL && client->loop == NULL;
    int64_t now;
    bool closed;

    call->cancel = rlock__cancel_id(cancel);
    rlock__enter(client);
    closed = waiter == NULL && client->core.closed;
    if (waiter != NULL) {
        call->payload = waiter;
    }
    if (waits) { /* now, so that the service thread can sleep */
        (void)rlock__lead_begin(client, waiter);
    }
    /* a signal that is fired from here on wakes the service thread, which finds this call */
    call->cancelled = cancel != NULL && atomic_load(&cancel->fired);
    now = rlock__now_us();
    if (!closed) {
        rlock__core_begin(&client->core, call, now);
    }
    if (waits && waiter->keeps && call->step != RLOCK__COMPLETE) {
        waiter->until = plan(client);
        waiter->planned_at = now;
    }
    if (waits) {
        rlock__leave_and_wait(client);
    } else {
        rlock__leave_and_drive(client);
    }
    return closed ? rlock__fail(RLOCK_ECLOSED, "the client is closed") : 0;
}

void rlock__wait(struct rlock_client *client, struct rlock__waiter *waiter)
{
    if (waiter->keeps) {
        keep_watch(client, waiter, waiter->until, waiter->planned_at);
    }
    while (atomic_load_explicit(&waiter->signal, memory_order_acquire) != RLOCK__PARK_DONE) {
        wait_for(client, waiter);
    }
}

int rlock__run(struct rlock_client *client, struct rlock__call *call)
{
    struct rlock__waiter waiter = {0};

    (void)rlock__begin(client, call, &waiter, NULL);
    rlock__wait(client, &waiter);
    if (call->code != 0) {
        rlock__detail("%s", rlock__call_detail(call));
        (void)rlock__failed(call->code, call->texts != NULL ? &call->texts->facts : NULL);
    }
    return call->code;
}
