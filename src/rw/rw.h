/* SPDX-License-Identifier: Apache-2.0 */
/* The read/write lock: its two kinds, and what they share. */
#ifndef RLOCK_RW_RW_H
#define RLOCK_RW_RW_H

#include "lock/ops.h"

extern const struct rlock_ops rlock__read_ops;
extern const struct rlock_ops rlock__write_ops;

/* Asks who holds one side, "read" or "write", or "any" of any lock with one hash. uuid: of the
 * client that asks; NULL none. */
void rlock__rw_inspect(struct rlock__bytes key, const char *side, const char *uuid,
                       struct rlock__cmd *ret_cmd);
void rlock__rw_read_inspect(const struct rlock__reply *reply, struct rlock_info *ret_info,
                            struct rlock__buf *ret_seen);

#endif
