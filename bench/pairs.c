/* SPDX-License-Identifier: Apache-2.0 */
/* Takes and gives back a lock, for callgrind to count the calling thread's instructions in pairs():
 * see instructions.cmake. */
#include "support/run.h"
#include "support/server.h"

#include <rlock/rlock.h>
#include <stdio.h>

enum { PAIRS = 500 };

static __attribute__((noinline)) void pairs(struct rlock_handle *lock)
{
    for (int i = 0; i < PAIRS; i++) {
        TEST_CHECK(rlock_lock(lock) == 0);
        TEST_CHECK(rlock_unlock(lock) == 0);
    }
}

int main(void)
{
    const struct test_server_opts opts = {.transport = TEST_UNIX};
    struct test_server *server = test_server_start(&opts);
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL;

    TEST_CHECK(rlock_client_open(
                   &RLOCK_CLIENT_OPTS(.url = test_server_url(server), .op_timeout_ms = 10000),
                   &client) == 0);
    TEST_CHECK(rlock_reentrant_new(client, "name", NULL, &lock) == 0);
    TEST_CHECK(rlock_lock(lock) == 0 && rlock_unlock(lock) == 0);
    pairs(lock);
    printf("pairs: %d\n", PAIRS);
    rlock_free(lock);
    rlock_client_close(client);
    test_server_stop(server);
    return 0;
}
