/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client as its threads see it: the core behind one mutex, the links behind another, and the
 * roles of the threads around them.
 *
 *   - A calling thread hands its call to the core, and sends the bytes that the core produces. If
 *     there is no leader (drive/watch.h) it becomes the leader until its call is complete.
 *     Otherwise it parks. When the leader's own call is complete, the next caller becomes the
 *     leader.
 *   - The service thread makes connections, reads the subscriber connections, receives
 *     cancellations, and runs the group operations that no thread waits for. It keeps watch when
 *     there is no leader. While there is one, it ticks: a caller can stall at any instruction
 *     (stopped, starved, in a signal handler), and the tick does what a stalled leader left undone.
 *   - The dispatcher thread runs the user's callbacks, and completes the operations that no thread
 *     waits for. It does nothing else.
 *   - If the program's event loop runs the client, it has neither of these two threads: loop.h.
 *
 * The mutexes have the kinds and the order of base/guarded.h. A thread that holds a mutex can
 * stall, and no other thread can do its work then. Therefore a thread makes no system call with a
 * mutex, with two exceptions: the holder of the send lock sends and receives on the links, and
 * changes what is polled for them; and a thread may wake a group's thread.
 */
#ifndef RLOCK_DRIVE_CLIENT_H
#define RLOCK_DRIVE_CLIENT_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/guarded.h"
#include "base/whole.h"
#include "drive/node.h"
#include "drive/park.h"
#include "drive/send_lock.h"
#include "drive/wakeup_fd.h"
#include "drive/watch.h"
#include "lock/core.h"
#include "multi/groups.h"

#define RLOCK__MAX_LEASE_MS 30000 /* of a RedLock, by default */

RLOCK__MUTEX(core);
RLOCK__MUTEX(groups);
RLOCK__MUTEX(registry);

/* What the service thread polls: its wake-ups, cancel signals, nodes_fd, and the links while it
 * reads them. */
enum { RLOCK__POLL_WAKE, RLOCK__POLL_CANCEL, RLOCK__POLL_NODES, RLOCK__POLL_LINKS, RLOCK__POLLED };

struct rlock__alarm;
struct rlock__background;
struct rlock__loop;
struct rlock__op;
struct rlock__router;
struct rlock__group_op;

struct rlock_client {
    struct rlock__core core; /* first: the core's client is found by it */
    pthread_mutex_t mutex;   /* for the core, its servers, and the roles of threads */
    pthread_cond_t news; /* for the dispatcher: losses, notes, finished; for close: is_settled */
    RLOCK__GUARDED_BY(core) struct rlock__watch watch; /* which thread keeps watch */
    RLOCK__GUARDED_BY(core) struct {
        struct rlock__io *awaited; /* the links that wait for a reply */
        struct {
            struct rlock__timers due;    /* when the service thread serves each node next */
            struct rlock__alarm *alarms; /* alarm.h */
            struct rlock__timers alarms_due;
            struct rlock__node *held_up; /* nodes that may want a connection while the core makes as
                                          * many as it may at the same time */
        } to_serve;
        bool stop_service, stop_dispatcher;
        struct rlock__op *finished; /* operations that the dispatcher has to complete */
    };

    struct rlock__buckets buckets; /* where callers park */
    /* The leader has just woken many callers, and has not planned since: callers leave the bytes of
     * their next calls to it. Written under the core's mutex. */
    atomic_bool corked;
    bool corks_always; /* one reply counts as many: for tests with few threads */
    atomic_uint refs;
    atomic_bool closed;
    unsigned fork_generation;
    struct rlock_client_opts opts;
    struct rlock__uri uri;
    struct rlock__tls *tls;
    struct rlock__conn_opts conn_opts;
    char name[160];    /* of our connections */
    char address[300]; /* for texts */

    pthread_mutex_t groups_mutex; /* for the groups that have their home here */
    struct rlock__groups groups;
    /* the operations on these groups that no thread waits for: background.c */
    RLOCK__GUARDED_BY(groups) struct {
        struct rlock__background *background;
        struct rlock__timers due; /* when the service thread runs the next step of each */
        bool background_asleep;   /* it sleeps until the first one is due */
        bool background_closed;   /* no other operation may begin */
    };
    struct rlock__wakeup_fds wakeup_fds; /* of threads that run these groups; under groups_mutex */

