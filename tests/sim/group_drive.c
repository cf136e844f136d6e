/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives parties as src/drive/turn.c does, step by step, but on one thread: who completes a
 * member's call tells the party; the owner's thread, which may wake late, carries out its wishes;
 * what completes when nobody drives is settled on the spot. Losses come from the dispatcher.
 */
#include <stdlib.h>
#include <utlist.h>

#include "groups.h"

static void finish(struct rlock__call *call);

/* ---- Wishes ---- */

/* One event of the member's core; what it brings about is looked at afterwards. */
static void carry_out(const struct rlock__wish *wish)
{
    struct sim_client *client = sim_client_of(wish->slot);

    if (wish->begin) {
        sim_owner_asks(wish->slot);
    }
    rlock__wish_carry_out(wish, sim_clock(client));
}

/* Those of one client in one event: its core may make one request of them. */
static void carry_out_all(struct rlock__wish *wishes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct rlock__core *core = wishes[i].core;

        for (size_t j = i; core != NULL && j < n; j++) {
            if (wishes[j].core == core) {
                carry_out(&wishes[j]);
                wishes[j].core = NULL;
            }
        }
        if (core != NULL) {
            sim_pump(sim_client_of(wishes[i].slot));
        }
    }
}

/* ---- Parties ---- */

struct rlock__party *sim_party_get(struct sim_owner *owner)
{
    struct sim_process *process = owner->process;
    const struct rlock__composite *composite = process->locks[owner->lock];
    struct rlock__party *party;

    DL_FOREACH(process->parties, party) {
        if (party->owner.id == owner->owner.id && party->owner.given == owner->owner.given &&
            rlock__composite_equal(party->composite, composite)) {
            return party;
        }
    }
    party = rlock__party_new(process->locks[owner->lock], owner->owner, &process->jitter);
    DL_APPEND(process->parties, party);
    return party;
}

void sim_party_drop(struct sim_process *process, struct rlock__party *party)
{
    if (party->users != 0 || !rlock__party_is_over(party)) {
        return;
    }
    for (unsigned i = 0; i < SIM_OWNERS; i++) {
        if (process->owners[i].party == party) {
            process->owners[i].party = NULL;
        }
    }
    DL_DELETE(process->parties, party);
    rlock__party_free(party);
}

