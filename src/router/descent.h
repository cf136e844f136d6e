/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks servers whether they are primaries, and from which one they were promoted. Each run of a
 * primary has a replication id; a replica that is promoted keeps the id of its former primary as
 * its second one. Only the service thread asks.
 */
#ifndef RLOCK_ROUTER_DESCENT_H
#define RLOCK_ROUTER_DESCENT_H

#include "drive/node.h"
#include "net/question.h"
#include "topology/choice.h"

#define RLOCK__REPLICATION_ID 40 /* characters */

struct rlock__descent {
    struct rlock__question question;
    const struct rlock__node *asked;    /* whom the connection is to */
    bool says_primary;                  /* ROLE, of the question that is open */
    const struct rlock__node *known;    /* the primary in use; NULL none */
    int64_t known_at;                   /* when that was asked last; 0 never */
    char id[RLOCK__REPLICATION_ID + 1]; /* its replication id; "" unknown */
    struct rlock__evidence evidence;    /* of another server: the latest */
};

/* This is the primary from now on. */
void rlock__descent_know(struct rlock__descent *descent, const struct rlock__node *known);
/* Asks a server, or the known primary. One that is asked already goes first, unless that is the
 * known primary. */
void rlock__descent_ask(struct rlock__descent *descent, const struct rlock__node *node,
                        int64_t now);
/* Takes what has come. Returns whether it proves that a server was promoted from the known
 * primary. */
bool rlock__descent_go_on(struct rlock__descent *descent, int64_t now);
/* When the known primary is to be asked again. */
int64_t rlock__descent_due(const struct rlock__descent *descent);

#endif
