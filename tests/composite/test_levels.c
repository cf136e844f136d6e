/* SPDX-License-Identifier: Apache-2.0 */
/* The levels of a RedLock, and what one inside may ask for. */
#include "composite/fleet.h"
#include "support/test.h"

#define OFF (-1) /* no delayed restarts: the tests' servers have just started */

static const struct rlock_client_opts usual = {.size = sizeof(usual)};

/* A server is out of reach, or back. */
static void reach(const struct fleet *fleet, size_t i, bool reachable)
{
    proxy_refuse(fleet->proxies[i], !reachable);
    if (!reachable) {
        proxy_cut_all(fleet->proxies[i], PROXY_ANY);
    }
}

/* Takes it on every server, once each is connected. */
static void take_all(const struct crew *crew)
{
    for (size_t i = 0; i < crew->fleet->n; i++) {
        assert_code(rlock_lock_with(crew->members[i], RLOCK_TAKE(.wait_ms = 20000), NULL), 0);
        assert_code(rlock_unlock(crew->members[i]), 0);
    }
    assert_code(rlock_lock_with(crew->lock, RLOCK_TAKE(.wait_ms = 20000), NULL), 0);
    assert_true(TEST_EVENTUALLY(fleet_holding(crew->fleet, "a") == crew->fleet->n, 5000));
}

TEST(levels_are_counted_here_alone)
{
    struct fleet fleet;
    struct crew crew;

    fleet_open(&fleet, &(struct fleet_opts){.n = 3});
    crew_open(&crew, &fleet, usual, OFF);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
        assert_int_equal(rlock_hold_count(crew.lock), i);
    }
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 3, 2000));
    assert_true(test_server_says(fleet.servers[0], "1", "HVALS a"));
    for (uint32_t i = 3; i > 0; i--) {
        assert_true(rlock_is_valid(crew.lock));
        assert_code(rlock_unlock(crew.lock), 0);
        assert_int_equal(rlock_hold_count(crew.lock), i - 1);
    }
    assert_code(rlock_unlock(crew.lock), RLOCK_ENOTOWNER);
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 2000));
    crew_close(&crew);
    fleet_close(&fleet);
}

static bool has_left_what_was_more(const struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->n; i++) {
        if (!test_server_says(fleet->servers[i], "1", "HVALS a")) {
            return false;
        }
    }
    return true;
}

TEST(a_longer_lease_inside_extends_it)
{
    struct rlock_grant grant = {.size = sizeof(grant)};
    struct fleet fleet;
    struct crew crew;

    fleet_open(&fleet, &(struct fleet_opts){.n = 3});
    crew_open(&crew, &fleet, usual, OFF);
    assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 5000, .lease_ms = 10000), NULL),
                0);
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 3, 2000));
    assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.lease_ms = 60000), &grant), 0);
    assert_int_equal(grant.lease_ms, 60000);
    assert_true(grant.valid_ms > 40000);
    assert_true(TEST_EVENTUALLY(has_left_what_was_more(&fleet), 2000));
    assert_true(test_server_int(fleet.servers[0], "PTTL a") > 40000);
    assert_code(rlock_unlock(crew.lock), 0);
    assert_true(rlock_valid_ms(crew.lock) > 40000);
    assert_code(rlock_unlock(crew.lock), 0);
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 2000));
    crew_close(&crew);
    fleet_close(&fleet);
}

TEST(a_fixed_lease_is_renewed_for_a_level_inside)
{
    const int64_t lease_ms = 3000;
    struct fleet fleet;
    struct crew crew;
    int64_t since_us;

    fleet_open(&fleet, &(struct fleet_opts){.n = 3});
    crew_open(&crew, &fleet, RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms), OFF);
    assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 5000, .lease_ms = lease_ms), NULL),
                0);
    assert_code(rlock_lock(crew.lock), 0);
    since_us = test_now_us();
    assert_true(TEST_EVENTUALLY(test_elapsed_us(since_us) > lease_ms * 1500, 2 * lease_ms));
    assert_true(rlock_is_valid(crew.lock));
    assert_code(rlock_unlock(crew.lock), 0);
    assert_true(rlock_is_valid(crew.lock)); /* for what is left of it */
    assert_true(TEST_EVENTUALLY(crew_losses(&crew) == 1, 3 * lease_ms));
    assert_code(rlock_unlock(crew.lock), RLOCK_ELOST);
    crew_close(&crew);
    fleet_close(&fleet);
}

