/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include "say.h"
#include "secret.h"
#include "waiting.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cli_server_default(struct cli_options *opts)
{
    const char *environment = getenv("RLOCK_URL");

    if (opts->is_redlock) { /* each server says its own name */
        opts->server = strdup("RedLock");
        return opts->server != NULL ? 0 : CLI_EXIT_OWN;
    }
    if (opts->url == NULL) {
        opts->url = strdup(environment != NULL && *environment != '\0' ? environment : DEFAULT_URL);
    }
    opts->server = opts->url != NULL ? strdup(opts->url) : NULL;
    if (opts->server == NULL) {
        return CLI_EXIT_OWN;
    }
    cli_url_redact(opts->server);
    return 0;
}

/* Runs on the dispatcher thread: whether anything is to be done about it is for the watching thread
 * to see. */
static void on_lost(const struct rlock_loss *loss, void *payload)
{
    struct cli_sink *sink = payload;
    const uint64_t one = 1;
    int none = 0;

    (void)atomic_compare_exchange_strong(&sink->reason, &none, (int)loss->reason);
    if (sink->lost_fd >= 0) {
        (void)!write(sink->lost_fd, &one, sizeof(one));
    }
}

static void on_log(const struct rlock_log_line *line, void *payload)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    const struct cli_sink *sink = payload;

    if (sink->opts->verbose) {
        cli_say(sink->opts, NULL, "%s: %s", names[line->level], line->text);
    }
    if (sink->waiting != NULL && line->level <= RLOCK_LOG_WARNING) {
        cli_waiting_news(sink->waiting, line->text);
    }
}

/* Reads the password again. If the file is unreadable just now, the first password stands. */
static int on_login(struct rlock_login *login, void *payload)
{
    const struct cli_options *opts = ((struct cli_sink *)payload)->opts;
    const char *file =
        rlock_login_is_sentinel(login) ? opts->sentinel_password_file : opts->password_file;
    char *password = NULL;
    int code = 0;

    if (file != NULL && cli_password_read(file, &password) == NULL) {
        code = rlock_login_set(login, NULL, password);
    }
    cli_secret_free(password);
    return code;
}

static bool has_password_file(const struct cli_options *opts)
{
    return opts->password_file != NULL || opts->sentinel_password_file != NULL;
}

static void forget_secrets(struct cli_options *opts)
{
    cli_secret_free(opts->url);
    cli_secret_free(opts->password);
    cli_secret_free(opts->sentinel_password);
    opts->url = opts->password = opts->sentinel_password = NULL;
}

int cli_client_open(struct cli_options *opts, struct cli_sink *sink,
                    struct rlock_client **ret_client)
{
    /* the command stops its child before the lease ends: no hold begins with a short one */
    const uint64_t flags = RLOCK_CLIENT_NO_PASS |
                           (opts->sentinel_plain ? RLOCK_CLIENT_SENTINEL_PLAIN : 0) |
                           (opts->acks_on_disk ? RLOCK_CLIENT_ACKS_ON_DISK : 0) |
                           (opts->announce_both ? RLOCK_CLIENT_ANNOUNCE_BOTH : 0);
    const struct rlock_client_opts *client_opts =
        RLOCK_CLIENT_OPTS(.url = opts->url, .password = opts->password, .key_prefix = opts->prefix,
                          .ca_file = opts->ca_file, .cert_file = opts->cert_file,
                          .key_file = opts->key_file, .renewed_lease_ms = opts->renewed_lease_ms,
                          .on_lost = on_lost, .on_log_line = on_log,
                          .on_login = has_password_file(opts) ? on_login : NULL,
                          .log_level = opts->verbose ? RLOCK_LOG_DEBUG : RLOCK_LOG_WARNING,
                          .payload = sink, .sentinel_user = opts->sentinel_user,
                          .sentinel_password = opts->sentinel_password, .acks = opts->acks,
                          .flags = flags);
    const int code = rlock_client_open(client_opts, ret_client);

    if (opts->redlock == NULL) { /* else there are more servers to open with them */
        forget_secrets(opts);
    }
    return code == 0 ? 0 : cli_fail(opts, NULL, code);
}

int cli_lock_make(const struct cli_options *opts, struct rlock_client *client, const char *name,
                  struct rlock_handle **ret_lock)
{
    const struct rlock_opts *lock_opts =
        RLOCK_OPTS(.max_hold_ms = opts->max_hold_ms, .fair_slot_ms = opts->fair_slot_ms,
                   .units = cli_has_slots(opts) && opts->slots == 0 ? 1 : opts->slots,
                   .flags = opts->no_reentry ? RLOCK_LOCK_NO_REENTRY : 0);
    cli_new_fn *make = opts->kind != NULL ? opts->kind->make : rlock_reentrant_new;
    const int code = make(client, name, lock_opts, ret_lock);

    return code == 0 ? 0 : cli_fail(opts, name, code);
}
