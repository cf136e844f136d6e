/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting, and what ends it. */
#include "cases.h"

#include <signal.h>

enum { ROUNDS = 5 };

void a_try_on_a_held_lock_is_refused_at_once(struct fixture *f)
{
    struct rlock_client *holder = client_open(f);
    struct rlock_handle *lock = lock_new(f, client_open(f)), *rival = rival_new(f, holder);
    int64_t us[ROUNDS];

    assert_code(rlock_lock(rival), 0);
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY); /* connected now */
    for (int i = 0; i < ROUNDS; i++) {
        const int64_t since_us = test_now_us();

        assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
        us[i] = test_elapsed_us(since_us);
        assert_non_null(strstr(rlock_detail(), NAME));
        assert_true(!kind_can(f, NAMES_HOLDER) ||
                    strstr(rlock_detail(), rlock_client_uuid(holder)) != NULL);
    }
    assert_usually_took(us, ROUNDS, 10, 500);
    assert_code(rlock_unlock(rival), 0);
}

void a_timed_wait_ends_in_time(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f)), *rival = rival_new(f, client_open(f));
    int64_t over_us[ROUNDS];

    assert_code(rlock_lock(rival), 0);
    for (int i = 0; i < ROUNDS; i++) {
        const int64_t wait_ms = 60 + 20 * i, since_us = test_now_us();

        assert_code(rlock_lock_for(lock, wait_ms, NULL, NULL), RLOCK_ETIMEDOUT);
        over_us[i] = test_elapsed_us(since_us) - 1000 * wait_ms;
        assert_true(over_us[i] >= 0);
        assert_true(!kind_can(f, NAMES_HOLDER) || strstr(rlock_detail(), "held by") != NULL);
    }
    assert_usually_took(over_us, ROUNDS, 50, 500);
    assert_code(rlock_unlock(rival), 0);
}

/* No test can wait that long. But a deadline that overflowed would end the wait at once. */
void a_wait_beyond_the_longest_time_has_no_end(struct fixture *f)
{
    static const int64_t waits_ms[] = {
        RLOCK_TIME_MAX_MS, RLOCK_TIME_MAX_MS + 1, INT64_MAX,
        INT64_C(18446744073709552) /* overflows to 384 us */
    };
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *waiter = actor_open(f);

    for (size_t i = 0; i < sizeof(waits_ms) / sizeof(waits_ms[0]); i++) {
        assert_code(rlock_lock(rival), 0);
        actor_begin(waiter, act_pass_through, lock, waits_ms[i], NULL);
        await_waiting(client, 1);
        assert_code(rlock_unlock(rival), 0);
        assert_code(actor_end(waiter), 0);
    }
}

/* Rounds of: a rival unlocks, a waiter gets it. */
static void hand_over(struct fixture *f, struct rlock_client *client, struct rlock_handle *rival)
{
    struct rlock_handle *lock = lock_new(f, client);
    struct actor *waiter = actor_open(f);
    int64_t us[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        int64_t unlocked_us;

        assert_code(rlock_lock(rival), 0);
        actor_begin(waiter, act_take, lock, RLOCK_FOREVER, NULL);
        await_waiting(client, 1);
        unlocked_us = test_now_us();
        assert_code(rlock_unlock(rival), 0);
        assert_code(actor_end(waiter), 0);
        us[i] = actor_ended_us(waiter) - unlocked_us;
        assert_code(actor_do(waiter, act_unlock, lock, 0, NULL), 0);
    }
    assert_usually_took(us, ROUNDS, wake_ms(f), 1000);
}

void a_release_elsewhere_wakes_a_waiter(struct fixture *f)
{
    hand_over(f, client_open(f), rival_new(f, client_open(f)));
}

void a_release_by_a_thread_of_this_process_wakes_a_waiter(struct fixture *f)
{
    struct rlock_client *client = client_open(f);

    hand_over(f, client, rival_new(f, client));
}

