/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links of a client that have something to send, or that the core wants closed. The core's
 * mutex is needed to add a link, which stands here once. The send lock is needed to take all of
 * them. An event therefore costs the same however many links a client has.
 */
#ifndef RLOCK_DRIVE_WANTED_H
#define RLOCK_DRIVE_WANTED_H

#include "drive/client.h"

/* Adds a link, if it is not there. The holder of the send lock looks at it then. */
void rlock__wanted_add(struct rlock__io *io) RLOCK__REQUIRES(core);
/* The number of bytes to send on the links that are there. */
size_t rlock__wanted_bytes(const struct rlock_client *client) RLOCK__REQUIRES(core);
/* Takes all links. Returns the first of them, NULL if there are none. */
struct rlock__io *rlock__wanted_take(struct rlock_client *client) RLOCK__REQUIRES(send);
/* Returns the next link of those that were taken, NULL after the last. Call it before you serve the
 * link: it may be added again from then on. */
struct rlock__io *rlock__wanted_next(struct rlock__io *io) RLOCK__REQUIRES(send);

#endif
