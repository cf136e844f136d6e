/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A RedLock beside another library that takes the same lock.
 *
 * A Redisson takes the members one after the other, and waits for each. It has the first members
 * while their last holder still gives back the others: a client that asks for all at once finds too
 * few of them free. And a client that asks again right after its own release has all of them before
 * a Redisson has one. So beside a Redisson a round waits for the first member, and then asks the
 * others. The wait queue of the first member takes turns with other clients (lock/hold/queue.h).
 *
 * The first member has to be the one that the Redisson takes first. A client that waits for the
 * Redisson's last member lets it take the others, which are a quorum. So the client begins with the
 * order in which the program gave the members. If it gets the first member and too few of the
 * others, its next round waits for the next member.
 */
#ifndef RLOCK_REDLOCK_PEERS_H
#define RLOCK_REDLOCK_PEERS_H

#include "multi/group.h"

/* A round begins. Returns the member that it waits for before it asks the others; NULL: it asks all
 * at once. */
struct rlock__member *rlock__peers_first(struct rlock__group *group, int64_t now);
/* Members have answered: notes whether another library keeps this client out. */
void rlock__peers_note(const struct rlock__group *group, int64_t now);
/* Waiting for the first member did not help: the next round asks all at once. */
void rlock__peers_forget(const struct rlock__group *group);
/* The client got the first member and too few of the others. The next round waits for the next
 * member. */
void rlock__peers_turn(const struct rlock__group *group);

#endif
