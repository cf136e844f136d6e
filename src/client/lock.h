/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle of a lock, and the table of what it can do. Single locks (single.c) and locks made of
 * locks (group.c) implement it; the public functions check their arguments and call it.
 */
#ifndef RLOCK_CLIENT_LOCK_H
#define RLOCK_CLIENT_LOCK_H

#include "client/client.h"
#include "drive/group_op.h"
#include "multi/group.h"

/*
 * What a handle can do. All members are required. Each is called in the process that made the
 * handle, without any mutex held, and may be called by several threads at a time. An owner's id of
 * 0 is the calling thread.
 */
struct rlock__vtable {
    /* Begins to take the lock. Its client is open, and rlock__take_read() has read the wait and the
     * take. Returns 0, or why it did not begin: then it is not completed. */
    int (*begin_take)(const struct rlock_handle *lock, int64_t wait_ms,
                      const struct rlock_take *take, struct rlock__owner owner,
                      struct rlock__op *op);
    /* Begins to give up one level. The same; but its clients may be closed. */
    int (*begin_leave)(const struct rlock_handle *lock, struct rlock__owner owner,
                       struct rlock__op *op);
    /* Begins to extend what the owner holds; lease_us 0: it is renewed. As begin_take. */
    int (*begin_extend)(const struct rlock_handle *lock, int64_t lease_us,
                        struct rlock__owner owner, struct rlock__op *op);
    /* Waits until an operation without finish is complete, in the thread that began it. */
    void (*wait)(const struct rlock_handle *lock, struct rlock__op *op);
    /* Until when the owner may rely on it, 0 not at all, and how many levels it holds, by what is
     * known here. */
    int64_t (*known)(const struct rlock_handle *lock, uint64_t owner, uint32_t *ret_count);
    /* What the owner has of it, by what is known here. False: nothing. */
    bool (*standing)(const struct rlock_handle *lock, struct rlock__owner owner,
                     struct rlock__standing *ret_standing);
    /* Asks an operation that takes it to end now. It may be complete. */
    void (*cancel)(const struct rlock_handle *lock, struct rlock__op *op);
};

/* A program may have very many: what its spec or its group knows is not said here once more. */
struct rlock_handle {
    const struct rlock__vtable *vtable;
    struct rlock_client *client;     /* speaks for it: of a lock made of locks the first member's */
    struct rlock__spec *spec;        /* of a lock of one key; NULL else */
    struct rlock__group_spec *group; /* of a lock made of locks; NULL else */
    struct rlock__result *results;   /* behind the handle: one for each member of that; the groups'
                                      * mutex protects them */
    unsigned hash;                   /* the spec's: who asks for a hold need not look there */
    bool sends_unlocks;              /* RLOCK_LOCK_SENT_UNLOCK */
    atomic_uint refs; /* the user's, and one for each operation that no thread waits for */
};

/* The kind's, enum rlock__caps. */
static inline unsigned rlock__lock_caps(const struct rlock_handle *lock)
{
    return lock->spec != NULL ? lock->spec->ops->caps : lock->group->ops->caps;
}

/* Whether its kind has no other leases than renewed ones. */
static inline bool rlock__lock_is_renewed(const struct rlock_handle *lock)
{
    return (rlock__lock_caps(lock) & RLOCK__CAP_RENEWED) != 0;
}

/* How many members it has; a lock of one key is its own. */
static inline size_t rlock__lock_n(const struct rlock_handle *lock)
{
    return lock->spec != NULL ? 1 : lock->group->n;
}

/* How many of these need not be had. */
static inline size_t rlock__lock_spare(const struct rlock_handle *lock)
{
    return lock->group != NULL ? lock->group->n - lock->group->quorum : 0;
}

static inline struct rlock__spec *rlock__lock_spec(const struct rlock_handle *lock, size_t i)
{
    return lock->spec != NULL ? lock->spec : lock->group->members[i];
}

/* Takes a reference. Returns the lock. */
struct rlock_handle *rlock__lock_ref(struct rlock_handle *lock);
/* Drops a reference. Returns NULL; NULL is ok. */
struct rlock_handle *rlock__lock_unref(struct rlock_handle *lock);

/* ---- lock_options.c ---- */

