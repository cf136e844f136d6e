/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A town of those who use one fair lock: ours, who run the library's scripts and read their replies
 * as the kind does, and peers, who do what is written of Redisson, by its own scripts where there
 * are any. One thread, a virtual clock, the simulated server, a network that delays and loses
 * messages. Whoever acts, the town looks at the
 * queue afterwards: who was granted the lock, who was put out, and whether they were alive.
 */
#ifndef RLOCK_TEST_FAIR_TOWN_H
#define RLOCK_TEST_FAIR_TOWN_H

#include "base/timer.h"
#include "fair/peer.h"
#include "lock/core.h"
#include "sim/server.h"

#define TOWN_LOCK "lock"

enum { TOWN_NAME = 64, TOWN_MOST = 1024, TOWN_SLOT_MS = 300000 };

struct town;

/* What somebody does again and again, in ms; times between half and all of what is said. */
struct town_habit {
    bool is_peer;
    bool hears_first; /* a peer that subscribes before it queues, as version 0.1 of this library */
    int64_t wait;     /* -1 for ever, 0 does not wait */
    int64_t lease, hold, think;
    int64_t ahead; /* of a peer's clock */
    bool once;     /* goes away after one call */
};

enum town_state { TOWN_AWAY, TOWN_ASKS, TOWN_SLEEPS, TOWN_HOLDS, TOWN_GONE };

struct town_person {
    struct rlock__timer timer;
    struct town *town;
    struct town_habit habit;
    enum town_state state;
    void (*step)(struct town_person *person); /* when its timer fires */
    char name[TOWN_NAME];
    uint64_t conn;    /* that hears its channel; 0 none */
    unsigned calls;   /* so that messages to an earlier call are nobody's */
    int64_t deadline; /* of its call; RLOCK__NEVER none */
    int64_t began_at; /* its call */
    int64_t holds_until, gives_back_at;
    int64_t ticket, asked_at, entered_at; /* of its latest attempt, and of that with the ticket */
    bool is_short;                        /* a release granted its hold, and it was not renewed */
    int64_t stopped_until, unwell_until;  /* it was stopped; it may be taken for dead */
    bool waits, stale;
    struct rlock__answer answer;
    uint64_t grants, refusals;
};

struct town_report {
    uint64_t grants, pushed, dead_removed, inversions, thrown_by_ours, thrown_by_peers,
        second_holders;
    uint64_t endless;     /* times that one of ours stood in a queue without an end */
    int64_t longest_wait; /* of one of ours or of a peer that was granted it, in ms */
    double worst_head;    /* slots that any head had beyond what was left of the lease */
};

struct town {
    struct sim_server *server;
    const struct peer_script *peers; /* by verb */
    struct rlock__timers timers;
    uint64_t conn, random, names;
    struct rlock__core core;
    struct rlock__server here; /* of the core */
    struct rlock__spec *spec;
    int64_t now;
    size_t n;
    struct town_person *people[TOWN_MOST];
    size_t n_queue;
    char (*queue)[TOWN_NAME];
    char holder[TOWN_NAME];
    char *reply;
    size_t reply_len;
    const struct town_person *acting;
    int64_t delay, loss; /* one way, at most, in ms; percent of messages */
    int64_t resends;     /* percent of our commands that arrive twice */
    bool counts_unknown; /* the server does not say how many hear a channel */
    bool is_plain;       /* releases grant nothing */
    struct town_report report;
};

struct town *town_new(uint64_t seed, int64_t slot_ms);
struct town *town_free(struct town *town);

/* Somebody new, who begins after so many ms. */
struct town_person *town_add(struct town *town, const struct town_habit *habit, int64_t after);
/* Lets so much time pass. */
void town_run(struct town *town, int64_t ms);
/* Until it has been granted the lock so often, at most so long; whether it was. */
bool town_run_until_granted(struct town *town, const struct town_person *person, uint64_t grants,
                            int64_t ms);
/* Its process is killed: its place stays. It does not come back. */
void town_kill(struct town_person *person);
/* It stands still, with its connection open, for so long. */
void town_stop(struct town_person *person, int64_t ms);
/* It comes no more after its call. */
void town_retire(struct town_person *person);
/* A command by hand. */
void town_type(struct town *town, const char *const *words);
/* Chance: a number below n; and whether it is one of so many in a thousand. */
int64_t town_below(struct town *town, int64_t n);
bool town_chance(struct town *town, int64_t per_mille);

/* ---- town_basics.c ---- */

/* Tells the server what time it is. */
void town_tell_time(struct town *town);
/* The script as it meets a server that does not say how many hear a channel. */
const struct rlock__script *town_without_counts(const struct rlock__script *script);
/* The ticket of the message "p number ticket" in a frame; 0: it is another one. */
int64_t town_ticket_in(const char *bytes, size_t len);

/* ---- town_watch.c ---- */

/* Looks at what somebody's command has made of the queue; NULL one by hand. */
void town_see(struct town *town, const struct town_person *by);
/* Its place in the queue, 1 the head; 0 none. */
size_t town_place(const struct town *town, const struct town_person *person);
/* Its score less the server's clock and what is left of the lease; in ms. */
int64_t town_score(const struct town *town, const struct town_person *person);
size_t town_keys(const struct town *town);

#endif
