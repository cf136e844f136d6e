/* SPDX-License-Identifier: Apache-2.0 */
#include "support/actor.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { PATIENCE_MS = 30000 };

struct actor {
    pthread_t thread;
    pthread_mutex_t mutex; /* protects the rest */
    pthread_cond_t changed;
    act_fn *fn; /* to do now; NULL: nothing */
    struct rlock_handle *lock;
    int64_t wait_ms;
    struct rlock_take take;
    bool has_take, is_busy, is_ending, is_joined;
    int value;
    int64_t ended_us;
};

static int act(struct actor *actor)
{
    const struct rlock_take *take = actor->has_take ? &actor->take : NULL;

    return actor->fn(actor->lock, actor->wait_ms, take);
}

static void *main_of(void *arg)
{
    struct actor *actor = arg;

    (void)pthread_mutex_lock(&actor->mutex);
    while (!actor->is_ending) {
        if (actor->fn == NULL) {
            (void)pthread_cond_wait(&actor->changed, &actor->mutex);
            continue;
        }
        (void)pthread_mutex_unlock(&actor->mutex);
        const int value = act(actor);
        const int64_t ended_us = test_now_us();
        (void)pthread_mutex_lock(&actor->mutex);
        actor->fn = NULL;
        actor->value = value;
        actor->ended_us = ended_us;
        actor->is_busy = false;
        (void)pthread_cond_broadcast(&actor->changed);
    }
    (void)pthread_mutex_unlock(&actor->mutex);
    return NULL;
}

struct actor *actor_new(void)
{
    struct actor *actor = calloc(1, sizeof(*actor));

    TEST_CHECK(actor != NULL);
    (void)pthread_mutex_init(&actor->mutex, NULL);
    (void)pthread_cond_init(&actor->changed, NULL);
    TEST_CHECK(pthread_create(&actor->thread, NULL, main_of, actor) == 0);
    return actor;
}

void actor_exit(struct actor *actor)
{
    if (actor->is_joined) {
        return;
    }
    (void)pthread_mutex_lock(&actor->mutex);
    actor->is_ending = true;
    (void)pthread_cond_broadcast(&actor->changed);
    (void)pthread_mutex_unlock(&actor->mutex);
    (void)pthread_join(actor->thread, NULL);
    actor->is_joined = true;
}

void actor_free(struct actor *actor)
{
    actor_exit(actor);
    (void)pthread_cond_destroy(&actor->changed);
    (void)pthread_mutex_destroy(&actor->mutex);
    free(actor);
}

void actor_begin(struct actor *actor, act_fn *fn, struct rlock_handle *lock, int64_t wait_ms,
                 const struct rlock_take *take)
{
    (void)pthread_mutex_lock(&actor->mutex);
    TEST_CHECK(!actor->is_busy);
    actor->lock = lock;
    actor->wait_ms = wait_ms;
    actor->has_take = take != NULL;
    if (take != NULL) {
        actor->take = *take;
    }
    actor->fn = fn;
    actor->is_busy = true;
    (void)pthread_cond_broadcast(&actor->changed);
    (void)pthread_mutex_unlock(&actor->mutex);
}

bool actor_is_busy(struct actor *actor)
{
    bool is_busy;

    (void)pthread_mutex_lock(&actor->mutex);
    is_busy = actor->is_busy;
    (void)pthread_mutex_unlock(&actor->mutex);
    return is_busy;
}

int actor_end(struct actor *actor)
{
    struct timespec until;
    int value;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000 * test_slack();
    (void)pthread_mutex_lock(&actor->mutex);
    while (actor->is_busy) {
        if (pthread_cond_timedwait(&actor->changed, &actor->mutex, &until) != 0) {
            test_die("an actor does not end what it began");
        }
    }
    value = actor->value;
    (void)pthread_mutex_unlock(&actor->mutex);
    return value;
}

int64_t actor_ended_us(const struct actor *actor)
{
    return actor->ended_us; /* after actor_end() nobody writes it */
}

int actor_do(struct actor *actor, act_fn *fn, struct rlock_handle *lock, int64_t wait_ms,
             const struct rlock_take *take)
{
    actor_begin(actor, fn, lock, wait_ms, take);
    return actor_end(actor);
}

void actor_signal(struct actor *actor, int signal)
{
    (void)pthread_kill(actor->thread, signal);
}

/* ---- What actors can be told to do ---- */

int act_take(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    return rlock_lock_for(lock, wait_ms, take, NULL);
}

int act_unlock(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    (void)wait_ms;
    return rlock_unlock_as(lock, take != NULL ? take->owner : 0);
}

int act_is_valid(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    (void)wait_ms;
    return rlock_is_valid_as(lock, take != NULL ? take->owner : 0);
}

int act_hold_count(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    (void)wait_ms;
    (void)take;
    return (int)rlock_hold_count(lock);
}

int act_pass_through(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    const int code = rlock_lock_for(lock, wait_ms, take, NULL);

    TEST_CHECK(code != 0 || rlock_is_valid(lock));
    return code == 0 ? rlock_unlock(lock) : code;
}
