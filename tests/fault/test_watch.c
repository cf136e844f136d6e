/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever sleeps has looked first, and whoever changes what it saw wakes it: threads that send and
 * do not wait for the answer, sockets that are full, signals that come between look and sleep.
 */
#include "fault/scene.h"
#include "support/test.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#define K_CHANNEL "redisson_lock__channel:{k}"

static const struct rlock_take patient = {.size = sizeof(patient), .wait_ms = 60000};

static void say(const struct scene *scene, const char *command)
{
    free(test_server_cmd(scene->server, "%s", command));
}

/* ---- A thread that sends and goes ---- */

struct holder {
    const struct actor *actor;
    int64_t lease_ms;
    _Atomic bool has, ends;
};

static void *hold_and_end(void *arg)
{
    struct holder *holder = arg;

    TEST_CHECK(rlock_lock_with(holder->actor->lock,
                               RLOCK_TAKE(.wait_ms = 60000, .lease_ms = holder->lease_ms),
                               NULL) == 0);
    atomic_store(&holder->has, true);
    TEST_CHECK(TEST_EVENTUALLY(atomic_load(&holder->ends), 10000));
    return NULL;
}

/* Who waits asks again when the holder's thread ends: at once, not when the answer is overdue. */
TEST(what_the_end_of_a_thread_asks_for_is_sent)
{
    struct scene scene;
    struct actor actor;
    struct waiter waiter;
    struct holder holder = {.actor = &actor, .lease_ms = scene_ms(1500)};
    pthread_t thread;
    uint64_t connections;

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = scene_ms(700)));
    TEST_CHECK(pthread_create(&thread, NULL, hold_and_end, &holder) == 0);
    assert_true(TEST_EVENTUALLY(atomic_load(&holder.has), 5000));
    waiter_start(&waiter, &actor, &patient);
    assert_true(scene_wait_waiters(&scene, 1));
    connections = proxy_stats(scene.proxy).accepted;
    atomic_store(&holder.ends, true);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(proxy_stats(scene.proxy).accepted, connections);
    actor_close(&actor);
    scene_close(&scene);
}

static bool has_accepted(const struct proxy_stats *stats, void *payload)
{
    return stats->accepted >= *(const uint64_t *)payload;
}

/* A silent server is noticed by the request that nobody's own call sent, like by any other. */
TEST(what_the_end_of_a_thread_asks_for_is_overdue_in_time)
{
    struct scene scene;
    struct actor actor;
    struct waiter waiter;
    struct holder holder = {.actor = &actor, .lease_ms = 60000};
    pthread_t thread;
    uint64_t connections;

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = scene_ms(200)));
    TEST_CHECK(pthread_create(&thread, NULL, hold_and_end, &holder) == 0);
    assert_true(TEST_EVENTUALLY(atomic_load(&holder.has), 5000));
    waiter_start(&waiter, &actor, &patient);
    assert_true(scene_wait_waiters(&scene, 1));
    connections = proxy_stats(scene.proxy).accepted + 1;
    proxy_go_silent(scene.proxy, PROXY_COMMANDS, true);
    atomic_store(&holder.ends, true);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    assert_true(proxy_wait(scene.proxy, has_accepted, &connections, 2000));
    proxy_go_silent(scene.proxy, PROXY_COMMANDS, false);
    say(&scene, "DEL " SCENE_NAME);
    say(&scene, "PUBLISH " SCENE_CHANNEL " 0");
    assert_int_equal(waiter_join(&waiter), 0);
    actor_close(&actor);
    scene_close(&scene);
}

static const struct actor *late_taker;

static void take_at_the_end(void *unused)
{
    (void)unused;
    TEST_CHECK(rlock_try_lock(late_taker->lock) == 0);
}

static void *take_and_end(void *arg)
{
    TEST_CHECK(pthread_setspecific(*(const pthread_key_t *)arg, arg) == 0);
    TEST_CHECK(actor_visit(late_taker, NULL) == 0); /* so that the library sees to its end, too */
    return NULL;
}

/* The destructor of a key that was made later than the library's runs after it. */
TEST(what_a_thread_takes_while_it_ends_ends_with_it)
{
    struct scene scene;
    struct actor actor;
    pthread_key_t key;
    pthread_t thread;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene,
               RLOCK_CLIENT_OPTS(.op_timeout_ms = 30000, .renewed_lease_ms = scene_ms(500)));
    late_taker = &actor;
    TEST_CHECK(pthread_key_create(&key, take_at_the_end) == 0);
    TEST_CHECK(pthread_create(&thread, NULL, take_and_end, &key) == 0);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    assert_int_equal(actor_wait_loss(&actor, 1), RLOCK_LOST_THREAD_EXITED);
    assert_true(scene_wait_held(&scene, false)); /* it was renewed no more */
    TEST_CHECK(pthread_key_delete(key) == 0);
    actor_close(&actor);
    scene_close(&scene);
}

static void *take_both(void *arg)
{
    TEST_CHECK(rlock_lock_with(arg, &patient, NULL) == 0);
    TEST_CHECK(rlock_unlock(arg) == 0);
    return NULL;
}

/*
 * The answer to what the end of a thread asks for is read, though nobody's call keeps watch: who
 * waits for a multi-lock leaves that to another call, which ends, and so to the service thread.
 */
