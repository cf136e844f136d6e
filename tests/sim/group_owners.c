/* SPDX-License-Identifier: Apache-2.0 */
/* What owners do: take groups at random, nest, hold, sometimes for too long, give up, leave. */
#include <utlist.h>

#include "groups.h"

void sim_owner_plan(struct sim_owner *owner, int64_t pause)
{
    struct sim_world *home = sim_home(owner->process->all);

    rlock__timer_set(&home->timers, &owner->act, home->now + pause);
}

/* ---- One owner's several groups ---- */

static bool is_twin(const struct sim_owner *a, const struct sim_owner *b)
{
    return a != b && a->owner.id == b->owner.id && a->owner.given == b->owner.given;
}

struct sim_owner *sim_twin_next(const struct sim_owner *owner, const struct sim_owner *after)
{
    struct sim_process *process = owner->process;
    size_t i = after == NULL ? 0 : (size_t)(after - process->owners) + 1;

    for (; i < process->all->config.n_owners; i++) {
        if (is_twin(owner, &process->owners[i])) {
            return &process->owners[i];
        }
    }
    return NULL;
}

/* Also by one that it has left, and that is not over yet. */
bool sim_twin_has(const struct sim_owner *owner, struct sim_place place)
{
    const struct rlock__group *group;

    DL_FOREACH(owner->process->groups, group) {
        bool its = group != owner->group && group->owner.id == owner->owner.id &&
                   group->owner.given == owner->owner.given;

        for (size_t i = 0; its && i < group->spec->n; i++) {
            const struct rlock__member *member = &group->members[i];
            struct sim_place there = sim_place_of(member);

            if (there.server == place.server && there.key == place.key &&
                there.side == place.side && (member->levels > 0 || member->running)) {
                return true;
            }
        }
    }
    return false;
}

/* Its thread is in a call already. */
static bool is_elsewhere(const struct sim_owner *owner)
{
    const struct sim_owner *twin = sim_twin_next(owner, NULL);

    return twin != NULL && !owner->owner.given && twin->calling;
}

/* Whether a lock is the twin's: that would be a level more. */
static bool is_twins_lock(const struct sim_owner *owner, unsigned lock)
{
    const struct sim_owner *twin = sim_twin_next(owner, NULL);

    return twin != NULL && twin->group != NULL &&
           rlock__group_spec_equal(twin->group->spec, owner->process->locks[lock]);
}

/* Whoever waits while holding must not wait for ever. */
static bool may_wait_for_ever(const struct sim_owner *owner)
{
    const struct sim_owner *twin = sim_twin_next(owner, NULL);

    return twin == NULL || (twin->depth == 0 && !twin->calling);
}

/* ---- Calls ---- */

void sim_owner_begin(struct sim_owner *owner)
{
    owner->calling = true;
    owner->cancelled = false;
    owner->excused = false;
    owner->given_up = 0;
    owner->gave_all_up = false;
    sim_groups_forget_waiting(owner);
    owner->group->users++;
    owner->group->busy = true;
}

static struct rlock__effort draw_effort(const struct sim_owner *owner)
{
    struct sim_groups *all = owner->process->all;
    const struct sim_group_config *config = &all->config;
    struct sim_world *home = sim_home(all);
    int64_t dice = sim_random(home, 10);
    struct rlock__effort effort = {.op_timeout_us = config->op_timeout,
                                   .renewed_lease_us = config->lease};

    if (dice >= 3) {
        effort.wait_us =
            dice >= 7 && may_wait_for_ever(owner) ? -1 : 1 + sim_random(home, 3 * config->lease);
    }
    if (sim_chance(home, 500)) { /* at least what a round trip needs */
        int64_t least = config->lease / 4;

        effort.lease_us = least + sim_random(home, config->lease - least + 1);
    }
    return effort;
}

