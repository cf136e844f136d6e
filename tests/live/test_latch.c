/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latches: parties count down, and waiters wake. Commands play another library. The suite of
 * Redisson's RCountDownLatch asserts the same numbers.
 */
#include <rlock/admin.h>
#include <rlock/latch.h>

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "support/clients.h"
#include "support/cluster.h"
#include "support/raw.h"

#define CHANNEL "redisson_countdownlatch__channel__{" NAME "}"
#define BULK_CHANNEL "$40\r\n" CHANNEL "\r\n"
#define PARTIES "{" NAME "}:rlock-parties" /* the record */

#define LATCH_TEST(name, f, ...) FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, __VA_ARGS__)

static struct rlock_latch *latch_of(struct rlock_client *client)
{
    struct rlock_latch *latch = NULL;

    assert_code(rlock_latch_new(client, NAME, NULL, &latch), 0);
    return latch;
}

/* The record outlives the latch for a minute, for late copies. */
static void expect_open(const struct fixture *f)
{
    assert_false(fixture_has_key(f, NAME));
    assert_in_range(test_server_int(f->server, "PTTL " PARTIES), 1, 60000);
    test_server_do(f->server, "DEL " PARTIES);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
}

static int64_t count_of(struct rlock_latch *latch)
{
    int64_t count = -1;

    assert_code(rlock_latch_count(latch, &count), 0);
    return count;
}

/* A Redisson does this. */
static void redisson_sets(const struct fixture *f, int64_t count)
{
    test_server_do(f->server,
                   "EVAL \"if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then "
                   "redis.call('publish', ARGV[2], '1') end\" 1 " NAME " %lld " CHANNEL,
                   (long long)count);
}

static void redisson_counts_down(const struct fixture *f)
{
    test_server_do(f->server, "EVAL \"local count = redis.call('decr', KEYS[1]) "
                              "if count <= 0 then redis.call('del', KEYS[1]) end "
                              "if count == 0 then redis.call('publish', ARGV[1], '0') end\" 1 " NAME
                              " " CHANNEL);
}

/* ---- Somebody who waits ---- */

struct waiter {
    struct rlock_latch *latch;
    int64_t wait_ms;
    struct rlock_cancel *cancel;
    pthread_t thread;
    int code;
    int64_t ended_us;
};

static void *wait_for_it(void *payload)
{
    struct waiter *waiter = payload;

    waiter->code = rlock_latch_wait(waiter->latch, waiter->wait_ms, waiter->cancel);
    waiter->ended_us = test_now_us();
    return NULL;
}

static void waiter_begin(struct waiter *waiter, struct rlock_latch *latch, int64_t wait_ms)
{
    waiter->latch = latch;
    waiter->wait_ms = wait_ms;
    assert_int_equal(pthread_create(&waiter->thread, NULL, wait_for_it, waiter), 0);
}

static int waiter_end(struct waiter *waiter)
{
    assert_int_equal(pthread_join(waiter->thread, NULL), 0);
    return waiter->code;
}

/* ---- Counting ---- */

LATCH_TEST(a_latch_that_nobody_has_set_is_open, f, .servers = 1)
{
    struct rlock_latch *latch = latch_of(client_open(f));

    assert_int_equal(count_of(latch), 0);
    assert_code(rlock_latch_wait(latch, 0, NULL), 0);
    assert_code(rlock_latch_wait(latch, RLOCK_FOREVER, NULL), 0);
    assert_code(rlock_latch_down(latch, NULL), 0);
    assert_code(rlock_latch_down(latch, "a"), 0);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
    assert_null(rlock_latch_free(latch));
}

LATCH_TEST(the_first_count_stays, f, .servers = 1)
{
    struct rlock_latch *latch = latch_of(client_open(f)), *other = latch_of(client_open(f));
    bool is_set = false;

    assert_code(rlock_latch_set(latch, 1, &is_set), 0);
    assert_true(is_set);
    assert_code(rlock_latch_set(other, 2, &is_set), 0);
    assert_false(is_set);
    assert_int_equal(count_of(other), 1);
    assert_code(rlock_latch_down(other, NULL), 0);
    assert_int_equal(count_of(latch), 0);
    assert_code(rlock_latch_down(other, NULL), 0); /* below zero */
    assert_int_equal(count_of(latch), 0);
    assert_code(rlock_latch_set(other, 2, &is_set), 0);
    assert_true(is_set);
    assert_code(rlock_admin_delete_latch(latch, &is_set), 0);
    assert_true(is_set);
    assert_code(rlock_admin_delete_latch(latch, &is_set), 0);
    assert_false(is_set);
    expect_open(f);
    (void)rlock_latch_free(latch);
    (void)rlock_latch_free(other);
}

