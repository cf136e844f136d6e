/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks whose members one script takes: one round trip, no part ever held, no starvation. */
#include <time.h>

#include "composite/together.h"
#include "support/test.h"

#define WAITERS 16

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

TEST(one_script_takes_all_members)
{
    struct scene scene;
    uint64_t before;

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

TEST(one_round_trip_takes_all_and_one_leaves_them)
{
    struct fleet fleet;
    struct crew crew;
    struct rlock *members[8], *multi;
    struct scene scene;
    long long before;

    fleet_open(&fleet, &(struct fleet_opts){.n = 1});
    scene.fleet = fleet;
    crew_open(&crew, &fleet, (struct rlock_client_opts){.size = sizeof(struct rlock_client_opts)},
              -1);
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

TEST(each_kind_but_the_fair_may_be_a_member)
{
    static int (*const make[])(struct rlock_client *, const char *, const struct rlock_opts *,
                               struct rlock **) = {rlock_reentrant_new, rlock_nonreentrant_new,
                                                   rlock_spin_new,      rlock_fenced_new,
                                                   rlock_read_new,      rlock_write_new};
    enum { N = sizeof(make) / sizeof(make[0]) };
    struct rlock *members[N], *multi, *other;
    struct scene scene;
    uint64_t before;

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

TEST(a_member_that_its_owner_has_is_taken_once_more)
{
    struct scene scene;

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

/* They wait for what its owner has: it would wait for itself behind them. */
TEST(a_member_that_its_owner_has_is_taken_past_those_who_wait_for_it)
{
    struct scene scene;
    pthread_t waiter;
    int64_t began_us;

    open_scene(&scene);
    assert_code(rlock_try_lock(scene.b[0]), 0);
    TEST_CHECK(pthread_create(&waiter, NULL, lock_and_unlock, scene.b[0]) == 0);
    assert_true(proxy_wait_subscribers(scene.fleet.proxies[0], 1, 5000));
    began_us = test_now_us();
    assert_code(rlock_lock_with(scene.multi[0], RLOCK_TAKE(.wait_ms = 15000), NULL), 0);
    assert_in_time(began_us, 1000000 * test_slack());
    assert_code(rlock_unlock(scene.multi[0]), 0);
    assert_code(rlock_unlock(scene.b[0]), 0);
    TEST_CHECK(pthread_join(waiter, NULL) == 0);
    close_scene(&scene);
}

/* ---- Waiting ---- */

static void *lock_for_a_second(void *arg)
{
    struct rlock *multi = arg;
    int code = rlock_lock_with(multi, RLOCK_TAKE(.wait_ms = 1000), NULL);

    TEST_CHECK(code == 0 ||
               code == RLOCK_ETIMEDOUT); /* the latter on a machine that stands still */
    TEST_CHECK(code != 0 || rlock_unlock(multi) == 0);
    return NULL;
}

TEST(who_waits_holds_no_part)
{
    struct scene scene;
    pthread_t waiter;
    uint64_t before;

    open_scene(&scene);
    assert_code(rlock_try_lock(scene.b[0]), 0);
    TEST_CHECK(pthread_create(&waiter, NULL, lock_and_unlock, scene.multi[1]) == 0);
    assert_true(proxy_wait_subscribers(scene.fleet.proxies[0], 1, 5000));
    for (int i = 0; i < 2; i++) { /* a message makes it ask again, and "a" too: it must not tire */
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
TEST(who_waits_follows_the_member_that_is_busy)
{
    struct scene scene;
    pthread_t waiter;

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

TEST(members_that_are_never_free_at_once_do_not_starve_it)
{
    struct scene scene;
    struct hot hot;
    int64_t began_us;

    open_scene(&scene);
    hot = (struct hot){.a = scene.one.members[0], .b = scene.b[0]};
    for (int i = 0; i < 5; i++) {
        TEST_CHECK(pthread_create(&hot.thread, NULL, keep_hot, &hot) == 0);
        assert_true(TEST_EVENTUALLY(fleet_holding(&scene.fleet, "a") == 1, 5000));
        began_us = test_now_us();
        assert_code(rlock_lock_with(scene.multi[1], RLOCK_TAKE(.wait_ms = 60000), NULL), 0);
        assert_in_time(began_us, 5000000 * test_slack());
        TEST_CHECK(pthread_join(hot.thread, NULL) == 0);
        assert_code(rlock_unlock(scene.multi[1]), 0);
    }
    close_scene(&scene);
}

/* One of many threads that use a lock one after the other. */
struct hammer {
    pthread_t thread;
    struct rlock *lock;
    const atomic_bool *stop;
    long hold_ns;
};

static void *hammer_main(void *arg)
{
    const struct hammer *hammer = arg;

    while (!atomic_load(hammer->stop)) {
        TEST_CHECK(rlock_lock(hammer->lock) == 0);
        nanosleep(&(struct timespec){.tv_nsec = hammer->hold_ns}, NULL);
        TEST_CHECK(rlock_unlock(hammer->lock) == 0);
    }
    return NULL;
}

/* Each time that it looks it is another one's turn to be busy. */
TEST(lines_of_its_own_process_do_not_starve_it)
{
    enum { HAMMERS = 8 };
    struct hammer hammers[HAMMERS];
    atomic_bool stop = false;
    struct scene scene;
    int64_t began_us;

    open_scene(&scene);
    for (size_t i = 0; i < HAMMERS; i++) {
        hammers[i] = (struct hammer){.lock = i % 2 == 0 ? scene.one.members[0] : scene.b[0],
                                     .stop = &stop,
                                     .hold_ns = 15000000 + 1300000 * (long)i};
        TEST_CHECK(pthread_create(&hammers[i].thread, NULL, hammer_main, &hammers[i]) == 0);
    }
    for (int i = 0; i < 3; i++) {
        began_us = test_now_us();
        assert_code(rlock_lock_with(scene.multi[0], RLOCK_TAKE(.wait_ms = 60000), NULL), 0);
        assert_in_time(began_us, 3000000 * test_slack());
        assert_code(rlock_unlock(scene.multi[0]), 0);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < HAMMERS; i++) {
        TEST_CHECK(pthread_join(hammers[i].thread, NULL) == 0);
    }
    close_scene(&scene);
}

/* Of a short wait half is for that. */
TEST(half_of_a_wait_is_for_one_after_the_other)
{
    struct scene scene;
    pthread_t waiter;

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

TEST(of_many_that_wait_here_one_asks)
{
    struct waiter waiters[WAITERS];
    struct scene scene;
    uint64_t before;

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

static void *come_again(void *arg)
{
    for (int i = 0; i < 100; i++) {
        (void)wait_in_line(arg);
    }
    return NULL;
}

/* Threads that share handles and clients; ThreadSanitizer sees in which order mutexes are taken. */
TEST(over_the_same_clients_in_opposite_order_nothing_deadlocks)
{
    struct waiter waiters[4];
    struct scene scene;

    open_scene(&scene);
    for (size_t i = 0; i < 4; i++) {
        struct rlock *a = scene.one.members[0], *b = scene.b[1];
        struct rlock *members[] = {i % 2 == 0 ? a : b, i % 2 == 0 ? b : a};

        waiters[i] = (struct waiter){.witness = scene.fleet.witness, .id = i + 1};
        assert_code(rlock_multi_new(members, 2, NULL, &waiters[i].multi), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        TEST_CHECK(pthread_create(&waiters[i].thread, NULL, come_again, &waiters[i]) == 0);
    }
    for (size_t i = 0; i < 4; i++) {
        TEST_CHECK(pthread_join(waiters[i].thread, NULL) == 0);
        waiters[i].multi = rlock_free(waiters[i].multi);
    }
    close_scene(&scene);
}
