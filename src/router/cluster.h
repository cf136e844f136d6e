/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router of a client of a cluster. cluster.c has what the router knows, and how it learns from
 * answers; cluster_ask.c chooses which node to ask, and when.
 */
#ifndef RLOCK_ROUTER_CLUSTER_H
#define RLOCK_ROUTER_CLUSTER_H

#include "net/question.h"
#include "router/internal.h"
#include "topology/map.h"
#include "topology/nodes.h"

/* A link is confirmed by what another node says so long after the greeting at the least: until then
 * the node has heard itself that it was replaced. */
#define RLOCK__CONFIRM_US (100 * RLOCK__MS)

struct rlock__cluster {
    struct rlock__router router; /* first: the core's router is found by it */
    RLOCK__GUARDED_BY(core) struct {
        struct rlock__map map;
        struct rlock__node *says; /* redirected first since the latest question; NULL none did */
    };

    /* the service thread's own */
    struct rlock__question question; /* for the map */
    struct rlock__node *asked;       /* whom the connection is to */
    struct rlock__node *itself; /* the same, as its latest answer calls it: a URL may have another
                                 * name for it; NULL unknown */
    bool asks_slots;            /* it refuses CLUSTER NODES: it is asked for CLUSTER SLOTS */
    bool lacks_nodes;           /* because it does not support that, permitted or not */
    bool is_nameless;           /* its answer names several servers, and any of them may be it */
    char id[48];                /* what it calls itself then; "" unknown */
    struct rlock__buf text;     /* its answer, in the form of CLUSTER NODES */
    bool is_told;               /* that it refuses CLUSTER NODES was logged */
    int64_t answered_at;        /* the latest that was answered began then; 0: none was */
    int64_t timeout_at;         /* when cluster-node-timeout was asked for last */
    int64_t timeout_ms; /* cluster-node-timeout: the shortest that a node told; 0: none did */
    int64_t longest_ms; /* the longest of those */
    enum rlock__endpoint endpoint; /* what the asked one calls others in redirections */
    bool names_plain;              /* it names plain ports to clients with TLS */
    bool is_large;                 /* it has too many primaries to connect to all */
    bool was_wanted;               /* somebody had said that the map is old */
    int64_t down_since;            /* a server of slots is out of reach; 0: none is */
    int64_t jitter_us;             /* so much earlier than it had to be the next question is */
    int64_t next_at;               /* when the next question is due, unless router.replans */
    unsigned long told;            /* changes of the map that the core knows */
    bool is_recounted; /* the latest answer names other numbers of replicas than before */
};

/* The answer to the latest question came, and tells of slots. It adds nodes. */
void rlock__cluster_learn(struct rlock__cluster *cluster, struct rlock__bytes text) RLOCK__NO_MUTEX;
int64_t rlock__cluster_plan(struct rlock__router *router) RLOCK__REQUIRES(core);
void rlock__cluster_serve(struct rlock__router *router, int64_t now) RLOCK__NO_MUTEX;

#endif
