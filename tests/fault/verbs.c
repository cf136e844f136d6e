/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/verbs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <lua_scripts.h>
#include <cmocka.h>

static int run_try(const struct actor *actor)
{
    return rlock_try_lock(actor->lock);
}

static int run_unlock(const struct actor *actor)
{
    return rlock_unlock(actor->lock);
}

static int run_force(const struct actor *actor)
{
    bool was_locked = false;
    int code = rlock_force_unlock(actor->lock, &was_locked);

    TEST_CHECK(code != 0 || was_locked);
    return code;
}

static int run_inspect(const struct actor *actor)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    int code = rlock_inspect(actor->lock, &info);

    TEST_CHECK(code != 0 || (info.locked && info.mine && info.count == 1));
    return code;
}

const struct verb verb_acquire = {
    .name = "acquire", .script = "acquire", .run = run_try, .count_after = 1};
const struct verb verb_nested = {
    .name = "nested acquire", .script = "acquire", .held = 1, .run = run_try, .count_after = 2};
const struct verb verb_partial = {
    .name = "partial release", .script = "release", .held = 2, .run = run_unlock, .count_after = 1};
const struct verb verb_release = {
    .name = "release", .script = "release", .held = 1, .run = run_unlock, .count_after = 0};
const struct verb verb_force = {.name = "force",
                                .script = "force",
                                .by_hand = true,
                                .once = true,
                                .run = run_force,
                                .count_after = 0};
const struct verb verb_inspect = {
    .name = "inspect", .script = "inspect", .held = 1, .run = run_inspect, .count_after = 1};

const struct verb *const verbs[] = {&verb_acquire, &verb_nested,  &verb_partial, &verb_release,
                                    &verb_force,   &verb_inspect, NULL};

void verbs_load(const struct scene *scene)
{
    for (size_t i = 0; rlock__scripts[i] != NULL; i++) {
        const char *argv[] = {"SCRIPT", "LOAD", rlock__scripts[i]->body, NULL};
        char *sha1 = test_server_argv(scene->server, argv);

        assert_string_equal(sha1, rlock__scripts[i]->sha1);
        free(sha1);
    }
}

const char *script_digest(const char *verb)
{
    for (size_t i = 0; rlock__scripts[i] != NULL; i++) {
        const char *name = rlock__scripts[i]->name;
        const char *slash = strchr(name, '/');

        if (strcmp(slash + 1, verb) == 0 &&
            (strncmp(name, "plain/", 6) == 0 || strncmp(name, "reentrant/", 10) == 0)) {
            return rlock__scripts[i]->sha1;
        }
    }
    test_die("no script for %s", verb);
}

struct proxy_rule script_rule(const char *verb, enum proxy_act act)
{
    return (struct proxy_rule){.act = act, .command = "EVALSHA", .contains = script_digest(verb)};
}

void verb_prepare(const struct verb *verb, const struct actor *actor)
{
    for (unsigned int i = 0; i < verb->held; i++) {
        assert_code(rlock_try_lock(actor->lock), 0);
    }
    if (verb->by_hand) {
        scene_take_by_hand(actor->scene, 60000);
    }
}

void verb_clean_up(const struct actor *actor)
{
    while (rlock_hold_count(actor->lock) > 0) {
        assert_code(rlock_unlock(actor->lock), 0);
    }
    free(test_server_cmd(actor->scene->server, "HDEL " SCENE_NAME " somebody:1"));
    assert_false(scene_is_held(actor->scene));
}
