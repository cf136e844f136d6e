/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks made of locks: what the multi-lock and the RedLock share. Like the core, a group does no
 * I/O itself.
 *
 * Events drive a group: a call begins, a member's call is complete, a member's hold is lost, a
 * timer fires. The group answers with a step (rlock__group_step): actions in its members' cores, a
 * loss to report, and the time of the next step. A thread takes the step under the mutex that
 * protects the group, drops the mutex, and carries the step out. That is the calling thread, the
 * service thread if no thread waits for the call, or the thread that learned of a loss.
 *
 * The members' holds are ordinary holds of the same owner in their own clients.
 */
#ifndef RLOCK_MULTI_GROUP_H
#define RLOCK_MULTI_GROUP_H

#include "base/table.h"
#include "lock/core.h"
#include "lock/server/listener.h"

#define RLOCK__MEMBERS_MAX 64

struct rlock__group;
struct rlock__group_view;
struct rlock__group_spec;
struct rlock__group_step;
struct rlock__groups;
struct rlock__member;
struct rlock__group_op;

/* A kind of group. Each function runs under the mutex that protects the group. */
struct rlock__group_ops {
    const char *kind; /* "multi" */
    unsigned number;  /* RLOCK_KIND_… */
    unsigned caps;    /* enum rlock__caps */
    /* An effort to take the group begins, or goes on after a pause: sets the actions of the first
     * calls. No member was tried. */
    void (*take)(struct rlock__group *group, int64_t now);
    /* A member's call is complete: a call of this round, or (.tried is false) an earlier one. The
     * effort goes on, succeeds, or backs out. */
    void (*moved)(struct rlock__group *group, struct rlock__member *member, int64_t now);
    /* A message came on a member's channel, or the channel is live now. NULL: the kind does not
     * listen while it pauses. */
    void (*on_message)(struct rlock__group *group, int64_t now);
    /* Until when to wait for members' calls that run. NULL: until the effort's deadline. */
    int64_t (*patience)(const struct rlock__group *group);
    /* Returns the code of an effort that failed, and sets the text. late: the deadline has passed;
     * false: it is certain that the effort cannot succeed. */
    int (*verdict)(struct rlock__group *group, bool late);
    /* When the effort goes on after a back-out; RLOCK__NEVER: it does not. */
    int64_t (*again_at)(struct rlock__group *group, int64_t now);
    /* Takes one more level of a hold. */
    void (*nest)(struct rlock__group *group, int64_t now);
    /* Until when the whole is valid. untils: its members' validities; 0: that member is not held.
     * May run without the mutex. */
    int64_t (*valid_until)(const struct rlock__group_spec *spec, const int64_t *untils);
    /* Whether a release is complete, and its code. Each member has the code of its own release. */
    bool (*left)(const struct rlock__group *group, int *ret_code);
    /* Only the group counts its levels, and its members have one level. They have a second one
     * while the group asks them for a longer lease, or for the renewal. */
    bool counts_alone;
};

/* A lock that is made of locks. Immutable, shared by handles and groups, reference counted. */
struct rlock__group_spec {
    const struct rlock__group_ops *ops;
    size_t n, quorum;          /* how many there are, and how many of them make a hold */
    bool together;             /* one script may take all members */
    struct rlock__spec *first; /* the program's first one; its client stands for the whole */
    int64_t max_lease_us;     /* RedLock: a server that started less than this ago does not count */
    struct rlock__bytes name; /* the members' names, with commas; a NUL behind them */
    unsigned hash;            /* of the members */
    atomic_uint refs;
    struct rlock__spec *members[]; /* in canonical order */
};

/* What to do in a member's core, with the member's call, hold and listener. */
struct rlock__todo {
    bool begin, give_up, finalize, end_renewal, renew, listen, ignore;
    bool attend; /* its call was late, and is awaited again: a thread keeps watch over its client */
};

static inline bool rlock__todo_is_any(const struct rlock__todo *todo)
{
    return todo->begin || todo->give_up || todo->finalize || todo->end_renewal || todo->renew ||
           todo->listen || todo->ignore || todo->attend;
}

