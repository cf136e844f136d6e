/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of requests in flight: what goes out, what comes back to whom, and what a
 * break leaves. */
#include "support/test.h"
#include "wire/pipeline.h"

static const struct rlock__script script = {.name = "test/script",
                                            .body = "return 1",
                                            .size = 8,
                                            .sha1 = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
                                            .shapes = "i"};

/* What became of a request. */
struct fate {
    int answers;
    bool had_reply;
    int64_t number; /* of the reply; -1 an error */
    unsigned copies;
    uint64_t gen, lost_gen;
    int64_t t0;
};

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct fate *fate = request->subject;

    (void)now;
    fate->answers++;
    fate->had_reply = reply != NULL;
    if (reply != NULL) {
        fate->number = rlock__reply_is_error(reply) ? -1 : rlock__reply_int(reply, 0, -2);
    }
    fate->copies = request->copies;
    fate->gen = request->gen;
    fate->lost_gen = request->lost_gen;
    fate->t0 = request->t0;
    (void)rlock__request_free(request);
}

static struct rlock__request *request_new(struct fate *fate, enum rlock__resend resend,
                                          const char *word)
{
    struct rlock__request *request = calloc(1, sizeof(*request));

    assert_non_null(request);
    *fate = (struct fate){.answers = 0};
    request->answer = on_answer;
    request->subject = fate;
    request->resend = resend;
    rlock__cmd_arg(&request->cmd, rlock__bytes_of(word));
    return request;
}

static struct rlock__request *script_new(struct fate *fate, enum rlock__resend resend)
{
    struct rlock__request *request = request_new(fate, resend, "arg");

    request->cmd.script = &script;
    rlock__cmd_key(&request->cmd, rlock__bytes_of("key"));
    return request;
}

/* All that is to be sent goes out. */
static void go_out(struct rlock__pipeline *pipeline)
{
    struct rlock__buf out = {0};

    rlock__pipeline_take(pipeline, &out);
    rlock__pipeline_wrote(pipeline, out.len);
    rlock__buf_fini(&out);
}

/* The answer to what went out before. */
static void reply_number(struct rlock__pipeline *pipeline, uint64_t gen, int64_t number,
                         int64_t now)
{
    const struct rlock__value value = {.type = RLOCK__REPLY_INT, .num = number};
    const struct rlock__reply reply = {.v = &value, .n = 1, .is_array = true};

    go_out(pipeline);
    rlock__pipeline_reply(pipeline, gen, &reply, now);
}

static void reply_error(struct rlock__pipeline *pipeline, uint64_t gen, const char *text,
                        int64_t now)
{
    const struct rlock__value value = {
        .type = RLOCK__REPLY_ERROR, .str = text, .len = strlen(text)};
    const struct rlock__reply reply = {.v = &value, .n = 1};

    go_out(pipeline);
    rlock__pipeline_reply(pipeline, gen, &reply, now);
}

/* What is to be sent is exactly this; it is sent. */
static void sends(struct rlock__pipeline *pipeline, const char *expected)
{
    assert_int_equal(pipeline->out.len, strlen(expected));
    assert_memory_equal(pipeline->out.data, expected, strlen(expected));
    go_out(pipeline);
}

static struct rlock__pipeline pipeline_new(void)
{
    return (struct rlock__pipeline){.op_timeout = 1000};
}

TEST(a_request_waits_for_the_link)
{
    struct rlock__pipeline pipeline = pipeline_new();
    struct fate a, b;

    rlock__pipeline_submit(&pipeline, request_new(&a, RLOCK__RESEND, "A"), 5);
    rlock__pipeline_submit(&pipeline, request_new(&b, RLOCK__ONCE, "B"), 6);
    assert_int_equal(pipeline.out.len, 0);
    assert_true(rlock__pipeline_overdue_at(&pipeline) == RLOCK__NEVER);
    rlock__pipeline_up(&pipeline, 1, true, 10);
    sends(&pipeline, "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n");
    reply_number(&pipeline, 1, 11, 20);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.number, 11);
    assert_int_equal(a.t0, 10);
    assert_int_equal(b.answers, 0);
    reply_number(&pipeline, 1, 22, 21);
    assert_int_equal(b.number, 22);
    assert_int_equal(b.copies, 1);
    rlock__pipeline_fini(&pipeline);
}

