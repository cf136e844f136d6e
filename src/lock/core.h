/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of a client: holds, acquisitions, waiting and renewal. Events drive the core, and it
 * answers with actions. The core uses no socket, no thread and no clock. The real driver is in
 * src/drive, and the simulators have drivers of their own.
 *
 * Events are the functions named rlock__core_*; each takes the time as an argument. After an event
 * the driver finds actions in these places. It drops the mutex that protects the core, and then
 * carries them out:
 *   pipeline.out           of each link: bytes to send on it, in this order, while generation
 *                          pipeline.gen is up
 *   pipeline.close         the driver has to close generation pipeline.gen of the link
 *   rlock__link_due()      when the driver has to connect the link
 *   sub.out                of each server: bytes to send on its subscriber connection
 *   rlock__core_changed()  the servers for which one of the above may have changed
 *   done                   calls that are complete: their threads wait
 *   rlock__core_take_notified()
 *                          listeners to be notified
 *   lost                   holds that were lost: to be reported
 *   notes                  lines for the log
 *   rlock__core_next()     when rlock__core_tick() is due
 *
 * No event does more than one slice of the work for holds and recoveries, however much there is.
 * The rest waits for a later tick. The core serves calls before that, so none waits long for it.
 */
#ifndef RLOCK_LOCK_CORE_H
#define RLOCK_LOCK_CORE_H

#include <utlist.h>

#include "base/histogram.h"
#include "base/implies.h"
#include "base/of.h"
#include "base/table.h"
#include "base/uuid.h"
#include "lock/call.h"
#include "lock/driver.h"
#include "lock/hold/units.h"
#include "lock/log.h"
#include "lock/server/server.h"

#define RLOCK__OWNER_SIZE (RLOCK__UUID_LEN + 1 + 20 + 1) /* "uuid:number" and a NUL */

#define RLOCK__TABLES 64 /* tables that share the rows, so that doubling one is quick */
#define RLOCK__IDLE 8    /* free rows, and free queues, that are kept for reuse */
#define RLOCK__RECHECK_US (5 * RLOCK__SECOND) /* longest sleep of a waiter that is subscribed */
#define RLOCK__POLL_US (250 * RLOCK__MS)      /* longest sleep of a waiter that cannot subscribe */
#define RLOCK__GRACE_US (40 * RLOCK__MS)      /* for the outcome of an attempt that is given up */
#define RLOCK__BACKOFF_US                                                                          \
    (10 * RLOCK__MS) /* first pause after an error that passes; doubles, with jitter */
#define RLOCK__BACKOFF_MAX_US RLOCK__SECOND
#define RLOCK__BACKOFF_MOVING_US (250 * RLOCK__MS) /* the limit in a cluster, where keys move */
#define RLOCK__BATCH 50                            /* renewals in one script call */
#define RLOCK__BATCHES 2                           /* batches in flight, on a link without delay */
#define RLOCK__RELEASES 256      /* releases of the recovery in flight on one link */
#define RLOCK__SLICE 500         /* holds and recoveries that one event serves */
#define RLOCK__REST_US RLOCK__MS /* pause between two slices, for the calls */

struct rlock__listener;
struct rlock__ticket;
struct rlock__recent;

/* ---- Holds ---- */

enum rlock__hold_state {
    RLOCK__HOLD_NONE, /* the row has only calls of this owner */
    RLOCK__HOLD_HELD,
    RLOCK__HOLD_LOST, /* final; the row waits for the unlocks */
};

/* A loss to report. Allocated with the grant, so that reporting cannot fail. */
struct rlock__loss {
    struct rlock__loss *prev, *next;
    struct rlock__spec *spec;
    const char *kind;  /* a group's; NULL: the spec's */
    uint64_t owner_id; /* an id that the caller gave, or a thread's number */
    uint64_t number;   /* of the field that named the holder; 0: a group's */
    char *server;      /* the address; NULL: a group's, or no memory */
    uint32_t own;      /* lost levels that are still to be unlocked, without those of its groups */
    uint32_t name_len; /* of a group's name, which lies behind the loss */
    enum rlock_reason reason;
    bool given;
};

