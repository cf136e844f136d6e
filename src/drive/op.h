/* SPDX-License-Identifier: Apache-2.0 */
/* An operation: one take or one leave of a handle, from its begin to its completion. */
#ifndef RLOCK_DRIVE_OP_H
#define RLOCK_DRIVE_OP_H

#include "drive/turn.h"

/*
 * The caller owns the memory, and leaves it and the handle in place until the completion.
 *
 * Who completes it: where finish is NULL the thread that began it waits, and has its results then.
 * Else no thread waits. The dispatcher thread of the client that speaks for the lock calls finish,
 * once, after all else that the library does with the operation, maybe before its begin has
 * returned. It holds no mutex. So finish may free the operation, begin others, and do what any
 * callback may: it must not wait, and does not hold up the calls of anybody. The owner of such an
 * operation is a given one: what a thread holds is noted by the thread itself.
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

#endif