/* Rounds of: a rival's lease ends, a waiter gets it; not before the rival stopped
 * believing in it. */
static void take_over(struct fixture *f, struct rlock_client *client, struct rlock_handle *rival)
{
    struct rlock_handle *lock = lock_new(f, client);
    struct actor *waiter = actor_open(f);
    const int64_t lease_ms = test_ms(100);
    int64_t late_us[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        const int64_t asked_us = test_now_us();
        int64_t held_us;

        assert_code(TAKE(rival, 0, .lease_ms = lease_ms), 0);
        held_us = test_now_us();
        assert_code(actor_do(waiter, act_take, lock, RLOCK_FOREVER, NULL), 0);
        assert_true(actor_ended_us(waiter) >= asked_us + (lease_ms - lease_ms / 50 - 2) * 1000);
        late_us[i] = actor_ended_us(waiter) - (held_us + lease_ms * 1000);
        (void)expect_loss(f, RLOCK_LOST_EXPIRED);
        assert_code(rlock_unlock(rival), RLOCK_ELOST); /* and does no harm */
        assert_true(actor_do(waiter, act_is_valid, lock, 0, NULL));
        assert_code(actor_do(waiter, act_unlock, lock, 0, NULL), 0);
    }
    assert_took(test_median(late_us, ROUNDS) + 10000, 0, 10 + wake_ms(f));
    assert_took(test_percentile(late_us, ROUNDS, 100) + 10000, 0, 1000);
}

void a_waiter_gets_it_when_the_lease_ends(struct fixture *f)
{
    take_over(f, client_open(f), rival_new(f, client_open(f)));
}

void a_waiter_of_the_same_process_gets_it_when_the_lease_ends(struct fixture *f)
{
    struct rlock_client *client = client_open(f);

    take_over(f, client, rival_new(f, client));
}

static void on_signal(int signal)
{
    (void)signal;
}

void signals_do_not_end_a_wait(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *waiters[2] = {actor_open(f), actor_open(f)}; /* one keeps watch, one is parked */
    const struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */

    test_must(sigaction(SIGUSR1, &action, NULL), "sigaction");
    assert_code(rlock_lock(rival), 0);
    for (int i = 0; i < 2; i++) {
        actor_begin(waiters[i], act_pass_through, lock, RLOCK_FOREVER, NULL);
        await_waiting(client, (size_t)i + 1);
    }
    for (int i = 0; i < 200; i++) {
        actor_signal(waiters[i % 2], SIGUSR1);
        (void)test_pause_until(INT64_MAX);
        assert_true(actor_is_busy(waiters[i % 2]));
    }
    assert_code(rlock_unlock(rival), 0);
    assert_code(actor_end(waiters[0]), 0);
    assert_code(actor_end(waiters[1]), 0);
}

void each_short_wait_in_a_row_gets_it(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *waiter = actor_open(f);

    for (int i = 0; i < 4; i++) {
        assert_code(rlock_lock(rival), 0);
        actor_begin(waiter, act_take, lock, 1000 * test_slack(), NULL);
        await_waiting(client, 1);
        assert_code(rlock_unlock(rival), 0);
        assert_code(actor_end(waiter), 0);
        assert_code(actor_do(waiter, act_unlock, lock, 0, NULL), 0);
    }
}

void waiters_of_one_process_all_get_it(struct fixture *f)
{
    enum { N = 10 };
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *waiters[N];

    assert_code(rlock_lock(rival), 0);
    for (size_t i = 0; i < N; i++) {
        waiters[i] = actor_open(f);
        actor_begin(waiters[i], act_pass_through, lock, RLOCK_FOREVER, NULL);
    }
    await_waiting(client, N);
    assert_code(rlock_unlock(rival), 0);
    for (size_t i = 0; i < N; i++) {
        assert_code(actor_end(waiters[i]), 0);
    }
}

