/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of one lock on the simulated server, each with the library's real core. The network takes
 * no time and loses nothing: what a client sends is answered in the same instant. Time is virtual,
 * and goes from one timer to the next.
 */
#ifndef RLOCK_TEST_PLAIN_STAGE_H
#define RLOCK_TEST_PLAIN_STAGE_H

#include "lock/core.h"
#include "sim/server.h"
#include "support/alone.h"

#define STAGE_KEY "lock"

enum { STAGE_CLIENTS = 3, STAGE_OWNERS = 3 }; /* owners of each client */

struct stage_client {
    struct rlock__core core;
    struct rlock__server server;
    struct rlock__spec *spec;
    uint64_t link, sub; /* connections */
};

struct stage_frame;

/* What happens on it is told in its order, each event at stage.now. */
struct stage_events {
    void (*on_lost)(void *payload, size_t client, const struct rlock__loss *loss);
    void (*on_done)(void *payload, struct rlock__call *call);
    void (*on_time)(void *payload); /* it has gone on */
    void (*on_rest)(void *payload); /* nothing more happens in this instant */
    void *payload;
};

struct stage {
    struct sim_server *server;
    int64_t now; /* us */
    struct stage_client clients[STAGE_CLIENTS];
    uint64_t hand; /* connection of somebody who types commands */
    struct stage_frame *frames;
    struct stage_events events;
};

/* Clients pass no hold on, unless their core is told to. */
void stage_open(struct stage *stage, const struct rlock_ops *kind, int64_t lease_us,
                const struct stage_events *events);
void stage_close(struct stage *stage);

/* Each goes on until this instant is at rest. */
void stage_begin(struct stage *stage, size_t client, struct rlock__call *call);
void stage_cancel(struct stage *stage, size_t client, const void *cancel);
/* That client opened the lock by force, which that number held. */
void stage_forced(struct stage *stage, size_t client, uint64_t number);
/* A command by hand; the last word is NULL. */
void stage_type(struct stage *stage, const char *const *words);
void stage_wait(struct stage *stage, int64_t until);

#endif
