/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber connection to one server: when to connect, and whether it is alive. */
#ifndef RLOCK_LOCK_SUBSCRIBER_H
#define RLOCK_LOCK_SUBSCRIBER_H

#include "lock/server/link.h"

struct rlock__channel;

struct rlock__subscriber {
    struct rlock__tries tries;
    bool up;
    bool is_sharded;                  /* it subscribes to sharded channels, as long as it is up */
    bool wants_tracking;              /* a key is to be tracked */
    bool asked_tracking;              /* the connection, or the present try, asked for that */
    bool tracks;                      /* set by the driver before it is up: the server tracks */
    bool refused;                     /* a subscription was refused: that was logged */
    bool plain_refused;               /* the same for a plain channel beside a sharded one */
    struct rlock__channel *asked;     /* channels whose commands await an answer, in order */
    struct rlock__channel *unsettled; /* channels whose waiters changed in this event */
    struct rlock__channel *told;      /* channels that were told of a number in this event */
    struct rlock__buf out;            /* bytes for the driver to send */
    int64_t heard_at, pinged_at;      /* pinged_at: 0: no PING is open */
};

/* When the driver has something to do: to connect, or to check the connection. RLOCK__NEVER: it is
 * connecting, or nothing needs a connection. */
int64_t rlock__subscriber_due(const struct rlock__server *server) RLOCK__REQUIRES(core);
/* Whether the driver has to connect now. From then on the connection is being made. */
bool rlock__subscriber_begin(struct rlock__server *server, int64_t now) RLOCK__REQUIRES(core);
void rlock__subscriber_up(struct rlock__server *server, int64_t now);
void rlock__subscriber_down(struct rlock__server *server, int64_t now);
/* A reply was read: an acknowledgement, a message, a refusal. */
void rlock__subscriber_received(struct rlock__server *server, const struct rlock__reply *reply,
                                int64_t now);
/* Call it after everything was read. A connection that is silent for long gets a PING. Returns
 * false if the driver has to close it: it gave no answer, or nothing needs it. */
bool rlock__subscriber_check(struct rlock__server *server, int64_t now) RLOCK__REQUIRES(core);

#endif
