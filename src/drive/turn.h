/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations: one take or one leave of a handle, from its begin to its completion. That of a single
 * lock is a call of its client's core, that of a lock made of locks a turn on its owner's group.
 *
 * A group lives at its first member's client, its home, whose mutex protects it. It is found there
 * by its lock and owner, and at each member's client by that member's hold.
 */
#ifndef RLOCK_DRIVE_TURN_H
#define RLOCK_DRIVE_TURN_H

#include <stddef.h>

#include "base/of.h"
#include "drive/client.h"

#define RLOCK__OVER (-1)

/* The clients that a thread keeps watch over while it waits. */
struct rlock__watched {
    size_t n;
    struct rlock_client *clients[RLOCK__MEMBERS_MAX];
    struct rlock__waiter waiter;
};

/* What a member said in the latest call. */
struct rlock__result {
    bool held;
    int code;
    char detail[RLOCK__DETAIL_SIZE];
};

/* What no thread waits for: the service thread of its home takes its steps. Zero before it is
 * added. */
struct rlock__begun {
    /* inputs */
    /* Takes a step. Returns until when it may rest, 0 not at all, or RLOCK__OVER. */
    int64_t (*step)(struct rlock__begun *begun);
    struct rlock__op *op; /* is complete then */
    const void *cancel;   /* names the signal at which it takes a step; NULL none */

    RLOCK__GUARDED_BY(home) struct {
        struct rlock_client *home; /* NULL: it is not there, or complete */
        struct rlock__timer due;   /* when its next step is */
        struct rlock__begun *prev, *next;
    };
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
    bool canceled;                 /* it alone is to end; the groups' mutex protects it */
    struct rlock__result *results; /* one for each member; the groups' mutex protects them */

    struct rlock__group_claim *claim; /* a result: a reference for the owner's thread; or NULL */
    struct rlock__group *group;
    int fd; /* the bell of the thread that waits */
    RLOCK__GUARDED_BY(home) struct {
        struct rlock__turn *prev, *next; /* in the group's line */
        bool has_turn;
        bool asleep;   /* it is rung when its group has something for it */
        int64_t until; /* if nothing comes, until then */
    };
    bool runs;          /* its effort has begun */
    bool knows_servers; /* no twins can turn up any more */
    int stop;           /* why it was to end before its time, at its latest step; 0: it was not */
    struct rlock__begun begun; /* of one that no thread waits for */
};

/*
 * The caller owns the memory, and leaves it and the handle in place until the completion.
 *
 * Who completes it: where finish is NULL the thread that began it waits, and has its results then.
 * Else no thread waits. A dispatcher thread calls finish, once, after all else that the library
 * does with the operation, maybe before its begin has returned: that of the lock's client, of a
 * lock made of locks that of its home. It holds no mutex. So finish may free the operation, begin
 * others, and do what any callback may: it must not wait, and does not hold up anybody's call. The
 * owner of such an operation is a given one: what a thread holds is noted by the thread itself.
 * When the client is closed, what is under way is completed before that returns.
 */
struct rlock__op {
    /* inputs; all else is zero */
    void (*finish)(struct rlock__op *op);
    void *payload; /* for finish */
    /* where it says why it failed. NULL: nowhere; of a single lock without a thread that waits, to
     * what is allocated then, and is the caller's to free */
    struct rlock__texts *texts;

    /* results */
    int code;
    struct rlock_grant grant; /* of a take that returns 0; of the library's size */

    struct rlock__op *prev, *next; /* in client.finished */
    union {
        struct { /* of a single lock */
            struct rlock__call call;
            struct rlock__waiter waiter; /* of the thread that waits */
        };
        struct rlock__turn turn; /* of a lock made of locks */
    };
};

static inline struct rlock__op *rlock__op_of(struct rlock__turn *turn)
{
    return RLOCK__OF(struct rlock__op, turn, turn);
}

/* Whether no thread waits for it: the service thread of its group's home takes its steps. */
static inline bool rlock__turn_is_begun(struct rlock__turn *turn)
{
    return rlock__op_of(turn)->finish != NULL;
}

/* Begins an operation's turn, which waits in line where another effort on the owner's group is
 * under way. Returns 0, or why it did not begin. */
int rlock__turn_begin(struct rlock__turn *turn) RLOCK__NO_MUTEX;
/* Takes its steps until the operation is complete: of one without finish. */
void rlock__turn_wait(struct rlock__turn *turn) RLOCK__NO_MUTEX;
/* Takes one step, and carries its actions out. watched: of the calling thread, which keeps watch
 * where nobody does; NULL it does not. Returns until when the turn may rest, 0 not at all, or
 * RLOCK__OVER: the operation is complete. */
