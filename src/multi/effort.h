/* SPDX-License-Identifier: Apache-2.0 */
/* How an effort of a group ends. */
#ifndef RLOCK_MULTI_EFFORT_H
#define RLOCK_MULTI_EFFORT_H

#include "multi/group.h"

/* Ends it with a code; group->detail says why, or is empty. */
void rlock__effort_end(struct rlock__group *group, int code);
/* A member's outcome is open, and enough of them for that of the whole. */
bool rlock__effort_is_open(const struct rlock__group *group, int64_t now);
/* Whether what was taken is given back, as far as anybody need wait for that: a RedLock that goes
 * on does not wait for what silent members say to being given up. */
bool rlock__effort_is_back(struct rlock__group *group, int64_t now);
/* Everything that was taken is given back, or cannot be waited for: ends it, or pauses before the
 * next round. */
void rlock__effort_backed_out(struct rlock__group *group, int64_t now);
/* Hears the channels of the members that refused it. */
void rlock__effort_listen(struct rlock__group *group, int64_t now);

#endif
