/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a lock can do while its slot is being moved to another node of a cluster, and its keys are
 * still where they were. A node refuses a command then of which it lacks a key, and a script that
 * touches one that is missing.
 */
#include <string.h>

#include "support/clients.h"
#include "support/cluster.h"
#include "topology/slot.h"

#define TAG "{t}" /* of all names: they are in one slot */
#define LEASE_MS 900

#define CLUSTER_TEST(name, f)                                                                      \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 2,                              \
                      .server = {.transport = TEST_TCP, .conf = cluster_conf})

enum { N = SINGLE_KINDS };

static unsigned int slot(void)
{
    return rlock__slot(rlock__bytes_of(TAG));
}

static void open_slot(struct fixture *f)
{
    cluster_open_slot(f->servers[0], f->servers[1], slot());
}

static void close_slot(struct fixture *f)
{
    cluster_abort_slot(f->servers[0], f->servers[1], slot());
}

/* One lock of each kind, and held. */
static void take_all(struct rlock_client *client, struct rlock_handle *ret_locks[N])
{
    for (size_t i = 0; i < N; i++) {
        char name[32];

        test_text(name, sizeof(name), TAG "%s", single_kinds[i].name);
        assert_code(single_kinds[i].make(client, name, NULL, &ret_locks[i]), 0);
        assert_code(rlock_lock(ret_locks[i]), 0);
    }
}

static void free_all(struct rlock_handle *locks[N])
{
    for (size_t i = 0; i < N; i++) {
        assert_null(rlock_free(locks[i]));
    }
}

static bool are_valid(struct rlock_handle *const locks[N])
{
    for (size_t i = 0; i < N; i++) {
        if (!rlock_is_valid(locks[i])) {
            print_error("%s is not valid\n", single_kinds[i].name);
            return false;
        }
    }
    return true;
}

/* Not counting the token of the fenced lock, and the numbers of free units, which stay. */
static long long keys_left(struct fixture *f)
{
    return test_server_int(f->server, "DBSIZE") -
           !test_server_says(f->server, "", "KEYS redisson_lock_token:*") -
           !test_server_says(f->server, "", "KEYS *permits") -
           !test_server_says(f->server, "", "KEYS *semaphore");
}

static bool nests(size_t kind)
{
    return kind != KIND_NONREENTRANT && kind != KIND_PERMITS && kind != KIND_SEMAPHORE;
}

CLUSTER_TEST(what_is_held_is_renewed_and_given_back, f)
{
    struct rlock_client *client = client_open_renewing(f, test_ms(LEASE_MS));
    struct rlock_handle *locks[N];

    cluster_join(f->servers, f->n);
    take_all(client, locks);
    open_slot(f);
    assert_true(STAYS_KEPT(are_valid(locks), test_ms(2 * LEASE_MS), test_ms(LEASE_MS)));
    for (size_t i = 0; i < N; i++) {
        assert_code(rlock_unlock(locks[i]), 0);
    }
    assert_int_equal(keys_left(f), 0);
    close_slot(f);
    free_all(locks);
}

CLUSTER_TEST(levels_are_taken_and_given_back, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *locks[N];

    cluster_join(f->servers, f->n);
    take_all(client, locks);
    assert_code(rlock_lock(locks[KIND_READ]),
                0); /* a level that is new needs a key that is not there */
    open_slot(f);
    for (size_t i = 0; i < N; i++) {
        if (nests(i) && i != KIND_READ) {
            assert_code(rlock_lock(locks[i]), 0);
        }
    }
    for (size_t i = 0; i < N; i++) {
        if (nests(i)) {
            assert_code(rlock_unlock(locks[i]), 0);
            assert_int_equal(rlock_hold_count(locks[i]), 1);
        }
        assert_code(rlock_unlock(locks[i]), 0);
    }
    assert_int_equal(keys_left(f), 0);
    close_slot(f);
    free_all(locks);
}

CLUSTER_TEST(who_holds_is_told, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *locks[N];

    cluster_join(f->servers, f->n);
    take_all(client, locks);
    open_slot(f);
    for (size_t i = 0; i < N; i++) {
        struct rlock_info info = RLOCK_INFO_INIT;

        assert_code(rlock_inspect(locks[i], &info), 0);
        assert_true(info.locked && info.mine);
    }
    for (size_t i = 0; i < N; i++) {
        assert_code(rlock_unlock(locks[i]), 0);
    }
    close_slot(f);
    free_all(locks);
}

