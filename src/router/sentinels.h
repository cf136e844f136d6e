/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router of a client behind Sentinels. sentinels.c has the primary that the client uses;
 * sentinels_ask.c decides when to ask the Sentinels, and what follows from their answers.
 */
#ifndef RLOCK_ROUTER_SENTINELS_H
#define RLOCK_ROUTER_SENTINELS_H

#include "router/descent.h"
#include "router/health.h"
#include "router/internal.h"
#include "router/sentinel.h"
#include "topology/choice.h"

struct rlock__sentinels {
    struct rlock__router router; /* first: the core's router is found by it */
    RLOCK__GUARDED_BY(core) struct {
        struct rlock__node *primary; /* NULL unknown */
        char trouble[RLOCK__WHY_SIZE];
    };

    /* the service thread's own */
    int64_t round_at; /* when the latest round began */
    bool in_round;
    bool asks_again;   /* the latest round may have come just before the Sentinels agree */
    unsigned failures; /* rounds in a row that decided nothing */
    struct rlock__choice choice;
    struct rlock__descent descent;
    struct rlock__health health;
    bool probes; /* choice.probe is to be asked for its descent */
    size_t n;
    struct rlock__sentinel each[];
};

static inline struct rlock__sentinels *rlock__sentinels_of(struct rlock__router *router)
{
    return RLOCK__OF(struct rlock__sentinels, router, router);
}

/* The round has decided. lower: for a lower epoch than before. */
void rlock__sentinels_learn(struct rlock__sentinels *all, bool lower) RLOCK__NO_MUTEX;
/* It has not: calls learn why. Where another primary may follow soon the known one is not used. */
void rlock__sentinels_wait(struct rlock__sentinels *all) RLOCK__NO_MUTEX;
/* Errors tell what the Sentinels do not agree on, as long as it lasts; it is logged once, when what
 * follows from it is done. */
void rlock__sentinels_report(struct rlock__sentinels *all) RLOCK__NO_MUTEX;
void rlock__sentinels_log(struct rlock__sentinels *all) RLOCK__NO_MUTEX;

int64_t rlock__sentinels_plan(struct rlock__router *router) RLOCK__REQUIRES(core);
void rlock__sentinels_serve(struct rlock__router *router, int64_t now) RLOCK__NO_MUTEX;

#endif
