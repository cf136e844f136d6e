/* SPDX-License-Identifier: Apache-2.0 */
/* A client behind Sentinels: while nothing happens, and when the primary fails. */
#include <rlock/admin.h>
#include <rlock/leader.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "support/async_calls.h"
#include "support/clients.h"
#include "support/room.h"
#include "support/sentinel.h"

#define LEASE_MS 10000

/* A primary, two replicas, and three Sentinels. */
struct deployment {
    struct fixture f;
    struct sentinels sentinels;
    char url[200];
};

#define SERVER_PASSWORD "of-servers"
#define SENTINEL_PASSWORD "of-sentinels"

static const char *const server_conf[] = {"requirepass " SERVER_PASSWORD,
                                          "masterauth " SERVER_PASSWORD, NULL};
static const char *const sentinel_conf[] = {"requirepass " SENTINEL_PASSWORD,
                                            "sentinel sentinel-pass " SENTINEL_PASSWORD, NULL};
static const struct test_server_opts server_secret = {.transport = TEST_TCP, .conf = server_conf};
static const struct test_server_opts sentinel_secret = {.transport = TEST_TCP,
                                                        .conf = sentinel_conf};

static void begin(struct deployment *d, const struct test_server_opts *server,
                  const struct test_server_opts *sentinel)
{
    fixture_open(&d->f,
                 &(struct fixture_opts){.kind = &kind_reentrant, .servers = 3, .server = *server});
    sentinels_start(&d->sentinels, d->f.servers, d->f.n, sentinel,
                    sentinel == &sentinel_secret ? SERVER_PASSWORD : NULL);
    sentinels_url(&d->sentinels, d->url, sizeof(d->url));
}

static void end(struct deployment *d)
{
    sentinels_stop(&d->sentinels);
    fixture_close(&d->f);
}

static const struct test_server_opts plain = {.transport = TEST_TCP};

#define SENTINEL_TEST(name, d)                                                                     \
    TEST_AROUND(name, struct deployment, d, begin(d, &plain, &plain), end(d))

static struct rlock_client *open_here(struct deployment *d)
{
    return client_open_with(&d->f, RLOCK_CLIENT_OPTS(.url = d->url));
}

SENTINEL_TEST(every_kind_is_taken_and_given_back_at_the_primary, d)
{
    struct rlock_client *client = open_here(d);

    for (size_t i = 0; i < SINGLE_KINDS; i++) {
        struct rlock_handle *lock = NULL;

        assert_code(single_kinds[i].make(client, single_kinds[i].name, NULL, &lock), 0);
        assert_code(rlock_lock(lock), 0);
        assert_true(rlock_is_valid(lock));
        assert_code(rlock_unlock(lock), 0);
        assert_null(rlock_free(lock));
    }
    assert_true(test_server_info(d->f.servers[0], "commandstats", "cmdstat_evalsha:calls") > 0);
    test_server_do(d->f.servers[0], "FLUSHALL"); /* the token of the fenced one */
}

SENTINEL_TEST(a_waiter_hears_of_the_release, d)
{
    struct rlock_client *client = open_here(d), *other = open_here(d);
    struct rlock_handle *held = lock_new(&d->f, client), *wanted = lock_new(&d->f, other);
    struct actor *waiter = actor_open(&d->f);
    int64_t released_us;

    assert_code(rlock_lock(held), 0);
    actor_begin(waiter, act_pass_through, wanted, RLOCK_FOREVER, NULL);
    await_waiting(other, 1);
    released_us = test_now_us();
    assert_code(rlock_unlock(held), 0);
    assert_code(actor_end(waiter), 0);
    assert_took(actor_ended_us(waiter) - released_us, 0, 500);
}

SENTINEL_TEST(one_sentinel_that_answers_will_do, d)
{
    const struct rlock_client_opts opts = {
        .size = sizeof(opts), .url = d->url, .connect_timeout_ms = 300};
    struct rlock_handle *lock;
    clock_t cpu;

    test_server_freeze(d->sentinels.each[0]);
    test_server_kill(d->sentinels.each[1]);
    lock = lock_new(&d->f, client_open_with(&d->f, &opts));
    assert_code(rlock_lock_for(lock, 20000, NULL, NULL), 0);
    cpu = clock();
    assert_true(STAYS(rlock_is_valid(lock), 2000));
    assert_true(clock() - cpu < CLOCKS_PER_SEC / 2); /* the client sleeps */
    assert_code(rlock_unlock(lock), 0);
    test_server_thaw(d->sentinels.each[0]);
    test_server_restart(d->sentinels.each[1], false);
}

