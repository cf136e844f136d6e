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
/* The call returns with the code, and the release goes on without it. If it is the last release,
 * the hold is neither valid nor renewed any more. due: when it is sent again, if it is not in
 * flight. */
void rlock__release_leave(struct rlock__hold *hold, int code, int64_t due, int64_t now);
/* The release of levels, not the last ones, failed and is not tried again. The owner has given them
 * up, and the last release ends them on the server. */
void rlock__release_drop_levels(struct rlock__hold *hold, int code, int64_t now);
/* Waits for the answer to the release. If it is not in flight, sends it first. */
void rlock__release_ask(struct rlock__call *call, int64_t now);

#endif
