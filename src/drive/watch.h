/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch of a client: which thread polls its links, reads replies for all threads, and fires
 * the core's timers. One calling thread does so while its own call is under way, the leader; the
 * others are parked. Without a leader the service thread keeps watch. (Leader/followers: Schmidt
 * and others, "Pattern-Oriented Software Architecture", volume 2.)
 *
 * A leader can be stopped or starved at any instruction. The service thread therefore looks at the
 * leader at each tick: STALLED is what it finds if the leader did not move since the last tick, and
 * left something undone. A stalled leader remains the leader, and moves again when it can.
 *
 * state       what is true                                       entered by          left by
 * VACANT      there is no leader, and no parked caller           end: nobody parks   begin
 * AWAKE       the leader runs, or was signaled to take over      begin, end, moved   plan, collect
 * ASLEEP      the leader polls the links until `until`           plan                moved, plan
 * COLLECTING  the leader sleeps until the callers that it woke   collect             moved
 *             have seen their signals, at most until `until`
 * STALLED     the service thread does the leader's work. The     tick                moved; tick:
 *             leader sleeps if `until` is not 0                                      nothing undone
 *
 * From each state with a leader, end leads to AWAKE with the next leader, or to VACANT.
 *
 * A sleeper alone reports that it is awake: until then everyone who changes something that it
 * sleeps through wakes it again. So no wake-up is lost, although a thread that is to wake another
 * one can stall before it does.
 *
 * All functions require the mutex of the client's core, which guards the object.
 */
#ifndef RLOCK_DRIVE_WATCH_H
#define RLOCK_DRIVE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/guarded.h"
#include "drive/park.h"

enum rlock__watch_state {
    RLOCK__WATCH_VACANT,
    RLOCK__WATCH_AWAKE,
    RLOCK__WATCH_ASLEEP,
    RLOCK__WATCH_COLLECTING,
    RLOCK__WATCH_STALLED,
};

struct rlock__watch {
    enum rlock__watch_state state;
    struct rlock__waiter *leader; /* NULL: the service thread keeps watch */
    int64_t until;                /* the leader sleeps until then; 0: it is awake */
    bool replans;  /* the leader must plan again: something changed since it planned its sleep */
    bool moved;    /* there was a leader since the last tick, and it was not asleep all the time */
    bool has_left; /* callers left bytes for the leader to send before it sleeps */
    struct rlock__waiter *parked;  /* callers that sleep, and could become the leader */
    struct rlock__waiter *woken;   /* callers that have not seen their signals */
    struct rlock__waiter *pending; /* the first of these to wake; NULL: none */
    unsigned next_bit;             /* for the next caller that parks: drive/park.h */
    /* The service thread: until when it sleeps, 0 awake; whether it must plan again; when it next
     * looks at the leader, RLOCK__NEVER: there is no leader to look at. */
    int64_t service_until, tick_at;
    bool service_replans;
    bool service_reads; /* it polls the links for replies */
};

void rlock__watch_init(struct rlock__watch *watch);
/* The caller becomes the leader, unless there is one. Returns whether it did. */
bool rlock__watch_begin(struct rlock__watch *watch, struct rlock__waiter *waiter)
    RLOCK__REQUIRES(core);
/* The leader leaves. The caller that has been parked longest becomes the leader. */
void rlock__watch_end(struct rlock__watch *watch, struct rlock__waiter *leader)
    RLOCK__REQUIRES(core);
/* The leader is awake, and not stalled. */
void rlock__watch_moved(struct rlock__watch *watch) RLOCK__REQUIRES(core);
/* The leader sleeps until then; 0: it has something to do at once, and does not sleep. */
void rlock__watch_plan(struct rlock__watch *watch, int64_t until) RLOCK__REQUIRES(core);
/* The leader sleeps until the callers that it woke have seen their signals, at most until then.
 * Returns false, and it does not sleep, if all have. */
bool rlock__watch_collect(struct rlock__watch *watch, int64_t until) RLOCK__REQUIRES(core);
/* The service thread's tick, with the time of the next one. undone: the leader left something that
 * was due, or that had come. Wakes all callers again that have not seen their signals. */
void rlock__watch_tick(struct rlock__watch *watch, bool undone, int64_t next) RLOCK__REQUIRES(core);

/* Whether the service thread has to do the work of a leader. */
bool rlock__watch_is_left(const struct rlock__watch *watch) RLOCK__REQUIRES(core);
/* Whether the leader sleeps, and must be woken. next: when the core is next due. */
bool rlock__watch_oversleeps(const struct rlock__watch *watch, int64_t next) RLOCK__REQUIRES(core);
/* Whether a tick has something to look at: a leader, or callers to wake again. */
bool rlock__watch_wants_ticks(const struct rlock__watch *watch) RLOCK__REQUIRES(core);

/* The caller is about to park: drive/park.h. */
void rlock__watch_park(struct rlock__watch *watch, struct rlock__waiter *waiter)
    RLOCK__REQUIRES(core);
/* Sets the signal of a caller. If it is parked, somebody wakes it once the mutex is dropped. */
void rlock__watch_signal(struct rlock__watch *watch, struct rlock__waiter *waiter,
                         enum rlock__park signal) RLOCK__REQUIRES(core);
/* The caller has seen its signal. */
void rlock__watch_seen(struct rlock__watch *watch, struct rlock__waiter *waiter)
    RLOCK__REQUIRES(core);

/* Aborts if the object contradicts its state. Installed builds do not check. */
void rlock__watch_check(const struct rlock__watch *watch) RLOCK__REQUIRES(core);

#endif
