/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rlock's latch: callers wait until a number of parties have counted down. Redisson's
 * RCountDownLatch.
 *
 *     rlock_latch_new(client, "loaded", NULL, &latch);
 *     rlock_latch_set(latch, 3, NULL);                // one program, before the others begin
 *
 *     rlock_latch_down(latch, "shard-1");             // each of three parties
 *
 *     rlock_latch_wait(latch, RLOCK_FOREVER, NULL);   // any number of programs
 *
 * A latch is not a lock: it has no owner and no lease. A latch that nobody has set is open, so set
 * it before anybody waits for it. When it has opened, a new count closes it again. If the server
 * loses its data, or a failover loses the latest writes, the latch may open too early, or too late.
 *
 * This header is new, and the next minor version may change it. From then on it is frozen like
 * rlock.h. The rules at the top of rlock.h apply here too.
 */
#ifndef RLOCK_LATCH_H
#define RLOCK_LATCH_H

#include <rlock/rlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A latch. Threads: any thread may call its functions. */
struct rlock_latch;

/*
 * Makes a handle of a latch. Asks no server.
 * name: 1 to 65536 bytes. In a cluster a name or a key_prefix with braces returns RLOCK_EINVAL,
 * because Redisson's channel for it lies in another slot.
 * opts: name_len, or NULL. Any other option returns RLOCK_EINVAL.
 * Returns 0, or RLOCK_EINVAL, ENOMEM, ECLOSED, EFORKED.
 * Owns: *ret_latch belongs to the caller. Free it with rlock_latch_free().
 */
RLOCK_API RLOCK_CHECK_RESULT int rlock_latch_new(struct rlock_client *client, const char *name,
                                                 const struct rlock_opts *opts,
                                                 struct rlock_latch **ret_latch);

/* Frees a handle that no call uses any more. The latch on the server stays. Returns NULL. The
 * argument may be NULL. */
RLOCK_API struct rlock_latch *rlock_latch_free(struct rlock_latch *latch);

/*
 * Closes an open latch: it opens after count countdowns. A latch that is closed already stays as it
 * is. Redisson's trySetCount().
 * count: 1 to 2147483647. ret_set: whether this call has set the count; may be NULL.
 * I/O: one round trip, within op_timeout_ms. A request that is sent again counts once.
 * Returns 0, or RLOCK_EINVAL, ECONN, ETLS, EAUTH, EPERM, EWRONGTYPE, EREFUSED, ENOTSUP (the client
 * has RLOCK_CLIENT_USER_LOOP), ECLOSED, EFORKED, ENOMEM. After RLOCK_ECONN and EREFUSED the count
 * may be set: look with rlock_latch_count().
 */
RLOCK_API int rlock_latch_set(struct rlock_latch *latch, int64_t count, bool *ret_set);

/*
 * Counts down by one. The last party opens the latch, and wakes all that wait for it. If the latch
 * is open, the call does nothing. Redisson's countDown().
 * party: a name of 1 to 255 bytes. The party counts once until the latch is open, however often it
 * calls. If a connection breaks, the library sends the request again, and a copy never counts in a
 * later count. The record of the parties lasts for 30 days after the latest of them. NULL: the call
 * counts, and is sent once.
 * I/O: one round trip, within op_timeout_ms.
 * Returns 0; RLOCK_EINDOUBT (only without a party): the call may have counted; or the codes of
 * rlock_latch_set(). After RLOCK_ECONN, EREFUSED and ECLOSED it may have counted, too: a party with
 * a name calls again.
 */
RLOCK_API int rlock_latch_down(struct rlock_latch *latch, const char *party);

/*
 * Waits until the latch is open. Redisson's await().
 * wait_ms: 0 asks once; RLOCK_FOREVER waits without end. cancel: ends the wait; may be NULL.
 * Messages wake the call, and it asks again every 5 s at least. A call that begins before another
 * count is set may wait for that one as well.
 * Blocks for at most wait_ms + op_timeout_ms + RLOCK_LATE_MS.
 * Returns 0 (open), RLOCK_EBUSY (wait 0: it is closed), ETIMEDOUT (the wait ended), ECANCELED; or
 * RLOCK_EINVAL, EDEADLOCK (a callback cannot wait), ECONN, ETLS, EAUTH, EPERM, EWRONGTYPE,
 * EREFUSED, ENOTSUP, ECLOSED, EFORKED, ENOMEM, ERESOURCE.
 */
RLOCK_API RLOCK_CHECK_RESULT int rlock_latch_wait(struct rlock_latch *latch, int64_t wait_ms,
                                                  struct rlock_cancel *cancel);

/* Asks how many parties have not counted down yet; 0: the latch is open. I/O and codes are those of
 * rlock_latch_set(). */
RLOCK_API int rlock_latch_count(struct rlock_latch *latch, int64_t *ret_count);

/* ---- Async calls ---- */

/*
 * The async calls have no owner. Otherwise the rules of rlock_lock_async() apply.
 */

/* Closes an open latch: the async form of rlock_latch_set(). It does not say whether it has set the
 * count: see rlock_latch_count_async(). */
RLOCK_API int rlock_latch_set_async(struct rlock_latch *latch, int64_t count, rlock_done_fn *done,
                                    void *payload, struct rlock_op **ret_op);

/* Counts down: the async form of rlock_latch_down(). The client copies the party. */
RLOCK_API int rlock_latch_down_async(struct rlock_latch *latch, const char *party,
                                     rlock_done_fn *done, void *payload, struct rlock_op **ret_op);

/* Waits until the latch is open: the async form of rlock_latch_wait(). The cancel token must live
 * until the completion. rlock_op_cancel() ends the wait, too. */
RLOCK_API int rlock_latch_wait_async(struct rlock_latch *latch, int64_t wait_ms,
                                     struct rlock_cancel *cancel, rlock_done_fn *done,
                                     void *payload, struct rlock_op **ret_op);

/* Asks how many parties are missing: the async form of rlock_latch_count(). rlock_op_count()
 * returns the answer. */
RLOCK_API int rlock_latch_count_async(struct rlock_latch *latch, rlock_done_fn *done, void *payload,
                                      struct rlock_op **ret_op);

/* Returns the count of an rlock_latch_count_async() that ended with 0; of any other operation
 * RLOCK_EINVAL, which is negative. */
RLOCK_API int64_t rlock_op_count(const struct rlock_op *op);

#ifdef __cplusplus
}
#endif

#endif
