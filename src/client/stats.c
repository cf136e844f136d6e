/* SPDX-License-Identifier: Apache-2.0 */
/* Gives out what a client has counted. */
#include <rlock/stats.h>
#include <stddef.h>

#include "base/sized.h"
#include "client/lock.h"

int rlock__count_query(const struct rlock_handle *lock, bool forces, int code)
{
    struct rlock_client *client = lock->client;
    struct rlock_stats *stats = &client->core.stats;

    rlock__enter(client);
    (forces ? stats->force_unlocks : stats->inspects)[-code]++;
    rlock__core_mutex_unlock(&client->mutex);
    return code;
}

/* ---- What there is now ---- */

RLOCK__REQUIRES(core) static size_t count_holds(const struct rlock__core *core)
{
    size_t n = 0;

    for (size_t i = 0; i < RLOCK__TABLES; i++) {
        n += core->rows.numbers[i].n;
    }
    return n;
}

static void add_durations(struct rlock_histogram *sum, const struct rlock_histogram *more)
{
    for (size_t i = 0; i < RLOCK_HISTOGRAM_BUCKETS; i++) {
        sum->counts[i] += more->counts[i];
    }
    sum->sum_us += more->sum_us;
}

RLOCK__REQUIRES(core)
static void add_server(const struct rlock__server *server, struct rlock_stats *inout)
{
    inout->servers++;
    inout->connections += server->sub.up;
    for (unsigned i = 0; i < server->n_links; i++) {
        const struct rlock__pipeline *pipeline = &server->links[i].pipeline;

        inout->connections += pipeline->up;
        inout->requests += pipeline->requests;
        inout->resends += pipeline->resends;
        add_durations(&inout->reply, &pipeline->replies);
    }
}

/* The calls are not counted as they come and go: a pair of lock and unlock would pay for it. */
RLOCK__REQUIRES(core) static size_t count_waiting(const struct rlock__core *core)
{
    const struct rlock__call *call;
    size_t n = 0;

    DL_FOREACH2(core->calls, call, all.next)
    {
        n += call->kind == RLOCK__ACQUIRE;
    }
    return n;
}

RLOCK__REQUIRES(core) static void read_core(const struct rlock__core *core, struct rlock_stats *ret)
{
    const struct rlock__server *server;

    *ret = core->stats;
    ret->size = sizeof(*ret);
    ret->holds = count_holds(core);
    ret->waiting = count_waiting(core);
    DL_FOREACH(core->servers, server) {
        add_server(server, ret);
    }
}

/* ---- Sums ---- */

/* All members from this one on are counters. */
#define FIRST_COUNTER offsetof(struct rlock_stats, takes)
#define COUNTERS ((sizeof(struct rlock_stats) - FIRST_COUNTER) / sizeof(uint64_t))

void rlock__stats_add(struct rlock_stats *sum, const struct rlock_stats *more)
{
    uint64_t *to = (uint64_t *)(void *)((char *)sum + FIRST_COUNTER);
    const uint64_t *from = (const uint64_t *)(const void *)((const char *)more + FIRST_COUNTER);

    sum->holds += more->holds;
    sum->waiting += more->waiting;
    sum->unreleased += more->unreleased;
    sum->connections += more->connections;
    sum->servers += more->servers;
    for (size_t i = 0; i < COUNTERS; i++) {
        to[i] += from[i];
    }
}

static void count_durations(struct rlock_histogram *histogram)
{
    histogram->count = 0;
    for (size_t i = 0; i < RLOCK_HISTOGRAM_BUCKETS; i++) {
        histogram->count += histogram->counts[i];
    }
}

void rlock__stats_read(struct rlock_client *client, struct rlock_stats *ret_stats)
{
    rlock__enter(client);
    read_core(&client->core, ret_stats);
    rlock__core_mutex_unlock(&client->mutex);
    rlock__groups_mutex_lock(&client->groups_mutex);
    rlock__stats_add(ret_stats, &client->groups.stats);
    rlock__groups_mutex_unlock(&client->groups_mutex);
    count_durations(&ret_stats->wait);
    count_durations(&ret_stats->hold);
    count_durations(&ret_stats->reply);
}

int rlock_client_stats(const struct rlock_client *client, struct rlock_stats *ret_stats)
{
    struct rlock_client *locked = (struct rlock_client *)(uintptr_t)client; /* for its mutexes */
    struct rlock_stats stats;
    int code;

    rlock__detail_clear();
    if (client == NULL || ret_stats == NULL || !rlock__sized_is_valid(ret_stats)) {
        return rlock__fail(RLOCK_EINVAL,
                           "client or ret_stats is NULL, or the size of ret_stats is not set");
    }
    code = rlock__client_check(locked);
    if (code == 0) {
        rlock__stats_read(locked, &stats);
        rlock__sized_give(ret_stats, &stats);
    }
    return code;
}
