/* SPDX-License-Identifier: Apache-2.0 */
/* What a renewal writes. A WAIT behind it counts the replicas that have what it wrote. And what a
 * late copy of an adoption, or a level that is given up late, leaves of a lease. */
#include <lua_scripts.h>

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

/* The adopter's connection broke, and its hold was renewed since. */
TEST(a_late_copy_of_an_adoption_does_not_make_the_lease_shorter)
{
    const struct stage_events events = {on_lost, on_done, nothing, nothing, NULL};
    const char *const copy[] = {"EVAL",    rlock__script_plain_rename.body,
                                "1",       STAGE_KEY,
                                "text:1",  "adopter:1",
                                "10000",   "PUBLISH",
                                "channel", "0",
                                NULL};
    struct sim_key_info key;
    struct stage stage;

    stage_open(&stage, &rlock__reentrant_ops, LEASE, &events);
    stage_type(&stage, (const char *const[]){"HSET", STAGE_KEY, "adopter:1", "1", NULL});
    stage_type(&stage, (const char *const[]){"PEXPIRE", STAGE_KEY, "30000", NULL});
    stage_type(&stage, copy);
    assert_true(sim_server_find_key(stage.server, SIM_VIEW(STAGE_KEY), &key));
    assert_true(key.pttl_ms > 29000);
    stage_close(&stage);
}

/* PTTL is 0 then, and PEXPIRE with 0 would delete the key: the next write would make one that never
 * ends. */
TEST(a_level_that_is_given_up_in_the_last_millisecond_of_a_lease_leaves_no_lock_for_ever)
{
    const struct stage_events events = {on_lost, on_done, nothing, nothing, NULL};
    const char *const release[] = {
        "EVAL", rlock__script_plain_release.body, "1", STAGE_KEY, "a:1", "1", "0", "PUBLISH", "c",
        NULL};
    struct sim_key_info key;
    struct stage stage;

    stage_open(&stage, &rlock__reentrant_ops, LEASE, &events);
    stage_type(&stage, (const char *const[]){"HSET", STAGE_KEY, "a:1", "2", NULL});
    stage_type(&stage, (const char *const[]){"PEXPIRE", STAGE_KEY, "1", NULL});
    stage_wait(&stage, stage.now + RLOCK__MS);
    assert_true(sim_server_find_key(stage.server, SIM_VIEW(STAGE_KEY), &key));
    assert_int_equal(key.pttl_ms, 0);
    stage_type(&stage, release);
    assert_true(sim_server_find_key(stage.server, SIM_VIEW(STAGE_KEY), &key));
    assert_true(key.pttl_ms >= 0 && key.pttl_ms <= 1);
    stage_close(&stage);
}
