/* SPDX-License-Identifier: Apache-2.0 */
/* Tries every script of every kind of lock, on keys that no other client uses. */
#include <stdio.h>

#include "admin/diagnosis.h"
#include "lock/server/classify.h"

/* A kind whose scripts are tried. */
struct kind {
    const char *name;
    rlock__new_fn *make, *make_rival; /* what it excludes */
    int64_t wait_ms;                  /* of the rival: long enough to queue, where there is one */
    enum rlock__use use;
};

/* Two: the probe takes one, and then one more. */
static int permits_new(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                       struct rlock_handle **ret_lock)
{
    (void)opts;
    return rlock_permits_new(client, name, RLOCK_OPTS(.units = 2), ret_lock);
}

/* The reentrant lock is what all are made of: the rest may be forbidden to who does not use it. */
static const struct kind basic = {"reentrant", rlock_reentrant_new, rlock_reentrant_new, 0,
                                  RLOCK__FOR_ALL};
static const struct kind others[] = {
    {"fenced", rlock_fenced_new, rlock_fenced_new, 0, RLOCK__FOR_FENCED},
    {"fair", rlock_fair_new, rlock_fair_new, 200, RLOCK__FOR_FAIR},
    {"read", rlock_read_new, rlock_write_new, 0, RLOCK__FOR_RW},
    {"write", rlock_write_new, rlock_write_new, 0, RLOCK__FOR_RW},
    {"setnx", rlock_setnx_new, rlock_setnx_new, 0, RLOCK__FOR_SETNX},
    {"permits", permits_new, permits_new, 0, RLOCK__FOR_PERMITS},
};

#define PROBE RLOCK_TAKE(.lease_ms = 10000)

/* One script on the connection of the diagnosis. An error that the server returns is a failure. */
static int ask_script(struct rlock__diagnosis *d, struct rlock__cmd *cmd, const char *meaning)
{
    struct rlock__reply reply;
    char text[200];
    int code = rlock__asker_ask(&d->asker, cmd, &reply);

    if (code == 0 && rlock__reply_is_error(&reply)) {
        code = rlock__fail(rlock__classify(&reply).code, "%s: %s", meaning,
                           rlock__text(rlock__reply_str(&reply, 0), text, sizeof(text)));
    }
    return code;
}

/* Renews a hold that is not there: the server checks the same rights, and changes nothing. */
static int try_renew(struct rlock__diagnosis *d, const struct rlock_handle *lock)
{
    const struct rlock__args ask = {
        .owner = rlock__bytes_of("nobody:0"), .count = 1, .lease_ms = 1, .units = 1};
    struct rlock__cmd cmd = {0};

    lock->spec->ops->renew(lock->spec, &ask, &cmd);
    return ask_script(d, &cmd, "renewals fail, and holds are lost");
}

static int try_rival(struct rlock__diagnosis *d, const struct kind *kind,
                     const struct rlock_handle *lock)
{
    struct rlock_handle *rival = NULL;
    int code = kind->make_rival(d->client, rlock_name(lock, NULL), NULL, &rival);

    if (code == 0) {
        code = rlock_lock_for(rival, kind->wait_ms, RLOCK_TAKE(.owner = rlock_owner_new(d->client)),
                              NULL);
    }
    rival = rlock_free(rival);
    /* in a callback it cannot wait */
    return code == RLOCK_EBUSY || code == RLOCK_ETIMEDOUT || code == RLOCK_EDEADLOCK ? 0 : code;
}

static int try_release(struct rlock_handle *lock)
{
    int code = rlock_unlock(lock);

    return code == 0 ? rlock_unlock(lock) : code;
}

/* The asker takes the lock that is opened by force. If this client had the hold, on_lost would
 * report its loss. */
static int try_force(struct rlock__diagnosis *d, struct rlock_handle *lock)
{
    struct rlock__args ask = {.count = 1, .lease_ms = 10000, .units = 1};
    char owner[RLOCK__UUID_LEN + sizeof(":0")];
    struct rlock__cmd cmd = {0};
    int code;

    (void)snprintf(owner, sizeof(owner), "%s:0", d->client->core.opts.uuid);
    ask.owner = rlock__bytes_of(owner);
    rlock__core_mutex_lock(&d->client->mutex);
    lock->spec->ops->acquire(lock->spec, &ask, &cmd);
    rlock__core_mutex_unlock(&d->client->mutex);
    code = ask_script(d, &cmd, "no lock is granted");
    return code == 0 ? rlock_force_unlock(lock, NULL) : code;
}