CLUSTER_TEST(a_writer_goes_on_reading, f)
{
    struct rlock_client *client = client_open_renewing(f, test_ms(LEASE_MS));
    struct rlock_handle *write, *read;

    cluster_join(f->servers, f->n);
    assert_code(rlock_write_new(client, TAG "rw", NULL, &write), 0);
    assert_code(rlock_read_new(client, TAG "rw", NULL, &read), 0);
    assert_code(rlock_lock(write), 0);
    assert_code(rlock_lock(read), 0);
    open_slot(f);
    assert_code(rlock_unlock(write), 0);
    assert_true(test_server_says(f->server, "read", "HGET " TAG "rw mode"));
    assert_true(STAYS_KEPT(rlock_is_valid(read), test_ms(2 * LEASE_MS), test_ms(LEASE_MS)));
    assert_code(rlock_unlock(read), 0);
    assert_int_equal(keys_left(f), 0);
    close_slot(f);
    assert_null(rlock_free(write));
    assert_null(rlock_free(read));
}

CLUSTER_TEST(a_reader_whose_level_has_moved_stays_when_others_leave, f)
{
    struct rlock_client *clients[3] = {client_open(f), client_open(f), client_open(f)};
    struct rlock_handle *reads[2], *write;
    char *level;

    cluster_join(f->servers, f->n);
    for (size_t i = 0; i < 2; i++) {
        assert_code(rlock_read_new(clients[i], TAG "rw", NULL, &reads[i]), 0);
    }
    assert_code(rlock_write_new(clients[2], TAG "rw", NULL, &write), 0);
    assert_code(rlock_lock(reads[0]), 0);
    level = test_server_cmd(f->server, "KEYS *:rwlock_timeout:1");
    assert_code(rlock_lock(reads[1]), 0);
    open_slot(f);
    cluster_move_key(f->servers[0], f->servers[1], level);
    assert_code(rlock_unlock(reads[1]), 0); /* it ends last: so who else has it is looked at */
    assert_int_equal(test_server_int(f->server, "HLEN " TAG "rw"), 2);
    assert_code(rlock_try_lock(write), RLOCK_EBUSY);
    assert_code(rlock_unlock(reads[0]), 0); /* its level stays there, and ends by itself */
    assert_int_equal(keys_left(f), 0);
    close_slot(f);
    test_server_do(f->servers[1], "FLUSHALL");
    free(level);
    assert_null(rlock_free(reads[0]));
    assert_null(rlock_free(reads[1]));
    assert_null(rlock_free(write));
}

CLUSTER_TEST(a_reader_whose_longest_level_has_moved_keeps_its_lease_when_others_leave, f)
{
    struct rlock_client *clients[2] = {client_open(f), client_open(f)};
    struct rlock_handle *reads[2];
    char *level;

    cluster_join(f->servers, f->n);
    for (size_t i = 0; i < 2; i++) {
        assert_code(rlock_read_new(clients[i], TAG "rw", NULL, &reads[i]), 0);
    }
    assert_code(rlock_lock(reads[0]), 0);
    level = test_server_cmd(f->server, "KEYS *:rwlock_timeout:1");
    assert_code(rlock_lock(reads[0]), 0);
    assert_code(rlock_lock(reads[1]), 0);
    test_server_do(f->server, "PEXPIRE %.*s2 3000", (int)strlen(level) - 1, level);
    open_slot(f);
    cluster_move_key(f->servers[0], f->servers[1], level);
    assert_code(rlock_unlock(reads[1]), 0);
    assert_true(test_server_int(f->server, "PTTL " TAG "rw") > 10000);
    close_slot(f);
    test_server_do(f->servers[1], "FLUSHALL");
    assert_code(rlock_unlock(reads[0]), 0);
    assert_code(rlock_unlock(reads[0]), 0);
    assert_int_equal(keys_left(f), 0);
    free(level);
    assert_null(rlock_free(reads[0]));
    assert_null(rlock_free(reads[1]));
}

/* To a client with this flag a release grants nothing: it has to ask. */
CLUSTER_TEST(a_fair_waiter_comes_in_when_the_slot_is_whole_again, f)
{
    struct rlock_client *clients[2] = {
        client_open(f), client_open_with(f, RLOCK_CLIENT_OPTS(.flags = RLOCK_CLIENT_NO_PASS))};
    struct actor *waiter = actor_open(f);
    struct rlock_handle *held, *wanted;
    int64_t closing_us;

    cluster_join(f->servers, f->n);
    assert_code(rlock_fair_new(clients[0], TAG "fair", NULL, &held), 0);
    assert_code(rlock_fair_new(clients[1], TAG "fair", NULL, &wanted), 0);
    assert_code(rlock_lock(held), 0);
    actor_begin(waiter, act_pass_through, wanted, RLOCK_FOREVER, NULL);
    await_waiting(clients[1], 1);
    open_slot(f);
    assert_code(rlock_unlock(held), 0);
    assert_true(STAYS(actor_is_busy(waiter), 300));
    closing_us = test_now_us(); /* it may come in before the last server has answered */
    close_slot(f);
    assert_code(actor_end(waiter), 0);
    assert_took(actor_ended_us(waiter) - closing_us, 0, 1000);
    assert_int_equal(keys_left(f), 0);
    assert_null(rlock_free(held));
    assert_null(rlock_free(wanted));
}

