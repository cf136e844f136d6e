/* SPDX-License-Identifier: Apache-2.0 */
/* Latches on the wire: Redisson's RCountDownLatch. */
#ifndef RLOCK_LOCK_LATCH_H
#define RLOCK_LOCK_LATCH_H

#include "lock/ops.h"

struct rlock__call;

/* A latch is not a lock, and has no owner. RLOCK__AWAIT waits until it is open. */
extern const struct rlock_ops rlock__latch_ops;

/* A question about a latch, or a change of it. */
struct rlock__latch_ask {
    enum {
        RLOCK__LATCH_SET,    /* gives an open latch a count */
        RLOCK__LATCH_DOWN,   /* counts down by one */
        RLOCK__LATCH_LOOK,   /* asks how many are missing */
        RLOCK__LATCH_DELETE, /* opens it */
    } what;
    int64_t count;             /* SET */
    struct rlock__bytes party; /* DOWN: it counts once; empty: any caller */
    struct rlock__bytes id;    /* SET, DOWN: names the call, for copies that are sent again */
};

/* Spells the command. Its reply has two numbers: lua/latch. */
void rlock__latch_spell(const struct rlock__spec *spec, const struct rlock__latch_ask *ask,
                        struct rlock__cmd *ret_cmd);
/* Reads them: the call's command.reader is an int64_t[2]. Returns 0. */
int rlock__latch_read(struct rlock__call *call, const struct rlock__reply *reply);

#endif
