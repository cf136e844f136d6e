/* SPDX-License-Identifier: Apache-2.0 */
#include "support/completion.h"

#include <time.h>

#include "support/run.h"

enum { PATIENCE_S = 30 };

void completion_tell(struct rlock_op *op, void *payload)
{
    struct completion *completion = payload;

    TEST_CHECK(rlock_op_code(op) != RLOCK_UNDER_WAY);
    (void)pthread_mutex_lock(&completion->mutex);
    TEST_CHECK(completion->n == 0);
    completion->n++;
    completion->code = rlock_op_code(op);
    completion->thread = pthread_self();
    (void)pthread_cond_broadcast(&completion->told);
    (void)pthread_mutex_unlock(&completion->mutex);
}

bool completion_is_there(struct completion *completion)
{
    bool there;

    (void)pthread_mutex_lock(&completion->mutex);
    there = completion->n != 0;
    (void)pthread_mutex_unlock(&completion->mutex);
    return there;
}

int completion_await(struct completion *completion)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S * test_slack();
    (void)pthread_mutex_lock(&completion->mutex);
    while (completion->n == 0) {
        TEST_CHECK(pthread_cond_timedwait(&completion->told, &completion->mutex, &until) == 0);
    }
    (void)pthread_mutex_unlock(&completion->mutex);
    return completion->code;
}
