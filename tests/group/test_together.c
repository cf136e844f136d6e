/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks whose members one script takes: one round trip, no part ever held, no starvation. */
#include <time.h>

#include "group/together.h"

#define WAITERS 16

/* How often the server read from a socket: what came in one write it reads at once. */
static long long reads(const struct fixture *f)
{
    return test_server_info(f->server, "stats", "total_reads_processed");
}

TOGETHER_TEST(one_script_takes_all_members, t)
{
    uint64_t before;

    before = requests(t);
    assert_code(rlock_try_lock(t->multi[0]), 0);
    assert_int_equal(requests(t), before + 1);
    assert_true(rlock_is_valid(t->multi[0]));
    assert_code(rlock_try_lock(t->multi[1]), RLOCK_EBUSY);
    assert_non_null(strstr(rlock_detail(), "lock a: held by"));
    assert_int_equal(requests(t), before + 2);
    assert_code(rlock_unlock(t->multi[0]), 0);
}

FIXTURE_TEST(one_round_trip_takes_all_and_one_leaves_them, f)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *members[8], *multi;
    long long before;

    for (size_t i = 0; i < 8; i++) {
        members[i] = user_lock(user, (const char[]){(char)('p' + i), '\0'});
    }
    assert_code(rlock_multi_new(members, 8, NULL, &multi), 0);
    for (int i = 0; i < 2; i++) { /* the first time makes the server know the scripts */
        before = reads(f);
        assert_code(rlock_try_lock(multi), 0);
        assert_code(rlock_unlock(multi), 0);
    }
    assert_in_range(reads(f) - before, 3, 4); /* and the question itself */
    multi = rlock_free(multi);
}

TOGETHER_TEST(each_kind_but_the_fair_may_be_a_member, t)
{
    static int (*const make[])(struct rlock_client *, const char *, const struct rlock_opts *,
                               struct rlock_handle **) = {
        rlock_reentrant_new, rlock_nonreentrant_new, rlock_spin_new,
        rlock_fenced_new,    rlock_read_new,         rlock_write_new};
    enum { N = sizeof(make) / sizeof(make[0]) };
    struct rlock_handle *members[N], *multi, *other;
    uint64_t before;

    for (size_t i = 0; i < N; i++) {
        char name[] = {(char)('k' + i), '\0'};

        assert_code(make[i](t->one->client, name, NULL, &members[i]), 0);
    }
    assert_code(rlock_multi_new(members, N, NULL, &multi), 0);
    assert_code(rlock_try_lock(multi), 0);
    assert_code(rlock_unlock(multi), 0);
    for (size_t i = 0; i < N; i++) { /* any of them keeps the others from being taken */
        char name[] = {(char)('k' + i), '\0'};

        assert_code((make[i] == rlock_read_new ? rlock_write_new : make[i])(t->two->client, name,
                                                                            NULL, &other),
                    0);
        assert_code(rlock_try_lock(other), 0);
        before = requests(t);
        assert_code(rlock_try_lock(multi), RLOCK_EBUSY);
        assert_int_equal(requests(t), before + 1);
        assert_int_equal(test_server_int(t->f.server, "EXISTS k l m n o p"), 1);
        assert_code(rlock_unlock(other), 0);
        other = rlock_free(other);
    }
    before = requests(t);
    assert_code(rlock_try_lock(multi), 0);
    assert_int_equal(requests(t), before + 1);
    assert_true(test_server_says(t->f.server, "read", "HGET o mode"));
    assert_true(test_server_says(t->f.server, "write", "HGET p mode"));
    assert_true(rlock_is_valid(multi));
    assert_code(rlock_unlock(multi), 0);
    for (size_t i = 0; i < N; i++) {
        members[i] = rlock_free(members[i]);
    }
    multi = rlock_free(multi);
    assert_true(test_server_int(t->f.server, "DEL redisson_lock_token:{n}") == 1);
}

TOGETHER_TEST(a_member_that_its_owner_has_is_taken_once_more, t)
{
    assert_code(rlock_try_lock(t->b[0]), 0);
    assert_code(rlock_try_lock(t->multi[0]), 0);
    assert_true(test_server_says(t->f.server, "1", "HVALS a"));
    assert_true(test_server_says(t->f.server, "2", "HVALS b"));
    assert_code(rlock_unlock(t->multi[0]), 0);
    assert_true(rlock_is_valid(t->b[0]));
    assert_int_equal(fixture_holding(&t->f, "a"), 0);
    test_server_do(t->f.server, "DEL b");
    assert_code(rlock_try_lock(t->multi[0]), RLOCK_ELOST); /* and not the rest of it */
    assert_int_equal(fixture_holding(&t->f, "a"), 0);
    assert_code(rlock_unlock(t->b[0]), RLOCK_ELOST);
    assert_code(rlock_try_lock(t->multi[0]), 0);
    assert_code(rlock_unlock(t->multi[0]), 0);
}

