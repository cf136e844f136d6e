/* SPDX-License-Identifier: Apache-2.0 */
/* The levels of a RedLock, and what one inside may ask for. */
#include "support/waiter.h"

FIXTURE_WITH_TEST(levels_are_counted_here_alone, f, .servers = 3)
{
    struct user *user = user_open(f, USUAL);

    for (uint32_t i = 1; i <= 3; i++) {
        assert_code(rlock_lock_for(user->lock, 5000, NULL, NULL), 0);
        assert_int_equal(rlock_hold_count(user->lock), i);
    }
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 3, 2000));
    assert_true(test_server_says(f->servers[0], "1", "HVALS a"));
    for (uint32_t i = 3; i > 0; i--) {
        assert_true(rlock_is_valid(user->lock));
        assert_code(rlock_unlock(user->lock), 0);
        assert_int_equal(rlock_hold_count(user->lock), i - 1);
    }
    assert_code(rlock_unlock(user->lock), RLOCK_ENOTOWNER);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 2000));
}

static bool has_left_what_was_more(const struct fixture *f)
{
    for (size_t i = 0; i < f->n; i++) {
        if (!test_server_says(f->servers[i], "1", "HVALS a")) {
            return false;
        }
    }
    return true;
}

FIXTURE_WITH_TEST(a_longer_lease_inside_extends_it, f, .servers = 3)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_grant grant = {.size = sizeof(grant)};

    assert_code(rlock_lock_for(user->lock, 5000, RLOCK_TAKE(.lease_ms = 10000), NULL), 0);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 3, 2000));
    assert_code(rlock_lock_for(user->lock, 0, RLOCK_TAKE(.lease_ms = 60000), &grant), 0);
    assert_int_equal(grant.lease_ms, 60000);
    assert_true(grant.valid_ms > 40000);
    /* two servers were enough: the third may be asked a moment later */
    assert_true(TEST_EVENTUALLY(test_server_int(f->servers[0], "PTTL a") > 40000, 2000));
    assert_true(TEST_EVENTUALLY(has_left_what_was_more(f), 2000));
    assert_code(rlock_unlock(user->lock), 0);
    assert_true(rlock_valid_ms(user->lock) > 40000);
    assert_code(rlock_unlock(user->lock), 0);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 2000));
}

FIXTURE_WITH_TEST(a_fixed_lease_is_renewed_for_a_level_inside, f, .servers = 3)
{
    const int64_t lease_ms = 3000;
    struct user *user;
    int64_t since_us;

    user = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms));
    assert_code(rlock_lock_for(user->lock, 5000, RLOCK_TAKE(.lease_ms = lease_ms), NULL), 0);
    assert_code(rlock_lock(user->lock), 0);
    since_us = test_now_us();
    assert_true(TEST_EVENTUALLY(test_elapsed_us(since_us) > lease_ms * 1500, 2 * lease_ms));
    assert_true(rlock_is_valid(user->lock));
    assert_code(rlock_unlock(user->lock), 0);
    assert_true(rlock_is_valid(user->lock)); /* for what is left of it */
    assert_true(TEST_EVENTUALLY(user_losses(user) == 1, 3 * lease_ms));
    assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
}

FIXTURE_WITH_TEST(a_longer_lease_inside_needs_a_quorum, f, .servers = 3, .proxy = PROXY_ON_UNIX)
{
    struct user *user = user_open(f, USUAL);

    user_take_everywhere(user);
    fixture_reach(f, 0, false);
    fixture_reach(f, 1, false);
    assert_true(TEST_EVENTUALLY(
        rlock_lock_for(user->lock, 0, RLOCK_TAKE(.lease_ms = 60000), NULL) == RLOCK_ENOQUORUM,
        5000));
    assert_non_null(strstr(rlock_detail(), "1 of 3"));
    assert_int_equal(rlock_hold_count(user->lock), 1);
    assert_true(rlock_is_valid(user->lock));
    fixture_reach(f, 0, true);
    fixture_reach(f, 1, true);
    assert_true(TEST_EVENTUALLY(
        rlock_lock_for(user->lock, 0, RLOCK_TAKE(.lease_ms = 60000), NULL) == 0, 5000));
    assert_code(rlock_unlock(user->lock), 0);
    assert_code(rlock_unlock(user->lock), 0);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
}