LATCH_TEST(a_party_counts_once, f, .servers = 1)
{
    struct rlock_latch *latch = latch_of(client_open(f)), *other = latch_of(client_open(f));

    assert_code(rlock_latch_set(latch, 3, NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_code(rlock_latch_down(i == 1 ? other : latch, "a"), 0);
        assert_int_equal(count_of(latch), 2);
    }
    assert_code(rlock_latch_down(latch, NULL), 0); /* nobody knows who */
    assert_int_equal(count_of(latch), 1);
    assert_code(rlock_latch_down(latch, "b"), 0);
    assert_int_equal(count_of(latch), 0);
    assert_code(rlock_latch_set(latch, 1, NULL), 0);
    assert_code(rlock_latch_down(latch, "a"), 0); /* of another count */
    assert_int_equal(count_of(latch), 0);
    expect_open(f);
    (void)rlock_latch_free(latch);
    (void)rlock_latch_free(other);
}

/* The connection breaks after the server has run the request. */
LATCH_TEST(a_request_that_is_sent_twice_counts_once, f, .proxy = PROXY_ON_UNIX)
{
    struct rlock_latch *latch =
        latch_of(client_open_with(f, RLOCK_CLIENT_OPTS(.url = proxy_url(f->proxy))));
    const struct proxy_rule lost = {
        .act = PROXY_CUT_REPLY, .command = "EVALSHA", .contains = NAME, .times = 1};
    bool is_set = false;
    int rule;

    assert_code(rlock_latch_set(latch, 1, NULL), 0); /* the server knows the scripts from here on */
    assert_code(rlock_latch_down(latch, "a"), 0);
    rule = proxy_add(f->proxy, &lost);
    assert_code(rlock_latch_set(latch, 3, &is_set), 0);
    assert_int_equal(proxy_fired(f->proxy, rule), 1);
    assert_true(is_set);
    rule = proxy_add(f->proxy, &lost);
    assert_code(rlock_latch_down(latch, "a"), 0);
    assert_int_equal(proxy_fired(f->proxy, rule), 1);
    assert_int_equal(count_of(latch), 2);
    rule = proxy_add(f->proxy, &lost);
    assert_code(rlock_latch_down(latch, NULL), RLOCK_EINDOUBT);
    assert_detail("latch " NAME ": ");
    assert_int_equal(proxy_fired(f->proxy, rule), 1);
    assert_int_equal(count_of(latch), 1);
    rule = proxy_add(f->proxy, &lost);
    assert_code(rlock_latch_down(latch, "b"), 0); /* the copy finds the latch open */
    assert_int_equal(proxy_fired(f->proxy, rule), 1);
    assert_int_equal(count_of(latch), 0);
    expect_open(f);
    (void)rlock_latch_free(latch);
}

/* ---- Waiting ---- */

LATCH_TEST(all_waiters_wake_when_the_last_party_counts_down, f, .servers = 1)
{
    enum { WAITERS = 6, PARTIES_N = 5 };
    struct rlock_client *clients[] = {client_open(f), client_open(f)};
    struct rlock_latch *latches[] = {latch_of(clients[0]), latch_of(clients[1])};
    struct waiter waiters[WAITERS] = {{.latch = NULL}};
    int64_t opened_us;

    assert_code(rlock_latch_set(latches[0], PARTIES_N, NULL), 0);
    for (size_t i = 0; i < WAITERS; i++) {
        waiter_begin(&waiters[i], latches[i % 2], i < 2 ? 60000 : RLOCK_FOREVER);
    }
    for (size_t i = 0; i < 2; i++) {
        await_waiting(clients[i], WAITERS / 2);
    }
    for (int i = 0; i < PARTIES_N - 1; i++) {
        assert_code(rlock_latch_down(latches[1], NULL), 0);
    }
    await_waiting(clients[0], WAITERS / 2);
    opened_us = test_now_us();
    assert_code(rlock_latch_down(latches[1], NULL), 0);
    for (size_t i = 0; i < WAITERS; i++) {
        assert_code(waiter_end(&waiters[i]), 0);
        assert_took(waiters[i].ended_us - opened_us, 0, LATE_MS); /* it would look after 5 s */
    }
    expect_open(f);
    (void)rlock_latch_free(latches[0]);
    (void)rlock_latch_free(latches[1]);
}

LATCH_TEST(a_wait_ends_in_time, f, .servers = 1)
{
    struct rlock_latch *latch = latch_of(client_open(f));
    struct waiter waiter = {.latch = NULL};
    int64_t begun_us;

    assert_code(rlock_latch_set(latch, 1, NULL), 0);
    assert_code(rlock_latch_wait(latch, 0, NULL), RLOCK_EBUSY);
    assert_detail("latch " NAME ": closed");
    begun_us = test_now_us();
    assert_code(rlock_latch_wait(latch, 100, NULL), RLOCK_ETIMEDOUT);
    assert_took(test_elapsed_us(begun_us), 100, 100 + LATE_MS);
    assert_code(rlock_cancel_new(&waiter.cancel), 0);
    waiter_begin(&waiter, latch, RLOCK_FOREVER);
    await_waiting(f->clients[0], 1);
    begun_us = test_now_us();
    rlock_cancel_fire(waiter.cancel);
    assert_code(waiter_end(&waiter), RLOCK_ECANCELED);
    assert_took(test_elapsed_us(begun_us), 0, LATE_MS);
    assert_code(rlock_latch_wait(latch, RLOCK_FOREVER, waiter.cancel), RLOCK_ECANCELED);
    assert_null(rlock_cancel_free(waiter.cancel));
    waiter.cancel = NULL;
    waiter_begin(&waiter, latch, RLOCK_FOREVER);
    await_waiting(f->clients[0], 1);
    client_close(f, f->clients[0]);
    assert_code(waiter_end(&waiter), RLOCK_ECLOSED);
    (void)rlock_latch_free(latch);
    test_server_do(f->server, "DEL " NAME " " PARTIES);
}

static long long channels(const struct fixture *f)
{
    return test_server_int(f->server, "EVAL \"return #redis.call('pubsub', 'channels')\" 0");
}

/* A waiter's client hears the latch's channel alone. */
static void await_an_opening(struct fixture *f,
                             void (*open)(struct fixture *, struct rlock_latch *), int64_t most_ms)
{
    struct rlock_client *client = client_open(f);
    struct rlock_latch *latch = latch_of(client);
    struct waiter waiter = {.latch = NULL};
    int64_t opened_us;

    assert_code(rlock_latch_set(latch, 7, NULL), 0);
    waiter_begin(&waiter, latch, RLOCK_FOREVER);
    await_waiting(client, 1);
    assert_true(TEST_EVENTUALLY(channels(f) != 0, 10000));
    assert_int_equal(channels(f), 1);
    opened_us = test_now_us();
    open(f, latch);
    assert_code(waiter_end(&waiter), 0);
    assert_took(waiter.ended_us - opened_us, 0, most_ms);
    expect_open(f);
    (void)rlock_latch_free(latch);
}

static void delete_it(struct fixture *f, struct rlock_latch *latch)
{
    (void)f;
    assert_code(rlock_admin_delete_latch(latch, NULL), 0);
}

LATCH_TEST(a_deletion_wakes_a_waiter, f, .servers = 1)
{
    await_an_opening(f, delete_it, LATE_MS);
}

static void delete_it_in_silence(struct fixture *f, struct rlock_latch *latch)
{
    (void)latch;
    test_server_do(f->server, "DEL " NAME);
    test_server_do(f->server, "PEXPIRE " PARTIES " 60000");
}

LATCH_TEST(an_opening_that_nobody_announced_is_found, f, .servers = 1)
{
    await_an_opening(f, delete_it_in_silence, 5000 + LATE_MS);
}

LATCH_TEST(a_waiter_survives_broken_connections, f, .proxy = PROXY_ON_UNIX)
{
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.url = proxy_url(f->proxy)));
    struct rlock_latch *latch = latch_of(client);
    struct waiter waiter = {.latch = NULL};

    assert_code(rlock_latch_set(latch, 1, NULL), 0);
    waiter_begin(&waiter, latch, RLOCK_FOREVER);
    await_waiting(client, 1);
    for (int i = 0; i < 3; i++) {
        proxy_cut_all(f->proxy, i == 0 ? PROXY_SUBSCRIBERS : PROXY_ANY);
        await_waiting(client, 1);
    }
    assert_code(rlock_latch_down(latch, "a"), 0);
    assert_code(waiter_end(&waiter), 0);
    expect_open(f);
    (void)rlock_latch_free(latch);
}

