/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners extend the groups that they hold. Whatever comes of that:
 *   long enough    after 0 the whole lasts as long as was asked, from before the call
 *   never shorter  no extension shortens a validity
 */
#include "groups.h"

void sim_owner_extend(struct sim_owner *owner)
{
    struct sim_process *process = owner->process;
    const struct sim_group_config *config = &process->all->config;
    struct sim_world *home = sim_home(process->all);
    int64_t now = sim_process_clock(process), least = config->lease / 4;
    int64_t lease = sim_chance(home, 300) ? 0 : least + sim_random(home, config->lease - least + 1);

    owner->taking = false;
    owner->extends = true;
    owner->due = now + config->op_timeout;
    sim_owner_begin(owner);
    owner->effort = (struct rlock__effort){
        .lease_us = lease, .op_timeout_us = config->op_timeout, .renewed_lease_us = config->lease};
    owner->extends_at = now;
    owner->valid_before = rlock__group_valid_until(owner->group);
    owner->cap = rlock__max(owner->cap, rlock__later(now, config->lease + config->op_timeout));
    sim_trace(home, "process %u owner %llu: extends %u, lease %lld us", process->index,
              (unsigned long long)owner->owner.id, owner->lock, (long long)lease);
    rlock__group_extend(owner->group, &owner->effort, now);
    sim_owner_plan_second(owner);
    sim_drive(owner);
}

static void violate(const struct sim_owner *owner, const char *what)
{
    sim_violate(sim_home(owner->process->all), "process %u owner %llu, lock %u: an extension %s",
                owner->process->index, (unsigned long long)owner->owner.id, owner->lock, what);
}

/* Whether a member was lost, and the group may not have heard of it. */
static bool has_lost_one(const struct rlock__group *group)
{
    RLOCK__EACH_MEMBER(member, group) {
        if (member->view != NULL && atomic_load(&member->view->valid_until) == 0) {
            return true;
        }
    }
    return false;
}

void sim_owner_extended(struct sim_owner *owner)
{
    const struct rlock__group *group = owner->group;
    int64_t lease =
        owner->effort.lease_us != 0 ? owner->effort.lease_us : owner->effort.renewed_lease_us;
    int64_t until = rlock__group_valid_until(group);
    const struct rlock__core *core = &owner->process->clients[0]->core;

    if (group->code == 0 && owner->effort.lease_us == 0 && group->count > 0) {
        owner->renewed_from = 1;
        owner->cap = RLOCK__NEVER;
    }
    if (group->code == RLOCK_EINDOUBT) { /* it may be sent as late as now */
        const struct sim_group_config *config = &owner->process->all->config;

        owner->cap = rlock__max(owner->cap, sim_process_clock(owner->process) + config->lease +
                                                config->op_timeout);
    }
    if (owner->given_up != 0 || group->lost || owner->is_ended || group->count == 0) {
        return;
    }
    if (has_lost_one(group)) {
        return;
    }
    if (group->code == RLOCK_ENOTOWNER) {
        violate(owner, "does not find it");
    }
    if (until < owner->valid_before && until > sim_process_clock(owner->process)) {
        violate(owner, "made it shorter");
    }
    if (group->code == 0 && until < rlock__valid_until(core, owner->extends_at, lease)) {
        violate(owner, "is too short");
    }
}
