/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statistics of clients as OpenMetrics text. docs/metrics.md explains each metric; their names
 * and labels are frozen. Parsers of the older text format of Prometheus read it as well.
 */
#include <rlock/stats.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/client.h"

/* Clients of one deployment. */
struct row {
    char server[2 * sizeof(((struct rlock_client *)0)->address)]; /* a label's value */
    uint64_t clients;
    struct rlock_stats stats;
};

/* Like snprintf(): what there is no room for is counted. */
struct text {
    char *at;
    size_t size, len;
};

struct family {
    const char *name; /* without _total */
    const char *type, *unit, *help;
    /* Writes the samples of one row. */
    void (*write)(struct text *text, const struct family *family, const struct row *row);
    size_t offset; /* of the value or the first of the values in the row */
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...)
{
    const size_t used = text->len < text->size ? text->len : text->size;
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(used < text->size ? text->at + used : NULL, text->size - used, format, args);
    va_end(args);
    text->len += len > 0 ? (size_t)len : 0;
}

static const void *value_of(const struct family *family, const struct row *row)
{
    return (const char *)row + family->offset;
}

/* ---- One value for each row ---- */

static void write_gauge(struct text *text, const struct family *family, const struct row *row)
{
    const size_t *value = value_of(family, row);

    put(text, "%s{server=\"%s\"} %zu\n", family->name, row->server, *value);
}

static void write_clients(struct text *text, const struct family *family, const struct row *row)
{
    put(text, "%s{server=\"%s\",version=\"%s\"} %llu\n", family->name, row->server, rlock_version(),
        (unsigned long long)row->clients);
}

static void write_counter(struct text *text, const struct family *family, const struct row *row)
{
    const uint64_t *value = value_of(family, row);

    put(text, "%s_total{server=\"%s\"} %llu\n", family->name, row->server,
        (unsigned long long)*value);
}

/* ---- Values by a label ---- */

static void write_by(struct text *text, const struct family *family, const struct row *row,
                     const char *label, const char *value, uint64_t n)
{
    put(text, "%s_total{server=\"%s\",%s=\"%s\"} %llu\n", family->name, row->server, label, value,
        (unsigned long long)n);
}

/* The code 0, and each other code that was there. */
static void write_codes(struct text *text, const struct family *family, const struct row *row)
{
    const uint64_t *counts = value_of(family, row);

    for (int code = 0; code < RLOCK_STATS_CODES; code++) {
        if (code == 0 || counts[code] != 0) {
            write_by(text, family, row, "code", rlock_code_name(-code), counts[code]);
        }
    }
}

/* The same for each kind that was used. */
static void write_kinds(struct text *text, const struct family *family, const struct row *row)
{
    static const char *const kinds[RLOCK_STATS_KINDS] = {
        [RLOCK_KIND_REENTRANT] = "reentrant", [RLOCK_KIND_NONREENTRANT] = "non-reentrant",
        [RLOCK_KIND_SPIN] = "spin",           [RLOCK_KIND_FENCED] = "fenced",
        [RLOCK_KIND_FAIR] = "fair",           [RLOCK_KIND_READ] = "read",
        [RLOCK_KIND_WRITE] = "write",         [RLOCK_KIND_MULTI] = "multi",
        [RLOCK_KIND_REDLOCK] = "redlock",     [RLOCK_KIND_SETNX] = "setnx",
        [RLOCK_KIND_PERMITS] = "permits",     [RLOCK_KIND_SEMAPHORE] = "semaphore"};
    const uint64_t *counts = value_of(family, row);

    for (int i = 0; i < RLOCK_STATS_KINDS * RLOCK_STATS_CODES; i++) {
        const int kind = i / RLOCK_STATS_CODES, code = i % RLOCK_STATS_CODES;
        bool is_used = counts[i] != 0;

        for (int k = 0; code == 0 && k < RLOCK_STATS_CODES; k++) {
            is_used = is_used || counts[i + k] != 0;
        }
        if (is_used && kinds[kind] != NULL) {
            put(text, "%s_total{server=\"%s\",kind=\"%s\",code=\"%s\"} %llu\n", family->name,
                row->server, kinds[kind], rlock_code_name(-code), (unsigned long long)counts[i]);
        }
    }
}

