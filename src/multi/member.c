/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a group: their calls, the results of these, and their listeners. */
#include "lock/server/route.h"
#include "multi/internal.h"
#include "multi/view.h"

/* Prepares a call of the member, to be begun. Returns it for more inputs. */
static struct rlock__call *begin(struct rlock__member *member, enum rlock__call_kind kind)
{
    struct rlock__group *group = member->group;
    struct rlock__doubt *doubt = member->call.doubt;

    member->call =
        (struct rlock__call){.kind = kind,
                             .spec = member->spec,
                             .owner = group->owner,
                             .member = true,
                             .doubt = doubt,
                             .awaited = group->spec->ops->counts_alone ? &group->awaited : NULL,
                             .finish = group->finish,
                             .payload = member,
                             .texts = &member->texts};
    rlock__texts_clear(&member->texts);
    member->running = true;
    member->todo.begin = true;
    group->effort.requests++;
    return &member->call;
}

void rlock__member_take(struct rlock__member *member, int64_t wait_us, bool provisional,
                        int64_t now)
{
    struct rlock__group *group = member->group;
    const struct rlock__effort *effort = &group->effort;
    int64_t lease = effort->lease_us != 0 ? effort->lease_us : effort->renewed_lease_us;
    int64_t rest = rlock__max(rlock__group_last(group) - now, 1);
    int64_t once = rlock__min(effort->op_timeout_us, rest);
    struct rlock__call *call;

    if (group->spec->ops->counts_alone) { /* so that it is well below the lease */
        once = rlock__min(once, rlock__max(lease / 4, RLOCK__MS));
    }
    group->hurried = once < effort->op_timeout_us;
    member->state = RLOCK__MEMBER_TAKING;
    member->tried = true;
    member->spoke = false;
    member->code = 0;
    call = begin(member, RLOCK__ACQUIRE);
    call->acquire.wait_us = wait_us == RLOCK__NEVER ? -1 : wait_us;
    call->acquire.lease_us = effort->lease_us;
    call->acquire.timeout_us = once;
    call->acquire.timed = group->hurried && effort->wait_us != 0;
    call->acquire.min_uptime_us = group->spec->max_lease_us;
    call->prompt = group->spec->ops->counts_alone;
    call->provisional = provisional && effort->lease_us != 0;
    call->renewed = effort->lease_us == 0 && member->renewed_from == 0;
    call->cancel = effort->cancel;
}

void rlock__member_extend(struct rlock__member *member)
{
    struct rlock__call *call = begin(member, RLOCK__EXTEND);

    member->state = RLOCK__MEMBER_EXTENDING;
    member->tried = true;
    member->code = 0;
    call->extend.lease_us = member->group->effort.lease_us;
}

static void leave(struct rlock__member *member)
{
    struct rlock__call *call = begin(member, RLOCK__RELEASE);

    member->state = RLOCK__MEMBER_LEAVING;
    rlock__group_view_show_member(member);
    member->todo.finalize = false;
    call->provisional = member->provisional;
    call->renewed = member->renewed_from == member->levels && !member->rests;
}

void rlock__group_listen(struct rlock__group *group, int64_t now)
{
    const struct rlock__group_ops *ops = group->spec->ops;
    bool spoken = false; /* even while other members were given back */

    if (ops->on_message == NULL) {
        return;
    }
    RLOCK__EACH_MEMBER(member, group) {
        bool busy = member->tried && member->code == RLOCK_EBUSY;

        spoken = spoken || (busy && member->spoke);
        if (busy && !member->listening && (member->spec->ops->caps & RLOCK__CAP_QUEUES) == 0 &&
            !rlock__ops_poll(member->spec->ops)) {
            member->listening = true;
            member->listener =
                (struct rlock__listener){.spec = member->spec, .notify = group->notify};
            member->todo.listen = true;
        }
    }
    if (spoken) {
        ops->on_message(group, now);
    }
}

void rlock__group_ignore(struct rlock__group *group)
{
    RLOCK__EACH_MEMBER(member, group) {
        member->listening = member->listening && !member->todo.listen;
        member->todo.listen = false;
        member->todo.ignore = member->listening;
    }
}

/* No call of the member runs. */
static void rest(struct rlock__member *member)
{
    member->state = member->levels > 0 ? RLOCK__MEMBER_HELD : RLOCK__MEMBER_OUT;
}

/* Gives up the member's call. A call that has not begun never begins. */
static void give_up(struct rlock__member *member)
{
    if (member->todo.begin) {
        member->todo.begin = false;
        member->running = false;
        rest(member);
        member->code = RLOCK_ECANCELED;
    } else {
        member->todo.give_up = true;
    }
}

/* How many levels of a member the group's levels need at most. */
static uint32_t due_levels(const struct rlock__group *group)
{
    if (group->count == 0 || group->lost) {
        return 0;
    }
    return group->spec->ops->counts_alone ? 1 : group->count;
}

void rlock__group_shed_levels(struct rlock__group *group)
{
    RLOCK__EACH_MEMBER(member, group) {
        if (member->state == RLOCK__MEMBER_HELD && member->levels > due_levels(group)) {
            leave(member);
        }
    }
}

