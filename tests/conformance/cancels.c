/* SPDX-License-Identifier: Apache-2.0 */
/* Ending a wait from elsewhere. */
#include "cases.h"

#include <signal.h>

enum { ROUNDS = 9 };

static struct rlock_cancel *cancel_new(void)
{
    struct rlock_cancel *cancel = NULL;

    assert_code(rlock_cancel_new(&cancel), 0);
    return cancel;
}

void a_cancel_ends_a_wait_at_once(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *waiter = actor_open(f);
    int64_t us[ROUNDS];

    assert_code(rlock_lock(rival), 0);
    for (int i = 0; i < ROUNDS; i++) {
        struct rlock_cancel *cancel = cancel_new();
        int64_t fired_us;

        actor_begin(waiter, act_take, lock, RLOCK_FOREVER, RLOCK_TAKE(.cancel = cancel));
        await_waiting(client, 1);
        fired_us = test_now_us();
        rlock_cancel_fire(cancel);
        assert_code(actor_end(waiter), RLOCK_ECANCELED);
        us[i] = actor_ended_us(waiter) - fired_us;
        assert_null(rlock_cancel_free(cancel));
    }
    assert_usually_took(us, ROUNDS, 10, 500);
    assert_true(rlock_is_valid(rival));
    assert_code(rlock_unlock(rival), 0);
}

static struct rlock_cancel *handlers_cancel;

static void fire_in_handler(int signal)
{
    (void)signal;
    rlock_cancel_fire(handlers_cancel);
}

/* The handler runs in the very thread that waits. */
void a_cancel_from_a_signal_handler_ends_a_wait(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *waiter = actor_open(f);
    const struct sigaction action = {.sa_handler = fire_in_handler};
    int64_t us[ROUNDS];

    test_must(sigaction(SIGUSR1, &action, NULL), "sigaction");
    assert_code(rlock_lock(rival), 0);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t fired_us;

        handlers_cancel = cancel_new();
        actor_begin(waiter, act_take, lock, RLOCK_FOREVER, RLOCK_TAKE(.cancel = handlers_cancel));
        await_waiting(client, 1);
        fired_us = test_now_us();
        actor_signal(waiter, SIGUSR1);
        assert_code(actor_end(waiter), RLOCK_ECANCELED);
        us[i] = actor_ended_us(waiter) - fired_us;
        assert_null(rlock_cancel_free(handlers_cancel));
    }
    assert_usually_took(us, ROUNDS, 10, 500);
    assert_code(rlock_unlock(rival), 0);
}

static void assert_asks_nobody(struct fixture *f)
{
    assert_int_equal(fixture_calls(f, "evalsha") + fixture_calls(f, "eval"), 0);
}

void a_fired_cancel_lets_no_call_begin(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct rlock_cancel *cancel = cancel_new();
    int64_t since_us;

    rlock_cancel_fire(cancel);
    for (int i = 0; i < ROUNDS; i++) {
        fixture_count_calls(f);
        assert_code(TAKE(lock, RLOCK_FOREVER, .cancel = cancel), RLOCK_ECANCELED);
        assert_code(TAKE(lock, 0, .cancel = cancel), RLOCK_ECANCELED);
        assert_false(rlock_is_valid(lock));
        assert_asks_nobody(f);
        assert_code(rlock_try_lock(rival), 0); /* nothing was left behind */
        fixture_count_calls(f);
        since_us = test_now_us();
        assert_code(TAKE(lock, RLOCK_FOREVER, .cancel = cancel), RLOCK_ECANCELED);
        assert_took(test_elapsed_us(since_us), 0, 500);
        assert_asks_nobody(f);
        assert_code(rlock_unlock(rival), 0);
    }
    assert_null(rlock_cancel_free(cancel));
}

void one_cancel_ends_all_its_waits(struct fixture *f)
{
    enum { N = 6 };
    struct rlock_client *clients[2] = {client_open(f), client_open(f)};
    struct rlock_handle *rival = rival_new(f, client_open(f)), *locks[2];
    struct rlock_cancel *cancel = cancel_new();
    struct actor *waiters[N];

    assert_code(rlock_lock(rival), 0);
    for (size_t i = 0; i < N; i++) {
        locks[i % 2] = i < 2 ? lock_new(f, clients[i]) : locks[i % 2];
        waiters[i] = actor_open(f);
        actor_begin(waiters[i], act_take, locks[i % 2], 60000, RLOCK_TAKE(.cancel = cancel));
    }
    await_waiting(clients[0], N / 2);
    await_waiting(clients[1], N / 2);
    rlock_cancel_fire(cancel);
    for (size_t i = 0; i < N; i++) {
        assert_code(actor_end(waiters[i]), RLOCK_ECANCELED);
    }
    assert_code(rlock_unlock(rival), 0);
    assert_null(rlock_cancel_free(cancel));
}

