/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client makes of answers that prove the end of a hold (src/lock/call/proof.c):
 *   one at a time     two owners of a client never both believe to hold an exclusive lock, except
 *                     while the server is asked which of them has it
 *   busy is believed  after a refusal that names somebody else no owner of the client believes to
 *                     hold the lock, with the same exception
 */
#include <string.h>

#include "lock/common.h"
#include "world.h"

/* What the user believes to hold alone; NULL nothing. */
static const struct rlock__hold *believed(const struct sim_user *user)
{
    const struct sim_hold *hold = &user->holds[user->client->world->config.other != NULL ? 1 : 0];
    const struct rlock__hold *row =
        hold->depth != 0 ? sim_find_hold(user->client, hold->number) : NULL;

    return row != NULL && row->state == RLOCK__HOLD_HELD &&
                   sim_valid_until(hold) > sim_clock(user->client)
               ? row
               : NULL;
}

void sim_proofs(const struct sim_user *user)
{
    const struct sim_client *client = user->client;
    /* several have permits at a time, and no answer proves anything about them */
    const struct rlock__hold *one = client->world->config.units == 0 ? believed(user) : NULL;

    for (unsigned i = 0; one != NULL && i < client->n_users && &client->users[i] != user; i++) {
        const struct sim_user *other = &client->users[i];
        const struct rlock__hold *two = other->key == user->key ? believed(other) : NULL;

        if (two != NULL && one != two && !one->grant->verifies && !two->grant->verifies) {
            sim_violate(client->world, "client %u: users %llu and %llu believe to hold %s",
                        client->index, (unsigned long long)user->owner.id,
                        (unsigned long long)other->owner.id, client->world->keys[user->key]);
        }
    }
}

/* Whether the last answer to the call, of which it made one attempt, names somebody else. */
static bool is_named(const struct sim_user *user, const struct rlock__hold *hold)
{
    char text[RLOCK__OWNER_SIZE];
    const char *holder = user->texts.facts.holder;
    size_t len = rlock__owner_text(&user->client->core, hold->grant->number, text).len;

    return holder[0] == '\0' || strncmp(holder, text, len) == 0;
}

void sim_proofs_done(const struct sim_user *user)
{
    const struct sim_client *client = user->client;
    const struct rlock__call *call = &user->call;
    bool refused = call->kind == RLOCK__ACQUIRE && call->code == RLOCK_EBUSY &&
                   call->acquire.attempts == 1 && !call->acquire.asked;

    for (unsigned i = 0; refused && i < client->n_users; i++) {
        const struct sim_user *other = &client->users[i];
        const struct rlock__hold *hold =
            other != user && other->key == user->key ? believed(other) : NULL;

        if (hold != NULL && call->acquire.sent_at > hold->grant->granted_at &&
            !hold->grant->verifies && !is_named(user, hold)) {
            sim_violate(client->world, "client %u: %s is %s's, and user %llu believes to hold it",
                        client->index, client->world->keys[user->key], user->texts.facts.holder,
                        (unsigned long long)other->owner.id);
        }
    }
}
