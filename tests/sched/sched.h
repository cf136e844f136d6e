/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scheduler under the tests: the library's own threads, one at a time, in an order that a seed
 * decides.
 *
 * Each thread is a real one, parked on a semaphore of its own until it is its turn. The calls by
 * which threads wait for each other or for the world are interposed (the linker's --wrap; `wrapped`
 * lists them): each of them is a point at which another thread may go on. Mutexes, condition
 * variables, futexes and descriptors are the scheduler's own. So is the clock: it moves a little at
 * each point, and jumps when nobody can go on.
 *
 * Who goes on is decided by priorities, as in PCT (Burckhardt, Kothari, Musuvathi, Nagarakatte: A
 * Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010): they are drawn
 * at random, of those who can go on the highest does, and at a few random points the priority of
 * whoever is there drops below all others. A bug that needs few orderings is met by a large share
 * of the seeds. A quarter of the seeds draws priorities anew again and again, for bugs that
 * need many.
 *
 * The same seed gives the same run, on any machine and under any load.
 */
#ifndef RLOCK_TEST_SCHED_SCHED_H
#define RLOCK_TEST_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

/* ---- Chance ---- */

/* A stream of random numbers (splitmix64): each part has its own, so that a change to one of them
 * leaves the others alone. */
struct sched_dice {
    uint64_t state;
};

/* 0 to n - 1. */
int64_t sched_roll(struct sched_dice *dice, int64_t n);
/* low to high, both included. */
int64_t sched_between(struct sched_dice *dice, int64_t low, int64_t high);
bool sched_chance(struct sched_dice *dice, int64_t per_mille);

/* ---- A run ---- */

#define SCHED_WHY_SIZE 400

/* What a run left, in memory that outlives its process. */
struct sched_result {
    uint64_t digest; /* of all that happened, in its order */
    uint64_t steps;
    int64_t us; /* of its own time */
    char why[SCHED_WHY_SIZE];
};

struct sched_config {
    uint64_t seed;
    bool trace, stalls;
    void (*on_idle)(void); /* nobody can go on, and time is about to jump */
    struct sched_result *result;
};

/* The calling thread becomes the first of the run. */
void sched_begin(const struct sched_config *config);
/* All other threads have ended. */
void sched_end(void);
/* The rule that is broken; ends the process. */
_Noreturn void sched_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What the scheduler itself relies on, in every build. */
#define SCHED_REQUIRE(condition) ((condition) ? (void)0 : sched_fail("not so: %s", #condition))
void sched_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Changes with all that happens; for the digest. */
void sched_note(const char *what, uint64_t number);

/* Whether the calling thread is one of a run: all others get the system's own calls. */
bool sched_is_on(void);
/* Microseconds since the run began. */
int64_t sched_now(void);
/* For how long threads of that name stood still so far; NULL: all of them. */
int64_t sched_stalled_us(const char *name);
/* How often one did. */
unsigned sched_n_stalls(void);

/* ---- Threads ---- */

/* Another thread may go on here. */
void sched_point(const char *what);
typedef bool sched_ready_fn(const void *arg);
/* Waits until it is ready; false: it was not until then. */
bool sched_wait(const char *what, sched_ready_fn *ready, const void *arg, int64_t until);
void sched_sleep(int64_t us);
/* Mutexes that the calling thread has: one more, or one less. Who has one never stands still for
 * long. */
void sched_holds(int change);
unsigned sched_n_held(void);
/* For messages. */
unsigned sched_self(void);
const char *sched_name(unsigned id);
void sched_set_name(const char *name);

struct sched_thread;
/* name: NULL its number. */
struct sched_thread *sched_thread_new(const char *name, void *(*main)(void *), void *arg);
void *sched_thread_main(void *thread);
bool sched_thread_has_ended(const void *thread);

/* ---- Events ---- */

typedef void sched_event_fn(void *arg);
/* Runs it at that time, in whichever thread is there: it must not wait. */
void sched_at(int64_t at, sched_event_fn *fn, void *arg);

/* ---- sync.c ---- */

/* Whose mutex that is, for messages; NULL nobody's. */
const char *sched_mutex_owner(const void *mutex);

/* ---- files.c ---- */

/* How many descriptors are open. */
unsigned sched_files_open(void);

#endif
