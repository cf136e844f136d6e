/* SPDX-License-Identifier: Apache-2.0 */
/* Releases that are tried again: until when, and what ends them. */
#include <string.h>

#include "rw/rw.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

static void reply_at(struct alone_scene *s, const struct rlock__value *value, int64_t now)
{
    const struct rlock__reply reply = {
        .v = value, .n = 1, .is_array = value->type != RLOCK__REPLY_ERROR};
    struct rlock__pipeline *pipeline = &alone_link(&s->core)->pipeline;

    alone_carry(pipeline);
    rlock__core_reply(alone_link(&s->core), pipeline->gen, &reply, now);
}

static void reply(struct alone_scene *s, const struct rlock__value *value)
{
    reply_at(s, value, NOW);
}

/* A hold whose last release the server has refused, and that was forced open since then. */
static void open_scene(struct alone_scene *s)
{
    static const char refusal[] = "WRONGTYPE Operation against a key";
    const struct rlock__value granted = {.type = RLOCK__REPLY_INT, .num = 1};
    const struct rlock__value refused = {
        .type = RLOCK__REPLY_ERROR, .str = refusal, .len = sizeof(refusal) - 1};
    struct rlock__call acquire, release;

    alone_open(s, NOW);
    acquire = alone_call(s, RLOCK__ACQUIRE);
    release = alone_call(s, RLOCK__RELEASE);
    rlock__core_begin(&s->core, &acquire, NOW);
    reply(s, &granted);
    assert_int_equal(acquire.code, 0);
    rlock__core_begin(&s->core, &release, NOW);
    reply(s, &refused);
    assert_int_equal(release.step, RLOCK__COMPLETE);
    assert_int_not_equal(release.code, 0);
    rlock__core_forced(&s->core, acquire.number, NOW);
    (void)rlock__view_unref(acquire.view);
    s->core.done = NULL; /* the calls are gone */
}

static void close_scene(struct alone_scene *s)
{
    assert_null(alone_link(&s->core)->pipeline.waiting);
    assert_null(alone_link(&s->core)->pipeline.sent);
    s->core.done = NULL;
    rlock__core_fini(&s->core);
    (void)rlock__spec_unref(s->spec);
}

TEST(who_unlocks_once_more_what_was_forced_open_is_told_that_it_is_lost)
{
    static struct alone_scene s;
    struct rlock__call again;

    open_scene(&s);
    again = alone_call(&s, RLOCK__RELEASE);
    rlock__core_begin(&s.core, &again, NOW);
    assert_int_equal(again.step, RLOCK__COMPLETE);
    assert_int_equal(again.code, RLOCK_ELOST);
    close_scene(&s);
}

TEST(a_release_that_goes_on_ends_when_its_hold_is_forced_open)
{
    static struct alone_scene s;

    open_scene(&s);
    while (rlock__core_next(&s.core) <= NOW + RLOCK__SECOND) {
        rlock__core_tick(&s.core, rlock__core_next(&s.core));
    }
    assert_null(s.core.rows.holds);
    close_scene(&s);
}

/* An answer that makes no sense says nothing: there is one more try, also where the lease has ended
 * and an earlier try was refused for a while. */
TEST(a_release_with_a_senseless_answer_is_tried_once_more)
{
    static struct alone_scene s;
    static const char refusal[] = "BUSY Redis is busy running a script.";
    const struct rlock__value granted = {.type = RLOCK__REPLY_INT, .num = 1};
    const struct rlock__value senseless = {.type = RLOCK__REPLY_INT, .num = 77};
    const struct rlock__value busy = {
        .type = RLOCK__REPLY_ERROR, .str = refusal, .len = sizeof(refusal) - 1};
    struct rlock__link *link;
    struct rlock__call acquire;

    alone_open(&s, NOW);
    link = alone_link(&s.core);
    acquire = alone_call(&s, RLOCK__ACQUIRE);
    rlock__core_begin(&s.core, &acquire, NOW);
    rlock__core_give_up(&s.core, &acquire, RLOCK_ECANCELED, NOW);
    reply(&s, &granted);
    reply(&s, &busy);
    assert_null(link->pipeline.sent);
    s.core.done = NULL;
    for (int tries = 1; tries <= 2; tries++) { /* the lease has ended */
        const int64_t now = NOW + 40 * tries * RLOCK__SECOND;

        rlock__core_tick(&s.core, now);
        if (link->pipeline.sent != NULL && link->pipeline.sent->cmd.script == NULL) {
            reply_at(&s, &granted, now); /* a sign of life that was asked for first */
        }
        assert_non_null(link->pipeline.sent);
        reply_at(&s, &senseless, now);
        assert_false(link->pipeline.up);
        (void)rlock__core_link_up(link, 1, false, now);
    }
    assert_null(s.core.recovery.tickets);
    close_scene(&s);
}

