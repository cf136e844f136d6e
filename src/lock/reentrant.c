/* SPDX-License-Identifier: Apache-2.0 */
/* The reentrant lock: Redisson's RLock. One hash per lock, one field: the owner, its value the hold
 * count. */
#include <stdio.h>

#include "lock/plain.h"

#include <lua_scripts.h>

static void acquire(const struct rlock__spec *spec, const struct rlock__ask *ask,
                    struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_reentrant_acquire;
    rlock__cmd_key(ret_cmd, spec->key);
    rlock__cmd_arg(ret_cmd, ask->owner);
    rlock__cmd_num(ret_cmd, ask->lease_ms);
    rlock__cmd_num(ret_cmd, ask->count);
}

const struct rlock_ops rlock__reentrant_ops = {
    .kind = "reentrant",
    .caps = RLOCK__CAP_REENTRANT | RLOCK__CAP_EXCLUSIVE,
    .side = 'x',
    .channel = rlock__plain_channel,
    .acquire = acquire,
    .release = rlock__plain_release,
    .renew = rlock__plain_renew,
    .inspect = rlock__plain_inspect,
    .force = rlock__plain_force,
    .read_acquire = rlock__plain_read_acquire,
    .read_release = rlock__plain_read_release,
    .read_inspect = rlock__plain_read_inspect,
};
