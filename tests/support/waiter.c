/* SPDX-License-Identifier: Apache-2.0 */
#include "support/waiter.h"

#include <unistd.h>

static void start_thread(pthread_t *thread, void *(*entry)(void *), void *arg)
{
    TEST_CHECK(pthread_create(thread, NULL, entry, arg) == 0);
}

/* ---- Waiters ---- */

static void *waiter_main(void *arg)
{
    struct waiter *waiter = arg;
    int64_t began_us = test_now_us();

    atomic_store(&waiter->id, gettid());
    waiter->code = rlock_lock_for(waiter->lock, waiter->wait_ms, &waiter->take, NULL);
    waiter->answered_us = test_now_us();
    waiter->took_us = waiter->answered_us - began_us;
    (void)snprintf(waiter->detail, sizeof(waiter->detail), "%s", rlock_detail());
    if (waiter->code == 0) {
        waiter->was_valid = rlock_is_valid_as(waiter->lock, waiter->take.owner);
        if (waiter->user != NULL) {
            (void)user_step_on(waiter->user, waiter->lock);
        }
        waiter->unlock_code = rlock_unlock_as(waiter->lock, waiter->take.owner);
    }
    atomic_store(&waiter->done, true);
    return NULL;
}

void waiter_start_on(struct waiter *waiter, const struct user *user, struct rlock_handle *lock,
                     int64_t wait_ms, const struct rlock_take *take)
{
    memset(waiter, 0, sizeof(*waiter));
    waiter->user = user;
    waiter->lock = lock;
    waiter->wait_ms = wait_ms;
    waiter->take = take != NULL ? *take : *RLOCK_TAKE();
    start_thread(&waiter->thread, waiter_main, waiter);
}

void waiter_start(struct waiter *waiter, const struct user *user, int64_t wait_ms,
                  const struct rlock_take *take)
{
    waiter_start_on(waiter, user, user->lock, wait_ms, take);
}

int waiter_join(struct waiter *waiter)
{
    TEST_CHECK(pthread_join(waiter->thread, NULL) == 0);
    if (getenv("RLOCK_TEST_LOG") != NULL) {
        print_message("waiter: %s (%s), unlock: %s\n", rlock_code_name(waiter->code),
                      waiter->detail, rlock_code_name(waiter->unlock_code));
    }
    return waiter->code;
}

void waiter_passed(struct waiter *waiter)
{
    const int code = waiter_join(waiter);

    if (code != 0 || waiter->unlock_code != 0 || !waiter->was_valid) {
        fail_msg("a waiter: %s (%s), %s, unlock: %s", rlock_code_name(code), waiter->detail,
                 waiter->was_valid ? "valid" : "not valid", rlock_code_name(waiter->unlock_code));
    }
}

/* ---- Crews ---- */

static void check_allowed(const struct crew *crew, const char *call, int code)
{
    if (code != 0 && (crew->allowed & ALLOW(code)) == 0) {
        test_die("%s: %s: %s", call, rlock_code_name(code), rlock_detail());
    }
}

static void *crew_main(void *arg)
{
    struct crew *crew = arg;
    size_t round = 0;

    while (!atomic_load(&crew->stop) && (crew->rounds == 0 || round++ < crew->rounds)) {
        int code = rlock_lock_for(crew->user->lock, crew->wait_ms, NULL, NULL);

        check_allowed(crew, "lock", code);
        atomic_fetch_add(code == 0 ? &crew->visits : &crew->failures, 1);
        if (code == 0) {
            (void)user_step(crew->user);
            check_allowed(crew, "unlock", rlock_unlock(crew->user->lock));
        }
    }
    return NULL;
}

void crew_start(struct crew *crew, const struct user *user, size_t n)
{
    TEST_CHECK(n <= sizeof(crew->threads) / sizeof(crew->threads[0]));
    crew->user = user;
    crew->n = n;
    for (size_t i = 0; i < n; i++) {
        start_thread(&crew->threads[i], crew_main, crew);
    }
}

void crew_join(struct crew *crew)
{
    for (size_t i = 0; i < crew->n; i++) {
        TEST_CHECK(pthread_join(crew->threads[i], NULL) == 0);
    }
    crew->n = 0;
}

void crew_stop(struct crew *crew)
{
    atomic_store(&crew->stop, true);
    crew_join(crew);
}