/* Each reason, even without a loss: the first loss is an increase then. */
static void write_reasons(struct text *text, const struct family *family, const struct row *row)
{
    static const char *const reasons[RLOCK_STATS_REASONS] = {
        [RLOCK_LOST_EXPIRED] = "expired",
        [RLOCK_LOST_TAKEN] = "taken",
        [RLOCK_LOST_DELETED] = "deleted",
        [RLOCK_LOST_NOT_REPLICATED] = "not_replicated",
        [RLOCK_LOST_CLOCK_STEPPED] = "clock_stepped",
        [RLOCK_LOST_FORKED] = "forked",
        [RLOCK_LOST_CLOSED] = "closed",
        [RLOCK_LOST_THREAD_EXITED] = "thread_exited",
        [RLOCK_LOST_FORCED] = "forced",
        [RLOCK_LOST_RESTARTED] = "restarted",
        [RLOCK_LOST_OWNER_ENDED] = "owner_ended",
    };
    const uint64_t *counts = value_of(family, row);

    for (size_t i = 0; i < RLOCK_STATS_REASONS; i++) {
        if (reasons[i] != NULL) {
            write_by(text, family, row, "reason", reasons[i], counts[i]);
        }
    }
}

static void write_renewals(struct text *text, const struct family *family, const struct row *row)
{
    const struct rlock_stats *stats = &row->stats;

    write_by(text, family, row, "result", "on_time", stats->renewals - stats->late_renewals);
    write_by(text, family, row, "result", "late", stats->late_renewals);
    write_by(text, family, row, "result", "failed", stats->failed_renewals);
}

static void write_connects(struct text *text, const struct family *family, const struct row *row)
{
    const struct rlock_stats *stats = &row->stats;

    write_by(text, family, row, "result", "connected", stats->connects - stats->reconnects);
    write_by(text, family, row, "result", "reconnected", stats->reconnects);
    write_by(text, family, row, "result", "failed", stats->failed_connects);
}

/* ---- Durations ---- */

/* In seconds, with the point as the decimal separator whatever the locale is. */
static void put_seconds(struct text *text, uint64_t us, const char *behind)
{
    put(text, "%llu.%06llu%s", (unsigned long long)us / 1000000, (unsigned long long)us % 1000000,
        behind);
}

static void write_histogram(struct text *text, const struct family *family, const struct row *row)
{
    const struct rlock_histogram *histogram = value_of(family, row);
    uint64_t n = 0;

    for (unsigned i = 0; i < RLOCK_HISTOGRAM_BUCKETS; i++) {
        n += histogram->counts[i];
        put(text, "%s_bucket{server=\"%s\",le=\"", family->name, row->server);
        if (i < RLOCK_HISTOGRAM_BUCKETS - 1) {
            put_seconds(text, UINT64_C(32) << i, "");
        } else {
            put(text, "+Inf");
        }
        put(text, "\"} %llu\n", (unsigned long long)n);
    }
    put(text, "%s_count{server=\"%s\"} %llu\n%s_sum{server=\"%s\"} ", family->name, row->server,
        (unsigned long long)n, family->name, row->server);
    put_seconds(text, histogram->sum_us, "\n");
}

/* ---- All of it ---- */

#define STATS(member) offsetof(struct row, stats.member)

