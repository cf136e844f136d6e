/* SPDX-License-Identifier: Apache-2.0 */
/* rlock ls: the locks there are, as a table in the order of their keys, or counted. */
#include <rlock/admin.h>

#include "client.h"
#include "duration.h"
#include "metrics.h"
#include "say.h"
#include "show.h"
#include "text.h"
#include "verbs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    char *key;
    size_t len;
    struct rlock_info info;
};

struct table {
    struct entry *entries;
    size_t n, room;
};

static int add(const struct rlock_found *found, void *payload)
{
    struct table *table = payload;
    struct entry *entry;

    if (table->n == table->room) {
        const size_t room = table->room == 0 ? 64 : table->room * 2;
        struct entry *entries = reallocarray(table->entries, room, sizeof(*entries));

        if (entries == NULL) {
            return RLOCK_ENOMEM;
        }
        table->entries = entries;
        table->room = room;
    }
    entry = &table->entries[table->n];
    *entry = (struct entry){
        .key = malloc(found->key_len + 1), .len = found->key_len, .info = *found->info};
    if (entry->key == NULL) {
        return RLOCK_ENOMEM;
    }
    memcpy(entry->key, found->key, found->key_len);
    entry->key[found->key_len] = '\0';
    table->n++;
    return 0;
}

static int by_key(const void *left, const void *right)
{
    const struct entry *a = left;
    const struct entry *b = right;
    const int order = memcmp(a->key, b->key, a->len < b->len ? a->len : b->len);

    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

/* SCAN may name a key twice: the first of equal ones stays. */
static void sort(struct table *table)
{
    size_t kept = 0;

    if (table->n > 0) {
        qsort(table->entries, table->n, sizeof(*table->entries), by_key);
    }
    for (size_t i = 0; i < table->n; i++) {
        if (kept > 0 && by_key(&table->entries[i], &table->entries[kept - 1]) == 0) {
            free(table->entries[i].key);
        } else {
            table->entries[kept++] = table->entries[i];
        }
    }
    table->n = kept;
}

static size_t widest_key(const struct table *table)
{
    char *line = NULL;
    size_t size = 0;
    size_t widest = strlen("KEY");
    FILE *nowhere = open_memstream(&line, &size);

    for (size_t i = 0; nowhere != NULL && i < table->n; i++) {
        const size_t columns = cli_put_name(nowhere, table->entries[i].key, table->entries[i].len);

        widest = columns > widest ? columns : widest;
    }
    if (nowhere != NULL) {
        (void)fclose(nowhere);
    }
    free(line);
    return widest;
}

static void print_row(const struct entry *entry, size_t width)
{
    const size_t columns = cli_put_name(stdout, entry->key, entry->len);

    (void)printf("%*s  %5lld  ", (int)(width > columns ? width - columns : 0), "",
                 (long long)entry->info.count);
    if (!entry->info.locked) {
        (void)printf("%10s  free", "");
        cli_show_waiters(stdout, &entry->info);
        (void)putchar('\n');
        return;
    }
    if (entry->info.ttl_ms < 0) {
        (void)printf("%10s  ", "never");
    } else {
        (void)printf("%8.1f s  ", (double)entry->info.ttl_ms / 1000);
    }
    cli_show_holder(stdout, &entry->info);
    cli_show_mode(stdout, &entry->info);
    cli_show_slots(stdout, &entry->info);
    (void)putchar('\n');
}

static void print_table(const struct table *table)
{
    const size_t width = widest_key(table);

    (void)printf("%-*s  %5s  %10s  %s\n", (int)width, "KEY", "COUNT", "EXPIRES", "HOLDER");
    for (size_t i = 0; i < table->n; i++) {
        print_row(&table->entries[i], width);
    }
}

static void print_json(const struct table *table)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct entry *entry = &table->entries[i];

        cli_show_json(stdout, "key", entry->key, entry->len, &entry->info);
        if (!entry->info.locked) {
            (void)printf(",\"dead_waiters\":%" PRIu32 ",\"waiters\":%" PRIu32,
                         entry->info.dead_waiters, entry->info.waiters);
        }
        (void)puts("}");
    }
}

static void print_metrics(const struct table *table, const struct cli_options *opts,
                          const struct rlock_client *client, bool is_whole, int64_t took_ms)
{
    struct cli_metrics metrics = {.is_whole = is_whole, .is_empty = true, .took_ms = took_ms};

    for (size_t i = 0; i < table->n; i++) {
        cli_metrics_add(&metrics, &table->entries[i].info);
    }
    cli_metrics_print(&metrics, opts, client);
}

/* Other servers may have told of locks. */
static int fail(const struct cli_options *opts, size_t n, int code)
{
    if (n > 0) {
        (void)fflush(stdout);
        cli_say(opts, NULL, "the list is not whole: %s (server %s)", rlock_detail(), opts->server);
        return cli_exit_of(code);
    }
    return cli_fail(opts, NULL, code);
}

static int scan(struct cli_options *opts, struct rlock_client *client)
{
    struct table table = {0};
    const int64_t begun_ms = cli_now_ms(CLOCK_MONOTONIC);
    const int code =
        rlock_admin_scan(client, opts->n_operands > 0 ? opts->operands[0] : NULL, add, &table);

    sort(&table);
    if (opts->metrics) {
        print_metrics(&table, opts, client, code == 0, cli_now_ms(CLOCK_MONOTONIC) - begun_ms);
    } else if (opts->json) {
        print_json(&table);
    } else if (code == 0 || table.n > 0) {
        print_table(&table);
    }
    for (size_t i = 0; i < table.n; i++) {
        free(table.entries[i].key);
    }
    free(table.entries);
    return code == 0 ? CLI_EXIT_OK : fail(opts, table.n, code);
}

int cli_ls(struct cli_options *opts)
{
    struct cli_sink sink = {.opts = opts, .lost_fd = -1};
    struct rlock_client *client = NULL;
    int status = cli_client_open(opts, &sink, &client);

    if (status == CLI_EXIT_OK) {
        status = scan(opts, client);
    }
    (void)rlock_client_close(client);
    return status;
}