/* They wait for what its owner has: it would wait for itself behind them. */
TOGETHER_TEST(a_member_that_its_owner_has_is_taken_past_those_who_wait_for_it, t)
{
    struct waiter waiter;
    int64_t began_us;

    assert_code(rlock_try_lock(t->b[0]), 0);
    pass_through(&waiter, t->b[0]);
    assert_true(proxy_wait_subscribers(t->f.proxy, 1, 5000));
    began_us = test_now_us();
    assert_code(rlock_lock_for(t->multi[0], 15000, NULL, NULL), 0);
    assert_in_time(began_us, 1000000 * test_slack());
    assert_code(rlock_unlock(t->multi[0]), 0);
    assert_code(rlock_unlock(t->b[0]), 0);
    waiter_passed(&waiter);
}

/* ---- Waiting ---- */

TOGETHER_TEST(who_waits_holds_no_part, t)
{
    struct waiter waiter;
    uint64_t before;

    assert_code(rlock_try_lock(t->b[0]), 0);
    pass_through(&waiter, t->multi[1]);
    assert_true(proxy_wait_subscribers(t->f.proxy, 1, 5000));
    for (int i = 0; i < 2; i++) { /* a message makes it ask again, and "a" too: it must not tire */
        before = requests(t);
        assert_true(TEST_EVENTUALLY(
            test_server_int(t->f.server, "PUBLISH redisson_lock__channel:{b} 0") == 1, 5000));
        assert_true(proxy_wait_requests(t->f.proxy, before + 1, 5000));
        assert_code(rlock_try_lock(t->one->lock), 0);
        assert_code(rlock_unlock(t->one->lock), 0);
    }
    assert_code(rlock_unlock(t->b[0]), 0);
    waiter_passed(&waiter);
}

/* Waits for "b", then, when that is free and "a" is not, for "a". */
TOGETHER_TEST(who_waits_follows_the_member_that_is_busy, t)
{
    struct waiter waiter;

    assert_code(rlock_try_lock(t->b[0]), 0);
    pass_through(&waiter, t->multi[1]);
    assert_true(TEST_EVENTUALLY(
        test_server_int(t->f.server, "PUBLISH redisson_lock__channel:{b} 0") == 1, 5000));
    assert_code(rlock_try_lock(t->one->lock), 0);
    assert_code(rlock_unlock(t->b[0]), 0);
    assert_true(TEST_EVENTUALLY(
        test_server_int(t->f.server, "PUBLISH redisson_lock__channel:{a} 0") == 1, 5000));
    assert_int_equal(fixture_holding(&t->f, "b"), 0);
    assert_code(rlock_unlock(t->one->lock), 0);
    waiter_passed(&waiter);
}

