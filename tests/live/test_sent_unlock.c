/* SPDX-License-Identifier: Apache-2.0 */
/* Unlocks that do not wait for the server's answer: of handles with RLOCK_LOCK_SENT_UNLOCK, and in
 * callbacks. */
#include <pthread.h>
#include <rlock/stats.h>

#include "support/clients.h"
#include "support/user.h"
#include "support/witness.h"

enum { ONE_WAY_US = 50000, TRIP_MS = 100, PAIRS = 10 };

static struct rlock_handle *sent_lock(struct user *user, const char *name)
{
    struct rlock_handle *lock;

    assert_code(
        rlock_reentrant_new(user->client, name, RLOCK_OPTS(.flags = RLOCK_LOCK_SENT_UNLOCK), &lock),
        0);
    return lock;
}

static struct rlock_stats stats_of(const struct user *user)
{
    struct rlock_stats stats = RLOCK_STATS_INIT;

    assert_code(rlock_client_stats(user->client, &stats), 0);
    return stats;
}

static uint64_t unsure(const struct user *user)
{
    return stats_of(user).unsure;
}

#define FAR_TEST(name, f) FIXTURE_WITH_TEST(name, f, .proxy = PROXY_ON_UNIX)

FAR_TEST(an_unlock_that_is_sent_returns_before_the_answer, f)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *lock = sent_lock(user, "a");
    int64_t began_us;

    assert_code(rlock_lock(lock), 0);
    proxy_delay_us(f->proxy, ONE_WAY_US);
    began_us = test_now_us();
    assert_code(rlock_unlock(lock), 0);
    assert_in_time(began_us, ONE_WAY_US);
    assert_false(rlock_is_valid(lock));
    assert_int_equal(rlock_hold_count(lock), 0);
    assert_true(fixture_is_held(f)); /* the release is on its way */
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    assert_true(fixture_wait_held(f, false));
    assert_int_equal(unsure(user), 0);
    (void)rlock_free(lock);
}

/* The owner's next request goes right behind the release. */
FAR_TEST(a_pair_whose_unlock_is_sent_takes_one_round_trip, f)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *lock = sent_lock(user, "a");
    int64_t began_us;

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    proxy_delay_us(f->proxy, ONE_WAY_US);
    began_us = test_now_us();
    for (int i = 0; i < PAIRS; i++) {
        assert_code(rlock_lock(lock), 0);
        assert_true(rlock_is_valid(lock));
        assert_code(rlock_unlock(lock), 0);
    }
    assert_in_time(began_us, (int64_t)PAIRS * TRIP_MS * 1000 * 3 / 2); /* half of two each */
    assert_true(fixture_wait_held(f, false));
    (void)rlock_free(lock);
}

FIXTURE_TEST(an_inner_level_whose_unlock_is_sent_leaves_the_outer_ones, f)
{
    struct user *user = user_open(f, USUAL), *rival = user_open_direct(f);
    struct rlock_handle *lock = sent_lock(user, "a");

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_int_equal(rlock_hold_count(lock), 1);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_try_lock(rival->lock), RLOCK_EBUSY);
    assert_code(rlock_lock(lock), 0);
    assert_int_equal(rlock_hold_count(lock), 2);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_int_equal(rlock_hold_count(lock), 0);
    assert_code(rlock_lock_for(rival->lock, 10000, NULL, NULL), 0);
    assert_code(rlock_unlock(rival->lock), 0);
    (void)rlock_free(lock);
}

FIXTURE_TEST(a_hold_that_was_lost_before_its_sent_unlock_is_counted_and_logged, f)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *lock = sent_lock(user, "a");

    assert_code(rlock_lock(lock), 0);
    test_server_do(f->server, "DEL a");
    assert_code(rlock_unlock(lock), 0);
    assert_true(TEST_EVENTUALLY(unsure(user) == 1, 10000));
    assert_true(TEST_EVENTUALLY(
        user_logged(user, "that did not wait for the answer failed: the hold was lost") == 1,
        10000));
    assert_int_equal(user_losses(user), 0); /* nobody holds it any more */
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    (void)rlock_free(lock);
}

