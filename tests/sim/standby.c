/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who follows a primary, and who says so: the replica, now and then a tool that copies everything
 * and that nobody promotes, or a second replica; the primary's own list; and three Sentinels, of
 * which one may be wrong. The replica loses its link, dies, or is cut off together with two of the
 * Sentinels: then it may be promoted at any time, and whoever leaves it out loses locks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/server/listing.h"
#include "topology/standby.h"
#include "world.h"

#define SENTINELS 3
#define ROUND RLOCK__SECOND
#define DOWN_AFTER RLOCK__SECOND
#define ALIVE_AFTER (2 * RLOCK__SECOND)
#define GONE_AFTER (5 * RLOCK__SECOND)
#define LATE (5 * RLOCK__SECOND) /* what a client read may be as old as that */
#define SLACK (100 * RLOCK__MS)
#define LISTS_EVERY RLOCK__SECOND /* how often a client asks for the primary's list */

#define REPLICA "10.0.0.%u"
#define OTHER "10.9.9.9"
#define PORT "6379"

/* ---- What is so ---- */

enum other { NONE, QUICK_TOOL, SILENT_TOOL, TWIN };

static enum other other_of(const struct sim_world *world)
{
    return (enum other)(world->seed / 32 % 4);
}

bool sim_standby_has_twin(const struct sim_world *world)
{
    return other_of(world) == TWIN;
}

bool sim_standby_other_is_quick(const struct sim_world *world)
{
    return other_of(world) == QUICK_TOOL || other_of(world) == TWIN;
}

static bool is_linked(const struct sim_world *world)
{
    return world->standby.state == SIM_LINKED;
}

static int64_t lag_of(const struct sim_world *world)
{
    return world->now < world->lags_until ? world->now - world->lags_since : 0;
}

/* Since when the primary does not list the replica; RLOCK__NEVER: it does. */
static int64_t missing_since(const struct sim_world *world)
{
    int64_t lag = lag_of(world), since = RLOCK__NEVER;

    if (lag > (RLOCK__LAG_MOST + 1) * RLOCK__SECOND) {
        since = world->lags_since + RLOCK__LAG_MOST * RLOCK__SECOND;
    }
    return is_linked(world) ? since : rlock__min(since, world->standby.missing_since);
}

static bool is_down(const struct sim_world *world)
{
    return world->standby.state == SIM_DOWN_TOO && world->now < world->standby.seen_at &&
           world->now >= world->standby.since + DOWN_AFTER;
}

/* Whether it is right to leave the replica out. */
static bool may_be_out(const struct sim_world *world)
{
    int64_t since = missing_since(world);
    int64_t alive = world->standby.state == SIM_SPLIT ? world->standby.since : world->now;

    return since != RLOCK__NEVER && alive + SLACK >= since + ALIVE_AFTER &&
           (is_down(world) || world->now + SLACK >= since + GONE_AFTER);
}

/* ---- What it lists ---- */

static unsigned replica_number(const struct sim_world *world, unsigned node)
{
    return world->config.failover_us != 0 ? world->nodes[node].replica : SIM_NODES;
}

static bool lists_replica(const struct sim_world *world, unsigned node)
{
    return sim_replica_of(world, node) != NULL && is_linked(world);
}

static uint64_t other_offset(const struct sim_world *world, unsigned node)
{
    return other_of(world) == SILENT_TOOL ? 0 : world->nodes[node].written;
}

static void answer_info(struct sim_conn *conn)
{
    const struct sim_world *world = conn->world;
    char text[400], bytes[440];
    int len = snprintf(text, sizeof(text), "# Replication\r\nrole:master\r\n");

    if (lists_replica(world, conn->node)) {
        len +=
            snprintf(text + len, sizeof(text) - (size_t)len,
                     "slave0:ip=" REPLICA ",port=" PORT ",state=online,offset=0,lag=%lld\r\n",
                     replica_number(world, conn->node), (long long)(lag_of(world) / RLOCK__SECOND));
    }
    if (other_of(world) != NONE) {
        (void)snprintf(text + len, sizeof(text) - (size_t)len,
                       "slave1:ip=" OTHER ",port=" PORT ",state=online,offset=0,lag=0\r\n");
    }
    (void)snprintf(bytes, sizeof(bytes), "$%zu\r\n%s\r\n", strlen(text), text);
    sim_conn_answer(conn, bytes);
}

static void add_row(struct rlock__buf *buf, const char *ip, uint64_t offset)
{
    char digits[24];

    (void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)offset);
    (void)rlock__buf_add_head(buf, '*', 3);
    (void)rlock__buf_add_bulk(buf, rlock__bytes_of(ip));
    (void)rlock__buf_add_bulk(buf, rlock__bytes_of(PORT));
    (void)rlock__buf_add_bulk(buf, rlock__bytes_of(digits));
}

