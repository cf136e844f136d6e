/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are canceled at any instant: they end soon, and nothing of them is left behind. */
#include "fault/verbs.h"
#include "support/waiter.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#define VICTIMS 4

enum { PATIENT_MS = 60000 };

static struct rlock_client_opts unhurried(void)
{
    return *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack(),
                              .connect_timeout_ms = 5000 * test_slack());
}

/* A thread that takes the lock again and again, and one that cancels it each time. */
struct victim {
    pthread_t thread, canceler;
    const struct user *user;
    size_t rounds;
    unsigned int most_us; /* the cancellation comes within that time */
    unsigned int seed;
    _Atomic(struct rlock_cancel *) armed;
    _Atomic int64_t fired_us;
    _Atomic bool over;
    size_t granted, canceled, open;
    int64_t *late_us; /* of each canceled call: how long after the cancellation it returned */
};

static void *cancel_main(void *arg)
{
    struct victim *victim = arg;

    while (!atomic_load(&victim->over)) {
        struct rlock_cancel *cancel = atomic_load(&victim->armed);

        if (cancel != NULL) {
            (void)usleep((unsigned int)rand_r(&victim->seed) % victim->most_us);
            atomic_store(&victim->fired_us, test_now_us());
            rlock_cancel_fire(cancel);
            atomic_store(&victim->armed, NULL);
        } else {
            (void)usleep(10);
        }
    }
    return NULL;
}

static void take_once(struct victim *victim)
{
    const struct user *user = victim->user;
    struct rlock_cancel *cancel;
    int64_t answered_us;
    int code;

    TEST_CHECK(rlock_cancel_new(&cancel) == 0);
    atomic_store(&victim->armed, cancel);
    code = rlock_lock_for(user->lock, RLOCK_FOREVER, RLOCK_TAKE(.cancel = cancel), NULL);
    answered_us = test_now_us();
    TEST_CHECK(code == 0 || code == RLOCK_ECANCELED);
    if (code == 0) {
        (void)user_step(user);
        TEST_CHECK(rlock_unlock(user->lock) == 0);
        victim->granted++;
    } else {
        const bool open = strstr(rlock_detail(), "if it was granted") != NULL;

        TEST_CHECK(rlock_hold_count(user->lock) == 0);
        TEST_CHECK(rlock_unlock(user->lock) == RLOCK_ENOTOWNER);
        victim->late_us[victim->canceled + victim->open] =
            answered_us - atomic_load(&victim->fired_us);
        victim->canceled += !open;
        victim->open += open;
    }
    while (atomic_load(&victim->armed) != NULL) {
        (void)usleep(10);
    }
    (void)rlock_cancel_free(cancel);
}

static void *victim_main(void *arg)
{
    struct victim *victim = arg;

    for (size_t i = 0; i < victim->rounds; i++) {
        take_once(victim);
    }
    atomic_store(&victim->over, true);
    return NULL;
}

/* Lets all victims be canceled so often in all, and adds their tallies up. */
static struct victim cancel_often(const struct user *user, size_t times, unsigned int most_us)
{
    struct victim victims[VICTIMS];
    struct victim sum = {.late_us = calloc(times, sizeof(int64_t))};

    for (size_t i = 0; i < VICTIMS; i++) {
        struct victim *victim = &victims[i];

        *victim = (struct victim){.user = user,
                                  .rounds = times / VICTIMS,
                                  .most_us = most_us,
                                  .seed = (unsigned int)i + 1,
                                  .late_us = calloc(times, sizeof(int64_t))};
        TEST_CHECK(pthread_create(&victim->thread, NULL, victim_main, victim) == 0);
        TEST_CHECK(pthread_create(&victim->canceler, NULL, cancel_main, victim) == 0);
    }
    for (size_t i = 0; i < VICTIMS; i++) {
        struct victim *victim = &victims[i];
        size_t n;

        TEST_CHECK(pthread_join(victim->thread, NULL) == 0);
        TEST_CHECK(pthread_join(victim->canceler, NULL) == 0);
        n = victim->canceled + victim->open;
        memcpy(sum.late_us + sum.canceled + sum.open, victim->late_us, n * sizeof(int64_t));
        sum.granted += victim->granted;
        sum.canceled += victim->canceled;
        sum.open += victim->open;
        free(victim->late_us);
    }
    return sum;
}

/* While a rival contends; the answers must come soon, and nothing may be left. */
static void canceled_often(struct fixture *f, size_t times, unsigned int most_us, int64_t median_us,
                           double most_open)
{
    struct user *user, *rival;
    struct crew crew = {.wait_ms = PATIENT_MS};
    struct victim sum;
    int64_t began_us;
    size_t n;

    user = user_open(f, unhurried());
    rival = user_open_direct(f);
    crew_start(&crew, rival, 1);
    began_us = test_now_us();
    sum = cancel_often(user, times, most_us);
    crew_stop(&crew);
    n = sum.canceled + sum.open;
    print_message("%zu granted, %zu canceled, %zu open; late %lld us in the median, %lld us in "
                  "99 %%\n",
                  sum.granted, sum.canceled, sum.open,
                  n > 0 ? (long long)test_median(sum.late_us, n) : 0,
                  n > 0 ? (long long)test_percentile(sum.late_us, n, 99) : 0);
    assert_true(n >= times / 20);
    assert_true((double)sum.open <= most_open * (double)n);
    assert_true(test_in_time(began_us, test_median(sum.late_us, n), median_us * test_slack()));
    free(sum.late_us);
    assert_int_equal(user_losses(user) + user_losses(rival), 0);
    assert_true(fixture_wait_waiters(f, 0));
    assert_true(fixture_wait_held(f, false)); /* long before a lease of half a minute ends */
    assert_code(user_visit(user, 0, NULL), 0);
    user_close(user);
    user_close(rival);
}

