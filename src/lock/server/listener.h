/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener receives the messages on the channel of a lock without waiting for the lock: a group
 * has one for each busy member between two rounds. It follows the lock's key to another server.
 */
#ifndef RLOCK_LOCK_LISTENER_H
#define RLOCK_LOCK_LISTENER_H

#include "lock/core.h"

struct rlock__channel;

/* The caller owns the memory, and leaves it in place until notify() was called with is_over. The
 * caller sets the inputs; everything else is zero. */
struct rlock__listener {
    /* inputs */
    struct rlock__spec *spec;
    /* A message came, the channel went live, or the listener is over. The driver calls it for each
     * listener that rlock__core_take_notified() returns. */
    void (*notify)(struct rlock__listener *listener);

    bool is_over; /* it was ended, or the client was closed, or there was no memory */

    /* the core's */
    struct rlock__core *core;
    struct rlock__channel *channel;
    struct rlock__listener *prev, *next;         /* in channel.listeners */
    struct rlock__listener *all_prev, *all_next; /* in core.listeners */
    struct rlock__listener *notified_next;       /* in core.notified */
    bool is_notified;                            /* it is in that list */
};

/* Starts to listen; ends it. Only events of the core call these. */
void rlock__listener_begin(struct rlock__core *core, struct rlock__listener *listener);
void rlock__listener_end(struct rlock__listener *listener);
/* Puts the listener into core.notified: the driver then calls notify(). */
static inline void rlock__listener_notify(struct rlock__listener *listener)
{
    if (!listener->is_notified) {
        listener->is_notified = true;
        LL_APPEND2(listener->core->notified, listener, notified_next);
    }
}

/* The slot map has changed: the listeners follow their keys. */
void rlock__listeners_reroute(struct rlock__core *core);
/* The client is closed: all listeners are over. */
void rlock__listeners_close(struct rlock__core *core);

#endif
