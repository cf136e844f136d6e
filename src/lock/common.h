/* SPDX-License-Identifier: Apache-2.0 */
/* What all layers of the core use: calls that go on, texts, random numbers, the log. */
#ifndef RLOCK_LOCK_COMMON_H
#define RLOCK_LOCK_COMMON_H

#include "lock/core.h"

/* ---- call.c ---- */

/*
 * Lets the call go on at the end of the event. It does not go on now, since the caller may be in a
 * loop over a list that the call would change.
 */
void rlock__ready(struct rlock__call *call, enum rlock__why why);
/* Takes back these reasons for the call to go on. */
void rlock__unready(struct rlock__call *call, unsigned why);

/* Whether the call enters the lock's queue on the server while it waits: the head of the wait queue
 * here does. */
static inline bool rlock__call_enters(const struct rlock__call *call)
{
    return call->core->opts.queues && (call->spec->ops->caps & RLOCK__CAP_ENTERS) != 0 &&
           call->acquire.queue != NULL && call->acquire.batch == NULL;
}

/* Moves the call to another step. */
void rlock__call_step(struct rlock__call *call, enum rlock__step step);
/* The server has answered, and the call waits for something else now. For traces. */
static inline void rlock__acquire_heard(struct rlock__call *call, int64_t now)
{
    struct rlock__acquire *acquire = &call->acquire;

    acquire->server_us += acquire->asked_at != 0 ? now - acquire->asked_at : 0;
    acquire->asked_at = 0;
}
/* The call's texts; NULL: the caller wants none, or there is no memory. */
struct rlock__texts *rlock__texts(struct rlock__call *call);
/* Notes why the call fails, if it does; or forgets that. */
void rlock__say(struct rlock__call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void rlock__unsay(struct rlock__call *call);
/* Notes when the lock is free at the latest. 0: nobody knows. */
void rlock__say_free(struct rlock__call *call, int64_t free_at);
/* Completes a call with a code, and a text that says why (NULL: none, or the call has it). */
void rlock__call_complete(struct rlock__call *call, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes the lock's name for texts. */
const char *rlock__spec_text(const struct rlock__spec *spec, char out[static 96]);
/* A random number below n. */
int64_t rlock__random(struct rlock__core *core, int64_t n);
/* The pause after so many failures in a row. It doubles up to a limit, and has full jitter above
 * the first step. */
int64_t rlock__backoff(struct rlock__core *core, unsigned failures);
/* Writes "uuid:number", the owner's name on the server. */
struct rlock__bytes rlock__owner_text(const struct rlock__core *core, uint64_t number,
                                      char out[static RLOCK__OWNER_SIZE]);
/* The same for the text that the hold with this number is detached to. */
struct rlock__bytes rlock__text_owner(const struct rlock__core *core, uint64_t number,
                                      char out[static RLOCK__OWNER_SIZE]);

/*
 * Checks what exclusion relies on, in every build, and returns whether it holds. If it does not, a
 * build with assertions aborts. Any other build logs an error, and the caller fails the call: a
 * lock library must not end its host, and must not go on as if nothing had happened.
 */
#define RLOCK__ENSURE(core, condition) ((condition) || rlock__broken((core), #condition, __func__))
/* Logs the error, and returns false. A build with assertions aborts. */
bool rlock__broken(struct rlock__core *core, const char *condition, const char *function);

#endif
