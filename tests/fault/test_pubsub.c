/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that do not come: no waiter sleeps past a lost one. */
#include "fault/verbs.h"
#include "support/waiter.h"

/* The longest sleep of a waiter that cannot subscribe. */
#define POLL_MS 250

enum { PATIENT_MS = 60000 };

/* The lease of the one who is waited for is long: only what is tested wakes the waiter. */
static const struct rlock_take long_lease = {.size = sizeof(long_lease), .lease_ms = 60000};

struct pubsub {
    struct fixture f;
    struct user *user, *rival; /* through the proxy, and past it */
};

static void pubsub_open(struct pubsub *test)
{
    fixture_open(&test->f, &(struct fixture_opts){.proxy = PROXY_AS_LEG});
    test->user = user_open(&test->f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack(),
                                                        .connect_timeout_ms = 5000 * test_slack()));
    test->rival = user_open_direct(&test->f);
}

static void pubsub_close(struct pubsub *test)
{
    assert_int_equal(user_losses(test->user) + user_losses(test->rival), 0);
    fixture_close(&test->f);
}

#define PUBSUB_TEST(name, test)                                                                    \
    TEST_AROUND(name, struct pubsub, test, pubsub_open(test), pubsub_close(test))

/* ---- Subscriber connections that end ---- */

PUBSUB_TEST(a_subscriber_that_is_cut_again_and_again_costs_waiters_little, test)
{
    struct waiter waiter;

    for (int i = 0; i < 8; i++) {
        int64_t released_us;

        assert_code(rlock_lock_for(test->rival->lock, 0, &long_lease, NULL), 0);
        waiter_start(&waiter, test->user, PATIENT_MS, NULL);
        for (int n = 0; n < 3; n++) {
            assert_true(fixture_wait_waiters(&test->f, 1));
            proxy_cut_all(test->f.proxy, PROXY_SUBSCRIBERS);
        }
        assert_true(user_step(test->rival));
        released_us = test_now_us();
        assert_code(rlock_unlock(test->rival->lock), 0);
        assert_int_equal(waiter_join(&waiter), 0);
        assert_within(released_us, POLL_MS);
    }
}

PUBSUB_TEST(a_subscriber_that_is_cut_all_the_time_starves_no_waiter, test)
{
    struct crew crew = {.wait_ms = PATIENT_MS};
    struct crew others = {.wait_ms = PATIENT_MS};
    int64_t began_us;

    crew_start(&crew, test->user, 3);
    crew_start(&others, test->rival, 1);
    began_us = test_now_us();
    for (int i = 0; i < 8; i++) {
        size_t visits = atomic_load(&crew.visits);

        /* every 200 ms, whatever has come of the last one */
        assert_true(TEST_EVENTUALLY(test_elapsed_us(began_us) >= i * 200000, 2000));
        proxy_cut_all(test->f.proxy, PROXY_SUBSCRIBERS);
        assert_true(TEST_EVENTUALLY(atomic_load(&crew.visits) > visits, 2000));
    }
    crew_stop(&crew);
    crew_stop(&others);
}