static const struct family families[] = {
    {"rlock_clients", "gauge", NULL, "Open clients.", write_clients, 0},
    {"rlock_holds", "gauge", NULL, "Holds that are neither released nor lost.", write_gauge,
     STATS(holds)},
    {"rlock_waiting_calls", "gauge", NULL, "Calls that are taking a lock.", write_gauge,
     STATS(waiting)},
    {"rlock_unreleased_holds", "gauge", NULL,
     "Holds and attempts that ended while the server may still have them.", write_gauge,
     STATS(unreleased)},
    {"rlock_connections", "gauge", NULL, "Connections to servers with locks.", write_gauge,
     STATS(connections)},
    {"rlock_servers", "gauge", NULL, "Servers with locks that the clients know.", write_gauge,
     STATS(servers)},
    {"rlock_takes", "counter", NULL, "Calls that took a lock or failed to, by kind and code.",
     write_kinds, STATS(takes)},
    {"rlock_unlocks", "counter", NULL, "Unlocks by kind and code.", write_kinds, STATS(unlocks)},
    {"rlock_extends", "counter", NULL, "Extensions of leases by code.", write_codes,
     STATS(extends)},
    {"rlock_detaches", "counter", NULL, "Holds given to a text by code.", write_codes,
     STATS(detaches)},
    {"rlock_adopts", "counter", NULL, "Holds taken over from a text by code.", write_codes,
     STATS(adopts)},
    {"rlock_force_unlocks", "counter", NULL, "Releases by force by code.", write_codes,
     STATS(force_unlocks)},
    {"rlock_inspects", "counter", NULL, "Queries about locks by code.", write_codes,
     STATS(inspects)},
    {"rlock_losses", "counter", NULL, "Lost holds by reason.", write_reasons, STATS(losses)},
    {"rlock_attempts", "counter", NULL, "Requests for a lock that calls made to a server.",
     write_counter, STATS(attempts)},
    {"rlock_passes", "counter", NULL, "Unlocks that handed the hold to a waiting call.",
     write_counter, STATS(passes)},
    {"rlock_unsure_unlocks", "counter", NULL,
     "Unlocks that did not wait for the answer, and turned out to have failed.", write_counter,
     STATS(unsure)},
    {"rlock_renewals", "counter", NULL, "Renewals of holds by result.", write_renewals, 0},
    {"rlock_connects", "counter", NULL, "Connections to servers with locks by result.",
     write_connects, 0},
    {"rlock_disconnects", "counter", NULL, "Connections to servers with locks that broke.",
     write_counter, STATS(disconnects)},
    {"rlock_requests", "counter", NULL, "Commands sent to servers with locks.", write_counter,
     STATS(requests)},
    {"rlock_resends", "counter", NULL, "Commands sent again that may have run already.",
     write_counter, STATS(resends)},
    {"rlock_messages", "counter", NULL, "Messages about releases for waiting calls.", write_counter,
     STATS(messages)},
    {"rlock_wait_seconds", "histogram", "seconds", "Time from a call to its grant.",
     write_histogram, STATS(wait)},
    {"rlock_hold_seconds", "histogram", "seconds",
     "Time from a grant to its release, loss or hand-over.", write_histogram, STATS(hold)},
    {"rlock_reply_seconds", "histogram", "seconds", "Time from a request to its reply.",
     write_histogram, STATS(reply)},
};

static void put_family(struct text *text, const struct family *family, const struct row *rows,
                       size_t n)
{
    put(text, "# TYPE %s %s\n", family->name, family->type);
    if (family->unit != NULL) {
        put(text, "# UNIT %s %s\n", family->name, family->unit);
    }
    put(text, "# HELP %s %s\n", family->name, family->help);
    for (size_t i = 0; i < n; i++) {
        family->write(text, family, &rows[i]);
    }
}

/* Escapes an address as the value of a label. */
static void escape(const char *address, char ret_value[static 1])
{
    for (; *address != '\0'; address++) {
        if (*address == '\\' || *address == '"' || *address == '\n') {
            *ret_value++ = '\\';
        }
        *ret_value++ = *address;
        if (*address == '\n') {
            ret_value[-1] = 'n';
        }
    }
    *ret_value = '\0';
}

/* Adds a client to the row of its deployment. Returns how many rows there are. */
static size_t add_client(struct row *rows, size_t n, struct rlock_client *client)
{
    struct row *row = rows, *mine = &rows[n];
    struct rlock_stats stats;

    escape(client->address, mine->server);
    while (strcmp(row->server, mine->server) != 0) {
        row++;
    }
    rlock__stats_read(client, &stats);
    rlock__stats_add(&row->stats, &stats);
    row->clients++;
    return row == mine ? n + 1 : n;
}

static int check(const struct rlock_client *const *clients, size_t n, const char *ret_text,
                 size_t size)
{
    if ((clients == NULL && n > 0) || (ret_text == NULL && size > 0)) {
        return rlock__fail(RLOCK_EINVAL, "clients or ret_text is NULL");
    }
    for (size_t i = 0; i < n; i++) {
        int code = clients[i] != NULL
                       ? rlock__client_check((struct rlock_client *)(uintptr_t)clients[i])
                       : rlock__fail(RLOCK_EINVAL, "a client is NULL");

        if (code != 0) {
            return code;
        }
    }
    return 0;
}

int64_t rlock_metrics(const struct rlock_client *const *clients, size_t n, char *ret_text,
                      size_t size)
{
    struct text text = {.at = ret_text, .size = size};
    struct row *rows;
    size_t n_rows = 0;
    int code;

    rlock__detail_clear();
    code = check(clients, n, ret_text, size);
    if (code != 0) {
        return code;
    }
    rows = calloc(n + 1, sizeof(*rows));
    if (rows == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    for (size_t i = 0; i < n; i++) {
        n_rows = add_client(rows, n_rows, (struct rlock_client *)(uintptr_t)clients[i]);
    }
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        put_family(&text, &families[i], rows, n_rows);
    }
    put(&text, "# EOF\n");
    free(rows);
    return (int64_t)text.len;
}
