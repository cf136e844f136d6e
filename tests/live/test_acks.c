/* SPDX-License-Identifier: Apache-2.0 */
/* What counts once replicas have it: what that costs while they are silent, and what it saves. */
#include <stdlib.h>
#include <string.h>

#include "support/clients.h"
#include "support/cluster.h"
#include "support/room.h"
#include "topology/slot.h"

#define LEASE_MS 1500

static const char *const failing_conf[] = {"cluster-enabled yes", "cluster-node-timeout 1000",
                                           "cluster-require-full-coverage no", NULL};

/* A cluster of a primary and its replica, which nobody promotes: there is nobody to elect it. */
#define ACKS_TEST(name, f)                                                                         \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 2,                              \
                      .server = {.transport = TEST_TCP, .conf = failing_conf})
/* Of three primaries with a replica each. */
#define FAILOVER_TEST(name, f)                                                                     \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 6,                              \
                      .server = {.transport = TEST_TCP, .conf = failing_conf})

/* The first of two primaries has a replica, and the other one has none. */
#define UNEVEN_TEST(name, f)                                                                       \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 3,                              \
                      .server = {.transport = TEST_TCP, .conf = failing_conf})

static struct rlock_client *open_with(struct fixture *f, int acks, int64_t renewed_lease_ms)
{
    char url[200];

    cluster_url(f->servers, f->n / 2, url, sizeof(url));
    return client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .acks = acks, .op_timeout_ms = 5000,
                                                 .renewed_lease_ms = renewed_lease_ms));
}

/* A name whose slot one of the primaries has; its cell of the witness stands behind. */
static void name_at(const struct fixture *f, size_t n_primaries, size_t at, char *out, size_t size)
{
    size_t n = 0;

    do {
        test_text(out, size, "newest-%zu-0", n++);
    } while (cluster_primary_of(f->servers, n_primaries, rlock__slot(rlock__bytes_of(out))) !=
             f->servers[at]);
}

/* Whether a server knows that some other one has failed. */
static bool has_failed(struct test_server *server)
{
    char *nodes = test_server_cmd(server, "CLUSTER NODES");
    const bool has = strstr(nodes, "slave,fail ") != NULL;

    free(nodes);
    return has;
}

ACKS_TEST(a_grant_that_no_replica_has_is_given_back, f)
{
    struct rlock_handle *lock;

    cluster_form(f->servers, 1, f->n);
    lock = lock_new(f, open_with(f, RLOCK_ACKS_AUTO, 0));
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    test_server_freeze(f->servers[1]);
    assert_code(rlock_try_lock(lock), RLOCK_ENOTREPLICATED);
    assert_non_null(strstr(rlock_detail(), "0 of 1 replicas"));
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
    test_server_thaw(f->servers[1]);
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
}

/* It may be promoted later. */
UNEVEN_TEST(a_replica_that_has_failed_is_needed_where_all_are, f)
{
    struct rlock_client *client;
    char url[200], name[40];

    cluster_form(f->servers, 2, f->n);
    test_server_freeze(f->servers[2]);
    assert_true(TEST_EVENTUALLY(has_failed(f->server), 20000));
    cluster_url(f->servers, 2, url, sizeof(url));
    name_at(f, 2, 0, name, sizeof(name));
    client = client_open_with(
        f, RLOCK_CLIENT_OPTS(.url = url, .op_timeout_ms = 5000, .acks = RLOCK_ACKS_ALL));
    assert_code(rlock_try_lock(lock_named(f, client, name)), RLOCK_ENOTREPLICATED);
    test_server_thaw(f->servers[2]);
}

ACKS_TEST(a_multi_lock_waits_for_replicas_too, f)
{
    struct rlock_handle *members[2], *multi = NULL;
    struct actor *waiter = actor_open(f);
    struct rlock_client *client;

    cluster_form(f->servers, 1, f->n);
    client = open_with(f, RLOCK_ACKS_AUTO, 0);
    members[0] = lock_named(f, client, "{a}-0");
    members[1] = lock_named(f, client, "{a}-1");
    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    assert_code(act_pass_through(multi, RLOCK_FOREVER, NULL), 0);
    test_server_freeze(f->servers[1]);
    assert_code(rlock_try_lock(multi), RLOCK_ENOTREPLICATED);
    actor_begin(waiter, act_pass_through, multi, RLOCK_FOREVER, NULL);
    assert_true(STAYS(actor_is_busy(waiter), 1500));
    test_server_thaw(f->servers[1]);
    assert_code(actor_end(waiter), 0);
    assert_null(rlock_free(multi));
}

ACKS_TEST(a_caller_that_waits_gets_it_once_a_replica_answers, f)
{
    struct actor *waiter = actor_open(f);
    struct rlock_handle *lock;

    cluster_form(f->servers, 1, f->n);
    lock = lock_new(f, open_with(f, RLOCK_ACKS_AUTO, 0));
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    test_server_freeze(f->servers[1]);
    actor_begin(waiter, act_pass_through, lock, RLOCK_FOREVER, NULL);
    assert_true(STAYS(actor_is_busy(waiter), 1500));
    test_server_thaw(f->servers[1]);
    assert_code(actor_end(waiter), 0);
}