/* The reply may have lain in the socket, while another server took the place of this one. */
TEST(a_server_lived_when_the_command_was_sent_that_it_has_answered)
{
    struct rlock__pipeline pipeline = pipeline_new();
    struct fate a;

    pipeline.failover_us = 100;
    rlock__pipeline_up(&pipeline, 1, true, 10);
    rlock__pipeline_submit(&pipeline, request_new(&a, RLOCK__RESEND, "A"), 20);
    reply_number(&pipeline, 1, 11, 60);
    assert_int_equal(pipeline.alive_at, 20);
    rlock__pipeline_fini(&pipeline);
}

TEST(a_script_goes_by_its_digest_and_whole_when_unknown)
{
    struct rlock__pipeline pipeline = pipeline_new();
    struct fate a, b;

    rlock__pipeline_up(&pipeline, 1, true, 0);
    rlock__pipeline_submit(&pipeline, script_new(&a, RLOCK__RESEND), 1);
    sends(&pipeline, "*5\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n"
                     "$1\r\n1\r\n$3\r\nkey\r\n$3\r\narg\r\n");
    rlock__pipeline_submit(&pipeline, request_new(&b, RLOCK__RESEND, "B"), 2);
    sends(&pipeline, "*1\r\n$1\r\nB\r\n");
    reply_error(&pipeline, 1, "NOSCRIPT No matching script.", 3);
    assert_int_equal(a.answers, 0);
    sends(&pipeline, "*5\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$3\r\nkey\r\n$3\r\narg\r\n");
    reply_number(&pipeline, 1, 2, 4); /* B was before it */
    assert_int_equal(b.number, 2);
    reply_number(&pipeline, 1, 1, 5);
    assert_int_equal(a.number, 1);
    assert_int_equal(a.copies, 1); /* only one can have run */
    assert_int_equal(a.t0, 3);     /* the one whose reply this is */
    rlock__pipeline_fini(&pipeline);
}

static void reply_ok(struct rlock__pipeline *pipeline, uint64_t gen, int64_t now)
{
    const struct rlock__value value = {.type = RLOCK__REPLY_STATUS, .str = "OK", .len = 2};
    const struct rlock__reply reply = {.v = &value, .n = 1};

    rlock__pipeline_reply(pipeline, gen, &reply, now);
}

#define ASKING "*1\r\n$6\r\nASKING\r\n"

/* ASKING is used up by whatever comes next, also by a script that the server does not know. */
TEST(asking_stands_right_before_each_copy)
{
    struct rlock__pipeline pipeline = pipeline_new();
    struct rlock__request *request;
    struct fate a, b;

    request = script_new(&a, RLOCK__ONCE);
    request->asking = true;
    rlock__pipeline_up(&pipeline, 1, true, 0);
    rlock__pipeline_submit(&pipeline, request, 1);
    rlock__pipeline_submit(&pipeline, request_new(&b, RLOCK__RESEND, "B"), 1);
    sends(&pipeline,
          ASKING "*5\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n"
                 "$1\r\n1\r\n$3\r\nkey\r\n$3\r\narg\r\n*1\r\n$1\r\nB\r\n");
    reply_ok(&pipeline, 1, 2);
    assert_int_equal(a.answers, 0);
    reply_error(&pipeline, 1, "NOSCRIPT No matching script.", 3);
    sends(&pipeline, ASKING "*5\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$3\r\nkey\r\n"
                            "$3\r\narg\r\n");
    reply_number(&pipeline, 1, 2, 4);
    assert_int_equal(b.number, 2);
    reply_ok(&pipeline, 1, 5);
    reply_number(&pipeline, 1, 1, 6);
    assert_int_equal(a.number, 1);
    assert_int_equal(a.copies, 1);
    rlock__pipeline_fini(&pipeline);
}

