/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/map.h"

#include <stdlib.h>
#include <string.h>

#include "topology/slot.h"

/* The range that has the slot; 0 of a map that has none. */
static size_t index_of(const struct rlock__map *map, unsigned slot)
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
    return low;
}

void *rlock__map_find(const struct rlock__map *map, unsigned slot)
{
    return map->n != 0 ? map->ranges[index_of(map, slot)].server : NULL;
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

/* What an answer or a redirection says about a range. */
struct news {
    unsigned from, end;
    struct rlock__range range;
    int64_t asked_at;              /* of an answer */
    bool (*is_gone)(void *server); /* of an answer by its server itself; NULL: it is of another */
};

/* Whether it changes what is known. */
static bool is_newer(const struct news *news, const struct rlock__range *known)
{
    return news->range.told_at != 0 ||
           (known->told_at <= news->asked_at &&
            (known->epoch <= news->range.epoch ||
             (news->is_gone != NULL && known->server != NULL && news->is_gone(known->server))));
}

/* Makes room for one range more. False without memory. */
static bool make_room(struct rlock__map *map)
{
    size_t room = map->n < map->room ? map->room : 2 * map->n + 1;
    struct rlock__range *ranges =
        room > map->room ? realloc(map->ranges, room * sizeof(*ranges)) : map->ranges;

    if (ranges != NULL) {
        map->ranges = ranges;
        map->room = room;
    }
    return ranges != NULL;
}

/* Has a range begin with the slot. False without memory. */
static bool split(struct rlock__map *map, unsigned slot)
{
    size_t i = index_of(map, slot);

    if (slot == RLOCK__SLOTS || map->ranges[i].from == slot) {
        return true;
    }
    if (!make_room(map)) {
        return false;
    }
    memmove(&map->ranges[i + 1], &map->ranges[i], (map->n - i) * sizeof(*map->ranges));
    map->ranges[i + 1].from = slot;
    map->n++;
    return true;
}

static bool are_alike(const struct rlock__range *one, const struct rlock__range *other)
{
    return one->server == other->server && one->epoch == other->epoch &&
           one->told_at == other->told_at;
}

/* Joins neighboring ranges that say the same: from the slot `from` up to the range that begins with
 * `end`. */
static void join(struct rlock__map *map, unsigned from, unsigned end)
{
    size_t first = index_of(map, from), last = first > 0 ? first - 1 : 0, next = last + 1;

    for (; next < map->n && map->ranges[next].from <= end; next++) {
        if (!are_alike(&map->ranges[last], &map->ranges[next])) {
            map->ranges[++last] = map->ranges[next];
        }
    }
    if (++last < next) {
        memmove(&map->ranges[last], &map->ranges[next], (map->n - next) * sizeof(*map->ranges));
        map->n -= next - last;
    }
}

/* Changes the ranges that the news concern. */
static bool change(struct rlock__map *map, const struct news *news)
{
    if (map->n == 0) {
        if (!make_room(map)) {
            return false;
        }
        map->ranges[map->n++] = (struct rlock__range){.from = 0};
    }
    if (!split(map, news->from) || !split(map, news->end)) {
        return false;
    }
    for (size_t i = index_of(map, news->from); i < map->n && map->ranges[i].from < news->end; i++) {
        struct rlock__range *known = &map->ranges[i];

        if (is_newer(news, known)) {
            map->changes += news->range.server != known->server;
            known->server = news->range.server;
            known->epoch = news->range.told_at != 0 ? known->epoch : news->range.epoch;
            known->told_at = news->range.told_at;
        }
    }
    join(map, news->from, news->end);
    return true;
}

bool rlock__map_told(struct rlock__map *map, unsigned slot, void *server, int64_t now)
{
    const struct news news = {
        .from = slot, .end = slot + 1, .range = {.server = server, .told_at = now}};

    return change(map, &news);
}

bool rlock__map_learn(struct rlock__map *map, unsigned from, unsigned to, void *server,
                      uint64_t epoch, int64_t asked_at, bool (*is_gone)(void *server))
{
    const struct news news = {.from = from,
                              .end = to + 1,
                              .range = {.server = server, .epoch = epoch},
                              .asked_at = asked_at,
                              .is_gone = is_gone};

    return change(map, &news);
}

void *rlock__map_newer(const struct rlock__map *map, unsigned slot, const void *server,
                       uint64_t epoch)
{
    const struct rlock__range *range = map->n != 0 ? &map->ranges[index_of(map, slot)] : NULL;
    bool is = range != NULL && range->server != server && range->epoch > epoch;

    return is ? range->server : NULL;
}

void rlock__map_fini(struct rlock__map *map)
{
    free(map->ranges);
    *map = (struct rlock__map){.n = 0};
}
