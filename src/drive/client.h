/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client as its threads see it: the core behind one mutex, the links behind another, and the
 * roles around them.
 *
 * Who does what:
 *   - A calling thread hands its call to the core, and sends what the core wants sent. If nobody
 *     keeps watch, it does so itself until its call is complete: it polls the links, reads for all,
 *     and fires the core's timers. Else it parks. The leader hands the watch on when its own call
 *     is complete.
 *   - The service thread makes connections, reads the ones for messages, hears of
 *     cancellations, takes the steps of operations on groups that no thread waits for, and keeps
 *     watch when no caller does. A caller may stand still at any instant: stopped, starved, in a
 *     signal handler. So while there is a leader the service thread looks at each tick, and does
 *     what is left undone.
 *   - Where the program's event loop runs the client there is neither of these threads: loop.h.
 *   - The dispatcher thread runs the user's callbacks, and what is to be called when an operation
 *     is complete that no thread waits for. It does nothing else.
 *
 * Mutexes, of the kinds and in the order of base/guarded.h. A thread that holds one may stand
 * still, and nobody else can do what it leaves undone. So it makes no system call, with two
 * exceptions: with the send lock it sends and receives on the links, and has them polled; and it
 * wakes a group's thread.
 */
#ifndef RLOCK_DRIVE_CLIENT_H
#define RLOCK_DRIVE_CLIENT_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/guarded.h"
#include "base/whole.h"
#include "drive/bell.h"
#include "drive/node.h"
#include "drive/park.h"
#include "drive/send_lock.h"
#include "lock/core.h"
#include "multi/home.h"

#define RLOCK__MAX_LEASE_MS 30000 /* of a RedLock, by default */

RLOCK__MUTEX(core);
RLOCK__MUTEX(home);
RLOCK__MUTEX(registry);

struct rlock__begun;
struct rlock__loop;
struct rlock__op;
struct rlock__router;
struct rlock__turn;

struct rlock_client {
    struct rlock__core core; /* first: the core's client is found by it */
    pthread_mutex_t mutex;   /* for the core, its servers, and the roles of threads */
    pthread_cond_t news;     /* for the dispatcher: losses, notes, finished; for close: settled */
    RLOCK__GUARDED_BY(core) struct {
        struct rlock__parker *leader; /* the caller that keeps watch; NULL: the service thread */
        struct rlock__parker *parked; /* callers that could */
        struct rlock__parker *woken;  /* those that got a signal, until they have seen it */
        struct rlock__parker *untold; /* of these the first that nobody has woken since */
        unsigned next_place;          /* in the lots */
        /* when they wake by themselves; 0: they are awake, and only they say so */
        int64_t leader_until, service_until;
        bool leader_looks, service_looks; /* what they saw before they fell asleep has changed */
        bool leader_moved;                /* there was one since the last tick, and not still */
        bool leader_collects;             /* it sleeps until those that were woken have seen it */
        bool leader_still; /* it left something undone: the service thread does its work */
        bool left;         /* callers left to it what they began, for it to send before it sleeps */
        int64_t tick_at;   /* when it looks after the leader; RLOCK__NEVER: there is none */
        struct rlock__io *awaited; /* the links that wait for a reply */
        bool stop_service, stop_dispatcher;
        struct rlock__op *finished; /* operations whose finish the dispatcher is to call */
    };

    struct rlock__lots lots; /* where those that are parked sleep */
    /* The leader has just woken many, and slept since for nothing but them: callers leave to it
     * what they begin. Written with the mutex. */
    atomic_bool corked;
    bool corks_always; /* one is many: for tests with few threads */
    atomic_uint refs;
    atomic_bool closed;
    unsigned fork_generation;
    struct rlock_client_opts opts;
    struct rlock__uri uri;
    struct rlock__tls *tls;
    struct rlock__conn_opts conn_opts;
    char name[160];    /* of our connections */
    char address[300]; /* for texts */

    pthread_mutex_t home_mutex; /* for the groups that live there */
    struct rlock__home home;
    /* what no thread waits for, of the groups that live there: begun.c */
    RLOCK__GUARDED_BY(home) struct {
        struct rlock__begun *begun;
        struct rlock__timers due; /* when the service thread takes a step of each */
        bool begun_asleep;        /* it sleeps until the first is due */
        bool begun_closed;        /* none begins any more */
    };
    struct rlock__bells bells; /* of threads that have turns there; under its mutex */

