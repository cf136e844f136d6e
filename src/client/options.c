/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a client: checked, completed by their defaults, and copied. */
#include <stdlib.h>

#include "base/sized.h"
#include "client/client.h"

static int check_opts(struct rlock_client_opts *opts)
{
    static const int64_t year_ms = INT64_C(366) * 24 * 3600 * 1000;
    const struct {
        const char *name;
        int64_t *value, fallback, least, most;
    } numbers[] = {
        {"connect_timeout_ms", &opts->connect_timeout_ms, 1000, 1, 3600 * 1000},
        {"op_timeout_ms", &opts->op_timeout_ms, 1000, 1, 3600 * 1000},
        {"renewed_lease_ms", &opts->renewed_lease_ms, 30000, 30, year_ms},
        {"safety_margin_ms", &opts->safety_margin_ms, 0, 0, year_ms},
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        *numbers[i].value = *numbers[i].value != 0 ? *numbers[i].value : numbers[i].fallback;
        if (*numbers[i].value < numbers[i].least || *numbers[i].value > numbers[i].most) {
            return rlock__fail(RLOCK_EINVAL, "%s is %lld, must be %lld to %lld", numbers[i].name,
                               (long long)*numbers[i].value, (long long)numbers[i].least,
                               (long long)numbers[i].most);
        }
    }
    if (opts->safety_margin_ms >= opts->renewed_lease_ms / 2) {
        return rlock__fail(RLOCK_EINVAL,
                           "safety_margin_ms must be less than half of renewed_lease_ms");
    }
    if ((opts->cert_file == NULL) != (opts->key_file == NULL)) {
        return rlock__fail(RLOCK_EINVAL, "cert_file and key_file go together");
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

/* Secrets and prefix are ours; file names are read at open and kept by the TLS context. */
static int copy_strings(struct rlock_client *client, const struct rlock_client_opts *given)
{
    struct rlock_client_opts *opts = &client->opts;
    const char *user = given->user != NULL ? given->user : client->uri.user;
    const char *password = given->password != NULL ? given->password : client->uri.password;
    const char *prefix = given->key_prefix != NULL ? given->key_prefix : "";

    *opts = *given;
    opts->user = user != NULL ? strdup(user) : NULL;
    opts->password = password != NULL ? strdup(password) : NULL;
    client->core.prefix = rlock__bytes(strdup(prefix), strlen(prefix));
    opts->url = opts->key_prefix = NULL;
    if (client->core.prefix.at == NULL || (user != NULL && opts->user == NULL) ||
        (password != NULL && opts->password == NULL)) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    return 0;
}

int rlock__opts_take(struct rlock_client *client, const struct rlock_client_opts *opts)
{
    struct rlock_client_opts given = {.size = sizeof(given)};
    int code = rlock__opts_read(&given, opts);

    code = code == 0 ? check_opts(&given) : code;
    code = code == 0 ? parse_url(client, given.url) : code;
    return code == 0 ? copy_strings(client, &given) : code;
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
    free((char *)(uintptr_t)client->core.prefix.at);
}
