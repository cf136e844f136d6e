/* SPDX-License-Identifier: Apache-2.0 */
/* The server granted a lock to one owner of a client, and then to a second owner. So the hold of
 * the first owner is gone, whatever ended it. */
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

struct scene {
    struct alone_scene alone;
    struct rlock__call calls[2];
};

/* Each owner asks for the lock at this time. */
static void asks(struct scene *s, size_t i, int64_t now)
{
    s->calls[i] = alone_call(&s->alone, RLOCK__ACQUIRE);
    s->calls[i].owner.id = i + 1;
    rlock__core_begin(&s->alone.core, &s->calls[i], now);
}

static void is_granted(struct scene *s, size_t i, int64_t now)
{
    alone_answer(&s->alone.core, 1, (int64_t[]){1}, now);
    assert_int_equal(s->calls[i].code, 0);
}

static const struct rlock__hold *hold_of(struct scene *s, size_t i)
{
    return rlock__hold_find(&s->alone.core, s->alone.spec, s->calls[i].owner);
}

static void assert_holds(struct scene *s, size_t i, bool holds)
{
    assert_int_equal(hold_of(s, i)->state, holds ? RLOCK__HOLD_HELD : RLOCK__HOLD_LOST);
}

static void begin(struct scene *s)
{
    *s = (struct scene){.calls[0].code = 0};
    alone_open(&s->alone, NOW);
}

static void end(struct scene *s)
{
    for (size_t i = 0; i < 2; i++) {
        (void)rlock__view_unref(s->calls[i].view);
    }
    s->alone.core.done = NULL;
    if (s->alone.core.lost != NULL) {
        s->alone.core.lost = rlock__loss_free(s->alone.core.lost);
    }
    rlock__core_fini(&s->alone.core);
    (void)rlock__spec_unref(s->alone.spec);
}

#define PROOF_TEST(name) TEST_AROUND(name, struct scene, s, begin(s), end(s))

PROOF_TEST(a_grant_that_was_asked_for_after_another_one_proves_the_end_of_that)
{
    asks(s, 0, NOW);
    is_granted(s, 0, NOW);
    asks(s, 1, NOW + 1);
    is_granted(s, 1, NOW + 1);
    assert_holds(s, 0, false);
    assert_holds(s, 1, true);
}

/* The second owner asked before the grant of the first one was read. */
PROOF_TEST(the_server_is_asked_for_both_holds_where_it_is_not_certain_which_one_is_gone)
{
    asks(s, 0, NOW);
    asks(s, 1, NOW);
    is_granted(s, 0, NOW);
    is_granted(s, 1, NOW);
    assert_holds(s, 0, true);
    assert_holds(s, 1, true);
    assert_true(hold_of(s, 0)->grant->verifies);
    assert_true(hold_of(s, 1)->grant->verifies);
    rlock__core_tick(&s->alone.core, NOW + 1);
    alone_answer(&s->alone.core, 4, (int64_t[]){NOW / RLOCK__SECOND, 0, 0, 1}, NOW + 1);
    assert_holds(s, 0, false);
    assert_holds(s, 1, true);
}
