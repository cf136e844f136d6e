/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are canceled at any instant: they end soon, and nothing of them is left behind. */
#include "fault/scene.h"
#include "fault/verbs.h"
#include "support/test.h"

#include <signal.h>
#include <unistd.h>

#define VICTIMS 4

static const struct rlock_take patient = {.size = sizeof(patient), .wait_ms = 60000};

static struct rlock_client_opts unhurried(void)
{
    return RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack(),
                             .connect_timeout_ms = 5000 * test_slack());
}

/* A thread that takes the lock again and again, and one that cancels it each time. */
struct victim {
    pthread_t thread, canceler;
    const struct actor *actor;
    size_t rounds;
    unsigned int most_us; /* the cancellation comes within that time */
    unsigned int seed;
    _Atomic(struct rlock_cancel *) armed;
    _Atomic int64_t fired_us;
    _Atomic bool over;
    size_t granted, canceled, in_doubt;
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
    const struct actor *actor = victim->actor;
    struct rlock_cancel *cancel;
    int64_t answered_us;
    int code;

    TEST_CHECK(rlock_cancel_new(&cancel) == 0);
    atomic_store(&victim->armed, cancel);
    code =
        rlock_lock_with(actor->lock, RLOCK_TAKE(.wait_ms = RLOCK_FOREVER, .cancel = cancel), NULL);
    answered_us = test_now_us();
    TEST_CHECK(code == 0 || code == RLOCK_ECANCELED || code == RLOCK_EINDOUBT);
    if (code == 0) {
        (void)actor_step(actor);
        TEST_CHECK(rlock_unlock(actor->lock) == 0);
        victim->granted++;
    } else {
        TEST_CHECK(rlock_hold_count(actor->lock) == 0);
        TEST_CHECK(rlock_unlock(actor->lock) == RLOCK_ENOTOWNER);
        victim->late_us[victim->canceled + victim->in_doubt] =
            answered_us - atomic_load(&victim->fired_us);
        victim->canceled += code == RLOCK_ECANCELED;
        victim->in_doubt += code == RLOCK_EINDOUBT;
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
static struct victim cancel_often(const struct actor *actor, size_t times, unsigned int most_us)
{
    struct victim victims[VICTIMS];
    struct victim sum = {.late_us = calloc(times, sizeof(int64_t))};

    for (size_t i = 0; i < VICTIMS; i++) {
        struct victim *victim = &victims[i];

        *victim = (struct victim){.actor = actor,
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
        n = victim->canceled + victim->in_doubt;
        memcpy(sum.late_us + sum.canceled + sum.in_doubt, victim->late_us, n * sizeof(int64_t));
        sum.granted += victim->granted;
        sum.canceled += victim->canceled;
        sum.in_doubt += victim->in_doubt;
        free(victim->late_us);
    }
    return sum;
}

/* While a rival contends; the answers must come soon, and nothing may be left. */
static void canceled_often(struct scene *scene, size_t times, unsigned int most_us,
                           double most_in_doubt)
{
    struct actor actor, rival;
    struct crew crew = {.actor = &rival, .take = &patient};
    struct victim sum;
    int64_t began_us;
    size_t n;

    actor_open(&actor, scene, unhurried());
    actor_open_direct(&rival, scene);
    crew_start(&crew, 1);
    began_us = test_now_us();
    sum = cancel_often(&actor, times, most_us);
    crew_stop(&crew);
    n = sum.canceled + sum.in_doubt;
    print_message("%zu granted, %zu canceled, %zu in doubt; late %lld us in the median, %lld us in "
                  "99 %%\n",
                  sum.granted, sum.canceled, sum.in_doubt,
                  n > 0 ? (long long)test_median(sum.late_us, n) : 0,
                  n > 0 ? (long long)test_percentile(sum.late_us, n, 99) : 0);
    assert_true(n >= times / 20);
    assert_true((double)sum.in_doubt <= most_in_doubt * (double)n);
    assert_true(test_in_time(began_us, test_median(sum.late_us, n), 10000 * test_slack()));
    free(sum.late_us);
    assert_int_equal(actor_losses(&actor) + actor_losses(&rival), 0);
    assert_true(scene_wait_waiters(scene, 0));
    assert_true(scene_wait_held(scene, false)); /* long before a lease of half a minute ends */
    assert_code(actor_visit(&actor, NULL), 0);
    actor_close(&actor);
    actor_close(&rival);
}

TEST(ten_thousand_cancellations_leave_nothing)
{
    struct scene scene;

    scene_open(&scene, NULL);
    canceled_often(&scene, 10000, 400, 0.1);
    scene_close(&scene);
}

TEST(cancellations_of_what_is_in_the_air_leave_nothing)
{
    struct scene scene;

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    proxy_jitter_us(scene.proxy, 2000, 1);
    canceled_often(&scene, 1000, 8000, 0.5);
    scene_close(&scene);
}

/* Replies take longer than a canceled call waits for them. */
TEST(cancellations_over_a_slow_line_are_in_doubt_and_leave_nothing)
{
    struct scene scene;

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    proxy_delay_us(scene.proxy, 15000);
    canceled_often(&scene, 200, 100000, 1.0);
    scene_close(&scene);
}

/* ---- One by one ---- */

static struct rlock_cancel *handled;

static void on_signal(int signal)
{
    (void)signal;
    rlock_cancel_fire(handled);
}

TEST(a_signal_handler_may_cancel_the_thread_it_interrupts)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct scene scene;
    struct actor actor;
    struct waiter waiter, other;

    scene_open(&scene, NULL);
    (void)sigemptyset(&action.sa_mask);
    test_must(sigaction(SIGUSR1, &action, NULL), "sigaction");
    scene_take_by_hand(&scene, 0);
    actor_open(&actor, &scene, unhurried());
    for (int i = 0; i < 20; i++) {
        int64_t fired_us;
        int code;

        assert_code(rlock_cancel_new(&handled), 0);
        waiter_start(&waiter, &actor, RLOCK_TAKE(.wait_ms = 60000, .cancel = handled));
        assert_true(scene_wait_waiters(&scene, 1));
        waiter_start(&other, &actor, RLOCK_TAKE(.wait_ms = 60000, .cancel = handled));
        fired_us = test_now_us();
        TEST_CHECK(pthread_kill(waiter.thread, SIGUSR1) == 0);
        code = waiter_join(&waiter); /* who may be asking just now */
        assert_true(code == RLOCK_ECANCELED || code == RLOCK_EINDOUBT);
        assert_int_equal(waiter_join(&other), RLOCK_ECANCELED); /* one signal for both */
        assert_within(fired_us, 10);
        assert_true(scene_wait_waiters(&scene, 0));
        waiter_start(&waiter, &actor, RLOCK_TAKE(.wait_ms = 60000, .cancel = handled));
        code = waiter_join(&waiter); /* it stays fired */
        assert_true(code == RLOCK_ECANCELED || code == RLOCK_EINDOUBT);
        assert_true(
            test_took_at_most(waiter.took_us, (int64_t)SCENE_LATE_MS * 1000 * test_slack()));
        handled = rlock_cancel_free(handled);
    }
    free(test_server_cmd(scene.server, "DEL " SCENE_NAME));
    actor_close(&actor);
    scene_close(&scene);
}

static void *fire_soon(void *cancel)
{
    (void)usleep(20000);
    rlock_cancel_fire(cancel);
    return NULL;
}

/* In a child, with a client of its own and the parent's signal. */
static void cancel_own_wait(struct scene *scene, struct rlock_cancel *cancel)
{
    struct actor actor;
    pthread_t thread;

    actor_open(&actor, scene, unhurried());
    TEST_CHECK(pthread_create(&thread, NULL, fire_soon, cancel) == 0);
    TEST_CHECK(actor_visit(&actor, RLOCK_TAKE(.wait_ms = 60000, .cancel = cancel)) ==
               RLOCK_ECANCELED);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    actor_close(&actor);
}

/* As one whose handler of SIGTERM was inherited, and who gets one of its own. */
TEST(a_child_of_fork_cancels_nothing_of_its_parent)
{
    struct rlock_cancel *cancel = NULL;
    struct scene scene;
    struct actor actor;
    struct waiter waiter;
    pid_t pid;

    scene_open(&scene, NULL);
    scene_take_by_hand(&scene, 0);
    actor_open(&actor, &scene, unhurried());
    assert_code(rlock_cancel_new(&cancel), 0);
    waiter_start(&waiter, &actor, RLOCK_TAKE(.wait_ms = 60000, .cancel = cancel));
    assert_true(scene_wait_waiters(&scene, 1));
    pid = test_must(fork(), "fork");
    if (pid == 0) {
        if (MAY_START_THREADS) {
            cancel_own_wait(&scene, cancel);
        } else {
            rlock_cancel_fire(cancel);
        }
        _exit(0);
    }
    assert_int_equal(test_reap(pid), 0);
    free(test_server_cmd(scene.server, "DEL " SCENE_NAME));
    free(test_server_cmd(scene.server, "PUBLISH " SCENE_CHANNEL " 0"));
    assert_int_equal(waiter_join(&waiter), 0);
    assert_code(actor_visit(&actor, RLOCK_TAKE(.wait_ms = 60000, .cancel = cancel)), 0);
    cancel = rlock_cancel_free(cancel);
    actor_close(&actor);
    scene_close(&scene);
}

TEST(a_call_that_waits_for_a_connection_is_canceled)
{
    struct scene scene;
    struct actor actor;
    struct rlock_cancel *cancel;
    struct waiter waiter;
    int64_t fired_us;

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    proxy_refuse(scene.proxy, true);
    actor_open(&actor, &scene, unhurried());
    assert_code(rlock_cancel_new(&cancel), 0);
    waiter_start(&waiter, &actor, RLOCK_TAKE(.wait_ms = 60000, .cancel = cancel));
    assert_code(rlock_lock_with(actor.lock, RLOCK_TAKE(.wait_ms = 50), NULL), RLOCK_ECONN);
    fired_us = test_now_us();
    rlock_cancel_fire(cancel);
    assert_int_equal(waiter_join(&waiter), RLOCK_ECANCELED);
    assert_within(fired_us, 10);
    cancel = rlock_cancel_free(cancel);
    actor_close(&actor);
    scene_close(&scene);
}

TEST(a_canceled_nested_call_leaves_the_outer_hold)
{
    struct scene scene;
    struct actor actor;
    struct rlock_cancel *cancel;
    struct proxy_rule rule;
    int code;

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    verbs_load(&scene);
    actor_open(&actor, &scene, unhurried());
    assert_code(rlock_try_lock(actor.lock), 0);
    assert_code(rlock_cancel_new(&cancel), 0);
    rlock_cancel_fire(cancel);
    rule = script_rule("acquire", PROXY_DELAY_REPLY);
    rule.delay_us = 100000;
    proxy_add(scene.proxy, &rule);
    code = rlock_lock_with(actor.lock, RLOCK_TAKE(.wait_ms = 60000, .cancel = cancel), NULL);
    assert_true(code == RLOCK_EINDOUBT || code == RLOCK_ECANCELED);
    assert_int_equal(rlock_hold_count(actor.lock), 1);
    assert_true(actor_step(&actor));
    assert_code(rlock_lock_with(actor.lock, &patient, NULL), 0); /* behind it on the line */
    assert_int_equal(rlock_hold_count(actor.lock), 2);
    assert_code(rlock_unlock(actor.lock), 0);
    assert_int_equal(scene_count(&scene), 1);
    assert_code(rlock_unlock(actor.lock), 0);
    assert_false(scene_is_held(&scene));
    assert_int_equal(actor_losses(&actor), 0);
    cancel = rlock_cancel_free(cancel);
    actor_close(&actor);
    scene_close(&scene);
}

/* ---- pthread_cancel ---- */

struct ended {
    struct actor *actor;
    pthread_t thread;
    int code;
    _Atomic bool unlocked;
};

static void *wait_and_be_ended(void *arg)
{
    struct ended *ended = arg;

    ended->code = rlock_lock_with(ended->actor->lock, &patient, NULL);
    TEST_CHECK(rlock_unlock(ended->actor->lock) == 0);
    atomic_store(&ended->unlocked, true);
    pthread_testcancel();
    return NULL;
}

/* Its call lies on its stack, and others count on it: it ends after the calls, not within. */
TEST(a_thread_that_is_ended_within_a_call_returns_from_it_first)
{
    struct ended ended[3];
    struct scene scene;
    struct actor actor;
    struct waiter waiter;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, unhurried());
    scene_take_by_hand(&scene, 0);
    for (size_t i = 0; i < 3; i++) {
        ended[i] = (struct ended){.actor = &actor};
        TEST_CHECK(pthread_create(&ended[i].thread, NULL, wait_and_be_ended, &ended[i]) == 0);
    }
    waiter_start(&waiter, &actor, &patient);
    assert_true(scene_wait_waiters(&scene, 1));
    for (size_t i = 0; i < 3; i++) {
        TEST_CHECK(pthread_cancel(ended[i].thread) == 0);
    }
    (void)usleep(50000); /* what should not happen would, by now */
    free(test_server_cmd(scene.server, "DEL " SCENE_NAME));
    free(test_server_cmd(scene.server, "PUBLISH " SCENE_CHANNEL " 0"));
    for (size_t i = 0; i < 3; i++) {
        void *result;

        TEST_CHECK(pthread_join(ended[i].thread, &result) == 0);
        assert_int_equal(ended[i].code, 0);
        assert_true(atomic_load(&ended[i].unlocked));
        assert_ptr_equal(result, PTHREAD_CANCELED);
    }
    assert_int_equal(waiter_join(&waiter), 0);
    assert_code(actor_visit(&actor, NULL), 0);
    actor_close(&actor);
    scene_close(&scene);
}
