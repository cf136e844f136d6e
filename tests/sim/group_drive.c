/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives groups as src/drive/group_op.c does, step by step, but on one thread: who completes a
 * member's call tells the group; the owner's thread, which may wake late, carries out its actions;
 * what completes when nobody drives is settled on the spot. Losses come from the dispatcher.
 */
#include <stdlib.h>
#include <utlist.h>

#include "groups.h"

static void finish(struct rlock__call *call);
static void hear(struct rlock__listener *listener);

/* ---- Actions ---- */

/* One event of the member's core; what it brings about is looked at afterwards. */
static void carry_out(const struct rlock__action *action)
{
    struct sim_client *client = sim_client_of(action->member);

    if (action->todo.begin) {
        sim_owner_asks(action->member);
    }
    rlock__action_carry_out(action, sim_clock(client));
}

/* Those of one client in one event: its core may make one request of them. */
static void carry_out_all(struct rlock__group_step *step)
{
    struct rlock__action *actions = step->actions;
    size_t n = step->n;

    for (size_t i = 0; i < n; i++) {
        struct rlock__core *core = actions[i].core;

        for (size_t j = i; core != NULL && j < n; j++) {
            if (actions[j].core == core) {
                carry_out(&actions[j]);
                actions[j].core = NULL;
            }
        }
        if (core != NULL) {
            sim_pump(sim_client_of(actions[i].member));
        }
    }
}

/* ---- Groups ---- */

struct rlock__group *sim_group_get(struct sim_owner *owner)
{
    struct sim_process *process = owner->process;
    struct rlock__group_spec *spec = process->locks[owner->lock];
    struct rlock__group *group = rlock__groups_find(&process->registry, spec, owner->owner);

    if (group == NULL) {
        group = rlock__group_new(spec, owner->owner, finish, hear, &process->registry);
        DL_APPEND(process->groups, group);
        for (size_t i = 0; i < spec->n; i++) {
            rlock__groups_join(&process->registry, &group->members[i]);
        }
    }
    return group;
}

static void leave_groups(struct rlock__groups *groups, struct rlock__group *group)
{
    for (size_t i = 0; i < group->spec->n; i++) {
        rlock__groups_part(groups, &group->members[i]);
    }
}

void sim_group_drop(struct sim_process *process, struct rlock__group *group)
{
    if (group->users != 0 || !rlock__group_is_over(group)) {
        return;
    }
    for (unsigned i = 0; i < SIM_OWNERS; i++) {
        if (process->owners[i].group == group) {
            process->owners[i].group = NULL;
        }
    }
    DL_DELETE(process->groups, group);
    leave_groups(&process->registry, group);
    rlock__group_free(group);
}

/* Whoever takes the step reports the group's loss. */
static void tell(struct sim_process *process, struct rlock__group *group,
                 const struct rlock__group_step *step)
{
    if (step->loss != NULL) {
        sim_owner_told(process, group, step->loss);
        (void)rlock__loss_free(step->loss);
    }
}

static void drive_at(struct sim_owner *owner, int64_t at)
{
    if (!owner->drive.set || owner->drive.at > at) {
        rlock__timer_set(&sim_home(owner->process->all)->timers, &owner->drive, at);
    }
}

static void wake(struct sim_owner *owner)
{
    struct sim_world *home = sim_home(owner->process->all);
    bool late = sim_chance(home, owner->process->all->config.lags);

    drive_at(owner, home->now + (late ? sim_random(home, 3 * RLOCK__MS) : 0));
}

/* A member's call is complete, or (NULL) its listener has heard something: its core was just told
 * something, and goes on to be looked at. */
static void on_member(struct rlock__member *member, struct rlock__call *call)
{
    struct rlock__group *group = member->group;
    struct sim_process *process = sim_process_of(member);
    bool complete = group->phase == RLOCK__GROUP_IDLE;
    struct rlock__action action;

    if (call != NULL) {
        sim_owner_hears(member);
        rlock__group_done(call, sim_process_clock(process));
    } else {
        rlock__group_on_message(member, sim_process_clock(process));
    }
    if (group->phase == RLOCK__GROUP_IDLE && !complete && group->waiter != NULL) {
        sim_groups_check_taken(group->waiter);
        if (!((struct sim_owner *)group->waiter)->extends) {
            sim_groups_check_doubt(group->waiter);
        }
    }
    if (group->waiter != NULL) {
        wake(group->waiter);
    } else if (rlock__action_take(member, &action)) {
        carry_out(&action);
    }
    sim_group_drop(process, group);
}

static void finish(struct rlock__call *call)
{
    on_member(call->payload, call);
}

static void hear(struct rlock__listener *listener)
{
    on_member(RLOCK__OF(struct rlock__member, listener, listener), NULL);
}

/* ---- Driving ---- */

/* The actions that came since it was last driven, or by the loss of a member. */
static void drain(struct sim_process *process, struct rlock__group *group)
{
    struct rlock__group_step step;

    rlock__group_step(group, sim_process_clock(process), &step);
    tell(process, group, &step);
    carry_out_all(&step);
}

