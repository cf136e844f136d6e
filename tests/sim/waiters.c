/* SPDX-License-Identifier: Apache-2.0 */
/* Nobody sleeps past a free lock longer than a call may sleep between two looks; and on a network
 * that works no longer than some round trips. */
#include "world.h"

#define PLACE (50 * RLOCK__MS) /* who stands behind others looks so much later for each */

/* Whether clients take part that enter no queue. */
static bool has_peers(const struct sim_world *world)
{
    bool any = false;

    for (unsigned i = 0; i < world->config.n_clients; i++) {
        any = any || !world->clients[i]->core.opts.queues;
    }
    return any;
}

/* A lease ended that nobody released, and a peer took the lock meanwhile: the next in the queue, or
 * a peer, may know an older lease, and look when that ends. So may readers, who do not hear that a
 * release gave the lock to a writer. */
static int64_t missed_lease(const struct sim_world *world, unsigned key, int64_t since)
{
    int64_t lapsed_at = world->lapsed_at[key];

    if (world->only.queues != 0 && world->config.other != NULL) {
        return lapsed_at >= since ? RLOCK__RECHECK_US : 0;
    }
    if (world->only.queues != 0 && lapsed_at >= since && has_peers(world)) {
        return RLOCK__RECHECK_US;
    }
    return world->only.queues == 0 || lapsed_at == 0 || lapsed_at >= since
               ? 0
               : rlock__max(0, lapsed_at + RLOCK__RECHECK_US - since);
}

static int64_t patience(const struct sim_world *world, unsigned key, int64_t since)
{
    if (world->config.faults == 0 && !world->queues[key].had_text) {
        /* the message, the attempt, its reply; and as much again for whom it beat */
        int64_t spin = rlock__ops_poll(world->config.kind) ? 2 * 128 * RLOCK__MS : 0;
        int64_t yield = world->config.prefer_writers ? RLOCK__SECOND : 0;
        /* those in front may have left before a lease ended */
        int64_t places = world->only.queues != 0 ? world->config.n_clients * PLACE : 0;

        return 8 * world->config.delay_max + 20 * RLOCK__MS + spin + yield + places +
               missed_lease(world, key, since);
    }
    if ((world->config.kind->caps & RLOCK__CAP_QUEUES) != 0) { /* and until the dead are known */
        return RLOCK__RECHECK_US + 5 * RLOCK__SECOND +
               (int64_t)world->queues[key].n * 4 * RLOCK__SECOND;
    }
    return RLOCK__RECHECK_US + 2 * RLOCK__SECOND;
}

/* Whether somebody who could take that side of the key sleeps; and until when that was excused. */
static bool somebody_waits(const struct sim_world *world, unsigned side, unsigned key,
                           int64_t *ret_excused)
{
    bool waits = false;

    *ret_excused = rlock__max(world->open_until[key], world->lags_until);
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        const struct sim_client *client = world->clients[i];

        *ret_excused = rlock__max(*ret_excused, client->disturbed);
        for (unsigned j = 0; j < client->n_users; j++) {
            const struct sim_user *user = &client->users[j];
            bool asleep = user->call.step == RLOCK__SLEEPING ||
                          user->call.step == RLOCK__SUBSCRIBING ||
                          user->call.step == RLOCK__PAUSING || user->call.step == RLOCK__QUEUED ||
                          user->call.step == RLOCK__LINED_UP;

            if (user->calling && user->key == key && user->side == side &&
                rlock__listens(&user->call) && asleep) {
                waits = true;
                *ret_excused = rlock__max(*ret_excused, user->began_at);
            }
        }
    }
    return waits;
}

void sim_check_waiters(struct sim_world *world, unsigned side, unsigned key)
{
    int64_t excused, since = world->free_since[side][key];

    if (since != RLOCK__NEVER && world->now - since > patience(world, key, since) &&
        somebody_waits(world, side, key, &excused) &&
        world->now - excused > patience(world, key, since)) {
        sim_violate(world, "%s is free for %lld us, and somebody sleeps%s", world->keys[key],
                    (long long)(world->now - since), side == 1 ? " who would write" : "");
    }
}
