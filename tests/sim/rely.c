/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each user may rely on, whatever happens:
 *   a hold that ended is told, and stays ended; one that is renewed is not lost while the network
 *   works
 *   calls are back by the end of their wait, with time for one answer more
 *   nobody sleeps longer than it may, or without listening; a spinning call's pauses grow
 *   every holder on the server is known to its client
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define HOPS 8 /* ways that a renewal may have to go, from server to server and back */
#define SLACK (50 * RLOCK__MS)
#define RESERVED (3200 * RLOCK__MS) /* the longest reservation */

int64_t sim_valid_until(const struct sim_hold *hold)
{
    return hold->view != NULL ? atomic_load(&hold->view->valid_until) : 0;
}

const struct rlock__hold *sim_find_hold(const struct sim_client *client, uint64_t number)
{
    const struct rlock__hold *hold = client->core.rows.holds;

    while (hold != NULL && (hold->grant == NULL || hold->grant->number != number)) {
        hold = hold->next;
    }
    return hold;
}

bool sim_user_is_held(const struct sim_user *user, unsigned side)
{
    const struct rlock__hold *hold = sim_find_hold(user->client, user->holds[side].number);

    return hold != NULL && hold->state == RLOCK__HOLD_HELD;
}

/* What an answer may take once the wait is over; on a perfect network five round trips. */
static int64_t answer_time(const struct sim_user *user, bool waits)
{
    const struct sim_config *config = &user->client->world->config;

    return waits && config->faults == 0 ? rlock__min(config->op_timeout, 10 * config->delay_max)
                                        : config->op_timeout;
}

int64_t sim_user_due(const struct sim_user *user)
{
    const struct rlock__call *call = &user->call;
    bool takes = rlock__listens(call);
    bool waits = takes && call->acquire.wait_us != 0;
    int64_t wait = waits ? call->acquire.wait_us : 0;
    int64_t due = wait < 0 ? RLOCK__NEVER : user->began + wait + answer_time(user, waits);

    if (user->call.kind == RLOCK__RELEASE) {
        return rlock__min(due, user->cut);
    }
    return takes && user->cancelled != 0 ? rlock__min(due, user->cancelled) : due;
}

/* Whether the link, the server and the client did their work freely for so long. */
static bool is_free_for(const struct sim_client *client, int64_t long_us)
{
    return rlock__max(client->hampered, client->disturbed) < client->world->now - long_us;
}

static bool has_one_holder(const struct sim_world *world)
{
    return world->config.other == NULL &&
           (world->config.kind->caps & (RLOCK__CAP_QUEUES | RLOCK__CAP_UNITS)) == 0;
}

/* ---- Sleeping ---- */

/* The lease of the holder that the call was told of ends before the call looks again. A late copy
 * may take the lock once more, under the same number and with another lease: nobody was told of
 * that. */
static bool outlives_holder(const struct sim_user *user)
{
    const struct sim_client *client = user->client;
    const struct sim_world *world = client->world;
    int64_t now = sim_clock(client), left = world->holder_ends[user->key] - world->now;
    /* who stands behind others in the lock's queue looks later */
    const struct rlock__entry *entry = user->call.acquire.entry;
    int64_t later = entry != NULL ? rlock__max(entry->place - 1, 0) * 50 * RLOCK__MS : 0;
    return has_one_holder(world) && user->call.error == 0 && user->call.acquire.contended &&
           strcmp(user->texts.facts.holder, world->holder[user->key]) == 0 &&
           world->now - world->holder_since[user->key] >= now - user->call.acquire.sent_at &&
           user->call.timer.at - now - world->config.delay_max - later - 30 * RLOCK__MS > left &&
           is_free_for(client, now - user->call.acquire.sent_at + 2 * world->config.delay_max);
}

/* Whether the call waits for the end of a hold of its own client: the client reports that end. */
static bool awaits_own(const struct sim_user *user)
{
    const struct sim_client *client = user->client;
    const char *holder = user->texts.facts.holder;
    const struct rlock__hold *hold = NULL;

    if (strncmp(holder, client->core.opts.uuid, RLOCK__UUID_LEN) == 0) {
        hold = sim_find_hold(client, strtoull(holder + RLOCK__UUID_LEN + 1, NULL, 10));
    }
    return hold != NULL && hold->state == RLOCK__HOLD_HELD &&
           user->call.timer.at <= hold->grant->valid_until + 2 * RLOCK__MS;
}

