/* SPDX-License-Identifier: Apache-2.0 */
/* rlock as a program uses it: by its public header alone. */
#include "lib.h"

#include "support/run.h"

#include <rlock/rlock.h>
#include <stdlib.h>
#include <string.h>

enum { READS_PER_WRITE = 19, OPEN_TIMEOUT_MS = 10000 };

typedef int new_fn(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                   struct rlock_handle **ret_lock);

static const struct kind {
    const char *name;
    new_fn *make;
} kinds[] = {
    {"reentrant", rlock_reentrant_new}, {"nonreentrant", rlock_nonreentrant_new},
    {"spin", rlock_spin_new},           {"fenced", rlock_fenced_new},
    {"fair", rlock_fair_new},           {"read", rlock_read_new},
    {"write", rlock_write_new},
};

struct clients {
    struct rlock_client *of_server[BENCH_MAX_SERVERS];
};

/* Many locks of one thread, in turn. */
struct spread {
    long n, next;
    struct rlock_handle *lock[];
};

struct locks {
    struct rlock_handle *lock;
    struct rlock_handle *read; /* of the row rw */
    unsigned turn;
};

static void must(int code, const char *what)
{
    if (code != 0) {
        test_die("%s: %s: %s", what, rlock_strerror(code), rlock_detail());
    }
}

static void *open_clients(const struct bench_run *run)
{
    struct clients *clients = calloc(1, sizeof(*clients));

    TEST_CHECK(clients != NULL);
    for (int i = 0; i < (run->cluster_url != NULL ? 1 : run->n_servers); i++) {
        const struct rlock_client_opts *opts =
            RLOCK_CLIENT_OPTS(.url = run->cluster_url != NULL ? run->cluster_url : run->url[i],
                              .op_timeout_ms = OPEN_TIMEOUT_MS,
                              .renewed_lease_ms = run->one->lease_ms);

        must(rlock_client_open(opts, &clients->of_server[i]), "open");
    }
    return clients;
}

static struct rlock_handle *make(struct rlock_client *client, const char *kind, const char *name,
                                 const struct rlock_opts *opts)
{
    struct rlock_handle *lock = NULL;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, kind) == 0) {
            must(kinds[i].make(client, name, opts, &lock), name);
            return lock;
        }
    }
    test_die("no kind %s", kind);
}

/* A multi-lock of names on one server, or a RedLock of one name on several. */
static struct rlock_handle *make_group(const struct bench_run *run, const struct clients *clients,
                                       const char *name)
{
    const bool is_multi = strcmp(run->row->kind, "multi") == 0;
    struct rlock_handle *members[BENCH_MAX_MEMBERS], *group = NULL;
    const size_t n = (size_t)run->one->members;

    for (size_t i = 0; i < n; i++) {
        char member[32];

        test_text(member, sizeof(member), is_multi ? "%s.%zu" : "%s", name, i);
        members[i] = make(clients->of_server[is_multi ? 0 : i], "reentrant", member, NULL);
    }
    if (is_multi) {
        must(rlock_multi_new(members, n, NULL, &group), "multi");
    } else { /* the servers have only just started */
        must(rlock_redlock_new(members, n, RLOCK_OPTS(.max_lease_ms = -1), &group), "redlock");
    }
    return group;
}

static void start_with(struct bench_worker *worker, const struct rlock_opts *opts)
{
    const struct bench_run *run = worker->run;
    const struct clients *clients = run->shared;
    struct locks *locks = calloc(1, sizeof(*locks));
    char name[16];

    TEST_CHECK(locks != NULL);
    bench_name(run, worker->index, name);
    locks->turn = (unsigned)worker->index;
    if (strcmp(run->row->kind, "rw") == 0) {
        locks->lock = make(clients->of_server[0], "write", name, opts);
        locks->read = make(clients->of_server[0], "read", name, opts);
    } else if (run->one->members > 0) {
        locks->lock = make_group(run, clients, name);
    } else {
        locks->lock = make(clients->of_server[0], run->row->kind, name, opts);
    }
    worker->state = locks;
}

static void start(struct bench_worker *worker)
{
    start_with(worker, NULL);
}

/* Its unlocks do not wait for the answer. */
static void start_sending(struct bench_worker *worker)
{
    start_with(worker, RLOCK_OPTS(.flags = RLOCK_LOCK_SENT_UNLOCK));
}

