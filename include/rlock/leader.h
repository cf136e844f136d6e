/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rlock's leader election: the candidate that holds the lock is the leader.
 *
 *     static void on_term(const struct rlock_term *term, void *payload)
 *     {
 *         if (term->event == RLOCK_TERM_ELECTED) {
 *             start_work(payload);
 *         } else {
 *             stop_work(payload); // before the callback returns
 *         }
 *     }
 *
 *     code = rlock_leader_new(lock, RLOCK_LEADER_OPTS(.on_term = on_term), &leader);
 *
 * Two candidates can be leaders at the same time only if the lock has two holders.
 * docs/guarantees.md says when that can happen. If a second leader could do damage, use a fenced
 * lock, and let the resource check the term's token.
 *
 * This header is new, and the next minor version may change it. From then on it is frozen like
 * rlock.h. The rules at the top of rlock.h apply here too.
 */
#ifndef RLOCK_LEADER_H
#define RLOCK_LEADER_H

#include <rlock/rlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A candidate. Threads: any thread may call its functions. */
struct rlock_leader;

/* An event of a candidate. */
enum rlock_term_event {
    RLOCK_TERM_ELECTED = 1, /* the candidate is the leader now */
    RLOCK_TERM_DEPOSED,     /* the term ended: the hold was lost, or its validity ends within
                               margin_ms */
    RLOCK_TERM_RESIGNED     /* the term ended because of rlock_leader_resign() */
};

/* An event and its term. A term begins with an election. Borrowed: valid during the callback. */
struct rlock_term {
    size_t size;
    const char *name; /* the lock's name */
    uint64_t number;  /* 1 for the candidate's first term, 2 for the second, … */
    uint64_t token;   /* the fencing number of a fenced lock; 0 for other kinds */
    uint64_t owner;   /* the id of the hold's owner, for rlock_valid_ms_as() and others */
    int event;        /* RLOCK_TERM_… */
    int reason;       /* RLOCK_TERM_DEPOSED: why, RLOCK_LOST_…; otherwise 0 */
};

/*
 * Receives the events of a candidate: RLOCK_TERM_ELECTED, then the event that ends the term, then
 * the next RLOCK_TERM_ELECTED, and so on. The next event comes only after the callback has
 * returned: start long work in another thread.
 * Stop the work of the leader before you return from RLOCK_TERM_DEPOSED: the candidate releases the
 * lock only after that. Another candidate can be elected earlier only if the lease ends, if the
 * server has lost the lock or given it to another holder, or if the client was closed.
 * The callback may call every function that does not wait, including rlock_leader_resign() and
 * rlock_leader_free().
 * Threads: runs on the dispatcher thread of the lock's client; with RLOCK_CLIENT_USER_LOOP, inside
 * rlock_client_dispatch(). For a multi-lock or RedLock this is the client of one member, always of
 * the same member.
 */
typedef void rlock_term_fn(const struct rlock_term *term, void *payload);

/* Options of a candidate. Set .size (RLOCK_LEADER_OPTS); the rest may be zero. */
struct rlock_leader_opts {
    size_t size;
    rlock_term_fn *on_term; /* receives the events; default: none */
    void *payload;          /* for on_term */
    void *reserved;         /* NULL */
    int64_t rest_ms;        /* how long the candidate pauses after a term or a failed attempt before
                               it waits for the lock again; default: 1000 */
    int64_t margin_ms;      /* a term ends this much earlier than the validity of its hold; together
                               with safety_margin_ms less than half of renewed_lease_ms and of
                               max_hold_ms; default: 0 */
};

/* Makes the options of rlock_leader_new(). Name only the options that you want to set; the others
 * have their defaults. RLOCK_LEADER_OPTS(.on_term = on_term) is a pointer, valid until the end of
 * the block. C only. */
#define RLOCK_LEADER_OPTS(...)                                                                     \
    (&(struct rlock_leader_opts){.size = sizeof(struct rlock_leader_opts), __VA_ARGS__})

/*
 * Makes a candidate for the lock. The candidate waits for the lock in the background. When it gets
 * the lock, it is the leader. After each term it pauses for rest_ms, and then waits again. The
 * client renews the hold. Each candidate has an owner id of its own.
 * lock: any kind except read, permits and semaphore, or a lock made of read locks. The candidate
 * keeps a reference to it. Use the lock's name for this election alone.
 * opts: NULL for the defaults.
 * ret_leader: written before on_term runs. The caller must free it with rlock_leader_free().
 * If an attempt fails, for example because the server refuses it, the candidate writes a line to
 * the log, and tries again after rest_ms.
 * Returns 0, or RLOCK_EINVAL, ECLOSED, EFORKED, ENOMEM; RLOCK_ENOTSUP for read, permits
 * and semaphore. The call does not wait.
 */
RLOCK_API RLOCK_CHECK_RESULT int rlock_leader_new(struct rlock_handle *lock,
                                                  const struct rlock_leader_opts *opts,
                                                  struct rlock_leader **ret_leader);

/*
 * Returns whether the candidate is the leader now. It asks no server. It returns false as soon as
 * the validity of the hold has ended or ends within margin_ms, even if on_term has not yet received
 * the event. In a child process of fork() it returns false.
 */
RLOCK_API bool rlock_leader_is_leading(const struct rlock_leader *leader);

/*
 * Ends the term. Stop the work of the leader before you call this function. From this call on,
 * rlock_leader_is_leading() returns false. The candidate releases the lock, on_term receives
 * RLOCK_TERM_RESIGNED, and the candidate pauses for rest_ms.
 * Returns 0, or RLOCK_ENOTOWNER if the candidate is not the leader, or RLOCK_EINVAL, ECLOSED,
 * EFORKED. The call does not wait.
 */
RLOCK_API int rlock_leader_resign(struct rlock_leader *leader);

/*
 * Frees the candidate. If it is the leader, it releases the lock, and on_term receives no event:
 * stop the work of the leader before you call this function. If on_term is running in another
 * thread, the call waits until on_term returns. It waits for nothing else. After the return on_term
 * is not called again. Two callbacks must not free each other's candidates.
 * Free the candidate before you close the client. If you close the client first, the candidate's
 * term ends with RLOCK_TERM_DEPOSED.
 * Returns NULL. The argument may be NULL.
 */
RLOCK_API struct rlock_leader *rlock_leader_free(struct rlock_leader *leader);

#ifdef __cplusplus
}
#endif
#endif
