/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client does with a hold that lingers (lock/call/pass.h):
 *   not for long      its release is sent 10 ms after the last request for its lease at the latest,
 *                     and at once if a call elsewhere waits for it
 *   like for like     who takes it over has it renewed, as one level of its own
 *   not in doubt      no renewal has failed, nothing is to be verified, and no release was sent
 *   no need to ask    who takes it over has sent nothing
 */
#include <utlist.h>

#include "lock/hold/hold.h"
#include "world.h"

#define LONGEST (10 * RLOCK__MS)
#define SLACK (50 * RLOCK__MS)

bool sim_linger_begins(struct sim_user *user)
{
    struct sim_client *client = user->client;
    struct sim_hold *hold = &user->holds[0];
    const struct rlock__hold *row = sim_find_hold(client, hold->number);

    if (row == NULL || !row->grant->lingers) {
        return false;
    }
    if (hold->depth != 1 || hold->fixed || client->closed) {
        sim_violate(client->world, "client %u: %s lingers, which must not", client->index,
                    client->world->keys[user->key]);
    }
    client->lingering[user->key] = *hold;
    client->lingering[user->key].view = NULL;
    return true;
}

static void check_taker(const struct sim_user *user)
{
    const struct sim_client *client = user->client;
    const struct rlock__hold *row = sim_find_hold(client, user->call.number);
    const struct rlock__grant *grant = row != NULL ? row->grant : NULL;

    if (grant == NULL || user->call.acquire.lease_us != 0 || user->call.acquire.attempts != 0 ||
        user->call.count != 1 || grant->failures != 0 || grant->verifies || grant->failed_over ||
        grant->release != NULL || grant->releasing) {
        sim_violate(client->world, "client %u: %s is taken over, which must not be", client->index,
                    client->world->keys[user->key]);
    }
}

bool sim_linger_taken(struct sim_user *user)
{
    struct sim_client *client = user->client;
    struct sim_hold *before = &client->lingering[user->key], *hold = &user->holds[0];

    if (user->side != 0 || before->number == 0 || before->number != user->call.number ||
        user->call.acquire.attempts != 0) {
        return false;
    }
    check_taker(user);
    for (unsigned i = 0; i < client->n_users; i++) {
        if (client->users[i].holds[0].given_up == before->number) {
            client->users[i].holds[0].given_up = 0;
        }
    }
    hold->doomed = before->doomed; /* what happened to it came with it */
    hold->doomed_valid = before->doomed_valid;
    hold->gone = before->gone;
    hold->fuzzy = hold->half = false;
    if (client->world->config.failover_us != 0 && sim_server_count(user, 0) == 0) {
        hold->doomed = hold->gone = true;
        hold->doomed_valid = sim_valid_until(hold);
    }
    before->number = 0;
    client->world->passes++;
    return true;
}

void sim_linger_doom(struct sim_client *client, unsigned key, int64_t valid_until)
{
    struct sim_hold *hold = &client->lingering[key];

    if (!hold->doomed) {
        hold->doomed = true;
        hold->doomed_valid = valid_until;
    }
}

void sim_linger_check(struct sim_client *client)
{
    const struct rlock__hold *row;
    int64_t now = sim_clock(client);

    DL_FOREACH(client->core.rows.holds, row) {
        const struct rlock__grant *grant = row->grant;
        bool is_slow = sim_is_paused(client) || client->disturbed >= client->world->now - SLACK;

        if (grant == NULL || !grant->lingers) {
            continue;
        }
        if (grant->due > rlock__max(grant->leased_at + LONGEST, now) ||
            (!is_slow && now > grant->due + SLACK) || (grant->is_awaited && now < grant->due)) {
            sim_violate(client->world, "client %u: a hold lingers for long", client->index);
        }
    }
}
