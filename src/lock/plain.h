/* SPDX-License-Identifier: Apache-2.0 */
/* What kinds with one hash and one holder share. */
#ifndef RLOCK_LOCK_PLAIN_H
#define RLOCK_LOCK_PLAIN_H

#include "lock/ops.h"

/* For the table of a kind that differs only in some scripts, or in its waiting. */
#define RLOCK__PLAIN_OPS                                                                           \
    .side = 'x', .channel = rlock__plain_channel, .renew = rlock__plain_renew,                     \
    .read_acquire = rlock__queue_read_acquire, .read_release = rlock__plain_read_release,          \
    .read_inspect = rlock__plain_read_inspect

/* Adds the arguments of a call that enters the lock's queue: the queue, the form of the entry
 * (lua/parts/give.lua), the ticket. */
void rlock__entry(const struct rlock__spec *spec, const struct rlock__args *args,
                  struct rlock__cmd *cmd);
void rlock__plain_channel(struct rlock__bytes key, struct rlock__buf *ret_channel);
void rlock__plain_acquire(const struct rlock__spec *spec, const struct rlock__args *args,
                          struct rlock__cmd *ret_cmd);
void rlock__plain_release(const struct rlock__spec *spec, const struct rlock__args *args,
                          struct rlock__cmd *ret_cmd);
void rlock__plain_renew(const struct rlock__spec *spec, const struct rlock__args *args,
                        struct rlock__cmd *batch);
void rlock__plain_rename(const struct rlock__spec *spec, const struct rlock__args *args,
                         struct rlock__cmd *ret_cmd);
void rlock__plain_inspect(const struct rlock__spec *spec, struct rlock__cmd *ret_cmd);
void rlock__plain_force(const struct rlock__spec *spec, const struct rlock__args *args,
                        struct rlock__cmd *ret_cmd);
struct rlock__answer rlock__plain_read_acquire(const struct rlock__spec *spec,
                                               const struct rlock__reply *reply);
/* The same with the place in the lock's queue, where the reply has one. */
struct rlock__answer rlock__queue_read_acquire(const struct rlock__spec *spec,
                                               const struct rlock__reply *reply);
struct rlock__answer rlock__plain_read_release(const struct rlock__reply *reply);
void rlock__plain_read_inspect(const struct rlock__reply *reply, struct rlock_info *ret_info,
                               struct rlock__buf *ret_seen);

/* spin.c: the pause after so many others. It grows from first to most, the defaults of the lock's
 * options. */
int64_t rlock__spin_pause(const struct rlock__tuning *tuning, unsigned looks, int64_t first,
                          int64_t most);

#endif