void a_cancelled_waiter_lets_those_behind_it_go_on(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct rlock_cancel *cancel = cancel_new();
    struct actor *first = actor_open(f), *second = actor_open(f);

    assert_code(rlock_lock(rival), 0);
    actor_begin(first, act_take, lock, RLOCK_FOREVER, RLOCK_TAKE(.cancel = cancel));
    await_waiting(client, 1);
    actor_begin(second, act_pass_through, lock, RLOCK_FOREVER, NULL);
    await_waiting(client, 2);
    rlock_cancel_fire(cancel);
    assert_code(actor_end(first), RLOCK_ECANCELED);
    assert_code(rlock_unlock(rival), 0);
    assert_code(actor_end(second), 0);
    assert_null(rlock_cancel_free(cancel));
}

/* The first take of an owner waits for the lock, the second for the first. */
void a_cancel_ends_the_wait_for_another_take_of_the_same_owner(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct rlock_cancel *cancel = cancel_new();
    struct actor *first = actor_open(f), *second = actor_open(f);

    assert_code(rlock_lock(rival), 0);
    actor_begin(first, act_take, lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = 7));
    await_waiting(client, 1);
    actor_begin(second, act_take, lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = 7, .cancel = cancel));
    await_waiting(client, 2);
    rlock_cancel_fire(cancel);
    assert_code(actor_end(second), RLOCK_ECANCELED);
    assert_true(actor_is_busy(first));
    assert_code(rlock_unlock(rival), 0);
    assert_code(actor_end(first), 0);
    assert_code(rlock_unlock_as(lock, 7), 0);
    assert_null(rlock_cancel_free(cancel));
}

static int act_fire_after(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    const int64_t end_us = test_now_us() + wait_ms;

    (void)lock;
    while (test_now_us() < end_us) {
    }
    rlock_cancel_fire(take->cancel);
    return 0;
}

/* Wherever the cancel strikes: what it may still get is given back, and not renewed. */
void a_cancelled_take_leaves_nothing(struct fixture *f)
{
    struct rlock_client *client = client_open_renewing(f, test_ms(300));
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *canceller = actor_open(f);
    int granted = 0;

    for (int i = 0; i < 100; i++) {
        struct rlock_cancel *cancel = cancel_new();
        int code;

        actor_begin(canceller, act_fire_after, NULL, 7 * i % 400,
                    RLOCK_TAKE(.cancel = cancel)); /* in us */
        code = TAKE(lock, 1000 * test_slack(), .cancel = cancel);
        (void)actor_end(canceller);
        if (code == 0) {
            granted++;
            assert_code(rlock_unlock(lock), 0);
        } else {
            assert_code(code, RLOCK_ECANCELED);
            assert_code(rlock_lock_for(rival, 5000, NULL, NULL), 0);
            assert_code(rlock_unlock(rival), 0);
        }
        assert_null(rlock_cancel_free(cancel));
    }
    print_message("%d of 100 were granted before the cancel\n", granted);
}

void a_cancel_of_an_attempt_without_an_answer_gives_it_back(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct rlock_cancel *cancel = cancel_new();
    struct actor *waiter = actor_open(f);
    int64_t fired_us;

    assert_code(rlock_try_lock(lock), 0); /* connected now */
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_try_lock(rival), 0);
    assert_code(rlock_unlock(rival), 0);
    test_server_freeze(f->server);
    actor_begin(waiter, act_take, lock, RLOCK_FOREVER, RLOCK_TAKE(.cancel = cancel));
    (void)STAYS(true, 20); /* the attempt is on its way */
    fired_us = test_now_us();
    rlock_cancel_fire(cancel);
    assert_code(actor_end(waiter), RLOCK_ECANCELED);
    assert_took(actor_ended_us(waiter) - fired_us, 0, LATE_MS);
    test_server_thaw(f->server);
    assert_code(rlock_lock_for(rival, 5000, NULL, NULL),
                0); /* given back, long before the lease ends */
    assert_code(rlock_unlock(rival), 0);
    assert_null(rlock_cancel_free(cancel));
}

void a_cancel_that_is_not_fired_changes_nothing(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_cancel *cancel = cancel_new();

    for (int i = 0; i < 3; i++) {
        assert_code(TAKE(lock, 1000, .cancel = cancel), 0);
        assert_code(rlock_unlock(lock), 0);
    }
    assert_null(rlock_cancel_free(cancel));
    assert_null(rlock_cancel_free(NULL));
    assert_code(rlock_cancel_new(NULL), RLOCK_EINVAL);
}
