/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second thread of an owner. While a call of the first one is under way it unlocks, and gets no
 * turn:
 *   its code               is in doubt, unless the hold was lost, or it has no level left
 *   the hold               is not valid then, and not renewed for any level that was given up
 */
#include "groups.h"

static void violate(const struct sim_owner *owner, const char *what, const char *code)
{
    sim_violate(sim_home(owner->process->all), "process %u owner %llu, lock %u: %s%s",
                owner->process->index, (unsigned long long)owner->owner.id, owner->lock, what,
                code);
}

/* Whether the call under way asked for it: then it is renewed for that. */
static bool asks(const struct rlock__member *member)
{
    return member->call.kind == RLOCK__ACQUIRE && member->call.renewed;
}

/* Nobody has a level of the group; a twin's are its own. */
static void check_rests(const struct sim_owner *owner)
{
    for (size_t i = 0; i < owner->group->spec->n; i++) {
        const struct rlock__member *member = &owner->group->members[i];
        const struct rlock__hold *hold =
            rlock__hold_find(member->spec->core, member->spec, member->group->owner);

        if (hold != NULL && hold->state == RLOCK__HOLD_HELD && hold->turn == NULL &&
            member->state == RLOCK__MEMBER_HELD && !asks(member) &&
            !sim_twin_has(owner, sim_place_of(member)) && hold->provisional == 0 &&
            rlock__hold_is_renewed(hold)) {
            violate(owner, "is renewed for what it has given up", "");
        }
    }
}

static void give_up(struct sim_owner *owner)
{
    struct rlock__group *group = owner->group;
    uint32_t left = rlock__group_left(group);
    int due = left == 0 ? RLOCK_ENOTOWNER : group->lost ? RLOCK_ELOST : RLOCK_EINDOUBT;
    int code = sim_drive_owe(owner);

    sim_trace(sim_home(owner->process->all), "process %u owner %llu: leaves %u beside its call: %s",
              owner->process->index, (unsigned long long)owner->owner.id, owner->lock,
              rlock_code_name(code));
    if (code != due) {
        violate(owner, "an unlock beside its call returns ", rlock_code_name(code));
    }
    owner->given_up += left > 0;
    owner->gave_all_up |= left == 1 && code == RLOCK_EINDOUBT;
    if (left == 1) {
        check_rests(owner);
    }
}

void sim_on_second(struct rlock__timer *timer, int64_t now)
{
    struct sim_owner *owner = RLOCK__OF(struct sim_owner, second, timer);

    (void)now;
    if (owner->calling && owner->group->phase != RLOCK__GROUP_IDLE &&
        !sim_process_is_paused(owner->process)) {
        give_up(owner);
    }
}

void sim_owner_plan_second(struct sim_owner *owner)
{
    struct sim_groups *all = owner->process->all;
    struct sim_world *home = sim_home(all);

    if (all->config.seconds && owner->group->count > 0 && sim_chance(home, 500)) {
        rlock__timer_set(&home->timers, &owner->second,
                         home->now + sim_random(home, 4 * all->config.delay_max));
    }
}