static void answer_role(struct sim_conn *conn)
{
    const struct sim_world *world = conn->world;
    const struct sim_node *node = &world->nodes[conn->node];
    bool lists = lists_replica(world, conn->node);
    struct rlock__buf buf = {0};
    char ip[24];

    (void)rlock__buf_addf(&buf, "*3\r\n$6\r\nmaster\r\n:%llu\r\n",
                          (unsigned long long)node->written);
    (void)rlock__buf_add_head(&buf, '*', (uint64_t)lists + (other_of(world) != NONE));
    if (lists) {
        (void)snprintf(ip, sizeof(ip), REPLICA, replica_number(world, conn->node));
        add_row(&buf, ip, node->replicated);
    }
    if (other_of(world) != NONE) {
        add_row(&buf, OTHER, other_offset(world, conn->node));
    }
    (void)rlock__buf_add(&buf, "", 1);
    sim_conn_answer(conn, buf.data);
    rlock__buf_fini(&buf);
}

bool sim_standby_answers(struct sim_conn *conn, const char *bytes, size_t len)
{
    if (memmem(bytes, len, "\nROLE\r", 6) != NULL) {
        conn->is_round = conn->has_run;
        answer_role(conn);
        return true;
    }
    if (memmem(bytes, len, "\nINFO\r", 6) != NULL) {
        answer_info(conn);
        return true;
    }
    return false;
}

/* ---- What the Sentinels say ---- */

/* By its own word, which a Sentinel has had for a while. */
static bool is_unlinked(const struct sim_world *world)
{
    return !is_linked(world) && world->now >= world->standby.since + GONE_AFTER;
}

static void put(struct rlock__standbys *said, const char *ip, bool down, bool barred, bool unlinked)
{
    struct rlock__standby *it = &said->each[said->n++];

    *it = (struct rlock__standby){.is_down = down, .is_barred = barred, .is_unlinked = unlinked};
    (void)snprintf(it->place, sizeof(it->place), "%s:" PORT, ip);
}

/* Whether the client reaches it. alive_at: when it saw the primary last. */
static bool ask(const struct sim_client *client, unsigned which, struct rlock__standbys *ret_said,
                int64_t *ret_alive_at)
{
    const struct sim_world *world = client->world;
    bool split = world->standby.state == SIM_SPLIT && which != 0;
    bool is_cut =
        world->standby.state == SIM_SPLIT && world->now >= world->standby.since + DOWN_AFTER;
    bool blind = which == 0 && world->seed / 128 % 2 == 1; /* it lost its links to replicas */
    char ip[24];

    (void)snprintf(ip, sizeof(ip), REPLICA, replica_number(world, 0));
    ret_said->is_known = true;
    ret_said->n = 0;
    if (client->knows_replica) {
        put(ret_said, ip, blind || is_down(world) || (is_cut && which == 0), false,
            blind || is_unlinked(world));
    }
    if (client->knows_replica && other_of(world) != NONE) {
        put(ret_said, OTHER, false, other_of(world) != TWIN, false);
    }
    *ret_alive_at = sim_clock(client) - (split ? world->now - world->standby.since : 0);
    return !split || world->seed / 256 % 2 == 0;
}

void sim_standby_know(struct sim_client *client, unsigned node, bool has_replica)
{
    const struct sim_world *world = client->world;
    struct rlock__replica_word words[2] = {{.is_free = true}, {.is_free = true}};

    (void)snprintf(words[0].place, sizeof(words[0].place), REPLICA ":" PORT,
                   replica_number(world, node));
    (void)snprintf(words[1].place, sizeof(words[1].place), OTHER ":" PORT);
    (void)rlock__listing_known(&client->nodes[node], words,
                               has_replica ? 1 + (other_of(world) == TWIN) : 0, sim_clock(client));
}

/* As src/drive does. Returns whether other links are wanted. */
static bool learn(struct sim_client *client)
{
    struct rlock__standbys said[SENTINELS], all;
    const struct rlock__standbys *answers[SENTINELS];
    struct rlock__replica_word words[2] = {{.is_barred = false}};
    int64_t alive_at[SENTINELS];
    size_t n = 0;
    bool changes;

    for (unsigned i = 0; i < SENTINELS; i++) {
        if (ask(client, i, &said[i], &alive_at[n])) {
            answers[n++] = &said[i];
        }
    }
    rlock__standbys_merge(answers, n, SENTINELS, &all);
    for (size_t i = 0; i < all.n; i++) {
        words[i].is_held_down = all.each[i].is_down;
        words[i].is_barred = all.each[i].is_barred;
        words[i].is_free = all.each[i].is_free;
        words[i].is_unlinked = all.each[i].is_unlinked;
        memcpy(words[i].place, all.each[i].place, sizeof(words[i].place));
    }
    changes = n != 0 && rlock__listing_known(&client->nodes[0], words, all.n, sim_clock(client));
    rlock__replicas_alive(&client->nodes[0].replicas, rlock__alive_by_most(alive_at, n, SENTINELS));
    return changes;
}

