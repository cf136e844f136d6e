/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users detach what they hold, and users of any client adopt it. Whatever comes of that:
 *   it moved        after a detach that returned 0 the server has the text, and never the number
 *   it stays taken  while the text's lease lasts nobody but an adopter gets the lock: the check
 *                   that valid means held sees to that
 *   it is found     on a perfect network the only adopter is refused only if the text is gone; and
 *                   on no network while its client gives the hold back to the text
 *   refused is clean an adopter that was refused is never on the server again
 */
#include <stdio.h>
#include <utlist.h>

#include "lock/hold/recovery.h"
#include "permits.h"
#include "world.h"

static struct sim_view view_of(const char *text)
{
    return (struct sim_view){text, strlen(text)};
}

static bool is_on_server(const struct sim_world *world, const struct sim_text *text)
{
    struct sim_view value, key = view_of(world->keys[text->key]);
    char field[SIM_OWNER_SIZE];

    (void)snprintf(field, sizeof(field), "%s%s", text->owner, text->side == 1 ? ":write" : "");
    if ((world->config.kind->caps & RLOCK__CAP_UNITS) != 0) {
        int64_t left_ms;

        return sim_permits_of(world, text->key, field, &left_ms) != 0;
    }
    return sim_find_field(world, key, view_of(field), &value) &&
           (world->config.other == NULL || text->side == 1 ||
            sim_reader_ttl(world, key, view_of(field), 1) != -2);
}

bool sim_is_text(struct sim_view owner)
{
    return owner.len > RLOCK__UUID_LEN && owner.data[SIM_TEXT_AT] == SIM_TEXT_DIGIT;
}

/* ---- Detaching ---- */

/* Whether the user's client stands for another library, which knows no queue: it has no texts. */
static bool is_peer(const struct sim_user *user)
{
    return user->client->world->only.queues != 0 && !user->client->core.opts.queues;
}

bool sim_may_detach(const struct sim_user *user)
{
    const struct sim_hold *holds = user->holds;

    return holds[0].depth + holds[1].depth == 1 && !holds[0].shared && !holds[1].shared &&
           !user->second.is_calling && !is_peer(user);
}

void sim_detach(struct sim_user *user)
{
    struct sim_world *world = user->client->world;

    user->side = user->holds[1].depth != 0;
    user->call = (struct rlock__call){.kind = RLOCK__RELEASE,
                                      .acquire.lease_us =
                                          20 * RLOCK__MS + sim_random(world, world->config.lease)};
    sim_user_begin_release(user);
}

static void note_text(struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    struct sim_text *text = &world->texts[world->n_texts++ % SIM_TEXTS];
    char owner[RLOCK__OWNER_SIZE];

    (void)rlock__text_owner(&user->client->core, user->call.number, owner);
    *text = (struct sim_text){.key = user->key, .side = user->side};
    (void)snprintf(text->owner, sizeof(text->owner), "%s", owner);
    if (world->config.faults == 0 && !is_on_server(world, text) &&
        world->now - user->began_at < user->call.acquire.lease_us - 10 * RLOCK__MS) {
        sim_violate(world, "client %u: detached %s, and the text is not there", user->client->index,
                    world->keys[user->key]);
    }
}

static bool may_say(int code)
{
    return code == 0 || code == RLOCK_ENOTOWNER || code == RLOCK_ELOST || code == RLOCK_EINDOUBT ||
           code == RLOCK_EINVAL || code == RLOCK_ETIMEDOUT || code == RLOCK_ECLOSED ||
           sim_is_refusal(code);
}

void sim_detach_done(struct sim_user *user)
{
    struct sim_client *client = user->client;
    struct sim_world *world = client->world;
    struct sim_hold *hold = &user->holds[user->side];
    const char *key = world->keys[user->key];
    int code = user->call.code;

    if (!may_say(code)) {
        sim_violate(world, "client %u: a detach of %s says %s", client->index, key,
                    rlock_code_name(code));
    }
    if (code == 0) {
        note_text(user);
        hold->depth = 0;
        if (client->may_kill) {
            sim_declare_dead(world, client, user->side, hold->number, "detached");
            sim_check_server(world);
        }
    } else if (code == RLOCK_ENOTOWNER) {
        hold->depth = 0;
    } else if (code == RLOCK_ELOST && !hold->doomed && !hold->lost && !user->doomed_call &&
               sim_valid_until(hold) != 0) {
        sim_violate(world, "client %u: a detach lost %s, which nobody took", client->index, key);
    } else if (code == RLOCK_EINDOUBT || sim_is_refusal(code)) {
        if (sim_valid_until(hold) != 0) {
            sim_violate(world, "client %u: %s is valid after a detach in doubt", client->index,
                        key);
        }
        hold->begun = true; /* detached again, or unlocked */
        hold->renewed = 0;
        hold->fuzzy = hold->half = true;
    }
    hold->begun |= code == RLOCK_ELOST; /* a detach that was sent ends the hold in any case */
    hold->begun &= hold->depth != 0;
    user->doomed_call = false;
}

