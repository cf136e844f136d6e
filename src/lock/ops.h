/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface that every kind of lock implements. A kind supplies one attempt: which script, its
 * keys and arguments, and how to read the reply. It never waits, retries, sends, or takes a mutex:
 * waiting, back-off, wake-up, renewal, counts and loss live once, in this room.
 */
#ifndef RLOCK_LOCK_OPS_H
#define RLOCK_LOCK_OPS_H

#include <rlock/rlock.h>
#include <stdatomic.h>

#include "base/flight.h"

struct rlock__core;

/* What a kind can do: data, read in one place each. */
enum rlock__caps {
    RLOCK__CAP_REENTRANT = 1 << 0, /* the owner may take it again */
    RLOCK__CAP_EXCLUSIVE = 1 << 1, /* per process only the head of the local line asks the server */
};

/*
 * What a lock is: kind, name, key and channel. Immutable, shared by handles, holds and requests,
 * reference counted; keeps the client's memory alive.
 */
struct rlock__spec {
    const struct rlock_ops *ops;
    struct rlock__core *core;
    uint64_t client;             /* the client's serial number in this process */
    struct rlock__bytes name;    /* the user's, with a NUL behind it */
    struct rlock__bytes key;     /* the Redis key: prefix and name */
    struct rlock__bytes channel; /* where releases are announced */
    atomic_uint refs;
};

/* The particulars of one attempt. */
struct rlock__ask {
    struct rlock__bytes owner; /* "uuid:number" */
    uint32_t count;            /* the hold count to make so */
    int64_t lease_ms;          /* asked for; 0 leaves what remains */
    const char *publish;       /* PUBLISH or SPUBLISH */
};

enum rlock__outcome {
    RLOCK__DONE,    /* granted, released, renewed: the server did what was asked */
    RLOCK__BUSY,    /* somebody else holds it */
    RLOCK__GONE,    /* this owner does not hold it */
    RLOCK__GARBLED, /* the reply makes no sense */
};

/* What a reply says. Borrowed from the reply. */
struct rlock__answer {
    enum rlock__outcome outcome;
    int64_t ttl_ms;             /* BUSY: what remains of the holder's lease, as PTTL says it */
    struct rlock__bytes holder; /* BUSY: one holder */
    bool taken;                 /* GONE: somebody else holds it */
    bool unheard;               /* DONE, of a release: the announcement was refused */
    uint64_t token;             /* DONE, of an acquire: the fencing number, 0 none */
};

/*
 * One kind. All members but caps are required unless they say otherwise; each runs under the
 * client's mutex, must not block, keeps no state, and may run any number of times for one call.
 */
struct rlock_ops {
    const char *kind; /* "reentrant" */
    unsigned caps;    /* enum rlock__caps */
    char side; /* holds of one key and owner differ by it: 'x', and the two sides of a read/write
                  lock */

    /* Appends the channel's name for this key. */
    void (*channel)(struct rlock__bytes key, struct rlock__buf *ret_channel);
    /* One attempt to make the owner's count ask->count; creates the hold only for a count of 1. */
    void (*acquire)(const struct rlock__spec *spec, const struct rlock__ask *ask,
                    struct rlock__cmd *ret_cmd);
    /* Makes the owner's count ask->count; 0 ends the hold, whatever its count, and announces it. */
    void (*release)(const struct rlock__spec *spec, const struct rlock__ask *ask,
                    struct rlock__cmd *ret_cmd);
    /* Appends one hold to a batch of renewals: exactly one integer of the reply answers it (1, 0
     * absent, -1 taken). */
    void (*renew)(const struct rlock__spec *spec, const struct rlock__ask *ask,
                  struct rlock__cmd *batch);
    /* Asks who holds. */
    void (*inspect)(const struct rlock__spec *spec, struct rlock__cmd *ret_cmd);
    /* Deletes the lock if exactly ask->owner still holds it, and announces it. */
    void (*force)(const struct rlock__spec *spec, const struct rlock__ask *ask,
                  struct rlock__cmd *ret_cmd);

    /* Read the replies of acquire, of release and force, and of inspect (false: garbled). */
    struct rlock__answer (*read_acquire)(const struct rlock__reply *reply);
    struct rlock__answer (*read_release)(const struct rlock__reply *reply);
    bool (*read_inspect)(const struct rlock__reply *reply, struct rlock_info *ret_info);
};

extern const struct rlock_ops rlock__reentrant_ops;

/* The channel of most kinds: the prefix, and the key in braces unless it has one itself. */
void rlock__channel_name(const char *prefix, struct rlock__bytes key,
                         struct rlock__buf *ret_channel);

#endif
