/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer, or something on the way to it, that says what it should not: a reply to nothing, a reply
 * twice, or what is no answer of the script that was asked. None of it grants or releases anything,
 * and none of it is taken for the answer to something else.
 */
#include "fault/scene.h"
#include "fault/verbs.h"
#include "support/test.h"

struct lies {
    struct scene scene;
    struct actor actor; /* behind the proxy */
    struct actor rival; /* straight to the server */
};

static void lies_open(struct lies *lies)
{
    scene_open(&lies->scene, &(struct scene_opts){.proxied = true});
    verbs_load(&lies->scene);
    actor_open(&lies->actor, &lies->scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack()));
    actor_open(&lies->rival, &lies->scene,
               RLOCK_CLIENT_OPTS(.url = test_server_url(lies->scene.server)));
}

static void lies_close(struct lies *lies)
{
    assert_code(actor_visit(&lies->rival, RLOCK_TAKE(.wait_ms = 10000)), 0);
    assert_code(actor_visit(&lies->actor, RLOCK_TAKE(.wait_ms = 10000)), 0);
    actor_close(&lies->actor);
    actor_close(&lies->rival);
    scene_close(&lies->scene);
}

/* ---- Replies to nothing ---- */

/* The reply to a release comes once more, or so many bytes of it, when the client awaits
 * nothing. */
static void echo_a_release(struct lies *lies, size_t at)
{
    struct proxy_rule rule = script_rule("release", PROXY_ECHO_REPLY);
    uint64_t echoes = proxy_stats(lies->scene.proxy).echoes;

    rule.at = at;
    rule.delay_us = 1000;
    assert_code(rlock_try_lock(lies->actor.lock), 0);
    proxy_add(lies->scene.proxy, &rule);
    assert_code(rlock_unlock(lies->actor.lock), 0);
    assert_true(TEST_EVENTUALLY(proxy_stats(lies->scene.proxy).echoes == echoes + 1, 5000));
}

TEST(a_reply_that_comes_once_more_answers_nothing_else)
{
    /* all of it; a part that waits for its end; a part that the next reply would go on with */
    static const size_t parts[] = {0, 1, 5};
    struct lies lies;

    lies_open(&lies);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct rlock_info info = RLOCK_INFO_INIT;
        uint64_t accepted;

        echo_a_release(&lies, parts[i]);
        accepted = proxy_stats(lies.scene.proxy).accepted;
        assert_code(rlock_try_lock(lies.rival.lock), 0);
        assert_code(rlock_try_lock(lies.actor.lock), RLOCK_EBUSY);
        assert_false(actor_step(&lies.actor));
        assert_code(rlock_inspect(lies.actor.lock, &info), 0);
        assert_true(info.locked && !info.mine);
        assert_true(actor_step(&lies.rival));
        assert_code(rlock_unlock(lies.rival.lock), 0);
        assert_code(actor_visit(&lies.actor, NULL), 0);
        /* the link anew, and once for the holder's address */
        assert_int_equal(proxy_stats(lies.scene.proxy).accepted, accepted + 2);
    }
    lies_close(&lies);
}

/* Nobody calls, and the link is closed all the same: what came on it is no secret for long. */
TEST(a_reply_on_a_link_that_nobody_uses_ends_it)
{
    struct lies lies;
    struct proxy_rule rule = script_rule("release", PROXY_ECHO_REPLY);

    lies_open(&lies);
    rule.delay_us = 10000;
    assert_code(rlock_try_lock(lies.actor.lock), 0);
    proxy_add(lies.scene.proxy, &rule);
    assert_code(rlock_unlock(lies.actor.lock), 0);
    assert_int_equal(proxy_stats(lies.scene.proxy).accepted, 1);
    assert_true(TEST_EVENTUALLY(proxy_stats(lies.scene.proxy).accepted == 2, 5000));
    lies_close(&lies);
}

/* ---- Replies of another shape ---- */

