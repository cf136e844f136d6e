/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default, acks auto, with servers that die and stay dead: how long nothing is granted, that no
 * hold is lost, and what a failover to a replica that had been left out does lose. And copies that
 * nobody promotes.
 */
#include <stdlib.h>
#include <string.h>

#include "support/clients.h"
#include "support/cluster.h"
#include "support/room.h"
#include "support/sentinel.h"
#include "topology/slot.h"

static const char *const cluster_lines[] = {"cluster-enabled yes", "cluster-node-timeout 2000",
                                            NULL};
static const struct test_server_opts plain = {.transport = TEST_TCP};

/* A primary, a replica, one server more where a test has a use for it, and three Sentinels. */
struct pair {
    struct fixture f;
    struct sentinels sentinels;
    char url[200];
};

static void begin(struct pair *p, size_t n)
{
    fixture_open(&p->f,
                 &(struct fixture_opts){.kind = &kind_reentrant, .servers = n, .server = plain});
    sentinels_start(&p->sentinels, p->f.servers, 2, &plain, NULL);
    sentinels_url(&p->sentinels, p->url, sizeof(p->url));
}

static void end(struct pair *p)
{
    sentinels_stop(&p->sentinels);
    fixture_close(&p->f);
}

#define PAIR_TEST(name, p) TEST_AROUND(name, struct pair, p, begin(p, 2), end(p))
#define COPIED_TEST(name, p) TEST_AROUND(name, struct pair, p, begin(p, 3), end(p))
#define CLUSTER_TEST(name, f)                                                                      \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 6,                              \
                      .server = {.transport = TEST_TCP, .conf = cluster_lines})

static struct rlock_client *open_at(struct fixture *f, const char *url)
{
    return client_open_with(f, RLOCK_CLIENT_OPTS(.url = url));
}

