/* SPDX-License-Identifier: Apache-2.0 */
/* The floor of a cluster: each thread has a connection to each server, and knows beforehand which
 * server has which of its names. */
#include "floor.h"

#include "support/run.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <sys/resource.h>

struct direct {
    redisContext *server[BENCH_MAX_SERVERS];
    long n, next; /* names */
    struct {
        redisContext *context; /* to the server that has the name */
        struct bench_calls calls;
    } name[];
};

/* A connection of each thread to each server can take more descriptors than a shell allows. */
static void *allow_connections(const struct bench_run *run)
{
    struct rlimit limit = {0};

    (void)run;
    test_must(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
    limit.rlim_cur = limit.rlim_max;
    test_must(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
    return NULL;
}

static void start(struct bench_worker *worker)
{
    const struct bench_run *run = worker->run;
    const long n = run->one->locks;
    struct direct *direct = calloc(1, sizeof(*direct) + (size_t)n * sizeof(direct->name[0]));

    TEST_CHECK(direct != NULL);
    direct->n = n;
    for (int i = 0; i < run->n_servers; i++) {
        direct->server[i] = floor_connect(run->url[i]);
    }
    for (long i = 0; i < n; i++) {
        char name[16];

        bench_name_of(worker, i, name);
        direct->name[i].context = direct->server[bench_node_of(run, name)];
        bench_calls_copy(run->calls, "name0000", name, (unsigned)worker->index,
                         &direct->name[i].calls);
    }
    worker->state = direct;
}

static void pair(struct bench_worker *worker)
{
    struct direct *direct = worker->state;
    const long i = direct->next;
    const int64_t began = bench_now_ns();

    floor_take_and_give(direct->name[i].context, &direct->name[i].calls);
    bench_note(worker, bench_now_ns() - began);
    direct->next = (i + 1) % direct->n;
}

const struct bench_variant floor_direct = {
    .name = "direct", .open = allow_connections, .start = start, .op = pair};
