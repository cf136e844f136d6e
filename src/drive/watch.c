/* SPDX-License-Identifier: Apache-2.0 */
/* Callers wait for their answers themselves: one keeps watch for all, the others are parked. */
#include <poll.h>
#include <utlist.h>

#include "base/clock.h"
#include "drive/client.h"

#define COLLECT_MS 1 /* at most: who was woken may stand still */

int rlock__timeout_ms(int64_t until, int64_t now)
{
    int64_t ms = until == RLOCK__NEVER ? -1 : rlock__ms_up(rlock__max(0, until - now));

    return (int)rlock__min(ms, 60 * 1000);
}

bool rlock__is_unwatched(const struct rlock_client *client)
{
    return client->leader == NULL || client->leader_still;
}

void rlock__watch_moved(struct rlock_client *client)
{
    client->leader_until = 0; /* awake: nobody need wake it */
    client->leader_moved = true;
    client->leader_still = false;
    client->leader_collects = false;
}

bool rlock__watch_begin(struct rlock_client *client, struct rlock__parker *parker)
{
    if (client->leader != NULL) {
        return false;
    }
    client->leader = parker;
    atomic_store(&client->corked, false);
    parker->keeps = true;
    rlock__watch_moved(client);
    return true;
}

/* Until when the leader may sleep: what changes from here on is told to it. */
RLOCK__REQUIRES(core) static int64_t plan_within(struct rlock_client *client)
{
    rlock__watch_moved(client);
    client->leader_looks = false;
    atomic_store(&client->corked, false);
    client->leader_until = rlock__core_next(&client->core);
    return client->leader_until;
}

static void watched_fds(const struct rlock_client *client, struct pollfd fds[static 2])
{
    const struct rlock__io *io = client->nodes->ios;

    fds[0] = (struct pollfd){.fd = client->leader_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = client->links_fd, .events = POLLIN};
    if (client->links_fd < 0) {
        fds[1].fd = atomic_load(&io->fd);
        fds[1].events = atomic_load(&io->stuck) ? POLLIN | POLLOUT : POLLIN;
    }
}

int64_t rlock__watch_plan(struct rlock_client *client, struct pollfd fds[static 2])
{
    int64_t until;
    bool left;

    rlock__enter(client);
    until = plan_within(client);
    left = client->left;
    client->left = false;
    if (left) {
        rlock__leave_and_drive(client);
    } else {
        rlock__core_mutex_unlock(&client->mutex);
    }
    watched_fds(client, fds);
    return until;
}

/* What is due by now: when all was read that came before. */
static void tick(struct rlock_client *client)
{
    int64_t now = rlock__now_us();

    (void)rlock__drive_read_all(client);
    rlock__enter(client);
    rlock__core_tick(&client->core, now);
    rlock__leave_and_drive(client);
}

void rlock__watch_react(struct rlock_client *client, const struct pollfd fds[static 2],
                        int64_t until, struct rlock__parker *leader)
{
    int64_t read_at = 0;
    uint64_t pokes;

    if (leader == NULL || fds[1].revents == 0) { /* else the read notes it */
        rlock__enter(client);
        rlock__watch_moved(client);
        rlock__core_mutex_unlock(&client->mutex);
    }
    if ((fds[0].revents & POLLIN) != 0) {
        (void)!read(client->leader_fd, &pokes, sizeof(pokes));
    }
    if (fds[1].revents != 0) {
        read_at = rlock__drive_read(client, leader);
    }
    if ((read_at != 0 ? read_at : rlock__now_us()) >= until) {
        tick(client);
    }
}

void rlock__watch_end(struct rlock_client *client, struct rlock__parker *leader)
{
    leader->keeps = false;
    client->leader = client->parked;
    rlock__watch_moved(client);
    if (client->leader != NULL) {
        client->leader->keeps = true;
        rlock__signal(client, client->leader, RLOCK__PARK_KEEP);
    }
}

/* Waits until those whom it woke are awake. They begin what they want next, and leave it to the
 * leader, so that one write takes all. The last of them wakes it. sched_yield() would ask less of
 * them, but a kernel may take a whole time slice from a thread that yields. */
static void collect(struct rlock_client *client, struct pollfd fds[static 2],
                    struct rlock__parker *leader)
{
    bool some;

