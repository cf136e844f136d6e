/* SPDX-License-Identifier: Apache-2.0 */
/* What a driver takes from a group and does in its members' cores. */
#include "multi/group.h"

bool rlock__wish_take(struct rlock__member *member, void (*finish)(struct rlock__call *call),
                      struct rlock__wish *ret_wish)
{
    bool wished = member->wish != RLOCK__WISH_NONE || member->ear_wish != RLOCK__WISH_NONE ||
                  member->seal || member->end_renewal;

    *ret_wish = (struct rlock__wish){.core = member->spec->core,
                                     .member = member,
                                     .begin = member->wish == RLOCK__WISH_BEGIN,
                                     .seal = member->seal,
                                     .end_renewal = member->end_renewal,
                                     .give_up = member->wish == RLOCK__WISH_GIVE_UP,
                                     .listen = member->ear_wish == RLOCK__WISH_BEGIN,
                                     .ignore = member->ear_wish == RLOCK__WISH_GIVE_UP};
    if (ret_wish->begin) {
        member->call.finish = finish;
        member->call.payload = member;
    }
    if (ret_wish->listen) {
        member->ear = (struct rlock__call){
            .kind = RLOCK__LISTEN, .spec = member->spec, .finish = finish, .payload = member};
    }
    member->wish = member->ear_wish = RLOCK__WISH_NONE;
    member->kept = member->kept && !member->seal;
    member->seal = member->end_renewal = false;
    return wished;
}

size_t rlock__wishes_take(struct rlock__group *group, void (*finish)(struct rlock__call *call),
                          struct rlock__wish wishes[static RLOCK__MEMBERS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < group->composite->n; i++) {
        n += rlock__wish_take(&group->members[i], finish, &wishes[n]);
    }
    return n;
}

void rlock__wish_carry_out(const struct rlock__wish *wish, int64_t now)
{
    struct rlock__call *call = &wish->member->call;

    if (wish->begin) {
        const struct rlock__pipeline *pipeline = &wish->core->server.link.pipeline;

        atomic_store(&wish->member->rtt, pipeline->rtt);
        atomic_store(&wish->member->silent, pipeline->sent != NULL ? now - pipeline->sent->t0 : 0);
        rlock__core_begin(wish->core, call, now);
    } else if (wish->seal) {
        rlock__core_seal(wish->core, wish->member->spec, wish->member->group->owner);
    } else if (wish->give_up && call->kind == RLOCK__ACQUIRE && call->core != NULL) {
        rlock__core_give_up(wish->core, call, RLOCK_ECANCELED, now);
    }
    if (wish->end_renewal) {
        rlock__core_end_renewal(wish->core, wish->member->spec, wish->member->group->owner);
    }
    if (wish->listen) {
        rlock__core_begin(wish->core, &wish->member->ear, now);
    } else if (wish->ignore) {
        rlock__core_give_up(wish->core, &wish->member->ear, RLOCK_ECANCELED, now);
    }
}
