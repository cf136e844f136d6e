/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface that every kind of lock implements. A kind supplies one attempt: which script, its
 * keys and arguments, and how to read the reply. It never waits, retries, sends, or takes a mutex:
 * waiting, back-off, wake-up, renewal, counts and loss live once, in this room.
 */
#ifndef RLOCK_LOCK_OPS_H
#define RLOCK_LOCK_OPS_H

#include <rlock/stats.h>
#include <stdatomic.h>

#include "wire/pipeline.h"

struct rlock__core;

/* What a kind can do: data, read in one place each. */
enum rlock__caps {
    /* the owner may take it again, unless its options say otherwise */
    RLOCK__CAP_REENTRANT = 1 << 0,
    /* in each process only the head of the wait queue asks the server */
    RLOCK__CAP_WAIT_QUEUE = 1 << 1,
    /* waiters queue on the server: each has a channel of its own, and leaves when it gives up */
    RLOCK__CAP_QUEUES = 1 << 2,
    /* an owner that holds the other side is refused */
    RLOCK__CAP_NO_UPGRADE = 1 << 3,
    /* one script may take it together with others: multi/acquire has its script */
    RLOCK__CAP_TOGETHER = 1 << 4,
    /* a grant has a fencing token */
    RLOCK__CAP_FENCED = 1 << 5,
    /* it is made of locks */
    RLOCK__CAP_MEMBERS = 1 << 6,
    /* holding a majority of those is holding it */
    RLOCK__CAP_QUORUM = 1 << 7,
    /* a hold may be passed on inside the process: lock/call/pass.h */
    RLOCK__CAP_PASSES = 1 << 8,
    /* the head of the wait queue enters the lock's queue on the server: lock/call/enter.h */
    RLOCK__CAP_ENTERS = 1 << 9,
    /* nobody announces its release; waiters hear of changes of its key: lock/server/tracked.h */
    RLOCK__CAP_TRACKS = 1 << 10,
    /* a grant has a number of units */
    RLOCK__CAP_UNITS = 1 << 11,
    /* every hold is renewed: it has no fixed lease, and is not handed over */
    RLOCK__CAP_RENEWED = 1 << 12,
};

#define RLOCK__UNITS_MAX 65535 /* of one hold */

/* What the name of a tracked key's channel begins with; the key follows. */
#define RLOCK__TRACKED "__redis__:invalidate:"

/* The options of a handle that its kind reads. Zero is the default of each. */
struct rlock__tuning {
    int64_t max_hold_us;
    int64_t linger_us; /* lock/call/pass.h */
    int64_t spin_initial_us, spin_max_us;
    int64_t spin_multiplier;
    int64_t fair_slot_ms;
    int64_t units;
    bool prefer_writers, no_reentry;
};

/*
 * What a lock is: kind, name, key and channel. It is immutable, shared by handles, holds and
 * requests, and reference counted. It keeps the client's memory alive.
 */
struct rlock__spec {
    const struct rlock_ops *ops;
    struct rlock__core *core;
    struct rlock__bytes name;    /* the user's, with a NUL behind it: the end of the key */
    struct rlock__bytes key;     /* the Redis key: prefix and name */
    struct rlock__bytes channel; /* where releases are announced */
    const struct rlock__tuning *tuning;
    unsigned hash; /* of client and key */
    unsigned slot; /* of the key, in a cluster */
    atomic_uint refs;
};

/* The particulars of one attempt. */
struct rlock__args {
    struct rlock__bytes owner; /* "uuid:number" */
    uint32_t count;            /* the hold count to make so */
    int64_t lease_ms;          /* to ask for; 0: the lease stays as it is */
    uint32_t units;            /* that these levels have together */
    uint32_t held_units;       /* acquire: of these, what the hold has already; release, renew:
                                  what it may have now at most */
    struct rlock__bytes
        other;      /* acquire: this owner's hold on the other side, "uuid:number"; empty: none */
    bool waits;     /* acquire: the call waits on its channel, so it may enqueue */
    bool enters;    /* acquire: it enters the lock's queue, or has entered it */
    bool may_push;  /* acquire: a release may grant it the lock: lock/call/enter.h */
    unsigned span;  /* acquire: of its entry there, 0 to 3 (lua/parts/give.lua) */
    bool gives_way; /* release: others than those in the queue have a turn */
    struct rlock__bytes settled; /* acquire: rlock__settled() */
    int64_t hint;                /* acquire: from the call's last answer; 0 at first */
    struct rlock__bytes seen;    /* force: the holders, as read_inspect wrote them */
    struct rlock__bytes from;    /* rename: the owner that has the hold, "uuid:number" */
};

