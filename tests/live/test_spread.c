/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs a client of a cluster that its names are spread over servers, and over slots. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "support/clients.h"
#include "support/cluster.h"
#include "topology/slot.h"

enum { PRIMARIES = 3, THREADS = 32, ROUNDS = 5, ROUND_MS = 1000, HOLDS = 10000, LEASE_MS = 9000 };

#define OWNER 7

#define CLUSTER_TEST(name, f)                                                                      \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = PRIMARIES,                      \
                      .server = {.transport = TEST_TCP, .conf = cluster_conf})

static struct rlock_client *open_cluster(struct fixture *f, int64_t renewed_lease_ms)
{
    char url[200];

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    cluster_url(f->servers, PRIMARIES, url, sizeof(url));
    return client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .renewed_lease_ms = renewed_lease_ms));
}

/* ---- Threads that each take a lock of their own again and again ---- */

struct crew {
    struct rlock_handle *locks[THREADS];
    atomic_bool stop;
    atomic_long rounds;
};

struct member {
    struct crew *crew;
    size_t number;
    pthread_t thread;
};

static void *take_and_give(void *arg)
{
    struct member *member = arg;
    struct rlock_handle *lock = member->crew->locks[member->number];

    while (!atomic_load(&member->crew->stop)) {
        TEST_CHECK(act_pass_through(lock, RLOCK_FOREVER, NULL) == 0);
        atomic_fetch_add(&member->crew->rounds, 1);
    }
    return NULL;
}

/* How many they took in a round. */
static long run_round(struct crew *crew)
{
    struct member members[THREADS];

    atomic_store(&crew->stop, false);
    atomic_store(&crew->rounds, 0);
    for (size_t i = 0; i < THREADS; i++) {
        members[i] = (struct member){.crew = crew, .number = i};
        assert_int_equal(pthread_create(&members[i].thread, NULL, take_and_give, &members[i]), 0);
    }
    assert_true(STAYS(true, ROUND_MS));
    atomic_store(&crew->stop, true);
    for (size_t i = 0; i < THREADS; i++) {
        (void)pthread_join(members[i].thread, NULL);
    }
    return atomic_load(&crew->rounds);
}

/* The names of a crew: all on the first server, or as many on each. */
static void name_crew(struct fixture *f, struct rlock_client *client, struct crew *crew,
                      size_t n_servers)
{
    size_t n = 0;

    for (size_t i = 0; i < THREADS; i++) {
        char name[32];

        do {
            test_text(name, sizeof(name), "spread-%zu-%zu", n_servers, n++);
        } while (cluster_primary_of(f->servers, PRIMARIES, rlock__slot(rlock__bytes_of(name))) !=
                 f->servers[i % n_servers]);
        crew->locks[i] = lock_named(f, client, name);
    }
}

CLUSTER_TEST(names_on_three_servers_are_nearly_as_fast_as_on_one, f)
{
    struct rlock_client *client = open_cluster(f, 0);
    struct crew together = {.rounds = 0}, spread = {.rounds = 0};
    int64_t permille[ROUNDS];
    const int64_t since_us = test_now_us();

    name_crew(f, client, &together, 1);
    name_crew(f, client, &spread, PRIMARIES);
    (void)run_round(&spread);
    for (size_t i = 0; i < ROUNDS; i++) {
        const long one = run_round(&together), three = run_round(&spread);

        print_message("%ld on one server, %ld on three\n", one, three);
        permille[i] = one > 0 ? three * 1000 / one : 0;
    }
    print_message("median: %lld permille\n", (long long)test_median(permille, ROUNDS));
    assert_true(test_median(permille, ROUNDS) >= 750 ||
                test_missed(since_us, test_elapsed_us(since_us) / 10));
}

/* ---- Holds in slots of their own ---- */

static int64_t cpu_us(void)
{
    struct timespec spent;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (int64_t)spent.tv_sec * 1000000 + spent.tv_nsec / 1000;
}

static long long scripts_run(struct fixture *f)
{
    long long n = 0;

    for (size_t i = 0; i < PRIMARIES; i++) {
        n += test_server_info(f->servers[i], "commandstats", "cmdstat_evalsha:calls");
    }
    return n;
}

/* Each is renewed three times in a lease: a script for each slot. */
CLUSTER_TEST(ten_thousand_holds_in_as_many_slots_are_renewed, f)
{
    struct rlock_client *client = open_cluster(f, test_ms(LEASE_MS));
    struct rlock_handle **locks = calloc(HOLDS, sizeof(struct rlock_handle *));
    const size_t n = test_slack() > 1 ? HOLDS / 10 : HOLDS;
    int64_t spent_us;
    long long scripts;

    for (size_t i = 0; i < n; i++) {
        char name[32];

        test_text(name, sizeof(name), "slot-%zu", i);
        assert_code(rlock_reentrant_new(client, name, NULL, &locks[i]), 0);
        assert_code(TAKE(locks[i], 10000, .owner = OWNER), 0);
    }
    scripts = scripts_run(f);
    spent_us = cpu_us();
    for (int i = 0; i < 9; i++) {
        const int64_t since_us = test_now_us();

        assert_true(STAYS(true, test_ms(LEASE_MS) / 9));
        assert_code(act_pass_through(lock_new(f, client), RLOCK_FOREVER, NULL), 0);
        assert_in_time(since_us, (test_ms(LEASE_MS) / 9 + LATE_MS) * 1000);
    }
    spent_us = cpu_us() - spent_us;
    scripts = scripts_run(f) - scripts;
    print_message("%zu holds in a lease of %lld ms: %lld scripts, %lld ms of processor time\n", n,
                  (long long)test_ms(LEASE_MS), scripts, (long long)spent_us / 1000);
    for (size_t i = 0; i < n; i++) {
        assert_true(rlock_is_valid_as(locks[i], OWNER) || test_expired(test_ms(LEASE_MS) * 1000));
        assert_code(rlock_unlock_as(locks[i], OWNER), 0);
        assert_null(rlock_free(locks[i]));
    }
    free(locks);
}
