/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether clients let each other have their turns, on a network that works:
 *   after a release that others heard, nobody next to the lock asks before they could have
 *   a pause ends; who is alone, whom nobody may keep waiting, and whose lock it is, makes none
 */
#include <string.h>

#include "base/uuid.h"
#include "lock/server/channel.h"
#include "world.h"

#define SHORTEST RLOCK__MS /* a pause */
#define LONGEST (4 * RLOCK__MS)
#define YIELD (32 * LONGEST) /* for another library that polls, and does not come */

static bool takes_turns(const struct sim_world *world)
{
    return world->config.other == NULL && (world->config.kind->caps & RLOCK__CAP_WAIT_QUEUE) != 0 &&
           world->config.faults == 0 && world->only.queues == 0;
}

static bool calls(const struct sim_user *user, enum rlock__call_kind kind, unsigned key)
{
    return user->calling && user->call.kind == kind && user->key == key;
}

/* Notes whose hold of the key has ended. */
void sim_turns_key(struct sim_world *world, unsigned key)
{
    char *before = world->turns[key].holder;

    if (strcmp(before, world->holder[key]) == 0) {
        return;
    }
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        if (strncmp(before, world->clients[i]->core.opts.uuid, RLOCK__UUID_LEN) == 0) {
            world->turns[key].left_before[i] = world->turns[key].left_at[i];
            world->turns[key].left_at[i] = world->now;
        }
        world->turns[key].yields_until[i] = 0; /* somebody has had his turn, or the release ran */
    }
    memcpy(before, world->holder[key], SIM_OWNER_SIZE);
}

/* Whether it is known, and not only on its way, that the client hears the channel or does not. */
static bool is_clear(const struct sim_client *client, unsigned key, int64_t before)
{
    int64_t last = 0;

    for (unsigned i = 0; i < client->n_users; i++) {
        const struct sim_user *user = &client->users[i];

        if (calls(user, RLOCK__ACQUIRE, key) && user->listens_since != 0) {
            return user->listens_since < before && rlock__channel_is_live(&user->call);
        }
        last = rlock__max(last, user->listened_at[key]);
    }
    return last + 6 * client->world->config.delay_max < before;
}

/* Whether some other client heard what was said after that time, and the releases know of that. */
static bool is_heard(const struct sim_client *client, unsigned key, int64_t began_at)
{
    const struct sim_world *world = client->world;
    int64_t long_ago = began_at - 2 * world->config.delay_max - RLOCK__MS;
    bool heard = false;

    if ((world->config.kind->caps & RLOCK__CAP_TRACKS) != 0) { /* nobody announces them */
        return false;
    }
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        for (unsigned j = 0; i != client->index && j < world->clients[i]->n_users; j++) {
            const struct sim_user *user = &world->clients[i]->users[j];

            heard |= calls(user, RLOCK__ACQUIRE, key) && user->listens_since != 0 &&
                     user->listens_since < began_at;
        }
        if ((i == client->index ? world->turns[key].left_before[i] : world->turns[key].left_at[i]) >
            long_ago) {
            return false; /* what is said of that may be taken for another's release */
        }
    }
    return heard;
}

/* The holder that an answer named may be another library's. */
static void note_peer(const struct sim_user *user)
{
    struct sim_world *world = user->client->world;

    if (rlock__owner_is_foreign(rlock__bytes_of(user->texts.facts.holder))) {
        world->turns[user->key].peer_at[user->client->index] = world->now;
    }
}

/* A call is done. */
void sim_turns_done(const struct sim_user *user)
{
    struct sim_client *client = user->client;
    struct sim_world *world = client->world;
    unsigned key = user->key;

    if (user->call.kind == RLOCK__ACQUIRE) {
        note_peer(user);
        world->turns[key].wanted_at[client->index] = world->now;
        if (user->call.acquire.adopts != NULL && user->call.code == 0) {
            world->turns[key].adopted_at[client->index] = world->now;
        }
    }
    if (user->call.kind == RLOCK__RELEASE && user->call.code == RLOCK_EINDOUBT) {
        world->turns[key].was_clear[client->index] =
            false; /* its answer may come during the next call */
    }
    if (!takes_turns(world) || user->call.kind != RLOCK__RELEASE || user->call.code != 0 ||
        user->call.count != 0 || sim_is_passed(user)) {
        return;
    }
    world->turns[key].gave_at[client->index] = user->began_at;
    world->turns[key].was_clear[client->index] = is_clear(client, key, user->began_at);
    if (world->turns[key].adopted_at[client->index] != 0 &&
        user->began_at - world->turns[key].adopted_at[client->index] < world->config.delay_max) {
        return; /* the client may take the message of the adoption for that of its release */
    }
    if (world->holder[key][0] == '\0' && is_heard(client, key, user->began_at) &&
        world->turns[key].was_clear[client->index]) {
        world->turns[key].answered_at[client->index] = world->now;
        world->turns[key].yields_until[client->index] = world->now + SHORTEST;
    }
}

