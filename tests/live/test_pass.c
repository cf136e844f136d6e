/* SPDX-License-Identifier: Apache-2.0 */
/* Holds that are passed on from thread to thread, on a real server. */
#include "support/clients.h"
#include "support/counts.h"
#include "support/witness.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 100, GRANTS = THREADS * ROUNDS };

struct worker {
    struct rlock_handle *lock;
    struct witness *witness;
    uint64_t id;
    pthread_t thread;
};

static void *work(void *arg)
{
    struct worker *worker = arg;

    for (int i = 0; i < ROUNDS; i++) {
        TEST_CHECK(rlock_lock(worker->lock) == 0);
        TEST_CHECK(rlock_is_valid(worker->lock));
        witness_enter(worker->witness, 0, worker->id);
        witness_leave(worker->witness, 0, worker->id);
        TEST_CHECK(rlock_unlock(worker->lock) == 0);
    }
    return NULL;
}

/* Starts threads that take the lock again and again. Each uses one of these handles. */
static void crowd_begin(struct worker workers[static THREADS], struct witness *witness,
                        struct rlock_handle *const handles[], size_t n)
{
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.lock = handles[i % n], .witness = witness, .id = i + 1};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
}

static void crowd_end(struct worker workers[static THREADS], struct witness *witness)
{
    for (size_t i = 0; i < THREADS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    assert_true(witness_is_clean(witness, stderr));
    assert_int_equal(witness_entries(witness), GRANTS);
    (void)witness_free(witness);
}

/* Threads of a client want one lock all the time. Returns how many scripts that took. */
static long long crowd(struct fixture *f, uint64_t flags)
{
    struct rlock_handle *lock = lock_new(f, client_open_with(f, RLOCK_CLIENT_OPTS(.flags = flags)));
    struct worker workers[THREADS];
    struct witness *witness = witness_new(1);

    assert_code(rlock_lock(lock), 0); /* until all are there */
    fixture_count_calls(f);
    crowd_begin(workers, witness, &lock, 1);
    assert_code(rlock_unlock(lock), 0);
    crowd_end(workers, witness);
    return fixture_calls(f, "evalsha");
}

/* On a busy machine holds last longer than a hold is passed on for: then it is released. */
LOCK_TEST(threads_of_a_client_pass_a_lock_on_and_nobody_is_beside_another, f)
{
    long long scripts = crowd(f, 0);

    print_message("%lld scripts for %d grants\n", scripts, GRANTS);
    assert_in_range(scripts, 2, GRANTS);
}

LOCK_TEST(without_the_pass_each_hold_is_released, f)
{
    assert_true(crowd(f, RLOCK_CLIENT_NO_PASS) >= 2LL * GRANTS);
}

/* An extension lets a hold be passed on that was granted long ago. The new owner has held it only
 * since then. */
LOCK_TEST(a_hold_that_is_passed_on_begins_with_its_new_owner, f)
{
    enum { OLD = 7, NEW = 8 };
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    struct actor *waiter = actor_open(f);
    int64_t since_us;
    uint64_t passes = 0;

    while (passes == 0) { /* on a busy machine it may be released instead */
        const struct rlock_take *take = RLOCK_TAKE(.owner = NEW);

        assert_code(TAKE(lock, 0, .owner = OLD), 0);
        actor_begin(waiter, act_take, lock, RLOCK_FOREVER, take);
        await_waiting(client, 1);
        since_us = test_now_us();
        assert_true(TEST_EVENTUALLY(test_elapsed_us(since_us) > 50000, 10000));
        assert_code(rlock_extend(lock, OLD, 0, NULL), 0);
        since_us = test_now_us();
        assert_code(rlock_unlock_as(lock, OLD), 0);
        assert_code(actor_end(waiter), 0);
        passes = counts_of(client).passes;
        assert_code(rlock_held(lock, NEW, &grant), 0);
        assert_in_range(grant.held_ms, 0, test_elapsed_us(since_us) / 1000);
        assert_code(rlock_unlock_as(lock, NEW), 0);
    }
}

/* The threads use two clients, and their holds linger. */
LOCK_TEST(holds_that_linger_exclude_threads_and_other_clients, f)
{
    struct rlock_handle *handles[2];
    struct worker workers[THREADS];
    struct witness *witness = witness_new(1);

    for (size_t i = 0; i < 2; i++) {
        handles[i] = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.linger_ms = 10));
    }
    crowd_begin(workers, witness, handles, 2);
    crowd_end(workers, witness);
    assert_true(TEST_EVENTUALLY(!fixture_has_key(f, NAME), 1000));
}
