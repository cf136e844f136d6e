/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of a client: holds, acquisitions, waiting and renewal, driven by events and answering
 * with actions. It knows no socket, no thread and no clock: the real driver is in src/client,
 * another one simulates.
 *
 * Events are the functions named rlock__core_*, and each carries its time. Actions are what the
 * driver finds afterwards, and carries out after it dropped the mutex that protects the core:
 *   server.flight.out    bytes to send on the link, in this order, while generation flight.gen
 *                        is up
 *   server.flight.close  the link of generation flight.gen is to be closed
 *   server.sub_out       bytes to send on the subscriber connection
 *   done                 calls that are complete: their threads wait
 *   lost                 holds that were lost: to be reported
 *   notes                lines for the log
 *   rlock__core_next()   when rlock__core_tick() is due
 */
#ifndef RLOCK_LOCK_CORE_H
#define RLOCK_LOCK_CORE_H

#define HASH_NONFATAL_OOM 1 /* a failed insertion leaves .hh.tbl NULL */
#include <uthash.h>

#include "base/error.h"
#include "base/timer.h"
#include "lock/ops.h"

#define RLOCK__UUID_LEN 36
#define RLOCK__OWNER_SIZE (RLOCK__UUID_LEN + 1 + 20 + 1) /* "uuid:number" and a NUL */
#define RLOCK__HOLDER_SIZE 128

#define RLOCK__RECHECK_US (5 * RLOCK__SECOND) /* longest sleep of a waiter that is subscribed */
#define RLOCK__POLL_US (250 * RLOCK__MS)      /* longest sleep of one that cannot subscribe */
#define RLOCK__GRACE_US                                                                            \
    (40 * RLOCK__MS) /* for the outcome of an attempt that is given up at its deadline */
#define RLOCK__CANCEL_GRACE_US (8 * RLOCK__MS) /* the same for one that is cancelled */
#define RLOCK__BACKOFF_US                                                                          \
    (10 * RLOCK__MS) /* first pause after an error that passes; doubles, with jitter */
#define RLOCK__BACKOFF_MAX_US RLOCK__SECOND
#define RLOCK__IDLE_US (10 * RLOCK__SECOND) /* a link that is silent for so long is tried */
#define RLOCK__BATCH 100                    /* renewals in one script call */

struct rlock__hold;
struct rlock__place;
struct rlock__channel;
struct rlock__orphan;
struct rlock__look;

/* ---- What a thread may know of its holds without the mutex ---- */

/* The part of a hold that its owner reads without the mutex. Reference counted: the hold has one,
 * the owner another. */
struct rlock__claim {
    struct rlock__spec *spec;
    struct rlock__claim *next; /* in the owning thread's own list */
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

enum rlock__call_kind { RLOCK__ACQUIRE, RLOCK__RELEASE, RLOCK__COMMAND };

/* Where a call stands. */
enum rlock__step {
    RLOCK__NEW,
    RLOCK__LINED_UP,    /* behind another call of the same owner on the same lock */
    RLOCK__QUEUED,      /* in the local line, not its head */
    RLOCK__ASKING,      /* a request of it waits for the link, or for its reply */
    RLOCK__SUBSCRIBING, /* head of the line, waits until the channel is live */
    RLOCK__SLEEPING,    /* waits for a message, or for its timer */
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
    struct rlock__spec *spec; /* not for COMMAND */
    struct rlock__owner owner;
    int64_t wait_us;       /* ACQUIRE: 0 one attempt, negative for ever */
    int64_t lease_us;      /* ACQUIRE: 0 renewed */
    const void *cancel;    /* names the signal that cancels it */
    struct rlock__cmd cmd; /* COMMAND: what to send; the call takes it over */
    bool once;             /* COMMAND: must not be sent twice */
    /* COMMAND: takes the reply, under the mutex; returns the call's code */
    int (*read)(struct rlock__call *call, const struct rlock__reply *reply);
    void *reader;  /* read's own */
    void *payload; /* the driver's own */

