/* SPDX-License-Identifier: Apache-2.0 */
#include "sched.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#define THREADS_MAX 64
#define CHANGES_MAX 6
#define STEPS_MAX 400000
#define BUSY_MAX 10000 /* steps in which nobody sleeps and nothing arrives */
#define TIME_MAX (600 * RLOCK__SECOND)

struct sched_thread {
    char name[24];
    unsigned id;
    sem_t turn;
    int64_t priority;
    bool ended;
    unsigned n_held, rounds;
    int64_t still_until; /* it stands still */
    int64_t stalled_us;  /* so far */
    /* while it waits */
    sched_ready_fn *ready;
    const void *arg;
    const char *what;
    int64_t until;
    void *(*main)(void *);
    void *main_arg;
};

struct event {
    struct event *prev, *next;
    int64_t at;
    sched_event_fn *fn;
    void *arg;
};

static struct {
    struct sched_config config;
    struct sched_dice dice;
    struct sched_thread *threads[THREADS_MAX];
    unsigned n_threads;
    struct event *events; /* the earliest first */
    int64_t now, lowest;
    unsigned n_stalls;
    uint64_t steps, digest;
    uint64_t moved_at;             /* the step before something arrived last, or all slept */
    uint64_t changes[CHANGES_MAX]; /* the steps at which a priority drops */
    unsigned n_changes;
    int64_t redraws; /* in so many steps of a thousand a priority is drawn anew */
    pthread_key_t last;
} run;

static _Thread_local struct sched_thread *self;

/* ---- Chance ---- */

int64_t sched_roll(struct sched_dice *dice, int64_t n)
{
    uint64_t z = (dice->state += 0x9E3779B97F4A7C15ULL); /* Steele, Lea, Flood 2014 */

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return n > 0 ? (int64_t)(((z ^ (z >> 31)) >> 1) % (uint64_t)n) : 0;
}

int64_t sched_between(struct sched_dice *dice, int64_t low, int64_t high)
{
    return low + sched_roll(dice, high - low + 1);
}

bool sched_chance(struct sched_dice *dice, int64_t per_mille)
{
    return sched_roll(dice, 1000) < per_mille;
}

/* ---- What happens, for those who read it ---- */

bool sched_is_on(void)
{
    return self != NULL;
}

int64_t sched_now(void)
{
    return run.now;
}

int64_t sched_stalled_us(const char *name)
{
    int64_t us = 0;

    for (unsigned i = 0; i < run.n_threads; i++) {
        if (name == NULL || strcmp(run.threads[i]->name, name) == 0) {
            us += run.threads[i]->stalled_us;
        }
    }
    return us;
}

unsigned sched_n_stalls(void)
{
    return run.n_stalls;
}

unsigned sched_self(void)
{
    return self->id;
}

const char *sched_name(unsigned id)
{
    return run.threads[id]->name;
}

void sched_set_name(const char *name)
{
    (void)snprintf(self->name, sizeof(self->name), "%s", name);
}

void sched_note(const char *what, uint64_t number)
{
    uint64_t digest = run.digest; /* FNV-1a */

    for (const char *at = what; *at != '\0'; at++) {
        digest = (digest ^ (unsigned char)*at) * 1099511628211U;
    }
    digest = (digest ^ (uint64_t)run.now) * 1099511628211U;
    run.digest = (digest ^ number) * 1099511628211U;
}

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list args)
{
    printf("%11.3f ms  %-12s ", (double)run.now / 1000, self != NULL ? self->name : "");
    (void)vprintf(format, args);
    printf("\n");
}

void sched_trace(const char *format, ...)
{
    va_list args;

    if (run.config.trace) {
        va_start(args, format);
        say(format, args);
        va_end(args);
    }
}

static void keep_result(void)
{
    run.config.result->digest = run.digest;
    run.config.result->steps = run.steps;
    run.config.result->us = run.now;
}

static void say_threads(void)
{
    for (unsigned i = 0; i < run.n_threads; i++) {
        const struct sched_thread *thread = run.threads[i];
        bool locks = thread->ready != NULL && strcmp(thread->what, "mutex_lock") == 0;
        const char *owner = locks ? sched_mutex_owner(thread->arg) : NULL;

        if (!thread->ended) {
            printf("    %-12s %s%s%s%s%s\n", thread->name,
                   thread->ready != NULL ? "waits in " : "can go on, after ",
                   thread->what != NULL ? thread->what : "nothing", owner != NULL ? " for " : "",
                   owner != NULL ? owner : "",
                   run.now < thread->still_until ? ", and stands still" : "");
        }
    }
}

