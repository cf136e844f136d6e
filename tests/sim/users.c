/* SPDX-License-Identifier: Apache-2.0 */
/* The users: each takes and gives up locks at random, one call at a time. */
#include <stdio.h>

#include "permits.h"
#include "world.h"

#define SHORT_WAIT (50 * RLOCK__MS)

void sim_user_plan(struct sim_user *user, int64_t pause)
{
    rlock__timer_set(&user->client->world->timers, &user->act, user->client->world->now + pause);
}

void sim_user_begin(struct sim_user *user)
{
    struct sim_client *client = user->client;

    user->calling = true;
    user->began = sim_clock(client);
    user->began_at = client->world->now;
    user->knew_loss = user->holds[user->side].lost;
    user->cancelled = 0;
    user->seized = false;
    user->spins = 0;
    user->call.owner = user->owner;
    user->call.payload = user;
    user->call.texts = &user->texts;
    user->texts.detail[0] = user->texts.facts.holder[0] = '\0';
    user->call.cancel = user;
    user->call.spec = client->specs[user->side][user->key];
    rlock__core_begin(&client->core, &user->call, user->began);
    sim_pump(client);
    sim_second_plan(user);
}

bool sim_user_holds(const struct sim_user *user)
{
    return user->holds[0].depth + user->holds[1].depth != 0;
}

/* Which side to take: mostly the first, and mostly the one that is held already. */
static unsigned choose_side(const struct sim_user *user)
{
    struct sim_world *world = user->client->world;

    if (world->config.other == NULL) {
        return 0;
    }
    return sim_chance(world, user->holds[1].depth != 0 ? 500 : sim_user_holds(user) ? 100 : 400);
}

static void take(struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    int64_t lease = world->config.lease;
    int64_t dice = sim_random(world, 10);

    user->call = (struct rlock__call){.kind = RLOCK__ACQUIRE};
    if (!sim_user_holds(user)) {
        user->key = (unsigned)sim_random(world, world->config.n_keys);
    }
    user->side = choose_side(user);
    if (dice >= 3) {
        user->call.acquire.wait_us = dice >= 8 ? -1 : 1 + sim_random(world, 3 * lease);
    }
    if (dice == 3 || dice == 4) { /* one deadline for several, and soon */
        user->call.acquire.wait_us = SHORT_WAIT - sim_clock(user->client) % SHORT_WAIT;
    }
    if (sim_chance(world, 400)) {
        user->call.acquire.lease_us = 20 * RLOCK__MS + sim_random(world, lease);
    }
    if (world->config.units > 1) {
        user->call.acquire.units = 1 + sim_chance(world, 300);
    }
    sim_user_plan(user, sim_random(world, 3 * lease)); /* it may be cancelled then */
    sim_user_begin(user);
}

/* A release whose turn comes at once has no more time than the hold is valid, and half of what
 * calls have. */
static void note_cut(struct sim_user *user)
{
    const struct rlock__hold *row = sim_find_hold(user->client, user->holds[user->side].number);

    user->cut = row != NULL && !row->busy
                    ? rlock__max(row->grant->valid_until, sim_clock(user->client)) +
                          user->client->core.opts.op_timeout_us / 2
                    : RLOCK__NEVER;
}

void sim_user_begin_release(struct sim_user *user)
{
    /* one that was refused goes on without its caller, and may be done */
    user->gone = sim_server_count(user, user->side) == 0 && !user->holds[user->side].begun;
    note_cut(user);
    sim_user_begin(user);
}

static void release(struct sim_user *user)
{
    bool both = user->holds[0].depth != 0 && user->holds[1].depth != 0;

    /* the other clients know what became of their unlocks, so their checks are strict */
    user->call = (struct rlock__call){.kind = RLOCK__RELEASE,
                                      .sends = user->client->index % 3 == 2 &&
                                               user->client->world->now % 2 == 0};
    user->side = both ? sim_chance(user->client->world, 500) : user->holds[1].depth != 0;
    if (user->holds[0].begun || user->holds[1].begun) {
        user->side = user->holds[1].begun;
    }
    sim_user_begin_release(user);
}

static void drop_claims(struct sim_user *user)
{
    for (unsigned side = 0; side < SIM_SIDES; side++) {
        struct sim_hold *hold = &user->holds[side];

        if (hold->depth == 0) {
            hold->view = rlock__view_unref(hold->view);
        }
    }
}

