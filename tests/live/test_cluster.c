/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a cluster: over several servers, while slots move, and when a primary fails. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "support/clients.h"
#include "support/cluster.h"
#include "support/room.h"
#include "topology/slot.h"

#define THREADS 12
#define NAMES 6
#define SLOTS_MOVED 12
#define LEASE_MS 900

static const char *const failing_conf[] = {"cluster-enabled yes", "cluster-node-timeout 1000",
                                           "cluster-require-full-coverage no", NULL};

/* Of three primaries. */
#define CLUSTER_TEST(name, f)                                                                      \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 3,                              \
                      .server = {.transport = TEST_TCP, .conf = cluster_conf})
/* Of three primaries with a replica each. */
#define FAILOVER_TEST(name, f)                                                                     \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 6,                              \
                      .server = {.transport = TEST_TCP, .conf = failing_conf})

enum { PRIMARIES = 3 };

static struct rlock_client *open_with(struct fixture *f, int64_t renewed_lease_ms)
{
    char url[200];

    cluster_url(f->servers, PRIMARIES, url, sizeof(url));
    return client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .renewed_lease_ms = renewed_lease_ms));
}

static struct rlock_client *open_cluster(struct fixture *f)
{
    return open_with(f, 0);
}

static unsigned int slot_of(const char *name)
{
    return rlock__slot(rlock__bytes_of(name));
}

/* Which primary has the slot of a name at first. */
static size_t home_of(const struct fixture *f, const char *name)
{
    size_t i = 0;

    while (f->servers[i] != cluster_primary_of(f->servers, PRIMARIES, slot_of(name))) {
        i++;
    }
    return i;
}

static long long keys_left(struct fixture *f)
{
    long long n = 0;

    for (size_t i = 0; i < PRIMARIES; i++) {
        n += test_server_int(f->servers[i], "DBSIZE");
    }
    return n;
}

/* ---- While nothing moves ---- */

CLUSTER_TEST(every_kind_is_taken_and_given_back_on_every_server, f)
{
    struct rlock_client *client;

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    client = open_cluster(f);
    pass_through_kinds(client, NAMES);
    for (size_t i = 0; i < PRIMARIES; i++) {
        assert_true(test_server_info(f->servers[i], "commandstats", "cmdstat_evalsha:calls") > 0);
        test_server_do(f->servers[i], "FLUSHALL"); /* the tokens of the fenced ones */
    }
}

CLUSTER_TEST(a_waiter_hears_of_the_release, f)
{
    struct rlock_client *clients[2];
    struct actor *waiter = actor_open(f);

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    clients[0] = open_cluster(f);
    clients[1] = open_cluster(f);
    for (size_t i = 0; i < NAMES; i++) {
        struct rlock_handle *held, *wanted;
        char name[32];
        int64_t released_us;

        test_text(name, sizeof(name), "heard-%zu", i);
        held = lock_named(f, clients[0], name);
        wanted = lock_named(f, clients[1], name);
        assert_code(rlock_lock(held), 0);
        actor_begin(waiter, act_pass_through, wanted, RLOCK_FOREVER, NULL);
        await_waiting(clients[1], 1);
        released_us = test_now_us();
        assert_code(rlock_unlock(held), 0);
        assert_code(actor_end(waiter), 0);
        assert_took(actor_ended_us(waiter) - released_us, 0, 500);
    }
    assert_int_equal(keys_left(f), 0);
}

CLUSTER_TEST(a_multi_lock_has_members_on_several_servers, f)
{
    struct rlock_handle *members[NAMES], *multi = NULL;
    struct rlock_client *client;

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    client = open_cluster(f);
    for (size_t i = 0; i < NAMES; i++) {
        char name[32];

        test_text(name, sizeof(name), "member-%zu", i);
        members[i] = lock_named(f, client, name);
    }
    assert_code(rlock_multi_new(members, NAMES, NULL, &multi), 0);
    assert_code(rlock_lock(multi), 0);
    assert_int_equal(keys_left(f), NAMES);
    assert_code(rlock_unlock(multi), 0);
    assert_int_equal(keys_left(f), 0);
    assert_null(rlock_free(multi));
}