    /* results */
    int code;
    int64_t valid_until, lease_granted_us;
    uint64_t token;
    uint32_t count;             /* the hold count that the call leaves */
    struct rlock__claim *claim; /* ACQUIRE: a reference for the owner */
    char detail[RLOCK__DETAIL_SIZE];

    /* the core's */
    struct rlock__call *prev, *next;         /* in the hold's line, the place's line, or done */
    struct rlock__call *all_prev, *all_next; /* in core.calls */
    struct rlock__core *core;
    enum rlock__step step;
    struct rlock__timer timer;
    int64_t deadline;
    struct rlock__hold *hold;
    struct rlock__place *place;
    struct rlock__channel *channel;
    struct rlock__call *wait_prev, *wait_next; /* in the channel's waiters */
    struct rlock__request *request;
    uint64_t number;   /* on the wire */
    uint32_t target;   /* the count that is asked for */
    uint64_t gen;      /* generation of its latest copy */
    uint64_t lost_gen; /* latest generation that broke with a copy of this number on it */
    int64_t sent_at;   /* latest copy of an attempt */
    unsigned attempts, failures;
    int error;      /* the latest answer was an error that passes: its code */
    void *memo;     /* the kind's own; NULL none */
    unsigned spins; /* looks without a channel so far */
    bool enqueued;  /* an attempt may have queued it on the server */
    bool stale;     /* a wake-up came while an attempt was in flight */
    bool contended; /* its latest attempt was answered: busy */
    char holder[RLOCK__HOLDER_SIZE];
};

/* ---- Holds ---- */

enum rlock__hold_state {
    RLOCK__HOLD_NONE, /* only calls of this owner are here */
    RLOCK__HOLD_HELD,
    RLOCK__HOLD_LOST, /* final; waits for its unlocks */
};

/* A loss to report. Allocated with the hold, so that reporting cannot fail. */
struct rlock__loss {
    struct rlock__loss *next;
    struct rlock__spec *spec;
    uint64_t owner; /* the given id, 0 a thread */
    enum rlock_reason reason;
};

struct rlock__loss *rlock__loss_free(struct rlock__loss *loss);

/* One owner on one lock: its hold, and the calls on it, one after the other. */
struct rlock__hold {
    UT_hash_handle hh;
    struct rlock__core *core;
    struct rlock__spec *spec;
    struct rlock__owner owner;
    char *key; /* in the table: owner, side and Redis key */
    enum rlock__hold_state state;
    enum rlock_reason reason; /* LOST: why */
    uint64_t number, token;
    uint32_t count;
    uint32_t renewed_from; /* the lowest level that asked for renewal; 0 none */
    int64_t lease_us;      /* the longest that any level asked for */
    int64_t valid_until;
    int64_t held_until; /* renewal stops here (max_hold); RLOCK__NEVER none */
    int64_t due;        /* next renewal */
    int64_t free_by;    /* the server's lease has ended by then */
    uint64_t lost_gen;  /* latest generation that broke with an acquire on it; 0 none */
    unsigned failures;  /* renewals in a row */
    struct rlock__hold **batch_entry; /* its place in a batch in flight; NULL none */
    bool is_due;                      /* in core.due */
    struct rlock__hold *due_next;
    struct rlock__timer timer; /* due, or end of validity */
    struct rlock__claim *claim;
    struct rlock__loss *loss;
    bool busy; /* a call has the turn; it may have returned in doubt */
    struct rlock__call *turn, *line;
    bool releasing; /* its last release is under way: not renewed any more */
    bool resent;    /* an earlier copy of the release under way may have been done */
    struct rlock__request *release;
};

/* ---- The core ---- */

/* What the core knows of one server. */
struct rlock__server {
    struct rlock__flight flight;
    bool sub_up;
    bool sub_refused;             /* a subscription was, and was logged */
    struct rlock__channel *asked; /* what SUBSCRIBE and UNSUBSCRIBE asked for, in that order */
    struct rlock__buf sub_out;
    int link_code;   /* why the link is down; 0 it is up, or nobody has tried */
    bool link_final; /* trying again will not help */
    char link_error[RLOCK__DETAIL_SIZE];
    int64_t clock_offset; /* the server's clock less ours, at the last renewal; 0 unknown */
    int64_t clock_slack;  /* how far off that may be: what the renewal took */
};

/* A line for the log. */
struct rlock__note {
    struct rlock__note *next;
    enum rlock_level level;
    char text[RLOCK__DETAIL_SIZE];
};

struct rlock__core {
    /* set by the driver, constant */
    char uuid[RLOCK__UUID_LEN + 1];
    uint64_t serial; /* of the client in this process */
    int64_t op_timeout_us, renewed_lease_us, margin_us;
    struct rlock__bytes prefix;
    enum rlock_level log_level;
    const char *address;                     /* of the server, for texts */
    void (*unref)(struct rlock__core *core); /* the last spec is gone */

