/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations: one acquisition or release through a handle, from its begin to its completion. For a
 * single lock the operation is a call of its client's core. For a lock made of locks it is a group
 * operation: one effort on the owner's group.
 *
 * The client of the first member has the group: it is the group's home, and its mutex protects the
 * group. The home finds a group by lock and owner, and each member's client by that member's hold.
 */
#ifndef RLOCK_DRIVE_GROUP_OP_H
#define RLOCK_DRIVE_GROUP_OP_H

#include <stddef.h>

#include "base/of.h"
#include "drive/client.h"

#define RLOCK__OVER (-1)

/* The clients over which a thread keeps watch while it waits. */
struct rlock__watched {
    size_t n;
    struct rlock_client *clients[RLOCK__MEMBERS_MAX];
    struct rlock__waiter waiter;
};

/* The result of a member's latest call. */
struct rlock__result {
    bool held;
    int code;
    char detail[RLOCK__DETAIL_SIZE];
};

/* What on_trace gets to know of an operation. */
struct rlock__tracing {
    /* inputs */
    int64_t begun_at;
    void *context;

    /* results; zero at first */
    int64_t ended_at;
    int64_t server_us, held_us;
    uint64_t token;
    const char *server;
    uint32_t requests; /* 0: there is nothing to trace */
    uint32_t levels;
};

/* A background operation: no thread waits for it, and the service thread of its home runs its
 * steps. Zero before it is added. */
struct rlock__background {
    /* inputs */
    /* Runs a step. Returns when the next one is due, 0 at once, or RLOCK__OVER. */
    int64_t (*step)(struct rlock__background *background);
    struct rlock__op *op; /* is complete when the steps are over */
    const void *cancel;   /* a step is due when this signal is fired; NULL: no signal */

    RLOCK__GUARDED_BY(groups) struct {
        struct rlock_client *home; /* NULL: it was not added, or is complete */
        struct rlock__timer due;   /* when its next step is */
        struct rlock__background *prev, *next;
    };
};

/* A group operation: one effort, which begins when no other effort on the group is under way. */
struct rlock__group_op {
    /* inputs */
    struct rlock__group_spec *spec;
    struct rlock__owner owner;
    bool leaves;                 /* it gives up a level; otherwise it takes one, or */
    bool extends;                /* extends the hold: */
    struct rlock__effort effort; /* how */
    int64_t deadline;
    const struct rlock_cancel *cancel;
    bool canceled;                 /* somebody canceled it; the home's mutex protects it */
    struct rlock__result *results; /* one for each member; the home's mutex protects them */
    int64_t begun_at;

    struct rlock__group_view *view; /* a result: a reference for the owner's thread; or NULL */
    struct rlock__group *group;
    int fd; /* wakes the thread that waits */
    RLOCK__GUARDED_BY(groups) struct {
        struct rlock__group_op *prev, *next; /* in the group's line */
        bool has_turn;
        bool asleep;   /* it sleeps, until somebody notifies it */
        int64_t until; /* or until then */
    };
    bool runs;          /* its effort has begun */
    bool knows_servers; /* all servers are known: no duplicate members can be found any more */
    int stop;           /* why it has to end early, as its latest step found; 0: it need not */
    struct rlock__background background; /* of one that no thread waits for */
};

/*
 * The caller owns the memory, and leaves it and the handle in place until the completion.
 *
 * If finish is NULL, the thread that began the operation waits for it, and finds the results then.
 * Otherwise no thread waits. A dispatcher thread calls finish once, after everything else that the
 * library does with the operation, and perhaps before the begin has returned. It is the dispatcher
 * of the lock's client, or of the group's home, and it holds no mutex. So finish may free the
 * operation and begin others. It must not wait, like any callback. Such an operation has an owner
 * that the caller gave, because a thread notes its own holds itself. Closing the client completes
 * the operations that are under way.
 */
struct rlock__op {
    /* inputs; all else is zero */
    void (*finish)(struct rlock__op *op);
    void *payload; /* for finish */
    /* where the text goes that says why the operation failed. NULL: nowhere; but a single lock's
     * operation without a thread that waits allocates it then, and the caller frees it */
    struct rlock__texts *texts;
    bool wants_standing;
    struct rlock__tracing *tracing; /* NULL: nobody traces it */

    /* results */
    int code;
    struct rlock__standing standing; /* of a take that returns 0, if it is wanted */

    struct rlock__op *prev, *next; /* in client.finished */
    union {
        struct { /* of a single lock */
            struct rlock__call call;
            struct rlock__waiter waiter; /* of the thread that waits */
        };
        struct rlock__group_op group_op; /* of a lock made of locks */
    };
};

static inline struct rlock__op *rlock__op_of(struct rlock__group_op *group_op)
{
    return RLOCK__OF(struct rlock__op, group_op, group_op);
}

/* Whether it is a background operation. */
static inline bool rlock__group_op_is_background(struct rlock__group_op *group_op)
{
    return rlock__op_of(group_op)->finish != NULL;
}

/* Begins the operation. If another effort on the owner's group is under way, it waits in line.
 * Returns 0, or why it did not begin. */
int rlock__group_op_begin(struct rlock__group_op *group_op) RLOCK__NO_MUTEX;
/* Runs the steps of an operation without finish until it is complete. */
void rlock__group_op_wait(struct rlock__group_op *group_op) RLOCK__NO_MUTEX;
/* Runs one step, and carries out its actions. watched: the calling thread keeps watch over these
 * clients, and over others that nobody watches; NULL: it does not keep watch. Returns when the next
 * step is due, 0 at once, or RLOCK__OVER: the operation is complete. */