/* Whoever looks next at the party reports its loss. */
static void tell(struct sim_process *process, struct rlock__party *party)
{
    struct rlock__loss *loss = party->untold;

    party->untold = NULL;
    if (loss != NULL) {
        sim_owner_told(process, party, loss);
        (void)rlock__loss_free(loss);
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

/* A member's call is complete: its core was just told something, and goes on to be looked at. */
static void finish(struct rlock__call *call)
{
    struct rlock__slot *slot = call->payload;
    struct rlock__party *party = slot->party;
    struct sim_process *process = sim_process_of(slot);
    bool complete = party->complete;
    struct rlock__wish wish;

    if (call == &slot->call) {
        sim_owner_hears(slot);
    }
    rlock__party_done(call, sim_process_clock(process));
    if (party->complete && !complete && party->waiter != NULL) {
        sim_parties_check_taken(party->waiter);
    }
    if (party->waiter != NULL) {
        wake(party->waiter);
    } else if (rlock__wish_take(slot, finish, &wish)) {
        carry_out(&wish);
    }
    sim_party_drop(process, party);
}

/* ---- Driving ---- */

/* What came to be wished since it was last driven, or by the loss of a member. */
static void drain(struct sim_process *process, struct rlock__party *party)
{
    struct rlock__wish wishes[RLOCK__MEMBERS_MAX];
    size_t n = rlock__wishes_take(party, finish, wishes);

    tell(process, party);
    carry_out_all(wishes, n);
}

static void settle(struct sim_process *process, struct rlock__party *party)
{
    if (party->busy) { /* who has its turn does it */
        if (party->waiter != NULL) {
            wake(party->waiter);
        }
        return;
    }
    party->users++;
    drain(process, party);
    party->users--;
}

static void leave(struct sim_owner *owner)
{
    struct sim_process *process = owner->process;
    struct rlock__party *party = owner->party;

    rlock__timer_unset(&sim_home(process->all)->timers, &owner->drive);
    sim_owner_done(owner);
    drain(process, party);
    party->busy = false;
    party->users--;
    sim_party_drop(process, party);
}

void sim_drive(struct sim_owner *owner)
{
    struct sim_process *process = owner->process;
    struct rlock__party *party = owner->party;
    struct rlock__wish wishes[RLOCK__MEMBERS_MAX];
    bool complete = false;
    size_t n = 1;

    while (!complete && n > 0) {
        if (owner->cancelled) {
            rlock__party_cancel(party, sim_process_clock(process));
        }
        rlock__party_timer(party, sim_process_clock(process));
        n = rlock__wishes_take(party, finish, wishes);
        complete = party->complete;
        party->waiter = complete ? NULL : owner;
        tell(process, party);
        carry_out_all(wishes, n);
    }
    if (complete) {
        leave(owner);
    } else if (party->timer_at != RLOCK__NEVER) {
        drive_at(owner, sim_world_time(process->clients[0], party->timer_at));
    }
}

void sim_on_drive(struct rlock__timer *timer, int64_t now)
{
    struct sim_owner *owner =
        (struct sim_owner *)(void *)((char *)timer - offsetof(struct sim_owner, drive));

    (void)now;
    if (sim_process_is_paused(owner->process)) {
        rlock__timer_set(&sim_home(owner->process->all)->timers, timer,
                         owner->process->clients[0]->paused_until);
    } else if (owner->calling) {
        sim_drive(owner);
    }
}

/* ---- Losses ---- */

static bool is_hit(const struct rlock__party *party, const struct rlock__loss *loss)
{
    if (party->owner.id != loss->owner_id || party->owner.given != (loss->owner != 0)) {
        return false;
    }
    for (size_t i = 0; i < party->composite->n; i++) {
        if (party->slots[i].levels > 0 && rlock__spec_equal(party->slots[i].spec, loss->spec)) {
            return true;
        }
    }
    return false;
}

static void lost(struct sim_process *process, const struct rlock__loss *loss)
{
    struct rlock__party *party, *after;

    if (loss->own > 0) {
        sim_violate(sim_home(process->all),
                    "process %u owner %llu: %u levels of a composite count "
                    "as its owner's own",
                    process->index, (unsigned long long)loss->owner_id, loss->own);
    }
    DL_FOREACH(process->parties, party) {
        if (is_hit(party, loss)) {
            rlock__party_member_lost(party, loss->reason, sim_process_clock(process));
        }
    }
    DL_FOREACH_SAFE(process->parties, party, after) {
        if (party->untold != NULL) {
            settle(process, party);
        }
        sim_party_drop(process, party);
    }
}

void sim_on_dispatch(struct rlock__timer *timer, int64_t now)
{
    struct sim_process *process =
        (struct sim_process *)(void *)((char *)timer - offsetof(struct sim_process, dispatch));
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
    struct rlock__party *party, *after;

    for (party = process->parties; party != NULL; party = after) {
        if (!party->owner.given && party->owner.id == owner->owner.id) {
            party->users++;
            rlock__party_abandon(party, RLOCK_LOST_THREAD_EXITED);
            for (size_t i = 0; i < party->composite->n; i++) {
                struct sim_client *client = sim_client_of(&party->slots[i]);

                rlock__core_thread_exit(&client->core, party->slots[i].spec, owner->owner.id,
                                        sim_clock(client));
                sim_pump(client);
            }
            settle(process, party);
            party->users--;
        }
        after = party->next;
        sim_party_drop(process, party);
    }
}
