/* SPDX-License-Identifier: Apache-2.0 */
/* rlock run, as its users run it: on a server of its own, seen from outside. */
#include "command.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHORT_LEASE "1500ms"
#define SHORT_LEASE_MS 1500

/* ---- run: what the command sees and what comes of it ---- */

COMMAND_TEST(processes_exclude_each_other_on_one_name)
{
    struct command commands[8];

    for (size_t i = 0; i < 8; i++) {
        commands[i] = COMMAND("run", "a", "--", "sh", "-c",
                              "mkdir \"$0\" && sleep 0.05 && rmdir \"$0\"", in_dir("inside"));
    }
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(command_wait(&commands[i], 20000), 0);
    }
    test_server_assert_clean(fixture.server);
}

COMMAND_TEST(the_exit_status_is_that_of_the_command)
{
    assert_int_equal(COMMAND_STATUS("run", "a", "--", "sh", "-c", "exit 7"), 7);
    assert_int_equal(COMMAND_STATUS("run", "a", "--", "sh", "-c", "kill -9 $$"), 137);
    test_server_assert_clean(fixture.server);
}

COMMAND_TEST(the_command_runs_while_the_lock_is_held_and_knows_its_name)
{
    static const char script[] = "test \"$RLOCK_NAME\" = 'a b' && test -z \"$RLOCK_TOKEN\" && "
                                 "test -n \"$RLOCK_URL\"";

    (void)setenv("RLOCK_TOKEN", "from somewhere else", 1);
    assert_int_equal(COMMAND_STATUS("run", "a b", "--", "sh", "-c", script), 0);
    (void)unsetenv("RLOCK_TOKEN");
}

COMMAND_TEST(a_command_that_is_not_there_is_127_and_frees_the_lock)
{
    assert_int_equal(COMMAND_STATUS("run", "a", "--", "no-such-command-here"), 127);
    test_server_assert_clean(fixture.server);
}

COMMAND_TEST(a_command_that_is_not_executable_is_126_and_frees_the_lock)
{
    write_file(in_dir("plain"), "", 0600);
    assert_int_equal(COMMAND_STATUS("run", "a", "--", in_dir("plain")), 126);
    test_server_assert_clean(fixture.server);
}

COMMAND_TEST(the_key_has_the_prefix)
{
    struct command command;

    command = COMMAND("run", "--prefix", "locks:", "a", "--", "sleep", "60");
    assert_true(TEST_EVENTUALLY(is_held("locks:a"), 10000));
    end_command(&command);
}

/* ---- run: not getting it ---- */

/* The process that holds is named as one can find it. */
static void assert_says_who_holds(const struct command *command, const struct command *holder)
{
    char process[64];

    test_text(process, sizeof(process), "(process %d)", (int)holder->pid);
    assert_contains(file_text(command->err), "rlock: a: held by ");
    assert_contains(file_text(command->err), process);
    assert_contains(file_text(command->err), " (server unix://");
}

COMMAND_TEST(a_held_lock_is_busy_when_tried_once)
{
    struct command holder, command;

    holder = hold_a("30s");
    command = COMMAND("run", "--wait", "0", "a", "--", "touch", in_dir("ran"));
    assert_int_equal(command_wait(&command, 10000), 123);
    assert_int_not_equal(access(in_dir("ran"), F_OK), 0);
    assert_says_who_holds(&command, &holder);
    end_command(&holder);
}

COMMAND_TEST(every_kind_excludes_and_may_refuse_reentry)
{
    static const char *const kinds[] = {"reentrant", "non-reentrant", "spin",  "fenced",
                                        "fair",      "read",          "write", "setnx"};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const char *rival = strcmp(kinds[i], "read") == 0 ? "write" : kinds[i];
        struct command holder = COMMAND("run", "--kind", kinds[i], "--no-reentry", "a", "--", "sh",
                                        "-c", "echo $$ >\"$0\"; exec sleep 60", in_dir("pid"));

        (void)pid_in_file(in_dir("pid"));
        assert_int_equal(COMMAND_STATUS("run", "--wait", "0", "--kind", rival, "--no-reentry", "a",
                                        "--", "true"),
                         123);
        end_command(&holder);
        assert_int_equal(unlink(in_dir("pid")), 0);
        assert_int_equal(COMMAND_STATUS("run", "--kind", kinds[i], "--no-reentry", "a", "--", "sh",
                                        "-c", "exit 7"),
                         7);
    }
    assert_int_equal(test_server_int(fixture.server, "DEL redisson_lock_token:{a}"), 1);
    test_server_assert_clean(fixture.server);
}

COMMAND_TEST(a_held_lock_times_out)
{
    const int64_t start_us = test_now_us();
    struct command holder, command;

    holder = hold_a("30s");
    command = COMMAND("run", "--wait=300ms", "a", "--", "true");
    assert_int_equal(command_wait(&command, 10000), 124);
    assert_true(test_elapsed_us(start_us) >= 300000);
    assert_says_who_holds(&command, &holder);
    end_command(&holder);
}

