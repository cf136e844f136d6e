/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of a client: holds, acquisitions, waiting and renewal, driven by events and answering
 * with actions. It knows no socket, no thread and no clock: the real driver is in src/drive,
 * another one simulates.
 *
 * Events are the functions named rlock__core_*, and each carries its time. Actions are what the
 * driver finds afterwards, and carries out after it dropped the mutex that protects the core:
 *   pipeline.out           of each link: bytes to send on it, in this order, while generation
 *                          pipeline.gen is up
 *   pipeline.close         the link of generation pipeline.gen is to be closed
 *   rlock__link_due()      when a link is to be made
 *   sub.out                of each server: bytes to send on its subscriber connection
 *   rlock__core_changed()  the servers that have something new of these
 *   done                   calls that are complete: their threads wait
 *   rlock__core_take_notified()
 *                          listeners to be notified
 *   lost                   holds that were lost: to be reported
 *   notes                  lines for the log
 *   rlock__core_next()     when rlock__core_tick() is due
 *
 * No event does more than a slice of work, however much there is: what is left over waits for
 * another tick, after a rest in which calls are served. So is what many holds or recoveries need at
 * one time, and no call waits behind it.
 */
#ifndef RLOCK_LOCK_CORE_H
#define RLOCK_LOCK_CORE_H

#include <utlist.h>

#include "base/implies.h"
#include "base/of.h"
#include "base/table.h"
#include "base/uuid.h"
#include "lock/call.h"
#include "lock/driver.h"
#include "lock/server/server.h"

#define RLOCK__OWNER_SIZE (RLOCK__UUID_LEN + 1 + 20 + 1) /* "uuid:number" and a NUL */

#define RLOCK__TABLES 64 /* that share the rows: to double one takes little time */
#define RLOCK__IDLE 8    /* rows, and queues, that are kept for the next ones */
#define RLOCK__RECHECK_US (5 * RLOCK__SECOND) /* longest sleep of a waiter that is subscribed */
#define RLOCK__POLL_US (250 * RLOCK__MS)      /* longest sleep of one that cannot subscribe */
#define RLOCK__GRACE_US                                                                            \
    (40 * RLOCK__MS) /* for the outcome of an attempt that is given up, or canceled */
#define RLOCK__BACKOFF_US                                                                          \
    (10 * RLOCK__MS) /* first pause after an error that passes; doubles, with jitter */
#define RLOCK__BACKOFF_MAX_US RLOCK__SECOND
#define RLOCK__BACKOFF_MOVING_US (250 * RLOCK__MS) /* the same in a cluster, where keys move */
#define RLOCK__BATCH 50                            /* renewals in one script call */
#define RLOCK__BATCHES 2         /* calls of that script in flight, on a link without delay */
#define RLOCK__RELEASES 256      /* releases in flight of what nobody waits for */
#define RLOCK__SLICE 500         /* holds and recoveries that one event serves */
#define RLOCK__REST_US RLOCK__MS /* between two slices, for the calls */

struct rlock__listener;
struct rlock__ticket;
struct rlock__recent;

/* ---- Holds ---- */

enum rlock__hold_state {
    RLOCK__HOLD_NONE, /* only calls of this owner are here */
    RLOCK__HOLD_HELD,
    RLOCK__HOLD_LOST, /* final; waits for its unlocks */
};

/* A loss to report. Allocated with the grant, so that reporting cannot fail. */
struct rlock__loss {
    struct rlock__loss *prev, *next;
    struct rlock__spec *spec;
    const char *kind;  /* of a group; NULL: the spec's */
    uint64_t owner_id; /* a given one, or a thread's number */
    uint32_t own;      /* levels that were lost and no group's */
    uint32_t name_len; /* of a group, behind the loss */
    enum rlock_reason reason;
    bool given;
};

struct rlock__loss *rlock__loss_free(struct rlock__loss *loss);

static inline struct rlock__bytes rlock__loss_name(const struct rlock__loss *loss)
{
    return loss->kind != NULL ? rlock__bytes(loss + 1, loss->name_len) : loss->spec->name;
}