/* A given id is nobody's thread, though it has the number of one. */
static void check_given(const struct sim_client *client, const struct sim_user *user,
                        const bool *valid)
{
    for (unsigned i = 0; i < client->n_users; i++) {
        const struct sim_user *other = &client->users[i];

        if (other != user && valid[i] && sim_valid_until(&other->holds[0]) == 0) {
            sim_violate(client->world, "client %u: the hold of %llu ended with another's thread",
                        client->index, (unsigned long long)other->owner.id);
        }
    }
}

static bool is_held(const struct sim_user *user, unsigned side)
{
    return user->holds[side].depth != 0 && sim_valid_until(&user->holds[side]) != 0;
}

static void check_ended(const struct sim_user *user, const bool *held)
{
    const struct sim_client *client = user->client;

    for (unsigned side = 0; side < SIM_SIDES; side++) {
        if (held[side] && (!user->holds[side].lost || sim_valid_until(&user->holds[side]) != 0)) {
            sim_violate(client->world,
                        "client %u: the end of an owner that holds %s is not reported",
                        client->index, client->world->keys[user->key]);
        }
    }
}

static void become_another(struct sim_user *user)
{
    user->holds[0].depth = user->holds[1].depth = 0;
    user->is_ended = false;
    user->owner.id += 100;
    drop_claims(user);
    sim_user_plan(user, RLOCK__MS);
}

/* The thread ends; another takes its place. */
static void thread_exit(struct sim_user *user)
{
    struct sim_client *client = user->client;
    bool held[SIM_SIDES], valid[SIM_MAX_USERS];

    for (unsigned i = 0; i < client->n_users; i++) {
        valid[i] = sim_valid_until(&client->users[i].holds[0]) > sim_clock(client);
    }
    sim_trace(client->world, "client %u: thread %llu ends", client->index,
              (unsigned long long)user->owner.id);
    for (unsigned side = 0; side < SIM_SIDES; side++) {
        held[side] = is_held(user, side);
        client->left[client->n_left++ % SIM_LEFT] = user->holds[side].number;
    }
    for (unsigned side = 0; side < SIM_SIDES && client->specs[side][user->key] != NULL; side++) {
        rlock__core_thread_exit(&client->core, client->specs[side][user->key], user->owner.id,
                                sim_clock(client));
        check_given(client, user, valid);
        sim_pump(client);
    }
    check_ended(user, held);
    become_another(user);
}

/* The program reports that an owner with an id has ended, maybe during its call. */
static void owner_end(struct sim_user *user)
{
    struct sim_client *client = user->client;
    bool held[SIM_SIDES];

    sim_trace(client->world, "client %u: owner %llu ends", client->index,
              (unsigned long long)user->owner.id);
    for (unsigned side = 0; side < SIM_SIDES; side++) {
        held[side] = is_held(user, side);
    }
    user->is_ended = true;
    user->cancelled = sim_clock(client);
    rlock__core_owner_end(&client->core, user->owner.id, sim_clock(client));
    for (unsigned side = 0; side < SIM_SIDES; side++) {
        if (held[side] && !sim_is_released(client, user->holds[side].number)) {
            sim_violate(client->world, "client %u: an owner ended, and nobody gives back its %s",
                        client->index, client->world->keys[user->key]);
        }
    }
    sim_pump(client);
    check_ended(user, held);
    if (user->is_ended && !user->calling) {
        become_another(user);
    }
}

static bool may_end(const struct sim_user *user)
{
    return user->owner.given && user->client->world->config.faults != 0 &&
           user->call.kind != RLOCK__COMMAND && !user->second.is_calling && !user->is_ended;
}

