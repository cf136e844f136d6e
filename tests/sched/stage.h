/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is played: actors, each a thread, who take locks through one client or several.
 *
 * Checked in every run:
 *   - nobody enters where another one's hold is valid;
 *   - a call returns by its deadline, and one that need not wait after a few round trips;
 *   - who waits for a lock that nobody has gets it at once: a wake-up that is lost would else be
 *     hidden by the look that is taken every five seconds;
 *   - while all sleep, nothing waits that could be sent, or read;
 *   - each loss is told, and a hold counts as often as it was taken;
 *   - close returns, and leaves no thread, no descriptor and no memory behind.
 * The bounds are longer by as much as threads and servers stood still.
 */
#ifndef RLOCK_TEST_SCHED_STAGE_H
#define RLOCK_TEST_SCHED_STAGE_H

#include <pthread.h>
#include <rlock/rlock.h>

#include "net.h"
#include "sched.h"

#define STAGE_ACTORS_MAX 5
#define STAGE_CLIENTS_MAX 3
#define STAGE_NAMES_MAX 2
#define STAGE_CELLS_MAX (SCHED_SERVERS_MAX * STAGE_NAMES_MAX)

/* What an actor does, of which a scenario allows some. */
enum move {
    MOVE_LOCK = 1,    /* waits as long as it takes */
    MOVE_WAIT = 2,    /* waits a little */
    MOVE_TRY = 4,     /* tries once */
    MOVE_NEST = 8,    /* takes it twice, in one way or another */
    MOVE_CANCEL = 16, /* waits with a signal that another one fires */
    MOVE_GIVEN = 32,  /* for an owner with an id */
    MOVE_EXIT = 64,   /* may end while it holds */
    MOVE_MULTI = 128, /* takes a lock of each client together */
    MOVE_FORCE = 256, /* forces it open */
};

struct scenario {
    const char *name;
    unsigned moves;
    int64_t actors_min, actors_max, clients, names, rounds;
    bool own_servers;                        /* each client has one */
    bool redlock;                            /* of all clients; nothing else is taken */
    bool begins;                             /* all is taken and left by async calls; else in some
                                                runs, where threads neither end nor force */
    int64_t hold_us, pause_us, wait_us;      /* at most */
    int64_t lease_ms;                        /* 0: the default */
    bool cuts, stops, stalls, closes, rests; /* what happens besides */
    bool narrow;                             /* sockets are full soon */
};

/* NULL: there is none of that name. */
const struct scenario *scenario_find(const char *name);
const struct scenario *scenario_of(uint64_t seed);

/* One lock on one server: who is inside. */
struct cell {
    unsigned holder; /* an actor's number; 0 nobody */
    int64_t valid_until;
    unsigned leaving;   /* calls that give it back */
    int64_t free_since; /* when the last of them ended */
};

enum doing { IDLE, TAKES, TAKES_WAITING, GIVES_BACK };

struct actor {
    unsigned number; /* from 1 on */
    char name[16];
    pthread_t thread;
    struct sched_dice dice;
    uint64_t owner; /* 0: itself */
    struct rlock_cancel *cancel;
    struct rlock_op *op; /* a reference to what the signal's thread may cancel instead */
    bool fired;
    bool deaf;       /* its call has no signal */
    unsigned levels; /* of what it holds */
    /* the call that it is in */
    enum doing doing;
    int64_t since, deadline; /* RLOCK__NEVER: it waits as long as it takes */
    unsigned cells;          /* those that it concerns: bits */
};

/* A reply that is late is there to be read. */
struct late {
    int64_t since;    /* RLOCK__NEVER: there is none */
    int64_t heard_at; /* when the link was last read by then */
};

struct stage {
    const struct scenario *scenario;
    struct sched_dice dice;
    struct sim_server *servers[SCHED_SERVERS_MAX];
    struct rlock_client *clients[STAGE_CLIENTS_MAX];
    struct rlock_handle *locks[STAGE_CLIENTS_MAX][STAGE_NAMES_MAX];
    struct rlock_handle *group;         /* the multi-lock or RedLock; NULL none */
    struct rlock_handle *callbacks_own; /* which nobody else takes */
    unsigned n_clients, n_names, n_actors;
    const char *kind;
    struct cell cells[STAGE_CELLS_MAX];
    struct actor actors[STAGE_ACTORS_MAX];
    int64_t disturbed_until; /* by a cut or a stop */
    int64_t busy_since;      /* something to be sent or read was left */
    struct late late[STAGE_CLIENTS_MAX];
    int64_t window_us; /* what sending little by little costs a call at most */
    bool begins;       /* no thread waits for what is taken and left */
    bool loops;        /* and clients have no threads: loops of the program's run them */
    bool corks;        /* callers leave all that they may to the leader */
    bool disturbed;    /* connections were cut, locks forced, or the like */
    bool closing, closed;
    bool ending;               /* the client that calls belong to is being closed */
    bool in_doubt;             /* a call said so */
    unsigned n_losses, n_told; /* that there were, and that were told */
    int64_t untold_since;      /* RLOCK__NEVER: all were */
};

/* Plays a scenario to its end. loops: by async calls where it may be, and clients of loops. */
void stage_play(const struct scenario *scenario, uint64_t seed, bool loops,
                struct sim_server *const servers[SCHED_SERVERS_MAX]);
extern struct stage stage;

/* ---- actor.c ---- */

void *actor_main(void *actor);

/* ---- check.c ---- */

void check_idle(void);
void check_begin(struct actor *actor, enum doing doing, int64_t wait_us, unsigned cells);
void check_end(struct actor *actor, int code);
void check_enter(struct actor *actor, unsigned cells, int64_t valid_ms);
void check_leave(struct actor *actor, unsigned cells);
void check_lost(const struct rlock_loss *loss);
void check_close(int64_t took_us);
void check_rest(void);
/* It holds the lock as often as it took it. */
void check_levels(const struct actor *actor, const struct rlock_handle *lock);

#endif
