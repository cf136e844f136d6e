/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hops: a server that does not have the key names the one that has. MOVED is for good, and the map
 * learns it. ASK is for this command alone, which goes there behind ASKING. Nothing remembers that.
 * What is answered by a redirection did not run.
 *
 * A request that hops keeps its place with whoever made it. It begins at the server that the map
 * names, and takes so many hops; then it is answered with the redirection.
 */
#ifndef RLOCK_LOCK_HOP_H
#define RLOCK_LOCK_HOP_H

#include "lock/core.h"

#define RLOCK__HOPS 5

/*
 * The request is answered by a redirection, or (reply NULL) its copy behind ASKING went down with
 * the link, and it may be sent again: sends it to the server that has the key. Returns whether it
 * did: then it is under way again, and nobody is to be told of that answer. What became of the
 * copies before is to be noted first.
 */
bool rlock__hop(struct rlock__request *request, const struct rlock__reply *reply, int64_t now);
/* "Not there" came from behind ASKING, and the key may have come back meanwhile: asks once more
 * where the map says. Returns false where that was done, or need not be. */
bool rlock__hop_home(struct rlock__request *request, int64_t now);
/* When the first copy of the attempt was sent: a lease that an answer gives counts from then. */
int64_t rlock__hop_t0(const struct rlock__request *request);
/* Has the map learn from a reply that is not followed. Returns the server that it names; NULL none.
 */
struct rlock__server *rlock__hop_learn(struct rlock__link *from, const struct rlock__reply *reply);

#endif
