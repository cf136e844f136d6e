/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group's life: its owner takes and leaves it level by level, or loses it. Calls that still run
 * after an effort has ended are tidied up as they complete.
 */
#include "multi/group.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "multi/check.h"
#include "multi/groups.h"
#include "multi/internal.h"
#include "multi/view.h"

#define LATE_US (10 * RLOCK__MS) /* the group waits so long beyond a call's last time */

/* ---- Groups ---- */

struct rlock__group *rlock__group_new(struct rlock__group_spec *spec, struct rlock__owner owner,
                                      void (*finish)(struct rlock__call *call),
                                      void (*notify)(struct rlock__listener *listener),
                                      struct rlock__groups *all)
{
    struct rlock__group *group = calloc(1, sizeof(*group) + spec->n * sizeof(struct rlock__member));

    if (group == NULL) {
        return NULL;
    }
    group->spec = rlock__group_spec_ref(spec);
    group->owner = owner;
    group->finish = finish;
    group->notify = notify;
    group->all = all;
    group->timer_at = RLOCK__NEVER;
    for (size_t i = 0; i < spec->n; i++) {
        group->members[i].group = group;
        group->members[i].spec = spec->members[i];
    }
    return group;
}

void rlock__group_free(struct rlock__group *group)
{
    RLOCK__EACH_MEMBER(member, group) {
        (void)rlock__view_unref(member->view);
        rlock__member_forget_doubt(member);
    }
    (void)rlock__loss_free(group->loss);
    (void)rlock__group_view_unref(group->view);
    (void)rlock__group_spec_unref(group->spec);
    free(group->batch);
    free(group);
}

/* ---- Events ---- */

void rlock__group_await(struct rlock__group *group)
{
    atomic_store(&group->awaited, true);
    RLOCK__EACH_MEMBER(member, group) {
        member->todo.attend = member->running;
    }
}

void rlock__group_take(struct rlock__group *group, const struct rlock__effort *effort, int64_t now)
{
    int64_t wait = effort->wait_us == 0 ? effort->op_timeout_us : effort->wait_us;
    struct rlock__group_spec *spec = group->spec;

    assert(group->phase == RLOCK__GROUP_IDLE && group->owed == 0);
    rlock__group_await(group);
    group->effort = *effort;
    rlock__group_prepare_loss(group);
    if (spec->together && group->batch == NULL) {
        group->batch = calloc(1, sizeof(*group->batch) + spec->n * sizeof(struct rlock__call *));
    }
    if (group->count == 0) { /* a thread may still read the view before */
        (void)rlock__group_view_unref(group->view);
        group->view = rlock__group_view_new(spec);
    }
    group->code = 0;
    rlock__texts_clear(&group->texts);
    group->rounds = 0;
    group->first = NULL;
    group->behind_first = false;
    group->apart = group->batch == NULL;
    group->deadline = effort->wait_us < 0 ? RLOCK__NEVER : rlock__later(now, wait);
    if (group->loss == NULL || group->view == NULL || (spec->together && group->batch == NULL)) {
        rlock__effort_end(group, RLOCK_ENOMEM);
        return;
    }
    group->timer_at = rlock__later(rlock__group_last(group), LATE_US);
    RLOCK__EACH_MEMBER(member, group) {
        member->tried = false;
        member->answer = RLOCK__MEMBER_UNANSWERED;
        if (!member->running && (group->count == 0 || member->levels > 0)) {
            rlock__member_forget_doubt(member);
        }
    }
    rlock__group_member_lost(group, RLOCK_LOST_EXPIRED, now);
    if (group->lost) {
        rlock__effort_end(group, RLOCK_ELOST);
        return;
    }
    rlock__effort_phase(group, RLOCK__GROUP_TAKING);
    if (group->count > 0) {
        spec->ops->nest(group, now);
    } else {
        spec->ops->take(group, now);
    }
}

/* Ends an unlock once its members have been left, or when it is too late to wait for them. */
static void check_left(struct rlock__group *group, bool late, int64_t now)
{
    int code = 0;
    bool left = group->spec->ops->left(group, &code);

    if ((left && code == RLOCK_EINDOUBT) || (!left && late)) {
        rlock__effort_end_in_doubt(group, now);
    } else if (left) {
        rlock__effort_end(group, code);
    }
}

