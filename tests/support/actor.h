/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that do what they are told, one thing after the other. */
#ifndef RLOCK_TEST_ACTOR_H
#define RLOCK_TEST_ACTOR_H

#include <rlock/rlock.h>

#include "support/run.h"

struct actor;
typedef int act_fn(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take);

struct actor *actor_new(void);
/* Ends the thread if it has not exited. */
void actor_free(struct actor *actor);

/* Lets it begin; take is copied. */
void actor_begin(struct actor *actor, act_fn *fn, struct rlock_handle *lock, int64_t wait_ms,
                 const struct rlock_take *take);
bool actor_is_busy(struct actor *actor);
/* Waits for the end of what it began: the value. Dies after 30 s, stretched. */
int actor_end(struct actor *actor);
/* When that ended. */
int64_t actor_ended_us(const struct actor *actor);
/* Both. */
int actor_do(struct actor *actor, act_fn *fn, struct rlock_handle *lock, int64_t wait_ms,
             const struct rlock_take *take);
/* Lets the thread exit, and waits for that. */
void actor_exit(struct actor *actor);
/* Sends it a signal. */
void actor_signal(struct actor *actor, int signal);

/* Only act_take uses the wait. */
act_fn act_take, act_unlock, act_is_valid, act_hold_count;
/* Takes the lock within the wait, sees that it is valid, and unlocks. */
act_fn act_pass_through;

#endif
