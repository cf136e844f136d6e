/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster whose user may ask for CLUSTER SLOTS alone, and not for CLUSTER NODES. */
#include <string.h>

#include "drive/client.h"
#include "support/clients.h"
#include "support/cluster.h"
#include "support/refusal.h"
#include "topology/slot.h"

enum { PRIMARIES = 3, NAMES = 6, SOON_MS = 20000 };

#define NEITHER "ACL SETUSER few on >canary allkeys allchannels +@all -cluster"
#define SILENT NEITHER " +cluster|slots"
#define SAYS SILENT " +cluster|myid"
#define ELSEWHERE "elsewhere.invalid"

static const char *const failing_conf[] = {"cluster-enabled yes", "cluster-node-timeout 1000",
                                           "cluster-require-full-coverage no", NULL};

#define SLOTS_TEST(name, f, n, config)                                                             \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = (n),                            \
                      .server = {.transport = TEST_TCP, .conf = (config)})

/* The first three have all slots. */
static void form(struct fixture *f, size_t n, const char *user)
{
    cluster_form(f->servers, PRIMARIES, n);
    for (size_t i = 0; i < f->n; i++) {
        test_server_do(f->servers[i], "%s", user);
    }
}

/* Our servers have another name. */
static void map(struct rlock_address *address, void *payload)
{
    (void)payload;
    if (strcmp(address->host, ELSEWHERE) == 0) {
        test_text(address->host, sizeof(address->host), "127.0.0.1");
    }
}

static struct rlock_client *open_with(struct fixture *f, const char *host, int acks)
{
    char url[200];

    test_text(url, sizeof(url), "redis+cluster://%s:%d", host, test_server_port(f->servers[0]));
    return client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .user = "few", .password = "canary",
                                                 .acks = acks, .on_address = map));
}

static struct rlock_client *open_few(struct fixture *f)
{
    return open_with(f, "127.0.0.1", RLOCK_ACKS_OFF);
}

/* A name at one of the first three that was not used yet; and its slot. */
static unsigned int name_at(const struct fixture *f, size_t server, size_t *inout_n, char name[32])
{
    unsigned int slot;

    do {
        test_text(name, 32, "slots-%zu", (*inout_n)++);
        slot = rlock__slot(rlock__bytes_of(name));
    } while (cluster_primary_of(f->servers, PRIMARIES, slot) != f->servers[server]);
    return slot;
}

static long long count_moved(const struct fixture *f)
{
    long long n = 0;

    for (size_t i = 0; i < f->n; i++) {
        const long long here =
            test_server_info(f->servers[i], "errorstats", "errorstat_MOVED:count");

        n += here > 0 ? here : 0;
    }
    return n;
}

SLOTS_TEST(locks_work_where_cluster_nodes_is_not_permitted, f, 3, cluster_conf)
{
    struct rlock_client *client;

    form(f, f->n, SAYS);
    client = open_few(f);
    pass_through_kinds(client, NAMES);
    for (size_t i = 0; i < PRIMARIES; i++) {
        assert_true(test_server_info(f->servers[i], "commandstats", "cmdstat_evalsha:calls") > 0);
        test_server_do(f->servers[i], "FLUSHALL"); /* the tokens of the fenced ones */
    }
    assert_int_equal(count_moved(f), 0); /* it has a map */
    assert_int_equal(diary_logged(&f->diary, "permit +cluster|nodes"), 1);
}

SLOTS_TEST(a_slot_that_moves_is_followed_without_cluster_nodes, f, 3, cluster_conf)
{
    struct rlock_client *client;
    struct rlock_handle *lock;
    unsigned int slot;
    char name[32];
    size_t n = 0;

    form(f, f->n, SAYS);
    client = open_few(f);
    slot = name_at(f, 0, &n, name);
    lock = lock_named(f, client, name);
    assert_code(rlock_lock(lock), 0);
    cluster_move_slot(f->servers, PRIMARIES, 0, 1, slot);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_lock(lock), 0);
    assert_int_equal(test_server_int(f->servers[1], "EXISTS %s", name), 1);
    assert_code(rlock_unlock(lock), 0);
    n = (size_t)count_moved(f);
    assert_code(act_pass_through(lock_named(f, open_few(f), name), RLOCK_FOREVER, NULL), 0);
    assert_int_equal(count_moved(f), n); /* the map says so too */
}