void sched_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(run.config.result->why, SCHED_WHY_SIZE, format, args);
    va_end(args);
    keep_result();
    sched_trace("FAILS: %s", run.config.result->why);
    if (run.config.trace) {
        say_threads();
    }
    (void)fflush(stdout);
    _exit(EXIT_FAILURE);
}

/* ---- Events ---- */

static int by_time(const struct event *a, const struct event *b)
{
    return a->at <= b->at ? -1 : 1;
}

void sched_at(int64_t at, sched_event_fn *fn, void *arg)
{
    struct event *event = malloc(sizeof(*event));

    *event = (struct event){.at = at, .fn = fn, .arg = arg};
    DL_INSERT_INORDER(run.events, event, by_time);
}

static void run_events(void)
{
    struct event *event;

    while ((event = run.events) != NULL && event->at <= run.now) {
        DL_DELETE(run.events, event);
        run.moved_at = run.steps;
        event->fn(event->arg);
        free(event);
    }
}

/* ---- Who goes on ---- */

static bool can_go_on(const struct sched_thread *thread)
{
    return !thread->ended && thread->still_until <= run.now &&
           (thread->ready == NULL || thread->until <= run.now || thread->ready(thread->arg));
}

/* Nobody can go on: time jumps to where somebody can, or something happens. */
static void jump(void)
{
    int64_t next = run.events != NULL ? run.events->at : RLOCK__NEVER;

    run.config.on_idle();
    for (unsigned i = 0; i < run.n_threads; i++) {
        const struct sched_thread *thread = run.threads[i];

        if (!thread->ended) {
            next = rlock__min(next,
                              run.now < thread->still_until ? thread->still_until : thread->until);
        }
    }
    if (next == RLOCK__NEVER) {
        say_threads();
        sched_fail("nobody can ever go on");
    }
    if (next > TIME_MAX) {
        sched_fail("does not end: its time is over");
    }
    run.now = rlock__max(run.now, next);
    run.moved_at = run.steps;
}

static struct sched_thread *choose(void)
{
    struct sched_thread *best = NULL;

    for (;;) {
        run_events();
        for (unsigned i = 0; i < run.n_threads; i++) {
            struct sched_thread *thread = run.threads[i];

            if (can_go_on(thread) && (best == NULL || thread->priority > best->priority)) {
                best = thread;
            }
        }
        if (best != NULL) {
            return best;
        }
        jump();
    }
}

static void wait_turn(struct sched_thread *thread)
{
    while (sem_wait(&thread->turn) != 0) {
        SCHED_REQUIRE(errno == EINTR);
    }
}

/* Whoever is to go on does. Returns when that is the calling thread, which may have ended. */
static void hand_over(void)
{
    struct sched_thread *next = choose();
    bool ended = self->ended; /* who goes on may free it */

    if (next != self) {
        (void)sem_post(&next->turn);
        if (!ended) {
            wait_turn(self);
        }
    }
}

static int64_t any_priority(void)
{
    return 1 + sched_roll(&run.dice, INT64_C(1) << 40);
}

static bool is_change(void)
{
    for (unsigned i = 0; i < run.n_changes; i++) {
        if (run.changes[i] == run.steps) {
            return true;
        }
    }
    return false;
}

static void change(void)
{
    if (sched_chance(&run.dice, run.redraws)) {
        self->priority = any_priority();
    }
    if (!is_change()) {
        return;
    }
    if (run.config.stalls && self->n_held == 0 && sched_chance(&run.dice, 700)) {
        int64_t us = RLOCK__MS << sched_roll(&run.dice, 11);

        sched_trace("stands still for %lld us", (long long)us);
        self->still_until = run.now + us;
        self->stalled_us += us;
        run.n_stalls++;
    } else {
        self->priority = --run.lowest;
    }
}

