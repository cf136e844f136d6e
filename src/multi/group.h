/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks made of locks: what the multi-lock and the RedLock share. Sans-I/O like the core: a group
 * is driven by events and answers with a step (rlock__group_step). Whoever is there takes the step
 * under the mutex that protects the group, and carries it out after that was dropped: the thread
 * whose call it is, or who was told of a loss. The members' holds are ordinary holds of the same
 * owner in their own clients.
 */
#ifndef RLOCK_MULTI_GROUP_H
#define RLOCK_MULTI_GROUP_H

#include "base/table.h"
#include "lock/core.h"

#define RLOCK__MEMBERS_MAX 64

struct rlock__group;
struct rlock__group_claim;
struct rlock__group_spec;
struct rlock__member;
struct rlock__waiter;

/* How a kind of group goes about it. Each runs under the mutex that protects the group. */
struct rlock__group_ops {
    const char *kind; /* "multi" */
    unsigned caps;    /* enum rlock__caps */
    /* A new effort to take it begins, or goes on after a pause: actions for the first calls. */
    void (*take)(struct rlock__group *group, int64_t now);
    /* A member's call is complete, of this effort or (not .tried) an earlier one: goes on,
     * succeeds, or backs out. */
    void (*moved)(struct rlock__group *group, struct rlock__member *member, int64_t now);
    /* A member's channel spoke, or is heard from now on. NULL: while it pauses it hears none. */
    void (*heard)(struct rlock__group *group, int64_t now);
    /* How long members' calls that run are waited for. NULL: to the effort's deadline. */
    int64_t (*patience)(const struct rlock__group *group);
    /* What to say when it is not taken: for certain, or (late) by the deadline. Code, and text. */
    int (*verdict)(struct rlock__group *group, bool late);
    /* Whether the effort may go on after a back-out, and when; RLOCK__NEVER it may not. */
    int64_t (*again_at)(struct rlock__group *group, int64_t now);
    /* One more level of a hold. */
    void (*nest)(struct rlock__group *group, int64_t now);
    /* Until when the whole is valid, from its members' validities; 0 of one that is not held.
     * Without the mutex as well. */
    int64_t (*valid_until)(const struct rlock__group_spec *spec, const int64_t *untils);
    /* Whether a release is done, and with which code; the members say how theirs went. */
    bool (*left)(const struct rlock__group *group, int *ret_code);
    /* levels are counted here alone: its members know of one, and of another one while they are
     * asked for a longer lease, or to be renewed */
    bool counts_alone;
};

/* What a group is a hold of. Immutable, shared by handles and groups, reference counted. */
struct rlock__group_spec {
    const struct rlock__group_ops *ops;
    size_t n, quorum;
    bool together;             /* one script may take them all */
    struct rlock__spec *first; /* as they were given: its client speaks for the whole */
    int64_t max_lease_us;     /* RedLock: a server that started less than this ago does not count */
    struct rlock__bytes name; /* the members' names, with commas; a NUL behind it */
    unsigned hash;            /* of the members */
    atomic_uint refs;
    struct rlock__spec *members[]; /* in canonical order */
};

