/* SPDX-License-Identifier: Apache-2.0 */
/* A thread waits for its turn on a group, and in it: it takes its steps, and keeps watch meanwhile
 * over those clients of its members that nobody watches. */
#include <poll.h>

#include "base/clock.h"
#include "drive/group_op.h"

/* It takes a step next, in any case: what is read until then, by this thread or another one, need
 * not ring it. */
static void wake_up(struct rlock__group_op *group_op)
{
    rlock__groups_lock(group_op->spec);
    group_op->asleep = false;
    rlock__groups_unlock(group_op->spec);
}

/* Sleeps until the group or a watched client has something to do. */
static void sleep_once(struct rlock__group_op *group_op, struct rlock__watched *watched,
                       int64_t until)
{
    struct pollfd fds[2 * RLOCK__MEMBERS_MAX + 2];
    int64_t untils[RLOCK__MEMBERS_MAX];
    uint64_t rings;

    for (size_t i = 0; i < watched->n; i++) {
        untils[i] = rlock__lead_plan(watched->clients[i], &fds[2 + 2 * i]);
        until = rlock__min(until, untils[i]);
    }
    fds[0] = (struct pollfd){.fd = group_op->fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = -1, .events = POLLIN};
    if (group_op->cancel != NULL && group_op->stop == 0) { /* otherwise the group knows about it */
        fds[1].fd = atomic_load(&group_op->cancel->fd);
    }
    /* who rang since the step has made the descriptor readable */
    (void)poll(fds, 2 + 2 * watched->n, rlock__timeout_ms(until, rlock__now_us()));
    if ((fds[0].revents & POLLIN) != 0) {
        (void)!read(group_op->fd, &rings, sizeof(rings));
    }
    wake_up(group_op);
    for (size_t i = 0; i < watched->n; i++) {
        rlock__lead_react(watched->clients[i], &fds[2 + 2 * i], untils[i], NULL);
    }
}

void rlock__group_op_wait(struct rlock__group_op *group_op)
{
    struct rlock__watched watched = {0};
    int64_t until;

    while ((until = rlock__group_op_step(group_op, &watched)) != RLOCK__OVER) {
        if (until != 0) {
            sleep_once(group_op, &watched, until);
        }
    }
    while (watched.n > 0) {
        struct rlock_client *client = watched.clients[--watched.n];

        rlock__enter(client);
        rlock__watch_end(&client->watch, &watched.waiter);
        rlock__leave(client);
    }
    rlock__wakeup_fd_give(rlock__home_of(group_op->spec), group_op->fd);
}