/* ---- A client of the cluster ---- */

static struct rlock_client *open_cluster(struct fixture *f)
{
    char url[200];

    cluster_join(f->servers, f->n);
    cluster_url(f->servers, f->n, url, sizeof(url));
    return client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .op_timeout_ms = 1000));
}

/* Its hash and the queue have moved, and their scores have not: what is written to these there
 * would bar their way. */
CLUSTER_TEST(a_fair_release_makes_no_key_that_is_on_its_way, f)
{
    static const char *const moved[] = {"KEYS *lock_queue*", "KEYS " TAG "fair"};
    struct rlock_client *client = open_cluster(f);
    struct actor *waiter = actor_open(f);
    struct rlock_handle *held, *wanted;
    char *key;

    assert_code(rlock_fair_new(client, TAG "fair", NULL, &held), 0);
    assert_code(rlock_fair_new(client, TAG "fair", NULL, &wanted), 0);
    assert_code(rlock_lock(held), 0);
    actor_begin(waiter, act_pass_through, wanted, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    open_slot(f);
    for (size_t i = 0; i < sizeof(moved) / sizeof(moved[0]); i++) {
        key = test_server_cmd(f->server, "%s", moved[i]);
        cluster_move_key(f->servers[0], f->servers[1], key);
        free(key);
    }
    assert_code(rlock_unlock(held), 0);
    key = test_server_cmd(f->server, "KEYS *lock_timeout*");
    cluster_move_key(f->servers[0], f->servers[1], key);
    free(key);
    cluster_move_keys(f->servers[0], f->servers[1], slot());
    cluster_set_slot(f->servers[1], slot(), "NODE", f->servers[1]);
    cluster_set_slot(f->server, slot(), "NODE", f->servers[1]);
    assert_code(actor_end(waiter), 0);
    assert_null(rlock_free(held));
    assert_null(rlock_free(wanted));
}

/* Of its keys the lock's own is missing, and the token is there. */
CLUSTER_TEST(a_lock_with_more_keys_waits_until_the_slot_is_whole_again, f)
{
    struct rlock_client *client = open_cluster(f);
    struct actor *waiter = actor_open(f);
    struct rlock_handle *fenced = NULL;
    char text[40];

    assert_code(rlock_fenced_new(client, TAG "fenced", NULL, &fenced), 0);
    assert_code(rlock_lock(fenced), 0);
    assert_code(rlock_unlock(fenced), 0);
    open_slot(f);
    assert_code(rlock_try_lock(fenced), RLOCK_EREFUSED);
    test_text(text, sizeof(text), "slot %u is being moved", slot());
    assert_non_null(strstr(rlock_detail(), text));
    actor_begin(waiter, act_pass_through, fenced, RLOCK_FOREVER, NULL);
    assert_true(STAYS(actor_is_busy(waiter), 300));
    close_slot(f);
    assert_code(actor_end(waiter), 0);
    assert_null(rlock_free(fenced));
}

static void make_multi(struct fixture *f, struct rlock_client *client,
                       struct rlock_handle *ret_members[2], struct rlock_handle **ret_multi)
{
    ret_members[0] = lock_named(f, client, TAG "a");
    ret_members[1] = lock_named(f, client, TAG "b");
    assert_code(rlock_multi_new(ret_members, 2, NULL, ret_multi), 0);
}

/* No script can take them all: they are where they are made, or nowhere yet. */
CLUSTER_TEST(a_multi_lock_takes_its_members_one_by_one, f)
{
    struct rlock_client *client = open_cluster(f);
    struct rlock_handle *members[2], *multi = NULL;

    make_multi(f, client, members, &multi);
    open_slot(f);
    assert_code(rlock_try_lock(multi), 0);
    assert_code(rlock_unlock(multi), 0);
    assert_code(rlock_lock_for(multi, 5000, NULL, NULL), 0);
    assert_code(rlock_unlock(multi), 0);
    close_slot(f);
    assert_null(rlock_free(multi));
}

CLUSTER_TEST(a_multi_lock_of_which_a_member_is_held_is_busy, f)
{
    struct rlock_client *client = open_cluster(f), *other;
    struct rlock_handle *members[2], *multi = NULL, *held;
    char url[200];

    cluster_url(f->servers, f->n, url, sizeof(url));
    other = client_open_with(f, RLOCK_CLIENT_OPTS(.url = url));
    make_multi(f, client, members, &multi);
    held = lock_named(f, other, TAG "b");
    assert_code(rlock_lock(held), 0);
    open_slot(f);
    assert_code(rlock_try_lock(multi), RLOCK_EBUSY);
    assert_false(is_locked(members[0]));
    assert_code(rlock_unlock(held), 0);
    assert_code(rlock_try_lock(multi), 0);
    assert_code(rlock_unlock(multi), 0);
    close_slot(f);
    assert_null(rlock_free(multi));
}
