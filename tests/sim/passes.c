/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client does when it passes a hold on (lock/call/pass.h):
 *   one at a time        who gave it is not valid any more, and nobody else has the number
 *   first come           who gets it came before all others that wait in this client
 *   like for like        both have it renewed, as one level of their own, and not past max_hold
 *   nothing is open      the number that the receiver asked under is never on the server again
 *   not in doubt         no renewal has failed, and nothing is to be verified
 *   others have a turn   few times, and shortly after the server's last word
 *   no need to ask       who waits for such a hold sends no attempts
 */
#include "lock/hold/hold.h"
#include "lock/hold/ticket.h"
#include "world.h"

#define MOST 60
#define LONGEST (10 * RLOCK__MS)

/* Another user of the client who has that number. */
static struct sim_user *find(const struct sim_user *user, uint64_t number)
{
    struct sim_client *client = user->client;

    for (unsigned i = 0; i < client->n_users; i++) {
        struct sim_user *other = &client->users[i];

        if (other != user && other->holds[0].depth != 0 && other->holds[0].number == number) {
            return other;
        }
    }
    return NULL;
}

bool sim_is_passed(const struct sim_user *user)
{
    return user->call.kind == RLOCK__RELEASE && user->call.code == 0 && user->holds[0].depth == 0 &&
           find(user, user->holds[0].number) != NULL;
}

static bool waits(const struct sim_user *user)
{
    return user->calling && user->call.kind == RLOCK__ACQUIRE && user->call.acquire.queue != NULL;
}

static void check_receiver(struct sim_user *user, const struct sim_user *giver)
{
    struct sim_client *client = user->client;
    const char *key = client->world->keys[user->key];

    for (unsigned i = 0; i < client->n_users; i++) {
        const struct sim_user *other = &client->users[i];

        if (other != user && waits(other) && other->key == user->key && other->joined != 0 &&
            other->joined < user->joined) {
            sim_violate(client->world, "client %u: %s is passed on past one who came before",
                        client->index, key);
        }
    }
    if (user->key != giver->key || user->call.acquire.lease_us != 0 || giver->holds[0].depth != 1 ||
        giver->holds[0].fixed || user->call.count != 1) {
        sim_violate(client->world, "client %u: %s is passed on for something else", client->index,
                    key);
    }
    if (giver->began_at == client->world->now && (user->asks || user->open)) {
        sim_violate(client->world, "client %u: %s is passed on to one who asks the server",
                    client->index, key);
    }
    if (sim_valid_until(&giver->holds[0]) != 0 || client->closed ||
        client->specs[0][user->key]->ops == &rlock__fenced_ops) {
        sim_violate(client->world, "client %u: %s is passed on, which must not be", client->index,
                    key);
    }
}

static void check_hold(const struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    const struct rlock__hold *row = sim_find_hold(user->client, user->call.number);
    const char *key = world->keys[user->key];

    if (row == NULL || row->state != RLOCK__HOLD_HELD) {
        return; /* it was lost since */
    }
    if (row->grant->failures != 0 || row->grant->verifies || row->grant->failed_over) {
        sim_violate(world, "client %u: %s is passed on in doubt", user->client->index, key);
    }
    if (row->grant->passes > MOST || sim_clock(user->client) - row->grant->leased_at >= LONGEST) {
        sim_violate(world, "client %u: %s is passed on, and others have waited long",
                    user->client->index, key);
    }
}

bool sim_pass_taken(struct sim_user *user)
{
    struct sim_client *client = user->client;
    struct sim_user *giver = find(user, user->call.number);
    struct sim_hold *hold = &user->holds[0];

    if (giver == NULL) {
        return false;
    }
    client->world->passes++;
    check_receiver(user, giver);
    check_hold(user);
    if (user->own != 0 && client->may_kill) {
        sim_declare_dead(client->world, client, 0, user->own, "passed a hold");
    }
    hold->doomed = giver->holds[0].doomed; /* what happened to it came with it */
    hold->doomed_valid = giver->holds[0].doomed_valid;
    hold->fuzzy = giver->holds[0].fuzzy;
    hold->half = giver->holds[0].half;
    hold->gone = giver->holds[0].gone;
    return true;
}

/* Whether a hold of this client is there for which the user waits. Of two, one is over, and nobody
 * knows it yet: the client may take either for the one that is awaited. */
static bool is_awaited(const struct sim_user *user)
{
    struct sim_client *client = user->client;
    const struct rlock__hold *found = rlock__hold_by_lock(&client->core, user->call.spec, NULL);

    for (unsigned i = 0; i < client->n_users; i++) {
        const struct sim_user *other = &client->users[i];
        const struct sim_hold *hold = &other->holds[0];
        const struct rlock__hold *row = sim_find_hold(client, hold->number);

        if (other != user && other->key == user->key && hold->depth == 1 && !hold->fixed &&
            row != NULL && row == found &&
            row->renewed_from != 0 /* no unlock of it was refused */ && !hold->lost &&
            !other->calling && sim_valid_until(hold) > sim_clock(client)) {
            return true;
        }
    }
    return false;
}

void sim_passes(struct sim_user *user)
{
    const struct sim_client *client = user->client;
    const struct rlock__call *call = &user->call;
    bool may_pass = client->world->config.other == NULL && !client->world->config.no_pass &&
                    (client->world->config.kind->caps & RLOCK__CAP_PASSES) != 0;
    bool awaits = may_pass && waits(user) && is_awaited(user);

    /* at the end of its wait it asks once, whoever has it */
    if (awaits && user->awaits && call->acquire.attempts > user->tries &&
        sim_clock(client) < call->deadline) {
        sim_violate(client->world, "client %u: asks for %s, which another one here holds",
                    client->index, client->world->keys[user->key]);
    }
    user->asks = waits(user) && call->step == RLOCK__ASKING;
    user->open = waits(user) && rlock__ticket_is_open(call->acquire.ticket);
    user->awaits = awaits;
    user->tries = call->acquire.attempts;
    user->own = waits(user) && call->acquire.target == 1 ? call->number : 0;
    user->joined = !waits(user) ? 0 : user->joined != 0 ? user->joined : ++client->world->joins;
}
