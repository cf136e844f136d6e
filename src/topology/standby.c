/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/standby.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNLINKED_MS 5000

static bool is(struct rlock__bytes name, const char *text)
{
    return rlock__bytes_equal(name, rlock__bytes_of(text));
}

/* Since when a replica has had no link to its primary, in ms: 0 it has one, below 0 it never had.
 * Sentinels ask it for that. */
static bool is_long(struct rlock__bytes down_ms)
{
    int64_t ms = rlock__bytes_number(down_ms, 0);

    return ms < 0 || ms >= UNLINKED_MS;
}

static void put_place(struct rlock__standby *it, struct rlock__bytes ip, struct rlock__bytes port)
{
    int len = snprintf(it->place, sizeof(it->place), "%.*s:%.*s", (int)ip.len, ip.at, (int)port.len,
                       port.at);

    if (len < 0 || (size_t)len >= sizeof(it->place) || ip.len == 0) {
        it->place[0] = '\0';
    }
}

/* The fields of one replica, from "name" up to the next one's. Returns where that stands. */
static size_t read_one(const struct rlock__reply *reply, size_t i, struct rlock__standby *it)
{
    struct rlock__bytes ip = {NULL, 0}, port = {NULL, 0};

    *it = (struct rlock__standby){.is_down = false};
    do {
        struct rlock__bytes name = rlock__reply_str(reply, i);
        struct rlock__bytes value = rlock__reply_str(reply, i + 1);

        if (is(name, "ip")) {
            ip = value;
        } else if (is(name, "port")) {
            port = value;
        } else if (is(name, "flags")) {
            it->is_down = rlock__has_word(value, "s_down");
        } else if (is(name, "slave-priority") || is(name, "replica-priority")) {
            it->is_barred = rlock__bytes_number(value, -1) == 0;
        } else if (is(name, "master-link-down-time")) {
            it->is_unlinked = is_long(value);
        }
        i += 2;
    } while (i + 1 < reply->n && !is(rlock__reply_str(reply, i), "name"));
    put_place(it, ip, port);
    return i;
}

void rlock__standbys_read(const struct rlock__reply *reply, struct rlock__standbys *ret_standbys)
{
    size_t i = 0;

    ret_standbys->n = 0;
    ret_standbys->is_known = reply->is_array;
    while (ret_standbys->is_known && i + 1 < reply->n) {
        if (ret_standbys->n == RLOCK__STANDBYS) {
            ret_standbys->is_known = false;
        } else {
            i = read_one(reply, i, &ret_standbys->each[ret_standbys->n++]);
        }
    }
}

static struct rlock__standby *find(struct rlock__standbys *all, const char *place)
{
    for (size_t i = 0; i < all->n; i++) {
        if (strcmp(all->each[i].place, place) == 0) {
            return &all->each[i];
        }
    }
    return NULL;
}

static void add(struct rlock__standbys *all, const struct rlock__standby *said)
{
    struct rlock__standby *it = find(all, said->place);

    if (it == NULL && all->n == RLOCK__STANDBYS) {
        all->is_known = false;
        return;
    }
    if (it == NULL) {
        it = &all->each[all->n++];
        *it = (struct rlock__standby){.is_down = false};
        memcpy(it->place, said->place, sizeof(it->place));
    }
    it->n_down += said->is_down;
    it->n_barred += said->is_barred;
    it->n_unlinked += said->is_unlinked;
    it->n_free += !said->is_down && !said->is_barred;
}

void rlock__standbys_merge(const struct rlock__standbys *const said[], size_t n, size_t configured,
                           struct rlock__standbys *ret_all)
{
    size_t n_known = 0;

    ret_all->is_known = true;
    ret_all->n = 0;
    for (size_t i = 0; i < n; i++) {
        n_known += said[i]->is_known;
        for (size_t j = 0; said[i]->is_known && j < said[i]->n; j++) {
            add(ret_all, &said[i]->each[j]);
        }
    }
    ret_all->is_known = ret_all->is_known && n_known != 0;
    for (size_t i = 0; i < ret_all->n; i++) {
        struct rlock__standby *it = &ret_all->each[i];

        it->is_down = 2 * (size_t)it->n_down > configured;
        it->is_barred = 2 * (size_t)it->n_barred > configured;
        it->is_unlinked = 2 * (size_t)it->n_unlinked > configured;
        it->is_free = 2 * (size_t)it->n_free > configured;
    }
}

static int is_later(const void *one, const void *other)
{
    const int64_t *a = one, *b = other;

    return (*a < *b) - (*a > *b);
}

int64_t rlock__alive_by_most(int64_t inout_at[], size_t n, size_t configured)
{
    size_t most = configured / 2; /* so many are later */

    qsort(inout_at, n, sizeof(inout_at[0]), is_later);
    return n > most ? inout_at[most] : INT64_MIN;
}
