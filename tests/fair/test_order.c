/* SPDX-License-Identifier: Apache-2.0 */
/* First come, first served: the order of the grants is that of the queue, and nobody is kept
 * waiting by who has left. */
#include <stdatomic.h>

#include "fair/hall.h"

/* ---- Crowds ---- */

/* What the threads of a crowd share; one crowd at a time. */
static struct {
    struct witness *witness;
    int rounds;
    bool in_haste; /* half of the calls give up soon */
    atomic_uint_least64_t ids, visits, failures;
} crowd;

static void begin_crowd(int rounds, bool in_haste)
{
    crowd.witness = witness_new(1);
    crowd.rounds = rounds;
    crowd.in_haste = in_haste;
    crowd.ids = crowd.visits = crowd.failures = 0;
}

static void visit(struct rlock_handle *lock, uint64_t id, int wait_ms)
{
    int code = rlock_lock_for(lock, wait_ms, NULL, NULL);

    if (code == 0) {
        witness_enter(crowd.witness, 0, id);
        atomic_fetch_add(&crowd.visits, 1);
        witness_leave(crowd.witness, 0, id);
        TEST_CHECK(rlock_unlock(lock) == 0);
    } else {
        TEST_CHECK(hall_gave_up(code) && wait_ms > 0);
        atomic_fetch_add(&crowd.failures, 1);
    }
}

static int act_visit(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    uint64_t id = atomic_fetch_add(&crowd.ids, 1) + 1;

    (void)wait_ms;
    (void)take;
    for (int i = 0; i < crowd.rounds; i++) {
        bool hurries = crowd.in_haste && ((uint64_t)i + id) % 2 == 0;

        visit(lock, id, hurries ? 1 + (int)((id * 7 + (uint64_t)i) % 23) : RLOCK_FOREVER);
    }
    return 0;
}

/* Whether a head may have been put out of the queue because nobody heard it for a second: only in a
 * crowd that took so long, which hundreds of threads do on a busy machine. */
static bool may_be_put_out(size_t n, int64_t began_us)
{
    return n >= 500 && test_elapsed_us(began_us) > 1000000;
}

/* n threads, spread over the clients, each rounds times; what the server did was in order. */
static void let_in(struct fixture *f, size_t n_clients, size_t n, int rounds, bool in_haste)
{
    /* the scripts of hundreds at once may keep the server busy for longer than a call has here */
    const struct rlock_client_opts *opts = RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack());
    struct rlock_handle **locks = calloc(n_clients, sizeof(*locks));
    struct actor **actors = calloc(n, sizeof(*actors));
    struct chronicle *chronicle = chronicle_begin(f);
    size_t grants, leavers;
    int64_t began_us;

    begin_crowd(rounds, in_haste);
    for (size_t i = 0; i < n_clients; i++) {
        locks[i] = lock_new(f, client_open_with(f, opts));
        (void)is_locked(locks[i]); /* connected now: short waits are for the lock */
    }
    for (size_t i = 0; i < n; i++) {
        actors[i] = actor_open(f);
    }
    began_us = test_now_us();
    for (size_t i = 0; i < n; i++) {
        actor_begin(actors[i], act_visit, locks[i % n_clients], 0, NULL);
    }
    for (size_t i = 0; i < n; i++) {
        (void)actor_end(actors[i]);
    }
    hall_await_queued(f, 0);
    assert_true(chronicle_end(chronicle, &grants, &leavers));
    assert_int_equal(crowd.visits + crowd.failures, n * (size_t)rounds);
    assert_true(grants >= crowd.visits && (in_haste || grants == crowd.visits));
    assert_true(leavers <= crowd.failures || may_be_put_out(n, began_us));
    assert_true(witness_is_clean(crowd.witness, stderr));
    crowd.witness = witness_free(crowd.witness);
    free(actors);
    free(locks);
}

HALL_TEST(threads_of_one_client_are_served_in_order, f)
{
    let_in(f, 1, 24, 10, false);
}

HALL_TEST(sixteen_clients_are_served_in_order, f)
{
    let_in(f, 16, 16, 25, false);
}

HALL_TEST(a_hundred_clients_once_each, f)
{
    let_in(f, 100, 100, 1, false);
}

/* testMultipleLocks */
HALL_TEST(five_hundred_threads_get_it_once_each, f)
{
    let_in(f, 1, 500, 1, false);
}

HALL_TEST(those_who_give_up_do_not_disturb_the_order, f)
{
    let_in(f, 8, 24, 30, true);
}

/* ---- One after the other ---- */

enum { N = 8 };

HALL_TEST(arrival_decides, f)
{
    struct rlock_handle *locks[N], *first = lock_new(f, client_open(f));
    struct actor *actors[N];
    struct hall_queue queue;

    for (size_t i = 0; i < N; i++) {
        locks[i] = lock_new(f, client_open(f));
        actors[i] = actor_open(f);
    }
    assert_code(rlock_lock(first), 0);
    hall_line_up(f, actors, locks, N, act_take, RLOCK_FOREVER, NULL);
    hall_queue(f, &queue);
    assert_code(rlock_unlock(first), 0);
    for (size_t i = 0; i < N; i++) {
        assert_code(actor_end(actors[i]), 0);
        assert_string_equal(hall_holder(f), queue.owners[i]);
        assert_int_equal(hall_queued(f), N - i - 1);
        assert_code(actor_do(actors[i], act_unlock, locks[i], 0, NULL), 0);
    }
}

