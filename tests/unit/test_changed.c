/* SPDX-License-Identifier: Apache-2.0 */
/* The core tells its driver which servers an event changed, so that it need not look at all. */
#include "lock/server/route.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

struct changed_scene {
    struct alone_scene alone;
    struct rlock__server other;
};

static struct changed_scene *scene_open(void)
{
    static struct changed_scene s;

    s = (struct changed_scene){.other.address = "elsewhere"};
    alone_open(&s.alone, NOW);
    rlock__core_add_server(&s.alone.core, &s.other, 1, 0);
    (void)rlock__core_link_up(&s.other.links[0], 2, false, NOW);
    while (rlock__core_changed(&s.alone.core) != NULL) {
    }
    return &s;
}

static void scene_close(struct changed_scene *s)
{
    rlock__core_close(&s->alone.core, NOW);
    rlock__core_fini(&s->alone.core);
    (void)rlock__spec_unref(s->alone.spec);
}

TEST(an_event_names_the_server_that_it_changed_and_no_other)
{
    struct changed_scene *s = scene_open();
    struct rlock__call call = alone_call(&s->alone, RLOCK__ACQUIRE);

    rlock__core_begin(&s->alone.core, &call, NOW);
    assert_ptr_equal(rlock__core_changed(&s->alone.core), &s->alone.server);
    assert_true(alone_link(&s->alone.core)->pipeline.out.len > 0);
    assert_null(rlock__core_changed(&s->alone.core));
    scene_close(s);
}

TEST(a_server_is_named_once_for_several_events)
{
    struct changed_scene *s = scene_open();
    struct rlock__call call = alone_call(&s->alone, RLOCK__ACQUIRE);

    rlock__core_begin(&s->alone.core, &call, NOW);
    rlock__core_give_up(&s->alone.core, &call, RLOCK_ETIMEDOUT, NOW);
    rlock__core_link_down(&s->other.links[0], 2, RLOCK_ECONN, false, "gone", NOW);
    assert_non_null(rlock__core_changed(&s->alone.core));
    assert_non_null(rlock__core_changed(&s->alone.core));
    assert_null(rlock__core_changed(&s->alone.core));
    scene_close(s);
}

TEST(a_server_that_was_let_go_is_named_when_it_is_needed_again)
{
    struct changed_scene *s = scene_open();

    rlock__server_need(&s->other, NOW);
    rlock__core_tick(&s->alone.core, NOW);
    assert_null(rlock__core_changed(&s->alone.core));

    s->other.is_let_go = true;
    rlock__server_need(&s->other, NOW);
    rlock__core_tick(&s->alone.core, NOW);
    assert_ptr_equal(rlock__core_changed(&s->alone.core), &s->other);
    scene_close(s);
}
