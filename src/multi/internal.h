/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a group's life share: how an effort ends, and what is done with members. */
#ifndef RLOCK_MULTI_INTERNAL_H
#define RLOCK_MULTI_INTERNAL_H

#include "multi/group.h"

/* ---- effort.c ---- */

/* Moves the group to another phase: multi/group.h. */
void rlock__effort_phase(struct rlock__group *group, enum rlock__group_phase phase);
/* Ends it with a code; group->detail says why, or is empty. */
void rlock__effort_end(struct rlock__group *group, int code);
/* The same, with a text that names the members in doubt, and the time by which they are free. */
void rlock__effort_end_in_doubt(struct rlock__group *group, int64_t now);
/* An effort did not take it: ends with group->code, or in doubt where too many members are. */
void rlock__effort_end_untaken(struct rlock__group *group, int64_t now);
/* Whether what was taken is given back, as far as anybody need wait for that: a RedLock that goes
 * on does not wait for what silent members say to being given up. */
bool rlock__effort_is_back(struct rlock__group *group, int64_t now);
/* Everything that was taken is given back, or cannot be waited for: ends it, or pauses before the
 * next round. */
void rlock__effort_backed_out(struct rlock__group *group, int64_t now);

/* ---- group.c ---- */

/* So many levels are not held any more. */
void rlock__group_drop(struct rlock__group *group, uint32_t n);

/* ---- owed.c ---- */

/* The effort under way is over: leaves the levels that are owed. */
void rlock__group_leave_owed(struct rlock__group *group);
/* The same where it has taken a level more, which takes their place. */
void rlock__group_replace_owed(struct rlock__group *group);

/* ---- member.c ---- */

/* The call is complete: what came of it. */
void rlock__member_done(struct rlock__member *member);
/* Forgets what its calls left open: an effort answers for its own calls, and those that run yet. */
void rlock__member_forget_doubt(struct rlock__member *member);
/* The effort is over, or never was about this: keeps what belongs to the hold, leaves the rest. */
void rlock__member_tidy(struct rlock__member *member);
/* Where levels are counted by the group alone, a member's one is renewed while any of them is. */
void rlock__member_settle_renewal(struct rlock__member *member);
/* Leaves what is more than the levels that are held. */
void rlock__group_shed_levels(struct rlock__group *group);
/* The same, and gives up what is asked for. */
void rlock__group_shed(struct rlock__group *group);

/* Hears the channels of members that were busy; and none any more. */
void rlock__group_listen(struct rlock__group *group, int64_t now);
void rlock__group_ignore(struct rlock__group *group);

#endif