void rlock__group_leave(struct rlock__group *group, int64_t now)
{
    bool lost;

    assert(group->phase == RLOCK__GROUP_IDLE && group->owed == 0);
    rlock__group_await(group);
    rlock__texts_clear(&group->texts);
    if (group->count == 0) {
        rlock__effort_end(group, RLOCK_ENOTOWNER);
        return;
    }
    rlock__group_member_lost(group, RLOCK_LOST_EXPIRED, now);
    lost = group->lost;
    rlock__group_drop(group, 1);
    if (lost) {
        rlock__effort_end(group, RLOCK_ELOST); /* and gives back what is still held */
        return;
    }
    rlock__effort_phase(group, RLOCK__GROUP_LEAVING);
    if (group->count > 0 && group->spec->ops->counts_alone) {
        rlock__effort_end(group, 0);
        return;
    }
    group->timer_at = now + group->effort.op_timeout_us + LATE_US;
    rlock__group_shed(group);
    check_left(group, false, now);
}

void rlock__group_on_message(struct rlock__member *member, int64_t now)
{
    member->spoke = true;
    if (member->listener.is_over) {
        member->listening = false;
    } else if (member->group->phase == RLOCK__GROUP_PAUSING) {
        member->group->spec->ops->on_message(member->group, now);
    }
}

void rlock__group_done(struct rlock__call *call, int64_t now)
{
    struct rlock__member *member = call->payload;
    struct rlock__group *group = member->group;

    group->effort.server_us = rlock__max(group->effort.server_us, rlock__call_server_us(call, now));
    rlock__member_done(member);
    rlock__group_view_show(group); /* a late member may join the hold */
    if ((group->phase != RLOCK__GROUP_TAKING && group->phase != RLOCK__GROUP_EXTENDING) ||
        !member->tried) {
        rlock__member_tidy(member); /* no effort needs the call any more */
    }
    switch (group->phase) {
    case RLOCK__GROUP_TAKING:
        group->spec->ops->moved(group, member, now);
        break;
    case RLOCK__GROUP_BACKING_OUT:
        if (rlock__effort_is_back(group, now)) {
            rlock__effort_backed_out(group, now);
        }
        break;
    case RLOCK__GROUP_LEAVING:
        check_left(group, false, now);
        break;
    case RLOCK__GROUP_EXTENDING:
        rlock__extension_moved(group, member, now);
        break;
    case RLOCK__GROUP_PAUSING: /* the back-out did not wait for this member */
        rlock__group_listen(group, now);
        break;
    case RLOCK__GROUP_IDLE:
        break;
    }
}

/* When the group's timer fires, given its members' answers so far. */
static int64_t due_at(const struct rlock__group *group)
{
    if (group->phase == RLOCK__GROUP_TAKING && group->spec->ops->patience != NULL) {
        return rlock__min(group->spec->ops->patience(group),
                          rlock__later(rlock__group_last(group), LATE_US));
    }
    return group->timer_at;
}

int64_t rlock__group_next(const struct rlock__group *group)
{
    if (group->phase == RLOCK__GROUP_IDLE || group->untold != NULL) {
        return 0;
    }
    RLOCK__EACH_MEMBER(member, group) {
        if (rlock__todo_is_any(&member->todo)) {
            return 0;
        }
    }
    return due_at(group);
}

void rlock__group_timer(struct rlock__group *group, int64_t now)
{
    group->timer_at = due_at(group);
    if (now < group->timer_at) {
        return;
    }
    group->timer_at = RLOCK__NEVER;
    if (group->phase == RLOCK__GROUP_LEAVING) {
        check_left(group, true, now);
    } else if (group->phase == RLOCK__GROUP_EXTENDING) {
        rlock__extension_late(group);
    } else if (group->phase == RLOCK__GROUP_TAKING) {
        rlock__group_back_out(group, group->spec->ops->verdict(group, true), now);
    } else if (group->phase == RLOCK__GROUP_PAUSING) {
        rlock__effort_phase(group, RLOCK__GROUP_TAKING);
        rlock__texts_clear(&group->texts); /* the text is from the round before */
        group->timer_at = rlock__later(rlock__group_last(group), LATE_US);
        RLOCK__EACH_MEMBER(member, group) {
            member->tried = false;
        }
        group->spec->ops->take(group, now);
    } else if (group->phase == RLOCK__GROUP_BACKING_OUT) {
        rlock__effort_backed_out(group, now);
    }
}

