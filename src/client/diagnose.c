/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the server is fit for locks: tried where it can be tried, asked where it may be asked. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/rights.h"
#include "client/single.h"
#include "lock/internal.h"

struct diagnosis {
    struct rlock_client *client;
    struct rlock__asker asker;
    rlock_finding_fn *fn;
    void *payload;
    int code;                    /* of the first finding that prevents locks */
    bool lacks[RLOCK__FOR_EASE]; /* some right, by what it is for */
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

static void find_lack(enum rlock__use use, const char *right, const char *meaning, void *payload)
{
    struct diagnosis *d = payload;

    if (use == RLOCK__FOR_ALL) {
        find(d, RLOCK_LOG_ERROR, "rights", "%s is not permitted: %s", right, meaning);
        d->code = d->code == 0 ? RLOCK_EPERM : d->code;
    } else if (use == RLOCK__FOR_EASE) {
        find(d, RLOCK_LOG_WARNING, "rights", "%s is not permitted: %s", right, meaning);
    } else {
        find(d, RLOCK_LOG_WARNING, meaning, "such locks will not work: %s is not permitted", right);
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
static void look_at_uptime(struct diagnosis *d, const char *text)
{
    int64_t uptime_s = rlock__bytes_number(rlock__bytes_of(text), -1);
    int64_t left_s = RLOCK__MAX_LEASE_MS / 1000 + 1 - uptime_s; /* a second of uncertainty */

    if (text[0] == '\0') {
        find(d, RLOCK_LOG_WARNING, "uptime", "not known: RedLocks cannot tell when it restarted");
    } else if (uptime_s < 0) {
        find(d, RLOCK_LOG_WARNING, "uptime",
             "%lld s: its clock was set back; for RedLocks it starts when a client first sees it",
             (long long)uptime_s);
    } else if (left_s > 0) {
        find(d, RLOCK_LOG_INFO, "uptime",
             "started %lld s ago: it counts for new RedLocks in %lld s (with max_lease_ms %d)",
             (long long)uptime_s, (long long)left_s, RLOCK__MAX_LEASE_MS);
    } else {
        find(d, RLOCK_LOG_INFO, "uptime",
             "%lld s by its own clock: RedLocks of clients that never saw it before believe it, "
             "also where that clock was set forward since the start",
             (long long)uptime_s);
    }
}

static void look_at_server(struct diagnosis *d)
{
    struct rlock__reply reply;
    char version[64], valkey[64], role[64], uptime[64];
    int code = rlock__asker_words(&d->asker, &reply, "INFO", NULL);

    if (code != 0) {
        prevent(d, "server", code);
        return;
    }
    if (rlock__reply_is_error(&reply)) {
        find(d, RLOCK_LOG_INFO, "server",
             "INFO is not permitted: its version and role are not known");
        find(d, RLOCK_LOG_WARNING, "uptime", "not known: RedLocks cannot tell when it restarted");
        return;
    }
    info_value(rlock__reply_str(&reply, 0), "redis_version:", version);
    info_value(rlock__reply_str(&reply, 0), "\nvalkey_version:", valkey);
    info_value(rlock__reply_str(&reply, 0), "\nrole:", role);
    info_value(rlock__reply_str(&reply, 0), "\nuptime_in_seconds:", uptime);
    find(d, RLOCK_LOG_INFO, "server", "%s, %s %s, role %s", d->client->address,
         valkey[0] != '\0' ? "Valkey" : "Redis", valkey[0] != '\0' ? valkey : version, role);
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
        find(d, RLOCK_LOG_WARNING, name,
             "not known, CONFIG GET is not permitted; if it is not %s: %s", good, meaning);
    } else if (!rlock__bytes_equal(value, rlock__bytes_of(good))) {
        find(d, RLOCK_LOG_WARNING, name, "is %.*s: %s", (int)value.len, value.at, meaning);
    }
}

static void try_subscribe(struct diagnosis *d, const struct rlock *lock)
{
    struct rlock__cmd cmd = {0};
    struct rlock__reply reply;

    rlock__cmd_arg(&cmd, rlock__bytes_of("SUBSCRIBE"));
    rlock__cmd_arg(&cmd, rlock__single_of(lock)->spec->channel);
    if (rlock__asker_ask(&d->asker, &cmd, &reply) == 0 && rlock__reply_is_error(&reply)) {
        find(d, RLOCK_LOG_WARNING, "rights",
             "+subscribe is not permitted: waiters ask every %d ms instead of being woken",
             (int)(RLOCK__POLL_US / RLOCK__MS));
    }
}

/* ---- Every script, on keys of its own that nobody else uses ---- */

typedef int new_fn(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                   struct rlock **ret_lock);

/* A kind whose scripts are tried. The reentrant lock is what all are made of: the rest may be
 * forbidden to who does not use it. */
struct kind {
    const char *name;
    new_fn *make, *make_rival; /* what it excludes */
    int64_t wait_ms;           /* of the rival: long enough to queue, where there is a queue */
    enum rlock__use use;
};

static const struct kind basic = {"reentrant", rlock_reentrant_new, rlock_reentrant_new, 0,
                                  RLOCK__FOR_ALL};
static const struct kind others[] = {
    {"fenced", rlock_fenced_new, rlock_fenced_new, 0, RLOCK__FOR_FENCED},
    {"fair", rlock_fair_new, rlock_fair_new, 200, RLOCK__FOR_FAIR},
    {"read", rlock_read_new, rlock_write_new, 0, RLOCK__FOR_RW},
    {"write", rlock_write_new, rlock_write_new, 0, RLOCK__FOR_RW},
};

#define PROBE RLOCK_TAKE(.lease_ms = 10000)

/* Of a hold that is not there: that costs the same rights, and does nothing. */
static int try_renew(struct diagnosis *d, const struct rlock *lock)
{
    const struct rlock__ask ask = {.owner = rlock__bytes_of("nobody:0"), .count = 1, .lease_ms = 1};
    const struct rlock__spec *spec = rlock__single_of(lock)->spec;
    struct rlock__cmd cmd = {0};
    struct rlock__reply reply;
    char text[200];
    int code;

    spec->ops->renew(spec, &ask, &cmd);
    code = rlock__asker_ask(&d->asker, &cmd, &reply);
    if (code == 0 && rlock__reply_is_error(&reply)) {
        code = rlock__fail(rlock__classify(&reply).code, "renewals fail, and holds are lost: %s",
                           rlock__text(rlock__reply_str(&reply, 0), text, sizeof(text)));
    }
    return code;
}

static int try_rival(struct diagnosis *d, const struct kind *kind, const struct rlock *lock)
{
    struct rlock *rival = NULL;
    int code = kind->make_rival(d->client, rlock_name(lock, NULL), NULL, &rival);

    if (code == 0) {
        code = rlock_lock_with(
            rival, RLOCK_TAKE(.owner = rlock_owner_new(d->client), .wait_ms = kind->wait_ms), NULL);
    }
    rival = rlock_free(rival);
    /* in a callback it cannot wait */
    return code == RLOCK_EBUSY || code == RLOCK_ETIMEDOUT || code == RLOCK_EDEADLOCK ? 0 : code;
}

static int try_release(struct rlock *lock)
{
    int code = rlock_unlock(lock);

    return code == 0 ? rlock_unlock(lock) : code;
}

static int try_force(struct rlock *lock)
{
    int code = rlock_lock_with(lock, PROBE, NULL);

    return code == 0 ? rlock_force_unlock(lock, NULL) : code;
}

static int try_acquire(struct diagnosis *d, const struct kind *kind, struct rlock *lock)
{
    int code = rlock_lock_with(lock, PROBE, NULL);

    code = code == 0 ? rlock_lock_with(lock, PROBE, NULL) : code;
    return code == 0 ? try_rival(d, kind, lock) : code;
}

/* Returns the code of the first step that fails, and which that is. */
static int try_steps(struct diagnosis *d, const struct kind *kind, struct rlock *lock,
                     const char **ret_step)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    int code = try_acquire(d, kind, lock);

    *ret_step = "acquire";
    if (code == 0) {
        *ret_step = "renew";
        code = try_renew(d, lock);
    }
    if (code == 0) {
        *ret_step = "inspect";
        code = rlock_inspect(lock, &info);
    }
    if (code == 0) {
        *ret_step = "release";
        code = try_release(lock);
    }
    if (code == 0) {
        *ret_step = "force";
        code = try_force(lock);
    }
    return code;
}

/* Numbers of fenced locks have no end, but for this one. */
static void forget_token(struct diagnosis *d, const struct rlock *lock)
{
    struct rlock__buf key = {0};
    struct rlock__cmd cmd = {0};
    struct rlock__reply reply;

    rlock__prefixed_name("redisson_lock_token", rlock__single_of(lock)->spec->key, &key);
    rlock__cmd_arg(&cmd, rlock__bytes_of("DEL"));
    rlock__cmd_arg(&cmd, rlock__bytes(key.data, key.len));
    (void)rlock__asker_ask(&d->asker, &cmd, &reply);
    rlock__buf_fini(&key);
}

/* What a step that failed has left; and a hold that was forced is lost, and wants its unlock. */
static void give_back(struct rlock *lock)
{
    for (int level = 0; level < 2 && rlock_unlock(lock) != RLOCK_ENOTOWNER; level++) {
    }
}

static void try_basic(struct diagnosis *d, struct rlock *lock)
{
    const char *step;
    int code = try_steps(d, &basic, lock, &step);

    if (code != 0) {
        prevent(d, step, code);
    }
    give_back(lock);
}

static void try_other(struct diagnosis *d, const struct kind *kind, struct rlock *lock)
{
    const char *step;

    if (try_steps(d, kind, lock, &step) != 0) {
        find(d, RLOCK_LOG_WARNING, kind->name, "such locks will not work (%s): %s", step,
             rlock_detail());
    }
    give_back(lock);
}

static struct rlock *make_probe(struct diagnosis *d, const struct kind *kind)
{
    struct rlock *lock = NULL;
    char name[64];
    int code;

