/* SPDX-License-Identifier: Apache-2.0 */
/* How long an answer is waited for, by what the link's answers took so far; and who asks a server
 * that is silent. */
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

TEST(an_answer_has_all_the_time_before_the_first_one_came)
{
    const struct rlock__patience none = {0};

    assert_int_equal(rlock__patience_us(&none, RLOCK__SECOND), RLOCK__SECOND);
}

TEST(an_answer_has_some_round_trips_of_a_steady_link)
{
    struct rlock__patience far = {0}, near = {0};

    for (int i = 0; i < 100; i++) {
        rlock__patience_learn(&far, 100 * RLOCK__MS);
        rlock__patience_learn(&near, 100);
    }
    assert_true(rlock__patience_us(&far, RLOCK__SECOND) >= 300 * RLOCK__MS);
    assert_true(rlock__patience_us(&far, RLOCK__SECOND) <= 400 * RLOCK__MS);
    assert_int_equal(rlock__patience_us(&near, RLOCK__SECOND), RLOCK__PATIENCE_LEAST_US);
    assert_int_equal(rlock__patience_us(&far, 50 * RLOCK__MS), 50 * RLOCK__MS);
}

TEST(an_answer_has_more_time_on_a_link_that_is_unsteady)
{
    struct rlock__patience patience = {0};

    for (int i = 0; i < 100; i++) {
        rlock__patience_learn(&patience, (i % 2 == 0 ? 20 : 180) * RLOCK__MS);
    }
    assert_true(rlock__patience_us(&patience, 10 * RLOCK__SECOND) > RLOCK__SECOND);
}

/* ---- Calls behind another one of their client ---- */

struct scene {
    struct rlock__core core;
    struct rlock__server server;
    struct rlock__call first, second;
};

static size_t attempts_sent(const struct scene *s)
{
    size_t n = 0;

    for (const struct rlock__request *r = s->server.links[0].pipeline.sent; r != NULL;
         r = r->next) {
        n += strcmp(r->cmd.script->name, "plain/acquire") == 0;
    }
    return n;
}

/* The first call asks, and the second one waits behind it. */
static void begin(struct scene *s, int64_t wait_us)
{
    *s = (struct scene){.core = {.opts.op_timeout_us = 10 * RLOCK__SECOND,
                                 .opts.renewed_lease_us = 30 * RLOCK__SECOND,
                                 .driver.unref = alone_unref},
                        .first = {.kind = RLOCK__ACQUIRE, .owner = {.id = 1, .given = true}},
                        .second = {.kind = RLOCK__ACQUIRE, .owner = {.id = 2, .given = true}}};
    alone_init(&s->core, &s->server, "here");
    s->first.spec = s->second.spec =
        rlock__spec_new(&s->core, &rlock__reentrant_ops, rlock__bytes_of("a"), NULL);
    s->first.acquire.wait_us = -1;
    s->second.acquire.wait_us = wait_us;
    rlock__core_link_up(alone_link(&s->core), 1, false, NOW);
    alone_link(&s->core)->pipeline.patience.smoothed = RLOCK__MS;
    rlock__core_begin(&s->core, &s->first, NOW);
    rlock__core_begin(&s->core, &s->second, NOW);
    assert_int_equal(attempts_sent(s), 1);
    while (s->second.step == RLOCK__QUEUED && rlock__core_next(&s->core) < NOW + RLOCK__SECOND) {
        rlock__core_tick(&s->core, rlock__core_next(&s->core));
    }
}

static void end(struct scene *s)
{
    rlock__core_abandon(&s->core);
    s->core.done = NULL;
    rlock__core_fini(&s->core);
    (void)rlock__spec_unref(s->first.spec);
}

TEST(a_call_behind_others_asks_at_the_end_of_its_wait)
{
    struct scene s;

    begin(&s, 20 * RLOCK__MS);
    assert_int_equal(attempts_sent(&s), 2);
    assert_int_equal(s.second.step, RLOCK__ASKING);
    end(&s);
}

TEST(a_call_behind_others_asks_nothing_of_a_server_that_is_silent)
{
    struct scene s;

    begin(&s, 500 * RLOCK__MS);
    assert_int_equal(attempts_sent(&s), 1);
    assert_int_equal(s.second.code, RLOCK_ETIMEDOUT);
    end(&s);
}

TEST(a_canceled_call_waits_40_ms_for_the_answer_to_what_it_sent)
{
    static const int signal;
    struct scene s;

    begin(&s, 20 * RLOCK__SECOND);
    s.first.cancel = &signal;
    alone_carry(&alone_link(&s.core)->pipeline);
    rlock__core_cancel(&s.core, &signal, NOW);
    assert_int_equal(s.first.step, RLOCK__GIVING_UP);
    rlock__core_tick(&s.core, NOW + 39 * RLOCK__MS);
    assert_int_equal(s.first.step, RLOCK__GIVING_UP);
    rlock__core_tick(&s.core, NOW + 40 * RLOCK__MS);
    assert_int_equal(s.first.step, RLOCK__COMPLETE);
    assert_int_equal(s.first.code, RLOCK_ECANCELED);
    end(&s);
}
