/* SPDX-License-Identifier: Apache-2.0 */
/* Failures as data: of the calling thread's last call, and of an async call. */
#include <stdio.h>

#include "base/clock.h"
#include "base/sized.h"
#include "client/lock.h"

/* Whether the code goes with a time at which the lock is free. */
static bool has_free_time(int code)
{
    return code == RLOCK_EBUSY || code == RLOCK_ETIMEDOUT || code == RLOCK_EINDOUBT ||
           code == RLOCK_ECANCELED;
}

static int64_t free_ms(int code, int64_t free_at)
{
    if (!has_free_time(code) || free_at <= 0 || free_at == RLOCK__NEVER) {
        return -1;
    }
    return rlock__ms_up(rlock__max(0, free_at - rlock__now_us()));
}

int rlock__failure_give(int code, const char *detail, const struct rlock__facts *facts,
                        struct rlock_failure *ret_failure)
{
    struct rlock_failure failure = {.size = sizeof(failure),
                                    .detail = detail,
                                    .code = code,
                                    .reason = code == RLOCK_ELOST ? facts->reason : 0,
                                    .free_ms = free_ms(code, facts->free_at)};

    if (ret_failure == NULL || !rlock__sized_is_valid(ret_failure)) {
        return RLOCK_EINVAL;
    }
    if (code != 0) {
        (void)snprintf(failure.holder, sizeof(failure.holder), "%s", facts->holder);
        (void)snprintf(failure.server, sizeof(failure.server), "%s", facts->server);
    }
    rlock__sized_give(ret_failure, &failure);
    return 0;
}

int rlock_last_failure(struct rlock_failure *ret_failure)
{
    return rlock__failure_give(rlock__last_code(), rlock_detail(), rlock__last_facts(),
                               ret_failure);
}
