/* SPDX-License-Identifier: Apache-2.0 */
/* Sentinels that watch servers of a test's own. */
#ifndef RLOCK_TEST_SENTINEL_H
#define RLOCK_TEST_SENTINEL_H

#include "support/server.h"

#include <stddef.h>

enum { SENTINELS = 3 };
#define SENTINEL_DOWN_AFTER_MS 1000

struct sentinels {
    struct test_server *each[SENTINELS];
};

/* Makes the first server the primary and the others its replicas, and starts Sentinels that know
 * all of it. They are asked for by the name "primary". opts: of each.
 * password: the servers', or NULL. */
void sentinels_start(struct sentinels *sentinels, struct test_server *const *servers, size_t n,
                     const struct test_server_opts *opts, const char *password);
/* Has them watch this primary, which they do not know. Returns when they know its replicas. */
void sentinels_watch(const struct sentinels *sentinels, struct test_server *primary,
                     size_t n_replicas, const char *password);
/* Has all of them take over this epoch for the primary that they watch. */
void sentinels_raise_epoch(const struct sentinels *sentinels, struct test_server *primary,
                           int epoch);
/* Their connections to the servers end with them. */
void sentinels_stop(struct sentinels *sentinels);
/* Writes the URL of what they watch. */
void sentinels_url(const struct sentinels *sentinels, char *out, size_t size);
/* Whether this is the server that a Sentinel names as the primary. */
bool sentinel_names(struct test_server *sentinel, const struct test_server *server);

#endif
