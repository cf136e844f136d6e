/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the groups of multi-locks and RedLocks. The calling thread begins its members' calls in
 * their clients, carries out the group's actions, and keeps watch over the clients that nobody
 * watches. A thread that completes a member's call reports it to the group, under the mutex of the
 * group's home. If no operation drives the group then, that thread carries out the member's action.
 */
#include "drive/group_op.h"

#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "multi/view.h"

#define LOOK_AGAIN_US (500 * RLOCK__MS) /* for servers that were not known yet */

/* ---- Actions ---- */

/* Begins and gives up members' calls, those of one client in one event and one write. */
void rlock__group_op_carry_out(struct rlock__group_step *step, struct rlock__watched *watched)
{
    struct rlock__action *actions = step->actions;

    for (size_t i = 0; i < step->n; i++) {
        struct rlock__core *core = actions[i].core;
        struct rlock_client *client;
        int64_t now;

        if (core == NULL) { /* done together with an earlier one */
            continue;
        }
        client = rlock__client_of(core);
        rlock__enter(client);
        if (watched != NULL && rlock__lead_begin(client, &watched->waiter)) {
            watched->clients[watched->n++] = client;
        }
        now = rlock__now_us();
        for (size_t k = i; k < step->n; k++) {
            if (actions[k].core == core) {
                rlock__action_carry_out(&actions[k], now);
                actions[k].core = NULL;
            }
        }
        rlock__leave_and_drive(client);
    }
}

void rlock__group_op_notify(struct rlock__group_op *group_op)
{
    const uint64_t one = 1;

    if (group_op == NULL || !group_op->asleep) {
        return;
    }
    group_op->asleep = false;
    if (rlock__group_op_is_background(group_op)) {
        rlock__background_due(&group_op->background, 0);
    } else {
        (void)!write(group_op->fd, &one, sizeof(one));
    }
}

/* Wakes the thread that runs the group's steps, if the next step is due before it wakes up. */
RLOCK__REQUIRES(groups) static void notify_if_due(struct rlock__group_op *group_op)
{
    if (group_op->asleep && rlock__group_next(group_op->group) < group_op->until) {
        rlock__group_op_notify(group_op);
    }
}

/* A member has answered, so its server is known. The answer may complete the effort, before the
 * operation takes its next step. */
RLOCK__REQUIRES(groups) static void check_servers(struct rlock__group *group, int64_t now)
{
    struct rlock__group_op *group_op = group->waiter;

    if (group_op != NULL && !group_op->knows_servers) {
        group_op->knows_servers = rlock__twins_refuse(group, now);
    }
}