/* The primary renews it all the time. */
ACKS_TEST(a_hold_whose_renewals_no_replica_has_is_lost_with_its_lease, f)
{
    struct rlock_handle *lock;
    int64_t frozen_us;

    cluster_form(f->servers, 1, f->n);
    lock = lock_new(f, open_with(f, RLOCK_ACKS_AUTO, test_ms(LEASE_MS)));
    assert_code(rlock_lock(lock), 0);
    assert_true(
        STAYS_KEPT(rlock_is_valid(lock), 2 * LEASE_MS, LEASE_MS)); /* they are acknowledged */
    test_server_freeze(f->servers[1]);
    frozen_us = test_now_us();
    assert_took(expect_loss(f, RLOCK_LOST_NOT_REPLICATED) - frozen_us, LEASE_MS / 4, LEASE_MS);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_true(TEST_EVENTUALLY(test_server_int(f->server, "DBSIZE") == 0, LEASE_MS / 2));
    test_server_thaw(f->servers[1]);
}

ACKS_TEST(a_number_of_replicas_is_needed_where_no_map_tells_of_any, f)
{
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.acks = 1, .op_timeout_ms = 5000));
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock_client *none = NULL;

    cluster_form(f->servers, 1, f->n);
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    test_server_freeze(f->servers[1]);
    assert_code(rlock_try_lock(lock), RLOCK_ENOTREPLICATED);
    test_server_thaw(f->servers[1]);
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    assert_code(rlock_client_open(RLOCK_CLIENT_OPTS(.acks = RLOCK_ACKS_ALL), &none), RLOCK_EINVAL);
    assert_code(rlock_client_open(RLOCK_CLIENT_OPTS(.acks = -3), &none), RLOCK_EINVAL);
}

/* A server that does not let the client ask says so, and the grant is given back at once. */
ACKS_TEST(a_user_who_may_not_wait_is_told, f)
{
    const int64_t wait_ms = 5000;
    struct rlock_handle *lock;

    test_server_do(f->server, "ACL SETUSER default -wait");
    lock = lock_new(f, client_open_with(f, RLOCK_CLIENT_OPTS(.acks = 1)));
    cluster_form(f->servers, 1, 1);
    assert_code(rlock_lock_for(lock, wait_ms, NULL, NULL), RLOCK_EPERM);
    assert_non_null(strstr(rlock_detail(), "WAIT"));
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
}

/* ---- On disk ---- */

#define DISK_LEASE_MS 6000

static struct rlock_handle *lock_on_disk(struct fixture *f, int acks)
{
    return lock_new(
        f, client_open_with(f, RLOCK_CLIENT_OPTS(.acks = acks, .flags = RLOCK_CLIENT_ACKS_ON_DISK,
                                                 .renewed_lease_ms = DISK_LEASE_MS)));
}

#define DISK_TEST(name, f, program_name, has_aof, n)                                               \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = n,                              \
                      .server = {.program = program_name, .transport = TEST_TCP, .aof = has_aof})

DISK_TEST(a_grant_that_counts_on_disk_outlives_a_crash, f, "valkey", true, 1)
{
    struct rlock_handle *lock = lock_on_disk(f, RLOCK_ACKS_AUTO);

    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    assert_code(rlock_lock(lock), 0);
    test_server_restart(f->server, true);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 1);
    assert_true(
        TEST_EVENTUALLY(/* renewals are told of too */
                        test_server_info(f->server, "commandstats", "cmdstat_waitaof:calls") > 0,
                        DISK_LEASE_MS));
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
}

DISK_TEST(a_grant_on_no_disk_is_refused_and_given_back, f, "valkey", false, 1)
{
    struct rlock_handle *lock = lock_on_disk(f, RLOCK_ACKS_OFF);

    assert_code(rlock_try_lock(lock), RLOCK_EREFUSED);
    assert_non_null(strstr(rlock_detail(), "appendonly yes"));
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
}

/* Such as Redis 7.0. */
DISK_TEST(a_server_that_does_not_know_of_disks_is_told, f, NULL, true, 1)
{
    struct rlock_handle *lock;

    if (test_server_has_command(f->server, "WAITAOF")) {
        return;
    }
    lock = lock_on_disk(f, RLOCK_ACKS_AUTO);
    assert_code(rlock_lock(lock), RLOCK_EREFUSED);
    assert_non_null(strstr(rlock_detail(), "acknowledgement from disk requires Redis 7.2"));
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
}