/* ---- Adopting ---- */

/* An earlier attempt of this client that may still give the hold back to the text; 0: none. */
static uint64_t given_back(const struct sim_user *user)
{
    const struct rlock__ticket *ticket;

    DL_FOREACH(user->client->core.recovery.tickets, ticket) {
        if (ticket->adopts != NULL && strcmp(ticket->adopts, user->text.owner) == 0 &&
            ticket->spec->ops == user->client->specs[user->text.side][user->text.key]->ops) {
            return ticket->number;
        }
    }
    return 0;
}

/* No other call asked for the text, which might have had it, and given it back. */
static bool is_only_adopter(const struct sim_user *user)
{
    const struct sim_world *world = user->client->world;

    for (unsigned i = 0; i < SIM_TEXTS; i++) {
        if (strcmp(world->texts[i].owner, user->text.owner) == 0) {
            return world->texts[i].adopters == 1;
        }
    }
    return false;
}

bool sim_adopt(struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    struct sim_text *text = &world->texts[sim_random(world, SIM_TEXTS)];

    if (text->owner[0] == '\0' || is_peer(user)) {
        return false;
    }
    text->adopters++;
    user->text = *text;
    user->text.given_back = given_back(user);
    user->key = text->key;
    user->side = text->side;
    user->call = (struct rlock__call){.kind = RLOCK__ACQUIRE};
    user->call.acquire.adopts = user->text.owner;
    if (sim_chance(world, 400)) {
        user->call.acquire.lease_us = 20 * RLOCK__MS + sim_random(world, world->config.lease);
    }
    sim_user_plan(user, sim_random(world, 3 * world->config.lease)); /* it may be canceled then */
    sim_user_begin(user);
    return true;
}

bool sim_is_ended_adoption(const struct sim_user *user)
{
    const struct sim_world *world = user->client->world;
    struct sim_view value, key = view_of(world->keys[user->key]);
    char owner[RLOCK__OWNER_SIZE];

    if (user->call.acquire.adopts == NULL || world->config.other == NULL || user->side != 0) {
        return false;
    }
    (void)snprintf(owner, sizeof(owner), "%s:%llu", user->client->core.opts.uuid,
                   (unsigned long long)user->call.number);
    return sim_find_field(world, key, view_of(owner), &value) &&
           sim_reader_ttl(world, key, view_of(owner), 1) == -2;
}

void sim_adopt_done(struct sim_user *user)
{
    struct sim_client *client = user->client;
    struct sim_world *world = client->world;
    const struct rlock__call *call = &user->call;

    if (call->code == RLOCK_EBUSY || call->code == RLOCK_ETIMEDOUT) {
        sim_violate(world, "client %u: an adoption of %s says %s", client->index,
                    world->keys[user->key], rlock_code_name(call->code));
    }
    if (call->code == RLOCK_ENOTOWNER) {
        if (world->config.faults == 0 && is_only_adopter(user) &&
            is_on_server(world, &user->text)) {
            sim_violate(world, "client %u: does not adopt %s, which is there", client->index,
                        world->keys[user->key]);
        }
        if (user->text.given_back != 0 && given_back(user) == user->text.given_back) {
            sim_violate(world, "client %u: does not adopt %s, which is given back to the text",
                        client->index, world->keys[user->key]);
        }
        if (call->number != 0 && !sim_is_ended_adoption(user)) {
            sim_declare_dead(world, client, user->side, call->number, "not adopted");
        }
    }
    for (unsigned i = 0; i < SIM_TEXTS; i++) {
        if ((call->code == 0 || call->code == RLOCK_ENOTOWNER) &&
            strcmp(world->texts[i].owner, user->text.owner) == 0) {
            world->texts[i].owner[0] = '\0';
        }
    }
}
