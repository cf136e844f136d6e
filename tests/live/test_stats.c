/* SPDX-License-Identifier: Apache-2.0 */
/* A client counts what a test counts from outside: at calls, servers and callbacks. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "support/clients.h"
#include "support/counts.h"

enum { OWNER = 41, MINUTE_MS = 60 * 1000 };

/* How many scripts ran, and how many releases were announced, since fixture_count_calls(). */
static long long scripts_of(const struct fixture *f)
{
    return fixture_calls(f, "evalsha") + fixture_calls(f, "eval");
}

/* ---- Calls ---- */

LOCK_TEST(a_client_that_did_nothing_has_counted_nothing, f)
{
    const struct rlock_stats stats = counts_of(client_open(f));

    assert_int_equal(stats.size, sizeof(stats));
    assert_takes(&stats, 0, {0, 0});
    assert_unlocks(&stats, 0, {0, 0});
    assert_int_equal(stats.attempts + stats.passes + stats.renewals + stats.messages, 0);
    assert_int_equal(stats.wait.count + stats.hold.count + stats.wait.sum_us, 0);
    assert_int_equal(stats.holds + stats.waiting + stats.unreleased, 0);
    assert_int_equal(stats.servers, 1);
}

enum { THREADS = 6, ROUNDS = 150 };

struct worker {
    struct rlock_handle *lock;
    unsigned number;
    pthread_t thread;
};

static atomic_ullong takes[RLOCK_STATS_CODES], unlocks[RLOCK_STATS_CODES];

static void *work(void *arg)
{
    const struct worker *worker = arg;
    static const int64_t waits_ms[] = {0, 1, RLOCK_FOREVER};

    for (unsigned i = 0; i < ROUNDS; i++) {
        const int code =
            rlock_lock_for(worker->lock, waits_ms[(i + worker->number) % 3], NULL, NULL);

        (void)atomic_fetch_add(&takes[-code], 1);
        if (code == 0) {
            (void)atomic_fetch_add(&unlocks[-rlock_unlock(worker->lock)], 1);
        }
    }
    return NULL;
}

/* Each take that returned 0 was a grant of the server or a hand-over. Each grant of the server
 * ended with a message, and so did each reservation that came too late for its call. */
LOCK_TEST(calls_of_many_threads_are_counted_exactly, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct worker workers[THREADS];
    struct rlock_stats stats;

    fixture_count_calls(f);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.lock = lock, .number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    assert_true(TEST_EVENTUALLY(counts_of(client).unreleased == 0, 10000));
    stats = counts_of(client);
    for (unsigned i = 0; i < RLOCK_STATS_CODES; i++) {
        assert_int_equal(stats.takes[RLOCK_KIND_REENTRANT][i], atomic_load(&takes[i]));
        assert_int_equal(stats.unlocks[RLOCK_KIND_REENTRANT][i], atomic_load(&unlocks[i]));
    }
    assert_int_equal(counts_sum(stats.takes[0], RLOCK_STATS_CODES), THREADS * ROUNDS);
    assert_int_equal(stats.wait.count, atomic_load(&takes[0]));
    assert_int_equal(stats.hold.count, atomic_load(&takes[0]));
    assert_in_range(fixture_calls(f, "publish"), atomic_load(&takes[0]) - stats.passes,
                    THREADS * ROUNDS - stats.passes);
    assert_true(stats.attempts >= atomic_load(&takes[0]) - stats.passes);
    assert_int_equal(stats.holds + stats.waiting, 0);
    print_message("%llu passes\n", (unsigned long long)stats.passes);
}

/* ---- What there is now ---- */

