/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many processes take locks of all kinds while primaries are killed and frozen, and while slots
 * move and nodes come and go: nobody is inside with another one, and no call is late. Where
 * replicas acknowledge nothing, what overlaps was told to be lost.
 */
#include "live/load.h"
#include "support/clients.h"
#include "support/cluster.h"
#include "support/sentinel.h"
#include "topology/slot.h"

enum {
    PRIMARIES = 3,
    LEASE_MS = 6000,
    BRIEF_LEASE_MS = 4000,
    SOME = 100,        /* grants */
    SETTLED_MS = 2000, /* until clients know of new replicas */
    PROMOTED_MS = 20000,
    SLOTS = 10,
};

/* A node whose last slot goes stays a primary. */
static const char *const soak_conf[] = {"cluster-enabled yes", "cluster-node-timeout 1000",
                                        "cluster-require-full-coverage no",
                                        "cluster-allow-replica-migration no", NULL};
static const struct test_server_opts in_cluster = {.transport = TEST_TCP, .conf = soak_conf};

/* Of three primaries with a replica each. */
#define CLUSTER_TEST(name, f)                                                                      \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 6, .server = in_cluster)
/* Of a primary with two replicas. */
#define SENTINEL_TEST(name, f)                                                                     \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 3,                              \
                      .server = {.transport = TEST_TCP})

/* ---- What is left ---- */

static unsigned int slot_of(size_t number)
{
    char name[32];

    load_name(number, name, sizeof(name));
    return rlock__slot(rlock__bytes_of(name));
}

/* Keys besides tokens of the primaries, which stay. Says which have no excuse, where wanted: nobody
 * was unsure of the lock for a lease. */
static size_t left(const struct fixture *f, const struct load *load, int64_t since_us,
                   size_t *ret_unexcused)
{
    size_t n = 0;

    *ret_unexcused = 0;
    for (size_t i = 0; i < f->n; i++) {
        char *keys =
            test_server_is_primary(f->servers[i]) ? test_server_cmd(f->servers[i], "KEYS *") : NULL;
        char *rest = keys;

        for (char *key; keys != NULL && (key = strsep(&rest, "\n")) != NULL;) {
            const char *at = strstr(key, "soak-");

            if (at != NULL && strncmp(key, "redisson_lock_token", 19) != 0) {
                n++;
                if (!load_is_excused(load, strtoul(at + 5, NULL, 10), since_us)) {
                    print_error("left: %s\n", key);
                    (*ret_unexcused)++;
                }
            }
        }
        free(keys);
    }
    return n;
}

/* They leave. What a call was unsure of, or a failover brought back, ends within a lease. */
static void end_load(const struct fixture *f, struct load *load, int64_t lease_ms)
{
    const int64_t ended_us = test_now_us();
    size_t unexcused, n;

    load_end(load);
    n = left(f, load, ended_us - lease_ms * 1000, &unexcused);
    print_message("%zu keys left\n", n);
    assert_int_equal(unexcused, 0);
    assert_true(TEST_EVENTUALLY(left(f, load, 0, &unexcused) == 0, lease_ms + 1000));
    for (size_t i = 0; i < f->n; i++) {
        test_server_do(f->servers[i], "FLUSHALL"); /* tokens */
    }
}

/* ---- A cluster ---- */

/* One of a pair is the primary. */
static void find_primaries(const struct fixture *f, struct test_server *ret[static PRIMARIES])
{
    for (size_t i = 0; i < PRIMARIES; i++) {
        ret[i] = test_server_is_primary(f->servers[i]) ? f->servers[i] : f->servers[PRIMARIES + i];
    }
}

/* The pair that had the slot of a name at first. */
static size_t owner_of(const struct fixture *f, size_t number)
{
    size_t pair = 0;

    while (f->servers[pair] != cluster_primary_of(f->servers, PRIMARIES, slot_of(number))) {
        pair++;
    }
    return pair;
}

/* Another one takes the place of a pair's primary; this one comes back as its replica. */
static void replace(const struct fixture *f, const struct load *load, size_t pair, bool kills)
{
    const bool first = test_server_is_primary(f->servers[pair]);
    struct test_server *old = f->servers[first ? pair : PRIMARIES + pair];
    struct test_server *next = f->servers[first ? PRIMARIES + pair : pair];

    (kills ? test_server_kill : test_server_freeze)(old);
    assert_true(TEST_EVENTUALLY(test_server_is_primary(next), PROMOTED_MS));
    load_await(load, SOME);
    if (kills) {
        test_server_restart(old, false);
    } else {
        test_server_thaw(old);
    }
    assert_true(TEST_EVENTUALLY(test_server_is_copied(old), PROMOTED_MS));
    assert_true(STAYS(true, SETTLED_MS));
    load_await(load, SOME);
}