static const char *const nonsense[] = {
    ":1\r\n",
    "+OK\r\n",
    "#t\r\n",
    "$1\r\n1\r\n",
    "$-1\r\n",
    "*0\r\n",
    "*1\r\n#t\r\n",
    "*1\r\n+1\r\n",
    "*1\r\n$1\r\n1\r\n",
    "*1\r\n*1\r\n:1\r\n",
    "*3\r\n:1\r\n:1\r\n:1\r\n",
    "*3\r\n:0\r\n:1000\r\n:1\r\n",
    "*2\r\n:1\r\n+OK\r\n",
    "%1\r\n:1\r\n:1\r\n",
    "HTTP/1.0 400 Bad Request\r\n\r\n",
};

#define NONSENSE (sizeof(nonsense) / sizeof(nonsense[0]))

/* The next reply to the script is that. Returns a rule that counts how often the script goes
 * out. */
static int lie(struct lies *lies, const char *script, const char *bytes)
{
    struct proxy_rule count = script_rule(script, PROXY_PASS);
    struct proxy_rule rule = script_rule(script, PROXY_REPLACE_REPLY);
    int number = proxy_add(lies->scene.proxy, &count);

    rule.bytes = bytes;
    rule.len = strlen(bytes);
    proxy_add(lies->scene.proxy, &rule);
    return number;
}

TEST(an_answer_of_another_shape_grants_nothing_and_is_not_asked_for_again)
{
    struct lies lies;

    lies_open(&lies);
    for (size_t i = 0; i < 2 * NONSENSE; i++) {
        bool free = i % 2 == 0;
        int sent = lie(&lies, "acquire", nonsense[i / 2]);

        if (!free) {
            assert_code(rlock_try_lock(lies.rival.lock), 0);
        }
        assert_code(rlock_lock_with(lies.actor.lock, RLOCK_TAKE(.wait_ms = 20000), NULL),
                    RLOCK_EINDOUBT);
        assert_detail("lock " SCENE_NAME);
        assert_false(actor_step(&lies.actor));
        assert_int_equal(rlock_hold_count(lies.actor.lock), 0);
        if (!free) {
            assert_true(actor_step(&lies.rival));
            assert_code(rlock_unlock(lies.rival.lock), 0);
        }
        assert_true(scene_wait_held(&lies.scene, false)); /* what it was granted is given back */
        assert_int_equal(proxy_fired(lies.scene.proxy, sent), 1);
        proxy_remove(lies.scene.proxy, sent);
    }
    lies_close(&lies);
}

TEST(an_unlock_whose_answer_is_of_another_shape_is_in_doubt)
{
    struct lies lies;

    lies_open(&lies);
    for (size_t i = 0; i < NONSENSE; i++) {
        int sent, code;

        assert_code(rlock_try_lock(lies.actor.lock), 0);
        sent = lie(&lies, "release", nonsense[i]);
        assert_code(rlock_unlock(lies.actor.lock), RLOCK_EINDOUBT);
        assert_false(rlock_is_valid(lies.actor.lock));
        assert_code(rlock_lock_with(lies.rival.lock, RLOCK_TAKE(.wait_ms = 20000), NULL), 0);
        code = rlock_unlock(lies.actor.lock); /* an earlier copy did it: nothing is there */
        assert_true(code == 0 || code == RLOCK_ENOTOWNER);
        assert_false(actor_step(&lies.actor));
        assert_true(actor_step(&lies.rival));
        assert_code(rlock_unlock(lies.rival.lock), 0);
        assert_true(TEST_EVENTUALLY(proxy_fired(lies.scene.proxy, sent) == 2, 5000));
        proxy_remove(lies.scene.proxy, sent);
    }
    assert_int_equal(actor_losses(&lies.actor), 0);
    lies_close(&lies);
}