LOCK_TEST(what_there_is_now_comes_and_goes, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *waiter = actor_open(f);

    assert_code(TAKE(lock, 0, .owner = OWNER), 0);
    assert_code(TAKE(lock, 0, .owner = OWNER), 0); /* one more level is not one more hold */
    assert_int_equal(counts_of(client).holds, 1);
    assert_int_equal(counts_of(client).connections, 1);
    assert_code(rlock_unlock_as(lock, OWNER), 0);
    assert_int_equal(counts_of(client).holds, 1);
    assert_code(rlock_unlock_as(lock, OWNER), 0);
    assert_int_equal(counts_of(client).holds, 0);

    assert_code(rlock_lock(rival), 0);
    actor_begin(waiter, act_take, lock, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    assert_int_equal(counts_of(client).waiting, 1);
    assert_int_equal(counts_of(client).connections, 2); /* with the one for messages */
    assert_int_equal(counts_of(client).messages, 0);
    assert_code(rlock_unlock(rival), 0);
    assert_code(actor_end(waiter), 0);
    assert_int_equal(counts_of(client).waiting, 0);
    assert_int_equal(counts_of(client).messages, 1);
    assert_code(actor_do(waiter, act_unlock, lock, 0, NULL), 0);
}

/* ---- What went to the server ---- */

LOCK_TEST(attempts_requests_and_replies_are_those_of_the_server, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock_stats before, after;
    enum { PAIRS = 50 };

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    before = counts_of(client);
    fixture_count_calls(f);
    for (int i = 0; i < PAIRS; i++) {
        assert_code(rlock_lock(lock), 0);
        assert_code(rlock_unlock(lock), 0);
    }
    after = counts_of(client);
    assert_int_equal(after.attempts - before.attempts, PAIRS);
    assert_int_equal(after.requests - before.requests, scripts_of(f));
    assert_int_equal(after.reply.count - before.reply.count, 2 * PAIRS);
    assert_int_equal(after.resends, 0);
    assert_true(after.reply.sum_us > before.reply.sum_us);
}

/* The second copy goes out when the client has connected again. */
FIXTURE_WITH_TEST(a_second_copy_is_counted_as_resent, f, .kind = &kind_reentrant,
                  .proxy = PROXY_ON_UNIX)
{
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.url = proxy_url(f->proxy)));
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock_stats stats;

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    (void)proxy_cut_after_requests(f->proxy, 1);
    assert_code(rlock_lock_for(lock, 20000, NULL, NULL), 0);
    stats = counts_of(client);
    assert_int_equal(stats.resends, 1);
    assert_int_equal(stats.disconnects, 1);
    assert_int_equal(stats.reconnects, 1);
    assert_int_equal(stats.connects, 2);
    assert_int_equal(stats.failed_connects, 0);
    assert_code(rlock_unlock(lock), 0);
}

static atomic_ullong logins;
static atomic_bool fails;

/* The client calls it at each connection. */
static int log_in(struct rlock_login *login, void *payload)
{
    (void)login;
    (void)payload;
    (void)atomic_fetch_add(&logins, 1);
    return atomic_load(&fails) ? 1 : 0;
}

LOCK_TEST(connections_that_cannot_be_made_are_counted, f)
{
    struct rlock_client *client = client_open_with(f, RLOCK_CLIENT_OPTS(.on_login = log_in));
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock_stats stats;

    assert_code(TAKE(lock, 20000, .lease_ms = MINUTE_MS), 0);
    assert_int_equal(counts_of(client).connects, 1);
    atomic_store(&fails, true);
    test_server_do(f->server, "CLIENT KILL TYPE normal SKIPME yes");
    assert_true(TEST_EVENTUALLY(counts_of(client).failed_connects >= 3, 20000));
    assert_int_equal(counts_of(client).connections, 0);
    atomic_store(&fails, false);
    assert_true(TEST_EVENTUALLY(counts_of(client).connections == 1, 20000));
    stats = counts_of(client);
    assert_int_equal(stats.connects, 2);
    assert_int_equal(stats.reconnects, 1);
    assert_int_equal(stats.disconnects, 1);
    assert_int_equal(stats.connects + stats.failed_connects, atomic_load(&logins));
    assert_code(rlock_unlock(lock), 0);
}

/* ---- Renewals ---- */

/* The server's count, and the client's just before and after it: they are equal when nothing is in
 * flight. */
static bool renewals_match(const struct fixture *f, const struct rlock_client *client, uint64_t n)
{
    const uint64_t before = counts_of(client).renewals;
    const long long server = fixture_calls(f, "pexpire");

    return before >= n && (long long)before == server && counts_of(client).renewals == before;
}

LOCK_TEST(renewals_are_those_of_the_server, f)
{
    struct rlock_client *client = client_open_renewing(f, test_ms(300));
    struct rlock_handle *lock = lock_new(f, client);

    assert_code(rlock_lock(lock), 0);
    fixture_count_calls(f);
    assert_true(TEST_EVENTUALLY(renewals_match(f, client, 3), 20000));
    assert_int_equal(counts_of(client).failed_renewals, 0);
    assert_code(rlock_unlock(lock), 0);
}

