/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct test_server *server;

static void remove_leftovers(void)
{
    (void)unlink(in_dir("pid"));
    (void)unlink(in_dir("ran"));
    (void)rmdir(in_dir("inside"));
}

static void restart(const struct test_server_opts *opts)
{
    server = test_server_stop(server);
    server = test_server_start(opts);
    assert_int_equal(setenv("RLOCK_URL", test_server_url(server), 1), 0);
}

void fixture_restart_with(const char *const *conf)
{
    restart(&(struct test_server_opts){.transport = TEST_UNIX, .conf = conf});
}

void fixture_restart_with_tls(void)
{
    restart(&(struct test_server_opts){.transport = TEST_TLS, .tls_auth_clients = true});
}

int fixture_start(void **state)
{
    (void)state;
    remove_leftovers();
    fixture_restart_with(NULL);
    return 0;
}

int fixture_stop(void **state)
{
    (void)state;
    server = test_server_stop(server);
    return 0;
}

struct test_server *fixture_server(void)
{
    return server;
}

bool is_held(const char *name)
{
    return test_server_int(server, "EXISTS %s", name) == 1;
}

const char *url_with(const char *userinfo)
{
    static char url[512];

    (void)snprintf(url, sizeof(url), "unix://%s@%s", userinfo,
                   test_server_unix_url(server) + strlen("unix://"));
    return url;
}

struct command hold_a(const char *renewed_lease)
{
    const struct command holder = COMMAND("run", "--renewed-lease", renewed_lease, "a", "--", "sh",
                                          "-c", "echo $$ >\"$0\"; exec sleep 60", in_dir("pid"));

    (void)pid_in_file(in_dir("pid"));
    assert_true(is_held("a"));
    return holder;
}

void end_command(const struct command *command)
{
    (void)kill(command->pid, SIGTERM);
    assert_int_equal(command_wait(command, 10000), 128 + SIGTERM);
}

void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("no '%s' in: %s", part, text);
    }
}
