/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links of a client that the core has something for: bytes to send, or a reason to be closed.
 * Who has the core's mutex puts them there, each once; who has the send lock takes all that are
 * there, and needs no other mutex for that. So nobody goes through the links that nothing is wanted
 * of.
 */
#ifndef RLOCK_DRIVE_WANTED_H
#define RLOCK_DRIVE_WANTED_H

#include "drive/client.h"

/* Whoever has the send lock is to look at the link. */
void rlock__wanted_add(struct rlock__io *io) RLOCK__REQUIRES(core);
/* How many bytes wait to be sent on the links that are there. */
size_t rlock__wanted_bytes(const struct rlock_client *client) RLOCK__REQUIRES(core);
/* Takes all. Returns the first; NULL there is none. */
struct rlock__io *rlock__wanted_take(struct rlock_client *client) RLOCK__REQUIRES(send);
/* The next of those that were taken together, before anything is done with this one: from here on
 * this one may come to be wanted again. NULL it is the last. */
struct rlock__io *rlock__wanted_next(struct rlock__io *io) RLOCK__REQUIRES(send);

#endif
