/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reentrant lock, Redisson's RLock, is a hash with one field. The field's name is the owner,
 * and its value is the hold count. The non-reentrant lock, Redisson's NonReentrantLock, is a
 * reentrant lock of one level on the server. If its owner takes it again, the client refuses that
 * before it sends anything: the server could not tell, since each attempt has a fresh number.
 */
#include "lock/plain.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include <lua_scripts.h>

#include "lock/core.h"

#define QUEUE "rlock_wait" /* the queue on the server: calls of clients that wait */
#define RECHECK_MS 2500    /* the first in it looks again after that time, and for each */
#define RECHECK_MORE_MS 50 /* place behind that one so much later, */
#define RECHECK_MOST_MS 30000

void rlock__plain_channel(struct rlock__bytes key, struct rlock__buf *ret_channel)
{
    rlock__prefixed_name("redisson_lock__channel", key, ret_channel);
}

void rlock__entry(const struct rlock__spec *spec, const struct rlock__args *args,
                  struct rlock__cmd *cmd)
{
    const char form[] = {args->may_push ? 'p' : 'w', (char)('0' + args->span), '\0'};

    assert(args->count == 1 && args->span <= 3);
    rlock__prefixed_arg(QUEUE, spec->key, cmd);
    rlock__cmd_arg(cmd, rlock__bytes_of(form));
    rlock__cmd_num(cmd, args->waits ? args->hint : -1);
}

void rlock__plain_acquire(const struct rlock__spec *spec, const struct rlock__args *args,
                          struct rlock__cmd *ret_cmd)
{
    assert(args->owner.len > 0);
    assert(args->count > 0);
    assert(args->lease_ms > 0); /* a lock without a lease would stay for ever */
    ret_cmd->script = &rlock__script_plain_acquire;
    rlock__cmd_key(ret_cmd, spec->key);
    rlock__cmd_arg(ret_cmd, args->owner);
    rlock__cmd_num(ret_cmd, args->lease_ms);
    rlock__cmd_num(ret_cmd, args->count);
    if (args->enters) {
        ret_cmd->script = &rlock__script_queue_acquire;
        rlock__entry(spec, args, ret_cmd);
        rlock__announcement_command(spec, ret_cmd);
    }
}

void rlock__plain_release(const struct rlock__spec *spec, const struct rlock__args *args,
                          struct rlock__cmd *ret_cmd)
{
    assert(args->owner.len > 0);
    assert(args->count > 0 || args->lease_ms == 0); /* the last release gives no lease */
    ret_cmd->script =
        spec->core->opts.queues ? &rlock__script_queue_release : &rlock__script_plain_release;
    rlock__cmd_key(ret_cmd, spec->key);
    rlock__cmd_arg(ret_cmd, args->owner);
    rlock__cmd_num(ret_cmd, args->count);
    rlock__cmd_num(ret_cmd, args->gives_way ? 1 : args->lease_ms);
    rlock__announcement(spec, ret_cmd);
}

void rlock__plain_renew(const struct rlock__spec *spec, const struct rlock__args *args,
                        struct rlock__cmd *batch)
{
    assert(batch->script == NULL || batch->script == &rlock__script_plain_renew);
    assert(args->owner.len > 0);
    batch->script = &rlock__script_plain_renew;
    rlock__cmd_key(batch, spec->key);
    rlock__cmd_arg(batch, args->owner);
    rlock__cmd_num(batch, args->lease_ms);
}

void rlock__plain_rename(const struct rlock__spec *spec, const struct rlock__args *args,
                         struct rlock__cmd *ret_cmd)
{
    assert(args->owner.len > 0 && args->from.len > 0 && args->lease_ms > 0);
    ret_cmd->script =
        spec->core->opts.queues ? &rlock__script_queue_rename : &rlock__script_plain_rename;
    rlock__cmd_key(ret_cmd, spec->key);
    rlock__cmd_arg(ret_cmd, args->from);
    rlock__cmd_arg(ret_cmd, args->owner);
    rlock__cmd_num(ret_cmd, args->lease_ms);
    rlock__announcement(spec, ret_cmd);
    rlock__cmd_num(ret_cmd, 0);
}

void rlock__plain_inspect(const struct rlock__spec *spec, struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_plain_inspect;
    rlock__cmd_key(ret_cmd, spec->key);
}

void rlock__plain_force(const struct rlock__spec *spec, const struct rlock__args *args,
                        struct rlock__cmd *ret_cmd)
{
    ret_cmd->script =
        spec->core->opts.queues ? &rlock__script_queue_force : &rlock__script_plain_force;
    rlock__cmd_key(ret_cmd, spec->key);
    rlock__cmd_arg(ret_cmd, args->seen);
    rlock__announcement(spec, ret_cmd);
}

