/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rlock's functions for administrators: they look at whole servers, and not at one lock.
 *
 * This header may change with each minor version. Its symbols have the version LIBRLOCK_ADMIN_0 for
 * as long as that is so. A program that must run with later versions of the library uses rlock.h
 * only. The rules at the top of rlock.h apply here too.
 *
 * Threads: any thread may call any function. The callbacks run in the calling thread. The library
 * holds none of its mutexes meanwhile.
 */
#ifndef RLOCK_ADMIN_H
#define RLOCK_ADMIN_H

#include <rlock/latch.h>
#include <rlock/rlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A lock that a scan found. Borrowed: valid during the callback. */
struct rlock_found {
    size_t size;
    const char *key; /* the Redis key: the client's key_prefix and the lock's name */
    size_t key_len;
    const struct rlock_info *info; /* about the lock's holder, or about its queue */
};

/* Receives the locks one after the other. Any return but 0 ends the scan with that value. */
typedef int rlock_found_fn(const struct rlock_found *found, void *payload);

/*
 * Lists the locks on the server, with SCAN. It treats a hash as a lock if its field names look like
 * those of holders ("uuid:number"), and calls fn for every such lock. It also calls fn for every
 * free fair lock that has waiters in its queue. Then info->locked is 0, and info->dead_waiters is
 * the number of dead waiters. It calls fn for permits and a semaphore if some units are held. The
 * scan may report a lock twice. It does not report setnx locks: a string may be anything.
 * pattern: as for SCAN MATCH, for the part after the client's key_prefix; NULL for all.
 * In a cluster, and behind Sentinels, the client asks the primaries one after the other. If it
 * cannot ask one, it still asks the others, and returns that failure. If a key moves meanwhile, the
 * scan may report its lock twice, or miss it.
 * Blocks. I/O: many round trips, each within op_timeout_ms.
 * Returns what fn returned if that was not 0, or RLOCK_ECONN, EAUTH, ETLS, EPERM, EREFUSED,
 * ECLOSED, EFORKED, ENOTSUP, EINVAL, ENOMEM.
 */
RLOCK_API int rlock_admin_scan(struct rlock_client *client, const char *pattern, rlock_found_fn *fn,
                               void *payload);

/*
 * Sets how many units a semaphore has in total (Redisson's setPermits()). Units that are held stay
 * held: if more are held than there are, no call gets any until enough of them are given back. The
 * number on the server counts for all clients. The option rlock_opts.units of a handle is another
 * number: it counts if the server has none, and no call may ask for more units than that.
 * lock: permits; or a semaphore, where units that Redisson clients hold come on top of the number.
 * units: 0 to 2147483647.
 * Blocks. I/O: one round trip within op_timeout_ms. In a cluster, and behind Sentinels, the call
 * does not wait until replicas have the number: a failover may lose it. After a failure call it
 * again.
 * Returns 0, or RLOCK_EINVAL, ENOTSUP (the lock has no units, or its client a user loop), ECONN,
 * EAUTH, ETLS, EPERM, EREFUSED, EWRONGTYPE, ECLOSED, EFORKED, ENOMEM.
 */
RLOCK_API int rlock_admin_set_units(struct rlock_handle *lock, int64_t units);

/*
 * Adds units to a semaphore, or removes some if units is negative (Redisson's addPermits()). If the
 * server has no number, this begins with no free units.
 * lock: permits or a semaphore. units: -2147483647 to 2147483647.
 * Blocks. I/O: one round trip within op_timeout_ms, as with rlock_admin_set_units().
 * Returns 0, or RLOCK_EINDOUBT: the units may be added, so look with rlock_inspect() before you
 * call again. RLOCK_EINVAL, ENOTSUP, ECONN, EAUTH, ETLS, EPERM, EREFUSED, EWRONGTYPE, ECLOSED,
 * EFORKED, ENOMEM: as above.
 */
RLOCK_API int rlock_admin_add_units(struct rlock_handle *lock, int64_t units);

/*
 * Deletes a latch, which opens it, and wakes all that wait for it. Redisson's delete().
 * ret_existed: whether there was one; may be NULL.
 * Blocks. I/O: one round trip within op_timeout_ms.
 * Returns 0, or RLOCK_EINDOUBT: the latch may be deleted, so call again. The other codes are those
 * of rlock_latch_set().
 */
RLOCK_API int rlock_admin_delete_latch(struct rlock_latch *latch, bool *ret_existed);

/* One finding of a diagnosis. Borrowed: valid during the callback. */
struct rlock_finding {
    size_t size;
    const char *server;  /* the address of the server that it is about; "": it is about all */
    const char *subject; /* a short word, for example "eviction" */
    const char *text;    /* what the finding means for locks; begins with the server's address if
                            the deployment has several servers */
    int level;           /* its severity: RLOCK_LOG_… */
    int code;            /* RLOCK_LOG_ERROR: what calls on some locks will return; otherwise 0 */
};

/* Receives the findings one after the other. */
typedef void rlock_finding_fn(const struct rlock_finding *finding, void *payload);

/*
 * Tests everything that locks need on the server: a connection, every script on a probe key,
 * pub/sub and permissions. Looks for settings that endanger locks.
 * In a cluster, and behind Sentinels, it tests each primary. The call also checks the cluster's
 * slots, or what the Sentinels answer.
 * Blocks. I/O: many round trips, each within op_timeout_ms.
 * Returns 0 if locks will work; otherwise the code of the first finding that prevents some locks.
 * RLOCK_EINVAL, ECLOSED, EFORKED and ENOTSUP come without a finding.
 */
RLOCK_API int rlock_admin_diagnose(struct rlock_client *client, rlock_finding_fn *fn,
                                   void *payload);

#ifdef __cplusplus
}
#endif
#endif