/* One member of a group. */
struct rlock__member {
    struct rlock__group *group;
    struct rlock__spec *spec; /* of the group's spec */
    enum {
        RLOCK__MEMBER_OUT,     /* nothing of this group is on its server, as far as is known */
        RLOCK__MEMBER_TAKING,  /* an acquisition runs */
        RLOCK__MEMBER_HELD,    /* levels > 0 */
        RLOCK__MEMBER_LEAVING, /* a release runs */
    } state;
    enum { RLOCK__ACTION_NONE, RLOCK__ACTION_BEGIN, RLOCK__ACTION_GIVE_UP } action, ear_action;
    bool listening; /* the ear is the member's core's, or about to be */
    bool spoke;     /* its channel did, since its latest call began */
    /* what this effort's latest answer said of it: it granted it or was busy, or could not grant */
    enum { RLOCK__MEMBER_UNHEARD, RLOCK__MEMBER_WORKS, RLOCK__MEMBER_FAILS } answer;
    bool end_renewal;   /* as seal: the hold is renewed no longer for this group */
    bool seal, running; /* running: the call is the member's core's, or about to be */
    bool tried;         /* the call is of this round */
    uint32_t levels;
    uint32_t renewed_from; /* the lowest of them that is renewed; 0 none */
    bool kept;             /* renewed with its fixed lease, until it is sealed */
    int code;              /* of its latest call */
    int64_t open_until; /* an earlier round left something there, maybe: free by then; 0 nothing */
    bool unheard;       /* nor was anything heard of its server since: it may run it yet */
    atomic_llong rtt;   /* its server's usual round trip as the call began; 0 unknown */
    /* how long the server had left its oldest request unanswered then; 0 none */
    atomic_llong silent;
    struct rlock__call call, ear;   /* ear: hears its channel between rounds */
    struct rlock__claim *claim;     /* of its hold */
    struct rlock__node node;        /* in its client's home */
    struct rlock__member *next_hit; /* the driver's: of those that a loss concerns */
};

/* How it is to be taken. */
struct rlock__effort {
    int64_t wait_us;  /* 0 one attempt, negative for ever */
    int64_t lease_us; /* 0 renewed */
    const void *cancel;
    int64_t op_timeout_us, renewed_lease_us; /* the least of the members' clients' */
};

/* One owner's hold of a spec, and the effort under way. One effort at a time. */
struct rlock__group {
    struct rlock__group_spec *spec;
    struct rlock__owner owner;
    uint32_t count;                   /* levels that are held */
    uint32_t renewed_from;            /* the lowest of them that is renewed; 0 none */
    bool lost;                        /* for good, until as many unlocks */
    struct rlock__loss *untold;       /* its loss, to be reported: the driver takes it over */
    struct rlock__loss *loss;         /* the next one */
    struct rlock__group_claim *claim; /* of the hold, or the next one; NULL before the first */
    enum {
        RLOCK__GROUP_IDLE,
        RLOCK__GROUP_TAKING,
        RLOCK__GROUP_BACKING_OUT, /* what was taken is given back */
        RLOCK__GROUP_PAUSING,     /* before the next round */
        RLOCK__GROUP_LEAVING,
    } phase;
    struct rlock__effort effort;
    int64_t deadline, timer_at;
    int64_t round_at, answered_at; /* began, and the latest member granted it or was busy */
    void (*finish)(struct rlock__call *call); /* the driver's */
    uint64_t *random;                         /* the driver's: jitter */
    unsigned rounds;
    struct rlock__team *team; /* of a round that takes all at once; NULL there is none */
    bool apart;               /* that did not get on: one after the other */
    bool hurried;             /* the last round's members had less time than a call usually has */
    bool complete;            /* the effort is */
    int code;
    int64_t lease_granted_us;
    char detail[RLOCK__DETAIL_SIZE];
    struct rlock__node node; /* in its home */
    /* the driver's own */
    struct rlock__group *prev, *next;
    atomic_uint refs;
    unsigned users;
    bool at_home;
    bool busy;                  /* a thread has its turn */
    struct rlock__waiter *line; /* who waits for that */
    void *waiter;               /* who drives it */
    struct rlock__member members[];
};

/* for (each member of a group, in canonical order); member: the name of the loop's variable */
/* NOLINTBEGIN(bugprone-macro-parentheses): which is declared. */
#define RLOCK__EACH_MEMBER(member, group)                                                          \
    for (__typeof__(&(group)->members[0]) member = (group)->members;                               \
         member < (group)->members + (group)->spec->n; member++)
/* NOLINTEND(bugprone-macro-parentheses) */

/* Makes one of single locks: orders them, and takes references. NULL without memory. */
struct rlock__group_spec *rlock__group_spec_new(const struct rlock__group_ops *ops,
                                                struct rlock__spec *const *members, size_t n);
struct rlock__group_spec *rlock__group_spec_ref(struct rlock__group_spec *spec);
struct rlock__group_spec *rlock__group_spec_unref(struct rlock__group_spec *spec);
/* Whether two are the same lock. */
bool rlock__group_spec_equal(const struct rlock__group_spec *a, const struct rlock__group_spec *b);