/*
 * What the server granted, and what keeps it. A row has one from its first attempt to its last day:
 * there is nothing on it until an attempt is granted. A row whose calls only wait has none.
 */
struct rlock__grant {
    union {
        struct rlock__hold *hold;       /* whose it is */
        struct rlock__grant *idle_next; /* in core.idle_grants: nobody's */
    };
    struct rlock__table_node by_number; /* in one of core.numbers, while it is granted */
    struct rlock__table_node by_lock;   /* in one of core.locks, the same; readers' are in none */
    uint64_t number, token;
    struct rlock__link *link;     /* that it is renewed over */
    struct rlock__ticket *ticket; /* of its number, if copies of its acquires are open; else NULL */
    struct rlock__ticket *undone; /* levels of it that were given up, with copies open */
    struct rlock__loss *loss;

    int64_t granted_at; /* when its first grant was read */
    int64_t leased_at;  /* when the server was last asked for what it then granted */
    int64_t lease_us;   /* the longest that any level asked for */
    int64_t valid_until;
    int64_t held_until; /* renewal stops here (max_hold); RLOCK__NEVER none */
    int64_t free_by;    /* the server's lease has ended by then */

    /* in core.bulk: due, or end of validity; or in link.due, until the end of its validity: its
     * renewal waits to be sent */
    struct rlock__timer timer;
    int64_t due;                       /* its next renewal, or its last release once more */
    struct rlock__grant **batch_entry; /* its place in a batch in flight; NULL none */
    int64_t alone_until;               /* its renewals are in no batch with others; 0 may be */
    struct rlock__request *release;    /* of a level, under way */
    /* of a group's member: that goes on, and its caller has gone; NULL no */
    struct rlock__doubt *doubt;
    struct rlock__doubt *owed_doubt; /* the same for levels that wait for their release */

    unsigned life;      /* of the server, when it was last seen there */
    uint16_t failures;  /* of renewals, or of last releases, in a row */
    uint8_t passes : 6; /* how often it went from one owner to the next */
    bool is_numbered : 1;
    bool is_guarded : 1;  /* a restart of the server ends it */
    bool is_waiting : 1;  /* for its renewal to be sent */
    bool verifies : 1;    /* whether its server has it is asked, renewed or not */
    bool unacked : 1;     /* too few replicas have its latest renewal */
    bool failed_over : 1; /* since it was last seen there another server has taken its server's
                             place */
    bool extends : 1;     /* the release under way asked for the renewed lease */
    bool resent : 1;      /* an earlier copy of that may have been done */
    bool releasing : 1;   /* its last release is under way: not renewed any more */
    bool uneven : 1;      /* a level was given up, and the server may count it still */
};

/* Levels of a hold that an unlock gives up, or several. */
struct rlock__levels {
    uint32_t n;
    uint32_t members;     /* of these, levels of groups */
    uint32_t renewals;    /* groups whose levels were renewed */
    uint32_t provisional; /* groups that were not complete yet */
};

/* One owner on one lock: its hold, and the calls on it, one after the other. */
struct rlock__hold {
    struct rlock__hold *prev, *next; /* in core.holds */
    struct rlock__table_node by_key; /* in one of core.tables */
    struct rlock__spec *spec;
    uint64_t owner_id;
    /* these two from its first attempt on; NULL before */
    struct rlock__grant *grant;
    struct rlock__view *view;
    struct rlock__call *turn, *line;
    int64_t provisional_us; /* the longest lease of groups that keep it */
    uint32_t count;
    uint32_t members;      /* levels of groups */
    uint32_t renewed_from; /* the lowest of its owner's own levels that is renewed; 0 none */
    uint32_t renewals;     /* groups whose levels are renewed */
    uint32_t provisional;  /* groups that renew its fixed lease until they are complete */
    enum rlock__hold_state state : 8;
    enum rlock_reason reason : 8; /* LOST: why */
    bool given;                   /* its owner's id */
    struct rlock__levels leaves;  /* by the release under way, or by the one that has the turn */
    /* by unlocks that got no turn, and returned: released when the turn is free */
    struct rlock__levels owed;
    uint32_t lined; /* unlocks in the line */
    bool busy;      /* a call has the turn; it may have returned in doubt */
};

