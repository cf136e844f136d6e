/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/map.h"

void rlock__map_alone(struct rlock__map *map, void *server)
{
    map->alone = server;
}

void *rlock__map_find(const struct rlock__map *map, struct rlock__bytes key)
{
    (void)key; /* one server has them all */
    return map->alone;
}
