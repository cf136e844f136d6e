/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acknowledgement by replicas: what a command wrote counts once enough replicas have it, which a
 * failover may put in their primary's place.
 *
 * WAIT says how many have what its own connection wrote, and what follows it on that connection
 * waits for it. So a server has links for this alone. The command goes over one of them, with a
 * WAIT behind it. What is asked for while a WAIT is under way on each of them is gathered, and the
 * next WAIT tells of all of it (group commit). Source: the Redis documentation of WAIT.
 *
 * Which replicas must have it is decided when the command is sent (replicas.h), and by name: ROLE
 * stands before WAIT and behind it. A replica has the command if its offset in the second answer is
 * no less than the primary's in the first one. WAIT alone would count any replica, also a tool that
 * copies all that is written, and that nobody promotes. Where the names are of no use WAIT's number
 * counts.
 */
#ifndef RLOCK_LOCK_ACK_H
#define RLOCK_LOCK_ACK_H

#include "base/guarded.h"
#include "lock/server/replicas.h"
#include "wire/pipeline.h"

struct rlock__ack;
struct rlock__server;

/* What WAIT told. */
struct rlock__waited {
    const struct rlock__reply *error; /* that it answered; NULL none */
    bool is_named;
    uint32_t have; /* named: the rows of server.replicas that have it */
    int64_t count; /* replicas, as the answer says */
    int64_t local; /* with WAITAOF: whether the primary has it on disk */
};

/* Tells what came of it, exactly once, unless it was left. waited: NULL: there is no answer, since
 * the link broke. */
typedef void rlock__ack_fn(struct rlock__ack *ack, const struct rlock__waited *waited, int64_t now);

/* A command that counts once it is acknowledged. Its owner's memory. Zero: nothing is under way. */
struct rlock__ack {
    struct rlock__ack *prev, *next; /* in server.gathered, or link.acks */
    struct rlock__server *server;
    struct rlock__link *link;       /* it was sent on; NULL: not yet */
    struct rlock__request *request; /* until it is answered */
    struct rlock__spec *spec;
    rlock__ack_fn *decided;
    bool is_open;
    bool ran;                /* it is answered; what replicas have of it is to be told */
    bool is_covered;         /* by the WAIT that is under way */
    struct rlock__need need; /* as it was when the command was sent */
    unsigned changes;        /* the same, of server.replicas */
    uint32_t have;           /* the rows that have it, as the latest WAIT told */
};

static inline bool rlock__ack_is_open(const struct rlock__ack *ack)
{
    return ack->is_open;
}

/* Whether one of its links is up on which no WAIT is under way. */
bool rlock__acks_is_ready(const struct rlock__server *server);
/*
 * Has the command sent, at the end of the event or later. Its request is answered as any other is;
 * then its owner says one of these three:
 */
void rlock__ack_begin(struct rlock__ack *ack, struct rlock__server *server,
                      struct rlock__spec *spec, struct rlock__request *request,
                      rlock__ack_fn *decided);
/* It did what it should: decided() will be called. The request is the owner's again. */
void rlock__ack_ran(struct rlock__ack *ack);
/* It did not, or nobody wants to know any more. */
void rlock__ack_leave(struct rlock__ack *ack);
/* Its request hopped to another server, and is under way there: over a link for that where acks are
 * needed. Before that it may have been open or not. */
void rlock__ack_follow(struct rlock__ack *ack, struct rlock__request *request,
                       rlock__ack_fn *decided);
/* Nobody awaits it any more. A request that is not answered is taken back. */
void rlock__ack_abandon(struct rlock__ack *ack);
/* How many are needed, and how many of those have it; waited NULL: none. */
unsigned rlock__ack_size(const struct rlock__ack *ack);
unsigned rlock__ack_count(const struct rlock__ack *ack, const struct rlock__waited *waited);
/* Whether enough have it. */
bool rlock__ack_is_enough(const struct rlock__ack *ack, const struct rlock__waited *waited);
/* Whether those that do not have it are not needed any more: then the command is to be sent again,
 * since what was sent before does not count. */
bool rlock__ack_is_eased(const struct rlock__ack *ack, const struct rlock__waited *waited);
/* Writes the replicas that must have it and do not, as far as they have names. Returns out. */
const char *rlock__ack_lacking(const struct rlock__ack *ack, char *out, size_t size);
/* ack_wait.c: whether the link is up, and no WAIT is under way on it; and sends one. */
bool rlock__wait_is_due(const struct rlock__link *link);
void rlock__wait_send(struct rlock__link *link, int64_t now);
/* The end of each event: sends what was gathered, and WAIT behind it. Does nothing on a link for
 * locks. */
void rlock__acks_flush(struct rlock__link *link, int64_t now);
/* This is the end: answers what was gathered with NULL. */
void rlock__acks_drop(struct rlock__server *server, int64_t now);
/* The same where another server has taken this one's place, or it has no replicas any more. */
void rlock__acks_reroute(struct rlock__server *server, int64_t now);
/* Too few replicas answer, or none may be asked: logs it where that is news. */
void rlock__acks_failed(const struct rlock__ack *ack, const struct rlock__waited *waited);

#endif