/* A spinning call looks again after pauses that double, with a jitter that grows. One that was
 * refused backs off. */
static void check_spin(struct sim_user *user)
{
    const struct rlock__call *call = &user->call;
    int64_t pause = call->timer.at - sim_clock(user->client),
            nth = (int64_t)call->acquire.spins - 1;
    int64_t least = RLOCK__MS << rlock__min(rlock__max(nth, 0), 7);
    int64_t more = rlock__min(nth, 128) * RLOCK__MS;

    if (call->acquire.spins == user->spins) {
        return;
    }
    user->spins = call->acquire.spins;
    if (call->error == 0 && call->timer.at != call->deadline && !awaits_own(user) &&
        (pause < least || pause > least + more)) {
        sim_violate(user->client->world, "client %u: pause %lld of its spinning is %lld us",
                    user->client->index, (long long)nth + 1, (long long)pause);
    }
}

static void check_sleep(struct sim_user *user)
{
    const struct sim_client *client = user->client;
    const struct rlock__call *call = &user->call;
    int64_t now = sim_clock(client);
    int64_t longest;

    if (!user->calling || call->kind != RLOCK__ACQUIRE ||
        (call->step != RLOCK__SLEEPING && call->step != RLOCK__SUBSCRIBING)) {
        return;
    }
    longest = call->error != 0 ? RLOCK__BACKOFF_US + RLOCK__BACKOFF_MAX_US
              : sim_hears(client, call) && !call->acquire.asked ? RLOCK__RECHECK_US
                                                                : RLOCK__POLL_US;
    if (call->acquire.target > 1 && call->error == 0 && client->world->config.units == 0) {
        sim_violate(client->world, "client %u: waits for a level of its own hold of %s",
                    client->index, client->world->keys[user->key]);
    } else if (rlock__ops_poll(call->spec->ops)) {
        check_spin(user);
    } else if (call->error == 0 && call->channel == NULL && !awaits_own(user)) {
        sim_violate(client->world, "client %u: sleeps, and does not listen", client->index);
    } else if (call->deadline - now < client->slowest && call->timer.set) {
        return; /* who has no time for another look waits for the end */
    } else if (!call->timer.set || call->timer.at - now > longest) {
        sim_violate(client->world, "client %u: sleeps longer than %lld us", client->index,
                    (long long)longest);
    } else if (outlives_holder(user)) {
        sim_violate(client->world, "client %u: sleeps past the lease that holds %s", client->index,
                    client->world->keys[user->key]);
    }
}

/* ---- Holds ---- */

/* At rest the server counts as many levels as the client. */
static void check_count(const struct sim_user *user, unsigned side)
{
    const struct sim_client *client = user->client;
    const struct sim_hold *mine = &user->holds[side];
    const struct rlock__hold *hold = sim_find_hold(client, mine->number);

    if (hold != NULL && hold->state == RLOCK__HOLD_HELD && !hold->busy && client->may_kill &&
        client->core.recovery.tickets == NULL && !mine->doomed && !mine->half &&
        !hold->grant->uneven && sim_valid_until(mine) > sim_clock(client) &&
        sim_server_count(user, side) != (long)hold->count &&
        /* units that were given back before a failover may be back, until the hold ends */
        (client->world->config.units == 0 || client->world->config.failover_us == 0 ||
         sim_server_count(user, side) < (long)hold->count)) {
        sim_violate(client->world, "client %u: %u levels of %s, the server has %ld", client->index,
                    hold->count, client->world->keys[user->key], sim_server_count(user, side));
    }
}

