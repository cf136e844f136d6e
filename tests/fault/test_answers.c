/* SPDX-License-Identifier: Apache-2.0 */
/* What a call says of a server that answers, and does not do what it was asked; and of one that
 * does not answer. */
#include "fault/scene.h"
#include "fault/verbs.h"
#include "support/test.h"

static void open_pair(struct scene *scene, struct actor *actor, struct actor *rival)
{
    scene_open(scene, &(struct scene_opts){.proxied = true});
    verbs_load(scene);
    actor_open(actor, scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = 300 * test_slack()));
    actor_open_direct(rival, scene);
}

static void close_pair(struct scene *scene, struct actor *actor, struct actor *rival)
{
    actor_close(actor);
    actor_close(rival);
    scene_close(scene);
}

/* Each attempt from here on is answered so. */
static int answer_attempts(const struct scene *scene, const char *bytes)
{
    struct proxy_rule rule = script_rule("acquire", PROXY_REPLACE_REPLY);

    rule.bytes = bytes;
    rule.len = strlen(bytes);
    rule.times = PROXY_ALWAYS;
    return proxy_add(scene->proxy, &rule);
}

TEST(the_latest_answer_of_the_server_stands_in_the_detail)
{
    static const struct {
        const char *bytes, *word, *hint;
        int code;
    } answers[] = {
        {"-LOADING Redis is loading the dataset in memory\r\n", "LOADING", "loading its data",
         RLOCK_ECONN},
        {"-BUSY Redis is busy running a script.\r\n", "BUSY", "slow script", RLOCK_ECONN},
        {"-READONLY You can't write against a read only replica.\r\n", "READONLY", "a replica",
         RLOCK_ECONN},
        {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "OOM", "maxmemory",
         RLOCK_EREFUSED},
        {"-NOREPLICAS Not enough good replicas to write.\r\n", "NOREPLICAS", "misses replicas",
         RLOCK_EREFUSED},
    };
    struct scene scene;
    struct actor actor, rival;

    open_pair(&scene, &actor, &rival);
    assert_code(rlock_try_lock(rival.lock), 0);
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        int rule;

        assert_code(rlock_try_lock(actor.lock), RLOCK_EBUSY); /* somebody has it, by then */
        rule = answer_attempts(&scene, answers[i].bytes);
        assert_code(rlock_lock_with(actor.lock, RLOCK_TAKE(.wait_ms = 100), NULL), answers[i].code);
        assert_detail(answers[i].word);
        assert_detail(answers[i].hint);
        assert_code(rlock_try_lock(actor.lock), answers[i].code);
        assert_detail(answers[i].word);
        assert_detail(answers[i].hint);
        proxy_remove(scene.proxy, rule);
    }
    assert_code(rlock_unlock(rival.lock), 0);
    close_pair(&scene, &actor, &rival);
}

/* Nothing was waited for, so that nothing can have timed out. */
TEST(a_call_that_does_not_wait_never_says_that_it_timed_out)
{
    struct scene scene;
    struct actor actor, rival;

    open_pair(&scene, &actor, &rival);
    for (int i = 0; i < 4; i++) {
        struct proxy_rule rule =
            script_rule("acquire", i % 2 == 0 ? PROXY_DROP_REQUEST : PROXY_DROP_REPLY);
        int number, code;

        rule.times = PROXY_ALWAYS;
        number = proxy_add(scene.proxy, &rule);
        code = rlock_try_lock(actor.lock);
        assert_true(code == RLOCK_ECONN || code == RLOCK_EINDOUBT);
        assert_null(strstr(rlock_detail(), "not connected yet"));
        proxy_remove(scene.proxy, number);
        assert_true(scene_wait_held(&scene, false));
    }
    close_pair(&scene, &actor, &rival);
}

/* The acknowledgement of its channel is as long as that, and more. */
TEST(who_waits_for_the_longest_name_keeps_its_connections)
{
    enum { LEN = 65536 };
    struct scene scene;
    struct actor actor, rival;
    struct rlock *held = NULL;
    char *name = malloc(LEN);
    struct waiter waiter;
    uint64_t accepted;
    int64_t began_us;

    assert_non_null(name);
    memset(name, 'n', LEN);
    open_pair(&scene, &actor, &rival);
    actor.lock = rlock_free(actor.lock);
    assert_code(rlock_reentrant_new(actor.client, name, &RLOCK_OPTS(.name_len = LEN), &actor.lock),
                0);
    assert_code(rlock_reentrant_new(rival.client, name, &RLOCK_OPTS(.name_len = LEN), &held), 0);
    assert_code(rlock_try_lock(held), 0);
    waiter_start(&waiter, &actor, RLOCK_TAKE(.wait_ms = 20000));
    assert_true(proxy_wait_subscribers(scene.proxy, 1, 5000));
    accepted = proxy_stats(scene.proxy).accepted;
    began_us = test_now_us();
    assert_true(TEST_EVENTUALLY(test_elapsed_us(began_us) > 300000, 5000));
    assert_code(rlock_unlock(held), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(proxy_stats(scene.proxy).accepted, accepted);
    held = rlock_free(held);
    free(name);
    close_pair(&scene, &actor, &rival);
}
