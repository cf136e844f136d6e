/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The read/write lock: Redisson's RReadWriteLock. Its two sides are two kinds.
 *
 * One hash holds both: `mode` is "read" or "write", "uuid:number" a reader's count,
 * "uuid:number:write" the writer's. Each level of a read hold has a key of its own,
 * {key}:uuid:number:rwlock_timeout:n, whose TTL is that level's lease: so readers' leases end one
 * by one, though the hash has one TTL.
 *
 * Readers of one process go in together, so each that waits asks for itself. A writer may read as
 * well, and keep reading when it gives up writing. An owner that reads may not begin to write, as
 * it would wait for itself: that is refused before anything is sent.
 */
#include "rw/rw.h"

#include <stdio.h>

#include <lua_scripts.h>

#include "lock/core.h"
#include "lock/plain.h"

#define DIGEST_LEN 40
#define YIELD_RECHECK_MS 2000 /* keeps a waiting writer's request alive, which lasts 5 s */
#define WRITE ":write"
#define LEVEL ":rwlock_timeout:"
#define LEVELS_MAX 1000 /* of one owner that the scripts look into */

static bool writes(const struct rlock__spec *spec)
{
    return spec->ops->side == 'w';
}

static void channel(struct rlock__bytes key, struct rlock__buf *ret_channel)
{
    rlock__prefixed_name("redisson_rwlock", key, ret_channel);
}

/* ---- Commands ---- */

/* The owner's field in the hash. */
static void add_field(struct rlock__bytes owner, bool as_writer, struct rlock__cmd *cmd)
{
    char field[RLOCK__OWNER_SIZE + sizeof(WRITE)];

    (void)snprintf(field, sizeof(field), "%.*s%s", (int)owner.len, owner.at,
                   as_writer ? WRITE : "");
    rlock__cmd_arg(cmd, rlock__bytes_of(field));
}

/* What the keys of readers' levels begin with. */
static void add_prefix(struct rlock__bytes key, struct rlock__cmd *cmd)
{
    struct rlock__buf prefix = {0};

    rlock__suffixed_name(key, "", &prefix);
    rlock__cmd_arg(cmd, rlock__bytes(prefix.data, prefix.len));
    cmd->args.failed |= prefix.failed;
    rlock__buf_fini(&prefix);
}

/* The keys of an owner's levels. Returns how many there are. */
static uint32_t add_levels(const struct rlock__spec *spec, const struct rlock__args *args,
                           struct rlock__cmd *cmd)
{
    uint32_t n = args->count < LEVELS_MAX ? args->count : LEVELS_MAX;
    struct rlock__buf level = {0};
    size_t len;

    rlock__suffixed_name(spec->key, "", &level);
    (void)rlock__buf_add(&level, args->owner.at, args->owner.len);
    (void)rlock__buf_add(&level, LEVEL, strlen(LEVEL));
    len = level.len;
    for (uint32_t i = 1; i <= n; i++) {
        char digits[RLOCK__DIGITS];

        level.len = level.failed ? 0 : len;
        (void)rlock__buf_add(&level, digits, rlock__digits(i, digits));
        rlock__cmd_key(cmd, rlock__bytes(level.data, level.len));
    }
    cmd->keys.failed |= level.failed;
    rlock__buf_fini(&level);
    return n;
}

/* The last key, where the options say so, is that by which waiting writers ask readers to stand
 * back. */