static void take(struct sim_owner *owner)
{
    struct sim_process *process = owner->process;
    struct sim_groups *all = process->all;
    struct sim_world *home = sim_home(all);
    int64_t now = sim_process_clock(process), wait;

    if (owner->depth == 0) {
        unsigned lock = (unsigned)sim_random(home, all->config.n_locks);

        if (is_twins_lock(owner, lock)) {
            sim_owner_plan(owner, 1 + sim_random(home, 20 * RLOCK__MS));
            return;
        }
        owner->lock = lock;
        owner->n_marks = 0;
        owner->told_at = RLOCK__NEVER;
        owner->failed_inside = false;
    }
    owner->group = sim_group_get(owner);
    owner->effort = draw_effort(owner);
    owner->effort.cancel = owner;
    owner->taking = true;
    owner->extends = false;
    wait = owner->effort.wait_us; /* and time for the answers */
    owner->due = wait < 0 ? RLOCK__NEVER : now + wait + all->config.op_timeout;
    sim_owner_begin(owner);
    sim_trace(home, "process %u owner %llu: takes %u%s, wait %lld us, lease %lld us",
              process->index, (unsigned long long)owner->owner.id, owner->lock,
              owner->depth > 0 ? " once more" : "", (long long)owner->effort.wait_us,
              (long long)owner->effort.lease_us);
    /* it may cancel then */
    sim_owner_plan(owner, sim_random(home, (sim_chance(home, 300) ? 1 : 6) * all->config.lease));
    sim_doubt_begin(owner);
    rlock__group_take(owner->group, &owner->effort, now);
    sim_owner_plan_second(owner);
    sim_drive(owner);
}

static void release(struct sim_owner *owner)
{
    struct sim_process *process = owner->process;
    int64_t now = sim_process_clock(process);

    owner->taking = owner->extends = false;
    owner->due = now + process->all->config.op_timeout;
    sim_owner_begin(owner);
    sim_trace(sim_home(process->all), "process %u owner %llu: leaves %u", process->index,
              (unsigned long long)owner->owner.id, owner->lock);
    rlock__group_leave(owner->group, now);
    sim_owner_plan_second(owner);
    sim_drive(owner);
}

/* As rlock_cancel_fire() does: every client's service thread ends its calls, the owner's thread
 * the effort; who comes first is chance. */
static void cancel(struct sim_owner *owner)
{
    struct sim_process *process = owner->process;
    struct sim_world *home = sim_home(process->all);
    bool first = sim_chance(home, 500);

    owner->cancelled = true;
    owner->due = rlock__min(owner->due, sim_process_clock(process));
    sim_trace(home, "process %u owner %llu: cancels", process->index,
              (unsigned long long)owner->owner.id);
    if (first) {
        sim_drive(owner);
    }
    for (unsigned i = 0; i < process->all->config.n_servers; i++) {
        rlock__core_cancel(&process->clients[i]->core, owner, sim_process_clock(process));
        sim_pump(process->clients[i]);
    }
    if (!first && owner->calling) {
        sim_drive(owner);
    }
}

void sim_owner_become_another(struct sim_owner *owner)
{
    owner->group = NULL;
    owner->depth = 0;
    owner->renewed_from = 0;
    owner->is_ended = false;
    owner->owner.id += 100;
    sim_owner_plan(owner, RLOCK__MS);
}

/* Another thread takes its place. */
static void thread_exit(struct sim_owner *owner)
{
    struct sim_world *home = sim_home(owner->process->all);
    struct sim_owner *twin = sim_twin_next(owner, NULL);

    sim_trace(home, "process %u: thread %llu ends", owner->process->index,
              (unsigned long long)owner->owner.id);
    sim_drive_thread_exit(owner);
    while (twin != NULL) {
        struct sim_owner *next = sim_twin_next(owner, twin);

        sim_owner_become_another(twin);
        twin = next;
    }
    sim_owner_become_another(owner);
}

/* The program reports that an owner with an id has ended, maybe during its call. */
static void owner_end(struct sim_owner *owner)
{
    struct sim_owner *twin = sim_twin_next(owner, NULL);

    sim_trace(sim_home(owner->process->all), "process %u: owner %llu ends", owner->process->index,
              (unsigned long long)owner->owner.id);
    owner->is_ended = owner->calling;
    sim_drive_owner_end(owner);
    if (owner->depth > 0 && !owner->calling && owner->told_at == RLOCK__NEVER) {
        sim_violate(sim_home(owner->process->all),
                    "process %u owner %llu, lock %u: its end is reported to nobody",
                    owner->process->index, (unsigned long long)owner->owner.id, owner->lock);
    }
    if (owner->is_ended && owner->calling && owner->taking && !owner->cancelled) {
        cancel(owner);
    }
    while (twin != NULL) {
        struct sim_owner *next = sim_twin_next(owner, twin);

        sim_owner_become_another(twin);
        twin = next;
    }
    if (!owner->is_ended && !owner->calling) {
        sim_owner_become_another(owner);
    }
}

