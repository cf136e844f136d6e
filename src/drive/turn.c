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

#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "multi/claim.h"

/* ---- Actions ---- */

/* Begins and gives up members' calls, those of one client in one event and one write. */
void rlock__turn_carry_out(struct rlock__group_step *step, struct rlock__watched *watched)
{
    struct rlock__action *actions = step->actions;

    for (size_t i = 0; i < step->n; i++) {
        struct rlock__core *core = actions[i].core;
        struct rlock_client *client;
        int64_t now;

        if (core == NULL) { /* with one before it */
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

void rlock__turn_ring(struct rlock__turn *turn)
{
    const uint64_t one = 1;

    if (turn == NULL || !turn->asleep) {
        return;
    }
    turn->asleep = false;
    if (rlock__turn_is_begun(turn)) {
        rlock__begun_due(&turn->begun, 0);
    } else {
        (void)!write(turn->fd, &one, sizeof(one));
    }
}

/* Wakes whoever takes the group's steps, if the next one is due earlier than that knows. Most
 * answers of members change nothing: what nobody awaits wakes nobody. */
RLOCK__REQUIRES(home) static void ring_if_due(struct rlock__turn *turn)
{
    if (turn->asleep && (rlock__group_next(turn->group) < turn->until || !turn->knows_servers)) {
        rlock__turn_ring(turn);
    }
}

/* A member's call is complete; call: NULL: its listener has heard something. */
RLOCK__REQUIRES(core)
static void on_member(struct rlock__member *member, struct rlock__call *call)
{
    struct rlock__group *group = member->group;
    struct rlock__action action = {0};
    bool acts = false;

    rlock__groups_lock(group->spec);
    if (call != NULL) {
        rlock__group_done(call, rlock__now_us());
    } else {
        rlock__group_heard(member, rlock__now_us());
    }
    if (group->waiter != NULL) {
        ring_if_due(group->waiter);
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
        rlock__turn_carry_out(&step, NULL);
        rlock__groups_lock(group->spec);
    }
}

void rlock__turn_hand_on(struct rlock__group *group, struct rlock_client *closing)
{
    struct rlock__turn *first = NULL;

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
        rlock__turn_ring(first);
    }
    group->users--;
}

void rlock__turn_settle(struct rlock__group *group, struct rlock_client *closing)
{
    if (group->busy > 0) {
        rlock__turn_ring(group->waiter);
        return;
    }
    group->busy = 1;
    group->users++;
    rlock__turn_hand_on(group, closing);
}

/* ---- Turns ---- */

/* Gets the turn, or gets in line. */
RLOCK__REQUIRES(home) static int enter(struct rlock__turn *turn)
{
    struct rlock__group *group = rlock__group_find(turn->spec, turn->owner);

    if (group != NULL) {
        group->users++;
    } else {
        group = rlock__group_new(turn->spec, turn->owner, finish, hear,
                                 &rlock__home_of(turn->spec)->home);
    }
    if (group == NULL) {
        if (rlock__turn_is_begun(turn)) {
            rlock__begun_remove(&turn->begun);
        }
        return turn->leaves ? rlock__fail(RLOCK_ENOTOWNER, "lock %s: not held", turn->spec->name.at)
                            : rlock__fail(RLOCK_ENOMEM, "lock %s: no memory", turn->spec->name.at);
    }
    if (!group->at_home) {
        rlock__group_move_in(group);
    }
    if (group->busy > 0) {
        DL_APPEND(group->line, turn);
    } else {
        group->busy = 1;
        turn->has_turn = true;
    }
    turn->group = group;
    if (rlock__turn_is_begun(turn)) {
        rlock__begun_due(&turn->begun, 0);
    }
    return 0;
}

int rlock__turn_begin(struct rlock__turn *turn)
{
    bool begun = rlock__turn_is_begun(turn);
    int code;

    turn->begun = (struct rlock__begun){
        .step = rlock__begun_step_turn, .op = rlock__op_of(turn), .cancel = turn->effort.cancel};
    turn->fd = begun ? -1 : rlock__bell_take(rlock__home_of(turn->spec));
    if (turn->fd < 0 && !begun) {
        return rlock__turn_refuse(turn, RLOCK_ERESOURCE, "no file descriptor to wait with");
    }
    rlock__groups_lock(turn->spec);
    if (begun && !rlock__begun_add(rlock__home_of(turn->spec), &turn->begun)) {
        rlock__groups_unlock(turn->spec);
        return rlock__turn_refuse(turn, RLOCK_ECLOSED, "the client is closed");
    }
    code = enter(turn);
    rlock__groups_unlock(turn->spec);
    if (code != 0 && !begun) {
        rlock__bell_give(rlock__home_of(turn->spec), turn->fd);
    }
    return code;
}

/* Leaves the line if there is a reason to. Whoever has the turn uses the group still. */
RLOCK__REQUIRES(home) static bool leaves_line(struct rlock__turn *turn, int64_t now)
{
    if (turn->stop == 0 && now < turn->deadline) {
        return false;
    }
    DL_DELETE(turn->group->line, turn);
    turn->group->users--;
    return true;
}

/* Most texts are empty. */
static void set_text(char ret_detail[static RLOCK__DETAIL_SIZE], const char *text)
{
    ret_detail[0] = '\0';
    if (text[0] != '\0') {
        (void)snprintf(ret_detail, RLOCK__DETAIL_SIZE, "%s", text);
    }
}

/* Keeps what the members said, for rlock_members(). */
RLOCK__REQUIRES(home) static void note_results(const struct rlock__turn *turn)
{
    for (size_t i = 0; i < turn->spec->n; i++) {
        const struct rlock__member *member = &turn->group->members[i];
        struct rlock__result *result = &turn->results[i];
        bool waits = member->state == RLOCK__MEMBER_TAKING;

        result->held = member->state == RLOCK__MEMBER_HELD;
        result->code = waits ? RLOCK_ETIMEDOUT : result->held ? 0 : member->code;
        set_text(result->detail, result->held      ? ""
                                 : member->running ? "no answer yet"
                                                   : member->texts.detail);
    }
}

/* Its effort is complete: notes what came of it, and gives the turn on. */
static void end(struct rlock__turn *turn)
{
    struct rlock__op *op = rlock__op_of(turn);
    struct rlock__group *group = turn->group;

    rlock__groups_lock(turn->spec);
    op->code = group->code;
    if (op->texts != NULL) {
        set_text(op->texts->detail, group->detail);
    }
    rlock__turn_blame_close(turn);
    if (op->code == 0 && !turn->leaves) {
        int64_t left = rlock__group_valid_until(group) - rlock__now_us();

        op->grant = (struct rlock_grant){.size = sizeof(op->grant),
                                         .lease_ms = group->lease_granted_us / RLOCK__MS,
                                         .valid_ms = rlock__max(0, left) / RLOCK__MS};
        turn->claim = turn->owner.given ? NULL : rlock__group_claim_ref(group->claim);
    }
    note_results(turn);
    rlock__turn_hand_on(group, NULL);
    rlock__groups_unlock_and_drop(group);
}

/* ---- Steps ---- */

RLOCK__REQUIRES(home) static void begin_effort(struct rlock__turn *turn, int64_t now)
{
    struct rlock__effort *effort = &turn->effort;

    turn->runs = true;
    if (turn->leaves) {
        rlock__group_leave(turn->group, now);
        return;
    }
    effort->wait_us = effort->wait_us > 0 ? rlock__max(turn->deadline - now, 1) : effort->wait_us;
    rlock__group_take(turn->group, effort, now);
}

/* The group's next step. */
RLOCK__REQUIRES(home)
static void step_group(struct rlock__turn *turn, struct rlock__group_step *ret_step, int64_t now)
{
    struct rlock__group *group = turn->group;

    if (!turn->runs) {
        begin_effort(turn, now);
    }
    if (turn->stop != 0) {
        rlock__group_cancel(group, turn->stop, now);
    }
    rlock__group_timer(group, now);
    turn->knows_servers = rlock__twins_refuse(group, now);
    rlock__group_step(group, now, ret_step);
    group->waiter = ret_step->complete ? NULL : turn;
}

/* Why it ends before its time; 0 it does not. */
RLOCK__REQUIRES(home) static int stop_of(struct rlock__turn *turn)
{
    if (turn->canceled || (turn->cancel != NULL && atomic_load(&turn->cancel->fired))) {
        return RLOCK_ECANCELED;
    }
    return rlock__turn_is_begun(turn) && rlock__home_of(turn->spec)->begun_closed ? RLOCK_ECLOSED
                                                                                  : 0;
}

/* Before an effort begins: what the one before left to come late may be there by now. Then it need
 * not be given up, or waited for. */
static void read_late(const struct rlock__turn *turn)
{
    struct rlock_client *clients[RLOCK__MEMBERS_MAX];
    size_t n = 0;

    rlock__groups_lock(turn->spec);
    if (turn->has_turn) {
        RLOCK__EACH_MEMBER(member, turn->group) {
            clients[n] = rlock__client_of(member->spec->core);
            n += member->running && member->call.awaited != NULL;
        }
    }
    rlock__groups_unlock(turn->spec);
    while (n > 0) {
        (void)rlock__drive_read(clients[--n], NULL);
    }
}

/* Until when it may rest is known: 0 it may not. */
RLOCK__REQUIRES(home) static void rest(struct rlock__turn *turn, int64_t until)
{
    turn->asleep = until != 0;
    turn->until = until;
    if (rlock__turn_is_begun(turn)) {
        rlock__begun_due(&turn->begun, until);
    }
}

int64_t rlock__turn_step(struct rlock__turn *turn, struct rlock__watched *watched)
{
    struct rlock__group_step step = {.complete = false};
    int64_t until, now;

    if (!turn->runs && turn->spec->ops->counts_alone) {
        read_late(turn);
    }
    rlock__groups_lock(turn->spec);
    if (turn->group == NULL) {
        /* rung while its group moves in: it has a step when that is done */
        rest(turn, RLOCK__NEVER);
        rlock__groups_unlock(turn->spec);
        return RLOCK__NEVER;
    }
    now = rlock__now_us();
    turn->stop = stop_of(turn);
    if (turn->has_turn) {
        step_group(turn, &step, now);
        until = step.n == 0 ? step.timer_at : 0;
    } else {
        step.complete = leaves_line(turn, now);
        until = turn->deadline;
    }
    if (!step.complete) {
        rest(turn, until);
    }
    rlock__groups_unlock(turn->spec);
    rlock__group_report(turn->spec, step.loss, NULL);
    rlock__turn_carry_out(&step, watched);
    if (step.complete && turn->runs) {
        end(turn);
    } else if (step.complete) {
        rlock__turn_end_in_line(turn);
    }
    return step.complete ? RLOCK__OVER : until;
}