/* Slots of names that are wanted most go to another server, and back. */
static void move_there_and_back(const struct fixture *f, const struct load *load, size_t n)
{
    struct test_server *primaries[PRIMARIES];

    find_primaries(f, primaries);
    for (size_t i = 0; i < 2 * n; i++) {
        const size_t home = owner_of(f, i % n), other = (home + 1) % PRIMARIES;

        cluster_move_slot(primaries, PRIMARIES, i < n ? home : other, i < n ? other : home,
                          slot_of(i % n));
        load_await(load, SOME / 10);
    }
}

/* Slots of what is held for long, and of others, stay open: some keys here, some there. */
static void hold_open(const struct fixture *f, const struct load *load, size_t first, size_t n,
                      int64_t ms)
{
    struct test_server *primaries[PRIMARIES];
    char name[32];

    find_primaries(f, primaries);
    for (size_t i = first; i < first + n; i++) {
        const size_t home = owner_of(f, i), other = (home + 1) % PRIMARIES;

        cluster_open_slot(primaries[home], primaries[other], slot_of(i));
        load_name(i, name, sizeof(name));
        if (i % 2 == 0) {
            test_server_do(primaries[home], "MIGRATE 127.0.0.1 %d %s 0 5000",
                           test_server_port(primaries[other]), name);
        }
    }
    assert_true(STAYS(true, ms));
    for (size_t i = first; i < first + n; i++) {
        const size_t home = owner_of(f, i), other = (home + 1) % PRIMARIES;

        cluster_move_slot(primaries, PRIMARIES, home, other, slot_of(i));
        cluster_move_slot(primaries, PRIMARIES, other, home, slot_of(i));
    }
    load_await(load, SOME);
}

/* A node joins, has slots for a while, and leaves. */
static void add_and_remove(const struct fixture *f, const struct load *load)
{
    struct test_server *nodes[PRIMARIES + 1], *added = test_server_start(&in_cluster);

    cluster_add(f->servers, f->n, added);
    find_primaries(f, nodes);
    nodes[PRIMARIES] = added;
    for (size_t i = 0; i < SLOTS; i++) {
        cluster_move_slot(nodes, PRIMARIES + 1, owner_of(f, i), PRIMARIES, slot_of(i));
    }
    load_await(load, 2 * SOME);
    for (size_t i = 0; i < SLOTS; i++) {
        cluster_move_slot(nodes, PRIMARIES + 1, PRIMARIES, owner_of(f, i), slot_of(i));
    }
    load_await(load, SOME);
    cluster_remove(f->servers, f->n, added);
    test_server_stop(added);
    load_await(load, SOME);
}

static struct load *begin_in_cluster(struct fixture *f, int acks, int64_t lease_ms)
{
    struct load *load;
    char url[200];

    cluster_form(f->servers, PRIMARIES, f->n);
    cluster_url(f->servers, f->n, url, sizeof(url));
    load = load_begin(f, url, acks, lease_ms);
    load_await(load, SOME);
    return load;
}

CLUSTER_TEST(locks_exclude_while_a_primary_is_killed_and_slots_move, f)
{
    struct load *load = begin_in_cluster(f, RLOCK_ACKS_AUTO, BRIEF_LEASE_MS);

    move_there_and_back(f, load, 4);
    replace(f, load, 0, true);
    hold_open(f, load, LOAD_NAMES, 6, BRIEF_LEASE_MS / 2);
    end_load(f, load, test_ms(BRIEF_LEASE_MS));
    assert_true(load_is_clean(load));
    assert_int_equal(load_stolen(load), 0);
    load_free(load);
}

CLUSTER_TEST(locks_exclude_whatever_happens_to_a_cluster, f)
{
    struct load *load = begin_in_cluster(f, RLOCK_ACKS_AUTO, LEASE_MS);

    replace(f, load, 0, true);
    move_there_and_back(f, load, SLOTS);
    replace(f, load, 1, false);
    hold_open(f, load, 0, 6, 0);
    hold_open(f, load, LOAD_NAMES, 12, 2 * LEASE_MS);
    add_and_remove(f, load);
    replace(f, load, 0, false);
    replace(f, load, 2, true);
    end_load(f, load, LEASE_MS);
    assert_true(load_is_clean(load));
    assert_int_equal(load_stolen(load), 0);
    load_free(load);
}

