/* SPDX-License-Identifier: Apache-2.0 */
/* rlock ls --metrics: counts of the locks on a server, for Prometheus. */
#include "command.h"

#include <signal.h>
#include <string.h>

static bool somebody_queues(const char *name)
{
    return test_server_int(fixture.server, "LLEN redisson_lock_queue:{%s}", name) == 1;
}

/* Leaves a free fair lock with a dead waiter. */
static void leave_dead_waiter(const char *name)
{
    struct command holder = COMMAND("run", "--kind", "fair", name, "--", "sleep", "60");
    struct command waiter;

    assert_true(TEST_EVENTUALLY(is_held(name), 10000));
    waiter = COMMAND("run", "--kind", "fair", name, "--", "true");
    assert_true(TEST_EVENTUALLY(somebody_queues(name), 10000));
    assert_int_equal(kill(waiter.pid, SIGKILL), 0);
    (void)command_wait(&waiter, 10000);
    assert_true(TEST_EVENTUALLY(test_server_says(fixture.server, "", "PUBSUB CHANNELS"), 10000));
    end_command(&holder);
}

/* A script with Prometheus' parser checks the text. */
COMMAND_TEST(a_parser_of_prometheus_reads_the_locks_of_a_server)
{
    char script[1000];

    if (METRICS_PYTHON[0] == '\0') {
        skip(); /* no python3-prometheus-client here */
    }
    leave_dead_waiter("fair");
    assert_int_equal(COMMAND_STATUS("acquire", "--lease", "10m", "b"), 0);
    assert_int_equal(COMMAND_STATUS("acquire", "--lease", "10m", "--kind", "read", "r"), 0);
    assert_int_equal(COMMAND_STATUS("acquire", "--lease", "20m", "--kind", "write", "w"), 0);
    assert_int_equal(COMMAND_STATUS("acquire", "--lease", "10m", "a"), 0);
    assert_int_equal(test_server_int(fixture.server, "PERSIST a"), 1);
    test_text(script, sizeof(script), "'%s' '%s' '%s' '%s'", METRICS_PYTHON, METRICS_SCRIPT,
              command_binary(), METRICS_DOCUMENT);
    assert_int_equal(system(script), 0); /* NOLINT(cert-env33-c): a script of these tests */
}

static size_t lines_of(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++) {
        n += *text == '\n';
    }
    return n;
}

static const char *metrics_text(int status)
{
    const struct command command = COMMAND("ls", "--metrics");
    const char *text;

    assert_int_equal(command_status(command), status);
    text = file_text(command.out);
    assert_true(strlen(text) > 6);
    assert_string_equal(text + strlen(text) - 6, "# EOF\n");
    return text;
}

COMMAND_TEST(the_number_of_series_does_not_depend_on_the_number_of_locks)
{
    const size_t n = lines_of(metrics_text(0));
    char name[8];

    for (int i = 0; i < 20; i++) {
        test_text(name, sizeof(name), "a%d", i);
        assert_int_equal(COMMAND_STATUS("acquire", "--lease", "10m", name), 0);
    }
    assert_int_equal(lines_of(metrics_text(0)), n);
    assert_contains(metrics_text(0), ",mode=\"other\"} 20\n");
}

/* No count says that nothing is locked. */
COMMAND_TEST(a_scan_that_fails_says_so_and_counts_nothing)
{
    const char *text;

    assert_int_equal(COMMAND_STATUS("acquire", "--lease", "10m", "a"), 0);
    test_server_freeze(fixture.server);
    text = metrics_text(69);
    assert_contains(text, "\nrlock_scan_complete{");
    assert_contains(text, "} 0\n");
    assert_null(strstr(text, "rlock_scan_locks"));
    test_server_thaw(fixture.server);
}

COMMAND_TEST(metrics_are_for_ls_alone_and_no_json)
{
    assert_int_equal(COMMAND_STATUS("ls", "--metrics", "--json"), 64);
    assert_int_equal(COMMAND_STATUS("info", "--metrics", "a"), 64);
}
