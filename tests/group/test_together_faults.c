/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks whose members one script takes, when something breaks or gives up. */
#include "group/together.h"
#include "support/stall.h"

TOGETHER_TEST(a_cut_before_the_answer_takes_them_once, t)
{
    proxy_cut_after_requests(t->f.proxy, 1);
    assert_code(rlock_lock_for(t->multi[0], 5000, NULL, NULL), 0);
    assert_true(test_server_says(t->f.server, "1", "HVALS a"));
    assert_true(test_server_says(t->f.server, "1", "HVALS b"));
    assert_code(rlock_unlock(t->multi[0]), 0);
}

TOGETHER_TEST(without_an_answer_nothing_stays, t)
{
    int code;

    proxy_add(t->f.proxy, &(struct proxy_rule){.act = PROXY_HOLD, .command = "EVALSHA"});
    code = rlock_lock_for(t->multi[0], 100, NULL, NULL);
    /* the next link may prove that nothing is there */
    assert_true(code == RLOCK_EINDOUBT || code == RLOCK_ETIMEDOUT);
    if (code == RLOCK_EINDOUBT) {
        assert_detail("free again in ");
        assert_detail("a on server ");
        assert_detail("b on server ");
    }
    proxy_hold_requests(t->f.proxy, false);
}

TOGETHER_TEST(a_doubt_says_when_it_is_free_and_names_members_and_server, t)
{
    test_server_freeze(t->f.server); /* no link can prove that nothing is there */
    assert_code(rlock_try_lock(t->multi[0]), RLOCK_EINDOUBT);
    assert_detail("free again in ");
    assert_detail("a on server ");
    assert_detail("b on server ");
    assert_detail(proxy_url(t->f.proxy));
    test_server_thaw(t->f.server);
}

/* The first member's script does all its work before the second's is refused. */
TOGETHER_TEST(what_a_script_that_failed_left_is_given_back, t)
{
    struct rlock_handle *members[2], *multi;

    members[0] = t->one->lock;
    assert_code(rlock_fenced_new(t->one->client, "f", NULL, &members[1]), 0);
    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    test_server_do(t->f.server, "ACL SETUSER default -set");
    assert_code(rlock_try_lock(multi), RLOCK_EPERM);
    assert_int_equal(fixture_holding(&t->f, "a"), 0);
    assert_int_equal(fixture_holding(&t->f, "f"), 0);
    test_server_do(t->f.server, "ACL SETUSER default +set");
    multi = rlock_free(multi);
    members[1] = rlock_free(members[1]);
}

/* The error comes when the call has given up already, and the releases behind it do not arrive. */
TOGETHER_TEST(what_a_script_that_failed_late_left_is_in_doubt, t)
{
    struct rlock_handle *members[2], *multi;
    struct proxy *proxy = t->f.proxy;

    members[0] = t->one->lock;
    assert_code(rlock_fenced_new(t->one->client, "f", NULL, &members[1]), 0);
    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    test_server_do(t->f.server, "ACL SETUSER default -set");
    proxy_add(proxy, &(struct proxy_rule){
                         .act = PROXY_DELAY_REPLY, .command = "EVALSHA", .delay_us = 120000});
    proxy_add(proxy, &(struct proxy_rule){
                         .act = PROXY_DROP_REQUEST, .command = "EVALSHA", .skip = 1, .times = 2});
    assert_code(rlock_lock_for(multi, 100, NULL, NULL), RLOCK_EINDOUBT);
    test_server_do(t->f.server, "ACL SETUSER default +set");
    multi = rlock_free(multi);
    members[1] = rlock_free(members[1]);
}

/* Its members do not wait, but it does. */
TOGETHER_TEST(a_level_more_whose_answer_comes_behind_the_wait_is_taken, t)
{
    const int64_t wait_ms = 50 * test_slack(); /* the answer has twice that time, and more */

    assert_code(rlock_lock_for(t->multi[0], 5000, NULL, NULL), 0);
    proxy_add(t->f.proxy, &(struct proxy_rule){.act = PROXY_DELAY_REPLY,
                                               .command = "EVALSHA",
                                               .delay_us = (wait_ms + 10) * 1000});
    assert_code(rlock_lock_for(t->multi[0], wait_ms, NULL, NULL), 0);
    assert_code(rlock_unlock(t->multi[0]), 0);
    assert_code(rlock_unlock(t->multi[0]), 0);
}

