/* SPDX-License-Identifier: Apache-2.0 */
/* A RedLock that a Redisson takes as well: which member is waited for. The test is the driver, and
 * says what came of the members' calls. */
#include "multi/groups.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)
#define REDISSON "3f0c1a52-9d1e-4c7b-8a43-5be0f6d2a917:61"

enum { N = 3 };

struct scene {
    struct rlock__core cores[N];
    struct rlock__server servers[N];
    struct rlock__spec *specs[N]; /* in the order of their addresses */
    struct rlock__groups groups;
    struct rlock__group_spec *spec;
    struct rlock__group *group;
    int64_t now;
};

static void finish(struct rlock__call *call)
{
    (void)call;
}

static void hear(struct rlock__listener *listener)
{
    (void)listener;
}

/* The program gives the member of the last address first. */
static struct scene *scene_open(void)
{
    static const char *const addresses[N] = {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"};
    static struct scene scene;
    struct rlock__spec *given[N];

    scene = (struct scene){.groups.random = 1, .now = NOW};
    for (size_t i = 0; i < N; i++) {
        scene.cores[i] =
            (struct rlock__core){.opts.op_timeout_us = RLOCK__SECOND, .driver.unref = alone_unref};
        alone_init(&scene.cores[i], &scene.servers[i], addresses[i]);
        scene.specs[i] =
            rlock__spec_new(&scene.cores[i], &rlock__reentrant_ops, rlock__bytes_of("a"), NULL);
        given[(i + 1) % N] = scene.specs[i];
    }
    scene.spec = rlock__group_spec_new(&rlock__redlock_ops, given, N);
    scene.group = rlock__group_new(scene.spec, (struct rlock__owner){.id = 1, .given = true},
                                   finish, hear, &scene.groups);
    return &scene;
}

/* Its members, in the order of their addresses. */
static struct rlock__member *member(struct scene *s, size_t i)
{
    assert_ptr_equal(s->group->members[i].spec, s->specs[i]);
    return &s->group->members[i];
}

/* Does what the group wants; that is nothing but calls, which the test answers. */
static void step(struct scene *s)
{
    struct rlock__group_step step;

    rlock__group_step(s->group, s->now, &step);
    assert_null(step.loss);
}

/* Which members are being asked: bit i is that of the i-th address. */
static unsigned asked(struct scene *s)
{
    unsigned mask = 0;

    for (unsigned i = 0; i < N; i++) {
        mask |= (unsigned)member(s, i)->running << i;
    }
    return mask;
}

static void answer(struct scene *s, size_t i, int code)
{
    struct rlock__member *it = member(s, i);

    assert_true(it->running);
    it->texts.facts.holder[0] = '\0';
    if (it->state == RLOCK__MEMBER_TAKING && code == 0) {
        it->call.view = calloc(1, sizeof(*it->call.view));
        it->call.view->spec = rlock__spec_ref(it->spec);
        atomic_init(&it->call.view->refs, 1);
    } else if (code == RLOCK_EBUSY) {
        (void)snprintf(it->texts.facts.holder, sizeof(it->texts.facts.holder), "%s", REDISSON);
    }
    it->call.code = code;
    rlock__group_done(&it->call, s->now);
    step(s);
}

static void next_round(struct scene *s)
{
    assert_int_equal(s->group->phase, RLOCK__GROUP_PAUSING);
    s->now = s->group->timer_at;
    step(s);
    assert_int_equal(s->group->phase, RLOCK__GROUP_TAKING);
}

/* All members are a Redisson's. */
static void take_beside_a_redisson(struct scene *s)
{
    const struct rlock__effort effort = {
        .wait_us = -1, .op_timeout_us = RLOCK__SECOND, .renewed_lease_us = 30 * RLOCK__SECOND};

    rlock__group_take(s->group, &effort, s->now);
    step(s);
    assert_int_equal(asked(s), 7);
    for (size_t i = 0; i < N; i++) {
        answer(s, i, RLOCK_EBUSY);
    }
    next_round(s);
}

static void scene_close(struct scene *s)
{
    rlock__group_cancel(s->group, RLOCK_ECANCELED, s->now);
    step(s);
    for (size_t i = 0; i < N; i++) {
        if (member(s, i)->running) {
            answer(s, i, RLOCK_ECANCELED);
        }
    }
    for (size_t i = 0; i < N; i++) { /* no core has them */
        member(s, i)->listening = false;
    }
    assert_true(rlock__group_is_over(s->group));
    rlock__group_free(s->group);
    (void)rlock__group_spec_unref(s->spec);
    for (size_t i = 0; i < N; i++) {
        (void)rlock__spec_unref(s->specs[i]);
        rlock__core_fini(&s->cores[i]);
    }
}

TEST(the_member_that_was_given_first_is_waited_for_before_the_others)
{
    struct scene *s = scene_open();

    take_beside_a_redisson(s);
    assert_int_equal(asked(s), 4);
    answer(s, 2, 0);
    assert_int_equal(asked(s), 3);
    scene_close(s);
}

/* It was the Redisson's last one. */
TEST(the_next_member_is_waited_for_if_the_first_one_brings_no_quorum)
{
    static const unsigned next[] = {1, 2, 4};
    struct scene *s = scene_open();

    take_beside_a_redisson(s);
    for (size_t round = 0, first = 2; round < 3; round++, first = (first + 1) % N) {
        assert_int_equal(asked(s), 1U << first);
        answer(s, first, 0);
        answer(s, (first + 1) % N, RLOCK_EBUSY);
        answer(s, (first + 2) % N, RLOCK_EBUSY);
        answer(s, first, 0); /* given back */
        next_round(s);
        assert_int_equal(asked(s), next[round]);
    }
    scene_close(s);
}

TEST(all_are_asked_at_once_if_the_first_one_does_not_come)
{
    struct scene *s = scene_open();

    take_beside_a_redisson(s);
    assert_int_equal(asked(s), 4);
    answer(s, 2, RLOCK_ETIMEDOUT);
    assert_int_equal(asked(s), 3); /* with no wait for the first one any more */
    answer(s, 0, RLOCK_ETIMEDOUT);
    answer(s, 1, RLOCK_ETIMEDOUT);
    next_round(s);
    assert_int_equal(asked(s), 7);
    scene_close(s);
}

/* ---- The end of a round ---- */

TEST(a_take_that_is_canceled_while_it_backs_out_ends_without_another_round)
{
    struct scene *s = scene_open();

    take_beside_a_redisson(s);
    answer(s, 2, 0);
    answer(s, 0, RLOCK_EBUSY);
    answer(s, 1, RLOCK_EBUSY);
    assert_int_equal(s->group->phase, RLOCK__GROUP_BACKING_OUT);
    rlock__group_cancel(s->group, RLOCK_ECANCELED, s->now);
    assert_true(s->group->timer_at <= s->now + RLOCK__GRACE_US);
    answer(s, 2, 0); /* given back */
    assert_int_equal(s->group->phase, RLOCK__GROUP_IDLE);
    assert_int_equal(s->group->code, RLOCK_ECANCELED);
    scene_close(s);
}

/* ---- Doubt ---- */

/* The latest round says "busy", which tells nothing of what the one before it has left. */
TEST(a_member_is_in_doubt_while_an_earlier_round_may_have_left_something)
{
    struct rlock__member member = {.code = RLOCK_EBUSY};
    struct rlock__doubt *held = rlock__doubt_open(&member.call.doubt, NOW);

    assert_true(rlock__member_is_in_doubt(&member));
    (void)rlock__doubt_close(held);
    assert_false(rlock__member_is_in_doubt(&member));
    member.call.doubt = rlock__doubt_close(member.call.doubt);
}
