/* SPDX-License-Identifier: Apache-2.0 */
/* Turns on groups. */
#ifndef RLOCK_DRIVE_TURN_H
#define RLOCK_DRIVE_TURN_H

#include "drive/home.h"

/* What a member said in the latest call. */
struct rlock__result {
    bool held;
    int code;
    char detail[RLOCK__DETAIL_SIZE];
};

/* A turn on a group: one effort, which begins when no other one on it is under way. */
struct rlock__turn {
    /* inputs */
    struct rlock__group_spec *spec;
    struct rlock__owner owner;
    bool leaves;                 /* it gives up a level; else it takes one: */
    struct rlock__effort effort; /* how */
    int64_t deadline;
    const struct rlock_cancel *cancel;
    struct rlock__result *results; /* one for each member; the groups' mutex protects them */

    struct rlock__group_claim *claim; /* a result: a reference for the owner's thread; or NULL */
    struct rlock__group *group;
    int fd; /* an eventfd of the thread that waits */
    RLOCK__GUARDED_BY(home) struct {
        struct rlock__turn *prev, *next; /* in the group's line */
        bool has_turn;
        bool asleep; /* it is rung when its group has changed */
    };
    bool runs;  /* its effort has begun */
    bool fired; /* its cancel signal was, before its latest step */
};

/* Begins an operation's turn, which waits in line where another effort on the owner's group is
 * under way. Returns 0, or why it did not begin. */
int rlock__turn_begin(struct rlock__turn *turn) RLOCK__NO_MUTEX;
/* Takes its steps until the operation is complete. */
void rlock__turn_wait(struct rlock__turn *turn) RLOCK__NO_MUTEX;
/* Lets a group that has lost something give back its other members; if somebody has its turn, lets
 * that one do it. closing: reports the loss if all its clients are closed; NULL nobody does. */
void rlock__turn_settle(struct rlock__group *group, struct rlock_client *closing)
    RLOCK__REQUIRES(home);

/* ---- twins.c ---- */

/* Refuses an effort to take it when two of its members turn out to be one, through two clients of
 * one server. */
void rlock__twins_refuse(struct rlock__group *group, int64_t now) RLOCK__REQUIRES(home);

/* ---- losses.c ---- */

/* Has a group's loss (NULL there is none) reported on a dispatcher, and freed then. */
void rlock__group_report(const struct rlock__group_spec *spec, struct rlock__loss *loss,
                         struct rlock_client *closing) RLOCK__NO_MUTEX;

/* A hold was lost: tells the groups that it is part of. Returns whether it is its owner's as well,
 * to whom it is to be reported. On the dispatcher thread of its client. */
bool rlock__groups_lost(const struct rlock__loss *loss) RLOCK__NO_MUTEX;
/* A thread ends: what it has of a lock is lost. */
void rlock__groups_thread_exit(const struct rlock__group_spec *spec,
                               uint64_t thread) RLOCK__NO_MUTEX;

#endif
