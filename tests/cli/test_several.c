/* SPDX-License-Identifier: Apache-2.0 */
/* rlock run with several locks at once, and with a lock on several servers. */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Several at once ---- */

static void several_names_are_taken_at_once(void **state)
{
    const struct command command =
        COMMAND("run", "--multi", "b,c", "--name", "a,x", "--", "sh", "-c",
                "echo \"$RLOCK_NAME\"; echo $$ > \"$0\"; sleep 60", in_dir("pid"));

    (void)state;
    (void)pid_in_file(in_dir("pid"));
    assert_true(is_held("b"));
    assert_true(is_held("c"));
    assert_true(is_held("a,x"));
    assert_int_equal(COMMAND_STATUS("run", "--wait", "0", "c", "--", "true"), 123);
    assert_int_equal(COMMAND_STATUS("run", "--wait", "0", "--multi", "d,b", "--", "true"), 123);
    assert_false(is_held("d"));
    end_command(&command);
    assert_string_equal(file_text(command.out), "a,x,b,c\n");
    test_server_assert_clean(fixture_server());
}

static void sets_that_overlap_exclude_each_other(void **state)
{
    static const char *const sets[] = {"a,b", "b,c", "c,a", "b,a"};
    struct command commands[8];

    (void)state;
    for (size_t i = 0; i < 8; i++) {
        commands[i] = COMMAND("run", "--multi", sets[i % 4], "--", "sh", "-c",
                              "mkdir \"$0\" && sleep 0.02 && rmdir \"$0\"", in_dir("inside"));
    }
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(command_wait(&commands[i], 20000), 0);
    }
    test_server_assert_clean(fixture_server());
}

static void a_wrong_list_is_shown_whole(void **state)
{
    struct command command = COMMAND("run", "--multi", "a,b,", "--", "true");

    (void)state;
    assert_int_equal(command_wait(&command, 10000), 64);
    assert_contains(file_text(command.err), "--multi: 'a,b,' has an empty name");
    command = COMMAND("run", "--redlock", "redis://127.0.0.1,127.0.0.2", "a", "--", "true");
    assert_int_equal(command_wait(&command, 10000), 64);
    assert_contains(file_text(command.err), "each URL needs its scheme");
    command = COMMAND("run", "--redlock", "", "a", "--", "true");
    assert_int_equal(command_wait(&command, 10000), 64);
    assert_contains(file_text(command.err), "--redlock: '' names no server");
}

static void a_name_may_start_with_a_dash(void **state)
{
    (void)state;
    assert_int_equal(COMMAND_STATUS("run", "--name", "-a", "--", "true"), 0);
    assert_int_equal(COMMAND_STATUS("info", "--", "-a"), 0);
}

static void names_and_a_name_do_not_go_together(void **state)
{
    (void)state;
    assert_int_equal(COMMAND_STATUS("run", "--multi", "a,b", "c", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--multi", "a,,b", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--multi", "a,a", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--", "true"), 64);
    assert_int_equal(
        COMMAND_STATUS("run", "--redlock", getenv("RLOCK_URL"), "--multi", "a,b", "--", "true"),
        64);
}

/* ---- On several servers ---- */

struct trio {
    struct test_server *servers[3];
    char urls[512];
};

static void open_trio(struct trio *trio)
{
    for (size_t i = 0; i < 3; i++) {
        trio->servers[i] = test_server_start(NULL);
    }
    test_text(trio->urls, sizeof(trio->urls), "%s,%s,%s", test_server_unix_url(trio->servers[0]),
              test_server_unix_url(trio->servers[1]), test_server_unix_url(trio->servers[2]));
}

static void close_trio(struct trio *trio)
{
    for (size_t i = 0; i < 3; i++) {
        trio->servers[i] = test_server_stop(trio->servers[i]);
    }
}

static void a_redlock_survives_a_minority(void **state)
{
    struct trio trio;
    struct command command;

    (void)state;
    open_trio(&trio);
    assert_int_equal(
        COMMAND_STATUS("run", "--redlock", trio.urls, "--max-lease", "0", "a", "--", "true"), 0);
    test_server_kill(trio.servers[1]);
    assert_int_equal(COMMAND_STATUS("run", "--redlock", trio.urls, "--max-lease", "0", "--wait",
                                    "5s", "a", "--", "sh", "-c", "exit 3"),
                     3);
    test_server_kill(trio.servers[2]);
    command = COMMAND("run", "--redlock", trio.urls, "--max-lease", "0", "--wait", "0", "a", "--",
                      "true");
    assert_int_equal(command_wait(&command, 10000), 69);
    assert_contains(file_text(command.err), "no quorum: 1 of 3 servers can grant it");
    assert_contains(file_text(command.err), "cannot connect");
    assert_true(TEST_EVENTUALLY(test_server_int(trio.servers[0], "EXISTS a") == 0, 2000));
    close_trio(&trio);
}

static void after_a_start_of_all_it_says_when_they_count(void **state)
{
    struct trio trio;
    struct command command;

    (void)state;
    open_trio(&trio);
    command = COMMAND("run", "--redlock", trio.urls, "--wait", "0", "a", "--", "true");
    assert_int_equal(command_wait(&command, 10000), 69);
    assert_contains(file_text(command.err), "no quorum: ");
    assert_contains(file_text(command.err), "2 needed");
    assert_contains(file_text(command.err), "it counts in ");
    close_trio(&trio);
}

static void who_waits_for_a_quorum_is_told_why(void **state)
{
    struct trio trio;
    struct command command;

    (void)state;
    open_trio(&trio);
    command = COMMAND("run", "--redlock", trio.urls, "--max-lease", "4s", "--renewed-lease", "4s",
                      "a", "--", "sh", "-c", "exit 3");
    assert_true(
        TEST_EVENTUALLY(strstr(file_text(command.err), "waiting: no quorum") != NULL, 10000));
    assert_contains(file_text(command.err), "restarted; it counts in");
    assert_int_equal(command_wait(&command, 20000), 3);
    close_trio(&trio);
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

static void no_password_of_a_list_is_seen(void **state)
{
    struct command command;

    (void)state;
    command =
        COMMAND("run", "--redlock", "redis://u:geheim@127.0.0.1:1,redis://:geheim@127.0.0.1:2",
                "--wait", "60s", "a", "--", "true");
    assert_true(TEST_EVENTUALLY(strstr(command_line(&command), "***") != NULL, 10000));
    assert_null(strstr(command_line(&command), "geheim"));
    end_command(&command);
    assert_null(strstr(file_text(command.err), "geheim"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(several_names_are_taken_at_once, fixture_start,
                                        fixture_stop),
        cmocka_unit_test_setup_teardown(sets_that_overlap_exclude_each_other, fixture_start,
                                        fixture_stop),
        cmocka_unit_test_setup_teardown(a_wrong_list_is_shown_whole, fixture_start, fixture_stop),
        cmocka_unit_test_setup_teardown(a_name_may_start_with_a_dash, fixture_start, fixture_stop),
        cmocka_unit_test_setup_teardown(names_and_a_name_do_not_go_together, fixture_start,
                                        fixture_stop),
        cmocka_unit_test(a_redlock_survives_a_minority),
        cmocka_unit_test(after_a_start_of_all_it_says_when_they_count),
        cmocka_unit_test(who_waits_for_a_quorum_is_told_why),
        cmocka_unit_test(no_password_of_a_list_is_seen),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests_name("cli_several", tests, NULL, NULL);
}
