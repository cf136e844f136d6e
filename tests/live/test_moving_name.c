/* SPDX-License-Identifier: Apache-2.0 */
/* A name that comes to mean another server when a replica is promoted, as managed services have it:
 * here a proxy, which leads new connections elsewhere. */
#include <stdlib.h>
#include <string.h>

#include "support/clients.h"

/* The name leads to the first server; the second is its replica. */
#define NAME_TEST(name, f)                                                                         \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 2,                              \
                      .server = {.transport = TEST_TCP})

static struct proxy *name_open(struct fixture *f)
{
    test_server_do(f->servers[1], "CONFIG SET repl-diskless-load disabled");
    test_server_do(f->servers[0], "CONFIG SET repl-diskless-sync-delay 0");
    test_server_do(f->servers[1], "REPLICAOF 127.0.0.1 %d", test_server_port(f->servers[0]));
    assert_true(TEST_EVENTUALLY(test_server_is_copied(f->servers[1]), 10000));
    return proxy_start(test_server_url(f->servers[0]));
}

static struct rlock_client *open_for(struct fixture *f, const struct proxy *proxy,
                                     int64_t op_timeout_ms)
{
    return client_open_with(
        f, RLOCK_CLIENT_OPTS(.url = proxy_url(proxy), .op_timeout_ms = op_timeout_ms));
}

static struct rlock_client *open_name(struct fixture *f, const struct proxy *proxy)
{
    return open_for(f, proxy, 0);
}

static void promote(struct fixture *f, struct proxy *proxy)
{
    test_server_do(f->servers[1], "REPLICAOF NO ONE");
    proxy_lead(proxy, test_server_url(f->servers[1]));
}

static void name_close(struct fixture *f, struct proxy *proxy)
{
    client_close(f, f->clients[0]);
    (void)proxy_stop(proxy);
}

/* Nothing closes the link to it: it goes on, and refuses. */
NAME_TEST(who_talks_to_a_primary_that_was_demoted_goes_to_the_new_one, f)
{
    struct proxy *name = name_open(f);
    struct rlock_handle *lock = lock_new(f, open_name(f, name));

    assert_code(rlock_lock(lock), 0);
    assert_true(TEST_EVENTUALLY(test_server_int(f->servers[1], "EXISTS " NAME) == 1, 5000));
    promote(f, name);
    test_server_do(f->servers[0], "REPLICAOF 127.0.0.1 %d", test_server_port(f->servers[1]));
    assert_code(rlock_unlock(lock), 0);
    assert_int_equal(test_server_int(f->servers[1], "EXISTS " NAME), 0);
    test_server_do(f->servers[0], "REPLICAOF NO ONE");
    name_close(f, name);
}

/* It may be behind, and would refuse what is asked. */
NAME_TEST(a_replica_is_not_used_until_the_name_leads_to_a_primary, f)
{
    struct proxy *name = name_open(f);
    struct rlock_handle *lock;

    proxy_lead(name, test_server_url(f->servers[1]));
    lock = lock_new(f, open_for(f, name, test_ms(1000)));
    assert_code(rlock_try_lock(lock), RLOCK_ECONN);
    assert_non_null(strstr(rlock_detail(), "the server is a replica"));
    proxy_lead(name, test_server_url(f->servers[0]));
    assert_code(rlock_lock_for(lock, 10000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    test_server_do(f->servers[1], "REPLICAOF NO ONE");
    name_close(f, name);
}

/* The replica hears nothing of what happens next at the primary. */
static void cut_off(struct fixture *f)
{
    test_server_freeze(f->servers[1]);
    test_server_do(f->servers[0], "CLIENT KILL TYPE replica");
}

static void fail_over(struct fixture *f, struct proxy *name)
{
    test_server_kill(f->servers[0]);
    test_server_thaw(f->servers[1]);
    promote(f, name);
}

NAME_TEST(a_hold_with_a_lease_that_the_failover_lost_is_told_at_once, f)
{
    struct proxy *name = name_open(f);
    struct rlock_handle *lock = lock_new(f, open_name(f, name));
    int64_t replaced_us;

    cut_off(f);
    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.lease_ms = 60000), NULL), 0);
    replaced_us = test_now_us();
    fail_over(f, name);
    assert_took(expect_loss(f, RLOCK_LOST_DELETED) - replaced_us, 0, 3000);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    test_server_restart(f->servers[0], false);
    name_close(f, name);
}

/* The new primary has it still, for as long as its lease lasts. */
NAME_TEST(a_release_that_the_failover_lost_is_made_again, f)
{
    struct proxy *name = name_open(f);
    struct rlock_client *client = open_name(f, name);
    struct rlock_handle *lock = lock_new(f, client);

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.lease_ms = 60000), NULL), 0);
    assert_true(TEST_EVENTUALLY(test_server_int(f->servers[1], "EXISTS " NAME) == 1, 5000));
    cut_off(f);
    assert_code(rlock_unlock(lock), 0);
    fail_over(f, name);
    assert_true(TEST_EVENTUALLY(test_server_int(f->servers[1], "EXISTS " NAME) == 0, 3000));
    test_server_restart(f->servers[0], false);
    name_close(f, name);
}