void rlock__group_shed(struct rlock__group *group)
{
    RLOCK__EACH_MEMBER(member, group) {
        if (member->state == RLOCK__MEMBER_TAKING || member->state == RLOCK__MEMBER_EXTENDING) {
            give_up(member);
        }
    }
    rlock__group_shed_levels(group);
}

void rlock__member_settle_renewal(struct rlock__member *member)
{
    const struct rlock__group *group = member->group;
    bool stays = rlock__member_staying(member) > 0;

    if (group->spec->ops->counts_alone && group->renewed_from == 0 && group->count > 0 &&
        member->renewed_from != 0 && stays && member->state != RLOCK__MEMBER_TAKING) {
        member->renewed_from = 0;
        member->todo.end_renewal = !member->rests;
        member->rests = false;
    }
}

bool rlock__member_is_in_doubt(const struct rlock__member *member)
{
    return member->running || rlock__doubt_is_open(member->call.doubt);
}

void rlock__member_forget_doubt(struct rlock__member *member)
{
    member->call.doubt = rlock__doubt_close(member->call.doubt);
}

/* Takes the result of a member's acquisition. */
static void on_taken(struct rlock__member *member)
{
    if (member->call.code == 0) {
        rlock__member_forget_doubt(member); /* calls of earlier rounds have joined, or failed */
        member->levels++;
        member->provisional |= member->call.provisional;
        if (member->call.renewed) {
            member->renewed_from = member->group->spec->ops->counts_alone ? 1 : member->levels;
        }
        (void)rlock__view_unref(member->view);
        member->view = member->call.view;
        member->call.view = NULL;
    }
}

/* Takes the result of a member's release. Whatever it is, the group does not have this level any
 * more. */
static void on_left(struct rlock__member *member)
{
    member->levels--;
    member->provisional = false;
    member->renewed_from = member->renewed_from > member->levels ? 0 : member->renewed_from;
    member->rests = member->rests && member->renewed_from != 0;
    if (member->code == RLOCK_ELOST) { /* the server does not have it, or its lease has ended */
        rlock__member_forget_doubt(member);
    }
    if (member->levels == 0) {
        member->view = rlock__view_unref(member->view);
    }
}

void rlock__member_renew(struct rlock__member *member)
{
    member->todo.renew = member->renewed_from == 0 || member->rests;
    member->todo.end_renewal = false;
    member->renewed_from = 1;
    member->rests = false;
}

/* Takes the result of a member's extension. A member that was late follows the others. */
static void on_extended(struct rlock__member *member)
{
    const struct rlock__group *group = member->group;

    if (member->call.code == 0 && member->call.extend.lease_us == 0 &&
        group->phase == RLOCK__GROUP_IDLE && group->renewed_from == 1 && !group->lost) {
        rlock__member_renew(member);
    }
}

void rlock__member_tidy(struct rlock__member *member)
{
    rlock__member_settle_renewal(member);
    if (member->state == RLOCK__MEMBER_HELD && member->levels > due_levels(member->group)) {
        leave(member);
    } else if (member->state == RLOCK__MEMBER_HELD && member->provisional) {
        member->todo.finalize = true;
    }
}

void rlock__member_done(struct rlock__member *member)
{
    member->running = false;
    member->todo.begin = member->todo.give_up = false;
    member->code = member->call.code;
    if (member->state == RLOCK__MEMBER_TAKING) {
        on_taken(member);
    } else if (member->state == RLOCK__MEMBER_EXTENDING) {
        on_extended(member);
    } else {
        on_left(member);
    }
    rest(member);
}

/* ---- What a driver takes from a group and does in its members' cores ---- */

bool rlock__action_take(struct rlock__member *member, struct rlock__action *ret_action)
{
    const struct rlock__todo todo = member->todo;

    if (!rlock__todo_is_any(&todo)) {
        return false;
    }
    *ret_action =
        (struct rlock__action){.core = member->spec->core, .member = member, .todo = todo};
    member->provisional = member->provisional && !todo.finalize;
    member->todo = (struct rlock__todo){.begin = false};
    return true;
}

void rlock__action_carry_out(const struct rlock__action *action, int64_t now)
{
    const struct rlock__todo *todo = &action->todo;
    struct rlock__member *member = action->member;
    struct rlock__call *call = &member->call;

    if (todo->begin) {
        const struct rlock__pipeline *pipeline = &rlock__route(member->spec)->pipeline;

        atomic_store(&member->rtt, pipeline->rtt);
        atomic_store(&member->silent, pipeline->sent != NULL ? now - pipeline->sent->t0 : 0);
        rlock__core_begin(action->core, call, now);
    } else if (todo->finalize) {
        rlock__core_finalize(action->core, member->spec, member->group->owner);
    } else if (todo->give_up && call->kind != RLOCK__RELEASE && call->core != NULL) {
        rlock__core_give_up(action->core, call, RLOCK_ECANCELED, now);
    }
    if (todo->end_renewal) {
        rlock__core_end_renewal(action->core, member->spec, member->group->owner);
    }
    if (todo->renew) {
        rlock__core_renew(action->core, member->spec, member->group->owner);
    }
    if (todo->listen) {
        rlock__core_listen(action->core, &member->listener, now);
    } else if (todo->ignore) {
        rlock__core_ignore(action->core, &member->listener, now);
    }
}
