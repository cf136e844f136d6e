/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups in simulated processes: each process has a client of every server, as a real one has,
 * and owners that take multi-locks or RedLocks with them. The cores, the scripts and the groups
 * are the library's; a server, its network and its clients' ends are a world of world.h, and all
 * worlds go by one clock.
 *
 *   groups.c         the command, and a run from its seed to its end
 *   group_process.c  processes: their clients, their clocks, their deaths
 *   group_drive.c    what src/drive/group_op.c does for real: carries out groups' actions
 *   group_owners.c   what owners do: take, nest, hold, give up, leave
 *   group_second.c   what their second threads do: leave meanwhile
 *   group_faults.c   what goes wrong
 *   group_check.c    the invariants; group_minority.c, group_waiting.c, group_doubt.c parts of them
 */
#ifndef RLOCK_TESTS_SIM_GROUPS_H
#define RLOCK_TESTS_SIM_GROUPS_H

#include "lock/core.h"
#include "multi/groups.h"
#include "multi/view.h"
#include "world.h"

#define SIM_SERVERS 5
#define SIM_PROCESSES 4
#define SIM_OWNERS 4
#define SIM_LOCKS 4
#define SIM_MEMBERS 6
#define SIM_MARKS 64
#define SIM_ASKED 64
#define SIM_TWO_VALID "is valid while another is" /* the violation of all violations */

struct sim_process;
struct sim_groups;

/* Where a member is. */
struct sim_place {
    unsigned server, key;
    unsigned side; /* of a read/write lock: 0 it is written, 1 read */
};

/* A lock made of locks, as the users agree on it; each process names the members in an order of its
 * own. */
struct sim_lock {
    size_t n;
    struct sim_place at[SIM_MEMBERS];
};

/* What an effort may have put onto a server. */
struct sim_mark {
    struct sim_place place;
    uint64_t number; /* 0 nothing: it never had its turn */
    int64_t
        free_by; /* by the world's clock: what a copy that comes later does nobody answers for */
    /* nobody promised that it goes: its hold ended by itself, or an unlock in doubt has it still */
    bool excused;
    bool twins; /* its owner had it by another group as well */
};

/* The numbers that a member was asked for with, and of which its core may know something. */
struct sim_asked {
    uint64_t numbers[SIM_ASKED];
    size_t n;
    uint64_t held; /* of its latest hold */
    bool
        earlier; /* a call of an earlier effort ran when this one began: its doubt counts as well */
    uint64_t over; /* of a hold that was left or lost: what is said of it is not looked at */
};

/* Who takes groups: a thread, or a given id; one call at a time. Two may be one and the same
 * owner, with a group each: then a thread still makes one call at a time, an id one of each. */
struct sim_owner {
    struct sim_process *process;
    struct rlock__owner owner;
    struct rlock__timer act;   /* what it does next; while it calls: it may cancel */
    struct rlock__timer drive; /* its thread looks at the group again */
    unsigned lock;
    struct rlock__group *group; /* of that lock; NULL none */
    bool calling, taking, cancelled;
    bool extends;                     /* its call does; otherwise it takes, or leaves */
    int64_t extends_at, valid_before; /* its clock: when that began; the validity then */
    bool failed_inside;               /* it was refused a nested level of what it holds */
    bool is_ended;                    /* it was reported to have ended during its call */
    struct rlock__effort effort;
    int64_t due;  /* when the call must be back, by its clock */
    bool excused; /* something may have taken longer than it should since its call began */
    struct rlock__timer second; /* its second thread unlocks */
    uint32_t given_up;          /* levels, by that thread, since its call began */
    bool gave_all_up;           /* while it was not lost */
    /* for the checker */
    uint32_t depth;                   /* levels that it believes to hold */
    int64_t cap;                      /* valid no later than that, by its clock */
    int64_t ended_at, told_at;        /* by the world's clock; RLOCK__NEVER not yet */
    uint32_t renewed_from;            /* its lowest level that is renewed; 0 none */
    int64_t free_since;               /* all that it waits for; by the world's clock */
    int64_t taken_until[SIM_MEMBERS]; /* the same clock: the lease of who had it at the last look */
    bool lapsed; /* one of these leases ended while it waited: nobody says so */
    /* its round: began, and the latest answer came; by its clock */
    int64_t round_at, answered_at;
    unsigned round, answers;
    bool waits_first; /* for its first member, before it asks the others */
    unsigned lives[SIM_SERVERS][SIM_KEYS][SIM_SIDES]; /* of the keys, as its hold of each began */
    bool shared[SIM_SERVERS][SIM_KEYS]
               [SIM_SIDES]; /* it asked for a level more of an earlier hold */
    /* its clock: the other group of its owner has it so long, and longer than its own lease */
    int64_t stretched[SIM_SERVERS][SIM_KEYS][SIM_SIDES];
    struct sim_mark marks[SIM_MARKS];
    size_t n_marks;
    struct sim_asked asked[SIM_LOCKS][SIM_MEMBERS];
};