static void check_hold(struct sim_user *user, unsigned side)
{
    struct sim_client *client = user->client;
    struct sim_world *world = client->world;
    struct sim_hold *hold = &user->holds[side];
    const char *key = world->keys[user->key];
    int64_t now = sim_clock(client), until = sim_valid_until(hold);
    bool giving = (user->calling && user->call.kind == RLOCK__RELEASE && user->side == side) ||
                  (user->second.is_calling && user->second.side == side);

    sim_check_given_up(user, side);
    if (hold->depth == 0) {
        return;
    }
    check_count(user, side);
    if (hold->begun && until != 0) {
        sim_violate(world, "client %u: a hold of %s is valid after its last unlock", client->index,
                    key);
    }
    if (hold->not_after != 0 && until > hold->not_after) {
        sim_violate(world, "client %u: a hold of %s is renewed after its unlock", client->index,
                    key);
    }
    if (until == 0 && !hold->lost && !hold->begun && !giving && !client->closed) {
        sim_violate(world, "client %u: a hold of %s ended, and nobody is told", client->index, key);
    }
    if (until > now && hold->over) {
        sim_violate(world, "client %u: a hold of %s is valid again", client->index, key);
    }
    hold->over |= until != 0 && until <= now;
    hold->until = until != 0 ? until : hold->until;
    if (hold->held_until != 0 && until > hold->held_until) {
        sim_violate(world, "client %u: holds %s longer than its max_hold", client->index, key);
    }
    if (hold->lost && user->calling && user->side == side && user->call.step == RLOCK__ASKING &&
        user->knew_loss) {
        sim_violate(world, "client %u: asks the server about a lost hold of %s", client->index,
                    key);
    }
}

void sim_rely(struct sim_user *user)
{
    const struct rlock__call *call = &user->call;

    if (user->calling && call->step == RLOCK__ASKING && call->acquire.enqueued &&
        call->channel == NULL) {
        sim_violate(user->client->world, "client %u: queues for %s, and does not listen",
                    user->client->index, user->client->world->keys[user->key]);
    }
    check_sleep(user);
    check_hold(user, 0);
    check_hold(user, 1);
}

bool sim_is_refusal(int code)
{
    return code == RLOCK_ECONN || code == RLOCK_EREFUSED || code == RLOCK_EPERM ||
           code == RLOCK_EWRONGTYPE;
}

/* After a call: until when the hold may be believed in, and which levels are to be renewed. */
static void note_levels(const struct sim_user *user, struct sim_hold *hold)
{
    const struct sim_client *client = user->client;
    const struct rlock__call *call = &user->call;
    int64_t most = call->spec->tuning->max_hold_us;

    if (call->kind == RLOCK__ACQUIRE && call->code == 0) {
        hold->renewed &= (1U << hold->depth) - 1; /* another thread may have given up one here */
        hold->renewed |= (call->acquire.lease_us == 0 ? 1U : 0U) << hold->depth;
        hold->not_after = 0;
        if (hold->depth == 1) {
            hold->first_until = sim_valid_until(hold);
            hold->first_left = hold->first_until - sim_clock(client);
        }
        if (hold->depth == 1 && most != 0) { /* from then on, whatever is nested */
            hold->held_until = sim_clock(client) + most;
        }
    } else if (call->kind == RLOCK__RELEASE && call->code == 0) {
        hold->renewed &= (2U << hold->depth) - 1;
        hold->half = false;
    } else if (call->kind == RLOCK__RELEASE) { /* the level is given up; released later, maybe */
        bool last = hold->depth <= 1;

        hold->renewed &= last ? 0 : (1U << hold->depth) - 1;
        hold->half = true;
        if (last &&
            sim_is_refusal(call->code)) { /* a renewal behind it may be sent again as a whole */
            hold->not_after = sim_clock(client) + 2 * client->world->config.delay_max +
                              rlock__max(client->world->config.lease, hold->lease);
        }
    }
}

/* A level with a lease of its own has ended, or somebody deleted the number of free permits, and
 * the key is missing where the slot is being moved. A script that needs all keys is refused there
 * until the move is over. */
static bool is_refused_by_a_move(const struct sim_user *user, unsigned side)
{
    const struct sim_world *world = user->client->world;
    const struct sim_hold *hold = &user->holds[side];
    unsigned levels = (2U << hold->depth) - 2;

    return (world->config.units != 0 ||
            (strcmp(user->client->specs[side][user->key]->ops->kind, "read") == 0 &&
             (hold->renewed & levels) != levels)) &&
           world->now < world->open_until[user->key] + world->config.lease / 3 +
                            2 * world->config.delay_max; /* the answer was on its way */
}