    (void)snprintf(name, sizeof(name), "rlock-doctor:%s:%s", d->client->core.uuid, kind->name);
    code = kind->make(d->client, name, NULL, &lock);
    if (code != 0) {
        prevent(d, kind->name, code);
    }
    return lock;
}

static void try_multi(struct diagnosis *d, struct rlock *const members[static 2])
{
    struct rlock *lock = NULL;
    int code = rlock_multi_new(members, 2, NULL, &lock);

    code = code == 0 ? rlock_lock_with(lock, PROBE, NULL) : code;
    if (code != 0) {
        find(d, RLOCK_LOG_WARNING, "multi", "such locks will not work: %s", rlock_detail());
    } else {
        (void)rlock_unlock(lock);
    }
    (void)rlock_free(lock);
}

static void try_others(struct diagnosis *d, struct rlock *lock)
{
    static const struct kind second = {"multi", rlock_reentrant_new, rlock_reentrant_new, 0,
                                       RLOCK__FOR_ALL};
    struct rlock *members[2] = {lock, make_probe(d, &second)};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct rlock *probe = d->lacks[others[i].use] ? NULL : make_probe(d, &others[i]);

        if (probe != NULL) {
            try_other(d, &others[i], probe);
        }
        if (probe != NULL && others[i].make == rlock_fenced_new) {
            forget_token(d, probe);
        }
        (void)rlock_free(probe);
    }
    if (members[1] != NULL) {
        try_multi(d, members);
    }
    (void)rlock_free(members[1]);
}