CLUSTER_TEST(a_redlock_has_no_members_in_a_cluster, f)
{
    struct rlock_handle *member, *redlock = NULL;

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    member = lock_named(f, open_cluster(f), "a");
    assert_code(rlock_redlock_new(&member, 1, NULL, &redlock), RLOCK_ENOTSUP);
}

CLUSTER_TEST(a_name_whose_keys_lie_in_several_slots_is_refused, f)
{
    static const char *const names[] = {"a{", "{}a", "a{}{b}"};
    struct rlock_client *client;
    struct rlock_handle *lock = NULL;

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    client = open_cluster(f);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_code(rlock_reentrant_new(client, names[i], NULL, &lock), RLOCK_EINVAL);
        assert_non_null(strstr(rlock_detail(), "slot"));
    }
}

CLUSTER_TEST(one_host_that_answers_will_do, f)
{
    struct rlock_handle *lock;
    char url[200];

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    test_text(url, sizeof(url), "redis+cluster://127.0.0.1:1,127.0.0.1:%d",
              test_server_port(f->servers[2]));
    for (size_t i = 0; i < NAMES; i++) {
        char name[32];

        test_text(name, sizeof(name), "seed-%zu", i);
        lock = lock_named(f, client_open_with(f, RLOCK_CLIENT_OPTS(.url = url)), name);
        assert_code(rlock_lock(lock), 0);
        assert_code(rlock_unlock(lock), 0);
    }
}

FIXTURE_WITH_TEST(a_server_that_is_no_cluster_is_told, f, .kind = &kind_reentrant,
                  .server = {.transport = TEST_TCP})
{
    struct rlock_handle *lock;
    char url[64];

    cluster_url(f->servers, 1, url, sizeof(url));
    lock = lock_named(f, client_open_with(f, RLOCK_CLIENT_OPTS(.url = url)), "a");
    assert_code(rlock_lock_for(lock, 5000, NULL, NULL), RLOCK_ECONN);
    assert_non_null(strstr(rlock_detail(), "cluster support disabled"));
}

