/* SPDX-License-Identifier: Apache-2.0 */
/* A wait queue, for the files that make it: queue.c has its calls, and turns.c its pauses. */
#ifndef RLOCK_LOCK_QUEUE_STATE_H
#define RLOCK_LOCK_QUEUE_STATE_H

#include "lock/hold/queue.h"

#define RLOCK__PEERS_US RLOCK__SECOND /* for so long another library may come back */

struct rlock__queue {
    struct rlock__table_node node; /* in core.queues, by the lock's key */
    struct rlock__queue *next;     /* in core.idle_queues */
    struct rlock__core *core;
    struct rlock__spec *spec;
    struct rlock__call *calls;
    int64_t paused_until;      /* waiters here ask then; 0: at once */
    int64_t own_due;           /* messages of our own release that are yet to come */
    int64_t peers_until;       /* no hold is passed on before: another library competes */
    int64_t peers_at;          /* when the server last named a holder of that library */
    int64_t peers_lease_until; /* the end of that holder's lease */
    int64_t peers_lease_us;    /* the longest rest of its lease that was seen */
    int64_t owed_us;           /* how much longer than us it has had the lock */
    unsigned yields;           /* pauses for it since then */
    int64_t contended_until;   /* no hold lingers before: others waited for the lock */
    int64_t left_at;           /* the latest release of this client */
    int64_t others;            /* receivers of its message that had no turn yet */
    unsigned turns;            /* releases since the last pause; polled locks: of the last second */
    int64_t turns_since;       /* when that count began */
    struct rlock__timer paused; /* fires when the pause ends, or the others are forgotten */
};

/* The queue of the lock; NULL: there is none. */
struct rlock__queue *rlock__queue_find(struct rlock__core *core, const struct rlock__spec *spec);
/* A new queue without calls; NULL without memory. */
struct rlock__queue *rlock__queue_new(struct rlock__core *core, struct rlock__spec *spec,
                                      int64_t now);
/* Sets its timer to the end of its pause or of its memory, the earlier one. */
void rlock__queue_plan(struct rlock__queue *queue);
/* Puts it away if nothing needs it. */
void rlock__queue_settle(struct rlock__queue *queue);
/* Whether waiters for its lock poll, so that the server does not know of them. */
static inline bool rlock__queue_is_polled(const struct rlock__queue *queue)
{
    return queue->spec->ops->pause != NULL && !queue->core->closed;
}

#endif
