/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the server about a lock, and forcing one open. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/sized.h"
#include "client/ask.h"
#include "client/lock.h"
#include "multi/composite.h"

/* What a command's reader is given, and gives back. */
struct query {
    const struct rlock *lock;
    struct rlock_info info;
    struct rlock__buf seen; /* who holds, as the kind says it */
    bool opened;
};

static struct query *query_of(struct rlock__call *call)
{
    return call->reader;
}

static int read_info(struct rlock__call *call, const struct rlock__reply *reply)
{
    struct query *query = query_of(call);

    query->lock->spec->ops->read_inspect(reply, &query->info, &query->seen);
    return query->seen.failed ? RLOCK_ENOMEM : 0;
}

static int read_force(struct rlock__call *call, const struct rlock__reply *reply)
{
    struct query *query = query_of(call);

    query->opened = query->lock->spec->ops->read_release(reply).outcome == RLOCK__DONE;
    return 0;
}

static bool is_mine(const struct rlock_client *client, const char *holder)
{
    return strncmp(holder, client->core.uuid, RLOCK__UUID_LEN) == 0 &&
           holder[RLOCK__UUID_LEN] == ':';
}

/* Runs a query; why it failed names the lock. */
static int run(const struct rlock *lock, struct rlock__call *call)
{
    int code = rlock__run(lock->client, call, NULL);
    char name[96];

    return code == 0 ? 0
                     : rlock__fail(code, "lock %s: %s",
                                   rlock__text(lock->spec->name, name, sizeof(name)), call->detail);
}

static int inspect(const struct rlock *lock, struct query *query)
{
    struct rlock__call call = {
        .kind = RLOCK__COMMAND, .spec = lock->spec, .read = read_info, .reader = query};
    int code;

    query->lock = lock;
    lock->spec->ops->inspect(lock->spec, &call.cmd);
    code = run(lock, &call);
    query->info.mine = code == 0 && is_mine(lock->client, query->info.holder);
    return code;
}

static int inspect_one(const struct rlock *lock, struct rlock_info *ret_info)
{
    struct query query = {.info = RLOCK_INFO_INIT};
    struct rlock_client *client = lock->client;
    int64_t deadline = rlock__now_us() + client->core.op_timeout_us;
    int code = inspect(lock, &query);

    rlock__buf_fini(&query.seen);
    if (code == 0 && query.info.locked) {
        rlock__holder_address(client, &query.info, deadline);
    }
    *ret_info = query.info;
    return code;
}

/* The first member that somebody holds speaks for the whole. A member that cannot be asked
 * counts as held, as it would for who takes it. */
static int inspect_members(const struct rlock *lock, struct rlock_info *ret_info)
{
    const struct rlock__composite *composite = lock->composite;
    size_t spare = composite->ops->counts_alone ? composite->n - composite->quorum : 0;
    size_t held = 0, failed = 0;
    int code = 0;

    *ret_info = (struct rlock_info){.size = sizeof(*ret_info), .ttl_ms = -2};
    for (size_t i = 0; i < composite->n; i++) {
        const struct rlock member = rlock__lock_of(composite->members[i]);
        struct rlock_info info;
        int result = inspect_one(&member, &info);

        if (result != 0) {
            code = result;
            failed++;
        } else if (info.locked && held++ == 0) {
            *ret_info = info;
        }
    }
    ret_info->holders = (uint32_t)held;
    ret_info->locked = held + failed > spare;
    return failed > spare ? code : 0;
}

int rlock_inspect(struct rlock *lock, struct rlock_info *ret_info)
{
    RLOCK__WHOLE;
    struct rlock_info info;
    int code = rlock__lock_begin(lock);

    if (code == 0 && (ret_info == NULL || !rlock__sized_is_valid(ret_info))) {
        code = rlock__fail(RLOCK_EINVAL, "ret_info is NULL, or its size is not set");
    }
    if (code == 0) {
        code = lock->composite != NULL ? inspect_members(lock, &info) : inspect_one(lock, &info);
    }
    if (code != 0) {
        return code;
    }
    rlock__sized_give(ret_info, &info);
    return 0;
}

/* Tells the core of those holds of ours that are no more: each is named by our UUID, a colon, and
 * its number. */
static void forced(struct rlock_client *client, struct rlock__bytes seen)
{
    const char *uuid = client->core.uuid, *end, *at;

    if (seen.len == 0) {
        return;
    }
    end = seen.at + seen.len;
    at = memmem(seen.at, seen.len, uuid, RLOCK__UUID_LEN);
    rlock__enter(client);
    while (at != NULL) {
        at += RLOCK__UUID_LEN;
        if (at < end && *at == ':') {
            struct rlock__bytes rest = rlock__bytes(at + 1, (size_t)(end - at) - 1);

            rlock__core_forced(&client->core, (uint64_t)rlock__bytes_number(rest, 0),
                               rlock__now_us());
        }
        at = memmem(at, (size_t)(end - at), uuid, RLOCK__UUID_LEN);
    }
    rlock__leave(client);
    rlock__drive(client);
}

static int force(const struct rlock *lock, struct query *query)
{
    struct rlock_client *client = lock->client;
    struct rlock__call call = {.kind = RLOCK__COMMAND,
                               .spec = lock->spec,
                               .read = read_force,
                               .reader = query,
                               .once = true};
    struct rlock__ask ask = {.seen = rlock__bytes(query->seen.data, query->seen.len),
                             .publish = "PUBLISH"};
    int code;

    lock->spec->ops->force(lock->spec, &ask, &call.cmd);
    code = run(lock, &call);
    if (code == 0 && !query->opened) {
        return rlock__fail(RLOCK_EBUSY, "lock %s: its holder changed meanwhile",
                           lock->spec->name.at);
    }
    if (code == 0) {
        forced(client, ask.seen);
    }
    return code;
}

static int force_one(const struct rlock *lock, bool *ret_was_locked)
{
    struct query query = {.info = RLOCK_INFO_INIT};
    int code = inspect(lock, &query);

    if (code == 0 && query.info.locked) {
        code = force(lock, &query);
    }
    *ret_was_locked = code == 0 && query.info.locked;
    rlock__buf_fini(&query.seen);
    return code;
}

/* All that can be opened are; the first error is the whole's. */
static int force_members(const struct rlock *lock, bool *ret_was_locked)
{
    int code = 0;

    *ret_was_locked = false;
    for (size_t i = 0; i < lock->composite->n; i++) {
        const struct rlock member = rlock__lock_of(lock->composite->members[i]);
        bool was_locked;
        int result = force_one(&member, &was_locked);

        if (result == RLOCK_EBUSY) { /* it may have been left with the one before */
            result = force_one(&member, &was_locked);
        }
        code = code == 0 ? result : code;
        *ret_was_locked |= was_locked;
    }
    return code;
}

int rlock_force_unlock(struct rlock *lock, bool *ret_was_locked)
{
    RLOCK__WHOLE;
    bool was_locked = false;
    int code = rlock__lock_begin(lock);

    if (code == 0) {
        code = lock->composite != NULL ? force_members(lock, &was_locked)
                                       : force_one(lock, &was_locked);
    }
    if (code == 0 && ret_was_locked != NULL) {
        *ret_was_locked = was_locked;
    }
    return code;
}
