/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server as the core knows it: its link, its subscriptions, since when it runs, and what its clock
 * says.
 */
#ifndef RLOCK_LOCK_SERVER_H
#define RLOCK_LOCK_SERVER_H

#include "base/error.h"
#include "base/timer.h"
#include "wire/pipeline.h"

struct rlock__core;
struct rlock__channel;

#define RLOCK__IDLE_US (10 * RLOCK__SECOND) /* a link that is silent for so long is tried */

/* What the core knows of one server. */
struct rlock__server {
    struct rlock__core *core;
    const char *address; /* for texts; set by the driver */
    struct rlock__pipeline pipeline;
    struct rlock__timer idle;    /* a link that is silent for long is tried */
    struct rlock__timer overdue; /* of the oldest reply */
    bool sub_up;
    bool sub_refused;             /* a subscription was, and was logged */
    struct rlock__channel *asked; /* what SUBSCRIBE and UNSUBSCRIBE asked for, in that order */
    struct rlock__buf sub_out;
    int link_code;    /* why the link is down; 0 it is up, or nobody has tried */
    bool link_final;  /* trying again will not help */
    bool link_warned; /* the log has said why it cannot be made, and not that it could */
    char link_error[RLOCK__DETAIL_SIZE];
    unsigned life;        /* counts its restarts */
    bool is_age_known;    /* it tells since when it runs */
    bool is_age_missed;   /* that it does not was logged */
    int64_t started_at;   /* by our clock, no earlier than it did */
    int64_t seen_at;      /* when this run of it was first seen */
    int64_t clock_offset; /* the server's clock less ours, at the last renewal; 0 unknown */
    int64_t clock_slack;  /* how far off that may be: what the renewal took */
    int64_t stepped_at; /* when it was last found to have been set forward, by our clock; 0 never */
};

void rlock__server_init(struct rlock__server *server, struct rlock__core *core);
void rlock__server_fini(struct rlock__server *server);
/* The link is up as a new generation. */
void rlock__server_up(struct rlock__server *server, uint64_t gen, uint64_t fenced_below,
                      int64_t now);
/* The link broke, or could not be made. Returns whether that is the present one. */
bool rlock__server_down(struct rlock__server *server, uint64_t gen, int code, bool final,
                        const char *text, int64_t now);
/* Whether the link is down, and was tried since: not one that is made for the first time. */
bool rlock__server_is_down(const struct rlock__server *server);
/* Notes since when it runs, as it says itself; restarted: it is known to be another run. */
void rlock__server_note_age(struct rlock__server *server, int64_t uptime_s, bool restarted,
                            int64_t now);
/* The end of each event: breaks a link that is to be closed, and sees to it that a reply that is
 * overdue is noticed. */
void rlock__server_settle(struct rlock__server *server, int64_t now);

#endif