static bool may_end(const struct sim_owner *owner)
{
    const struct sim_owner *twin = sim_twin_next(owner, NULL);
    const struct sim_groups *all = owner->process->all;

    return owner->owner.given && !owner->is_ended && (twin == NULL || !twin->calling) &&
           (owner->calling || owner->depth > 0) && !all->healed && all->config.faults > 0;
}

static void on_act(struct rlock__timer *timer, int64_t now)
{
    struct sim_owner *owner = RLOCK__OF(struct sim_owner, act, timer);
    struct sim_groups *all = owner->process->all;
    struct sim_world *home = sim_home(all);

    (void)now;
    if (sim_process_is_paused(owner->process)) {
        sim_owner_plan(owner, owner->process->clients[0]->paused_until - home->now + 1);
    } else if (is_elsewhere(owner)) {
        sim_owner_plan(owner, 1 + sim_random(home, 5 * RLOCK__MS));
    } else if (may_end(owner) && sim_chance(home, owner->calling ? 100 : 40)) {
        owner_end(owner);
    } else if (owner->calling) {
        if (owner->taking && !owner->cancelled && !all->healed && sim_chance(home, 300)) {
            cancel(owner);
        } else if (!all->healed) {
            sim_owner_plan(owner, 1 + sim_random(home, all->config.lease));
        }
    } else if (owner->depth > 0 && !owner->owner.given && !all->healed && all->config.faults > 0 &&
               sim_chance(home, 20)) {
        thread_exit(owner);
    } else if (owner->depth > 0 && !all->healed && sim_chance(home, 60)) {
        sim_owner_extend(owner);
    } else if (owner->depth > 0 && owner->depth < 3 && !all->healed &&
               sim_chance(home, all->config.seconds ? 500 : 200)) {
        take(owner);
    } else if (owner->depth > 0) {
        release(owner);
    } else if (!all->healed) {
        take(owner);
    }
}

/* ---- What it hears ---- */

static struct sim_owner *owner_of(struct sim_process *process, const struct rlock__group *group)
{
    for (unsigned i = 0; i < process->all->config.n_owners; i++) {
        if (process->owners[i].group == group) {
            return &process->owners[i];
        }
    }
    return NULL;
}

/* When the hold began: the other group of its owner may have asked before. */
static void note_life(struct sim_owner *owner, struct sim_place place, bool fresh)
{
    const struct sim_owner *twin = sim_twin_next(owner, NULL);
    unsigned *life = &owner->lives[place.server][place.key][place.side];

    if (twin != NULL && sim_twin_has(owner, place)) {
        *life = twin->lives[place.server][place.key][place.side];
    } else if (fresh) {
        *life = owner->process->all->lives[place.server][place.key];
    }
}

void sim_owner_asks(struct rlock__member *member)
{
    struct sim_process *process = sim_process_of(member);
    struct sim_owner *owner = owner_of(process, member->group);
    struct sim_place place = sim_place_of(member);
    const struct rlock__hold *hold =
        rlock__hold_find(member->spec->core, member->spec, member->group->owner);

    bool fresh = hold == NULL || hold->state == RLOCK__HOLD_NONE;

    if (owner == NULL || member->call.kind != RLOCK__ACQUIRE) {
        return;
    }
    note_life(owner, place, fresh);
    owner->shared[place.server][place.key][place.side] =
        !fresh && member->levels == 0 && !sim_twin_has(owner, place);
}

/* Levels that the owner's other group has given up are the server's until they are released. Nobody
 * promised when that is. */
static bool is_owed(const struct rlock__member *member)
{
    const struct rlock__hold *hold =
        rlock__hold_find(member->spec->core, member->spec, member->group->owner);

    return hold != NULL && rlock__hold_left(hold) < hold->count;
}

/* The oldest give way: their leases have ended. */
static void note_mark(struct sim_owner *owner, const struct rlock__member *member)
{
    struct sim_groups *all = owner->process->all;
    struct sim_place place = sim_place_of(member);

    if (owner->n_marks == SIM_MARKS) {
        owner->n_marks--;
        memmove(&owner->marks[0], &owner->marks[1], owner->n_marks * sizeof(owner->marks[0]));
    }
    owner->marks[owner->n_marks++] = (struct sim_mark){
        .place = place,
        .number = member->call.number,
        .free_by = sim_home(all)->now + all->config.lease,
        .excused = owner->shared[place.server][place.key][place.side] || is_owed(member)};
}