static void try_rights(struct diagnosis *d)
{
    static const struct kind nobody = {"rights", rlock_reentrant_new, NULL, 0, RLOCK__FOR_ALL};
    struct rlock *lock = make_probe(d, &nobody);
    int code = 0;

    if (lock != NULL) {
        code = rlock__rights_try(&d->asker, d->client->core.prefix,
                                 rlock__single_of(lock)->spec->key, find_lack, d);
    }
    if (code != 0) {
        prevent(d, "connection", code);
    }
    (void)rlock_free(lock);
}

static void look_at_all(struct diagnosis *d)
{
    struct rlock *lock;

    look_at_server(d);
    look_at_setting(d, "maxmemory-policy", "noeviction",
                    "a full server may drop locks; set noeviction");
    look_at_setting(d, "appendonly", "yes", "a crash of the server forgets its locks");
    try_rights(d);
    lock = d->code == 0 ? make_probe(d, &basic) : NULL;
    if (lock != NULL) {
        try_basic(d, lock);
    }
    if (d->code == 0) {
        try_others(d, lock);
    }
    if (lock != NULL) {
        try_subscribe(d, lock); /* last: the connection is a subscriber's from here on */
    }
    (void)rlock_free(lock);
    if (d->code == 0) {
        find(d, RLOCK_LOG_INFO, "locks", "work");
    }
}

int rlock_client_diagnose(struct rlock_client *client, rlock_finding_fn *fn, void *payload)
{
    RLOCK__WHOLE;
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
