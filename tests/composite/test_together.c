/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks whose members one script takes: one round trip, no part ever held, no starvation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "composite/fleet.h"

#include <cmocka.h>

#define OFF (-1)
#define WAITERS 16

static const struct rlock_client_opts usual = {.size = sizeof(usual)};

/* One server behind a proxy; two clients of it. */
struct scene {
    struct fleet fleet;
    struct crew one, two;
    struct rlock *b[2], *multi[2]; /* of each: "b", and "b" with "a" */
};

static void open_scene(struct scene *scene)
{
    struct crew *crews[] = {&scene->one, &scene->two};

    fleet_open(&scene->fleet, &(struct fleet_opts){.n = 1, .proxied = true});
    for (size_t i = 0; i < 2; i++) {
        crew_open(crews[i], &scene->fleet, usual, OFF);
        scene->b[i] = crew_lock(crews[i], 0, "b");
        assert_code(rlock_multi_new((struct rlock *[]){scene->b[i], crews[i]->members[0]}, 2, NULL,
                                    &scene->multi[i]),
                    0);
        assert_code(rlock_try_lock(scene->multi[i]), 0); /* connected, scripts known */
        assert_code(rlock_unlock(scene->multi[i]), 0);
    }
}

static void close_scene(struct scene *scene)
{
    assert_true(TEST_EVENTUALLY(fleet_holding(&scene->fleet, "a") == 0, 5000));
    assert_true(TEST_EVENTUALLY(fleet_holding(&scene->fleet, "b") == 0, 5000));
    for (size_t i = 0; i < 2; i++) {
        scene->multi[i] = rlock_free(scene->multi[i]);
        scene->b[i] = rlock_free(scene->b[i]);
    }
    crew_close(&scene->one);
    crew_close(&scene->two);
    fleet_close(&scene->fleet);
}

static uint64_t requests(const struct scene *scene)
{
    return proxy_stats(scene->fleet.proxies[0]).requests;
}

/* How often the server read from a socket: what came in one write it reads at once. */
static long long reads(const struct scene *scene)
{
    char *info = test_server_cmd(scene->fleet.servers[0], "INFO stats");
    const char *field = "total_reads_processed:";
    const char *at = strstr(info, field);
    long long n = at != NULL ? strtoll(at + strlen(field), NULL, 10) : -1;

    free(info);
    return n;
}

static void one_script_takes_all_members(void **state)
{
    struct scene scene;
    uint64_t before;

    (void)state;
    open_scene(&scene);
    before = requests(&scene);
    assert_code(rlock_try_lock(scene.multi[0]), 0);
    assert_int_equal(requests(&scene), before + 1);
    assert_true(rlock_is_valid(scene.multi[0]));
    assert_code(rlock_try_lock(scene.multi[1]), RLOCK_EBUSY);
    assert_non_null(strstr(rlock_detail(), "lock a: held by"));
    assert_int_equal(requests(&scene), before + 2);
    assert_code(rlock_unlock(scene.multi[0]), 0);
    close_scene(&scene);
}

static void one_round_trip_takes_all_and_one_leaves_them(void **state)
{
    struct fleet fleet;
    struct crew crew;
    struct rlock *members[8], *multi;
    struct scene scene;
    long long before;

    (void)state;
    fleet_open(&fleet, &(struct fleet_opts){.n = 1});
    scene.fleet = fleet;
    crew_open(&crew, &fleet, usual, OFF);
    for (size_t i = 0; i < 8; i++) {
        members[i] = crew_lock(&crew, 0, (const char[]){(char)('p' + i), '\0'});
    }
    assert_code(rlock_multi_new(members, 8, NULL, &multi), 0);
    for (int i = 0; i < 2; i++) { /* the first time makes the server know the scripts */
        before = reads(&scene);
        assert_code(rlock_try_lock(multi), 0);
        assert_code(rlock_unlock(multi), 0);
    }
    assert_in_range(reads(&scene) - before, 3, 4); /* and the question itself */
    for (size_t i = 0; i < 8; i++) {
        members[i] = rlock_free(members[i]);
    }
    multi = rlock_free(multi);
    crew_close(&crew);
    fleet_close(&fleet);
}