FIXTURE_TEST(ten_thousand_cancellations_leave_nothing, f)
{
    canceled_often(f, 10000, 400, 10000, 0.1);
}

FIXTURE_WITH_TEST(cancellations_of_what_is_in_the_air_leave_nothing, f, .proxy = PROXY_AS_LEG)
{
    proxy_jitter_us(f->proxy, 2000, 1);
    canceled_often(f, 1000, 8000, 10000, 0.5);
}

/* Replies take longer than a canceled call waits for them. */
FIXTURE_WITH_TEST(cancellations_over_a_slow_line_leave_nothing, f, .proxy = PROXY_AS_LEG)
{
    proxy_delay_us(f->proxy, 25000);
    canceled_often(f, 200, 100000, 50000, 1.0);
}

/* ---- One by one ---- */

static struct rlock_cancel *handled;
static atomic_uint handler_runs;

static void on_signal(int signal)
{
    (void)signal;
    rlock_cancel_fire(handled);
    atomic_fetch_add(&handler_runs, 1);
}

/* ThreadSanitizer lets a handler run when the thread next calls something that it knows. A thread
 * that falls asleep on a futex just then calls nothing until another signal wakes it. */
static void interrupt(pthread_t thread)
{
    const unsigned before = atomic_load(&handler_runs);

    TEST_CHECK(pthread_kill(thread, SIGUSR1) == 0);
#ifdef __SANITIZE_THREAD__
    while (atomic_load(&handler_runs) == before) {
        (void)test_pause_until(INT64_MAX);
        TEST_CHECK(pthread_kill(thread, SIGUSR1) == 0);
    }
#else
    (void)before;
#endif
}

FIXTURE_TEST(a_signal_handler_may_cancel_the_thread_it_interrupts, f)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct user *user;
    struct waiter waiter, other;

    (void)sigemptyset(&action.sa_mask);
    test_must(sigaction(SIGUSR1, &action, NULL), "sigaction");
    fixture_take_by_hand(f, 0);
    user = user_open(f, unhurried());
    for (int i = 0; i < 20; i++) {
        int64_t fired_us;
        int code;

        assert_code(rlock_cancel_new(&handled), 0);
        waiter_start(&waiter, user, 60000, RLOCK_TAKE(.cancel = handled));
        assert_true(fixture_wait_waiters(f, 1));
        waiter_start(&other, user, 60000, RLOCK_TAKE(.cancel = handled));
        fired_us = test_now_us();
        interrupt(waiter.thread);
        code = waiter_join(&waiter); /* who may be asking just now */
        assert_code(code, RLOCK_ECANCELED);
        assert_int_equal(waiter_join(&other), RLOCK_ECANCELED); /* one signal for both */
        assert_within(fired_us, 10);
        assert_true(fixture_wait_waiters(f, 0));
        waiter_start(&waiter, user, 60000, RLOCK_TAKE(.cancel = handled));
        code = waiter_join(&waiter); /* it stays fired */
        assert_true(code == RLOCK_ECANCELED);
        assert_true(test_took_at_most(waiter.took_us, (int64_t)CALL_LATE_MS * 1000 * test_slack()));
        handled = rlock_cancel_free(handled);
    }
    test_server_do(f->server, "DEL " LOCK_A);
}

static void *fire_soon(void *cancel)
{
    (void)usleep(20000);
    rlock_cancel_fire(cancel);
    return NULL;
}

/* In a child, with a client of its own and the parent's signal. */
static void cancel_own_wait(struct fixture *f, struct rlock_cancel *cancel)
{
    struct user *user;
    pthread_t thread;

    user = user_open(f, unhurried());
    TEST_CHECK(pthread_create(&thread, NULL, fire_soon, cancel) == 0);
    TEST_CHECK(user_visit(user, 60000, RLOCK_TAKE(.cancel = cancel)) == RLOCK_ECANCELED);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    user_close(user);
}

