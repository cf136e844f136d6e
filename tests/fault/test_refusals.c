/* SPDX-License-Identifier: Apache-2.0 */
/* Locks on servers and proxies that lack some of the commands, or refuse them for a while. */
#include "fault/verbs.h"
#include "support/refusal.h"
#include "support/waiter.h"

#define REFUSAL_TEST(name, f) FIXTURE_WITH_TEST(name, f, .proxy = PROXY_ON_UNIX)

static struct user *open_for(struct fixture *f, const struct refusal *rows, int acks,
                             int64_t op_timeout_ms)
{
    refuse(f->proxy, rows);
    return user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = op_timeout_ms, .acks = acks));
}

static struct user *open_behind(struct fixture *f, const struct refusal *rows, int acks)
{
    return open_for(f, rows, acks, 1000 * test_slack());
}

REFUSAL_TEST(locks_need_none_of_the_commands_that_ask_about_the_server, f)
{
    static const struct refusal rows[] = {
        {.command = "HELLO", .answer = UNKNOWN("HELLO")},
        {.command = "INFO", .answer = UNKNOWN("INFO")},
        {.command = "CONFIG", .answer = UNKNOWN("CONFIG")},
        {.command = "CLIENT", .answer = UNKNOWN("CLIENT")},
        {.command = "ROLE", .answer = UNKNOWN("ROLE")},
        {0},
    };
    struct user *user = open_behind(f, rows, RLOCK_ACKS_AUTO), *rival;
    struct rlock_info info = RLOCK_INFO_INIT;

    rival = user_open(f, USUAL);
    assert_code(rlock_lock(user->lock), 0);
    assert_code(rlock_inspect(rival->lock, &info), 0);
    assert_true(info.locked);
    assert_string_equal(info.host, ""); /* only CLIENT LIST says that */
    assert_code(rlock_try_lock(rival->lock), RLOCK_EBUSY);
    assert_code(rlock_unlock(user->lock), 0);
    assert_code(rlock_try_lock(rival->lock), 0);
    assert_code(rlock_unlock(rival->lock), 0);
}

REFUSAL_TEST(a_waiter_whose_messages_never_arrive_asks_again, f)
{
    static const struct refusal rows[] = {{.command = "SUBSCRIBE", .does = REFUSAL_IS_SILENT}, {0}};
    struct user *user = open_behind(f, rows, RLOCK_ACKS_AUTO), *rival = user_open_direct(f);
    struct waiter waiter;

    assert_code(rlock_try_lock(rival->lock), 0);
    waiter_start(&waiter, user, 20000, NULL);
    assert_true(TEST_EVENTUALLY(proxy_stats(f->proxy).subscribers > 0, 5000));
    assert_code(rlock_unlock(rival->lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
}

/* ---- What locks cannot do without ---- */

REFUSAL_TEST(a_command_that_the_server_lacks_is_named, f)
{
    static const struct {
        const char *command, *answer, *says;
        int acks;
    } rows[] = {
        {"EVALSHA", UNKNOWN("EVALSHA"), "the server does not support EVALSHA (server ", 0},
        {"EVALSHA", "-ERR unknown command `evalsha`, with args beginning with: \r\n",
         "the server does not support EVALSHA (server ", 0},
        {"WAIT", UNKNOWN("WAIT"),
         "the server does not support WAIT; set acks = RLOCK_ACKS_OFF (server ", 1},
        {"WAIT", "-unsupported command\r\n",
         "the server does not support WAIT; set acks = RLOCK_ACKS_OFF (server ", 1},
        {"WAIT", "-ERR Command is not available: 'WAIT'. See the documentation\r\n",
         "the server does not support WAIT; set acks = RLOCK_ACKS_OFF (server ", 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct refusal refusal[] = {{.command = rows[i].command, .answer = rows[i].answer},
                                          {0}};
        struct user *user = open_behind(f, refusal, rows[i].acks);

        assert_code(rlock_lock(user->lock), RLOCK_EREFUSED);
        assert_detail(rows[i].says);
        assert_false(fixture_is_held(f));
        user_close(user);
    }
}

/* ---- What passes ---- */

/* The server, or the proxy before it, starts: a call that may wait waits. */
REFUSAL_TEST(a_call_that_may_wait_outlasts_what_passes, f)
{
    static const char *const answers[] = {
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-ERR max number of clients reached\r\n",
        "-upstream failure\r\n",
        "-ERR no upstream host\r\n",
        "-CLUSTERDOWN The cluster is down\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    };

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        const struct refusal rows[] = {
            {.command = "HELLO", .answer = answers[i], .times = 2},
            {.command = "EVALSHA", .answer = answers[i], .times = 2},
            {0},
        };
        struct user *user = open_behind(f, rows, RLOCK_ACKS_AUTO);

        assert_code(rlock_lock_for(user->lock, 20000, NULL, NULL), 0);
        assert_code(rlock_unlock(user->lock), 0);
        user_close(user);
    }
}

REFUSAL_TEST(the_words_of_the_server_stand_in_the_detail, f)
{
    static const struct refusal rows[] = {{.contains = "\r\n", .answer = "-upstream failure\r\n"},
                                          {0}};
    static const struct refusal http[] = {
        {.contains = "\r\n", .answer = "HTTP/1.1 400 Bad Request\r\n\r\n"}, {0}};
    struct user *user = open_for(f, rows, RLOCK_ACKS_AUTO, test_ms(1000));

    /* The server was reached, and says that this passes: the wait runs out. */
    assert_code(rlock_lock_for(user->lock, 300, NULL, NULL), RLOCK_ETIMEDOUT);
    assert_detail("upstream failure");
    user_close(user);
    user = open_for(f, http, RLOCK_ACKS_AUTO, test_ms(1000));
    assert_code(rlock_lock_for(user->lock, 300, NULL, NULL), RLOCK_ECONN);
    assert_detail("it answers HTTP");
}
