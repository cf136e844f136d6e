/* SPDX-License-Identifier: Apache-2.0 */
/* The locks of a cluster are those of all its primaries, also while slots move. */
#include <pthread.h>
#include <rlock/admin.h>
#include <stdatomic.h>
#include <unistd.h>

#include "support/clients.h"
#include "support/cluster.h"
#include "topology/slot.h"

enum { PRIMARIES = 3, MOVES = 12, SCANS = 50 };

#define SCAN_TEST(name, f)                                                                         \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = PRIMARIES,                      \
                      .server = {.transport = TEST_TCP, .conf = cluster_conf})

static struct rlock_client *open_cluster(struct fixture *f)
{
    char url[200];

    cluster_url(f->servers, PRIMARIES, url, sizeof(url));
    return client_open_with(f, RLOCK_CLIENT_OPTS(.url = url));
}

static int count_key(const struct rlock_found *found, void *n)
{
    *(size_t *)n += found->info->locked != 0;
    return 0;
}

/* Setnx locks are strings like any others, and no scan shows them. */
SCAN_TEST(a_scan_shows_the_locks_of_all_servers, f)
{
    struct rlock_handle *locks[SINGLE_KINDS * 2];
    struct rlock_client *client;
    size_t n = 0;

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    client = open_cluster(f);
    for (size_t i = 0; i < SINGLE_KINDS * 2; i++) {
        char name[32];

        test_text(name, sizeof(name), "scan-%zu", i);
        assert_code(single_kinds[i % SINGLE_KINDS].make(client, name, NULL, &locks[i]), 0);
        assert_code(rlock_lock(locks[i]), 0);
    }
    assert_code(rlock_admin_scan(open_cluster(f), NULL, count_key, &n), 0);
    assert_int_equal(n, (SINGLE_KINDS - 1) * 2);
    for (size_t i = 0; i < SINGLE_KINDS * 2; i++) {
        struct rlock_info info = RLOCK_INFO_INIT;

        assert_code(rlock_inspect(locks[i], &info), 0);
        assert_int_equal(info.pid, getpid());
        assert_code(rlock_unlock(locks[i]), 0);
        assert_null(rlock_free(locks[i]));
    }
    for (size_t i = 0; i < PRIMARIES; i++) {
        test_server_do(f->servers[i], "FLUSHALL"); /* the tokens of the fenced ones */
    }
}

struct scanner {
    struct rlock_client *client;
    atomic_bool stop;
    atomic_int scans;
};

/* A scan may meet a key that is being moved. */
static void *scan_on(void *arg)
{
    struct scanner *scanner = arg;
    size_t n = 0;

    while (!atomic_load(&scanner->stop)) {
        (void)rlock_admin_scan(scanner->client, NULL, count_key, &n);
        atomic_fetch_add(&scanner->scans, 1);
    }
    return NULL;
}

/* The user's thread copies how a server is reached, while the service thread learns a map. */
SCAN_TEST(a_scan_goes_on_while_a_slot_moves, f)
{
    const unsigned int slot = rlock__slot(rlock__bytes_of("moves"));
    struct scanner scanner = {.client = NULL};
    struct rlock_handle *lock;
    pthread_t thread;
    size_t at = 0;

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    while (f->servers[at] != cluster_primary_of(f->servers, PRIMARIES, slot)) {
        at++;
    }
    scanner.client = open_cluster(f);
    lock = lock_named(f, scanner.client, "moves");
    assert_int_equal(pthread_create(&thread, NULL, scan_on, &scanner), 0);
    for (size_t i = 0; i < MOVES; i++, at = (at + 1) % PRIMARIES) {
        cluster_move_slot(f->servers, PRIMARIES, at, (at + 1) % PRIMARIES, slot);
        assert_code(rlock_lock(lock), 0); /* it learns of the move */
        assert_code(rlock_unlock(lock), 0);
        const int scans = atomic_load(&scanner.scans) + SCANS;
        assert_true(TEST_EVENTUALLY(atomic_load(&scanner.scans) >= scans, 30000));
    }
    atomic_store(&scanner.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}
