/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores of slots: rlock run --slots, rlock slots, and what info, ls and break say of them. */
#include "command.h"

COMMAND_TEST(the_number_of_slots_is_the_servers)
{
    struct command command;

    assert_int_equal(COMMAND_STATUS("run", "--slots", "2", "a", "--", "true"), 0);
    command = COMMAND("run", "--slots", "3", "a", "--", "true");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_contains(file_text(command.err),
                    "a: the server has 2 slots, so --slots 3 has no effect");
    assert_int_equal(COMMAND_STATUS("slots", "a", "3"), 0);
    assert_int_equal(test_server_int(fixture.server, "GET a"), 3);
    command = COMMAND("run", "--slots", "3", "a", "--", "true");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_string_equal(file_text(command.err), "");
    assert_int_equal(COMMAND_STATUS("slots", "a", "0"), 0);
    assert_int_equal(COMMAND_STATUS("run", "--slots", "3", "--wait", "0", "a", "--", "true"), 123);
    assert_int_equal(COMMAND_STATUS("slots", "a"), 64);
    assert_int_equal(COMMAND_STATUS("slots", "a", "-1"), 64);
    assert_int_equal(COMMAND_STATUS("slots", "a", "many"), 64);
    free(test_server_cmd(fixture.server, "SET a text"));
    assert_int_equal(COMMAND_STATUS("slots", "a", "3"), 65);
    free(test_server_cmd(fixture.server, "DEL a"));
}

COMMAND_TEST(as_many_run_at_a_time_as_there_are_slots)
{
    struct command one =
        COMMAND("run", "--slots", "2", "--renewed-lease", "1500ms", "a", "--", "sleep", "60");
    struct command two =
        COMMAND("run", "--slots", "2", "--renewed-lease", "1500ms", "a", "--", "sleep", "60");
    struct command info;

    assert_true(TEST_EVENTUALLY(test_server_int(fixture.server, "ZCARD {a}:timeout") == 2, 10000));
    assert_int_equal(COMMAND_STATUS("run", "--slots", "2", "--wait", "0", "a", "--", "true"), 123);
    info = COMMAND("info", "--kind", "permits", "a");
    assert_int_equal(command_wait(&info, 10000), 0);
    assert_contains(file_text(info.out), "a: held by ");
    assert_contains(file_text(info.out), ", 0 of 2 slots free\n");
    assert_int_equal(COMMAND_STATUS("run", "--kind", "permits", "a", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--kind", "fair", "--slots", "2", "a", "--", "true"),
                     64);
    assert_int_equal(COMMAND_STATUS("break", "--kind", "permits", "a"), 0);
    assert_int_equal(command_wait(&one, 10000), 122);
    assert_int_equal(command_wait(&two, 10000), 122);
    assert_int_equal(test_server_int(fixture.server, "GET a"), 2);
    free(test_server_cmd(fixture.server, "DEL a"));
}

static void expect_units(const char *name)
{
    char key[64];

    test_text(key, sizeof(key), "\"key\":\"%s\",\"locked\":true", name);
    assert_command_says(" on ", "info", name);
    assert_command_says(", 1 of 3 slots free\n", "info", name);
    assert_command_says("\"slots\":3,\"slots_free\":1,", "info", "--json", name);
    assert_command_says(", 1 of 3 slots free\n", "ls");
    assert_command_says(key, "ls", "--json");
    assert_command_says("\"slots\":3,\"slots_free\":1", "ls", "--json");
}

/* The number is a string; and it may have been deleted. */
static void recognise(const char *kind, const char *set)
{
    static const char *const names[] = {"a", "b{c}", "{d}e{f}"}, *const keys[] = {"{a}", "b{c}",
                                                                                  "{d}e{f}"};

    for (size_t i = 0; i < 3; i++) {
        const char *name = names[i];
        struct command holders[] = {
            COMMAND("run", "--kind", kind, "--slots", "3", "--renewed-lease", "1500ms", name, "--",
                    "sleep", "60"),
            COMMAND("run", "--kind", kind, "--slots", "3", "--renewed-lease", "1500ms", name, "--",
                    "sleep", "60"),
        };

        assert_true(TEST_EVENTUALLY(
            test_server_int(fixture.server, "ZCARD %s:%s", keys[i], set) == 2, 10000));
        expect_units(name);
        assert_int_equal(COMMAND_STATUS("info", "--check", name), 0);
        free(test_server_cmd(fixture.server, "DEL %s", name));
        assert_command_says(" and 1 more, ", "info", name);
        assert_command_says("broken, was held by ", "break", name);
        for (size_t j = 0; j < 2; j++) {
            (void)command_wait(&holders[j], 10000);
        }
        free(test_server_cmd(fixture.server, "SET %s 3", name));
        assert_int_equal(COMMAND_STATUS("info", name), 65);
        assert_command_says(": free, 3 of 3 slots free\n", "info", "--kind", kind, name);
        free(test_server_cmd(fixture.server, "DEL %s", name));
    }
}

COMMAND_TEST(permits_that_are_out_are_recognised)
{
    recognise("permits", "timeout");
}

COMMAND_TEST(a_semaphore_of_which_units_are_held_is_recognised)
{
    recognise("semaphore", "rlock-permits");
}

/* A semaphore: the units of Redisson clients are not known, so the command compares no numbers. */
COMMAND_TEST(a_semaphore_has_slots_and_no_leases)
{
    struct command command;

    assert_int_equal(COMMAND_STATUS("slots", "--kind", "semaphore", "a", "2"), 0);
    assert_int_equal(COMMAND_STATUS("slots", "--kind", "fair", "a", "2"), 64);
    command = COMMAND("run", "--kind", "semaphore", "--slots", "3", "a", "--", "true");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_string_equal(file_text(command.err), "");
    assert_int_equal(COMMAND_STATUS("run", "--kind", "semaphore", "a", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--kind", "semaphore", "--slots", "2", "--lease", "10s",
                                    "a", "--", "true"),
                     64);
    assert_int_equal(COMMAND_STATUS("run", "--kind", "semaphore", "--slots", "2", "--at-least",
                                    "10s", "a", "--", "true"),
                     64);
    command = COMMAND("acquire", "--kind", "semaphore", "--slots", "2", "--lease", "10s", "a");
    assert_int_equal(command_wait(&command, 10000), 64);
    assert_contains(file_text(command.err), "a semaphore is always renewed");
    assert_int_equal(test_server_int(fixture.server, "GET a"), 2);
    free(test_server_cmd(fixture.server, "DEL a"));
}

COMMAND_TEST(a_set_of_others_is_no_semaphore)
{
    struct command ls;

    free(test_server_cmd(fixture.server, "ZADD {a}:timeout 9000000000000 member"));
    assert_int_equal(COMMAND_STATUS("info", "--kind", "permits", "a"), 65);
    assert_command_says("a: free\n", "info", "a");
    assert_command_says("a: was free\n", "break", "a");
    ls = COMMAND("ls", "--json");
    assert_int_equal(command_wait(&ls, 10000), 0);
    assert_string_equal(file_text(ls.out), "");
    free(test_server_cmd(fixture.server, "DEL {a}:timeout"));
}
