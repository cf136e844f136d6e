/* SPDX-License-Identifier: Apache-2.0 */
/* What a driver takes from a group and does in its members' cores. */
#include "multi/group.h"

bool rlock__wish_take(struct rlock__slot *slot, void (*finish)(struct rlock__call *call),
                      struct rlock__wish *ret_wish)
{
    bool wished = slot->wish != RLOCK__WISH_NONE || slot->ear_wish != RLOCK__WISH_NONE ||
                  slot->seal || slot->end_renewal;

    *ret_wish = (struct rlock__wish){.core = slot->spec->core,
                                     .slot = slot,
                                     .begin = slot->wish == RLOCK__WISH_BEGIN,
                                     .seal = slot->seal,
                                     .end_renewal = slot->end_renewal,
                                     .give_up = slot->wish == RLOCK__WISH_GIVE_UP,
                                     .listen = slot->ear_wish == RLOCK__WISH_BEGIN,
                                     .ignore = slot->ear_wish == RLOCK__WISH_GIVE_UP};
    if (ret_wish->begin) {
        slot->call.finish = finish;
        slot->call.payload = slot;
    }
    if (ret_wish->listen) {
        slot->ear = (struct rlock__call){
            .kind = RLOCK__LISTEN, .spec = slot->spec, .finish = finish, .payload = slot};
    }
    slot->wish = slot->ear_wish = RLOCK__WISH_NONE;
    slot->kept = slot->kept && !slot->seal;
    slot->seal = slot->end_renewal = false;
    return wished;
}

size_t rlock__wishes_take(struct rlock__group *group, void (*finish)(struct rlock__call *call),
                          struct rlock__wish wishes[static RLOCK__MEMBERS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < group->composite->n; i++) {
        n += rlock__wish_take(&group->slots[i], finish, &wishes[n]);
    }
    return n;
}

void rlock__wish_carry_out(const struct rlock__wish *wish, int64_t now)
{
    struct rlock__call *call = &wish->slot->call;

    if (wish->begin) {
        const struct rlock__pipeline *pipeline = &wish->core->server.link.pipeline;

        atomic_store(&wish->slot->rtt, pipeline->rtt);
        atomic_store(&wish->slot->silent, pipeline->sent != NULL ? now - pipeline->sent->t0 : 0);
        rlock__core_begin(wish->core, call, now);
    } else if (wish->seal) {
        rlock__core_seal(wish->core, wish->slot->spec, wish->slot->group->owner);
    } else if (wish->give_up && call->kind == RLOCK__ACQUIRE && call->core != NULL) {
        rlock__core_give_up(wish->core, call, RLOCK_ECANCELED, now);
    }
    if (wish->end_renewal) {
        rlock__core_end_renewal(wish->core, wish->slot->spec, wish->slot->group->owner);
    }
    if (wish->listen) {
        rlock__core_begin(wish->core, &wish->slot->ear, now);
    } else if (wish->ignore) {
        rlock__core_give_up(wish->core, &wish->slot->ear, RLOCK_ECANCELED, now);
    }
}
