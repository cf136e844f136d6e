/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renewals that fail: tried again while the lease lasts, and at once the end of what is not ours
 * any more. What is told of the server's clock is true.
 */
#include "fault/scene.h"
#include "fault/verbs.h"
#include "support/test.h"

#define LEASE_MS scene_ms(500)

struct renewal {
    struct scene scene;
    struct actor actor, rival;
    int64_t lease_ms;
};

/* The actor holds the lock. */
static void renewal_open(struct renewal *test, int64_t lease_ms, int64_t op_timeout_ms)
{
    test->lease_ms = lease_ms;
    scene_open(&test->scene, &(struct scene_opts){.proxied = true});
    verbs_load(&test->scene);
    actor_open(&test->actor, &test->scene,
               RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms, .op_timeout_ms = op_timeout_ms));
    actor_open_direct(&test->rival, &test->scene);
    assert_code(rlock_try_lock(test->actor.lock), 0);
}

static void renewal_close(struct renewal *test)
{
    actor_close(&test->actor);
    actor_close(&test->rival);
    scene_close(&test->scene);
}

/* The hold is still there, is renewed, and was never lost. */
static void renewal_is_held(struct renewal *test)
{
    assert_true(scene_wait_renewed(&test->scene, test->lease_ms));
    assert_true(actor_step(&test->actor));
    assert_code(rlock_try_lock(test->rival.lock), RLOCK_EBUSY);
    assert_int_equal(actor_losses(&test->actor), 0);
}

static int renewal_fault(const struct renewal *test, enum proxy_act act, unsigned int times)
{
    struct proxy_rule rule = script_rule("renew", act);

    rule.times = times;
    return proxy_add(test->scene.proxy, &rule);
}

TEST(a_renewal_without_an_answer_is_tried_again_within_the_lease)
{
    struct renewal test;

    renewal_open(&test, LEASE_MS, scene_ms(40));
    for (int i = 0; i < 4; i++) {
        int rule = renewal_fault(&test, i % 2 == 0 ? PROXY_DROP_REPLY : PROXY_DROP_REQUEST, 2);

        assert_true(proxy_wait_fired(test.scene.proxy, rule, 2, 5000));
        renewal_is_held(&test);
    }
    assert_code(rlock_unlock(test.actor.lock), 0);
    assert_code(actor_visit(&test.rival, NULL), 0);
    renewal_close(&test);
}

TEST(errors_that_pass_do_not_end_renewal)
{
    static const char *const errors[] = {
        "-BUSY Redis is busy running a script.\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-NOPERM this user has no permissions\r\n",
        ":1\r\n",
        "*0\r\n",
    };
    struct renewal test;
    struct proxy_rule rule = script_rule("renew", PROXY_REPLACE_REPLY);

    renewal_open(&test, LEASE_MS, 1000 * test_slack());
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        int number;

        rule.bytes = errors[i];
        rule.len = strlen(errors[i]);
        number = proxy_add(test.scene.proxy, &rule);
        assert_true(proxy_wait_fired(test.scene.proxy, number, 1, 5000));
        renewal_is_held(&test);
        proxy_remove(test.scene.proxy, number);
    }
    assert_code(rlock_unlock(test.actor.lock), 0);
    renewal_close(&test);
}

/* The server answers well again when little of the lease is left: that is not too late. */
TEST(a_renewal_is_tried_again_up_to_the_end_of_the_lease)
{
    static const char error[] = "-BUSY Redis is busy running a script.\r\n";
    const int64_t lease_ms = 4000;
    struct renewal test;
    struct actor holder;

    renewal_open(&test, LEASE_MS, 60000);
    assert_code(rlock_unlock(test.actor.lock), 0);
    actor_open(&holder, &test.scene,
               RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms, .op_timeout_ms = 60000));
    assert_code(rlock_try_lock(holder.lock), 0);
    for (int i = 0; i < (test_slack() > 1 ? 1 : 2); i++) {
        struct proxy_rule rule = script_rule("renew", PROXY_REPLACE_REPLY);
        int number;

        rule.times = PROXY_ALWAYS;
        rule.bytes = error;
        rule.len = strlen(error);
        number = proxy_add(test.scene.proxy, &rule);
        assert_true(TEST_EVENTUALLY(rlock_valid_ms(holder.lock) <= lease_ms / 8, 5000));
        proxy_remove(test.scene.proxy, number);
        assert_true(TEST_EVENTUALLY(
            rlock_valid_ms(holder.lock) > lease_ms / 2 || actor_losses(&holder) > 0, 5000));
        assert_int_equal(actor_losses(&holder), 0);
    }
    assert_code(rlock_unlock(holder.lock), 0);
    actor_close(&holder);
    renewal_close(&test);
}

TEST(without_any_renewal_the_hold_ends_with_its_validity)
{
    struct renewal test;
    int64_t began_us;

    renewal_open(&test, LEASE_MS, scene_ms(40));
    (void)renewal_fault(&test, PROXY_DROP_REQUEST, PROXY_ALWAYS);
    began_us = test_now_us();
    assert_true(actor_work(&test.actor) - began_us < LEASE_MS * 1000);
    assert_int_equal(actor_wait_loss(&test.actor, 1), RLOCK_LOST_EXPIRED);
    assert_code(actor_visit(&test.rival, RLOCK_TAKE(.wait_ms = 5000)), 0);
    assert_code(rlock_unlock(test.actor.lock), RLOCK_ELOST);
    assert_int_equal(actor_losses(&test.actor), 1);
    renewal_close(&test);
}

