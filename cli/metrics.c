/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"

#include "text.h"

#include <inttypes.h>
#include <rlock/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cli_metrics_add(struct cli_metrics *metrics, const struct rlock_info *info)
{
    const enum cli_mode mode = strcmp(info->mode, "read") == 0    ? CLI_MODE_READ
                               : strcmp(info->mode, "write") == 0 ? CLI_MODE_WRITE
                                                                  : CLI_MODE_OTHER;

    metrics->is_empty = false;
    if (!info->locked) {
        metrics->waiters += info->waiters;
        metrics->dead_waiters += info->dead_waiters;
        return;
    }
    metrics->locks[mode]++;
    metrics->endless += info->ttl_ms < 0;
    metrics->longest_ms = info->ttl_ms > metrics->longest_ms ? info->ttl_ms : metrics->longest_ms;
}

/* ---- The labels that all samples have ---- */

/* Returns the client's server as rlock_metrics() writes it, so that both can be joined; NULL
 * without memory. The caller frees it. */
static char *server_of(const struct rlock_client *client)
{
    static const char label[] = "server=\"";
    const int64_t len = rlock_metrics(&client, 1, NULL, 0);
    char *text = len > 0 ? malloc((size_t)len + 1) : NULL;
    char *server, *end;

    if (text == NULL || rlock_metrics(&client, 1, text, (size_t)len + 1) < 0) {
        free(text);
        return NULL;
    }
    server = strstr(text, label);
    server = server != NULL ? server + strlen(label) : text + len;
    end = strstr(server, "\",version=");
    server = strndup(server, end != NULL ? (size_t)(end - server) : 0);
    free(text);
    return server;
}

/* Returns what was searched for, as the value of a label; NULL without memory. The caller frees
 * it. */
static char *pattern_of(const struct cli_options *opts)
{
    const char *parts[] = {opts->prefix != NULL ? opts->prefix : "",
                           opts->n_operands > 0 ? opts->operands[0] : "*"};
    char *shown = NULL, *escaped = NULL;
    size_t len = 0, escaped_len = 0;
    FILE *out = open_memstream(&shown, &len);

    for (size_t i = 0; out != NULL && i < 2; i++) {
        (void)cli_put_text(out, parts[i], strlen(parts[i]));
    }
    if (out == NULL || fclose(out) != 0 || (out = open_memstream(&escaped, &escaped_len)) == NULL) {
        free(shown);
        return NULL;
    }
    for (size_t i = 0; i < len; i++) {
        (void)fprintf(out, "%s%c", shown[i] == '\\' || shown[i] == '"' ? "\\" : "", shown[i]);
    }
    free(shown);
    return fclose(out) == 0 ? escaped : NULL;
}

static char *labels_of(const struct cli_options *opts, const struct rlock_client *client)
{
    char *server = server_of(client), *pattern = pattern_of(opts), *labels = NULL;

    if (asprintf(&labels, "server=\"%s\",pattern=\"%s\"", server != NULL ? server : "",
                 pattern != NULL ? pattern : "") < 0) {
        labels = NULL;
    }
    free(server);
    free(pattern);
    return labels;
}

/* ---- The text ---- */

static void put_head(const char *name, const char *unit, const char *help)
{
    (void)printf("# TYPE rlock_scan_%s gauge\n", name);
    if (unit != NULL) {
        (void)printf("# UNIT rlock_scan_%s %s\n", name, unit);
    }
    (void)printf("# HELP rlock_scan_%s %s\n", name, help);
}

static void put_count(const char *name, const char *labels, const char *help, uint64_t n)
{
    put_head(name, NULL, help);
    (void)printf("rlock_scan_%s{%s} %" PRIu64 "\n", name, labels, n);
}

static void put_seconds(const char *name, const char *labels, const char *help, int64_t ms)
{
    put_head(name, "seconds", help);
    (void)printf("rlock_scan_%s{%s} %" PRId64 ".%03d\n", name, labels, ms / 1000, (int)(ms % 1000));
}

static void put_by(const char *name, const char *labels, const char *label, const char *value,
                   uint64_t n)
{
    (void)printf("rlock_scan_%s{%s,%s=\"%s\"} %" PRIu64 "\n", name, labels, label, value, n);
}

static void put_locks(const struct cli_metrics *metrics, const char *labels)
{
    static const char *const modes[CLI_MODES] = {"read", "write", "other"};

    put_head("locks", NULL, "Locks that are held, by the side of the read/write lock.");
    for (size_t i = 0; i < CLI_MODES; i++) {
        put_by("locks", labels, "mode", modes[i], metrics->locks[i]);
    }
    put_count("locks_without_lease", labels, "Locks that are held and never expire.",
              metrics->endless);
    put_seconds("longest_lease_seconds", labels, "Rest of the lease that ends last.",
                metrics->longest_ms);
    put_head("free_lock_waiters", NULL, "Owners in the queues of free fair locks, by state.");
    put_by("free_lock_waiters", labels, "state", "alive", metrics->waiters - metrics->dead_waiters);
    put_by("free_lock_waiters", labels, "state", "dead", metrics->dead_waiters);
}

void cli_metrics_print(const struct cli_metrics *metrics, const struct cli_options *opts,
                       const struct rlock_client *client)
{
    char *labels = labels_of(opts, client);

    if (labels != NULL) {
        put_count("complete", labels, "1 if the scan reached every server, otherwise 0.",
                  metrics->is_whole ? 1 : 0);
        put_seconds("duration_seconds", labels, "Duration of the scan.", metrics->took_ms);
        if (metrics->is_whole || !metrics->is_empty) {
            put_locks(metrics, labels);
        }
        free(labels);
    }
    (void)puts("# EOF");
}
