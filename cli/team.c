/* SPDX-License-Identifier: Apache-2.0 */
#include "team.h"

#include "say.h"
#include "secret.h"

#include <stdlib.h>
#include <string.h>

/* Where the next URL of a list begins, NULL if this is the last one: only a comma before another
 * scheme ends a URL. */
static char *next_url(const char *list)
{
    char *comma = strchr(list, ',');

    while (comma != NULL) {
        const size_t scheme = strspn(comma + 1, "abcdefghijklmnopqrstuvwxyz+");

        if (scheme > 0 && strncmp(comma + 1 + scheme, "://", 3) == 0) {
            return comma;
        }
        comma = strchr(comma + 1, ',');
    }
    return NULL;
}

/* Whether the URL is one alone: no server's name has a comma, only a password or a path may. */
static bool is_one(const char *url)
{
    const char *at = strrchr(url, '@');
    const char *behind = at != NULL ? at : url;

    return strstr(url, "://") != NULL &&
           (strncmp(url, "unix:", 5) == 0 || strchr(behind, ',') == NULL);
}

static int open_one(struct cli_team *team, struct cli_options *opts, struct cli_sink *sink)
{
    return cli_client_open(opts, sink, &team->clients[team->n_clients++]);
}

/* One client for each URL. The list is erased as it is used, and so is each copy. */
static int open_servers(struct cli_team *team, struct cli_options *opts, struct cli_sink *sink)
{
    char *url = opts->redlock;
    int status = 0;

    while (status == 0 && url != NULL) {
        char *comma = next_url(url);

        if (team->n_clients == CLI_MEMBERS_MAX) {
            return cli_usage("--redlock: more than %d servers", CLI_MEMBERS_MAX);
        }
        if (comma != NULL) {
            *comma = '\0';
        }
        if (!is_one(url)) {
            return cli_usage("--redlock: each URL needs its scheme: redis://a,redis://b,redis://c");
        }
        cli_secret_free(opts->url);
        opts->url = strdup(url);
        status = opts->url != NULL ? open_one(team, opts, sink) : CLI_EXIT_OWN;
        if (comma != NULL) {
            *comma = ',';
        }
        url = comma != NULL ? comma + 1 : NULL;
    }
    cli_secret_free(opts->redlock);
    cli_secret_free(opts->password);
    cli_secret_free(opts->url);
    opts->redlock = opts->password = opts->url = NULL;
    return status;
}

/* The members: one name on each server, or each name on the one. */
static int make_members(struct cli_team *team, const struct cli_options *opts)
{
    const int n = opts->n_names > 0 ? opts->n_names : team->n_clients;
    int status = 0;

    for (int i = 0; status == 0 && i < n; i++) {
        struct rlock_client *client = team->clients[team->n_clients == 1 ? 0 : i];
        const char *name = opts->n_names > 0 ? opts->names[i] : opts->operands[0];

        status = cli_lock_make(opts, client, name, &team->members[i]);
        team->n_members += status == 0;
    }
    return status;
}

static int make_lock(struct cli_team *team, const struct cli_options *opts)
{
    const struct rlock_opts *redlock = RLOCK_OPTS(.max_lease_ms = opts->max_lease_ms);
    const size_t n = (size_t)team->n_members;
    int code;

    if (opts->is_redlock) {
        code = rlock_redlock_new(team->members, n, redlock, &team->lock);
    } else if (opts->n_names > 0) {
        code = rlock_multi_new(team->members, n, NULL, &team->lock);
    } else {
        team->lock = team->members[0];
        team->n_members = 0;
        return 0;
    }
    return code == 0 ? 0 : cli_fail(opts, NULL, code);
}

int cli_team_open(struct cli_team *team, struct cli_options *opts, struct cli_sink *sink)
{
    int status;

    *team = (struct cli_team){0};
    status = opts->is_redlock ? open_servers(team, opts, sink) : open_one(team, opts, sink);
    if (status == 0) {
        status = make_members(team, opts);
    }
    if (status == 0) {
        status = make_lock(team, opts);
    }
    if (status == 0) {
        team->name = strdup(rlock_name(team->lock, NULL));
        status = team->name != NULL ? 0 : CLI_EXIT_OWN;
    }
    return status;
}

void cli_team_close(struct cli_team *team)
{
    (void)rlock_free(team->lock);
    for (int i = 0; i < team->n_members; i++) {
        (void)rlock_free(team->members[i]);
    }
    for (int i = 0; i < team->n_clients; i++) {
        (void)rlock_client_close(team->clients[i]);
    }
    free(team->name);
    *team = (struct cli_team){0};
}