/* The options of struct rlock_opts that a kind may have. */
enum {
    RLOCK__OPTION_NAME = 1 << 0,
    RLOCK__OPTION_HOLD = 1 << 1, /* what concerns its holds: their longest duration, re-entry */
    RLOCK__OPTION_LINGER = 1 << 2,
    RLOCK__OPTION_PAUSE = 1 << 3,
    RLOCK__OPTION_SLOT = 1 << 4,
    RLOCK__OPTION_WRITERS = 1 << 5,
    RLOCK__OPTION_MAX_LEASE = 1 << 6,
    RLOCK__OPTION_UNITS = 1 << 7
};

/* The options of a kind of one key. */
unsigned rlock__options_of(const struct rlock_ops *ops);
/* Refuses an option that the kind would ignore, or that is out of its range. Returns 0,
 * RLOCK_EINVAL, or RLOCK_ENOTSUP for an option that this version only reserves. */
int rlock__lock_opts_check(const char *kind, unsigned options, const struct rlock_opts *opts);

/* ---- lock.c: what the calls that wait and the others have in common ---- */

/* The beginning of every call that talks to servers: forgets the thread's last detail, and checks
 * the handle. */
int rlock__lock_check(const struct rlock_handle *lock);
/* The same where the client must be open as well. */
int rlock__lock_check_open(const struct rlock_handle *lock);
/* The owner with this id; 0: the calling thread. Returns 0 or RLOCK_ENOMEM. */
static inline int rlock__owner_of(uint64_t id, struct rlock__owner *ret_owner)
{
    *ret_owner =
        (struct rlock__owner){.id = id != 0 ? id : rlock__thread_number(), .given = id != 0};
    return ret_owner->id != 0 ? 0 : rlock__fail(RLOCK_ENOMEM, "no memory");
}
/* The same for a call that needs a hold: a thread without a number has none. Returns 0 or
 * RLOCK_ENOTOWNER. */
static inline int rlock__known_owner(uint64_t id, struct rlock__owner *ret_owner)
{
    return rlock__owner_of(id, ret_owner) == 0
               ? 0
               : rlock__fail(RLOCK_ENOTOWNER, "not held by this owner");
}

/* Whether a call may wait here. A callback may wait for the servers' answers alone, and wait_ms is
 * how much longer it would. */
int rlock__check_wait(const struct rlock_handle *lock, int64_t wait_ms);
/* Waits for what began, unless the code says that it did not. */
static inline int rlock__lock_end(const struct rlock_handle *lock, struct rlock__op *op, int code)
{
    if (code != 0) {
        return code;
    }
    lock->vtable->wait(lock, op);
    return op->code == 0 ? 0 : rlock__fail_as(op->code, op->texts);
}

/* Gives what the owner (0: the calling thread) has to the program. */
void rlock__grant_give(const struct rlock__standing *standing, uint64_t owner, int64_t now,
                       struct rlock_grant *ret_grant);

/* ---- single.c: operations that only locks of one key have, as begin_leave and begin_take ---- */

/* Makes a handle, as rlock_reentrant_new() does. */
int rlock__single_new(struct rlock_client *client, const struct rlock_ops *ops, const char *name,
                      const struct rlock_opts *opts, struct rlock_handle **ret_lock);
int rlock__single_detach(const struct rlock_handle *lock, int64_t lease_us,
                         struct rlock__owner owner, struct rlock__op *op);
/* Begins to run the command that op->call.command has. */
int rlock__single_command(const struct rlock_handle *lock, struct rlock__op *op);
/* Begins to wait until a latch is open. */
int rlock__single_await(const struct rlock_handle *lock, int64_t wait_ms,
                        const struct rlock_take *take, struct rlock__op *op);
/* from: the owner that has the hold now. Borrowed until the completion. */
int rlock__single_adopt(const struct rlock_handle *lock, const char *from,
                        const struct rlock_take *take, struct rlock__owner owner,
                        struct rlock__op *op);

/* ---- text.c, handover.c: texts that stand for holds ---- */

/* Writes the text of a hold that was detached, or that goes on. owner: on the server. */
void rlock__text_write(const struct rlock_handle *lock, bool is_detached, struct rlock__bytes owner,
                       char out[static RLOCK_TEXT_SIZE]);
/* Reads a text, and checks that it may be adopted so. ret_from: the owner, within the text. */
int rlock__text_read(const struct rlock_handle *lock, const char *text,
                     const struct rlock_take *take, const char **ret_from);
