/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The homes of groups, each with its mutex. A group lives at its first member's client; it is found
 * there by its lock and owner, and at each member's client by that member's hold.
 */
#ifndef RLOCK_DRIVE_HOME_H
#define RLOCK_DRIVE_HOME_H

#include "drive/client.h"

struct rlock_client *rlock__home_of(const struct rlock__group_spec *spec);
/* The mutex that protects the groups of a lock: that of their home. */
void rlock__groups_lock(const struct rlock__group_spec *spec) RLOCK__LOCKS(home);
void rlock__groups_unlock(const struct rlock__group_spec *spec) RLOCK__UNLOCKS(home);
/* NULL: the owner has nothing of it, and nothing under way. */
struct rlock__group *rlock__group_find(const struct rlock__group_spec *spec,
                                       struct rlock__owner owner) RLOCK__REQUIRES(home);
/* A new group, with a user: it is found from now on. The mutex is dropped meanwhile. */
void rlock__group_move_in(struct rlock__group *group) RLOCK__REQUIRES(home);
/* Drops the mutex, and the group if it is over and has no user. */
void rlock__groups_unlock_and_drop(struct rlock__group *group) RLOCK__UNLOCKS(home);
/* Gives a reference back, which keeps a group's memory, wherever it is. */
void rlock__group_unref(struct rlock__group *group) RLOCK__EXCLUDES(home);

#endif