TEST(asking_may_be_answered_before_the_rest_went_out)
{
    struct rlock__pipeline pipeline = pipeline_new();
    struct rlock__request *request;
    struct rlock__buf out = {0};
    struct fate a;

    request = request_new(&a, RLOCK__ONCE, "A");
    request->asking = true;
    rlock__pipeline_up(&pipeline, 1, true, 0);
    rlock__pipeline_submit(&pipeline, request, 1);
    rlock__pipeline_take(&pipeline, &out);
    rlock__pipeline_wrote(&pipeline, strlen(ASKING) - 1);
    assert_true(rlock__pipeline_is_quiet(&pipeline));
    rlock__pipeline_wrote(&pipeline, 1);
    reply_ok(&pipeline, 1, 2);
    assert_true(pipeline.up);
    assert_true(rlock__pipeline_is_quiet(&pipeline));
    rlock__pipeline_wrote(&pipeline, out.len - strlen(ASKING));
    reply_number(&pipeline, 1, 7, 3);
    assert_int_equal(a.number, 7);
    rlock__buf_fini(&out);
    rlock__pipeline_fini(&pipeline);
}

/* A server that is none of a cluster refuses ASKING. What it says next answers the command. */
TEST(asking_may_be_refused)
{
    struct rlock__pipeline pipeline = pipeline_new();
    struct rlock__request *request;
    struct fate a;

    request = request_new(&a, RLOCK__ONCE, "A");
    request->asking = true;
    rlock__pipeline_up(&pipeline, 1, true, 0);
    rlock__pipeline_submit(&pipeline, request, 1);
    reply_error(&pipeline, 1, "ERR This instance has cluster support disabled", 2);
    assert_int_equal(a.answers, 0);
    reply_number(&pipeline, 1, 7, 3);
    assert_int_equal(a.number, 7);
    rlock__pipeline_fini(&pipeline);
}

TEST(an_unknown_script_that_nobody_wants_is_not_sent_again)
{
    struct rlock__pipeline pipeline = pipeline_new();
    struct fate a, once;
    struct rlock__request *request = script_new(&a, RLOCK__RESEND);

    rlock__pipeline_up(&pipeline, 1, true, 0);
    rlock__pipeline_submit(&pipeline, request, 1);
    rlock__pipeline_submit(&pipeline, script_new(&once, RLOCK__ONCE), 1);
    go_out(&pipeline);
    request->resend = RLOCK__DROP;
    reply_error(&pipeline, 1, "NOSCRIPT No matching script.", 2);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.number, -1);
    assert_int_equal(pipeline.out.len, 0);
    reply_error(&pipeline, 1, "NOSCRIPT No matching script.", 2); /* that did certainly not run */
    assert_int_equal(once.answers, 0);
    assert_true(pipeline.out.len > 0);
    reply_number(&pipeline, 1, 1, 3);
    assert_int_equal(once.number, 1);
    rlock__pipeline_fini(&pipeline);
}

TEST(a_break_resends_what_is_wanted_and_ends_the_rest)
{
    struct rlock__pipeline pipeline = pipeline_new();
    struct fate again, once, dropped, late;
    struct rlock__request *request = request_new(&dropped, RLOCK__RESEND, "D");

    rlock__pipeline_up(&pipeline, 3, false, 0);
    rlock__pipeline_submit(&pipeline, request_new(&once, RLOCK__ONCE, "O"), 1);
    rlock__pipeline_submit(&pipeline, request_new(&again, RLOCK__RESEND, "A"), 1);
    rlock__pipeline_submit(&pipeline, request, 1);
    request->resend = RLOCK__DROP;
    go_out(&pipeline);
    rlock__pipeline_down(&pipeline, 3, 5);
    assert_int_equal(once.answers, 1);
    assert_false(once.had_reply);
    assert_int_equal(once.lost_gen, 3);
    assert_int_equal(dropped.answers, 1);
    assert_false(dropped.had_reply);
    assert_int_equal(again.answers, 0);
    rlock__pipeline_submit(&pipeline, request_new(&late, RLOCK__RESEND, "L"), 6);
    assert_int_equal(pipeline.out.len, 0);
    rlock__pipeline_up(&pipeline, 4, true, 7);
    sends(&pipeline, "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nL\r\n"); /* in their order */
    reply_number(&pipeline, 4, 1, 9);
    assert_int_equal(again.copies, 2);
    assert_int_equal(again.gen, 4);
    assert_int_equal(again.lost_gen, 3);
    assert_int_equal(again.t0, 7);
    assert_true(rlock__fence_has(&pipeline.fence, again.lost_gen));
    assert_false(rlock__fence_has(&pipeline.fence, 4));
    reply_number(&pipeline, 4, 2, 9);
    assert_int_equal(late.copies, 1);
    assert_int_equal(late.lost_gen, 0);
    rlock__pipeline_fini(&pipeline);
}