static void on_act(struct rlock__timer *timer, int64_t now)
{
    struct sim_user *user = RLOCK__OF(struct sim_user, act, timer);
    struct sim_client *client = user->client;
    struct sim_world *world = client->world;

    (void)now;
    if (sim_is_paused(client)) {
        rlock__timer_set(&world->timers, timer, client->paused_until + 1);
    } else if (client->closed) {
        return;
    } else if (user->second.is_calling && !user->calling) { /* until that is over */
        sim_user_plan(user, RLOCK__MS + sim_random(world, 10 * RLOCK__MS));
    } else if (user->calling) { /* it waits long: now and then it is cancelled */
        if (may_end(user) && sim_chance(world, 100)) {
            owner_end(user);
        } else if (sim_chance(world, 300)) {
            sim_trace(world, "client %u user %llu: cancel", client->index,
                      (unsigned long long)user->owner.id);
            user->cancelled = sim_clock(client);
            if (user->owner.id % 2 == 0) { /* by its signal; or the operation itself */
                rlock__core_cancel(&client->core, user, sim_clock(client));
            } else {
                rlock__core_cancel_call(&client->core, &user->call, sim_clock(client));
            }
            sim_pump(client);
        } else {
            sim_user_plan(user, sim_random(world, world->config.lease));
        }
    } else if (sim_latch_is(world)) {
        sim_latch_act(user);
    } else if (user->forcing) {
        sim_force_open(user);
    } else if (user->holds[0].begun || user->holds[1].begun) {
        if (sim_may_detach(user) && sim_chance(world, 300)) {
            sim_detach(user);
        } else {
            release(user);
        }
    } else if (!sim_user_holds(user) && world->config.faults != 0 && sim_chance(world, 20)) {
        sim_force_look(user);
    } else if (!sim_user_holds(user) && sim_chance(world, 300) && sim_adopt(user)) {
        return;
    } else if (!sim_user_holds(user)) {
        take(user);
    } else if (may_end(user) && sim_chance(world, 40)) {
        owner_end(user);
    } else if (!user->owner.given && world->config.faults != 0 && sim_chance(world, 20)) {
        thread_exit(user);
    } else if (sim_chance(world, 60)) {
        sim_extend(user);
    } else if (sim_may_detach(user) && sim_chance(world, 80)) {
        sim_detach(user);
    } else if (user->holds[0].depth + user->holds[1].depth < 3 && sim_chance(world, 250)) {
        take(user);
    } else {
        release(user);
    }
}

static void on_taken(struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    struct rlock__call *call = &user->call;
    struct sim_hold *hold = &user->holds[user->side];

    world->grants++;
    if (hold->given_up == call->number) { /* a level more of what its second thread gave up */
        hold->given_up = 0;
    }
    if (hold->depth == 0) {
        hold->view = rlock__view_unref(hold->view);
        hold->view = call->view;
        hold->number = call->number;
        if (!sim_linger_taken(user) && !sim_pass_taken(user)) {
            hold->doomed = hold->fuzzy = hold->half = hold->gone = false;
            hold->shared &= call->count > 1;
        }
        hold->lost = hold->over = hold->expired = false;
        hold->begun = false;
        hold->fixed = call->acquire.lease_us != 0;
        hold->renewed = 0;
        hold->held_until = hold->lease = 0;
    } else {
        (void)rlock__view_unref(call->view);
    }
    hold->depth = hold->shared ? sim_levels_left(hold) : call->count;
    hold->lease = rlock__max(hold->lease, call->acquire.lease_granted_us);
}

/* What a user does after a call. */
static void go_on(struct sim_user *user)
{
    struct sim_world *world = user->client->world;

    if (user->is_ended) {
        become_another(user);
    } else if (!user->client->closed) {
        int64_t most = world->config.hasty ? 2 * RLOCK__MS : 50 * RLOCK__MS;

        most = sim_chance(world, world->config.is_fleet ? 5 : 100) ? 2 * world->config.lease : most;
        sim_user_plan(user, 1 + sim_random(world, most));
    }
}

/* A detach or an extension is done. */
static void changed_done(struct sim_user *user)
{
    const struct rlock__call *call = &user->call;
    const struct sim_client *client = user->client;
    bool detaches = rlock__detaches(call);

    sim_trace(client->world, "client %u user %llu: %s %s: %s, number %llu %s", client->index,
              (unsigned long long)user->owner.id, detaches ? "detach" : "extend",
              client->world->keys[user->key], rlock_code_name(call->code),
              (unsigned long long)call->number, rlock__call_detail(call));
    if (detaches) {
        sim_detach_done(user);
        drop_claims(user);
    } else {
        sim_extend_done(user);
    }
    go_on(user);
}

/* Whether an unlock returned before its answer: the release is on its way, or the hold lingers. */
static bool is_unanswered(struct sim_user *user)
{
    const struct rlock__call *call = &user->call;
    const struct rlock__hold *row = sim_find_hold(user->client, user->holds[user->side].number);

    return call->kind == RLOCK__RELEASE && call->code == 0 &&
           (sim_linger_begins(user) || call->sends) && row != NULL && row->sent > 0;
}

