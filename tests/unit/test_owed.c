/* SPDX-License-Identifier: Apache-2.0 */
/* A level that an unlock gives up while the owner's next acquisition is under way: the level that
 * stays is renewed if its own acquisition asks for it, and otherwise not. */
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)
#define FIXED (5 * RLOCK__SECOND)

static void reply(struct alone_scene *s)
{
    const struct rlock__value done[] = {{.type = RLOCK__REPLY_INT, .num = 1},
                                        {.type = RLOCK__REPLY_INT, .num = 0}};
    struct rlock__pipeline *pipeline = &alone_link(&s->core)->pipeline;
    const struct rlock__reply reply = {.v = done, .n = 1, .is_array = true};

    alone_carry(pipeline);
    assert_non_null(pipeline->sent);
    rlock__core_reply(alone_link(&s->core), pipeline->gen, &reply, NOW);
}

static void begin_taking(struct alone_scene *s, struct rlock__call *call, int64_t lease_us)
{
    *call = alone_call(s, RLOCK__ACQUIRE);
    call->acquire.lease_us = lease_us;
    rlock__core_begin(&s->core, call, NOW);
}

/* The owner has one level, asks for a second one, and gives the first one up meanwhile. Its first
 * lease and its second one: 0 are renewed. */
static struct rlock__hold *open_scene(struct alone_scene *s, int64_t first_us, int64_t second_us)
{
    struct rlock__call outer, inner, unlock;
    struct rlock__hold *hold;

    alone_open(s, NOW);
    begin_taking(s, &outer, first_us);
    reply(s);
    assert_int_equal(outer.code, 0);
    begin_taking(s, &inner, second_us);
    unlock = alone_call(s, RLOCK__RELEASE);
    rlock__core_begin(&s->core, &unlock, NOW);
    rlock__core_give_up(&s->core, &unlock, RLOCK_EINDOUBT, NOW); /* its time is over */
    assert_int_equal(unlock.step, RLOCK__COMPLETE);
    assert_int_equal(unlock.code, RLOCK_EINDOUBT);
    reply(s); /* two levels */
    assert_int_equal(inner.code, 0);
    reply(s); /* and the one that was given up is released */
    hold = rlock__hold_find(&s->core, s->spec, outer.owner);
    assert_non_null(hold);
    assert_int_equal(hold->count, 1);
    (void)rlock__view_unref(outer.view);
    (void)rlock__view_unref(inner.view);
    s->core.done = NULL; /* the calls are gone */
    return hold;
}

static void close_scene(struct alone_scene *s)
{
    s->core.done = NULL;
    rlock__core_fini(&s->core);
    (void)rlock__spec_unref(s->spec);
}

TEST(a_level_that_asks_for_renewal_is_renewed_when_a_fixed_one_below_it_is_given_up)
{
    static struct alone_scene s;

    assert_true(rlock__hold_is_renewed(open_scene(&s, FIXED, 0)));
    close_scene(&s);
}

TEST(a_level_with_a_fixed_lease_is_not_renewed_when_a_renewed_one_below_it_is_given_up)
{
    static struct alone_scene s;

    assert_false(rlock__hold_is_renewed(open_scene(&s, 0, FIXED)));
    close_scene(&s);
}

TEST(a_renewed_level_above_a_renewed_one_stays_renewed)
{
    static struct alone_scene s;

    assert_true(rlock__hold_is_renewed(open_scene(&s, 0, 0)));
    close_scene(&s);
}

/* The program unlocks more often than it has locked, while a level of its own is under way: it
 * gives up that level, and one that its group has. */
TEST(levels_that_the_owner_does_not_have_are_given_up_without_harm)
{
    static struct alone_scene s;
    struct rlock__call group[2], own, unlocks[2];
    const struct rlock__hold *hold;

    alone_open(&s, NOW);
    for (size_t i = 0; i < 2; i++) {
        group[i] = alone_call(&s, RLOCK__ACQUIRE);
        group[i].acquire.lease_us = FIXED;
        group[i].member = true;
        rlock__core_begin(&s.core, &group[i], NOW);
        reply(&s);
    }
    begin_taking(&s, &own, 0);
    for (size_t i = 0; i < 2; i++) {
        unlocks[i] = alone_call(&s, RLOCK__RELEASE);
        rlock__core_begin(&s.core, &unlocks[i], NOW);
        rlock__core_give_up(&s.core, &unlocks[i], RLOCK_EINDOUBT, NOW); /* its time is over */
    }
    reply(&s); /* three levels */
    assert_int_equal(own.code, 0);
    hold = rlock__hold_find(&s.core, s.spec, own.owner);
    assert_int_equal(rlock__hold_left(hold), 1);
    assert_int_equal(hold->renewed_from, 0);
    assert_false(rlock__hold_is_renewed(hold));
    (void)rlock__view_unref(group[0].view);
    (void)rlock__view_unref(group[1].view);
    (void)rlock__view_unref(own.view);
    close_scene(&s);
}