/* As one whose handler of SIGTERM was inherited, and who gets one of its own. */
FIXTURE_TEST(a_child_of_fork_cancels_nothing_of_its_parent, f)
{
    struct rlock_cancel *cancel = NULL;
    struct user *user;
    struct waiter waiter;
    pid_t pid;

    fixture_take_by_hand(f, 0);
    user = user_open(f, unhurried());
    assert_code(rlock_cancel_new(&cancel), 0);
    waiter_start(&waiter, user, 60000, RLOCK_TAKE(.cancel = cancel));
    assert_true(fixture_wait_waiters(f, 1));
    pid = test_must(fork(), "fork");
    if (pid == 0) {
        if (MAY_START_THREADS) {
            cancel_own_wait(f, cancel);
        } else {
            rlock_cancel_fire(cancel);
        }
        _exit(0);
    }
    assert_int_equal(test_reap(pid), 0);
    test_server_do(f->server, "DEL " LOCK_A);
    test_server_do(f->server, "PUBLISH " CHANNEL_A " 0");
    assert_int_equal(waiter_join(&waiter), 0);
    assert_code(user_visit(user, 60000, RLOCK_TAKE(.cancel = cancel)), 0);
    cancel = rlock_cancel_free(cancel);
}

FIXTURE_WITH_TEST(a_call_that_waits_for_a_connection_is_canceled, f, .proxy = PROXY_AS_LEG)
{
    struct user *user;
    struct rlock_cancel *cancel;
    struct waiter waiter;
    int64_t fired_us;

    proxy_refuse(f->proxy, true);
    user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(500)));
    assert_code(rlock_cancel_new(&cancel), 0);
    waiter_start(&waiter, user, 60000, RLOCK_TAKE(.cancel = cancel));
    assert_code(rlock_lock_for(user->lock, 50, NULL, NULL), RLOCK_ECONN);
    fired_us = test_now_us();
    rlock_cancel_fire(cancel);
    assert_int_equal(waiter_join(&waiter), RLOCK_ECANCELED);
    assert_within(fired_us, 10);
    cancel = rlock_cancel_free(cancel);
}

FIXTURE_WITH_TEST(a_canceled_nested_call_leaves_the_outer_hold, f, .proxy = PROXY_AS_LEG)
{
    struct user *user;
    struct rlock_cancel *cancel;
    struct proxy_rule rule;
    int code;

    verbs_load(f);
    user = user_open(f, unhurried());
    assert_code(rlock_try_lock(user->lock), 0);
    assert_code(rlock_cancel_new(&cancel), 0);
    rlock_cancel_fire(cancel);
    rule = script_rule("acquire", PROXY_DELAY_REPLY);
    rule.delay_us = 100000;
    proxy_add(f->proxy, &rule);
    code = rlock_lock_for(user->lock, 60000, RLOCK_TAKE(.cancel = cancel), NULL);
    assert_true(code == RLOCK_ECANCELED);
    assert_int_equal(rlock_hold_count(user->lock), 1);
    assert_true(user_step(user));
    assert_code(rlock_lock_for(user->lock, PATIENT_MS, NULL, NULL), 0); /* behind it on the line */
    assert_int_equal(rlock_hold_count(user->lock), 2);
    assert_code(rlock_unlock(user->lock), 0);
    assert_int_equal(fixture_count(f), 1);
    assert_code(rlock_unlock(user->lock), 0);
    assert_false(fixture_is_held(f));
    assert_int_equal(user_losses(user), 0);
    cancel = rlock_cancel_free(cancel);
}

/* ---- pthread_cancel ---- */

struct ended {
    struct user *user;
    pthread_t thread;
    int code;
    _Atomic bool unlocked;
};

static void *wait_and_be_ended(void *arg)
{
    struct ended *ended = arg;

    ended->code = rlock_lock_for(ended->user->lock, PATIENT_MS, NULL, NULL);
    TEST_CHECK(rlock_unlock(ended->user->lock) == 0);
    atomic_store(&ended->unlocked, true);
    pthread_testcancel();
    return NULL;
}

/* Its call lies on its stack, and others count on it: it ends after the calls, not within. */
FIXTURE_TEST(a_thread_that_is_ended_within_a_call_returns_from_it_first, f)
{
    struct user *user = user_open(f, unhurried());
    struct ended ended[3];
    struct waiter waiter;

    fixture_take_by_hand(f, 0);
    for (size_t i = 0; i < 3; i++) {
        ended[i] = (struct ended){.user = user};
        TEST_CHECK(pthread_create(&ended[i].thread, NULL, wait_and_be_ended, &ended[i]) == 0);
    }
    waiter_start(&waiter, user, PATIENT_MS, NULL);
    assert_true(fixture_wait_waiters(f, 1));
    for (size_t i = 0; i < 3; i++) {
        TEST_CHECK(pthread_cancel(ended[i].thread) == 0);
    }
    (void)usleep(50000); /* what should not happen would, by now */
    test_server_do(f->server, "DEL " LOCK_A);
    test_server_do(f->server, "PUBLISH " CHANNEL_A " 0");
    for (size_t i = 0; i < 3; i++) {
        void *result;

        TEST_CHECK(pthread_join(ended[i].thread, &result) == 0);
        assert_int_equal(ended[i].code, 0);
        assert_true(atomic_load(&ended[i].unlocked));
        assert_ptr_equal(result, PTHREAD_CANCELED);
    }
    assert_int_equal(waiter_join(&waiter), 0);
    assert_code(user_visit(user, 0, NULL), 0);
}
