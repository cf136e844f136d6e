/* SPDX-License-Identifier: Apache-2.0 */
/* rlock_admin_diagnose(): reports whether the servers are fit for locks. It tries what can be
 * tried, and asks the servers for the rest. */
#include "admin/diagnosis.h"

#include "net/hello.h"

/* A server that has just started may have forgotten what it held. */
static void look_at_uptime(struct rlock__diagnosis *d, struct rlock__bytes text)
{
    int64_t uptime_s = rlock__bytes_number(text, -1);
    /* with a second of uncertainty */
    int64_t left_s = RLOCK__MAX_LEASE_MS / 1000 + 1 - rlock__max(uptime_s, 0);

    if (text.len == 0) {
        rlock__finding(d, RLOCK_LOG_WARNING, "uptime",
                       "not known: RedLocks cannot tell when it restarted");
    } else if (uptime_s < 0) {
        rlock__finding(
            d, RLOCK_LOG_WARNING, "uptime",
            "%lld s: its clock was set back; for RedLocks it starts when a client first sees it",
            (long long)uptime_s);
    } else if (left_s > 0) {
        rlock__finding(
            d, RLOCK_LOG_INFO, "uptime",
            "started %lld s ago: it counts for new RedLocks in %lld s (with max_lease_ms %d)",
            (long long)uptime_s, (long long)left_s, RLOCK__MAX_LEASE_MS);
    } else {
        rlock__finding(
            d, RLOCK_LOG_INFO, "uptime",
            "%lld s by its own clock: RedLocks of clients that never saw it before believe it, "
            "also where that clock was set forward since the start",
            (long long)uptime_s);
    }
}

static void look_at_server(struct rlock__diagnosis *d)
{
    struct rlock__reply reply;
    struct rlock__bytes info, version, valkey, role;
    int code = rlock__asker_words(&d->asker, &reply, "INFO", NULL);

    if (code != 0) {
        rlock__prevented(d, "server", code);
        return;
    }
    if (rlock__reply_is_error(&reply)) {
        rlock__finding(d, RLOCK_LOG_INFO, "server", "INFO %s: its version and role are not known",
                       rlock__refused_how(&reply));
        look_at_uptime(d, rlock__bytes("", 0));
        return;
    }
    info = rlock__reply_str(&reply, 0);
    version = rlock__info_field(info, "redis_version:");
    valkey = rlock__info_field(info, "\nvalkey_version:");
    role = rlock__info_field(info, "\nrole:");
    version = valkey.len != 0 ? valkey : version;
    rlock__finding(d, RLOCK_LOG_INFO, "server", "%s%s%s %.*s, role %.*s",
                   d->about == NULL ? d->client->address : "", d->about == NULL ? ", " : "",
                   valkey.len != 0 ? "Valkey" : "Redis", (int)version.len, version.at,
                   (int)role.len, role.at);
    if (d->client->router == NULL) { /* a RedLock's member is one server */
        look_at_uptime(d, rlock__info_field(info, "\nuptime_in_seconds:"));
    }
    if (rlock__bytes_equal(role, rlock__bytes_of("slave"))) {
        rlock__finding(d, RLOCK_LOG_ERROR, "role",
                       "a replica takes no locks: connect to its master");
        d->code = d->code == 0 ? RLOCK_EREFUSED : d->code;
    }
}

static void look_at_setting(struct rlock__diagnosis *d, const char *name, const char *good,
                            const char *meaning)
{
    struct rlock__reply reply;
    struct rlock__bytes value;

    if (rlock__asker_words(&d->asker, &reply, "CONFIG", "GET", name, NULL) != 0) {
        return;
    }
    value = rlock__reply_str(&reply, 1);
    if (rlock__reply_is_error(&reply) || value.len == 0) {
        rlock__finding(d, RLOCK_LOG_WARNING, name, "not known, CONFIG GET %s; if it is not %s: %s",
                       rlock__reply_is_error(&reply) ? rlock__refused_how(&reply) : "does not tell",
                       good, meaning);
    } else if (!rlock__bytes_equal(value, rlock__bytes_of(good))) {
        rlock__finding(d, RLOCK_LOG_WARNING, name, "is %.*s: %s", (int)value.len, value.at,
                       meaning);
    }
}

