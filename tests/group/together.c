/* SPDX-License-Identifier: Apache-2.0 */
#include "group/together.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct rlock_client_opts usual = {.size = sizeof(usual)};

void open_scene(struct scene *scene)
{
    struct crew *crews[] = {&scene->one, &scene->two};

    fleet_open(&scene->fleet, &(struct fleet_opts){.n = 1, .proxied = true});
    for (size_t i = 0; i < 2; i++) {
        crew_open(crews[i], &scene->fleet, usual, -1);
        scene->b[i] = crew_lock(crews[i], 0, "b");
        assert_code(rlock_multi_new((struct rlock *[]){scene->b[i], crews[i]->members[0]}, 2, NULL,
                                    &scene->multi[i]),
                    0);
        assert_code(rlock_try_lock(scene->multi[i]), 0); /* connected, scripts known */
        assert_code(rlock_unlock(scene->multi[i]), 0);
    }
}

void close_scene(struct scene *scene)
{
    assert_true(TEST_EVENTUALLY(fleet_holding(&scene->fleet, "a") == 0, 5000));
    assert_true(TEST_EVENTUALLY(fleet_holding(&scene->fleet, "b") == 0, 5000));
    for (size_t i = 0; i < 2; i++) {
        scene->multi[i] = rlock_free(scene->multi[i]);
        scene->b[i] = rlock_free(scene->b[i]);
    }
    crew_close(&scene->one);
    crew_close(&scene->two);
    fleet_close(&scene->fleet);
}

uint64_t requests(const struct scene *scene)
{
    return proxy_stats(scene->fleet.proxies[0]).requests;
}

void *lock_and_unlock(void *arg)
{
    struct rlock *multi = arg;

    TEST_CHECK(rlock_lock_with(multi, RLOCK_TAKE(.wait_ms = 20000), NULL) == 0);
    TEST_CHECK(rlock_is_valid(multi));
    TEST_CHECK(rlock_unlock(multi) == 0);
    return NULL;
}
