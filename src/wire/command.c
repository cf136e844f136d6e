/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/command.h"

#define EVAL "$4\r\nEVAL\r\n"
#define EVALSHA "$7\r\nEVALSHA\r\n"

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
    char text[1 + RLOCK__DIGITS] = "-";
    size_t sign = number < 0 ? 1 : 0;
    uint64_t magnitude = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    rlock__cmd_arg(cmd, rlock__bytes(text, sign + rlock__digits(magnitude, text + sign)));
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
    char count[RLOCK__DIGITS];
    size_t n = rlock__digits(cmd->n_keys, count);

    if (script == NULL) {
        (void)rlock__buf_add_head(out, '*', cmd->n_args);
    } else {
        (void)rlock__buf_add_head(out, '*', 3 + cmd->n_keys + cmd->n_args);
        if (whole) {
            (void)rlock__buf_add(out, EVAL, strlen(EVAL));
            (void)rlock__buf_add_bulk(out, rlock__bytes(script->body, script->size));
        } else {
            (void)rlock__buf_add(out, EVALSHA, strlen(EVALSHA));
            (void)rlock__buf_add_bulk(out, rlock__bytes(script->sha1, 40));
        }
        (void)rlock__buf_add_bulk(out, rlock__bytes(count, n));
    }
    (void)rlock__buf_add(out, cmd->keys.data, cmd->keys.len);
    (void)rlock__buf_add(out, cmd->args.data, cmd->args.len);
    return !out->failed && rlock__cmd_is_whole(cmd);
}
