/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server in the core: its links, its subscriptions, its age and its clock. A core has one for
 * each server that the driver knows. Each key is routed to one of them.
 */
#ifndef RLOCK_LOCK_SERVER_H
#define RLOCK_LOCK_SERVER_H

#include "base/table.h"
#include "lock/server/replicas.h"
#include "lock/server/subscriber.h"

#define RLOCK__RUN_ID_SIZE 64

#define RLOCK__LINKS_MAX 4
#define RLOCK__UNUSED_US (60 * RLOCK__SECOND) /* a cluster's server is disconnected after that */

struct rlock__channel;
struct rlock__spec;
struct rlock__stock;

/* What the core knows of one server. The driver owns the memory, which stays for the core's
 * life. */
struct rlock__server {
    struct rlock__server *prev, *next;  /* in core.servers */
    struct rlock__server *touched_next; /* in core.touched */
    struct rlock__server *changed_next; /* in core.changed */
    bool is_touched;                    /* it is in core.touched, or visited from there */
    bool is_changed;                    /* it is in core.changed */
    struct rlock__core *core;
    const char *address;                        /* for texts; set by the driver */
    const char *id;                             /* in a cluster; set by the driver; NULL: none */
    struct rlock__link links[RLOCK__LINKS_MAX]; /* links for locks, then links for acks */
    unsigned n_routed, n_links;                 /* links for locks; all links */
    struct rlock__ack *gathered;                /* acks that wait for a link */
    struct rlock__replicas replicas;
    struct rlock__listing {
        struct rlock__timer timer;
        struct rlock__request *request; /* in flight; NULL: none */
        bool is_refused, is_nameless;   /* INFO, or ROLE, is not permitted: that was logged */
        bool is_strange;                /* its replicas are unknown to the map: that was logged */
    } listing;                          /* of its replicas; listing.h */
    int64_t used_at;                    /* when the core last needed it */
    bool is_let_go;               /* its connections are closed until something needs it; need.c */
    bool acks_failed;             /* too few replicas had the latest write */
    struct rlock__table channels; /* of its subscriber connection, by name */
    struct rlock__table stocks;   /* stocks of such channels, by lock */
    struct rlock__subscriber sub;
    char run_id[RLOCK__RUN_ID_SIZE]; /* "": unknown */
    unsigned life;                   /* counts its restarts */
    int64_t version;      /* of a cluster's node: the first number of its Redis; 0: unknown */
    bool is_age_told;     /* it reports its uptime */
    bool is_age_missed;   /* that it does not is in the log */
    int64_t started_at;   /* by our clock: it started no later; RLOCK__UNKNOWN at first */
    int64_t seen_at;      /* when this run of it was first seen */
    int64_t clock_offset; /* the server's clock less ours, at the last renewal; 0: unknown */
    int64_t clock_slack;  /* how far off that may be: the time that the renewal took */
    int64_t stepped_at;   /* when its clock was last found set forward, by ours; 0: never */
};

void rlock__server_init(struct rlock__server *server, struct rlock__core *core, unsigned n_routed,
                        unsigned n_acks);
void rlock__server_fini(struct rlock__server *server);
/* A new connection has read the server's run id ("": not reported), and its uptime in seconds by
 * its own count. Returns whether this is another run than before. */
bool rlock__server_found(struct rlock__server *server, const char *run_id, int64_t uptime_s,
                         int64_t now);
/* A new connection to a node of a cluster has read the first number of its version of Redis; 0: not
 * reported. Nodes may differ while a cluster is upgraded. */
void rlock__server_found_version(struct rlock__server *server, int64_t version)
    RLOCK__REQUIRES(core);
/* This is another run than before, or another server. Breaks the links to the one before, and wakes
 * the waiters. */
void rlock__server_changed(struct rlock__server *server, int64_t now);
/* Whether the server has run for less than that, and may have forgotten what it granted before. 0:
 * any server is old enough. So is a server that never reported its uptime, which is logged. */
bool rlock__server_is_young(struct rlock__server *server, int64_t min_uptime_us, int64_t now);
/* The server reported its clock's time, in the answer to a request that was sent at t0. Notes
 * whether the clock was set since the last report. */
void rlock__server_told_time(struct rlock__server *server, int64_t seconds, int64_t us, int64_t t0,
                             int64_t now);

#endif
