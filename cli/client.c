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

static void on_log(enum rlock_level level, const char *text, void *payload)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    const struct cli_sink *sink = payload;

    if (sink->opts->verbose) {
        cli_say(sink->opts, NULL, "%s: %s", names[level], text);
    }
    if (sink->waiting != NULL && level <= RLOCK_LOG_WARNING) {
        cli_waiting_news(sink->waiting, text);
    }
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
    const struct rlock_client_opts *client_opts =
        RLOCK_CLIENT_OPTS(.url = opts->url, .password = opts->password, .key_prefix = opts->prefix,
                          .ca_file = opts->ca_file, .cert_file = opts->cert_file,
                          .key_file = opts->key_file, .renewed_lease_ms = opts->renewed_lease_ms,
                          .on_lost = on_lost, .on_log = on_log,
                          .log_level = opts->verbose ? RLOCK_LOG_DEBUG : RLOCK_LOG_WARNING,
                          .payload = sink, .sentinel_user = opts->sentinel_user,
                          .sentinel_password = opts->sentinel_password,
                          .sentinel_tls = opts->sentinel_plain ? -1 : 0, .acks = opts->acks,
                          .acks_on_disk = opts->acks_on_disk, .announce_both = opts->announce_both);
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
                   .no_reentry = opts->no_reentry);
    cli_new_fn *make = opts->kind != NULL ? opts->kind->make : rlock_reentrant_new;
    const int code = make(client, name, lock_opts, ret_lock);

    return code == 0 ? 0 : cli_fail(opts, name, code);
}
