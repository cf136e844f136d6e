/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users extend what they hold. Whatever comes of that:
 *   long enough      after 0 the hold lasts as long as was asked, from before the request
 *   never shorter    no extension shortens a validity
 *   nothing is new   what is not held is not held afterwards; what is held is not refused as that
 */
#include "world.h"

static int64_t lease_of(const struct sim_user *user)
{
    int64_t lease = user->call.extend.lease_us;

    return lease != 0 ? lease : user->client->core.opts.renewed_lease_us;
}

void sim_extend(struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    int64_t lease =
        sim_chance(world, 300) ? 0 : 20 * RLOCK__MS + sim_random(world, world->config.lease);
    struct sim_hold *hold;

    user->call = (struct rlock__call){.kind = RLOCK__EXTEND,
                                      .extend.lease_us = rlock__min(lease, world->config.lease)};
    user->side = user->holds[1].depth != 0;
    hold = &user->holds[user->side];
    hold->lease = rlock__max(hold->lease, lease_of(user));
    user->valid_before = sim_valid_until(hold);
    sim_user_begin(user);
}

static bool may_say(int code)
{
    return code == 0 || code == RLOCK_ENOTOWNER || code == RLOCK_ELOST || code == RLOCK_EINDOUBT ||
           code == RLOCK_ECLOSED || sim_is_refusal(code);
}

static void check(const struct sim_user *user)
{
    const struct sim_client *client = user->client;
    const struct sim_hold *hold = &user->holds[user->side];
    const char *key = client->world->keys[user->key];
    int64_t until = sim_valid_until(hold), most = user->call.spec->tuning->max_hold_us;
    bool is_unlocked = hold->shared || user->is_ended;
    int code = user->call.code;

    if (!may_say(code)) {
        sim_violate(client->world, "client %u: an extension of %s says %s", client->index, key,
                    rlock_code_name(code));
    }
    if (sim_is_refusal(code) && (user->call.extend.is_sent || user->call.extend.may_have_run)) {
        sim_violate(client->world, "client %u: an extension of %s may have run, and says %s",
                    client->index, key, rlock_code_name(code));
    }
    if (code == RLOCK_ENOTOWNER && !is_unlocked) {
        sim_violate(client->world, "client %u: an extension does not find %s", client->index, key);
    }
    if (!hold->lost && !is_unlocked && until < user->valid_before) {
        sim_violate(client->world, "client %u: an extension made %s shorter", client->index, key);
    }
    if (code == 0 && !hold->lost && !is_unlocked && most == 0 &&
        until < rlock__valid_until(&client->core, user->began, lease_of(user))) {
        sim_violate(client->world, "client %u: an extension of %s is too short", client->index,
                    key);
    }
}

void sim_extend_done(struct sim_user *user)
{
    struct sim_hold *hold = &user->holds[user->side];

    check(user);
    if (user->call.code == 0 && user->call.extend.lease_us == 0 && hold->depth != 0) {
        hold->renewed |= 1U << 1;
        hold->fixed = false;
    }
    if (hold->shared && hold->view != NULL) {
        hold->depth = sim_levels_left(hold);
    }
}
