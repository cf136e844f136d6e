/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the server is fit for locks: tried where it can be tried, asked where it may be asked. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/ask.h"
#include "lock/internal.h"

struct diagnosis {
    struct rlock_client *client;
    struct rlock__asker asker;
    rlock_finding_fn *fn;
    void *payload;
    int code; /* of the first finding that prevents locks */
};

static void find(struct diagnosis *d, enum rlock_level level, const char *subject,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

static void find(struct diagnosis *d, enum rlock_level level, const char *subject,
                 const char *format, ...)
{
    char text[RLOCK__DETAIL_SIZE];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    d->fn(level, subject, text, d->payload);
}

static void prevent(struct diagnosis *d, const char *subject, int code)
{
    find(d, RLOCK_LOG_ERROR, subject, "%s: %s", rlock_strerror(code), rlock_detail());
    d->code = d->code == 0 ? code : d->code;
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
static void look_at_uptime(struct diagnosis *d, const char *text)
{
    int64_t uptime_s = rlock__bytes_number(rlock__bytes_of(text), -1);
    int64_t left_s = RLOCK__MAX_LEASE_MS / 1000 + 1 - uptime_s; /* a second of uncertainty */

    if (uptime_s < 0) {
        find(d, RLOCK_LOG_INFO, "uptime", "not known: RedLocks cannot tell when it restarted");
    } else if (left_s > 0) {
        find(d, RLOCK_LOG_INFO, "uptime",
             "started %lld s ago: it counts for new RedLocks in %lld s (with max_lease_ms %d)",
             (long long)uptime_s, (long long)left_s, RLOCK__MAX_LEASE_MS);
    }
}

static void look_at_server(struct diagnosis *d)
{
    struct rlock__reply reply;
    char version[64], role[64], uptime[64];

    if (rlock__asker_words(&d->asker, &reply, "INFO", NULL) != 0) {
        prevent(d, "server", RLOCK_ECONN);
        return;
    }
    if (rlock__reply_is_error(&reply)) {
        find(d, RLOCK_LOG_INFO, "server",
             "INFO is not permitted: its version and role are not known, nor when it restarted");
        return;
    }
    info_value(rlock__reply_str(&reply, 0), "redis_version:", version);
    info_value(rlock__reply_str(&reply, 0), "\nrole:", role);
    info_value(rlock__reply_str(&reply, 0), "\nuptime_in_seconds:", uptime);
    find(d, RLOCK_LOG_INFO, "server", "%s, version %s, role %s", d->client->address, version, role);
    look_at_uptime(d, uptime);
    if (strcmp(role, "slave") == 0) {
        find(d, RLOCK_LOG_ERROR, "role", "a replica takes no locks: connect to its master");
        d->code = d->code == 0 ? RLOCK_EREFUSED : d->code;
    }
}

static void look_at_setting(struct diagnosis *d, const char *name, const char *good,
                            const char *meaning)
{
    struct rlock__reply reply;
    struct rlock__bytes value;

    if (rlock__asker_words(&d->asker, &reply, "CONFIG", "GET", name, NULL) != 0) {
        return;
    }
    value = rlock__reply_str(&reply, 1);
    if (rlock__reply_is_error(&reply) || value.len == 0) {
        find(d, RLOCK_LOG_INFO, name, "not known: CONFIG GET is not permitted");
    } else if (!rlock__bytes_equal(value, rlock__bytes_of(good))) {
        find(d, RLOCK_LOG_WARNING, name, "is %.*s: %s", (int)value.len, value.at, meaning);
    }
}

static void try_kill(struct diagnosis *d)
{
    struct rlock__reply reply;

    if (rlock__asker_words(&d->asker, &reply, "CLIENT", "KILL", "ID", "9223372036854775807",
                           NULL) == 0 &&
        rlock__reply_is_error(&reply)) {
        find(d, RLOCK_LOG_WARNING, "fencing",
             "CLIENT KILL is not permitted (+client|kill): after a broken connection some answers "
             "are \"in doubt\"");
    }
}

static void try_subscribe(struct diagnosis *d, const struct rlock *lock)
{
    struct rlock__buf channel = {0};
    struct rlock__reply reply;

    rlock__prefixed_name("redisson_lock__channel", rlock__bytes_of(rlock_name(lock, NULL)),
                         &channel);
    (void)rlock__buf_add(&channel, "", 1);
    if (!channel.failed &&
        rlock__asker_words(&d->asker, &reply, "SUBSCRIBE", channel.data, NULL) == 0 &&
        rlock__reply_is_error(&reply)) {
        find(d, RLOCK_LOG_WARNING, "subscribe",
             "not permitted: waiters ask every %d ms instead of being woken",
             (int)(RLOCK__POLL_US / RLOCK__MS));
    }
    rlock__buf_fini(&channel);
}

/* Every script in turn, on a key of its own that nobody else uses. */
static void try_lock(struct diagnosis *d, struct rlock *lock)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    bool was_locked = false;
    int code = rlock_lock_with(lock, RLOCK_TAKE(.lease_ms = 5000), NULL);

    if (code == 0) {
        code = rlock_try_lock(lock);
    }
    if (code != 0) {
        prevent(d, "acquire", code);
        return;
    }
    code = rlock_inspect(lock, &info);
    if (code != 0) {
        prevent(d, "inspect", code);
    }
    (void)rlock_unlock(lock);
    code = rlock_unlock(lock);
    if (code != 0) {
        prevent(d, "release", code);
    }
    if (code == 0 && rlock_try_lock(lock) == 0) {
        code = rlock_force_unlock(lock, &was_locked);
        (void)rlock_unlock(lock);
        if (code != 0 || !was_locked) {
            prevent(d, "force", code);
        }
    }
}

static void look_at_all(struct diagnosis *d)
{
    struct rlock *lock = NULL;
    char name[64];

    look_at_server(d);
    look_at_setting(d, "maxmemory-policy", "noeviction",
                    "a full server may drop locks; set noeviction");
    look_at_setting(d, "appendonly", "yes", "a crash of the server forgets its locks");
    try_kill(d);
    (void)snprintf(name, sizeof(name), "rlock-doctor:%s", d->client->core.uuid);
    if (rlock_reentrant_new(d->client, name, NULL, &lock) == 0) {
        try_lock(d, lock);
        try_subscribe(d, lock); /* last: the connection is a subscriber's from here on */
        lock = rlock_free(lock);
    }
    if (d->code == 0) {
        find(d, RLOCK_LOG_INFO, "locks", "work");
    }
}

int rlock_client_diagnose(struct rlock_client *client, rlock_finding_fn *fn, void *payload)
{
    struct diagnosis d = {.client = client, .fn = fn, .payload = payload};
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
        prevent(&d, "connection", code);
    } else {
        look_at_all(&d);
    }
    rlock__asker_fini(&d.asker);
    return d.code;
}
