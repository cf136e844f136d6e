/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A latch, Redisson's RCountDownLatch, is a string with a count. A latch that is not there is open.
 * Redisson does not record which parties have counted down. The clients of this library do so, in a
 * hash beside the count, so that a party counts once. A TTL of a hundred years marks the count to
 * which the hash belongs: a count that another library has set since has no TTL.
 */
#include "lock/latch.h"

#include <assert.h>
#include <string.h>

#include <lua_scripts.h>

#include "lock/core.h"

/* Redisson puts braces around all of the key, even if it has some. */
static void channel(struct rlock__bytes key, struct rlock__buf *ret_channel)
{
    static const char prefix[] = "redisson_countdownlatch__channel__{";

    (void)rlock__buf_add(ret_channel, prefix, strlen(prefix));
    (void)rlock__buf_add(ret_channel, key.at, key.len);
    (void)rlock__buf_add(ret_channel, "}", 1);
}

static void add_parties(const struct rlock__spec *spec, struct rlock__cmd *cmd)
{
    struct rlock__buf name = {0};

    rlock__suffixed_name(spec->key, "rlock-parties", &name);
    rlock__cmd_key(cmd, rlock__bytes(name.data, name.len));
    cmd->keys.failed |= name.failed;
    rlock__buf_fini(&name);
}

void rlock__latch_spell(const struct rlock__spec *spec, const struct rlock__latch_ask *ask,
                        struct rlock__cmd *ret_cmd)
{
    static const struct rlock__script *const scripts[] = {
        [RLOCK__LATCH_SET] = &rlock__script_latch_set,
        [RLOCK__LATCH_DOWN] = &rlock__script_latch_down,
        [RLOCK__LATCH_LOOK] = &rlock__script_latch_look,
        [RLOCK__LATCH_DELETE] = &rlock__script_latch_delete,
    };

    ret_cmd->script = scripts[ask->what];
    rlock__cmd_key(ret_cmd, spec->key);
    add_parties(spec, ret_cmd);
    if (ask->what == RLOCK__LATCH_LOOK) {
        return;
    }
    if (ask->what == RLOCK__LATCH_SET) {
        assert(ask->count > 0);
        rlock__cmd_num(ret_cmd, ask->count);
    } else if (ask->what == RLOCK__LATCH_DOWN) {
        rlock__cmd_arg(ret_cmd, ask->party);
    }
    if (ask->what != RLOCK__LATCH_DELETE) {
        assert(ask->id.len > 0);
        rlock__cmd_arg(ret_cmd, ask->id);
    }
    rlock__announcement(spec, ret_cmd);
}

int rlock__latch_read(struct rlock__call *call, const struct rlock__reply *reply)
{
    int64_t *numbers = call->command.reader;

    numbers[0] = rlock__reply_int(reply, 0, 0);
    numbers[1] = rlock__reply_int(reply, 1, 0);
    return 0;
}

static void acquire(const struct rlock__spec *spec, const struct rlock__args *args,
                    struct rlock__cmd *ret_cmd)
{
    (void)args;
    rlock__latch_spell(spec, &(struct rlock__latch_ask){.what = RLOCK__LATCH_LOOK}, ret_cmd);
}

static struct rlock__answer read_acquire(const struct rlock__spec *spec,
                                         const struct rlock__reply *reply)
{
    const bool is_open = rlock__reply_int(reply, 0, 0) == 1;

    (void)spec;
    return (struct rlock__answer){.outcome = is_open ? RLOCK__DONE : RLOCK__BUSY, .ttl_ms = -1};
}

const struct rlock_ops rlock__latch_ops = {
    .kind = "latch",
    .channel = channel,
    .acquire = acquire,
    .read_acquire = read_acquire,
};
