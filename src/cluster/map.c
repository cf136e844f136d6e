/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/map.h"

#include <stdlib.h>

#include "cluster/slot.h"

/* The range that has the slot, of a map that has one. */
static const struct rlock__range *find(const struct rlock__map *map, unsigned slot)
{
    size_t low = 0, high = map->n; /* the range is among these */

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (map->ranges[middle].from <= slot) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &map->ranges[low];
}

/* The slot behind its last. */
static unsigned end_of(const struct rlock__map *map, const struct rlock__range *range)
{
    return range + 1 < map->ranges + map->n ? range[1].from : RLOCK__SLOTS;
}

void *rlock__map_find(const struct rlock__map *map, unsigned slot)
{
    return map->n != 0 ? find(map, slot)->server : NULL;
}

bool rlock__map_has(const struct rlock__map *map, const void *server)
{
    for (size_t i = 0; i < map->n; i++) {
        if (map->ranges[i].server == server) {
            return true;
        }
    }
    return false;
}

/* ---- What it learns ---- */

/* What is told of a range. */
struct news {
    unsigned from, end;
    struct rlock__range range;
    int64_t asked_at; /* of an answer */
};

/* Whether it changes what is known. */
static bool is_newer(const struct news *news, const struct rlock__range *known)
{
    bool told = news->range.told_at != 0;

    return told || (known->told_at <= news->asked_at && known->epoch <= news->range.epoch);
}

/* Appends a range, unless it goes on like the one before. */
static void append(struct rlock__map *map, struct rlock__range range, unsigned from)
{
    const struct rlock__range *last = map->n != 0 ? &map->ranges[map->n - 1] : NULL;

    if (last == NULL || last->server != range.server || last->epoch != range.epoch ||
        last->told_at != range.told_at) {
        range.from = from;
        map->ranges[map->n++] = range;
    }
}

/* Makes the map anew: each range as it was, in front of the news, within it, and behind it. */
static bool change(struct rlock__map *map, const struct news *news)
{
    static const struct rlock__range nothing = {.from = 0};
    const struct rlock__range *known = map->n != 0 ? map->ranges : &nothing;
    size_t n = map->n != 0 ? map->n : 1;
    struct rlock__map made = {.ranges = calloc(n + 2, sizeof(*made.ranges))};

    if (made.ranges == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned from = known[i].from, end = i + 1 < n ? known[i + 1].from : RLOCK__SLOTS;
        unsigned within = from > news->from ? from : news->from;
        unsigned behind = end < news->end ? end : news->end;

        if (within >= behind) {
            append(&made, known[i], from);
            continue;
        }
        if (from < within) {
            append(&made, known[i], from);
        }
        if (is_newer(news, &known[i])) {
            struct rlock__range range = news->range;

            range.epoch = range.told_at != 0 ? known[i].epoch : range.epoch;
            append(&made, range, within);
            map->changes += news->range.server != known[i].server;
        } else {
            append(&made, known[i], within);
        }
        if (behind < end) {
            append(&made, known[i], behind);
        }
    }
    free(map->ranges);
    map->ranges = made.ranges;
    map->n = made.n;
    return true;
}

/* Whether all that the news say is known. */
static bool is_known(const struct rlock__map *map, const struct news *news)
{
    const struct rlock__range *range = map->n != 0 ? find(map, news->from) : NULL;

    return range != NULL && range->server == news->range.server &&
           range->epoch == news->range.epoch && range->told_at == 0 &&
           end_of(map, range) >= news->end;
}

bool rlock__map_told(struct rlock__map *map, unsigned slot, void *server, int64_t now)
{
    const struct news news = {
        .from = slot, .end = slot + 1, .range = {.server = server, .told_at = now}};

    return change(map, &news);
}

bool rlock__map_learn(struct rlock__map *map, unsigned from, unsigned to, void *server,
                      uint64_t epoch, int64_t asked_at)
{
    const struct news news = {.from = from,
                              .end = to + 1,
                              .range = {.server = server, .epoch = epoch},
                              .asked_at = asked_at};

    return is_known(map, &news) || change(map, &news);
}

void rlock__map_fini(struct rlock__map *map)
{
    free(map->ranges);
    *map = (struct rlock__map){.n = 0};
}
