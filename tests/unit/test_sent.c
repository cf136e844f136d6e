/* SPDX-License-Identifier: Apache-2.0 */
/* The row of a hold after an unlock that did not wait for the answer. */
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

/* A call of a thread. */
static struct rlock__call call_of(const struct alone_scene *s, enum rlock__call_kind kind)
{
    return (struct rlock__call){.kind = kind, .spec = s->spec, .owner = {.id = 1}};
}

static void lock(struct alone_scene *s)
{
    struct rlock__call call = call_of(s, RLOCK__ACQUIRE);

    rlock__core_begin(&s->core, &call, NOW);
    alone_answer(&s->core, 1, (const int64_t[]){1}, NOW);
    assert_int_equal(call.code, 0);
    (void)rlock__view_unref(call.view);
    s->core.done = NULL; /* the call is gone */
}

static int unlock(struct alone_scene *s)
{
    struct rlock__call call = call_of(s, RLOCK__RELEASE);

    call.sends = true;
    rlock__core_begin(&s->core, &call, NOW);
    assert_int_equal(call.step, RLOCK__COMPLETE);
    s->core.done = NULL;
    return call.code;
}

static void begin(struct alone_scene *s)
{
    *s = (struct alone_scene){0};
    alone_open(s, NOW);
    rlock__core_link_up(alone_link(&s->core), 1, true, NOW);
}

static void end(struct alone_scene *s)
{
    rlock__core_abandon(&s->core);
    rlock__core_fini(&s->core);
    (void)rlock__spec_unref(s->spec);
}

#define SENT_TEST(name) TEST_AROUND(name, struct alone_scene, s, begin(s), end(s))

SENT_TEST(the_row_ends_with_the_answer)
{
    lock(s);
    assert_int_equal(unlock(s), 0);
    assert_non_null(s->core.rows.holds);
    assert_true(s->core.rows.holds->is_hidden);
    alone_answer(&s->core, 2, (const int64_t[]){1, 0}, NOW);
    assert_null(s->core.rows.holds);
    assert_int_equal(s->core.stats.unsure, 0);
}

SENT_TEST(the_owners_next_call_gets_another_row)
{
    struct rlock__call call = call_of(s, RLOCK__ACQUIRE);

    lock(s);
    assert_int_equal(unlock(s), 0);
    rlock__core_begin(&s->core, &call, NOW);
    assert_int_equal(call.step, RLOCK__ASKING); /* behind the release, on the same link */
    assert_ptr_not_equal(call.hold, s->core.rows.holds);
    alone_answer(&s->core, 2, (const int64_t[]){1, 0}, NOW);
    assert_ptr_equal(call.hold, s->core.rows.holds);
    alone_answer(&s->core, 1, (const int64_t[]){1}, NOW);
    assert_int_equal(call.code, 0);
    (void)rlock__view_unref(call.view);
    s->core.done = NULL;
}

SENT_TEST(a_thread_that_ends_before_the_answer_leaves_no_row)
{
    lock(s);
    lock(s);
    assert_int_equal(unlock(s), 0); /* of the inner level */
    rlock__core_thread_exit(&s->core, s->spec, s->core.rows.holds->owner_id, NOW);
    assert_non_null(s->core.rows.holds);
    alone_answer(&s->core, 2, (const int64_t[]){1, 0}, NOW);
    assert_null(s->core.rows.holds);
    while (s->core.lost != NULL) {
        s->core.lost = rlock__loss_free(s->core.lost);
    }
}
