/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for what nobody has goes on soon. */
#include <string.h>

#include "groups.h"

#define PATIENCE                                                                                   \
    (400 * RLOCK__MS)        /* a spin lock's longest pause, a pause between rounds, messages */
#define LAG (10 * RLOCK__MS) /* of threads that wake late, and clocks that differ */

/* Whether somebody refused it, whose message tells it to go. A member may be silent alone. */
static bool hears(const struct sim_owner *owner)
{
    bool heard = false;

    for (size_t i = 0; i < owner->group->spec->n; i++) {
        const struct rlock__member *member = &owner->group->members[i];

        heard |= member->listening && member->tried && member->code == RLOCK_EBUSY;
    }
    return heard;
}

void sim_groups_forget_waiting(struct sim_owner *owner)
{
    owner->free_since = RLOCK__NEVER;
    owner->lapsed = false;
    for (size_t i = 0; i < SIM_MEMBERS; i++) {
        owner->taken_until[i] = RLOCK__NEVER;
    }
}

/* Whether nobody else has that member, or whoever has it reads it as this one would. Notes until
 * when it is taken, and whether it came free without a word: its lease ended. */
static bool is_member_free_for(struct sim_owner *owner, size_t i, int64_t now)
{
    const struct rlock__group *group = owner->group;
    const struct rlock__spec *spec = group->members[i].spec;
    struct sim_place place = sim_place_of(&group->members[i]);
    const struct sim_world *world = &owner->process->all->worlds[place.server];
    struct sim_view name = {world->keys[place.key], strlen(world->keys[place.key])};
    const struct rlock__hold *hold = rlock__hold_find(spec->core, spec, group->owner);
    struct sim_key_info info;

    if (sim_server_find_key(world->server, name, &info) &&
        (place.side == 0 || sim_key_is_written(world, name)) &&
        (hold == NULL || hold->grant == NULL ||
         !sim_owner_is_on_server(owner, place, hold->grant->number))) {
        owner->taken_until[i] = info.pttl_ms < 0 ? RLOCK__NEVER : now + info.pttl_ms * RLOCK__MS;
        return false;
    }
    owner->lapsed |= owner->taken_until[i] <= now;
    owner->taken_until[i] = RLOCK__NEVER;
    return true;
}

static bool is_free_for(struct sim_owner *owner, int64_t now)
{
    const struct sim_owner *twin = sim_twin_next(owner, NULL);
    bool is_free = twin == NULL || !twin->calling;

    for (size_t i = 0; i < owner->group->spec->n; i++) {
        is_free &= is_member_free_for(owner, i, now);
    }
    return is_free;
}

void sim_groups_check_waiting(struct sim_owner *owner)
{
    struct sim_groups *all = owner->process->all;
    int64_t now = sim_home(owner->process->all)->now;

    if (!owner->calling || !owner->taking) {
        sim_groups_forget_waiting(owner);
        return;
    }
    if (!is_free_for(owner, now)) {
        owner->free_since = RLOCK__NEVER;
        return;
    }
    owner->free_since = rlock__min(owner->free_since, now);
    /* a RedLock hears of a release, however long it pauses */
    if (now - owner->free_since >
        (hears(owner) && !owner->lapsed ? 2 * LAG : PATIENCE) + 20 * all->config.delay_max) {
        sim_violate(sim_home(all),
                    "process %u owner %llu, lock %u: sleeps though all that it waits for is free",
                    owner->process->index, (unsigned long long)owner->owner.id, owner->lock);
    }
}