/* Opens a client that waits for no replicas. Returns its lock on a name of the first pair. */
static struct rlock_handle *lock_of_first_pair(struct fixture *f)
{
    char url[200], name[32];
    size_t n = 0;

    cluster_url(f->servers, f->n, url, sizeof(url));
    do {
        test_text(name, sizeof(name), "held-%zu", n++);
    } while (cluster_primary_of(f->servers, PRIMARIES, rlock__slot(rlock__bytes_of(name))) !=
             f->servers[0]);
    return lock_named(f, client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .acks = RLOCK_ACKS_OFF)),
                      name);
}

/* Nobody waits for the replica. Before it is promoted it misses what the load writes for a while,
 * and a hold that lasts beyond the promotion. */
CLUSTER_TEST(what_overlaps_where_nobody_acknowledges_is_told, f)
{
    struct load *load = begin_in_cluster(f, RLOCK_ACKS_OFF, LEASE_MS);
    struct rlock_handle *lock = lock_of_first_pair(f), *rival = lock_of_first_pair(f);

    test_server_freeze(f->servers[PRIMARIES]);
    test_server_do(f->servers[0], "CLIENT KILL TYPE replica");
    assert_code(rlock_lock(lock), 0);
    load_await(load, 2 * SOME);
    assert_code(rlock_try_lock(rival), RLOCK_EBUSY);
    test_server_kill(f->servers[0]);
    test_server_thaw(f->servers[PRIMARIES]);
    assert_true(TEST_EVENTUALLY(test_server_is_primary(f->servers[PRIMARIES]), PROMOTED_MS));
    expect_loss(f, RLOCK_LOST_NOT_REPLICATED);
    assert_false(rlock_is_valid(lock));
    assert_code(rlock_lock(rival), 0);
    load_await(load, 2 * SOME);
    test_server_restart(f->servers[0], false);
    assert_true(TEST_EVENTUALLY(test_server_is_copied(f->servers[0]), PROMOTED_MS));
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_unlock(rival), 0);
    end_load(f, load, LEASE_MS);
    assert_true(load_overlaps_were_told(load));
    assert_int_equal(losses_told(f), 1);
    load_free(load);
}

/* ---- Sentinels ---- */

static struct test_server *primary_of(const struct fixture *f, const struct sentinels *sentinels)
{
    for (size_t i = 0; i < f->n; i++) {
        if (sentinel_names(sentinels->each[0], f->servers[i])) {
            return f->servers[i];
        }
    }
    return NULL;
}

/* Whether every other server follows the current primary. The Sentinels may have replaced it again
 * since the failover. */
static bool all_follow(const struct fixture *f, const struct sentinels *sentinels)
{
    return test_server_info(primary_of(f, sentinels), "replication", "connected_slaves") ==
           (long long)f->n - 1;
}

static void fail_over(const struct fixture *f, const struct sentinels *sentinels,
                      const struct load *load, bool kills)
{
    struct test_server *old = primary_of(f, sentinels);

    (kills ? test_server_kill : test_server_freeze)(old);
    assert_true(TEST_EVENTUALLY(primary_of(f, sentinels) != old, PROMOTED_MS));
    assert_true(STAYS(true, SETTLED_MS));
    if (kills) {
        test_server_restart(old, false);
    } else {
        test_server_thaw(old);
    }
    assert_true(TEST_EVENTUALLY(all_follow(f, sentinels), 2 * PROMOTED_MS));
    assert_true(STAYS(true, SETTLED_MS));
    load_await(load, SOME);
}

SENTINEL_TEST(locks_exclude_through_three_failovers_behind_sentinels, f)
{
    struct sentinels sentinels;
    struct load *load;
    char url[200];

    sentinels_start(&sentinels, f->servers, f->n, &(struct test_server_opts){.transport = TEST_TCP},
                    NULL);
    sentinels_url(&sentinels, url, sizeof(url));
    load = load_begin(f, url, RLOCK_ACKS_ALL, LEASE_MS);
    load_await(load, SOME);
    fail_over(f, &sentinels, load, true);
    fail_over(f, &sentinels, load, false);
    fail_over(f, &sentinels, load, true);
    end_load(f, load, LEASE_MS);
    assert_true(load_is_clean(load));
    assert_int_equal(load_stolen(load), 0);
    load_free(load);
    sentinels_stop(&sentinels);
}