int64_t rlock__group_op_step(struct rlock__group_op *group_op,
                             struct rlock__watched *watched) RLOCK__NO_MUTEX;
/* Asks a background operation to end early, if it takes a level and is not complete. */
void rlock__group_op_cancel(struct rlock__group_op *group_op) RLOCK__REQUIRES(groups);
/* Wakes the thread that runs its steps. NULL: there is none. */
void rlock__group_op_notify(struct rlock__group_op *group_op) RLOCK__REQUIRES(groups);
/* A group that has lost a member gives back the others. If an operation has the group's turn, that
 * one does it. closing: reports the loss if all clients of the group are closed; NULL: nobody. */
void rlock__group_cleanup(struct rlock__group *group, struct rlock_client *closing)
    RLOCK__REQUIRES(groups);

/* Carries out a step's actions. watched: as for rlock__group_op_step(). */
void rlock__group_op_carry_out(struct rlock__group_step *step,
                               struct rlock__watched *watched) RLOCK__NO_MUTEX;
/* Runs the group until it is idle, and gives the turn to the next operation in line, unless another
 * thread has the turn too. That one does so then. The caller does not use the group any more. */
void rlock__group_op_hand_on(struct rlock__group *group, struct rlock_client *closing)
    RLOCK__REQUIRES(groups);

/* ---- group_op_owe.c ---- */

/* Keeps what the members' calls came to, for rlock_members() and for a trace. */
void rlock__group_op_note(struct rlock__group_op *group_op) RLOCK__REQUIRES(groups);
/* Counts an operation that has its code, at the client of the lock's first member. */
void rlock__group_op_count(struct rlock__group_op *group_op) RLOCK__NO_MUTEX;

/* Refuses an operation that cannot begin. An unlock gives up its level, and has a code of its own
 * unless the client is closed. Returns the code. */
int rlock__group_op_refuse(struct rlock__group_op *group_op, int code,
                           const char *why) RLOCK__NO_MUTEX;
/* Ends an operation that has left the line. An unlock gives up its level. */
void rlock__group_op_end_in_line(struct rlock__group_op *group_op) RLOCK__NO_MUTEX;

/* ---- background.c ---- */

/* Returns false when the home is being closed. */
bool rlock__background_add(struct rlock_client *home, struct rlock__background *background)
    RLOCK__REQUIRES(groups);
void rlock__background_remove(struct rlock__background *background) RLOCK__REQUIRES(groups);
/* When its next step is due. */
void rlock__background_due(struct rlock__background *background, int64_t at)
    RLOCK__REQUIRES(groups);
/* Writes the text that says why it fails. */
void rlock__op_say(struct rlock__op *op, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The step of a group operation. */
int64_t rlock__background_step_group_op(struct rlock__background *background) RLOCK__NO_MUTEX;

/* ---- groups.c ---- */

struct rlock_client *rlock__home_of(const struct rlock__group_spec *spec);
/* The mutex that protects the groups of a lock. */
void rlock__groups_lock(const struct rlock__group_spec *spec) RLOCK__LOCKS(groups);
void rlock__groups_unlock(const struct rlock__group_spec *spec) RLOCK__UNLOCKS(groups);
/* Returns NULL if the owner has no level of the lock, and no operation under way. */
struct rlock__group *rlock__group_find(const struct rlock__group_spec *spec,
                                       struct rlock__owner owner) RLOCK__REQUIRES(groups);
/* A new group, with a user: it is found from now on. The mutex is dropped meanwhile. */
void rlock__group_move_in(struct rlock__group *group) RLOCK__REQUIRES(groups);
/* Drops the mutex, and the group if it is over and has no user. */
void rlock__groups_unlock_and_drop(struct rlock__group *group) RLOCK__UNLOCKS(groups);
/* Has a group's loss (NULL there is none) reported on a dispatcher, and freed then. */
void rlock__group_report(const struct rlock__group_spec *spec, struct rlock__loss *loss,
                         struct rlock_client *closing) RLOCK__NO_MUTEX;
/* A hold was lost: informs the groups that it is part of. Returns whether the owner has levels of
 * its own too, so that the loss has to be reported. Runs on the client's dispatcher thread. */
bool rlock__groups_lost(const struct rlock__loss *loss) RLOCK__NO_MUTEX;
/* The client was closed: frees lost groups that nobody has unlocked. No dispatcher runs. */
void rlock__groups_closed(struct rlock_client *client) RLOCK__NO_MUTEX;
/* Sets the code of an unlock to "closed" if the members' clients were closed, before the unlock or
 * during it, and so ended the hold. */
void rlock__group_op_blame_close(struct rlock__group_op *group_op) RLOCK__REQUIRES(groups);
/* An owner with an id is gone: its efforts are canceled, and its groups that have a member at this
 * client are lost and given back. */
void rlock__groups_owner_end(struct rlock_client *client, uint64_t owner) RLOCK__NO_MUTEX;
/* A thread ends: its levels of a lock are lost. */
void rlock__groups_thread_exit(const struct rlock__group_spec *spec,
                               uint64_t thread) RLOCK__NO_MUTEX;

/* ---- twins.c ---- */

/* Refuses an effort if two members are the same lock, reached through two clients of one server.
 * Returns whether all servers are known, so that no duplicate can be found later. */
bool rlock__twins_refuse(struct rlock__group *group, int64_t now) RLOCK__REQUIRES(groups);

#endif
