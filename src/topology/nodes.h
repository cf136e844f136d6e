/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the answer to CLUSTER NODES: the servers of a cluster, and their slots. Three commands
 * report these, but only this one reports epochs, which tell which of two answers is newer. If a
 * server does not permit it, the answer to CLUSTER SLOTS is converted to this form (slots.h). Pure.
 * Source: the Redis documentation of CLUSTER NODES.
 */
#ifndef RLOCK_TOPOLOGY_NODES_H
#define RLOCK_TOPOLOGY_NODES_H

#include "base/bytes.h"

/* What the servers want to be called: cluster-preferred-endpoint-type. CLUSTER NODES tells both. */
enum rlock__endpoint {
    RLOCK__NAME_OR_ADDRESS, /* the name, where it has one */
    RLOCK__ADDRESS,
    RLOCK__HOST_ASKED, /* all are at the host that was asked, each at its port */
};

/* A line of it; all bytes are borrowed from the answer. */
struct rlock__nodes_line {
    struct rlock__bytes id;
    struct rlock__bytes host; /* as the caller prefers it; empty: that of the asked server */
    uint16_t port;
    bool is_primary, is_asked;   /* asked: it is the one that answered */
    bool has_failed;             /* as most of the cluster says */
    bool is_barred;              /* nobody promotes it */
    bool is_away;                /* it has no address, or has not shaken hands yet */
    struct rlock__bytes primary; /* the id of a replica's primary */
    uint64_t epoch;              /* of its slots */
    struct rlock__bytes slots;
};

/* Takes the next line that makes sense off the answer. False: there is none. */
bool rlock__nodes_next(struct rlock__bytes *text, enum rlock__endpoint endpoint,
                       struct rlock__nodes_line *ret_line);
/* Takes the next range, its last slot included, off a line's slots; slots that are being moved are
 * with who has them. False: there is none. */
bool rlock__nodes_range(struct rlock__bytes *slots, unsigned *ret_from, unsigned *ret_to);
/* Takes the next slot that is being moved off the slots of the server that was asked: leaving it,
 * or on its way there. False: there is none. */
bool rlock__nodes_open(struct rlock__bytes *slots, unsigned *ret_slot, bool *ret_leaves);
/* How many ranges the answer has: 0 of a server that has left its cluster. More than RLOCK__SLOTS
 * make no sense, and are not counted to the end. */
unsigned rlock__nodes_count(struct rlock__bytes text);

#endif