struct rlock__loss *rlock__loss_free(struct rlock__loss *loss);

static inline struct rlock__bytes rlock__loss_name(const struct rlock__loss *loss)
{
    return loss->kind != NULL ? rlock__bytes(loss + 1, loss->name_len) : loss->spec->name;
}

/*
 * What the server granted, and what keeps it. A row has one from its first attempt until the row is
 * freed; before a grant it is empty. A row has none while its calls only wait.
 */
struct rlock__grant {
    union {
        struct rlock__hold *hold;       /* its row */
        struct rlock__grant *idle_next; /* in core.rows.idle_grants: no row has it */
    };
    struct rlock__table_node by_number; /* in one of core.rows.numbers, while granted */
    struct rlock__table_node by_lock;   /* in one of core.rows.locks too; not for readers */
    uint64_t number, token;
    struct rlock__link *link;     /* renewals go over this link */
    struct rlock__ticket *ticket; /* of its number; NULL: no copy of an attempt is open */
    struct rlock__ticket *undone; /* its nested levels that are in recovery */
    struct rlock__loss *loss;

    int64_t granted_at; /* when its owner got it, from the server or passed on; 0: it lingers */
    int64_t leased_at;  /* when the latest request that was granted was sent */
    int64_t lease_us;   /* the longest lease that a level or an extension asked for */
    int64_t valid_until;
    int64_t held_until; /* renewal stops here (max_hold); RLOCK__NEVER: nowhere */
    int64_t free_by;    /* the server's lease has ended by then */

    /* in core.bulk, for `due` or the end of the validity; or in link.due, for the end of the
     * validity, while the renewal waits to be sent */
    struct rlock__timer timer;
    int64_t due;                       /* when to renew it, or to send its last release again */
    struct rlock__grant **batch_entry; /* its place in a batch in flight; NULL: none */
    struct rlock__call *extensions;    /* calls that wait for a renewal with the lease they want */
    struct rlock__request *release;    /* in flight, of one or several levels */
    /* a group member's, if its release goes on without a caller; NULL: none */
    struct rlock__doubt *doubt;
    struct rlock__doubt *owed_doubt; /* the same for owed levels */

    unsigned life;          /* of the server, when it last reported the hold */
    uint16_t failures : 10; /* of renewals, or of last releases, in a row */
    uint16_t alone : 3;     /* so many of its next renewals share no batch */
    bool is_numbered : 1;
    bool lingers : 1;     /* the next call here may have it: lock/call/pass.h */
    bool is_awaited : 1;  /* a call of another client waits for it, or may wait */
    uint8_t passes : 6;   /* how often it was passed on */
    bool is_guarded : 1;  /* a restart of the server ends it */
    bool is_waiting : 1;  /* its renewal waits to be sent */
    bool is_short : 1;    /* it was pushed, and no renewal has made its lease full yet */
    bool verifies : 1;    /* the core asks the server whether it has it */
    bool unacked : 1;     /* too few replicas have its latest renewal */
    bool failed_over : 1; /* another server took its server's place since that report */
    bool extends : 1;     /* the release in flight asks for the renewed lease */
    bool resent : 1;      /* an earlier copy of the release may have run */
    bool releasing : 1;   /* its last release has begun: no more renewals */
    bool uneven : 1;      /* the server may count a level that was given up */
};

/* Levels of a hold that one or several unlocks give up. */
struct rlock__levels {
    uint32_t n, members;  /* members: of these, levels of groups */
    uint32_t renewals;    /* groups whose levels were renewed */
    uint32_t provisional; /* groups that were not complete yet */
};