static void each_kind_but_the_fair_may_be_a_member(void **state)
{
    static int (*const make[])(struct rlock_client *, const char *, const struct rlock_opts *,
                               struct rlock **) = {rlock_reentrant_new, rlock_nonreentrant_new,
                                                   rlock_spin_new,      rlock_fenced_new,
                                                   rlock_read_new,      rlock_write_new};
    enum { N = sizeof(make) / sizeof(make[0]) };
    struct rlock *members[N], *multi, *other;
    struct scene scene;
    uint64_t before;

    (void)state;
    open_scene(&scene);
    for (size_t i = 0; i < N; i++) {
        char name[] = {(char)('k' + i), '\0'};

        assert_code(make[i](scene.one.clients[0], name, NULL, &members[i]), 0);
    }
    assert_code(rlock_multi_new(members, N, NULL, &multi), 0);
    assert_code(rlock_try_lock(multi), 0);
    assert_code(rlock_unlock(multi), 0);
    for (size_t i = 0; i < N; i++) { /* any of them keeps the others from being taken */
        char name[] = {(char)('k' + i), '\0'};

        assert_code((make[i] == rlock_read_new ? rlock_write_new : make[i])(scene.two.clients[0],
                                                                            name, NULL, &other),
                    0);
        assert_code(rlock_try_lock(other), 0);
        before = requests(&scene);
        assert_code(rlock_try_lock(multi), RLOCK_EBUSY);
        assert_int_equal(requests(&scene), before + 1);
        assert_int_equal(test_server_int(scene.fleet.servers[0], "EXISTS k l m n o p"), 1);
        assert_code(rlock_unlock(other), 0);
        other = rlock_free(other);
    }
    before = requests(&scene);
    assert_code(rlock_try_lock(multi), 0);
    assert_int_equal(requests(&scene), before + 1);
    assert_true(test_server_says(scene.fleet.servers[0], "read", "HGET o mode"));
    assert_true(test_server_says(scene.fleet.servers[0], "write", "HGET p mode"));
    assert_true(rlock_is_valid(multi));
    assert_code(rlock_unlock(multi), 0);
    for (size_t i = 0; i < N; i++) {
        members[i] = rlock_free(members[i]);
    }
    multi = rlock_free(multi);
    assert_true(test_server_int(scene.fleet.servers[0], "DEL redisson_lock_token:{n}") == 1);
    close_scene(&scene);
}

static void a_member_that_its_owner_has_is_taken_once_more(void **state)
{
    struct scene scene;

    (void)state;
    open_scene(&scene);
    assert_code(rlock_try_lock(scene.b[0]), 0);
    assert_code(rlock_try_lock(scene.multi[0]), 0);
    assert_true(test_server_says(scene.fleet.servers[0], "1", "HVALS a"));
    assert_true(test_server_says(scene.fleet.servers[0], "2", "HVALS b"));
    assert_code(rlock_unlock(scene.multi[0]), 0);
    assert_true(rlock_is_valid(scene.b[0]));
    assert_int_equal(fleet_holding(&scene.fleet, "a"), 0);
    free(test_server_cmd(scene.fleet.servers[0], "DEL b"));
    assert_code(rlock_try_lock(scene.multi[0]), RLOCK_ELOST); /* and not the rest of it */
    assert_int_equal(fleet_holding(&scene.fleet, "a"), 0);
    assert_code(rlock_unlock(scene.b[0]), RLOCK_ELOST);
    assert_code(rlock_try_lock(scene.multi[0]), 0);
    assert_code(rlock_unlock(scene.multi[0]), 0);
    close_scene(&scene);
}

/* ---- Waiting ---- */

static void *lock_and_unlock(void *arg)
{
    struct rlock *multi = arg;

    TEST_CHECK(rlock_lock_with(multi, RLOCK_TAKE(.wait_ms = 20000), NULL) == 0);
    TEST_CHECK(rlock_is_valid(multi));
    TEST_CHECK(rlock_unlock(multi) == 0);
    return NULL;
}

static void *lock_for_a_second(void *arg)
{
    struct rlock *multi = arg;
    int code = rlock_lock_with(multi, RLOCK_TAKE(.wait_ms = 1000), NULL);

    TEST_CHECK(code == 0 ||
               code == RLOCK_ETIMEDOUT); /* the latter on a machine that stands still */
    TEST_CHECK(code != 0 || rlock_unlock(multi) == 0);
    return NULL;
}

static void who_waits_holds_no_part(void **state)
{
    struct scene scene;
    pthread_t waiter;
    uint64_t before;

    (void)state;
    open_scene(&scene);
    assert_code(rlock_try_lock(scene.b[0]), 0);
    TEST_CHECK(pthread_create(&waiter, NULL, lock_and_unlock, scene.multi[1]) == 0);
    assert_true(proxy_wait_subscribers(scene.fleet.proxies[0], 1, 5000));
    for (int i = 0; i < 5; i++) { /* each message makes it ask again */
        before = requests(&scene);
        assert_true(TEST_EVENTUALLY(
            test_server_int(scene.fleet.servers[0], "PUBLISH redisson_lock__channel:{b} 0") == 1,
            5000));
        assert_true(proxy_wait_requests(scene.fleet.proxies[0], before + 1, 5000));
        assert_code(rlock_try_lock(scene.one.members[0]), 0);
        assert_code(rlock_unlock(scene.one.members[0]), 0);
    }
    assert_code(rlock_unlock(scene.b[0]), 0);
    TEST_CHECK(pthread_join(waiter, NULL) == 0);
    close_scene(&scene);
}

