/* SPDX-License-Identifier: Apache-2.0 */
/* Extensions of what several threads, members or clients are concerned with. */
#include <pthread.h>
#include <string.h>

#include "support/clients.h"
#include "support/completion.h"
#include "support/witness.h"

enum { MINUTE_MS = 60 * 1000, OWNER = 41 };

/* ---- Many at once ---- */

enum { MANY = 300 };

LOCK_TEST(many_holds_are_extended_at_once, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *locks[MANY];
    struct completion ends[MANY];
    char name[16];

    for (size_t i = 0; i < MANY; i++) {
        test_text(name, sizeof(name), "n%zu", i);
        locks[i] = lock_named(f, client, name);
        assert_code(
            rlock_lock_for(locks[i], 0, RLOCK_TAKE(.owner = OWNER, .lease_ms = MINUTE_MS), NULL),
            0);
    }
    for (size_t i = 0; i < MANY; i++) {
        ends[i] = (struct completion)COMPLETION;
        assert_code(
            rlock_extend_async(locks[i], OWNER, 10 * MINUTE_MS, completion_tell, &ends[i], NULL),
            0);
    }
    for (size_t i = 0; i < MANY; i++) {
        assert_code(completion_await(&ends[i]), 0);
        assert_true(rlock_valid_ms_as(locks[i], OWNER) > 9 * MINUTE_MS);
        assert_code(rlock_unlock_as(locks[i], OWNER), 0);
    }
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
}

/* The shorter one is served by the longer one, whichever comes first. */
LOCK_TEST(extensions_of_one_hold_share_a_request, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct completion ends[8];

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.owner = OWNER, .lease_ms = MINUTE_MS), NULL),
                0);
    for (int i = 0; i < 8; i++) {
        ends[i] = (struct completion)COMPLETION;
        assert_code(
            rlock_extend_async(lock, OWNER, (i + 2) * MINUTE_MS, completion_tell, &ends[i], NULL),
            0);
    }
    for (int i = 0; i < 8; i++) {
        assert_code(completion_await(&ends[i]), 0);
    }
    assert_true(rlock_valid_ms_as(lock, OWNER) > 8 * MINUTE_MS);
    assert_code(rlock_unlock_as(lock, OWNER), 0);
}

/* The server has not answered the extension. The unlock does not wait for that answer. */
LOCK_TEST(an_extension_ends_with_the_unlock_of_its_hold, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct completion longer = COMPLETION, left = COMPLETION;
    int code;

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.owner = OWNER, .lease_ms = MINUTE_MS), NULL),
                0);
    test_server_freeze(f->server);
    assert_code(rlock_extend_async(lock, OWNER, 10 * MINUTE_MS, completion_tell, &longer, NULL), 0);
    assert_code(rlock_unlock_async(lock, OWNER, completion_tell, &left, NULL), 0);
    assert_false(rlock_is_valid_as(lock, OWNER));
    test_server_thaw(f->server);
    assert_code(completion_await(&left), 0);
    code = completion_await(&longer);
    assert_true(code == RLOCK_ENOTOWNER || code == RLOCK_EINDOUBT);
    assert_false(is_locked(lock));
}

