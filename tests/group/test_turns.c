/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of one owner on one multi-lock: one at a time, in the order in which they came. */
#include "support/waiter.h"

enum { OWNER = 5, OTHER = 6 };

/* Two servers, and a multi-lock of "m" on each. */
struct turns {
    struct fixture f;
    struct rlock_handle *member, *multi; /* the member on the first server */
};

static void turns_open(struct turns *t)
{
    struct user *user;

    fixture_open(&t->f, &(struct fixture_opts){.servers = 2});
    user = user_open(&t->f, USUAL);
    t->member = user_lock_on(user, 0, "m");
    t->multi = user_multi(user, t->member, user_lock_on(user, 1, "m"));
}

#define TURNS_TEST(name, t) TEST_AROUND(name, struct turns, t, turns_open(t), fixture_close(&t->f))

/* A call of the owner, in a thread of its own, that keeps what it takes. */
struct taker {
    pthread_t thread;
    struct rlock_handle *lock;
    struct rlock_take take;
    atomic_int code; /* 1: not back yet */
};

static void *taker_main(void *arg)
{
    struct taker *taker = arg;

    atomic_store(&taker->code, rlock_lock_with(taker->lock, &taker->take, NULL));
    return NULL;
}

static void begin(struct taker *taker, struct rlock_handle *lock, struct rlock_cancel *cancel)
{
    taker->lock = lock;
    taker->take = *RLOCK_TAKE(.wait_ms = RLOCK_FOREVER, .owner = OWNER, .cancel = cancel);
    atomic_store(&taker->code, 1);
    TEST_CHECK(pthread_create(&taker->thread, NULL, taker_main, taker) == 0);
}

static int end(struct taker *taker)
{
    TEST_CHECK(pthread_join(taker->thread, NULL) == 0);
    return atomic_load(&taker->code);
}

/* Somebody else holds a member, and a call of the owner waits for it. */
static void wait_behind(struct turns *t, struct taker *first)
{
    assert_code(TAKE(t->member, .owner = OTHER, .wait_ms = 5000), 0);
    begin(first, t->multi, NULL);
    assert_true(TEST_EVENTUALLY(
        test_server_says(t->f.server, "redisson_lock__channel:{m}", "PUBSUB CHANNELS"), 5000));
}

TURNS_TEST(a_call_waits_for_the_one_before_it, t)
{
    struct taker first, second;

    wait_behind(t, &first);
    begin(&second, t->multi, NULL);
    assert_code(rlock_unlock_as(t->member, OTHER), 0);
    assert_code(end(&first), 0);
    assert_code(end(&second), 0);
    assert_int_equal(rlock_hold_count_as(t->multi, OWNER), 2);
    assert_code(rlock_unlock_as(t->multi, OWNER), 0);
    assert_code(rlock_unlock_as(t->multi, OWNER), 0);
}

TURNS_TEST(its_wait_ends_at_its_deadline, t)
{
    struct taker first;

    wait_behind(t, &first);
    assert_code(TAKE(t->multi, .owner = OWNER, .wait_ms = 100), RLOCK_ETIMEDOUT);
    assert_int_equal(atomic_load(&first.code), 1);
    assert_code(rlock_unlock_as(t->member, OTHER), 0);
    assert_code(end(&first), 0);
    assert_code(rlock_unlock_as(t->multi, OWNER), 0);
}

TURNS_TEST(its_wait_can_be_cancelled, t)
{
    struct taker first, second;
    struct rlock_cancel *cancel;

    assert_code(rlock_cancel_new(&cancel), 0);
    wait_behind(t, &first);
    begin(&second, t->multi, cancel);
    rlock_cancel_fire(cancel);
    assert_code(end(&second), RLOCK_ECANCELED);
    assert_int_equal(atomic_load(&first.code), 1);
    assert_code(rlock_unlock_as(t->member, OTHER), 0);
    assert_code(end(&first), 0);
    assert_code(rlock_unlock_as(t->multi, OWNER), 0);
    cancel = rlock_cancel_free(cancel);
}
