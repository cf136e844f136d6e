/* SPDX-License-Identifier: Apache-2.0 */
/* A call of a user, what it leaves with its thread, and who holds. */
#ifndef RLOCK_LOCK_CALL_H
#define RLOCK_LOCK_CALL_H

#include "base/error.h"
#include "base/timer.h"
#include "lock/copies.h"
#include "lock/ops.h"

#define RLOCK__HOLDER_SIZE 128

struct rlock__core;
struct rlock__hold;
struct rlock__queue;
struct rlock__channel;
struct rlock__orphan;

/* ---- What a thread may know of its holds without the mutex ---- */

/* The part of a hold that its owner reads without the mutex. Reference counted: the hold has one,
 * the owner another. */
struct rlock__claim {
    struct rlock__spec *spec;
    unsigned hash;             /* the spec's */
    struct rlock__claim *next; /* in the owning thread's own table */
    atomic_llong valid_until;  /* 0: not valid any more */
    atomic_uint count;
    atomic_uint refs;
};

struct rlock__claim *rlock__claim_ref(struct rlock__claim *claim);
struct rlock__claim *rlock__claim_unref(struct rlock__claim *claim);
struct rlock__spec *rlock__spec_ref(struct rlock__spec *spec);
struct rlock__spec *rlock__spec_unref(struct rlock__spec *spec);
/* NULL without memory. key = prefix + name. tuning: NULL all default. */
struct rlock__spec *rlock__spec_new(struct rlock__core *core, const struct rlock_ops *ops,
                                    struct rlock__bytes name, const struct rlock__tuning *tuning);
/* Whether two mean the same lock of the same client. */
bool rlock__spec_equal(const struct rlock__spec *a, const struct rlock__spec *b);

/* Who holds: a thread by its number, or an id that the caller gave. Thread 7 and given id 7 are
 * different owners. */
struct rlock__owner {
    uint64_t id;
    bool given;
};

/* ---- Calls ---- */

struct rlock__call;
struct rlock__request;

/*
 * Calls of one owner in one client, begun under the mutex all at once, that are taken all or none;
 * their kinds have RLOCK__CAP_TOGETHER, and their inputs are the same. Who owns the calls owns it.
 */
struct rlock__team {
    /* inputs */
    size_t n;
    int64_t until; /* who waits then, or for too many rounds, ends as busy; RLOCK__NEVER none */

    /* the core's; at first zero */
    size_t ready;
    unsigned rounds;
    bool rechecks; /* the attempt under way is not another round */
    bool partial;  /* the error that is being heard came when a part of them was taken */
    struct rlock__call *leader;
    struct rlock__request *request; /* in flight, of all of them */

    struct rlock__call *calls[]; /* an input too; those that are complete leave it */
};

enum rlock__call_kind { RLOCK__ACQUIRE, RLOCK__RELEASE, RLOCK__COMMAND, RLOCK__LISTEN };

/* Why a call goes on at the end of the event; bits, looked at in this order. */
enum rlock__why {
    RLOCK__SETTLED = 1 << 0, /* nothing of what it gave up is left on the server */
    RLOCK__TURN = 1 << 1,    /* its owner's call before it has left the hold */
    RLOCK__HEAD = 1 << 2,    /* it is the head of its lock's wait queue now */
    RLOCK__DEAF = 1 << 3,    /* nobody hears its channel any more */
    RLOCK__WOKEN = 1 << 4,   /* its channel is live, or spoke; or the lock was released here */
};

/* Where a call stands. */
enum rlock__step {
    RLOCK__NEW,
    RLOCK__LINED_UP,    /* behind another call of the same owner on the same lock */
    RLOCK__QUEUED,      /* in the wait queue, not its head, or without time to ask */
    RLOCK__ASKING,      /* a request of it waits for the link, or for its reply */
    RLOCK__SUBSCRIBING, /* head of the queue, waits until the channel is live */
    RLOCK__SLEEPING,    /* waits for a message, or for its timer */
    RLOCK__PAUSING,     /* head of the queue, lets others go first */
    RLOCK__GIVING_UP,   /* its attempt's outcome is still open; its answer is not */
    RLOCK__COMPLETE,
};

