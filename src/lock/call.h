/* SPDX-License-Identifier: Apache-2.0 */
/* A program's call in the core, the view that the owner reads, and owners. */
#ifndef RLOCK_LOCK_CALL_H
#define RLOCK_LOCK_CALL_H

#include "base/error.h"
#include "base/table.h"
#include "base/timer.h"
#include "lock/doubt.h"
#include "lock/ops.h"
#include "lock/server/in_flight.h"

#define RLOCK__FACT_SIZE 128

struct rlock__core;
struct rlock__hold;
struct rlock__queue;
struct rlock__channel;
struct rlock__ticket;

/* ---- What a thread reads of its holds without the mutex ---- */

/* The part of a hold that its owner reads without the mutex. Reference counted: the hold has one
 * reference, the owner another. */
struct rlock__view {
    struct rlock__spec *spec;
    struct rlock__table_node node; /* in the owning thread's own table */
    atomic_llong valid_until;      /* 0: not valid any more */
    atomic_uint count;
    atomic_uint refs;
};

struct rlock__view *rlock__view_ref(struct rlock__view *view);
struct rlock__view *rlock__view_unref(struct rlock__view *view);
struct rlock__spec *rlock__spec_ref(struct rlock__spec *spec);
struct rlock__spec *rlock__spec_unref(struct rlock__spec *spec);
/* NULL without memory. The key is the client's prefix and the name. tuning: NULL: all default. */
struct rlock__spec *rlock__spec_new(struct rlock__core *core, const struct rlock_ops *ops,
                                    struct rlock__bytes name, const struct rlock__tuning *tuning);
/* Whether two are the same lock of the same client. */
bool rlock__spec_equal(const struct rlock__spec *a, const struct rlock__spec *b);

/* An owner: a thread, by its number, or an id that the caller gave. Thread 7 and the given id 7 are
 * two owners. */
struct rlock__owner {
    uint64_t id;
    bool given;
};

/* ---- Calls ---- */

/* Whom a hold belongs to on the server, while its last release is under way. */
enum rlock__detach {
    RLOCK__ATTACHED,      /* its number */
    RLOCK__DETACHING,     /* the server was asked to give it to its text */
    RLOCK__REVOKING,      /* an unlock takes that back: it releases the number, */
    RLOCK__REVOKING_TEXT, /* and then the text, since the number was not there */
};

struct rlock__call;
struct rlock__request;

/*
 * A batch: calls of one owner in one client that are taken all or none. They are begun while the
 * mutex is held once. Their kinds have RLOCK__CAP_TOGETHER. Their inputs are the same. The batch
 * belongs to the owner of the calls' memory.
 */
struct rlock__batch {
    /* inputs */
    size_t n;
    int64_t until; /* a batch that still waits then ends as busy, like one after too many rounds;
                      RLOCK__NEVER: no limit */

    /* the core's; zero at first */
    size_t ready; /* calls that have their turn */
    unsigned rounds;
    unsigned refusals; /* by the server, because of where its keys lie */
    bool is_scattered; /* it ended as busy for that: each lock alone may succeed */
    bool rechecks;     /* the attempt in flight does not count as a round */
    bool partial;      /* the error came after the script took a part of the locks */
    struct rlock__call *sender;
    struct rlock__request *request; /* in flight, for all calls */

    struct rlock__call *calls[]; /* an input; a call that is complete leaves it */
};

/* Why a call failed: one line for logs, and the same as data. */
struct rlock__texts {
    char detail[RLOCK__DETAIL_SIZE];
    struct rlock__facts facts;
};

/* Keeps the texts as the thread's last failure. Returns the code. */
int rlock__fail_as(int code, const struct rlock__texts *texts);

/* For a call. If the call fails, its end writes the rest. */
static inline void rlock__texts_begin(struct rlock__texts *texts)
{
    texts->detail[0] = texts->facts.holder[0] = '\0';
    texts->facts.free_at = 0;
}

/* A large part of it need not be cleared. */
static inline void rlock__texts_clear(struct rlock__texts *texts)
{
    rlock__texts_begin(texts);
    texts->facts.server[0] = '\0';
    texts->facts.reason = 0;
}

enum rlock__call_kind {
    RLOCK__ACQUIRE,
    RLOCK__RELEASE,
    RLOCK__COMMAND,
    RLOCK__EXTEND,
    RLOCK__AWAIT, /* waits until a latch is open */
};

/* Why a call goes on at the end of the event. Bits; the lowest is the first reason. */
enum rlock__why {
    RLOCK__HEARD = 1 << 0,    /* a message of a release came on its channel */
    RLOCK__SETTLED = 1 << 1,  /* its recovery has ended */
    RLOCK__TURN = 1 << 2,     /* its owner's call before it has left the hold */
    RLOCK__HEAD = 1 << 3,     /* it is the head of its lock's wait queue now */
    RLOCK__DEAF = 1 << 4,     /* its channel is not live any more */
    RLOCK__WOKEN = 1 << 5,    /* its channel is live, a message came, or we released */
    RLOCK__AGAIN = 1 << 6,    /* its grant was over when it was read: it tries again at once */
    RLOCK__EXTENDED = 1 << 7, /* the hold that it extends was renewed, or refused, or has ended */
    RLOCK__TOLD = 1 << 8,     /* a message says when it is to ask */
    RLOCK__LOOKED = 1 << 9,   /* a look at its key says when the lease there ends */
};

