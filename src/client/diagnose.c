/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the server is fit for locks: tried where it can be tried, asked where it may be asked. */
#include "client/diagnosis.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/single.h"

void rlock__finding(struct rlock__diagnosis *d, enum rlock_level level, const char *subject,
                    const char *format, ...)
{
    char text[RLOCK__DETAIL_SIZE];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    d->fn(level, subject, text, d->payload);
}

void rlock__prevented(struct rlock__diagnosis *d, const char *subject, int code)
{
    rlock__finding(d, RLOCK_LOG_ERROR, subject, "%s: %s", rlock_strerror(code), rlock_detail());
    d->code = d->code == 0 ? code : d->code;
}

static void find_lack(enum rlock__use use, const char *right, const char *meaning, void *payload)
{
    struct rlock__diagnosis *d = payload;

    if (use == RLOCK__FOR_ALL) {
        rlock__finding(d, RLOCK_LOG_ERROR, "rights", "%s is not permitted: %s", right, meaning);
        d->code = d->code == 0 ? RLOCK_EPERM : d->code;
    } else if (use == RLOCK__FOR_EASE) {
        rlock__finding(d, RLOCK_LOG_WARNING, "rights", "%s is not permitted: %s", right, meaning);
    } else {
        rlock__finding(d, RLOCK_LOG_WARNING, meaning,
                       "such locks will not work: %s is not permitted", right);
        d->lacks[use] = true;
    }
}

/* The value of "name:value" in INFO's text, or of CONFIG GET; empty where there is none. */
static void info_value(struct rlock__bytes text, const char *name, char out[static 64])
{
    const char *at = memmem(text.at, text.len, name, strlen(name));
    size_t n = 0;

    for (at = at != NULL ? at + strlen(name) : text.at + text.len;
         at < text.at + text.len && *at != '\r' && n < 63; at++) {
        out[n++] = *at;
    }
    out[n] = '\0';
}

/* A server that has just started may have forgotten what it held. */
static void look_at_uptime(struct rlock__diagnosis *d, const char *text)
{
    int64_t uptime_s = rlock__bytes_number(rlock__bytes_of(text), -1);
    int64_t left_s = RLOCK__MAX_LEASE_MS / 1000 + 1 - uptime_s; /* a second of uncertainty */

    if (text[0] == '\0') {
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
    char version[64], valkey[64], role[64], uptime[64];
    int code = rlock__asker_words(&d->asker, &reply, "INFO", NULL);

    if (code != 0) {
        rlock__prevented(d, "server", code);
        return;
    }
    if (rlock__reply_is_error(&reply)) {
        rlock__finding(d, RLOCK_LOG_INFO, "server",
                       "INFO is not permitted: its version and role are not known");
        rlock__finding(d, RLOCK_LOG_WARNING, "uptime",
                       "not known: RedLocks cannot tell when it restarted");
        return;
    }
    info_value(rlock__reply_str(&reply, 0), "redis_version:", version);
    info_value(rlock__reply_str(&reply, 0), "\nvalkey_version:", valkey);
    info_value(rlock__reply_str(&reply, 0), "\nrole:", role);
    info_value(rlock__reply_str(&reply, 0), "\nuptime_in_seconds:", uptime);
    rlock__finding(d, RLOCK_LOG_INFO, "server", "%s, %s %s, role %s", d->client->address,
                   valkey[0] != '\0' ? "Valkey" : "Redis", valkey[0] != '\0' ? valkey : version,
                   role);
    look_at_uptime(d, uptime);
    if (strcmp(role, "slave") == 0) {
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
        rlock__finding(d, RLOCK_LOG_WARNING, name,
                       "not known, CONFIG GET is not permitted; if it is not %s: %s", good,
                       meaning);
    } else if (!rlock__bytes_equal(value, rlock__bytes_of(good))) {
        rlock__finding(d, RLOCK_LOG_WARNING, name, "is %.*s: %s", (int)value.len, value.at,
                       meaning);
    }
}

static void try_subscribe(struct rlock__diagnosis *d, const struct rlock_handle *lock)
{
    struct rlock__cmd cmd = {0};
    struct rlock__reply reply;

    rlock__cmd_arg(&cmd, rlock__bytes_of("SUBSCRIBE"));
    rlock__cmd_arg(&cmd, rlock__single_of(lock)->spec->channel);
    if (rlock__asker_ask(&d->asker, &cmd, &reply) == 0 && rlock__reply_is_error(&reply)) {
        rlock__finding(
            d, RLOCK_LOG_WARNING, "rights",
            "+subscribe is not permitted: waiters ask every %d ms instead of being woken",
            (int)(RLOCK__POLL_US / RLOCK__MS));
    }
}

static void try_rights(struct rlock__diagnosis *d)
{
    struct rlock_handle *lock = rlock__probe_new(d, "rights");
    int code = 0;

    if (lock != NULL) {
        code = rlock__rights_try(&d->asker, d->client->core.prefix,
                                 rlock__single_of(lock)->spec->key, find_lack, d);
    }
    if (code != 0) {
        rlock__prevented(d, "connection", code);
    }
    (void)rlock_free(lock);
}

static void look_at_all(struct rlock__diagnosis *d)
{
    struct rlock_handle *lock;

    look_at_server(d);
    look_at_setting(d, "maxmemory-policy", "noeviction",
                    "a full server may drop locks; set noeviction");
    look_at_setting(d, "appendonly", "yes", "a crash of the server forgets its locks");
    try_rights(d);
    lock = d->code == 0 ? rlock__probe_new(d, "reentrant") : NULL;
    if (lock != NULL) {
        rlock__probe_basic(d, lock);
    }
    if (d->code == 0) {
        rlock__probe_others(d, lock);
    }
    if (lock != NULL) {
        try_subscribe(d, lock); /* last: the connection is a subscriber's from here on */
    }
    (void)rlock_free(lock);
    if (d->code == 0) {
        rlock__finding(d, RLOCK_LOG_INFO, "locks", "work");
    }
}

int rlock_client_diagnose(struct rlock_client *client, rlock_finding_fn *fn, void *payload)
{
    RLOCK__WHOLE;
    struct rlock__diagnosis d = {.client = client, .fn = fn, .payload = payload};
    int code;

    rlock__detail_clear();
    if (client == NULL || fn == NULL) {
        return rlock__fail(RLOCK_EINVAL, "client or fn is NULL");
    }
    code = rlock__client_check(client);
    if (code != 0) {
        return code;
    }
    code = rlock__asker_init(&d.asker, client, RLOCK__NEVER);
    if (code != 0) {
        rlock__prevented(&d, "connection", code);
    } else {
        look_at_all(&d);
    }
    rlock__asker_fini(&d.asker);
    return d.code;
}
