/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes and leaves that no thread waits for: a lock of one key, a multi-lock, a RedLock. The thread
 * that begins them does nothing until it is told.
 */
#include <pthread.h>

#include "client/lock.h"
#include "support/stall.h"
#include "support/user.h"

enum { OWNER = 5, OTHER = 6, SERVERS = 3, KINDS = 3 };

/* What a user has: a lock of each kind that concerns "a" on the first server. */
struct locks {
    struct rlock_handle *of[KINDS];
};

/* Three servers, and two users. */
struct begin {
    struct fixture f;
    struct user *user, *rival;
    struct locks locks;
};

static struct locks locks_of(struct user *user)
{
    return (struct locks){
        {user->members[0], user_multi(user, user->members[0], user->members[1]), user->lock}};
}

static void begin_open(struct begin *b)
{
    fixture_open(&b->f, &(struct fixture_opts){.servers = SERVERS});
    b->user = user_open(&b->f, USUAL);
    b->rival = user_open(&b->f, USUAL);
    b->locks = locks_of(b->user);
    user_take_everywhere(b->user);
    assert_code(rlock_unlock(b->user->lock), 0);
}

#define BEGIN_TEST(name, b) TEST_AROUND(name, struct begin, b, begin_open(b), fixture_close(&b->f))
#define EACH_KIND(kind) for (size_t kind = 0; (kind) < KINDS; (kind)++)

/* ---- Operations ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;

/* One that was begun. */
struct begun {
    struct rlock__op op;
    struct rlock__texts texts;
    unsigned nth; /* the how many-th of all to be completed; 0: it is not */
};

static unsigned n_completed;

static void finish(struct rlock__op *op)
{
    struct begun *begun = op->payload;

    (void)pthread_mutex_lock(&mutex);
    assert_int_equal(begun->nth, 0);
    begun->nth = ++n_completed;
    (void)pthread_cond_broadcast(&told);
    (void)pthread_mutex_unlock(&mutex);
}

static bool is_complete(struct begun *begun)
{
    bool complete;

    (void)pthread_mutex_lock(&mutex);
    complete = begun->nth != 0;
    (void)pthread_mutex_unlock(&mutex);
    return complete;
}

/* Waits for its end: what came of it. */
static int await(struct begun *begun)
{
    (void)pthread_mutex_lock(&mutex);
    while (begun->nth == 0) {
        (void)pthread_cond_wait(&told, &mutex);
    }
    (void)pthread_mutex_unlock(&mutex);
    return begun->op.code;
}

static struct rlock__owner given(uint64_t id)
{
    return (struct rlock__owner){.id = id, .given = true};
}

static void begin_take(struct begun *begun, struct rlock_handle *lock, int64_t wait_ms,
                       const struct rlock_take *take)
{
    *begun = (struct begun){.op = {.finish = finish, .payload = begun, .texts = &begun->texts}};
    assert_code(lock->vtable->begin_take(lock, wait_ms, take, given(take->owner), &begun->op), 0);
}

static int begin_leave(struct begun *begun, struct rlock_handle *lock, uint64_t owner)
{
    *begun = (struct begun){.op = {.finish = finish, .payload = begun, .texts = &begun->texts}};
    return lock->vtable->begin_leave(lock, given(owner), &begun->op);
}

static void leave(struct rlock_handle *lock, uint64_t owner)
{
    struct begun begun;

    assert_code(begin_leave(&begun, lock, owner), 0);
    assert_code(await(&begun), 0);
}

#define OURS(...) RLOCK_TAKE(.owner = OWNER, __VA_ARGS__)

/* On any server. */
static bool is_awaited(const struct begin *b)
{
    bool awaited = false;

    for (size_t i = 0; i < SERVERS; i++) {
        awaited = awaited || test_server_waiters(b->f.servers[i], CHANNEL_A) == 1;
    }
    return awaited;
}

/* Somebody else has "a" on every server, and leaves it. */
static void keep_out(const struct begin *b)
{
    for (size_t i = 0; i < SERVERS; i++) {
        assert_code(TAKE(b->rival->members[i], 5000, .owner = OTHER), 0);
    }
}

static void let_in(const struct begin *b)
{
    for (size_t i = 0; i < SERVERS; i++) {
        assert_code(rlock_unlock_as(b->rival->members[i], OTHER), 0);
    }
}

/* One that was begun waits. */
static void wait_behind(struct begin *b, size_t kind, struct begun *begun, int64_t wait_ms,
                        const struct rlock_take *take)
{
    keep_out(b);
    begin_take(begun, b->locks.of[kind], wait_ms, take);
    assert_true(TEST_EVENTUALLY(is_awaited(b), 5000));
    assert_false(is_complete(begun));
}