/* ---- Async calls ---- */

static void note_end(struct rlock_op *op, void *payload)
{
    (void)op;
    (void)atomic_fetch_add((atomic_int *)payload, 1);
}

LATCH_TEST(async_calls_count_down_and_wait, f, .servers = 1)
{
    enum { WAITERS = 50 };
    struct rlock_client *client = client_open(f);
    struct rlock_latch *latch = latch_of(client);
    struct rlock_op *ops[WAITERS], *op;
    atomic_int ended = 0;
    int64_t opened_us;

    assert_code(rlock_latch_set_async(latch, 2, note_end, &ended, NULL), 0);
    assert_true(TEST_EVENTUALLY(atomic_load(&ended) == 1, 10000));
    assert_code(rlock_latch_down_async(latch, "a", note_end, &ended, NULL), 0);
    assert_true(TEST_EVENTUALLY(atomic_load(&ended) == 2, 10000));
    assert_code(rlock_latch_count_async(latch, note_end, &ended, &op), 0);
    assert_true(TEST_EVENTUALLY(atomic_load(&ended) == 3, 10000));
    assert_code(rlock_op_code(op), 0);
    assert_int_equal(rlock_op_count(op), 1);
    assert_null(rlock_op_unref(op));
    for (size_t i = 0; i < WAITERS; i++) {
        assert_code(rlock_latch_wait_async(latch, RLOCK_FOREVER, NULL, note_end, &ended, &ops[i]),
                    0);
    }
    await_waiting(client, WAITERS);
    rlock_op_cancel(ops[0]);
    assert_true(TEST_EVENTUALLY(atomic_load(&ended) == 4, 10000));
    assert_code(rlock_op_code(ops[0]), RLOCK_ECANCELED);
    assert_int_equal(rlock_op_count(ops[0]), RLOCK_EINVAL);
    opened_us = test_now_us();
    assert_code(rlock_latch_down(latch, "b"), 0);
    assert_true(TEST_EVENTUALLY(atomic_load(&ended) == 3 + WAITERS, 10000));
    assert_took(test_elapsed_us(opened_us), 0, LATE_MS);
    for (size_t i = 0; i < WAITERS; i++) {
        assert_code(rlock_op_code(ops[i]), i == 0 ? RLOCK_ECANCELED : 0);
        assert_null(rlock_op_unref(ops[i]));
    }
    assert_code(rlock_latch_set(latch, 1, NULL), 0);
    assert_code(rlock_latch_wait_async(latch, RLOCK_FOREVER, NULL, note_end, &ended, &op), 0);
    client_close(f, client);
    assert_code(rlock_op_code(op), RLOCK_ECLOSED);
    assert_null(rlock_op_unref(op));
    assert_code(rlock_latch_down_async(latch, "a", note_end, &ended, NULL), RLOCK_ECLOSED);
    (void)rlock_latch_free(latch);
    test_server_do(f->server, "DEL " NAME " " PARTIES);
}

