/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and clients that come and go. */
#include "support/clients.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

static void *pass_through(void *lock)
{
    TEST_CHECK(act_pass_through(lock, RLOCK_FOREVER, NULL) == 0);
    return NULL;
}

LOCK_TEST(hundreds_of_short_threads_leave_nothing, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    const int rounds = test_slack() > 1 ? 50 : 200;

    for (int i = 0; i < rounds; i++) {
        pthread_t threads[4];

        for (size_t j = 0; j < 4; j++) {
            assert_int_equal(pthread_create(&threads[j], NULL, pass_through, lock), 0);
        }
        for (size_t j = 0; j < 4; j++) {
            (void)pthread_join(threads[j], NULL);
        }
    }
    assert_code(rlock_try_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
}

static void *lock_and_end(void *lock)
{
    TEST_CHECK(rlock_lock(lock) == 0);
    return NULL;
}

LOCK_TEST(each_thread_that_ends_with_a_hold_is_told_once, f)
{
    enum { N = 10 };
    struct rlock_client *client = client_open(f);
    struct rlock_handle *locks[N];
    pthread_t threads[N];

    for (size_t i = 0; i < N; i++) {
        char name[16];

        test_text(name, sizeof(name), "ends-%zu", i);
        locks[i] = lock_named(f, client, name);
        assert_int_equal(pthread_create(&threads[i], NULL, lock_and_end, locks[i]), 0);
    }
    for (size_t i = 0; i < N; i++) {
        (void)pthread_join(threads[i], NULL);
        (void)expect_loss(f, RLOCK_LOST_THREAD_EXITED);
    }
    for (size_t i = 0; i < N; i++) {
        assert_code(rlock_force_unlock(locks[i], NULL), 0);
    }
}

LOCK_TEST(clients_that_come_and_go_leave_nothing, f)
{
    const size_t fds = test_fds_open();
    size_t after = 0;

    for (int i = 0; i < 20; i++) {
        struct rlock_client *client = client_open(f);
        struct rlock_handle *lock = NULL;

        assert_code(rlock_reentrant_new(client, NAME, NULL, &lock), 0);
        if (i % 3 != 0) { /* else it never connects */
            assert_code(rlock_lock(lock), 0);
        }
        if (i % 3 == 1) { /* else it is closed while it holds */
            assert_code(rlock_unlock(lock), 0);
        }
        assert_null(rlock_free(lock));
        client_close(f, client);
        after = test_fds_open();
    }
    forgive_losses(f);
    assert_int_equal(after, fds);
}

LOCK_TEST(handles_may_be_freed_after_their_client, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *locks[3];

    for (size_t i = 0; i < 3; i++) {
        assert_code(rlock_reentrant_new(client, NAME, NULL, &locks[i]), 0);
    }
    client_close(f, client);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(rlock_name(locks[i], NULL), NAME);
        assert_string_equal(rlock_kind(locks[i]), "reentrant");
        assert_null(rlock_free(locks[i]));
    }
}

/* ---- Signals ---- */

static atomic_int signals;

static void on_alarm(int signal)
{
    (void)signal;
    atomic_fetch_add(&signals, 1);
}

LOCK_TEST(a_thousand_signals_a_second_disturb_nothing, f)
{
    struct rlock_handle *locks[2] = {lock_new(f, client_open(f)), lock_new(f, client_open(f))};
    struct actor *other = actor_open(f);
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerval fast = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    const int64_t end_us = test_now_us() + 300000;

    test_must(sigaction(SIGALRM, &action, NULL), "sigaction");
    test_must(setitimer(ITIMER_REAL, &fast, NULL), "setitimer");
    do {
        actor_begin(other, act_pass_through, locks[1], RLOCK_FOREVER, NULL);
        assert_code(rlock_lock(locks[0]), 0);
        assert_code(rlock_lock_for(locks[0], 5000, NULL, NULL), 0);
        assert_code(rlock_unlock(locks[0]), 0);
        assert_code(rlock_unlock(locks[0]), 0);
        assert_code(actor_end(other), 0);
    } while (test_now_us() < end_us);
    test_must(setitimer(ITIMER_REAL, &off, NULL), "setitimer");
    assert_true(atomic_load(&signals) > 10);
}