/* One thread that holds "a" or "b" or both at every moment, until it finds "a" taken. */
struct hot {
    pthread_t thread;
    struct rlock_handle *a, *b;
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

TOGETHER_TEST(members_that_are_never_free_at_once_do_not_starve_it, t)
{
    struct hot hot;
    int64_t began_us;

    hot = (struct hot){.a = t->one->lock, .b = t->b[0]};
    for (int i = 0; i < 5; i++) {
        TEST_CHECK(pthread_create(&hot.thread, NULL, keep_hot, &hot) == 0);
        assert_true(TEST_EVENTUALLY(fixture_holding(&t->f, "a") == 1, 5000));
        began_us = test_now_us();
        assert_code(rlock_lock_for(t->multi[1], 60000, NULL, NULL), 0);
        assert_in_time(began_us, 5000000 * test_slack());
        TEST_CHECK(pthread_join(hot.thread, NULL) == 0);
        assert_code(rlock_unlock(t->multi[1]), 0);
    }
}

/* One of many threads that use a lock one after the other. */
struct hammer {
    pthread_t thread;
    struct rlock_handle *lock;
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
TOGETHER_TEST(lines_of_its_own_process_do_not_starve_it, t)
{
    enum { HAMMERS = 8 };
    struct hammer hammers[HAMMERS];
    atomic_bool stop = false;
    int64_t began_us;

    for (size_t i = 0; i < HAMMERS; i++) {
        hammers[i] = (struct hammer){.lock = i % 2 == 0 ? t->one->lock : t->b[0],
                                     .stop = &stop,
                                     .hold_ns = 15000000 + 1300000 * (long)i};
        TEST_CHECK(pthread_create(&hammers[i].thread, NULL, hammer_main, &hammers[i]) == 0);
    }
    for (int i = 0; i < 3; i++) {
        began_us = test_now_us();
        assert_code(rlock_lock_for(t->multi[0], 60000, NULL, NULL), 0);
        assert_in_time(began_us, 3000000 * test_slack());
        assert_code(rlock_unlock(t->multi[0]), 0);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < HAMMERS; i++) {
        TEST_CHECK(pthread_join(hammers[i].thread, NULL) == 0);
    }
}

/* Of a short wait half is for that. */
TOGETHER_TEST(half_of_a_wait_is_for_one_after_the_other, t)
{
    struct waiter waiter;
    int code;

    assert_code(rlock_try_lock(t->b[0]), 0);
    waiter_start_on(&waiter, NULL, t->multi[1], 1000, NULL);
    assert_true(TEST_EVENTUALLY(fixture_holding(&t->f, "a") == 1, 5000));
    assert_code(rlock_unlock(t->b[0]), 0);
    code = waiter_join(&waiter);
    assert_true(code == 0 ||
                code == RLOCK_ETIMEDOUT); /* the latter where the machine stands still */
    assert_code(waiter.unlock_code, 0);
}

struct visitor {
    pthread_t thread;
    struct rlock_handle *multi;
    struct witness *witness;
    uint64_t id;
};

static void *wait_in_line(void *arg)
{
    const struct visitor *visitor = arg;

    TEST_CHECK(rlock_lock(visitor->multi) == 0);
    for (size_t cell = 0; cell < 2; cell++) {
        witness_enter(visitor->witness, cell, visitor->id);
    }
    for (size_t cell = 0; cell < 2; cell++) {
        witness_leave(visitor->witness, cell, visitor->id);
    }
    TEST_CHECK(rlock_unlock(visitor->multi) == 0);
    return NULL;
}

TOGETHER_TEST(of_many_that_wait_here_one_asks, t)
{
    struct visitor visitors[WAITERS];
    uint64_t before;

    assert_code(rlock_try_lock(t->b[0]), 0);
    before = requests(t);
    for (size_t i = 0; i < WAITERS; i++) {
        visitors[i] = (struct visitor){.multi = t->multi[1], .witness = t->f.witness, .id = i + 1};
        TEST_CHECK(pthread_create(&visitors[i].thread, NULL, wait_in_line, &visitors[i]) == 0);
    }
    assert_true(proxy_wait_subscribers(t->f.proxy, 1, 5000));
    assert_code(rlock_unlock(t->b[0]), 0);
    for (size_t i = 0; i < WAITERS; i++) {
        TEST_CHECK(pthread_join(visitors[i].thread, NULL) == 0);
    }
    /* each: one that finds it free, one that did not, and its two releases; who was stopped on the
     * way asks once more. If all asked at each release that were 168. */
    assert_in_range(requests(t) - before, 0, 7 * WAITERS);
}

static void *come_again(void *arg)
{
    for (int i = 0; i < 100; i++) {
        (void)wait_in_line(arg);
    }
    return NULL;
}

/* Threads that share handles and clients; ThreadSanitizer sees in which order mutexes are taken. */
TOGETHER_TEST(over_the_same_clients_in_opposite_order_nothing_deadlocks, t)
{
    struct visitor visitors[4];

    for (size_t i = 0; i < 4; i++) {
        struct rlock_handle *a = t->one->lock, *b = t->b[1];

        visitors[i] = (struct visitor){.multi = i % 2 == 0 ? user_multi(t->one, a, b)
                                                           : user_multi(t->one, b, a),
                                       .witness = t->f.witness,
                                       .id = i + 1};
    }
    for (size_t i = 0; i < 4; i++) {
        TEST_CHECK(pthread_create(&visitors[i].thread, NULL, come_again, &visitors[i]) == 0);
    }
    for (size_t i = 0; i < 4; i++) {
        TEST_CHECK(pthread_join(visitors[i].thread, NULL) == 0);
    }
}
