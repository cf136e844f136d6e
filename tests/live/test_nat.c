/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that are reached elsewhere than where they say they are. */
#include <stdatomic.h>
#include <string.h>

#include "support/clients.h"
#include "support/cluster.h"
#include "support/sentinel.h"

enum { PRIMARIES = 2, NAMES = 6 };

#define NOWHERE "nowhere.invalid"

static const char *const elsewhere_conf[] = {"cluster-enabled yes",
                                             "cluster-announce-hostname " NOWHERE,
                                             "cluster-preferred-endpoint-type hostname", NULL};

/* Whoever says NOWHERE is here. */
static void map(struct rlock_address *address, void *payload)
{
    (void)payload;
    if (strcmp(address->host, NOWHERE) == 0) {
        test_text(address->host, sizeof(address->host), "127.0.0.1");
    }
}

/* Two primaries and a replica; all call themselves otherwise. */
FIXTURE_WITH_TEST(the_servers_of_a_cluster_are_reached_where_the_user_says, f,
                  .kind = &kind_reentrant, .servers = 3,
                  .server = {.transport = TEST_TCP, .conf = elsewhere_conf})
{
    struct rlock_client *client;
    char url[200];

    cluster_form(f->servers, PRIMARIES, f->n);
    test_text(url, sizeof(url), "redis+cluster://" NOWHERE ":%d", test_server_port(f->servers[0]));
    client = client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .on_address = map));
    for (size_t i = 0; i < NAMES; i++) {
        char name[32];

        test_text(name, sizeof(name), "far-%zu", i);
        assert_code(act_pass_through(lock_named(f, client, name), RLOCK_FOREVER, NULL), 0);
    }
    for (size_t i = 0; i < PRIMARIES; i++) {
        assert_true(test_server_info(f->servers[i], "commandstats", "cmdstat_evalsha:calls") > 0);
    }
}

/* ---- Behind Sentinels ---- */

static atomic_int primary_port, n_mapped, n_sentinels;

/* The same, and counts the questions for the primary, and for the Sentinel. */
static void map_counting(struct rlock_address *address, void *payload)
{
    map(address, payload);
    atomic_fetch_add(&n_mapped, (int)address->port == atomic_load(&primary_port));
    atomic_fetch_add(&n_sentinels, address->is_sentinel);
}

FIXTURE_WITH_TEST(sentinels_and_their_primary_are_reached_where_the_user_says, f,
                  .kind = &kind_reentrant, .servers = 1, .server = {.transport = TEST_TCP})
{
    const struct test_server_opts plain = {.transport = TEST_TCP};
    struct sentinels sentinels;
    char url[200];

    sentinels_start(&sentinels, f->servers, f->n, &plain, NULL);
    atomic_store(&primary_port, test_server_port(f->server));
    test_text(url, sizeof(url), "redis+sentinel://" NOWHERE ":%d/primary",
              test_server_port(sentinels.each[0]));
    assert_code(act_pass_through(
                    lock_new(f, client_open_with(
                                    f, RLOCK_CLIENT_OPTS(.url = url, .on_address = map_counting))),
                    RLOCK_FOREVER, NULL),
                0);
    assert_int_equal(atomic_load(&n_mapped), 1);
    assert_int_equal(atomic_load(&n_sentinels), 1);
    sentinels_stop(&sentinels);
}
