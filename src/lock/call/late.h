/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late answers. When a RedLock has its quorum, or has left it, the calls of its other members go
 * on, and nobody awaits them. What they bring wakes no thread by itself: whoever uses the client
 * next reads it, or the service thread at its tick.
 */
#ifndef RLOCK_LOCK_LATE_H
#define RLOCK_LOCK_LATE_H

#include <stdbool.h>

#include "base/guarded.h"

#define RLOCK__LATE_MAX 32 /* calls of a client: where there are more, their answers are read */

struct rlock__link;

/* Whether nobody awaits any of the requests in flight on the link. False while a call or a listener
 * of the client is awaited. */
bool rlock__link_is_late(const struct rlock__link *link) RLOCK__REQUIRES(core);

#endif