/* ---- Tests ---- */

BEGIN_TEST(what_was_begun_is_completed, b)
{
    EACH_KIND(kind)
    {
        struct rlock_handle *lock = b->locks.of[kind];
        struct begun take;

        begin_take(&take, lock, 0, RLOCK_TAKE(.owner = OWNER, .lease_ms = 60000));
        assert_code(await(&take), 0);
        assert_int_equal(take.op.standing.lease_us, 60000 * RLOCK__MS);
        assert_in_range(take.op.standing.valid_until - test_now_us(), 1, 60000 * RLOCK__MS);
        assert_int_equal(rlock_hold_count_as(lock, OWNER), 1);
        assert_true(rlock_is_valid_as(lock, OWNER));
        /* of a RedLock the first server may be the last that grants it */
        assert_true(TEST_EVENTUALLY(fixture_is_held(&b->f), 5000));
        leave(lock, OWNER);
        assert_int_equal(rlock_hold_count_as(lock, OWNER), 0);
        assert_true(TEST_EVENTUALLY(fixture_holding(&b->f, "a") == 0, 5000));
    }
}

BEGIN_TEST(one_try_of_a_busy_lock_says_so, b)
{
    EACH_KIND(kind)
    {
        struct begun take, unlock;

        keep_out(b);
        begin_take(&take, b->locks.of[kind], 0, RLOCK_TAKE(.owner = OWNER));
        assert_code(await(&take), RLOCK_EBUSY);
        assert_string_not_equal(take.texts.detail, "");
        assert_code(begin_leave(&unlock, b->locks.of[kind], OWNER), 0);
        assert_code(await(&unlock), RLOCK_ENOTOWNER);
        let_in(b);
    }
}

BEGIN_TEST(one_that_waits_has_it_when_its_holder_leaves, b)
{
    EACH_KIND(kind)
    {
        struct begun take;

        wait_behind(b, kind, &take, RLOCK_FOREVER, OURS());
        let_in(b);
        assert_code(await(&take), 0);
        leave(b->locks.of[kind], OWNER);
    }
}

BEGIN_TEST(those_of_one_owner_are_completed_in_order, b)
{
    EACH_KIND(kind)
    {
        struct rlock_handle *lock = b->locks.of[kind];
        struct begun first, second, third;

        wait_behind(b, kind, &first, RLOCK_FOREVER, OURS());
        begin_take(&second, lock, RLOCK_FOREVER, OURS());
        assert_code(begin_leave(&third, lock, OWNER), 0);
        let_in(b);
        assert_code(TAKE(lock, 5000, .owner = OWNER), 0);
        assert_code(await(&third), 0);
        assert_code(await(&second), 0);
        assert_code(await(&first), 0);
        assert_true(first.nth < second.nth && second.nth < third.nth);
        assert_int_equal(rlock_hold_count_as(lock, OWNER), 2);
        leave(lock, OWNER);
        leave(lock, OWNER);
    }
}

BEGIN_TEST(a_wait_ends_at_its_deadline, b)
{
    EACH_KIND(kind)
    {
        struct begun first, second;
        int64_t began_us;

        wait_behind(b, kind, &first, RLOCK_FOREVER, OURS());
        began_us = test_now_us();
        begin_take(&second, b->locks.of[kind], 100, RLOCK_TAKE(.owner = OWNER));
        assert_code(await(&second), RLOCK_ETIMEDOUT); /* in line */
        assert_true(test_elapsed_us(began_us) >= 100000);
        assert_false(is_complete(&first));
        began_us = test_now_us();
        begin_take(&second, b->locks.of[kind], 100, RLOCK_TAKE(.owner = OWNER + 2));
        assert_code(await(&second), RLOCK_ETIMEDOUT);
        assert_true(test_in_time(began_us, test_elapsed_us(began_us), 400000 * test_slack()));
        let_in(b);
        assert_code(await(&first), 0);
        leave(b->locks.of[kind], OWNER);
    }
}

