/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that break around a command: before it went out, after it was done, in the middle of
 * its reply. The hold count on the server ends right, and "in doubt" is said only where nothing
 * else is true.
 */
#include "fault/verbs.h"
#include "support/waiter.h"

#define LEASE_MS 10000

/* A fixture with a user on the proxy and its rival beside it. */
struct cut {
    struct fixture f;
    struct user *user, *rival;
};

static void cut_open(struct cut *cut, int64_t op_timeout_ms)
{
    fixture_open(&cut->f, &(struct fixture_opts){.proxy = PROXY_AS_LEG});
    verbs_load(&cut->f);
    cut->user = user_open(
        &cut->f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = op_timeout_ms, .renewed_lease_ms = LEASE_MS));
    cut->rival = user_open_direct(&cut->f);
    assert_code(user_visit(cut->user, 0, NULL), 0);
}

static void cut_close(struct cut *cut)
{
    assert_code(user_visit(cut->rival, 0, NULL), 0);
    assert_int_equal(user_losses(cut->user), 0);
    fixture_close(&cut->f);
}

#define CUT_TEST(name, cut, op_timeout_ms)                                                         \
    TEST_AROUND(name, struct cut, cut, cut_open(cut, op_timeout_ms), cut_close(cut))

/* Runs the verb while its connection breaks as the rule says, and looks at what came of it. */
static void goes_well(struct cut *cut, const struct verb *verb, const struct proxy_rule *rule)
{
    int code, number;

    verb_prepare(verb, cut->user);
    number = proxy_add(cut->f.proxy, rule);
    code = verb->run(cut->user);
    if (code != 0 && !(verb->once && code == RLOCK_EINDOUBT)) {
        fail_msg("%s: %s: %s", verb->name, rlock_code_name(code), rlock_detail());
    }
    if (code == 0 && fixture_count(&cut->f) != verb->count_after) {
        fail_msg("%s: count %lld", verb->name, fixture_count(&cut->f));
    }
    if (proxy_fired(cut->f.proxy, number) != 1) {
        fail_msg("%s: met no fault", verb->name);
    }
    if (verb->count_after > 0) {
        assert_code(rlock_try_lock(cut->rival->lock), RLOCK_EBUSY);
        assert_true(user_step(cut->user));
    }
    verb_clean_up(cut->user);
    proxy_remove(cut->f.proxy, number);
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

CUT_TEST(a_request_that_arrives_twice_counts_once, cut, 2000 * test_slack())
{
    for (size_t i = 0; verbs[i] != NULL; i++) {
        if (!verbs[i]->once) {
            struct proxy_rule rule = script_rule(verbs[i]->script, PROXY_REPEAT);

            goes_well(cut, verbs[i], &rule);
        }
    }
}

/* Every reply of ours is shorter than this, but for that of inspect. */
#define REPLY_BYTES 16

CUT_TEST(a_reset_within_the_reply_at_any_byte_leaves_the_count_right, cut, 2000 * test_slack())
{
    for (size_t i = 0; verbs[i] != NULL; i++) {
        struct proxy_rule rule = script_rule(verbs[i]->script, PROXY_CUT_IN_REPLY);

        for (rule.at = 0; rule.at <= REPLY_BYTES; rule.at++) {
            goes_well(cut, verbs[i], &rule);
        }
    }
}

CUT_TEST(a_reset_within_the_answer_busy_at_any_byte_is_still_busy, cut, 2000 * test_slack())
{
    struct proxy_rule rule = script_rule("acquire", PROXY_CUT_IN_REPLY);

    fixture_take_by_hand(&cut->f, 60000);
    for (rule.at = 0; rule.at <= 40; rule.at++) {
        int number = proxy_add(cut->f.proxy, &rule);

        assert_code(rlock_try_lock(cut->user->lock), RLOCK_EBUSY);
        assert_detail("held by somebody:1");
        assert_int_equal(proxy_fired(cut->f.proxy, number), 1);
        proxy_remove(cut->f.proxy, number);
    }
    verb_clean_up(cut->user);
}

CUT_TEST(a_reset_within_the_greeting_at_any_byte_only_delays, cut, 5000 * test_slack())
{
    for (size_t at = 0; at < 160; at += 8) {
        const struct proxy_rule rule = {.act = PROXY_CUT_IN_REPLY, .command = "HELLO", .at = at};
        int number = proxy_add(cut->f.proxy, &rule);

        proxy_cut_all(cut->f.proxy, PROXY_ANY);
        assert_code(user_visit(cut->user, 0, NULL), 0);
        assert_int_equal(proxy_fired(cut->f.proxy, number), 1);
        proxy_remove(cut->f.proxy, number);
    }
}

/* The reply is lost, and what comes instead to the next copy is an error: the one after it finds
 * nothing to release, because the first one did. */
CUT_TEST(a_release_that_met_an_error_after_it_was_done_is_not_lost, cut, 2000 * test_slack())
{
    static const char error[] = "-LOADING Redis is loading the dataset in memory\r\n";
    struct proxy_rule lost = script_rule("release", PROXY_CUT_REPLY);
    struct proxy_rule loading = script_rule("release", PROXY_REPLACE_REPLY);

    loading.bytes = error;
    loading.len = strlen(error);
    for (int i = 0; i < 3; i++) {
        assert_code(rlock_try_lock(cut->user->lock), 0);
        proxy_add(cut->f.proxy, &lost);
        proxy_add(cut->f.proxy, &loading);
        assert_code(rlock_unlock(cut->user->lock), 0);
        assert_false(fixture_is_held(&cut->f));
    }
}

/* ---- Renewals ---- */

CUT_TEST(a_reset_around_a_renewal_leaves_the_hold_renewed, cut, 2000 * test_slack())
{
    static const struct {
        enum proxy_act act;
        size_t at;
    } faults[] = {{PROXY_CUT_REQUEST, 0},   {PROXY_CUT_REPLY, 0},    {PROXY_CUT_IN_REPLY, 1},
                  {PROXY_CUT_IN_REPLY, 6},  {PROXY_CUT_IN_REPLY, 7}, {PROXY_CUT_IN_REPLY, 20},
                  {PROXY_CUT_IN_REPLY, 30}, {PROXY_REPEAT, 0}};
    const int64_t lease_ms = test_ms(300);
    struct user *holder;

    holder = user_open(&cut->f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms));
    assert_code(rlock_try_lock(holder->lock), 0);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct proxy_rule rule = script_rule("renew", faults[i].act);
        int number;

        rule.at = faults[i].at;
        number = proxy_add(cut->f.proxy, &rule);
        assert_true(proxy_wait_fired(cut->f.proxy, number, 1, 5000));
        assert_true(fixture_wait_renewed(&cut->f, lease_ms));
        assert_code(rlock_try_lock(cut->rival->lock), RLOCK_EBUSY);
        assert_true(user_step(holder));
        assert_int_equal(fixture_count(&cut->f), 1);
    }
    assert_code(rlock_unlock(holder->lock), 0);
    assert_int_equal(user_losses(holder), 0);
    user_close(holder);
}