/* Whether it came, and asked, while the release was on its way: nobody knew yet who heard it. */
static bool is_fresh(const struct sim_user *user)
{
    const struct sim_client *client = user->client;
    const struct sim_turns *turns = &client->world->turns[user->key];
    int64_t asked_at = client->world->now - (sim_clock(client) - user->call.acquire.sent_at);

    return user->began_at >= turns->gave_at[client->index] &&
           asked_at < turns->answered_at[client->index];
}

static void check_asking(const struct sim_user *user)
{
    const struct sim_client *client = user->client;
    const struct rlock__call *call = &user->call;
    int64_t rest = call->deadline - sim_clock(client);

    if (call->acquire.attempts > user->attempts && call->acquire.wait_us != 0 &&
        client->world->config.units == 0 && call->acquire.target == 1 &&
        rest > 2 * client->slowest + 20 * RLOCK__MS && !is_fresh(user) &&
        client->world->now < client->world->turns[user->key].yields_until[client->index]) {
        sim_violate(client->world, "client %u: takes %s again before others could", client->index,
                    client->world->keys[user->key]);
    }
}

/* Whether nobody else wanted the key when the client's latest release was sent, and the client
 * could not take its own subscription for another's. */
static bool is_alone(const struct sim_client *client, unsigned key)
{
    const struct sim_world *world = client->world;
    int64_t since = world->turns[key].gave_at[client->index] - 4 * world->config.delay_max;
    bool alone = client->n_users == 1 && world->turns[key].was_clear[client->index];

    for (unsigned i = 0; i < world->config.n_clients; i++) {
        alone = alone && (i == client->index || world->turns[key].wanted_at[i] < since);
    }
    return alone;
}

/* Whether its time lasts for an attempt, as far as answers, and one that is late, tell. */
static bool has_time(const struct rlock__call *call, const struct sim_client *client)
{
    const struct rlock__request *oldest = call->link->pipeline.sent;
    int64_t now = sim_clock(client), late = oldest != NULL ? now - oldest->t0 : 0;

    return call->deadline - now >= rlock__max(client->slowest, late);
}

/* Whether the client was answered of late that another library has the key, and that one may poll.
 */
static bool has_pollers(const struct sim_user *user)
{
    const struct sim_world *world = user->client->world;
    int64_t at = world->turns[user->key].peer_at[user->client->index];

    return world->config.kind == &rlock__spin_ops && at != 0 &&
           world->now < at + RLOCK__SECOND + YIELD + world->config.op_timeout;
}

/* Whether a release of the key is on its way, for which no user waits. */
static bool is_releasing(const struct sim_user *user)
{
    const struct sim_client *client = user->client;
    const struct rlock__hold *row;
    bool is = false;

    DL_FOREACH(client->core.rows.holds, row) {
        is = is || (row->sent > 0 && rlock__bytes_equal(row->spec->key, user->call.spec->key));
    }
    return is;
}

static void check_pausing(const struct sim_user *user)
{
    const struct sim_client *client = user->client;
    const struct rlock__call *call = &user->call;
    int64_t longest = has_pollers(user) ? YIELD : LONGEST;

    longest = is_releasing(user) ? client->world->config.op_timeout : longest;
    for (unsigned i = 0; i < client->n_users; i++) { /* until the answer says how long it is */
        longest = calls(&client->users[i], RLOCK__RELEASE, user->key)
                      ? client->world->config.op_timeout
                      : longest;
    }
    if (call->acquire.wait_us == 0 || call->acquire.target > 1) {
        sim_violate(client->world, "client %u: pauses, and must not", client->index);
    } else if (call->timer.set && !has_time(call, client)) {
        return; /* it waits for the end */
    } else if (!call->timer.set || call->timer.at - sim_clock(client) > longest) {
        sim_violate(client->world, "client %u: pauses longer than %lld us", client->index,
                    (long long)longest);
    } else if (is_alone(client, user->key) && !has_pollers(user) && !is_releasing(user)) {
        sim_violate(client->world, "client %u: pauses for nobody", client->index);
    }
}

void sim_turns(struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    bool takes = calls(user, RLOCK__ACQUIRE, user->key);
    bool listens = takes && user->call.channel != NULL;

    if (!takes_turns(world)) {
        return;
    }
    if (takes) {
        note_peer(user);
        check_asking(user);
        world->turns[user->key].wanted_at[user->client->index] = world->now;
    }
    if (takes && user->call.step == RLOCK__PAUSING) {
        check_pausing(user);
    }
    user->attempts = takes ? user->call.acquire.attempts : 0;
    if (listens) {
        user->listened_at[user->key] = world->now;
    }
    if (!listens || !rlock__channel_is_live(&user->call)) {
        user->listens_since = 0;
    } else if (user->listens_since == 0) {
        user->listens_since = world->now;
    }
}
