/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody else who uses a read/write lock: scripts that change keys and send messages as
 * Redisson's do. Written from the description of what can be observed of them.
 */
#ifndef RLOCK_TEST_RW_PEER_H
#define RLOCK_TEST_RW_PEER_H

/*
 * All take KEYS lock, "{lock}:" and channel; ARGV owner "uuid:number" and a lease in ms. nil is
 * success of an acquire; else what remains of the lock. A release answers 1 free, 0 a level or
 * others remain, nil not held.
 */
extern const char peer_read[];
extern const char peer_read_release[];
extern const char peer_write[];
extern const char peer_write_release[];
/* Extends a lease: 1, or 0 not held. */
extern const char peer_read_renew[];
extern const char peer_write_renew[];

#endif
