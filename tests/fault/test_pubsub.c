/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that do not come: no waiter sleeps past a lost one. */
#include "fault/scene.h"
#include "fault/verbs.h"
#include "support/test.h"

/* The longest sleep of a waiter that cannot subscribe. */
#define POLL_MS 250

static const struct rlock_take patient = {.size = sizeof(patient), .wait_ms = 60000};

/* The lease of the one who is waited for is long: only what is tested wakes the waiter. */
static const struct rlock_take long_lease = {.size = sizeof(long_lease), .lease_ms = 60000};

struct pubsub {
    struct scene scene;
    struct actor actor, rival; /* through the proxy, and past it */
};

static void pubsub_open(struct pubsub *test)
{
    scene_open(&test->scene, &(struct scene_opts){.proxied = true});
    actor_open(&test->actor, &test->scene,
               RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack(),
                                 .connect_timeout_ms = 5000 * test_slack()));
    actor_open_direct(&test->rival, &test->scene);
}

static void pubsub_close(struct pubsub *test)
{
    assert_int_equal(actor_losses(&test->actor) + actor_losses(&test->rival), 0);
    actor_close(&test->actor);
    actor_close(&test->rival);
    scene_close(&test->scene);
}

/* ---- Subscriber connections that end ---- */

TEST(a_subscriber_that_is_cut_again_and_again_costs_waiters_little)
{
    struct pubsub test;
    struct waiter waiter;

    pubsub_open(&test);
    for (int i = 0; i < 8; i++) {
        int64_t released_us;

        assert_code(rlock_lock_with(test.rival.lock, &long_lease, NULL), 0);
        waiter_start(&waiter, &test.actor, &patient);
        for (int n = 0; n < 3; n++) {
            assert_true(scene_wait_waiters(&test.scene, 1));
            proxy_cut_all(test.scene.proxy, PROXY_SUBSCRIBERS);
        }
        assert_true(actor_step(&test.rival));
        released_us = test_now_us();
        assert_code(rlock_unlock(test.rival.lock), 0);
        assert_int_equal(waiter_join(&waiter), 0);
        assert_within(released_us, POLL_MS);
    }
    pubsub_close(&test);
}

TEST(a_subscriber_that_is_cut_all_the_time_starves_no_waiter)
{
    struct pubsub test;
    struct crew crew = {.actor = &test.actor, .take = &patient};
    struct crew others = {.actor = &test.rival, .take = &patient};
    int64_t began_us;

    pubsub_open(&test);
    crew_start(&crew, 3);
    crew_start(&others, 1);
    began_us = test_now_us();
    for (int i = 0; i < 8; i++) {
        size_t visits = atomic_load(&crew.visits);

        /* every 200 ms, whatever has come of the last one */
        assert_true(TEST_EVENTUALLY(test_elapsed_us(began_us) >= i * 200000, 2000));
        proxy_cut_all(test.scene.proxy, PROXY_SUBSCRIBERS);
        assert_true(TEST_EVENTUALLY(atomic_load(&crew.visits) > visits, 2000));
    }
    crew_stop(&crew);
    crew_stop(&others);
    pubsub_close(&test);
}

