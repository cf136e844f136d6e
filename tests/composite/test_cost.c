/* SPDX-License-Identifier: Apache-2.0 */
/* What a RedLock costs, in round trips: five servers behind proxies that delay. It prints what
 * it saw. And how soon a waiter has it. */
#include <unistd.h>

#include "composite/fleet.h"
#include "support/raw.h"
#include "support/stall.h"
#include "support/test.h"

#define OFF (-1)
#define ONE_WAY_US 2000
#define SLOW_WAY_US 25000
#define MEMBER_TIMEOUT_MS 1000

enum { ROUNDS = 200, MEASUREMENTS = 5, QUORUM = 3 };

/* What a busy machine adds comes in now and then, and a round trip too many each time: so it is the
 * quickest tenth that is compared. */
#define QUICK 10

struct cost {
    int64_t acquire_us, both_us, acquire_p50_us, acquire_p99_us;
};

/* The round trip of a bare command to as many servers as make the quorum, at once, through the
 * first proxies, whose delay is the quorum's: what no RedLock can go below on this machine. */
static int64_t round_trip_us(const struct fleet *fleet)
{
    int64_t took_us[ROUNDS];
    int fds[QUORUM];

    for (size_t k = 0; k < QUORUM; k++) {
        fds[k] = raw_dial(proxy_url(fleet->proxies[k]));
        TEST_CHECK(fds[k] >= 0);
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        int64_t began_us = test_now_us();

        for (size_t k = 0; k < QUORUM; k++) {
            raw_say(fds[k], "PING\r\n");
        }
        for (size_t k = 0; k < QUORUM; k++) {
            assert_true(raw_hears(fds[k], "+PONG\r\n"));
        }
        took_us[i] = test_elapsed_us(began_us);
    }
    for (size_t k = 0; k < QUORUM; k++) {
        (void)close(fds[k]);
    }
    return test_percentile(took_us, ROUNDS, QUICK);
}

static struct cost measure(const struct crew *crew)
{
    int64_t acquire_us[ROUNDS], both_us[ROUNDS];

