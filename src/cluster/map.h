/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a slot to the server that has it. Pure: servers are what the caller says they are.
 *
 * Two sources tell who has a slot: an answer to CLUSTER NODES, with the epoch of that server's
 * slots, and a redirection, which has none. A redirection is right as far as anybody knows. An
 * answer says what one server knew when it was asked: it changes nothing that a redirection said
 * after the question, nor what an answer with a higher epoch said. CLUSTER SLOTS, where that has to
 * do, is an answer of epoch 0: of two such nobody knows which is newer, and the later one counts.
 */
#ifndef RLOCK_CLUSTER_MAP_H
#define RLOCK_CLUSTER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From this slot on, up to the next range. */
struct rlock__range {
    unsigned from;
    void *server;    /* NULL: unknown */
    uint64_t epoch;  /* of the latest answer that counted */
    int64_t told_at; /* when a redirection said so; 0: an answer did */
};

/* The map of one client. Zero: no server is known. Who has it protects it. */
struct rlock__map {
    struct rlock__range *ranges;
    size_t n, room;
    unsigned long changes; /* counts those of a slot's server */
};

/* The server that has the slot, as far as the map knows; NULL: it does not. */
void *rlock__map_find(const struct rlock__map *map, unsigned slot);
/* Whether it has a slot. */
bool rlock__map_has(const struct rlock__map *map, const void *server);
/* A redirection named the server of a slot. False without memory: nothing has changed. */
bool rlock__map_told(struct rlock__map *map, unsigned slot, void *server, int64_t now);
/* An answer named the server of a range, its last slot included; it was asked for at that time. The
 * same. */
bool rlock__map_learn(struct rlock__map *map, unsigned from, unsigned to, void *server,
                      uint64_t epoch, int64_t asked_at);
/* The same, of an answer by that server itself. Where is_gone() says so of the server that has a
 * range by now, the answer counts with a lower epoch too, as a redirection by it would: a cluster
 * that was made again counts epochs from 0. The range has the lower epoch then. */
bool rlock__map_learn_own(struct rlock__map *map, unsigned from, unsigned to, void *server,
                          uint64_t epoch, int64_t asked_at, bool (*is_gone)(void *server));
/* Another server than this one, which has the slot by a higher epoch than that; NULL: none has. */
void *rlock__map_newer(const struct rlock__map *map, unsigned slot, const void *server,
                       uint64_t epoch);
void rlock__map_fini(struct rlock__map *map);

#endif