struct sim_process {
    struct sim_groups *all;
    unsigned index;
    struct sim_client *clients[SIM_SERVERS];
    struct rlock__group_spec *locks[SIM_LOCKS];
    struct rlock__groups registry; /* of all its clients */
    struct rlock__group *groups;
    struct rlock__loss *losses;   /* that wait for the dispatcher */
    struct rlock__timer dispatch; /* it looks at them */
    struct sim_owner owners[SIM_OWNERS];
};

struct sim_group_config {
    const struct rlock__group_ops *kind;
    unsigned n_servers, n_processes, n_owners, n_keys, n_locks;
    unsigned hands;    /* groups that one owner may have at a time */
    int64_t max_hold;  /* how long owners hold at most; more than a lease */
    int64_t delay_max; /* one way */
    int64_t drift;     /* parts per million, of any clock */
    int64_t lease, op_timeout;
    int64_t max_lease; /* of a RedLock; 0 servers count as soon as they are up */
    unsigned faults;   /* per mille of steps; 0 a perfect network */
    unsigned lags;     /* per mille: threads that wake late */
    bool seconds;      /* owners unlock in two threads */
};

struct sim_groups {
    struct sim_group_config config;
    struct sim_world worlds[SIM_SERVERS];
    struct sim_process *processes[SIM_PROCESSES];
    struct sim_lock locks[SIM_LOCKS];
    const struct rlock_ops *kinds[SIM_SERVERS][SIM_KEYS]; /* of members */
    unsigned lives[SIM_SERVERS][SIM_KEYS]; /* grows when a key is gone without a release */
    int64_t server_ppm[SIM_SERVERS];
    /* a server tells that it is older than it is, and who never saw it before must believe that */
    int64_t deceived_until;
    uint64_t steps, steps_at_once;
    bool healed;
    /* what the command asked for */
    const struct rlock__group_ops *only; /* NULL any */
    unsigned only_faults;                /* per mille of steps; 0 any */
    bool no_delay, drift_beyond, trace;
    /* what came of it */
    unsigned long grants, losses, refusals, doubts;
};

/* ---- groups.c ---- */

/* Chance and clock of what is no server's own are the first world's. */
static inline struct sim_world *sim_home(struct sim_groups *all)
{
    return &all->worlds[0];
}

void sim_server_now(struct sim_groups *all, unsigned server);

/* ---- group_process.c ---- */

struct sim_process *sim_process_new(struct sim_groups *all, unsigned index);
/* It dies: nobody says goodbye. */
void sim_process_kill(struct sim_process *process);
int64_t sim_process_clock(const struct sim_process *process);
bool sim_process_is_paused(const struct sim_process *process);
struct sim_process *sim_process_of(const struct rlock__member *member);
struct sim_client *sim_client_of(const struct rlock__member *member);
struct sim_groups *sim_groups_of(const struct sim_world *world);
struct sim_place sim_place_of(const struct rlock__member *member);
bool sim_is_rw(const struct sim_groups *all, struct sim_place place);