void sim_rely_done(struct sim_user *user)
{
    struct sim_client *client = user->client;
    struct sim_world *world = client->world;
    struct sim_hold *hold = &user->holds[user->side];
    const char *key = world->keys[user->key];
    bool takes = user->call.kind == RLOCK__ACQUIRE, good = user->call.code == 0;
    bool released = !takes && good && !sim_is_passed(user);

    if (takes && good && sim_valid_until(hold) <= sim_clock(client)) {
        sim_violate(world, "client %u: is granted %s, which is over", client->index, key);
    }
    if (takes && good && hold->depth > 1 && world->config.kind == &rlock__nonreentrant_ops) {
        sim_violate(world, "client %u: holds %s twice", client->index, key);
    }
    if (takes && hold->depth != 0 && user->call.code == RLOCK_EBUSY && !hold->fuzzy &&
        world->config.units == 0) {
        sim_violate(world, "client %u: a level of its own hold of %s is busy", client->index, key);
    }
    if (released && user->gone && client->may_kill && !hold->fuzzy &&
        client->disturbed < user->began_at) { /* sent once */
        sim_violate(world, "client %u: released %s, which it did not hold", client->index, key);
    }
    if (released && hold->depth == 0 && hold->expired && !hold->doomed && client->may_kill) {
        sim_violate(world, "client %u: released %s, which had expired", client->index, key);
    }
    /* a replica may have had the entry of its call in the lock's queue, and then it got it again */
    if (released && hold->gone && hold->depth == 0 && client->world->only.queues == 0) {
        sim_violate(world, "client %u: released %s, which a failover took", client->index, key);
    }
    if (strstr(user->texts.detail, "non local key") != NULL &&
        strstr(user->texts.detail, SIM_ABORTED) == NULL) {
        sim_violate(world, "client %u: a script failed: %s", client->index, user->texts.detail);
    }
    if (!takes && strstr(user->texts.detail, "TRYAGAIN") != NULL && world->config.n_nodes == 1 &&
        sim_server_count(user, user->side) != 0 && !is_refused_by_a_move(user, user->side)) {
        sim_violate(world, "client %u: what it has may not be given up: %s", client->index,
                    user->texts.detail);
    }
    note_levels(user, hold);
}

/* Its last release was done by a script that ended with an error, so the key is missing, which the
 * server cannot say while the slot is being moved. */
static bool is_hidden_by_a_move(const struct sim_user *user, bool releases)
{
    const struct sim_world *world = user->client->world;

    return releases && world->now < world->open_until[user->key] + world->config.lease;
}

/* On a network that works nothing that is renewed is ever lost; on a bad one it does not expire
 * unless something stood in the way during the last lease. */
void sim_rely_lost(const struct sim_user *user, unsigned side, enum rlock_reason reason)
{
    const struct sim_client *client = user->client;
    const struct sim_world *world = client->world;
    const struct sim_hold *hold = &user->holds[side];
    int64_t lease = world->config.lease;
    bool releases = user->calling && user->call.kind == RLOCK__RELEASE && user->side == side;
    bool missed =
        (releases || reason == RLOCK_LOST_DELETED) &&
        sim_moved_thrice(world, user->key,
                         releases ? user->began_at : world->now - world->config.op_timeout);

    if ((reason == RLOCK_LOST_TAKEN || reason == RLOCK_LOST_DELETED) && client->may_kill &&
        sim_server_count(user, side) != 0 && !missed) {
        sim_violate(client->world, "client %u: a hold of %s is lost, and is there", client->index,
                    world->keys[user->key]);
    }
    /* the late copy of a release in doubt, of another level, may have prolonged the lease */
    if ((reason == RLOCK_LOST_TAKEN || reason == RLOCK_LOST_DELETED) && !hold->fuzzy &&
        hold->until <= sim_clock(client)) {
        sim_violate(client->world,
                    "client %u: a hold of %s has expired, and is told to be gone: %s",
                    client->index, world->keys[user->key], rlock_reason_text((int)reason));
    }
    if ((hold->renewed & ((2U << hold->depth) - 1)) == 0 || client->closed ||
        client->specs[side][user->key]->tuning->max_hold_us != 0) {
        return;
    }
    if (user->second.is_calling && user->second.side == side) {
        return; /* its other thread unlocks it, and waits for its turn */
    }
    if (hold->doomed && world->now < world->open_until[user->key] + lease) {
        return; /* the server could not say that it is gone */
    }
    if (hold->until == hold->first_until && hold->first_left < HOPS * world->config.delay_max) {
        return; /* there was no time to renew it: a grant counts from its first hop */
    }
    if (is_refused_by_a_move(user, side) || is_hidden_by_a_move(user, releases)) {
        return;
    }
    if (world->config.faults == 0 ||
        (reason == RLOCK_LOST_EXPIRED && lease > 20 * world->config.delay_max &&
         is_free_for(client, lease))) {
        sim_violate(client->world, "client %u: a renewed hold of %s is lost: %s", client->index,
                    world->keys[user->key], rlock_reason_text((int)reason));
    }
}