TEST(without_a_subscriber_connection_waiters_poll)
{
    struct pubsub test;
    struct waiter waiter;
    int64_t released_us;
    int rule;

    pubsub_open(&test);
    rule = proxy_add(test.scene.proxy, &(struct proxy_rule){.act = PROXY_CUT_REQUEST,
                                                            .which = PROXY_SUBSCRIBERS,
                                                            .times = PROXY_ALWAYS});
    assert_code(rlock_lock_with(test.rival.lock, &long_lease, NULL), 0);
    waiter_start(&waiter, &test.actor, &patient);
    assert_true(proxy_wait_fired(test.scene.proxy, rule, 1, 5000));
    assert_true(actor_step(&test.rival));
    released_us = test_now_us();
    assert_code(rlock_unlock(test.rival.lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(released_us, POLL_MS);
    /* a connection that breaks as soon as it is used is not made again at once, each time */
    assert_in_range(proxy_fired(test.scene.proxy, rule), 1, 60);
    pubsub_close(&test);
}

TEST(a_subscriber_cut_for_its_full_buffer_is_replaced)
{
    struct pubsub test;
    struct waiter waiter;
    char *payload = calloc(1, 16385);
    const char *publish[] = {"PUBLISH", SCENE_CHANNEL, payload, NULL};
    int64_t released_us;

    pubsub_open(&test);
    memset(payload, 'x', 16384);
    free(test_server_cmd(test.scene.server,
                         "CONFIG SET client-output-buffer-limit \"pubsub 65536 65536 1\""));
    assert_code(rlock_lock_with(test.rival.lock, &long_lease, NULL), 0);
    waiter_start(&waiter, &test.actor, &patient);
    assert_true(scene_wait_waiters(&test.scene, 1));
    proxy_go_silent(test.scene.proxy, PROXY_SUBSCRIBERS, true);
    for (bool heard = true; heard;) {
        char *receivers = test_server_argv(test.scene.server, publish);

        heard = strcmp(receivers, "1") == 0;
        free(receivers);
    }
    assert_true(actor_step(&test.rival));
    released_us = test_now_us();
    assert_code(rlock_unlock(test.rival.lock), 0);
    proxy_go_silent(test.scene.proxy, PROXY_SUBSCRIBERS, false);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(released_us, POLL_MS);
    free(payload);
    pubsub_close(&test);
}

/* ---- Messages that are lost, late, or never sent ---- */

TEST(a_third_of_the_messages_may_be_lost)
{
    struct pubsub test;
    struct actor other;
    struct crew crew = {.actor = &other, .take = &patient};
    struct crew others = {.actor = &test.rival, .take = &patient};

    pubsub_open(&test);
    actor_open(
        &other, &test.scene,
        RLOCK_CLIENT_OPTS(.renewed_lease_ms = scene_ms(300), .op_timeout_ms = 5000 * test_slack()));
    proxy_drop_messages(test.scene.proxy, 30, 1);
    crew_start(&crew, 3);
    crew_start(&others, 1);
    assert_true(TEST_EVENTUALLY(proxy_stats(test.scene.proxy).dropped_messages >= 10 &&
                                    atomic_load(&crew.visits) >= 30,
                                20000));
    crew_stop(&crew);
    crew_stop(&others);
    assert_int_equal(actor_losses(&other), 0);
    actor_close(&other);
    pubsub_close(&test);
}

TEST(the_end_of_a_lease_wakes_waiters_without_a_message)
{
    struct pubsub test;
    struct waiter waiter;
    int64_t began_us;

    pubsub_open(&test);
    scene_take_by_hand(&test.scene, 300);
    began_us = test_now_us();
    waiter_start(&waiter, &test.actor, &patient);
    assert_true(scene_wait_waiters(&test.scene, 1));
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(began_us, 300);
    pubsub_close(&test);
}

TEST(an_unlock_before_the_subscription_is_acknowledged_is_noticed)
{
    struct pubsub test;
    struct waiter waiter;
    int64_t began_us;

    pubsub_open(&test);
    proxy_delay_way_us(test.scene.proxy, PROXY_SUBSCRIBERS, PROXY_TO_CLIENT, 150000);
    proxy_drop_messages(test.scene.proxy, 100,
                        1); /* so that it is the acknowledgement that wakes */
    assert_code(rlock_lock_with(test.rival.lock, &long_lease, NULL), 0);
    began_us = test_now_us();
    waiter_start(&waiter, &test.actor, &patient);
    assert_true(scene_wait_waiters(&test.scene, 1));
    assert_true(actor_step(&test.rival));
    assert_code(rlock_unlock(test.rival.lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(began_us, 150);
    assert_true(proxy_stats(test.scene.proxy).dropped_messages > 0);
    pubsub_close(&test);
}

TEST(an_unlock_before_the_subscription_arrives_is_noticed)
{
    struct pubsub test;
    struct waiter waiter;
    int64_t released_us;

    pubsub_open(&test);
    proxy_add(test.scene.proxy, &(struct proxy_rule){.act = PROXY_HOLD, .command = "SUBSCRIBE"});
    assert_code(rlock_lock_with(test.rival.lock, &long_lease, NULL), 0);
    waiter_start(&waiter, &test.actor, &patient);
    assert_true(proxy_wait_held(test.scene.proxy, 1, 5000));
    assert_true(actor_step(&test.rival));
    released_us = test_now_us();
    assert_code(rlock_unlock(test.rival.lock), 0);
    proxy_hold_requests(test.scene.proxy, false);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(released_us, POLL_MS);
    pubsub_close(&test);
}

/* A message while the attempt is on its way: the answer "busy" is older than it. */
TEST(a_message_that_overtakes_the_answer_busy_is_not_forgotten)
{
    struct pubsub test;
    struct waiter waiter;
    struct proxy_rule rule;
    int64_t released_us;
    int number;

    pubsub_open(&test);
    verbs_load(&test.scene);
    assert_code(rlock_lock_with(test.rival.lock, &long_lease, NULL), 0);
    waiter_start(&waiter, &test.actor, &patient);
    assert_true(scene_wait_waiters(&test.scene, 1));
    rule = script_rule("acquire", PROXY_DELAY_REPLY);
    rule.delay_us = 150000;
    number = proxy_add(test.scene.proxy, &rule);
    free(test_server_cmd(test.scene.server, "PUBLISH " SCENE_CHANNEL " 0"));
    assert_true(proxy_wait_fired(test.scene.proxy, number, 1, 5000));
    assert_true(actor_step(&test.rival));
    released_us = test_now_us();
    assert_code(rlock_unlock(test.rival.lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(released_us, 150);
    pubsub_close(&test);
}

/* ---- Messages that lie ---- */

TEST(forged_messages_cost_an_attempt_each_at_most)
{
    struct pubsub test;
    struct waiter waiter;
    long long calls;

    pubsub_open(&test);
    scene_take_by_hand(&test.scene, 0);
    waiter_start(&waiter, &test.actor, &patient);
    assert_true(scene_wait_waiters(&test.scene, 1));
    calls = scene_info(&test.scene, "commandstats", "cmdstat_evalsha:calls");
    for (int i = 0; i < 2000; i++) {
        free(test_server_cmd(test.scene.server, "PUBLISH " SCENE_CHANNEL " %d", i));
    }
    assert_true(TEST_EVENTUALLY(proxy_stats(test.scene.proxy).messages == 2000, 5000));
    assert_false(atomic_load(&waiter.done));
    assert_int_equal(scene_count(&test.scene), 1);
    calls = scene_info(&test.scene, "commandstats", "cmdstat_evalsha:calls") - calls;
    assert_in_range(calls, 1, 2001);
    free(test_server_cmd(test.scene.server, "DEL " SCENE_NAME));
    free(test_server_cmd(test.scene.server, "PUBLISH " SCENE_CHANNEL " 0"));
    assert_int_equal(waiter_join(&waiter), 0);
    pubsub_close(&test);
}
