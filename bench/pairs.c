/* SPDX-License-Identifier: Apache-2.0 */
/* pairs [servers [pairs]]: takes and gives back a lock, for callgrind to count the calling thread's
 * instructions in pairs(): see instructions.cmake. With a number of servers they are a cluster. One
 * has the lock, another one the map; the others have an entry in that, and do not run. */
#include "support/cluster.h"
#include "support/run.h"
#include "support/server.h"

#include <rlock/rlock.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAIRS = 500 };

static __attribute__((noinline)) void pairs(struct rlock_handle *lock, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        TEST_CHECK(rlock_lock(lock) == 0);
        TEST_CHECK(rlock_unlock(lock) == 0);
    }
}

int main(int argc, char **argv)
{
    const size_t n = argc == 3 ? strtoul(argv[1], NULL, 10) : 1;
    const size_t n_pairs = argc == 3 ? strtoul(argv[2], NULL, 10) : PAIRS;
    const struct test_server_opts alone = {.transport = TEST_UNIX};
    const struct test_server_opts large = {.transport = TEST_TCP, .conf = cluster_large_conf};
    struct test_server *servers[2] = {test_server_start(argc == 3 ? &large : &alone)};
    struct rlock_client_opts opts = RLOCK_CLIENT_OPTS(.op_timeout_ms = 10000);
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL;
    char url[256];

    snprintf(url, sizeof(url), "%s", test_server_url(servers[0]));
    if (argc == 3) {
        servers[1] = test_server_start(&large);
        cluster_join(servers, 2);
        cluster_enlarge(servers, 2, n - 1);
        cluster_url(servers, 1, url, sizeof(url));
        opts.map_address = cluster_map_added;
    }
    opts.url = url;
    TEST_CHECK(rlock_client_open(&opts, &client) == 0);
    TEST_CHECK(rlock_reentrant_new(client, "name", NULL, &lock) == 0);
    TEST_CHECK(rlock_lock(lock) == 0 && rlock_unlock(lock) == 0);
    pairs(lock, n_pairs);
    printf("pairs: %zu\n", n_pairs);
    rlock_free(lock);
    rlock_client_close(client);
    test_server_stop(servers[0]);
    test_server_stop(servers[1]);
    return 0;
}