    struct rlock__node *nodes; /* the first one is there from the start. A node never leaves the
                                * list, so any thread may walk it: RLOCK__EACH_NODE */
    size_t n_links;            /* to each node */
    struct rlock__router
        *router;              /* of a deployment with several servers; NULL: there is one node */
    struct rlock__loop *loop; /* of a client that the program's event loop runs; or NULL */
    struct rlock__send_lock send_lock; /* for the links of all nodes */
    int64_t read_at;         /* when a reply was last read. Written under it and the core's mutex */
    struct rlock__io *stuck; /* under it: the links with full sockets */
    _Atomic(struct rlock__io *) wanted; /* the links to serve: wanted.h */
    atomic_bool wake_wanted; /* wake-ups are due: the holder of the send lock delivers them */
    int links_fd; /* epoll of the links that are up; -1: there is one link, which is polled */
    struct {
        pthread_t service, dispatcher;
        bool has_service, has_dispatcher;
        struct pollfd polled[RLOCK__POLLED]; /* by the service thread */
        int wake_fd;                         /* wakes the service thread */
        int leader_fd;                       /* wakes the leader */
        int cancel_fd;                       /* epoll of the cancel signals in use */
        /* epoll of the links that are being made, of the ends of others, and of the connections for
         * messages. An event's data is the address of a pointer to the node; NULL: the router's */
        int nodes_fd;
    } threads;
    struct rlock_client *registered_prev, *registered_next;
};

static inline struct rlock_client *rlock__client_of(struct rlock__core *core)
{
    return (struct rlock_client *)(void *)core;
}

/* ---- wake.c: entering and leaving the core, and waking threads ---- */

void rlock__enter(struct rlock_client *client) RLOCK__LOCKS(core);
/* Leaves the core. Then wakes the callers of complete calls, and each thread that planned to
 * sleep too long. */
void rlock__leave(struct rlock_client *client) RLOCK__UNLOCKS(core);
/* Distributes the core's actions: completions to their callers, bytes to the links. Leaving does
 * so too. */
void rlock__distribute(struct rlock_client *client) RLOCK__REQUIRES(core);
/* Leaves the core with the send lock. The wake-ups wait until the thread gives that up. */
void rlock__leave_with_link(struct rlock_client *client) RLOCK__REQUIRES(send) RLOCK__UNLOCKS(core);
void rlock__wake_service(const struct rlock_client *client);
/* The sockets of the links, or the events to poll for, have changed: sleepers must plan again. */
void rlock__replan(struct rlock_client *client) RLOCK__REQUIRES(send);

/* ---- drive.c: carrying out what the core wants ---- */

/* Sends the core's bytes. */
void rlock__drive(struct rlock_client *client) RLOCK__NO_MUTEX;
/* Leaves the core, and sends its bytes. */
void rlock__leave_and_drive(struct rlock_client *client) RLOCK__UNLOCKS(core);
/* The same for a caller that waits then. If the leader is about to send, the bytes wait for it. */
void rlock__leave_and_wait(struct rlock_client *client) RLOCK__UNLOCKS(core);
/* The send lock, for all links. Giving it up sends the bytes that the core produced meanwhile. */
void rlock__take_link(struct rlock_client *client) RLOCK__LOCKS(send);
void rlock__give_link(struct rlock_client *client) RLOCK__UNLOCKS(send);
/* Reads once from each readable link, and hands the replies to the core. Returns the time of the
 * last read, 0 if nothing was readable. leader: the calling thread, if it is the leader. It stops
 * to lead when its own call is complete. */
int64_t rlock__drive_read(struct rlock_client *client,
                          struct rlock__waiter *leader) RLOCK__NO_MUTEX;
/* Reads all that is there. For a tick of the core with a time that was taken before. */
bool rlock__drive_read_all(struct rlock_client *client) RLOCK__NO_MUTEX;
/* A link is up: its socket is polled from now on. */
void rlock__link_is_up(struct rlock__io *io) RLOCK__REQUIRES(send);
void rlock__link_broke(struct rlock__io *io, int code, const char *text) RLOCK__REQUIRES(send);

/* ---- wait.c: waiting for a call, and leading meanwhile ---- */

