/* SPDX-License-Identifier: Apache-2.0 */
/* From a key to the server that has it. Pure: servers are what the caller says they are. */
#ifndef RLOCK_CLUSTER_MAP_H
#define RLOCK_CLUSTER_MAP_H

#include "base/bytes.h"

/* The map of one client. Zero: no server is known. Who has it protects it. */
struct rlock__map {
    void *alone; /* the server of a standalone client */
};

/* One server has all keys. It is the caller's, and outlives the map. */
void rlock__map_alone(struct rlock__map *map, void *server);
/* The server that has the key, as far as the map knows. */
void *rlock__map_find(const struct rlock__map *map, struct rlock__bytes key);

#endif
