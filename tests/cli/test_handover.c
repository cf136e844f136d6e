/* SPDX-License-Identifier: Apache-2.0 */
/* rlock acquire, extend and release, and what run does with texts. */
#include "command.h"

#include <signal.h>

COMMAND_TEST(a_lock_is_kept_over_several_commands)
{
    char text[256], next[256];

    command_text(COMMAND("acquire", "--lease", "1m", "a"), text);
    assert_true(is_held("a"));
    assert_int_equal(COMMAND_STATUS("run", "--wait", "0", "a", "--", "true"), 123);
    assert_int_equal(COMMAND_STATUS("acquire", "--wait", "0", "--lease", "1m", "a"), 123);
    command_text(COMMAND("extend", "--lease", "2m", "a", text), next);
    assert_string_not_equal(text, next);
    assert_true(test_server_int(fixture.server, "PTTL a") > 60 * 1000);
    assert_int_equal(COMMAND_STATUS("release", "a", text), 122); /* it is void */
    assert_true(is_held("a"));
    assert_int_equal(COMMAND_STATUS("release", "a", next), 0);
    assert_false(is_held("a"));
    assert_int_equal(COMMAND_STATUS("extend", "--lease", "2m", "a", next), 122);
}

COMMAND_TEST(a_text_knows_the_kind_of_its_lock)
{
    static const char *const kinds[] = {"fair", "read", "write", "spin", "setnx"};
    char text[256], next[256];

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        command_text(COMMAND("acquire", "--kind", kinds[i], "--lease", "1m", kinds[i]), text);
        command_text(COMMAND("extend", "--lease", "1m", kinds[i], text), next);
        assert_int_equal(COMMAND_STATUS("release", kinds[i], next), 0);
        assert_false(is_held(kinds[i]));
    }
    assert_int_equal(COMMAND_STATUS("release", "b", text), 64); /* of another lock */
}

COMMAND_TEST(a_command_runs_under_the_hold_of_a_text)
{
    struct command command;
    char text[256];

    command_text(COMMAND("acquire", "--lease", "1m", "a"), text);
    assert_int_equal(COMMAND_STATUS("run", "--adopt", text, "a", "--", "sh", "-c", "exit 7"), 7);
    assert_false(is_held("a"));
    command = COMMAND("run", "--adopt", text, "a", "--", "true");
    assert_int_equal(command_status(command), 122);
    assert_contains(file_text(command.err), "not adopted");
}

COMMAND_TEST(a_lock_stays_taken_for_the_least_time)
{
    assert_int_equal(COMMAND_STATUS("run", "--at-least", "1m", "a", "--", "sh", "-c", "exit 7"), 7);
    assert_true(is_held("a"));
    assert_true(test_server_int(fixture.server, "PTTL a") > 50 * 1000);
    assert_true(test_server_int(fixture.server, "PTTL a") <= 60 * 1000);
    assert_int_equal(COMMAND_STATUS("run", "--wait", "0", "a", "--", "true"), 123);
    assert_int_equal(COMMAND_STATUS("break", "a"), 0);
    assert_int_equal(COMMAND_STATUS("run", "--at-least", "10ms", "b", "--", "sleep", "0.1"), 0);
    assert_false(is_held("b"));
}

COMMAND_TEST(an_acquisition_that_a_signal_ends_leaves_nothing)
{
    struct command holder = hold_a("30s");
    struct command command = COMMAND("acquire", "--lease", "1m", "a");

    assert_true(fixture_wait_waiters(&fixture, 1));
    test_must(kill(command.pid, SIGTERM), "kill");
    assert_int_equal(command_wait(&command, 10000), 128 + SIGTERM);
    assert_string_equal(file_text(command.out), "");
    end_command(&holder);
    assert_false(is_held("a"));
}

COMMAND_TEST(what_texts_cannot_do_is_wrong_usage)
{
    char text[256];

    command_text(COMMAND("acquire", "--lease", "1m", "a"), text);
    assert_int_equal(COMMAND_STATUS("acquire", "a"), 64);
    assert_int_equal(COMMAND_STATUS("extend", "a", text), 64);
    assert_int_equal(COMMAND_STATUS("extend", "--lease", "1m", "a"), 64);
    assert_int_equal(COMMAND_STATUS("release", "a", "nonsense"), 64);
    assert_int_equal(COMMAND_STATUS("release", "a", "rlock1:odd:d:1:2"), 64);
    assert_int_equal(COMMAND_STATUS("release", "a", "rlock1:fair:d:1:2"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--adopt", text, "--kind", "fair", "a", "--", "true"),
                     64);
    assert_int_equal(COMMAND_STATUS("run", "--adopt", text, "--wait", "0", "a", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--at-least", "1m", "--multi", "a,b", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("release", "a", text), 0);
}