/* ---- group_drive.c ---- */

/* The owner's call on its group has begun: its thread drives it until it is over. */
void sim_drive(struct sim_owner *owner);
void sim_on_drive(struct rlock__timer *timer, int64_t now);
void sim_on_dispatch(struct rlock__timer *timer, int64_t now);
/* The group of an owner's lock, made where there is none. */
struct rlock__group *sim_group_get(struct sim_owner *owner);
/* Gives up a level of an owner that has a call under way. */
int sim_drive_owe(struct sim_owner *owner);
/* Frees a group that nobody uses, once it is over. */
void sim_group_drop(struct sim_process *process, struct rlock__group *group);
/* An owner's thread ends. */
void sim_drive_thread_exit(struct sim_owner *owner);
void sim_drive_owner_end(struct sim_owner *owner);

/* ---- group_extend.c ---- */

void sim_owner_extend(struct sim_owner *owner);
/* Its extension is complete. */
void sim_owner_extended(struct sim_owner *owner);

/* ---- group_owners.c ---- */

void sim_owners_start(struct sim_process *process);
/* The next of the same owner, after one that is or NULL; itself is none. */
struct sim_owner *sim_twin_next(const struct sim_owner *owner, const struct sim_owner *after);
/* Whether the other groups of an owner have a level of a member. */
bool sim_twin_has(const struct sim_owner *owner, struct sim_place place);
/* Its call is over. */
void sim_owner_done(struct sim_owner *owner);
/* A call of the owner begins. */
void sim_owner_begin(struct sim_owner *owner);
/* The owner is gone, and another one takes its place. */
void sim_owner_become_another(struct sim_owner *owner);
/* The loss of a group's whole is reported. */
void sim_owner_told(struct sim_process *process, const struct rlock__group *group,
                    const struct rlock__loss *loss);
void sim_owner_plan(struct sim_owner *owner, int64_t pause);
/* A member's call begins; and it is complete. */
void sim_owner_asks(struct rlock__member *member);
void sim_owner_hears(struct rlock__member *member);

/* ---- group_second.c ---- */

void sim_on_second(struct rlock__timer *timer, int64_t now);
/* Its call has begun: its second thread may unlock meanwhile. */
void sim_owner_plan_second(struct sim_owner *owner);

/* ---- group_faults.c ---- */

void sim_groups_fault(struct sim_groups *all);
void sim_groups_heal(struct sim_groups *all);

/* ---- group_check.c ---- */

void sim_groups_check(struct sim_groups *all);
/* The last member that was missing has come, or the effort ended otherwise. */
void sim_groups_check_taken(const struct sim_owner *owner);
/* A call of an owner is over; it is as it says. */
void sim_groups_check_done(const struct sim_owner *owner);
void sim_groups_check_end(struct sim_groups *all);

/* Whether the hold of that number is there. */
bool sim_owner_is_on_server(const struct sim_owner *owner, struct sim_place place, uint64_t number);
/* Of a read/write lock: whether a writer has it. */
bool sim_key_is_written(const struct sim_world *world, struct sim_view key);

/* ---- group_minority.c, group_waiting.c: parts of that ---- */

void sim_groups_check_minority(struct sim_owner *owner, int64_t now);
void sim_groups_check_waiting(struct sim_owner *owner);
/* It waits for nothing yet, or no more. */
void sim_groups_forget_waiting(struct sim_owner *owner);

/* ---- group_doubt.c: the same ---- */

/* Its effort begins: it answers for its own numbers alone. */
void sim_doubt_begin(struct sim_owner *owner);
/* After every step. */
void sim_doubt_look(struct sim_owner *owner);
/* A member's call is complete. */
void sim_doubt_hear(struct sim_owner *owner, const struct rlock__member *member);
/* Its effort has just ended. */
void sim_groups_check_doubt(struct sim_owner *owner);

#endif
