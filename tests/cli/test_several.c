/* SPDX-License-Identifier: Apache-2.0 */
/* rlock run with several locks at once, and with a lock on several servers. */
#include "command.h"

/* ---- Several at once ---- */

COMMAND_TEST(several_names_are_taken_at_once)
{
    const struct command command =
        COMMAND("run", "--multi", "b,c", "--name", "a,x", "--", "sh", "-c",
                "echo \"$RLOCK_NAME\"; echo $$ > \"$0\"; sleep 60", in_dir("pid"));

    (void)pid_in_file(in_dir("pid"));
    assert_true(is_held("b"));
    assert_true(is_held("c"));
    assert_true(is_held("a,x"));
    assert_int_equal(COMMAND_STATUS("run", "--wait", "0", "c", "--", "true"), 123);
    assert_int_equal(COMMAND_STATUS("run", "--wait", "0", "--multi", "d,b", "--", "true"), 123);
    assert_false(is_held("d"));
    end_command(&command);
    assert_string_equal(file_text(command.out), "a,x,b,c\n");
    test_server_assert_clean(fixture.server);
}

COMMAND_TEST(sets_that_overlap_exclude_each_other)
{
    static const char *const sets[] = {"a,b", "b,c", "c,a", "b,a"};
    struct command commands[8];

    for (size_t i = 0; i < 8; i++) {
        commands[i] = COMMAND("run", "--multi", sets[i % 4], "--", "sh", "-c",
                              "mkdir \"$0\" && sleep 0.02 && rmdir \"$0\"", in_dir("inside"));
    }
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(command_wait(&commands[i], 20000), 0);
    }
    test_server_assert_clean(fixture.server);
}

COMMAND_TEST(a_wrong_list_is_shown_whole)
{
    struct command command = COMMAND("run", "--multi", "a,b,", "--", "true");

    assert_int_equal(command_wait(&command, 10000), 64);
    assert_contains(file_text(command.err), "--multi: 'a,b,' has an empty name");
    command = COMMAND("run", "--redlock", "redis://127.0.0.1,127.0.0.2", "a", "--", "true");
    assert_int_equal(command_wait(&command, 10000), 64);
    assert_contains(file_text(command.err), "each URL needs its scheme");
    command = COMMAND("run", "--redlock", "", "a", "--", "true");
    assert_int_equal(command_wait(&command, 10000), 64);
    assert_contains(file_text(command.err), "--redlock: '' names no server");
}

COMMAND_TEST(a_name_may_start_with_a_dash)
{
    assert_int_equal(COMMAND_STATUS("run", "--name", "-a", "--", "true"), 0);
    assert_int_equal(COMMAND_STATUS("info", "--", "-a"), 0);
}

COMMAND_TEST(names_and_a_name_do_not_go_together)
{
    assert_int_equal(COMMAND_STATUS("run", "--multi", "a,b", "c", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--multi", "a,,b", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--multi", "a,a", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--", "true"), 64);
    assert_int_equal(
        COMMAND_STATUS("run", "--redlock", getenv("RLOCK_URL"), "--multi", "a,b", "--", "true"),
        64);
}

/* ---- On several servers ---- */

/* The URLs of three servers. */
static const char *all_urls(void)
{
    static char urls[512];

    test_text(urls, sizeof(urls), "%s,%s,%s", test_server_unix_url(fixture.servers[0]),
              test_server_unix_url(fixture.servers[1]), test_server_unix_url(fixture.servers[2]));
    return urls;
}

COMMAND_WITH_TEST(a_redlock_survives_a_minority, .servers = 3)
{
    struct command command;

    assert_int_equal(
        COMMAND_STATUS("run", "--redlock", all_urls(), "--max-lease", "0", "a", "--", "true"), 0);
    test_server_kill(fixture.servers[1]);
    assert_int_equal(COMMAND_STATUS("run", "--redlock", all_urls(), "--max-lease", "0", "--wait",
                                    "5s", "a", "--", "sh", "-c", "exit 3"),
                     3);
    test_server_kill(fixture.servers[2]);
    command = COMMAND("run", "--redlock", all_urls(), "--max-lease", "0", "--wait", "0", "a", "--",
                      "true");
    assert_int_equal(command_wait(&command, 10000), 69);
    assert_contains(file_text(command.err), "no quorum: 1 of 3 servers can grant it");
    assert_contains(file_text(command.err), "cannot connect");
    assert_true(TEST_EVENTUALLY(test_server_int(fixture.servers[0], "EXISTS a") == 0, 2000));
}

COMMAND_WITH_TEST(after_a_start_of_all_it_says_when_they_count, .servers = 3)
{
    struct command command;

    command = COMMAND("run", "--redlock", all_urls(), "--wait", "0", "a", "--", "true");
    assert_int_equal(command_wait(&command, 10000), 69);
    assert_contains(file_text(command.err), "no quorum: ");
    assert_contains(file_text(command.err), "2 needed");
    assert_contains(file_text(command.err), "it counts in ");
}

COMMAND_WITH_TEST(who_waits_for_a_quorum_is_told_why, .servers = 3)
{
    struct command command;

    command = COMMAND("run", "--redlock", all_urls(), "--max-lease", "4s", "--renewed-lease", "4s",
                      "a", "--", "sh", "-c", "exit 3");
    assert_true(
        TEST_EVENTUALLY(strstr(file_text(command.err), "waiting: no quorum") != NULL, 10000));
    assert_contains(file_text(command.err), "restarted; it counts in");
    assert_int_equal(command_wait(&command, 20000), 3);
}

/* Its words, as ps shows them. Valid until the next call. */
static const char *command_line(const struct command *command)
{
    static char line[4096];
    char path[64];
    FILE *file;
    size_t len;

    test_text(path, sizeof(path), "/proc/%d/cmdline", (int)command->pid);
    file = fopen(path, "r");
    TEST_CHECK(file != NULL);
    len = fread(line, 1, sizeof(line) - 1, file);
    (void)fclose(file);
    for (size_t i = 0; i < len; i++) {
        line[i] = (char)(line[i] == '\0' ? ' ' : line[i]);
    }
    line[len] = '\0';
    return line;
}

TEST(no_password_of_a_list_is_seen)
{
    struct command command;

    command =
        COMMAND("run", "--redlock", "redis://u:geheim@127.0.0.1:1,redis://:geheim@127.0.0.1:2",
                "--wait", "60s", "a", "--", "true");
    assert_true(TEST_EVENTUALLY(strstr(command_line(&command), "***") != NULL, 10000));
    assert_null(strstr(command_line(&command), "geheim"));
    end_command(&command);
    assert_null(strstr(file_text(command.err), "geheim"));
}