/* Nobody else can be asked then whether it was replaced. */
FIXTURE_WITH_TEST(one_primary_whose_replica_is_down_will_do, f, .kind = &kind_reentrant,
                  .servers = 2, .server = {.transport = TEST_TCP, .conf = cluster_conf})
{
    struct rlock_handle *lock;
    char url[64];

    cluster_form(f->servers, 1, 2);
    test_server_kill(f->servers[1]);
    cluster_url(f->servers, 1, url, sizeof(url));
    lock = lock_named(f, client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .acks = RLOCK_ACKS_OFF)),
                      "a");
    assert_code(rlock_lock_for(lock, 5000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    test_server_restart(f->servers[1], false);
}

/* ---- While slots move ---- */

struct crowd {
    struct fixture *f;
    struct rlock_client *clients[2];
    atomic_bool stop;
    atomic_int rounds;
};

struct member {
    struct crowd *crowd;
    size_t number;
    pthread_t thread;
};

static void name_of(size_t i, char *out, size_t size)
{
    test_text(out, size, "moves-%zu", i);
}

/* Takes locks in turn: of each name the kind is another one, and readers may be several. */
static void *take_in_turn(void *arg)
{
    struct member *member = arg;
    struct crowd *crowd = member->crowd;
    struct witness *witness = crowd->f->witness;
    uint64_t id = member->number + 1;

    for (size_t i = member->number; !atomic_load(&crowd->stop); i++) {
        const size_t kind = i % NAMES < KIND_READ ? i % NAMES : KIND_READ + i / NAMES % 2;
        struct rlock_handle *lock = NULL;
        char name[32];

        name_of(i % NAMES, name, sizeof(name));
        TEST_CHECK(single_kinds[kind].make(crowd->clients[i % 2], name, NULL, &lock) == 0);
        TEST_CHECK(rlock_lock(lock) == 0);
        (kind == KIND_READ ? witness_enter_shared : witness_enter)(witness, i % NAMES, id);
        (kind == KIND_READ ? witness_leave_shared : witness_leave)(witness, i % NAMES, id);
        TEST_CHECK(rlock_unlock(lock) == 0);
        TEST_CHECK(rlock_free(lock) == NULL);
        atomic_fetch_add(&crowd->rounds, 1);
    }
    return NULL;
}

static void begin_crowd(struct crowd *crowd, struct member members[THREADS])
{
    for (size_t i = 0; i < THREADS; i++) {
        members[i] = (struct member){.crowd = crowd, .number = i};
        assert_int_equal(pthread_create(&members[i].thread, NULL, take_in_turn, &members[i]), 0);
    }
}

static void end_crowd(struct crowd *crowd, struct member members[THREADS])
{
    atomic_store(&crowd->stop, true);
    for (size_t i = 0; i < THREADS; i++) {
        (void)pthread_join(members[i].thread, NULL);
    }
}

/* Waits until so many rounds more are over. */
static void await_rounds(const struct crowd *crowd, int n)
{
    const int end = atomic_load(&crowd->rounds) + n;

    assert_true(TEST_EVENTUALLY(atomic_load(&crowd->rounds) >= end, 30000));
}

CLUSTER_TEST(every_kind_excludes_while_its_slot_moves, f)
{
    struct crowd crowd = {.f = f};
    struct member members[THREADS];
    size_t at[NAMES];

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    crowd.clients[0] = open_cluster(f);
    crowd.clients[1] = open_cluster(f);
    begin_crowd(&crowd, members);
    await_rounds(&crowd, 100);
    for (size_t i = 0; i < SLOTS_MOVED; i++) {
        char name[32];
        size_t to;

        name_of(i % NAMES, name, sizeof(name));
        at[i % NAMES] = i < NAMES ? home_of(f, name) : at[i % NAMES];
        to = (at[i % NAMES] + 1) % PRIMARIES;
        cluster_move_slot(f->servers, PRIMARIES, at[i % NAMES], to, slot_of(name));
        at[i % NAMES] = to;
        await_rounds(&crowd, 20);
    }
    end_crowd(&crowd, members);
    assert_true(witness_is_clean(f->witness, stderr));
    for (size_t i = 0; i < PRIMARIES; i++) {
        test_server_do(f->servers[i], "FLUSHALL");
    }
}

CLUSTER_TEST(what_is_held_is_kept_when_its_slot_moves, f)
{
    struct rlock_handle *locks[SINGLE_KINDS];
    struct rlock_client *client;

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    client = open_with(f, test_ms(LEASE_MS));
    for (size_t i = 0; i < SINGLE_KINDS; i++) {
        assert_code(single_kinds[i].make(client, single_kinds[i].name, NULL, &locks[i]), 0);
        assert_code(rlock_lock(locks[i]), 0);
    }
    for (size_t i = 0; i < SINGLE_KINDS; i++) {
        const size_t home = home_of(f, single_kinds[i].name);

        cluster_move_slot(f->servers, PRIMARIES, home, (home + 1) % PRIMARIES,
                          slot_of(single_kinds[i].name));
    }
    for (size_t i = 0; i < SINGLE_KINDS; i++) {
        assert_true(STAYS_KEPT(rlock_is_valid(locks[i]), test_ms(LEASE_MS) / SINGLE_KINDS * 2,
                               test_ms(LEASE_MS)));
    }
    for (size_t i = 0; i < SINGLE_KINDS; i++) {
        assert_code(rlock_unlock(locks[i]), 0);
        assert_null(rlock_free(locks[i]));
    }
    for (size_t i = 0; i < PRIMARIES; i++) {
        test_server_do(f->servers[i], "FLUSHALL"); /* the token of the fenced one */
    }
}

/* ---- When a primary fails ---- */

/* A name whose slot is there, and which no other call returned. */
static const char *name_at(const struct fixture *f, size_t server, size_t *inout_n, char out[32])
{
    do {
        test_text(out, 32, "fails-%zu", (*inout_n)++);
    } while (home_of(f, out) != server);
    return out;
}

/* What was written there by now is on its replica. WAIT counts from its connection's own writes. */
static void await_copied(struct fixture *f, size_t server)
{
    char name[32];
    size_t n = 0;

    test_server_do(f->servers[server], "SET {%s}written 1", name_at(f, server, &n, name));
    assert_true(test_server_says(f->servers[server], "1", "WAIT 1 5000"));
    test_server_do(f->servers[server], "DEL {%s}written", name);
}

FAILOVER_TEST(what_is_held_outlives_its_primary, f)
{
    struct rlock_handle *locks[NAMES], *other, *new;
    struct rlock_client *client, *rival;
    struct actor *waiter = actor_open(f);
    char name[32], held[32];
    size_t n = 0;

    cluster_form(f->servers, PRIMARIES, f->n);
    client = open_with(f, test_ms(10000));
    rival = open_cluster(f);
    for (size_t i = 0; i < NAMES; i++) {
        locks[i] = lock_named(f, client, name_at(f, 0, &n, held));
        assert_code(rlock_lock(locks[i]), 0);
    }
    other = lock_named(f, rival, held);
    actor_begin(waiter, act_pass_through, other, RLOCK_FOREVER, NULL);
    await_waiting(rival, 1);
    await_copied(f, 0);
    test_server_kill(f->servers[0]);
    new = lock_named(f, client, name_at(f, 0, &n, name));
    assert_code(rlock_lock(new), 0);
    assert_true(test_server_is_primary(f->servers[PRIMARIES]));
    assert_code(rlock_unlock(new), 0);
    for (size_t i = 0; i < NAMES; i++) {
        assert_true(rlock_is_valid(locks[i]));
    }
    assert_true(actor_is_busy(waiter));
    for (size_t i = 0; i < NAMES; i++) {
        assert_code(rlock_unlock(locks[i]), 0);
    }
    assert_code(actor_end(waiter), 0);
    test_server_do(f->servers[PRIMARIES], "FLUSHALL");
    test_server_restart(f->servers[0], false);
}

/* The replica has lost its connection to the primary before the lock was taken. */
FAILOVER_TEST(a_hold_that_the_failover_lost_is_told_at_once, f)
{
    struct rlock_handle *lock, *rival;
    struct rlock_client *client;
    char url[200], name[32];
    int64_t promoted_us;
    size_t n = 0;

    cluster_form(f->servers, PRIMARIES, f->n);
    cluster_url(f->servers, PRIMARIES, url, sizeof(url));
    client = client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .acks = RLOCK_ACKS_OFF));
    lock = lock_named(f, client, name_at(f, 0, &n, name));
    rival = lock_named(f, open_cluster(f), name);
    test_server_freeze(f->servers[PRIMARIES]);
    test_server_do(f->servers[0], "CLIENT KILL TYPE replica");
    assert_code(rlock_lock(lock), 0);
    test_server_kill(f->servers[0]);
    test_server_thaw(f->servers[PRIMARIES]);
    assert_true(TEST_EVENTUALLY(test_server_is_primary(f->servers[PRIMARIES]), 20000));
    promoted_us = test_now_us();
    /* a third of the lease, which is due next, is ten seconds */
    assert_took(expect_loss(f, RLOCK_LOST_NOT_REPLICATED) - promoted_us, 0, 2000);
    assert_false(rlock_is_valid(lock));
    assert_code(rlock_lock(rival), 0);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_unlock(rival), 0);
    test_server_restart(f->servers[0], false);
}