/* The caller becomes the leader, unless there is one. Returns whether it did. */
bool rlock__lead_begin(struct rlock_client *client, struct rlock__waiter *waiter)
    RLOCK__REQUIRES(core);
/* What a leader does in each round, with fds polled in between: rlock__lead_plan() returns until
 * when to poll, rlock__lead_react() does the rest. leader: it stops to lead as soon as its own call
 * is complete; NULL: it continues. */
int64_t rlock__lead_plan(struct rlock_client *client, struct pollfd fds[static 2]) RLOCK__NO_MUTEX;
void rlock__lead_react(struct rlock_client *client, const struct pollfd fds[static 2],
                       int64_t until, struct rlock__waiter *leader) RLOCK__NO_MUTEX;
int rlock__timeout_ms(int64_t until, int64_t now);
/* What to poll for replies on any link. */
struct pollfd rlock__links_polled(const struct rlock_client *client);
/* Begins a call. waiter: zero, of the calling thread, which has to wait then. NULL: call->finish
 * runs at its completion, unless this function returns RLOCK_ECLOSED. */
int rlock__begin(struct rlock_client *client, struct rlock__call *call,
                 struct rlock__waiter *waiter, const struct rlock_cancel *cancel) RLOCK__NO_MUTEX;
void rlock__wait(struct rlock_client *client, struct rlock__waiter *waiter) RLOCK__NO_MUTEX;
/* Runs a call to its completion. */
int rlock__run(struct rlock_client *client, struct rlock__call *call) RLOCK__NO_MUTEX;

/* ---- service.c ---- */

/* True if no thread awaits a reply on the link, so that the service thread's next tick is early
 * enough to read it. */
bool rlock__io_is_unawaited(const struct rlock__io *io) RLOCK__REQUIRES(core);
/* Whether the service thread has to read a reply before its next tick, if no leader does. */
bool rlock__service_must_read(const struct rlock_client *client) RLOCK__REQUIRES(core);

void *rlock__service_main(void *arg); /* the client */
/* What the thread does in each round, with client.threads.polled polled in between, until the time
 * that the plan sets. False: the thread has to end. */
bool rlock__service_plan(struct rlock_client *client, int64_t now,
                         int64_t *ret_until) RLOCK__NO_MUTEX;
/* Reacts to what poll() reported, and does what is due by now. Plan again after that. */
void rlock__service_react(struct rlock_client *client, int64_t now) RLOCK__NO_MUTEX;

/* ---- background.c, for the service thread ---- */

/* Returns when the next step is due. A step that becomes due earlier wakes the service thread. */
int64_t rlock__background_next(struct rlock_client *client) RLOCK__NO_MUTEX;
/* Runs the steps that are due. */
void rlock__background_serve(struct rlock_client *client, int64_t now) RLOCK__NO_MUTEX;
/* A cancel signal was fired: cancels the operations that wait with it. */
void rlock__background_cancel(struct rlock_client *client, const void *cancel) RLOCK__NO_MUTEX;
/* Ends the operations that are under way; no other one begins. Returns whether none is left. */
bool rlock__background_close(struct rlock_client *client) RLOCK__NO_MUTEX;

/* ---- dispatch.c ---- */

void *rlock__dispatcher_main(void *arg); /* the client */
/* Whether callbacks are pending. */
bool rlock__is_to_dispatch(const struct rlock_client *client) RLOCK__REQUIRES(core);
/* Runs the pending callbacks. Returns whether there were any. */
bool rlock__dispatch(struct rlock_client *client) RLOCK__NO_MUTEX;
/* Whether the calling thread runs a callback. It must not wait then. */
bool rlock__is_dispatcher(void);

/* ---- cancel.c ---- */

struct rlock_cancel {
    uintptr_t id;          /* never reused, so an overdue event cannot name another signal */
    atomic_int fd;         /* readable for good once it is fired */
    _Atomic pid_t process; /* that made fd: a forked process shares fd until it waits itself */
    atomic_bool fired;
};

/* The signal's name in core calls; NULL for NULL. */
const void *rlock__cancel_id(const struct rlock_cancel *cancel);
/* The client's service thread is woken when the signal is fired. */
int rlock__cancel_watch(struct rlock_client *client, struct rlock_cancel *cancel);

#endif