/* Where a call stands. */
enum rlock__step {
    RLOCK__NEW,
    RLOCK__LINED_UP,    /* behind another call of the same owner on the same lock */
    RLOCK__QUEUED,      /* in the wait queue, but not its head; or without time for an attempt */
    RLOCK__ASKING,      /* its request waits for the link, or for its reply */
    RLOCK__SUBSCRIBING, /* head of the queue; waits until the channel is live */
    RLOCK__SLEEPING,    /* waits for a message, or for its timer */
    RLOCK__PAUSING,     /* head of the queue; lets others go first */
    RLOCK__GIVING_UP,   /* its code is decided; the outcome of its attempt is still open */
    RLOCK__COMPLETE,
};

struct rlock__call_place {
    struct rlock__call *prev, *next;
};

#define RLOCK__PUSH_US (2 * RLOCK__SECOND) /* the lease that a release grants: enter.h */

/* What a call has that enters the lock's queue on the server, or waits for a fair lock:
 * lock/call/enter.h. */
struct rlock__entry {
    struct rlock__channel *common, *marker; /* it hears other libraries; NULL: it does not */
    struct rlock__call_place hears;         /* in common.hearers */
    int64_t ask_at;                         /* a message says to ask then; 0: none does */
    int64_t marks;                          /* turns of others that it lets pass */
    int64_t place;                          /* by its latest answer; 0: not in the queue */
    int64_t ticket;   /* a release grants the lock by it; in a queue also its order; 0: none yet */
    int64_t asked_at; /* its first attempt since the latest busy answer began; 0: none did */
    int64_t entered_at; /* asked_at of the answer that named this ticket first; 0: none did */
    uint64_t token;     /* is_pushed: of a fenced lock */
    uint8_t span;       /* of a reservation for it: lua/parts/give.lua */
    bool is_counted;    /* the marks before it were counted */
    bool is_foreign;    /* another library holds the lock, or may hold it */
    bool may_push;      /* it told the server that a release may grant it the lock */
    bool is_pushed;     /* a release did, and a message has just said so */
};

/* The part of a call that takes a lock. */
struct rlock__acquire {
    /* inputs */
    int64_t wait_us; /* 0: one attempt; negative: for ever */
    /* 0: renewed. RELEASE: the lease of the text that gets the hold; 0: the hold is released */
    int64_t lease_us;
    uint16_t units; /* of a kind that has them; 0: 1 */
    /* the core's, in this place for its size */
    uint16_t undone_units;      /* that the hold may have from an earlier call; 0: none */
    bool has_more;              /* another call here may be granted the lock at once */
    int64_t timeout_us;         /* for the server to answer; 0: the client's op_timeout */
    int64_t min_uptime_us;      /* a server that runs for less does not count; 0: any counts */
    struct rlock__batch *batch; /* the calls that share its attempt; NULL: none */
    /* The owner that gives its hold to the call, "uuid:number"; NULL: none. With wait 0, without a
     * batch */
    const char *adopts;
    bool timed; /* a member of a group that waits, and times out when the group does */

    /* the core's; places are by size, for very many calls may wait */
    bool busy_ends;     /* GIVING_UP: if its attempt found the lock busy, nothing is open, */
    bool refusal_ends;  /* and if its attempt was refused */
    bool asked;         /* its latest answer came from behind ASKING */
    bool enqueued;      /* an attempt may have queued it on the server */
    bool stale;         /* it was woken while an attempt was in flight */
    bool deaf;          /* its channel was not subscribed when it last asked */
    bool contended;     /* the server named another holder */
    uint32_t target;    /* the count that is asked for */
    unsigned attempts;  /* RELEASE: how often it asked the server */
    unsigned spins;     /* pauses of a spin lock so far */
    unsigned confirmed; /* how many replicas had its grant, by the latest answer */

    /* results */
    int64_t valid_until, lease_granted_us;
    uint64_t token;

    /* the core's */
    struct rlock__queue *queue;
    int64_t granted_until; /* the head before it may hold until then; 0: it does not */
    uint64_t gen;          /* generation of its latest copy */
    /* of its number, from the first attempt on. GIVING_UP: in the recovery that the call waits
     * for */
    struct rlock__ticket *ticket;
    int64_t begun_at;            /* RELEASE: when its hold was granted; 0: unknown */
    int64_t sent_at;             /* when the latest copy of an attempt was sent */
    int64_t asked_at;            /* RELEASE too: since then it waits for the server; 0: no */
    int64_t server_us;           /* how long it waited for the server before that */
    struct rlock__request *look; /* asks whether a grant from behind ASKING counts */
    struct rlock__ack ack;       /* asks whether enough replicas have its grant */
    int64_t granted_t0;          /* the t0 of its grant */
    int64_t hint;                /* from its latest answer, for its next attempt */
    struct rlock__entry *entry;  /* NULL: it has not entered the lock's queue, and has no ticket */
};

