/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The read side of a read/write lock: Redisson's RReadWriteLock.readLock(). Readers of one process
 * go in together, so each that waits asks for itself.
 */
#include "lock/core.h"
#include "rw/rw.h"

#include <lua_scripts.h>

static void acquire(const struct rlock__spec *spec, const struct rlock__ask *ask,
                    struct rlock__cmd *ret_cmd)
{
    struct rlock__buf writer = {0};

    if (ask->other.len != 0) {
        (void)rlock__buf_add(&writer, ask->other.at, ask->other.len);
        (void)rlock__buf_add(&writer, ":write", 6);
    }
    ret_cmd->script = &rlock__script_rw_read_acquire;
    rlock__rw_keys(spec, ret_cmd);
    rlock__rw_yield_key(spec, ret_cmd);
    rlock__cmd_arg(ret_cmd, ask->owner);
    rlock__cmd_num(ret_cmd, ask->lease_ms);
    rlock__cmd_num(ret_cmd, ask->count);
    rlock__cmd_arg(ret_cmd, rlock__bytes(writer.data, writer.len));
    ret_cmd->args.failed |= writer.failed;
    rlock__buf_fini(&writer);
}

static void release(const struct rlock__spec *spec, const struct rlock__ask *ask,
                    struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_rw_read_release;
    rlock__rw_keys(spec, ret_cmd);
    rlock__cmd_arg(ret_cmd, ask->owner);
    rlock__cmd_num(ret_cmd, ask->count);
    rlock__cmd_num(ret_cmd, ask->lease_ms);
    rlock__cmd_arg(ret_cmd, rlock__bytes_of(ask->publish));
    rlock__cmd_arg(ret_cmd, spec->channel);
}

static void renew(const struct rlock__spec *spec, const struct rlock__ask *ask,
                  struct rlock__cmd *batch)
{
    batch->script = &rlock__script_rw_read_renew;
    rlock__rw_keys(spec, batch);
    rlock__cmd_arg(batch, ask->owner);
    rlock__cmd_num(batch, ask->lease_ms);
}

static void inspect(const struct rlock__spec *spec, struct rlock__cmd *ret_cmd)
{
    rlock__rw_inspect(spec->key, "read", spec->core->uuid, ret_cmd);
}

const struct rlock_ops rlock__read_ops = {
    .kind = "read",
    .caps = RLOCK__CAP_REENTRANT | RLOCK__CAP_TOGETHER,
    .side = 'r',
    .other_side = 'w',
    .channel = rlock__rw_channel,
    .acquire = acquire,
    .release = release,
    .renew = renew,
    .inspect = inspect,
    .force = rlock__rw_force,
    .read_acquire = rlock__rw_read_acquire,
    .read_release = rlock__rw_read_release,
    .read_inspect = rlock__rw_read_inspect,
};