/* CLUSTER SLOTS names it only then. */
SLOTS_TEST(a_server_that_gets_its_first_slot_is_found_without_cluster_nodes, f, 4, cluster_conf)
{
    struct rlock_handle *lock;
    unsigned int slot;
    char name[32];
    size_t n = 0;

    form(f, PRIMARIES, SAYS);
    cluster_add(f->servers, PRIMARIES, f->servers[PRIMARIES]);
    slot = name_at(f, 0, &n, name);
    lock = lock_named(f, open_few(f), name);
    assert_code(rlock_lock(lock), 0);
    cluster_move_slot(f->servers, f->n, 0, PRIMARIES, slot);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_lock(lock), 0);
    assert_int_equal(test_server_int(f->servers[PRIMARIES], "EXISTS %s", name), 1);
    assert_code(rlock_unlock(lock), 0);
}

SLOTS_TEST(where_replicas_acknowledge_cluster_nodes_must_be_permitted, f, 3, cluster_conf)
{
    static const int acks[] = {RLOCK_ACKS_AUTO, RLOCK_ACKS_ALL, 1};

    form(f, f->n, SAYS);
    for (size_t i = 0; i < sizeof(acks) / sizeof(acks[0]); i++) {
        struct rlock_handle *lock = lock_named(f, open_with(f, "127.0.0.1", acks[i]), "a");
        const int64_t began_us = test_now_us();

        assert_code(rlock_lock_for(lock, SOON_MS, NULL, NULL), RLOCK_ECONN);
        assert_detail("CLUSTER NODES is not permitted");
        assert_detail("permit +cluster|nodes, or turn acks off");
        assert_took(test_now_us() - began_us, 0, SOON_MS / 2);
    }
    assert_int_equal(test_server_info(f->servers[0], "commandstats", "cmdstat_eval"), -1);
    assert_int_equal(test_server_info(f->servers[1], "commandstats", "cmdstat_eval"), -1);
}

SLOTS_TEST(where_cluster_slots_is_not_permitted_either_calls_fail_at_once, f, 3, cluster_conf)
{
    struct rlock_handle *lock;

    form(f, f->n, NEITHER);
    lock = lock_named(f, open_few(f), "a");
    assert_code(rlock_lock(lock), RLOCK_ECONN);
    assert_detail("CLUSTER NODES is not permitted; CLUSTER SLOTS: NOPERM");
}

