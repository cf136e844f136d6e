/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of one owner on one multi-lock: one at a time, in the order in which they came. */
#include "support/waiter.h"

#include <sys/resource.h>

enum { OWNER = 5, OTHER = 6 };

/* Two servers, and a multi-lock of "m" on each. */
struct turns {
    struct fixture f;
    struct user *user;
    struct rlock_handle *member, *multi; /* the member on the first server */
};

static void turns_open(struct turns *t)
{
    fixture_open(&t->f, &(struct fixture_opts){.servers = 2});
    t->user = user_open(&t->f, USUAL);
    t->member = user_lock_on(t->user, 0, "m");
    t->multi = user_multi(t->user, t->member, user_lock_on(t->user, 1, "m"));
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

    atomic_store(&taker->code, rlock_lock_for(taker->lock, RLOCK_FOREVER, &taker->take, NULL));
    return NULL;
}

static void begin(struct taker *taker, struct rlock_handle *lock, struct rlock_cancel *cancel)
{
    taker->lock = lock;
    taker->take = *RLOCK_TAKE(.owner = OWNER, .cancel = cancel);
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
    assert_code(TAKE(t->member, 5000, .owner = OTHER), 0);
    begin(first, t->multi, NULL);
    assert_true(
        TEST_EVENTUALLY(test_server_waiters(t->f.server, "redisson_lock__channel:{m}") == 1, 5000));
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
    assert_code(TAKE(t->multi, 100, .owner = OWNER), RLOCK_ETIMEDOUT);
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

/* ---- An unlock that gets no turn ---- */

/* The only file descriptor of its client to wait with is in use. */
TURNS_TEST(an_unlock_without_a_file_descriptor_ends_the_hold, t)
{
    struct rlock_handle *other =
        user_multi(t->user, user_lock_on(t->user, 0, "other"), user_lock_on(t->user, 1, "other"));
    struct taker first;
    struct rlimit old, none;
    int code;

    assert_code(rlock_lock(other), 0);
    wait_behind(t, &first);
    test_must(getrlimit(RLIMIT_NOFILE, &old), "getrlimit");
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = old.rlim_max};
    test_must(setrlimit(RLIMIT_NOFILE, &none), "setrlimit");
    code = rlock_unlock(other);
    test_must(setrlimit(RLIMIT_NOFILE, &old), "setrlimit");
    assert_code(code, RLOCK_EINDOUBT);
    assert_non_null(strstr(rlock_detail(), "it is free in "));
    assert_false(rlock_is_valid(other));
    assert_true(TEST_EVENTUALLY(fixture_holding(&t->f, "other") == 0, 5000));
    assert_code(rlock_unlock(other), RLOCK_ENOTOWNER);
    assert_code(rlock_unlock_as(t->member, OTHER), 0);
    assert_code(end(&first), 0);
    assert_code(rlock_unlock_as(t->multi, OWNER), 0);
}

/* A lock on servers, of which the last two are to be paused; and somebody who wants it as well. */
struct stuck {
    struct fixture *f;
    struct rlock_handle *lock, *rival;
    struct rlock_op *takes[2];
};

static struct rlock_handle *stuck_lock(struct fixture *f, bool multi, int64_t timeout_ms)
{
    struct user *user = user_open(
        f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = timeout_ms, .renewed_lease_ms = 20 * timeout_ms));

    return multi ? user_multi(user, user_lock_on(user, 0, "a"), user_lock_on(user, 1, "a"))
                 : user->lock;
}

/* Two calls for a level more: the first has the turn, and waits for servers that do not answer. */
static void stuck_open(struct stuck *s, struct fixture *f, bool multi)
{
    const int64_t timeout_ms = 150 * test_slack();

    *s = (struct stuck){.f = f,
                        .lock = stuck_lock(f, multi, timeout_ms),
                        .rival = stuck_lock(f, multi, timeout_ms)};
    assert_code(TAKE(s->rival, 20000, .owner = OTHER), 0);
    assert_code(rlock_unlock_as(s->rival, OTHER), 0);
    assert_code(TAKE(s->lock, 20000, .owner = OWNER), 0);
    for (size_t i = 1; i < f->n; i++) {
        test_server_freeze(f->servers[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_code(rlock_lock_async(s->lock, RLOCK_FOREVER,
                                     RLOCK_TAKE(.lease_ms = 40 * timeout_ms, .owner = OWNER), NULL,
                                     NULL, &s->takes[i]),
                    0);
    }
}

static bool is_complete(const struct rlock_op *op)
{
    return rlock_op_code(op) != RLOCK_UNDER_WAY;
}

/* The hold is over; and when the servers go on, another client has the lock. */
static void stuck_close(struct stuck *s)
{
    assert_false(rlock_is_valid_as(s->lock, OWNER));
    assert_int_equal(rlock_hold_count_as(s->lock, OWNER), 0);
    for (size_t i = 2; i-- > 0;) {
        rlock_op_cancel(s->takes[i]);
        assert_true(TEST_EVENTUALLY(is_complete(s->takes[i]), 20000));
        assert_int_not_equal(rlock_op_code(s->takes[i]), 0);
        s->takes[i] = rlock_op_unref(s->takes[i]);
    }
    for (size_t i = 1; i < s->f->n; i++) {
        test_server_thaw(s->f->servers[i]);
    }
    assert_code(TAKE(s->rival, 20000, .owner = OTHER), 0);
    assert_code(rlock_unlock_as(s->lock, OWNER), RLOCK_ENOTOWNER);
    assert_code(rlock_unlock_as(s->rival, OTHER), 0);
}

static void unlock_behind(struct fixture *f, bool multi)
{
    struct stuck s;

    stuck_open(&s, f, multi);
    assert_true(rlock_is_valid_as(s.lock, OWNER));
    assert_code(rlock_unlock_as(s.lock, OWNER), RLOCK_EINDOUBT);
    assert_non_null(strstr(rlock_detail(), "it is free in "));
    stuck_close(&s);
}

static void begin_unlock_behind(struct fixture *f, bool multi)
{
    struct stuck s;
    struct rlock_op *unlock;

    stuck_open(&s, f, multi);
    assert_true(rlock_is_valid_as(s.lock, OWNER));
    assert_code(rlock_unlock_async(s.lock, OWNER, NULL, NULL, &unlock), 0);
    assert_true(TEST_EVENTUALLY(is_complete(unlock), 20000));
    assert_code(rlock_op_code(unlock), RLOCK_EINDOUBT);
    assert_non_null(strstr(rlock_op_detail(unlock), "it is free in "));
    unlock = rlock_op_unref(unlock);
    stuck_close(&s);
}

FIXTURE_WITH_TEST(an_unlock_without_a_turn_ends_a_multi_lock, f, .servers = 2)
{
    unlock_behind(f, true);
}

FIXTURE_WITH_TEST(an_async_unlock_without_a_turn_ends_a_multi_lock, f, .servers = 2)
{
    begin_unlock_behind(f, true);
}

FIXTURE_WITH_TEST(an_unlock_without_a_turn_ends_a_redlock, f, .servers = 3)
{
    unlock_behind(f, false);
}

FIXTURE_WITH_TEST(an_async_unlock_without_a_turn_ends_a_redlock, f, .servers = 3)
{
    begin_unlock_behind(f, false);
}
