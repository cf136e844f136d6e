/* SPDX-License-Identifier: Apache-2.0 */
/* What a group does with its members. */
#ifndef RLOCK_MULTI_MEMBER_H
#define RLOCK_MULTI_MEMBER_H

#include "multi/group.h"

/* The call is complete: what came of it. */
void rlock__member_done(struct rlock__member *member, int64_t now);
/* The effort is over, or never was about this: keeps what belongs to the hold, leaves the rest. */
void rlock__member_tidy(struct rlock__member *member);
/* Where levels are counted by the group alone, a member's one is renewed while any of them is. */
void rlock__member_settle_renewal(struct rlock__member *member);
/* Leaves what is more than the levels that are held. */
void rlock__group_shed_levels(struct rlock__group *group);
/* The same, and gives up what is asked for. */
void rlock__group_shed(struct rlock__group *group);

/* Hears the channels of members that were busy; and none any more. */
void rlock__group_listen(struct rlock__group *group);
void rlock__group_ignore(struct rlock__group *group);
/* Whether one that was busy has spoken since, also while others were given back. */
bool rlock__group_has_spoken(const struct rlock__group *group);

#endif
