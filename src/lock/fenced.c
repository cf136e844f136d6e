/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fenced lock: Redisson's RFencedLock. It is a reentrant lock whose grants have tokens, each
 * larger than all before, so that a resource can refuse requests from an older holder. The token
 * belongs to the hold: on re-entry the client returns it from memory. The client does not read it
 * again from the server, where a newer holder's token may be.
 */
#include "lock/plain.h"

#include <lua_scripts.h>

#include "lock/core.h"

#define TOKEN "redisson_lock_token"

static void acquire(const struct rlock__spec *spec, const struct rlock__args *args,
                    struct rlock__cmd *ret_cmd)
{
    rlock__plain_acquire(spec, args, ret_cmd);
    if (!args->enters) {
        ret_cmd->script = &rlock__script_fenced_acquire;
    }
    rlock__prefixed_key(TOKEN, spec->key, ret_cmd);
}

/* A release that gives the lock to the next in its queue draws the token of that one. */
static void release(const struct rlock__spec *spec, const struct rlock__args *args,
                    struct rlock__cmd *ret_cmd)
{
    rlock__plain_release(spec, args, ret_cmd);
    if (spec->core->opts.queues) {
        ret_cmd->script = &rlock__script_fenced_release;
    }
}

static void force(const struct rlock__spec *spec, const struct rlock__args *args,
                  struct rlock__cmd *ret_cmd)
{
    rlock__plain_force(spec, args, ret_cmd);
    if (spec->core->opts.queues) {
        ret_cmd->script = &rlock__script_fenced_force;
    }
}

static void rename_hold(const struct rlock__spec *spec, const struct rlock__args *args,
                        struct rlock__cmd *ret_cmd)
{
    rlock__plain_rename(spec, args, ret_cmd);
    if (!spec->core->opts.queues) {
        ret_cmd->script = &rlock__script_fenced_rename;
    }
    rlock__prefixed_key(TOKEN, spec->key, ret_cmd);
}

static void inspect(const struct rlock__spec *spec, struct rlock__cmd *ret_cmd)
{
    rlock__plain_inspect(spec, ret_cmd);
    rlock__prefixed_arg(TOKEN, spec->key, ret_cmd);
}

const struct rlock_ops rlock__fenced_ops = {
    .kind = "fenced",
    .number = RLOCK_KIND_FENCED,
    .caps = RLOCK__CAP_REENTRANT | RLOCK__CAP_WAIT_QUEUE | RLOCK__CAP_TOGETHER | RLOCK__CAP_FENCED |
            RLOCK__CAP_ENTERS,
    RLOCK__PLAIN_OPS,
    .acquire = acquire,
    .release = release,
    .rename = rename_hold,
    .force = force,
    .inspect = inspect,
};
