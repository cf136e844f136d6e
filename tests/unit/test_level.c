/* SPDX-License-Identifier: Apache-2.0 */
/* Nested levels, and attempts in doubt: what a later answer must not do. */
#include "lock/hold/renew.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

static void close_scene(struct alone_scene *s)
{
    rlock__core_abandon(&s->core);
    rlock__core_fini(&s->core);
    (void)rlock__spec_unref(s->spec);
}

static void begin(struct alone_scene *s, struct rlock__call *call, uint64_t owner, int64_t wait_us,
                  int64_t lease_us, int64_t now)
{
    *call = alone_call(s, RLOCK__ACQUIRE);
    call->owner.id = owner;
    call->acquire.wait_us = wait_us;
    call->acquire.lease_us = lease_us;
    rlock__core_begin(&s->core, call, now);
}

static void granted(struct alone_scene *s, struct rlock__call *call, int64_t now)
{
    alone_answer(&s->core, 1, (int64_t[]){1}, now);
    assert_int_equal(call->code, 0);
    call->view = rlock__view_unref(call->view);
}

/* The link breaks with all that was sent on it. fenced: the server has ended that connection. */
static void break_link(struct alone_scene *s, bool fenced)
{
    struct rlock__link *link = alone_link(&s->core);

    alone_carry(&link->pipeline);
    rlock__core_link_down(link, link->pipeline.gen, RLOCK_ECONN, false, "broken", NOW);
    rlock__core_link_up(link, 2, fenced, NOW);
}

TEST(a_level_that_is_granted_after_its_hold_expired_revives_nothing)
{
    static struct alone_scene s;
    struct rlock__call outer, inner;

    alone_open(&s, NOW);
    begin(&s, &outer, 1, 0, RLOCK__SECOND, NOW);
    granted(&s, &outer, NOW);
    begin(&s, &inner, 1, 0, 5 * RLOCK__SECOND, NOW + RLOCK__SECOND / 2);
    alone_answer(&s.core, 1, (int64_t[]){1}, NOW + 2 * RLOCK__SECOND); /* before any timer fires */
    assert_int_equal(inner.code, RLOCK_ELOST);
    assert_null(inner.view);
    assert_int_equal(rlock__core_valid_until(&s.core, s.spec, outer.owner, &(uint32_t){0}), 0);
    close_scene(&s);
}

TEST(a_level_in_doubt_is_undone_before_the_owner_asks_for_it_again_or_not_at_all)
{
    static struct alone_scene s;
    struct rlock__call outer, doubtful, inner;
    const struct rlock__hold *hold;

    alone_open(&s, NOW);
    begin(&s, &outer, 1, 0, 0, NOW);
    granted(&s, &outer, NOW);
    begin(&s, &doubtful, 1, 0, 0, NOW);
    alone_carry(&alone_link(&s.core)->pipeline);
    rlock__core_give_up(&s.core, &doubtful, RLOCK_ECANCELED, NOW);
    rlock__core_tick(&s.core, NOW + RLOCK__GRACE_US);
    assert_int_equal(doubtful.step, RLOCK__COMPLETE);
    hold = rlock__hold_find(&s.core, s.spec, outer.owner);
    assert_non_null(hold->grant->undone);
    begin(&s, &inner, 1, 0, 0, NOW + RLOCK__GRACE_US);
    assert_null(hold->grant->undone); /* the attempt sets the same count */
    assert_null(s.core.recovery.tickets);
    rlock__core_give_up(&s.core, &inner, RLOCK_ECANCELED, NOW + RLOCK__GRACE_US);
    close_scene(&s);
}

/* A waiter whose attempt went down with its link, and another owner of the client that gets the
 * lock and leaves it. Returns whether it passed its hold to the waiter. */
