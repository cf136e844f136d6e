/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a client: checked, completed by their defaults, and copied. */
#include <stdlib.h>
#include <unistd.h>

#include "base/sized.h"
#include "client/client.h"
#include "client/flags.h"

#define ACKS_MOST 100
#define SENTINEL_FLAGS (RLOCK_CLIENT_SENTINEL_TLS | RLOCK_CLIENT_SENTINEL_PLAIN)

static int check_times(struct rlock_client_opts *opts)
{
    const struct {
        const char *name;
        int64_t *value, fallback, least;
    } times[] = {
        {"connect_timeout_ms", &opts->connect_timeout_ms, 1000, 1},
        {"op_timeout_ms", &opts->op_timeout_ms, 3000, 1},
        {"renewed_lease_ms", &opts->renewed_lease_ms, 30000, 30},
        {"safety_margin_ms", &opts->safety_margin_ms, 0, 0},
    };

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        int64_t ms = *times[i].value != 0 ? *times[i].value : times[i].fallback;

        if (ms < times[i].least) {
            return rlock__fail(RLOCK_EINVAL, "%s is %lld, must be at least %lld", times[i].name,
                               (long long)ms, (long long)times[i].least);
        }
        *times[i].value = rlock__min(ms, RLOCK_TIME_MAX_MS);
    }
    return 0;
}

static int check_opts(struct rlock_client_opts *opts)
{
    int code = rlock__flags_check("rlock_client_opts", opts->flags, RLOCK__CLIENT_FLAGS);

    code = code == 0 ? check_times(opts) : code;
    if (code != 0) {
        return code;
    }
    if (opts->safety_margin_ms >= opts->renewed_lease_ms / 2) {
        return rlock__fail(RLOCK_EINVAL,
                           "safety_margin_ms must be less than half of renewed_lease_ms");
    }
    if ((opts->cert_file == NULL) != (opts->key_file == NULL)) {
        return rlock__fail(RLOCK_EINVAL, "cert_file and key_file go together");
    }
    if ((opts->flags & SENTINEL_FLAGS) == SENTINEL_FLAGS) {
        return rlock__fail(RLOCK_EINVAL,
                           "RLOCK_CLIENT_SENTINEL_TLS and _SENTINEL_PLAIN exclude each other");
    }
    if (opts->acks < RLOCK_ACKS_ALL || opts->acks > ACKS_MOST) {
        return rlock__fail(RLOCK_EINVAL, "acks is %d, must be 1 to %d, or RLOCK_ACKS_…", opts->acks,
                           ACKS_MOST);
    }
    if (opts->log_level < 0 || opts->log_level > RLOCK_LOG_DEBUG) {
        return rlock__fail(RLOCK_EINVAL, "log_level is %d, must be RLOCK_LOG_…", opts->log_level);
    }
    if (opts->log_level == 0) {
        opts->log_level = RLOCK_LOG_WARNING;
    }
    return 0;
}

int rlock__opts_read(void *opts, const void *given)
{
    if (rlock__sized_take(opts, given)) {
        return 0;
    }
    return rlock__fail(
        RLOCK_EINVAL, "the options' size is not set, or they want what this library does not know");
}

static int parse_url(struct rlock_client *client, const char *given)
{
    const char *url = given != NULL ? given : "redis://localhost:6379";
    int code = rlock__uri_parse(url, &client->uri);

    if (code == 0) {
        (void)rlock__uri_redacted(url, client->address, sizeof(client->address));
    }
    return code;
}

/* Whether Sentinels are spoken to with TLS. */
static void set_sentinel_tls(struct rlock_client *client, uint64_t flags)
{
    struct rlock__uri *uri = &client->uri;

    for (size_t i = 0; uri->primary != NULL && i < uri->n_places; i++) {
        uri->places[i].tls =
            (flags & SENTINEL_FLAGS) != 0 ? (flags & RLOCK_CLIENT_SENTINEL_TLS) != 0 : uri->tls;
    }
}

/* Returns the copy; NULL of NULL, or without memory, which it notes. */
static const char *copy(const char *text, bool *inout_good)
{
    const char *copied = text != NULL ? strdup(text) : NULL;

    *inout_good = *inout_good && (copied != NULL || text == NULL);
    return copied;
}

/* Secrets and prefix are ours; file names are read at open and kept by the TLS context. */
static int copy_strings(struct rlock_client *client, const struct rlock_client_opts *given)
{
    struct rlock_client_opts *opts = &client->opts;
    const char *user = given->user != NULL ? given->user : client->uri.user;
    const char *password = given->password != NULL ? given->password : client->uri.password;
    const char *prefix = given->key_prefix != NULL ? given->key_prefix : "";
    bool good = true;

    *opts = *given;
    opts->user = copy(user, &good);
    opts->password = copy(password, &good);
    opts->sentinel_user = copy(given->sentinel_user, &good);
    opts->sentinel_password = copy(given->sentinel_password, &good);
    client->core.opts.prefix = rlock__bytes(copy(prefix, &good), strlen(prefix));
    opts->url = opts->key_prefix = NULL;
    return good ? 0 : rlock__fail(RLOCK_ENOMEM, "no memory");
}

/* Without TLS nobody reads them: a wrong name would be found when the URL changes. */
static int check_unused_files(const struct rlock_client_opts *opts)
{
    const struct {
        const char *name, *path;
    } files[] = {
        {"ca_file", opts->ca_file}, {"cert_file", opts->cert_file}, {"key_file", opts->key_file}};

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (files[i].path != NULL && access(files[i].path, R_OK) != 0) {
            return rlock__fail(RLOCK_EINVAL, "%s: cannot read %s", files[i].name, files[i].path);
        }
    }
    return 0;
}

int rlock__opts_take(struct rlock_client *client, const struct rlock_client_opts *opts)
{
    struct rlock_client_opts given = {.size = sizeof(given)};
    int code = rlock__opts_read(&given, opts);

    code = code == 0 ? check_opts(&given) : code;
    code = code == 0 ? parse_url(client, given.url) : code;
    code = code == 0 && !client->uri.tls ? check_unused_files(&given) : code;
    if (code != 0) {
        return code;
    }
    if (given.acks == RLOCK_ACKS_ALL && client->uri.n_places == 0) {
        return rlock__fail(RLOCK_EINVAL, "nobody tells how many replicas there are: acks must be a "
                                         "number, or the URL one of a cluster or of Sentinels");
    }
    set_sentinel_tls(client, given.flags);
    return copy_strings(client, &given);
}

static void wipe(const char *secret)
{
    if (secret != NULL) {
        explicit_bzero((char *)(uintptr_t)secret, strlen(secret));
        free((char *)(uintptr_t)secret);
    }
}

void rlock__opts_fini(struct rlock_client *client)
{
    rlock__uri_fini(&client->uri);
    wipe(client->opts.password);
    wipe(client->opts.user);
    wipe(client->opts.sentinel_password);
    wipe(client->opts.sentinel_user);
    free((char *)(uintptr_t)client->core.opts.prefix.at);
}
