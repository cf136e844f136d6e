/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever sleeps has looked first, and whoever changes what it saw wakes it: threads that send and
 * do not wait for the answer, sockets that are full, signals that come between look and sleep.
 */
#include "support/waiter.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#define K_CHANNEL "redisson_lock__channel:{k}"

enum { PATIENT_MS = 60000 };

/* ---- A thread that sends and goes ---- */

struct holder {
    const struct user *user;
    int64_t lease_ms;
    _Atomic bool has, ends;
};

static void *hold_and_end(void *arg)
{
    struct holder *holder = arg;

    TEST_CHECK(rlock_lock_for(holder->user->lock, 60000, RLOCK_TAKE(.lease_ms = holder->lease_ms),
                              NULL) == 0);
    atomic_store(&holder->has, true);
    TEST_CHECK(TEST_EVENTUALLY(atomic_load(&holder->ends), 10000));
    return NULL;
}

/* Who waits asks again when the holder's thread ends: at once, not when the answer is overdue. */
FIXTURE_WITH_TEST(what_the_end_of_a_thread_asks_for_is_sent, f, .proxy = PROXY_AS_LEG)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(700)));
    struct waiter waiter;
    struct holder holder = {.user = user, .lease_ms = test_ms(1500)};
    pthread_t thread;
    uint64_t connections;

    TEST_CHECK(pthread_create(&thread, NULL, hold_and_end, &holder) == 0);
    assert_true(TEST_EVENTUALLY(atomic_load(&holder.has), 5000));
    waiter_start(&waiter, user, PATIENT_MS, NULL);
    assert_true(fixture_wait_waiters(f, 1));
    connections = proxy_stats(f->proxy).accepted;
    atomic_store(&holder.ends, true);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(proxy_stats(f->proxy).accepted, connections);
}

static bool has_accepted(const struct proxy_stats *stats, void *payload)
{
    return stats->accepted >= *(const uint64_t *)payload;
}

/* A silent server is noticed by the request that nobody's own call sent, like by any other. */
FIXTURE_WITH_TEST(what_the_end_of_a_thread_asks_for_is_overdue_in_time, f, .proxy = PROXY_AS_LEG)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(200)));
    struct waiter waiter;
    struct holder holder = {.user = user, .lease_ms = 60000};
    pthread_t thread;
    uint64_t connections;

    TEST_CHECK(pthread_create(&thread, NULL, hold_and_end, &holder) == 0);
    assert_true(TEST_EVENTUALLY(atomic_load(&holder.has), 5000));
    waiter_start(&waiter, user, PATIENT_MS, NULL);
    assert_true(fixture_wait_waiters(f, 1));
    connections = proxy_stats(f->proxy).accepted + 1;
    proxy_go_silent(f->proxy, PROXY_COMMANDS, true);
    atomic_store(&holder.ends, true);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    assert_true(proxy_wait(f->proxy, has_accepted, &connections, 2000));
    proxy_go_silent(f->proxy, PROXY_COMMANDS, false);
    test_server_do(f->server, "DEL " LOCK_A);
    test_server_do(f->server, "PUBLISH " CHANNEL_A " 0");
    assert_int_equal(waiter_join(&waiter), 0);
}

static const struct user *late_taker;

static void take_at_the_end(void *unused)
{
    (void)unused;
    TEST_CHECK(rlock_try_lock(late_taker->lock) == 0);
}

static void *take_and_end(void *arg)
{
    TEST_CHECK(pthread_setspecific(*(const pthread_key_t *)arg, arg) == 0);
    TEST_CHECK(user_visit(late_taker, 0, NULL) == 0); /* so that the library sees to its end, too */
    return NULL;
}

/* The destructor of a key that was made later than the library's runs after it. */
FIXTURE_TEST(what_a_thread_takes_while_it_ends_ends_with_it, f)
{
    struct user *user =
        user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 30000, .renewed_lease_ms = test_ms(500)));
    pthread_key_t key;
    pthread_t thread;

    late_taker = user;
    TEST_CHECK(pthread_key_create(&key, take_at_the_end) == 0);
    TEST_CHECK(pthread_create(&thread, NULL, take_and_end, &key) == 0);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    assert_int_equal(user_wait_loss(user, 1), RLOCK_LOST_THREAD_EXITED);
    assert_true(fixture_wait_held(f, false)); /* it was renewed no more */
    TEST_CHECK(pthread_key_delete(key) == 0);
}

static void *take_both(void *arg)
{
    TEST_CHECK(rlock_lock_for(arg, PATIENT_MS, NULL, NULL) == 0);
    TEST_CHECK(rlock_unlock(arg) == 0);
    return NULL;
}

/*
 * The answer to what the end of a thread asks for is read, though nobody's call keeps watch: who
 * waits for a multi-lock leaves that to another call, which ends, and so to the service thread.
 */
