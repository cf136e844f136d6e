/* SPDX-License-Identifier: Apache-2.0 */
/* rlock info and rlock break: one lock, asked or opened. */
#include "client.h"
#include "find.h"
#include "say.h"
#include "show.h"
#include "text.h"
#include "verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What kinds have of their own. */
static void print_rest(const struct rlock_info *info)
{
    cli_show_mode(stdout, info);
    if (info->token != 0) {
        (void)printf(", token %" PRIu64, info->token);
    }
    cli_show_slots(stdout, info);
    cli_show_waiters(stdout, info);
    (void)putchar('\n');
}

/* Only a fair lock's waiters are known to the server; without any it looks like another kind. */
static void print_waiters_json(const struct cli_options *opts, const struct rlock_info *info)
{
    if (info->waiters != 0 || (opts->kind != NULL && opts->kind->make == rlock_fair_new)) {
        (void)printf(",\"dead_waiters\":%" PRIu32 ",\"waiters\":%" PRIu32 "}\n", info->dead_waiters,
                     info->waiters);
    } else {
        (void)puts(",\"dead_waiters\":null,\"waiters\":null}");
    }
}

static void print_info(const struct cli_options *opts, const char *name,
                       const struct rlock_info *info)
{
    if (opts->json) {
        cli_show_json(stdout, "name", name, strlen(name), info);
        print_waiters_json(opts, info);
        return;
    }
    (void)cli_put_name(stdout, name, strlen(name));
    if (!info->locked) {
        (void)fputs(": free", stdout);
        print_rest(info);
        return;
    }
    (void)fputs(": held by ", stdout);
    cli_show_holder(stdout, info);
    (void)printf(", count %lld, ", (long long)info->count);
    cli_show_ttl(stdout, info);
    print_rest(info);
}

/* Whether an owner has to wait. A semaphore is busy if no slot is free. */
static bool is_busy(const struct rlock_info *info)
{
    return info->locked && info->units_free <= 0;
}

static int inform(struct cli_options *opts, struct rlock_client *client, const char *name)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock_handle *lock = NULL;
    const int status = cli_lock_find(opts, client, name, &lock, &info);

    if (status == CLI_EXIT_OK) {
        print_info(opts, name, &info);
    }
    (void)rlock_free(lock);
    return status == CLI_EXIT_OK && opts->check && is_busy(&info) ? CLI_EXIT_BUSY : status;
}

int cli_info(struct cli_options *opts)
{
    struct cli_sink sink = {.opts = opts, .lost_fd = -1};
    struct rlock_client *client = NULL;
    int status = cli_client_open(opts, &sink, &client);

    if (status == CLI_EXIT_OK) {
        for (int i = 0; i < opts->n_operands; i++) { /* the first failure is what counts */
            const int one = inform(opts, client, opts->operands[i]);

            status = status == CLI_EXIT_OK ? one : status;
        }
    }
    (void)rlock_client_close(client);
    return status;
}

static void print_broken(const struct cli_options *opts, const char *name,
                         const struct rlock_info *info, bool broken)
{
    if (opts->json) {
        cli_show_json(stdout, "name", name, strlen(name), info);
        (void)printf(",\"broken\":%s}\n", broken ? "true" : "false");
        return;
    }
    (void)cli_put_name(stdout, name, strlen(name));
    if (!broken) {
        (void)fputs(": was free", stdout);
        if (!info->locked && info->dead_waiters > 0) {
            (void)printf(", %" PRIu32 " dead waiter%s removed", info->dead_waiters,
                         info->dead_waiters > 1 ? "s" : "");
        }
        (void)putchar('\n');
        return;
    }
    (void)fputs(": broken, was held by ", stdout);
    cli_show_holder(stdout, info);
    (void)putchar('\n');
}

static int break_lock(struct cli_options *opts, struct rlock_client *client, const char *name)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock_handle *lock = NULL;
    bool broken = false;
    int status = cli_lock_find(opts, client, name, &lock, &info);

    if (status == CLI_EXIT_OK) {
        const int code = rlock_force_unlock(lock, &broken);

        status = code == 0 ? CLI_EXIT_OK : cli_fail(opts, name, code);
    }
    if (status == CLI_EXIT_OK) {
        print_broken(opts, name, &info, broken);
    }
    (void)rlock_free(lock);
    return status;
}

int cli_break(struct cli_options *opts)
{
    struct cli_sink sink = {.opts = opts, .lost_fd = -1};
    struct rlock_client *client = NULL;
    int status = cli_client_open(opts, &sink, &client);

    if (status == CLI_EXIT_OK) {
        status = break_lock(opts, client, opts->operands[0]);
    }
    (void)rlock_client_close(client);
    return status;
}
