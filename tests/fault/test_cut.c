/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that break around a command: before it went out, after it was done, in the middle of
 * its reply. The hold count on the server ends right, and "in doubt" is said only where nothing
 * else is true.
 */
#include "fault/scene.h"
#include "fault/verbs.h"
#include "support/test.h"

#define LEASE_MS 10000

/* A scene with an actor on the proxy and its rival beside it. */
struct cut {
    struct scene scene;
    struct actor actor, rival;
};

static void cut_open(struct cut *cut, int64_t op_timeout_ms)
{
    scene_open(&cut->scene, &(struct scene_opts){.proxied = true});
    verbs_load(&cut->scene);
    actor_open(&cut->actor, &cut->scene,
               RLOCK_CLIENT_OPTS(.op_timeout_ms = op_timeout_ms, .renewed_lease_ms = LEASE_MS));
    actor_open_direct(&cut->rival, &cut->scene);
    assert_code(actor_visit(&cut->actor, NULL), 0);
}

static void cut_close(struct cut *cut)
{
    assert_code(actor_visit(&cut->rival, NULL), 0);
    assert_int_equal(actor_losses(&cut->actor), 0);
    actor_close(&cut->actor);
    actor_close(&cut->rival);
    scene_close(&cut->scene);
}

/* Runs the verb while its connection breaks as the rule says, and looks at what came of it. */
static void goes_well(struct cut *cut, const struct verb *verb, const struct proxy_rule *rule)
{
    int code, number;

    verb_prepare(verb, &cut->actor);
    number = proxy_add(cut->scene.proxy, rule);
    code = verb->run(&cut->actor);
    if (code != 0 && !(verb->once && code == RLOCK_EINDOUBT)) {
        fail_msg("%s: %s: %s", verb->name, rlock_code_name(code), rlock_detail());
    }
    if (code == 0 && scene_count(&cut->scene) != verb->count_after) {
        fail_msg("%s: count %lld", verb->name, scene_count(&cut->scene));
    }
    if (proxy_fired(cut->scene.proxy, number) != 1) {
        fail_msg("%s: met no fault", verb->name);
    }
    if (verb->count_after > 0) {
        assert_code(rlock_try_lock(cut->rival.lock), RLOCK_EBUSY);
        assert_true(actor_step(&cut->actor));
    }
    verb_clean_up(&cut->actor);
    proxy_remove(cut->scene.proxy, number);
}

static void every_command_survives(enum proxy_act act)
{
    struct cut cut;

    cut_open(&cut, 2000 * test_slack());
    for (size_t i = 0; verbs[i] != NULL; i++) {
        struct proxy_rule rule = script_rule(verbs[i]->script, act);

        goes_well(&cut, verbs[i], &rule);
    }
    cut_close(&cut);
}

TEST(a_reset_before_the_request_was_sent_goes_unnoticed)
{
    every_command_survives(PROXY_CUT_REQUEST);
}

TEST(a_reset_between_request_and_reply_leaves_the_count_right)
{
    every_command_survives(PROXY_CUT_REPLY);
}

TEST(a_request_that_arrives_twice_counts_once)
{
    struct cut cut;

    cut_open(&cut, 2000 * test_slack());
    for (size_t i = 0; verbs[i] != NULL; i++) {
        if (!verbs[i]->once) {
            struct proxy_rule rule = script_rule(verbs[i]->script, PROXY_REPEAT);

            goes_well(&cut, verbs[i], &rule);
        }
    }
    cut_close(&cut);
}

/* Every reply of ours is shorter than this, but for that of inspect. */
#define REPLY_BYTES 16

TEST(a_reset_within_the_reply_at_any_byte_leaves_the_count_right)
{
    struct cut cut;

    cut_open(&cut, 2000 * test_slack());
    for (size_t i = 0; verbs[i] != NULL; i++) {
        struct proxy_rule rule = script_rule(verbs[i]->script, PROXY_CUT_IN_REPLY);

        for (rule.at = 0; rule.at <= REPLY_BYTES; rule.at++) {
            goes_well(&cut, verbs[i], &rule);
        }
    }
    cut_close(&cut);
}

TEST(a_reset_within_the_answer_busy_at_any_byte_is_still_busy)
{
    struct cut cut;
    struct proxy_rule rule = script_rule("acquire", PROXY_CUT_IN_REPLY);

    cut_open(&cut, 2000 * test_slack());
    scene_take_by_hand(&cut.scene, 60000);
    for (rule.at = 0; rule.at <= 40; rule.at++) {
        int number = proxy_add(cut.scene.proxy, &rule);

        assert_code(rlock_try_lock(cut.actor.lock), RLOCK_EBUSY);
        assert_detail("held by somebody:1");
        assert_int_equal(proxy_fired(cut.scene.proxy, number), 1);
        proxy_remove(cut.scene.proxy, number);
    }
    verb_clean_up(&cut.actor);
    cut_close(&cut);
}

