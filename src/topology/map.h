/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slot map: finds the server that has a slot. Pure: to the map a server is only a pointer.
 *
 * The map learns from two sources. An answer to CLUSTER NODES comes with the epoch of the server's
 * slots; a redirection has no epoch. The map always accepts a redirection. An answer shows what one
 * server knew when it was asked. It does not override a redirection that came after the question,
 * nor an answer with a higher epoch. If CLUSTER SLOTS stands in for CLUSTER NODES, its answers have
 * epoch 0. Epoch 0 does not show which of two answers is newer, so the later one counts.
 */
#ifndef RLOCK_TOPOLOGY_MAP_H
#define RLOCK_TOPOLOGY_MAP_H

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
 * same. is_gone: NULL, unless that server itself answered. Where it says so of the server that has
 * a range by now, the answer counts with a lower epoch too, as a redirection by it would: a cluster
 * that was made again counts epochs from 0. The range has the lower epoch then. */
bool rlock__map_learn(struct rlock__map *map, unsigned from, unsigned to, void *server,
                      uint64_t epoch, int64_t asked_at, bool (*is_gone)(void *server));
/* Another server than this one, which has the slot by a higher epoch than that; NULL: none has. */
void *rlock__map_newer(const struct rlock__map *map, unsigned slot, const void *server,
                       uint64_t epoch);
void rlock__map_fini(struct rlock__map *map);

#endif