static int count_key(const struct rlock_found *found, void *n)
{
    *(size_t *)n += found->info->locked != 0;
    return 0;
}

SENTINEL_TEST(a_scan_shows_the_locks_of_the_primary, d)
{
    struct rlock_handle *lock = lock_new(&d->f, open_here(d));
    size_t n = 0;

    if (test_calls() != TEST_CALLS_BLOCKING) { /* it asks several servers, and waits for them */
        skip();
    }
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_admin_scan(open_here(d), NULL, count_key, &n), 0);
    assert_int_equal(n, 1);
    assert_code(rlock_unlock(lock), 0);
}

SENTINEL_TEST(a_name_that_the_sentinels_do_not_know_is_told, d)
{
    struct rlock_handle *lock;

    (void)strcat(d->url, "-other");
    lock = lock_new(&d->f, open_here(d));
    assert_code(rlock_lock_for(lock, 5000, NULL, NULL), RLOCK_ECONN);
    assert_non_null(strstr(rlock_detail(), "No such master"));
}

/* ---- Passwords and TLS ---- */

#define SECRET_TEST(name, d)                                                                       \
    TEST_AROUND(name, struct deployment, d, begin(d, &server_secret, &sentinel_secret), end(d))

SECRET_TEST(sentinels_have_a_password_of_their_own, d)
{
    const struct rlock_client_opts opts = {.size = sizeof(opts),
                                           .url = d->url,
                                           .password = SERVER_PASSWORD,
                                           .sentinel_password = SENTINEL_PASSWORD};
    struct rlock_handle *lock = lock_new(&d->f, client_open_with(&d->f, &opts));

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
}

SECRET_TEST(the_servers_password_is_not_told_to_sentinels, d)
{
    const struct rlock_client_opts opts = {
        .size = sizeof(opts), .url = d->url, .password = SERVER_PASSWORD};
    struct rlock_handle *lock = lock_new(&d->f, client_open_with(&d->f, &opts));

    assert_code(rlock_lock_for(lock, 5000, NULL, NULL), RLOCK_EAUTH);
    assert_non_null(strstr(rlock_detail(), "Sentinel"));
    assert_non_null(strstr(rlock_detail(), "wants a password")); /* none was tried */
}

static const char *const tls_conf[] = {"tls-replication yes", NULL};
static const struct test_server_opts over_tls = {.transport = TEST_TLS, .conf = tls_conf};

#define TLS_TEST(name, d)                                                                          \
    TEST_AROUND(name, struct deployment, d, begin(d, &over_tls, &over_tls), end(d))

