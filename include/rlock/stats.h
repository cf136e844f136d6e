/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rlock's statistics: the counts of a client since it was opened, for programs and monitoring.
 *
 * This header is new. A minor version may still change it; after that it is frozen like rlock.h.
 * The names of the metrics are frozen already. The rules at the top of rlock.h apply here too.
 */
#ifndef RLOCK_STATS_H
#define RLOCK_STATS_H

#include <rlock/rlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes of arrays. Entries without a meaning in this version are zero. */
enum {
    RLOCK_HISTOGRAM_BUCKETS = 28,
    RLOCK_STATS_KINDS = 16,  /* indexes: RLOCK_KIND_… */
    RLOCK_STATS_CODES = 32,  /* index: a code without its minus sign, for example -RLOCK_EBUSY */
    RLOCK_STATS_REASONS = 16 /* indexes: RLOCK_LOST_… */
};

/* The kinds of locks, in the order of the constructors in rlock.h. */
enum {
    RLOCK_KIND_REENTRANT,
    RLOCK_KIND_NONREENTRANT,
    RLOCK_KIND_SPIN,
    RLOCK_KIND_FENCED,
    RLOCK_KIND_FAIR,
    RLOCK_KIND_READ,
    RLOCK_KIND_WRITE,
    RLOCK_KIND_MULTI,
    RLOCK_KIND_REDLOCK,
    RLOCK_KIND_SETNX,
    RLOCK_KIND_PERMITS,
    RLOCK_KIND_SEMAPHORE
};

/*
 * How often a duration was in which range. The ranges never change: counts[i] is the number of
 * durations of at most 32 << i microseconds that are longer than the range before. The last range
 * has no end.
 */
struct rlock_histogram {
    uint64_t counts[RLOCK_HISTOGRAM_BUCKETS];
    uint64_t count;  /* the number of durations: the sum of counts */
    uint64_t sum_us; /* the sum of the durations */
};

/*
 * The counts of a client since it was opened. Set .size (RLOCK_STATS_INIT) before the call. A call
 * that the library refused at once, for example with RLOCK_EINVAL, RLOCK_EFORKED or
 * RLOCK_ENOTSUP, does not count. A multi-lock or RedLock counts at the client of its first member.
 * Its calls for its members do not count as calls, but what they do does: attempts, holds, requests
 * and so on.
 */
struct rlock_stats {
    size_t size;

    /* The present state. */
    size_t holds;       /* holds that the server granted, neither released nor lost */
    size_t waiting;     /* calls that are taking a lock, and each member that a multi-lock takes */
    size_t unreleased;  /* holds and attempts that ended here while the server may still have them:
                           the client goes on releasing them */
    size_t connections; /* connections to servers with locks; not those to Sentinels */
    size_t servers;     /* servers with locks that the client knows */

    /* Calls that ended, by their codes. The first two also by kind: for example
     * takes[RLOCK_KIND_FAIR][-RLOCK_ETIMEDOUT]. */
    uint64_t takes[RLOCK_STATS_KINDS][RLOCK_STATS_CODES];   /* calls that take a lock */
    uint64_t unlocks[RLOCK_STATS_KINDS][RLOCK_STATS_CODES]; /* unlocks, of one level each */
    uint64_t extends[RLOCK_STATS_CODES];                    /* rlock_extend() */
    uint64_t detaches[RLOCK_STATS_CODES];                   /* rlock_detach() */
    uint64_t adopts[RLOCK_STATS_CODES];                     /* rlock_adopt() */
    uint64_t force_unlocks[RLOCK_STATS_CODES];              /* rlock_force_unlock() */
    uint64_t inspects[RLOCK_STATS_CODES];                   /* rlock_inspect() */

    /* Holds. */
    uint64_t losses[RLOCK_STATS_REASONS]; /* lost holds that on_lost reports, by reason */
    uint64_t attempts;                    /* how often a call asked a server for a lock */
    uint64_t passes;          /* holds that a call of this client got from another one without the
                                 server: from an unlock, or because they lingered */
    uint64_t unsure;          /* unlocks that did not wait for the answer, and turned out to have
                                 failed: the hold was lost, or the server refused or was silent */
    uint64_t renewals;        /* renewals of holds that the server confirmed, with extensions */
    uint64_t late_renewals;   /* of these, renewals that used two thirds of their time or more */
    uint64_t failed_renewals; /* renewals of holds that failed; the client repeats them */

    /* Connections to servers with locks, and what went over them. */
    uint64_t connects;        /* connections that succeeded */
    uint64_t reconnects;      /* of these, connections after one that broke */
    uint64_t failed_connects; /* connections that could not be made */
    uint64_t disconnects;     /* connections that broke */
    uint64_t requests;        /* commands that were sent for calls, renewals and so on */
    uint64_t resends;         /* of these, second copies of a command that may have run already */
    uint64_t messages;        /* messages about releases that came for waiting calls */

    /* Durations. */
    struct rlock_histogram wait;  /* of calls that took a lock, or adopted it: from the call to the
                                     grant */
    struct rlock_histogram hold;  /* of holds: from the grant to the release, loss or hand-over */
    struct rlock_histogram reply; /* from sending a request to reading its reply */
};

/* Empty statistics for a call to fill. */
#define RLOCK_STATS_INIT                                                                           \
    {                                                                                              \
        sizeof(struct rlock_stats), 0, 0, 0, 0, 0, {{0}}, {{0}}, {0}, {0}, {0}, {0}, {0}, {0}, 0,  \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {{0}, 0, 0}, {{0}, 0, 0},                          \
        {                                                                                          \
            {0}, 0, 0                                                                              \
        }                                                                                          \
    }

/*
 * Gets the counts of a client. Local: no I/O. It takes the client's mutexes: for microseconds, or
 * longer while very many calls wait. A callback may call it, but not on_trace.
 * Returns 0, RLOCK_EINVAL (client or ret_stats is NULL, or the size is not set), RLOCK_EFORKED.
 */
RLOCK_API int rlock_client_stats(const struct rlock_client *client, struct rlock_stats *ret_stats);

/*
 * Writes the statistics of n clients as OpenMetrics text. docs/metrics.md explains the metrics. The
 * label "server" is the client's URL with *** in place of the password. Clients with the same URL
 * are added up.
 * The call writes into ret_text like snprintf(): at most size bytes with the NUL at the end. It
 * leaves out the rest. The metrics change meanwhile, so leave room when you call again.
 * ret_text: may be NULL if size is 0.
 * Local: no I/O. It takes each client's mutexes, like rlock_client_stats(). A callback may call
 * it, but not on_trace.
 * Returns the length of the whole text without the NUL; or RLOCK_EINVAL (an argument is NULL),
 * RLOCK_EFORKED, RLOCK_ENOMEM.
 */
RLOCK_API int64_t rlock_metrics(const struct rlock_client *const *clients, size_t n, char *ret_text,
                                size_t size);

#ifdef __cplusplus
}
#endif
#endif
