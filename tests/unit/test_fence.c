/* SPDX-License-Identifier: Apache-2.0 */
/* Which broken connections can run nothing more, if the server did not report the ids of some. */
#include "lock/server/in_flight.h"
#include "support/test.h"

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    uint64_t *lost_gen = request->subject;

    (void)reply;
    (void)now;
    *lost_gen = request->lost_gen;
    (void)rlock__request_free(request);
}

static void up(struct rlock__pipeline *pipeline, uint64_t gen, bool is_nameless)
{
    rlock__pipeline_up(pipeline, gen, true, 0);
    pipeline->is_nameless = is_nameless;
}

static void go_out(struct rlock__pipeline *pipeline)
{
    struct rlock__buf out = {0};

    rlock__pipeline_take(pipeline, &out);
    rlock__pipeline_wrote(pipeline, out.len);
    rlock__buf_fini(&out);
}

static void send(struct rlock__pipeline *pipeline, enum rlock__resend resend, uint64_t *ret_lost)
{
    struct rlock__request *request = calloc(1, sizeof(*request));

    assert_non_null(request);
    request->answer = on_answer;
    request->subject = ret_lost;
    request->resend = resend;
    rlock__cmd_arg(&request->cmd, rlock__bytes_of("PING"));
    assert_true(rlock__pipeline_submit(pipeline, request, 1));
    go_out(pipeline);
}

/* A connection comes up, carries a request, and breaks. */
static void break_with_a_copy(struct rlock__pipeline *pipeline, uint64_t gen, bool is_nameless)
{
    uint64_t lost = 0;

    up(pipeline, gen, is_nameless);
    send(pipeline, RLOCK__ONCE, &lost);
    rlock__pipeline_down(pipeline, gen, 2);
    assert_int_equal(lost, gen);
}

TEST(a_connection_without_an_id_is_never_fenced_and_the_next_ones_are)
{
    struct rlock__pipeline pipeline = {.op_timeout = RLOCK__SECOND};
    const struct rlock__fence *fence = &pipeline.fence;

    break_with_a_copy(&pipeline, 1, false);
    break_with_a_copy(&pipeline, 2, true);
    break_with_a_copy(&pipeline, 3, false);
    assert_true(rlock__fence_can(fence, 3));
    up(&pipeline, 4, false);
    assert_true(rlock__fence_has(fence, 1));
    assert_false(rlock__fence_has(fence, 2));
    assert_false(rlock__fence_can(fence, 2));
    assert_true(rlock__fence_has(fence, 3));
    rlock__pipeline_fini(&pipeline);
}

TEST(a_connection_without_an_id_that_carried_nothing_leaves_nothing_to_fence)
{
    struct rlock__pipeline pipeline = {.op_timeout = RLOCK__SECOND};

    up(&pipeline, 1, true);
    rlock__pipeline_down(&pipeline, 1, 2);
    up(&pipeline, 2, false);
    assert_true(rlock__fence_has(&pipeline.fence, 1));
    assert_int_equal(pipeline.fence.n, 0);
    rlock__pipeline_fini(&pipeline);
}

TEST(a_request_that_was_lost_once_on_a_connection_without_an_id_is_never_fenced)
{
    struct rlock__pipeline pipeline = {.op_timeout = RLOCK__SECOND};
    uint64_t lost = 0;

    up(&pipeline, 1, true);
    send(&pipeline, RLOCK__RESEND, &lost);
    rlock__pipeline_down(&pipeline, 1, 2);
    up(&pipeline, 2, false);
    go_out(&pipeline);
    rlock__pipeline_down(&pipeline, 2, 3);
    up(&pipeline, 3, false);
    rlock__pipeline_fini(&pipeline); /* it answers what is left */
    assert_int_equal(lost, 1);
}

TEST(a_copy_set_remembers_the_generation_that_is_fenced_last)
{
    static struct rlock__link link;
    struct rlock__in_flight copies = {.n = 0};

    link.pipeline.op_timeout = RLOCK__SECOND;
    break_with_a_copy(&link.pipeline, 1, true);
    rlock__in_flight_add_sent(&copies, &link, 1);
    break_with_a_copy(&link.pipeline, 2, false);
    rlock__in_flight_add_sent(&copies, &link, 2);
    assert_false(rlock__in_flight_may_be_fenced(&copies));
    up(&link.pipeline, 3, false);
    assert_true(rlock__in_flight_may_run(&copies));
    rlock__pipeline_fini(&link.pipeline);
}

TEST(a_copy_on_a_later_connection_is_fenced)
{
    static struct rlock__link link;
    struct rlock__in_flight copies = {.n = 0};

    link.pipeline.op_timeout = RLOCK__SECOND;
    break_with_a_copy(&link.pipeline, 1, true);
    break_with_a_copy(&link.pipeline, 2, false);
    rlock__in_flight_add_sent(&copies, &link, 2);
    assert_true(rlock__in_flight_may_be_fenced(&copies));
    up(&link.pipeline, 3, false);
    assert_false(rlock__in_flight_may_run(&copies));
    rlock__pipeline_fini(&link.pipeline);
}

TEST(a_replaced_server_runs_nothing_more_even_on_connections_without_an_id)
{
    struct rlock__pipeline pipeline = {.op_timeout = RLOCK__SECOND};
    uint64_t lost = 0;

    break_with_a_copy(&pipeline, 1, true);
    up(&pipeline, 2, true);
    send(&pipeline, RLOCK__ONCE, &lost);
    rlock__pipeline_replaced(&pipeline, 3);
    assert_int_equal(lost, 2);
    assert_true(rlock__fence_has(&pipeline.fence, 1));
    assert_true(rlock__fence_has(&pipeline.fence, 2));
    rlock__pipeline_fini(&pipeline);
}

TEST(beyond_so_many_connections_without_an_id_nothing_is_fenced_any_more)
{
    struct rlock__pipeline pipeline = {.op_timeout = RLOCK__SECOND};
    const struct rlock__fence *fence = &pipeline.fence;
    uint64_t gen = 1;

    break_with_a_copy(&pipeline, gen++, false);
    for (unsigned i = 0; i < RLOCK__NAMELESS_MAX; i++) {
        break_with_a_copy(&pipeline, gen++, true);
    }
    assert_false(fence->is_final);
    break_with_a_copy(&pipeline, gen, true);
    assert_true(fence->is_final);
    up(&pipeline, gen + 1, false);
    assert_true(rlock__fence_has(fence, 1)); /* what was fenced stays so */
    assert_false(rlock__fence_has(fence, gen));
    assert_false(rlock__fence_can(fence, gen));
    rlock__pipeline_fini(&pipeline);
}