/* One member of a group. */
struct rlock__member {
    struct rlock__group *group;
    struct rlock__spec *spec; /* of the group's spec */
    enum {
        RLOCK__MEMBER_OUT,       /* as far as we know nothing of this group is on its server */
        RLOCK__MEMBER_TAKING,    /* an acquisition runs */
        RLOCK__MEMBER_HELD,      /* levels > 0 */
        RLOCK__MEMBER_LEAVING,   /* a release runs */
        RLOCK__MEMBER_EXTENDING, /* levels > 0, and an extension runs */
    } state;
    struct rlock__todo todo;
    bool running;   /* the call is in the member's core, or about to be */
    bool listening; /* the listener is in the member's core, or about to be */
    bool spoke;     /* a message came on its channel since its latest call began */
    /* what its server's answers show in this effort. WORKS: the server granted the lock, or the
     * lock was busy. FAILS: the server could not grant it */
    enum { RLOCK__MEMBER_UNANSWERED, RLOCK__MEMBER_WORKS, RLOCK__MEMBER_FAILS } answer;
    bool tried; /* the call is of this round */
    uint32_t levels;
    uint32_t renewed_from; /* the lowest level that is renewed; 0: none is */
    bool rests;            /* renewed_from is not 0, but nothing is renewed: all levels are owed */
    bool provisional;      /* its fixed lease is renewed until the group is complete */
    int code;              /* of its latest call */
    atomic_llong rtt;      /* its server's usual round trip when the call began; 0: unknown */
    /* how long its server had left the oldest request unanswered then; 0: there was none */
    atomic_llong silent;
    struct rlock__call call;         /* call.doubt covers all its calls in this effort */
    struct rlock__listener listener; /* on the channel, between rounds */
    struct rlock__texts texts;       /* the call's */
    struct rlock__view *view;        /* of its hold */
    struct rlock__table_node node;   /* in its client's groups */
    struct rlock__member *next_hit;  /* the driver's: the next member that a loss concerns */
};

/* The levels of a member that no release is giving up. */
static inline uint32_t rlock__member_staying(const struct rlock__member *member)
{
    return member->levels - (member->state == RLOCK__MEMBER_LEAVING);
}

/* What an effort to take or extend a group wants, and what it took. */
struct rlock__effort {
    int64_t wait_us;  /* 0: one attempt; negative: for ever */
    int64_t lease_us; /* 0: renewed */
    const void *cancel;
    int64_t op_timeout_us, renewed_lease_us; /* the shortest of the members' clients */

    /* for a trace: how many calls for members there were, and the longest wait of one of them for
     * its server */
    uint32_t requests;
    int64_t server_us;
};

/*
 * rlock__effort_phase() moves a group from one phase to another.
 *
 * phase        what is true                                     entered by          left by
 * IDLE         there is no effort                               effort_end          group_take,
 *                                                                                   group_leave,
 *                                                                                   group_extend
 * TAKING       a round: members' calls run, or are to begin     group_take, _timer  group_taken,
 *                                                                                   _back_out
 * BACKING_OUT  the round failed: what it took is released       group_back_out      effort_end,
 *                                                                                   _backed_out
 * PAUSING      until timer_at or a message comes: then the      effort_backed_out   group_timer,
 *              next round begins                                                    _back_out
 * LEAVING      the last level is released at all members        group_leave         effort_end
 * EXTENDING    the members' holds are extended                  group_extend        effort_end
 */
enum rlock__group_phase {
    RLOCK__GROUP_IDLE,
    RLOCK__GROUP_TAKING,
    RLOCK__GROUP_BACKING_OUT,
    RLOCK__GROUP_PAUSING,
    RLOCK__GROUP_LEAVING,
    RLOCK__GROUP_EXTENDING,
};

/* One owner's hold of a lock that is made of locks, and its effort. There is one effort at a
 * time. */