PUBSUB_TEST(without_a_subscriber_connection_waiters_poll, test)
{
    struct waiter waiter;
    int64_t released_us;
    int rule;

    rule = proxy_add(test->f.proxy, &(struct proxy_rule){.act = PROXY_CUT_REQUEST,
                                                         .which = PROXY_SUBSCRIBERS,
                                                         .times = PROXY_ALWAYS});
    assert_code(rlock_lock_for(test->rival->lock, 0, &long_lease, NULL), 0);
    waiter_start(&waiter, test->user, PATIENT_MS, NULL);
    assert_true(proxy_wait_fired(test->f.proxy, rule, 1, 5000));
    assert_true(user_step(test->rival));
    released_us = test_now_us();
    assert_code(rlock_unlock(test->rival->lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(released_us, POLL_MS);
    /* a connection that breaks as soon as it is used is not made again at once, each time */
    assert_in_range(proxy_fired(test->f.proxy, rule), 1, 60);
}

PUBSUB_TEST(a_subscriber_cut_for_its_full_buffer_is_replaced, test)
{
    struct waiter waiter;
    char *payload = calloc(1, 16385);
    const char *publish[] = {"PUBLISH", CHANNEL_A, payload, NULL};
    int64_t released_us;

    memset(payload, 'x', 16384);
    test_server_do(test->f.server,
                   "CONFIG SET client-output-buffer-limit \"pubsub 65536 65536 1\"");
    assert_code(rlock_lock_for(test->rival->lock, 0, &long_lease, NULL), 0);
    waiter_start(&waiter, test->user, PATIENT_MS, NULL);
    assert_true(fixture_wait_waiters(&test->f, 1));
    proxy_go_silent(test->f.proxy, PROXY_SUBSCRIBERS, true);
    for (bool heard = true; heard;) {
        char *receivers = test_server_argv(test->f.server, publish);

        heard = strcmp(receivers, "1") == 0;
        free(receivers);
    }
    assert_true(user_step(test->rival));
    released_us = test_now_us();
    assert_code(rlock_unlock(test->rival->lock), 0);
    proxy_go_silent(test->f.proxy, PROXY_SUBSCRIBERS, false);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(released_us, POLL_MS);
    free(payload);
}

/* ---- Messages that are lost, late, or never sent ---- */

PUBSUB_TEST(a_third_of_the_messages_may_be_lost, test)
{
    struct user *other;
    struct crew crew = {.wait_ms = PATIENT_MS};
    struct crew others = {.wait_ms = PATIENT_MS};

    other = user_open(&test->f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = test_ms(300),
                                                   .op_timeout_ms = 5000 * test_slack()));
    proxy_drop_messages(test->f.proxy, 30, 1);
    crew_start(&crew, other, 3);
    crew_start(&others, test->rival, 1);
    assert_true(TEST_EVENTUALLY(proxy_stats(test->f.proxy).dropped_messages >= 10 &&
                                    atomic_load(&crew.visits) >= 30,
                                20000));
    crew_stop(&crew);
    crew_stop(&others);
    assert_int_equal(user_losses(other), 0);
    user_close(other);
}

PUBSUB_TEST(the_end_of_a_lease_wakes_waiters_without_a_message, test)
{
    struct waiter waiter;
    int64_t began_us;

    fixture_take_by_hand(&test->f, 300);
    began_us = test_now_us();
    waiter_start(&waiter, test->user, PATIENT_MS, NULL);
    assert_true(fixture_wait_waiters(&test->f, 1));
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(began_us, 300);
}

PUBSUB_TEST(an_unlock_before_the_subscription_is_acknowledged_is_noticed, test)
{
    struct waiter waiter;
    int64_t began_us;

    proxy_delay_way_us(test->f.proxy, PROXY_SUBSCRIBERS, PROXY_TO_CLIENT, 150000);
    assert_code(rlock_lock_for(test->rival->lock, 0, &long_lease, NULL), 0);
    began_us = test_now_us();
    waiter_start(&waiter, test->user, PATIENT_MS, NULL);
    assert_true(fixture_wait_waiters(&test->f, 1));
    assert_true(user_step(test->rival));
    assert_code(rlock_unlock(test->rival->lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(began_us, 150); /* it is the acknowledgement that woke it */
}

PUBSUB_TEST(an_unlock_before_the_subscription_arrives_is_noticed, test)
{
    struct waiter waiter;
    int64_t released_us;

    proxy_add(test->f.proxy, &(struct proxy_rule){.act = PROXY_HOLD, .command = "SUBSCRIBE"});
    assert_code(rlock_lock_for(test->rival->lock, 0, &long_lease, NULL), 0);
    waiter_start(&waiter, test->user, PATIENT_MS, NULL);
    assert_true(proxy_wait_held(test->f.proxy, 1, 5000));
    assert_true(user_step(test->rival));
    released_us = test_now_us();
    assert_code(rlock_unlock(test->rival->lock), 0);
    proxy_hold_requests(test->f.proxy, false);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(released_us, POLL_MS);
}

static bool hears_others(const struct fixture *f)
{
    return TEST_EVENTUALLY(test_server_listeners(f->server, CHANNEL_A) == 1, 2000);
}

/* A message while the attempt is on its way: the answer "busy" is older than it. */
PUBSUB_TEST(a_message_that_overtakes_the_answer_busy_is_not_forgotten, test)
{
    struct waiter waiter;
    struct proxy_rule rule;
    int64_t released_us;
    int number;

    verbs_load(&test->f);
    fixture_take_by_hand(&test->f, 0);
    waiter_start(&waiter, test->user, PATIENT_MS, NULL);
    assert_true(hears_others(&test->f));
    rule = script_rule("enter", PROXY_DELAY_REPLY);
    rule.delay_us = 150000;
    number = proxy_add(test->f.proxy, &rule);
    test_server_do(test->f.server, "PUBLISH " CHANNEL_A " 0");
    assert_true(proxy_wait_fired(test->f.proxy, number, 1, 5000));
    released_us = test_now_us();
    test_server_do(test->f.server, "DEL " LOCK_A);
    test_server_do(test->f.server, "PUBLISH " CHANNEL_A " 0");
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(released_us, 150);
}

/* ---- Messages that lie ---- */

PUBSUB_TEST(forged_messages_cost_an_attempt_each_at_most, test)
{
    struct waiter waiter;
    long long calls;

    fixture_take_by_hand(&test->f, 0);
    waiter_start(&waiter, test->user, PATIENT_MS, NULL);
    assert_true(hears_others(&test->f));
    calls = test_server_info(test->f.server, "commandstats", "cmdstat_evalsha:calls");
    for (int i = 0; i < 2000; i++) {
        test_server_do(test->f.server, "PUBLISH " CHANNEL_A " %d", i);
    }
    assert_true(TEST_EVENTUALLY(proxy_stats(test->f.proxy).messages == 2000, 5000));
    assert_false(atomic_load(&waiter.done));
    assert_int_equal(fixture_count(&test->f), 1);
    calls = test_server_info(test->f.server, "commandstats", "cmdstat_evalsha:calls") - calls;
    assert_in_range(calls, 1, 2001);
    test_server_do(test->f.server, "DEL " LOCK_A);
    test_server_do(test->f.server, "PUBLISH " CHANNEL_A " 0");
    assert_int_equal(waiter_join(&waiter), 0);
}
