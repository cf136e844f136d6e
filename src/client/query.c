/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the server about a lock of one key, and forcing one open. */
#include <stdio.h>

#include "base/clock.h"
#include "client/ask.h"
#include "client/lock.h"

/* What a command's reader is given, and gives back. */
struct query {
    struct rlock__spec *spec;
    struct rlock_info info;
    struct rlock__buf seen; /* who holds, as the kind says it */
    bool opened;
};

static int read_info(struct rlock__call *call, const struct rlock__reply *reply)
{
    struct query *query = call->reader;

    query->spec->ops->read_inspect(reply, &query->info, &query->seen);
    return query->seen.failed ? RLOCK_ENOMEM : 0;
}

static int read_force(struct rlock__call *call, const struct rlock__reply *reply)
{
    struct query *query = call->reader;

    query->opened = query->spec->ops->read_release(reply).outcome == RLOCK__DONE;
    return 0;
}

/* Runs a query; why it failed names the lock. */
static int run(const struct rlock__spec *spec, struct rlock__call *call)
{
    int code = rlock__run(rlock__client_of(spec->core), call);
    char name[96];

    return code == 0 ? 0
                     : rlock__fail(code, "lock %s: %s", rlock__text(spec->name, name, sizeof(name)),
                                   call->detail);
}

static int inspect(struct rlock__spec *spec, struct query *query)
{
    struct rlock__call call = {
        .kind = RLOCK__COMMAND, .spec = spec, .read = read_info, .reader = query};
    int code;

    query->spec = spec;
    spec->ops->inspect(spec, &call.cmd);
    code = run(spec, &call);
    query->info.mine = code == 0 &&
                       strncmp(query->info.holder, spec->core->uuid, RLOCK__UUID_LEN) == 0 &&
                       query->info.holder[RLOCK__UUID_LEN] == ':';
    return code;
}

/* ---- Where a holder lives: its connections are named rlock:<uuid>:<host>:<pid> ---- */

static void parse_address(const char *at, const char *end, struct rlock_info *info)
{
    const char *colon = memchr(at, ':', (size_t)(end - at));

    if (colon != NULL) {
        (void)snprintf(info->host, sizeof(info->host), "%.*s", (int)rlock__min(colon - at, 127),
                       at);
        info->pid = rlock__bytes_number(rlock__bytes(colon + 1, (size_t)(end - colon - 1)), 0);
    }
}

/* Where the lock is, and its holder connected. */
static struct rlock__node *node_of(const struct rlock__spec *spec)
{
    struct rlock_client *client = rlock__client_of(spec->core);
    struct rlock__server *server;

    rlock__enter(client);
    server = rlock__route(spec)->server;
    rlock__core_mutex_unlock(&client->mutex);
    return rlock__node_of(server);
}

/* Fills in where the holder lives, if it is one of ours and the server lets us know. */
static void find_address(struct rlock__node *node, struct rlock_info *info, int64_t deadline)
{
    struct rlock__asker asker = {0};
    struct rlock__reply reply;
    struct rlock__bytes list;
    char name[64];
    const char *at;

    (void)snprintf(name, sizeof(name), "name=rlock:%.36s:", info->holder);
    if (rlock__asker_init(&asker, node, deadline) == 0 &&
        rlock__asker_words(&asker, &reply, "CLIENT", "LIST", "TYPE", "normal", NULL) == 0 &&
        !rlock__reply_is_error(&reply)) {
        list = rlock__reply_str(&reply, 0);
        at = memmem(list.at, list.len, name, strlen(name));
        if (at != NULL) {
            const char *end = memchr(at, '\n', (size_t)(list.at + list.len - at));

            parse_address(at + strlen(name), end != NULL ? end : list.at + list.len, info);
        }
    }
    rlock__asker_fini(&asker);
    rlock__detail_clear(); /* not knowing is no failure */
}

/* ---- Asking, and forcing ---- */

int rlock__single_inspect(struct rlock__spec *spec, struct rlock_info *ret_info)
{
    struct query query = {.info = RLOCK_INFO_INIT};
    struct rlock_client *client = rlock__client_of(spec->core);
    int64_t deadline = rlock__now_us() + client->core.op_timeout_us;
    int code = inspect(spec, &query);

    rlock__buf_fini(&query.seen);
    if (code == 0 && query.info.locked) {
        find_address(node_of(spec), &query.info, deadline);
    }
    *ret_info = query.info;
    return code;
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

static int force(struct rlock__spec *spec, struct query *query)
{
    struct rlock__call call = {
        .kind = RLOCK__COMMAND, .spec = spec, .read = read_force, .reader = query, .once = true};
    struct rlock__args ask = {.seen = rlock__bytes(query->seen.data, query->seen.len)};
    int code;

    spec->ops->force(spec, &ask, &call.cmd);
    code = run(spec, &call);
    if (code == 0 && !query->opened) {
        return rlock__fail(RLOCK_EBUSY, "lock %s: its holder changed meanwhile", spec->name.at);
    }
    if (code == 0) {
        forced(rlock__client_of(spec->core), ask.seen);
    }
    return code;
}

int rlock__single_force(struct rlock__spec *spec, bool *ret_was_locked)
{
    struct query query = {.info = RLOCK_INFO_INIT};
    int code = inspect(spec, &query);

    if (code == 0 && query.info.locked) {
        code = force(spec, &query);
    }
    *ret_was_locked = code == 0 && query.info.locked;
    rlock__buf_fini(&query.seen);
    return code;
}
