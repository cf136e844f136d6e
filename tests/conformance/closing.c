/* SPDX-License-Identifier: Apache-2.0 */
/* Closing a client, whatever it is doing. */
#include "cases.h"

#include <stdatomic.h>

void close_wakes_its_waiters(struct fixture *f)
{
    enum { N = 5 };
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *waiters[N];
    int64_t closed_us, us[N];

    assert_code(rlock_lock(rival), 0);
    for (size_t i = 0; i < N; i++) {
        waiters[i] = actor_open(f);
        actor_begin(
            waiters[i], act_take, lock, i % 2 == 0 ? RLOCK_FOREVER : 60000,
            RLOCK_TAKE(.owner = i < 3 ? 0 : 7)); /* two of one owner: one behind the other */
    }
    await_waiting(client, N);
    closed_us = test_now_us();
    client_close(f, client);
    for (size_t i = 0; i < N; i++) {
        assert_code(actor_end(waiters[i]), RLOCK_ECLOSED);
        us[i] = actor_ended_us(waiters[i]) - closed_us;
    }
    assert_usually_took(us, N, 100, 500);
    assert_true(rlock_is_valid(rival));
    assert_code(rlock_unlock(rival), 0);
}

void close_gives_its_holds_back(struct fixture *f)
{
    struct rlock_client *client = client_open(f), *elsewhere = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *b = lock_named(f, client, "b");
    struct rlock_handle *rival = rival_new(f, elsewhere);
    struct actor *waiter = actor_open(f);
    int64_t closed_us;

    assert_code(rlock_lock(lock), 0);
    assert_code(TAKE(b, 0, .owner = 3, .lease_ms = fixed_ms(f, 60000)), 0);
    actor_begin(waiter, act_pass_through, rival, RLOCK_FOREVER, NULL);
    await_waiting(elsewhere, 1);
    closed_us = test_now_us();
    client_close(f, client);
    assert_int_equal(losses_told(f), 2); /* told before close returned */
    (void)expect_loss(f, RLOCK_LOST_CLOSED);
    (void)expect_loss(f, RLOCK_LOST_CLOSED);
    assert_code(actor_end(waiter), 0);
    assert_took(actor_ended_us(waiter) - closed_us, 0, 1000);
    assert_int_equal(fixture_keys(f), 0);
    assert_false(rlock_is_valid(lock));
    assert_false(rlock_is_valid_as(b, 3));
}

void close_gives_back_every_level(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);

    for (int i = 0; i < 5; i++) {
        assert_code(rlock_lock(lock), 0);
    }
    client_close(f, client);
    (void)expect_loss(f, RLOCK_LOST_CLOSED);
    assert_int_equal(fixture_keys(f), 0);
}

void calls_after_close_say_closed(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *none = NULL;
    struct rlock_info info = RLOCK_INFO_INIT;

    client_close(f, client);
    assert_code(rlock_lock(lock), RLOCK_ECLOSED);
    assert_code(rlock_try_lock(lock), RLOCK_ECLOSED);
    assert_code(rlock_unlock(lock), RLOCK_ECLOSED);
    assert_code(rlock_unlock_as(lock, 4), RLOCK_ECLOSED);
    assert_code(rlock_force_unlock(lock, NULL), RLOCK_ECLOSED);
    assert_code(rlock_inspect(lock, &info), RLOCK_ECLOSED);
    assert_code(f->kind->make(client, NAME, NULL, &none), RLOCK_ECLOSED);
    assert_false(rlock_is_valid(lock));
    assert_int_equal(rlock_valid_ms(lock), 0);
    assert_string_equal(rlock_name(lock, NULL), NAME);
    assert_null(rlock_client_close(NULL));
}

static struct rlock_client *client_with_timeout(struct fixture *f, int64_t op_timeout_ms)
{
    return client_open_with(f, RLOCK_CLIENT_OPTS(.op_timeout_ms = op_timeout_ms));
}

/* The server says nothing, but hears what close sends before it goes. */
void close_against_a_frozen_server_is_bounded(struct fixture *f)
{
    const int64_t timeout_ms = 80 * test_slack();
    struct rlock_client *client = client_with_timeout(f, timeout_ms);
    struct rlock_handle *lock = lock_new(f, client);
    int64_t since_us;

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0); /* the server knows the scripts */
    assert_code(rlock_lock(lock), 0);
    test_server_freeze(f->server);
    since_us = test_now_us();
    client_close(f, client);
    assert_in_time(since_us, (timeout_ms + LATE_MS * test_slack()) * 1000);
    (void)expect_loss(f, RLOCK_LOST_CLOSED);
    test_server_thaw(f->server);
    assert_true(TEST_EVENTUALLY(fixture_keys(f) == 0, 5000));
}

void close_without_a_server_is_bounded(struct fixture *f)
{
    const int64_t timeout_ms = 80 * test_slack();
    struct rlock_client *client = client_with_timeout(f, timeout_ms);
    struct rlock_client *idle = client_with_timeout(f, timeout_ms);
    struct rlock_handle *lock = lock_new(f, client);
    int64_t since_us;

    assert_code(rlock_lock(lock), 0);
    test_server_kill(f->server);
    since_us = test_now_us();
    client_close(f, client);
    client_close(f, idle);
    assert_in_time(since_us, (timeout_ms + LATE_MS * test_slack()) * 1000);
    (void)expect_loss(f, RLOCK_LOST_CLOSED);
    test_server_restart(f->server, false);
}

/* Takes and gives up until it is told that the client is closed. */
static int act_until_closed(struct rlock_handle *lock, int64_t wait_ms,
                            const struct rlock_take *take)
{
    int code = 0;

    while (code == 0 || code == RLOCK_EBUSY || code == RLOCK_ETIMEDOUT) {
        code = rlock_lock_for(lock, wait_ms, take, NULL);
        if (code == 0) {
            code = rlock_unlock(lock);
        }
    }
    return code;
}

void close_in_full_swing_leaves_nothing(struct fixture *f)
{
    enum { N = 6 };
    struct actor *threads[N];

    for (size_t i = 0; i < N; i++) {
        threads[i] = actor_open(f);
    }
    for (int round = 0; round < 10; round++) {
        struct rlock_client *client = client_open(f);
        struct rlock_handle *lock = lock_new(f, client);

        for (size_t i = 0; i < N; i++) {
            actor_begin(threads[i], act_until_closed, lock, i % 2 == 0 ? 0 : 60000, NULL);
        }
        (void)STAYS(true, round);
        client_close(f, client);
        for (size_t i = 0; i < N; i++) {
            const int code = actor_end(threads[i]);

            assert_true(code == RLOCK_ECLOSED || code == RLOCK_ELOST || code == RLOCK_EINDOUBT);
        }
        assert_int_equal(fixture_keys(f), 0);
        forgive_losses(f);
    }
}