FAR_TEST(an_unlock_that_cannot_be_sent_is_in_doubt_at_once, f)
{
    struct user *user =
        user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = test_ms(2000), .op_timeout_ms = 60000));
    struct rlock_handle *lock = sent_lock(user, "a");
    struct rlock_failure failure = RLOCK_FAILURE_INIT;
    int64_t began_us;

    assert_code(rlock_lock(lock), 0);
    proxy_refuse(f->proxy, true);
    proxy_cut_all(f->proxy, PROXY_ANY);
    assert_true(TEST_EVENTUALLY(stats_of(user).connections == 0, 10000));
    began_us = test_now_us();
    assert_code(rlock_unlock(lock), RLOCK_EINDOUBT);
    assert_in_time(began_us, 1000000);
    assert_code(rlock_last_failure(&failure), 0);
    assert_true(failure.free_ms > 0 && failure.free_ms <= test_ms(2200));
    assert_false(rlock_is_valid(lock));
    proxy_refuse(f->proxy, false);
    assert_true(fixture_wait_held(f, false));
    (void)rlock_free(lock);
}

/* The server does not know the script of the release, which is sent again, behind the attempt. */
FIXTURE_TEST(an_owner_is_not_kept_out_by_its_own_sent_unlock, f)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *lock = sent_lock(user, "a");

    for (int i = 0; i < 50; i++) {
        test_server_do(f->server, "SCRIPT FLUSH");
        assert_code(rlock_lock(lock), 0);
        assert_code(rlock_unlock(lock), 0);
        assert_code(rlock_try_lock(lock), 0);
        assert_code(rlock_unlock(lock), 0);
    }
    (void)rlock_free(lock);
}

FAR_TEST(a_surplus_unlock_that_is_sent_finds_nothing, f)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *lock = sent_lock(user, "a");

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_lock(lock), 0);
    proxy_delay_us(f->proxy, ONE_WAY_US);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    for (int i = 0; i < 3; i++) {
        assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    }
    assert_true(fixture_wait_held(f, false));
    assert_int_equal(unsure(user), 0);
    (void)rlock_free(lock);
}

FAR_TEST(each_sent_unlock_of_a_lost_hold_is_counted, f)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *lock = sent_lock(user, "a");

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_lock(lock), 0);
    proxy_delay_us(f->proxy, ONE_WAY_US);
    test_server_do(f->server, "DEL a");
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_true(TEST_EVENTUALLY(unsure(user) == 2, 10000));
    (void)rlock_free(lock);
}

FIXTURE_TEST(a_sent_unlock_that_the_server_refuses_is_logged_with_the_reason, f)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *lock = sent_lock(user, "a");

    assert_code(rlock_lock(lock), 0);
    test_server_do(f->server, "ACL SETUSER default -evalsha -eval");
    assert_code(rlock_unlock(lock), 0);
    assert_true(TEST_EVENTUALLY(user_logged(user, "did not wait for the answer: ") == 1, 10000));
    test_server_do(f->server, "ACL SETUSER default +evalsha +eval");
    assert_true(fixture_wait_held(f, false));
    (void)rlock_free(lock);
}

/* The release is on its way already. */
FAR_TEST(the_end_of_an_owner_behind_its_sent_unlock_asks_for_nothing, f)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *lock = sent_lock(user, "a");
    uint64_t before;

    assert_code(TAKE(lock, 0, .owner = 1), 0);
    assert_code(rlock_unlock_as(lock, 1), 0);
    assert_code(TAKE(lock, 0, .owner = 1), 0); /* the server knows the scripts now */
    proxy_delay_us(f->proxy, ONE_WAY_US);
    before = stats_of(user).requests;
    assert_code(rlock_unlock_as(lock, 1), 0);
    assert_code(rlock_owner_end(user->client, 1), 0);
    assert_true(fixture_wait_held(f, false));
    assert_code(TAKE(lock, 0, .owner = 2), 0); /* behind all that was sent */
    assert_int_equal(stats_of(user).requests - before, 2);
    assert_code(rlock_unlock_as(lock, 2), 0);
    assert_int_equal(user_losses(user), 0);
    (void)rlock_free(lock);
}

