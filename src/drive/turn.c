/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the groups of multi-locks and RedLocks. The calling thread begins its members' calls in
 * their clients, keeps watch over all of those that nobody watches, and carries out the group's
 * actions; who completes a member's call, in whichever thread, tells the group under its home's
 * mutex, with or without one client's mutex held.
 *
 * A call that completes when nobody drives its group any more is settled on the spot: what it
 * needs then, its own release or its seal, concerns its own client alone.
 */
#include "drive/turn.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <utlist.h>

#include "base/clock.h"

/* A thread that drives a group, or waits for that. */
struct rlock__waiter {
    struct rlock__waiter *prev, *next; /* in the group's line */
    int fd;                            /* rings when its group has changed while it sleeps */
    RLOCK__GUARDED_BY(home) bool has_turn, asleep;
    size_t n_kept;
    struct rlock_client *kept[RLOCK__MEMBERS_MAX]; /* those it keeps watch over */
    struct rlock__parker parker;
};

/* ---- Actions ---- */

/* Begins and gives up members' calls, those of one client in one event and one write; waiter (NULL
 * none) keeps watch where nobody does. */
static void carry_out(struct rlock__group_step *step, struct rlock__waiter *waiter)
{
    struct rlock__action *actions = step->actions;

    for (size_t i = 0; i < step->n; i++) {
        struct rlock__core *core = actions[i].core;
        struct rlock_client *client;

        if (core == NULL) { /* with one before it */
            continue;
        }
        client = rlock__client_of(core);
        rlock__enter(client);
        if (waiter != NULL && rlock__watch_begin(client, &waiter->parker)) {
            waiter->kept[waiter->n_kept++] = client;
        }
        for (size_t k = i; k < step->n; k++) {
            if (actions[k].core == core) {
                rlock__action_carry_out(&actions[k], rlock__now_us());
                actions[k].core = NULL;
            }
        }
        rlock__leave(client);
        rlock__drive(client);
    }
}

/* The thread has something to do. */
RLOCK__REQUIRES(home) static void ring(struct rlock__waiter *waiter)
{
    const uint64_t one = 1;

    if (waiter != NULL && waiter->asleep) {
        waiter->asleep = false;
        (void)!write(waiter->fd, &one, sizeof(one));
    }
}

/* A member's call is complete, or its channel spoke. */
RLOCK__REQUIRES(core) static void finish(struct rlock__call *call)
{
    struct rlock__member *member = call->payload;
    struct rlock__group *group = member->group;
    struct rlock__action action = {0};
    bool acts = false;

    rlock__groups_lock(group->spec);
    rlock__group_done(call, rlock__now_us());
    ring(group->waiter);
    if (group->waiter == NULL) {
        acts = rlock__action_take(member, &action);
    }
    if (!acts) {
        rlock__groups_unlock_and_drop(group);
        return;
    }
    group->users++;
    rlock__groups_unlock(group->spec);
    rlock__action_carry_out(&action, rlock__now_us());
    rlock__groups_lock(group->spec);
    group->users--;
    rlock__groups_unlock_and_drop(group);
}

/* ---- Driving ---- */

/* Sleeps until the group or a watched client has something to do. cancel: NULL none, or the group
 * knows that it was fired. */
static void sleep_once(struct rlock__waiter *waiter, const struct rlock__group_spec *spec,
                       int64_t until, const struct rlock_cancel *cancel)
{
    struct pollfd fds[2 * RLOCK__MEMBERS_MAX + 2];
    int64_t untils[RLOCK__MEMBERS_MAX];
    bool asleep;
    uint64_t rings;

    for (size_t i = 0; i < waiter->n_kept; i++) {
        untils[i] = rlock__watch_plan(waiter->kept[i], &fds[2 + 2 * i]);
        until = rlock__min(until, untils[i]);
    }
    fds[0] = (struct pollfd){.fd = waiter->fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = -1, .events = POLLIN};
    if (cancel != NULL) {
        fds[1].fd = rlock__cancel_fd(cancel);
    }
    rlock__groups_lock(spec);
    asleep = waiter->asleep;
    rlock__groups_unlock(spec);
    if (asleep) {
        (void)poll(fds, 2 + 2 * waiter->n_kept, rlock__timeout_ms(until, rlock__now_us()));
    }
    if ((fds[0].revents & POLLIN) != 0) {
        (void)!read(waiter->fd, &rings, sizeof(rings));
    }
    for (size_t i = 0; i < waiter->n_kept; i++) {
        rlock__watch_react(waiter->kept[i], &fds[2 + 2 * i], untils[i], NULL);
    }
}

