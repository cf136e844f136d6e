/* SPDX-License-Identifier: Apache-2.0 */
/* As many acquisitions as there are names, preformatted, written one behind the other over one
 * connection; then the replies. The same for the releases. */
#include "floor.h"

#include "support/run.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

struct burst {
    redisContext *context;
    struct bench_calls *calls;
    long n;
};

static void start(struct bench_worker *worker)
{
    struct burst *burst = calloc(1, sizeof(*burst));

    TEST_CHECK(burst != NULL);
    burst->n = worker->run->one->locks;
    burst->calls = calloc((size_t)burst->n, sizeof(*burst->calls));
    TEST_CHECK(burst->calls != NULL);
    burst->context = floor_connect(worker->run->url[0]);
    for (long i = 0; i < burst->n; i++) {
        char name[16];

        bench_name_of(worker, i, name);
        bench_calls_copy(worker->run->calls, "name0000", name, (unsigned)i, &burst->calls[i]);
    }
    worker->state = burst;
}

static void go(struct burst *burst, size_t call)
{
    for (long i = 0; i < burst->n; i++) {
        floor_send(burst->context, &burst->calls[i], call);
    }
    for (long i = 0; i < burst->n; i++) {
        (void)floor_read(burst->context);
    }
}

static void take_and_leave_all(struct bench_worker *worker)
{
    struct burst *burst = worker->state;
    const int64_t began = bench_now_ns();

    go(burst, 0);
    bench_note(worker, bench_now_ns() - began);
    go(burst, 1);
}

const struct bench_variant floor_burst = {
    .name = "burst", .start = start, .op = take_and_leave_all};
