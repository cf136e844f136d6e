/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the command share: a server per test, and somebody who holds the lock "a". */
#ifndef RLOCK_TEST_CLI_FIXTURE_H
#define RLOCK_TEST_CLI_FIXTURE_H

#include "command.h"
#include "support/server.h"
#include "support/test.h"

#include <sys/types.h>

/* cmocka's setup and teardown: a server, and $RLOCK_URL for the commands. */
int fixture_start(void **state);
int fixture_stop(void **state);
#define COMMAND_TEST(name) TEST_BETWEEN(fixture_start, fixture_stop, name)

struct test_server *fixture_server(void);

/* Another server instead, with these lines in its configuration. */
void fixture_restart_with(const char *const *conf);

/* Another server instead, that speaks TLS and wants a certificate of its clients. */
void fixture_restart_with_tls(void);

bool is_held(const char *name);

/* The server's unix URL with this userinfo. Valid until the next call. */
const char *url_with(const char *userinfo);

/* Starts a command that holds "a" until it is ended; its child's pid stands in the file "pid". */
struct command hold_a(const char *renewed_lease);

/* Ends a command whose child sleeps. */
void end_command(const struct command *command);

void write_file(const char *path, const char *text, mode_t mode);

void assert_contains(const char *text, const char *part);

#endif