/* ---- Beside Redisson ---- */

LATCH_TEST(a_redisson_sees_a_count_and_its_messages, f, .servers = 1)
{
    struct rlock_latch *latch = latch_of(client_open(f));
    const int fd = raw_dial(test_server_unix_url(f->server));

    raw_say(fd, "SUBSCRIBE " CHANNEL "\r\n");
    assert_true(raw_hears(fd, "*3\r\n$9\r\nsubscribe\r\n" BULK_CHANNEL ":1\r\n"));
    assert_code(rlock_latch_set(latch, 2, NULL), 0);
    assert_true(raw_hears(fd, "*3\r\n$7\r\nmessage\r\n" BULK_CHANNEL "$1\r\n1\r\n"));
    assert_code(rlock_latch_down(latch, "a"), 0);
    assert_true(test_server_says(f->server, "1", "GET " NAME));
    assert_code(rlock_latch_down(latch, "b"), 0); /* the next message is of this one */
    assert_true(raw_hears(fd, "*3\r\n$7\r\nmessage\r\n" BULK_CHANNEL "$1\r\n0\r\n"));
    assert_code(rlock_latch_set(latch, 2, NULL), 0);
    assert_true(raw_hears(fd, "*3\r\n$7\r\nmessage\r\n" BULK_CHANNEL "$1\r\n1\r\n"));
    assert_code(rlock_admin_delete_latch(latch, NULL), 0); /* Redisson says 1, and wakes nobody */
    assert_true(raw_hears(fd, "*3\r\n$7\r\nmessage\r\n" BULK_CHANNEL "$1\r\n0\r\n"));
    assert_int_equal(close(fd), 0);
    expect_open(f);
    (void)rlock_latch_free(latch);
}