DISK_TEST(a_replica_must_have_it_on_disk_too, f, "valkey", true, 2)
{
    struct rlock_handle *lock;

    test_server_do(f->servers[1], "REPLICAOF 127.0.0.1 %d", test_server_port(f->server));
    assert_true(TEST_EVENTUALLY(test_server_is_copied(f->servers[1]), 20000));
    lock = lock_on_disk(f, 1);
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    test_server_do(f->servers[1], "CONFIG SET appendonly no");
    assert_code(rlock_try_lock(lock), RLOCK_ENOTREPLICATED);
    assert_non_null(strstr(rlock_detail(), "1 of 2 disks"));
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
    test_server_do(f->servers[1], "REPLICAOF NO ONE");
}

/* A hold is renewed while its slot is open, on both sides of the move. */
static void keep_while_open(struct fixture *f, size_t from, size_t to, size_t n_primaries)
{
    struct rlock_handle *lock;
    char url[200], name[40];
    unsigned int slot;

    cluster_url(f->servers, n_primaries, url, sizeof(url));
    name_at(f, n_primaries, from, name, sizeof(name));
    slot = rlock__slot(rlock__bytes_of(name));
    lock = lock_named(
        f,
        client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .renewed_lease_ms = test_ms(LEASE_MS))),
        name);
    assert_code(rlock_lock(lock), 0);
    cluster_open_slot(f->servers[from], f->servers[to], slot);
    assert_true(STAYS_KEPT(rlock_is_valid(lock), LEASE_MS, LEASE_MS));
    cluster_move_key(f->servers[from], f->servers[to], name);
    assert_true(STAYS_KEPT(rlock_is_valid(lock), 2 * LEASE_MS, LEASE_MS));
    assert_code(rlock_unlock(lock), 0);
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    cluster_abort_slot(f->servers[from], f->servers[to], slot);
}

FAILOVER_TEST(a_hold_is_kept_while_its_slot_moves_between_replicated_servers, f)
{
    cluster_form(f->servers, f->n / 2, f->n);
    keep_while_open(f, 0, 1, f->n / 2);
}

UNEVEN_TEST(a_hold_is_kept_while_its_slot_moves_to_a_server_without_replicas, f)
{
    cluster_form(f->servers, 2, 3);
    keep_while_open(f, 0, 1, 2);
}

UNEVEN_TEST(a_hold_is_kept_while_its_slot_moves_to_a_server_with_a_replica, f)
{
    cluster_form(f->servers, 2, 3);
    keep_while_open(f, 1, 0, 2);
}

/* ---- The newest grant is lost with its primary ---- */

/* Somebody takes a lock that the replica hears nothing of; then the primary dies, and somebody else
 * takes it. Returns what the first one got, and how many were inside in the end. */
static int lose_newest(struct fixture *f, int acks, struct witness *witness, int *ret_inside)
{
    const int64_t first_ms = 0;
    const int64_t second_ms = 25000;
    struct actor *holder = actor_open(f), *rival = actor_open(f);
    struct rlock_handle *lock;
    char name[40];
    int code = 0;

    cluster_form(f->servers, f->n / 2, f->n);
    room_open(witness);
    name_at(f, f->n / 2, 0, name, sizeof(name));
    lock = lock_named(f, open_with(f, acks, 0), name);
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    test_server_freeze(f->servers[f->n / 2]);
    test_server_do(f->servers[0], "CLIENT KILL TYPE replica");
    actor_begin(holder, act_stay, lock, first_ms, NULL);
    assert_true(TEST_EVENTUALLY(room_inside() == 1 || !actor_is_busy(holder), 10000));
    test_server_kill(f->servers[0]);
    test_server_thaw(f->servers[f->n / 2]);
    assert_true(TEST_EVENTUALLY(test_server_is_primary(f->servers[f->n / 2]), 20000));
    *ret_inside = room_inside() + 1;
    actor_begin(rival, act_stay, lock_named(f, open_with(f, RLOCK_ACKS_OFF, 0), name), second_ms,
                NULL);
    assert_true(TEST_EVENTUALLY(room_inside() == *ret_inside, 20000));
    room_let_go();
    assert_code(actor_end(rival), 0);
    code = actor_end(holder);
    test_server_restart(f->servers[0], false);
    return code;
}

FAILOVER_TEST(the_newest_grant_is_lost_where_nobody_acknowledges, f)
{
    struct witness *witness = witness_new(1);
    int inside;

    assert_code(lose_newest(f, RLOCK_ACKS_OFF, witness, &inside), RLOCK_ELOST);
    assert_int_equal(inside, 2);
    assert_int_equal(witness_overlaps(witness), 1);
    (void)expect_loss(f, 0); /* it is told */
    assert_null(witness_free(witness));
}

FAILOVER_TEST(the_newest_grant_is_refused_where_the_replica_acknowledges, f)
{
    int inside;

    assert_code(lose_newest(f, RLOCK_ACKS_ALL, f->witness, &inside), RLOCK_ENOTREPLICATED);
    assert_int_equal(inside, 1);
    assert_true(witness_is_clean(f->witness, stderr));
}