struct rlock__group {
    struct rlock__group_spec *spec;
    struct rlock__owner owner;
    uint32_t count;                 /* levels that are held or owed */
    uint32_t owed;                  /* levels given up without a turn; they end with the effort */
    uint32_t renewed_from;          /* the lowest level that is renewed; 0: none is */
    bool lost;                      /* final; stays until it was unlocked count times */
    int reason;                     /* lost: why */
    bool is_ended;                  /* the owner is gone: it gets no level that stays */
    struct rlock__loss *untold;     /* its loss, to be reported; the driver takes it over */
    struct rlock__loss *loss;       /* for the next loss */
    struct rlock__group_view *view; /* of this hold, or of the next one; NULL before the first */
    enum rlock__group_phase phase;
    atomic_bool awaited; /* there is an effort, or it failed; false: members' replies are late */
    struct rlock__effort effort;
    int64_t deadline; /* of the wait for holders; with wait 0 of the whole effort */
    int64_t timer_at;
    int64_t round_at;                         /* when the round began */
    int64_t answered_at;                      /* when a member last granted it, or was busy */
    void (*finish)(struct rlock__call *call); /* the driver's */
    void (*notify)(struct rlock__listener *listener); /* the driver's */
    struct rlock__groups *all; /* the driver's: all groups of the client, among them this one */
    unsigned rounds;
    struct rlock__member *first; /* RedLock: the round waits for this member, and then asks the
                                    others; NULL: it asks all at once */
    bool behind_first;           /* `first` was granted, and then the others were asked */
    struct rlock__batch *batch;  /* of a round that takes all members at once; NULL: none does */
    bool apart;                  /* the batch gave up: its members are taken one by one */
    bool hurried; /* in the last round members had less time than a call usually has */
    int code;
    int64_t lease_granted_us;
    int64_t since;             /* when its first level was taken */
    struct rlock__texts texts; /* why the effort failed */
    /* the driver's own */
    struct rlock__group *prev, *next;
    atomic_uint refs;
    RLOCK__GUARDED_BY(groups) struct {
        unsigned users;
        bool at_home;
        unsigned busy;                /* how many have its turn, or carry out an owed level */
        struct rlock__group_op *line; /* operations that wait for the turn */
        void *waiter;                 /* the operation that has the turn; the driver's */
    };
    struct rlock__member members[];
};

/* How many levels of the group its owner has not given up. */
static inline uint32_t rlock__group_left(const struct rlock__group *group)
{
    return group->count - group->owed;
}

/* for (each member of a group, in canonical order); member: the name of the loop's variable */
/* NOLINTBEGIN(bugprone-macro-parentheses): which is declared. */
#define RLOCK__EACH_MEMBER(member, group)                                                          \
    for (__typeof__(&(group)->members[0]) member = (group)->members;                               \
         member < (group)->members + (group)->spec->n; member++)
/* NOLINTEND(bugprone-macro-parentheses) */

/* Makes a spec of single locks. Puts them in canonical order, and takes references. Returns NULL
 * without memory. */
struct rlock__group_spec *rlock__group_spec_new(const struct rlock__group_ops *ops,
                                                struct rlock__spec *const *members, size_t n);
struct rlock__group_spec *rlock__group_spec_ref(struct rlock__group_spec *spec);
struct rlock__group_spec *rlock__group_spec_unref(struct rlock__group_spec *spec);
/* Whether two have the same kind and members. */
bool rlock__group_spec_equal(const struct rlock__group_spec *a, const struct rlock__group_spec *b);

/* finish: called once a member's call is complete, under its core's mutex; notify: the same for a
 * member's listener. Returns NULL without memory. */
struct rlock__group *rlock__group_new(struct rlock__group_spec *spec, struct rlock__owner owner,
                                      void (*finish)(struct rlock__call *call),
                                      void (*notify)(struct rlock__listener *listener),
                                      struct rlock__groups *all);
/* Frees a group for which rlock__group_is_over(). */
void rlock__group_free(struct rlock__group *group);
/* Whether the group holds nothing, and has no effort, call or listener. */
bool rlock__group_is_over(const struct rlock__group *group);

/* Events. rlock__group_done: a member's call is complete, and member->running is still set.
 * rlock__group_on_message: a member's listener was notified, or is over. */
void rlock__group_take(struct rlock__group *group, const struct rlock__effort *effort, int64_t now)
    RLOCK__REQUIRES(groups);
void rlock__group_leave(struct rlock__group *group, int64_t now) RLOCK__REQUIRES(groups);
/* Extends the members that are held. effort: the lease; its wait is 0. */
void rlock__group_extend(struct rlock__group *group, const struct rlock__effort *effort,
                         int64_t now) RLOCK__REQUIRES(groups);
/* The owner gives up a level without a turn. Returns a code, and writes its text and a step. The
 * caller carries out the step, maybe while another operation has the turn. */
int rlock__group_owe(struct rlock__group *group, int64_t now, struct rlock__texts *ret_texts,
                     struct rlock__group_step *ret_step) RLOCK__REQUIRES(groups);
void rlock__group_on_message(struct rlock__member *member, int64_t now) RLOCK__REQUIRES(groups);
void rlock__group_done(struct rlock__call *call, int64_t now) RLOCK__REQUIRES(groups);
void rlock__group_timer(struct rlock__group *group, int64_t now) RLOCK__REQUIRES(groups);
/* Ends an effort to take or extend the group before its time, with this code. */
void rlock__group_cancel(struct rlock__group *group, int code, int64_t now) RLOCK__REQUIRES(groups);
/* The owner is gone, and nobody will unlock the group. The members' cores know that, so nothing is
 * given back. */
