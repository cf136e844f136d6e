/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late replies. When a RedLock has its quorum, or has given it up, the calls of its other members
 * go on, but no thread waits for them. Their replies wake no thread: the next call of the client
 * reads them, or the service thread at its tick.
 */
#ifndef RLOCK_LOCK_LATE_H
#define RLOCK_LOCK_LATE_H

#include <stdbool.h>

#include "base/guarded.h"

#define RLOCK__LATE_MAX 32 /* calls of a client; with more of them no reply is late */

struct rlock__link;

/* Whether no thread waits for any of the requests in flight on the link. False while the client has
 * a listener, or a call that a thread waits for. */
bool rlock__link_is_late(const struct rlock__link *link) RLOCK__REQUIRES(core);

#endif
