/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pass: an unlock gives its hold to the head of the lock's wait queue, in this process, and
 * sends nothing to the server. The number, the key and the lease stay, the renewals go on, and only
 * the owner changes. The server and other processes see one hold that lasts a little longer.
 *
 * While this client has a hold that may be passed, the waiters here do not ask the server, which
 * would answer "busy". They have the hold verified instead, at each poll and when they hear a
 * message of another client. An attempt in flight might take the lock a second time, so a call that
 * has one gets no hold passed.
 *
 * A pass sends no message to other clients. So a hold is passed a few times and for a short while,
 * and then really released.
 *
 * A hold may also be passed to a later call: it lingers (rlock_opts.linger_ms). For its owner it is
 * over, its row is hidden, and its release is due after a few milliseconds. It is sent sooner if a
 * call of this client wants the lock and cannot take the hold over, if the client closes, or if a
 * message says that a call of another client has entered the lock's queue (lua/queue/acquire.lua).
 * Another library cannot say that. So no hold lingers longer than 10 ms after the last request for
 * its lease; and for a second after others waited for the lock, none does.
 */
#ifndef RLOCK_LOCK_PASS_H
#define RLOCK_LOCK_PASS_H

#include "lock/core.h"

/* The hold of this client that the call, in its wait queue, waits for. The hold is passed, or
 * released, before another owner here gets the lock. NULL: there is none, and the call asks the
 * server. */
struct rlock__grant *rlock__pass_awaited(const struct rlock__call *call, int64_t now);
/* The owner gives up its last level. If the head of the queue gets the hold, returns that call;
 * otherwise NULL. The caller ends both calls. The hold is over for the former owner. */
struct rlock__call *rlock__pass(struct rlock__hold *hold, int64_t now);
/* If this client has a hold on the lock, asks the server about it at once: others may have ended
 * it. */
void rlock__pass_doubt(struct rlock__core *core, const struct rlock__spec *spec, int64_t now);
/* A command begins that may end a hold of this client on the lock: the hold is not passed any more,
 * and does not linger. */
void rlock__pass_forbid(struct rlock__core *core, const struct rlock__spec *spec, int64_t now);
/* If a hold on the lock lingers, its release is sent now. */
void rlock__pass_yield(struct rlock__core *core, const struct rlock__spec *spec, int64_t now);
/* The owner gives up its last level, and nobody here waits. Returns whether the hold may linger.
 * Subscribes to the client's own channel of the lock, for this hold and the next ones. */
bool rlock__pass_may_linger(const struct rlock__hold *hold, int64_t now);
/* From now on it lingers. Its release has begun, and is due at grant.due. */
void rlock__pass_linger(struct rlock__hold *hold, int64_t now);
/* The call begins. If a hold on its lock lingers, the call gets it (returns true), or the hold's
 * release is sent ahead of the call's attempt. */
bool rlock__pass_retake(struct rlock__call *call, int64_t now);

#endif
