/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the renewal of a hold costs where many are renewed: allocations, bytes, commands. Counted,
 * on a core whose server is this test, so that no busy machine changes it.
 */
#include <utlist.h>

#include "support/alone.h"
#include "support/test.h"

enum { N = 2000, ROUNDS = 10 };

#define LEASE_US (30 * RLOCK__SECOND)
#define KEY "lock-0000"

static unsigned allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    allocations++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    allocations++;
    return __real_realloc(old, size);
}

struct costs {
    struct rlock__core core;
    struct rlock__server server;
    struct rlock__buf sent;
    struct rlock__spec *specs[N];
    int64_t now;
    uint64_t gen;
    size_t bytes, commands, renewed;
};

/* Sends what is to be sent, and says yes to all of it. */
static void serve(struct costs *costs)
{
    struct rlock__pipeline *pipeline = &alone_link(&costs->core)->pipeline;
    struct rlock__value values[RLOCK__BATCH + 2];

    rlock__buf_clear(&costs->sent);
    rlock__pipeline_take(pipeline, &costs->sent);
    rlock__pipeline_wrote(pipeline, costs->sent.len);
    costs->bytes += costs->sent.len;
    while (pipeline->sent != NULL) {
        size_t parts = pipeline->sent->cmd.parts;
        struct rlock__reply reply = {
            .v = values, .n = parts + (parts != 0 ? 2 : 1), .is_array = true};

        for (size_t i = 0; i < reply.n; i++) {
            values[i] = (struct rlock__value){.type = RLOCK__REPLY_INT, .num = 1};
        }
        costs->commands++;
        costs->renewed += parts;
        rlock__core_reply(alone_link(&costs->core), costs->gen, &reply, costs->now);
    }
}

static void take_all(struct costs *costs)
{
    for (size_t i = 0; i < N; i++) {
        struct rlock__call call = {.kind = RLOCK__ACQUIRE, .owner = {.id = 1, .given = true}};
        char name[] = KEY;

        (void)snprintf(name, sizeof(name), "lock-%04zu", i);
        costs->specs[i] =
            rlock__spec_new(&costs->core, &rlock__reentrant_ops, rlock__bytes_of(name), NULL);
        call.spec = costs->specs[i];
        rlock__core_begin(&costs->core, &call, costs->now);
        serve(costs);
        assert_int_equal(call.code, 0);
        (void)rlock__view_unref(call.view);
        costs->core.done = NULL;
    }
}

static void renew_for(struct costs *costs, int64_t us)
{
    int64_t until = costs->now + us;

    while (rlock__core_next(&costs->core) <= until) {
        costs->now = rlock__max(costs->now, rlock__core_next(&costs->core));
        rlock__core_tick(&costs->core, costs->now);
        serve(costs);
    }
}

TEST(a_renewal_among_many_costs_few_allocations_bytes_and_commands)
{
    static struct costs costs = {.now = 1000 * RLOCK__SECOND};

    costs.core.opts.op_timeout_us = RLOCK__SECOND;
    costs.core.opts.renewed_lease_us = LEASE_US;
    costs.core.driver.unref = alone_unref;
    alone_init(&costs.core, &costs.server, "here");
    (void)snprintf(costs.core.opts.uuid, sizeof(costs.core.opts.uuid), "%s",
                   "01234567-89ab-8def-8123-456789abcdef");
    costs.gen = rlock__core_link_up(alone_link(&costs.core), 1, true, costs.now);
    take_all(&costs);
    renew_for(&costs, LEASE_US); /* they have found each other by then */
    allocations = 0;
    costs.bytes = costs.commands = costs.renewed = 0;
    renew_for(&costs, ROUNDS * LEASE_US / 3);
    print_message("a renewal: %.2f allocations, %.1f bytes, %.3f commands\n",
                  (double)allocations / (double)costs.renewed,
                  (double)costs.bytes / (double)costs.renewed,
                  (double)costs.commands / (double)costs.renewed);
    assert_in_range(costs.renewed, ROUNDS * N * 9 / 10, ROUNDS * N * 11 / 10);
    assert_in_range(costs.commands, 1, costs.renewed / 45);
    assert_in_range(costs.bytes, 1, costs.renewed * 80);
    assert_in_range(allocations, 0, costs.renewed * 3 / 10);
    rlock__core_abandon(&costs.core);
    rlock__core_fini(&costs.core);
    for (size_t i = 0; i < N; i++) {
        (void)rlock__spec_unref(costs.specs[i]);
    }
    rlock__buf_fini(&costs.sent);
}
