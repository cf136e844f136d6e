/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread holds: found whatever else is held, and at the same cost. */
#include <time.h>

#include "client/held.h"
#include "lock/core.h"
#include "multi/view.h"
#include "support/test.h"

enum { MANY = 100000, FEW = 10 };

static void forget_core(struct rlock__core *core)
{
    (void)core;
}

static struct rlock__core core = {
    .opts.serial = 1, .opts.prefix = {"", 0}, .driver.unref = forget_core};
static struct rlock__spec *specs[MANY];

static void make_specs(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char name[24];
        int len = snprintf(name, sizeof(name), "lock-%zu", i);

        specs[i] =
            rlock__spec_new(&core, &rlock__reentrant_ops, rlock__bytes(name, (size_t)len), NULL);
        assert_non_null(specs[i]);
    }
}

static void free_specs(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        specs[i] = rlock__spec_unref(specs[i]);
    }
}

static struct rlock__view *view_new(struct rlock__spec *spec)
{
    struct rlock__view *view = calloc(1, sizeof(*view));

    assert_non_null(view);
    view->spec = rlock__spec_ref(spec);
    atomic_init(&view->refs, 1);
    atomic_init(&view->count, 1);
    return view;
}

static const struct rlock__view *find(struct rlock__held *held, const struct rlock__spec *spec)
{
    return rlock__held_find(held, spec, spec->hash);
}

/* Another thread ends it. */
static void end(struct rlock__held *held, const struct rlock__spec *spec)
{
    struct rlock__view *view = (struct rlock__view *)(uintptr_t)find(held, spec);

    assert_non_null(view);
    atomic_store(&view->count, 0);
}

static void empty(struct rlock__held *held)
{
    struct rlock__view *view;
    size_t from = 0;

    while ((view = rlock__held_take(held, &from)) != NULL) {
        (void)rlock__view_unref(view);
    }
    assert_int_equal(held->views.n, 0);
}

TEST(what_is_held_is_found_until_it_is_over)
{
    struct rlock__held held = {0};
    struct rlock__view *again;

    make_specs(1000);
    for (size_t i = 0; i < 1000; i++) {
        assert_null(find(&held, specs[i]));
        rlock__held_add(&held, view_new(specs[i]));
    }
    for (size_t i = 0; i < 1000; i++) {
        assert_ptr_equal(find(&held, specs[i])->spec, specs[i]);
    }
    again = view_new(specs[7]);
    rlock__held_add(&held, again);
    assert_ptr_equal(find(&held, specs[7]), again);
    assert_int_equal(held.views.n, 1000);
    end(&held, specs[7]);
    assert_null(find(&held, specs[7]));
    rlock__held_forget(&held, specs[7]);
    rlock__held_forget(&held, specs[8]); /* which is not over */
    assert_int_equal(held.views.n, 999);
    assert_non_null(find(&held, specs[8]));
    empty(&held);
    free_specs(1000);
}

/* Nobody of this thread unlocks them; they do not pile up. */
TEST(what_others_ended_is_swept_out)
{
    struct rlock__held held = {0};

    make_specs(MANY);
    for (size_t i = 0; i < MANY; i++) {
        rlock__held_add(&held, view_new(specs[i]));
        end(&held, specs[i]);
        assert_true(held.views.n <= 64);
    }
    empty(&held);
    free_specs(MANY);
}

/* The seconds of processor time that 200 000 questions take, at random among the first n. */
static double ask(struct rlock__held *held, size_t n)
{
    struct timespec from, to;
    uint32_t x = 1;
    size_t found = 0;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (int i = 0; i < 200000; i++) {
        x = x * 1664525 + 1013904223;
        found += find(held, specs[(x >> 8) % n]) != NULL;
    }
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    assert_int_equal(found, 200000);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

/* A table whose chains grow with it would take thousands of times as long, and minutes to fill. */
TEST(asking_costs_the_same_whatever_is_held)
{
    struct rlock__held held = {0};
    double few, many;

    make_specs(MANY);
    for (size_t i = 0; i < FEW; i++) {
        rlock__held_add(&held, view_new(specs[i]));
    }
    few = ask(&held, FEW);
    for (size_t i = FEW; i < MANY; i++) {
        rlock__held_add(&held, view_new(specs[i]));
    }
    many = ask(&held, MANY);
    print_message("%.0f ns with %d, %.0f ns with %d\n", few * 5000, FEW, many * 5000, MANY);
    assert_true(many < 100 * few);
    empty(&held);
    free_specs(MANY);
}

/* A RedLock may lose a member and take it again. A thread may stand still while it reads the old
 * view. */
TEST(a_member_that_is_taken_anew_is_shown)
{
    struct rlock__group_spec *spec;
    struct rlock__group *group = calloc(1, sizeof(*group) + 2 * sizeof(group->members[0]));

    make_specs(2);
    spec = rlock__group_spec_new(&rlock__multi_ops, specs, 2);
    assert_true(spec != NULL && group != NULL);
    group->spec = spec;
    group->count = 1;
    group->view = rlock__group_view_new(spec);
    assert_non_null(group->view);
    for (int round = 1; round <= 3; round++) {
        for (size_t i = 0; i < 2; i++) {
            group->members[i].group = group;
            group->members[i].levels = 1;
            group->members[i].view = view_new(spec->members[i]);
            atomic_store(&group->members[i].view->valid_until, 100 * round + (long long)i);
        }
        rlock__group_view_show(group);
        assert_int_equal(rlock__group_view_valid_until(group->view), 100 * round);
        for (size_t i = 0; i < 2; i++) {
            atomic_store(&group->members[i].view->valid_until, 0);
            group->members[i].view = rlock__view_unref(group->members[i].view);
        }
        rlock__group_view_show(group);
        assert_int_equal(rlock__group_view_valid_until(group->view), 0);
    }
    assert_null(rlock__group_view_unref(group->view));
    (void)rlock__group_spec_unref(spec);
    free(group);
    free_specs(2);
}