/* How long that takes the servers know: here it is the default of cluster-node-timeout, 15 s. */
CLUSTER_TEST(an_answer_that_is_younger_than_a_failover_is_believed, f)
{
    struct actor *late = actor_open(f);
    struct rlock_handle *lock;
    char url[200], name[32];
    long long connections;
    size_t n = 0;

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    /* the first is asked for the map, and no other one so soon: replicas are not counted */
    cluster_url(f->servers, PRIMARIES, url, sizeof(url));
    lock = lock_named(f,
                      client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .op_timeout_ms = 60000,
                                                            .acks = RLOCK_ACKS_OFF)),
                      name_at(f, 1, &n, name));
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    connections = test_server_info(f->servers[1], "stats", "total_connections_received");
    test_server_freeze(f->servers[1]);
    actor_begin(late, act_pass_through, lock, RLOCK_FOREVER, NULL);
    assert_true(STAYS(actor_is_busy(late), 2000));
    test_server_thaw(f->servers[1]);
    assert_code(actor_end(late), 0);
    assert_int_equal(test_server_info(f->servers[1], "stats", "total_connections_received"),
                     connections); /* over the same link */
}

/* The client's own deadline is no reason to believe an answer: here it is longer than that. */
FAILOVER_TEST(an_answer_that_is_older_than_a_failover_is_not_believed, f)
{
    const int64_t wait_ms = 25000;
    struct actor *late = actor_open(f), *rival = actor_open(f);
    struct rlock_handle *lock;
    char url[200], base[32], name[40];
    size_t n = 0;

    cluster_form(f->servers, PRIMARIES, f->n);
    cluster_url(f->servers, PRIMARIES, url, sizeof(url));
    room_open(f->witness);
    test_text(name, sizeof(name), "{%s}0", name_at(f, 0, &n, base));
    lock = lock_named(f, client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .op_timeout_ms = 60000)),
                      name);
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0); /* the link is there */
    await_copied(f, 0);
    test_server_freeze(f->servers[0]);
    actor_begin(late, act_stay, lock, wait_ms, NULL);
    assert_true(TEST_EVENTUALLY(test_server_is_primary(f->servers[PRIMARIES]), 20000));
    actor_begin(rival, act_stay, lock_named(f, open_cluster(f), name), wait_ms, NULL);
    assert_true(TEST_EVENTUALLY(room_inside() == 1, 20000));
    test_server_thaw(f->servers[0]);
    assert_true(STAYS(room_inside() == 1, 1000));
    room_let_go();
    assert_code(actor_end(late), 0);
    assert_code(actor_end(rival), 0);
    assert_true(witness_is_clean(f->witness, stderr));
}

