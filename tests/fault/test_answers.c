/* SPDX-License-Identifier: Apache-2.0 */
/* What a call says of a server that answers, and does not do what it was asked; and of one that
 * does not answer. */
#include "fault/verbs.h"
#include "support/waiter.h"

static struct user *open_user(struct fixture *f)
{
    verbs_load(f);
    return user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(300)));
}

/* Each attempt from here on is answered so. */
static int answer_attempts(const struct fixture *f, const char *bytes)
{
    struct proxy_rule rule = script_rule("acquire", PROXY_REPLACE_REPLY);

    rule.bytes = bytes;
    rule.len = strlen(bytes);
    rule.times = PROXY_ALWAYS;
    return proxy_add(f->proxy, &rule);
}

FIXTURE_WITH_TEST(the_latest_answer_of_the_server_stands_in_the_detail, f, .proxy = PROXY_AS_LEG)
{
    struct user *user = open_user(f), *rival = user_open_direct(f);
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

    assert_code(rlock_try_lock(rival->lock), 0);
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        int rule;

        /* somebody has it, by then; a replica's link was given up, and is made again */
        assert_true(TEST_EVENTUALLY(rlock_try_lock(user->lock) == RLOCK_EBUSY, 10000));
        rule = answer_attempts(f, answers[i].bytes);
        assert_code(rlock_lock_for(user->lock, 100, NULL, NULL),
                    answers[i].code == RLOCK_ECONN ? RLOCK_ETIMEDOUT : answers[i].code);
        assert_detail(answers[i].word);
        assert_detail(answers[i].hint);
        assert_code(rlock_try_lock(user->lock), answers[i].code);
        assert_detail(answers[i].word);
        assert_detail(answers[i].hint);
        proxy_remove(f->proxy, rule);
    }
    assert_code(rlock_unlock(rival->lock), 0);
}

/* Nothing was waited for, so that nothing can have timed out. */
FIXTURE_WITH_TEST(a_call_that_does_not_wait_never_says_that_it_timed_out, f, .proxy = PROXY_AS_LEG)
{
    struct user *user = open_user(f);

    for (int i = 0; i < 4; i++) {
        struct proxy_rule rule =
            script_rule("acquire", i % 2 == 0 ? PROXY_DROP_REQUEST : PROXY_DROP_REPLY);
        int number, code;

        rule.times = PROXY_ALWAYS;
        number = proxy_add(f->proxy, &rule);
        code = rlock_try_lock(user->lock);
        assert_true(code == RLOCK_ECONN || code == RLOCK_EINDOUBT);
        assert_null(strstr(rlock_detail(), "not connected yet"));
        proxy_remove(f->proxy, number);
        assert_true(fixture_wait_held(f, false));
    }
}

/* The acknowledgement of its channel is as long as that, and more. */
FIXTURE_WITH_TEST(who_waits_for_the_longest_name_keeps_its_connections, f, .proxy = PROXY_AS_LEG)
{
    struct user *user = open_user(f), *rival = user_open_direct(f);
    enum { LEN = 65536 };
    struct rlock_handle *held = NULL;
    char *name = malloc(LEN);
    struct waiter waiter;
    uint64_t accepted;
    int64_t began_us;

    assert_non_null(name);
    memset(name, 'n', LEN);
    user->lock = rlock_free(user->lock);
    assert_code(rlock_reentrant_new(user->client, name, RLOCK_OPTS(.name_len = LEN), &user->lock),
                0);
    assert_code(rlock_reentrant_new(rival->client, name, RLOCK_OPTS(.name_len = LEN), &held), 0);
    assert_code(rlock_try_lock(held), 0);
    waiter_start(&waiter, user, 20000, NULL);
    assert_true(proxy_wait_subscribers(f->proxy, 1, 5000));
    accepted = proxy_stats(f->proxy).accepted;
    began_us = test_now_us();
    assert_true(TEST_EVENTUALLY(test_elapsed_us(began_us) > 300000, 5000));
    assert_code(rlock_unlock(held), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(proxy_stats(f->proxy).accepted, accepted);
    held = rlock_free(held);
    free(name);
}
