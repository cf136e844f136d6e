/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/replicas.h"

#include <assert.h>
#include <rlock/rlock.h>
#include <stdio.h>

#define ALIVE_AFTER_US (2 * RLOCK__SECOND)
#define GONE_AFTER_US (5 * RLOCK__SECOND)
#define LISTS_APART_US (3 * RLOCK__SECOND) /* between such two, a replica may have been back */

unsigned rlock__rows(uint32_t rows)
{
    return (unsigned)__builtin_popcount(rows);
}

/* ---- Rows ---- */

static uint32_t bit(const struct rlock__replicas *all, const struct rlock__replica *it)
{
    assert(it >= all->each && it < all->each + RLOCK__REPLICAS);
    return (uint32_t)1 << (it - all->each);
}

static struct rlock__replica *find(struct rlock__replicas *all, const char *place)
{
    for (size_t i = 0; i < RLOCK__REPLICAS; i++) {
        if (strcmp(all->each[i].place, place) == 0) {
            return &all->each[i];
        }
    }
    return NULL;
}

/* NULL: there are too many replicas. */
static struct rlock__replica *row_of(struct rlock__replicas *all, const char *place)
{
    struct rlock__replica *it = place[0] != '\0' ? find(all, place) : NULL;

    if (it == NULL && place[0] != '\0' && (it = find(all, "")) != NULL) {
        *it = (struct rlock__replica){.since = 0};
        (void)snprintf(it->place, sizeof(it->place), "%s", place);
    }
    return it;
}

/* Frees the rows that neither the map nor the primary's list has. */
static void sweep(struct rlock__replicas *all)
{
    for (size_t i = 0; i < RLOCK__REPLICAS; i++) {
        struct rlock__replica *it = &all->each[i];

        if (it->place[0] != '\0' && !it->is_known && !it->is_barred && !it->is_seen) {
            assert(!it->is_out && !it->is_listed);
            *it = (struct rlock__replica){.since = 0};
            all->changes++;
        }
    }
}

/* ---- In or out ---- */

/* Whether the primary was alive for long enough after it had lost the replica. */
static bool is_alive_without(const struct rlock__replicas *all, const struct rlock__replica *it)
{
    int64_t after = all->alive_after_us != 0 ? all->alive_after_us : ALIVE_AFTER_US;

    assert(it->missing_since != 0);
    return all->was_alive_at >= it->missing_since + after;
}

static bool is_gone(const struct rlock__replicas *all, const struct rlock__replica *it, int64_t now)
{
    int64_t after = all->gone_after_us != 0 ? all->gone_after_us : GONE_AFTER_US;
    bool long_missing = now >= it->missing_since + after;

    return it->missing_since != 0 && is_alive_without(all, it) &&
           (it->is_held_down || it->is_unlinked || long_missing);
}

/* Leaves replicas out only by a list that was asked for after the primary was alive for so long: an
 * older list may lack a replica that is back. */
static void judge(struct rlock__replicas *all, int64_t now)
{
    for (size_t i = 0; i < RLOCK__REPLICAS; i++) {
        struct rlock__replica *it = &all->each[i];

        assert(!it->is_known || it->place[0] != '\0');
        if (it->is_listed || !it->is_known) {
            it->is_out = false;
        } else if (!it->is_out && is_gone(all, it, now)) {
            it->is_out = true;
            it->out_since = now;
        }
    }
}

void rlock__replicas_alive(struct rlock__replicas *all, int64_t at)
{
    assert(at != RLOCK__NEVER);
    all->alive_at = rlock__max(all->alive_at, at);
}

/* ---- What the map says ---- */

static void know(struct rlock__replicas *all, const struct rlock__replica_word *word, int64_t now)
{
    struct rlock__replica *it = row_of(all, word->place);
    bool was_barred = it != NULL && it->is_barred;

    assert(now != 0); /* missing_since: 0 means never */
    if (it == NULL) {
        all->n_known += !word->is_barred;
        all->is_vague = true;
        return;
    }
    all->n_known += !word->is_barred && (!was_barred || word->is_free);
    if (!it->is_known && !it->is_listed && !word->is_barred) { /* the replica is new */
        it->missing_since = all->listed_at != 0 ? now : 0;
        it->is_out = word->was_replaced;
        it->out_since = now;
    }
    it->is_barred = word->is_barred || (was_barred && !word->is_free);
    it->is_known = !it->is_barred;
    it->is_free = word->is_free;
    it->is_held_down = word->is_held_down;
    it->is_unlinked = word->is_unlinked;
    it->n_down = word->n_down;
    it->n_asked = word->n_asked;
    it->is_foreign &= it->is_barred;
}

