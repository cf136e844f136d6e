/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ear: a call that is in a lock's queue on the server hears the lock's common channel too. It
 * needs that while another library holds the lock, which announces its release there alone. Such a
 * call also subscribes to a channel that counts them: scripts do not take its subscribers for
 * others that wait for a turn. The functions are in waiters.c.
 */
#ifndef RLOCK_LOCK_EAR_H
#define RLOCK_LOCK_EAR_H

#include "lock/core.h"

struct rlock__channel;

/* What the call knows of its place in the queue is made if it is not there. Returns whether it is
 * there: there may be no memory. */
bool rlock__entry_get(struct rlock__call *call);
/* The call has no ear yet. Returns whether the common channel is subscribed already: then a message
 * may have come just before. */
bool rlock__ear_open(struct rlock__call *call);
/* A turn of others begins or may begin. The call hears when one of them releases the lock, or its
 * own client before that. Returns whether it does. */
bool rlock__ear_keep(struct rlock__call *call);
/* Nothing happens if the call has none. */
void rlock__ear_close(struct rlock__call *call);
#endif