static int try_acquire(struct rlock__diagnosis *d, const struct kind *kind,
                       struct rlock_handle *lock)
{
    int code = rlock_lock_for(lock, 0, PROBE, NULL);

    code = code == 0 ? rlock_lock_for(lock, 0, PROBE, NULL) : code;
    return code == 0 ? try_rival(d, kind, lock) : code;
}

/* Returns the code of the first step that fails, and which that is. */
static int try_steps(struct rlock__diagnosis *d, const struct kind *kind, struct rlock_handle *lock,
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
        code = try_force(d, lock);
    }
    return code;
}

/* Gives a semaphore a number with a TTL, which its permits get too. If the diagnosis is killed, the
 * server deletes them. */
static void limit(struct rlock__diagnosis *d, const struct rlock_handle *lock)
{
    struct rlock__reply reply;

    (void)rlock__asker_words(&d->asker, &reply, "SET", lock->spec->key.at, "2", "PX", "60000",
                             NULL);
}

/* Deletes what unlocks leave: the number of a fenced lock, and a semaphore. */
static void forget_number(struct rlock__diagnosis *d, const struct rlock_handle *lock)
{
    struct rlock__buf key = {0};
    struct rlock__cmd cmd = {0};
    struct rlock__reply reply;

    rlock__cmd_arg(&cmd, rlock__bytes_of("DEL"));
    if (rlock__has_units(lock->spec)) {
        rlock__cmd_arg(&cmd, lock->spec->key);
        rlock__suffixed_name(lock->spec->key, "timeout", &key);
    } else {
        rlock__prefixed_name("redisson_lock_token", lock->spec->key, &key);
    }
    rlock__cmd_arg(&cmd, rlock__bytes(key.data, key.len));
    (void)rlock__asker_ask(&d->asker, &cmd, &reply);
    rlock__buf_fini(&key);
}

/* Unlocks what a failed step has left. */
static void give_back(struct rlock_handle *lock)
{
    for (int level = 0; level < 2 && rlock_unlock(lock) != RLOCK_ENOTOWNER; level++) {
    }
}

/* Whether the name's slot is the node's, and stays there. */
static bool is_here(const struct rlock__diagnosis *d, const char *name)
{
    struct rlock__core *core = &d->client->core;
    struct rlock__spec spec = {.core = core};
    struct rlock__buf key = {0};
    bool here;

    if (core->driver.slot == NULL) {
        return true;
    }
    (void)rlock__buf_add(&key, core->opts.prefix.at, core->opts.prefix.len);
    (void)rlock__buf_addf(&key, "%s", name);
    spec.slot = core->driver.slot(rlock__bytes(key.data, key.len));
    rlock__core_mutex_lock(&d->client->mutex);
    here = core->driver.route(core, &spec) == &d->node->server && !d->is_open[spec.slot];
    rlock__core_mutex_unlock(&d->client->mutex);
    rlock__buf_fini(&key);
    return here;
}

/* One slot in 16384 is found by so many tries. False: the prefix has a tag, or there is no slot. */
static bool find_name(const struct rlock__diagnosis *d, const char *word, char *name, size_t size)
{
    for (unsigned i = 0; i < 10 * RLOCK__SLOTS; i++) {
        (void)snprintf(name, size, "rlock-doctor:%s:%s:%u", d->client->core.opts.uuid, word, i);
        if (is_here(d, name)) {
            return true;
        }
    }
    return false;
}

bool rlock__probe_is_possible(const struct rlock__diagnosis *d)
{
    char name[96];

    return find_name(d, "any", name, sizeof(name));
}