TEST(a_longer_lease_inside_needs_a_quorum)
{
    struct fleet fleet;
    struct crew crew;

    fleet_open(&fleet, &(struct fleet_opts){.n = 3, .proxied = true});
    crew_open(&crew, &fleet, usual, OFF);
    take_all(&crew);
    reach(&fleet, 0, false);
    reach(&fleet, 1, false);
    assert_true(TEST_EVENTUALLY(
        rlock_lock_with(crew.lock, RLOCK_TAKE(.lease_ms = 60000), NULL) == RLOCK_ENOQUORUM, 5000));
    assert_non_null(strstr(rlock_detail(), "1 of 3"));
    assert_int_equal(rlock_hold_count(crew.lock), 1);
    assert_true(rlock_is_valid(crew.lock));
    reach(&fleet, 0, true);
    reach(&fleet, 1, true);
    assert_true(TEST_EVENTUALLY(
        rlock_lock_with(crew.lock, RLOCK_TAKE(.lease_ms = 60000), NULL) == 0, 5000));
    assert_code(rlock_unlock(crew.lock), 0);
    assert_code(rlock_unlock(crew.lock), 0);
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 5000));
    crew_close(&crew);
    fleet_close(&fleet);
}

struct taker {
    struct rlock *lock;
    pthread_t thread;
    int code;
};

static void *take_more(void *arg)
{
    struct taker *taker = arg;

    taker->code = rlock_lock_with(taker->lock,
                                  RLOCK_TAKE(.wait_ms = -1, .lease_ms = 60000, .owner = 7), NULL);
    return NULL;
}

/* A level more waits for a server that says nothing; meanwhile another member's client is closed,
 * whose connection somebody else reads. */
TEST(a_loss_is_told_while_a_level_more_waits)
{
    const int64_t op_timeout_ms = 10000;
    struct fleet fleet;
    struct crew crew;
    struct taker reader, taker;
    uint64_t replies;

    fleet_open(&fleet, &(struct fleet_opts){.n = 2, .proxied = true});
    crew_open(&crew, &fleet, RLOCK_CLIENT_OPTS(.op_timeout_ms = op_timeout_ms), OFF);
    assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 20000, .owner = 7), NULL), 0);
    free(test_server_cmd(fleet.servers[1], "HSET b somebody:1 1"));
    reader = (struct taker){.lock = crew_lock(&crew, 1, "b")};
    TEST_CHECK(pthread_create(&reader.thread, NULL, take_more, &reader) == 0);
    assert_true(TEST_EVENTUALLY(!test_server_says(fleet.servers[1], "", "PUBSUB CHANNELS"), 2000));
    replies = proxy_stats(fleet.proxies[1]).replies;
    proxy_go_silent(fleet.proxies[0], PROXY_ANY, true);
    taker = (struct taker){.lock = crew.lock};
    TEST_CHECK(pthread_create(&taker.thread, NULL, take_more, &taker) == 0);
    assert_true(TEST_EVENTUALLY(proxy_stats(fleet.proxies[1]).replies > replies, 2000));
    crew.clients[1] = rlock_client_close(crew.clients[1]);
    assert_true(TEST_EVENTUALLY(crew_losses(&crew) == 1, 500));
    proxy_go_silent(fleet.proxies[0], PROXY_ANY, false);
    TEST_CHECK(pthread_join(taker.thread, NULL) == 0);
    assert_int_not_equal(taker.code, 0);
    TEST_CHECK(pthread_join(reader.thread, NULL) == 0);
    assert_code(reader.code, RLOCK_ECLOSED);
    free(test_server_cmd(fleet.servers[1], "DEL b"));
    reader.lock = rlock_free(reader.lock);
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 5000));
    assert_int_equal(crew_losses(&crew), 1);
    crew_close(&crew);
    fleet_close(&fleet);
}