/* The beginning of each call about texts: checks the handle, and that the lock has one key. */
int rlock__text_check(const struct rlock_handle *lock);
/* The same for a detach, with its lease. */
int rlock__detach_read(const struct rlock_handle *lock, int64_t *inout_lease_ms);
/* The text of a detach that is complete. */
void rlock__text_of_detach(const struct rlock_handle *lock, const struct rlock__op *op,
                           char out[static RLOCK_TEXT_SIZE]);

/* ---- take.c ---- */

/* Checks a wait and a take, and copies the take. A wait that is too long to have an end becomes
 * RLOCK_FOREVER, and an owner that is to be new has its id. inout_wait_ms: NULL: the call
 * adopts. */
int rlock__take_read(const struct rlock_handle *lock, int64_t *inout_wait_ms,
                     const struct rlock_take *take, struct rlock_take *ret_take);
/* Checks a lease, and limits it. Returns 0 or RLOCK_EINVAL. */
int rlock__lease_read(int64_t *inout_lease_ms);
/* Checks the grant that a call is to fill; NULL is ok, unless the take makes an owner that only the
 * grant would name. */
int rlock__grant_check(const struct rlock_take *take, const struct rlock_grant *ret_grant);

/* ---- failure.c ---- */

/* Gives a failure to the program. code: 0 if there was none. */
int rlock__failure_give(int code, const char *detail, const struct rlock__facts *facts,
                        struct rlock_failure *ret_failure);

/* ---- holder.c ---- */

/* Fills in where the holder lives, if it is one of ours and the server lets us know. Waits for the
 * answer. */
void rlock__holder_find(const struct rlock__spec *spec, struct rlock_info *info, int64_t deadline);
/* Tells the core of those holds of ours that are no more: each is named by our UUID, a colon, and
 * its number. */
void rlock__holder_forced(struct rlock__core *core, struct rlock__bytes seen) RLOCK__REQUIRES(core);

/* ---- trace.c ---- */

/* Begins a trace. Returns it. */
struct rlock__tracing *rlock__trace_new(void *context, struct rlock__tracing *ret_tracing);
/* A call begins. If the program wants traces, begins one, and returns it in *ret_traced. */
static inline void rlock__trace_begin(const struct rlock_handle *lock, void *context,
                                      struct rlock__tracing *ret_tracing,
                                      struct rlock__tracing **ret_traced)
{
    if (lock->client->opts.on_trace != NULL) {
        *ret_traced = rlock__trace_new(context, ret_tracing);
    }
}
/* Hands the trace to the program, if the call asked a server. */
void rlock__trace_tell(const struct rlock_handle *lock, const struct rlock__tracing *tracing,
                       int call, int code, uint64_t owner);
/* The same for an operation that is complete. */
void rlock__trace_op(const struct rlock_handle *lock, const struct rlock__op *op, int call,
                     int code, uint64_t owner);
static inline void rlock__trace_end(const struct rlock_handle *lock, const struct rlock__op *op,
                                    int call, int code, uint64_t owner)
{
    if (op->tracing != NULL) {
        rlock__trace_op(lock, op, call, code, owner);
    }
}

/* ---- stats.c ---- */

/* Counts a query that has ended. Returns its code. */
int rlock__count_query(const struct rlock_handle *lock, bool forces, int code);

/* ---- query.c ---- */

/* Asks the servers for the holders, and waits for the answers. tracing: NULL: nobody traces it. */
int rlock__inspect(const struct rlock_handle *lock, struct rlock_info *ret_info,
                   struct rlock__tracing *tracing);
/* Takes it from whoever holds it, and waits for the answers. */
int rlock__force(const struct rlock_handle *lock, bool *ret_was_locked,
                 struct rlock__tracing *tracing);

/* The same for nobody who waits. */
struct rlock__inquiry;
/* Begins it. Returns 0, or why it did not begin: then the operation is not completed. */
int rlock__inquiry_begin(const struct rlock_handle *lock, bool forces, struct rlock__op *op,
                         struct rlock__inquiry **ret_inquiry);
/* What came of it: the operation is complete. Sets one of the two results; the info lives as long
 * as the inquiry. */
int rlock__inquiry_end(struct rlock__inquiry *inquiry, const struct rlock_info **ret_info,
                       bool *ret_was_locked, struct rlock__tracing *tracing);
struct rlock__inquiry *rlock__inquiry_free(struct rlock__inquiry *inquiry);

#endif
