/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: the connection for commands to one server, across all reconnections. The core decides
 * when a connection is made, what it has to fence, and which copies of a request can no longer run.
 * The driver has the socket. The states of a link:
 *
 * state       what is true                                         entered by         left by
 * down        pipeline.up and tries.connecting are false. code:    link_down          link_begin
 *             why, 0: nobody has tried. Not before tries.retry_at
 * connecting  tries.connecting: the driver makes a connection,     link_begin         link_up,
 *             and first kills the connections in `unfenced`                           link_down
 * up          pipeline.up, with a new generation pipeline.gen      link_up            link_down
 * let go      is_let_go: the core closes the connection because    need.c             link_down
 *             nothing needs it. Nothing is in flight on it
 *
 * pipeline.close asks the driver to close the connection. The state changes when the driver reports
 * that it is closed.
 */
#ifndef RLOCK_LOCK_LINK_H
#define RLOCK_LOCK_LINK_H

#include "base/error.h"
#include "base/guarded.h"
#include "base/timer.h"
#include "lock/server/ack.h"
#include "wire/pipeline.h"

#define RLOCK__UNFENCED_MAX 16
#define RLOCK__CONNECTING_MAX 64            /* so many connections at most are made at one time */
#define RLOCK__IDLE_US (10 * RLOCK__SECOND) /* a link that is silent for so long gets a PING */

struct rlock__core;
struct rlock__ticket;
struct rlock__server;

/* When a connection is to be made. */
struct rlock__tries {
    bool connecting; /* one is being made */
    bool received;   /* a reply that made sense was read since it is up */
    int64_t up_at;
    int64_t broke_at;  /* when the connection before broke; 0: there was none */
    int64_t retry_at;  /* while it is down: no connection begins before */
    unsigned failures; /* connections in a row that were of no use */
};

/* When to connect next. Not while this connection, or RLOCK__CONNECTING_MAX others, are being
 * made. */
int64_t rlock__tries_due(const struct rlock__tries *tries, const struct rlock__core *core);
/* The connection is being made. */
void rlock__tries_begin(struct rlock__tries *tries, struct rlock__core *core);
/* The connection is up. */
void rlock__tries_up(struct rlock__tries *tries, struct rlock__core *core, int64_t now);
/*
 * The connection broke, or could not be made. If it was of use, the next one begins at once.
 * Otherwise it begins after a pause: a connection that breaks as soon as it is up, or used, must
 * not be made again without a pause each time.
 */
void rlock__tries_down(struct rlock__tries *tries, struct rlock__core *core, bool was_up,
                       int64_t now);

struct rlock__link {
    struct rlock__server *server;
    struct rlock__pipeline pipeline;
    struct rlock__tries tries;
    struct rlock__timer idle;    /* for a PING, if the link is silent for long */
    struct rlock__timer overdue; /* when the oldest reply is overdue */
    int code;                    /* why it is down; 0: it is up, or nothing has connected */
    bool final;                  /* trying again will not help */
    bool is_let_go;              /* its connection is closed because nothing needs it: no failure */
    bool replaced;               /* another server took its server's place since it was up */
    bool warned;                 /* the log says why it cannot connect, and not yet that it could */
    char error[RLOCK__DETAIL_SIZE];
    uint64_t client_id; /* of the connection that is up, at its server; 0: it is nameless */
    /* the ids of broken connections that may still run something */
    uint64_t unfenced[RLOCK__UNFENCED_MAX];
    size_t n_unfenced;
    struct rlock__timer renewal;  /* in core.renewals */
    struct rlock__timers due;     /* grants whose renewals wait, by the end of validity */
    unsigned renewing;            /* batches in flight */
    int64_t rests_until;          /* renewals that are not urgent wait until then */
    int64_t n_granted;            /* holds, renewed or not */
    struct rlock__ticket *unsent; /* numbers to be released over it, in this order */
    unsigned releasing;           /* numbers in recovery whose release is in flight */
    struct rlock__ack *acks;      /* sent over it, and not acknowledged yet */
    struct rlock__request *wait;  /* the WAIT, or last ROLE, for them; NULL: none */
    struct rlock__wait_round {
        bool is_named;  /* WAIT is between two ROLE */
        bool is_over;   /* its acks were decided */
        int64_t offset; /* the primary's, in the first ROLE; -1: unknown */
        int64_t count;  /* the answer to WAIT */
        unsigned asked; /* WAIT is for so many replicas, */
        int64_t until;  /* and the round ends by then */
    } round;            /* of that WAIT */
};

void rlock__link_init(struct rlock__link *link, struct rlock__server *server);
void rlock__link_fini(struct rlock__link *link);
/* When to connect; RLOCK__NEVER: the link need not connect, or must not. */
int64_t rlock__link_due(const struct rlock__link *link) RLOCK__REQUIRES(core);
/* A connection is being made. Returns how many client ids it has to kill, and which. */
size_t rlock__link_begin(struct rlock__link *link, uint64_t ret_unfenced[RLOCK__UNFENCED_MAX])
    RLOCK__REQUIRES(core);
/* The connection is up as this generation. fenced: it has killed those ids, and read the
 * answers. */
void rlock__link_up(struct rlock__link *link, uint64_t gen, uint64_t client_id, bool fenced,
                    int64_t now);
/* The connection of this generation broke; gen 0: a connection could not be made. Returns whether
 * that is news. */
bool rlock__link_down(struct rlock__link *link, uint64_t gen, int code, bool final,
                      const char *text, int64_t now);
/* The link's server may not be the right one any more. Ends the connection; what was sent on it is
 * not accounted for. why: for texts. The driver connects again when it knows that the server is
 * right. */
void rlock__link_withhold(struct rlock__link *link, const char *why, int64_t now);
/* The reply was read on the generation. If it says that the server is a replica now, the link ends
 * once all is answered, and the driver learns of it. */
void rlock__link_received(struct rlock__link *link, uint64_t gen, const struct rlock__reply *reply,
                          int64_t now);
/* Whether the link is down after a failure; not while it connects for the first time. */
bool rlock__link_is_down(const struct rlock__link *link);
/* The end of each event: breaks a link that has to be closed, and sets the timer for an overdue
 * reply. */
void rlock__link_settle(struct rlock__link *link, int64_t now);

#endif
