/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of one owner on one multi-lock: one at a time, in the order in which they came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include "group/fleet.h"

#include <cmocka.h>

enum { OWNER = 5, OTHER = 6, N_MEMBERS = 2 };

struct scene {
    struct fleet fleet;
    struct crew crew;
    struct rlock *members[N_MEMBERS], *multi;
};

/* A call of the owner, in a thread of its own. */
struct taker {
    pthread_t thread;
    struct rlock *lock;
    struct rlock_take take;
    atomic_int code; /* 1: not back yet */
};

static void open_scene(struct scene *scene)
{
    const struct rlock_client_opts usual = {.size = sizeof(usual)};

    fleet_open(&scene->fleet, &(struct fleet_opts){.n = N_MEMBERS});
    crew_open(&scene->crew, &scene->fleet, usual, -1);
    for (size_t i = 0; i < N_MEMBERS; i++) {
        scene->members[i] = crew_lock(&scene->crew, i, "m");
    }
    assert_code(rlock_multi_new(scene->members, N_MEMBERS, NULL, &scene->multi), 0);
}

static void close_scene(struct scene *scene)
{
    scene->multi = rlock_free(scene->multi);
    for (size_t i = 0; i < N_MEMBERS; i++) {
        scene->members[i] = rlock_free(scene->members[i]);
    }
    crew_close(&scene->crew);
    fleet_close(&scene->fleet);
}

static void *taker_main(void *arg)
{
    struct taker *taker = arg;

    atomic_store(&taker->code, rlock_lock_with(taker->lock, &taker->take, NULL));
    return NULL;
}

static void begin(struct taker *taker, struct rlock *lock, int64_t wait_ms,
                  struct rlock_cancel *cancel)
{
    taker->lock = lock;
    taker->take = (struct rlock_take){
        .size = sizeof(taker->take), .wait_ms = wait_ms, .owner = OWNER, .cancel = cancel};
    atomic_store(&taker->code, 1);
    TEST_CHECK(pthread_create(&taker->thread, NULL, taker_main, taker) == 0);
}

static int end(struct taker *taker)
{
    TEST_CHECK(pthread_join(taker->thread, NULL) == 0);
    return atomic_load(&taker->code);
}

/* Somebody else holds a member, and a call of the owner waits for it. */
static void wait_behind(struct scene *scene, struct taker *first)
{
    assert_code(
        rlock_lock_with(scene->members[0], RLOCK_TAKE(.owner = OTHER, .wait_ms = 5000), NULL), 0);
    begin(first, scene->multi, RLOCK_FOREVER, NULL);
    assert_true(TEST_EVENTUALLY(
        test_server_says(scene->fleet.servers[0], "redisson_lock__channel:{m}", "PUBSUB CHANNELS"),
        5000));
}

static void a_call_waits_for_the_one_before_it(void **state)
{
    struct scene scene;
    struct taker first, second;

    (void)state;
    open_scene(&scene);
    wait_behind(&scene, &first);
    begin(&second, scene.multi, RLOCK_FOREVER, NULL);
    assert_code(rlock_unlock_as(scene.members[0], OTHER), 0);
    assert_code(end(&first), 0);
    assert_code(end(&second), 0);
    assert_int_equal(rlock_hold_count_as(scene.multi, OWNER), 2);
    assert_code(rlock_unlock_as(scene.multi, OWNER), 0);
    assert_code(rlock_unlock_as(scene.multi, OWNER), 0);
    close_scene(&scene);
}

static void its_wait_ends_at_its_deadline(void **state)
{
    struct scene scene;
    struct taker first;

    (void)state;
    open_scene(&scene);
    wait_behind(&scene, &first);
    assert_code(rlock_lock_with(scene.multi, RLOCK_TAKE(.owner = OWNER, .wait_ms = 100), NULL),
                RLOCK_ETIMEDOUT);
    assert_int_equal(atomic_load(&first.code), 1);
    assert_code(rlock_unlock_as(scene.members[0], OTHER), 0);
    assert_code(end(&first), 0);
    assert_code(rlock_unlock_as(scene.multi, OWNER), 0);
    close_scene(&scene);
}

static void its_wait_can_be_cancelled(void **state)
{
    struct scene scene;
    struct taker first, second;
    struct rlock_cancel *cancel;

    (void)state;
    open_scene(&scene);
    assert_code(rlock_cancel_new(&cancel), 0);
    wait_behind(&scene, &first);
    begin(&second, scene.multi, RLOCK_FOREVER, cancel);
    rlock_cancel_fire(cancel);
    assert_code(end(&second), RLOCK_ECANCELED);
    assert_int_equal(atomic_load(&first.code), 1);
    assert_code(rlock_unlock_as(scene.members[0], OTHER), 0);
    assert_code(end(&first), 0);
    assert_code(rlock_unlock_as(scene.multi, OWNER), 0);
    cancel = rlock_cancel_free(cancel);
    close_scene(&scene);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_waits_for_the_one_before_it),
        cmocka_unit_test(its_wait_ends_at_its_deadline),
        cmocka_unit_test(its_wait_can_be_cancelled),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