static void take_at(struct fixture *f, struct rlock_client *client, size_t server, size_t *inout_n)
{
    struct rlock_handle *lock;
    char name[32];

    (void)name_at(f, server, inout_n, name);
    lock = lock_named(f, client, name);
    assert_code(rlock_lock_for(lock, SOON_MS, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
}

/* A server is asked by a name that it does not have. Others confirm its link; where those do not
 * answer it does so itself, but not before half a second. */
static void take_by_another_name(struct fixture *f)
{
    struct rlock_client *client = open_with(f, ELSEWHERE, RLOCK_ACKS_OFF);
    int64_t began_us;
    size_t n = 0;

    for (size_t i = 0; i < PRIMARIES; i++) {
        take_at(f, client, i, &n);
    }
    test_server_freeze(f->servers[1]);
    test_server_freeze(f->servers[2]);
    client = open_with(f, ELSEWHERE, RLOCK_ACKS_OFF);
    began_us = test_now_us();
    take_at(f, client, 0, &n);
    assert_true(test_now_us() - began_us >= 500000);
    test_server_thaw(f->servers[1]);
    test_server_thaw(f->servers[2]);
}

SLOTS_TEST(a_server_confirms_no_link_to_itself_that_others_can_confirm, f, 3, cluster_conf)
{
    form(f, f->n, SAYS);
    take_by_another_name(f);
}

/* It may be any of those that it names. */
SLOTS_TEST(nor_does_one_that_may_not_say_its_id, f, 3, cluster_conf)
{
    form(f, f->n, SILENT);
    take_by_another_name(f);
}

/* What the client knows of a server: whether it is a primary, and whether another one is held to
 * have taken its place. */
static struct rlock__node *node_of(struct rlock_client *client, struct test_server *server)
{
    struct rlock__node *node, *found = NULL;

    RLOCK__EACH_NODE(client, node) {
        found = node->uri.port == test_server_port(server) ? node : found;
    }
    return found;
}

static bool is_primary(struct rlock_client *client, struct test_server *server)
{
    bool is;

    rlock__enter(client);
    is = node_of(client, server)->is_primary;
    rlock__leave(client);
    return is;
}

static bool is_replaced(struct rlock_client *client, struct test_server *server)
{
    bool is;

    rlock__enter(client);
    is = node_of(client, server)->server.links[0].replaced;
    rlock__leave(client);
    return is;
}

/* One that was asked to, and one whose primary has failed. No epoch proves either. */
SLOTS_TEST(a_promoted_replica_is_found_without_cluster_nodes, f, 4, failing_conf)
{
    struct test_server *first = f->servers[0], *second = f->servers[PRIMARIES];
    struct rlock_client *client;
    struct rlock_handle *lock;
    char name[32];
    size_t n = 0;

    form(f, f->n, SAYS);
    client = open_few(f);
    take_at(f, client, 0, &n);
    test_server_do(second, "CLUSTER FAILOVER");
    assert_true(TEST_EVENTUALLY(test_server_is_primary(second), SOON_MS));
    take_at(f, client, 0, &n); /* it is sent there */
    assert_true(TEST_EVENTUALLY(is_primary(client, second), SOON_MS));
    assert_true(TEST_EVENTUALLY(!is_primary(client, first), SOON_MS));
    assert_false(is_replaced(client, first));
    test_server_kill(second);
    (void)name_at(f, 0, &n, name);
    lock = lock_named(f, client, name);
    assert_code(rlock_lock_for(lock, SOON_MS, NULL, NULL), 0);
    assert_int_equal(test_server_int(first, "EXISTS %s", name), 1);
    assert_code(rlock_unlock(lock), 0);
    assert_false(is_replaced(client, second));
    test_server_restart(second, false);
}

/* ---- A server that does not support CLUSTER NODES, permitted or not ---- */

static const struct refusal no_nodes[] = {
    {.command = "CLUSTER", .contains = "NODES", .answer = UNKNOWN("CLUSTER|NODES")}, {0}};
static const struct refusal no_cluster[] = {{.command = "CLUSTER", .answer = UNKNOWN("CLUSTER")},
                                            {0}};

static struct rlock_handle *lock_behind(struct fixture *f, const struct refusal *rows, int acks)
{
    char url[200];

    refuse(f->proxy, rows);
    test_text(url, sizeof(url), "redis+cluster%s", strchr(proxy_url(f->proxy), ':'));
    return lock_named(f, client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .acks = acks)), "a");
}

FIXTURE_WITH_TEST(that_cluster_nodes_is_not_supported_is_not_called_a_lack_of_rights, f,
                  .kind = &kind_reentrant, .proxy = PROXY_ON_TCP,
                  .server = {.transport = TEST_TCP, .conf = cluster_conf})
{
    assert_code(rlock_try_lock(lock_behind(f, no_nodes, RLOCK_ACKS_AUTO)), RLOCK_ECONN);
    assert_detail("CLUSTER NODES is not supported by the server, so nobody says");
    assert_detail("acknowledge: turn acks off");
    assert_null(strstr(rlock_detail(), "permit"));
    assert_true(TEST_EVENTUALLY(
        diary_logged(&f->diary, "CLUSTER NODES is not supported by the server: nobody") > 0, 5000));
    assert_int_equal(diary_logged(&f->diary, "permit"), 0);
    assert_code(rlock_try_lock(lock_behind(f, no_cluster, RLOCK_ACKS_OFF)), RLOCK_ECONN);
    assert_detail("CLUSTER NODES is not supported by the server; CLUSTER SLOTS: ERR unknown");
}