enum rlock__outcome {
    RLOCK__DONE, /* granted, released, renewed: the server did what was asked */
    RLOCK__BUSY, /* another owner holds it */
    RLOCK__GONE, /* this owner does not hold it */
};

/* What a reply says. Borrowed from the reply. */
struct rlock__answer {
    enum rlock__outcome outcome;
    int64_t ttl_ms;             /* BUSY: what remains of the holder's lease, as PTTL says it */
    struct rlock__bytes holder; /* BUSY: one holder */
    bool taken;                 /* GONE: another owner holds it */
    bool announcement_refused;  /* DONE, of a release: no message was sent */
    bool is_given_away;         /* DONE, of a release: a call of another client got it */
    int64_t receivers;          /* DONE, of a release: how many received the message */
    bool shared;         /* DONE, of a release: others still hold it, so nobody here need ask.
                            BUSY: readers hold it, and others of them may join */
    bool is_others_turn; /* DONE, of a release: it is free for others than those in its queue */
    bool hint;           /* BUSY: for the kind's next attempt */
    bool has_more;       /* DONE, of an acquire: another owner may be granted it at once */
    uint8_t marks;       /* BUSY: turns of others before the call's place */
    uint32_t place;      /* BUSY: in the lock's queue, from 1 on; 0: it is not there */
    uint64_t token;      /* DONE, of an acquire: the fencing token; 0: none */
    int64_t recheck_ms;  /* BUSY: the waiter asks again no later than this; 0: as usual */
    int64_t ticket;      /* BUSY: a release grants the lock by it: lock/call/enter.h; 0: none */
};

/*
 * One kind. All members but caps are required, unless they say otherwise; a latch, which nobody
 * holds, has only a channel and acquire. Each function
 *   - runs under the client's mutex,
 *   - must not block,
 *   - keeps no state,
 *   - may run any number of times for one call.
 * A command declares as keys those that must exist, and those that it may create. While a slot of a
 * cluster is being moved, the server refuses a command if some of its keys are missing. A key that
 * may or may not exist is an argument instead, and the script must cope if it may not access it.
 */
struct rlock_ops {
    const char *kind; /* "reentrant" */
    unsigned number;  /* RLOCK_KIND_… */
    unsigned caps;    /* enum rlock__caps */
    char side;        /* 'x' or 'w': one owner at a time holds it; 'r': several do. 'r' and 'w' are
                         the sides of a read/write lock: an owner may hold both */
    char other_side;  /* of a read/write lock; 0: none */

