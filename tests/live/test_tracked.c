/* SPDX-License-Identifier: Apache-2.0 */
/* Waiters for setnx locks hear from the server that the key has changed (CLIENT TRACKING). */
#include "support/actor.h"
#include "support/clients.h"

#include <stdlib.h>

enum { ROUNDS = 20 };

static const struct kind kind_setnx = {"setnx", rlock_setnx_new, rlock_setnx_new, 0};

#define TRACKED_TEST(name, f) FIXTURE_WITH_TEST(name, f, .kind = &kind_setnx, .servers = 1)

/* Another library takes the lock. */
static void take_elsewhere(const struct fixture *f, long long ttl_ms)
{
    test_server_do(f->server, "SET " NAME " elsewhere NX PX %lld", ttl_ms);
}

/* Waits until the server tracks a key for a client. */
static bool await_tracked(const struct fixture *f)
{
    return TEST_EVENTUALLY(test_server_info(f->server, "stats", "tracking_total_items") == 1, 5000);
}

/* Whether the last command of a connection was a look at a key. */
static bool has_looked(const struct fixture *f)
{
    char *clients = test_server_cmd(f->server, "CLIENT LIST");
    bool has = strstr(clients, "cmd=pttl") != NULL;

    free(clients);
    return has;
}

/* The command wakes the waiter, which would look only every 5 s. */
static void assert_wakes(const struct fixture *f, struct actor *waiter, const char *command)
{
    int64_t since_us = test_now_us();

    test_server_do(f->server, "%s", command);
    assert_code(actor_end(waiter), 0);
    assert_in_time(since_us, 2000000);
}

static struct actor *waiter_of(struct fixture *f, struct rlock_handle *lock)
{
    struct actor *waiter = actor_open(f);

    actor_begin(waiter, act_pass_through, lock, RLOCK_FOREVER, NULL);
    assert_true(await_tracked(f));
    return waiter;
}

/* A round takes three scripts: the lock is busy, then it is free, and the unlock. */
TRACKED_TEST(a_waiter_hears_another_library_release_the_lock, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    int64_t us[ROUNDS], median;
    struct actor *waiter = actor_open(f);

    assert_code(rlock_lock(lock), 0); /* the server knows the scripts from here on */
    assert_code(rlock_unlock(lock), 0);
    fixture_count_calls(f);
    for (size_t i = 0; i < ROUNDS; i++) {
        take_elsewhere(f, 60000);
        actor_begin(waiter, act_take, lock, RLOCK_FOREVER, NULL);
        assert_true(await_tracked(f));
        us[i] = test_now_us();
        test_server_do(f->server, "DEL " NAME);
        assert_code(actor_end(waiter), 0);
        us[i] = actor_ended_us(waiter) - us[i];
        assert_code(actor_do(waiter, act_unlock, lock, 0, NULL), 0);
    }
    median = test_median(us, ROUNDS);
    print_message("woken after %lld us, the median of %d\n", (long long)median, ROUNDS);
    assert_in_range(median, 0, 30000 * test_slack());
    assert_in_range(fixture_calls(f, "evalsha"), 0, 4 * ROUNDS);
}

/* The server tells of one change only. After that the client has to look again. */
TRACKED_TEST(a_waiter_hears_the_release_after_the_lease_was_extended, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct actor *waiter;

    take_elsewhere(f, 60000);
    waiter = waiter_of(f, lock);
    for (int i = 0; i < ROUNDS; i++) {
        test_server_do(f->server, "PEXPIRE " NAME " 60000");
        assert_true(await_tracked(f));
    }
    assert_true(actor_is_busy(waiter));
    assert_wakes(f, waiter, "DEL " NAME);
}

TRACKED_TEST(a_waiter_hears_that_all_keys_were_deleted, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct actor *waiter;

    take_elsewhere(f, 60000);
    waiter = waiter_of(f, lock);
    assert_wakes(f, waiter, "FLUSHALL");
}

/* The client looks again after it has connected again. */
TRACKED_TEST(a_waiter_hears_the_release_after_its_connection_broke, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct actor *waiter;

    take_elsewhere(f, 60000);
    waiter = waiter_of(f, lock);
    test_server_do(f->server, "CLIENT KILL TYPE normal SKIPME yes");
    assert_true(TEST_EVENTUALLY(has_looked(f), 5000));
    assert_wakes(f, waiter, "DEL " NAME);
}

/* The client has subscribed before, by the second version of the protocol. */
TRACKED_TEST(a_client_that_has_subscribed_can_track_keys, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *fair, *rival;
    struct actor *waiter = actor_open(f), *other = actor_open(f);

    assert_code(rlock_fair_new(client, "fair", NULL, &fair), 0);
    assert_code(rlock_fair_new(client_open(f), "fair", NULL, &rival), 0);
    assert_code(rlock_lock(rival), 0);
    actor_begin(other, act_pass_through, fair, RLOCK_FOREVER, NULL);
    assert_true(TEST_EVENTUALLY(fixture_has_key(f, "redisson_lock_queue:{fair}"), 5000));
    take_elsewhere(f, 60000);
    actor_begin(waiter, act_pass_through, lock, RLOCK_FOREVER, NULL);
    assert_true(await_tracked(f));
    test_server_do(f->server, "DEL " NAME);
    assert_code(actor_end(waiter), 0);
    assert_code(rlock_unlock(rival), 0);
    assert_code(actor_end(other), 0);
    assert_null(rlock_free(fair));
    assert_null(rlock_free(rival));
}

/* Without the right the waiters poll. */
TRACKED_TEST(a_waiter_that_may_not_track_keys_polls, f)
{
    struct rlock_handle *lock;
    struct actor *waiter = actor_open(f);

    test_server_do(f->server, "ACL SETUSER default -client|tracking");
    lock = lock_new(f, client_open(f));
    take_elsewhere(f, 60000);
    fixture_count_calls(f);
    actor_begin(waiter, act_pass_through, lock, RLOCK_FOREVER, NULL);
    assert_true(TEST_EVENTUALLY(fixture_calls(f, "evalsha") >= 4, 5000));
    assert_int_equal(test_server_info(f->server, "stats", "tracking_total_items"), 0);
    assert_wakes(f, waiter, "DEL " NAME);
}