/* It goes on without its caller, who is told until when the lock may be taken. */
TEST(an_unlock_whose_slot_is_being_moved_until_its_deadline_is_in_doubt)
{
    static struct alone_scene s;
    static const char refusal[] = "TRYAGAIN Multiple keys request during rehashing of slot";
    const struct rlock__value granted = {.type = RLOCK__REPLY_INT, .num = 1};
    const struct rlock__value refused = {
        .type = RLOCK__REPLY_ERROR, .str = refusal, .len = sizeof(refusal) - 1};
    struct rlock__call acquire, release;
    struct rlock__texts texts = {.detail = ""};
    int64_t now = NOW;

    alone_open(&s, NOW);
    acquire = alone_call(&s, RLOCK__ACQUIRE);
    release = alone_call(&s, RLOCK__RELEASE);
    release.texts = &texts;
    rlock__core_begin(&s.core, &acquire, NOW);
    reply(&s, &granted);
    rlock__core_begin(&s.core, &release, NOW);
    while (release.step != RLOCK__COMPLETE) {
        if (alone_link(&s.core)->pipeline.waiting != NULL) {
            reply_at(&s, &refused, now);
        }
        now = rlock__core_next(&s.core);
        rlock__core_tick(&s.core, now);
    }
    assert_true(now <= NOW + RLOCK__SECOND);
    assert_int_equal(release.code, RLOCK_EINDOUBT);
    assert_non_null(strstr(texts.detail, "it is free in 29"));
    s.core.done = NULL;
    while (alone_link(&s.core)->pipeline.waiting == NULL) {
        rlock__core_tick(&s.core, rlock__core_next(&s.core));
    }
    assert_ptr_equal(alone_link(&s.core)->pipeline.waiting->subject, s.core.rows.holds);
    while (s.core.rows.holds != NULL && rlock__core_next(&s.core) < NOW + 40 * RLOCK__SECOND) {
        rlock__core_tick(&s.core, rlock__core_next(&s.core));
    }
    assert_null(s.core.rows.holds);
    (void)rlock__view_unref(acquire.view);
    close_scene(&s);
}

/* The level may be taken at the server after it was given up here: its command is on its way. */
TEST(an_unlock_in_doubt_counts_a_level_that_was_given_up_and_not_answered)
{
    static struct alone_scene s;
    const struct rlock__value granted = {.type = RLOCK__REPLY_INT, .num = 1};
    const int64_t lease_us = 100 * RLOCK__SECOND;
    struct rlock__call acquire, nested, release;
    int64_t now = NOW + RLOCK__SECOND / 2;

    alone_open(&s, NOW);
    acquire = alone_call(&s, RLOCK__ACQUIRE);
    nested = alone_call(&s, RLOCK__ACQUIRE);
    release = alone_call(&s, RLOCK__RELEASE);
    rlock__core_begin(&s.core, &acquire, NOW);
    reply(&s, &granted);
    nested.acquire.lease_us = lease_us;
    rlock__core_begin(&s.core, &nested, NOW);
    alone_carry(&alone_link(&s.core)->pipeline);
    rlock__core_give_up(&s.core, &nested, RLOCK_ECANCELED, NOW);
    rlock__core_tick(&s.core, now);
    assert_int_equal(nested.step, RLOCK__COMPLETE);
    rlock__core_begin(&s.core, &release, now);
    while (release.step != RLOCK__COMPLETE) {
        now = rlock__core_next(&s.core);
        rlock__core_tick(&s.core, now);
    }
    assert_int_equal(release.code, RLOCK_EINDOUBT);
    assert_true(s.core.rows.holds->grant->free_by >= now + lease_us);
    rlock__core_abandon(&s.core);
    (void)rlock__view_unref(acquire.view);
    s.core.done = NULL;
    rlock__core_fini(&s.core);
    (void)rlock__spec_unref(s.spec);
}

/* The release that is in flight, and has cost its caller its patience, stands in the way of the
 * next one. */