FIXTURE_WITH_TEST(renewals_that_fail_are_counted, f, .kind = &kind_reentrant,
                  .proxy = PROXY_ON_UNIX)
{
    static const char busy[] = "-BUSY Redis is busy running a script.\r\n";
    struct rlock_client *client = client_open_with(
        f, RLOCK_CLIENT_OPTS(.url = proxy_url(f->proxy), .renewed_lease_ms = test_ms(3000)));
    struct rlock_handle *lock = lock_new(f, client);
    const struct proxy_rule rule = {.act = PROXY_REPLACE_REPLY,
                                    .command = "EVALSHA",
                                    .times = 3,
                                    .bytes = busy,
                                    .len = sizeof(busy) - 1};
    uint64_t renewals;

    assert_code(rlock_lock(lock), 0);
    assert_true(TEST_EVENTUALLY(counts_of(client).renewals > 0, 20000));
    renewals = counts_of(client).renewals;
    assert_true(proxy_wait_fired(f->proxy, proxy_add(f->proxy, &rule), 3, 20000));
    assert_true(TEST_EVENTUALLY(counts_of(client).renewals > renewals, 20000));
    assert_int_equal(counts_of(client).failed_renewals, 3);
    assert_code(rlock_unlock(lock), 0);
}

/* The log says of each late renewal that it was late. */
LOCK_TEST(late_renewals_are_those_of_the_log, f)
{
    const int64_t lease_ms = test_ms(1500);
    struct rlock_client *client = client_open_with(
        f, RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms, .op_timeout_ms = 20000));
    struct rlock_handle *lock = lock_new(f, client);

    assert_code(rlock_lock(lock), 0);
    assert_int_equal(counts_of(client).late_renewals, 0);
    test_server_freeze(f->server);
    (void)TEST_EVENTUALLY(rlock_valid_ms(lock) < lease_ms / 6, 20000);
    test_server_thaw(f->server);
    assert_true(TEST_EVENTUALLY(rlock_valid_ms(lock) > lease_ms / 2 || losses_told(f) > 0, 20000));
    if (losses_told(f) > 0) {
        (void)test_expired(lease_ms * 1000);
    }
    assert_int_equal(losses_told(f), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_int_equal(counts_of(client).late_renewals, 1);
    assert_true(TEST_EVENTUALLY(diary_logged(&f->diary, "renewed late") == 1, 10000));
    assert_true(counts_of(client).renewals >= 1);
}

/* ---- Losses, and what is in doubt ---- */

LOCK_TEST(losses_are_counted_by_their_reasons, f)
{
    struct rlock_client *client = client_open_renewing(f, test_ms(300));
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock_stats stats;

    for (int i = 0; i < 3; i++) {
        assert_code(rlock_lock(lock), 0);
        assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
        (void)expect_loss(f, RLOCK_LOST_DELETED);
        assert_code(rlock_unlock(lock), RLOCK_ELOST);
    }
    assert_code(TAKE(lock, 0, .lease_ms = 20), 0);
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(TAKE(lock, RLOCK_FOREVER, .owner = OWNER), 0);
    assert_code(rlock_owner_end(client, OWNER), 0);
    (void)expect_loss(f, RLOCK_LOST_OWNER_ENDED);

    assert_true(TEST_EVENTUALLY(counts_of(client).unreleased == 0, 10000));
    stats = counts_of(client);
    assert_int_equal(stats.losses[RLOCK_LOST_DELETED], 3);
    assert_int_equal(stats.losses[RLOCK_LOST_EXPIRED], 1);
    assert_int_equal(stats.losses[RLOCK_LOST_OWNER_ENDED], 1);
    assert_int_equal(counts_sum(stats.losses, RLOCK_STATS_REASONS), losses_told(f));
    assert_int_equal(stats.hold.count, 5);
}

LOCK_TEST(what_is_in_doubt_is_counted_until_it_is_released, f)
{
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(200)));
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock_stats stats;

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    test_server_freeze(f->server);
    assert_code(rlock_try_lock(lock), RLOCK_EINDOUBT);
    stats = counts_of(client);
    assert_takes(&stats, RLOCK_KIND_REENTRANT, {0, 1}, {RLOCK_EINDOUBT, 1});
    assert_int_equal(stats.unreleased, 1);
    assert_int_equal(stats.wait.count, 1);
    test_server_thaw(f->server);
    assert_true(TEST_EVENTUALLY(counts_of(client).unreleased == 0, 10000));
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
}

/* ---- Durations ---- */

