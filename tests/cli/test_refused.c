/* SPDX-License-Identifier: Apache-2.0 */
/* rlock run that does not get its lock: what it exits with, when, and what it says. */
#include "command.h"
#include "support/refusal.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* The commands go through the fixture's proxy. */
static void use_proxy(void)
{
    assert_int_equal(setenv("RLOCK_URL", proxy_url(fixture.proxy), 1), 0);
}

static bool has_run(void)
{
    return access(in_dir("ran"), F_OK) == 0;
}

/* Neither the exit status nor a message says anything but that the lock is held by another. */
static void assert_refused(struct command command, int status)
{
    assert_int_equal(command_wait(&command, 10000), status);
    assert_false(has_run());
    assert_null(strstr(file_text(command.err), "hold"));
    assert_null(strstr(file_text(command.err), "lost"));
    assert_contains(file_text(command.err), "held by ");
}

/* ---- The status that the caller wants ---- */

COMMAND_TEST(a_conflict_that_is_a_success_runs_nothing)
{
    struct command holder = hold_a("30s");

    assert_refused(COMMAND("run", "-n", "-E", "0", "a", "--", "touch", in_dir("ran")), 0);
    assert_refused(COMMAND("run", "-w", "100ms", "-E", "0", "a", "--", "touch", in_dir("ran")), 0);
    assert_refused(COMMAND("run", "-n", "-E", "0", "--multi", "b,a", "--", "touch", in_dir("ran")),
                   0);
    assert_refused(COMMAND("run", "-n", "-E", "7", "a", "--", "touch", in_dir("ran")), 7);
    end_command(&holder);
    assert_int_equal(COMMAND_STATUS("run", "-n", "-E", "0", "a", "--", "sh", "-c", "exit 3"), 3);
    test_server_assert_clean(fixture.server);
}

COMMAND_TEST(a_conflict_status_is_for_conflicts_alone)
{
    struct command holder = hold_a("1500ms"), waiter;

    waiter = COMMAND("run", "-E", "0", "a", "--", "touch", in_dir("ran"));
    assert_true(TEST_EVENTUALLY(is_waited_for("a"), 10000));
    (void)kill(waiter.pid, SIGINT);
    assert_int_equal(command_wait(&waiter, 10000), 128 + SIGINT);
    end_command(&holder);
    assert_false(has_run());
    holder = COMMAND("run", "-n", "-E", "0", "--renewed-lease", "600ms", "a", "--", "sleep", "60");
    assert_true(TEST_EVENTUALLY(is_held("a"), 10000));
    test_server_do(fixture.server, "DEL a");
    assert_int_equal(command_wait(&holder, 10000), 122);
    test_server_kill(fixture.server);
    assert_int_equal(COMMAND_STATUS("run", "-n", "-E", "0", "a", "--", "touch", in_dir("ran")), 69);
    assert_false(has_run());
}

/* ---- When it ends ---- */

/* How long a command takes that need not wait: to begin, and to end. */
static int64_t run_us(void)
{
    int64_t start_us = test_now_us();

    assert_int_equal(COMMAND_STATUS("run", "free", "--", "true"), 0);
    return test_elapsed_us(start_us);
}

/* The thread that asks who holds the lock gets no answer, from its first question on. */
static const struct refusal nobody_says_who[] = {
    {.command = "CLIENT", .contains = "LIST", .does = REFUSAL_IS_SILENT}, {0}};

COMMAND_WITH_TEST(a_wait_ends_in_time_though_nobody_says_who_holds_the_lock, .proxy = PROXY_ON_UNIX,
                  .server.transport = TEST_UNIX)
{
    struct command holder = hold_a("30s"), waiter;
    int64_t usual_us = run_us(), start_us;

    use_proxy();
    refuse(fixture.proxy, nobody_says_who);
    start_us = test_now_us();
    waiter = COMMAND("run", "--wait", "1200ms", "a", "--", "true");
    assert_int_equal(command_wait(&waiter, 10000), 124);
    assert_in_time(start_us, 1600000 + usual_us);
    assert_contains(file_text(waiter.err), "rlock: a: held by ");
    end_command(&holder);
}

COMMAND_WITH_TEST(a_grant_starts_the_command_though_nobody_says_who_held_the_lock,
                  .proxy = PROXY_ON_UNIX, .server.transport = TEST_UNIX)
{
    struct command holder = hold_a("30s"), waiter;
    struct proxy_rule look = {
        .act = PROXY_DROP_REQUEST, .command = "CLIENT", .contains = "LIST", .times = PROXY_ALWAYS};
    int64_t usual_us = run_us(), start_us;
    int rule;

    use_proxy();
    rule = proxy_add(fixture.proxy, &look);
    waiter = COMMAND("run", "a", "--", "touch", in_dir("ran"));
    assert_true(proxy_wait_fired(fixture.proxy, rule, 1, 10000)); /* it asks, for a second */
    start_us = test_now_us();
    end_command(&holder);
    assert_true(TEST_EVENTUALLY(has_run(), 10000));
    assert_in_time(start_us, 400000 + usual_us);
    assert_int_equal(command_wait(&waiter, 10000), 0);
    assert_in_time(start_us, 600000 + usual_us);
}

