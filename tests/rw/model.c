/* SPDX-License-Identifier: Apache-2.0 */
#include "rw/model.h"

#include <string.h>

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static struct model_answer done(void)
{
    return (struct model_answer){.outcome = MODEL_DONE};
}

static struct model_answer busy(const struct model *m, int64_t until)
{
    return (struct model_answer){.outcome = MODEL_BUSY, .ttl = until - m->now};
}

static struct model_answer gone(bool taken)
{
    return (struct model_answer){.outcome = MODEL_GONE, .taken = taken};
}

void model_init(struct model *m, bool prefers_writers)
{
    *m = (struct model){.mode = '-', .prefers_writers = prefers_writers, .said = ""};
}

void model_delete(struct model *m)
{
    m->mode = '-';
    m->ends = 0;
    memset(m->reads, 0, sizeof(m->reads));
    memset(m->writes, 0, sizeof(m->writes));
    m->said = "";
}

/* A key lives through the millisecond in which it ends. */
static void expire(const struct model *m, int64_t *ends)
{
    *ends = *ends < m->now ? 0 : *ends;
}

void model_wait(struct model *m, int64_t ms)
{
    m->now += ms;
    m->said = "";
    for (int o = 0; o < MODEL_OWNERS; o++) {
        for (int i = 0; i < MODEL_LEVELS; i++) {
            expire(m, &m->levels[o][i]);
        }
    }
    expire(m, &m->asked_until);
    if (m->mode != '-' && m->ends < m->now) {
        model_delete(m);
    }
}

/* ---- What can be seen ---- */

/* When a hold of that many levels ends; 0 it has. */
static int64_t reader_ends(const struct model *m, int o)
{
    int64_t ends = 0;

    for (unsigned int i = 1; i <= m->reads[o]; i++) {
        ends = later(ends, m->levels[o][i]);
    }
    return ends;
}

bool model_lives(const struct model *m, int o)
{
    return reader_ends(m, o) != 0;
}

unsigned int model_holders(const struct model *m, bool write_side)
{
    unsigned int n = 0;

    for (int o = 0; o < MODEL_OWNERS; o++) {
        n += write_side ? m->writes[o] != 0 : model_lives(m, o);
    }
    return n;
}

static int64_t last_reader_ends(const struct model *m)
{
    int64_t ends = 0;

    for (int o = 0; o < MODEL_OWNERS; o++) {
        ends = later(ends, reader_ends(m, o));
    }
    return ends;
}

static bool any_reads(const struct model *m)
{
    unsigned int n = 0;

    for (int o = 0; o < MODEL_OWNERS; o++) {
        n += m->reads[o];
    }
    return n != 0;
}

/* Dead readers' fields go. */
static void drop_dead(struct model *m)
{
    for (int o = 0; o < MODEL_OWNERS; o++) {
        m->reads[o] = model_lives(m, o) ? m->reads[o] : 0;
    }
}

static void drop_levels(struct model *m, int o, unsigned int above)
{
    for (unsigned int i = above + 1; i <= m->reads[o]; i++) {
        m->levels[o][i] = 0;
    }
}

/* ---- Reading ---- */

/* Those that have ended are made again, if they are declared. */
static void extend(struct model *m, int o, unsigned int declared, int64_t until)
{
    m->ends = later(m->ends, until);
    for (unsigned int i = 1; i <= m->reads[o]; i++) {
        if (m->levels[o][i] != 0 || i <= declared) {
            m->levels[o][i] = later(m->levels[o][i], until);
        }
    }
}

struct model_answer model_read(struct model *m, int o, unsigned int count, int64_t lease,
                               bool own_write)
{
    bool own = m->mode == 'w' && own_write && m->writes[o] != 0;

    m->said = "";
    if (m->reads[o] != 0 && (count == 1 || model_lives(m, o))) {
        extend(m, o, count, m->now + lease);
        for (; m->reads[o] < count;
             m->reads[o]++) { /* whatever an earlier hold of this name left */
            m->levels[o][m->reads[o] + 1] = m->now + lease;
        }
        return done();
    }
    if (count > 1) {
        return gone(m->mode == 'w');
    }
    if (m->mode == 'w' && !own) {
        return busy(m, m->ends);
    }
    if (m->prefers_writers && m->asked_until != 0 && !own) {
        return busy(m, m->asked_until < m->now + 1000 ? m->asked_until : m->now + 1000);
    }
    m->mode = m->mode == '-' ? 'r' : m->mode;
    m->reads[o] = 1;
    m->levels[o][1] = m->now + lease;
    m->ends = later(m->ends, m->now + lease);
    return done();
}