/* ---- The core ---- */

/* A line for the log. */
struct rlock__note {
    struct rlock__note *prev, *next;
    enum rlock_level level;
    char text[RLOCK__DETAIL_SIZE];
};

/* The lines of one level in the present second: lock/log.c. */
struct rlock__log_quota {
    unsigned lines, left_out;
};

struct rlock__core {
    struct rlock__core_opts opts;
    struct rlock__driver driver;

    /* set by the driver, and changed by it */
    bool several;        /* a key's server may be another one later */
    int64_t moved_at;    /* when the server of a key, or its run, last changed; 0: never */
    const char *trouble; /* why the driver is not certain which server has a key, for texts; NULL:
                          * it is certain */

    /* actions */
    struct rlock__call *done;
    struct rlock__listener *notified;
    struct rlock__loss *lost;
    struct rlock__note *notes;

    struct rlock__server *servers;
    struct rlock__server *touched; /* the end of the event visits these servers alone, */
    struct rlock__server *changed; /* and the driver visits these: rlock__core_changed() */
    int64_t version;               /* of the server that told it last; 0: none did */
    bool lists_names;              /* a server lists a replica at an address that the map knows */
    unsigned n_connecting;         /* connections that are being made */

    struct rlock__timers timers; /* of calls, and the core's own: all that are due fire */
    /* The bulk timers, of grants and of the recovery. An event fires a slice of the due ones, here
     * and in link.due. */
    struct rlock__timers bulk;
    /* of links: the next renewal, or the end of a validity whose renewal waits to be sent */
    struct rlock__timers renewals;
    int64_t resume_at;              /* a slice was used up: the next one is not before then */
    rlock__timer_fn *on_grant_due;  /* what a grant's timer fires */
    struct rlock__timer needs;      /* looks for servers that nothing needs: need.c */
    struct rlock__timer log_second; /* the end of the second that log_quotas count */
    struct rlock__log_quota log_quotas[RLOCK_LOG_DEBUG + 1]; /* by level */

    int64_t leased_until; /* the latest time until which a server may keep one of our leases */
    uint64_t random;      /* xorshift; seeded by the driver */
    uint64_t last_number, last_gen;
    bool closed;

    struct {                                        /* hold/table.c */
        struct rlock__hold *holds;                  /* all rows */
        struct rlock__table tables[RLOCK__TABLES];  /* of all rows, by owner, side and Redis key */
        struct rlock__table numbers[RLOCK__TABLES]; /* of granted rows, by number */
        struct rlock__table locks[RLOCK__TABLES];   /* of exclusive granted rows, by Redis key */
        struct rlock__hold *sweep;                  /* the next row of the sweep; NULL: none */
        struct rlock__hold *idle;                   /* rows that are kept for the next ones, */
        struct rlock__grant *idle_grants;           /* and grants with their losses */
        unsigned n_idle, n_idle_grants;
    } rows;
    struct { /* hold/recovery.c, hold/ticket.c, hold/recent.c */
        struct rlock__ticket *tickets;
        struct rlock__ticket *spares; /* kept for the next calls */
        unsigned n_spares;
        struct rlock__recent *recent; /* the latest releases; NULL: none so far */
        size_t n_recent;
    } recovery;
    struct rlock__table queues; /* by the lock's key */
    struct rlock__queue *idle_queues;
    unsigned n_idle_queues;
    struct rlock__pool requests;
    struct rlock__call *calls; /* all that are not complete */
    struct rlock__call *ready; /* calls that go on at the end of the event */
    struct rlock__listener *listeners;
    struct rlock__buf scratch;
    unsigned unchecked; /* the number of events that the check still skips: check.h */
};

