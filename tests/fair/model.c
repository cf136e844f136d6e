/* SPDX-License-Identifier: Apache-2.0 */
#include "fair/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static void set_name(char *name, const char *to)
{
    (void)snprintf(name, MODEL_NAME, "%s", to);
}

static size_t find(const struct model *m, const char *name)
{
    size_t at = 0;

    while (at < m->n && !is(m->queue[at].name, name)) {
        at++;
    }
    return at;
}

static void take_out(struct model *m, size_t at)
{
    memmove(&m->queue[at], &m->queue[at + 1], (m->n - at - 1) * sizeof(m->queue[0]));
    m->n--;
}

/* Those from a place on give back what somebody had added. */
static void lower(struct model *m, size_t from, int64_t by)
{
    for (size_t i = from; i < m->n; i++) {
        m->queue[i].score -= by;
    }
}

static void append(struct model *m, const char *name, int64_t score)
{
    set_name(m->queue[m->n].name, name);
    m->queue[m->n++].score = score;
    m->longest = m->n > m->longest ? m->n : m->longest;
}

static void hold(struct model *m, const char *name, int64_t lease)
{
    set_name(m->holder, name);
    m->count = 1;
    m->ends = m->now + lease;
}

int64_t model_ttl(struct model *m)
{
    if (m->holder[0] != '\0' && m->now > m->ends) {
        m->holder[0] = '\0';
    }
    return m->holder[0] == '\0' ? -2 : m->ends - m->now;
}

size_t model_place(const struct model *m, const char *name)
{
    size_t at = find(m, name);

    return at < m->n ? at + 1 : 0;
}

/* Heads past their time are out, but for the one who is here. */
static void purge(struct model *m, const char *name)
{
    while (m->n > 0 && m->queue[0].score <= m->now && !is(m->queue[0].name, name)) {
        take_out(m, 0);
        m->purged++;
    }
}

/* ---- Ours ---- */

/* How long somebody has been so, as this waiter saw it; -1 it has not seen it so. */
static int64_t seen_for(const struct model_watch *watch, const char *name, int64_t heard,
                        int64_t now)
{
    for (size_t i = 0; i < watch->n; i++) {
        if (is(watch->ones[i].name, name) && watch->ones[i].heard == heard) {
            return now - watch->ones[i].since;
        }
    }
    return -1;
}

static bool is_dead(const struct model *m, const struct model_watch *watch, const char *name,
                    bool is_head, int64_t score)
{
    int64_t heard = m->hear(m->payload, name);
    bool same_head = watch->n > 0 && is(watch->ones[0].name, name) &&
                     watch->ones[0].heard == heard && watch->head_score == score;

    if (heard == 0) {
        return seen_for(watch, name, 0, m->now) >= 1000;
    }
    return is_head && same_head && m->now - watch->head_since >= 3000;
}

/* The first in front of an owner, taken out where the waiter may take them for dead. Notes the
 * others in now: who was so before keeps its time. */
static void pass_over(struct model *m, const struct model_watch *watch, const char *name,
                      struct model_watch *now)
{
    size_t n = find(m, name), at = 0;
    int64_t score = m->queue[0].score;

    now->n = 0;
    for (size_t i = 0; i < n && i < MODEL_FRONT; i++) {
        const char *other = m->queue[at].name;
        int64_t heard = m->hear(m->payload, other);
        int64_t seen = seen_for(watch, other, heard, m->now);

        if (is_dead(m, watch, other, i == 0, score)) {
            take_out(m, at);
            m->passed++;
            continue;
        }
        set_name(now->ones[now->n].name, other);
        now->ones[now->n].heard = heard;
        now->ones[now->n++].since = seen >= 0 ? m->now - seen : m->now;
        at++;
    }
}

/* The lock stays free under another head: the next look begins with what this one saw. */
static void remember(const struct model *m, struct model_watch *watch,
                     const struct model_watch *now)
{
    bool same = watch->n > 0 && now->n > 0 && is(watch->ones[0].name, now->ones[0].name) &&
                watch->ones[0].heard == now->ones[0].heard &&
                watch->head_score == m->queue[0].score;
    int64_t since = same ? watch->head_since : m->now;

    *watch = *now;
    watch->head_score = m->queue[0].score;
    watch->head_since = since;
}