TEST(an_answer_that_no_call_reads_is_read)
{
    struct scene scene;
    struct actor actor, other, third;
    struct waiter keeper;
    struct holder holder = {.actor = &actor, .lease_ms = scene_ms(1000)};
    struct rlock *b, *both = NULL;
    pthread_t ending, taking;
    int64_t since_us;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = 30000));
    actor_open(&other, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = 30000));
    third = actor;
    third.lock = actor_lock(&actor, "k");
    b = actor_lock(&other, "b");
    assert_code(rlock_multi_new((struct rlock *[]){actor.lock, b}, 2, NULL, &both), 0);
    say(&scene, "HSET k somebody:1 1");
    waiter_start(&keeper, &third, &patient);
    assert_true(TEST_EVENTUALLY(
        test_server_says(scene.server, K_CHANNEL, "PUBSUB CHANNELS " K_CHANNEL), 5000));
    since_us = test_now_us();
    TEST_CHECK(pthread_create(&ending, NULL, hold_and_end, &holder) == 0);
    assert_true(TEST_EVENTUALLY(atomic_load(&holder.has), 5000));
    TEST_CHECK(pthread_create(&taking, NULL, take_both, both) == 0);
    assert_true(scene_wait_waiters(&scene, 1));
    say(&scene, "DEL k");
    say(&scene, "PUBLISH " K_CHANNEL " 0");
    assert_int_equal(waiter_join(&keeper), 0);
    atomic_store(&holder.ends, true);
    TEST_CHECK(pthread_join(ending, NULL) == 0);
    TEST_CHECK(pthread_join(taking, NULL) == 0);
    assert_within(since_us, holder.lease_ms);
    both = rlock_free(both);
    b = rlock_free(b);
    third.lock = rlock_free(third.lock);
    actor_close(&other);
    actor_close(&actor);
    scene_close(&scene);
}

/* ---- A socket that is full ---- */

enum { LARGE = 65536, CROWD = 48 }; /* a name, four times in a fair lock's request */

static void *try_large(void *arg)
{
    struct rlock *lock = arg;
    const int code = rlock_try_lock(lock);

    if (code == 0) { /* it came so late that the link was another one */
        TEST_CHECK(rlock_unlock(lock) == 0);
    }
    return NULL;
}

/* One whose reader has gone to sleep, behind so much that no more fits, is given up like any. */
TEST(a_full_link_without_an_answer_is_replaced)
{
    struct scene scene;
    struct actor actor;
    struct rlock *locks[CROWD];
    pthread_t threads[CROWD];
    char *name = malloc(LARGE);

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = scene_ms(1000)));
    assert_code(actor_visit(&actor, NULL), 0); /* connected */
    proxy_hold_requests(scene.proxy, true);
    TEST_CHECK(name != NULL);
    for (size_t i = 0; i < CROWD; i++) {
        memset(name, 'a' + (int)i, LARGE);
        assert_code(rlock_fair_new(actor.client, name, &RLOCK_OPTS(.name_len = LARGE), &locks[i]),
                    0);
        TEST_CHECK(pthread_create(&threads[i], NULL, try_large, locks[i]) == 0);
    }
    for (size_t i = 0; i < CROWD; i++) {
        TEST_CHECK(pthread_join(threads[i], NULL) == 0);
        locks[i] = rlock_free(locks[i]);
    }
    assert_code(actor_visit(&actor, RLOCK_TAKE(.wait_ms = 2000)), 0);
    proxy_hold_requests(scene.proxy, false);
    free(name);
    actor_close(&actor);
    scene_close(&scene);
}

/* ---- A signal between look and sleep ---- */

enum { CANCELED = 16, ROUNDS = 4, GRACE_MS = 50 };

struct canceled {
    pthread_t thread;
    struct rlock *lock;
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
        code = rlock_lock_with(canceled->lock,
                               RLOCK_TAKE(.wait_ms = 60000, .cancel = canceled->cancel), NULL);
        TEST_CHECK(pthread_join(firing, NULL) == 0);
        TEST_CHECK(code == RLOCK_ECANCELED || code == RLOCK_EINDOUBT);
        atomic_store(&canceled->fired, false);
        canceled->cancel = rlock_cancel_free(canceled->cancel);
    }
    return NULL;
}

/* A RedLock's round has failed, and none of its calls is there to be canceled: up to 160 ms. */
TEST(a_pause_between_rounds_is_canceled_at_any_instant)
{
    struct canceled canceled[CANCELED];
    struct rlock *lock = NULL;
    struct scene scene;
    struct actor actor;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack()));
    assert_code(rlock_redlock_new(&actor.lock, 1, &RLOCK_OPTS(.max_lease_ms = -1), &lock), 0);
    scene_take_by_hand(&scene, 0);
    for (size_t i = 0; i < CANCELED; i++) {
        canceled[i] = (struct canceled){.lock = lock, .seed = (unsigned int)i + 1};
        TEST_CHECK(pthread_create(&canceled[i].thread, NULL, wait_in_vain, &canceled[i]) == 0);
    }
    for (size_t i = 0; i < CANCELED; i++) {
        TEST_CHECK(pthread_join(canceled[i].thread, NULL) == 0);
        assert_int_equal(canceled[i].missed, 0);
    }
    say(&scene, "DEL " SCENE_NAME);
    lock = rlock_free(lock);
    actor_close(&actor);
    scene_close(&scene);
}
