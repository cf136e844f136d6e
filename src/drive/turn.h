/* SPDX-License-Identifier: Apache-2.0 */
/* A thread's turn on a group: begun when no other effort on it is under way, driven until that is
 * complete, and ended. */
#ifndef RLOCK_DRIVE_TURN_H
#define RLOCK_DRIVE_TURN_H

#include "drive/home.h"

/* What a turn is about. */
struct rlock__turn {
    struct rlock__group_spec *spec;
    struct rlock__owner owner;
    int64_t deadline;
    const struct rlock_cancel *cancel;
    int fd; /* an eventfd of the thread */
};

/* All but rlock__turn_drive() with the mutex held; it is dropped meanwhile. */

/* The owner's group, once no other effort on it is under way: 0, or why not. */
int rlock__turn_begin(const struct rlock__turn *turn, struct rlock__group **ret_group);
/* Without the mutex: takes the group's steps until its effort is complete. */
void rlock__turn_drive(struct rlock__group *group, const struct rlock__turn *turn);
/* Drops the mutex. The group may be gone then. */
void rlock__turn_end(struct rlock__group *group);

/* ---- twins.c ---- */

/* Refuses an effort to take it when two of its members turn out to be one, through two clients of
 * one server. With the mutex of the groups held. */
void rlock__twins_refuse(struct rlock__group *group, int64_t now);

/* ---- Losses; without the mutex ---- */

/* A hold was lost: tells the groups that it is part of. Returns whether it is its owner's as well,
 * to whom it is to be reported. On the dispatcher thread of its client. */
bool rlock__groups_lost(const struct rlock__loss *loss);
/* A thread ends: what it has of a lock is lost. */
void rlock__groups_thread_exit(const struct rlock__group_spec *spec, uint64_t thread);

#endif