TOGETHER_TEST(an_error_that_passes_is_waited_out, t)
{
    struct waiter waiter;
    const uint64_t before = requests(t);

    test_server_do(t->f.server, "CONFIG SET min-replicas-to-write 1");
    pass_through(&waiter, t->multi[1]);
    assert_true(proxy_wait_requests(t->f.proxy, before + 2, 5000)); /* refused once */
    test_server_do(t->f.server, "CONFIG SET min-replicas-to-write 0");
    waiter_passed(&waiter);
}

TOGETHER_TEST(one_that_is_of_the_wrong_type_leaves_nothing, t)
{
    test_server_do(t->f.server, "SET b text");
    assert_code(rlock_try_lock(t->multi[0]), RLOCK_EWRONGTYPE);
    assert_int_equal(fixture_holding(&t->f, "a"), 0);
    test_server_do(t->f.server, "DEL b");
}

TOGETHER_TEST(a_cancel_ends_the_wait_of_all, t)
{
    struct rlock_cancel *cancel;
    struct waiter waiter;

    assert_code(rlock_cancel_new(&cancel), 0);
    assert_code(rlock_try_lock(t->b[0]), 0);
    waiter_start_on(&waiter, NULL, t->multi[1], 30000, RLOCK_TAKE(.cancel = cancel));
    assert_true(proxy_wait_subscribers(t->f.proxy, 1, 5000));
    rlock_cancel_fire(cancel);
    assert_int_equal(waiter_join(&waiter), RLOCK_ECANCELED);
    assert_int_equal(fixture_holding(&t->f, "a"), 0);
    assert_code(rlock_unlock(t->b[0]), 0);
    cancel = rlock_cancel_free(cancel);
}

/* Two threads that act for one owner, on multi-locks that overlap: neither waits for the other's
 * turn while that one waits for its own. */
struct twin {
    pthread_t thread;
    struct rlock_handle *multi;
    uint64_t owner;
};

static void *take_as_owner(void *arg)
{
    const struct twin *twin = arg;

    for (int i = 0; i < 200; i++) {
        TEST_CHECK(rlock_lock_for(twin->multi, 20000, RLOCK_TAKE(.owner = twin->owner), NULL) == 0);
        TEST_CHECK(rlock_unlock_as(twin->multi, twin->owner) == 0);
    }
    return NULL;
}

TOGETHER_TEST(one_owner_may_take_multis_that_overlap, t)
{
    struct rlock_handle *other = user_multi(t->one, user_lock(t->one, "c"), t->b[0]);
    struct twin twins[2];

    for (size_t i = 0; i < 2; i++) {
        twins[i] =
            (struct twin){.multi = i == 0 ? t->multi[0] : other,
                          .owner = i == 0 ? rlock_owner_new(t->one->client) : twins[0].owner};
        TEST_CHECK(pthread_create(&twins[i].thread, NULL, take_as_owner, &twins[i]) == 0);
    }
    for (size_t i = 0; i < 2; i++) {
        TEST_CHECK(pthread_join(twins[i].thread, NULL) == 0);
    }
    assert_int_equal(fixture_holding(&t->f, "c"), 0);
}

/* For a thread that acts for the same owner. */
TOGETHER_TEST(an_owner_gives_up_a_member_while_it_waits_for_the_rest, t)
{
    const uint64_t owner = rlock_owner_new(t->one->client);
    struct waiter waiter;

    assert_code(rlock_try_lock(t->two->lock), 0);
    assert_code(rlock_lock_for(t->b[0], 0, RLOCK_TAKE(.owner = owner), NULL), 0);
    waiter_start_on(&waiter, NULL, t->multi[0], 20000, RLOCK_TAKE(.owner = owner));
    assert_true(proxy_wait_subscribers(t->f.proxy, 1, 5000));
    assert_code(rlock_unlock_as(t->b[0], owner), 0);
    assert_int_equal(fixture_holding(&t->f, "b"), 0);
    assert_code(rlock_unlock(t->two->lock), 0);
    waiter_passed(&waiter);
}