/* Joins the end of the queue, or raises its score to what its place asks for. */
static void stand_in_queue(struct model *m, const char *name)
{
    size_t at = find(m, name);
    int64_t ttl = model_ttl(m);
    int64_t least = m->now + max(ttl, 0) + m->slot * ((int64_t)at + 1);
    int64_t sum = (m->n > 0 ? m->queue[m->n - 1].score : m->now + ttl) + m->slot;

    if (at < m->n) {
        m->queue[at].score = max(m->queue[at].score, least);
    } else {
        append(m, name, 2 * llabs(sum - least) > m->slot ? least : sum);
    }
}

bool model_acquire(struct model *m, const char *name, int64_t lease, int64_t count, bool waits,
                   struct model_watch *watch)
{
    bool free = model_ttl(m) == -2;
    struct model_watch seen = {0};

    if (is(m->holder, name)) {
        m->count = max(m->count, count);
        m->ends = max(m->ends, m->now + lease);
        return true;
    }
    purge(m, name);
    if (free && waits && m->n > 0 && !is(m->queue[0].name, name)) {
        pass_over(m, watch, name, &seen);
        purge(m, name);
    }
    if (free && (m->n == 0 || is(m->queue[0].name, name))) {
        if (m->n > 0) {
            take_out(m, 0);
            lower(m, 0, m->slot);
        }
        hold(m, name, lease);
        return true;
    }
    if (waits) {
        stand_in_queue(m, name);
    }
    if (free && waits) {
        remember(m, watch, &seen);
    } else {
        watch->n = 0;
    }
    return false;
}

void model_watch_head(struct model *m, struct model_watch *watch)
{
    *watch = (struct model_watch){.n = model_ttl(m) == -2 && m->n > 0};
    if (watch->n != 0) {
        set_name(watch->ones[0].name, m->queue[0].name);
        watch->ones[0].heard = m->hear(m->payload, m->queue[0].name);
        watch->ones[0].since = watch->head_since = m->now;
        watch->head_score = m->queue[0].score;
    }
}

void model_look(struct model *m, struct model_watch *watch)
{
    struct model_watch seen = {0};

    purge(m, "");
    if (model_ttl(m) != -2 || m->n == 0) {
        return;
    }
    pass_over(m, watch, "", &seen);
    purge(m, "");
    if (m->n > 0) {
        remember(m, watch, &seen);
    }
}

bool model_release(struct model *m, const char *name)
{
    bool held = model_ttl(m) != -2 && is(m->holder, name);
    size_t at = find(m, name);

    if (held) {
        m->holder[0] = '\0';
    }
    if (at < m->n) {
        take_out(m, at);
        lower(m, at, m->slot);
    }
    if (model_ttl(m) == -2) {
        purge(m, "");
    }
    return held;
}

/* ---- Peers ---- */

bool model_peer_acquire(struct model *m, const char *name, int64_t lease, int64_t wait, bool waits)
{
    bool free = model_ttl(m) == -2;

    purge(m, "");
    if (free && (m->n == 0 || is(m->queue[0].name, name))) {
        if (m->n > 0) {
            take_out(m, 0);
        }
        lower(m, 0, wait);
        hold(m, name, lease);
        return true;
    }
    if (is(m->holder, name)) {
        m->count++;
        m->ends = m->now + lease;
        return true;
    }
    if (waits && model_place(m, name) == 0) {
        append(m, name, (m->n > 0 ? m->queue[m->n - 1].score : m->now + model_ttl(m)) + wait);
    }
    return false;
}

void model_peer_give_up(struct model *m, const char *name, int64_t wait)
{
    size_t at = find(m, name);

    if (at < m->n) {
        take_out(m, at);
        lower(m, at, wait);
    }
}

int64_t model_peer_release(struct model *m, const char *name, int64_t lease)
{
    bool free = model_ttl(m) == -2;

    purge(m, "");
    if (free) {
        return 0;
    }
    if (!is(m->holder, name)) {
        return -1;
    }
    if (--m->count > 0) {
        m->ends = m->now + lease;
    } else {
        m->holder[0] = '\0';
    }
    return m->count;
}
