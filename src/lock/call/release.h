/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that the files of the release share. */
#ifndef RLOCK_LOCK_RELEASE_H
#define RLOCK_LOCK_RELEASE_H

#include "lock/core.h"

/* ---- release.c ---- */

/* Writes the text that goes with a code, and more behind it. */
void rlock__release_describe(struct rlock__call *call, int code, const char *more);
/* Ends the turn, and the call if it still waits. */
void rlock__release_end(struct rlock__hold *hold, int code, int64_t now);
/* The caller returns with the code. The last release, if it is that, goes on without it: the hold
 * is not valid any more, and not renewed. due: when it is tried again, if nothing is in flight. */
void rlock__release_leave(struct rlock__hold *hold, int code, int64_t due, int64_t now);
/* The release of levels, not the last ones, was not done, and is not tried again. Their owner has
 * given them up: the last release takes them along. */
void rlock__release_drop_levels(struct rlock__hold *hold, int code, int64_t now);
/* Waits for the answer; where nothing is in flight, the release is sent first. */
void rlock__release_ask(struct rlock__call *call, int64_t now);

#endif