/* The client keeps the lock for a while after each unlock. */
static void start_lingering(struct bench_worker *worker)
{
    start_with(worker, RLOCK_OPTS(.linger_ms = 10));
}

/* Takes each lock once. After that the client is connected to every server, and every server knows
 * the scripts. */
static void start_spread(struct bench_worker *worker)
{
    const struct clients *clients = worker->run->shared;
    const long n = worker->run->one->locks;
    struct spread *spread = calloc(1, sizeof(*spread) + (size_t)n * sizeof(void *));

    TEST_CHECK(spread != NULL);
    spread->n = n;
    for (long i = 0; i < n; i++) {
        char name[16];

        bench_name_of(worker, i, name);
        spread->lock[i] = make(clients->of_server[0], worker->run->row->kind, name, NULL);
        must(rlock_lock(spread->lock[i]), "lock");
        must(rlock_unlock(spread->lock[i]), "unlock");
    }
    worker->state = spread;
}

static void take_and_give(struct bench_worker *worker, struct rlock_handle *lock)
{
    const int64_t began = bench_now_ns();

    must(rlock_lock(lock), "lock");
    must(rlock_unlock(lock), "unlock");
    bench_note(worker, bench_now_ns() - began);
}

static void take_pair(struct bench_worker *worker)
{
    const struct locks *locks = worker->state;

    take_and_give(worker, locks->lock);
}

static void take_next(struct bench_worker *worker)
{
    struct spread *spread = worker->state;

    take_and_give(worker, spread->lock[spread->next]);
    spread->next = (spread->next + 1) % spread->n;
}

static void take_and_hold(struct bench_worker *worker, struct rlock_handle *lock)
{
    const int64_t began = bench_now_ns();

    must(rlock_lock(lock), "lock");
    bench_note(worker, bench_now_ns() - began);
    bench_hold(worker->run->one->hold_us);
    must(rlock_unlock(lock), "unlock");
}

static void contend(struct bench_worker *worker)
{
    const struct locks *locks = worker->state;

    take_and_hold(worker, locks->lock);
}

static void read_or_write(struct bench_worker *worker)
{
    struct locks *locks = worker->state;
    const bool writes = locks->turn++ % (READS_PER_WRITE + 1) == 0;

    take_and_hold(worker, writes ? locks->lock : locks->read);
}

/* Holds of owners of their own: this worker's part of all of them. */
static void start_holding(struct bench_worker *worker)
{
    const struct bench_run *run = worker->run;
    const struct clients *clients = run->shared;

    for (long i = worker->index; i < run->one->locks; i += run->threads) {
        struct rlock_client *client = clients->of_server[0];
        char name[32];

        test_text(name, sizeof(name), "held%06ld", i);
        struct rlock_handle *lock = make(client, "reentrant", name, NULL);
        must(rlock_lock_for(lock, 0, RLOCK_TAKE(.owner = rlock_owner_new(client)), NULL), "hold");
        rlock_free(lock);
    }
}

static void look_on(struct bench_worker *worker)
{
    (void)worker;
    bench_wait_over();
}

static const char does[] = "re-entry, wake-up, renewal, loss";

const struct bench_variant lib_pair = {
    .name = "rlock", .open = open_clients, .start = start, .op = take_pair, .does = does};
const struct bench_variant lib_pair_sent = {.name = "rlock, sent",
                                            .open = open_clients,
                                            .start = start_sending,
                                            .op = take_pair,
                                            .does = does};
const struct bench_variant lib_pair_lingering = {.name = "rlock, lingers",
                                                 .open = open_clients,
                                                 .start = start_lingering,
                                                 .op = take_pair,
                                                 .does = does};
const struct bench_variant lib_pair_spread = {
    .name = "rlock", .open = open_clients, .start = start_spread, .op = take_next, .does = does};
const struct bench_variant lib_contend = {
    .name = "rlock", .open = open_clients, .start = start, .op = contend, .does = does};
const struct bench_variant lib_read_write = {
    .name = "rlock", .open = open_clients, .start = start, .op = read_or_write, .does = does};
const struct bench_variant lib_hold = {
    .name = "rlock", .open = open_clients, .start = start_holding, .op = look_on, .does = does};