void rlock__turn_drive(struct rlock__group *group, const struct rlock__turn *turn)
{
    struct rlock__waiter all = {.fd = turn->fd}, *waiter = &all;
    struct rlock__group_step step = {.complete = false};
    bool fired;

    while (!step.complete) {
        rlock__groups_lock(group->spec);
        fired = turn->cancel != NULL && rlock__cancel_is_fired(turn->cancel);
        if (fired) {
            rlock__group_cancel(group, rlock__now_us());
        }
        rlock__group_timer(group, rlock__now_us());
        rlock__twins_refuse(group, rlock__now_us());
        rlock__group_step(group, rlock__now_us(), &step);
        group->waiter = step.complete ? NULL : waiter;
        waiter->asleep = !step.complete && step.n == 0;
        rlock__groups_unlock(group->spec);
        rlock__group_report(group->spec, step.loss, NULL);
        carry_out(&step, waiter);
        if (!step.complete && step.n == 0) {
            sleep_once(waiter, group->spec, step.timer_at, fired ? NULL : turn->cancel);
        }
    }
    while (waiter->n_kept > 0) {
        struct rlock_client *client = waiter->kept[--waiter->n_kept];

        rlock__enter(client);
        rlock__watch_end(client, &waiter->parker);
        rlock__leave(client);
    }
}

/* ---- Turns ---- */

/* Gives the turn to the next thread that waits for it. */
RLOCK__REQUIRES(home) static void give(struct rlock__group *group)
{
    struct rlock__waiter *first = group->line;

    group->busy = first != NULL;
    if (first != NULL) {
        DL_DELETE(group->line, first);
        first->has_turn = true;
        ring(first);
    }
}

/* Waits until the group is this thread's turn: another one's effort on the same owner's hold is
 * under way. */
RLOCK__REQUIRES(home)
static int wait_for_turn(struct rlock__group *group, const struct rlock__turn *turn)
{
    struct rlock__waiter me = {.fd = turn->fd}, *waiter = &me;
    bool cancelled = false, late = false;

    DL_APPEND(group->line, waiter);
    while (!waiter->has_turn && !cancelled && !late) {
        waiter->asleep = true;
        rlock__groups_unlock(group->spec);
        cancelled = turn->cancel != NULL && rlock__cancel_is_fired(turn->cancel);
        late = rlock__now_us() >= turn->deadline;
        if (!cancelled && !late) {
            sleep_once(waiter, group->spec, turn->deadline, turn->cancel);
        }
        rlock__groups_lock(group->spec);
    }
    if (waiter->has_turn) {
        return 0;
    }
    DL_DELETE(group->line, waiter);
    return cancelled ? RLOCK_ECANCELED : RLOCK_ETIMEDOUT;
}

/* A group whose turn is the calling thread's. */
RLOCK__REQUIRES(home) static struct rlock__group *begin_new(const struct rlock__turn *turn)
{
    struct rlock__group *group =
        rlock__group_new(turn->spec, turn->owner, finish, &rlock__home_of(turn->spec)->home.random);

    if (group != NULL) {
        group->users = 1;
        group->busy = true;
        rlock__group_move_in(group);
    }
    return group;
}

int rlock__turn_begin(const struct rlock__turn *turn, struct rlock__group **ret_group)
{
    struct rlock__group *group = rlock__group_find(turn->spec, turn->owner);
    int code = 0;

    if (group == NULL) {
        *ret_group = begin_new(turn);
        return *ret_group != NULL ? 0 : RLOCK_ENOMEM;
    }
    group->users++;
    if (group->busy) {
        code = wait_for_turn(group, turn);
    }
    if (code != 0) { /* whoever has the turn uses it still */
        group->users--;
        return code;
    }
    group->busy = true;
    *ret_group = group;
    return 0;
}

/* Takes steps with what came since it was last driven, or by the loss of a member, until there is
 * nothing more: who came meanwhile left it to this thread, which has the group's turn. */
RLOCK__REQUIRES(home) static void drain(struct rlock__group *group, struct rlock_client *closing)
{
    struct rlock__group_step step;

    for (;;) {
        rlock__group_step(group, rlock__now_us(), &step);
        if (step.n == 0 && step.loss == NULL) {
            return;
        }
        rlock__groups_unlock(group->spec);
        rlock__group_report(group->spec, step.loss, closing);
        carry_out(&step, NULL);
        rlock__groups_lock(group->spec);
    }
}

void rlock__turn_end(struct rlock__group *group)
{
    drain(group, NULL);
    give(group);
    group->users--;
    rlock__groups_unlock_and_drop(group);
}

/* ---- Losses ---- */

void rlock__turn_settle(struct rlock__group *group, struct rlock_client *closing)
{
    if (group->busy) {
        ring(group->waiter);
        return;
    }
    group->busy = true;
    group->users++;
    drain(group, closing);
    give(group);
    group->users--;
}