    struct rlock__node *nodes; /* the first, there from the start; none ever leaves, and any thread
                                * may go through them: RLOCK__EACH_NODE */
    size_t n_links;            /* to each node */
    struct rlock__router *router;       /* where servers change; NULL: there is one node */
    struct rlock__loop *loop;           /* of a client without threads; NULL else */
    struct rlock__send_lock send_lock;  /* for the links of all nodes */
    int64_t read_at;                    /* under it: when something was last read */
    struct rlock__io *stuck;            /* under it: the links with full sockets */
    _Atomic(struct rlock__io *) wanted; /* the links to serve: wanted.h */
    atomic_bool wake_wanted;            /* somebody is to be woken by whoever has the links */
    struct pollfd *polled;              /* the service thread's: room for what it polls */
    int wake_fd;                        /* wakes the service thread */
    int leader_fd;                      /* wakes the leader */
    int links_fd;  /* epoll of the links that are up; -1: there is one, which is polled */
    int cancel_fd; /* epoll of the cancel signals in use */
    pthread_t service, dispatcher;
    bool has_service, has_dispatcher;
    struct rlock_client *registered_prev, *registered_next;
};

static inline struct rlock_client *rlock__client_of(struct rlock__core *core)
{
    return (struct rlock_client *)(void *)core;
}

/* ---- wake.c: entering the core, and waking those whom that concerns ---- */

void rlock__enter(struct rlock_client *client) RLOCK__LOCKS(core);
/* Leaves the core, then wakes whom it completed and who has to look earlier than planned. */
void rlock__leave(struct rlock_client *client) RLOCK__UNLOCKS(core);
/* What the core wants done is handed to those who do it; leaving does that too. */
void rlock__settle(struct rlock_client *client) RLOCK__REQUIRES(core);
/* The same for who has the link: the waking waits until that is given up. */
void rlock__leave_with_link(struct rlock_client *client) RLOCK__REQUIRES(send) RLOCK__UNLOCKS(core);
void rlock__wake_service(const struct rlock_client *client);
/* A link is another one, or polled for something else: who sleeps over it looks again. */
void rlock__look_again(struct rlock_client *client) RLOCK__REQUIRES(send);
/* Sets the signal of a caller, which is woken once the mutex is dropped. */
void rlock__signal(struct rlock_client *client, struct rlock__parker *parker,
                   enum rlock__park signal) RLOCK__REQUIRES(core);
/* The caller has seen its signal. */
void rlock__seen(struct rlock_client *client, struct rlock__parker *parker) RLOCK__REQUIRES(core);

/* ---- drive.c: carrying out what the core wants ---- */

/* Sends what the core wants sent. */
void rlock__drive(struct rlock_client *client) RLOCK__NO_MUTEX;
/* Leaves the core, and sends what it wants sent. */
void rlock__leave_and_drive(struct rlock_client *client) RLOCK__UNLOCKS(core);
/* The same for a call that waits: where the leader is about to send, it is left to that. */
void rlock__leave_and_wait(struct rlock_client *client) RLOCK__UNLOCKS(core);
/* The send lock, for all links. Giving it up sends what came to be wanted meanwhile. */
void rlock__take_link(struct rlock_client *client) RLOCK__LOCKS(send);
void rlock__give_link(struct rlock_client *client) RLOCK__UNLOCKS(send);
/* Reads some of what is there on the links and hands it to the core. Returns when, 0: there was
 * nothing. leader: the caller that keeps watch, and reads; NULL another thread. */
int64_t rlock__drive_read(struct rlock_client *client,
                          struct rlock__parker *leader) RLOCK__NO_MUTEX;
/* Reads all of it: before the core ticks, for a time that was read before. */
bool rlock__drive_read_all(struct rlock_client *client) RLOCK__NO_MUTEX;
/* A link is up: its socket is polled from now on. */
void rlock__link_is_up(struct rlock__io *io) RLOCK__REQUIRES(send);
void rlock__link_broke(struct rlock__io *io, int code, const char *text) RLOCK__REQUIRES(send);

/* ---- watch.c: waiting, and keeping watch meanwhile ---- */

