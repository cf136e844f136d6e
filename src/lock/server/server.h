/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server as the core knows it: its links, its subscriptions, since when it runs, and what its
 * clock says. A core has as many as there are, and a key is routed to one of them.
 */
#ifndef RLOCK_LOCK_SERVER_H
#define RLOCK_LOCK_SERVER_H

#include "base/table.h"
#include "lock/server/replicas.h"
#include "lock/server/subscriber.h"

#define RLOCK__RUN_ID_SIZE 64

#define RLOCK__LINKS_MAX 4
#define RLOCK__UNUSED_US (60 * RLOCK__SECOND) /* one of several is let go when unused so long */

struct rlock__channel;
struct rlock__spec;
struct rlock__stock;

/* What the core knows of one server. The driver's memory; it stays for the core's life. */
struct rlock__server {
    struct rlock__server *prev, *next;  /* in core.servers */
    struct rlock__server *touched_next; /* in core.touched */
    struct rlock__server *changed_next; /* in core.changed */
    bool is_touched;                    /* it is there, or the end of the event is looking at it */
    bool is_changed;                    /* it is there */
    struct rlock__core *core;
    const char *address;                        /* for texts; set by the driver */
    const char *id;                             /* in a cluster; set by the driver; NULL none */
    struct rlock__link links[RLOCK__LINKS_MAX]; /* those that locks have, and those for acks */
    unsigned n_routed, n_links;                 /* of the first, and of both */
    struct rlock__ack *gathered;                /* what waits for a link of those */
    struct rlock__replicas replicas;
    struct rlock__listing {
        struct rlock__timer timer;
        struct rlock__request *request; /* is under way; NULL none is */
        bool is_refused, is_nameless;   /* INFO, or ROLE, is not permitted: that was logged */
        bool is_strange;                /* so was that the primary's places are unknown */
    } listing;                          /* of its replicas; listing.h */
    int64_t used_at;  /* when something was sent to it last, or is to be asked of it later */
    bool is_let_go;   /* its connections are closed until something needs it; need.c */
    bool acks_failed; /* too few confirmed what was asked for last */
    struct rlock__table channels; /* of its subscriber connection, by name */
    struct rlock__table stocks;   /* of such channels; by lock */
    struct rlock__subscriber sub;
    char run_id[RLOCK__RUN_ID_SIZE]; /* "" unknown */
    unsigned life;                   /* counts its restarts */
    int64_t version;      /* of a cluster's node: the first number of its Redis; 0 unknown */
    bool is_age_told;     /* it tells since when it runs */
    bool is_age_missed;   /* that it does not was logged */
    int64_t started_at;   /* by our clock, no earlier than it did; RLOCK__UNKNOWN before all else */
    int64_t seen_at;      /* when this run of it was first seen */
    int64_t clock_offset; /* the server's clock less ours, at the last renewal; 0 unknown */
    int64_t clock_slack;  /* how far off that may be: what the renewal took */
    int64_t stepped_at; /* when it was last found to have been set forward, by our clock; 0 never */
};

void rlock__server_init(struct rlock__server *server, struct rlock__core *core, unsigned n_routed,
                        unsigned n_acks);
void rlock__server_fini(struct rlock__server *server);
/* A new connection learned the run that it is, "" it does not tell, and since how many seconds it
 * runs, by its own count. Returns whether it is another run than before. */
bool rlock__server_found(struct rlock__server *server, const char *run_id, int64_t uptime_s,
                         int64_t now);
/* A new connection to a node of a cluster learned the first number of its version of Redis; 0: it
 * does not tell. Nodes may differ while a cluster is upgraded. */
void rlock__server_found_version(struct rlock__server *server, int64_t version)
    RLOCK__REQUIRES(core);
/* It is another run than before, or another server: links to that one are broken, and whoever waits
 * for a lock looks again. */
void rlock__server_changed(struct rlock__server *server, int64_t now);
/* Whether it runs for less than that, and may have forgotten what it granted before; 0 any is old
 * enough. So is one that never told its age, which is logged. */
bool rlock__server_is_young(struct rlock__server *server, int64_t min_uptime_us, int64_t now);
/* It told its clock's time in an answer to what was asked at t0. Notes whether the clock was set
 * since it was told last. */
void rlock__server_told_time(struct rlock__server *server, int64_t seconds, int64_t us, int64_t t0,
                             int64_t now);

#endif