    for (size_t i = 0; i < ROUNDS; i++) {
        int64_t began_us = test_now_us();

        assert_code(rlock_lock_with(crew->lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
        acquire_us[i] = test_elapsed_us(began_us);
        assert_code(rlock_unlock(crew->lock), 0);
        both_us[i] = test_elapsed_us(began_us);
    }
    return (struct cost){test_percentile(acquire_us, ROUNDS, QUICK),
                         test_percentile(both_us, ROUNDS, QUICK), test_median(acquire_us, ROUNDS),
                         test_percentile(acquire_us, ROUNDS, 99)};
}

static void open_delayed(struct fleet *fleet, struct crew *crew)
{
    fleet_open(fleet, &(struct fleet_opts){.n = 5, .proxied = true});
    for (size_t i = 0; i < 5; i++) {
        proxy_delay_us(fleet->proxies[i], ONE_WAY_US);
    }
    crew_open(crew, fleet, RLOCK_CLIENT_OPTS(.op_timeout_ms = MEMBER_TIMEOUT_MS), OFF);
    assert_code(rlock_lock_with(crew->lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    assert_code(rlock_unlock(crew->lock), 0);
    for (size_t i = 0; i < 5; i++) { /* all are connected */
        assert_code(rlock_lock_with(crew->members[i], RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
        assert_code(rlock_unlock(crew->members[i]), 0);
    }
}

static void close_delayed(struct fleet *fleet, struct crew *crew)
{
    for (size_t i = 0; i < 5; i++) {
        proxy_delay_us(fleet->proxies[i], 0);
    }
    assert_true(TEST_EVENTUALLY(fleet_holding(fleet, "a") == 0, 5000));
    crew_close(crew);
    fleet_close(fleet);
}

/*
 * Whether a measurement meets the bounds: what is promised, 1.05 and 2.1 of a round trip on a quiet
 * machine, and some more for one that is not. A message too many costs a whole one. One
 * measurement of several has to be good.
 */
static bool is_cheap(const char *what, const struct crew *crew, double acquire, double both)
{
    const int64_t trip_us = round_trip_us(crew->fleet);
    const struct cost cost = measure(crew);

    print_message(
        "%s: round trip %lld us; acquire p10 %.3f of it, p50 %.3f, p99 %.2f; and release p10 "
        "%.3f\n",
        what, (long long)trip_us, (double)cost.acquire_us / (double)trip_us,
        (double)cost.acquire_p50_us / (double)trip_us,
        (double)cost.acquire_p99_us / (double)trip_us, (double)cost.both_us / (double)trip_us);
    assert_true(cost.acquire_p99_us < MEMBER_TIMEOUT_MS * 1000);
    return (double)cost.acquire_us <= acquire * test_slack() * (double)trip_us &&
           (double)cost.both_us <= both * test_slack() * (double)trip_us;
}

static void check(const char *what, const struct crew *crew, double acquire, double both)
{
    int n = 1;
    const int64_t began_us = test_now_us();

    while (!is_cheap(what, crew, acquire, both)) {
        assert_true(++n <= MEASUREMENTS || test_missed(began_us, test_elapsed_us(began_us) / 10));
    }
}

TEST(acquiring_costs_the_quorums_round_trip)
{
    struct fleet fleet;
    struct crew crew;

    open_delayed(&fleet, &crew);
    check("equal servers", &crew, 1.1, 2.2);
    proxy_delay_us(fleet.proxies[4], SLOW_WAY_US);
    check("one slow server", &crew, 1.1, 2.2);
    close_delayed(&fleet, &crew);
}

TEST(one_frozen_and_one_dead_cost_little_more)
{
    struct fleet fleet;
    struct crew crew;

    open_delayed(&fleet, &crew);
    test_server_freeze(fleet.servers[3]);
    test_server_kill(fleet.servers[4]);
    check("one frozen, one dead", &crew, 1.5, 3.0);
    test_server_thaw(fleet.servers[3]);
    test_server_restart(fleet.servers[4], false);
    close_delayed(&fleet, &crew);
}

struct waiter {
    pthread_t thread;
    const struct crew *crew;
    atomic_int_least64_t granted_us;
};

static void *waiter_main(void *arg)
{
    struct waiter *waiter = arg;

    TEST_CHECK(rlock_lock(waiter->crew->lock) == 0);
    atomic_store(&waiter->granted_us, test_now_us());
    TEST_CHECK(rlock_unlock(waiter->crew->lock) == 0);
    return NULL;
}

static bool is_heard(const struct fleet *fleet)
{
    size_t n = 0;

    for (size_t i = 0; i < fleet->n; i++) {
        n += test_server_says(fleet->servers[i], "redisson_lock__channel:{a}", "PUBSUB CHANNELS");
    }
    return n >= fleet->n / 2 + 1;
}

/* Its pauses between two rounds are of 80 ms on average, once it waits. */
TEST(a_waiter_hears_that_it_is_free)
{
    enum { TRIES = 8, LIMIT_US = 15000 };
    struct fleet fleet;
    struct crew one, two;
    int64_t began_us = test_now_us(), sum_us = 0;

    fleet_open(&fleet, &(struct fleet_opts){.n = 3});
    crew_open(&one, &fleet, (struct rlock_client_opts){.size = sizeof(struct rlock_client_opts)},
              OFF);
    crew_open(&two, &fleet, (struct rlock_client_opts){.size = sizeof(struct rlock_client_opts)},
              OFF);
    for (int i = 0; i < TRIES; i++) {
        struct waiter waiter = {.crew = &two};
        int64_t now_us;

        assert_code(rlock_lock_with(one.lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
        TEST_CHECK(pthread_create(&waiter.thread, NULL, waiter_main, &waiter) == 0);
        assert_true(TEST_EVENTUALLY(is_heard(&fleet), 5000));
        now_us = test_now_us();
        assert_code(rlock_unlock(one.lock), 0);
        TEST_CHECK(pthread_join(waiter.thread, NULL) == 0);
        sum_us += atomic_load(&waiter.granted_us) - now_us;
    }
    assert_true(test_in_time(began_us, sum_us, (int64_t)TRIES * LIMIT_US * test_slack()));
    crew_close(&one);
    crew_close(&two);
    fleet_close(&fleet);
}
