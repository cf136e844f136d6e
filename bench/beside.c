/* SPDX-License-Identifier: Apache-2.0 */
/* What others feel of renewals: one process has holds that are renewed; in another one a thread
 * takes and gives back a lock. Only that is noted. */
#include "floor.h"
#include "lib.h"

static bool is_watched(const struct bench_worker *worker)
{
    return worker->index == worker->run->threads; /* the first of the second process */
}

/* Of the process that renews only so many threads as that variant has. */
static bool is_renewing(const struct bench_worker *worker, const struct bench_variant *renewing)
{
    return worker->run->process == 0 && renewing != NULL &&
           (renewing->threads == 0 || worker->index < renewing->threads);
}

static void start(struct bench_worker *worker, const struct bench_variant *renewing)
{
    worker->is_background = !is_watched(worker);
    if (is_watched(worker)) {
        floor_each.start(worker);
    } else if (is_renewing(worker, renewing)) {
        renewing->start(worker);
    }
}

static void work(struct bench_worker *worker, const struct bench_variant *renewing)
{
    if (is_watched(worker)) {
        floor_each.op(worker);
    } else if (is_renewing(worker, renewing)) {
        renewing->op(worker);
    } else {
        bench_wait_over();
    }
}

static void *open_rlock(const struct bench_run *run)
{
    return run->process == 0 ? lib_hold.open(run) : NULL;
}

static void start_rlock(struct bench_worker *worker)
{
    start(worker, &lib_hold);
}

static void beside_rlock(struct bench_worker *worker)
{
    work(worker, &lib_hold);
}

static void start_script(struct bench_worker *worker)
{
    start(worker, &floor_renew);
}

static void beside_script(struct bench_worker *worker)
{
    work(worker, &floor_renew);
}

static void start_nothing(struct bench_worker *worker)
{
    start(worker, NULL);
}

static void beside_nothing(struct bench_worker *worker)
{
    work(worker, NULL);
}

const struct bench_variant lib_beside = {
    .name = "rlock", .open = open_rlock, .start = start_rlock, .op = beside_rlock};
const struct bench_variant floor_beside = {
    .name = "script", .start = start_script, .op = beside_script};
const struct bench_variant floor_undisturbed = {
    .name = "nothing", .start = start_nothing, .op = beside_nothing};
