/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/command.h"

#include <stdio.h>

void rlock__cmd_key(struct rlock__cmd *cmd, struct rlock__bytes key)
{
    (void)rlock__buf_add_bulk(&cmd->keys, key);
    cmd->n_keys++;
}

void rlock__cmd_arg(struct rlock__cmd *cmd, struct rlock__bytes arg)
{
    (void)rlock__buf_add_bulk(&cmd->args, arg);
    cmd->n_args++;
}

void rlock__cmd_num(struct rlock__cmd *cmd, int64_t number)
{
    char text[24];
    int n = snprintf(text, sizeof(text), "%lld", (long long)number);

    rlock__cmd_arg(cmd, rlock__bytes(text, (size_t)n));
}

void rlock__cmd_fini(struct rlock__cmd *cmd)
{
    rlock__buf_fini(&cmd->keys);
    rlock__buf_fini(&cmd->args);
}

bool rlock__cmd_is_whole(const struct rlock__cmd *cmd)
{
    return !cmd->keys.failed && !cmd->args.failed;
}

bool rlock__cmd_encode(const struct rlock__cmd *cmd, bool whole, struct rlock__buf *out)
{
    const struct rlock__script *script = cmd->script;
    char count[16];
    int n = snprintf(count, sizeof(count), "%u", cmd->n_keys);

    if (script == NULL) {
        (void)rlock__buf_addf(out, "*%u\r\n", cmd->n_args);
    } else {
        (void)rlock__buf_addf(out, "*%u\r\n", 3 + cmd->n_keys + cmd->n_args);
        (void)rlock__buf_add_bulk(out, rlock__bytes_of(whole ? "EVAL" : "EVALSHA"));
        (void)rlock__buf_add_bulk(out, whole ? rlock__bytes(script->body, script->size)
                                             : rlock__bytes(script->sha1, 40));
        (void)rlock__buf_add_bulk(out, rlock__bytes(count, (size_t)n));
    }
    (void)rlock__buf_add(out, cmd->keys.data, cmd->keys.len);
    (void)rlock__buf_add(out, cmd->args.data, cmd->args.len);
    return !out->failed && rlock__cmd_is_whole(cmd);
}