/* The lock can be taken and given back. */
static int64_t pass_through(struct rlock_handle *lock)
{
    const int64_t began_us = test_now_us();

    assert_code(rlock_lock_for(lock, 20000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    return test_now_us() - began_us;
}

/* ---- Behind Sentinels ---- */

PAIR_TEST(a_lock_is_taken_soon_after_the_only_replica_became_the_primary, p)
{
    struct rlock_handle *lock = lock_new(&p->f, open_at(&p->f, p->url));

    (void)pass_through(lock);
    test_server_kill(p->f.servers[0]);
    assert_true(TEST_EVENTUALLY(sentinel_names(p->sentinels.each[0], p->f.servers[1]), 20000));
    assert_took(pass_through(lock), 0, 3000);
    assert_took(pass_through(lock), 0, 500);
    test_server_restart(p->f.servers[0], false);
}

PAIR_TEST(a_lock_is_taken_soon_after_the_only_replica_died_and_no_hold_is_lost, p)
{
    struct rlock_client *client = open_at(&p->f, p->url);
    struct rlock_handle *held = lock_named(&p->f, client, "held");
    struct rlock_handle *lock = lock_named(&p->f, client, "other");

    assert_code(rlock_lock(held), 0);
    (void)pass_through(lock);
    test_server_kill(p->f.servers[1]);
    assert_took(pass_through(lock), 0, 8000);
    assert_true(STAYS_KEPT(rlock_is_valid(held), 25000, 30000)); /* two renewals */
    assert_code(rlock_unlock(held), 0);
    assert_int_equal(losses_told(&p->f), 0);
    test_server_restart(p->f.servers[1], false);
}

/* A number is strict. */
PAIR_TEST(a_number_of_replicas_is_needed_whether_they_are_alive_or_not, p)
{
    struct rlock_handle *lock =
        lock_new(&p->f, client_open_with(&p->f, RLOCK_CLIENT_OPTS(.url = p->url, .acks = 1)));

    (void)pass_through(lock);
    test_server_kill(p->f.servers[1]);
    assert_int_not_equal(rlock_lock_for(lock, 9000, NULL, NULL), 0);
    test_server_restart(p->f.servers[1], false);
    (void)pass_through(lock);
}

/* It waits for nobody: it had been left out, and it is back before the primary is. */
PAIR_TEST(what_was_granted_without_a_replica_is_lost_if_that_is_promoted_and_it_is_told, p)
{
    const int64_t patient_ms = 30000;
    struct witness *witness = witness_new(1);
    struct actor *holder = actor_open(&p->f), *rival = actor_open(&p->f);

    room_open(witness);
    test_server_kill(p->f.servers[1]);
    actor_begin(holder, act_stay, lock_named(&p->f, open_at(&p->f, p->url), "lost-0"), patient_ms,
                NULL);
    assert_true(TEST_EVENTUALLY(room_inside() == 1, 20000));
    test_server_kill(p->f.servers[0]);
    test_server_restart(p->f.servers[1], false);
    assert_true(TEST_EVENTUALLY(sentinel_names(p->sentinels.each[0], p->f.servers[1]), 30000));
    actor_begin(rival, act_stay, lock_named(&p->f, open_at(&p->f, p->url), "lost-0"), patient_ms,
                NULL);
    (void)expect_loss(&p->f, 0);
    assert_true(TEST_EVENTUALLY(room_inside() == 2, 20000));
    room_let_go();
    assert_code(actor_end(rival), 0);
    assert_code(actor_end(holder), RLOCK_ELOST);
    assert_int_equal(witness_overlaps(witness), 1);
    assert_null(witness_free(witness));
    test_server_restart(p->f.servers[0], false);
}

/* ---- Copies that nobody promotes ---- */

static bool knows_copy(struct test_server *sentinel)
{
    char *text = test_server_cmd(sentinel, "SENTINEL REPLICAS primary");
    const bool knows = strstr(text, "slave-priority\n0\n") != NULL;

    free(text);
    return knows;
}

COPIED_TEST(a_copy_that_nobody_promotes_confirms_nothing, p)
{
    struct rlock_handle *lock;
    char place[64];

    test_server_do(p->f.servers[2], "CONFIG SET replica-priority 0");
    test_server_do(p->f.servers[2], "REPLICAOF 127.0.0.1 %d", test_server_port(p->f.servers[0]));
    assert_true(TEST_EVENTUALLY(test_server_is_copied(p->f.servers[2]), 20000));
    for (size_t i = 0; i < SENTINELS; i++) {
        assert_true(TEST_EVENTUALLY(knows_copy(p->sentinels.each[i]), 30000));
    }
    lock = lock_new(&p->f, open_at(&p->f, p->url));
    (void)pass_through(lock);
    test_server_freeze(p->f.servers[1]);
    assert_code(rlock_try_lock(lock), RLOCK_ENOTREPLICATED);
    test_text(place, sizeof(place), "not 127.0.0.1:%d", test_server_port(p->f.servers[1]));
    assert_non_null(strstr(rlock_detail(), place));
    test_server_thaw(p->f.servers[1]);
    (void)pass_through(lock);
    test_server_do(p->f.servers[2], "REPLICAOF NO ONE");
}

/* ---- In a cluster ---- */

static struct rlock_handle *cluster_lock(struct fixture *f, const char *tag)
{
    char url[300], name[64];
    size_t n = 0;

    cluster_url(f->servers, 3, url, sizeof(url));
    do { /* of the first primary */
        test_text(name, sizeof(name), "%s-%zu", tag, n++);
    } while (cluster_primary_of(f->servers, 3, rlock__slot(rlock__bytes_of(name))) !=
             f->servers[0]);
    return lock_named(f, open_at(f, url), name);
}

CLUSTER_TEST(a_lock_is_taken_soon_after_a_replica_of_a_cluster_became_the_primary, f)
{
    struct rlock_handle *lock;

    cluster_form(f->servers, 3, 6);
    lock = cluster_lock(f, "lock");
    (void)pass_through(lock);
    test_server_kill(f->servers[0]);
    assert_true(TEST_EVENTUALLY(test_server_is_primary(f->servers[3]), 30000));
    assert_took(pass_through(lock), 0, 3000);
    test_server_restart(f->servers[0], false);
}

CLUSTER_TEST(a_lock_is_taken_soon_after_a_replica_of_a_cluster_died_and_no_hold_is_lost, f)
{
    struct rlock_handle *held, *lock;

    cluster_form(f->servers, 3, 6);
    held = cluster_lock(f, "held");
    lock = cluster_lock(f, "other");
    assert_code(rlock_lock(held), 0);
    (void)pass_through(lock);
    test_server_kill(f->servers[3]);
    assert_took(pass_through(lock), 0, 8000);
    assert_true(STAYS_KEPT(rlock_is_valid(held), 25000, 30000)); /* two renewals */
    assert_code(rlock_unlock(held), 0);
    assert_int_equal(losses_told(f), 0);
    test_server_restart(f->servers[3], false);
}