/* A member's call is complete; call: NULL: its listener has heard something. */
RLOCK__REQUIRES(core)
static void on_member(struct rlock__member *member, struct rlock__call *call)
{
    struct rlock__group *group = member->group;
    struct rlock__action action = {0};
    bool acts = false;
    int64_t now;

    rlock__groups_lock(group->spec);
    now = rlock__now_us();
    if (call != NULL) {
        check_servers(group, now);
        rlock__group_done(call, now);
    } else {
        rlock__group_on_message(member, now);
    }
    if (group->waiter != NULL) {
        notify_if_due(group->waiter);
    } else {
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

RLOCK__REQUIRES(core) static void finish(struct rlock__call *call)
{
    on_member(call->payload, call);
}

RLOCK__REQUIRES(core) static void hear(struct rlock__listener *listener)
{
    on_member(RLOCK__OF(struct rlock__member, listener, listener), NULL);
}

/* Runs the group's state machine until it is idle. Threads that changed the group meanwhile left
 * the work to this one, because it has the group's turn. */
RLOCK__REQUIRES(groups) static void drain(struct rlock__group *group, struct rlock_client *closing)
{
    struct rlock__group_step step;

    for (;;) {
        rlock__group_step(group, rlock__now_us(), &step);
        if (step.n == 0 && step.loss == NULL) {
            return;
        }
        rlock__groups_unlock(group->spec);
        rlock__group_report(group->spec, step.loss, closing);
        rlock__group_op_carry_out(&step, NULL);
        rlock__groups_lock(group->spec);
    }
}

void rlock__group_op_hand_on(struct rlock__group *group, struct rlock_client *closing)
{
    struct rlock__group_op *first = NULL;

    if (group->is_ended) { /* the effort may have succeeded before it was canceled */
        rlock__group_owner_end(group);
    }
    if (group->busy == 1) {
        drain(group, closing);
    }
    group->busy--; /* not the last one: somebody came meanwhile */
    if (group->busy == 0) {
        first = group->line;
    }
    if (first != NULL) {
        DL_DELETE(group->line, first);
        group->busy = 1;
        first->has_turn = true;
        rlock__group_op_notify(first);
    }
    group->users--;
}

void rlock__group_cleanup(struct rlock__group *group, struct rlock_client *closing)
{
    if (group->busy > 0) {
        rlock__group_op_notify(group->waiter);
        return;
    }
    group->busy = 1;
    group->users++;
    rlock__group_op_hand_on(group, closing);
}

/* ---- Turns ---- */

/* Takes the turn, or a place in the line. */
RLOCK__REQUIRES(groups) static int enter(struct rlock__group_op *group_op)
{
    struct rlock__group *group = rlock__group_find(group_op->spec, group_op->owner);

    if (group != NULL) {
        group->users++;
    } else {
        group = rlock__group_new(group_op->spec, group_op->owner, finish, hear,
                                 &rlock__home_of(group_op->spec)->groups);
    }
    if (group == NULL) {
        if (rlock__group_op_is_background(group_op)) {
            rlock__background_remove(&group_op->background);
        }
        return group_op->leaves
                   ? rlock__fail(RLOCK_ENOTOWNER, "lock %s: not held", group_op->spec->name.at)
                   : rlock__fail(RLOCK_ENOMEM, "lock %s: no memory", group_op->spec->name.at);
    }
    if (!group->at_home) {
        rlock__group_move_in(group);
    }
    if (group->busy > 0) {
        DL_APPEND(group->line, group_op);
    } else {
        group->busy = 1;
        group_op->has_turn = true;
    }
    group_op->group = group;
    if (rlock__group_op_is_background(group_op)) {
        rlock__background_due(&group_op->background, 0);
    }
    return 0;
}

int rlock__group_op_begin(struct rlock__group_op *group_op)
{
    struct rlock_client *home = rlock__home_of(group_op->spec);
    bool background = rlock__group_op_is_background(group_op);
    int code;

    group_op->background = (struct rlock__background){.step = rlock__background_step_group_op,
                                                      .op = rlock__op_of(group_op),
                                                      .cancel = group_op->effort.cancel};
    group_op->fd = background ? -1 : rlock__wakeup_fd_take(home);
    if (group_op->fd < 0 && !background) {
        return rlock__group_op_refuse(group_op, RLOCK_ERESOURCE, "no file descriptor to wait with");
    }
    rlock__groups_lock(group_op->spec);
    if (background && !rlock__background_add(home, &group_op->background)) {
        rlock__groups_unlock(group_op->spec);
        return rlock__group_op_refuse(group_op, RLOCK_ECLOSED, "the client is closed");
    }
    code = enter(group_op);
    rlock__groups_unlock(group_op->spec);
    if (code != 0 && !background) {
        rlock__wakeup_fd_give(rlock__home_of(group_op->spec), group_op->fd);
    }
    return code;
}

/* Leaves the line if there is a reason to. The operation that has the turn uses the group still. */
RLOCK__REQUIRES(groups) static bool leaves_line(struct rlock__group_op *group_op, int64_t now)
{
    if (group_op->stop == 0 && now < group_op->deadline) {
        return false;
    }
    DL_DELETE(group_op->group->line, group_op);
    group_op->group->users--;
    return true;
}

/* Its effort is complete: notes the results, and gives the turn to the next one. */
static void end(struct rlock__group_op *group_op)
{
    struct rlock__op *op = rlock__op_of(group_op);
    struct rlock__group *group = group_op->group;

    rlock__groups_lock(group_op->spec);
    op->code = group->code;
    if (op->texts != NULL && op->code != 0) {
        *op->texts = group->texts;
    }
    rlock__group_op_blame_close(group_op);
    if (op->code == 0 && !group_op->leaves) {
        (void)rlock__group_standing(group, &op->standing);
        group_op->view = group_op->owner.given ? NULL : rlock__group_view_ref(group->view);
    }
    rlock__group_op_note(group_op);
    rlock__group_op_hand_on(group, NULL);
    rlock__groups_unlock_and_drop(group);
    rlock__group_op_count(group_op);
}

/* ---- Steps ---- */

RLOCK__REQUIRES(groups) static void begin_effort(struct rlock__group_op *group_op, int64_t now)
{
    struct rlock__effort *effort = &group_op->effort;

    group_op->runs = true;
    group_op->group->effort.requests = 0;
    group_op->group->effort.server_us = 0;
    if (group_op->leaves) {
        rlock__group_leave(group_op->group, now);
    } else if (group_op->extends) {
        rlock__group_extend(group_op->group, effort, now);
    } else {
        effort->wait_us =
            effort->wait_us > 0 ? rlock__max(group_op->deadline - now, 1) : effort->wait_us;
        rlock__group_take(group_op->group, effort, now);
    }
}

/* The group's next step. */
RLOCK__REQUIRES(groups)
static void step_group(struct rlock__group_op *group_op, struct rlock__group_step *ret_step,
                       int64_t now)
{
    struct rlock__group *group = group_op->group;

    if (!group_op->runs) {
        begin_effort(group_op, now);
    }
    if (group_op->stop != 0) {
        rlock__group_cancel(group, group_op->stop, now);
    }
    rlock__group_timer(group, now);
    group_op->knows_servers = rlock__twins_refuse(group, now);
    rlock__group_step(group, now, ret_step);
    group->waiter = ret_step->complete ? NULL : group_op;
}

/* Why it has to end early; 0: it need not. */
RLOCK__REQUIRES(groups) static int stop_of(struct rlock__group_op *group_op)
{
    bool is_background;

    if (group_op->canceled || (group_op->cancel != NULL && atomic_load(&group_op->cancel->fired))) {
        return RLOCK_ECANCELED;
    }
    is_background = rlock__group_op_is_background(group_op);
    return is_background && rlock__home_of(group_op->spec)->background_closed ? RLOCK_ECLOSED : 0;
}

/* Before an effort: reads late answers to an earlier one, so that nothing waits for them. */
static void read_late(const struct rlock__group_op *group_op)
{
    struct rlock_client *clients[RLOCK__MEMBERS_MAX];
    size_t n = 0;

    rlock__groups_lock(group_op->spec);
    if (group_op->has_turn) {
        RLOCK__EACH_MEMBER(member, group_op->group) {
            clients[n] = rlock__client_of(member->spec->core);
            n += member->running && member->call.awaited != NULL;
        }
    }
    rlock__groups_unlock(group_op->spec);
    while (n > 0) {
        (void)rlock__drive_read(clients[--n], NULL);
    }
}

/* Sleeps until then, unless somebody has notified it; 0: a step is due at once. */
RLOCK__REQUIRES(groups) static void rest(struct rlock__group_op *group_op, int64_t until)
{
    group_op->asleep = until != 0;
    group_op->until = until;
    if (rlock__group_op_is_background(group_op)) {
        rlock__background_due(&group_op->background, until);
    }
}

int64_t rlock__group_op_step(struct rlock__group_op *group_op, struct rlock__watched *watched)
{
    struct rlock__group_step step = {.complete = false};
    int64_t until, now;

    if (!group_op->runs && group_op->spec->ops->counts_alone) {
        read_late(group_op);
    }
    rlock__groups_lock(group_op->spec);
    if (group_op->group == NULL) {
        /* notified while its group moves in: it has a step when that is done */
        rest(group_op, RLOCK__NEVER);
        rlock__groups_unlock(group_op->spec);
        return RLOCK__NEVER;
    }
    now = rlock__now_us();
    group_op->stop = stop_of(group_op);
    if (group_op->has_turn) {
        step_group(group_op, &step, now);
        until = step.n == 0 ? step.timer_at : 0;
        /* A member's call may wait for the hold of another member, and nobody answers. */
        if (!group_op->knows_servers) {
            until = rlock__min(until, now + LOOK_AGAIN_US);
        }
    } else {
        step.complete = leaves_line(group_op, now);
        until = group_op->deadline;
    }
    if (!step.complete) {
        rest(group_op, until);
    }
    rlock__groups_unlock(group_op->spec);
    rlock__group_report(group_op->spec, step.loss, NULL);
    rlock__group_op_carry_out(&step, watched);
    if (step.complete && group_op->runs) {
        end(group_op);
    } else if (step.complete) {
        rlock__group_op_end_in_line(group_op);
    }
    return step.complete ? RLOCK__OVER : until;
}