    /* actions */
    struct rlock__call *done;
    struct rlock__loss *lost;
    struct rlock__note *notes;

    struct rlock__server server;
    struct rlock__timers timers;
    struct rlock__timer idle;    /* a link that is silent for long is tried */
    struct rlock__timer overdue; /* of the oldest reply */
    uint64_t random;             /* xorshift; seeded by the driver */
    uint64_t last_number;
    bool closed;
    struct rlock__hold *holds; /* a table */
    struct rlock__hold *due;   /* to be renewed at the end of this event */
    struct rlock__place *places;
    struct rlock__channel *channels;
    struct rlock__orphan *orphans;
    struct rlock__look *looks;
    struct rlock__call *calls; /* all that are not complete */
    struct rlock__buf scratch;
};

/* Events. Each leaves the core's actions to be looked at. */
void rlock__core_init(struct rlock__core *core);
void rlock__core_fini(struct rlock__core *core);
void rlock__core_link_up(struct rlock__core *core, uint64_t gen, uint64_t fenced_below,
                         int64_t now);
/* The link broke, or could not be made: code and text say why. final: trying again will not help
 * the callers. */
void rlock__core_link_down(struct rlock__core *core, uint64_t gen, int code, bool final,
                           const char *text, int64_t now);
void rlock__core_reply(struct rlock__core *core, uint64_t gen, const struct rlock__reply *reply,
                       int64_t now);
void rlock__core_sub_up(struct rlock__core *core, int64_t now);
void rlock__core_sub_down(struct rlock__core *core, int64_t now);
/* Something came on the subscriber connection: an acknowledgement, a message, a refusal. */
void rlock__core_sub_reply(struct rlock__core *core, const struct rlock__reply *reply, int64_t now);
void rlock__core_tick(struct rlock__core *core, int64_t now);
int64_t rlock__core_next(const struct rlock__core *core);
/* A call begins; its result comes with its completion, maybe at once. */
void rlock__core_begin(struct rlock__core *core, struct rlock__call *call, int64_t now);
/* Cancels the calls that wait with this signal. */
void rlock__core_cancel(struct rlock__core *core, const void *cancel, int64_t now);
/* A thread ended: what it holds is lost. */
void rlock__core_thread_exit(struct rlock__core *core, uint64_t thread, int64_t now);
/* A hold of this client with this number was forced open by this client. */
void rlock__core_forced(struct rlock__core *core, uint64_t number, int64_t now);
/* Ends all: calls complete as closed, holds are lost and released once. */
void rlock__core_close(struct rlock__core *core, int64_t now);
/* Whether nothing that was sent is still to be answered: closing need not wait longer. */
bool rlock__core_is_settled(const struct rlock__core *core);
/* Forgets its calls, which nobody waits for any more: before fini without a close. */
void rlock__core_abandon(struct rlock__core *core);
/* Logs what close could not release. */
void rlock__core_note_rest(struct rlock__core *core, int64_t now);
/* valid_until of an owner's hold, 0 if there is none. */
int64_t rlock__core_valid_until(struct rlock__core *core, const struct rlock__spec *spec,
                                struct rlock__owner owner);

#endif