void sim_standby_round(struct sim_client *client)
{
    if (learn(client)) {
        rlock__core_rerouted(&client->core, sim_clock(client));
    }
    sim_pump(client);
}

static void on_round(struct rlock__timer *timer, int64_t now)
{
    struct sim_client *client = RLOCK__OF(struct sim_client, round, timer);
    struct sim_world *world = client->world;

    rlock__timer_set(&world->timers, timer,
                     rlock__max(now + ROUND, sim_is_paused(client) ? client->paused_until : 0));
    if (!sim_is_paused(client)) {
        sim_standby_round(client);
    }
}

void sim_standby_client(struct sim_client *client)
{
    struct sim_world *world = client->world;

    client->knows_replica = true;
    if (world->config.n_acks != 0 && world->config.failover_us == 0) {
        client->round.fire = on_round;
        (void)learn(client);
        rlock__timer_set(&world->timers, &client->round, world->now + sim_random(world, ROUND));
    }
}

/* ---- What happens to the replica ---- */

static void on_back(struct rlock__timer *timer, int64_t now)
{
    struct sim_world *world = RLOCK__OF(struct sim_world, standby.timer, timer);

    world->standby.state = SIM_LINKED;
    world->standby.back_at = now;
    world->lags_until = rlock__min(world->lags_until, world->now);
    sim_replica_catch_up(world, 0);
    sim_trace(world, "the replica is back");
}

void sim_standby_strikes(struct sim_world *world)
{
    static const char *const names[] = {"", "loses its link", "dies", "is cut off with Sentinels"};
    struct sim_standby *standby = &world->standby;
    int64_t lasts = 1 + sim_random(world, 10 * RLOCK__SECOND);

    if (!is_linked(world)) {
        return;
    }
    standby->state = 1 + (unsigned)sim_random(world, 3);
    standby->since = world->now;
    if (standby->back_at == 0 || world->now > standby->back_at + LISTS_EVERY + SLACK) {
        standby->missing_since = world->now; /* no client missed that it was back */
    }
    standby->seen_at = world->now + 1 + sim_random(world, lasts);
    standby->timer.fire = on_back;
    sim_replica_lags_until(world, world->now + lasts);
    rlock__timer_set(&world->timers, &standby->timer, world->now + lasts);
    sim_trace(world, "the replica %s until %.3f", names[standby->state],
              (double)(world->now + lasts) / 1000);
}

void sim_standby_ends(struct sim_world *world)
{
    if (!is_linked(world)) {
        rlock__timer_unset(&world->timers, &world->standby.timer);
        on_back(&world->standby.timer, world->now);
    }
}

/* ---- Checks ---- */

static const struct rlock__replica *view_of(const struct sim_client *client)
{
    const struct rlock__replicas *all = &client->nodes[0].replicas;

    for (size_t i = 0; i < RLOCK__REPLICAS; i++) {
        if (all->each[i].place[0] != '\0' && strncmp(all->each[i].place, OTHER, 8) != 0) {
            return &all->each[i];
        }
    }
    return NULL;
}

bool sim_standby_counts(const struct sim_client *client)
{
    const struct rlock__replica *view = view_of(client);

    return client->core.opts.acks != 1 || view == NULL || view->is_free;
}

static void check(struct sim_client *client)
{
    struct sim_world *world = client->world;
    const struct rlock__replica *view = view_of(client);
    bool out = view != NULL && view->is_out;
    bool was_paused = client->paused_until + LATE > world->now;

    if (out && client->out_at == 0) {
        client->out_at = world->now;
        if (world->standby.out_until + LATE < world->now && !was_paused) {
            sim_violate(world, "client %u leaves the replica out, which may be promoted",
                        client->index);
        }
    } else if (!out && client->out_at != 0) {
        if (view != NULL && view->is_known && world->standby.listed_at < client->out_at &&
            client->knows_replica) {
            sim_violate(world, "client %u waits for a replica that its primary does not list",
                        client->index);
        }
        client->out_at = 0;
    }
    if (out) {
        client->omits_until = world->now + 2 * world->config.lease;
    }
}

void sim_standby_check(struct sim_world *world)
{
    if (world->config.n_acks == 0 || world->config.failover_us != 0) {
        return;
    }
    if (may_be_out(world)) {
        world->standby.out_until = world->now;
    }
    if (missing_since(world) == RLOCK__NEVER) {
        world->standby.listed_at = world->now;
    }
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        check(world->clients[i]);
    }
}
