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
#define RLOCK__CONNECTING_MAX 64            /* so many connections are made at the same time */
#define RLOCK__IDLE_US (10 * RLOCK__SECOND) /* a link that is silent for so long is tried */

struct rlock__core;
struct rlock__ticket;
struct rlock__server;

/* When a connection is to be made. */
struct rlock__tries {
    bool connecting; /* one is being made */
    bool received;   /* something that made sense was read since it is up */
    int64_t up_at;
    int64_t broke_at;  /* when the one before the next broke; 0: there was none */
    int64_t retry_at;  /* while it is down: the next one is not before then */
    unsigned failures; /* in a row that came to nothing */
};

/* When it is to be made next: not while it, or RLOCK__CONNECTING_MAX others, are being made. */
int64_t rlock__tries_due(const struct rlock__tries *tries, const struct rlock__core *core);
/* It is being made. */
void rlock__tries_begin(struct rlock__tries *tries, struct rlock__core *core);
/* It is up. */
void rlock__tries_up(struct rlock__tries *tries, struct rlock__core *core, int64_t now);
/*
 * It broke, or could not be made. There is no pause if it was of use, so that one which breaks as
 * soon as it is up or used is not made again at once, each time.
 */
void rlock__tries_down(struct rlock__tries *tries, struct rlock__core *core, bool was_up,
                       int64_t now);

struct rlock__link {
    struct rlock__server *server;
    struct rlock__pipeline pipeline;
    struct rlock__tries tries;
    struct rlock__timer idle;    /* it is tried when it is silent for long */
    struct rlock__timer overdue; /* of the oldest reply */
    int code;                    /* why it is down; 0 it is up, or nobody has tried */
    bool final;                  /* trying again will not help */
    bool is_let_go;              /* its connection is closed because nothing needs it: no failure */
    bool replaced;               /* since it was up another server has taken its server's place */
    bool warned;                 /* the log has said why it cannot be made, and not that it could */
    char error[RLOCK__DETAIL_SIZE];
    uint64_t client_id; /* of the connection that is up, at its server; 0 unknown */
    /* those of broken connections that may still run something */
    uint64_t unfenced[RLOCK__UNFENCED_MAX];
    size_t n_unfenced;
    bool unfenceable;            /* one is not among them: the link can be fenced no more */
    struct rlock__timer renewal; /* in core.renewals */
    struct rlock__timers due; /* holds to be renewed over it; whose validity ends first in front */
    unsigned renewing;        /* batches in flight */
    int64_t rests_until;      /* what is due and not urgent waits so long */
    int64_t n_granted;        /* holds, renewed or not */
    struct rlock__ticket *unsent; /* numbers to be released over it, in this order */
    unsigned releasing;           /* numbers in recovery whose release is in flight */
    struct rlock__ack *acks;      /* sent over it, and not acknowledged yet */
    struct rlock__request *wait;  /* that tells of them; NULL none is under way */
    struct rlock__wait_round {
        bool is_named;  /* WAIT stands between two ROLE */
        bool is_over;   /* what it is about was decided */
        int64_t offset; /* of the primary in the first of these; -1 it does not tell */
        int64_t count;  /* the answer to WAIT */
        unsigned asked; /* so many replicas it waits for, */
        int64_t until;  /* and so long, or a new one does */
    } round;            /* wait's */
};

void rlock__link_init(struct rlock__link *link, struct rlock__server *server);
void rlock__link_fini(struct rlock__link *link);
/* When a connection is to be made; RLOCK__NEVER while it need not or must not be. */
int64_t rlock__link_due(const struct rlock__link *link) RLOCK__REQUIRES(core);
/* A connection is being made. Returns how many client ids it has to kill, and which. */
size_t rlock__link_begin(struct rlock__link *link, uint64_t ret_unfenced[RLOCK__UNFENCED_MAX])
    RLOCK__REQUIRES(core);
/* It is up as this generation. fenced: it has killed those ids, and read the answers. */
void rlock__link_up(struct rlock__link *link, uint64_t gen, uint64_t client_id, bool fenced,
                    int64_t now);
/* It broke (gen its generation), or could not be made (0). Returns whether that is news. */
bool rlock__link_down(struct rlock__link *link, uint64_t gen, int code, bool final,
                      const char *text, int64_t now);
/* Its server may not be the right one any more: it ends, and what was sent on it is not accounted
 * for. why: for texts, once. The driver makes it again when the server is known to be right. */
void rlock__link_withhold(struct rlock__link *link, const char *why, int64_t now);
/* This was read on the generation. Where it says that the server is a replica now, the link ends,
 * and whoever knows of another primary is asked. */
void rlock__link_received(struct rlock__link *link, uint64_t gen, const struct rlock__reply *reply,
                          int64_t now);
/* Whether it is down, and was tried since: not one that is made for the first time. */
bool rlock__link_is_down(const struct rlock__link *link);
/* The end of each event: breaks a link that is to be closed, and sees to it that a reply that is
 * overdue is noticed. */
void rlock__link_settle(struct rlock__link *link, int64_t now);

#endif