/* Whether no caller keeps watch, or the one that should stands still. */
bool rlock__is_unwatched(const struct rlock_client *client) RLOCK__REQUIRES(core);
/* The caller keeps watch from now on, unless another one does. */
bool rlock__watch_begin(struct rlock_client *client, struct rlock__parker *parker)
    RLOCK__REQUIRES(core);
/* What a leader does in each round, with fds polled in between: plans until when, and reacts.
 * leader: it hands the watch on as soon as its own call is complete; NULL not before its end. */
int64_t rlock__watch_plan(struct rlock_client *client, struct pollfd fds[static 2]) RLOCK__NO_MUTEX;
void rlock__watch_react(struct rlock_client *client, const struct pollfd fds[static 2],
                        int64_t until, struct rlock__parker *leader) RLOCK__NO_MUTEX;
/* The leader is not standing still as far as anybody knows, and awake. */
void rlock__watch_moved(struct rlock_client *client) RLOCK__REQUIRES(core);
/* Gives the watch to a parked caller, or to the service thread. */
void rlock__watch_end(struct rlock_client *client, struct rlock__parker *leader)
    RLOCK__REQUIRES(core);
int rlock__timeout_ms(int64_t until, int64_t now);
/* Begins a call. parker: zero, of the calling thread, which is to wait then; NULL: call->finish is
 * called, unless this returns that the client is closed. */
int rlock__begin(struct rlock_client *client, struct rlock__call *call,
                 struct rlock__parker *parker, const struct rlock_cancel *cancel) RLOCK__NO_MUTEX;
void rlock__wait(struct rlock_client *client, struct rlock__parker *parker) RLOCK__NO_MUTEX;
/* Runs a call to its completion. */
int rlock__run(struct rlock_client *client, struct rlock__call *call) RLOCK__NO_MUTEX;

/* ---- service.c ---- */

/* Whether nobody need read the link before the service thread's tick, which is to come. */
bool rlock__io_is_late(const struct rlock__io *io) RLOCK__REQUIRES(core);

void *rlock__service_main(void *arg); /* the client */
/* What the thread does in each round, with client.polled polled in between. What to poll for, and
 * until when. Returns how many, 0: it is to end. */
nfds_t rlock__service_plan(struct rlock_client *client, int64_t now,
                           int64_t *ret_until) RLOCK__NO_MUTEX;
/* Does what came, and what is due by now. More may have to be polled after that. */
void rlock__service_react(struct rlock_client *client, int64_t now) RLOCK__NO_MUTEX;

/* ---- begun.c, for the service thread ---- */

/* When a step is due; what changes from here on is told to it. */
int64_t rlock__begun_next(struct rlock_client *client) RLOCK__NO_MUTEX;
/* Takes the steps that are due. */
void rlock__begun_serve(struct rlock_client *client, int64_t now) RLOCK__NO_MUTEX;
/* A signal was fired that some may wait with. */
void rlock__begun_cancel(struct rlock_client *client, const void *cancel) RLOCK__NO_MUTEX;
/* Those that are under way end now, and no other one begins. Returns whether there is none. */
bool rlock__begun_close(struct rlock_client *client) RLOCK__NO_MUTEX;

/* ---- dispatch.c ---- */

void *rlock__dispatcher_main(void *arg); /* the client */
/* Whether there is something to tell. */
bool rlock__is_to_dispatch(const struct rlock_client *client) RLOCK__REQUIRES(core);
/* Runs the callbacks of what there is to tell by now. Returns whether there was anything. */
bool rlock__dispatch(struct rlock_client *client) RLOCK__NO_MUTEX;
/* Whether the calling thread runs a callback: it must not wait. */
bool rlock__is_dispatcher(void);

/* ---- cancel.c ---- */

struct rlock_cancel {
    uintptr_t id;          /* never reused: an event that comes late names nobody else's signal */
    atomic_int fd;         /* readable for good once it is fired */
    _Atomic pid_t process; /* whose that is: one that was forked shares it until it waits */
    atomic_bool fired;
};

/* Names the signal in core calls; 0 for NULL. */
const void *rlock__cancel_id(const struct rlock_cancel *cancel);
/* Lets the client's service thread hear of it. */
int rlock__cancel_watch(struct rlock_client *client, struct rlock_cancel *cancel);

#endif