struct rlock__answer rlock__plain_read_acquire(const struct rlock__spec *spec,
                                               const struct rlock__reply *reply)
{
    (void)spec;
    switch (rlock__reply_int(reply, 0, 0)) {
    case 1:
        return (struct rlock__answer){.outcome = RLOCK__DONE,
                                      .token = (uint64_t)rlock__reply_int(reply, 1, 0)};
    case 0:
        return (struct rlock__answer){.outcome = RLOCK__BUSY,
                                      .ttl_ms = rlock__reply_int(reply, 1, -1),
                                      .holder = rlock__reply_str(reply, 2)};
    default:
        return (struct rlock__answer){.outcome = RLOCK__GONE,
                                      .taken = rlock__reply_int(reply, 1, 0) == 1};
    }
}

/* The first call in the queue looks when the lease ends, and the others only if those before them
 * are dead. */
static struct rlock__answer read_busy(const struct rlock__spec *spec,
                                      const struct rlock__reply *reply)
{
    struct rlock__answer answer = rlock__plain_read_acquire(spec, reply);
    int64_t place = rlock__min(rlock__reply_int(reply, 3, 0), INT32_MAX);

    if (place > 0) {
        int64_t later = place * RECHECK_MORE_MS;

        answer.place = (uint32_t)place;
        answer.ticket = rlock__reply_int(reply, 4, 0);
        answer.marks = (uint8_t)rlock__max(rlock__min(rlock__reply_int(reply, 5, 0), 255), 0);
        answer.recheck_ms = rlock__min(RECHECK_MS + later, RECHECK_MOST_MS);
        answer.ttl_ms += answer.ttl_ms >= 0 ? later - RECHECK_MORE_MS : 0;
    }
    return answer;
}

struct rlock__answer rlock__queue_read_acquire(const struct rlock__spec *spec,
                                               const struct rlock__reply *reply)
{
    return rlock__reply_int(reply, 0, 1) == 0 ? read_busy(spec, reply)
                                              : rlock__plain_read_acquire(spec, reply);
}

struct rlock__answer rlock__plain_read_release(const struct rlock__reply *reply)
{
    int64_t outcome = rlock__reply_int(reply, 0, 0), receivers = rlock__reply_int(reply, 1, 0);

    if (outcome > 0) {
        return (struct rlock__answer){.outcome = RLOCK__DONE,
                                      .announcement_refused = receivers < 0,
                                      .receivers = receivers,
                                      .is_others_turn = outcome == 2,
                                      .is_given_away = outcome == 3};
    }
    return (struct rlock__answer){.outcome = RLOCK__GONE,
                                  .taken = rlock__reply_int(reply, 1, 0) == 1};
}

void rlock__plain_read_inspect(const struct rlock__reply *reply, struct rlock_info *ret_info,
                               struct rlock__buf *ret_seen)
{
    struct rlock__bytes holder = rlock__reply_str(reply, 2), count = rlock__reply_str(reply, 3);

    ret_info->ttl_ms = rlock__reply_int(reply, 0, -2);
    ret_info->holders = (size_t)rlock__max(0, rlock__reply_int(reply, 1, 0));
    ret_info->locked = ret_info->holders > 0;
    ret_info->token = (uint64_t)rlock__reply_int(reply, 4, 0);
    if (ret_seen != NULL) {
        (void)rlock__buf_add(ret_seen, holder.at, holder.len);
    }
    (void)snprintf(ret_info->holder, sizeof(ret_info->holder), "%.*s",
                   (int)(holder.len < 127 ? holder.len : 127), holder.at);
    ret_info->count = rlock__bytes_number(count, 0);
}

const struct rlock_ops rlock__reentrant_ops = {
    .kind = "reentrant",
    .number = RLOCK_KIND_REENTRANT,
    .caps = RLOCK__CAP_REENTRANT | RLOCK__CAP_WAIT_QUEUE | RLOCK__CAP_TOGETHER | RLOCK__CAP_PASSES |
            RLOCK__CAP_ENTERS,
    RLOCK__PLAIN_OPS,
    .acquire = rlock__plain_acquire,
    .release = rlock__plain_release,
    .rename = rlock__plain_rename,
    .inspect = rlock__plain_inspect,
    .force = rlock__plain_force,
};

const struct rlock_ops rlock__nonreentrant_ops = {
    .kind = "non-reentrant",
    .number = RLOCK_KIND_NONREENTRANT,
    .caps = RLOCK__CAP_WAIT_QUEUE | RLOCK__CAP_TOGETHER | RLOCK__CAP_PASSES | RLOCK__CAP_ENTERS,
    RLOCK__PLAIN_OPS,
    .acquire = rlock__plain_acquire,
    .release = rlock__plain_release,
    .rename = rlock__plain_rename,
    .inspect = rlock__plain_inspect,
    .force = rlock__plain_force,
};