/* Of a member that was lost nobody promised when it goes. */
static void note_left(struct sim_owner *owner, struct sim_place place, int code)
{
    for (size_t i = 0; i < owner->n_marks; i++) {
        struct sim_mark *mark = &owner->marks[i];

        if (mark->place.server == place.server && mark->place.key == place.key) {
            mark->excused |= code == RLOCK_ELOST;
            mark->twins = sim_twin_has(owner, place);
        }
    }
}

void sim_owner_hears(struct rlock__member *member)
{
    struct sim_owner *twin = NULL;
    struct sim_process *process = sim_process_of(member);
    struct sim_owner *owner = owner_of(process, member->group);
    struct sim_place place = sim_place_of(member);
    bool unsure; /* nobody promised its twins either when it goes */

    sim_trace(sim_home(process->all),
              "process %u owner %llu: server %u key %u: %s, %s, number %llu", process->index,
              (unsigned long long)member->group->owner.id, place.server, place.key,
              member->call.kind == RLOCK__ACQUIRE  ? "acquire"
              : member->call.kind == RLOCK__EXTEND ? "extend"
                                                   : "release",
              rlock_code_name(member->call.code), (unsigned long long)member->call.number);
    if (owner == NULL || member->call.kind == RLOCK__EXTEND) {
        return;
    }
    if (member->call.kind == RLOCK__ACQUIRE) {
        note_mark(owner, member);
    }
    sim_doubt_hear(owner, member);
    note_left(owner, place, member->call.code);
    unsure = member->call.code == RLOCK_ELOST ||
             (member->call.kind == RLOCK__RELEASE && member->call.code == RLOCK_EINDOUBT);
    while (unsure && (twin = sim_twin_next(owner, twin)) != NULL) {
        note_left(twin, place, RLOCK_ELOST);
        twin->shared[place.server][place.key][place.side] |= twin->calling;
    }
}

/* Whether a member's hold began earlier, with a lease of its own: an unlock in doubt had it. */
static bool shares_a_hold(const struct sim_owner *owner)
{
    for (size_t i = 0; i < owner->group->spec->n; i++) {
        struct sim_place place = sim_place_of(&owner->group->members[i]);

        if (owner->shared[place.server][place.key][place.side]) {
            return true;
        }
    }
    return false;
}

/* A nested level extends the leases, also one that was refused by some member. */
static void note_lease(struct sim_owner *owner, int code)
{
    const struct sim_group_config *config = &owner->process->all->config;
    int64_t lease = owner->effort.lease_us != 0 ? owner->effort.lease_us : config->lease;
    int64_t end = sim_process_clock(owner->process) + lease + config->op_timeout;

    if ((owner->effort.lease_us == 0 && code == 0) || shares_a_hold(owner)) {
        end = RLOCK__NEVER;
    }
    owner->cap = owner->depth == 0 ? end : rlock__max(owner->cap, end);
}

/* The lowest of its levels that asks for it; an inner one ends first. */
static void note_renewal(struct sim_owner *owner, int code)
{
    uint32_t count = owner->group->count;

    if (owner->given_up > 0 && owner->renewed_from > owner->depth - owner->given_up) {
        owner->renewed_from = 0; /* those of its levels ended that were there before the call */
    }
    if (owner->renewed_from > count || count == 0) {
        owner->renewed_from = 0;
    }
    if (owner->taking && code == 0 && owner->effort.lease_us == 0 && owner->renewed_from == 0) {
        owner->renewed_from = count;
    }
}

/* Whether the owner has a lost hold of a member, which another lock of its own took. */
static bool has_lost_member(const struct sim_owner *owner)
{
    RLOCK__EACH_MEMBER(member, owner->group) {
        if (member->tried && member->code == RLOCK_ELOST) {
            return true;
        }
    }
    return false;
}