static void try_rights(struct rlock__diagnosis *d)
{
    struct rlock_handle *lock = rlock__probe_new(d, "rights", rlock_reentrant_new);
    int code = 0;

    if (lock != NULL) {
        code = rlock__rights_try(d, lock->spec->key);
    }
    if (code != 0) {
        rlock__prevented(d, "connection", code);
    }
    (void)rlock_free(lock);
}

static void look_at_settings(struct rlock__diagnosis *d)
{
    look_at_setting(d, "maxmemory-policy", "noeviction",
                    "a full server may drop locks; set noeviction");
    look_at_setting(d, "appendonly", "yes", "a crash of the server forgets its locks");
}

static void try_locks(struct rlock__diagnosis *d)
{
    if (!rlock__probe_is_possible(d)) {
        rlock__finding(d, RLOCK_LOG_INFO, "slots",
                       "none that stays here is for locks of this prefix: no lock was tried");
        return;
    }
    try_rights(d);
    if (d->code == 0) {
        rlock__probe(d);
    }
}

/* of_all: it is also asked for what all servers have in common. */
static void look_at_node(struct rlock__diagnosis *d, bool of_all)
{
    int code = rlock__asker_init(&d->asker, d->node, RLOCK__NEVER);

    if (code != 0) {
        rlock__prevented(d, "connection", code);
        return;
    }
    d->asker.reconnects = d->client;
    d->asker.conn_opts = &d->node->conn_opts;
    d->asker.n_hung_up = 0;
    look_at_server(d);
    if (d->client->core.driver.slot != NULL) {
        rlock__look_at_cluster(d, of_all);
    } else if (d->client->router != NULL) {
        rlock__look_at_primary(d);
    }
    look_at_settings(d);
    try_locks(d);
    if (d->asker.n_hung_up > 0) {
        rlock__finding(d, RLOCK_LOG_WARNING, "connection",
                       "the server closes it at a command that it does not support (%u commands "
                       "here): calls in flight on it have no answer then",
                       d->asker.n_hung_up);
    }
}

static void look_at_nodes(struct rlock__diagnosis *d, const struct rlock__primaries *primaries)
{
    bool of_all = true;
    int code = 0;

    for (size_t i = 0; i < primaries->n; i++) {
        d->node = primaries->nodes[i];
        d->about = d->client->router != NULL ? d->node->address : NULL;
        d->code = 0;
        memset(d->lacks, 0, sizeof(d->lacks));
        memset(d->is_open, 0, sizeof(d->is_open));
        look_at_node(d, of_all);
        of_all = of_all && !rlock__asker_is_up(&d->asker);
        rlock__asker_fini(&d->asker);
        code = code == 0 ? d->code : code;
    }
    d->about = NULL;
    d->code = code;
}

int rlock_admin_diagnose(struct rlock_client *client, rlock_finding_fn *fn, void *payload)
{
    RLOCK__WHOLE;
    struct rlock__diagnosis d = {.client = client, .fn = fn, .payload = payload};
    struct rlock__primaries primaries = {0};
    int code = rlock__primaries_check(client, fn != NULL);

    if (code != 0) {
        return code;
    }
    if (client->uri.primary != NULL) {
        rlock__look_at_sentinels(&d);
    }
    code = rlock__primaries_find(client, &primaries);
    if (code != 0) {
        rlock__prevented(&d, "connection", code);
    } else {
        look_at_nodes(&d, &primaries);
    }
    if (d.code == 0) {
        rlock__finding(&d, RLOCK_LOG_INFO, "locks", "work");
    }
    rlock__primaries_fini(&primaries);
    return d.code;
}