COMMAND_TEST(a_waiting_command_ends_on_a_signal)
{
    struct command holder, waiter;

    holder = hold_a("30s");
    waiter = COMMAND("run", "a", "--", "touch", in_dir("ran"));
    assert_true(TEST_EVENTUALLY(is_waited_for("a"), 10000));
    (void)kill(waiter.pid, SIGINT);
    assert_int_equal(command_wait(&waiter, 10000), 128 + SIGINT);
    end_command(&holder);
    assert_int_not_equal(access(in_dir("ran"), F_OK), 0);
    test_server_assert_clean(fixture.server);
}

/* Whether the command has said so by now. */
static bool has_said(const struct command *command, const char *text)
{
    return strstr(file_text(command->err), text) != NULL;
}

COMMAND_TEST(who_waits_is_told_for_whom)
{
    const int64_t start_us = test_now_us();
    struct command holder, waiter;
    char process[64];

    holder = hold_a("30s");
    waiter = COMMAND("run", "a", "--", "true");
    test_text(process, sizeof(process), "(process %d)", (int)holder.pid);
    assert_true(TEST_EVENTUALLY(has_said(&waiter, "rlock: a: waiting: held by "), 10000));
    assert_true(test_elapsed_us(start_us) >= 1000000);
    assert_true(has_said(&waiter, process));
    test_server_kill(fixture.server); /* what it waits for is another thing now */
    assert_true(TEST_EVENTUALLY(has_said(&waiter, "rlock: a: waiting: server unix://"), 10000));
    test_server_restart(fixture.server, false);
    assert_int_equal(command_wait(&waiter, 10000), 0);
    assert_int_equal(command_wait(&holder, 40000), 122);
}

COMMAND_TEST(who_waits_to_write_is_told_who_reads)
{
    struct command reader, waiter;
    char process[64];

    reader = COMMAND("run", "--kind", "read", "a", "--", "sleep", "60");
    assert_true(TEST_EVENTUALLY(is_held("a"), 10000));
    waiter = COMMAND("run", "--kind", "write", "a", "--", "true");
    test_text(process, sizeof(process), "(process %d)", (int)reader.pid);
    assert_true(TEST_EVENTUALLY(has_said(&waiter, "waiting: held by "), 10000));
    assert_true(has_said(&waiter, process));
    end_command(&reader);
    assert_int_equal(command_wait(&waiter, 10000), 0);
}

COMMAND_TEST(a_command_whose_server_is_down_says_why_it_waits)
{
    struct command waiter;

    test_server_kill(fixture.server);
    waiter = COMMAND("run", "a", "--", "touch", in_dir("ran"));
    assert_true(TEST_EVENTUALLY(has_said(&waiter, "rlock: a: waiting: server unix://"), 10000));
    test_server_restart(fixture.server, false);
    assert_int_equal(command_wait(&waiter, 10000), 0);
    assert_int_equal(access(in_dir("ran"), F_OK), 0);
}

COMMAND_TEST(quiet_says_nothing)
{
    struct command command;

    command = COMMAND("run", "--quiet", "a", "--", "no-such-command-here");
    assert_int_equal(command_wait(&command, 10000), 127);
    assert_string_equal(file_text(command.err), "");
}

/* ---- run: keeping the lock, and losing it ---- */

/* Each try is another process, and is over before the dead waiter's time is. */
COMMAND_TEST(short_waits_get_past_a_killed_waiter_of_a_fair_lock)
{
    struct command holder = COMMAND("run", "--kind", "fair", "a", "--", "sh", "-c",
                                    "echo $$ >\"$0\"; exec sleep 60", in_dir("pid"));
    struct command waiter;
    int64_t start_us;
    int status;

    (void)pid_in_file(in_dir("pid"));
    waiter = COMMAND("run", "--kind", "fair", "a", "--", "true");
    assert_true(TEST_EVENTUALLY(
        test_server_int(fixture.server, "LLEN redisson_lock_queue:{a}") == 1, 10000));
    (void)kill(waiter.pid, SIGKILL);
    assert_int_equal(command_wait(&waiter, 10000), 128 + SIGKILL);
    end_command(&holder);
    start_us = test_now_us();
    do {
        status = COMMAND_STATUS("run", "--kind", "fair", "--wait", "1s", "a", "--", "true");
    } while (status == 124 && test_elapsed_us(start_us) < 20000000);
    assert_int_equal(status, 0);
    assert_in_time(start_us, 3000000);
    test_server_assert_clean(fixture.server);
}

