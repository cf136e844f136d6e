/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The write side of a read/write lock: Redisson's RReadWriteLock.writeLock(). Its owner may read as
 * well, and keep reading when it gives up writing; an owner that reads may not begin to write, as
 * it would wait for itself: that is refused before anything is sent.
 */
#include <stdio.h>

#include "lock/core.h"
#include "lock/plain.h"
#include "rw/rw.h"

#include <lua_scripts.h>

static void add_owner(const struct rlock__ask *ask, struct rlock__cmd *cmd)
{
    char field[RLOCK__OWNER_SIZE + sizeof(":write")];

    (void)snprintf(field, sizeof(field), "%.*s:write", (int)ask->owner.len, ask->owner.at);
    rlock__cmd_arg(cmd, rlock__bytes_of(field));
}

static void acquire(const struct rlock__spec *spec, const struct rlock__ask *ask,
                    struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_rw_write_acquire;
    rlock__rw_keys(spec, ret_cmd);
    rlock__rw_yield_key(spec, ret_cmd);
    add_owner(ask, ret_cmd);
    rlock__cmd_num(ret_cmd, ask->lease_ms);
    rlock__cmd_num(ret_cmd, ask->count);
    rlock__cmd_num(ret_cmd, ask->waits ? 1 : 0);
}

static void release(const struct rlock__spec *spec, const struct rlock__ask *ask,
                    struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_rw_write_release;
    rlock__rw_keys(spec, ret_cmd);
    add_owner(ask, ret_cmd);
    rlock__cmd_num(ret_cmd, ask->count);
    rlock__cmd_num(ret_cmd, ask->lease_ms);
    rlock__cmd_arg(ret_cmd, rlock__bytes_of(ask->publish));
    rlock__cmd_arg(ret_cmd, spec->channel);
}

/* Its lease is that of the hash alone. */
static void renew(const struct rlock__spec *spec, const struct rlock__ask *ask,
                  struct rlock__cmd *batch)
{
    batch->script = &rlock__script_plain_renew;
    rlock__cmd_key(batch, spec->key);
    add_owner(ask, batch);
    rlock__cmd_num(batch, ask->lease_ms);
}

static void inspect(const struct rlock__spec *spec, struct rlock__cmd *ret_cmd)
{
    rlock__rw_inspect(spec->key, "write", spec->core->uuid, ret_cmd);
}

const struct rlock_ops rlock__write_ops = {
    .kind = "write",
    .caps =
        RLOCK__CAP_REENTRANT | RLOCK__CAP_WAIT_QUEUE | RLOCK__CAP_NO_UPGRADE | RLOCK__CAP_TOGETHER,
    .side = 'w',
    .other_side = 'r',
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