void a_waiter_behind_others_times_out_in_time(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *first = actor_open(f), *last = actor_open(f);
    int64_t since_us;

    assert_code(rlock_lock(rival), 0);
    actor_begin(first, act_pass_through, lock, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    actor_begin(last, act_pass_through, lock, RLOCK_FOREVER, NULL);
    await_waiting(client, 2);
    since_us = test_now_us();
    assert_code(rlock_lock_for(lock, 100, NULL, NULL), RLOCK_ETIMEDOUT);
    assert_took(test_elapsed_us(since_us), 100, 600);
    assert_code(rlock_unlock(rival), 0);
    assert_code(actor_end(first), 0);
    assert_code(actor_end(last), 0);
}

void a_try_does_not_subscribe(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f)), *rival = rival_new(f, client_open(f));

    assert_code(rlock_lock(rival), 0);
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    fixture_count_calls(f);
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    assert_int_equal(fixture_calls(f, "evalsha"), 1);
    assert_int_equal(fixture_calls(f, "subscribe"), 0);
    assert_code(rlock_unlock(rival), 0);
}

/* ---- What is none of a waiter's friends ---- */

void a_forged_message_grants_nothing(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *waiter = actor_open(f);

    assert_code(rlock_lock(rival), 0);
    actor_begin(waiter, act_take, lock, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    for (int i = 0; i < 50; i++) {
        /* one channel, or with readers two more that count them */
        assert_in_range(fixture_publish(f, i % 2 == 0 ? "0" : "nonsense"), 1, 3);
    }
    await_waiting(client, 1);
    assert_true(actor_is_busy(waiter));
    assert_true(rlock_is_valid(rival));
    assert_code(rlock_unlock(rival), 0);
    assert_code(actor_end(waiter), 0);
    assert_code(actor_do(waiter, act_unlock, lock, 0, NULL), 0);
}

void a_waiter_survives_broken_connections(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *waiter = actor_open(f);
    const char *const kinds[] = {"normal", "pubsub", "normal"};

    assert_code(rlock_lock(rival), 0);
    actor_begin(waiter, act_take, lock, RLOCK_FOREVER, NULL);
    for (int i = 0; i < 3; i++) {
        await_waiting(client, 1);
        test_server_do(f->server, "CLIENT KILL TYPE %s", kinds[i]);
    }
    await_waiting(client, 1);
    assert_true(rlock_is_valid(rival));
    assert_code(rlock_unlock(rival), 0);
    assert_code(actor_end(waiter), 0);
    assert_code(actor_do(waiter, act_unlock, lock, 0, NULL), 0);
}

void a_lock_without_an_end_is_waited_for_within_bounds(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct test_server *server = f->server;
    struct actor *waiter = actor_open(f);
    const int64_t since_us = test_now_us();

    assert_int_equal(test_server_int(server, "HSET " NAME " somebody:1 1"), 1);
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    assert_code(rlock_lock_for(lock, 100, NULL, NULL), RLOCK_ETIMEDOUT);
    assert_took(test_elapsed_us(since_us), 100, 1000);
    assert_int_equal(ttl_of(lock), -1);
    actor_begin(waiter, act_take, lock, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    assert_int_equal(test_server_int(server, "DEL " NAME), 1);
    (void)fixture_publish(f, "0");
    assert_code(actor_end(waiter), 0);
    assert_code(actor_do(waiter, act_unlock, lock, 0, NULL), 0);
}

void a_release_that_nobody_announced_is_found(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct actor *waiter = actor_open(f);
    int64_t deleted_us;

    assert_int_equal(test_server_int(f->server, "HSET " NAME " somebody:1 1"), 1);
    actor_begin(waiter, act_take, lock, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    deleted_us = test_now_us();
    assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
    assert_code(actor_end(waiter), 0);
    assert_took(actor_ended_us(waiter) - deleted_us, 0, 5500);
    assert_code(actor_do(waiter, act_unlock, lock, 0, NULL), 0);
}