/* One owner on one lock: its hold, and the line of its calls. */
struct rlock__hold {
    struct rlock__hold *prev, *next; /* in core.holds */
    struct rlock__table_node by_key; /* in one of core.rows.tables */
    struct rlock__spec *spec;
    uint64_t owner_id;
    struct rlock__grant *grant; /* NULL before the first attempt */
    struct rlock__view *view;
    struct rlock__call *turn, *line;
    union {                         /* no group has members with units */
        int64_t provisional_us;     /* the longest provisional lease */
        struct rlock__units *units; /* rlock__units_of() */
    };
    uint32_t count, members; /* members: of its levels, those of groups */
    uint32_t renewed_from;   /* the owner's lowest own level that is renewed; 0: none */
    uint32_t renewals;       /* groups that ask for renewals */
    uint32_t provisional;    /* groups that renew its fixed lease until they are complete */
    enum rlock__hold_state state : 8;
    enum rlock_reason reason : 8; /* LOST: why */
    bool given;                   /* the owner is an id that the caller gave */
    bool is_ended;                /* the owner is gone: the row ends with its last call */
    struct rlock__levels leaves;  /* levels that the release with the turn gives up */
    struct rlock__levels owed;    /* of unlocks that got no turn: released when it is free */
    uint32_t lined;               /* unlocks in the line */
    bool busy;                    /* a call has the turn; it may have returned in doubt */
    enum rlock__detach detach : 8;
    uint8_t sent;   /* levels whose unlocks returned before the answer; 255: or more */
    bool is_hidden; /* no call finds the row any more: rlock__hold_hide() */
};

/* What an owner has of a lock, for the program. */
struct rlock__standing {
    uint64_t number, token;
    int64_t lease_us, valid_until;
    int64_t since;   /* when its first level was granted */
    uint32_t levels; /* that are to be unlocked */
    int reason;      /* it is lost: why; 0: it is not */
    bool is_renewed;
};

/* ---- The core ---- */

struct rlock__core {
    struct rlock__core_opts opts;
    struct rlock__driver driver;

    /* set by the driver, and changed by it */
    bool several;        /* the server of a key may change */
    int64_t moved_at;    /* when the server of a key, or its run, last changed; 0: never */
    const char *trouble; /* why the driver is not certain which server has a key, for texts; NULL:
                          * it is certain */

    /* actions */
    struct rlock__call *done;
    struct rlock__listener *notified;
    struct rlock__loss *lost;
    struct rlock__note *notes;

    struct rlock_stats stats; /* the counters, and `unreleased` */

    struct rlock__server *servers;
    struct rlock__server *touched; /* the end of the event visits these servers alone, */
    struct rlock__server *changed; /* and the driver visits these: rlock__core_changed() */
    int64_t version;               /* of the server that reported it last; 0: none did */
    bool lists_names;              /* a server lists a replica at an address that the map knows */
    unsigned n_connecting;         /* connections that are being made */

    struct rlock__timers timers; /* of calls, and the core's own: all that are due fire */
    /* The bulk timers, of grants and of the recovery. An event fires a slice of the due ones, here
     * and in link.due. */
    struct rlock__timers bulk;
    /* of links: the next renewal, or the end of a validity whose renewal waits to be sent */
    struct rlock__timers renewals;
    int64_t resume_at;              /* a slice was used up: the next one starts then */
    rlock__timer_fn *on_grant_due;  /* the function of each grant's timer */
    struct rlock__timer needs;      /* looks for servers that nothing needs: need.c */
    struct rlock__timer log_second; /* the end of the second that log_quotas count */
    struct rlock__log_quota log_quotas[RLOCK_LOG_DEBUG + 1]; /* by level */

    int64_t leased_until; /* the latest time until which a server may keep one of our leases */
    uint64_t random;      /* xorshift; seeded by the driver */
    uint64_t last_number, last_gen;
    bool closed;

