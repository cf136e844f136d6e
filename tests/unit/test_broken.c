/* SPDX-License-Identifier: Apache-2.0 */
/* An installed library checks what exclusion relies on. If that is broken, the call fails, and the
 * log says so. The tests use a clock that goes backwards, which the system's clock never does. */
#include <utlist.h>

#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)
#define EARLIER (NOW - RLOCK__SECOND)

static void scene_open(struct alone_scene *s)
{
    alone_open(s, NOW);
    s->core.opts.log_level = RLOCK_LOG_ERROR;
}

static void scene_close(struct alone_scene *s)
{
    s->core.done = NULL;
    rlock__core_fini(&s->core);
    (void)rlock__spec_unref(s->spec);
}

static void assert_reported(const struct alone_scene *s, const char *condition)
{
    assert_non_null(s->core.notes);
    assert_int_equal(s->core.notes->level, RLOCK_LOG_ERROR);
    assert_non_null(strstr(s->core.notes->text, "internal error in rlock"));
    assert_non_null(strstr(s->core.notes->text, condition));
}

TEST(a_grant_from_before_its_request_is_taken_back_and_reported)
{
    struct alone_scene s;
    struct rlock__call call;

    scene_open(&s);
    call = alone_call(&s, RLOCK__ACQUIRE);
    rlock__core_begin(&s.core, &call, NOW);
    alone_answer(&s.core, 1, (int64_t[]){1}, EARLIER);
    assert_reported(&s, "t0 <= now");
    assert_true(call.step == RLOCK__GIVING_UP || call.code == RLOCK_EINDOUBT);
    assert_non_null(s.core.recovery.tickets); /* the release is on its way */
    rlock__core_tick(&s.core, NOW + RLOCK__SECOND);
    assert_int_equal(call.code, RLOCK_EINDOUBT);
    assert_null(call.view);
    scene_close(&s);
}

TEST(a_success_without_a_hold_is_no_success)
{
    struct alone_scene s;
    struct rlock__call call;

    scene_open(&s);
    call = alone_call(&s, RLOCK__ACQUIRE);
    call.core = &s.core;
    DL_APPEND2(s.core.calls, &call, all.prev, all.next);
    rlock__call_complete(&call, 0, NULL);
    assert_int_equal(call.code, RLOCK_EINDOUBT);
    assert_reported(&s, "view");
    scene_close(&s);
}
