/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock's queue on the server. If many processes waited for one lock without it, each of them
 * would ask at each release. So the head of each client's wait queue enters a queue on the server.
 * A release gives the lock to the first call there, and tells that call alone (lua/parts/give.lua).
 * It grants the lock to the call, or reserves the lock for a moment. A reservation is no grant: the
 * call asks, and holds the lock once its own attempt was granted. Nobody can take a reserved lock
 * in between.
 *
 *   - A pushed grant is one by a release, with a lease of RLOCK__PUSH_US. It is valid from the
 *     beginning of the attempt that found the lock busy and has the entry's ticket: the release
 *     came later. If attempts before that one got no answer, the grant is valid from the first of
 *     them, which may have entered with the same ticket. The arrival of the message proves nothing.
 *   - Its first renewal, soon after, makes the lease full.
 *   - It counts only while the link to that server is up. Otherwise another server may have taken
 *     the server's place.
 *   - A release pushes only to a call that asked for a renewed lease, and needs no acknowledgement.
 *   - A call enters only once the client's own channel is subscribed. Before, the next release
 *     would find that nobody hears the call, and drop it.
 *   - A call that ends without the lock leaves, by a release of its number. If the lock was
 *     reserved for the call meanwhile, that release gives the lock to the next one.
 *   - Messages get lost, and clients die. So each call looks again, the sooner the nearer it is to
 *     the front. If its entry is gone it enters again by its old ticket, and keeps its place.
 *   - A fair lock has a queue of its own. There each attempt that waits gets a new ticket, and a
 *     release grants the lock to the first call by that call's latest ticket, or wakes the call.
 *   - The server may refuse an entry. Then the call hears the common channel, and polls.
 *   - A message may say when to ask. If it comes while the call asks, it counts once the answer is
 *     busy.
 *   - Another library announces its releases on the common channel alone. The first call in the
 *     queue hears it while that library holds the lock, or has a turn (server/ear.h). It asks when
 *     the turn ends, since a longer turn would be worth several holds.
 *   - Only writers enter the queue of a read/write lock. Readers that wait have turns together.
 *     While readers hold the lock, the first writer hears the common channel, because readers of
 *     another library may be among them.
 */
#ifndef RLOCK_LOCK_ENTER_H
#define RLOCK_LOCK_ENTER_H

#include "lock/core.h"

/* Makes ready what the call needs to enter with its next attempt. Returns false if there is no
 * memory. */
bool rlock__entry_prepare(struct rlock__call *call);
/* The call, which has an entry, asks: says in args whether it enters if the lock is busy. */
void rlock__entry_ask(struct rlock__call *call, struct rlock__args *args, int64_t now);
/* The lock is busy. Returns whether a release may have been announced that the call did not
 * hear. */
bool rlock__entry_busy(struct rlock__call *call, const struct rlock__answer *answer);
/* When the call, which is in the queue, looks again unless a message comes. */
int64_t rlock__entry_recheck(const struct rlock__call *call, const struct rlock__answer *answer,
                             int64_t now);
/* When a message said to ask; RLOCK__NEVER: none did. */
static inline int64_t rlock__entry_ask_at(const struct rlock__call *call)
{
    const struct rlock__entry *entry = call->acquire.entry;

    return entry != NULL && entry->ask_at != 0 ? entry->ask_at : RLOCK__NEVER;
}

/* The call has left the queue here, and its channels. */
void rlock__entry_end(struct rlock__call *call);

#endif