TEST(an_abandoned_request_is_read_in_its_place)
{
    struct rlock__pipeline pipeline = pipeline_new();
    struct fate a, b;
    struct rlock__request *request = request_new(&a, RLOCK__RESEND, "A");

    rlock__pipeline_up(&pipeline, 1, true, 0);
    rlock__pipeline_submit(&pipeline, request, 1);
    rlock__pipeline_submit(&pipeline, request_new(&b, RLOCK__RESEND, "B"), 1);
    request->resend = RLOCK__DROP;
    reply_number(&pipeline, 1, 7, 2);
    assert_int_equal(a.number, 7);
    assert_int_equal(b.answers, 0);
    reply_number(&pipeline, 1, 8, 2);
    assert_int_equal(b.number, 8);
    rlock__pipeline_fini(&pipeline);
}

TEST(a_late_reply_answers_nobody)
{
    struct rlock__pipeline pipeline = pipeline_new();
    struct fate a;

    rlock__pipeline_up(&pipeline, 1, true, 0);
    rlock__pipeline_submit(&pipeline, request_new(&a, RLOCK__RESEND, "A"), 1);
    go_out(&pipeline);
    rlock__pipeline_down(&pipeline, 1, 2);
    reply_number(&pipeline, 1, 66, 3); /* it is down */
    rlock__pipeline_up(&pipeline, 2, true, 4);
    reply_number(&pipeline, 1, 66, 5); /* of an earlier link */
    rlock__pipeline_down(&pipeline, 1, 5);
    assert_int_equal(a.answers, 0);
    assert_true(pipeline.up);
    reply_number(&pipeline, 2, 1, 6);
    assert_int_equal(a.number, 1);
    rlock__pipeline_fini(&pipeline);
}

TEST(a_reply_to_nothing_breaks_the_link)
{
    struct rlock__pipeline pipeline = pipeline_new();

    rlock__pipeline_up(&pipeline, 1, true, 0);
    assert_false(pipeline.close);
    reply_number(&pipeline, 1, 1, 1);
    assert_true(pipeline.close);
    rlock__pipeline_check(&pipeline, 1);
    assert_false(pipeline.up);
    assert_true(pipeline.close); /* for the driver, until another one is up */
    rlock__pipeline_up(&pipeline, 2, true, 2);
    assert_false(pipeline.close);
    rlock__pipeline_fini(&pipeline);
}

TEST(a_reply_to_what_has_not_gone_out_breaks_the_link)
{
    const struct rlock__value value = {.type = RLOCK__REPLY_INT, .num = 1};
    const struct rlock__reply reply = {.v = &value, .n = 1, .is_array = true};
    struct rlock__pipeline pipeline = pipeline_new();
    struct fate a, b;

    rlock__pipeline_up(&pipeline, 1, true, 0);
    rlock__pipeline_submit(&pipeline, request_new(&a, RLOCK__RESEND, "A"), 1);
    assert_true(
        rlock__pipeline_is_quiet(&pipeline)); /* so the link is looked at before it goes out */
    go_out(&pipeline);
    assert_false(rlock__pipeline_is_quiet(&pipeline));
    rlock__pipeline_submit(&pipeline, request_new(&b, RLOCK__ONCE, "B"), 2);
    rlock__pipeline_reply(&pipeline, 1, &reply, 3);
    assert_int_equal(a.answers, 1);
    rlock__pipeline_reply(&pipeline, 1, &reply, 3); /* A's, once more, before B is out */
    assert_false(pipeline.up);
    assert_true(pipeline.close && pipeline.lied);
    assert_int_equal(b.answers, 0); /* it cannot have run, and goes out on the next link */
    rlock__pipeline_up(&pipeline, 2, true, 4);
    assert_false(pipeline.lied);
    reply_number(&pipeline, 2, 7, 5);
    assert_int_equal(b.number, 7);
    assert_int_equal(b.copies, 1);
    assert_int_equal(b.lost_gen, 0);
    rlock__pipeline_fini(&pipeline);
}