TEST(a_reset_within_the_greeting_at_any_byte_only_delays)
{
    struct cut cut;

    cut_open(&cut, 5000 * test_slack());
    for (size_t at = 0; at < 160; at += 8) {
        const struct proxy_rule rule = {.act = PROXY_CUT_IN_REPLY, .command = "HELLO", .at = at};
        int number = proxy_add(cut.scene.proxy, &rule);

        proxy_cut_all(cut.scene.proxy, PROXY_ANY);
        assert_code(actor_visit(&cut.actor, NULL), 0);
        assert_int_equal(proxy_fired(cut.scene.proxy, number), 1);
        proxy_remove(cut.scene.proxy, number);
    }
    cut_close(&cut);
}

/* The reply is lost, and what comes instead to the next copy is an error: the one after it finds
 * nothing to release, because the first one did. */
TEST(a_release_that_met_an_error_after_it_was_done_is_not_lost)
{
    static const char error[] = "-LOADING Redis is loading the dataset in memory\r\n";
    struct cut cut;
    struct proxy_rule lost = script_rule("release", PROXY_CUT_REPLY);
    struct proxy_rule loading = script_rule("release", PROXY_REPLACE_REPLY);

    cut_open(&cut, 2000 * test_slack());
    loading.bytes = error;
    loading.len = strlen(error);
    for (int i = 0; i < 3; i++) {
        assert_code(rlock_try_lock(cut.actor.lock), 0);
        proxy_add(cut.scene.proxy, &lost);
        proxy_add(cut.scene.proxy, &loading);
        assert_code(rlock_unlock(cut.actor.lock), 0);
        assert_false(scene_is_held(&cut.scene));
    }
    cut_close(&cut);
}

/* ---- Renewals ---- */

TEST(a_reset_around_a_renewal_leaves_the_hold_renewed)
{
    static const struct {
        enum proxy_act act;
        size_t at;
    } faults[] = {{PROXY_CUT_REQUEST, 0},   {PROXY_CUT_REPLY, 0},    {PROXY_CUT_IN_REPLY, 1},
                  {PROXY_CUT_IN_REPLY, 6},  {PROXY_CUT_IN_REPLY, 7}, {PROXY_CUT_IN_REPLY, 20},
                  {PROXY_CUT_IN_REPLY, 30}, {PROXY_REPEAT, 0}};
    const int64_t lease_ms = scene_ms(300);
    struct cut cut;
    struct actor holder;

    cut_open(&cut, 2000 * test_slack());
    actor_open(&holder, &cut.scene, RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms));
    assert_code(rlock_try_lock(holder.lock), 0);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct proxy_rule rule = script_rule("renew", faults[i].act);
        int number;

        rule.at = faults[i].at;
        number = proxy_add(cut.scene.proxy, &rule);
        assert_true(proxy_wait_fired(cut.scene.proxy, number, 1, 5000));
        assert_true(scene_wait_renewed(&cut.scene, lease_ms));
        assert_code(rlock_try_lock(cut.rival.lock), RLOCK_EBUSY);
        assert_true(actor_step(&holder));
        assert_int_equal(scene_count(&cut.scene), 1);
    }
    assert_code(rlock_unlock(holder.lock), 0);
    assert_int_equal(actor_losses(&holder), 0);
    actor_close(&holder);
    cut_close(&cut);
}

/* ---- Outcomes that nobody can know ---- */

/* The reply is cut off and no new connection goes. */
static int run_cut_off(struct cut *cut, const struct verb *verb, enum proxy_act act)
{
    struct proxy_rule rule = script_rule(verb->script, act);
    int64_t began_us;
    int code;

    verb_prepare(verb, &cut->actor);
    proxy_add(cut->scene.proxy, &rule);
    proxy_refuse(cut->scene.proxy, true);
    began_us = test_now_us();
    code = verb->run(&cut->actor);
    assert_within(began_us, 200);
    return code;
}

/* Where the request was done, and where it was not: nobody can tell. */
static void is_in_doubt(const struct verb *verb, enum proxy_act act)
{
    struct cut cut;
    long long count_before = verb->held;
    struct rlock_info info = RLOCK_INFO_INIT;

    cut_open(&cut, 200);
    assert_code(run_cut_off(&cut, verb, act), RLOCK_EINDOUBT);
    assert_detail("lock " SCENE_NAME);
    assert_free_in(LEASE_MS - 200 - SCENE_LATE_MS * test_slack() - 100, LEASE_MS);
    assert_int_equal(scene_count(&cut.scene),
                     act == PROXY_CUT_REPLY ? verb->count_after : count_before);
    if (scene_is_held(&cut.scene)) {
        assert_code(rlock_try_lock(cut.rival.lock), RLOCK_EBUSY);
    }
    proxy_refuse(cut.scene.proxy, false);
    assert_true(TEST_EVENTUALLY(rlock_inspect(cut.actor.lock, &info) == 0, 5000)); /* it is back */
    /* what nobody here wants is taken back long before its lease ends */
    if (verb == &verb_partial || verb == &verb_nested) {
        assert_true(TEST_EVENTUALLY(scene_count(&cut.scene) == 1, 5000));
        assert_true(TEST_EVENTUALLY(rlock_hold_count(cut.actor.lock) == 1, 5000));
        assert_true(actor_step(&cut.actor));
        assert_code(rlock_unlock(cut.actor.lock), 0);
    }
    assert_true(TEST_EVENTUALLY(!scene_is_held(&cut.scene), 5000));
    assert_true(TEST_EVENTUALLY(rlock_hold_count(cut.actor.lock) == 0, 5000));
    cut_close(&cut);
}

