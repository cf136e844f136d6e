/*
 * A side connection: the test's own way to ask its server, over the server's unix socket, blocking,
 * as an ACL user of its own that may do everything, whatever the test does to the default user.
 * Threads: one at a time.
 */
#ifndef RLOCK_TEST_SIDE_H
#define RLOCK_TEST_SIDE_H

#include "resp.h"

#define SIDE_USER "test-side"

struct side;

/* Connects and logs in: NULL when nobody listens or the server is not ready for commands yet. */
struct side *side_open(const char *socket_path);
struct side *side_close(struct side *side);

/* Whether the other end is still there, as far as can be known without asking it. */
bool side_is_open(const struct side *side);

/* Sends whole commands and gives the one reply, valid until the next call; empty when the
   connection broke or 5 s passed without it. */
struct resp_bytes side_call(struct side *side, struct resp_bytes commands);

#endif