BEGIN_TEST(a_wait_can_be_cancelled, b)
{
    EACH_KIND(kind)
    {
        struct rlock_cancel *cancel, *both;
        struct begun first, second, third;
        int64_t began_us;

        assert_code(rlock_cancel_new(&cancel), 0);
        assert_code(rlock_cancel_new(&both), 0);
        wait_behind(b, kind, &first, RLOCK_FOREVER, OURS(.cancel = both));
        begin_take(&second, b->locks.of[kind], RLOCK_FOREVER, OURS(.cancel = cancel));
        begin_take(&third, b->locks.of[kind], RLOCK_FOREVER, OURS(.cancel = both));
        rlock_cancel_fire(cancel);
        assert_code(await(&second), RLOCK_ECANCELED); /* in line */
        assert_false(is_complete(&first) || is_complete(&third));
        began_us = test_now_us();
        rlock_cancel_fire(both);
        assert_code(await(&first), RLOCK_ECANCELED);
        assert_code(await(&third), RLOCK_ECANCELED);
        assert_true(test_in_time(began_us, test_elapsed_us(began_us), 100000 * test_slack()));
        begin_take(&first, b->locks.of[kind], RLOCK_FOREVER,
                   OURS(.cancel = both)); /* which was fired */
        assert_code(await(&first), RLOCK_ECANCELED);
        let_in(b);
        cancel = rlock_cancel_free(cancel);
        both = rlock_cancel_free(both);
    }
}

BEGIN_TEST(to_close_its_client_ends_a_wait, b)
{
    EACH_KIND(kind)
    {
        struct user *user = user_open(&b->f, USUAL);
        struct locks locks = locks_of(user);
        struct begun first, second, late;
        int64_t began_us;

        keep_out(b);
        begin_take(&first, locks.of[kind], RLOCK_FOREVER, OURS());
        begin_take(&second, locks.of[kind], RLOCK_FOREVER, OURS());
        assert_true(TEST_EVENTUALLY(is_awaited(b), 5000));
        began_us = test_now_us();
        for (size_t i = 0; i < SERVERS; i++) {
            user->clients[i] = rlock_client_close(user->clients[i]);
        }
        assert_true(is_complete(&first) && is_complete(&second));
        assert_code(first.op.code, RLOCK_ECLOSED);
        assert_code(second.op.code, RLOCK_ECLOSED);
        assert_true(test_in_time(began_us, test_elapsed_us(began_us), 500000 * test_slack()));
        assert_code(begin_leave(&late, locks.of[kind], OWNER), RLOCK_ECLOSED);
        let_in(b);
        user_close(user);
    }
}

/* ---- Whoever has it is alone ---- */

enum { ACTORS = 4, ROUNDS = 40 };

/* An owner that takes a lock, and a level more, and leaves both; each begins the next. */
struct chain {
    struct rlock__op op;
    struct rlock__texts texts;
    struct rlock_handle *lock;
    struct witness *witness;
    uint64_t owner;
    unsigned steps; /* four to a round */
    int code;       /* the first that was not 0 */
    bool over;
};

static void go_on(struct rlock__op *op);

static int chain_begin(struct chain *chain)
{
    const struct rlock__vtable *vtable = chain->lock->vtable;

    chain->texts = (struct rlock__texts){.detail = ""};
    chain->op = (struct rlock__op){.finish = go_on, .payload = chain, .texts = &chain->texts};
    return chain->steps % 4 < 2 ? vtable->begin_take(chain->lock, RLOCK_FOREVER, RLOCK_TAKE(),
                                                     given(chain->owner), &chain->op)
                                : vtable->begin_leave(chain->lock, given(chain->owner), &chain->op);
}

static void go_on(struct rlock__op *op)
{
    struct chain *chain = op->payload;

    chain->code = op->code;
    if (op->code == 0 && chain->steps % 4 == 0) {
        witness_enter(chain->witness, 0, chain->owner);
    } else if (op->code == 0 && chain->steps % 4 == 2) {
        witness_leave(chain->witness, 0, chain->owner);
    }
    chain->steps++;
    if (chain->code == 0 && chain->steps < 4 * ROUNDS) {
        chain->code = chain_begin(chain);
    }
    (void)pthread_mutex_lock(&mutex);
    chain->over = chain->code != 0 || chain->steps == 4 * ROUNDS;
    (void)pthread_cond_broadcast(&told);
    (void)pthread_mutex_unlock(&mutex);
}

BEGIN_TEST(whoever_has_it_is_alone, b)
{
    struct locks rivals = locks_of(b->rival);

    EACH_KIND(kind)
    {
        struct chain chains[ACTORS];

        for (size_t i = 0; i < ACTORS; i++) {
            chains[i] = (struct chain){.lock = i % 2 == 0 ? b->locks.of[kind] : rivals.of[kind],
                                       .witness = b->f.witness,
                                       .owner = i + 1};
            assert_code(chain_begin(&chains[i]), 0);
        }
        for (size_t i = 0; i < ACTORS; i++) {
            (void)pthread_mutex_lock(&mutex);
            while (!chains[i].over) {
                (void)pthread_cond_wait(&told, &mutex);
            }
            (void)pthread_mutex_unlock(&mutex);
            assert_code(chains[i].code, 0);
        }
        assert_true(witness_is_clean(b->f.witness, stderr));
    }
}