TEST(an_acquire_without_any_reply_is_in_doubt)
{
    is_in_doubt(&verb_acquire, PROXY_CUT_REPLY);
    is_in_doubt(&verb_acquire, PROXY_CUT_REQUEST);
}

TEST(a_nested_acquire_without_any_reply_is_in_doubt_and_its_outer_hold_is_not)
{
    is_in_doubt(&verb_nested, PROXY_CUT_REPLY);
    is_in_doubt(&verb_nested, PROXY_CUT_REQUEST);
}

TEST(a_partial_release_without_any_reply_is_in_doubt_and_goes_on)
{
    is_in_doubt(&verb_partial, PROXY_CUT_REPLY);
    is_in_doubt(&verb_partial, PROXY_CUT_REQUEST);
}

TEST(a_release_without_any_reply_is_in_doubt_and_goes_on)
{
    is_in_doubt(&verb_release, PROXY_CUT_REPLY);
    is_in_doubt(&verb_release, PROXY_CUT_REQUEST);
}

TEST(a_force_without_any_reply_is_in_doubt_and_never_sent_again)
{
    struct cut cut;
    int rule;

    cut_open(&cut, 200);
    assert_code(run_cut_off(&cut, &verb_force, PROXY_CUT_REPLY), RLOCK_EINDOUBT);
    assert_detail("lock " SCENE_NAME);
    assert_false(scene_is_held(&cut.scene));
    scene_take_by_hand(&cut.scene, 60000); /* the same one takes it again */
    rule = proxy_add(cut.scene.proxy, &(struct proxy_rule){.act = PROXY_PASS,
                                                           .command = "EVALSHA",
                                                           .contains = script_digest("force")});
    proxy_refuse(cut.scene.proxy, false);
    assert_code(rlock_lock_with(cut.actor.lock, RLOCK_TAKE(.wait_ms = 1000), NULL),
                RLOCK_ETIMEDOUT);
    assert_int_equal(proxy_fired(cut.scene.proxy, rule), 0);
    assert_int_equal(scene_count(&cut.scene), 1);
    verb_clean_up(&cut.actor);
    cut_close(&cut);
}

TEST(an_inspect_without_any_reply_has_no_connection)
{
    struct cut cut;

    cut_open(&cut, 200);
    assert_code(run_cut_off(&cut, &verb_inspect, PROXY_CUT_REPLY), RLOCK_ECONN);
    proxy_refuse(cut.scene.proxy, false);
    assert_code(rlock_lock_with(cut.actor.lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    verb_clean_up(&cut.actor);
    cut_close(&cut);
}

TEST(a_connection_that_breaks_at_every_command_is_not_made_again_at_once)
{
    struct cut cut;
    struct proxy_rule rule = script_rule("acquire", PROXY_CUT_REQUEST);
    int number, code;

    cut_open(&cut, 200);
    rule.times = PROXY_ALWAYS;
    number = proxy_add(cut.scene.proxy, &rule);
    code = rlock_lock_with(cut.actor.lock, RLOCK_TAKE(.wait_ms = 500), NULL);
    assert_true(code == RLOCK_EINDOUBT ||
                code == RLOCK_ECONN); /* where its last release got through */
    assert_in_range(proxy_fired(cut.scene.proxy, number), 3, 100);
    proxy_remove(cut.scene.proxy, number);
    assert_code(actor_visit(&cut.actor, RLOCK_TAKE(.wait_ms = 5000)), 0);
    cut_close(&cut);
}

/* ---- Under load ---- */

TEST(resets_under_load_break_no_promise)
{
    struct scene scene;
    struct actor actor, rival;
    const struct rlock_take take = {.size = sizeof(take), .wait_ms = 20000};
    struct crew crew = {.actor = &actor, .take = &take};
    struct crew others = {.actor = &rival, .take = &take};

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    actor_open(&actor, &scene,
               RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack(),
                                 .connect_timeout_ms = 5000 * test_slack()));
    actor_open_direct(&rival, &scene);
    crew_start(&crew, 4);
    crew_start(&others, 2);
    for (int i = 0; i < 100; i++) {
        uint64_t requests = proxy_stats(scene.proxy).requests;

        assert_true(proxy_wait_requests(scene.proxy, requests + 8, 20000));
        proxy_cut_all(scene.proxy, i % 3 == 0 ? PROXY_SUBSCRIBERS : PROXY_ANY);
    }
    crew_stop(&crew);
    crew_stop(&others);
    assert_true(atomic_load(&crew.visits) > 0 && atomic_load(&others.visits) > 0);
    assert_int_equal(actor_losses(&actor) + actor_losses(&rival), 0);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}