/*
 * One call of a user, from its begin to its completion. The caller owns the memory and leaves it in
 * place until the call is in core.done. Set: the inputs; zero: all others.
 */
struct rlock__call {
    /* inputs */
    enum rlock__call_kind kind;
    struct rlock__spec *spec; /* the lock that it is for; a COMMAND goes where that is */
    struct rlock__owner owner;
    int64_t wait_us;       /* ACQUIRE: 0 one attempt, negative for ever */
    int64_t lease_us;      /* ACQUIRE: 0 renewed */
    int64_t timeout_us;    /* ACQUIRE of one attempt: its own deadline; 0 the client's */
    bool timed;            /* ACQUIRE of a member: its group waits, and times out with it */
    int64_t min_uptime_us; /* ACQUIRE: a server that started later does not count; 0 any */
    bool prompt;           /* ACQUIRE: a server that is known to be down refuses it at once */
    /* of a member. ACQUIRE with a lease: renewed with it until it is sealed; RELEASE: not sealed */
    bool kept;
    /* of a member. ACQUIRE: the first of its group's levels that is renewed; RELEASE: that */
    bool renewed;
    bool member;              /* one level of a group, which answers for it to its owner */
    struct rlock__team *team; /* ACQUIRE: it is taken together with others; NULL alone */
    const void *cancel;       /* names the signal that cancels it */
    bool cancelled;           /* by that, before it began */
    struct rlock__cmd cmd;    /* COMMAND: what to send; the call takes it over */
    bool once;                /* COMMAND: must not be sent twice */
    /* COMMAND: takes the reply, under the mutex; returns the call's code */
    int (*read)(struct rlock__call *call, const struct rlock__reply *reply);
    void *reader; /* read's own */
    /* the driver's own: what to do with it once it is complete, under the mutex; may be NULL.
     * LISTEN: also each time that the channel goes live, or speaks */
    void (*finish)(struct rlock__call *call);
    void *payload;

    /* results */
    int code;
    int64_t valid_until, lease_granted_us;
    uint64_t token;
    uint32_t count;             /* the hold count that the call leaves */
    struct rlock__claim *claim; /* ACQUIRE: a reference for the owner */
    char detail[RLOCK__DETAIL_SIZE];

    /* the core's */
    struct rlock__call *prev, *next;         /* in the hold's line, the wait queue, or done */
    struct rlock__call *all_prev, *all_next; /* in core.calls */
    struct rlock__core *core;
    struct rlock__link *link; /* of its latest request, or that the next one would take */
    enum rlock__step step;
    struct rlock__timer timer;
    int64_t deadline;
    struct rlock__hold *hold;
    struct rlock__queue *queue;
    struct rlock__channel *channel;
    struct rlock__call *wait_prev, *wait_next;   /* in the channel's waiters */
    struct rlock__call *ready_prev, *ready_next; /* in core.ready */
    unsigned why;                                /* enum rlock__why; 0 it is not in there */
    int64_t granted_until; /* HEAD: until when the one before it may hold; 0 it does not */
    struct rlock__request *request;
    uint64_t number;           /* on the wire */
    uint32_t target;           /* the count that is asked for */
    uint64_t gen;              /* generation of its latest copy */
    struct rlock__copies lost; /* those of this number that went down with their links */
    int64_t sent_at;           /* latest copy of an attempt */
    unsigned attempts, failures;
    int error;                    /* the latest answer was an error that passes: its code */
    struct rlock__orphan *orphan; /* what it left, and waits for */
    int64_t hint;                 /* of its last answer, for its next attempt */
    unsigned spins;               /* looks without a channel so far */
    bool behind;    /* it stood behind others here: even its first attempt must come back in time */
    bool enqueued;  /* an attempt may have queued it on the server */
    bool stale;     /* a wake-up came while an attempt was in flight */
    bool contended; /* its latest attempt was answered: busy */
    char holder[RLOCK__HOLDER_SIZE];
};

#endif
