/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renewals that fail: tried again while the lease lasts, and at once the end of what is not ours
 * any more. What is told of the server's clock is true.
 */
#include "fault/verbs.h"
#include "support/waiter.h"

#define LEASE_MS test_ms(500)

struct renewal {
    struct fixture f;
    struct user *user, *rival;
    int64_t lease_ms;
};

/* The user holds the lock. */
static void renewal_open(struct renewal *test, int64_t lease_ms, int64_t op_timeout_ms)
{
    test->lease_ms = lease_ms;
    fixture_open(&test->f, &(struct fixture_opts){.proxy = PROXY_AS_LEG});
    verbs_load(&test->f);
    test->user = user_open(
        &test->f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms, .op_timeout_ms = op_timeout_ms));
    test->rival = user_open_direct(&test->f);
    assert_code(rlock_lock(test->user->lock), 0);
}

static void renewal_close(struct renewal *test)
{
    fixture_close(&test->f);
}

#define RENEWAL_TEST(name, test, lease_ms, op_timeout_ms)                                          \
    TEST_AROUND(name, struct renewal, test, renewal_open(test, lease_ms, op_timeout_ms),           \
                renewal_close(test))

/* The hold is still there, is renewed, and was never lost. */
static void renewal_is_held(struct renewal *test)
{
    assert_true(fixture_wait_renewed(&test->f, test->lease_ms));
    assert_true(user_step(test->user));
    assert_code(rlock_try_lock(test->rival->lock), RLOCK_EBUSY);
    assert_int_equal(user_losses(test->user), 0);
}

static int renewal_fault(const struct renewal *test, enum proxy_act act, unsigned int times)
{
    struct proxy_rule rule = script_rule("renew", act);

    rule.times = times;
    return proxy_add(test->f.proxy, &rule);
}

RENEWAL_TEST(a_renewal_without_an_answer_is_tried_again_within_the_lease, test, LEASE_MS,
             test_ms(80))
{
    for (int i = 0; i < 4; i++) {
        int rule = renewal_fault(test, i % 2 == 0 ? PROXY_DROP_REPLY : PROXY_DROP_REQUEST, 2);

        assert_true(proxy_wait_fired(test->f.proxy, rule, 2, 5000));
        renewal_is_held(test);
    }
    assert_code(rlock_unlock(test->user->lock), 0);
    assert_code(user_visit(test->rival, 0, NULL), 0);
}

RENEWAL_TEST(errors_that_pass_do_not_end_renewal, test, LEASE_MS, 1000 * test_slack())
{
    static const char *const errors[] = {
        "-BUSY Redis is busy running a script.\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-NOPERM this user has no permissions\r\n",
        ":1\r\n",
        "*0\r\n",
    };
    struct proxy_rule rule = script_rule("renew", PROXY_REPLACE_REPLY);

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        int number;

        rule.bytes = errors[i];
        rule.len = strlen(errors[i]);
        number = proxy_add(test->f.proxy, &rule);
        assert_true(proxy_wait_fired(test->f.proxy, number, 1, 5000));
        renewal_is_held(test);
        proxy_remove(test->f.proxy, number);
    }
    assert_code(rlock_unlock(test->user->lock), 0);
}

/* The server answers well again when little of the lease is left: that is not too late. */
RENEWAL_TEST(a_renewal_is_tried_again_up_to_the_end_of_the_lease, test, LEASE_MS, 60000)
{
    static const char error[] = "-BUSY Redis is busy running a script.\r\n";
    const int64_t lease_ms = 4000;
    struct user *holder;

    assert_code(rlock_unlock(test->user->lock), 0);
    holder = user_open(&test->f,
                       *RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms, .op_timeout_ms = 60000));
    assert_code(rlock_try_lock(holder->lock), 0);
    for (int i = 0; i < (test_slack() > 1 ? 1 : 2); i++) {
        struct proxy_rule rule = script_rule("renew", PROXY_REPLACE_REPLY);
        int number;

        rule.times = PROXY_ALWAYS;
        rule.bytes = error;
        rule.len = strlen(error);
        number = proxy_add(test->f.proxy, &rule);
        assert_true(TEST_EVENTUALLY(rlock_valid_ms(holder->lock) <= lease_ms / 8, 5000));
        proxy_remove(test->f.proxy, number);
        assert_true(TEST_EVENTUALLY(
            rlock_valid_ms(holder->lock) > lease_ms / 2 || user_losses(holder) > 0, 5000));
        assert_int_equal(user_losses(holder), 0);
    }
    assert_code(rlock_unlock(holder->lock), 0);
    user_close(holder);
}