/* Something has changed for the server: the end of the event looks at its links and channels. */
static inline void rlock__server_touch(struct rlock__server *server)
{
    if (!server->is_touched) {
        server->is_touched = true;
        LL_APPEND2(server->core->touched, server, touched_next);
    }
}

/* Whether clients announce releases at this server on sharded channels, and hear them there. A node
 * of a cluster that has not told its version yet is taken for one like the others. */
static inline bool rlock__server_is_sharded(const struct rlock__server *server)
{
    return (server->version != 0 ? server->version : server->core->version) >= 7;
}

/* Returns a server that an event has changed, once, or NULL. The driver calls it after each event
 * until it returns NULL, and looks at the links and the subscriber connection of these servers
 * alone: an event costs the same however many servers there are. */
static inline struct rlock__server *rlock__core_changed(struct rlock__core *core)
{
    struct rlock__server *server = core->changed;

    if (server != NULL) {
        core->changed = server->changed_next;
        server->is_changed = false;
    }
    return server;
}

/* Events. Each leaves the core's actions to be looked at. */
void rlock__core_init(struct rlock__core *core);
/* One server more, with so many links for locks, and for acknowledgements. Its address is set. */
void rlock__core_add_server(struct rlock__core *core, struct rlock__server *server,
                            unsigned n_routed, unsigned n_acks);
/* Frees what it keeps for the next calls. */
void rlock__core_trim(struct rlock__core *core);
void rlock__core_fini(struct rlock__core *core);
/* Of one server: */
/* A new connection learned the server's run id ("" it does not tell) and since how many seconds it
 * runs, as it counts them itself (RLOCK__UNKNOWN it does not tell); before the link is up. Where it
 * is another run than before, what may have been lost with that one is looked at. */
void rlock__core_found(struct rlock__server *server, const char *run_id, int64_t uptime_s,
                       int64_t now) RLOCK__REQUIRES(core);
/* The connection that was begun is up. client_id: its own at the server, 0 it does not tell;
 * fenced: those that it was to kill can run nothing more. Returns its generation. */
uint64_t rlock__core_link_up(struct rlock__link *link, uint64_t client_id, bool fenced, int64_t now)
    RLOCK__REQUIRES(core);
/* The connection of this generation broke, or (0) could not be made: code and text say why. final:
 * trying again will not help the callers. */
void rlock__core_link_down(struct rlock__link *link, uint64_t gen, int code, bool final,
                           const char *text, int64_t now) RLOCK__REQUIRES(core);
void rlock__core_reply(struct rlock__link *link, uint64_t gen, const struct rlock__reply *reply,
                       int64_t now) RLOCK__REQUIRES(core);
/* Something was read on the link that is no reply, or of one that nobody awaits. */
void rlock__core_garbled(struct rlock__link *link, uint64_t gen, int64_t now) RLOCK__REQUIRES(core);
/* The subscriber connection is up; it broke, or could not be made. */
void rlock__core_sub_up(struct rlock__server *server, int64_t now) RLOCK__REQUIRES(core);
void rlock__core_sub_down(struct rlock__server *server, int64_t now) RLOCK__REQUIRES(core);
/* Something came on the subscriber connection: an acknowledgement, a message, a refusal. */
void rlock__core_sub_reply(struct rlock__server *server, const struct rlock__reply *reply,
                           int64_t now) RLOCK__REQUIRES(core);
/* Another server was promoted in its place, as a map says: what it says from now on is not
 * believed, and what was sent to it is accounted for once the other one has answered. */
void rlock__core_replaced(struct rlock__server *server, int64_t now) RLOCK__REQUIRES(core);
/* Of all of them: */
/* The driver's map has changed: what waits for a link is asked where the key is now, who waits for
 * a lock looks again there, and the holds are verified there. */
void rlock__core_rerouted(struct rlock__core *core, int64_t now) RLOCK__REQUIRES(core);
/* Fires what is due. What had come by then was handed over before: whoever was late itself would
 * find others late whose answers lie in the socket. */