void rlock__group_abandon(struct rlock__group *group, enum rlock_reason reason)
    RLOCK__REQUIRES(groups);
/* The group is lost, and nobody will unlock it. */
void rlock__group_end_lost(struct rlock__group *group) RLOCK__REQUIRES(groups);
/* The owner is gone. What it has is lost and given back, now and each time its calls end. */
void rlock__group_owner_end(struct rlock__group *group) RLOCK__REQUIRES(groups);
/* A member's hold was lost, or may have expired. So the whole may be lost too. */
void rlock__group_member_lost(struct rlock__group *group, enum rlock_reason reason, int64_t now)
    RLOCK__REQUIRES(groups);
/* Until when the owner may rely on the group; 0: it is not held, or it is lost. */
int64_t rlock__group_valid_until(const struct rlock__group *group);
/* What the owner has of it. False: nothing. */
static inline bool rlock__group_standing(const struct rlock__group *group,
                                         struct rlock__standing *ret_standing)
{
    if (rlock__group_left(group) == 0) {
        return false;
    }
    *ret_standing =
        (struct rlock__standing){.lease_us = group->lease_granted_us,
                                 .valid_until = rlock__group_valid_until(group),
                                 .since = group->since,
                                 .levels = rlock__group_left(group),
                                 .reason = group->lost ? group->reason : 0,
                                 .is_renewed = !group->lost && group->renewed_from != 0};
    return true;
}

/* ---- For the driver ---- */

struct rlock__action {
    struct rlock__core *core; /* NULL: it was carried out */
    struct rlock__member *member;
    struct rlock__todo todo;
};

/* What to do next. The actions in one core are carried out in one go. */
struct rlock__group_step {
    struct rlock__loss *loss; /* to be reported, and freed then; NULL: the whole was not lost */
    size_t n;
    struct rlock__action actions[RLOCK__MEMBERS_MAX];
    int64_t timer_at; /* the next step is due then, or after an event before it */
    bool complete;    /* the effort is over; group->code and group->texts.detail say how it ended */
};

void rlock__group_step(struct rlock__group *group, int64_t now, struct rlock__group_step *ret_step)
    RLOCK__REQUIRES(groups);
/* When the group's next step is due, as far as it knows by now; 0: there is something to do. */
int64_t rlock__group_next(const struct rlock__group *group) RLOCK__REQUIRES(groups);
/* Takes the actions of one member alone: for a group that no thread drives, when that member's call
 * is complete. Returns whether there are any. */
bool rlock__action_take(struct rlock__member *member, struct rlock__action *ret_action)
    RLOCK__REQUIRES(groups);
/* Carries out the action in the member's core. A call that the action gives up may have completed
 * meanwhile, and a release may have begun in its place. The release goes on. */
void rlock__action_carry_out(const struct rlock__action *action, int64_t now) RLOCK__REQUIRES(core);

/* ---- For the kinds ---- */

/* Sets the actions that take a member. wait_us: 0: one attempt; RLOCK__NEVER: for ever.
 * provisional: a fixed lease is renewed until the group is complete. */
void rlock__member_take(struct rlock__member *member, int64_t wait_us, bool provisional,
                        int64_t now);
/* Whether a call of the member runs, or a call of this effort left something open on its server.
 * The server may have the lock for the group, as far as we know. */
bool rlock__member_is_in_doubt(const struct rlock__member *member);
/* When an effort to take the group ends at the latest. A request that was sent by the deadline has
 * time for its answer. */
int64_t rlock__group_last(const struct rlock__group *group);
/* How many members' calls run, or are about to. */
size_t rlock__group_running(const struct rlock__group *group);
/* The longest of the members' usual round trips; 0: none is known. */
int64_t rlock__group_round_trip(const struct rlock__group *group);
/* Ends the effort with success: the members that are held make up the hold. */
void rlock__group_taken(struct rlock__group *group, int64_t now);
/* Gives back what was taken. Then the effort ends with the code, or goes on. */
void rlock__group_back_out(struct rlock__group *group, int code, int64_t now);
/* The code and text of a member's failure become the group's. */
void rlock__group_blame(struct rlock__group *group, const struct rlock__member *member);
/* A random number below n. */
int64_t rlock__group_random(const struct rlock__group *group, int64_t n);

extern const struct rlock__group_ops rlock__multi_ops;
extern const struct rlock__group_ops rlock__redlock_ops;

#endif