    struct {                                         /* hold/table.c, hold/rows.c */
        struct rlock__hold *holds;                   /* all rows */
        struct rlock__table tables[RLOCK__TABLES];   /* of all rows, by owner, side and Redis key */
        struct rlock__table numbers[RLOCK__TABLES];  /* of granted rows, by number */
        struct rlock__table locks[RLOCK__TABLES];    /* of exclusive granted rows, by Redis key */
        struct rlock__hold *sweep;                   /* the next row of the sweep; NULL: none */
        struct rlock__hold *idle;                    /* free rows that are kept for reuse, */
        struct rlock__grant *idle_grants;            /* and grants with their losses */
        unsigned n_idle, n_idle_grants, n_lingering; /* the last one counts grants that linger */
    } rows;
    struct { /* hold/recovery.c, hold/ticket.c, hold/recent.c */
        struct rlock__ticket *tickets;
        struct rlock__ticket *spares; /* free tickets that are kept for reuse */
        unsigned n_spares;
        struct rlock__recent *recent; /* the latest releases; NULL: none so far */
        size_t n_recent;
    } recovery;
    struct rlock__table queues; /* by the lock's key */
    struct rlock__queue *idle_queues;
    unsigned n_idle_queues;
    struct rlock__pool requests;
    struct rlock__call *calls; /* all calls that are not complete */
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

/* Whether clients use sharded channels at this server, for sending and receiving. A node of a
 * cluster that has not reported its version yet is treated like the others. */
static inline bool rlock__server_is_sharded(const struct rlock__server *server)
{
    return (server->version != 0 ? server->version : server->core->version) >= 7;
}

/* Returns a server that an event has changed, once, or NULL. The driver calls it after each event
 * until it returns NULL, and looks at the links and the subscriber connection of these servers. */
static inline struct rlock__server *rlock__core_changed(struct rlock__core *core)
{
    struct rlock__server *server = core->changed;

    if (server != NULL) {
        core->changed = server->changed_next;
        server->is_changed = false;
    }
    return server;
}

/* Events. After each of them the driver looks at the actions. */
void rlock__core_init(struct rlock__core *core);
/* Adds a server with so many links for locks, and for acknowledgements. Its address is set
 * already. */
void rlock__core_add_server(struct rlock__core *core, struct rlock__server *server,
                            unsigned n_routed, unsigned n_acks);
/* Frees what the core keeps for reuse. */
void rlock__core_trim(struct rlock__core *core);
void rlock__core_fini(struct rlock__core *core);
/* Events of one server: */
/* A new connection has read the server's run id ("": not reported), and its uptime in seconds by
 * its own count (RLOCK__UNKNOWN: not reported). The driver calls this before the link is up. If
 * this is another run than before, the core sends the recent releases again, and verifies the
 * holds. */
void rlock__core_found(struct rlock__server *server, const char *run_id, int64_t uptime_s,
                       int64_t now) RLOCK__REQUIRES(core);
/* The connection that was begun is up. client_id: its id at the server; 0: unknown. fenced: the
 * connections that it had to kill can run nothing more. Returns its generation. */
uint64_t rlock__core_link_up(struct rlock__link *link, uint64_t client_id, bool fenced, int64_t now)
    RLOCK__REQUIRES(core);
/* The connection of this generation broke; gen 0: a connection could not be made. code and text say
 * why. final: trying again will not help the callers. */
void rlock__core_link_down(struct rlock__link *link, uint64_t gen, int code, bool final,
                           const char *text, int64_t now) RLOCK__REQUIRES(core);
void rlock__core_reply(struct rlock__link *link, uint64_t gen, const struct rlock__reply *reply,
                       int64_t now) RLOCK__REQUIRES(core);
/* The bytes that were read on the link are not a reply, or no request awaits one. */
void rlock__core_garbled(struct rlock__link *link, uint64_t gen, int64_t now) RLOCK__REQUIRES(core);
/* The subscriber connection is up; or it broke, or could not be made. */
void rlock__core_sub_up(struct rlock__server *server, int64_t now) RLOCK__REQUIRES(core);
void rlock__core_sub_down(struct rlock__server *server, int64_t now) RLOCK__REQUIRES(core);
/* A reply came on the subscriber connection: an acknowledgement, a message, a refusal. */
void rlock__core_sub_reply(struct rlock__server *server, const struct rlock__reply *reply,
                           int64_t now) RLOCK__REQUIRES(core);
/* Another server was promoted in this one's place, as a map says. From now on the core does not
 * trust this server's replies. What was sent to it is accounted for once the other server has
 * answered. */
void rlock__core_replaced(struct rlock__server *server, int64_t now) RLOCK__REQUIRES(core);
/* Events of all servers: */
/* The driver's map has changed. Requests that wait for a link go to the server that has the key
 * now, waiters try again there, and the holds are verified there. */
void rlock__core_rerouted(struct rlock__core *core, int64_t now) RLOCK__REQUIRES(core);
/* Fires the timers that are due. The driver first hands over what it has received. Otherwise,
 * if the driver itself is late, a server seems late although its reply is in the socket. */
void rlock__core_tick(struct rlock__core *core, int64_t now) RLOCK__REQUIRES(core);
int64_t rlock__core_next(const struct rlock__core *core) RLOCK__REQUIRES(core);
/* A call begins; its result comes with its completion, maybe at once. */
void rlock__core_begin(struct rlock__core *core, struct rlock__call *call, int64_t now)
    RLOCK__REQUIRES(core);
/* Starts to listen; ends it: lock/server/listener.h. listener.notify() reports both. */
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
/* Cancels one call, if it is an acquisition that is not complete. */
void rlock__core_cancel_call(struct rlock__core *core, struct rlock__call *call, int64_t now)
    RLOCK__REQUIRES(core);
/* Ends a call before its time. */
void rlock__core_give_up(struct rlock__core *core, struct rlock__call *call, int code, int64_t now)
    RLOCK__REQUIRES(core);
/* The group is complete: its provisional lease is not renewed any more, and ends by itself. */
void rlock__core_finalize(struct rlock__core *core, const struct rlock__spec *spec,
                          struct rlock__owner owner) RLOCK__REQUIRES(core);
/* A group that had the hold renewed has no level left that needs the renewal. */
void rlock__core_end_renewal(struct rlock__core *core, const struct rlock__spec *spec,
                             struct rlock__owner owner) RLOCK__REQUIRES(core);
/* The same group has the hold renewed again. */
void rlock__core_renew(struct rlock__core *core, const struct rlock__spec *spec,
                       struct rlock__owner owner) RLOCK__REQUIRES(core);
/* What the owner has of the lock. False: nothing. */
bool rlock__core_standing(struct rlock__core *core, const struct rlock__spec *spec,
                          struct rlock__owner owner, struct rlock__standing *ret_standing)
    RLOCK__REQUIRES(core);
/* A thread ended: what it holds of this lock is lost. */
void rlock__core_thread_exit(struct rlock__core *core, const struct rlock__spec *spec,
                             uint64_t thread, int64_t now) RLOCK__REQUIRES(core);
/* An owner with an id is gone: its waits are canceled, and what it holds itself is lost and given
 * back. What it holds by groups is theirs to give back. */
void rlock__core_owner_end(struct rlock__core *core, uint64_t owner, int64_t now)
    RLOCK__REQUIRES(core);
/* This client forced open a lock that its own hold with this number had. */
void rlock__core_forced(struct rlock__core *core, uint64_t number, int64_t now)
    RLOCK__REQUIRES(core);
/* Ends everything: calls complete as closed, holds are lost and released once. */
void rlock__core_close(struct rlock__core *core, int64_t now) RLOCK__REQUIRES(core);
/* Whether no hold and no recovery is left, so that closing need not wait any longer. */
bool rlock__core_is_settled(const struct rlock__core *core) RLOCK__REQUIRES(core);
/* Forgets the calls, which no thread waits for any more. For a fini without a close. */
void rlock__core_abandon(struct rlock__core *core);
/* The time for closing is over: ends what is left, and logs what could not be released. */
void rlock__core_note_rest(struct rlock__core *core, int64_t now) RLOCK__REQUIRES(core);
/* When a hold ends for its owner: t0 + lease − max(2 ms, 1 %) − margin. */
int64_t rlock__valid_until(const struct rlock__core *core, int64_t t0, int64_t lease_us);
/* When a lease has ended that the server began by now, whatever the rate of its clock. */
int64_t rlock__free_by(int64_t now, int64_t lease_us);
/* Returns valid_until of an owner's hold, and its count. Both are 0 if there is none. */
int64_t rlock__core_valid_until(struct rlock__core *core, const struct rlock__spec *spec,
                                struct rlock__owner owner, uint32_t *ret_count)
    RLOCK__REQUIRES(core);

#endif
