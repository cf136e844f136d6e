/* SPDX-License-Identifier: Apache-2.0 */
#include "plain/model.h"

#include <stdio.h>
#include <string.h>

#define MS 1000
#define RECHECK_MS 5000 /* who waits looks at least so often */
#define SPIN_MOST_MS 256
#define PAUSE_MOST_MS 4 /* after a release */
#define LATE_MS 3       /* a look after the end of a lease */

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* By an owner's clock it ends 1 %, at least 2 ms, before the server's lease may. */
static int64_t valid(int64_t from, int64_t lease)
{
    return from + lease - max(2 * MS, lease / 100);
}

static void be_free(struct model_server *server, int64_t since, bool announced)
{
    server->holder[0] = '\0';
    server->count = 0;
    server->free_since = since;
    server->announced = announced;
}

/* Never shortens. */
static void extend(struct model *m, int64_t lease)
{
    m->server.ends_ms = max(m->server.ends_ms, m->now / MS + lease / MS);
    m->server.known_ends_ms = max(m->server.known_ends_ms, m->server.ends_ms);
}

void model_wait(struct model *m, int64_t now)
{
    m->now = now;
    if (!model_is_free(m) && now / MS > m->server.ends_ms) {
        be_free(&m->server, (m->server.ends_ms + 1) * MS, false);
    }
}

bool model_is_free(const struct model *m)
{
    return m->server.holder[0] == '\0';
}

bool model_has(const struct model *m, size_t owner)
{
    return !model_is_free(m) && strcmp(m->server.holder, m->holds[owner].name) == 0;
}

size_t model_find(const struct model *m, const char *name)
{
    size_t owner = 0;

    while (owner < MODEL_OWNERS && strcmp(m->holds[owner].name, name) != 0) {
        owner++;
    }
    return owner;
}

int64_t model_paused_until(const struct model *m)
{
    return m->server.free_since + PAUSE_MOST_MS * MS;
}

int64_t model_taken_by(const struct model *m)
{
    const struct model_server *server = &m->server;

    if (m->kind.spins) {
        return server->free_since + (SPIN_MOST_MS + LATE_MS) * MS;
    }
    return server->announced
               ? model_paused_until(m)
               : min(server->free_since + RECHECK_MS * MS, server->known_ends_ms * MS) +
                     LATE_MS * MS;
}

int64_t model_renewed_by(const struct model *m, size_t owner)
{
    const struct model_hold *hold = &m->holds[owner];

    return max(hold->extended + m->lease / 3, hold->valid_until - 2 * (m->lease / 3));
}

/* One level more of what it has. */
static int nest(struct model *m, size_t owner, int64_t lease)
{
    struct model_hold *hold = &m->holds[owner];
    int64_t asked = lease != 0 ? lease : m->lease;

    if (!m->kind.reenters) {
        return RLOCK_EREACQUIRE;
    }
    if (!model_has(m, owner)) {
        return RLOCK_ELOST;
    }
    hold->count = ++m->server.count;
    if (lease == 0 && hold->renewed_from == 0) {
        hold->renewed_from = hold->count;
    }
    hold->valid_until = max(hold->valid_until, valid(m->now, asked));
    hold->extended = m->now;
    extend(m, asked);
    return 0;
}

static void grant(struct model *m, size_t owner, const char *name, int64_t lease)
{
    struct model_server *server = &m->server;
    int64_t asked = lease != 0 ? lease : m->lease;

    if (m->kind.fenced) {
        server->token = (uint64_t)max((int64_t)server->token + 1, m->epoch_us + m->now);
    }
    (void)snprintf(server->holder, sizeof(server->holder), "%s", name);
    server->count = 1;
    server->ends_ms = 0;
    extend(m, asked);
    m->holds[owner] = (struct model_hold){.standing = MODEL_HELD,
                                          .count = 1,
                                          .renewed_from = lease == 0,
                                          .valid_until = valid(m->now, asked),
                                          .extended = m->now,
                                          .token = server->token};
    (void)snprintf(m->holds[owner].name, MODEL_NAME, "%s", name);
}

int model_take(struct model *m, size_t owner, const char *name, int64_t lease)
{
    enum model_standing standing = m->holds[owner].standing;

    if (standing != MODEL_NONE) {
        return standing == MODEL_LOST ? RLOCK_ELOST : nest(m, owner, lease);
    }
    if (!model_is_free(m)) {
        return RLOCK_EBUSY;
    }
    grant(m, owner, name, lease);
    return 0;
}

/* One level less. */
static void leave(struct model_hold *hold)
{
    hold->count--;
    hold->renewed_from = hold->renewed_from > hold->count ? 0 : hold->renewed_from;
    hold->standing = hold->count == 0 ? MODEL_NONE : hold->standing;
}

int model_unlock(struct model *m, size_t owner)
{
    struct model_hold *hold = &m->holds[owner];
    bool lost = hold->standing == MODEL_LOST || !model_has(m, owner);

    if (hold->standing == MODEL_NONE) {
        return RLOCK_ENOTOWNER;
    }
    leave(hold);
    if (lost) {
        return RLOCK_ELOST;
    }
    if (hold->count == 0) {
        be_free(&m->server, m->now, true);
        return 0;
    }
    m->server.count = hold->count;
    extend(m, hold->renewed_from != 0 ? m->lease : MS);
    if (hold->renewed_from != 0) {
        hold->valid_until = max(hold->valid_until, valid(m->now, m->lease));
    }
    return 0;
}

void model_renew(struct model *m, size_t owner)
{
    struct model_hold *hold = &m->holds[owner];

    hold->valid_until = max(hold->valid_until, valid(m->now, m->lease));
    hold->extended = m->now;
    extend(m, m->lease);
}

enum rlock_reason model_reason(const struct model *m, size_t owner)
{
    if (m->now >= m->holds[owner].valid_until) {
        return RLOCK_LOST_EXPIRED;
    }
    if (model_has(m, owner)) {
        return 0;
    }
    return model_is_free(m) ? RLOCK_LOST_DELETED : RLOCK_LOST_TAKEN;
}

void model_lose(struct model *m, size_t owner)
{
    m->holds[owner].standing = MODEL_LOST;
    if (model_has(m, owner)) {
        be_free(&m->server, m->now, true);
    }
}

/* Whatever becomes of it now, its owner did not do it. */
static void meddle(struct model *m)
{
    size_t owner = model_find(m, m->server.holder);

    if (owner < MODEL_OWNERS) {
        m->holds[owner].taken_away = true;
    }
}

void model_open(struct model *m, bool announced)
{
    if (!model_is_free(m)) {
        meddle(m);
        be_free(&m->server, m->now, announced);
    }
}

void model_set_end(struct model *m, int64_t ends_ms)
{
    if (!model_is_free(m)) {
        meddle(m);
        m->server.ends_ms = ends_ms;
        m->server.known_ends_ms = max(m->server.known_ends_ms, ends_ms);
    }
}
