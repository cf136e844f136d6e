/* SPDX-License-Identifier: Apache-2.0 */
/* TLS stands in a module of its own, so that who does without it does not wait for OpenSSL. */
#include "command.h"
#include "support/certs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char nowhere[] = "rediss://127.0.0.1:1";

static void copy(const char *from, const char *to)
{
    char bytes[65536];
    size_t n;
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");

    TEST_CHECK(in != NULL && out != NULL);
    while ((n = fread(bytes, 1, sizeof(bytes), in)) > 0) {
        TEST_CHECK(fwrite(bytes, 1, n, out) == n);
    }
    TEST_CHECK(fclose(in) == 0 && fclose(out) == 0 && chmod(to, 0755) == 0);
}

/* From now on the command is one that was copied to the test's directory, without what it needs. */
static void copy_command(void)
{
    if (access(MODULE_INSTALLED, F_OK) == 0) {
        skip(); /* every command finds that one */
    }
    copy(getenv("RLOCK_COMMAND"), in_dir("rlock"));
    TEST_CHECK(setenv("RLOCK_COMMAND", in_dir("rlock"), 1) == 0);
}

/* What is mapped into the command while its child runs. */
static const char *maps_of_run(const char *cacert)
{
    struct command run =
        COMMAND("run", "--cacert", cacert, "a", "--", "sh", "-c", "exec cat /proc/$PPID/maps");

    assert_int_equal(command_wait(&run, 10000), 0);
    assert_contains(file_text(run.out), "/libc"); /* it can be read */
    return file_text(run.out);
}

COMMAND_TEST(a_run_without_tls_loads_no_openssl)
{
    assert_null(strstr(maps_of_run(test_ca()), "libssl"));
    assert_null(strstr(maps_of_run(test_ca()), "libcrypto"));
}

COMMAND_WITH_TEST(a_run_with_tls_loads_openssl, .server.transport = TEST_TLS)
{
    assert_contains(maps_of_run(test_server_cacert(fixture.server)), "libssl");
}

COMMAND_TEST(the_command_alone_needs_no_openssl)
{
    struct command version;

    TEST_CHECK(setenv("LD_TRACE_LOADED_OBJECTS", "1", 1) == 0);
    version = COMMAND("--version");
    TEST_CHECK(unsetenv("LD_TRACE_LOADED_OBJECTS") == 0);
    assert_int_equal(command_wait(&version, 10000), 0);
    assert_contains(file_text(version.out), "/libc");
    assert_null(strstr(file_text(version.out), "libssl"));
    assert_null(strstr(file_text(version.out), "libcrypto"));
}

static void assert_refused(const char *why)
{
    struct command info = COMMAND("info", "--url", nowhere, "a");

    assert_int_equal(command_wait(&info, 10000), 65);
    assert_contains(file_text(info.err), why);
}

COMMAND_TEST(without_the_module_tls_fails_and_nothing_else)
{
    copy_command();
    assert_int_equal(COMMAND_STATUS("info", "a"), 0);
    assert_refused("TLS needs rlock's module " MODULE_FILE
                   " and OpenSSL 3 installed: " MODULE_INSTALLED ": ");
}

/* The command stands alone, with this file where it looks for its module first. */
static void put_beside(const char *module)
{
    copy_command();
    TEST_CHECK(mkdir(in_dir(MODULE_DIR), 0700) == 0);
    copy(module, in_dir(MODULE_FILE));
}

COMMAND_TEST(a_module_beside_the_command_is_found)
{
    put_beside(MODULE_BUILT);
    assert_int_equal(COMMAND_STATUS("info", "--url", nowhere, "a"), 69);
}

COMMAND_TEST(a_module_of_another_version_is_refused)
{
    put_beside(MODULE_OF_ANOTHER);
    assert_refused(MODULE_FILE " is of rlock 99.0 (interface 99), this is rlock ");
}

COMMAND_TEST(what_is_no_module_is_refused)
{
    put_beside(LIBRARY);
    assert_refused(MODULE_FILE " is no module of rlock");
}
