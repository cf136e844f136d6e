/* SPDX-License-Identifier: Apache-2.0 */
/* A thread's turn on a group: begun when no other effort on it is under way, driven until that is
 * complete, and ended. */
#ifndef RLOCK_DRIVE_TURN_H
#define RLOCK_DRIVE_TURN_H

#include "drive/client.h"
#include "multi/group.h"

/* The mutex that protects all groups: a leaf under any client's. */
void rlock__groups_lock(void);
void rlock__groups_unlock(void);

/* What a turn is about. */
struct rlock__turn {
    struct rlock__group_spec *spec;
    struct rlock__owner owner;
    int64_t deadline;
    const struct rlock_cancel *cancel;
};

/* All but rlock__turn_drive() with the mutex held. */

/* NULL: the owner has nothing of it, and nothing under way. */
struct rlock__group *rlock__group_find(const struct rlock__group_spec *spec,
                                       struct rlock__owner owner);
/* The owner's group, once no other effort on it is under way: 0, or why not. */
int rlock__turn_begin(const struct rlock__turn *turn, struct rlock__group **ret_group);
/* Without the mutex: carries out its actions until its effort is complete. fd: an eventfd
 * of the thread. */
void rlock__turn_drive(struct rlock__group *group, int fd, const struct rlock_cancel *cancel);
/* The group may be gone then. */
void rlock__turn_end(struct rlock__group *group);

/* ---- twins.c ---- */

/* Refuses an effort to take it when two of its members turn out to be one, through two clients of
 * one server. With the mutex of the groups held. */
void rlock__twins_refuse(struct rlock__group *group, int64_t now);

/* ---- What concerns all groups; without the mutex ---- */

/* A hold was lost: tells the groups that it is part of. Returns whether it is its owner's as
 * well, to whom it is to be reported. On a dispatcher thread. */
bool rlock__groups_lost(const struct rlock__loss *loss);
/* A thread ends: its groups are lost. */
void rlock__groups_thread_exit(uint64_t thread);
/* Once for each process, before the first spec. */
void rlock__groups_init(void);
/* Keeps the groups whole over a fork, and forgets them in the child. */
enum rlock__fork_stage { RLOCK__BEFORE_FORK, RLOCK__IN_PARENT, RLOCK__IN_CHILD };
void rlock__groups_fork(enum rlock__fork_stage stage);

#endif