/* Of each kind. */
FIXTURE_TEST(every_single_kind_may_send_its_unlocks, f)
{
    struct user *user = user_open(f, USUAL), *rival = user_open_direct(f);

    for (size_t i = 0; i < SINGLE_KINDS; i++) {
        const struct kind *kind = &single_kinds[i];
        struct rlock_handle *lock, *other;

        assert_code(kind->make(user->client, kind->name,
                               RLOCK_OPTS(.flags = RLOCK_LOCK_SENT_UNLOCK), &lock),
                    0);
        assert_code(kind->make(rival->client, kind->name, NULL, &other), 0);
        for (int j = 0; j < PAIRS; j++) {
            assert_code(rlock_lock(lock), 0);
            assert_code(rlock_unlock(lock), 0);
            assert_code(rlock_lock_for(other, 10000, NULL, NULL), 0);
            assert_code(rlock_unlock(other), 0);
        }
        (void)rlock_free(lock);
        (void)rlock_free(other);
    }
    assert_int_equal(unsure(user), 0);
    test_server_do(f->server, "DEL redisson_lock_token:{fenced} permits semaphore");
}

FIXTURE_TEST(a_lock_made_of_locks_waits_for_its_unlock, f)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *lock;

    assert_code(rlock_multi_new(&user->lock, 1, RLOCK_OPTS(.flags = RLOCK_LOCK_SENT_UNLOCK), &lock),
                RLOCK_EINVAL);
    assert_detail("RLOCK_LOCK_SENT_UNLOCK");
}

/* ---- Exclusion ---- */

enum { THREADS = 4, CLIENTS = 2, VISITS = 300 };

struct visitor {
    pthread_t thread;
    struct witness *witness;
    struct rlock_handle *lock;
    uint64_t id;
};

static void *visit(void *arg)
{
    const struct visitor *visitor = arg;

    for (int i = 0; i < VISITS; i++) {
        TEST_CHECK(rlock_lock(visitor->lock) == 0);
        witness_enter(visitor->witness, 0, visitor->id);
        witness_leave(visitor->witness, 0, visitor->id);
        TEST_CHECK(rlock_unlock(visitor->lock) == 0);
    }
    return NULL;
}

FAR_TEST(locks_whose_unlocks_are_sent_exclude, f)
{
    struct visitor visitors[CLIENTS * THREADS];
    struct witness *witness = witness_new(1);

    for (size_t i = 0; i < CLIENTS; i++) {
        struct user *user = user_open(f, USUAL);
        struct rlock_handle *lock = sent_lock(user, "a");

        for (size_t j = 0; j < THREADS; j++) {
            struct visitor *visitor = &visitors[i * THREADS + j];

            *visitor = (struct visitor){
                .witness = witness, .lock = rlock_ref(lock), .id = i * THREADS + j + 1};
            assert_int_equal(pthread_create(&visitor->thread, NULL, visit, visitor), 0);
        }
        (void)rlock_free(lock);
    }
    for (size_t i = 0; i < (size_t)CLIENTS * THREADS; i++) {
        assert_int_equal(pthread_join(visitors[i].thread, NULL), 0);
        (void)rlock_free(visitors[i].lock);
    }
    assert_true(witness_is_clean(witness, stdout));
    assert_int_equal(witness_entries(witness), CLIENTS * THREADS * VISITS);
    witness = witness_free(witness);
    assert_true(fixture_wait_held(f, false));
}

/* ---- Callbacks ---- */

struct in_callback {
    struct rlock_handle *lock;
    int64_t took_us;
    int code;
    _Atomic bool is_over;
};

static void unlock_here(struct rlock_op *op, void *payload)
{
    struct in_callback *in = payload;
    const int64_t began_us = test_now_us();

    TEST_CHECK(rlock_op_code(op) == 0);
    in->code = rlock_unlock_as(in->lock, 1);
    in->took_us = test_now_us() - began_us;
    in->is_over = true;
}

FAR_TEST(an_unlock_in_a_callback_does_not_hold_up_the_others, f)
{
    struct user *user = user_open(f, USUAL);
    struct in_callback in = {.lock = user->lock};

    assert_code(rlock_lock(user->lock), 0);
    assert_code(rlock_unlock(user->lock), 0);
    proxy_delay_us(f->proxy, ONE_WAY_US);
    assert_code(rlock_lock_async(user->lock, 0, RLOCK_TAKE(.owner = 1), unlock_here, &in, NULL), 0);
    assert_true(TEST_EVENTUALLY(in.is_over, 10000));
    assert_code(in.code, 0);
    assert_true(test_in_time(test_now_us() - in.took_us, in.took_us, ONE_WAY_US));
    assert_true(fixture_wait_held(f, false));
}