static bool passes(bool fenced)
{
    static struct alone_scene s;
    struct rlock__call waiter, other, unlock;
    bool passed;

    alone_open(&s, NOW);
    begin(&s, &waiter, 1, -1, 0, NOW);
    break_link(&s, fenced);
    alone_busy(&s.core, NOW);
    assert_true(waiter.step == RLOCK__SUBSCRIBING || waiter.step == RLOCK__SLEEPING);
    begin(&s, &other, 2, 0, 0, NOW);
    granted(&s, &other, NOW);
    unlock = alone_call(&s, RLOCK__RELEASE);
    unlock.owner.id = 2;
    rlock__core_begin(&s.core, &unlock, NOW);
    passed = waiter.step == RLOCK__COMPLETE && waiter.code == 0;
    if (passed) {
        waiter.view = rlock__view_unref(waiter.view);
    } else {
        rlock__core_give_up(&s.core, &waiter, RLOCK_ECANCELED, NOW);
    }
    close_scene(&s);
    return passed;
}

TEST(no_hold_is_passed_to_a_waiter_with_an_attempt_that_may_still_run)
{
    assert_true(passes(true));
    assert_false(passes(false));
}

/* Of permits, as their owner may wait for more. */
TEST(a_call_that_waits_for_a_level_ends_when_its_hold_is_lost)
{
    static struct alone_scene s;
    static const struct rlock__tuning tuning = {.units = 2};
    const struct rlock__value busy[] = {{.type = RLOCK__REPLY_INT, .num = 0},
                                        {.type = RLOCK__REPLY_INT, .num = 30000},
                                        {.type = RLOCK__REPLY_STR, .str = "", .len = 0},
                                        {.type = RLOCK__REPLY_INT, .num = 0}};
    const struct rlock__reply refusal = {.v = busy, .n = 4, .is_array = true};
    struct rlock__call first, second;
    struct rlock__spec *spec;

    alone_open(&s, NOW);
    spec = rlock__spec_new(&s.core, &rlock__permits_ops, rlock__bytes_of("b"), &tuning);
    first = second = alone_call(&s, RLOCK__ACQUIRE);
    first.spec = second.spec = spec;
    second.acquire.wait_us = -1;
    rlock__core_begin(&s.core, &first, NOW);
    alone_answer(&s.core, 2, (const int64_t[]){1, 0}, NOW);
    assert_int_equal(first.code, 0);
    rlock__core_begin(&s.core, &second, NOW);
    alone_carry(&alone_link(&s.core)->pipeline);
    rlock__core_reply(alone_link(&s.core), alone_link(&s.core)->pipeline.gen, &refusal, NOW);
    assert_false(second.step == RLOCK__COMPLETE);
    rlock__core_forced(&s.core, first.number, NOW);
    assert_int_equal(second.step, RLOCK__COMPLETE);
    assert_int_equal(second.code, RLOCK_ELOST);
    rlock__core_abandon(&s.core);
    (void)rlock__view_unref(first.view);
    s.core.done = NULL;
    rlock__core_fini(&s.core);
    (void)rlock__spec_unref(spec);
    (void)rlock__spec_unref(s.spec);
}

/* The call has no request any more: it looks whether the slot is still on its way. */
TEST(a_renewal_asks_for_the_units_of_a_grant_while_its_slot_is_looked_at)
{
    static struct alone_scene s;
    const struct rlock__tuning tuning = {.units = 3};
    struct rlock__request look = {0};
    struct rlock__call first, second;
    struct rlock__spec *spec;
    struct rlock__hold *hold;

    alone_open(&s, NOW);
    spec = rlock__spec_new(&s.core, &rlock__permits_ops, rlock__bytes_of("b"), &tuning);
    first = second = alone_call(&s, RLOCK__ACQUIRE);
    first.spec = second.spec = spec;
    rlock__core_begin(&s.core, &first, NOW);
    alone_answer(&s.core, 2, (const int64_t[]){1, 2}, NOW);
    hold = rlock__hold_by_number(&s.core, first.number);
    second.hold = hold;
    second.acquire.target = second.acquire.units = 2;
    hold->grant->uneven = true;
    hold->turn = &second;
    assert_int_equal(rlock__renewal_units(hold->grant), 0);
    second.acquire.look = &look;
    assert_int_equal(rlock__renewal_units(hold->grant), 3);
    hold->turn = NULL;
    rlock__core_abandon(&s.core);
    (void)rlock__view_unref(first.view);
    s.core.done = NULL;
    rlock__core_fini(&s.core);
    (void)rlock__spec_unref(spec);
    (void)rlock__spec_unref(s.spec);
}
