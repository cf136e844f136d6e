/* Threads that take a lock, hold it, give it back and pause: the C half of the shares;
 * java/src/main/java/rlock/interop/Loop.java is the other. */
#include "agent.h"
#include "cells.h"

#include "support/run.h"

#include <pthread.h>
#include <unistd.h>

enum { MAX_THREADS = 64 };

struct looper {
    pthread_t thread;
    struct rlock_handle *lock;
    int64_t hold_ms, pause_ms, end_us;
    struct cells *cells; /* NULL: nothing is witnessed */
    uint64_t id;
    int64_t grants, longest_us;
    int code; /* of the first call that failed */
};

static void hold(const struct looper *looper)
{
    if (looper->cells != NULL && !cells_enter(looper->cells, 0, looper->id, false)) {
        agent_event("overlap cell 0: %llu entered", (unsigned long long)looper->id);
    }
    usleep((useconds_t)looper->hold_ms * 1000);
    if (looper->cells != NULL) {
        cells_leave(looper->cells, 0, looper->id, false);
    }
}

static void *loop(void *arg)
{
    struct looper *looper = arg;

    while (looper->code == 0 && test_now_us() < looper->end_us) {
        const int64_t since_us = test_now_us();
        looper->code = rlock_lock(looper->lock);
        if (looper->code == 0) {
            const int64_t waited_us = test_elapsed_us(since_us);
            looper->longest_us = waited_us > looper->longest_us ? waited_us : looper->longest_us;
            looper->grants++;
            hold(looper);
            looper->code = rlock_unlock(looper->lock);
        }
        if (looper->pause_ms > 0) {
            usleep((useconds_t)looper->pause_ms * 1000);
        }
    }
    return NULL;
}

void agent_loop(const struct agent_request *request, struct rlock_handle *lock)
{
    const size_t n = (size_t)agent_number(request, 0);
    const int64_t end_us = test_deadline_us(agent_number(request, 2));
    const bool is_witnessed = request->n_args > 5;
    const size_t slot = is_witnessed ? (size_t)agent_number(request, 5) : 0;
    struct cells *cells = is_witnessed ? cells_open(agent_args(request)[4]) : NULL;
    struct looper loopers[MAX_THREADS], sum = {.code = 0};

    TEST_CHECK(n <= MAX_THREADS);
    for (size_t i = 0; i < n; i++) {
        loopers[i] = (struct looper){.lock = lock,
                                     .hold_ms = agent_number(request, 1),
                                     .pause_ms = agent_number(request, 3),
                                     .end_us = end_us,
                                     .cells = cells,
                                     .id = cells_id(slot, i)};
        TEST_CHECK(pthread_create(&loopers[i].thread, NULL, loop, &loopers[i]) == 0);
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(loopers[i].thread, NULL);
        sum.grants += loopers[i].grants;
        sum.code = sum.code != 0 ? sum.code : loopers[i].code;
        sum.longest_us =
            loopers[i].longest_us > sum.longest_us ? loopers[i].longest_us : sum.longest_us;
    }
    cells_close(cells);
    if (sum.code != 0) {
        agent_fail(request, sum.code);
    } else {
        agent_ok(request, "%lld %lld", (long long)sum.grants, (long long)sum.longest_us / 1000);
    }
}