void sim_owner_done(struct sim_owner *owner)
{
    struct sim_process *process = owner->process;
    struct sim_groups *all = process->all;
    struct sim_world *home = sim_home(all);
    int code = owner->group->code;
    bool renewed;

    owner->calling = false;
    owner->failed_inside |= owner->taking && owner->depth > 0 && code != 0;
    rlock__timer_unset(&home->timers, &owner->second);
    sim_trace(home, "process %u owner %llu: %s %u: %s, %u levels", process->index,
              (unsigned long long)owner->owner.id, owner->taking ? "take" : "leave", owner->lock,
              rlock_code_name(code), owner->group->count);
    if (owner->taking && code == RLOCK_ELOST && owner->depth == 0 && !has_lost_member(owner)) {
        sim_violate(home, "process %u owner %llu, lock %u: has lost what it did not have",
                    process->index, (unsigned long long)owner->owner.id, owner->lock);
    }
    if (owner->taking) {
        note_lease(owner, code);
        all->grants += code == 0;
    }
    if (owner->taking && code == 0 && owner->group->count == 1 && !owner->group->lost) {
        owner->told_at = RLOCK__NEVER; /* a loss that it was told of ended earlier levels */
    }
    all->refusals += code == RLOCK_EBUSY || code == RLOCK_ENOQUORUM || code == RLOCK_ETIMEDOUT;
    all->doubts += code == RLOCK_EINDOUBT;
    renewed = owner->renewed_from != 0;
    note_renewal(owner, code);
    if (renewed && owner->renewed_from == 0 && !owner->extends &&
        (owner->given_up > 0 || all->config.kind == &rlock__redlock_ops) &&
        !shares_a_hold(owner)) { /* what is left of it ends */
        owner->cap = sim_process_clock(process) + all->config.lease + all->config.op_timeout;
    }
    if (owner->extends) {
        sim_owner_extended(owner);
    }
    owner->depth = owner->group->count;
    if (all->config.faults == 0) { /* one that no member was asked for completes here */
        sim_groups_check_taken(owner);
    }
    if (!owner->extends && !owner->is_ended) {
        sim_groups_check_done(owner);
    }
    owner->ended_at = RLOCK__NEVER;
    sim_owner_plan(
        owner, 1 + sim_random(home, sim_chance(home, 100) ? all->config.max_hold : 40 * RLOCK__MS));
}

void sim_owner_told(struct sim_process *process, const struct rlock__group *group,
                    const struct rlock__loss *loss)
{
    struct sim_owner *owner = owner_of(process, group);
    struct sim_world *home = sim_home(process->all);

    process->all->losses++;
    sim_trace(home, "process %u owner %llu: lost: %s", process->index,
              (unsigned long long)group->owner.id, rlock_reason_text((int)loss->reason));
    if (owner == NULL) {
        return;
    }
    if (owner->told_at != RLOCK__NEVER) {
        sim_violate(home, "process %u owner %llu: is told twice of one loss", process->index,
                    (unsigned long long)owner->owner.id);
    }
    if (owner->depth == 0 && !owner->taking) {
        sim_violate(home, "process %u owner %llu: is told of a loss, and held nothing",
                    process->index, (unsigned long long)owner->owner.id);
    }
    if (process->all->config.faults == 0 && owner->renewed_from != 0 && !owner->calling &&
        !shares_a_hold(owner)) {
        sim_violate(home, "process %u owner %llu, lock %u: is renewed, and lost without a cause",
                    process->index, (unsigned long long)owner->owner.id, owner->lock);
    }
    if (owner->gave_all_up) {
        sim_violate(home, "process %u owner %llu: is told of a loss, and has given all up",
                    process->index, (unsigned long long)owner->owner.id);
    }
    owner->told_at = home->now;
    if (loss->reason == RLOCK_LOST_CLOSED && !owner->calling) { /* nobody is to unlock it */
        owner->depth = owner->renewed_from = 0;
    }
}

void sim_owners_start(struct sim_process *process)
{
    struct sim_world *home = sim_home(process->all);
    unsigned hands = process->all->config.hands;

    for (unsigned i = 0; i < process->all->config.n_owners; i++) {
        struct sim_owner *owner = &process->owners[i];

        owner->process = process;
        owner->owner = (struct rlock__owner){
            .id = i / hands + 1,
            .given = i % hands == 0 ? sim_chance(home, 300) : process->owners[i - 1].owner.given};
        owner->act.fire = on_act;
        owner->drive.fire = sim_on_drive;
        owner->second.fire = sim_on_second;
        owner->cap = owner->ended_at = owner->told_at = RLOCK__NEVER;
        sim_groups_forget_waiting(owner);
        sim_owner_plan(owner, 1 + sim_random(home, 20 * RLOCK__MS));
    }
}
