/* SPDX-License-Identifier: Apache-2.0 */
/* The connection for messages of one server: when it is made, and whether it is alive. */
#ifndef RLOCK_LOCK_SUBSCRIBER_H
#define RLOCK_LOCK_SUBSCRIBER_H

#include "lock/server/link.h"

struct rlock__channel;

struct rlock__subscriber {
    struct rlock__tries tries;
    bool up;
    bool is_sharded;                  /* it subscribes to sharded channels, as long as it is up */
    bool refused;                     /* a subscription was, and was logged */
    bool plain_refused;               /* the same of a plain channel beside a sharded one */
    struct rlock__channel *asked;     /* what SUBSCRIBE and UNSUBSCRIBE asked for, in that order */
    struct rlock__channel *unsettled; /* who waits for them has changed in this event */
    struct rlock__buf out;            /* bytes for the driver to send */
    int64_t heard_at, pinged_at;      /* pinged_at: 0 it is not */
};

/* When the driver has something to do: to make it, or (RLOCK__NEVER while it is being made) to
 * check it. */
int64_t rlock__subscriber_due(const struct rlock__server *server) RLOCK__REQUIRES(core);
/* Whether a connection is to be made now; then it is being made. */
bool rlock__subscriber_begin(struct rlock__server *server, int64_t now) RLOCK__REQUIRES(core);
void rlock__subscriber_up(struct rlock__server *server, int64_t now);
void rlock__subscriber_down(struct rlock__server *server, int64_t now);
/* Something was read on it: an acknowledgement, a message, a refusal. */
void rlock__subscriber_received(struct rlock__server *server, const struct rlock__reply *reply,
                                int64_t now);
/* What had come was read. One that is silent for long is tried; false: it gave no answer, and is to
 * be closed. */
bool rlock__subscriber_check(struct rlock__server *server, int64_t now) RLOCK__REQUIRES(core);

#endif
