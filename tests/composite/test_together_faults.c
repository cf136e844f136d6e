/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks whose members one script takes, when something breaks or gives up. */
#include "composite/together.h"
#include "support/test.h"

TEST(a_cut_before_the_answer_takes_them_once)
{
    struct scene scene;

    open_scene(&scene);
    proxy_cut_after_requests(scene.fleet.proxies[0], 1);
    assert_code(rlock_lock_with(scene.multi[0], RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    assert_true(test_server_says(scene.fleet.servers[0], "1", "HVALS a"));
    assert_true(test_server_says(scene.fleet.servers[0], "1", "HVALS b"));
    assert_code(rlock_unlock(scene.multi[0]), 0);
    close_scene(&scene);
}

TEST(without_an_answer_nothing_stays)
{
    struct scene scene;

    open_scene(&scene);
    proxy_add(scene.fleet.proxies[0],
              &(struct proxy_rule){.act = PROXY_HOLD, .command = "EVALSHA"});
    assert_code(rlock_lock_with(scene.multi[0], RLOCK_TAKE(.wait_ms = 100), NULL), RLOCK_EINDOUBT);
    proxy_hold_requests(scene.fleet.proxies[0], false);
    close_scene(&scene);
}

/* The first member's script does all its work before the second's is refused. */
TEST(what_a_script_that_failed_left_is_given_back)
{
    struct rlock *members[2], *multi;
    struct scene scene;

    open_scene(&scene);
    members[0] = scene.one.members[0];
    assert_code(rlock_fenced_new(scene.one.clients[0], "f", NULL, &members[1]), 0);
    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    free(test_server_cmd(scene.fleet.servers[0], "ACL SETUSER default -set"));
    assert_code(rlock_try_lock(multi), RLOCK_EPERM);
    assert_int_equal(fleet_holding(&scene.fleet, "a"), 0);
    assert_int_equal(fleet_holding(&scene.fleet, "f"), 0);
    free(test_server_cmd(scene.fleet.servers[0], "ACL SETUSER default +set"));
    multi = rlock_free(multi);
    members[1] = rlock_free(members[1]);
    close_scene(&scene);
}

/* The error comes when the call has given up already, and the releases behind it do not arrive. */
TEST(what_a_script_that_failed_late_left_is_in_doubt)
{
    struct rlock *members[2], *multi;
    struct scene scene;
    struct proxy *proxy;

    open_scene(&scene);
    proxy = scene.fleet.proxies[0];
    members[0] = scene.one.members[0];
    assert_code(rlock_fenced_new(scene.one.clients[0], "f", NULL, &members[1]), 0);
    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    free(test_server_cmd(scene.fleet.servers[0], "ACL SETUSER default -set"));
    proxy_add(proxy, &(struct proxy_rule){
                         .act = PROXY_DELAY_REPLY, .command = "EVALSHA", .delay_us = 120000});
    proxy_add(proxy, &(struct proxy_rule){
                         .act = PROXY_DROP_REQUEST, .command = "EVALSHA", .skip = 1, .times = 2});
    assert_code(rlock_lock_with(multi, RLOCK_TAKE(.wait_ms = 100), NULL), RLOCK_EINDOUBT);
    free(test_server_cmd(scene.fleet.servers[0], "ACL SETUSER default +set"));
    multi = rlock_free(multi);
    members[1] = rlock_free(members[1]);
    close_scene(&scene); /* nothing stays */
}

/* Its members do not wait, but it does. */
TEST(a_level_more_that_is_not_answered_in_time_timed_out)
{
    const int64_t wait_ms = 100 * test_slack();
    struct scene scene;
    int code;

    open_scene(&scene);
    assert_code(rlock_lock_with(scene.multi[0], RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    proxy_add(scene.fleet.proxies[0], &(struct proxy_rule){.act = PROXY_DELAY_REPLY,
                                                           .command = "EVALSHA",
                                                           .delay_us = (wait_ms + 10) * 1000});
    code = rlock_lock_with(scene.multi[0], RLOCK_TAKE(.wait_ms = wait_ms), NULL);
    assert_true(code == RLOCK_ETIMEDOUT || code == RLOCK_EINDOUBT); /* by when the answer came */
    assert_code(rlock_unlock(scene.multi[0]), 0);
    close_scene(&scene);
}

TEST(an_error_that_passes_is_waited_out)
{
    struct scene scene;
    pthread_t waiter;
    uint64_t before;

    open_scene(&scene);
    before = requests(&scene);
    free(test_server_cmd(scene.fleet.servers[0], "CONFIG SET min-replicas-to-write 1"));
    TEST_CHECK(pthread_create(&waiter, NULL, lock_and_unlock, scene.multi[1]) == 0);
    assert_true(proxy_wait_requests(scene.fleet.proxies[0], before + 2, 5000)); /* refused once */
    free(test_server_cmd(scene.fleet.servers[0], "CONFIG SET min-replicas-to-write 0"));
    TEST_CHECK(pthread_join(waiter, NULL) == 0);
    close_scene(&scene);
}

TEST(one_that_is_of_the_wrong_type_leaves_nothing)
{
    struct scene scene;

    open_scene(&scene);
    free(test_server_cmd(scene.fleet.servers[0], "SET b text"));
    assert_code(rlock_try_lock(scene.multi[0]), RLOCK_EWRONGTYPE);
    assert_int_equal(fleet_holding(&scene.fleet, "a"), 0);
    free(test_server_cmd(scene.fleet.servers[0], "DEL b"));
    close_scene(&scene);
}

struct canceled {
    struct rlock *multi;
    struct rlock_cancel *cancel;
};

static void *wait_for_a_cancel(void *arg)
{
    const struct canceled *canceled = arg;

    TEST_CHECK(rlock_lock_with(canceled->multi,
                               RLOCK_TAKE(.wait_ms = 30000, .cancel = canceled->cancel),
                               NULL) == RLOCK_ECANCELED);
    return NULL;
}

TEST(a_cancel_ends_the_wait_of_all)
{
    struct canceled canceled;
    struct scene scene;
    pthread_t waiter;

    open_scene(&scene);
    canceled.multi = scene.multi[1];
    assert_code(rlock_cancel_new(&canceled.cancel), 0);
    assert_code(rlock_try_lock(scene.b[0]), 0);
    TEST_CHECK(pthread_create(&waiter, NULL, wait_for_a_cancel, &canceled) == 0);
    assert_true(proxy_wait_subscribers(scene.fleet.proxies[0], 1, 5000));
    rlock_cancel_fire(canceled.cancel);
    TEST_CHECK(pthread_join(waiter, NULL) == 0);
    assert_int_equal(fleet_holding(&scene.fleet, "a"), 0);
    assert_code(rlock_unlock(scene.b[0]), 0);
    canceled.cancel = rlock_cancel_free(canceled.cancel);
    close_scene(&scene);
}

/* Two threads that act for one owner, on multi-locks that overlap: neither waits for the other's
 * turn while that one waits for its own. */
struct twin {
    pthread_t thread;
    struct rlock *multi;
    uint64_t owner;
    int rounds;
};

static void *take_as_owner(void *arg)
{
    const struct twin *twin = arg;

    for (int i = 0; i < twin->rounds; i++) {
        TEST_CHECK(rlock_lock_with(twin->multi, RLOCK_TAKE(.wait_ms = 20000, .owner = twin->owner),
                                   NULL) == 0);
        TEST_CHECK(rlock_unlock_as(twin->multi, twin->owner) == 0);
    }
    return NULL;
}

TEST(one_owner_may_take_multis_that_overlap)
{
    struct rlock *c, *other;
    struct twin twins[2];
    struct scene scene;

    open_scene(&scene);
    c = crew_lock(&scene.one, 0, "c");
    assert_code(rlock_multi_new((struct rlock *[]){c, scene.b[0]}, 2, NULL, &other), 0);
    for (size_t i = 0; i < 2; i++) {
        twins[i] =
            (struct twin){.multi = i == 0 ? scene.multi[0] : other,
                          .owner = i == 0 ? rlock_owner_new(scene.one.clients[0]) : twins[0].owner,
                          .rounds = 200};
        TEST_CHECK(pthread_create(&twins[i].thread, NULL, take_as_owner, &twins[i]) == 0);
    }
    for (size_t i = 0; i < 2; i++) {
        TEST_CHECK(pthread_join(twins[i].thread, NULL) == 0);
    }
    assert_int_equal(fleet_holding(&scene.fleet, "c"), 0);
    other = rlock_free(other);
    c = rlock_free(c);
    close_scene(&scene);
}

/* For a thread that acts for the same owner. */
TEST(an_owner_gives_up_a_member_while_it_waits_for_the_rest)
{
    struct scene scene;
    struct twin twin;

    open_scene(&scene);
    twin = (struct twin){
        .multi = scene.multi[0], .owner = rlock_owner_new(scene.one.clients[0]), .rounds = 1};
    assert_code(rlock_try_lock(scene.two.members[0]), 0);
    assert_code(rlock_lock_with(scene.b[0], RLOCK_TAKE(.owner = twin.owner), NULL), 0);
    TEST_CHECK(pthread_create(&twin.thread, NULL, take_as_owner, &twin) == 0);
    assert_true(proxy_wait_subscribers(scene.fleet.proxies[0], 1, 5000));
    assert_code(rlock_unlock_as(scene.b[0], twin.owner), 0);
    assert_int_equal(fleet_holding(&scene.fleet, "b"), 0);
    assert_code(rlock_unlock(scene.two.members[0]), 0);
    TEST_CHECK(pthread_join(twin.thread, NULL) == 0);
    close_scene(&scene);
}
