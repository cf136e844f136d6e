/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of the numbers that their users have no more:
 *   given up stays given up  an unlock in doubt never makes the hold valid again
 *   free when it was said    and by the time that was promised the server has it no more
 *   looked after             where a client may not fence, a late copy keeps the lock for a third
 *                            of a lease at most: so often its number is released
 */
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/call/acquire.h"
#include "lock/hold/hold.h"
#include "lock/hold/recovery.h"
#include "world.h"

static void note(struct sim_client *client, uint64_t number, int64_t until)
{
    client->ended[client->n_ended++ % SIM_ENDED] = (struct sim_ended){number, until};
}

void sim_note_free_by(struct sim_user *user, unsigned side, int64_t since, int64_t free_by)
{
    struct sim_hold *hold = &user->holds[side];

    hold->given_up = hold->number;
    hold->given_key = user->key;
    hold->free_by = free_by;
    hold->since = since;
    hold->rests = false;
    hold->idle_since = user->client->world->now;
}

void sim_note_given_up(struct sim_user *user, unsigned side, int64_t since)
{
    const struct sim_config *config = &user->client->world->config;
    const struct rlock__hold *row = sim_find_hold(user->client, user->holds[side].number);
    int64_t free_by;

    if (row != NULL && row->state == RLOCK__HOLD_HELD && row->grant != NULL) {
        /* an unlock that does not wait promises no time: a renewal may be on its way, or be sent
         * again since the server forgot its script */
        free_by = row->grant->free_by + (user->call.sends ? 4 * config->delay_max : 0);
        if (config->other != NULL && side == 1) {
            /* the owner may have read meanwhile: then the key has the longer lease of the two */
            free_by = rlock__max(free_by, sim_clock(user->client) + config->lease);
        }
        sim_note_free_by(user, side, since, free_by);
    }
}

void sim_note_ended(struct sim_user *user)
{
    struct sim_client *client = user->client;
    const struct rlock__call *call = &user->call;
    struct sim_hold *hold = &user->holds[user->side];
    int64_t lease =
        call->acquire.lease_us != 0 ? call->acquire.lease_us : client->world->config.lease;

    if (hold->depth != 0 || sim_is_passed(user)) {
        return;
    }
    if (call->kind == RLOCK__ACQUIRE &&
        (call->code == RLOCK_EINDOUBT || call->code == RLOCK_ECANCELED)) {
        note(client, call->number, call->acquire.sent_at + lease);
    } else if (call->kind == RLOCK__RELEASE && call->code == 0) {
        note(client, hold->number, sim_clock(client) + hold->lease);
    } else if (call->kind == RLOCK__RELEASE && (call->code == RLOCK_EINDOUBT || hold->shared)) {
        sim_note_given_up(user, user->side, user->began_at);
    }
}

void sim_note_lost(struct sim_user *user, unsigned side)
{
    const struct sim_hold *hold = &user->holds[side];

    note(user->client, hold->number, sim_clock(user->client) + hold->lease);
}

bool sim_is_on_server(const struct sim_user *user, unsigned side, uint64_t number)
{
    struct sim_user other = {.client = user->client, .key = user->holds[side].given_key};

    other.holds[side].number = number;
    return sim_server_count(&other, side) != 0;
}

void sim_check_given_up(struct sim_user *user, unsigned side)
{
    struct sim_client *client = user->client;
    struct sim_world *world = client->world;
    struct sim_hold *hold = &user->holds[side];
    const struct rlock__hold *row;

    if (hold->given_up == 0) {
        return;
    }
    sim_second_check(user, side);
    row = sim_find_hold(client, hold->given_up);
    if (row != NULL && row->state == RLOCK__HOLD_HELD && rlock__hold_left(row) != 0) {
        sim_violate(world, "client %u: holds %s again, which it gave up", client->index,
                    world->keys[hold->given_key]);
    }
    if (hold->shared ? sim_is_on_server(user, side, hold->given_up)
                     : sim_clock(client) <= hold->free_by + RLOCK__MS - world->clock_offset) {
        return; /* the lease lasts longer if the server's clock was set back */
    }
    /* the lease that the owner's other side renews is the key's, so it keeps this side as well */
    if (user->holds[1 - side].depth != 0 && user->key == hold->given_key) {
        return;
    }
    /* a server that stands still, or what lay on a broken link, may run later than anybody says */
    if (client->may_kill && client->disturbed < hold->since - world->config.lease &&
        sim_is_on_server(user, side, hold->given_up)) {
        sim_violate(world, "client %u: said that %s would be free by now", client->index,
                    world->keys[hold->given_key]);
    }
    hold->given_up = 0;
}

bool sim_is_ended(const struct sim_client *client, uint64_t number)
{
    for (unsigned i = 0; i < SIM_ENDED; i++) {
        if (client->ended[i].number == number) {
            return sim_clock(client) < client->ended[i].until;
        }
    }
    return false;
}

bool sim_is_released(const struct sim_client *client, uint64_t number)
{
    const struct rlock__hold *row = sim_find_hold(client, number);
    const struct rlock__ticket *ticket;

    DL_FOREACH(client->core.recovery.tickets, ticket) {
        if (ticket->number == number) {
            return true;
        }
    }
    return row != NULL && row->grant->releasing;
}

bool sim_is_given_up(const struct sim_world *world, struct sim_view owner)
{
    const struct sim_client *client = sim_owner_client(world, owner);

    return client != NULL && owner.len > RLOCK__UUID_LEN + 1 &&
           sim_is_released(client, strtoull(owner.data + RLOCK__UUID_LEN + 1, NULL, 10));
}

bool sim_is_reserved(const struct sim_world *world, struct sim_view owner)
{
    bool was_killed = sim_owner_client(world, owner) == NULL;

    return world->only.queues != 0 && (was_killed || sim_is_given_up(world, owner));
}

bool sim_is_given_back(const struct sim_user *user)
{
    const struct rlock__call *call = &user->call;
    const struct rlock__ticket *ticket;
    int64_t lease =
        call->acquire.lease_us != 0 ? call->acquire.lease_us : call->core->opts.renewed_lease_us;

    if (call->acquire.target == 1 ||
        call->hold->grant != NULL) { /* else nothing shortens it any more */
        lease = rlock__acquire_lease(call, call->acquire.sent_at);
    }
    if (sim_clock(user->client) >= call->acquire.sent_at + lease) {
        return true;
    }
    DL_FOREACH(user->client->core.recovery.tickets, ticket) {
        if (ticket->number == user->call.number && ticket->spec == user->call.spec) {
            return true;
        }
    }
    return false;
}
