/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acknowledgement by replicas: a write counts once enough of the replicas have it that a failover
 * may promote.
 *
 * WAIT reports how many replicas have the writes of its own connection, and it holds up the
 * commands behind it. So a server has links for this alone. The command goes over one of them, with
 * a WAIT behind it. Commands that come while each of these links has a WAIT in flight are gathered,
 * and the next WAIT covers all of them (group commit). Source: the Redis documentation of WAIT.
 *
 * The client decides which replicas must have the command when it sends the command (replicas.h).
 * It knows them by name: it sends ROLE before WAIT and behind it. A replica has the command if its
 * offset in the second answer is no less than the primary's in the first one. WAIT alone would
 * count any replica, even a tool that copies all writes and that no failover promotes. If the names
 * are of no use, WAIT's number counts.
 */
#ifndef RLOCK_LOCK_ACK_H
#define RLOCK_LOCK_ACK_H

#include "base/guarded.h"
#include "lock/server/replicas.h"
#include "wire/pipeline.h"

struct rlock__ack;
struct rlock__server;

/* What WAIT, or WAIT between two ROLE, reported. */
struct rlock__waited {
    const struct rlock__reply *error; /* WAIT's answer, if it is an error; NULL: it is not */
    bool is_named;
    uint32_t have; /* named: the rows of server.replicas that have the write */
    int64_t count; /* replicas, as the answer says */
    int64_t local; /* with WAITAOF: whether the primary has it on disk */
};

/* Reports the result, exactly once, unless the owner left the ack. waited: NULL: there is no
 * answer, since the link broke. */
typedef void rlock__ack_fn(struct rlock__ack *ack, const struct rlock__waited *waited, int64_t now);

/* A command that counts once replicas acknowledge it. The owner has the memory. Zero: no
 * command. */
struct rlock__ack {
    struct rlock__ack *prev, *next; /* in server.gathered, or link.acks */
    struct rlock__server *server;
    struct rlock__link *link;       /* the command was sent on it; NULL: not yet */
    struct rlock__request *request; /* until it is answered */
    struct rlock__spec *spec;
    rlock__ack_fn *decided;
    bool is_open;
    bool ran;                /* the command was answered; WAIT has to follow */
    bool is_covered;         /* the WAIT in flight covers it */
    struct rlock__need need; /* as it was when the command was sent */
    unsigned changes;        /* server.replicas.changes at that time */
    uint32_t have;           /* the rows that have it, by the latest WAIT */
};

static inline bool rlock__ack_is_open(const struct rlock__ack *ack)
{
    return ack->is_open;
}

/* Whether a link for acknowledgements is up and has no WAIT in flight. */
bool rlock__acks_is_ready(const struct rlock__server *server);
/*
 * Has the command sent, at the end of the event or later. Its request gets an answer like any
 * other. Then the owner calls one of these three:
 */
void rlock__ack_begin(struct rlock__ack *ack, struct rlock__server *server,
                      struct rlock__spec *spec, struct rlock__request *request,
                      rlock__ack_fn *decided);
/* The command did what it should: decided() will follow. The request is the owner's again. */
void rlock__ack_ran(struct rlock__ack *ack);
/* The command did not, or nobody needs the acknowledgement any more. */
void rlock__ack_leave(struct rlock__ack *ack);
/* The request hopped to another server, and is in flight there: over a link for acknowledgements,
 * if that server needs them. The ack may have been open before, or not. */
void rlock__ack_follow(struct rlock__ack *ack, struct rlock__request *request,
                       rlock__ack_fn *decided);
/* Nobody awaits the ack any more. Takes back its request, if that was not answered. */
void rlock__ack_abandon(struct rlock__ack *ack);
/* How many replicas are needed, and how many of those have the command; waited NULL: none has. */
unsigned rlock__ack_size(const struct rlock__ack *ack);
unsigned rlock__ack_count(const struct rlock__ack *ack, const struct rlock__waited *waited);
/* Whether enough replicas have the command. */
bool rlock__ack_is_enough(const struct rlock__ack *ack, const struct rlock__waited *waited);
/* Whether the replicas that lack the command are not needed any more. Then the caller has to send
 * the command again, since the copy that was sent before does not count. */
bool rlock__ack_is_eased(const struct rlock__ack *ack, const struct rlock__waited *waited);
/* Writes the names of the replicas that must have the command and lack it. Returns out. */
const char *rlock__ack_lacking(const struct rlock__ack *ack, char *out, size_t size);
/* ack_wait.c: whether the link is up and has no WAIT in flight; and sends one. */
bool rlock__wait_is_due(const struct rlock__link *link);
void rlock__wait_send(struct rlock__link *link, int64_t now);
/* The end of each event, for a link for acknowledgements: sends the gathered commands, and WAIT
 * behind them. */
void rlock__acks_flush(struct rlock__link *link, int64_t now);
/* The core ends: answers the gathered requests with NULL. */
void rlock__acks_drop(struct rlock__server *server, int64_t now);
/* The same if another server has taken this one's place, or this one has no replicas any more. */
void rlock__acks_reroute(struct rlock__server *server, int64_t now);
/* Too few replicas acknowledge, or WAIT is refused: logs that if it is news. */
void rlock__acks_failed(const struct rlock__ack *ack, const struct rlock__waited *waited);

#endif
