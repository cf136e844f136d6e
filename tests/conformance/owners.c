/* SPDX-License-Identifier: Apache-2.0 */
/* Owners that are given by id. */
#include "cases.h"

#include <pthread.h>

#include "client/client.h"

enum { THREADS = 8, ROUNDS = 50 };

void given_owners_exclude_each_other(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client);

    assert_code(TAKE(lock, 0, .owner = 1), 0);
    assert_true(rlock_is_valid_as(lock, 1));
    assert_false(rlock_is_valid_as(lock, 2));
    assert_false(rlock_is_valid(lock));
    assert_int_equal(rlock_hold_count(lock), 0);
    assert_code(TAKE(rival, 0, .owner = 2), RLOCK_EBUSY);
    assert_code(rlock_unlock_as(lock, 2), RLOCK_ENOTOWNER);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    assert_code(rlock_unlock_as(lock, 1), 0);
    assert_code(TAKE(rival, 0, .owner = 2), 0);
    assert_false(rlock_is_valid_as(lock, 1));
    assert_true(rlock_is_valid_as(rival, 2));
    assert_code(rlock_unlock_as(rival, 2), 0);
}

void a_waiting_given_owner_gets_it_next(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client);
    struct actor *waiter = actor_open(f);

    assert_code(TAKE(rival, 0, .owner = 1), 0);
    actor_begin(waiter, act_take, lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = 2));
    await_waiting(client, 1);
    assert_code(rlock_unlock_as(rival, 1), 0);
    assert_code(actor_end(waiter), 0);
    assert_code(rlock_unlock_as(lock, 2), 0);
}

void a_given_owner_may_move_between_threads(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct actor *taker = actor_open(f);

    assert_code(actor_do(taker, act_take, lock, 0, RLOCK_TAKE(.owner = 7)), 0);
    assert_true(rlock_is_valid_as(lock, 7));
    assert_false(actor_do(taker, act_is_valid, lock, 0, NULL));
    assert_code(rlock_unlock_as(lock, 7), 0);
}

void a_given_owner_is_not_the_thread_of_that_number(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client);
    const uint64_t number = rlock__thread_number();

    assert_code(rlock_lock(lock), 0);
    assert_false(rlock_is_valid_as(lock, number));
    assert_code(TAKE(rival, 0, .owner = number), RLOCK_EBUSY);
    assert_code(rlock_unlock_as(lock, number), RLOCK_ENOTOWNER);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
}

void a_given_owner_has_its_own_validity_and_count(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    const uint32_t levels = kind_can(f, CAN_NEST) ? 3 : 1;

    assert_int_equal(rlock_hold_count_as(lock, 7), 0);
    assert_int_equal(rlock_valid_ms_as(lock, 7), 0);
    for (uint32_t level = 1; level <= levels; level++) {
        assert_code(TAKE(lock, 0, .owner = 7, .lease_ms = 60000), 0);
        assert_int_equal(rlock_hold_count_as(lock, 7), level);
    }
    assert_in_range(rlock_valid_ms_as(lock, 7), 30000, 60000);
    assert_int_equal(rlock_valid_ms_as(lock, 8), 0);
    assert_int_equal(rlock_hold_count_as(lock, 8), 0);
    assert_int_equal(rlock_valid_ms_as(lock, 0), 0); /* the calling thread */
    assert_int_equal(rlock_hold_count_as(lock, 0), 0);
    for (uint32_t level = levels; level > 0; level--) {
        assert_int_equal(rlock_hold_count_as(lock, 7), level);
        assert_code(rlock_unlock_as(lock, 7), 0);
    }
    assert_int_equal(rlock_hold_count_as(lock, 7), 0);
    assert_code(rlock_lock(lock), 0);
    assert_int_equal(rlock_hold_count_as(lock, 0), 1);
    assert_true(rlock_valid_ms_as(lock, 0) > 0);
    assert_code(rlock_unlock(lock), 0);
}

/* Takes and gives up what others of the same owner take and give up at the same time. */
static int act_nest_and_unlock(struct rlock_handle *lock, int64_t wait_ms,
                               const struct rlock_take *take)
{
    int code = 0;

    for (int i = 0; i < ROUNDS && code == 0; i++) {
        code = rlock_lock_for(lock, wait_ms, take, NULL);
        TEST_CHECK(code != 0 || rlock_is_valid_as(lock, take->owner));
        code = code == 0 ? rlock_unlock_as(lock, take->owner) : code;
    }
    return code;
}

