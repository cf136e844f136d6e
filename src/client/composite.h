/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks and RedLocks as their users see them: the driver of their parties. */
#ifndef RLOCK_CLIENT_COMPOSITE_H
#define RLOCK_CLIENT_COMPOSITE_H

#include "client/lock.h"

/* Take and give up; arguments were checked. */
int rlock__composite_take(struct rlock *lock, const struct rlock_take *take,
                          struct rlock__owner owner, struct rlock_grant *ret_grant);
int rlock__composite_leave(struct rlock *lock, struct rlock__owner owner);
/* Until when the owner may rely on it, 0 not at all; its levels. */
int64_t rlock__composite_valid_until(const struct rlock *lock, struct rlock__owner owner,
                                     uint32_t *ret_count);
struct rlock__party;
/* Refuses an effort to take it when two of its members turn out to be one, through two clients of
 * one server. With the mutex of the parties held. */
void rlock__composite_refuse_twins(struct rlock__party *party, int64_t now);
/* What the i-th member said in the latest call on the handle. */
void rlock__composite_result(const struct rlock *lock, size_t i, struct rlock__result *ret);
/* A hold was lost: tells the composites that it is part of. Returns whether it is its owner's as
 * well, to whom it is to be reported. On a dispatcher thread, without a mutex. */
bool rlock__composites_lost(const struct rlock__loss *loss);
/* A thread ends: what it holds of composites is lost. */
void rlock__composites_thread_exit(uint64_t thread);
/* Once for each process, before the first composite. */
void rlock__composites_init(void);
/* Keeps the parties whole over a fork, and forgets them in the child. */
enum rlock__fork_stage { RLOCK__BEFORE_FORK, RLOCK__IN_PARENT, RLOCK__IN_CHILD };
void rlock__composites_fork(enum rlock__fork_stage stage);

#endif