LOCK_TEST(waits_and_holds_are_as_long_as_they_were, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *waiter = actor_open(f);
    struct rlock_stats stats;
    int64_t began_us, held_us;

    assert_code(rlock_lock(rival), 0);
    began_us = test_now_us();
    actor_begin(waiter, act_take, lock, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    held_us = test_now_us();
    assert_true(TEST_EVENTUALLY(test_elapsed_us(held_us) > 50000, 10000));
    assert_code(rlock_unlock(rival), 0);
    assert_code(actor_end(waiter), 0);
    stats = counts_of(client);
    assert_int_equal(stats.wait.count, 1);
    assert_in_range(stats.wait.sum_us, 50000, test_elapsed_us(began_us));
    held_us = test_now_us();
    assert_true(TEST_EVENTUALLY(test_elapsed_us(held_us) > 50000, 10000));
    assert_code(actor_do(waiter, act_unlock, lock, 0, NULL), 0);
    stats = counts_of(client);
    assert_int_equal(stats.hold.count, 1);
    assert_in_range(stats.hold.sum_us, 50000, test_elapsed_us(began_us));
}

/* ---- Locks made of locks ---- */

FIXTURE_WITH_TEST(a_lock_made_of_locks_counts_once_at_its_first_members_client, f,
                  .kind = &kind_reentrant, .servers = 3)
{
    struct rlock_handle *members[3], *multi = NULL, *redlock = NULL;
    struct rlock_client *clients[3];
    struct rlock_stats stats;

    for (size_t i = 0; i < 3; i++) {
        clients[i] = client_open_with(f, RLOCK_CLIENT_OPTS(.url = test_server_url(f->servers[i])));
        members[i] = lock_named(f, clients[i], "member");
    }
    assert_code(rlock_multi_new(members, 3, NULL, &multi), 0);
    assert_code(rlock_redlock_new(members, 3, RLOCK_OPTS(.max_lease_ms = -1), &redlock), 0);
    assert_code(rlock_lock(multi), 0);
    assert_code(rlock_extend(multi, 0, MINUTE_MS, NULL), 0);
    assert_code(rlock_unlock(multi), 0);
    assert_code(rlock_unlock(multi), RLOCK_ENOTOWNER);
    stats = counts_of(clients[0]);
    assert_takes(&stats, RLOCK_KIND_MULTI, {0, 1});
    assert_unlocks(&stats, RLOCK_KIND_MULTI, {0, 1}, {RLOCK_ENOTOWNER, 1});
    assert_int_equal(counts_sum(stats.extends, RLOCK_STATS_CODES), 1);
    assert_int_equal(stats.wait.count, 1);
    assert_int_equal(stats.attempts, 1);
    assert_int_equal(stats.hold.count, 1);
    assert_code(rlock_lock(redlock), 0);
    assert_code(rlock_force_unlock(redlock, NULL), 0);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_code(rlock_unlock(redlock), RLOCK_ELOST);
    stats = counts_of(clients[0]);
    assert_int_equal(stats.takes[RLOCK_KIND_REDLOCK][0], 1);
    assert_int_equal(stats.unlocks[RLOCK_KIND_REDLOCK][-RLOCK_ELOST], 1);
    assert_int_equal(stats.wait.count, 2);
    assert_int_equal(counts_sum(stats.losses, RLOCK_STATS_REASONS), losses_told(f));
    for (size_t i = 1; i < 3; i++) {
        stats = counts_of(clients[i]);
        assert_takes(&stats, 0, {0, 0});
        assert_unlocks(&stats, 0, {0, 0});
        assert_int_equal(stats.attempts, 2);
        assert_int_equal(counts_sum(stats.losses, RLOCK_STATS_REASONS), 0);
    }
    multi = rlock_free(multi);
    redlock = rlock_free(redlock);
}

/* ---- Arguments ---- */

LOCK_TEST(wrong_arguments_of_the_statistics_are_refused, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_stats stats = RLOCK_STATS_INIT;

    assert_code(rlock_client_stats(NULL, &stats), RLOCK_EINVAL);
    assert_code(rlock_client_stats(client, NULL), RLOCK_EINVAL);
    stats.size = 0;
    assert_code(rlock_client_stats(client, &stats), RLOCK_EINVAL);
}

LOCK_TEST(an_older_programs_statistics_are_filled_as_far_as_they_go, f)
{
    struct rlock_stats stats;

    memset(&stats, 0x55, sizeof(stats));
    stats.size = offsetof(struct rlock_stats, takes);
    assert_code(rlock_client_stats(client_open(f), &stats), 0);
    assert_int_equal(stats.servers, 1);
    assert_int_equal(stats.takes[0][0], 0x5555555555555555);
}