/* Nobody unlocks: each lease ends, and the next one is let in. */
HALL_TEST(expiry_alone_advances_the_queue, f)
{
    enum { LEASE_MS = 300 };
    struct rlock_handle *locks[N], *first = lock_new(f, client_open(f));
    struct actor *actors[N];
    int64_t began_us;

    for (size_t i = 0; i < N; i++) {
        locks[i] = lock_new(f, client_open(f));
        actors[i] = actor_open(f);
    }
    assert_code(TAKE(first, 0, .lease_ms = 2000), 0);
    hall_line_up(f, actors, locks, N, act_take, RLOCK_FOREVER, RLOCK_TAKE(.lease_ms = LEASE_MS));
    assert_code(rlock_unlock(first), 0);
    began_us = test_now_us();
    for (size_t i = 0; i < N; i++) {
        assert_code(actor_end(actors[i]), 0);
        assert_true(i == 0 || actor_ended_us(actors[i]) > actor_ended_us(actors[i - 1]));
    }
    assert_took(test_elapsed_us(began_us), (N - 1) * (LEASE_MS - 10), N * (LEASE_MS + 60));
    assert_true(TEST_EVENTUALLY(losses_told(f) == N, 2000));
    forgive_losses(f);
    for (size_t i = 0; i < N; i++) {
        assert_code(actor_do(actors[i], act_unlock, locks[i], 0, NULL), RLOCK_ELOST);
    }
}

/* Two locks that have been taken and given up before: the server knows their scripts. */
static void make_two(struct fixture *f, struct rlock_handle **ret_first,
                     struct rlock_handle **ret_second)
{
    *ret_first = lock_new(f, client_open(f));
    *ret_second = lock_new(f, client_open(f));
    assert_code(rlock_lock(*ret_first), 0);
    assert_code(rlock_unlock(*ret_first), 0);
    assert_code(rlock_lock(*ret_second), 0);
    assert_code(rlock_unlock(*ret_second), 0);
}

HALL_TEST(an_expired_lease_lets_the_head_in_at_once, f)
{
    struct rlock_handle *first, *second;
    int64_t began_us;

    make_two(f, &first, &second);
    began_us = test_now_us();
    assert_code(TAKE(first, 0, .lease_ms = 500), 0);
    assert_code(rlock_lock(second), 0);
    assert_took(test_elapsed_us(began_us), 490, 700);
    assert_code(rlock_unlock(first), RLOCK_ELOST);
    expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock(second), 0);
}

HALL_TEST(who_has_left_does_not_delay_the_next, f)
{
    struct rlock_handle *first, *second;

    make_two(f, &first, &second);
    assert_code(rlock_lock(first), 0);
    assert_code(rlock_lock_for(second, 200, NULL, NULL), RLOCK_ETIMEDOUT);
    assert_code(rlock_unlock(first), 0);
    assert_code(rlock_try_lock(second), 0);
    assert_code(rlock_unlock(second), 0);
}

HALL_TEST(a_timed_try_waits_as_long_as_it_was_told, f)
{
    struct rlock_handle *first, *second;
    int64_t began_us;

    make_two(f, &first, &second);
    assert_code(rlock_lock(first), 0);
    began_us = test_now_us();
    assert_code(rlock_lock_for(second, 1000, NULL, NULL), RLOCK_ETIMEDOUT);
    assert_took(test_elapsed_us(began_us), 990, 1150);
    assert_non_null(strstr(rlock_detail(), "held by"));
    assert_code(rlock_unlock(first), 0);
}

/* A holder, and calls that come and go for a while: scores stay where the places put them. */
HALL_TEST(scores_do_not_drift, f)
{
    struct rlock_handle *first = lock_new(f, client_open(f));
    struct actor *actors[3];
    struct rlock_handle *locks[3];
    long long most = 0;

    begin_crowd(40, true);
    assert_code(TAKE(first, 0, .lease_ms = 30000), 0);
    for (size_t i = 0; i < 3; i++) {
        locks[i] = lock_new(f, client_open(f));
        actors[i] = actor_open(f);
        actor_begin(actors[i], act_visit, locks[i], 0, NULL);
    }
    for (int64_t end_us = test_now_us() + 600000; test_now_us() < end_us;) {
        char *last = test_server_cmd(f->server, "ZRANGE " SCORES " -1 -1 WITHSCORES");
        const char *score = strchr(last, '\n');
        long long left = score != NULL ? strtoll(score + 1, NULL, 10) - hall_clock(f) : 0;

        most = left > most ? left : most;
        free(last);
    }
    assert_in_range(most, SLOT_MS, 30000 + 3 * SLOT_MS);
    assert_code(rlock_unlock(first), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_code(actor_end(actors[i]), 0);
    }
    assert_true(witness_is_clean(crowd.witness, stderr));
    crowd.witness = witness_free(crowd.witness);
}
