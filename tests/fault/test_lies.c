/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer, or something on the way to it, that says what it should not: a reply to nothing, a reply
 * twice, or what is no answer of the script that was asked. None of it grants or releases anything,
 * and none of it is taken for the answer to something else.
 */
#include "fault/verbs.h"
#include "support/waiter.h"

struct lies {
    struct fixture f;
    struct user *user;  /* behind the proxy */
    struct user *rival; /* straight to the server */
};

static void lies_open(struct lies *lies)
{
    fixture_open(&lies->f, &(struct fixture_opts){.proxy = PROXY_AS_LEG});
    verbs_load(&lies->f);
    lies->user = user_open(&lies->f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack()));
    lies->rival = user_open(&lies->f, *RLOCK_CLIENT_OPTS(.url = test_server_url(lies->f.server)));
}

static void lies_close(struct lies *lies)
{
    assert_code(user_visit(lies->rival, 10000, NULL), 0);
    assert_code(user_visit(lies->user, 10000, NULL), 0);
    fixture_close(&lies->f);
}

#define LIES_TEST(name, lies)                                                                      \
    TEST_AROUND(name, struct lies, lies, lies_open(lies), lies_close(lies))

/* ---- Replies to nothing ---- */

/* The reply to a release comes once more, or so many bytes of it, when the client awaits
 * nothing. */
static void echo_a_release(struct lies *lies, size_t at)
{
    struct proxy_rule rule = script_rule("release", PROXY_ECHO_REPLY);
    uint64_t echoes = proxy_stats(lies->f.proxy).echoes;

    rule.at = at;
    rule.delay_us = 1000;
    assert_code(rlock_try_lock(lies->user->lock), 0);
    proxy_add(lies->f.proxy, &rule);
    assert_code(rlock_unlock(lies->user->lock), 0);
    assert_true(TEST_EVENTUALLY(proxy_stats(lies->f.proxy).echoes == echoes + 1, 5000));
}

LIES_TEST(a_reply_that_comes_once_more_answers_nothing_else, lies)
{
    /* all of it; a part that waits for its end; a part that the next reply would go on with */
    static const size_t parts[] = {0, 1, 5};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct rlock_info info = RLOCK_INFO_INIT;
        uint64_t accepted;

        echo_a_release(lies, parts[i]);
        accepted = proxy_stats(lies->f.proxy).accepted;
        assert_code(rlock_try_lock(lies->rival->lock), 0);
        assert_code(rlock_try_lock(lies->user->lock), RLOCK_EBUSY);
        assert_false(user_step(lies->user));
        assert_code(rlock_inspect(lies->user->lock, &info), 0);
        assert_true(info.locked && !info.mine);
        assert_true(user_step(lies->rival));
        assert_code(rlock_unlock(lies->rival->lock), 0);
        assert_code(user_visit(lies->user, 0, NULL), 0);
        /* the link anew, and once for the holder's address */
        assert_int_equal(proxy_stats(lies->f.proxy).accepted, accepted + 2);
    }
}

/* Nobody calls, and the link is closed all the same: what came on it is no secret for long. */
LIES_TEST(a_reply_on_a_link_that_nobody_uses_ends_it, lies)
{
    struct proxy_rule rule = script_rule("release", PROXY_ECHO_REPLY);

    rule.delay_us = 10000;
    assert_code(rlock_try_lock(lies->user->lock), 0);
    proxy_add(lies->f.proxy, &rule);
    assert_code(rlock_unlock(lies->user->lock), 0);
    assert_int_equal(proxy_stats(lies->f.proxy).accepted, 1);
    assert_true(TEST_EVENTUALLY(proxy_stats(lies->f.proxy).accepted == 2, 5000));
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
    "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
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
    int number = proxy_add(lies->f.proxy, &count);

    rule.bytes = bytes;
    rule.len = strlen(bytes);
    proxy_add(lies->f.proxy, &rule);
    return number;
}

LIES_TEST(an_answer_of_another_shape_grants_nothing_and_is_not_asked_for_again, lies)
{
    for (size_t i = 0; i < 2 * NONSENSE; i++) {
        bool free = i % 2 == 0;
        int sent = lie(lies, "acquire", nonsense[i / 2]);

        if (!free) {
            assert_code(rlock_try_lock(lies->rival->lock), 0);
        }
        assert_code(rlock_lock_for(lies->user->lock, 20000, NULL, NULL), RLOCK_EINDOUBT);
        assert_detail("lock " LOCK_A);
        assert_false(user_step(lies->user));
        assert_int_equal(rlock_hold_count(lies->user->lock), 0);
        if (!free) {
            assert_true(user_step(lies->rival));
            assert_code(rlock_unlock(lies->rival->lock), 0);
        }
        assert_true(fixture_wait_held(&lies->f, false)); /* what it was granted is given back */
        assert_int_equal(proxy_fired(lies->f.proxy, sent), 1);
        proxy_remove(lies->f.proxy, sent);
    }
}