void rlock__core_tick(struct rlock__core *core, int64_t now) RLOCK__REQUIRES(core);
int64_t rlock__core_next(const struct rlock__core *core) RLOCK__REQUIRES(core);
/* A call begins; its result comes with its completion, maybe at once. */
void rlock__core_begin(struct rlock__core *core, struct rlock__call *call, int64_t now)
    RLOCK__REQUIRES(core);
/* Starts to listen; ends it: lock/server/listener.h. Both are reported to listener.notify(). */
void rlock__core_listen(struct rlock__core *core, struct rlock__listener *listener, int64_t now)
    RLOCK__REQUIRES(core);
void rlock__core_ignore(struct rlock__core *core, struct rlock__listener *listener, int64_t now)
    RLOCK__REQUIRES(core);
/* Returns a listener whose notify() the driver has to call, or NULL. The driver calls it after each
 * event until it returns NULL. */
struct rlock__listener *rlock__core_take_notified(struct rlock__core *core) RLOCK__REQUIRES(core);
/* Cancels the calls that wait with this signal. */
void rlock__core_cancel(struct rlock__core *core, const void *cancel, int64_t now)
    RLOCK__REQUIRES(core);
/* Cancels one call, if it acquires and is under way. */
void rlock__core_cancel_call(struct rlock__core *core, struct rlock__call *call, int64_t now)
    RLOCK__REQUIRES(core);
/* Ends a call before its time. */
void rlock__core_give_up(struct rlock__core *core, struct rlock__call *call, int code, int64_t now)
    RLOCK__REQUIRES(core);
/* The group is complete: its provisional lease is not renewed any more, and ends by itself. */
void rlock__core_finalize(struct rlock__core *core, const struct rlock__spec *spec,
                          struct rlock__owner owner) RLOCK__REQUIRES(core);
/* A group that had the hold renewed has no level left that wants it. */
void rlock__core_end_renewal(struct rlock__core *core, const struct rlock__spec *spec,
                             struct rlock__owner owner) RLOCK__REQUIRES(core);
/* The same group has it renewed again. */
void rlock__core_renew(struct rlock__core *core, const struct rlock__spec *spec,
                       struct rlock__owner owner) RLOCK__REQUIRES(core);
/* A thread ended: what it holds of this lock is lost. */
void rlock__core_thread_exit(struct rlock__core *core, const struct rlock__spec *spec,
                             uint64_t thread, int64_t now) RLOCK__REQUIRES(core);
/* A hold of this client with this number was forced open by this client. */
void rlock__core_forced(struct rlock__core *core, uint64_t number, int64_t now)
    RLOCK__REQUIRES(core);
/* Ends all: calls complete as closed, holds are lost and released once. */
void rlock__core_close(struct rlock__core *core, int64_t now) RLOCK__REQUIRES(core);
/* Whether nothing that was sent is still to be answered: closing need not wait longer. */
bool rlock__core_is_settled(const struct rlock__core *core) RLOCK__REQUIRES(core);
/* Forgets its calls, which nobody waits for any more: before fini without a close. */
void rlock__core_abandon(struct rlock__core *core);
/* There is no more time to close in: ends what is left, and logs what could not be released. */
void rlock__core_note_rest(struct rlock__core *core, int64_t now) RLOCK__REQUIRES(core);
/* A line for the log, from inside an event or before the first one. */
void rlock__note(struct rlock__core *core, enum rlock_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* When a hold ends for its owner: t0 + lease − max(2 ms, 1 %) − margin. */
int64_t rlock__valid_until(const struct rlock__core *core, int64_t t0, int64_t lease_us);
/* When a lease that the server began by now has ended, whatever its clock's rate. */
int64_t rlock__free_by(int64_t now, int64_t lease_us);
/* valid_until of an owner's hold and how often it is held, 0 if there is none. */
int64_t rlock__core_valid_until(struct rlock__core *core, const struct rlock__spec *spec,
                                struct rlock__owner owner, uint32_t *ret_count)
    RLOCK__REQUIRES(core);

#endif