    /* How long a waiter that polls sleeps before it tries again, after so many such pauses. NULL:
     * it waits on the channel instead. */
    int64_t (*pause)(const struct rlock__tuning *tuning, unsigned looks, uint64_t *random);
    /* Appends the channel's name for this key; with RLOCK__CAP_TRACKS: RLOCK__TRACKED, and the
     * key. */
    void (*channel)(struct rlock__bytes key, struct rlock__buf *ret_channel);
    /* The commands. Behind ASKING the core gives a script one argument more, 'asking'. Scripts that
     * do not need it ignore it. */
    /* One attempt to make the owner's count args->count. Only a count of 1 creates the hold. */
    void (*acquire)(const struct rlock__spec *spec, const struct rlock__args *args,
                    struct rlock__cmd *ret_cmd);
    /* Makes the owner's count args->count. 0 ends the hold, whatever its count was, and announces
     * that. */
    void (*release)(const struct rlock__spec *spec, const struct rlock__args *args,
                    struct rlock__cmd *ret_cmd);
    /* Appends one hold to a batch of renewals. Exactly one integer of the reply answers it: 1, or 0
     * (absent), or -1 (taken). */
    void (*renew)(const struct rlock__spec *spec, const struct rlock__args *args,
                  struct rlock__cmd *batch);
    /* Gives the hold of args->from to args->owner, as one level, with args->lease_ms from then on.
     * read_acquire reads the reply. */
    void (*rename)(const struct rlock__spec *spec, const struct rlock__args *args,
                   struct rlock__cmd *ret_cmd);
    /* Asks who holds. */
    void (*inspect)(const struct rlock__spec *spec, struct rlock__cmd *ret_cmd);
    /* Deletes the lock if exactly the holders in args->seen still hold it, and announces that. */
    void (*force)(const struct rlock__spec *spec, const struct rlock__args *args,
                  struct rlock__cmd *ret_cmd);

    /* With RLOCK__CAP_UNITS: sets the number of units, or adds to it. The caller ignores the
     * reply. NULL for other kinds. */
    void (*resize)(const struct rlock__spec *spec, int64_t units, bool adds,
                   struct rlock__cmd *ret_cmd);

    /*
     * Read the replies: of acquire and rename; of release and force; of inspect. A reply has one of
     * the shapes of its script. ret_seen: appends who holds, for force; may be NULL.
     */
    struct rlock__answer (*read_acquire)(const struct rlock__spec *spec,
                                         const struct rlock__reply *reply);
    struct rlock__answer (*read_release)(const struct rlock__reply *reply);
    void (*read_inspect)(const struct rlock__reply *reply, struct rlock_info *ret_info,
                         struct rlock__buf *ret_seen);
    /* Returns whether a client with this UUID has the holder that read_inspect named. NULL if the
     * names of holders begin with the UUID. */
    bool (*is_of)(const char *holder, struct rlock__bytes uuid);
};

/* Whether grants of the lock have a number of units. */
static inline bool rlock__has_units(const struct rlock__spec *spec)
{
    return (spec->ops->caps & RLOCK__CAP_UNITS) != 0;
}

/* Whether the waiters of the kind poll, whatever the server can do. */
static inline bool rlock__ops_poll(const struct rlock_ops *ops)
{
    return ops->pause != NULL && (ops->caps & RLOCK__CAP_TRACKS) == 0;
}

extern const struct rlock_ops rlock__reentrant_ops;
extern const struct rlock_ops rlock__nonreentrant_ops;
extern const struct rlock_ops rlock__spin_ops;
extern const struct rlock_ops rlock__setnx_ops;
extern const struct rlock_ops rlock__permits_ops;
extern const struct rlock_ops rlock__semaphore_ops;
extern const struct rlock_ops rlock__fenced_ops;
extern const struct rlock_ops rlock__fair_ops;

/* What the key of a fair lock's queue begins with. */
#define RLOCK__FAIR_QUEUE "redisson_lock_queue"

/* Adds the last arguments of a release: the command that announces it at the server that has the
 * key, and the channel. */
void rlock__announcement(const struct rlock__spec *spec, struct rlock__cmd *cmd);
/* Adds the first of these two alone. */
void rlock__announcement_command(const struct rlock__spec *spec, struct rlock__cmd *cmd);
/* Redisson's two forms of a derived name: prefix:{key}, and {key}:suffix. A key that has a brace
 * already gets no others. */
void rlock__prefixed_name(const char *prefix, struct rlock__bytes key, struct rlock__buf *ret_name);
/* Adds the first form to a command: as a key, or as an argument where it may be missing. */
void rlock__prefixed_key(const char *prefix, struct rlock__bytes key, struct rlock__cmd *cmd);
void rlock__prefixed_arg(const char *prefix, struct rlock__bytes key, struct rlock__cmd *cmd);
void rlock__suffixed_name(struct rlock__bytes key, const char *suffix, struct rlock__buf *ret_name);

#endif