/* ---- Outcomes that nobody can know ---- */

/* The reply is cut off and no new connection goes. */
static int run_cut_off(struct cut *cut, const struct verb *verb, enum proxy_act act)
{
    struct proxy_rule rule = script_rule(verb->script, act);
    int64_t began_us;
    int code;

    verb_prepare(verb, cut->user);
    proxy_add(cut->f.proxy, &rule);
    proxy_refuse(cut->f.proxy, true);
    began_us = test_now_us();
    code = verb->run(cut->user);
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
    assert_detail("lock " LOCK_A);
    assert_free_in(LEASE_MS - 200 - CALL_LATE_MS * test_slack() - 100, LEASE_MS);
    assert_int_equal(fixture_count(&cut.f),
                     act == PROXY_CUT_REPLY ? verb->count_after : count_before);
    if (fixture_is_held(&cut.f)) {
        assert_code(rlock_try_lock(cut.rival->lock), RLOCK_EBUSY);
    }
    proxy_refuse(cut.f.proxy, false);
    assert_true(TEST_EVENTUALLY(rlock_inspect(cut.user->lock, &info) == 0, 5000)); /* it is back */
    /* what nobody here wants is taken back long before its lease ends */
    if (verb == &verb_partial || verb == &verb_nested) {
        assert_true(TEST_EVENTUALLY(fixture_count(&cut.f) == 1, 5000));
        assert_true(TEST_EVENTUALLY(rlock_hold_count(cut.user->lock) == 1, 5000));
        assert_true(user_step(cut.user));
        assert_code(rlock_unlock(cut.user->lock), 0);
    }
    assert_true(TEST_EVENTUALLY(!fixture_is_held(&cut.f), 5000));
    assert_true(TEST_EVENTUALLY(rlock_hold_count(cut.user->lock) == 0, 5000));
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

CUT_TEST(a_force_without_any_reply_is_in_doubt_and_never_sent_again, cut, 200)
{
    int rule;

    assert_code(run_cut_off(cut, &verb_force, PROXY_CUT_REPLY), RLOCK_EINDOUBT);
    assert_detail("lock " LOCK_A);
    assert_false(fixture_is_held(&cut->f));
    fixture_take_by_hand(&cut->f, 60000); /* the same one takes it again */
    rule = proxy_add(cut->f.proxy, &(struct proxy_rule){.act = PROXY_PASS,
                                                        .command = "EVALSHA",
                                                        .contains = script_digest("force")});
    proxy_refuse(cut->f.proxy, false);
    assert_code(rlock_lock_for(cut->user->lock, 1000, NULL, NULL), RLOCK_ETIMEDOUT);
    assert_int_equal(proxy_fired(cut->f.proxy, rule), 0);
    assert_int_equal(fixture_count(&cut->f), 1);
    verb_clean_up(cut->user);
}

CUT_TEST(an_inspect_without_any_reply_has_no_connection, cut, 200)
{
    assert_code(run_cut_off(cut, &verb_inspect, PROXY_CUT_REPLY), RLOCK_ECONN);
    proxy_refuse(cut->f.proxy, false);
    assert_code(rlock_lock_for(cut->user->lock, 5000, NULL, NULL), 0);
    verb_clean_up(cut->user);
}

CUT_TEST(a_connection_that_breaks_at_every_command_is_not_made_again_at_once, cut, 200)
{
    struct proxy_rule rule = script_rule("acquire", PROXY_CUT_REQUEST);
    int number, code;

    rule.times = PROXY_ALWAYS;
    number = proxy_add(cut->f.proxy, &rule);
    code = rlock_lock_for(cut->user->lock, 500, NULL, NULL);
    /* Not in doubt if its last release got through. */
    assert_true(code == RLOCK_EINDOUBT || code == RLOCK_ETIMEDOUT || code == RLOCK_ECONN);
    assert_in_range(proxy_fired(cut->f.proxy, number), 3, 100);
    proxy_remove(cut->f.proxy, number);
    assert_code(user_visit(cut->user, 5000, NULL), 0);
}

/* ---- Under load ---- */

FIXTURE_WITH_TEST(resets_under_load_break_no_promise, f, .proxy = PROXY_AS_LEG)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack(),
                                                        .connect_timeout_ms = 5000 * test_slack()));
    struct user *rival = user_open_direct(f);
    const int64_t wait_ms = 20000;
    struct crew crew = {.wait_ms = wait_ms};
    struct crew others = {.wait_ms = wait_ms};

    crew_start(&crew, user, 4);
    crew_start(&others, rival, 2);
    for (int i = 0; i < 100; i++) {
        uint64_t requests = proxy_stats(f->proxy).requests;

        assert_true(proxy_wait_requests(f->proxy, requests + 8, 20000));
        proxy_cut_all(f->proxy, i % 3 == 0 ? PROXY_SUBSCRIBERS : PROXY_ANY);
    }
    crew_stop(&crew);
    crew_stop(&others);
    assert_true(atomic_load(&crew.visits) > 0 && atomic_load(&others.visits) > 0);
    assert_int_equal(user_losses(user) + user_losses(rival), 0);
}