static void lock_done(struct sim_user *user)
{
    struct sim_client *client = user->client;
    struct sim_world *world = client->world;
    struct rlock__call *call = &user->call;
    struct sim_hold *hold = &user->holds[user->side];
    bool taking = call->kind == RLOCK__ACQUIRE;

    if (is_unanswered(user)) {
        call->code = RLOCK_EINDOUBT; /* the user knows as little */
    }
    if (call->kind == RLOCK__COMMAND) {
        sim_force_done(user);
        return;
    }
    if (rlock__detaches(call) || call->kind == RLOCK__EXTEND) {
        changed_done(user);
        return;
    }
    sim_trace(world, "client %u user %llu: %s %s (%s): %s, count %u, number %llu %s", client->index,
              (unsigned long long)user->owner.id,
              !taking                        ? "release"
              : call->acquire.adopts != NULL ? "adopt"
                                             : "take",
              world->keys[user->key], call->spec->ops->kind, rlock_code_name(call->code),
              call->count, (unsigned long long)call->number, rlock__call_detail(call));
    if (taking && call->acquire.adopts != NULL) {
        sim_adopt_done(user);
    }
    if (call->code == 0 && taking) {
        on_taken(user);
    } else if (!taking && (call->code == 0 || call->code == RLOCK_ELOST)) {
        hold->depth = call->count;
    } else if (!taking && call->code == RLOCK_ENOTOWNER) {
        hold->depth = 0;
    }
    world->doubts += call->code == RLOCK_EINDOUBT;
    sim_check_done(user);
    sim_proofs_done(user);
    sim_turns_done(user);
    if (!taking && call->code == RLOCK_EINDOUBT) {
        hold->depth = hold->depth > 1 ? hold->depth - 1 : 0;
        hold->fuzzy = true;
    } else if (!taking && sim_is_refusal(call->code)) {
        hold->begun = hold->depth == 1;
        hold->depth -= hold->depth > 1;
    }
    if (hold->shared && hold->view != NULL) {
        hold->depth = sim_levels_left(hold);
    }
    hold->begun &= hold->depth != 0;
    sim_note_ended(user);
    drop_claims(user);
    if (user->is_ended && taking && call->code == 0) {
        sim_violate(world, "client %u: %s is granted to an owner that has ended", client->index,
                    world->keys[user->key]);
    }
    go_on(user);
}

void sim_user_done(struct sim_user *user)
{
    user->calling = false;
    if (sim_latch_is(user->client->world)) {
        sim_latch_done(user);
    } else {
        lock_done(user);
    }
}

void sim_user_lost(struct sim_client *client, const struct rlock__loss *loss)
{
    client->world->losses++;
    for (unsigned i = 0; i < client->n_users * SIM_SIDES; i++) {
        struct sim_user *user = &client->users[i / SIM_SIDES];
        unsigned side = i % SIM_SIDES;
        struct sim_hold *hold = &user->holds[side];

        if (hold->depth != 0 && !hold->lost && client->specs[side][user->key] == loss->spec &&
            user->owner.id == loss->owner_id && user->owner.given == loss->given &&
            !sim_user_is_held(user, side)) {
            sim_trace(client->world, "client %u user %llu: lost %s (%s): %s", client->index,
                      (unsigned long long)user->owner.id, client->world->keys[user->key],
                      loss->spec->ops->kind, rlock_reason_text((int)loss->reason));
            hold->lost = true;
            if (loss->reason != RLOCK_LOST_THREAD_EXITED) {
                sim_note_lost(user, side);
            }
            sim_rely_lost(user, side, loss->reason);
        }
    }
}

void sim_users_start(struct sim_client *client)
{
    struct sim_world *world = client->world;

    client->n_users = world->config.n_users;
    for (unsigned i = 0; i < client->n_users; i++) {
        struct sim_user *user = &client->users[i];

        user->client = client;
        user->owner.given = sim_chance(world, 300);
        user->owner.id = user->owner.given ? i + 1 : client->n_users - i; /* some are the same */
        user->act.fire = on_act;
        sim_user_plan(user, sim_random(world, 20 * RLOCK__MS));
    }
}
