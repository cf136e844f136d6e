/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for the log that explain why a call was slow or failed. They have the level DEBUG. If the
 * log does not have that level, each line costs a comparison.
 */
#ifndef RLOCK_LOCK_EXPLAIN_H
#define RLOCK_LOCK_EXPLAIN_H

#include "lock/core.h"

static inline bool rlock__explains(const struct rlock__call *call)
{
    return __builtin_expect(call->core->opts.log_level >= RLOCK_LOG_DEBUG, 0);
}

/* Writes "lock NAME: call NUMBER " and the text. The number is that of "uuid:number", by which the
 * server knows the owner. Call it only if rlock__explains(). */
void rlock__explain(const struct rlock__call *call, int64_t now, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* An attempt begins. */
void rlock__explain_attempt(const struct rlock__call *call, int64_t now);
/* An attempt found the lock busy. */
void rlock__explain_busy(const struct rlock__call *call, const struct rlock__answer *answer,
                         int64_t now);
/* A sleeping call goes on, because of a message, its channel, or a release of this client. */
void rlock__explain_wake(const struct rlock__call *call, int64_t now);
/* The call ends with this code. */
void rlock__explain_end(const struct rlock__call *call, int code, int64_t now);

#endif
