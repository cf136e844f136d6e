/* SPDX-License-Identifier: Apache-2.0 */
/* Servers of a cluster that a client needs for a while, and those that come and go. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "drive/client.h"
#include "support/clients.h"
#include "support/cluster.h"
#include "support/stall.h"
#include "topology/slot.h"

enum { PRIMARIES = 2, GONE_MS = 10000 };

#define UNUSED_US (400 * RLOCK__MS)

/* One without slots does not become a replica of another. */
static const char *const staying_conf[] = {"cluster-enabled yes",
                                           "cluster-allow-replica-migration no", NULL};

#define CLUSTER_TEST(name, f)                                                                      \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 3,                              \
                      .server = {.transport = TEST_TCP, .conf = staying_conf})

static struct rlock_client *open_cluster(struct fixture *f, size_t n)
{
    char url[200];

    cluster_url(f->servers, n, url, sizeof(url));
    return client_open_with(f, RLOCK_CLIENT_OPTS(.url = url));
}

/* A name at one of the first two. */
static unsigned int name_at(const struct fixture *f, size_t server, char name[32])
{
    unsigned int slot;
    size_t n = 0;

    do {
        test_text(name, 32, "needs-%zu", n++);
        slot = rlock__slot(rlock__bytes_of(name));
    } while (cluster_primary_of(f->servers, PRIMARIES, slot) != f->servers[server]);
    return slot;
}

/* Servers are let go after less than a minute. */
static void hurry(struct rlock_client *client)
{
    rlock__enter(client);
    client->core.opts.unused_us = UNUSED_US;
    if (client->core.needs.set) {
        rlock__timer_set(&client->core.timers, &client->core.needs, rlock__now_us() + UNUSED_US);
    }
    rlock__leave_and_drive(client);
}

/* One connection asks for the map, and stays. */
CLUSTER_TEST(connections_that_nothing_needs_are_closed_and_made_again, f)
{
    struct rlock_handle *kept, *left, *waited;
    struct rlock_client *client, *rival;
    char names[PRIMARIES][32];
    struct actor *waiter = actor_open(f);

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    (void)name_at(f, 0, names[0]);
    (void)name_at(f, 1, names[1]);
    client = open_cluster(f, 1);
    hurry(client);
    kept = lock_named(f, client, names[0]);
    left = lock_named(f, client, names[1]);
    assert_code(rlock_lock(kept), 0);
    for (size_t i = 0; i < 2; i++) { /* with a waiter, for the connection for messages */
        rival = open_cluster(f, 1);
        assert_code(rlock_lock(waited = lock_named(f, rival, names[1])), 0);
        actor_begin(waiter, act_pass_through, left, RLOCK_FOREVER, NULL);
        await_waiting(client, 1);
        assert_true(test_server_clients(f->servers[1]) >= 3);
        assert_code(rlock_unlock(waited), 0);
        assert_code(actor_end(waiter), 0);
        client_close(f, rival);
        assert_true(TEST_EVENTUALLY(test_server_clients(f->servers[1]) <= 1, GONE_MS));
    }
    assert_true(test_server_clients(f->servers[0]) >= 1);
    assert_true(rlock_is_valid(kept));
    assert_code(rlock_unlock(kept), 0);
}

/* The one that asks for the map, too. */
CLUSTER_TEST(a_client_that_is_closed_has_no_connections_while_it_has_handles, f)
{
    struct rlock_client *client;

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    client = open_cluster(f, 1);
    assert_code(act_pass_through(lock_named(f, client, "left"), RLOCK_FOREVER, NULL), 0);
    client_close(f, client);
    for (size_t i = 0; i < PRIMARIES; i++) {
        assert_true(TEST_EVENTUALLY(test_server_clients(f->servers[i]) == 0, GONE_MS));
    }
}

/* Whether the server has shaken hands with so many, itself included. */
static bool knows(struct test_server *server, size_t n)
{
    char *nodes = test_server_cmd(server, "CLUSTER NODES");
    const bool is_shaking = strstr(nodes, "handshake") != NULL;
    size_t lines = 0;

    for (const char *at = nodes; (at = strstr(at, "master ")) != NULL; at++) {
        lines++;
    }
    free(nodes);
    return !is_shaking && lines == n;
}

