/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_text: calls that metrics.py knows, on two servers; then it prints the metrics. */
#include <rlock/stats.h>
#include <stdio.h>

#include "support/run.h"
#include "support/server.h"

enum { PAIRS = 3, ROOM = 256 * 1024 };

typedef int make_fn(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                    struct rlock_handle **ret_lock);

/* Some of each call. Leaves the lock "held" held. */
static void call(struct rlock_client *client, make_fn *make)
{
    struct rlock_handle *lock = NULL, *held = NULL;
    struct rlock_info info = RLOCK_INFO_INIT;

    TEST_CHECK(make(client, "name", NULL, &lock) == 0);
    TEST_CHECK(make(client, "held", NULL, &held) == 0);
    for (int i = 0; i < PAIRS; i++) {
        TEST_CHECK(rlock_lock(lock) == 0);
        TEST_CHECK(rlock_unlock(lock) == 0);
    }
    TEST_CHECK(rlock_lock(held) == 0);
    TEST_CHECK(rlock_extend(held, 0, 60000, NULL) == 0);
    TEST_CHECK(rlock_lock_for(held, 0, RLOCK_TAKE(.owner = 7), NULL) == RLOCK_EBUSY);
    TEST_CHECK(rlock_inspect(held, &info) == 0);
    TEST_CHECK(rlock_unlock(lock) == RLOCK_ENOTOWNER);
    TEST_CHECK(rlock_lock(lock) == 0);
    TEST_CHECK(rlock_force_unlock(lock, NULL) == 0);
    TEST_CHECK(rlock_unlock(lock) == RLOCK_ELOST);
    rlock_free(lock);
    rlock_free(held);
}

int main(void)
{
    struct test_server *servers[2];
    struct rlock_client *clients[3] = {NULL};
    static char text[ROOM];

    for (size_t i = 0; i < 2; i++) {
        servers[i] = test_server_start(&(struct test_server_opts){.transport = TEST_UNIX});
    }
    for (size_t i = 0; i < 3; i++) { /* two clients of the first server */
        TEST_CHECK(rlock_client_open(RLOCK_CLIENT_OPTS(.url = test_server_url(servers[i / 2])),
                                     &clients[i]) == 0);
    }
    call(clients[0], rlock_reentrant_new);
    call(clients[2], rlock_fair_new);
    TEST_CHECK(rlock_metrics((const struct rlock_client *const *)clients, 3, text, sizeof(text)) <
               ROOM);
    (void)fputs(text, stdout);
    for (size_t i = 0; i < 3; i++) {
        clients[i] = rlock_client_close(clients[i]);
    }
    test_server_stop(servers[0]);
    test_server_stop(servers[1]);
    return 0;
}