struct rlock_handle *rlock__probe_new(struct rlock__diagnosis *d, const char *word,
                                      rlock__new_fn *make)
{
    struct rlock_handle *lock = NULL;
    char name[96];
    int code = find_name(d, word, name, sizeof(name))
                   ? make(d->client, name, NULL, &lock)
                   : rlock__fail(RLOCK_ECONN, "its slots were moved meanwhile");

    if (code != 0) {
        rlock__prevented(d, word, code);
    }
    return lock;
}

static void try_kind(struct rlock__diagnosis *d, const struct kind *kind, struct rlock_handle *lock)
{
    const char *step;
    int code = try_steps(d, kind, lock, &step);

    if (code != 0 && kind->use == RLOCK__FOR_ALL) {
        rlock__prevented(d, step, code);
    } else if (code != 0) {
        rlock__finding(d, RLOCK_LOG_WARNING, kind->name, "such locks will not work (%s): %s", step,
                       rlock_detail());
    }
    give_back(lock);
}

static void try_multi(struct rlock__diagnosis *d, struct rlock_handle *const members[static 2])
{
    struct rlock_handle *lock = NULL;
    int code = rlock_multi_new(members, 2, NULL, &lock);

    code = code == 0 ? rlock_lock_for(lock, 0, PROBE, NULL) : code;
    if (code != 0) {
        rlock__finding(d, RLOCK_LOG_WARNING, "multi", "such locks will not work: %s",
                       rlock_detail());
    } else {
        (void)rlock_unlock(lock);
    }
    (void)rlock_free(lock);
}

static void try_others(struct rlock__diagnosis *d, struct rlock_handle *lock)
{
    struct rlock_handle *members[2] = {lock, rlock__probe_new(d, "multi", rlock_reentrant_new)};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const struct kind *kind = &others[i];
        struct rlock_handle *probe =
            d->lacks[kind->use] ? NULL : rlock__probe_new(d, kind->name, kind->make);

        if (probe != NULL && kind->use == RLOCK__FOR_PERMITS) {
            limit(d, probe);
        }
        if (probe != NULL) {
            try_kind(d, kind, probe);
        }
        if (probe != NULL && (kind->use == RLOCK__FOR_FENCED || kind->use == RLOCK__FOR_PERMITS)) {
            forget_number(d, probe);
        }
        (void)rlock_free(probe);
    }
    if (members[1] != NULL) {
        try_multi(d, members);
    }
    (void)rlock_free(members[1]);
}

/* NULL: nothing is wrong with it. */
static const char *why_no_subscribe(struct rlock__diagnosis *d, const char *command,
                                    struct rlock__bytes to)
{
    struct rlock__cmd cmd = {0};
    struct rlock__reply reply;

    rlock__cmd_arg(&cmd, rlock__bytes_of(command));
    rlock__cmd_arg(&cmd, to);
    return rlock__asker_ask(&d->asker, &cmd, &reply) == 0 && rlock__reply_is_error(&reply)
               ? rlock__refused_how(&reply)
               : NULL;
}

static void try_subscribe(struct rlock__diagnosis *d, const struct rlock_handle *lock)
{
    const struct rlock__bytes channel = lock->spec->channel;
    bool is_sharded = rlock__announces_sharded(d);
    const char *why = is_sharded && d->client->core.opts.announces_both
                          ? why_no_subscribe(d, "SUBSCRIBE", channel)
                          : NULL;

    if (why != NULL) {
        rlock__finding(d, RLOCK_LOG_WARNING, "rights",
                       "+subscribe %s: Redisson before 3.22 is not heard", why);
    }
    why = why_no_subscribe(d, is_sharded ? "SSUBSCRIBE" : "SUBSCRIBE", channel);
    if (why != NULL) {
        rlock__finding(d, RLOCK_LOG_WARNING, "rights",
                       "+%ssubscribe %s: waiters ask every %d ms instead of being woken",
                       is_sharded ? "s" : "", why, (int)(RLOCK__POLL_US / RLOCK__MS));
    }
}

void rlock__probe(struct rlock__diagnosis *d)
{
    struct rlock_handle *lock = rlock__probe_new(d, basic.name, basic.make);

    if (lock == NULL) {
        return;
    }
    try_kind(d, &basic, lock);
    if (d->code == 0) {
        try_others(d, lock);
    }
    try_subscribe(d, lock);
    (void)rlock_free(lock);
}
