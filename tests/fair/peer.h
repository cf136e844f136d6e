/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody else who uses a fair lock: scripts that change keys and send messages as Redisson's do,
 * with the caller's clock. Written from the description of what can be observed of them.
 */
#ifndef RLOCK_TEST_FAIR_PEER_H
#define RLOCK_TEST_FAIR_PEER_H

/*
 * All take KEYS lock, queue, timeout set. nil, "" as test_server_cmd() has it, is success of an
 * acquire; else the time to wait.
 */

/* ARGV lease, owner, wait, now: takes the lock or queues. */
extern const char peer_acquire[];
/* ARGV lease, owner, wait, now: takes the lock or answers 1. */
extern const char peer_try[];
/* ARGV owner, wait: gives up. */
extern const char peer_give_up[];
/* ARGV owner, lease, now, channel base: 1 released, 0 a level of it, nil not held by this owner. */
extern const char peer_release[];

#endif