/* A row that the map does not name any more counts as another replica from now on. */
void rlock__replicas_known(struct rlock__replicas *all, const struct rlock__replica_word words[],
                           size_t n, int64_t now)
{
    bool was_known[RLOCK__REPLICAS];

    assert(words != NULL || n == 0);
    for (size_t i = 0; i < RLOCK__REPLICAS; i++) {
        was_known[i] = all->each[i].is_known;
    }
    all->n_known = 0;
    all->is_vague = false;
    for (size_t i = 0; i < n; i++) {
        know(all, &words[i], now);
    }
    for (size_t i = 0; i < RLOCK__REPLICAS; i++) {
        bool is_named = false;

        for (size_t j = 0; j < n; j++) {
            is_named = is_named || strcmp(words[j].place, all->each[i].place) == 0;
        }
        all->each[i].is_known = all->each[i].is_known && is_named;
        all->each[i].is_barred = all->each[i].is_barred && is_named;
        all->each[i].is_out = all->each[i].is_out && all->each[i].is_known;
        assert(!all->each[i].is_known || !all->each[i].is_barred);
        all->changes += was_known[i] && !all->each[i].is_known;
    }
    sweep(all);
}

void rlock__replicas_counted(struct rlock__replicas *all, unsigned n)
{
    rlock__replicas_known(all, NULL, 0, 0);
    all->n_known = n;
    all->is_vague = true;
}

void rlock__replicas_reset(struct rlock__replicas *all)
{
    unsigned changes = all->changes + 1;
    int64_t alive_after_us = all->alive_after_us, gone_after_us = all->gone_after_us;

    *all = (struct rlock__replicas){
        .changes = changes, .alive_after_us = alive_after_us, .gone_after_us = gone_after_us};
}

/* ---- What the primary lists ---- */

static void begin_list(struct rlock__replicas *all)
{
    for (size_t i = 0; i < RLOCK__REPLICAS; i++) {
        all->each[i].is_seen = false;
        all->each[i].was_linked = all->each[i].is_linked;
        all->each[i].is_linked = false;
    }
}

/* The replica follows the primary. NULL: there is no room for its row, and it does not count. */
static struct rlock__replica *see(struct rlock__replicas *all, struct rlock__bytes address,
                                  struct rlock__bytes port, int64_t now)
{
    struct rlock__replica *it;
    char place[RLOCK__PLACE_SIZE];
    int len = snprintf(place, sizeof(place), "%.*s:%.*s", (int)address.len, address.at,
                       (int)port.len, port.at);

    assert(now != 0); /* since: 0 means never */
    it = len > 0 && (size_t)len < sizeof(place) ? row_of(all, place) : NULL;
    if (it != NULL) {
        it->is_seen = true;
        it->since = it->since != 0 ? it->since : now;
    }
    return it;
}

void rlock__replicas_ask(struct rlock__replicas *all)
{
    assert(all->alive_at >= all->was_alive_at);
    all->was_alive_at = all->alive_at;
}

/* The whole list is read. */
static void end_list(struct rlock__replicas *all, int64_t now)
{
    bool known = false, strange = false, is_gap = now > all->listed_at + LISTS_APART_US;

    all->listed_at = now;
    for (size_t i = 0; i < RLOCK__REPLICAS; i++) {
        struct rlock__replica *it = &all->each[i];
        bool has_left = it->was_linked && !it->is_linked; /* it may have caught up before that */

        it->is_listed = it->is_listed && it->is_seen;
        all->quick &= it->is_listed ? UINT32_MAX : ~bit(all, it);
        it->since = it->is_seen ? it->since : 0;
        known = known || (it->is_seen && (it->is_known || it->is_barred));
        strange = strange || (it->is_seen && !it->is_known && !it->is_barred);
        assert(!it->is_listed || it->is_linked);
        if (it->is_listed) {
            it->missing_since = 0;
            it->is_out = false;
        } else if (it->missing_since == 0 || is_gap || has_left) {
            it->missing_since = now;
        }
        it->is_foreign =
            it->is_seen && !it->is_known && (it->is_barred || now >= it->since + RLOCK__FRESH_US);
    }
    assert((known || strange) || all->quick == 0); /* an empty list has none */
    all->was_matched = all->was_matched || known;
    all->is_strange = strange && !all->was_matched;
    sweep(all);
}

/* "name=value" of a line, up to the comma. */
static struct rlock__bytes value_of(struct rlock__bytes line, const char *name)
{
    while (line.len != 0) {
        struct rlock__bytes pair = rlock__take_word(&line, ',');
        size_t len = strlen(name);

        if (pair.len >= len && memcmp(pair.at, name, len) == 0) {
            return rlock__bytes(pair.at + len, pair.len - len);
        }
    }
    return rlock__bytes("", 0);
}

