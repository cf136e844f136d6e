/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of log lines in a second, and the line that counts the rest. */
#include <stdlib.h>
#include <utlist.h>

#include "lock/call/explain.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)
#define LEASE_US (6 * RLOCK__SECOND) /* renewed before an idle link is tried */

enum { MOST = 200, ROUTINE = 100 }; /* lines of a level, and of calls that find their lock free */

static void scene_open(struct alone_scene *s, int level)
{
    alone_open(s, NOW);
    s->core.opts.log_level = level;
}

static void scene_close(struct alone_scene *s)
{
    rlock__core_abandon(&s->core);
    rlock__core_fini(&s->core);
    (void)rlock__spec_unref(s->spec);
}

/* Takes the lines: how many there are of this level with the text. */
static size_t take_lines(struct rlock__core *core, int level, const char *text)
{
    struct rlock__note *note, *after;
    size_t n = 0;

    DL_FOREACH_SAFE(core->notes, note, after) {
        n += note->level == level && strstr(note->text, text) != NULL;
        free(note);
    }
    core->notes = NULL;
    return n;
}

static void log_many(struct rlock__core *core, int level, size_t n, int64_t now)
{
    for (size_t i = 0; i < n; i++) {
        rlock__log_event(core, level, rlock__about("call", NULL, 0), now, "line");
    }
}

TEST(a_second_has_so_many_lines_of_a_level_and_its_end_says_how_many_more_there_were)
{
    struct alone_scene s;

    scene_open(&s, RLOCK_LOG_DEBUG);
    log_many(&s.core, RLOCK_LOG_WARNING, MOST + 7, NOW);
    log_many(&s.core, RLOCK_LOG_DEBUG, 1, NOW); /* has a limit of its own */
    assert_int_equal(take_lines(&s.core, RLOCK_LOG_WARNING, "line"), MOST);
    assert_true(rlock__core_next(&s.core) <= NOW + RLOCK__SECOND);
    rlock__core_tick(&s.core, NOW + RLOCK__SECOND);
    assert_int_equal(take_lines(&s.core, RLOCK_LOG_WARNING, "7 lines of this level were left out"),
                     1);
    log_many(&s.core, RLOCK_LOG_WARNING, 3, NOW + RLOCK__SECOND);
    assert_int_equal(take_lines(&s.core, RLOCK_LOG_WARNING, "line"), 3);
    rlock__core_tick(&s.core, NOW + 2 * RLOCK__SECOND);
    assert_int_equal(take_lines(&s.core, RLOCK_LOG_WARNING, "left out"), 0);
    scene_close(&s);
}

TEST(a_second_that_nobody_ended_ends_with_the_next_line)
{
    struct alone_scene s;

    scene_open(&s, RLOCK_LOG_DEBUG);
    log_many(&s.core, RLOCK_LOG_DEBUG, MOST + 1, NOW);
    log_many(&s.core, RLOCK_LOG_DEBUG, 1, NOW + 3 * RLOCK__SECOND);
    assert_int_equal(take_lines(&s.core, RLOCK_LOG_DEBUG, "1 lines of this level were left out"),
                     1);
    scene_close(&s);
}

TEST(lines_that_were_left_out_are_counted_when_the_client_closes)
{
    struct alone_scene s;

    scene_open(&s, RLOCK_LOG_DEBUG);
    log_many(&s.core, RLOCK_LOG_DEBUG, MOST + 2, NOW);
    rlock__core_close(&s.core, NOW);
    assert_int_equal(take_lines(&s.core, RLOCK_LOG_DEBUG, "2 lines of this level were left out"),
                     1);
    scene_close(&s);
}

TEST(a_level_that_is_not_logged_has_no_lines_and_leaves_none_out)
{
    struct alone_scene s;

    scene_open(&s, RLOCK_LOG_INFO);
    log_many(&s.core, RLOCK_LOG_DEBUG, MOST + 1, NOW);
    rlock__core_close(&s.core, NOW);
    assert_null(s.core.notes);
    assert_false(s.core.log_second.set);
    scene_close(&s);
}

/* The server says of the oldest request: granted (1), or busy. */
static void answer(struct alone_scene *s, bool granted)
{
    struct rlock__link *link = alone_link(&s->core);
    const struct rlock__value values[] = {{.type = RLOCK__REPLY_INT, .num = granted ? 1 : 0},
                                          {.type = RLOCK__REPLY_INT, .num = 5000},
                                          {.type = RLOCK__REPLY_STR, .str = "some:7", .len = 6}};

    alone_carry(&link->pipeline);
    rlock__core_reply(link, link->pipeline.gen,
                      &(struct rlock__reply){.v = values, .n = granted ? 1 : 3, .is_array = true},
                      NOW);
}

/* A call of this owner asks; whether it is granted. */
static void ask(struct alone_scene *s, uint64_t owner, bool granted)
{
    struct rlock__call call = alone_call(s, RLOCK__ACQUIRE);

    call.owner.id = owner;
    rlock__core_begin(&s->core, &call, NOW);
    answer(s, granted);
    assert_int_equal(call.step, RLOCK__COMPLETE);
    s->core.done = NULL;
    if (granted) {
        (void)rlock__view_unref(call.view);
    }
}

TEST(calls_that_find_their_lock_free_leave_room_for_the_others)
{
    struct alone_scene s;

    scene_open(&s, RLOCK_LOG_DEBUG);
    for (uint64_t i = 1; i <= MOST; i++) { /* two lines for each */
        ask(&s, i, true);
    }
    assert_int_equal(take_lines(&s.core, RLOCK_LOG_DEBUG, "call"), ROUTINE);
    ask(&s, MOST + 1, false);
    assert_int_equal(take_lines(&s.core, RLOCK_LOG_DEBUG, "found it busy: some:7 holds it"), 1);
    scene_close(&s);
}

/* A renewed hold; its renewal is answered so long after the grant. */
static size_t late_lines(int64_t after_us)
{
    struct alone_scene s;
    struct rlock__link *link;
    size_t n;

    scene_open(&s, RLOCK_LOG_WARNING);
    s.core.opts.renewed_lease_us = LEASE_US;
    link = alone_link(&s.core);
    ask(&s, 1, true);
    for (int64_t now = NOW; link->pipeline.sent == NULL; now = rlock__core_next(&s.core)) {
        assert_true(now < NOW + LEASE_US / 2);
        rlock__core_tick(&s.core, now);
        alone_carry(&link->pipeline);
    }
    rlock__core_reply(link, link->pipeline.gen,
                      &(struct rlock__reply){
                          .v = (const struct rlock__value[]){{.type = RLOCK__REPLY_INT, .num = 5},
                                                             {.type = RLOCK__REPLY_INT, .num = 0},
                                                             {.type = RLOCK__REPLY_INT, .num = 1}},
                          .n = 3,
                          .is_array = true},
                      NOW + after_us);
    n = take_lines(&s.core, RLOCK_LOG_WARNING, "lock a: renewed late, ");
    assert_null(s.core.lost);
    scene_close(&s);
    return n;
}

TEST(a_renewal_is_late_when_two_thirds_of_its_time_have_passed)
{
    assert_int_equal(late_lines(LEASE_US * 35 / 100), 0);
    assert_int_equal(late_lines(LEASE_US * 75 / 100), 0);
    assert_int_equal(late_lines(LEASE_US * 80 / 100), 1);
    assert_int_equal(late_lines(LEASE_US * 97 / 100), 1);
}
