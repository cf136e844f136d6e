/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters and Sentinels that are spoken to with TLS, and what their servers are called. */
#include <stdlib.h>
#include <string.h>

#include "support/clients.h"
#include "support/cluster.h"
#include "support/sentinel.h"
#include "topology/slot.h"

enum { PRIMARIES = 2, THREE = 3, NAMES = 6 };

#define NOWHERE "nowhere.invalid"

static const char *const tls_conf[] = {"cluster-enabled yes", "tls-cluster yes",
                                       "tls-replication yes", "cluster-node-timeout 1000", NULL};

static struct rlock_client *open_for(struct fixture *f, int64_t connect_timeout_ms)
{
    char url[200];

    cluster_url(f->servers, 1, url, sizeof(url));
    return client_open_with(
        f, RLOCK_CLIENT_OPTS(.url = url, .connect_timeout_ms = connect_timeout_ms));
}

static struct rlock_client *open_cluster(struct fixture *f)
{
    return open_for(f, 0);
}

/* The tokens of the fenced ones stay. */
static void flush(struct fixture *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_true(test_server_info(f->servers[i], "commandstats", "cmdstat_evalsha:calls") > 0);
        test_server_do(f->servers[i], "FLUSHALL");
    }
}

/* A slot of the first of some primaries, with a key of that name in it. */
static unsigned int slot_at_first(struct fixture *f, size_t primaries, const char *stem,
                                  char name[32])
{
    unsigned int slot;
    size_t n = 0;

    do {
        test_text(name, 32, "%s-%zu", stem, n++);
        slot = rlock__slot(rlock__bytes_of(name));
    } while (cluster_primary_of(f->servers, primaries, slot) != f->server);
    return slot;
}

/* What is held stays valid when its slot moves, and the client finds it there. */
static void hold_while_it_moves(struct fixture *f, struct rlock_client *client, size_t primaries)
{
    struct rlock_handle *lock;
    unsigned int slot;
    char name[32];

    slot = slot_at_first(f, primaries, "moved", name);
    lock = lock_named(f, client, name);
    assert_code(rlock_lock(lock), 0);
    cluster_move_slot(f->servers, primaries, 0, 1, slot);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
}

/* Of three primaries: each kind, and what is held while its slot moves. */
static void is_served(struct fixture *f)
{
    struct rlock_client *client;

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    client = open_cluster(f);
    pass_through_kinds(client, NAMES);
    hold_while_it_moves(f, client, PRIMARIES);
    flush(f, PRIMARIES);
}

/* ---- TLS ---- */

FIXTURE_WITH_TEST(a_cluster_is_spoken_to_with_tls, f, .kind = &kind_reentrant, .servers = PRIMARIES,
                  .server = {.transport = TEST_TLS, .conf = tls_conf})
{
    is_served(f);
}