static bool is_slave(struct rlock__bytes name)
{
    return name.len > 5 && memcmp(name.at, "slave", 5) == 0 && name.at[5] >= '0' &&
           name.at[5] <= '9';
}

void rlock__replicas_listed(struct rlock__replicas *all, struct rlock__bytes info, int64_t now)
{
    begin_list(all);
    while (info.len != 0) {
        struct rlock__bytes line = rlock__take_word(&info, '\n');
        struct rlock__bytes name = rlock__take_word(&line, ':');
        struct rlock__replica *it;
        int64_t lag;

        if (line.len != 0 && line.at[line.len - 1] == '\r') {
            line.len--;
        }
        if (!is_slave(name)) {
            continue;
        }
        lag = rlock__bytes_number(value_of(line, "lag="), RLOCK__LAG_MOST + 1);
        it = see(all, value_of(line, "ip="), value_of(line, "port="), now);
        if (it != NULL) {
            it->is_linked = rlock__bytes_equal(value_of(line, "state="), rlock__bytes_of("online"));
            it->is_listed = it->is_linked && lag >= 0 && lag <= RLOCK__LAG_MOST;
        }
    }
    end_list(all, now);
    judge(all, now);
}

int64_t rlock__role_offset(const struct rlock__reply *role)
{
    return rlock__bytes_equal(rlock__reply_str(role, 0), rlock__bytes_of("master"))
               ? rlock__reply_int(role, 1, -1)
               : -1;
}

/* A primary lists a hung replica for long. So a replica that lags stays listed, or not listed. */
uint32_t rlock__replicas_role(struct rlock__replicas *all, const struct rlock__reply *role,
                              int64_t offset, int64_t now)
{
    uint32_t have = 0;

    if (rlock__role_offset(role) < 0) {
        return 0;
    }
    begin_list(all);
    for (size_t i = 2; i + 2 < role->n; i += 3) {
        struct rlock__replica *it =
            see(all, rlock__reply_str(role, i), rlock__reply_str(role, i + 1), now);

        if (it == NULL) {
            continue;
        }
        it->is_linked = true;
        if (offset >= 0 && rlock__bytes_number(rlock__reply_str(role, i + 2), -1) >= offset) {
            it->is_listed = true;
            have |= bit(all, it);
        }
    }
    end_list(all, now);
    assert(offset >= 0 || have == 0);
    all->quick = have;
    return have;
}

/* ---- Who is needed ---- */

bool rlock__replicas_have_names(const struct rlock__replicas *all)
{
    return all->n_known != 0 && !all->is_vague && !all->is_strange;
}

/* How many replicas must acknowledge, for each setting, if names are of no use. */
static unsigned count(const struct rlock__replicas *all, int acks)
{
    switch (acks) {
    case RLOCK_ACKS_OFF:
        return 0;
    case RLOCK_ACKS_AUTO:
        return all->n_known > 0;
    case RLOCK_ACKS_ALL:
        return all->n_known;
    default:
        assert(acks > 0);
        return (unsigned)acks;
    }
}

static struct rlock__need need_named(const struct rlock__replicas *all, int acks)
{
    struct rlock__need need = {.count = count(all, acks)};
    uint32_t known = 0, in = 0, up = 0, fresh = 0;

    for (size_t i = 0; i < RLOCK__REPLICAS; i++) {
        const struct rlock__replica *it = &all->each[i];
        uint32_t row = bit(all, it);

        known |= it->is_known ? row : 0;
        in |= it->is_known && !it->is_out ? row : 0;
        up |= it->is_known && it->is_free ? row : 0;
        fresh |= it->is_listed && !it->is_known && !it->is_barred && !it->is_foreign ? row : 0;
    }
    if (acks == RLOCK_ACKS_ALL) {
        need.must = known;
    } else if (acks != RLOCK_ACKS_AUTO) {
        need.may = up;
        need.n = (unsigned)acks;
    } else if (in != 0) {
        need.must = in;
    } else {
        need.may = fresh;
        need.n = fresh != 0;
        need.count = need.n;
    }
    assert((need.must & need.may) == 0); /* otherwise a replica would count twice */
    return need;
}

struct rlock__need rlock__replicas_need(const struct rlock__replicas *all, int acks)
{
    if (acks == RLOCK_ACKS_OFF || !rlock__replicas_have_names(all)) {
        return (struct rlock__need){.count = count(all, acks)};
    }
    return need_named(all, acks);
}

bool rlock__need_is_met(const struct rlock__need *need, uint32_t have)
{
    assert((need->must & need->may) == 0);
    return (have & need->must) == need->must && rlock__rows(have & need->may) >= need->n;
}

unsigned rlock__need_size(const struct rlock__need *need)
{
    unsigned named = rlock__rows(need->must) + need->n;

    return named != 0 ? named : need->count;
}
