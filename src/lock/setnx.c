/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The setnx lock, which most other libraries use, is one string key. SET NX PX creates the key, and
 * a script compares its value and deletes it. The value is the owner. Nobody announces a release.
 * The server tells the waiters that the key has changed: lock/server/tracked.h. Where it does not,
 * they poll. Only the client counts the levels.
 */
#include <assert.h>

#include <lua_scripts.h>
#include <string.h>

#include "base/random.h"
#include "lock/plain.h"

/* Half to three halves of a pause that grows, so that clients do not ask in step. */
static int64_t pause_before(const struct rlock__tuning *tuning, unsigned looks, uint64_t *random)
{
    int64_t pause = rlock__spin_pause(tuning, looks, 10 * RLOCK__MS, 160 * RLOCK__MS);

    return rlock__max(pause / 2 + rlock__random_below(random, pause + 1), RLOCK__MS);
}

static void tracked_channel(struct rlock__bytes key, struct rlock__buf *ret_channel)
{
    (void)rlock__buf_add(ret_channel, RLOCK__TRACKED, strlen(RLOCK__TRACKED));
    (void)rlock__buf_add(ret_channel, key.at, key.len);
}

static void acquire(const struct rlock__spec *spec, const struct rlock__args *args,
                    struct rlock__cmd *ret_cmd)
{
    assert(!args->enters); /* the lock has no queue */
    rlock__plain_acquire(spec, args, ret_cmd);
    ret_cmd->script = &rlock__script_setnx_acquire;
}

static void release(const struct rlock__spec *spec, const struct rlock__args *args,
                    struct rlock__cmd *ret_cmd)
{
    assert(args->owner.len > 0);
    assert(args->count > 0 || args->lease_ms == 0); /* the last release gives no lease */
    ret_cmd->script = &rlock__script_setnx_release;
    rlock__cmd_key(ret_cmd, spec->key);
    rlock__cmd_arg(ret_cmd, args->owner);
    rlock__cmd_num(ret_cmd, args->count);
    rlock__cmd_num(ret_cmd, args->lease_ms);
}

static void renew(const struct rlock__spec *spec, const struct rlock__args *args,
                  struct rlock__cmd *batch)
{
    assert(batch->script == NULL || batch->script == &rlock__script_setnx_renew);
    assert(args->owner.len > 0);
    batch->script = &rlock__script_setnx_renew;
    rlock__cmd_key(batch, spec->key);
    rlock__cmd_arg(batch, args->owner);
    rlock__cmd_num(batch, args->lease_ms);
}

static void rename_owner(const struct rlock__spec *spec, const struct rlock__args *args,
                         struct rlock__cmd *ret_cmd)
{
    assert(args->owner.len > 0 && args->from.len > 0 && args->lease_ms > 0);
    ret_cmd->script = &rlock__script_setnx_rename;
    rlock__cmd_key(ret_cmd, spec->key);
    rlock__cmd_arg(ret_cmd, args->from);
    rlock__cmd_arg(ret_cmd, args->owner);
    rlock__cmd_num(ret_cmd, args->lease_ms);
}

static void inspect(const struct rlock__spec *spec, struct rlock__cmd *ret_cmd)
{
    rlock__plain_inspect(spec, ret_cmd);
    ret_cmd->script = &rlock__script_setnx_inspect;
}

static void force(const struct rlock__spec *spec, const struct rlock__args *args,
                  struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_setnx_force;
    rlock__cmd_key(ret_cmd, spec->key);
    rlock__cmd_arg(ret_cmd, args->seen);
}

const struct rlock_ops rlock__setnx_ops = {
    .kind = "setnx",
    .number = RLOCK_KIND_SETNX,
    .caps = RLOCK__CAP_REENTRANT | RLOCK__CAP_WAIT_QUEUE | RLOCK__CAP_PASSES | RLOCK__CAP_TRACKS,
    .side = 'x',
    .pause = pause_before,
    .channel = tracked_channel,
    .acquire = acquire,
    .release = release,
    .renew = renew,
    .rename = rename_owner,
    .inspect = inspect,
    .force = force,
    .read_acquire = rlock__plain_read_acquire,
    .read_release = rlock__plain_read_release,
    .read_inspect = rlock__plain_read_inspect,
};
