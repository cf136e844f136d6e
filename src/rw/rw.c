/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two sides of a read/write lock share. One hash holds both: `mode` is "read" or "write",
 * "uuid:number" a reader's count, "uuid:number:write" the writer's. Each level of a read hold has a
 * key of its own, {key}:uuid:number:rwlock_timeout:n, whose TTL is that level's lease: so readers'
 * leases end one by one, though the hash has one TTL.
 */
#include "rw/rw.h"

#include <stdio.h>

#include <lua_scripts.h>

#include "lock/plain.h"

#define DIGEST_LEN 40
#define YIELD_RECHECK_MS 2000 /* keeps a waiting writer's request alive, which lasts 5 s */

void rlock__rw_channel(struct rlock__bytes key, struct rlock__buf *ret_channel)
{
    rlock__prefixed_name("redisson_rwlock", key, ret_channel);
}

static void add_keys(struct rlock__bytes key, struct rlock__cmd *cmd)
{
    struct rlock__buf levels = {0};

    rlock__cmd_key(cmd, key);
    rlock__suffixed_name(key, "", &levels);
    rlock__cmd_key(cmd, rlock__bytes(levels.data, levels.len));
    cmd->keys.failed |= levels.failed;
    rlock__buf_fini(&levels);
}

void rlock__rw_keys(const struct rlock__spec *spec, struct rlock__cmd *cmd)
{
    add_keys(spec->key, cmd);
}

void rlock__rw_yield_key(const struct rlock__spec *spec, struct rlock__cmd *cmd)
{
    if (spec->tuning.prefer_writers) {
        rlock__prefixed_key("rlock_writer_waits", spec->key, cmd);
    }
}

void rlock__rw_inspect(struct rlock__bytes key, const char *side, const char *uuid,
                       struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_rw_inspect;
    add_keys(key, ret_cmd);
    rlock__cmd_arg(ret_cmd, rlock__bytes_of(side));
    rlock__cmd_arg(ret_cmd, rlock__bytes_of(uuid != NULL ? uuid : ""));
}

void rlock__rw_force(const struct rlock__spec *spec, const struct rlock__ask *ask,
                     struct rlock__cmd *ret_cmd)
{
    size_t len = ask->seen.len < DIGEST_LEN ? ask->seen.len : DIGEST_LEN;

    ret_cmd->script = &rlock__script_rw_force;
    rlock__rw_keys(spec, ret_cmd);
    rlock__cmd_arg(ret_cmd, rlock__bytes_of(spec->ops->kind));
    rlock__cmd_arg(ret_cmd, rlock__bytes(ask->seen.at, len));
    rlock__cmd_arg(ret_cmd, rlock__bytes_of(ask->publish));
    rlock__cmd_arg(ret_cmd, spec->channel);
}

struct rlock__answer rlock__rw_read_acquire(const struct rlock__spec *spec,
                                            const struct rlock__reply *reply)
{
    struct rlock__answer answer = rlock__plain_read_acquire(spec, reply);

    if (answer.outcome == RLOCK__BUSY && rlock__reply_int(reply, 3, 0) == 1) {
        answer.recheck_ms = YIELD_RECHECK_MS;
    }
    return answer;
}

struct rlock__answer rlock__rw_read_release(const struct rlock__reply *reply)
{
    struct rlock__answer answer = rlock__plain_read_release(reply);

    answer.shared = answer.outcome == RLOCK__DONE && rlock__reply_int(reply, 2, 0) == 1;
    return answer;
}

/* The digest of what is seen, and the holds of the client that asks: a line each. */
static void add_seen(const struct rlock__reply *reply, struct rlock__buf *seen)
{
    for (size_t i = 5; i < reply->n; i++) {
        struct rlock__bytes part = rlock__reply_str(reply, i);

        (void)rlock__buf_add(seen, part.at, part.len);
        (void)rlock__buf_add(seen, "\n", 1);
    }
}

void rlock__rw_read_inspect(const struct rlock__reply *reply, struct rlock_info *ret_info,
                            struct rlock__buf *ret_seen)
{
    static const char suffix[] = ":write";
    struct rlock__bytes holder = rlock__reply_str(reply, 2), count = rlock__reply_str(reply, 3);
    struct rlock__bytes mode = rlock__reply_str(reply, 4);

    if (holder.len > sizeof(suffix) && /* whose side it is says the mode */
        memcmp(holder.at + holder.len - strlen(suffix), suffix, strlen(suffix)) == 0) {
        holder.len -= strlen(suffix);
    }
    ret_info->ttl_ms = rlock__reply_int(reply, 0, -2);
    ret_info->holders = (uint32_t)rlock__reply_int(reply, 1, 0);
    ret_info->locked = ret_info->holders > 0;
    (void)snprintf(ret_info->holder, sizeof(ret_info->holder), "%.*s",
                   (int)(holder.len < 127 ? holder.len : 127), holder.at);
    ret_info->count = rlock__bytes_number(count, 0);
    (void)snprintf(ret_info->mode, sizeof(ret_info->mode), "%.*s",
                   (int)(mode.len < 7 ? mode.len : 7), mode.at);
    if (ret_seen != NULL) {
        add_seen(reply, ret_seen);
    }
}
