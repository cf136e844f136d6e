/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channels that wake waiters, and their subscriptions at the server.
 *
 * A channel is live from the acknowledgement of its SUBSCRIBE on. A refusal does not say what it
 * refuses, but answers come in the order of the commands. So the commands that await an answer are
 * in a list. Each channel has at most one of them. If the channel needs another command meanwhile,
 * that follows after the answer. A command for several channels is acknowledged for each of them,
 * and refused once for all.
 *
 * If the client uses plain channels beside sharded ones, each command for a sharded channel has one
 * for the plain channel in front. So when the sharded one is answered, the plain one is too. Only
 * the sharded one makes a channel live: without the plain one, all but old Redissons wake waiters.
 */
#ifndef RLOCK_LOCK_CHANNEL_H
#define RLOCK_LOCK_CHANNEL_H

#include <assert.h>
#include <utlist.h>

#include "lock/core.h"
#include "lock/server/route.h"

struct rlock__channel {
    struct rlock__table_node node; /* in server.channels */
    struct rlock__server *server;
    struct rlock__bytes name;
    struct rlock__channel *asked_prev, *asked_next; /* in subscriber.asked */
    struct rlock__call *waiters;
    struct rlock__call *hearers; /* calls that hear other libraries here: ear.h */
    unsigned marked;             /* such calls, on the channel that counts them */
    bool counts_readers;         /* it counts clients with readers that wait, as this one has */
    struct rlock__listener *listeners;
    struct rlock__timer linger; /* it is kept until then, though nobody needs it */
    struct rlock__spec *spec;   /* a client's own: its lock; NULL: another channel */
    uint64_t stray;   /* the lock is reserved for this number, which no call has; 0: none */
    uint64_t awaited; /* a call elsewhere waits for the hold with this number; 0: none */
    struct rlock__channel *told_next; /* in subscriber.told, if one of the two is set */
    int64_t kept_until;               /* it is subscribed until then, though nobody waits */
    bool lingers;                     /* it may be kept */
    bool is_over;                     /* it was kept for long enough */
    enum { RLOCK__ASKED_NOTHING, RLOCK__ASKED_SUBSCRIBE, RLOCK__ASKED_UNSUBSCRIBE } asked;
    bool live; /* the server acknowledged the subscription */
    /* The plain channel beside the sharded one: it is subscribed; its command awaits an answer. */
    bool plain, plain_asked;
    bool shares;       /* its command is for the next channel in subscriber.asked too */
    bool is_elsewhere; /* the server named another server, and was not asked again */
    bool is_tracked;   /* of a key: lock/server/tracked.h */
    bool is_armed;     /* of a tracked one: the server will tell of the next change of the key */
    bool is_deaf;      /* the server refused to look at the key */
    int64_t ends_at;   /* when the lease ends there, as the latest look says; 0: it has no end */
    bool unsettled;
    struct rlock__channel *unsettled_next; /* in subscriber.unsettled */
    struct rlock__stock *stock;            /* it is in that stock; NULL: none */
    struct rlock__channel *stock_prev, *stock_next;
    uint64_t number; /* in a stock: the number it is for */
    bool is_spent;   /* in a stock: that number was granted */
    char bytes[];
};

struct rlock__channel *rlock__channel_find(struct rlock__server *server, struct rlock__bytes name);
/* Finds or creates the channel. NULL without memory. */
struct rlock__channel *rlock__channel_get(struct rlock__server *server, struct rlock__bytes name);
/* The next of all channels; NULL: before the first, or behind the last. */
struct rlock__channel *rlock__channel_next(const struct rlock__server *server,
                                           const struct rlock__channel *at);
/* Whether a call or a listener needs the channel's messages. */
static inline bool rlock__channel_is_needed(const struct rlock__channel *channel)
{
    return channel->waiters != NULL || channel->listeners != NULL || channel->hearers != NULL ||
           channel->marked > 0 || channel->counts_readers;
}
/* waiters.c: makes the call a waiter of its channel: the lock's channel, or for a queue on the
 * server a channel of its own. Returns false without memory. */