LOCK_TEST(an_extension_that_the_server_refuses_names_the_reason, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_failure failure = RLOCK_FAILURE_INIT;

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.lease_ms = MINUTE_MS), NULL), 0);
    test_server_do(f->server, "ACL SETUSER default -eval -evalsha");
    assert_code(rlock_extend(lock, 0, 10 * MINUTE_MS, NULL), RLOCK_EPERM);
    assert_code(rlock_last_failure(&failure), 0);
    assert_non_null(strstr(failure.detail, "lock " NAME ": not extended: not permitted"));
    assert_non_null(strstr(failure.detail, "eval"));
    assert_string_not_equal(failure.server, "");
    assert_true(rlock_is_valid(lock));
    test_server_do(f->server, "ACL SETUSER default +eval +evalsha");
    assert_code(rlock_extend(lock, 0, 10 * MINUTE_MS, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
}

/* ---- Locks made of locks ---- */

LOCK_TEST(a_multi_lock_is_extended_as_a_whole, f)
{
    struct rlock_client *clients[] = {client_open(f), client_open(f)};
    struct rlock_handle *members[] = {lock_named(f, clients[0], "a"),
                                      lock_named(f, clients[1], "b")};
    struct rlock_handle *multi = NULL;
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    assert_code(rlock_extend(multi, 0, MINUTE_MS, NULL), RLOCK_ENOTOWNER);
    assert_code(rlock_lock_for(multi, 0, RLOCK_TAKE(.lease_ms = MINUTE_MS), NULL), 0);
    assert_code(rlock_extend(multi, 0, 10 * MINUTE_MS, &grant), 0);
    assert_int_equal(grant.lease_ms, 10 * MINUTE_MS);
    assert_int_equal(grant.is_renewed, 0);
    assert_true(rlock_valid_ms(multi) > 9 * MINUTE_MS);
    assert_true(test_server_int(f->server, "PTTL a") > 9 * MINUTE_MS);
    assert_true(test_server_int(f->server, "PTTL b") > 9 * MINUTE_MS);
    assert_code(rlock_extend(members[0], 0, MINUTE_MS, NULL), RLOCK_ENOTOWNER);
    assert_code(rlock_unlock(multi), 0);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
    multi = rlock_free(multi);
}

/* Its level inside ends, and the renewal goes on. */
LOCK_TEST(a_multi_lock_is_renewed_from_its_extension_on, f)
{
    const int64_t lease_ms = test_ms(400);
    struct rlock_client *client = client_open_renewing(f, lease_ms);
    struct rlock_handle *members[] = {lock_named(f, client, "a"), lock_named(f, client, "b")};
    struct rlock_handle *multi = NULL;
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    assert_code(rlock_lock_for(multi, 0, RLOCK_TAKE(.lease_ms = lease_ms), NULL), 0);
    assert_code(rlock_lock_for(multi, 0, RLOCK_TAKE(.lease_ms = lease_ms), NULL), 0);
    assert_code(rlock_extend(multi, 0, 0, &grant), 0);
    assert_int_equal(grant.is_renewed, 1);
    assert_code(rlock_unlock(multi), 0);
    assert_true(STAYS_KEPT(rlock_is_valid(multi), 3 * lease_ms / 2, lease_ms));
    assert_code(rlock_unlock(multi), 0);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
    multi = rlock_free(multi);
}

LOCK_TEST(a_multi_lock_without_one_member_is_lost_by_its_extension, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *members[] = {lock_named(f, client, "a"), lock_named(f, client, "b")};
    struct rlock_handle *multi = NULL;

    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    assert_code(rlock_lock_for(multi, 0, RLOCK_TAKE(.lease_ms = MINUTE_MS), NULL), 0);
    assert_int_equal(test_server_int(f->server, "DEL b"), 1);
    assert_code(rlock_extend(multi, 0, 10 * MINUTE_MS, NULL), RLOCK_ELOST);
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    assert_string_equal(last_loss(f)->kind, "multi");
    assert_false(rlock_is_valid(multi));
    assert_true(TEST_EVENTUALLY(test_server_int(f->server, "DBSIZE") == 0, 5000));
    assert_code(rlock_unlock(multi), RLOCK_ELOST);
    multi = rlock_free(multi);
}

/* One member is extended, and the other one is at a server that does not answer. */
FIXTURE_WITH_TEST(closing_the_client_ends_the_extension_of_a_multi_lock, f, .kind = &kind_reentrant,
                  .servers = 2)
{
    struct rlock_client *clients[2];
    struct rlock_handle *members[2], *multi = NULL;
    struct completion longer = COMPLETION;

    for (size_t i = 0; i < 2; i++) {
        clients[i] = client_open_with(f, RLOCK_CLIENT_OPTS(.url = test_server_url(f->servers[i]),
                                                           .op_timeout_ms = 2 * MINUTE_MS));
        members[i] = lock_named(f, clients[i], i == 0 ? "a" : "b");
    }
    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    assert_code(rlock_lock_for(multi, 0, RLOCK_TAKE(.owner = OWNER, .lease_ms = MINUTE_MS), NULL),
                0);
    test_server_freeze(f->servers[1]);
    assert_code(rlock_extend_async(multi, OWNER, 10 * MINUTE_MS, completion_tell, &longer, NULL),
                0);
    assert_true(TEST_EVENTUALLY(test_server_int(f->servers[0], "PTTL a") > 9 * MINUTE_MS, 5000));
    client_close(f, clients[0]);
    assert_code(completion_await(&longer), RLOCK_ECLOSED);
    (void)expect_loss(f, RLOCK_LOST_CLOSED);
    test_server_thaw(f->servers[1]);
    multi = rlock_free(multi);
}

struct redlock {
    struct rlock_client *clients[3];
    struct rlock_handle *members[3], *lock;
};

static void redlock_open(struct fixture *f, struct redlock *redlock)
{
    for (size_t i = 0; i < 3; i++) {
        redlock->clients[i] = client_open_with(
            f, RLOCK_CLIENT_OPTS(.url = test_server_url(f->servers[i]),
                                 .op_timeout_ms = test_ms(300), .renewed_lease_ms = 20000));
        redlock->members[i] = lock_new(f, redlock->clients[i]);
    }
    assert_code(
        rlock_redlock_new(redlock->members, 3, RLOCK_OPTS(.max_lease_ms = -1), &redlock->lock), 0);
}

FIXTURE_WITH_TEST(a_redlock_is_extended_by_most_servers, f, .kind = &kind_reentrant, .servers = 3)
{
    struct redlock redlock;

    redlock_open(f, &redlock);
    assert_code(rlock_lock_for(redlock.lock, 5000, RLOCK_TAKE(.lease_ms = MINUTE_MS), NULL), 0);
    test_server_freeze(f->servers[0]);
    assert_code(rlock_extend(redlock.lock, 0, 10 * MINUTE_MS, NULL), 0);
    assert_true(rlock_valid_ms(redlock.lock) > 9 * MINUTE_MS);
    test_server_freeze(f->servers[1]);
    assert_code(rlock_extend(redlock.lock, 0, 20 * MINUTE_MS, NULL), RLOCK_EINDOUBT);
    assert_true(rlock_valid_ms(redlock.lock) <= 10 * MINUTE_MS);
    assert_true(rlock_is_valid(redlock.lock));
    test_server_thaw(f->servers[0]);
    test_server_thaw(f->servers[1]);
    assert_true(TEST_EVENTUALLY(rlock_extend(redlock.lock, 0, 0, NULL) == 0, 10000));
    assert_code(rlock_unlock(redlock.lock), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_true(TEST_EVENTUALLY(test_server_int(f->servers[i], "DBSIZE") == 0, 10000));
    }
    redlock.lock = rlock_free(redlock.lock);
}

FIXTURE_WITH_TEST(a_redlock_is_not_extended_beyond_its_longest_lease, f, .kind = &kind_reentrant)
{
    struct rlock_handle *member = lock_new(f, client_open(f)), *lock = NULL;

    assert_code(rlock_redlock_new(&member, 1, RLOCK_OPTS(.max_lease_ms = MINUTE_MS), &lock), 0);
    assert_code(rlock_extend(lock, 0, 2 * MINUTE_MS, NULL), RLOCK_EINVAL);
    lock = rlock_free(lock);
}

/* ---- Holders that extend short leases, while connections break ---- */

enum { CREWS = 4, TURNS = 2, CUTS = 30 };

struct crew {
    pthread_t thread;
    struct rlock_handle *lock;
    struct witness *witness;
    uint64_t id;
    unsigned extended, lost;
};

/* Stays for longer than a lease, with a visit before each extension. */
static void hold_on(struct crew *crew, int64_t lease_ms)
{
    const int64_t end_us = test_now_us() + 2 * lease_ms * 1000;

    while (test_now_us() < end_us && rlock_valid_ms_as(crew->lock, crew->id) > lease_ms / 4) {
        witness_enter(crew->witness, 0, crew->id);
        witness_leave(crew->witness, 0, crew->id);
        if (rlock_extend(crew->lock, crew->id, lease_ms, NULL) == 0) {
            crew->extended++;
        }
    }
    crew->lost += rlock_unlock_as(crew->lock, crew->id) == RLOCK_ELOST;
}

static void *work(void *arg)
{
    struct crew *crew = arg;
    const int64_t lease_ms = test_ms(200);

    for (int i = 0; i < TURNS; i++) {
        if (rlock_lock_for(crew->lock, 20000, RLOCK_TAKE(.owner = crew->id, .lease_ms = lease_ms),
                           NULL) == 0) {
            hold_on(crew, lease_ms);
        }
    }
    return NULL;
}

FIXTURE_WITH_TEST(holders_that_extend_exclude_each_other_while_connections_break, f,
                  .kind = &kind_reentrant, .proxy = PROXY_ON_UNIX)
{
    struct witness *witness = witness_new(1);
    struct crew crews[CREWS];
    unsigned extended = 0, lost = 0;

    for (size_t i = 0; i < CREWS; i++) {
        struct rlock_client *client = client_open_with(
            f, RLOCK_CLIENT_OPTS(.url = proxy_url(f->proxy), .op_timeout_ms = test_ms(100)));

        crews[i] = (struct crew){.lock = lock_new(f, client), .witness = witness, .id = i + 1};
        assert_int_equal(pthread_create(&crews[i].thread, NULL, work, &crews[i]), 0);
    }
    for (int i = 0; i < CUTS; i++) {
        const int64_t next_us = test_now_us() + 50000;

        while (test_pause_until(next_us)) {
        }
        proxy_cut_all(f->proxy, PROXY_ANY);
    }
    for (size_t i = 0; i < CREWS; i++) {
        assert_int_equal(pthread_join(crews[i].thread, NULL), 0);
        extended += crews[i].extended;
        lost += crews[i].lost;
    }
    assert_true(extended > CREWS * TURNS);
    assert_true(witness_is_clean(witness, stderr));
    assert_true(TEST_EVENTUALLY(!is_locked(crews[0].lock), 5000));
    assert_true(TEST_EVENTUALLY(losses_told(f) == lost, 5000));
    forgive_losses(f);
    witness = witness_free(witness);
}