void sched_point(const char *what)
{
    self->what = what;
    sched_note(what, self->id);
    sched_trace("%s", what);
    if (++run.steps > STEPS_MAX) {
        sched_fail("does not end: %d steps", STEPS_MAX);
    }
    if (run.steps - run.moved_at > BUSY_MAX) {
        sched_fail("somebody goes round in circles: %d steps, and nothing comes of it", BUSY_MAX);
    }
    run.now += sched_roll(&run.dice, 3);
    change();
    hand_over();
}

bool sched_wait(const char *what, sched_ready_fn *ready, const void *arg, int64_t until)
{
    sched_note("waits", self->id);
    self->what = what;
    self->arg = arg;
    self->until = until;
    self->ready = ready;
    hand_over();
    self->ready = NULL;
    self->until = RLOCK__NEVER;
    return ready(arg);
}

static bool never(const void *arg)
{
    (void)arg;
    return false;
}

void sched_sleep(int64_t us)
{
    (void)sched_wait("sleep", never, NULL, run.now + us);
}

void sched_holds(int n)
{
    self->n_held += (unsigned)n;
}

unsigned sched_n_held(void)
{
    return self->n_held;
}

/* ---- Threads ---- */

struct sched_thread *sched_thread_new(const char *name, void *(*main)(void *), void *arg)
{
    struct sched_thread *thread = calloc(1, sizeof(*thread));

    SCHED_REQUIRE(run.n_threads < THREADS_MAX);
    thread->id = run.n_threads;
    if (name != NULL) {
        (void)snprintf(thread->name, sizeof(thread->name), "%s", name);
    } else {
        (void)snprintf(thread->name, sizeof(thread->name), "thread %u", thread->id);
    }
    thread->main = main;
    thread->main_arg = arg;
    thread->until = RLOCK__NEVER;
    thread->priority = any_priority();
    (void)sem_init(&thread->turn, 0, 0);
    run.threads[run.n_threads++] = thread;
    return thread;
}

void *sched_thread_main(void *arg)
{
    struct sched_thread *thread = arg;

    self = thread;
    wait_turn(thread);
    (void)pthread_setspecific(run.last, thread);
    return thread->main(thread->main_arg);
}

bool sched_thread_has_ended(const void *thread)
{
    return ((const struct sched_thread *)thread)->ended;
}

/* A thread's values are taken down in rounds: after the first the library's are. The last one is
 * the sanitizers'. */
static void on_exit_of_thread(void *arg)
{
    struct sched_thread *thread = arg;

    if (++thread->rounds < PTHREAD_DESTRUCTOR_ITERATIONS - 1) {
        (void)pthread_setspecific(run.last, thread);
        return;
    }
    sched_point("exit");
    if (thread->n_held != 0) {
        sched_fail("%s ends with a mutex", thread->name);
    }
    thread->ended = true;
    hand_over();
    self = NULL;
}

/* ---- A run ---- */

static void draw_changes(void)
{
    static const int64_t lengths[] = {300, 1000, 3000, 10000};
    int64_t length = lengths[sched_roll(&run.dice, 4)];

    run.redraws = sched_chance(&run.dice, 250) ? 1 << sched_roll(&run.dice, 8) : 0;
    run.n_changes = (unsigned)sched_roll(&run.dice, CHANGES_MAX + 1);
    for (unsigned i = 0; i < run.n_changes; i++) {
        run.changes[i] = (uint64_t)sched_between(&run.dice, 1, length);
    }
}

void sched_begin(const struct sched_config *config)
{
    run.config = *config;
    run.dice.state = config->seed * 3;
    run.digest = 14695981039346656037U;
    (void)pthread_key_create(&run.last, on_exit_of_thread);
    draw_changes();
    self = sched_thread_new("main", NULL, NULL);
}

void sched_end(void)
{
    struct event *event, *after;

    for (unsigned i = 0; i < run.n_threads; i++) {
        if (run.threads[i] != self && !run.threads[i]->ended) {
            sched_fail("%s never ended", run.threads[i]->name);
        }
    }
    keep_result();
    DL_FOREACH_SAFE(run.events, event, after) {
        free(event);
    }
    for (unsigned i = 0; i < run.n_threads; i++) {
        (void)sem_destroy(&run.threads[i]->turn);
        free(run.threads[i]);
    }
    self = NULL;
}