    if (!atomic_load(&client->corked)) {
        return;
    }
    rlock__enter(client);
    some = client->woken != NULL;
    if (some) {
        client->leader_collects = true;
        client->leader_until = rlock__now_us() + (int64_t)COLLECT_MS * 1000;
    }
    rlock__core_mutex_unlock(&client->mutex);
    if (some) {
        fds[1].revents = 0; /* answers would wake more, and each write would take fewer */
        (void)poll(fds, 1, COLLECT_MS);
        rlock__watch_react(client, fds, RLOCK__NEVER, leader);
    }
}

/* until: it was planned already, at that time; 0 it was not. */
static void keep_watch(struct rlock_client *client, struct rlock__parker *parker, int64_t until,
                       int64_t planned_at)
{
    struct pollfd fds[2];

    watched_fds(client, fds);
    while (atomic_load_explicit(&parker->signal, memory_order_acquire) != RLOCK__PARK_DONE) {
        if (until == 0) {
            collect(client, fds, parker);
            until = rlock__watch_plan(client, fds);
            planned_at = rlock__now_us();
        }
        /* who completes the call from here on pokes this thread; before, the signal says it */
        if (atomic_load(&parker->signal) != RLOCK__PARK_DONE) {
            (void)poll(fds, 2, rlock__timeout_ms(until, planned_at));
        }
        rlock__watch_react(client, fds, until, parker);
        until = 0;
    }
    if (parker->keeps) {
        rlock__enter(client);
        rlock__watch_end(client, parker);
        rlock__leave(client);
    }
}

static void wait_for(struct rlock_client *client, struct rlock__parker *parker)
{
    bool leader;

    rlock__enter(client);
    if (atomic_load(&parker->signal) == RLOCK__PARK_DONE) {
        rlock__leave(client);
        return;
    }
    leader = rlock__watch_begin(client, parker);
    if (!leader) {
        parker->parked = true;
        parker->place = client->next_place++ % RLOCK__PLACES;
        DL_APPEND(client->parked, parker);
        rlock__core_mutex_unlock(&client->mutex);
        rlock__park(&client->lots, parker);
        rlock__enter(client);
        rlock__seen(client, parker);
        leader = client->leader == parker; /* and maybe complete as well */
    }
    rlock__leave(client);
    if (leader) {
        int keep = RLOCK__PARK_KEEP;

        (void)atomic_compare_exchange_strong(&parker->signal, &keep, RLOCK__PARK_NONE);
        keep_watch(client, parker, 0, 0);
    }
}

int rlock__begin(struct rlock_client *client, struct rlock__call *call,
                 struct rlock__parker *parker, const struct rlock_cancel *cancel)
{
    int64_t now;
    bool closed;

    call->cancel = rlock__cancel_id(cancel);
    rlock__enter(client);
    closed = parker == NULL && client->core.closed;
    if (parker != NULL) {
        call->payload = parker;
        (void)rlock__watch_begin(client, parker); /* from the start: so the service thread sleeps */
    }
    /* one that is fired from here on is told to the service thread, which finds this call */
    call->cancelled = cancel != NULL && atomic_load(&cancel->fired);
    now = rlock__now_us();
    if (!closed) {
        rlock__core_begin(&client->core, call, now);
    }
    if (parker != NULL && parker->keeps && call->step != RLOCK__COMPLETE) {
        parker->until = plan_within(client);
        parker->planned_at = now;
    }
    if (parker != NULL) {
        rlock__leave_and_wait(client);
    } else {
        rlock__leave_and_drive(client);
    }
    return closed ? rlock__fail(RLOCK_ECLOSED, "the client is closed") : 0;
}

void rlock__wait(struct rlock_client *client, struct rlock__parker *parker)
{
    if (parker->keeps) {
        keep_watch(client, parker, parker->until, parker->planned_at);
    }
    while (atomic_load_explicit(&parker->signal, memory_order_acquire) != RLOCK__PARK_DONE) {
        wait_for(client, parker);
    }
}

int rlock__run(struct rlock_client *client, struct rlock__call *call)
{
    struct rlock__parker parker = {0};

    (void)rlock__begin(client, call, &parker, NULL);
    rlock__wait(client, &parker);
    return call->code == 0 ? 0 : rlock__fail(call->code, "%s", rlock__call_detail(call));
}
