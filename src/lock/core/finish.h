/* SPDX-License-Identifier: Apache-2.0 */
/* What the end of an event does, and what concerns all servers. */
#ifndef RLOCK_LOCK_FINISH_H
#define RLOCK_LOCK_FINISH_H

#include "lock/core.h"

/* ---- finish.c ---- */

/* Ends an event. The cost depends on the servers that the event touched, and not on how many
 * there are. A link that ends here touches servers again. */
void rlock__finish_event(struct rlock__core *core, int64_t now);
/* Does a slice of the work for holds and recoveries, unless the pause after the last slice
 * lasts. */
void rlock__work(struct rlock__core *core, int64_t now);

/* ---- reroute.c ---- */

/* The map has changed. Requests that wait for a link are refused if another server has their key
 * now, and calls that wait for a lock there try again. */
void rlock__reroute(struct rlock__core *core, int64_t now);

/* ---- need.c ---- */

/* From now on servers of a cluster that nothing needs are disconnected. */
void rlock__needs_begin(struct rlock__core *core, int64_t now);

#endif