LIES_TEST(an_unlock_whose_answer_is_of_another_shape_is_in_doubt, lies)
{
    for (size_t i = 0; i < NONSENSE; i++) {
        int sent, code;

        assert_code(rlock_try_lock(lies->user->lock), 0);
        sent = lie(lies, "release", nonsense[i]);
        assert_code(rlock_unlock(lies->user->lock), RLOCK_EINDOUBT);
        assert_false(rlock_is_valid(lies->user->lock));
        assert_code(rlock_lock_for(lies->rival->lock, 20000, NULL, NULL), 0);
        code = rlock_unlock(lies->user->lock); /* an earlier copy did it: nothing is there */
        assert_true(code == 0 || code == RLOCK_ENOTOWNER);
        assert_false(user_step(lies->user));
        assert_true(user_step(lies->rival));
        assert_code(rlock_unlock(lies->rival->lock), 0);
        assert_true(TEST_EVENTUALLY(proxy_fired(lies->f.proxy, sent) == 2, 5000));
        proxy_remove(lies->f.proxy, sent);
    }
    assert_int_equal(user_losses(lies->user), 0);
}

LIES_TEST(a_level_whose_unlock_has_an_answer_of_another_shape_is_in_doubt, lies)
{
    for (size_t i = 0; i < NONSENSE; i++) {
        int sent;

        assert_code(rlock_try_lock(lies->user->lock), 0);
        assert_code(rlock_try_lock(lies->user->lock), 0);
        sent = lie(lies, "release", nonsense[i]);
        assert_code(rlock_unlock(lies->user->lock), RLOCK_EINDOUBT);
        assert_int_equal(rlock_hold_count(lies->user->lock), 1);
        assert_true(user_step(lies->user));
        assert_code(rlock_unlock(lies->user->lock), 0);
        assert_false(fixture_is_held(&lies->f));
        assert_int_equal(proxy_fired(lies->f.proxy, sent), 2);
        proxy_remove(lies->f.proxy, sent);
    }
}

LIES_TEST(a_look_and_a_forced_unlock_with_answers_of_another_shape_do_not_say_yes, lies)
{
    for (size_t i = 0; i < NONSENSE; i++) {
        struct rlock_info info = RLOCK_INFO_INIT;
        bool was_locked = false;

        assert_code(rlock_try_lock(lies->rival->lock), 0);
        proxy_remove(lies->f.proxy, lie(lies, "inspect", nonsense[i]));
        assert_code(rlock_inspect(lies->user->lock, &info), RLOCK_ECONN);
        proxy_remove(lies->f.proxy, lie(lies, "force", nonsense[i]));
        assert_code(rlock_force_unlock(lies->user->lock, &was_locked), RLOCK_EINDOUBT);
        assert_false(was_locked);
        (void)rlock_unlock(lies->rival->lock); /* it was forced, and may not know it */
    }
}

/* A link that only lies is not made anew in a loop. */
LIES_TEST(a_link_that_always_lies_is_remade_with_pauses, lies)
{
    struct proxy_rule rule = {.act = PROXY_REPLACE_REPLY,
                              .command = "EVALSHA",
                              .bytes = ":1\r\n",
                              .len = 4,
                              .times = PROXY_ALWAYS};
    struct user *user;
    int number, calls = 0;
    int64_t began_us = test_now_us();

    number = proxy_add(lies->f.proxy, &rule);
    /* what it may have left is released with each renewal tick: a third of the lease */
    user = user_open(&lies->f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 300 * test_slack(),
                                                  .renewed_lease_ms = 1500));
    while (test_now_us() - began_us < 1500000) {
        assert_true(rlock_try_lock(user->lock) != 0);
        calls++;
    }
    assert_true(proxy_stats(lies->f.proxy).accepted <= 60); /* pauses of 10 ms, and growing */
    assert_true(calls >= 1);
    proxy_remove(lies->f.proxy, number);
    user_close(user);
}

/* What others asked for on the same link is asked for again on the next. */
LIES_TEST(a_lie_to_one_call_costs_the_others_nothing, lies)
{
    struct crew crew = {.rounds = 60};
    struct rlock_handle *liar;
    struct proxy_rule rule = {.act = PROXY_REPLACE_REPLY,
                              .command = "EVALSHA",
                              .contains = "liar",
                              .bytes = "*1\r\n+1\r\n",
                              .len = 8,
                              .times = PROXY_ALWAYS};
    const int64_t wait_ms = 20000;

    crew.wait_ms = wait_ms;
    liar = user_lock(lies->user, "liar");
    proxy_add(lies->f.proxy, &rule);
    crew_start(&crew, lies->user, 4);
    for (int i = 0; i < 5; i++) {
        assert_code(rlock_lock_for(liar, 20000, NULL, NULL), RLOCK_EINDOUBT);
    }
    crew_join(&crew);
    assert_int_equal(atomic_load(&crew.failures), 0);
    assert_int_equal(atomic_load(&crew.visits), 240);
    proxy_remove_all(lies->f.proxy); /* so that close learns what became of them */
    test_server_do(lies->f.server, "DEL liar");
}