COMMAND_TEST(a_killed_rlock_takes_its_command_along_and_frees_within_a_lease)
{
    struct command holder;
    pid_t child;
    int64_t start_us;

    holder = hold_a(SHORT_LEASE);
    child = pid_in_file(in_dir("pid"));
    (void)kill(holder.pid, SIGKILL);
    start_us = test_now_us();
    assert_int_equal(command_wait(&holder, 10000), 128 + SIGKILL);
    assert_true(TEST_EVENTUALLY(!process_lives(child), 1000));
    assert_int_equal(COMMAND_STATUS("run", "a", "--", "true"), 0);
    assert_in_time(start_us, (SHORT_LEASE_MS + 500) * 1000 * (int64_t)test_slack());
}

COMMAND_TEST(a_stopped_rlock_kills_its_command_when_it_goes_on_too_late)
{
    struct command holder;
    pid_t child;

    holder = hold_a(SHORT_LEASE);
    child = pid_in_file(in_dir("pid"));
    test_freeze(holder.pid);
    assert_true(TEST_EVENTUALLY(!is_held("a"), 10000));
    assert_true(process_lives(child)); /* nobody is there to stop it: see rlock(1) */
    (void)kill(holder.pid, SIGCONT);
    assert_int_equal(command_wait(&holder, 10000), 122);
    assert_false(process_lives(child));
}

COMMAND_TEST(a_deleted_key_ends_the_command)
{
    struct command holder;
    pid_t child;

    holder = hold_a(SHORT_LEASE);
    child = pid_in_file(in_dir("pid"));
    assert_int_equal(test_server_int(fixture.server, "DEL a"), 1);
    assert_int_equal(command_wait(&holder, SHORT_LEASE_MS), 122);
    assert_false(process_lives(child));
    assert_contains(file_text(holder.err), "lost");
}

COMMAND_TEST(a_silent_server_ends_the_command_before_the_lease)
{
    struct command holder;
    pid_t child;
    int64_t start_us;

    holder = hold_a(SHORT_LEASE);
    child = pid_in_file(in_dir("pid"));
    start_us = test_now_us();
    test_server_freeze(fixture.server);
    assert_true(TEST_EVENTUALLY(!process_lives(child), SHORT_LEASE_MS));
    assert_in_time(start_us, SHORT_LEASE_MS * 1000 * (int64_t)test_slack());
    assert_int_equal(command_wait(&holder, 10000), 122);
}

COMMAND_TEST(a_fixed_lease_gives_time_to_end_and_then_kills)
{
    const int64_t start_us = test_now_us();
    struct command command;

    command = COMMAND("run", "--lease", SHORT_LEASE, "a", "--", "sh", "-c",
                      "trap 'echo told' TERM; while :; do sleep 0.02; done");
    assert_int_equal(command_wait(&command, 10000), 122);
    assert_in_time(start_us, SHORT_LEASE_MS * 1000 * (int64_t)test_slack());
    assert_string_equal(file_text(command.out), "told\n");
}

COMMAND_TEST(a_renewed_lease_outlives_itself)
{
    assert_int_equal(COMMAND_STATUS("run", "--renewed-lease", "600ms", "a", "--", "sleep", "2"), 0);
    test_server_assert_clean(fixture.server);
}

COMMAND_TEST(a_hold_longer_than_its_maximum_ends_the_command)
{
    assert_int_equal(COMMAND_STATUS("run", "--renewed-lease", "600ms", "--max-hold", "1s", "a",
                                    "--", "sleep", "30"),
                     122);
}

/* ---- run: signals and the terminal ---- */

COMMAND_TEST(signals_reach_the_whole_group)
{
    static const char script[] = "trap 'wait; echo outer; exit 3' USR1; "
                                 "sh -c 'trap \"echo inner; exit\" USR1; echo $$ >\"$0\"; "
                                 "while :; do sleep 0.02; done' \"$0\" & "
                                 "while :; do sleep 0.02; done";
    struct command command;

    command = COMMAND("run", "a", "--", "sh", "-c", script, in_dir("pid"));
    (void)pid_in_file(in_dir("pid"));
    (void)kill(command.pid, SIGUSR1);
    assert_int_equal(command_wait(&command, 10000), 3);
    assert_string_equal(file_text(command.out), "inner\nouter\n");
}

COMMAND_TEST(the_terminal_belongs_to_the_command)
{
    const char *const words[] = {
        "run", "a", "--", "sh", "-c", "echo $$ >\"$0\"; exec sleep 60", in_dir("pid"), NULL};
    struct command command;
    int master;

    command = command_start_on_terminal(words, &master);
    assert_true(TEST_EVENTUALLY(tcgetpgrp(master) == pid_in_file(in_dir("pid")), 5000));
    assert_int_equal(write(master, "\003", 1), 1);
    assert_int_equal(command_wait(&command, 10000), 128 + SIGINT);
    (void)close(master);
    test_server_assert_clean(fixture.server);
}
