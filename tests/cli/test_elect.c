/* SPDX-License-Identifier: Apache-2.0 */
/* rlock elect, as its users run it: on a server of its own, seen from outside. */
#include "command.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Each election adds the process's number to the file "terms". */
#define WORK "echo $$ >>\"$0\"; exec sleep 60"

static void forget_terms(void)
{
    (void)unlink(in_dir("terms"));
}

static struct command elect(void)
{
    return COMMAND("elect", "--renewed-lease", "1500ms", "a", "--", "sh", "-c", WORK,
                   in_dir("terms"));
}

static size_t count_terms(void)
{
    const char *text = file_text(in_dir("terms"));
    size_t n = 0;

    for (; *text != '\0'; text++) {
        n += *text == '\n';
    }
    return n;
}

static pid_t latest(void)
{
    const char *text = file_text(in_dir("terms"));
    const char *end = text + strlen(text);

    while (end > text + 1 && end[-2] != '\n') {
        end--;
    }
    return (pid_t)strtol(end > text ? end - 1 : text, NULL, 10);
}

static void await_terms(size_t n)
{
    assert_true(TEST_EVENTUALLY(count_terms() >= n, 15000));
}

/* Ends it by SIGTERM, which the command under it gets too. */
static void end_elect(const struct command *command, int status)
{
    assert_int_equal(kill(command->pid, SIGTERM), 0);
    assert_int_equal(command_wait(command, 10000), status);
}

COMMAND_TEST(one_of_two_runs_the_command_and_the_other_one_follows)
{
    struct command one, two;

    forget_terms();
    one = elect();
    await_terms(1);
    two = elect();
    assert_true(TEST_EVENTUALLY(is_waited_for("a"), 10000));
    assert_int_equal(count_terms(), 1);
    end_elect(&one, 128 + SIGTERM);
    await_terms(2);
    end_elect(&two, 128 + SIGTERM);
    assert_int_equal(count_terms(), 2);
    test_server_assert_clean(fixture.server);
}

COMMAND_TEST(a_leader_that_loses_the_lock_stops_the_command_and_is_a_candidate_again)
{
    struct command command;
    pid_t first;

    forget_terms();
    command = elect();
    await_terms(1);
    first = latest();
    test_server_do(fixture.server, "DEL a");
    await_terms(2);
    assert_false(process_lives(first));
    assert_contains(file_text(command.err), "rlock: a: lost");
    assert_contains(file_text(command.err), "rlock: a: is a candidate again");
    end_elect(&command, 128 + SIGTERM);
    test_server_assert_clean(fixture.server);
}

COMMAND_TEST(a_server_that_stands_still_ends_the_term_before_the_lock_expires)
{
    struct command command;
    pid_t first;

    forget_terms();
    command = elect();
    await_terms(1);
    first = latest();
    test_server_freeze(fixture.server);
    assert_true(TEST_EVENTUALLY(!process_lives(first), 10000));
    test_server_thaw(fixture.server);
    await_terms(2);
    end_elect(&command, 128 + SIGTERM);
}

COMMAND_TEST(it_ends_with_the_status_of_a_command_that_ends_by_itself)
{
    assert_int_equal(COMMAND_STATUS("elect", "a", "--", "sh", "-c", "exit 7"), 7);
    assert_int_equal(COMMAND_STATUS("elect", "a", "--", "sh", "-c", "exit 122"), 122);
    assert_int_equal(COMMAND_STATUS("elect", "a", "--", "no-such-command-here"), 127);
    test_server_assert_clean(fixture.server);
}

COMMAND_TEST(a_signal_ends_a_candidate)
{
    struct command command;

    forget_terms();
    test_server_do(fixture.server, "HSET a somebody:1 1");
    test_server_do(fixture.server, "PEXPIRE a 60000");
    command = elect();
    assert_true(TEST_EVENTUALLY(is_waited_for("a"), 10000));
    end_elect(&command, 128 + SIGTERM);
    assert_int_equal(count_terms(), 0);
}

COMMAND_TEST(a_signal_ends_a_candidate_that_has_led)
{
    struct command command;

    forget_terms();
    command = elect();
    await_terms(1);
    test_server_do(fixture.server, "DEL a");
    test_server_do(fixture.server, "HSET a somebody:1 1");
    test_server_do(fixture.server, "PEXPIRE a 60000");
    assert_true(TEST_EVENTUALLY(is_waited_for("a"), 15000));
    end_elect(&command, 128 + SIGTERM);
    assert_int_equal(count_terms(), 1);
}

COMMAND_TEST(a_read_lock_elects_nobody)
{
    assert_int_equal(COMMAND_STATUS("elect", "--kind", "read", "a", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("elect", "a"), 64);
    assert_int_equal(COMMAND_STATUS("elect", "--wait", "0", "a", "--", "true"), 64);
}
