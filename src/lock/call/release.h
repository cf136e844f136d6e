/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that the files of the release share. */
#ifndef RLOCK_LOCK_RELEASE_H
#define RLOCK_LOCK_RELEASE_H

#include "lock/common.h"

/* Whether the release leaves no level. */
static inline bool rlock__is_last(const struct rlock__hold *hold)
{
    return hold->count <= hold->leaves.n;
}

/* When the last release is tried again after a failure. */
static inline int64_t rlock__release_retry_at(struct rlock__grant *grant, int64_t now)
{
    return now + rlock__backoff(grant->hold->spec->core, grant->failures++);
}

/* ---- release.c ---- */

/* Writes the text that goes with a code, and more behind it. */
void rlock__release_describe(struct rlock__call *call, int code, const char *more);
/* Ends the turn, and the call if it still waits. */
void rlock__release_end(struct rlock__hold *hold, int code, int64_t now);
/* The call returns with the code, and the release goes on without it. If it is the last release,
 * the hold is neither valid nor renewed any more. due: when it is sent again, if it is not in
 * flight. */
void rlock__release_leave(struct rlock__hold *hold, int code, int64_t due, int64_t now);
/* An unlock returns 0 before the answer. */
static inline void rlock__release_count_sent(struct rlock__hold *hold)
{
    if (hold->sent < UINT8_MAX) {
        hold->sent++;
    }
}

/* The call returns 0, and the release goes on without it: it is on its way, or is sent when it is
 * due. */
void rlock__release_return(struct rlock__hold *hold, int64_t due, int64_t now);
/* The same as rlock__release_leave(), with a text that goes with the code. */
void rlock__release_leave_because(struct rlock__hold *hold, int code, const char *why, int64_t due,
                                  int64_t now);
/* One unlock of a lost hold: needs no I/O. */
void rlock__release_end_lost(struct rlock__hold *hold, int64_t now);
/* The release of levels, not the last ones, failed and is not tried again. The owner has given them
 * up, and the last release ends them on the server. */
void rlock__release_drop_levels(struct rlock__hold *hold, int code, int64_t now);
/* The detach failed: nothing has changed on the server, or the hold is lost. The owner keeps its
 * level. */
void rlock__detach_fail(struct rlock__hold *hold, int code, int64_t now);
/* Reads the answer to a request of a release. */
void rlock__release_answered(struct rlock__request *request, const struct rlock__reply *reply,
                             int64_t now);

/* ---- release_send.c ---- */

/* Waits for the answer to the release. If it is not in flight, sends it first. */
void rlock__release_ask(struct rlock__call *call, int64_t now);

/* ---- detach.c: a last release that gives the hold to a text ---- */

/* Whether an unlock or a detach may join the release that goes on without a call. An unlock takes
 * back a detach with an unknown outcome. */
bool rlock__detach_joins(struct rlock__hold *hold, const struct rlock__call *call);
/* Why the hold of the call cannot be detached: a code, with its text. 0: it can. */
int rlock__detach_refusal(const struct rlock__call *call, const char **ret_why);
/* Sends the next request: the detach, or what takes it back. NULL without memory. */
struct rlock__request *rlock__detach_send(struct rlock__hold *hold, rlock__answer_fn *answer,
                                          int64_t now);
/* The outcome of the detach stays unknown. Returns when the release goes on without a call, or the
 * lock is free. */
int64_t rlock__detach_leave(struct rlock__hold *hold, int64_t now);

#endif