LATCH_TEST(a_redisson_opens_the_latch, f, .servers = 1)
{
    struct rlock_client *client = client_open(f);
    struct rlock_latch *latch = latch_of(client);
    struct waiter waiter = {.latch = NULL};
    int64_t opened_us;

    redisson_sets(f, 2);
    waiter_begin(&waiter, latch, RLOCK_FOREVER);
    await_waiting(client, 1);
    assert_code(rlock_latch_down(latch, "a"), 0);
    opened_us = test_now_us();
    redisson_counts_down(f);
    assert_code(waiter_end(&waiter), 0);
    assert_took(waiter.ended_us - opened_us, 0, LATE_MS);
    assert_true(fixture_has_key(f, PARTIES)); /* it does not know them */
    assert_in_range(test_server_int(f->server, "PTTL " PARTIES), 60001, INT64_C(31) * 86400 * 1000);
    assert_code(rlock_latch_down(latch, "a"), 0);
    expect_open(f);
    (void)rlock_latch_free(latch);
}

/* The parties of the count before have not counted down for this one. */
LATCH_TEST(a_count_that_a_redisson_has_set_has_no_parties_yet, f, .servers = 1)
{
    struct rlock_latch *latch = latch_of(client_open(f));

    assert_code(rlock_latch_set(latch, 2, NULL), 0);
    assert_code(rlock_latch_down(latch, "a"), 0);
    redisson_counts_down(f);
    redisson_sets(f, 2);
    assert_code(rlock_latch_down(latch, "a"), 0);
    assert_int_equal(count_of(latch), 1);
    assert_code(rlock_latch_down(latch, "a"), 0);
    assert_int_equal(count_of(latch), 1);
    redisson_counts_down(f);
    assert_int_equal(count_of(latch), 0);
    test_server_do(f->server, "SET " NAME " -1");
    assert_code(rlock_latch_wait(latch, 0, NULL), 0);
    assert_code(rlock_latch_down(latch, "a"), 0);
    assert_false(fixture_has_key(f, NAME));
    test_server_do(f->server, "SET " NAME " 0");
    assert_code(rlock_latch_set(latch, 1, NULL), 0);
    assert_code(rlock_latch_down(latch, NULL), 0);
    expect_open(f);
    (void)rlock_latch_free(latch);
}

/* ---- Mistakes ---- */