/* ---- The server ---- */

/* Whether the client knows what it has under this number, or may have. */
static bool knows(const struct sim_client *client, uint64_t number)
{
    const struct rlock__hold *hold = sim_find_hold(client, number);
    bool known =
        client->core.recovery.tickets != NULL || (hold != NULL && hold->state == RLOCK__HOLD_HELD);

    for (const struct rlock__call *call = client->core.calls; call != NULL; call = call->all.next) {
        known |= call->number == number;
    }
    for (unsigned i = 0; i < SIM_LEFT; i++) {
        known |= client->left[i] == number;
    }
    return known;
}

/* Its client lives, and does not know it or look after it. ret_excused: until when it may;
 * ret_grace: what is added to the time after that. */
static bool is_stray(const struct sim_world *world, const char *holder, int64_t *ret_excused,
                     int64_t *ret_grace)
{
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        const struct sim_client *client = world->clients[i];

        if (client != NULL && strncmp(holder, client->core.opts.uuid, RLOCK__UUID_LEN) == 0) {
            uint64_t number = strtoull(holder + RLOCK__UUID_LEN + 1, NULL, 10);

            *ret_excused = rlock__max(client->hampered, client->disturbed);
            if (client->may_kill) {
                return !knows(client, number);
            }
            /* it cannot know whether a copy runs: it releases the number every third of a lease,
             * and what the server refuses, or a link that broke, is tried again after a pause */
            *ret_excused =
                rlock__max(client->hampered, rlock__max(client->disturbed, world->refuses_until) +
                                                 RLOCK__BACKOFF_MAX_US);
            *ret_grace += world->config.lease / 3;
            return sim_is_ended(client, number);
        }
    }
    return false;
}

/* Every holder is somebody's, but for the time that commands take and clocks differ. */
static void check_known(struct sim_world *world, unsigned key, struct sim_view name)
{
    int64_t grace = SLACK + 2 * world->config.delay_max + world->config.lease / 100, excused = 0;
    char holder[SIM_OWNER_SIZE];

    (void)snprintf(holder, sizeof(holder), "%.*s", (int)name.len, name.data);
    if (!is_stray(world, holder, &excused, &grace)) {
        if (strcmp(holder, world->stray[key]) == 0) {
            world->stray[key][0] = '\0';
        }
        return;
    }
    if (world->stray[key][0] == '\0') {
        (void)snprintf(world->stray[key], SIM_OWNER_SIZE, "%s", holder);
        world->stray_since[key] = world->now;
    }
    if (world->only.queues != 0) {
        /* the lock may have been reserved for longer than its owner's lease; or, while the slot
         * moved, the call left the queue at one server, and its entry was at another: later a
         * release granted the lock to that entry */
        grace += world->moved_at[key][0] != 0 ? RLOCK__PUSH_US : RESERVED;
    }
    excused = rlock__max(excused, world->stray_since[key]);
    excused = rlock__max(excused, world->restored_until[key]);
    if (world->server_paused_until != 0) { /* what was on its way ran later than anybody expects */
        excused = rlock__max(excused, world->server_paused_until + 2 * world->config.lease);
    }
    if (strcmp(holder, world->stray[key]) == 0 && world->now - excused > grace) {
        sim_violate(world, "%s holds %s on the server, and nobody knows", holder, world->keys[key]);
    }
}