int sim_drive_owe(struct sim_owner *owner)
{
    struct rlock__group_step step;
    struct rlock__texts texts;
    int code = rlock__group_owe(owner->group, sim_process_clock(owner->process), &texts, &step);

    tell(owner->process, owner->group, &step);
    carry_out_all(&step);
    return code;
}

static void settle(struct sim_process *process, struct rlock__group *group)
{
    if (group->busy) { /* who has its turn does it */
        if (group->waiter != NULL) {
            wake(group->waiter);
        }
        return;
    }
    group->users++;
    drain(process, group);
    group->users--;
}

static void leave(struct sim_owner *owner)
{
    struct sim_process *process = owner->process;
    struct rlock__group *group = owner->group;

    rlock__timer_unset(&sim_home(process->all)->timers, &owner->drive);
    sim_owner_done(owner);
    if (group->is_ended) {
        rlock__group_owner_end(group);
    }
    drain(process, group);
    group->busy = false;
    group->users--;
    sim_group_drop(process, group);
    if (owner->is_ended) {
        sim_owner_become_another(owner);
    }
}

void sim_drive(struct sim_owner *owner)
{
    struct sim_process *process = owner->process;
    struct rlock__group *group = owner->group;
    struct rlock__group_step step = {.n = 1};

    while (!step.complete && step.n > 0) {
        bool idle = group->phase == RLOCK__GROUP_IDLE;

        if (owner->cancelled) {
            rlock__group_cancel(group, RLOCK_ECANCELED, sim_process_clock(process));
        }
        rlock__group_step(group, sim_process_clock(process), &step);
        if (step.complete && !idle && !owner->extends) {
            sim_groups_check_doubt(owner);
        }
        group->waiter = step.complete ? NULL : owner;
        tell(process, group, &step);
        carry_out_all(&step);
    }
    if (step.complete) {
        leave(owner);
    } else if (step.timer_at != RLOCK__NEVER) {
        drive_at(owner, sim_world_time(process->clients[0], step.timer_at));
    }
}

void sim_on_drive(struct rlock__timer *timer, int64_t now)
{
    struct sim_owner *owner = RLOCK__OF(struct sim_owner, drive, timer);

    (void)now;
    if (sim_process_is_paused(owner->process)) {
        rlock__timer_set(&sim_home(owner->process->all)->timers, timer,
                         owner->process->clients[0]->paused_until);
    } else if (owner->calling) {
        sim_drive(owner);
    }
}

/* ---- Losses ---- */

static void lost(struct sim_process *process, const struct rlock__loss *loss)
{
    struct rlock__member *member = NULL;
    struct rlock__group *group, *after;

    if (loss->own > 0) {
        sim_violate(sim_home(process->all),
                    "process %u owner %llu: %u levels of a group count "
                    "as its owner's own",
                    process->index, (unsigned long long)loss->owner_id, loss->own);
    }
    while ((member = rlock__groups_hit(&process->registry, loss, member)) != NULL) {
        if (member->levels > 0) {
            rlock__group_member_lost(member->group, loss->reason, sim_process_clock(process));
        }
    }
    DL_FOREACH_SAFE(process->groups, group, after) {
        if (group->untold != NULL) {
            settle(process, group);
        }
        sim_group_drop(process, group);
    }
}

void sim_on_dispatch(struct rlock__timer *timer, int64_t now)
{
    struct sim_process *process = RLOCK__OF(struct sim_process, dispatch, timer);
    struct rlock__loss *loss;

    (void)now;
    if (sim_process_is_paused(process)) {
        rlock__timer_set(&sim_home(process->all)->timers, timer, process->clients[0]->paused_until);
        return;
    }
    while ((loss = process->losses) != NULL) {
        LL_DELETE(process->losses, loss);
        lost(process, loss);
        (void)rlock__loss_free(loss);
    }
}

void sim_drive_thread_exit(struct sim_owner *owner)
{
    struct sim_process *process = owner->process;
    struct rlock__group *group, *after;

    for (group = process->groups; group != NULL; group = after) {
        if (!group->owner.given && group->owner.id == owner->owner.id) {
            group->users++;
            rlock__group_abandon(group, RLOCK_LOST_THREAD_EXITED);
            for (size_t i = 0; i < group->spec->n; i++) {
                struct sim_client *client = sim_client_of(&group->members[i]);

                rlock__core_thread_exit(&client->core, group->members[i].spec, owner->owner.id,
                                        sim_clock(client));
                sim_pump(client);
            }
            settle(process, group);
            group->users--;
        }
        after = group->next;
        sim_group_drop(process, group);
    }
}

void sim_drive_owner_end(struct sim_owner *owner)
{
    struct sim_process *process = owner->process;
    struct rlock__group *group, *after;

    for (group = process->groups; group != NULL; group = after) {
        if (group->owner.given && group->owner.id == owner->owner.id) {
            group->users++;
            rlock__group_owner_end(group);
            settle(process, group);
            group->users--;
        }
        after = group->next;
        sim_group_drop(process, group);
    }
}