TEST(an_unlock_that_got_no_turn_may_be_repeated)
{
    static struct alone_scene s;
    const struct rlock__value granted = {.type = RLOCK__REPLY_INT, .num = 1};
    const struct rlock__value done[] = {{.type = RLOCK__REPLY_INT, .num = 1},
                                        {.type = RLOCK__REPLY_INT, .num = 0}};
    const struct rlock__reply released = {.v = done, .n = 2, .is_array = true};
    struct rlock__call takes[2], unlocks[3];
    struct rlock__pipeline *pipeline;

    alone_open(&s, NOW);
    pipeline = &alone_link(&s.core)->pipeline;
    for (int i = 0; i < 2; i++) {
        takes[i] = alone_call(&s, RLOCK__ACQUIRE);
        rlock__core_begin(&s.core, &takes[i], NOW);
        reply(&s, &granted);
        assert_int_equal(takes[i].code, 0);
    }
    for (int i = 0; i < 2; i++) {
        unlocks[i] = alone_call(&s, RLOCK__RELEASE);
        rlock__core_begin(&s.core, &unlocks[i], NOW);
    }
    rlock__core_tick(&s.core, NOW + 2 * RLOCK__SECOND);
    assert_int_equal(unlocks[0].code, RLOCK_EINDOUBT);
    assert_int_equal(unlocks[1].code, RLOCK_EINDOUBT);
    assert_int_equal(atomic_load(&takes[0].view->valid_until), 0);
    unlocks[2] = alone_call(&s, RLOCK__RELEASE);
    rlock__core_begin(&s.core, &unlocks[2], NOW + 2 * RLOCK__SECOND);
    (void)rlock__core_link_up(alone_link(&s.core), 1, true, NOW + 2 * RLOCK__SECOND);
    alone_carry(pipeline);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(unlocks[2].step == RLOCK__COMPLETE, false);
        rlock__core_reply(alone_link(&s.core), pipeline->gen, &released, NOW + 2 * RLOCK__SECOND);
        alone_carry(pipeline);
    }
    assert_int_equal(unlocks[2].code, 0);
    assert_null(s.core.rows.holds);
    (void)rlock__view_unref(takes[0].view);
    (void)rlock__view_unref(takes[1].view);
    close_scene(&s);
}

/* The two sides of one owner are rows of one hash, which lasts as long as the longer lease. */
TEST(an_unlock_of_one_side_is_tried_for_as_long_as_the_other_side_keeps_the_lock)
{
    static struct alone_scene s;
    static const struct rlock_ops *const sides[] = {&rlock__write_ops, &rlock__read_ops};

    for (int shorter = 0; shorter < 2; shorter++) {
        struct rlock__call takes[2], unlock;
        struct rlock__spec *specs[2];

        alone_open(&s, NOW);
        for (int i = 0; i < 2; i++) {
            specs[i] = rlock__spec_new(&s.core, sides[i], rlock__bytes_of("b"), NULL);
            takes[i] = alone_call(&s, RLOCK__ACQUIRE);
            takes[i].spec = specs[i];
            takes[i].acquire.lease_us = (i == shorter ? 2 : 20) * RLOCK__SECOND;
            rlock__core_begin(&s.core, &takes[i], NOW);
            alone_answer(&s.core, 1, (const int64_t[]){1}, NOW);
            assert_int_equal(takes[i].code, 0);
        }
        unlock = alone_call(&s, RLOCK__RELEASE);
        unlock.spec = specs[shorter];
        rlock__core_begin(&s.core, &unlock, NOW);
        alone_carry(&alone_link(&s.core)->pipeline);
        while (rlock__core_next(&s.core) < NOW + 19 * RLOCK__SECOND) { /* without an answer */
            rlock__core_tick(&s.core, rlock__core_next(&s.core));
        }
        assert_int_equal(unlock.code, RLOCK_EINDOUBT);
        assert_non_null(rlock__hold_find(&s.core, specs[shorter], unlock.owner));
        assert_non_null(alone_link(&s.core)->pipeline.waiting);
        rlock__core_abandon(&s.core);
        for (int i = 0; i < 2; i++) {
            (void)rlock__view_unref(takes[i].view);
            (void)rlock__spec_unref(specs[i]);
        }
        s.core.done = NULL;
        rlock__core_fini(&s.core);
        (void)rlock__spec_unref(s.spec);
    }
}
