/* SPDX-License-Identifier: Apache-2.0 */
/* What holds that a step of the server's clock ended are told: each of them the same, whatever
 * their kind, and in whatever batch they are renewed. What holds are told that ended by
 * themselves. And when a server started whose clock is set. */
#include <utlist.h>

#include "rw/rw.h"
#include "support/alone.h"
#include "support/test.h"

enum { PLAIN = 150, SIDED = 2, HOLDS = PLAIN + 2 * SIDED }; /* more than one batch */

#define LEASE_US (3 * RLOCK__SECOND)
#define STEP_US (100 * RLOCK__SECOND)

struct scene {
    struct rlock__core core;
    struct rlock__server server;
    struct rlock__spec *specs[HOLDS];
    struct rlock__call calls[HOLDS];
    size_t n;
    int64_t now, step; /* the server's clock is so far ahead */
};

/* Answers what is sent until nothing more is: this to each hold that it is about; below 0 it is
 * gone, and nobody has the lock. */
static void answer(struct scene *scene, int64_t status)
{
    struct rlock__pipeline *pipeline = &alone_link(&scene->core)->pipeline;

    while (pipeline->sent != NULL) {
        struct rlock__value values[RLOCK__BATCH + 2] = {{.type = RLOCK__REPLY_INT, .num = status},
                                                        {.type = RLOCK__REPLY_INT}};
        struct rlock__reply reply = {.v = values, .n = status < 0 ? 2 : 1, .is_array = true};
        int64_t clock = scene->now + scene->step;

        alone_carry(pipeline);
        if (pipeline->sent->cmd.parts != 0) {
            reply.n = pipeline->sent->cmd.parts + 2;
            for (size_t i = 2; i < reply.n; i++) {
                values[i] = values[0];
            }
            values[0].num = clock / RLOCK__SECOND;
            values[1] =
                (struct rlock__value){.type = RLOCK__REPLY_INT, .num = clock % RLOCK__SECOND};
        }
        rlock__core_reply(alone_link(&scene->core), pipeline->gen, &reply, scene->now);
    }
}

static void take(struct scene *scene, const struct rlock_ops *kind)
{
    size_t i = scene->n++;
    char name[16];

    (void)snprintf(name, sizeof(name), "n%zu", i);
    scene->specs[i] = rlock__spec_new(&scene->core, kind, rlock__bytes_of(name), NULL);
    scene->calls[i] = (struct rlock__call){
        .kind = RLOCK__ACQUIRE, .spec = scene->specs[i], .owner = {.id = 1, .given = true}};
    rlock__core_begin(&scene->core, &scene->calls[i], scene->now);
    answer(scene, 1);
    assert_int_equal(scene->calls[i].code, 0);
    (void)rlock__view_unref(scene->calls[i].view);
}

/* Goes on to when the next renewals go out. */
static void wait_for_renewals(struct scene *scene)
{
    for (int i = 0; alone_link(&scene->core)->pipeline.sent == NULL; i++) {
        assert_true(i < 100);
        scene->now = rlock__max(scene->now, rlock__core_next(&scene->core));
        rlock__core_tick(&scene->core, scene->now);
    }
}

/* Each of them is renewed at least once, in several batches, and answered with this. */
static void renew_all(struct scene *scene, int64_t status)
{
    int64_t end = scene->now + LEASE_US / 2;

    while (rlock__core_next(&scene->core) <= end) {
        scene->now = rlock__max(scene->now, rlock__core_next(&scene->core));
        rlock__core_tick(&scene->core, scene->now);
        answer(scene, status);
    }
}

static void open(struct scene *scene)
{
    *scene = (struct scene){.now = 1000 * RLOCK__SECOND, .step = 7 * RLOCK__SECOND};
    scene->core.opts.renewed_lease_us = LEASE_US;
    scene->core.opts.op_timeout_us = RLOCK__SECOND;
    scene->core.driver.unref = alone_unref;
    scene->core.opts.log_level = RLOCK_LOG_ERROR;
    alone_init(&scene->core, &scene->server, "simulated");
    rlock__core_link_up(alone_link(&scene->core), 1, true, scene->now);
    for (size_t i = 0; i < PLAIN; i++) {
        take(scene, &rlock__reentrant_ops);
    }
    for (size_t i = 0; i < SIDED; i++) {
        take(scene, &rlock__read_ops);
        take(scene, &rlock__write_ops);
    }
}

/* Fails unless that many were lost, each for this reason; forgets them. */
static void assert_lost(struct scene *scene, size_t n, enum rlock_reason reason)
{
    struct rlock__loss *loss, *after;

    LL_FOREACH_SAFE(scene->core.lost, loss, after) {
        assert_int_equal(loss->reason, reason);
        (void)rlock__loss_free(loss);
        n--;
    }
    scene->core.lost = NULL;
    assert_int_equal(n, 0);
}

