/* Threads that take a lock, hold it and give it back, without a pause: the C half of the shares;
 * java/src/main/java/rlock/interop/Loop.java is the other. */
#include "agent.h"

#include "support/run.h"

#include <pthread.h>
#include <unistd.h>

enum { MAX_THREADS = 64 };

struct looper {
    pthread_t thread;
    struct rlock_handle *lock;
    int64_t hold_ms, end_us;
    int64_t grants, longest_us;
    int code; /* of the first call that failed */
};

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
            usleep((useconds_t)looper->hold_ms * 1000);
            looper->code = rlock_unlock(looper->lock);
        }
    }
    return NULL;
}

void agent_loop(const struct agent_request *request, struct rlock_handle *lock)
{
    const size_t n = (size_t)agent_number(request, 0);
    const int64_t end_us = test_deadline_us(agent_number(request, 2));
    struct looper loopers[MAX_THREADS], sum = {.code = 0};

    TEST_CHECK(n <= MAX_THREADS);
    for (size_t i = 0; i < n; i++) {
        loopers[i] =
            (struct looper){.lock = lock, .hold_ms = agent_number(request, 1), .end_us = end_us};
        TEST_CHECK(pthread_create(&loopers[i].thread, NULL, loop, &loopers[i]) == 0);
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(loopers[i].thread, NULL);
        sum.grants += loopers[i].grants;
        sum.code = sum.code != 0 ? sum.code : loopers[i].code;
        sum.longest_us =
            loopers[i].longest_us > sum.longest_us ? loopers[i].longest_us : sum.longest_us;
    }
    if (sum.code != 0) {
        agent_fail(request, sum.code);
    } else {
        agent_ok(request, "%lld %lld", (long long)sum.grants, (long long)sum.longest_us / 1000);
    }
}
