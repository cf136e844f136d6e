/* SPDX-License-Identifier: Apache-2.0 */
/* pairs [servers pairs [rounds|traced]]: takes and gives back a lock. callgrind counts the calling
 * thread's instructions in pairs(): see instructions.cmake. With a number of servers they are a
 * cluster, and the pairs that count come behind counted_from_here(). One server has the lock,
 * another one the map; the others have an entry in that, and do not run. With "rounds" a call waits
 * for the lock instead, and messages wake it: counted is what runs in rounds(), where the program's
 * event loop does what the service thread does otherwise. What is due by the clock, the questions
 * for the map, is left out. With "traced" the client has an empty on_trace: counted is traced() in
 * place of pairs(). */
#include "support/cluster.h"
#include "support/run.h"
#include "support/server.h"

#include <poll.h>
#include <rlock/rlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 500, FIRST = 500 };

#define CHANNEL "redisson_lock__channel:{name}"

static __attribute__((noinline)) void counted_from_here(void)
{
    __asm__ volatile(""); /* or the call would be left out */
}

static __attribute__((noinline)) void pairs(struct rlock_handle *lock, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        TEST_CHECK(rlock_lock(lock) == 0);
        TEST_CHECK(rlock_unlock(lock) == 0);
    }
}

static __attribute__((noinline)) void traced(struct rlock_handle *lock, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        TEST_CHECK(rlock_lock(lock) == 0);
        TEST_CHECK(rlock_unlock(lock) == 0);
    }
}

static void trace(const struct rlock_trace *trace, void *payload)
{
    (void)trace;
    (void)payload;
}

static void lock_and_unlock(const struct rlock_client_opts *opts, size_t first, size_t n)
{
    const bool is_traced = opts->on_trace != NULL;
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL;

    TEST_CHECK(rlock_client_open(opts, &client) == 0);
    TEST_CHECK(rlock_reentrant_new(client, "name", NULL, &lock) == 0);
    TEST_CHECK(rlock_lock(lock) == 0 && rlock_unlock(lock) == 0);
    pairs(lock, first);
    counted_from_here();
    (is_traced ? traced : pairs)(lock, n);
    printf("%s: %zu\n", is_traced ? "traced" : "pairs", n);
    rlock_free(lock);
    rlock_client_close(client);
}

static inline __attribute__((always_inline)) void go_round(struct rlock_client *client)
{
    struct pollfd fd = {.fd = rlock_client_fd(client), .events = POLLIN};

    (void)poll(&fd, 1, 1000);
    TEST_CHECK(rlock_client_dispatch(client) == 0);
}

/* Until the waiter hears messages. */
static __attribute__((noinline)) void rounds_before(struct rlock_client *client)
{
    go_round(client);
}

/* One for the message, one for the reply to the waiter's next attempt. */
static __attribute__((noinline)) void rounds(struct rlock_client *client)
{
    go_round(client);
    go_round(client);
}

static bool publish(struct test_server *server, bool sharded)
{
    return test_server_int(server, "%sPUBLISH " CHANNEL " 0", sharded ? "S" : "") != 0;
}

/* Somebody else has the lock, so each message makes the waiter ask once. */
static void messages(const struct rlock_client_opts *opts, struct test_server *server, size_t n)
{
    const bool sharded = test_server_has_command(server, "SPUBLISH");
    const struct rlock_take *take = RLOCK_TAKE(.owner = 1);
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL;

    test_server_do(server, "HSET name other:1 1");
    TEST_CHECK(rlock_client_open(opts, &client) == 0);
    TEST_CHECK(rlock_reentrant_new(client, "name", NULL, &lock) == 0);
    TEST_CHECK(rlock_lock_async(lock, RLOCK_FOREVER, take, NULL, NULL, NULL) == 0);
    while (!publish(server, sharded)) {
        rounds_before(client);
    }
    for (size_t i = 0; i < FIRST + n; i++) {
        if (i == FIRST) {
            counted_from_here();
        }
        rounds(client);
        TEST_CHECK(publish(server, sharded));
    }
    printf("rounds: %zu\n", n);
    rlock_client_close(client);
    rlock_free(lock);
}

static void map_added(struct rlock_address *address, void *payload)
{
    (void)payload;
    address->port = cluster_map_added(address->port);
}

int main(int argc, char **argv)
{
    const size_t n = argc >= 3 ? strtoul(argv[1], NULL, 10) : 1;
    const size_t times = argc >= 3 ? strtoul(argv[2], NULL, 10) : PAIRS;
    const struct test_server_opts alone = {.transport = TEST_UNIX};
    const struct test_server_opts large = {.transport = TEST_TCP, .conf = cluster_large_conf};
    struct test_server *servers[2] = {test_server_start(argc >= 3 ? &large : &alone)};
    struct rlock_client_opts opts = *RLOCK_CLIENT_OPTS(.op_timeout_ms = 10000);
    char url[256];

    snprintf(url, sizeof(url), "%s", test_server_url(servers[0]));
    if (argc >= 3) {
        servers[1] = test_server_start(&large);
        cluster_join(servers, 2);
        cluster_enlarge(servers, 2, n - 1);
        cluster_url(servers, 1, url, sizeof(url));
        opts.on_address = map_added;
    }
    opts.url = url;
    if (argc == 4 && strcmp(argv[3], "traced") == 0) {
        opts.on_trace = trace;
    }
    if (argc == 4 && opts.on_trace == NULL) {
        opts.flags = RLOCK_CLIENT_USER_LOOP;
        opts.acks = RLOCK_ACKS_OFF;
        messages(&opts, servers[0], times);
    } else {
        lock_and_unlock(&opts, argc == 3 ? FIRST : 0, times);
    }
    test_server_stop(servers[0]);
    test_server_stop(servers[1]);
    return 0;
}
