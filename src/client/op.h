/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of async calls. */
#ifndef RLOCK_CLIENT_OP_H
#define RLOCK_CLIENT_OP_H

#include "client/lock.h"

enum rlock__asked {
    /* in the order of RLOCK_CALL_… */
    RLOCK__ASKED_TAKE,
    RLOCK__ASKED_LEAVE,
    RLOCK__ASKED_EXTEND,
    RLOCK__ASKED_FORCE,
    RLOCK__ASKED_INSPECT,
    RLOCK__ASKED_DETACH,
    RLOCK__ASKED_ADOPT,
    /* of a latch: not traced */
    RLOCK__ASKED_LATCH,
    RLOCK__ASKED_LATCH_COUNT,
};

struct rlock_op {
    struct rlock__op op;
    enum rlock__asked asked;
    struct rlock_handle *lock;      /* a reference */
    struct rlock__inquiry *inquiry; /* FORCE, INSPECT */
    rlock_done_fn *done;
    void *payload;
    atomic_uint refs;
    atomic_int code; /* RLOCK_UNDER_WAY until all else is there */
    uint64_t owner;  /* FORCE, INSPECT: 0 */
    bool was_locked;
    const struct rlock_info *info; /* INSPECT: what the servers said; the inquiry's */
};

/* LATCH, LATCH_COUNT: the two numbers of the server's reply. They are behind the operation. */
static inline int64_t *rlock__op_numbers(struct rlock_op *op)
{
    return (int64_t *)(void *)(op + 1);
}

/* Makes an operation with two references: the caller's, and that of its completion. */
int rlock__op_new(enum rlock__asked asked, struct rlock_handle *lock, rlock_done_fn *done,
                  void *payload, struct rlock_op **ret_op);
/* The operation began, or the code says why not. Gives the caller's reference. Returns the code. */
int rlock__op_started(struct rlock_op *op, int code, struct rlock_op **ret_op);

#endif