static void acquire(const struct rlock__spec *spec, const struct rlock__args *args,
                    struct rlock__cmd *ret_cmd)
{
    ret_cmd->script =
        writes(spec) ? &rlock__script_rw_write_acquire : &rlock__script_rw_read_acquire;
    rlock__cmd_key(ret_cmd, spec->key);
    if (!writes(spec)) {
        (void)add_levels(spec, args, ret_cmd);
    }
    if (spec->tuning->prefer_writers) {
        rlock__prefixed_key("rlock_writer_waits", spec->key, ret_cmd);
    }
    add_field(args->owner, writes(spec), ret_cmd);
    rlock__cmd_num(ret_cmd, args->lease_ms);
    rlock__cmd_num(ret_cmd, args->count);
    if (writes(spec)) {
        rlock__cmd_num(ret_cmd, args->waits);
    } else {
        add_field(args->other, args->other.len != 0, ret_cmd);
    }
    add_prefix(spec->key, ret_cmd);
    if (args->enters) { /* a writer that waits, or has entered the lock's queue */
        ret_cmd->script = &rlock__script_queue_write_acquire;
        rlock__entry(spec, args, ret_cmd);
    }
}

static void release(const struct rlock__spec *spec, const struct rlock__args *args,
                    struct rlock__cmd *ret_cmd)
{
    const bool queues = spec->core->opts.queues;

    if (writes(spec)) {
        ret_cmd->script =
            queues ? &rlock__script_queue_write_release : &rlock__script_rw_write_release;
    } else {
        ret_cmd->script =
            queues ? &rlock__script_queue_read_release : &rlock__script_rw_read_release;
    }
    rlock__cmd_key(ret_cmd, spec->key);
    if (!writes(spec)) {
        (void)add_levels(spec, args, ret_cmd);
    }
    add_field(args->owner, writes(spec), ret_cmd);
    rlock__cmd_num(ret_cmd, args->count);
    rlock__cmd_num(ret_cmd, args->gives_way ? 1 : args->lease_ms);
    rlock__announcement(spec, ret_cmd);
    add_prefix(spec->key, ret_cmd);
}

/* A reader's level has a key of its own, which is named after its owner. */
static void rename_hold(const struct rlock__spec *spec, const struct rlock__args *args,
                        struct rlock__cmd *ret_cmd)
{
    const struct rlock__args level = {.owner = args->owner, .count = 1};

    if (writes(spec)) {
        ret_cmd->script =
            spec->core->opts.queues ? &rlock__script_queue_rename : &rlock__script_plain_rename;
    } else {
        ret_cmd->script = &rlock__script_rw_read_rename;
    }
    rlock__cmd_key(ret_cmd, spec->key);
    if (!writes(spec)) {
        (void)add_levels(spec, &level, ret_cmd);
    }
    add_field(args->from, writes(spec), ret_cmd);
    add_field(args->owner, writes(spec), ret_cmd);
    rlock__cmd_num(ret_cmd, args->lease_ms);
    rlock__announcement(spec, ret_cmd);
    if (writes(spec)) {
        rlock__cmd_num(ret_cmd, 1); /* readers wait too */
    } else {
        add_prefix(spec->key, ret_cmd);
    }
}

static void renew_read(const struct rlock__spec *spec, const struct rlock__args *args,
                       struct rlock__cmd *batch)
{
    uint32_t n;

    batch->script = &rlock__script_rw_read_renew;
    rlock__cmd_key(batch, spec->key);
    n = add_levels(spec, args, batch);
    rlock__cmd_arg(batch, args->owner);
    rlock__cmd_num(batch, args->lease_ms);
    rlock__cmd_num(batch, n);
    add_prefix(spec->key, batch);
}

/* A writer's lease is that of the hash alone. */
static void renew_write(const struct rlock__spec *spec, const struct rlock__args *args,
                        struct rlock__cmd *batch)
{
    batch->script = &rlock__script_plain_renew;
    rlock__cmd_key(batch, spec->key);
    add_field(args->owner, true, batch);
    rlock__cmd_num(batch, args->lease_ms);
}

void rlock__rw_inspect(struct rlock__bytes key, const char *side, const char *uuid,
                       struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_rw_inspect;
    rlock__cmd_key(ret_cmd, key);
    rlock__cmd_arg(ret_cmd, rlock__bytes_of(side));
    rlock__cmd_arg(ret_cmd, rlock__bytes_of(uuid != NULL ? uuid : ""));
    add_prefix(key, ret_cmd);
}