int64_t rlock__turn_step(struct rlock__turn *turn, struct rlock__watched *watched) RLOCK__NO_MUTEX;
/* Asks one that no thread waits for to end before its time, if it takes and is not complete. */
void rlock__turn_cancel(struct rlock__turn *turn) RLOCK__REQUIRES(home);
/* Whoever takes its steps has something to do. NULL: nobody does. */
void rlock__turn_ring(struct rlock__turn *turn) RLOCK__REQUIRES(home);
/* Lets a group that has lost something give back its other members; if somebody has its turn, lets
 * that one do it. closing: reports the loss if all its clients are closed; NULL nobody does. */
void rlock__turn_settle(struct rlock__group *group, struct rlock_client *closing)
    RLOCK__REQUIRES(home);

/* Carries out a step's actions. watched: as rlock__turn_step() has it. */
void rlock__turn_carry_out(struct rlock__group_step *step,
                           struct rlock__watched *watched) RLOCK__NO_MUTEX;
/* Does what is left to do, and gives the turn to the next one that waits for it; unless somebody
 * else has it as well, who does so then. The caller is a user of the group no more. */
void rlock__turn_hand_on(struct rlock__group *group, struct rlock_client *closing)
    RLOCK__REQUIRES(home);

/* ---- turn_owe.c ---- */

/* The turn does not begin: nothing would wake it. An unlock gives up its level, and has a code of
 * its own, if the client is not closed. Returns the code. */
int rlock__turn_refuse(struct rlock__turn *turn, int code, const char *why) RLOCK__NO_MUTEX;
/* The turn has left the line: ends its operation. An unlock gives up its level. */
void rlock__turn_end_in_line(struct rlock__turn *turn) RLOCK__NO_MUTEX;

/* ---- begun.c ---- */

/* Returns false when the home is being closed. */
bool rlock__begun_add(struct rlock_client *home, struct rlock__begun *begun) RLOCK__REQUIRES(home);
void rlock__begun_remove(struct rlock__begun *begun) RLOCK__REQUIRES(home);
/* When its next step is due. */
void rlock__begun_due(struct rlock__begun *begun, int64_t at) RLOCK__REQUIRES(home);
/* Says why it fails. */
void rlock__op_say(struct rlock__op *op, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The step of one that is a turn's. */
int64_t rlock__begun_step_turn(struct rlock__begun *begun) RLOCK__NO_MUTEX;

/* ---- home.c ---- */

struct rlock_client *rlock__home_of(const struct rlock__group_spec *spec);
/* The mutex that protects the groups of a lock. */
void rlock__groups_lock(const struct rlock__group_spec *spec) RLOCK__LOCKS(home);
void rlock__groups_unlock(const struct rlock__group_spec *spec) RLOCK__UNLOCKS(home);
/* NULL: the owner has nothing of it, and nothing under way. */
struct rlock__group *rlock__group_find(const struct rlock__group_spec *spec,
                                       struct rlock__owner owner) RLOCK__REQUIRES(home);
/* A new group, with a user: it is found from now on. The mutex is dropped meanwhile. */
void rlock__group_move_in(struct rlock__group *group) RLOCK__REQUIRES(home);
/* Drops the mutex, and the group if it is over and has no user. */
void rlock__groups_unlock_and_drop(struct rlock__group *group) RLOCK__UNLOCKS(home);
/* Has a group's loss (NULL there is none) reported on a dispatcher, and freed then. */
void rlock__group_report(const struct rlock__group_spec *spec, struct rlock__loss *loss,
                         struct rlock_client *closing) RLOCK__NO_MUTEX;
/* A hold was lost: tells the groups that it is part of. Returns whether it is its owner's as well,
 * to whom it is to be reported. On the dispatcher thread of its client. */
bool rlock__groups_lost(const struct rlock__loss *loss) RLOCK__NO_MUTEX;
/* The client was closed: frees what was lost of groups and nobody unlocked. No dispatcher runs. */
void rlock__groups_closed(struct rlock_client *client) RLOCK__NO_MUTEX;
/* The code of an unlock is "closed" where the end of the members' clients ended what was held,
 * before the unlock or in the middle of it. */
void rlock__turn_blame_close(struct rlock__turn *turn) RLOCK__REQUIRES(home);
/* A thread ends: what it has of a lock is lost. */
void rlock__groups_thread_exit(const struct rlock__group_spec *spec,
                               uint64_t thread) RLOCK__NO_MUTEX;

/* ---- twins.c ---- */

/* Refuses an effort to take it when two of its members turn out to be one, through two clients of
 * one server. Returns whether all servers are known, so that none can turn out later. */
bool rlock__twins_refuse(struct rlock__group *group, int64_t now) RLOCK__REQUIRES(home);

#endif
