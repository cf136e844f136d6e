/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hops: a server that does not have the key names the server that has it. MOVED is permanent, and
 * the map learns it. ASK is for this command alone, which goes there behind ASKING; nothing
 * remembers it. A command that is answered by a redirection did not run.
 *
 * A request that hops still belongs to the code that made it. It begins at the server that the map
 * names. After RLOCK__HOPS hops, the redirection is its answer.
 */
#ifndef RLOCK_LOCK_HOP_H
#define RLOCK_LOCK_HOP_H

#include "lock/core.h"

#define RLOCK__HOPS 5

/*
 * Sends the request to the server that has the key, if the reply is a redirection. It does that too
 * if reply is NULL, because a copy behind ASKING went down with its connection, and the request may
 * be sent again. Returns whether it did: then the request is in flight again, and the caller
 * ignores the reply. Before the call, the caller notes what became of the copies.
 */
bool rlock__hop(struct rlock__request *request, const struct rlock__reply *reply, int64_t now);
/* The answer "not there" came from behind ASKING, and the key may have come back meanwhile. Asks
 * the server that the map names, once. Returns false if the request has done that, or need not do
 * it. */
bool rlock__hop_home(struct rlock__request *request, int64_t now);
/* When the first copy of the attempt was sent. The lease in an answer counts from then. */
int64_t rlock__hop_t0(const struct rlock__request *request);
/* Lets the map learn from a redirection that the request does not follow. Returns the server that
 * the reply names; NULL: none. */
struct rlock__server *rlock__hop_learn(struct rlock__link *from, const struct rlock__reply *reply);

#endif