TEST(a_level_whose_unlock_has_an_answer_of_another_shape_is_in_doubt)
{
    struct lies lies;

    lies_open(&lies);
    for (size_t i = 0; i < NONSENSE; i++) {
        int sent;

        assert_code(rlock_try_lock(lies.actor.lock), 0);
        assert_code(rlock_try_lock(lies.actor.lock), 0);
        sent = lie(&lies, "release", nonsense[i]);
        assert_code(rlock_unlock(lies.actor.lock), RLOCK_EINDOUBT);
        assert_int_equal(rlock_hold_count(lies.actor.lock), 1);
        assert_true(actor_step(&lies.actor));
        assert_code(rlock_unlock(lies.actor.lock), 0);
        assert_false(scene_is_held(&lies.scene));
        assert_int_equal(proxy_fired(lies.scene.proxy, sent), 2);
        proxy_remove(lies.scene.proxy, sent);
    }
    lies_close(&lies);
}

TEST(a_look_and_a_forced_unlock_with_answers_of_another_shape_do_not_say_yes)
{
    struct lies lies;

    lies_open(&lies);
    for (size_t i = 0; i < NONSENSE; i++) {
        struct rlock_info info = RLOCK_INFO_INIT;
        bool was_locked = false;

        assert_code(rlock_try_lock(lies.rival.lock), 0);
        proxy_remove(lies.scene.proxy, lie(&lies, "inspect", nonsense[i]));
        assert_code(rlock_inspect(lies.actor.lock, &info), RLOCK_ECONN);
        proxy_remove(lies.scene.proxy, lie(&lies, "force", nonsense[i]));
        assert_code(rlock_force_unlock(lies.actor.lock, &was_locked), RLOCK_EINDOUBT);
        assert_false(was_locked);
        (void)rlock_unlock(lies.rival.lock); /* it was forced, and may not know it */
    }
    lies_close(&lies);
}

/* A link that only lies is not made anew in a loop. */
TEST(a_link_that_always_lies_is_remade_with_pauses)
{
    struct lies lies;
    struct proxy_rule rule = {.act = PROXY_REPLACE_REPLY,
                              .command = "EVALSHA",
                              .bytes = ":1\r\n",
                              .len = 4,
                              .times = PROXY_ALWAYS};
    struct actor actor;
    int number, calls = 0;
    int64_t began_us = test_now_us();

    lies_open(&lies);
    number = proxy_add(lies.scene.proxy, &rule);
    /* what it may have left is released with each renewal tick: a third of the lease */
    actor_open(&actor, &lies.scene,
               RLOCK_CLIENT_OPTS(.op_timeout_ms = 300 * test_slack(), .renewed_lease_ms = 1500));
    while (test_now_us() - began_us < 1500000) {
        assert_true(rlock_try_lock(actor.lock) != 0);
        calls++;
    }
    assert_true(proxy_stats(lies.scene.proxy).accepted <= 60); /* pauses of 10 ms, and growing */
    assert_true(calls >= 1);
    proxy_remove(lies.scene.proxy, number);
    actor_close(&actor);
    lies_close(&lies);
}

/* What others asked for on the same link is asked for again on the next. */
TEST(a_lie_to_one_call_costs_the_others_nothing)
{
    struct lies lies;
    struct crew crew = {.actor = &lies.actor, .rounds = 60};
    struct rlock *liar;
    struct proxy_rule rule = {.act = PROXY_REPLACE_REPLY,
                              .command = "EVALSHA",
                              .contains = "liar",
                              .bytes = "*1\r\n+1\r\n",
                              .len = 8,
                              .times = PROXY_ALWAYS};
    const struct rlock_take take = {.size = sizeof(take), .wait_ms = 20000};

    lies_open(&lies);
    crew.take = &take;
    liar = actor_lock(&lies.actor, "liar");
    proxy_add(lies.scene.proxy, &rule);
    crew_start(&crew, 4);
    for (int i = 0; i < 5; i++) {
        assert_code(rlock_lock_with(liar, RLOCK_TAKE(.wait_ms = 20000), NULL), RLOCK_EINDOUBT);
    }
    crew_join(&crew);
    assert_int_equal(atomic_load(&crew.failures), 0);
    assert_int_equal(atomic_load(&crew.visits), 240);
    free(test_server_cmd(lies.scene.server, "DEL liar"));
    liar = rlock_free(liar);
    lies_close(&lies);
}
