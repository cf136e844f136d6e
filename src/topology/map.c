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

/* The slot behind its last. */
static unsigned end_of(const struct rlock__map *map, size_t i)
{
    return i + 1 < map->n ? map->ranges[i + 1].from : RLOCK__SLOTS;
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

/* What is told of a range. */
struct news {
    unsigned from, end;
    struct rlock__range range;
    int64_t asked_at;              /* of an answer */
    bool (*is_gone)(void *server); /* of an answer by its server itself; NULL: it is of another */
};

/* Whether it changes what is known. */
static bool is_newer(const struct news *news, const struct rlock__range *known)
{
    bool told = news->range.told_at != 0;

    if (told) {
        return true;
    }
    return known->told_at <= news->asked_at &&
           (known->epoch <= news->range.epoch ||
            (news->is_gone != NULL && known->server != NULL && news->is_gone(known->server)));
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

/* What the news make of a range that is known: as it was in front of them, within, and behind. */
static void divide(struct rlock__map *made, const struct news *news,
                   const struct rlock__range *known, unsigned end)
{
    unsigned within = known->from > news->from ? known->from : news->from;
    unsigned behind = end < news->end ? end : news->end;
    struct rlock__range range = news->range;

    if (within >= behind) {
        append(made, *known, known->from);
        return;
    }
    if (known->from < within) {
        append(made, *known, known->from);
    }
    if (is_newer(news, known)) {
        range.epoch = range.told_at != 0 ? known->epoch : range.epoch;
        append(made, range, within);
        made->changes += news->range.server != known->server;
    } else {
        append(made, *known, within);
    }
    if (behind < end) {
        append(made, *known, behind);
    }
}

/* Makes room for so many ranges. False without memory. */
static bool make_room(struct rlock__map *map, size_t n)
{
    size_t room = n > map->room ? n + n / 2 : map->room;
    struct rlock__range *ranges =
        room > map->room ? realloc(map->ranges, room * sizeof(*ranges)) : map->ranges;

    if (ranges != NULL) {
        map->ranges = ranges;
        map->room = room;
    }
    return ranges != NULL;
}

/* Puts what was made in place of some ranges, and frees it. */
static bool put(struct rlock__map *map, size_t from, size_t end, struct rlock__map *made)
{
    size_t n = map->n - (end - from) + made->n;
    bool good = make_room(map, n);

    if (good) {
        memmove(&map->ranges[from + made->n], &map->ranges[end],
                (map->n - end) * sizeof(*map->ranges));
        memcpy(&map->ranges[from], made->ranges, made->n * sizeof(*map->ranges));
        map->n = n;
        map->changes += made->changes;
    }
    free(made->ranges);
    return good;
}

/* Changes the ranges that the news concern, and those beside them, which may go on like them. */
static bool change(struct rlock__map *map, const struct news *news)
{
    struct rlock__map made = {.n = 0};
    size_t from, end;

    if (map->n == 0) {
        if (!make_room(map, 1)) {
            return false;
        }
        map->ranges[map->n++] = (struct rlock__range){.from = 0};
    }
    from = index_of(map, news->from);
    end = index_of(map, news->end - 1) + 1;
    from -= from > 0;
    end += end < map->n;
    if (!make_room(&made, end - from + 2)) {
        return false;
    }
    for (size_t i = from; i < end; i++) {
        divide(&made, news, &map->ranges[i], end_of(map, i));
    }
    return put(map, from, end, &made);
}

/* Whether all that the news say is known. */
static bool is_known(const struct rlock__map *map, const struct news *news)
{
    size_t i = index_of(map, news->from);

    return map->n != 0 && map->ranges[i].server == news->range.server &&
           map->ranges[i].epoch == news->range.epoch && map->ranges[i].told_at == 0 &&
           end_of(map, i) >= news->end;
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

bool rlock__map_learn_own(struct rlock__map *map, unsigned from, unsigned to, void *server,
                          uint64_t epoch, int64_t asked_at, bool (*is_gone)(void *server))
{
    const struct news news = {.from = from,
                              .end = to + 1,
                              .range = {.server = server, .epoch = epoch},
                              .asked_at = asked_at,
                              .is_gone = is_gone};

    return is_known(map, &news) || change(map, &news);
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