/* A link with two requests out, of which the first is a script's. */
static void send_two(struct rlock__pipeline *pipeline, struct fate *script_fate, struct fate *other)
{
    rlock__pipeline_up(pipeline, 1, true, 0);
    rlock__pipeline_submit(pipeline, script_new(script_fate, RLOCK__RESEND), 1);
    rlock__pipeline_submit(pipeline, request_new(other, RLOCK__RESEND, "B"), 1);
    go_out(pipeline);
}

/* The first has no answer and is not sent again, the second is. */
static void only_the_second_is_resent(struct rlock__pipeline *pipeline, const struct fate *first,
                                      const struct fate *second)
{
    assert_true(pipeline->close && pipeline->lied);
    assert_int_equal(first->answers, 1);
    assert_false(first->had_reply);
    assert_int_equal(first->lost_gen, 1);
    assert_int_equal(first->copies, 1);
    assert_int_equal(second->answers, 0);
    rlock__pipeline_up(pipeline, 2, true, 4);
    sends(pipeline, "*1\r\n$1\r\nB\r\n");
    reply_number(pipeline, 2, 7, 5);
    assert_int_equal(second->copies, 2);
    rlock__pipeline_fini(pipeline);
}

TEST(a_reply_of_another_shape_is_none_and_its_request_is_not_resent)
{
    const struct rlock__value one = {.type = RLOCK__REPLY_INT, .num = 1};
    const struct rlock__value ok = {.type = RLOCK__REPLY_STATUS, .str = "OK", .len = 2};
    const struct rlock__value text = {.type = RLOCK__REPLY_STR, .str = "1", .len = 1};
    const struct rlock__value two[] = {one, one};
    const struct rlock__reply wrong[] = {
        {.v = &one, .n = 1},
        {.v = &ok, .n = 1},
        {.v = &ok, .n = 1, .is_array = true},
        {.v = &text, .n = 1, .is_array = true},
        {.v = two, .n = 2, .is_array = true},
        {.v = two, .n = 0, .is_array = true},
        {.v = &one, .n = 1, .is_array = true, .is_nested = true},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct rlock__pipeline pipeline = pipeline_new();
        struct fate a, b;

        send_two(&pipeline, &a, &b);
        rlock__pipeline_reply(&pipeline, 1, &wrong[i], 3);
        only_the_second_is_resent(&pipeline, &a, &b);
    }
}

TEST(what_is_no_reply_counts_for_the_one_that_is_awaited)
{
    struct rlock__pipeline pipeline = pipeline_new();
    struct fate a, b;

    send_two(&pipeline, &a, &b);
    rlock__pipeline_garbled(&pipeline, 7, 3); /* of another link */
    assert_true(pipeline.up);
    rlock__pipeline_garbled(&pipeline, 1, 3);
    only_the_second_is_resent(&pipeline, &a, &b);
}

TEST(an_overdue_reply_breaks_the_link)
{
    struct rlock__pipeline pipeline = pipeline_new();
    struct fate a, b;

    rlock__pipeline_up(&pipeline, 1, true, 0);
    rlock__pipeline_submit(&pipeline, request_new(&a, RLOCK__ONCE, "A"), 100);
    rlock__pipeline_submit(&pipeline, request_new(&b, RLOCK__RESEND, "B"), 500);
    assert_int_equal(rlock__pipeline_overdue_at(&pipeline), 1100); /* the oldest */
    rlock__pipeline_check(&pipeline, 1099);
    assert_true(pipeline.up);
    reply_number(&pipeline, 1, 1, 1099);
    assert_int_equal(rlock__pipeline_overdue_at(&pipeline), 1500);
    rlock__pipeline_check(&pipeline, 1500);
    assert_false(pipeline.up);
    assert_true(pipeline.close);
    assert_int_equal(b.answers, 0); /* it is sent again */
    assert_true(rlock__pipeline_overdue_at(&pipeline) == RLOCK__NEVER);
    rlock__pipeline_up(&pipeline, 2, true, 1600);
    reply_number(&pipeline, 2, 2, 1601);
    assert_int_equal(b.copies, 2);
    rlock__pipeline_fini(&pipeline);
}

