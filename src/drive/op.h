/* SPDX-License-Identifier: Apache-2.0 */
/* An operation: one take or one leave of a handle, from its begin to its completion. */
#ifndef RLOCK_DRIVE_OP_H
#define RLOCK_DRIVE_OP_H

#include <stddef.h>

#include "drive/turn.h"

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

    /* results */
    int code;
    struct rlock_grant grant;        /* of a take that returns 0; of the library's size */
    char detail[RLOCK__DETAIL_SIZE]; /* of one that does not */

    struct rlock__op *prev, *next; /* in client.finished */
    union {
        struct { /* of a single lock */
            struct rlock__call call;
            struct rlock__parker parker; /* of the thread that waits */
        };
        struct rlock__turn turn; /* of a lock made of locks */
    };
};

static inline struct rlock__op *rlock__op_of(struct rlock__turn *turn)
{
    return (struct rlock__op *)(void *)((char *)turn - offsetof(struct rlock__op, turn));
}

/* Whether no thread waits for it: the service thread of its group's home takes its steps. */
static inline bool rlock__turn_is_begun(struct rlock__turn *turn)
{
    return rlock__op_of(turn)->finish != NULL;
}

#endif