TEST(a_renewal_answered_not_yours_loses_the_hold_at_once)
{
    struct renewal test;
    struct proxy_rule rule = script_rule("renew", PROXY_PASS);
    int64_t answered_us;
    int number;

    renewal_open(&test, LEASE_MS, 1000 * test_slack());
    number = proxy_add(test.scene.proxy, &rule);
    free(test_server_cmd(test.scene.server, "DEL " SCENE_NAME));
    scene_take_by_hand(&test.scene, 60000);
    assert_true(proxy_wait_fired(test.scene.proxy, number, 1, 5000));
    answered_us = test_now_us();
    assert_int_equal(actor_wait_loss(&test.actor, 1), RLOCK_LOST_TAKEN);
    assert_true(test_in_time(answered_us, test.actor.diary.lost_at_us[0] - answered_us,
                             (int64_t)SCENE_LATE_MS * 1000 * test_slack()));
    assert_false(rlock_is_valid(test.actor.lock)); /* though most of its lease was left */
    assert_code(rlock_unlock(test.actor.lock), RLOCK_ELOST);
    assert_int_equal(scene_count(&test.scene), 1);
    assert_int_equal(proxy_fired(test.scene.proxy, number), 1); /* the last one */
    free(test_server_cmd(test.scene.server, "DEL " SCENE_NAME));
    renewal_close(&test);
}

TEST(a_renewal_that_comes_after_the_loss_brings_nothing_back)
{
    struct renewal test;
    struct proxy_rule rule = script_rule("renew", PROXY_DELAY_REPLY);
    int number;

    renewal_open(&test, LEASE_MS, 60000);
    rule.delay_us = (int64_t)LEASE_MS * 1000;
    number = proxy_add(test.scene.proxy, &rule);
    assert_true(proxy_wait_fired(test.scene.proxy, number, 1, 5000));
    (void)actor_work(&test.actor);
    assert_int_equal(actor_wait_loss(&test.actor, 1), RLOCK_LOST_EXPIRED);
    /* the server said yes, too late to count, and has it a while longer */
    assert_code(actor_visit(&test.rival, RLOCK_TAKE(.wait_ms = 60000)), 0);
    assert_false(rlock_is_valid(test.actor.lock));
    assert_code(rlock_unlock(test.actor.lock), RLOCK_ELOST);
    assert_int_equal(actor_losses(&test.actor), 1);
    renewal_close(&test);
}

/* A renewal that took long tells little of the server's clock. */
TEST(a_slow_renewal_is_no_step_of_the_servers_clock)
{
    struct renewal test;
    struct actor holder;
    struct proxy_rule rule = script_rule("renew", PROXY_DELAY_REPLY);
    const int64_t lease_ms = 3000;
    int number;

    renewal_open(&test, LEASE_MS, 60000);
    assert_code(rlock_unlock(test.actor.lock), 0);
    actor_open(&holder, &test.scene,
               RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms, .op_timeout_ms = 60000));
    assert_code(rlock_try_lock(holder.lock), 0);
    assert_true(scene_wait_renewed(&test.scene, lease_ms));
    rule.delay_us = 700000;
    number = proxy_add(test.scene.proxy, &rule);
    assert_true(proxy_wait_fired(test.scene.proxy, number, 1, 5000));
    assert_true(scene_wait_renewed(&test.scene, lease_ms));
    assert_true(scene_wait_renewed(&test.scene, lease_ms));
    assert_code(rlock_unlock(holder.lock), 0);
    assert_int_equal(actor_logged(&holder, "its clock was set"), 0);
    assert_int_equal(actor_losses(&holder), 0);
    actor_close(&holder);
    renewal_close(&test);
}

/* ---- Many holds ---- */

#define MANY 250 /* three batches */

TEST(many_holds_survive_a_cut_between_their_batches)
{
    struct renewal test;
    struct rlock *locks[MANY];
    char name[16];

    renewal_open(&test, 3 * LEASE_MS, 2000 * test_slack()); /* six cuts want time */
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "m%d", i);
        locks[i] = actor_lock(&test.actor, name);
        assert_code(rlock_try_lock(locks[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        int rule = renewal_fault(&test, i % 2 == 0 ? PROXY_CUT_REPLY : PROXY_CUT_REQUEST, 1);

        assert_true(proxy_wait_fired(test.scene.proxy, rule, 1, 5000));
    }
    renewal_is_held(&test);
    for (int i = 0; i < MANY; i++) {
        assert_true(rlock_is_valid(locks[i]) || test_expired(test.lease_ms * 1000));
        assert_code(rlock_unlock(locks[i]), 0);
        locks[i] = rlock_free(locks[i]);
    }
    assert_code(rlock_unlock(test.actor.lock), 0);
    assert_int_equal(actor_losses(&test.actor), 0);
    renewal_close(&test);
}
