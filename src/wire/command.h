/* SPDX-License-Identifier: Apache-2.0 */
/* A command: how it is put together, and how it goes onto the wire. */
#ifndef RLOCK_WIRE_COMMAND_H
#define RLOCK_WIRE_COMMAND_H

#include "base/bytes.h"
#include "wire/script.h"

/* A command as it goes onto the wire: a script with keys and arguments, or a plain command (script
 * NULL, no keys). */
struct rlock__cmd {
    const struct rlock__script *script;
    struct rlock__buf keys, args; /* bulk strings */
    unsigned n_keys, n_args;
    unsigned parts; /* of a script for several things: how many its reply answers for */
};

void rlock__cmd_key(struct rlock__cmd *cmd, struct rlock__bytes key);
void rlock__cmd_arg(struct rlock__cmd *cmd, struct rlock__bytes arg);
void rlock__cmd_num(struct rlock__cmd *cmd, int64_t number);
void rlock__cmd_fini(struct rlock__cmd *cmd);
/* Whether all of it is there: without memory it is not. One that is not whole must not be sent. */
bool rlock__cmd_is_whole(const struct rlock__cmd *cmd);
/* Appends it to out: a script by its digest, or whole, where the server may not have it. False
 * without memory. */
bool rlock__cmd_encode(const struct rlock__cmd *cmd, bool whole, struct rlock__buf *out);

#endif