/* Commands that a frozen primary finds in its sockets when it goes on are granted by it, though
 * another one has taken its place. */
FAILOVER_TEST(a_primary_that_goes_on_after_its_failover_grants_nothing, f)
{
    enum { LOCKS = 4, RIVALS = 3 };
    struct actor *actors[LOCKS * RIVALS];
    struct rlock_client *clients[RIVALS];
    const int64_t wait_ms = 25000;
    char base[32], name[40];
    int64_t closed_us;
    clock_t cpu;
    size_t n = 0;
    int code;

    cluster_form(f->servers, PRIMARIES, f->n);
    room_open(f->witness);
    for (size_t i = 0; i < RIVALS; i++) { /* a link to each is there */
        struct rlock_handle *lock;

        clients[i] = open_cluster(f);
        lock = lock_named(f, clients[i], name_at(f, 0, &n, base));
        assert_code(rlock_lock(lock), 0);
        assert_code(rlock_unlock(lock), 0);
    }
    await_copied(f, 0);
    test_server_freeze(f->servers[0]);
    for (size_t i = 0; i < LOCKS * RIVALS; i++) {
        if (i % RIVALS == 0) {
            (void)name_at(f, 0, &n, base);
        }
        test_text(name, sizeof(name), "{%s}%zu", base, i / RIVALS); /* its cell stands behind */
        actors[i] = actor_open(f);
        actor_begin(actors[i], act_stay, lock_named(f, clients[i % RIVALS], name), wait_ms, NULL);
    }
    test_text(name, sizeof(name), "{%s}", base);
    /* It is in doubt, unless the time for its answer lasts until the new primary grants it. */
    code = rlock_lock_for(lock_named(f, clients[0], name), 300, NULL, NULL);
    if (code == 0) {
        assert_code(rlock_unlock(lock_named(f, clients[0], name)), 0);
    } else {
        assert_code(code, RLOCK_EINDOUBT);
    }
    assert_true(TEST_EVENTUALLY(test_server_is_primary(f->servers[PRIMARIES]), 20000));
    assert_true(TEST_EVENTUALLY(room_inside() == LOCKS, 20000));
    cpu = clock();
    assert_true(STAYS(room_inside() == LOCKS, 2000)); /* longer than to connect takes */
    test_server_thaw(f->servers[0]);
    assert_true(STAYS(room_inside() == LOCKS, 1000));
    assert_true(clock() - cpu < CLOCKS_PER_SEC / 2); /* the clients sleep */
    room_let_go();
    for (size_t i = 0; i < LOCKS * RIVALS; i++) {
        assert_code(actor_end(actors[i]), 0);
    }
    closed_us = test_now_us(); /* nothing is left to be released at the old one */
    client_close(f, clients[0]);
    assert_took(test_now_us() - closed_us, 0, 500);
    assert_true(witness_is_clean(f->witness, stderr));
}
