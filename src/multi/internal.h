/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that a group's files share: how an effort ends, and what happens to its members. */
#ifndef RLOCK_MULTI_INTERNAL_H
#define RLOCK_MULTI_INTERNAL_H

#include "multi/group.h"

/* ---- effort.c ---- */

/* Moves the group to another phase: multi/group.h. */
void rlock__effort_phase(struct rlock__group *group, enum rlock__group_phase phase);
/* The lease that is asked for, limited by the shortest max_hold of the members. */
int64_t rlock__effort_lease(const struct rlock__group *group);
/* Ends the effort with a code; group->texts.detail says why, or is empty. */
void rlock__effort_end(struct rlock__group *group, int code);
/* The same, with a text that names the members in doubt, and the time by which they are free. */
void rlock__effort_end_in_doubt(struct rlock__group *group, int64_t now);
/* An effort did not take the group: ends it with group->code, or in doubt if too many members are
 * in doubt. */
void rlock__effort_end_untaken(struct rlock__group *group, int64_t now);
/* Whether everything that was taken is given back, as far as the group waits for that. A RedLock
 * that goes on does not wait until silent members confirm that their calls are given up. */
bool rlock__effort_is_back(struct rlock__group *group, int64_t now);
/* Everything that was taken is given back, or there is no time to wait for that: ends the effort,
 * or pauses before the next round. */
void rlock__effort_backed_out(struct rlock__group *group, int64_t now);

/* ---- extend.c ---- */

/* A member's call is complete: the extension may be decided. */
void rlock__extension_moved(struct rlock__group *group, struct rlock__member *member, int64_t now)
    RLOCK__REQUIRES(groups);
/* The members had no more time. */
void rlock__extension_late(struct rlock__group *group);

/* ---- group.c ---- */

/* An effort begins. It awaits the calls that earlier efforts left running. */
void rlock__group_await(struct rlock__group *group);

/* ---- loss.c ---- */

/* Makes room for the report of a loss, which is not the time to run out of memory. */
void rlock__group_prepare_loss(struct rlock__group *group);

/* ---- owed.c ---- */

/* No effort is under way: the levels that are owed end, and members that have more levels than the
 * rest needs give them back. */
void rlock__group_tidy(struct rlock__group *group);
/* The effort under way has taken a level more, which takes the place of those that are owed. */
void rlock__group_replace_owed(struct rlock__group *group);

/* ---- state.c ---- */

/* So many levels are not held any more. */
void rlock__group_drop(struct rlock__group *group, uint32_t n);

/* ---- member.c ---- */

/* Extends the member's hold. It is held. */
void rlock__member_extend(struct rlock__member *member);
/* The member is renewed from its first level on. It is held. */
void rlock__member_renew(struct rlock__member *member);
/* The call is complete: takes its result. */
void rlock__member_done(struct rlock__member *member);
/* Forgets what the member's calls left open. An effort answers for its own calls, and for calls
 * that still run. */
void rlock__member_forget_doubt(struct rlock__member *member);
/* The effort is over, or the call was not part of it: keeps what belongs to the hold, and releases
 * the rest. */
void rlock__member_tidy(struct rlock__member *member);
/* If only the group counts levels, a member's one level is renewed while any level of the group
 * is. */
void rlock__member_settle_renewal(struct rlock__member *member);
/* Releases the levels of members that the group's levels do not need. */
void rlock__group_shed_levels(struct rlock__group *group);
/* The same, and gives up the members' acquisitions. */
void rlock__group_shed(struct rlock__group *group);

/* Listens on the channels of busy members; ends all listeners. */
void rlock__group_listen(struct rlock__group *group, int64_t now);
void rlock__group_ignore(struct rlock__group *group);

#endif