TLS_TEST(servers_and_sentinels_are_spoken_to_with_tls, d)
{
    struct rlock_handle *lock;
    const struct rlock_client_opts opts = {
        .size = sizeof(opts), .url = d->url, .ca_file = test_server_cacert(d->f.server)};

    lock = lock_new(&d->f, client_open_with(&d->f, &opts));
    assert_code(rlock_lock_for(lock, 5000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
}

/* ---- When the primary fails ---- */

/* What was written there by now is on its replicas. */
static void await_copied(struct test_server *primary)
{
    assert_true(
        TEST_EVENTUALLY(test_server_info(primary, "replication", "connected_slaves") == 2, 20000));
    test_server_do(primary, "SET written 1");
    assert_true(TEST_EVENTUALLY(test_server_says(primary, "2", "WAIT 2 100"), 20000));
    test_server_do(primary, "DEL written");
}

/* Whether a Sentinel names another one than the first primary. */
static bool is_replaced(struct deployment *d)
{
    for (size_t i = 0; i < SENTINELS; i++) {
        if (!sentinel_names(d->sentinels.each[i], d->f.servers[0])) {
            return true;
        }
    }
    return false;
}

static void restart_primary(struct deployment *d)
{
    sentinels_stop(&d->sentinels);
    test_server_restart(d->f.servers[0], false);
}

SENTINEL_TEST(what_is_held_outlives_its_primary, d)
{
    enum { HOLDS = 6 };
    struct rlock_handle *locks[HOLDS], *new;
    struct rlock_client *client, *rival = open_here(d);
    struct actor *waiter = actor_open(&d->f);
    char name[32];

    client = client_open_with(
        &d->f, RLOCK_CLIENT_OPTS(.url = d->url, .renewed_lease_ms = test_ms(LEASE_MS)));
    for (size_t i = 0; i < HOLDS; i++) {
        test_text(name, sizeof(name), "held-%zu", i);
        locks[i] = lock_named(&d->f, client, name);
        assert_code(rlock_lock(locks[i]), 0);
    }
    actor_begin(waiter, act_pass_through, lock_named(&d->f, rival, name), RLOCK_FOREVER, NULL);
    await_waiting(rival, 1);
    await_copied(d->f.servers[0]);
    test_server_kill(d->f.servers[0]);
    new = lock_named(&d->f, client, "new");
    assert_code(rlock_lock_for(new, 20000, NULL, NULL), 0);
    assert_true(is_replaced(d));
    assert_code(rlock_unlock(new), 0);
    for (size_t i = 0; i < HOLDS; i++) {
        assert_true(rlock_is_valid(locks[i]));
    }
    assert_true(actor_is_busy(waiter));
    for (size_t i = 0; i < HOLDS; i++) {
        assert_code(rlock_unlock(locks[i]), 0);
    }
    assert_code(actor_end(waiter), 0);
    restart_primary(d);
}

/* What the primary does from now on comes to no replica. */
static void part_replicas(struct deployment *d)
{
    test_server_freeze(d->f.servers[1]);
    test_server_freeze(d->f.servers[2]);
    test_server_do(d->f.servers[0], "CLIENT KILL TYPE replica");
}

/* Such a primary dies. Returns when a replica has taken its place. */
static int64_t replace(struct deployment *d)
{
    test_server_kill(d->f.servers[0]);
    test_server_thaw(d->f.servers[1]);
    test_server_thaw(d->f.servers[2]);
    assert_true(TEST_EVENTUALLY(is_replaced(d), 30000));
    return test_now_us();
}

/* The replicas have lost their connection to the primary before the lock was taken. */
SENTINEL_TEST(a_hold_that_the_failover_lost_is_told_at_once, d)
{
    struct rlock_handle *lock, *rival;
    int64_t replaced_us;

    lock = lock_new(
        &d->f, client_open_with(&d->f, RLOCK_CLIENT_OPTS(.url = d->url, .acks = RLOCK_ACKS_OFF)));
    rival = lock_new(&d->f, open_here(d));
    part_replicas(d);
    assert_code(rlock_lock(lock), 0);
    replaced_us = replace(d);
    /* a third of the lease, which is due next, is ten seconds */
    assert_took(expect_loss(&d->f, RLOCK_LOST_NOT_REPLICATED) - replaced_us, 0, 2000);
    assert_code(rlock_lock_for(rival, 20000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_unlock(rival), 0);
    restart_primary(d);
}

/* ---- Leader election ---- */

/* What ended the last term; 0: none has ended. */
static void note_end(const struct rlock_term *term, void *payload)
{
    if (term->event == RLOCK_TERM_DEPOSED) {
        atomic_store((_Atomic int *)payload, (int)term->reason);
    }
}

static struct rlock_leader *candidate_new(struct deployment *d, int acks, _Atomic int *reason)
{
    const struct rlock_client_opts opts = {.size = sizeof(opts), .url = d->url, .acks = acks};
    struct rlock_leader *leader = NULL;

    assert_code(
        rlock_leader_new(lock_new(&d->f, client_open_with(&d->f, &opts)),
                         RLOCK_LEADER_OPTS(.rest_ms = 100, .on_term = note_end, .payload = reason),
                         &leader),
        0);
    return leader;
}

SENTINEL_TEST(a_leader_stays_one_when_its_primary_is_replaced, d)
{
    _Atomic int reason = 0;
    struct rlock_leader *leader, *other;

    if (!MAY_START_THREADS) {
        skip();
    }
    leader = candidate_new(d, RLOCK_ACKS_AUTO, &reason);
    assert_true(TEST_EVENTUALLY(rlock_leader_is_leading(leader), 10000));
    other = candidate_new(d, RLOCK_ACKS_AUTO, &reason);
    await_copied(d->f.servers[0]);
    test_server_kill(d->f.servers[0]);
    assert_true(TEST_EVENTUALLY(is_replaced(d), 30000));
    assert_true(STAYS(rlock_leader_is_leading(leader) && !rlock_leader_is_leading(other), 2000));
    assert_int_equal(atomic_load(&reason), 0);
    assert_code(rlock_leader_resign(leader), 0);
    assert_true(TEST_EVENTUALLY(rlock_leader_is_leading(other), 20000));
    assert_false(rlock_leader_is_leading(leader));
    assert_null(rlock_leader_free(leader));
    assert_null(rlock_leader_free(other));
    restart_primary(d);
}

/* The replicas have lost their connection to the primary before the election. */
SENTINEL_TEST(a_failover_that_loses_the_hold_deposes_the_leader_at_once, d)
{
    _Atomic int reason = 0;
    struct rlock_leader *leader;
    int64_t replaced_us;

    if (!MAY_START_THREADS) {
        skip();
    }
    part_replicas(d);
    leader = candidate_new(d, RLOCK_ACKS_OFF, &reason);
    assert_true(TEST_EVENTUALLY(rlock_leader_is_leading(leader), 10000));
    replaced_us = replace(d);
    assert_took(expect_loss(&d->f, RLOCK_LOST_NOT_REPLICATED) - replaced_us, 0, 2000);
    assert_true(TEST_EVENTUALLY(atomic_load(&reason) == RLOCK_LOST_NOT_REPLICATED, 1000));
    assert_true(TEST_EVENTUALLY(rlock_leader_is_leading(leader), 20000)); /* elected again */
    assert_null(rlock_leader_free(leader));
    restart_primary(d);
}

/* One that Sentinels know counts, whether it answers or not. */
SENTINEL_TEST(the_replicas_that_sentinels_know_are_needed, d)
{
    struct rlock_handle *all, *one = lock_new(&d->f, open_here(d));

    all = lock_new(
        &d->f, client_open_with(&d->f, RLOCK_CLIENT_OPTS(.url = d->url, .acks = RLOCK_ACKS_ALL)));
    await_copied(d->f.servers[0]);
    assert_code(act_pass_through(all, RLOCK_FOREVER, NULL), 0);
    test_server_freeze(d->f.servers[2]);
    assert_code(rlock_try_lock(all), RLOCK_ENOTREPLICATED);
    assert_non_null(strstr(rlock_detail(), "1 of 2 replicas"));
    assert_code(act_pass_through(one, RLOCK_FOREVER, NULL), 0);
    test_server_thaw(d->f.servers[2]);
    assert_code(act_pass_through(all, RLOCK_FOREVER, NULL), 0);
}

/* A frozen primary grants what it finds in its sockets when it goes on, and says that it is the
 * primary for ten seconds. */
SENTINEL_TEST(a_primary_that_goes_on_after_its_failover_grants_nothing, d)
{
    enum { LOCKS = 4, RIVALS = 3 };
    const int64_t wait_ms = 40000;
    struct rlock_client *clients[RIVALS];
    struct actor *actors[LOCKS * RIVALS];
    char name[32];
    clock_t cpu;

    room_open(d->f.witness);
    for (size_t i = 0; i < RIVALS; i++) {
        clients[i] = client_open_with(
            &d->f, RLOCK_CLIENT_OPTS(.url = d->url, .op_timeout_ms = i == 0 ? 60000 : 0));
        assert_code(act_pass_through(lock_new(&d->f, clients[i]), RLOCK_FOREVER, NULL), 0);
    }
    await_copied(d->f.servers[0]);
    test_server_freeze(d->f.servers[0]);
    for (size_t i = 0; i < LOCKS * RIVALS; i++) {
        test_text(name, sizeof(name), "stays-%zu", i / RIVALS); /* its cell stands behind */
        actors[i] = actor_open(&d->f);
        actor_begin(actors[i], act_stay, lock_named(&d->f, clients[i % RIVALS], name), wait_ms,
                    NULL);
    }
    assert_true(TEST_EVENTUALLY(is_replaced(d), 30000));
    assert_true(TEST_EVENTUALLY(room_inside() == LOCKS, 20000));
    cpu = clock();
    assert_true(STAYS(room_inside() == LOCKS, 1500));
    test_server_thaw(d->f.servers[0]);
    assert_true(STAYS(room_inside() == LOCKS, 1500));
    assert_true(clock() - cpu < CLOCKS_PER_SEC / 2); /* the clients sleep */
    room_let_go();
    for (size_t i = 0; i < LOCKS * RIVALS; i++) {
        assert_code(actor_end(actors[i]), 0);
    }
    assert_true(witness_is_clean(d->f.witness, stderr));
    test_server_do(d->f.servers[0], "FLUSHALL"); /* what it granted to nobody */
}

/* The client's one Sentinel is frozen with the primary: nobody tells it of the failover, and
 * nobody says that the old primary still is one. */
SENTINEL_TEST(a_primary_that_no_sentinel_confirms_is_not_used, d)
{
    const int64_t wait_ms = 8000;
    const int64_t patient_ms = 30000;
    struct actor *late = actor_open(&d->f), *rival = actor_open(&d->f);
    struct rlock_handle *lock;
    char url[200];

    room_open(d->f.witness);
    test_text(url, sizeof(url), "redis+sentinel://127.0.0.1:%d/primary",
              test_server_port(d->sentinels.each[0]));
    lock = lock_named(&d->f,
                      client_open_with(&d->f, RLOCK_CLIENT_OPTS(.url = url, .op_timeout_ms = 5000)),
                      "lock-0");
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0); /* the link is there */
    await_copied(d->f.servers[0]);
    test_server_freeze(d->sentinels.each[0]);
    test_server_freeze(d->f.servers[0]);
    actor_begin(late, act_stay, lock, wait_ms, NULL);
    assert_true(TEST_EVENTUALLY(!sentinel_names(d->sentinels.each[1], d->f.servers[0]), 30000));
    test_text(url, sizeof(url), "redis+sentinel://127.0.0.1:%d/primary",
              test_server_port(d->sentinels.each[1]));
    lock = lock_named(&d->f, client_open_with(&d->f, RLOCK_CLIENT_OPTS(.url = url)), "lock-0");
    actor_begin(rival, act_stay, lock, patient_ms,
                NULL); /* until a replica follows the new primary */
    assert_true(TEST_EVENTUALLY(room_inside() == 1, 30000));
    test_server_thaw(d->f.servers[0]);
    assert_true(STAYS(room_inside() == 1, 2000));
    assert_code(actor_end(late), RLOCK_EINDOUBT);
    room_let_go();
    assert_code(actor_end(rival), 0);
    assert_true(witness_is_clean(d->f.witness, stderr));
    test_server_thaw(d->sentinels.each[0]);
    test_server_do(d->f.servers[0], "FLUSHALL"); /* what it granted to nobody */
}

/* A Sentinel has missed the failover, and is the only one that is left. */
SENTINEL_TEST(a_configuration_that_is_older_is_not_believed, d)
{
    struct rlock_client *client = open_here(d);
    struct rlock_handle *lock = lock_named(&d->f, client, "lock");
    size_t next;

    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    await_copied(d->f.servers[0]);
    test_server_kill(d->sentinels.each[0]);
    test_server_freeze(d->f.servers[0]);
    assert_code(rlock_lock_for(lock, 30000, NULL, NULL), 0);
    assert_true(TEST_EVENTUALLY(!sentinel_names(d->sentinels.each[1], d->f.servers[0]), 20000));
    next = sentinel_names(d->sentinels.each[1], d->f.servers[1]) ? 1 : 2;
    assert_code(rlock_unlock(lock), 0);
    test_server_kill(d->sentinels.each[1]);
    test_server_kill(d->sentinels.each[2]);
    test_server_thaw(d->f.servers[0]);
    test_server_do(d->f.servers[0], "FLUSHALL"); /* what it granted to nobody */
    test_server_restart(d->sentinels.each[0], false);
    test_server_do(d->f.servers[next], "CLIENT KILL TYPE normal");
    assert_true(rlock_lock_for(lock, 3000, NULL, NULL) != 0);
    assert_true(test_server_says(d->f.servers[0], "0", "EXISTS lock"));
}