/* The part of a call that runs one command. */
struct rlock__command {
    struct rlock__cmd cmd; /* what to send; the call takes it over */
    bool once;             /* it must not be sent twice */
    /* reads the reply, under the mutex; returns the call's code */
    int (*read)(struct rlock__call *call, const struct rlock__reply *reply);
    void *reader; /* for read */
};

/* The part of a call that extends a hold. */
struct rlock__extend {
    int64_t lease_us;         /* an input; 0: the hold is renewed from now on */
    int64_t lease_granted_us; /* a result */

    /* the core's */
    struct rlock__grant *grant; /* the call waits for its renewal; NULL: it does not */
    int64_t asked_at;           /* the call waits since then */
    unsigned requests;          /* renewals that were to ask for it */
    bool is_sent;               /* the renewal in flight asks for it */
    bool may_have_run;          /* an earlier renewal did, and nobody knows whether it ran */
    int reason;                 /* the hold was lost: why; 0: it was not */
};

/*
 * One call of a program, from its beginning to its completion. The caller owns the memory, and
 * leaves it in place until the call is in core.done. The caller sets the inputs; everything else is
 * zero. A RELEASE has the common part alone: its `acquire` stays zero, but for what it says of a
 * RELEASE. An AWAIT has in `acquire` its wait, when it began, and whether it was refused; the rest
 * stays zero. In a COMMAND and an EXTEND nobody may read `acquire`.
 */
struct rlock__call {
    /* inputs */
    enum rlock__call_kind kind;
    struct rlock__spec *spec; /* the lock; a COMMAND goes to that lock's server */
    struct rlock__owner owner;
    const void *cancel; /* names the signal that cancels it */
    bool cancelled;     /* the signal was fired: an input before the call begins */
    bool prompt;        /* fails at once if the server is known to be down */
    bool sends;         /* RELEASE: it is complete once the release is sent */
    bool member;        /* one level of a group; the group answers for it to its owner */
    /* Members only. ACQUIRE: renew this fixed lease until the group is complete. RELEASE: the group
     * of this level was not complete yet */
    bool provisional;
    /* Members only. This level is the first one of its group that is renewed */
    bool renewed;
    /* Members only: whether a thread waits for the group; NULL: a thread does (lock/call/late.h) */
    const atomic_bool *awaited;
    /* Members only, also a result: what the member's earlier calls left open, and then this call
     * too */
    struct rlock__doubt *doubt;
    /* the driver's: called once the call is complete, under the mutex; may be NULL */
    void (*finish)(struct rlock__call *call);
    void *payload;
    /* its texts, empty at first. NULL: if `says`, the core allocates them when there is a text, and
     * the caller frees them; otherwise the call has none */
    struct rlock__texts *texts;
    bool says;

    /* results */
    int code;
    uint32_t count;           /* the hold count after the call */
    struct rlock__view *view; /* ACQUIRE: a reference for the owner */

    /* the core's */
    struct rlock__call *prev, *next; /* in the hold's line, the wait queue, or done */
    struct rlock__call_place all;    /* in core.calls */
    struct rlock__core *core;
    struct rlock__link *link; /* of its latest request, or of the next one */
    enum rlock__step step;
    struct rlock__timer timer;
    int64_t deadline; /* ACQUIRE: of its wait for the holder; acquire_wait.c says more */
    struct rlock__hold *hold;
    struct rlock__channel *channel;
    struct rlock__call_place waits; /* in the channel's waiters */
    struct rlock__call_place ready; /* in core.ready */
    unsigned why;                   /* enum rlock__why; 0: it is not in core.ready */
    unsigned failures;
    struct rlock__request *request;
    uint64_t number; /* of its attempt, on the server; of the hold that it detached */
    int error;       /* the latest answer was an error that may pass: its code */
    bool described;  /* there is a text for its outcome so far */

    union {
        struct rlock__acquire acquire;
        struct rlock__command command;
        struct rlock__extend extend;
    };
};

/* Whether the call may wait on a channel. */
static inline bool rlock__listens(const struct rlock__call *call)
{
    return call->kind == RLOCK__ACQUIRE || call->kind == RLOCK__AWAIT;
}

/* Whether the call gives its hold to a text. */
static inline bool rlock__detaches(const struct rlock__call *call)
{
    return call->kind == RLOCK__RELEASE && call->acquire.lease_us != 0;
}

/* How long the call has waited for servers. */
static inline int64_t rlock__call_server_us(const struct rlock__call *call, int64_t now)
{
    const bool extends = call->kind == RLOCK__EXTEND;
    const int64_t since = extends ? call->extend.asked_at : call->acquire.asked_at;

    return (extends ? 0 : call->acquire.server_us) + (since != 0 ? rlock__max(now - since, 0) : 0);
}

/* Why the call failed; "": there is no text. */
static inline const char *rlock__call_detail(const struct rlock__call *call)
{
    return call->texts != NULL ? call->texts->detail : "";
}

#endif
