/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/verbs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <lua_scripts.h>
#include <cmocka.h>

static int run_try(const struct user *user)
{
    return rlock_try_lock(user->lock);
}

static int run_unlock(const struct user *user)
{
    return rlock_unlock(user->lock);
}

static int run_force(const struct user *user)
{
    bool was_locked = false;
    int code = rlock_force_unlock(user->lock, &was_locked);

    TEST_CHECK(code != 0 || was_locked);
    return code;
}

static int run_inspect(const struct user *user)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    int code = rlock_inspect(user->lock, &info);

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

void verbs_load(const struct fixture *f)
{
    for (size_t i = 0; rlock__scripts[i] != NULL; i++) {
        const char *argv[] = {"SCRIPT", "LOAD", rlock__scripts[i]->body, NULL};
        char *sha1 = test_server_argv(f->server, argv);

        assert_string_equal(sha1, rlock__scripts[i]->sha1);
        free(sha1);
    }
}

const char *script_digest(const char *verb)
{
    static const struct {
        const char *verb, *name;
    } scripts[] = {{"acquire", "plain/acquire"}, {"enter", "queue/acquire"},
                   {"release", "queue/release"}, {"renew", "plain/renew"},
                   {"force", "queue/force"},     {"inspect", "plain/inspect"}};
    const char *name = NULL;

    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        name = strcmp(scripts[i].verb, verb) == 0 ? scripts[i].name : name;
    }
    for (size_t i = 0; name != NULL && rlock__scripts[i] != NULL; i++) {
        if (strcmp(rlock__scripts[i]->name, name) == 0) {
            return rlock__scripts[i]->sha1;
        }
    }
    test_die("no script for %s", verb);
}

struct proxy_rule script_rule(const char *verb, enum proxy_act act)
{
    return (struct proxy_rule){.act = act, .command = "EVALSHA", .contains = script_digest(verb)};
}

void verb_prepare(const struct verb *verb, const struct user *user)
{
    for (unsigned int i = 0; i < verb->held; i++) {
        assert_code(rlock_try_lock(user->lock), 0);
    }
    if (verb->by_hand) {
        fixture_take_by_hand(user->f, 60000);
    }
}

void verb_clean_up(const struct user *user)
{
    while (rlock_hold_count(user->lock) > 0) {
        assert_code(rlock_unlock(user->lock), 0);
    }
    test_server_do(user->f->server, "HDEL " LOCK_A " somebody:1");
    assert_true(fixture_wait_held(user->f, false)); /* what was refused is tried again */
}