void rlock__group_step(struct rlock__group *group, int64_t now, struct rlock__group_step *ret_step)
{
    rlock__group_timer(group, now);
    rlock__group_check(group);
    ret_step->n = 0;
    RLOCK__EACH_MEMBER(member, group) {
        ret_step->n += rlock__action_take(member, &ret_step->actions[ret_step->n]);
    }
    ret_step->loss = group->untold;
    group->untold = NULL;
    ret_step->timer_at = group->timer_at;
    ret_step->complete = group->phase == RLOCK__GROUP_IDLE;
}

void rlock__group_cancel(struct rlock__group *group, int code, int64_t now)
{
    if (group->phase == RLOCK__GROUP_TAKING) { /* its members' calls may not have begun yet */
        rlock__group_back_out(group, code, now);
    } else if (group->phase == RLOCK__GROUP_PAUSING) {
        group->code = code;
        rlock__texts_clear(&group->texts);
        rlock__effort_end_untaken(group, now);
    } else if (group->phase == RLOCK__GROUP_BACKING_OUT) { /* no further round, and no long wait */
        group->code = code;
        rlock__texts_clear(&group->texts);
        group->timer_at = rlock__min(group->timer_at, now + RLOCK__GRACE_US);
    } else if (group->phase == RLOCK__GROUP_EXTENDING) { /* its members' calls end by themselves */
        rlock__effort_end(group, code);
    }
}

/* ---- Levels that are owed ---- */

/* The owner has given up all levels: ends the renewal of the members. */
static void end_renewal(struct rlock__group *group, struct rlock__group_step *ret_step)
{
    RLOCK__EACH_MEMBER(member, group) {
        if (!member->rests && member->renewed_from != 0 &&
            member->renewed_from <= rlock__member_staying(member)) {
            member->rests = true;
            ret_step->actions[ret_step->n++] = (struct rlock__action){
                .core = member->spec->core, .member = member, .todo = {.end_renewal = true}};
        }
    }
}

/* When the members' leases have ended at the latest. The effort in progress may ask for a lease
 * until it ends. */
static int64_t free_by(const struct rlock__group *group, int64_t now)
{
    const struct rlock__effort *effort = &group->effort;
    int64_t lease = effort->lease_us != 0 ? effort->lease_us : effort->renewed_lease_us;

    lease = rlock__max(lease, group->lease_granted_us);
    RLOCK__EACH_MEMBER(member, group) {
        if (member->view != NULL) {
            lease = rlock__max(lease, atomic_load(&member->view->valid_until) - now);
        }
    }
    return rlock__free_by(now + effort->op_timeout_us, lease);
}

static void describe(const struct rlock__group *group, int code, int64_t now,
                     struct rlock__texts *ret_texts)
{
    char name[96], more[48] = "";

    rlock__texts_clear(ret_texts);
    if (code == RLOCK_EINDOUBT) {
        ret_texts->facts.free_at = free_by(group, now);
        (void)snprintf(more, sizeof(more), "; it is free in %lld ms",
                       (long long)rlock__ms_up(free_by(group, now) - now));
    }
    if (code == RLOCK_ELOST) {
        ret_texts->facts.reason = group->reason;
    }
    (void)snprintf(ret_texts->detail, sizeof(ret_texts->detail), "lock %s: %s%s",
                   rlock__text(group->spec->name, name, sizeof(name)), rlock_strerror(code), more);
}

int rlock__group_owe(struct rlock__group *group, int64_t now, struct rlock__texts *ret_texts,
                     struct rlock__group_step *ret_step)
{
    int code = rlock__group_left(group) == 0 ? RLOCK_ENOTOWNER
               : group->lost                 ? RLOCK_ELOST
                                             : RLOCK_EINDOUBT;

    *ret_step = (struct rlock__group_step){.n = 0};
    describe(group, code, now, ret_texts);
    if (code == RLOCK_ENOTOWNER) {
        return code;
    }
    group->owed++;
    rlock__group_view_show(group);
    if (group->phase == RLOCK__GROUP_IDLE) {
        rlock__group_tidy(group);
        rlock__group_step(group, now, ret_step);
    } else if (rlock__group_left(group) == 0) {
        end_renewal(group, ret_step);
    }
    return code;
}
