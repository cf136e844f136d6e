/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of event loops that run a client, each on a server of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

/* Runs it, and checks that no count was lost. Skips where the loop's library is not there. */
static void check(const struct fixture *f, const char *program)
{
    char command[1024], said[64] = "";
    FILE *out;

    if (program[0] == '\0') {
        print_message("the loop's library is not installed\n");
        skip();
    }
    /* the programs trust what the system trusts */
    test_text(command, sizeof(command), "SSL_CERT_FILE=%s %s %s", test_server_cacert(f->server),
              program, test_server_url(f->server));
    out = popen(command, "re");
    assert_non_null(out);
    (void)!fgets(said, sizeof(said), out);
    assert_int_equal(pclose(out), 0);
    assert_string_equal(said, "200 of 200\n");
}

FIXTURE_TEST(tasks_in_a_loop_of_epoll_lose_no_count, f)
{
    check(f, EXAMPLE_EPOLL);
}

FIXTURE_TEST(tasks_in_a_loop_of_libevent_lose_no_count, f)
{
    check(f, EXAMPLE_LIBEVENT);
}

FIXTURE_TEST(tasks_in_a_loop_of_libuv_lose_no_count, f)
{
    check(f, EXAMPLE_LIBUV);
}