RENEWAL_TEST(without_any_renewal_the_hold_ends_with_its_validity, test, LEASE_MS, test_ms(40))
{
    int64_t began_us;

    (void)renewal_fault(test, PROXY_DROP_REQUEST, PROXY_ALWAYS);
    began_us = test_now_us();
    assert_true(user_work(test->user) - began_us < LEASE_MS * 1000);
    assert_int_equal(user_wait_loss(test->user, 1), RLOCK_LOST_EXPIRED);
    assert_code(user_visit(test->rival, 5000, NULL), 0);
    assert_code(rlock_unlock(test->user->lock), RLOCK_ELOST);
    assert_int_equal(user_losses(test->user), 1);
}

RENEWAL_TEST(a_renewal_answered_not_yours_loses_the_hold_at_once, test, LEASE_MS,
             1000 * test_slack())
{
    struct proxy_rule rule = script_rule("renew", PROXY_PASS);
    int64_t answered_us;
    int number;

    number = proxy_add(test->f.proxy, &rule);
    test_server_do(test->f.server, "DEL " LOCK_A);
    fixture_take_by_hand(&test->f, 60000);
    assert_true(proxy_wait_fired(test->f.proxy, number, 1, 5000));
    answered_us = test_now_us();
    assert_int_equal(user_wait_loss(test->user, 1), RLOCK_LOST_TAKEN);
    assert_true(test_in_time(answered_us, test->user->diary.told[0].at_us - answered_us,
                             (int64_t)CALL_LATE_MS * 1000 * test_slack()));
    assert_false(rlock_is_valid(test->user->lock)); /* though most of its lease was left */
    assert_code(rlock_unlock(test->user->lock), RLOCK_ELOST);
    assert_int_equal(fixture_count(&test->f), 1);
    assert_int_equal(proxy_fired(test->f.proxy, number), 1); /* the last one */
    test_server_do(test->f.server, "DEL " LOCK_A);
}

RENEWAL_TEST(a_renewal_that_comes_after_the_loss_brings_nothing_back, test, LEASE_MS, 60000)
{
    struct proxy_rule rule = script_rule("renew", PROXY_DELAY_REPLY);
    int number;

    rule.delay_us = (int64_t)LEASE_MS * 1000;
    number = proxy_add(test->f.proxy, &rule);
    assert_true(proxy_wait_fired(test->f.proxy, number, 1, 5000));
    (void)user_work(test->user);
    assert_int_equal(user_wait_loss(test->user, 1), RLOCK_LOST_EXPIRED);
    /* the server said yes, too late to count, and has it a while longer */
    assert_code(user_visit(test->rival, 60000, NULL), 0);
    assert_false(rlock_is_valid(test->user->lock));
    assert_code(rlock_unlock(test->user->lock), RLOCK_ELOST);
    assert_int_equal(user_losses(test->user), 1);
}

/* A renewal that took long tells little of the server's clock. */
RENEWAL_TEST(a_slow_renewal_is_no_step_of_the_servers_clock, test, LEASE_MS, 60000)
{
    struct user *holder;
    struct proxy_rule rule = script_rule("renew", PROXY_DELAY_REPLY);
    const int64_t lease_ms = 3000;
    int number;

    assert_code(rlock_unlock(test->user->lock), 0);
    holder = user_open(&test->f,
                       *RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms, .op_timeout_ms = 60000));
    assert_code(rlock_try_lock(holder->lock), 0);
    assert_true(fixture_wait_renewed(&test->f, lease_ms));
    rule.delay_us = 700000;
    number = proxy_add(test->f.proxy, &rule);
    assert_true(proxy_wait_fired(test->f.proxy, number, 1, 5000));
    assert_true(fixture_wait_renewed(&test->f, lease_ms));
    assert_true(fixture_wait_renewed(&test->f, lease_ms));
    assert_code(rlock_unlock(holder->lock), 0);
    assert_int_equal(user_logged(holder, "its clock was set"), 0);
    assert_int_equal(user_losses(holder), 0);
    user_close(holder);
}

/* ---- Many holds ---- */

#define MANY 250 /* three batches */

/* Six cuts want time. */
RENEWAL_TEST(many_holds_survive_a_cut_between_their_batches, test, 3 * LEASE_MS,
             2000 * test_slack())
{
    struct rlock_handle *locks[MANY];
    char name[16];

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "m%d", i);
        locks[i] = user_lock(test->user, name);
        assert_code(rlock_try_lock(locks[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        int rule = renewal_fault(test, i % 2 == 0 ? PROXY_CUT_REPLY : PROXY_CUT_REQUEST, 1);

        assert_true(proxy_wait_fired(test->f.proxy, rule, 1, 5000));
    }
    renewal_is_held(test);
    for (int i = 0; i < MANY; i++) {
        assert_true(rlock_is_valid(locks[i]) || test_expired(test->lease_ms * 1000));
        assert_code(rlock_unlock(locks[i]), 0);
    }
    assert_code(rlock_unlock(test->user->lock), 0);
    assert_int_equal(user_losses(test->user), 0);
}