/* Waits for "b", then, when that is free and "a" is not, for "a". */
static void who_waits_follows_the_member_that_is_busy(void **state)
{
    struct scene scene;
    pthread_t waiter;

    (void)state;
    open_scene(&scene);
    assert_code(rlock_try_lock(scene.b[0]), 0);
    TEST_CHECK(pthread_create(&waiter, NULL, lock_and_unlock, scene.multi[1]) == 0);
    assert_true(TEST_EVENTUALLY(
        test_server_int(scene.fleet.servers[0], "PUBLISH redisson_lock__channel:{b} 0") == 1,
        5000));
    assert_code(rlock_try_lock(scene.one.members[0]), 0);
    assert_code(rlock_unlock(scene.b[0]), 0);
    assert_true(TEST_EVENTUALLY(
        test_server_int(scene.fleet.servers[0], "PUBLISH redisson_lock__channel:{a} 0") == 1,
        5000));
    assert_int_equal(fleet_holding(&scene.fleet, "b"), 0);
    assert_code(rlock_unlock(scene.one.members[0]), 0);
    TEST_CHECK(pthread_join(waiter, NULL) == 0);
    close_scene(&scene);
}

/* One thread that holds "a" or "b" or both at every moment, until it finds "a" taken. */
struct hot {
    pthread_t thread;
    struct rlock *a, *b;
};

static void *keep_hot(void *arg)
{
    const struct timespec pause = {.tv_nsec = 500000};
    const struct hot *hot = arg;
    int code;

    TEST_CHECK(rlock_lock(hot->b) == 0);
    while ((code = rlock_try_lock(hot->a)) == 0) {
        TEST_CHECK(rlock_unlock(hot->b) == 0);
        nanosleep(&pause, NULL);
        TEST_CHECK(rlock_lock(hot->b) == 0);
        TEST_CHECK(rlock_unlock(hot->a) == 0);
        nanosleep(&pause, NULL);
    }
    TEST_CHECK(code == RLOCK_EBUSY);
    TEST_CHECK(rlock_unlock(hot->b) == 0);
    return NULL;
}

static void members_that_are_never_free_at_once_do_not_starve_it(void **state)
{
    struct scene scene;
    struct hot hot;
    int64_t began_us;

    (void)state;
    open_scene(&scene);
    hot = (struct hot){.a = scene.one.members[0], .b = scene.b[0]};
    for (int i = 0; i < 5; i++) {
        TEST_CHECK(pthread_create(&hot.thread, NULL, keep_hot, &hot) == 0);
        assert_true(TEST_EVENTUALLY(fleet_holding(&scene.fleet, "a") == 1, 5000));
        began_us = test_now_us();
        assert_code(rlock_lock_with(scene.multi[1], RLOCK_TAKE(.wait_ms = 60000), NULL), 0);
        assert_true(test_elapsed_us(began_us) < 5000000 * test_slack());
        TEST_CHECK(pthread_join(hot.thread, NULL) == 0);
        assert_code(rlock_unlock(scene.multi[1]), 0);
    }
    close_scene(&scene);
}

/* Of a short wait half is for that. */
static void half_of_a_wait_is_for_one_after_the_other(void **state)
{
    struct scene scene;
    pthread_t waiter;

    (void)state;
    open_scene(&scene);
    assert_code(rlock_try_lock(scene.b[0]), 0);
    TEST_CHECK(pthread_create(&waiter, NULL, lock_for_a_second, scene.multi[1]) == 0);
    assert_true(TEST_EVENTUALLY(fleet_holding(&scene.fleet, "a") == 1, 5000));
    assert_code(rlock_unlock(scene.b[0]), 0);
    TEST_CHECK(pthread_join(waiter, NULL) == 0);
    close_scene(&scene);
}

struct waiter {
    pthread_t thread;
    struct rlock *multi;
    struct witness *witness;
    uint64_t id;
};

static void *wait_in_line(void *arg)
{
    const struct waiter *waiter = arg;

    TEST_CHECK(rlock_lock(waiter->multi) == 0);
    for (size_t cell = 0; cell < 2; cell++) {
        witness_enter(waiter->witness, cell, waiter->id);
    }
    for (size_t cell = 0; cell < 2; cell++) {
        witness_leave(waiter->witness, cell, waiter->id);
    }
    TEST_CHECK(rlock_unlock(waiter->multi) == 0);
    return NULL;
}