FIXTURE_TEST(an_answer_that_no_call_reads_is_read, f)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 30000));
    struct user *other = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 30000));
    struct rlock_handle *k = user_lock(user, "k"), *b = user_lock(other, "b"), *both = NULL;
    struct waiter leader;
    struct holder holder = {.user = user, .lease_ms = test_ms(1000)};
    pthread_t ending, taking;
    int64_t since_us;

    assert_code(rlock_multi_new((struct rlock_handle *[]){user->lock, b}, 2, NULL, &both), 0);
    test_server_do(f->server, "HSET k somebody:1 1");
    waiter_start_on(&leader, user, k, PATIENT_MS, NULL);
    assert_true(TEST_EVENTUALLY(test_server_waiters(f->server, K_CHANNEL) == 1, 5000));
    since_us = test_now_us();
    TEST_CHECK(pthread_create(&ending, NULL, hold_and_end, &holder) == 0);
    assert_true(TEST_EVENTUALLY(atomic_load(&holder.has), 5000));
    TEST_CHECK(pthread_create(&taking, NULL, take_both, both) == 0);
    assert_true(fixture_wait_waiters(f, 1));
    test_server_do(f->server, "DEL k");
    test_server_do(f->server, "PUBLISH " K_CHANNEL " 0");
    assert_int_equal(waiter_join(&leader), 0);
    atomic_store(&holder.ends, true);
    TEST_CHECK(pthread_join(ending, NULL) == 0);
    TEST_CHECK(pthread_join(taking, NULL) == 0);
    assert_within(since_us, holder.lease_ms);
    both = rlock_free(both);
}

/* ---- A socket that is full ---- */

enum { LARGE = 65536, CROWD = 48 }; /* a name, four times in a fair lock's request */

static void *try_large(void *arg)
{
    struct rlock_handle *lock = arg;
    const int code = rlock_try_lock(lock);

    if (code == 0) { /* it came so late that the link was another one */
        TEST_CHECK(rlock_unlock(lock) == 0);
    }
    return NULL;
}

/* One whose reader has gone to sleep, behind so much that no more fits, is given up like any. */
FIXTURE_WITH_TEST(a_full_link_without_an_answer_is_replaced, f, .proxy = PROXY_AS_LEG)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(1000)));
    struct rlock_handle *locks[CROWD];
    pthread_t threads[CROWD];
    char *name = malloc(LARGE);

    assert_code(user_visit(user, 0, NULL), 0); /* connected */
    proxy_hold_requests(f->proxy, true);
    TEST_CHECK(name != NULL);
    for (size_t i = 0; i < CROWD; i++) {
        memset(name, 'a' + (int)i, LARGE);
        assert_code(rlock_fair_new(user->client, name, RLOCK_OPTS(.name_len = LARGE), &locks[i]),
                    0);
        TEST_CHECK(pthread_create(&threads[i], NULL, try_large, locks[i]) == 0);
    }
    for (size_t i = 0; i < CROWD; i++) {
        TEST_CHECK(pthread_join(threads[i], NULL) == 0);
        locks[i] = rlock_free(locks[i]);
    }
    assert_code(user_visit(user, 2000, NULL), 0);
    proxy_hold_requests(f->proxy, false);
    free(name);
}

/* ---- A signal between look and sleep ---- */

enum { CANCELED = 16, ROUNDS = 4, GRACE_MS = 50 };

struct canceled {
    pthread_t thread;
    struct rlock_handle *lock;
    unsigned int seed;
    struct rlock_cancel *cancel;
    _Atomic bool fired;
    size_t missed; /* how often it went to sleep for long, and slept on, though it was fired */
};

static _Thread_local struct canceled *self;

/* The library's poll() is this one. What is given back is waited for, but not for so long. */
int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    const struct timespec pause = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    const bool fired = self != NULL && atomic_load(&self->fired);
    const int ready = ppoll(fds, n, timeout_ms < 0 ? NULL : &pause, NULL);

    if (fired && ready == 0 && timeout_ms > GRACE_MS) {
        self->missed++;
    }
    return ready;
}

static void *fire_later(void *arg)
{
    struct canceled *canceled = arg;

    (void)usleep(150000 + (useconds_t)rand_r(&canceled->seed) % 150000);
    rlock_cancel_fire(canceled->cancel);
    atomic_store(&canceled->fired, true);
    return NULL;
}

static void *wait_in_vain(void *arg)
{
    struct canceled *canceled = arg;
    pthread_t firing;

    self = canceled;
    for (int i = 0; i < ROUNDS; i++) {
        int code;

        TEST_CHECK(rlock_cancel_new(&canceled->cancel) == 0);
        TEST_CHECK(pthread_create(&firing, NULL, fire_later, canceled) == 0);
        code = rlock_lock_for(canceled->lock, 60000, RLOCK_TAKE(.cancel = canceled->cancel), NULL);
        TEST_CHECK(pthread_join(firing, NULL) == 0);
        TEST_CHECK(code == RLOCK_ECANCELED || code == RLOCK_EINDOUBT);
        atomic_store(&canceled->fired, false);
        canceled->cancel = rlock_cancel_free(canceled->cancel);
    }
    return NULL;
}

/* A RedLock's round has failed, and none of its calls is there to be canceled: up to 160 ms. */
FIXTURE_TEST(a_pause_between_rounds_is_canceled_at_any_instant, f)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack()));
    struct canceled canceled[CANCELED];
    struct rlock_handle *lock = NULL;

    assert_code(rlock_redlock_new(&user->lock, 1, RLOCK_OPTS(.max_lease_ms = -1), &lock), 0);
    fixture_take_by_hand(f, 0);
    for (size_t i = 0; i < CANCELED; i++) {
        canceled[i] = (struct canceled){.lock = lock, .seed = (unsigned int)i + 1};
        TEST_CHECK(pthread_create(&canceled[i].thread, NULL, wait_in_vain, &canceled[i]) == 0);
    }
    for (size_t i = 0; i < CANCELED; i++) {
        TEST_CHECK(pthread_join(canceled[i].thread, NULL) == 0);
        assert_int_equal(canceled[i].missed, 0);
    }
    test_server_do(f->server, "DEL " LOCK_A);
    lock = rlock_free(lock);
}