static void read_level_release(struct model *m, int o, unsigned int count, int64_t lease)
{
    int64_t ends = reader_ends(m, o), until = lease != 0 ? m->now + lease : 0;

    m->ends = later(later(m->ends, ends), later(until, m->now + 1));
    for (unsigned int i = 1; i < count && i <= m->reads[o]; i++) {
        m->levels[o][i] = m->levels[o][i] != 0 ? later(m->levels[o][i], until) : 0;
    }
    if (m->reads[o] >= count) { /* the highest that stays has what the longest had */
        m->levels[o][count] = later(later(ends, until), m->now + 1);
        drop_levels(m, o, count);
        m->reads[o] = count;
    } else {
        for (unsigned int i = 1; i <= m->reads[o]; i++) {
            m->levels[o][i] = m->levels[o][i] != 0 ? later(m->levels[o][i], until) : 0;
        }
    }
}

struct model_answer model_read_release(struct model *m, int o, unsigned int count, int64_t lease)
{
    int64_t ends = reader_ends(m, o), rest;
    bool longest;

    m->said = "";
    if (m->reads[o] == 0 || (count > 0 && ends == 0)) {
        return gone(m->mode == 'w');
    }
    if (count > 0) {
        read_level_release(m, o, count, lease);
        return done();
    }
    drop_levels(m, o, 0);
    m->reads[o] = 0;
    if (m->mode == 'w') {
        return done();
    }
    rest = last_reader_ends(m);
    longest = ends != 0 && ends >= m->ends - 100;  /* the hash may end a little later */
    if (rest == 0 && (longest || !any_reads(m))) { /* who was longer, and died, keeps the lock */
        model_delete(m);
        m->said = "0";
        return done();
    }
    if (longest) {
        drop_dead(m);
        if (rest < m->ends) {
            m->said = rest - m->now < 5000 ? "0" : "";
            m->ends = later(rest, m->now + 1);
        }
    }
    return done();
}

int64_t model_read_renew(struct model *m, int o, unsigned int declared, int64_t lease)
{
    m->said = "";
    if (!model_lives(m, o)) {
        return m->mode == 'w' ? -1 : 0;
    }
    extend(m, o, declared, m->now + lease);
    return 1;
}

/* ---- Writing ---- */

struct model_answer model_write(struct model *m, int o, unsigned int count, int64_t lease,
                                bool waits)
{
    m->said = "";
    if (m->writes[o] != 0) {
        m->writes[o] = m->writes[o] > count ? m->writes[o] : count;
        m->ends = later(m->ends, m->now + lease);
        return done();
    }
    if (count > 1) {
        return gone(m->mode != '-');
    }
    if (m->mode == 'w' || (m->mode == 'r' && last_reader_ends(m) != 0)) {
        if (m->mode == 'r') {
            drop_dead(m);
        }
        if (m->prefers_writers && waits) {
            m->asked_until = m->now + 5000;
            m->asked_by = o;
        }
        return busy(m, m->mode == 'w' ? m->ends : last_reader_ends(m));
    }
    model_delete(m);
    m->mode = 'w';
    m->writes[o] = 1;
    m->ends = m->now + lease;
    m->asked_until = m->prefers_writers && m->asked_by == o ? 0 : m->asked_until;
    return done();
}

struct model_answer model_write_release(struct model *m, int o, unsigned int count, int64_t lease)
{
    int64_t longest = m->ends;

    m->said = "";
    if (m->writes[o] == 0) {
        return gone(m->mode != '-');
    }
    if (count > 0) {
        m->writes[o] = m->writes[o] < count ? m->writes[o] : count;
        m->ends = later(later(m->ends, m->now + lease), m->now + 1);
        return done();
    }
    m->writes[o] = 0;
    if (last_reader_ends(m) == 0) {
        model_delete(m);
    } else {
        m->mode = 'r';
        longest = later(later(longest, last_reader_ends(m)), m->now + 1);
        for (int r = 0; r < MODEL_OWNERS; r++) { /* its own: nobody else's are there */
            for (unsigned int i = 1; i <= m->reads[r] && model_lives(m, r); i++) {
                m->levels[r][i] = longest;
            }
        }
        m->ends = longest;
    }
    m->said = "1";
    return done();
}

int64_t model_write_renew(struct model *m, int o, int64_t lease)
{
    m->said = "";
    if (m->writes[o] == 0) {
        return m->mode != '-' ? -1 : 0;
    }
    m->ends = later(m->ends, m->now + lease);
    return 1;
}

void model_force(struct model *m, bool write_side)
{
    bool all = write_side == (m->mode == 'w');
    const char *said = !all ? "" : write_side ? "1" : "0";

    for (int o = 0; o < MODEL_OWNERS; o++) {
        drop_levels(m, o, 0);
        m->reads[o] = 0;
    }
    if (all) {
        model_delete(m);
    }
    m->said = said;
}
