/* SPDX-License-Identifier: Apache-2.0 */
/* What a renewal writes. A WAIT behind it counts the replicas that have what it wrote. */
#include "plain/stage.h"
#include "support/test.h"

#define LEASE (30 * RLOCK__SECOND)

static void on_done(void *payload, struct rlock__call *call)
{
    (void)payload;
    call->view = rlock__view_unref(call->view);
}

static void on_lost(void *payload, size_t client, const struct rlock__loss *loss)
{
    (void)payload;
    (void)client;
    (void)loss;
    fail();
}

static void nothing(void *payload)
{
    (void)payload;
}

TEST(a_renewal_writes_a_lease_that_does_not_get_longer_too)
{
    const struct stage_events events = {on_lost, on_done, nothing, nothing, NULL};
    struct rlock__call call = {.kind = RLOCK__ACQUIRE, .owner = {.id = 1, .given = true}};
    struct stage stage;
    uint64_t before;

    stage_open(&stage, &rlock__reentrant_ops, LEASE, &events);
    stage_begin(&stage, 0, &call);
    assert_int_equal(call.code, 0);
    stage_type(&stage, (const char *const[]){"PEXPIRE", STAGE_KEY, "3600000", NULL});
    before = sim_server_n_writes(stage.server);
    stage_wait(&stage, stage.now + LEASE / 2); /* it was renewed once, after a third of its lease */
    assert_true(sim_server_n_writes(stage.server) > before);
    stage_close(&stage);
}