/* finish: what members' calls do once they are complete, under their cores' mutex. */
struct rlock__group *rlock__group_new(struct rlock__group_spec *spec, struct rlock__owner owner,
                                      void (*finish)(struct rlock__call *call), uint64_t *random);
/* Of a group that rlock__group_is_over(). */
void rlock__group_free(struct rlock__group *group);
/* Whether nothing is held, nothing under way. */
bool rlock__group_is_over(const struct rlock__group *group);

/* Events. rlock__group_done: a member's call is complete, and member->running still set; or its
 * ear is, or has heard something. */
void rlock__group_take(struct rlock__group *group, const struct rlock__effort *effort, int64_t now);
void rlock__group_leave(struct rlock__group *group, int64_t now);
void rlock__group_done(struct rlock__call *call, int64_t now);
void rlock__group_timer(struct rlock__group *group, int64_t now);
void rlock__group_cancel(struct rlock__group *group, int64_t now);
/* It cannot be taken, as group->detail says. */
void rlock__group_refuse(struct rlock__group *group, int64_t now);
/* Its owner is no more, and its members' cores know that: nothing is given back, and nobody will
 * unlock. */
void rlock__group_abandon(struct rlock__group *group, enum rlock_reason reason);
/* A member's hold was lost: the whole is lost by that, or not. */
void rlock__group_member_lost(struct rlock__group *group, enum rlock_reason reason, int64_t now);
/* Until when the owner may rely on it; 0 it is not held, or lost. */
int64_t rlock__group_valid_until(const struct rlock__group *group);

/* ---- For the driver ---- */

/* A member's call to be begun or given up, or its hold to be sealed; and what its ear is to do. */
struct rlock__action {
    struct rlock__core *core; /* NULL it was carried out */
    struct rlock__member *member;
    bool begin, seal, end_renewal, give_up;
    bool listen, ignore;
};

/* What is to be done next. The actions of one core are carried out in one event. */
struct rlock__group_step {
    struct rlock__loss *loss; /* the whole was lost: to be reported, and then freed; NULL not */
    size_t n;
    struct rlock__action actions[RLOCK__MEMBERS_MAX];
    int64_t timer_at; /* there is another step then, at the latest; and after each event */
    bool complete;    /* the effort is over: group->code, group->detail */
};

void rlock__group_step(struct rlock__group *group, int64_t now, struct rlock__group_step *ret_step);
/* Takes the actions of one member alone: of a group that nobody drives, whose call in that member's
 * core is complete. Returns whether there are any. */
bool rlock__action_take(struct rlock__member *member, struct rlock__action *ret_action);
/* One event of the member's core, under its mutex. A call that was given up may have completed
 * meanwhile, and its place been taken by a release: that goes on. */
void rlock__action_carry_out(const struct rlock__action *action, int64_t now);

/* ---- For the kinds ---- */

/* Actions for an acquisition of a member; wait_us: 0 one attempt, RLOCK__NEVER for ever. kept:
 * until the whole is taken a fixed lease is renewed. */
void rlock__member_take(struct rlock__member *member, int64_t wait_us, bool kept, int64_t now);
/* How many members' calls run, or are about to. */
size_t rlock__group_running(const struct rlock__group *group);
/* Ends the effort well: the members that are held are the hold. */
void rlock__group_taken(struct rlock__group *group, int64_t now);
/* Gives back what was taken; the effort ends with the code then, or goes on. */
void rlock__group_back_out(struct rlock__group *group, int code, int64_t now);
/* The code and text of a member's failure become the group's. */
void rlock__group_blame(struct rlock__group *group, const struct rlock__member *member);
/* A random number below n. */
int64_t rlock__group_random(const struct rlock__group *group, int64_t n);
/* What remains of the wait; 0 of one attempt, RLOCK__NEVER for ever. */
int64_t rlock__group_remains(const struct rlock__group *group, int64_t now);

extern const struct rlock__group_ops rlock__multi_ops;
extern const struct rlock__group_ops rlock__redlock_ops;

#endif
