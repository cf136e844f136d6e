/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels of keys that the server tracks. Setnx locks have such channels, because no client
 * announces their release.
 *
 * A server tracks for a connection the keys that the connection reads (CLIENT TRACKING, version 3
 * of the protocol). It tells the connection once that such a key was written, was deleted or has
 * expired. So the channel of a tracked key is not subscribed to. Its waiters rely on a look, which
 * is a PTTL on the subscriber connection: the key is gone, or the server tells of its next change.
 *
 * After a change the waiters ask for the lock. The next look is sent when one of them goes to sleep
 * again. By then the winner has written the key, so its write wakes nobody. A release between the
 * answer to a waiter and the look is not missed, because the look finds that the key is gone, or
 * that another owner has it.
 */
#ifndef RLOCK_LOCK_TRACKED_H
#define RLOCK_LOCK_TRACKED_H

#include "lock/server/channel.h"

/* Whether the waiters of a tracked key need not poll. */
static inline bool rlock__tracked_is_told(const struct rlock__channel *channel)
{
    const struct rlock__subscriber *sub = &channel->server->sub;

    return sub->up && sub->tracks && !channel->is_deaf && !channel->is_elsewhere;
}

/* A call goes to sleep that waits on the channel. */
void rlock__tracked_rest(struct rlock__channel *channel);
/* The end of an event: looks, if that is needed. No look awaits its answer. */
void rlock__tracked_settle(struct rlock__channel *channel);
/* The answer to the first look in subscriber.asked; or the server refused it. */
void rlock__tracked_looked(struct rlock__server *server, int64_t ttl_ms, int64_t now);
void rlock__tracked_refused(struct rlock__channel *channel, const struct rlock__reply *reply);

#endif
