/* SPDX-License-Identifier: Apache-2.0 */
/* Which answers are late: those that may wait, since nobody awaits anything of the client. */
#include "lock/call/late.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

enum { MANY = RLOCK__LATE_MAX + 1 };

struct late_scene {
    struct alone_scene alone;
    atomic_bool awaited;
    struct rlock__call calls[MANY];
    size_t n;
};

static void begin(struct late_scene *s, const atomic_bool *awaited)
{
    struct rlock__call *call = &s->calls[s->n++];

    *call = alone_call(&s->alone, RLOCK__ACQUIRE);
    call->owner.id = s->n;
    call->awaited = awaited;
    call->member = true;
    rlock__core_begin(&s->alone.core, call, NOW);
}

static bool is_late(const struct late_scene *s)
{
    return rlock__link_is_late(alone_link(&s->alone.core));
}

static struct late_scene *scene_open(void)
{
    static struct late_scene s;

    s = (struct late_scene){.n = 0};
    alone_open(&s.alone, NOW);
    return &s;
}

static void scene_close(struct late_scene *s)
{
    rlock__core_close(&s->alone.core, NOW);
    rlock__core_fini(&s->alone.core);
    (void)rlock__spec_unref(s->alone.spec);
}

TEST(an_answer_is_late_while_nobody_awaits_its_group)
{
    struct late_scene *s = scene_open();

    begin(s, &s->awaited);
    assert_true(is_late(s));
    atomic_store(&s->awaited, true);
    assert_false(is_late(s));
    scene_close(s);
}

TEST(nothing_is_late_where_a_call_is_awaited)
{
    struct late_scene *s = scene_open();

    begin(s, &s->awaited);
    begin(s, NULL);
    assert_false(is_late(s));
    scene_close(s);
}

TEST(what_is_in_flight_of_no_call_is_not_late)
{
    struct late_scene *s = scene_open();
    struct rlock__request renewal = {.sent = true};
    struct rlock__pipeline *pipeline = &alone_link(&s->alone.core)->pipeline;

    begin(s, &s->awaited);
    pipeline->sent->next = &renewal;
    assert_false(is_late(s));
    pipeline->sent->next = NULL;
    assert_true(is_late(s));
    scene_close(s);
}

TEST(nothing_is_late_when_the_client_is_closed)
{
    struct late_scene *s = scene_open();

    begin(s, &s->awaited);
    s->alone.core.closed = true;
    assert_false(is_late(s));
    scene_close(s);
}

TEST(no_more_than_so_many_answers_are_late)
{
    struct late_scene *s = scene_open();

    while (s->n < RLOCK__LATE_MAX) {
        begin(s, &s->awaited);
    }
    assert_true(is_late(s));
    begin(s, &s->awaited);
    assert_false(is_late(s));
    scene_close(s);
}

/* A multi-lock may have a closed client give up a call: its other clients are closed later. */
TEST(what_was_not_answered_at_the_end_is_never_overdue)
{
    struct late_scene *s = scene_open();
    struct rlock__core *core = &s->alone.core;

    begin(s, &s->awaited);
    alone_carry(&alone_link(core)->pipeline);
    assert_int_not_equal(rlock__core_next(core), RLOCK__NEVER);
    rlock__core_close(core, NOW);
    rlock__core_fini(core);
    rlock__core_give_up(core, &s->calls[0], RLOCK_ECANCELED, NOW);
    assert_int_equal(rlock__core_next(core), RLOCK__NEVER);
    (void)rlock__spec_unref(s->alone.spec);
}