static void shut(struct scene *scene)
{
    rlock__core_abandon(&scene->core);
    rlock__core_fini(&scene->core);
    for (size_t i = 0; i < scene->n; i++) {
        (void)rlock__spec_unref(scene->specs[i]);
    }
}

TEST(all_that_a_step_of_the_servers_clock_ended_say_so)
{
    static struct scene scene;

    open(&scene);
    renew_all(&scene, 1);
    scene.step += STEP_US;
    renew_all(&scene, 0);
    assert_lost(&scene, HOLDS, RLOCK_LOST_CLOCK_STEPPED);
    shut(&scene);
}

TEST(what_goes_without_a_step_or_was_taken_after_it_is_deleted)
{
    static struct scene scene;

    open(&scene);
    renew_all(&scene, 1);
    scene.step += STEP_US;
    while (scene.core.servers->stepped_at == 0) {
        wait_for_renewals(&scene);
        answer(&scene, 1); /* they outlived it */
    }
    while (scene.now < scene.core.servers->stepped_at + LEASE_US) {
        wait_for_renewals(&scene);
        answer(&scene, 1);
    }
    assert_null(scene.core.lost);
    renew_all(&scene, 0);
    assert_lost(&scene, HOLDS, RLOCK_LOST_DELETED);
    shut(&scene);
}

/* Has the owner of the first lock begin this, and answers after that time that the hold is gone. */
static int find_gone(struct scene *scene, enum rlock__call_kind kind, int64_t after_us)
{
    struct rlock__call call = {
        .kind = kind, .spec = scene->specs[0], .owner = scene->calls[0].owner};

    rlock__core_begin(&scene->core, &call, scene->now);
    scene->now += after_us;
    answer(scene, -1);
    return call.code;
}

/* Its end lay between the question and the answer: nobody deleted it. */
TEST(what_is_found_gone_after_its_end_has_expired)
{
    static struct scene scene;

    for (int nested = 0; nested < 2; nested++) {
        open(&scene);
        assert_int_equal(find_gone(&scene, nested ? RLOCK__ACQUIRE : RLOCK__RELEASE, LEASE_US),
                         RLOCK_ELOST);
        assert_lost(&scene, 1, RLOCK_LOST_EXPIRED);
        shut(&scene);
        open(&scene);
        assert_int_equal(find_gone(&scene, nested ? RLOCK__ACQUIRE : RLOCK__RELEASE, LEASE_US / 2),
                         RLOCK_ELOST);
        assert_lost(&scene, 1, RLOCK_LOST_DELETED);
        shut(&scene);
    }
}

/* A run of the server was first seen when it told 10 s; whatever it tells later, it has started no
 * sooner than that, and no later than when it was seen. */
TEST(of_one_run_the_latest_start_counts_that_it_told)
{
    static struct scene scene;
    struct rlock__core *core = &scene.core;
    const int64_t seen = 1000 * RLOCK__SECOND, told = seen - 9 * RLOCK__SECOND;

    open(&scene);
    rlock__core_found(core->servers, "a", 10, seen);
    assert_int_equal(core->servers->started_at, told);
    rlock__core_found(core->servers, "a", 100000,
                      seen + RLOCK__SECOND); /* its clock was set forward */
    assert_int_equal(core->servers->started_at, told);
    rlock__core_found(core->servers, "a", 5, seen + RLOCK__SECOND);
    assert_int_equal(core->servers->started_at, seen - 3 * RLOCK__SECOND);
    rlock__core_found(core->servers, "a", -50, seen + RLOCK__SECOND); /* and far back */
    assert_int_equal(core->servers->started_at, seen);
    rlock__core_found(core->servers, "b", 100000, seen + 2 * RLOCK__SECOND); /* another run */
    assert_int_equal(core->servers->started_at, seen + 2 * RLOCK__SECOND);
    shut(&scene);
}

/* A broken server reports numbers whose sums would overflow. */
TEST(absurd_numbers_of_a_server_are_limited)
{
    static struct scene scene;
    struct rlock__server *server;
    const int64_t seen = 1000 * RLOCK__SECOND;

    open(&scene);
    server = scene.core.servers;
    rlock__core_found(server, "a", INT64_MAX, seen);
    assert_true(server->started_at < seen && server->started_at > -RLOCK__NEVER / 2);
    rlock__core_found(server, "a", INT64_MIN + 1, seen);
    rlock__server_told_time(server, INT64_MAX, INT64_MAX, seen, seen);
    assert_true(server->clock_offset > 0 && server->clock_offset < RLOCK__NEVER / 2);
    rlock__server_told_time(server, INT64_MIN, INT64_MIN, seen, seen);
    assert_int_equal(server->clock_offset, -seen);
    shut(&scene);
}