COMMAND_WITH_TEST(a_single_try_soon_stops_asking_who_holds_the_lock, .proxy = PROXY_ON_UNIX,
                  .server.transport = TEST_UNIX)
{
    struct command holder = hold_a("30s"), waiter;
    int64_t usual_us = run_us(), start_us;

    use_proxy();
    refuse(fixture.proxy, nobody_says_who);
    start_us = test_now_us();
    waiter = COMMAND("run", "-n", "a", "--", "true");
    assert_int_equal(command_wait(&waiter, 10000), 123);
    assert_in_time(start_us, 600000 + usual_us);
    assert_contains(file_text(waiter.err), "rlock: a: held by ");
    end_command(&holder);
}

/* ---- What it says ---- */

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;

    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}

COMMAND_TEST(a_grant_that_replicas_do_not_confirm_is_no_holder)
{
    struct command waiter;
    char own[64];
    int64_t start_us;

    start_us = test_now_us();
    waiter = COMMAND("run", "--acks", "3", "a", "--", "touch", in_dir("ran"));
    assert_true(TEST_EVENTUALLY(strstr(file_text(waiter.err), "waiting: ") != NULL, 10000));
    assert_true(TEST_EVENTUALLY(test_elapsed_us(start_us) > 8000000, 20000)); /* asks twice */
    end_command(&waiter);
    test_text(own, sizeof(own), "(process %d)", (int)waiter.pid);
    assert_null(strstr(file_text(waiter.err), own));
    assert_null(strstr(file_text(waiter.err), "held by"));
    assert_int_equal(count_of(file_text(waiter.err), "waiting: "), 1);
    assert_contains(file_text(waiter.err), "replicas");
    assert_false(has_run());
}

COMMAND_WITH_TEST(a_server_without_wait_is_refused_with_its_remedy, .proxy = PROXY_ON_UNIX)
{
    static const struct refusal rows[] = {{.command = "WAIT", .answer = UNKNOWN("WAIT")}, {0}};
    static const char line[] =
        "rlock: a: the server does not support WAIT; set --acks off (server ";
    struct command command;

    use_proxy();
    refuse(fixture.proxy, rows);
    command = COMMAND("run", "--acks", "1", "a", "--", "touch", in_dir("ran"));
    assert_int_equal(command_wait(&command, 10000), 65);
    assert_contains(file_text(command.err), line);
    assert_false(has_run());
    command = COMMAND("doctor", "--acks", "1");
    assert_int_equal(command_wait(&command, 20000), 65);
    assert_contains(file_text(command.out),
                    "error    commands: WAIT is not supported by the server: ");
    assert_contains(file_text(command.out), "set --acks off\n");
    assert_int_equal(COMMAND_STATUS("run", "--acks", "off", "a", "--", "true"), 0);
}

COMMAND_WITH_TEST(doctor_tells_an_unknown_command_from_a_forbidden_one, .proxy = PROXY_ON_UNIX)
{
    static const struct refusal rows[] = {
        {.command = "INFO", .answer = UNKNOWN("INFO")},
        {.command = "CONFIG", .answer = "-NOPERM no permissions to run 'config|get'\r\n"},
        {.command = "CLIENT", .contains = "KILL", .answer = UNKNOWN("CLIENT")},
        {.command = "PUBSUB", .answer = "-NOPERM no permissions to run 'pubsub|numsub'\r\n"},
        {0},
    };
    struct command doctor;

    use_proxy();
    refuse(fixture.proxy, rows);
    doctor = COMMAND("doctor");
    assert_int_equal(command_wait(&doctor, 20000), 0);
    assert_contains(file_text(doctor.out), "INFO is not supported by the server: ");
    assert_contains(file_text(doctor.out), "CONFIG GET is not permitted; ");
    assert_contains(file_text(doctor.out),
                    "commands: CLIENT KILL is not supported by the server: ");
    assert_contains(file_text(doctor.out), "rights: +pubsub|numsub is not permitted: ");
}

COMMAND_TEST(plain_words_come_first_and_the_servers_own_with_verbose)
{
    struct command command;

    test_server_do(fixture.server, "SET a text");
    command = COMMAND("run", "a", "--", "true");
    assert_int_equal(command_wait(&command, 10000), 65);
    assert_contains(file_text(command.err),
                    "rlock: a: the key is used for something else (server ");
    assert_null(strstr(file_text(command.err), "WRONGTYPE"));
    command = COMMAND("run", "--verbose", "a", "--", "true");
    assert_int_equal(command_wait(&command, 10000), 65);
    assert_contains(file_text(command.err),
                    "rlock: a: the key is used for something else (server ");
    assert_contains(file_text(command.err), " said: ");
    assert_contains(file_text(command.err), "WRONGTYPE");
}