/* With a failover, on each of the servers. */
static void outlives_a_primary_with_tls(const char *program)
{
    struct rlock_client *client;
    struct rlock_handle *lock;
    struct fixture fixture, *f = &fixture;
    char name[32];

    fixture_open(f, &(struct fixture_opts){
                        .kind = &kind_reentrant,
                        .servers = 2 * THREE,
                        .server = {.program = program, .transport = TEST_TLS, .conf = tls_conf}});
    cluster_form(f->servers, THREE, f->n);
    client = open_cluster(f);
    pass_through_kinds(client, NAMES);
    hold_while_it_moves(f, client, THREE);
    (void)slot_at_first(f, THREE, "stays", name);
    lock = lock_named(f, client, name);
    assert_code(rlock_lock(lock), 0);
    assert_true(TEST_EVENTUALLY(test_server_int(f->servers[THREE], "DBSIZE") > 0, 5000));
    test_server_kill(f->server);
    assert_code(rlock_lock_for(lock, 30000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_true(test_server_says(f->servers[THREE], "0", "EXISTS %s", name));
    for (size_t i = 1; i <= THREE; i++) { /* the primaries that run */
        test_server_do(f->servers[i], "FLUSHALL");
    }
    test_server_restart(f->server, false);
    fixture_close(f);
}

TEST(locks_outlive_a_primary_of_redis_with_tls)
{
    outlives_a_primary_with_tls("redis");
}

TEST(locks_outlive_a_primary_of_valkey_with_tls)
{
    outlives_a_primary_with_tls("valkey");
}

/* Of Redis: Valkey names its own TLS port all the same. */
TEST(plain_ports_of_a_cluster_are_a_tls_error)
{
    char port[32];
    const char *const conf[] = {"cluster-enabled yes", port, NULL};
    const struct fixture_opts opts = {
        .kind = &kind_reentrant,
        .server = {.program = "redis", .transport = TEST_TLS, .conf = conf}};
    struct rlock_handle *lock;
    struct fixture f;

    test_text(port, sizeof(port), "port %d", test_free_port());
    fixture_open(&f, &opts);
    cluster_join(f.servers, 1);
    lock = lock_new(&f, open_for(&f, test_ms(1000)));
    assert_code(rlock_lock_for(lock, 60000, NULL, NULL), RLOCK_ETLS);
    assert_detail("tls-cluster");
    fixture_close(&f);
}

#define SERVER_PASSWORD "of-servers"
#define SENTINEL_PASSWORD "of-sentinels"

TEST(sentinels_and_their_primary_have_tls_and_a_password_each)
{
    static const char *const server[] = {
        "requirepass " SERVER_PASSWORD, "masterauth " SERVER_PASSWORD, "tls-replication yes", NULL};
    static const char *const sentinel[] = {"requirepass " SENTINEL_PASSWORD,
                                           "sentinel sentinel-pass " SENTINEL_PASSWORD,
                                           "tls-replication yes", NULL};
    const struct test_server_opts own = {.transport = TEST_TLS, .conf = sentinel};
    struct sentinels sentinels;
    struct fixture f;
    char url[200];

    fixture_open(&f, &(struct fixture_opts){.kind = &kind_reentrant,
                                            .servers = 2,
                                            .server = {.transport = TEST_TLS, .conf = server}});
    sentinels_start(&sentinels, f.servers, f.n, &own, SERVER_PASSWORD);
    sentinels_url(&sentinels, url, sizeof(url));
    pass_through_kinds(
        client_open_with(&f, RLOCK_CLIENT_OPTS(.url = url, .password = SERVER_PASSWORD,
                                               .sentinel_password = SENTINEL_PASSWORD)),
        1);
    flush(&f, 1);
    sentinels_stop(&sentinels);
    fixture_close(&f);
}

/* ---- What servers are called ---- */

static const char *const by_address_conf[] = {"cluster-enabled yes",
                                              "cluster-announce-hostname " NOWHERE, NULL};
static const char *const nameless_conf[] = {"cluster-enabled yes",
                                            "cluster-preferred-endpoint-type hostname", NULL};
static const char *const as_asked_conf[] = {
    "cluster-enabled yes", "cluster-announce-hostname " NOWHERE,
    "cluster-preferred-endpoint-type unknown-endpoint", NULL};

#define NAMED_TEST(name, f, lines)                                                                 \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = PRIMARIES,                      \
                      .server = {.transport = TEST_TCP, .conf = lines})

NAMED_TEST(a_name_counts_only_where_the_cluster_prefers_it, f, by_address_conf)
{
    is_served(f);
}

/* Redirections say "?". */
NAMED_TEST(a_server_without_the_name_that_it_should_have_is_found_by_its_address, f, nameless_conf)
{
    is_served(f);
}

/* Redirections say nothing. */
NAMED_TEST(servers_are_where_the_asked_one_is_if_they_do_not_say, f, as_asked_conf)
{
    is_served(f);
}