bool rlock__channel_join(struct rlock__call *call);
void rlock__channel_leave(struct rlock__call *call);
/* The same for a call that was granted its lock: a channel of its own gets no more messages. */
void rlock__channel_leave_granted(struct rlock__call *call);
/* The channel of a number, in a queue on the server; NULL without memory. */
struct rlock__channel *rlock__channel_own(struct rlock__server *server,
                                          const struct rlock__spec *spec, uint64_t number);
/* The client's own channel of the lock, where a release tells its call that is in the lock's queue.
 * NULL without memory. */
struct rlock__channel *rlock__channel_client(struct rlock__server *server,
                                             struct rlock__spec *spec);
/* Has that one subscribed for a while, since a hold of the lock lingers. Returns whether it is. */
bool rlock__channel_client_keep(struct rlock__spec *spec, int64_t now);
/* Whether that one is subscribed. */
bool rlock__channel_client_is_live(const struct rlock__call *call);
/* Subscribes or unsubscribes all of them with one command. None of them may have an open
 * command. */
void rlock__channels_ask(struct rlock__channel *const *channels, size_t n, bool subscribe);
/* The end of the event subscribes or unsubscribes the channel, as its waiters need. One may leave,
 * and the next one join. */
static inline void rlock__channel_unsettle(struct rlock__channel *channel)
{
    struct rlock__server *server = channel->server;

    assert(!channel->unsettled || server->is_touched); /* or the end of the event misses it */
    if (!channel->unsettled) {
        channel->unsettled = true;
        rlock__server_touch(server);
        LL_PREPEND2(server->sub.unsettled, channel, unsettled_next);
    }
}
/* Whether a call or a listener has to leave the channel and join again: another server has the key,
 * or this one has it again and was not asked since it named another one. */
static inline bool rlock__channel_is_outdated(const struct rlock__channel *channel,
                                              const struct rlock__spec *spec)
{
    return channel->is_elsewhere || channel->server != rlock__route(spec)->server;
}
/* Whether the server acknowledged the channel's subscription, and no command awaits an answer. */
bool rlock__channel_is_subscribed(const struct rlock__channel *channel);
/* The same for the channel that the call relies on. */
bool rlock__channel_is_live(const struct rlock__call *call);
/* A message came: each waiter notes that at the end of the event, and tries again. A message that
 * names a call is for that call alone. */
void rlock__channel_on_message(struct rlock__channel *channel, struct rlock__bytes message,
                               int64_t now);
/* Each waiter tries again; all false: only waiters that are in no wait queue. */
void rlock__channel_wake(struct rlock__channel *channel, bool all);
/* The server answered for the plain channel beside this sharded one. */
void rlock__channel_plain(struct rlock__channel *channel, bool subscribed);
/* Returns how many of our subscriptions a message reaches: one, two with both sorts of channels, or
 * none. may_be: counts subscriptions that the server has not acknowledged yet. */
int64_t rlock__channel_own_receivers(const struct rlock__channel *channel, bool may_be);
/* The server acknowledged a command for the channel; or it refused the command that is next in the
 * list. */
void rlock__channel_acknowledged(struct rlock__channel *channel, bool subscribed);
void rlock__channel_refused(struct rlock__server *server, const struct rlock__reply *reply);
/* The subscriber connection is up, or down. No subscription counts then. */
void rlock__channels_up(struct rlock__server *server);
void rlock__channels_down(struct rlock__server *server);
/* The end of an event: subscribes to the channels that have waiters, and to no others. */
void rlock__channels_settle(struct rlock__server *server, int64_t now);
/* The client is closed: no channel is kept that nobody needs. */
void rlock__channels_close(struct rlock__core *core);
void rlock__channels_fini(struct rlock__server *server);

#endif