/* Notes who holds the key, and from whom the clock of the server took it. It may be set back: then
 * it is given again what it had not thrown away. */
static void note_holder(struct sim_world *world, unsigned key, struct sim_view holder,
                        int64_t pttl_ms)
{
    char *last = world->holder[key], name[SIM_OWNER_SIZE], next[SIM_OWNER_SIZE];
    bool ended = world->now > world->holder_ends[key];

    (void)snprintf(next, sizeof(next), "%.*s", (int)holder.len, holder.data);
    for (unsigned i = 0; strcmp(last, next) != 0 && i < world->config.n_clients * SIM_MAX_USERS;
         i++) {
        struct sim_client *client = world->clients[i / SIM_MAX_USERS];
        struct sim_hold *hold = &client->users[i % SIM_MAX_USERS].holds[0];

        (void)snprintf(name, sizeof(name), "%s:%llu", client->core.opts.uuid,
                       (unsigned long long)hold->number);
        if (strcmp(name, next) == 0) {
            hold->expired = false;
        } else if (strcmp(name, last) == 0) {
            hold->expired |= ended;
        }
    }
    /* a force may give the lock to an old entry of the same owner, for a moment */
    if (strcmp(last, next) != 0 ||
        (world->only.queues != 0 && pttl_ms > 0 &&
         world->now + (pttl_ms + 2) * RLOCK__MS < world->holder_ends[key])) {
        world->holder_since[key] = world->now;
    }
    if (strcmp(last, next) != 0) {
        if (last[0] != '\0' && world->now > world->holder_ends[key] - 2 * RLOCK__MS) {
            world->lapsed_at[key] = world->now; /* holder_ends is rounded up */
        }
    }
    (void)snprintf(last, SIM_OWNER_SIZE, "%s", next);
    world->holder_ends[key] = world->now + (pttl_ms + 1) * RLOCK__MS;
}

/* Notes when the lease of a read/write lock ends. NULL: the lock is free. */
static void note_end(struct sim_world *world, unsigned key, const struct sim_key_info *lock)
{
    int64_t *ends = &world->holder_ends[key];

    if (lock == NULL && *ends != 0 && world->now > *ends - 2 * RLOCK__MS) {
        world->lapsed_at[key] = world->now;
    }
    *ends = lock != NULL ? world->now + (lock->pttl_ms + 1) * RLOCK__MS : 0;
}

void sim_rely_key(struct sim_world *world, unsigned key)
{
    struct sim_view name = {world->keys[key], strlen(world->keys[key])}, none = {"", 0};
    struct sim_key_info info;

    if ((world->config.kind->caps & RLOCK__CAP_UNITS) != 0) {
        return;
    }
    if (world->config.other != NULL) {
        note_end(world, key, sim_find_key(world, name, &info) ? &info : NULL);
        return;
    }
    if (sim_foreign_is_at(world, key)) { /* how long the holder has it is not looked at meanwhile */
        world->holder_ends[key] = RLOCK__NEVER;
        return;
    }
    if (!sim_find_key(world, name, &info)) {
        note_holder(world, key, none, 0);
        world->stray[key][0] = '\0';
        return;
    }
    note_holder(world, key, sim_key_item(&info, 0).name, info.pttl_ms);
    check_known(world, key, sim_key_item(&info, 0).name);
}

/* ---- Links ---- */

/* A reply that is overdue breaks its link: nothing else tells that it is dead. */
static void check_overdue(struct sim_client *client, const struct rlock__pipeline *pipeline)
{
    if (pipeline->up && pipeline->sent != NULL && client->disturbed < client->world->now - SLACK &&
        sim_clock(client) > pipeline->sent->t0 + pipeline->op_timeout + SLACK) {
        sim_violate(client->world, "client %u: a link is kept whose reply is overdue",
                    client->index);
    }
}

static void check_links(struct sim_client *client)
{
    for (unsigned i = 0; i < client->world->config.n_nodes; i++) {
        for (unsigned k = 0; k < client->nodes[i].n_links; k++) {
            check_overdue(client, &client->nodes[i].links[k].pipeline);
        }
    }
}

void sim_rely_links(struct sim_world *world)
{
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        check_links(world->clients[i]);
    }
}