LATCH_TEST(what_is_no_latch_is_refused, f, .servers = 1)
{
    struct rlock_client *client = client_open(f);
    struct rlock_latch *latch = latch_of(client), *other = NULL;
    char party[258];
    int64_t count;

    test_server_do(f->server, "SET " NAME " 1.5");
    assert_code(rlock_latch_down(latch, "a"), RLOCK_EWRONGTYPE);
    test_server_do(f->server, "SET " NAME " text");
    assert_code(rlock_latch_set(latch, 1, NULL), RLOCK_EWRONGTYPE);
    assert_detail("latch " NAME ": ");
    assert_code(rlock_latch_down(latch, "a"), RLOCK_EWRONGTYPE);
    assert_code(rlock_latch_wait(latch, 0, NULL), RLOCK_EWRONGTYPE);
    assert_code(rlock_latch_count(latch, &count), RLOCK_EWRONGTYPE);
    assert_code(rlock_admin_delete_latch(latch, NULL), RLOCK_EWRONGTYPE);
    test_server_do(f->server, "DEL " NAME);
    test_server_do(f->server, "HSET " NAME " a 1");
    assert_code(rlock_latch_down(latch, "a"), RLOCK_EWRONGTYPE);
    assert_code(rlock_latch_wait(latch, 1000, NULL), RLOCK_EWRONGTYPE);
    assert_detail("latch " NAME ": ");
    test_server_do(f->server, "DEL " NAME);
    memset(party, 'p', sizeof(party) - 1);
    party[256] = '\0';
    assert_code(rlock_latch_down(latch, party), RLOCK_EINVAL);
    assert_code(rlock_latch_down(latch, ""), RLOCK_EINVAL);
    assert_code(rlock_latch_down(NULL, "a"), RLOCK_EINVAL);
    assert_code(rlock_latch_set(latch, 0, NULL), RLOCK_EINVAL);
    assert_code(rlock_latch_set(latch, INT64_C(2147483648), NULL), RLOCK_EINVAL);
    assert_code(rlock_latch_count(latch, NULL), RLOCK_EINVAL);
    assert_code(rlock_latch_wait(latch, -2, NULL), RLOCK_EINVAL);
    assert_code(rlock_latch_wait(NULL, 0, NULL), RLOCK_EINVAL);
    assert_code(rlock_latch_new(client, NAME, NULL, NULL), RLOCK_EINVAL);
    assert_code(rlock_latch_new(client, "", NULL, &other), RLOCK_EINVAL);
    assert_code(rlock_latch_new(client, NAME, RLOCK_OPTS(.max_hold_ms = 5), &other), RLOCK_EINVAL);
    assert_code(rlock_latch_new(client, NAME, RLOCK_OPTS(.flags = RLOCK_LOCK_NO_REENTRY), &other),
                RLOCK_EINVAL);
    assert_null(rlock_latch_free(NULL));
    (void)rlock_latch_free(latch);
}

LATCH_TEST(a_silent_server_keeps_no_call_past_its_deadline, f, .servers = 1)
{
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(200)));
    struct rlock_latch *latch = latch_of(client);
    int64_t begun_us;

    assert_code(rlock_latch_wait(latch, 0, NULL), 0);
    test_server_freeze(f->server);
    begun_us = test_now_us();
    assert_code(rlock_latch_down(latch, NULL), RLOCK_EINDOUBT);
    assert_code(rlock_latch_wait(latch, 0, NULL), RLOCK_ECONN);
    assert_code(rlock_latch_wait(latch, 10, NULL), RLOCK_ECONN);
    assert_code(rlock_latch_down(latch, "a"), RLOCK_ECONN);
    assert_took(test_elapsed_us(begun_us), 0, 4 * test_ms(200) + LATE_MS);
    test_server_thaw(f->server);
    assert_code(rlock_latch_wait(latch, 10000, NULL), 0);
    (void)rlock_latch_free(latch);
}

/* ---- In a cluster ---- */

FIXTURE_WITH_TEST(a_latch_of_a_cluster_has_one_slot, f, .kind = &kind_reentrant, .servers = 3,
                  .server = {.transport = TEST_TCP, .conf = cluster_conf})
{
    struct rlock_latch *latches[2] = {NULL, NULL}, *other = NULL;
    struct rlock_client *clients[2];
    struct waiter waiter = {.latch = NULL};
    char url[200];

    cluster_form(f->servers, 3, 3);
    cluster_url(f->servers, 3, url, sizeof(url));
    for (size_t i = 0; i < 2; i++) {
        clients[i] = client_open_with(f, RLOCK_CLIENT_OPTS(.url = url));
        assert_code(rlock_latch_new(clients[i], NAME, NULL, &latches[i]), 0);
    }
    assert_code(rlock_latch_new(clients[0], "a{b}c", NULL, &other), RLOCK_EINVAL);
    assert_code(rlock_latch_new(clients[0], "{b}c", NULL, &other), RLOCK_EINVAL);
    assert_detail("use a latch name and a key_prefix without braces");
    assert_code(rlock_latch_set(latches[0], 2, NULL), 0);
    waiter_begin(&waiter, latches[1], RLOCK_FOREVER);
    await_waiting(clients[1], 1);
    assert_code(rlock_latch_down(latches[0], "a"), 0);
    assert_code(rlock_latch_down(latches[1], "b"), 0);
    assert_code(waiter_end(&waiter), 0);
    for (size_t i = 0; i < 3; i++) {
        test_server_do(f->servers[i], "FLUSHALL"); /* the record stays for a minute */
    }
    (void)rlock_latch_free(latches[0]);
    (void)rlock_latch_free(latches[1]);
}
