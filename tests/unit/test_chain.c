/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that stood still, and was replaced meanwhile, answers what lay in its sockets when it
 * goes on. So an answer counts only where the server cannot have been silent for long before it.
 */
#include "support/test.h"
#include "wire/pipeline.h"

enum { FAILOVER = 1000, OP_TIMEOUT = 10000, UP_AT = 5000, GEN = 1 };

struct fate {
    int answers;
    bool had_reply;
};

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct fate *fate = request->subject;

    (void)now;
    fate->answers++;
    fate->had_reply = reply != NULL;
    (void)rlock__request_free(request);
}

/* A link that is up; its server certainly lived at UP_AT. */
static struct rlock__pipeline pipeline_up(void)
{
    struct rlock__pipeline pipeline = {.op_timeout = OP_TIMEOUT, .failover_us = FAILOVER};

    pipeline.alive_at = UP_AT;
    rlock__pipeline_up(&pipeline, GEN, false, UP_AT);
    return pipeline;
}

static void ask(struct rlock__pipeline *pipeline, struct fate *fate, int64_t now)
{
    struct rlock__pool none = {.n = 0};
    struct rlock__request *request = rlock__request_new(&none, on_answer, fate);

    assert_non_null(request);
    request->pool = NULL;
    request->resend = RLOCK__ONCE;
    *fate = (struct fate){.answers = 0};
    rlock__cmd_arg(&request->cmd, rlock__bytes_of("PING"));
    assert_true(rlock__pipeline_submit(pipeline, request, now));
}

static void go_out(struct rlock__pipeline *pipeline)
{
    struct rlock__buf out = {0};

    rlock__pipeline_take(pipeline, &out);
    rlock__pipeline_wrote(pipeline, out.len);
    rlock__buf_fini(&out);
}

static void answer(struct rlock__pipeline *pipeline, int64_t now)
{
    const struct rlock__value value = {.type = RLOCK__REPLY_STATUS, .str = "PONG", .len = 4};
    const struct rlock__reply reply = {.v = &value, .n = 1};

    go_out(pipeline);
    rlock__pipeline_reply(pipeline, GEN, &reply, now);
}

static void assert_believed(struct fate *fate, bool believed)
{
    assert_int_equal(fate->answers, 1);
    assert_int_equal(fate->had_reply, believed);
}

TEST(an_answer_after_a_long_silence_is_not_believed)
{
    struct rlock__pipeline pipeline = pipeline_up();
    struct fate fate;

    ask(&pipeline, &fate, UP_AT + FAILOVER - 1); /* however short ago it was asked */
    answer(&pipeline, UP_AT + FAILOVER);
    assert_believed(&fate, false);
    assert_true(pipeline.close);
    assert_false(pipeline.up);
    rlock__pipeline_fini(&pipeline);
}

TEST(an_answer_before_that_is_believed)
{
    struct rlock__pipeline pipeline = pipeline_up();
    struct fate fate;

    ask(&pipeline, &fate, UP_AT + 10);
    answer(&pipeline, UP_AT + FAILOVER - 1);
    assert_believed(&fate, true);
    assert_true(pipeline.up);
    rlock__pipeline_fini(&pipeline);
}

TEST(a_server_lived_when_it_was_asked_what_it_answered)
{
    struct rlock__pipeline pipeline = pipeline_up();
    struct fate fates[2];

    ask(&pipeline, &fates[0], UP_AT + 100);
    answer(&pipeline, UP_AT + 900); /* it may have stood still since it read the question */
    ask(&pipeline, &fates[1], UP_AT + 901);
    answer(&pipeline, UP_AT + 100 + FAILOVER);
    assert_believed(&fates[0], true);
    assert_believed(&fates[1], false);
    rlock__pipeline_fini(&pipeline);
}

TEST(answers_in_time_keep_the_link)
{
    struct rlock__pipeline pipeline = pipeline_up();
    struct fate fate;

    for (int64_t now = UP_AT; now < UP_AT + 10 * FAILOVER; now += FAILOVER / 3) {
        ask(&pipeline, &fate, now);
        answer(&pipeline, now + 1);
        assert_believed(&fate, true);
    }
    rlock__pipeline_fini(&pipeline);
}

TEST(silence_breaks_the_link_before_the_answer_comes)
{
    struct rlock__pipeline pipeline = pipeline_up();
    struct fate fate;

    ask(&pipeline, &fate, UP_AT + 10);
    go_out(&pipeline);
    assert_int_equal(rlock__pipeline_overdue_at(&pipeline), UP_AT + FAILOVER);
    rlock__pipeline_check(&pipeline, UP_AT + FAILOVER - 1);
    assert_int_equal(fate.answers, 0);
    rlock__pipeline_check(&pipeline, UP_AT + FAILOVER);
    assert_believed(&fate, false);
    assert_true(pipeline.close);
    rlock__pipeline_fini(&pipeline);
}

TEST(what_was_sent_to_a_server_that_was_replaced_is_accounted_for)
{
    struct rlock__pipeline pipeline = pipeline_up();
    struct fate fate;

    ask(&pipeline, &fate, UP_AT + 10);
    go_out(&pipeline);
    rlock__pipeline_replaced(&pipeline, UP_AT + 20);
    assert_believed(&fate, false);
    assert_true(rlock__fence_has(&pipeline.fence, GEN));
    assert_true(pipeline.close);
    rlock__pipeline_fini(&pipeline);
}