static void of_many_that_wait_here_one_asks(void **state)
{
    struct waiter waiters[WAITERS];
    struct scene scene;
    uint64_t before;

    (void)state;
    open_scene(&scene);
    assert_code(rlock_try_lock(scene.b[0]), 0);
    before = requests(&scene);
    for (size_t i = 0; i < WAITERS; i++) {
        waiters[i] =
            (struct waiter){.multi = scene.multi[1], .witness = scene.fleet.witness, .id = i + 1};
        TEST_CHECK(pthread_create(&waiters[i].thread, NULL, wait_in_line, &waiters[i]) == 0);
    }
    assert_true(proxy_wait_subscribers(scene.fleet.proxies[0], 1, 5000));
    assert_code(rlock_unlock(scene.b[0]), 0);
    for (size_t i = 0; i < WAITERS; i++) {
        TEST_CHECK(pthread_join(waiters[i].thread, NULL) == 0);
    }
    /* each: one that finds it free, one that did not, and its two releases */
    assert_true(requests(&scene) - before <= 5 * WAITERS + 10);
    close_scene(&scene);
}

/* ---- Faults ---- */

static void a_cut_before_the_answer_takes_them_once(void **state)
{
    struct scene scene;

    (void)state;
    open_scene(&scene);
    proxy_cut_after_requests(scene.fleet.proxies[0], 1);
    assert_code(rlock_lock_with(scene.multi[0], RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    assert_true(test_server_says(scene.fleet.servers[0], "1", "HVALS a"));
    assert_true(test_server_says(scene.fleet.servers[0], "1", "HVALS b"));
    assert_code(rlock_unlock(scene.multi[0]), 0);
    close_scene(&scene);
}

static void without_an_answer_nothing_stays(void **state)
{
    struct scene scene;

    (void)state;
    open_scene(&scene);
    proxy_add(scene.fleet.proxies[0],
              &(struct proxy_rule){.act = PROXY_HOLD, .command = "EVALSHA"});
    assert_code(rlock_lock_with(scene.multi[0], RLOCK_TAKE(.wait_ms = 100), NULL), RLOCK_EINDOUBT);
    proxy_hold_requests(scene.fleet.proxies[0], false);
    close_scene(&scene);
}

/* The first member's script does all its work before the second's is refused. */
static void what_a_script_that_failed_left_is_given_back(void **state)
{
    struct rlock *members[2], *multi;
    struct scene scene;

    (void)state;
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

static void one_that_is_of_the_wrong_type_leaves_nothing(void **state)
{
    struct scene scene;

    (void)state;
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

static void a_cancel_ends_the_wait_of_all(void **state)
{
    struct canceled canceled;
    struct scene scene;
    pthread_t waiter;

    (void)state;
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
};

static void *take_as_owner(void *arg)
{
    const struct twin *twin = arg;

    for (int i = 0; i < 200; i++) {
        TEST_CHECK(rlock_lock_with(twin->multi, RLOCK_TAKE(.wait_ms = 20000, .owner = twin->owner),
                                   NULL) == 0);
        TEST_CHECK(rlock_unlock_as(twin->multi, twin->owner) == 0);
    }
    return NULL;
}

static void one_owner_may_take_multis_that_overlap(void **state)
{
    struct rlock *c, *other;
    struct twin twins[2];
    struct scene scene;

    (void)state;
    open_scene(&scene);
    c = crew_lock(&scene.one, 0, "c");
    assert_code(rlock_multi_new((struct rlock *[]){c, scene.b[0]}, 2, NULL, &other), 0);
    for (size_t i = 0; i < 2; i++) {
        twins[i] =
            (struct twin){.multi = i == 0 ? scene.multi[0] : other,
                          .owner = i == 0 ? rlock_owner_new(scene.one.clients[0]) : twins[0].owner};
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_script_takes_all_members),
        cmocka_unit_test(one_round_trip_takes_all_and_one_leaves_them),
        cmocka_unit_test(each_kind_but_the_fair_may_be_a_member),
        cmocka_unit_test(a_member_that_its_owner_has_is_taken_once_more),
        cmocka_unit_test(who_waits_holds_no_part),
        cmocka_unit_test(who_waits_follows_the_member_that_is_busy),
        cmocka_unit_test(members_that_are_never_free_at_once_do_not_starve_it),
        cmocka_unit_test(half_of_a_wait_is_for_one_after_the_other),
        cmocka_unit_test(of_many_that_wait_here_one_asks),
        cmocka_unit_test(a_cut_before_the_answer_takes_them_once),
        cmocka_unit_test(without_an_answer_nothing_stays),
        cmocka_unit_test(what_a_script_that_failed_left_is_given_back),
        cmocka_unit_test(one_that_is_of_the_wrong_type_leaves_nothing),
        cmocka_unit_test(a_cancel_ends_the_wait_of_all),
        cmocka_unit_test(one_owner_may_take_multis_that_overlap),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests_name("together", tests, NULL, NULL);
}