TEST(a_withdrawn_request_has_no_answer)
{
    struct rlock__pipeline pipeline = pipeline_new();
    struct fate a, b;
    struct rlock__request *request = request_new(&a, RLOCK__RESEND, "A");

    rlock__pipeline_submit(&pipeline, request, 1);
    rlock__pipeline_submit(&pipeline, request_new(&b, RLOCK__RESEND, "B"), 1);
    assert_false(request->sent);
    rlock__pipeline_withdraw(&pipeline, request);
    assert_null(rlock__request_free(request));
    rlock__pipeline_up(&pipeline, 1, true, 2);
    sends(&pipeline, "*1\r\n$1\r\nB\r\n");
    assert_int_equal(a.answers, 0);
    rlock__pipeline_fini(&pipeline);
    assert_int_equal(b.answers, 1); /* the end answers what is left */
    assert_false(b.had_reply);
}

/* The reply to a command that is sent now comes after so long. */
static void round_trip(struct rlock__pipeline *pipeline, int64_t us)
{
    struct fate fate;

    rlock__pipeline_submit(pipeline, request_new(&fate, RLOCK__RESEND, "A"), 1000);
    reply_number(pipeline, 1, 1, 1000 + us);
}

TEST(the_usual_round_trip_rises_slowly_and_falls_at_once)
{
    struct rlock__pipeline pipeline = pipeline_new();

    rlock__pipeline_up(&pipeline, 1, true, 0);
    round_trip(&pipeline, 10 * RLOCK__SECOND);     /* the process was stopped */
    assert_int_equal(pipeline.rtt, RLOCK__SECOND); /* no more of the first */
    round_trip(&pipeline, 80);
    assert_int_equal(pipeline.rtt, 80);
    round_trip(&pipeline, 10 * RLOCK__SECOND);
    assert_int_equal(pipeline.rtt, 90);
    round_trip(&pipeline, 80);
    for (int i = 0; i < 100; i++) {
        round_trip(&pipeline, 800);
        assert_in_range(pipeline.rtt, 80, 800);
    }
    assert_in_range(pipeline.rtt, 790, 800);
    rlock__pipeline_fini(&pipeline);
}

/* ---- At random: each request has one answer, in the order of its sending ---- */

static uint64_t seed;

static uint64_t random_below(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % n;
}

/* Ends when all have their answer. */
static void random_step(struct rlock__pipeline *pipeline, struct fate *fates, size_t n,
                        size_t *made, int64_t now)
{
    static uint64_t gen;

    switch (random_below(8)) {
    case 0:
        rlock__pipeline_down(pipeline, pipeline->gen, now);
        break;
    case 1:
        if (!pipeline->up) {
            gen++;
            rlock__pipeline_up(pipeline, gen, true, now);
        }
        break;
    case 2:
    case 3:
    case 4:
        if (*made < n) {
            rlock__pipeline_submit(
                pipeline, script_new(&fates[*made], (enum rlock__resend)random_below(2)), now);
            ++*made;
        }
        break;
    case 5:
        if (pipeline->sent != NULL) {
            reply_error(pipeline, pipeline->gen, "NOSCRIPT", now);
        }
        break;
    default:
        if (pipeline->sent != NULL) {
            reply_number(pipeline, pipeline->gen, 1, now);
        }
    }
    rlock__pipeline_check(pipeline, now);
}

TEST(each_request_has_exactly_one_answer)
{
    enum { N = 500 };
    static struct fate fates[N];

    seed = 4711;
    for (int round = 0; round < 50; round++) {
        struct rlock__pipeline pipeline = pipeline_new();
        size_t made = 0;

        for (int64_t now = 0; now < 6000; now++) {
            random_step(&pipeline, fates, N, &made, now);
        }
        assert_int_equal(made, N);
        rlock__pipeline_fini(&pipeline);
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(fates[i].answers, 1);
        }
    }
}