/* A level more waits for a server that says nothing; meanwhile another member's client is closed,
 * whose connection somebody else reads. */
FIXTURE_WITH_TEST(a_loss_is_told_while_a_level_more_waits, f, .servers = 2, .proxy = PROXY_ON_UNIX)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 10000));
    const struct rlock_take *take = RLOCK_TAKE(.lease_ms = 60000, .owner = 7);
    struct waiter reader, taker;
    uint64_t replies;

    assert_code(rlock_lock_for(user->lock, 20000, RLOCK_TAKE(.owner = 7), NULL), 0);
    test_server_do(f->servers[1], "HSET b somebody:1 1");
    waiter_start_on(&reader, NULL, user_lock_on(user, 1, "b"), RLOCK_FOREVER, take);
    assert_true(TEST_EVENTUALLY(!test_server_says(f->servers[1], "", "PUBSUB CHANNELS"), 2000));
    replies = proxy_stats(f->proxies[1]).replies;
    proxy_go_silent(f->proxies[0], PROXY_ANY, true);
    waiter_start_on(&taker, NULL, user->lock, RLOCK_FOREVER, take);
    assert_true(TEST_EVENTUALLY(proxy_stats(f->proxies[1]).replies > replies, 2000));
    user->clients[1] = rlock_client_close(user->clients[1]);
    assert_true(TEST_EVENTUALLY(user_losses(user) == 1, 500));
    proxy_go_silent(f->proxies[0], PROXY_ANY, false);
    assert_int_not_equal(waiter_join(&taker), 0);
    assert_int_equal(waiter_join(&reader), RLOCK_ECLOSED);
    test_server_do(f->servers[1], "DEL b");
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
    assert_int_equal(user_losses(user), 1);
}

/* Nobody can unlock it any more; what is left of it is freed (the descriptors of the clients are
 * counted). The owner may have found the loss itself, before a client told of it. */
FIXTURE_WITH_TEST(a_lost_hold_that_nobody_unlocks_ends_with_its_clients, f, .servers = 2)
{
    struct user *user = user_open(f, USUAL);

    assert_code(rlock_lock_for(user->lock, 5000, RLOCK_TAKE(.lease_ms = 100, .owner = 7), NULL), 0);
    assert_true(TEST_EVENTUALLY(user_losses(user) == 1, 5000));
    assert_code(rlock_lock_for(user->lock, 0, RLOCK_TAKE(.owner = 7), NULL), RLOCK_ELOST);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
}

/* Of a multi-lock each member limits it; of a RedLock the majority does. */
FIXTURE_WITH_TEST(max_hold_limits_a_fixed_lease, f, .servers = 3)
{
    const int64_t most_ms = 400 * test_slack();
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *members[3], *groups[2];
    struct rlock_grant grant = {.size = sizeof(grant)};

    for (size_t i = 0; i < 3; i++) {
        assert_code(rlock_reentrant_new(user->clients[i], "short",
                                        RLOCK_OPTS(.max_hold_ms = most_ms), &members[i]),
                    0);
    }
    assert_code(rlock_multi_new(members, 3, NULL, &groups[0]), 0);
    assert_code(rlock_redlock_new(members, 3, RLOCK_OPTS(.max_lease_ms = -1), &groups[1]), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_code(rlock_lock_for(groups[i], 5000, RLOCK_TAKE(.lease_ms = 20 * most_ms), &grant),
                    0);
        assert_int_equal(grant.lease_ms, most_ms);
        assert_code(rlock_lock_for(groups[i], 0, RLOCK_TAKE(.lease_ms = 20 * most_ms), NULL), 0);
        assert_true(rlock_valid_ms(groups[i]) <= most_ms);
        assert_true(TEST_EVENTUALLY(!rlock_is_valid(groups[i]), 5000));
        assert_code(rlock_unlock(groups[i]), RLOCK_ELOST);
        assert_code(rlock_unlock(groups[i]), RLOCK_ELOST);
        assert_null(rlock_free(groups[i]));
    }
    for (size_t i = 0; i < 3; i++) {
        assert_null(rlock_free(members[i]));
    }
}