static void inspect(const struct rlock__spec *spec, struct rlock__cmd *ret_cmd)
{
    rlock__rw_inspect(spec->key, spec->ops->kind, spec->core->opts.uuid, ret_cmd);
}

static void force(const struct rlock__spec *spec, const struct rlock__args *args,
                  struct rlock__cmd *ret_cmd)
{
    size_t len = args->seen.len < DIGEST_LEN ? args->seen.len : DIGEST_LEN;

    ret_cmd->script =
        spec->core->opts.queues ? &rlock__script_queue_rw_force : &rlock__script_rw_force;
    rlock__cmd_key(ret_cmd, spec->key);
    rlock__cmd_arg(ret_cmd, rlock__bytes_of(spec->ops->kind));
    rlock__cmd_arg(ret_cmd, rlock__bytes(args->seen.at, len));
    rlock__announcement(spec, ret_cmd);
    add_prefix(spec->key, ret_cmd);
}

/* ---- Replies ---- */

#define QUEUED_ASKS 6 /* where the reply to a call in the queue says that readers are asked */

static bool is_writer(struct rlock__bytes holder)
{
    const size_t len = strlen(WRITE);

    return holder.len > len && memcmp(holder.at + holder.len - len, WRITE, len) == 0;
}

static struct rlock__answer read_acquire(const struct rlock__spec *spec,
                                         const struct rlock__reply *reply)
{
    const bool enters = reply->n > QUEUED_ASKS;
    struct rlock__answer answer =
        enters ? rlock__queue_read_acquire(spec, reply) : rlock__plain_read_acquire(spec, reply);
    const int64_t asks = rlock__reply_int(reply, enters ? QUEUED_ASKS : 3, 0);

    if (answer.outcome == RLOCK__BUSY) {
        answer.shared = !is_writer(answer.holder);
        answer.recheck_ms = asks == 1 && answer.place <= 1 ? YIELD_RECHECK_MS : answer.recheck_ms;
    }
    return answer;
}

static struct rlock__answer read_release(const struct rlock__reply *reply)
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
    struct rlock__bytes mode = rlock__reply_str(reply, 4);

    rlock__plain_read_inspect(reply, ret_info, NULL);
    if (is_writer(rlock__bytes_of(ret_info->holder))) { /* the mode says which side it is */
        ret_info->holder[strlen(ret_info->holder) - strlen(WRITE)] = '\0';
    }
    (void)snprintf(ret_info->mode, sizeof(ret_info->mode), "%.*s",
                   (int)(mode.len < 7 ? mode.len : 7), mode.at);
    if (ret_seen != NULL) {
        add_seen(reply, ret_seen);
    }
}

#define RW_OPS                                                                                     \
    .channel = channel, .acquire = acquire, .release = release, .rename = rename_hold,             \
    .inspect = inspect, .force = force, .read_acquire = read_acquire,                              \
    .read_release = read_release, .read_inspect = rlock__rw_read_inspect

const struct rlock_ops rlock__read_ops = {
    .kind = "read",
    .number = RLOCK_KIND_READ,
    .caps = RLOCK__CAP_REENTRANT | RLOCK__CAP_TOGETHER,
    .side = 'r',
    .other_side = 'w',
    .renew = renew_read,
    RW_OPS,
};

const struct rlock_ops rlock__write_ops = {
    .kind = "write",
    .number = RLOCK_KIND_WRITE,
    .caps = RLOCK__CAP_REENTRANT | RLOCK__CAP_WAIT_QUEUE | RLOCK__CAP_NO_UPGRADE |
            RLOCK__CAP_TOGETHER | RLOCK__CAP_ENTERS,
    .side = 'w',
    .other_side = 'r',
    .renew = renew_write,
    RW_OPS,
};
