/* SPDX-License-Identifier: Apache-2.0 */
/* What a driver takes from a group and does in its members' cores. */
#include "multi/group.h"

bool rlock__action_take(struct rlock__member *member, struct rlock__action *ret_action)
{
    bool acts = member->action != RLOCK__ACTION_NONE || member->ear_action != RLOCK__ACTION_NONE ||
                member->seal || member->end_renewal;

    *ret_action = (struct rlock__action){.core = member->spec->core,
                                         .member = member,
                                         .begin = member->action == RLOCK__ACTION_BEGIN,
                                         .seal = member->seal,
                                         .end_renewal = member->end_renewal,
                                         .give_up = member->action == RLOCK__ACTION_GIVE_UP,
                                         .listen = member->ear_action == RLOCK__ACTION_BEGIN,
                                         .ignore = member->ear_action == RLOCK__ACTION_GIVE_UP};
    if (ret_action->begin) {
        member->call.finish = member->group->finish;
        member->call.payload = member;
    }
    if (ret_action->listen) {
        member->ear = (struct rlock__call){.kind = RLOCK__LISTEN,
                                           .spec = member->spec,
                                           .finish = member->group->finish,
                                           .payload = member};
    }
    member->action = member->ear_action = RLOCK__ACTION_NONE;
    member->kept = member->kept && !member->seal;
    member->seal = member->end_renewal = false;
    return acts;
}

void rlock__group_step(struct rlock__group *group, int64_t now, struct rlock__group_step *ret_step)
{
    rlock__group_timer(group, now);
    ret_step->n = 0;
    RLOCK__EACH_MEMBER(member, group) {
        ret_step->n += rlock__action_take(member, &ret_step->actions[ret_step->n]);
    }
    ret_step->loss = group->untold;
    group->untold = NULL;
    ret_step->timer_at = group->timer_at;
    ret_step->complete = group->complete;
}

void rlock__action_carry_out(const struct rlock__action *action, int64_t now)
{
    struct rlock__call *call = &action->member->call;

    if (action->begin) {
        const struct rlock__pipeline *pipeline = &rlock__route(action->member->spec)->pipeline;

        atomic_store(&action->member->rtt, pipeline->rtt);
        atomic_store(&action->member->silent,
                     pipeline->sent != NULL ? now - pipeline->sent->t0 : 0);
        rlock__core_begin(action->core, call, now);
    } else if (action->seal) {
        rlock__core_seal(action->core, action->member->spec, action->member->group->owner);
    } else if (action->give_up && call->kind == RLOCK__ACQUIRE && call->core != NULL) {
        rlock__core_give_up(action->core, call, RLOCK_ECANCELED, now);
    }
    if (action->end_renewal) {
        rlock__core_end_renewal(action->core, action->member->spec, action->member->group->owner);
    }
    if (action->listen) {
        rlock__core_begin(action->core, &action->member->ear, now);
    } else if (action->ignore) {
        rlock__core_give_up(action->core, &action->member->ear, RLOCK_ECANCELED, now);
    }
}
