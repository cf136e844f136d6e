/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second thread of an owner that was given by id: it unlocks while a call of the first thread is
 * under way, which may be stuck. Whatever comes of that:
 *   given up is given up  once its owner has no level left, nothing renews the hold
 *   and given back        its release follows as soon as nothing is in its way
 */
#include <stdio.h>

#include "world.h"

#define GIVEN_BACK (3 * RLOCK__SECOND)

static bool may_begin(const struct sim_user *user)
{
    const struct sim_client *client = user->client;

    return client->world->config.seconds && user->owner.given && user->calling &&
           user->call.kind != RLOCK__COMMAND && user->holds[user->side].depth != 0 &&
           !user->second.is_calling && !user->is_ended && !client->closed;
}

static void begin(struct sim_user *user)
{
    struct sim_client *client = user->client;
    struct sim_second *second = &user->second;
    struct sim_hold *hold = &user->holds[user->side];

    second->side = user->side;
    second->is_calling = true;
    second->began_at = client->world->now;
    hold->fuzzy = hold->half = hold->shared = true;
    second->call = (struct rlock__call){.kind = RLOCK__RELEASE,
                                        .spec = client->specs[user->side][user->key],
                                        .owner = user->owner,
                                        .payload = user,
                                        .texts = &second->texts};
    rlock__core_begin(&client->core, &second->call, sim_clock(client));
    sim_pump(client);
}

static void on_act(struct rlock__timer *timer, int64_t now)
{
    struct sim_user *user = RLOCK__OF(struct sim_user, second.act, timer);

    (void)now;
    if (sim_is_paused(user->client)) {
        rlock__timer_set(&user->client->world->timers, timer, user->client->paused_until + 1);
    } else if (may_begin(user)) {
        begin(user);
    }
}

void sim_second_plan(struct sim_user *user)
{
    struct sim_world *world = user->client->world;

    if (may_begin(user) && sim_chance(world, 400)) {
        user->second.act.fire = on_act;
        rlock__timer_set(&world->timers, &user->second.act,
                         world->now + sim_random(world, world->config.op_timeout));
    }
}

uint32_t sim_levels_left(const struct sim_hold *hold)
{
    return hold->view != NULL ? atomic_load(&hold->view->count) : 0;
}

static void check_code(const struct sim_user *user, int code)
{
    if (code == RLOCK_ETIMEDOUT || code == RLOCK_ENOMEM || code == RLOCK_EBUSY) {
        sim_violate(user->client->world, "client %u: an unlock of %s returns %s",
                    user->client->index, user->client->world->keys[user->key],
                    rlock_code_name(code));
    }
}

void sim_second_done(struct sim_user *user)
{
    struct sim_client *client = user->client;
    struct sim_hold *hold = &user->holds[user->second.side];
    int code = user->second.call.code;

    user->second.is_calling = false;
    sim_trace(client->world, "client %u user %llu: second release %s: %s %s", client->index,
              (unsigned long long)user->owner.id, client->world->keys[user->key],
              rlock_code_name(code), rlock__call_detail(&user->second.call));
    check_code(user, code);
    if (hold->view != NULL) {
        hold->depth = sim_levels_left(hold);
    }
    if (hold->depth == 0 && hold->view != NULL) {
        sim_note_given_up(user, user->second.side, user->second.began_at);
        if (code == RLOCK_EINDOUBT && sim_find_hold(client, hold->number) == NULL) {
            /* the owner's take ended at the same moment, and the core has forgotten the hold */
            sim_note_free_by(user, user->second.side, user->second.began_at,
                             user->second.texts.facts.free_at);
        }
        hold->view = rlock__view_unref(hold->view);
        hold->begun = false;
    }
    client->world->seconds += code == RLOCK_EINDOUBT;
}

/* The hold that is given up is renewed; or its release does not come. */
void sim_second_check(struct sim_user *user, unsigned side)
{
    struct sim_client *client = user->client;
    struct sim_world *world = client->world;
    struct sim_hold *hold = &user->holds[side];
    const struct rlock__hold *row = sim_find_hold(client, hold->given_up);
    const struct rlock__grant *grant = row != NULL ? row->grant : NULL;
    int64_t free_since = rlock__max(rlock__max(client->hampered, client->disturbed),
                                    rlock__max(world->refuses_until, hold->since));

    if (world->config.units != 0) { /* while the slot is moved, one of two keys may be missing */
        free_since = rlock__max(free_since, world->open_until[hold->given_key]);
    }

    if (grant != NULL && row->state == RLOCK__HOLD_HELD && grant->batch_entry != NULL &&
        hold->rests && !grant->verifies) {
        sim_violate(world, "client %u: renews %s, which was given up", client->index,
                    world->keys[hold->given_key]);
    }
    if (grant != NULL && row->view != NULL && atomic_load(&row->view->valid_until) != 0) {
        sim_violate(world, "client %u: %s is valid, which was given up", client->index,
                    world->keys[hold->given_key]);
    }
    hold->rests = grant == NULL || grant->batch_entry == NULL;
    if (user->calling || user->second.is_calling || client->closed) {
        hold->idle_since = world->now;
    }
    if (client->may_kill && !hold->doomed &&
        world->now - rlock__max(free_since, hold->idle_since) >
            GIVEN_BACK + world->config.lease / 3 &&
        sim_is_on_server(user, side, hold->given_up)) {
        sim_violate(world, "client %u: %s was given up, and is not given back", client->index,
                    world->keys[hold->given_key]);
    }
}