void a_given_owners_calls_take_turns(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct actor *threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        threads[i] = actor_open(f);
        actor_begin(threads[i], act_nest_and_unlock, lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = 7));
    }
    for (int i = 0; i < THREADS; i++) {
        assert_code(actor_end(threads[i]), 0);
    }
    assert_false(rlock_is_valid_as(lock, 7));
    assert_code(rlock_unlock_as(lock, 7), RLOCK_ENOTOWNER); /* as many unlocks as takes */
    assert_code(rlock_try_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
}

static struct rlock_client *drawing_from[2];
static uint64_t drawn[THREADS][ROUNDS];

/* For the row that wait_ms says. */
static int act_draw_owners(struct rlock_handle *lock, int64_t wait_ms,
                           const struct rlock_take *take)
{
    (void)lock;
    (void)take;
    for (int i = 0; i < ROUNDS; i++) {
        drawn[wait_ms][i] = rlock_owner_new(drawing_from[i % 2]);
    }
    return 0;
}

static int compare(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

void owner_ids_are_given_once(struct fixture *f)
{
    struct actor *threads[THREADS];
    uint64_t *ids = drawn[0];

    drawing_from[0] = client_open(f);
    drawing_from[1] = client_open(f);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = actor_open(f);
        actor_begin(threads[i], act_draw_owners, NULL, i, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)actor_end(threads[i]);
    }
    qsort(ids, (size_t)THREADS * ROUNDS, sizeof(ids[0]), compare);
    assert_true(ids[0] != 0);
    for (int i = 1; i < THREADS * ROUNDS; i++) {
        assert_true(ids[i - 1] != ids[i]);
    }
}

void a_loss_names_the_given_owner(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    const uint64_t owner = rlock_owner_new(client);

    assert_code(TAKE(lock, 0, .owner = owner, .lease_ms = test_ms(50)), 0);
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_true(last_loss(f)->owner == owner);
    assert_string_equal(last_loss(f)->kind, rlock_kind(lock));
    assert_int_equal(last_loss(f)->name_len, strlen(NAME));
    assert_code(rlock_unlock_as(lock, owner), RLOCK_ELOST);
}

/* The first unlock waits for the server, which is paused; so the second one gets no turn. */
void an_unlock_that_gets_no_turn_ends_the_hold(struct fixture *f)
{
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.op_timeout_ms = 80 * test_slack()));
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    int code;

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_lock(lock), 0);
    test_server_freeze(f->server);
    assert_code(rlock_unlock(lock), RLOCK_EINDOUBT);
    assert_int_equal(rlock_hold_count(lock), 1);
    assert_code(rlock_unlock(lock), RLOCK_EINDOUBT);
    assert_non_null(strstr(rlock_detail(), "it is free in "));
    assert_false(rlock_is_valid(lock));
    assert_int_equal(rlock_hold_count(lock), 0);
    test_server_thaw(f->server);
    /* a third of the lease */
    assert_code(rlock_lock_for(rival, 10000 * test_slack(), NULL, NULL), 0);
    code = rlock_unlock(lock); /* and what came of it is known, or comes with this call */
    assert_true(code == RLOCK_ENOTOWNER || code == 0);
    assert_code(rlock_unlock(rival), 0);
}

/* Nobody knows yet whether there will be anything to unlock. */
void an_unlock_behind_a_waiting_take_ends_in_time(struct fixture *f)
{
    const int64_t timeout_ms = 80 * test_slack();
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.op_timeout_ms = timeout_ms));
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *taker = actor_open(f);
    int64_t since_us;

    assert_code(rlock_lock(rival), 0);
    actor_begin(taker, act_take, lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = 7));
    await_waiting(client, 1);
    since_us = test_now_us();
    assert_code(rlock_unlock_as(lock, 7), RLOCK_ENOTOWNER);
    assert_in_time(since_us, (timeout_ms + LATE_MS * test_slack()) * 1000);
    assert_code(rlock_unlock(rival), 0);
    assert_code(actor_end(taker), 0);
    assert_code(rlock_unlock_as(lock, 7), 0);
}