CLUSTER_TEST(a_server_may_come_and_go_while_a_client_works, f)
{
    struct rlock_client *client;
    struct rlock_handle *lock;
    char name[32], *id;
    unsigned int slot;

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    slot = name_at(f, 0, name);
    client = open_cluster(f, PRIMARIES);
    lock = lock_named(f, client, name);
    assert_code(rlock_lock(lock), 0);
    test_server_do(f->servers[0], "CLUSTER MEET 127.0.0.1 %d", test_server_port(f->servers[2]));
    for (size_t i = 0; i < f->n; i++) {
        assert_true(TEST_EVENTUALLY(knows(f->servers[i], f->n), GONE_MS));
    }
    cluster_move_slot(f->servers, f->n, 0, 2, slot);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_lock(lock), 0);
    assert_int_equal(test_server_int(f->servers[2], "DBSIZE"), 1);
    cluster_move_slot(f->servers, f->n, 2, 0, slot);
    id = test_server_cmd(f->servers[2], "CLUSTER MYID");
    for (size_t i = 0; i < PRIMARIES; i++) {
        test_server_do(f->servers[i], "CLUSTER FORGET %s", id);
    }
    free(id);
    test_server_kill(f->servers[2]);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    test_server_restart(f->servers[2], false);
}

/* The first of the URL is down when the client opens. */
CLUSTER_TEST(a_server_of_the_url_that_is_down_delays_nobody_for_long, f)
{
    struct test_server *const seeds[] = {f->servers[2], f->servers[0]};
    char url[200], name[32];

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    test_server_kill(f->servers[2]);
    (void)name_at(f, 1, name);
    cluster_url(seeds, 2, url, sizeof(url));
    assert_code(
        act_pass_through(lock_named(f, client_open_with(f, RLOCK_CLIENT_OPTS(.url = url)), name),
                         RLOCK_FOREVER, NULL),
        0);
    test_server_restart(f->servers[2], false);
}

/* ---- A cluster so large that nothing connects to a server before a key needs it ---- */

enum { MANY = 70 };

static void map_added(struct rlock_address *address, void *payload)
{
    (void)payload;
    address->port = cluster_map_added(address->port);
}

FIXTURE_WITH_TEST(the_first_call_of_a_client_gets_its_lock_in_a_large_cluster, f,
                  .kind = &kind_reentrant, .servers = 2,
                  .server = {.transport = TEST_TCP, .conf = cluster_large_conf})
{
    struct rlock_client *client;
    struct rlock_handle *lock;
    char url[200];

    cluster_join(f->servers, 2);
    cluster_enlarge(f->servers, 2, MANY);
    cluster_url(f->servers, 1, url, sizeof(url));
    client = client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .on_address = map_added));
    lock = lock_named(f, client, "name");
    assert_code(rlock_lock_for(lock, 5000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
}

/* ---- As many connections as may be made at the same time ---- */

/* A port that takes connections, and answers nothing. */
static int listen_silently(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    const int fd = test_must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    test_must(bind(fd, (struct sockaddr *)&address, len), "bind");
    test_must(listen(fd, 1024), "listen");
    test_must(getsockname(fd, (struct sockaddr *)&address, &len), "getsockname");
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static bool is_full(struct rlock_client *client)
{
    bool is;

    rlock__enter(client);
    is = client->core.n_connecting == RLOCK__CONNECTING_MAX;
    rlock__leave(client);
    return is;
}

static bool is_down(struct rlock_client *client)
{
    bool is;

    rlock__enter(client);
    is = !client->nodes->server.links[0].pipeline.up;
    rlock__leave(client);
    return is;
}

/* The client gets more servers in a way that no program has: as from a cluster's map. */
LOCK_TEST(a_server_is_reached_again_although_many_others_do_not_answer, f)
{
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.connect_timeout_ms = 2000, .op_timeout_ms = 20000));
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock__uri silent = RLOCK__URI_NULL;
    char host[] = "127.0.0.1";
    const int fd = listen_silently(&silent.port);
    int64_t down_us;

    silent.host = host;
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    for (size_t i = 0; i < RLOCK__CONNECTING_MAX; i++) {
        assert_true(rlock__node_at(client, &silent, "silent"));
    }
    assert_true(TEST_EVENTUALLY(is_full(client), GONE_MS));
    test_server_do(f->server, "CLIENT KILL TYPE normal");
    assert_true(TEST_EVENTUALLY(is_down(client), GONE_MS));
    down_us = test_now_us();
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    assert_in_time(down_us, GONE_MS * RLOCK__MS); /* when the others time out, and not the call */
    client_close(f, client);
    close(fd);
}
