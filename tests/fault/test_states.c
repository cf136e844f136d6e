/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States of the server: scripts forgotten, restarted with and without its data, full, paused,
 * stopped, killing connections.
 */
#include "fault/verbs.h"
#include "support/waiter.h"

enum { PATIENT_MS = 60000 };

/* For tests in which no call may fail. */
static struct rlock_client_opts unhurried(void)
{
    return *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack(),
                              .connect_timeout_ms = 5000 * test_slack());
}

/* ---- Scripts ---- */

FIXTURE_TEST(a_flushed_script_is_sent_again_by_every_command, f)
{
    struct user *user = user_open(f, unhurried());

    for (size_t i = 0; verbs[i] != NULL; i++) {
        verb_prepare(verbs[i], user);
        test_server_do(f->server, "SCRIPT FLUSH");
        assert_code(verbs[i]->run(user), 0);
        assert_int_equal(fixture_count(f), verbs[i]->count_after);
        verb_clean_up(user);
    }
}

FIXTURE_TEST(scripts_may_be_flushed_all_the_time, f)
{
    struct user *user = user_open(f, unhurried());
    struct user *rival = user_open_direct(f);
    struct user *holder = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = test_ms(300)));
    struct crew crew = {.wait_ms = PATIENT_MS};
    struct crew others = {.wait_ms = PATIENT_MS};
    struct rlock_handle *other;

    other = user_lock(holder, "b");
    assert_code(rlock_try_lock(other), 0);
    crew_start(&crew, user, 4);
    crew_start(&others, rival, 2);
    for (int i = 0; i < 1500; i++) {
        test_server_do(f->server, "SCRIPT FLUSH");
    }
    crew_stop(&crew);
    crew_stop(&others);
    assert_true(atomic_load(&crew.visits) > 0 && atomic_load(&others.visits) > 0);
    assert_true(rlock_is_valid(other));
    assert_code(rlock_unlock(other), 0);
    assert_int_equal(user_losses(user) + user_losses(rival) + user_losses(holder), 0);
}

/* ---- Restarts ---- */

FIXTURE_WITH_TEST(a_restart_that_keeps_the_data_keeps_the_hold, f, .server.aof = true)
{
    struct user *user, *rival;
    struct waiter waiter;
    struct rlock_client_opts opts = unhurried();
    const int64_t lease_ms = test_ms(2000);

    opts.renewed_lease_ms = lease_ms;
    user = user_open(f, opts);
    rival = user_open_direct(f);
    assert_code(rlock_try_lock(user->lock), 0);
    waiter_start(&waiter, rival, PATIENT_MS, NULL);
    assert_true(fixture_wait_waiters(f, 1));
    test_server_restart(f->server, true);
    assert_true(user_step(user));
    assert_true(fixture_wait_renewed(f, lease_ms));
    assert_true(fixture_wait_waiters(f, 1));
    assert_true(user_step(user));
    assert_code(rlock_lock_for(user->lock, PATIENT_MS, NULL, NULL), 0);
    assert_int_equal(fixture_count(f), 2);
    assert_code(rlock_unlock(user->lock), 0);
    assert_code(rlock_unlock(user->lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(user_losses(user), 0);
}

FIXTURE_WITH_TEST(restarts_under_load_break_no_promise, f, .server.aof = true)
{
    struct user *user = user_open(f, unhurried());
    struct user *rival = user_open(f, unhurried());
    struct crew crew = {.wait_ms = PATIENT_MS};
    struct crew others = {.wait_ms = PATIENT_MS};

    crew_start(&crew, user, 4);
    crew_start(&others, rival, 4);
    for (int i = 0; i < 5; i++) {
        size_t visits = atomic_load(&crew.visits) + atomic_load(&others.visits);

        test_server_restart(f->server, true);
        assert_true(TEST_EVENTUALLY(
            atomic_load(&crew.visits) + atomic_load(&others.visits) > visits + 20, 20000));
    }
    crew_stop(&crew);
    crew_stop(&others);
    assert_int_equal(user_losses(user) + user_losses(rival), 0);
}

FIXTURE_TEST(a_restart_without_the_data_is_a_loss_and_waiters_acquire, f)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = test_ms(600)));
    struct user *rival = user_open_direct(f);
    struct waiter waiter;
    int reason;

    assert_code(rlock_try_lock(user->lock), 0);
    assert_code(rlock_try_lock(user->lock), 0);
    waiter_start(&waiter, rival, PATIENT_MS, NULL);
    assert_true(fixture_wait_waiters(f, 1));
    test_server_restart(f->server, false);
    reason = user_wait_loss(user, 1);
    assert_true(reason == RLOCK_LOST_DELETED || reason == RLOCK_LOST_TAKEN);
    assert_false(rlock_is_valid(user->lock));
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(waiter.unlock_code, 0);
    assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
    assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
    assert_code(user_visit(user, 0, NULL), 0);
    assert_int_equal(user_losses(user), 1);
}

FIXTURE_TEST(flushed_data_are_a_loss_and_waiters_acquire, f)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = test_ms(300)));
    struct user *rival = user_open_direct(f);
    struct waiter waiter;

    assert_code(rlock_try_lock(user->lock), 0);
    waiter_start(&waiter, rival, 60000, RLOCK_TAKE(.lease_ms = 60000));
    assert_true(fixture_wait_waiters(f, 1));
    test_server_do(f->server, "FLUSHALL");
    assert_int_not_equal(user_wait_loss(user, 1), 0);
    assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_true(test_took_at_most(waiter.took_us, 400000 * test_slack()));
}

/* ---- Full ---- */

FIXTURE_TEST(a_full_server_refuses_new_locks_and_lets_go_of_old_ones, f)
{
    const int64_t lease_ms = test_ms(300);
    struct user *user, *rival;
    struct waiter waiter;

    user = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms));
    rival = user_open(
        f, *RLOCK_CLIENT_OPTS(.url = test_server_url(f->server), .op_timeout_ms = test_ms(1000)));
    assert_code(rlock_try_lock(user->lock), 0);
    test_server_do(f->server, "CONFIG SET maxmemory 1");
    test_server_do(f->server, "SCRIPT FLUSH");
    assert_true(fixture_wait_renewed(f, lease_ms));
    assert_true(fixture_wait_renewed(f, lease_ms));
    assert_code(rlock_try_lock(rival->lock), RLOCK_EBUSY);
    assert_code(rlock_try_lock(user->lock), 0); /* nested: a level more is no memory more */
    assert_true(user_step(user));
    assert_int_equal(fixture_count(f), 2);
    assert_code(rlock_unlock(user->lock), 0);
    assert_code(rlock_unlock(user->lock), 0);
    assert_false(fixture_is_held(f));
    assert_code(rlock_try_lock(rival->lock), RLOCK_EREFUSED);
    assert_detail("OOM");
    assert_detail("maxmemory");
    assert_code(rlock_lock_for(rival->lock, 100, NULL, NULL), RLOCK_EREFUSED);
    waiter_start(&waiter, rival, PATIENT_MS, NULL);
    assert_true(
        TEST_EVENTUALLY(test_server_info(f->server, "errorstats", "errorstat_OOM:count") >= 4 ||
                            test_server_info(f->server, "stats", "total_error_replies") >= 8,
                        5000));
    assert_false(atomic_load(&waiter.done));
    test_server_do(f->server, "CONFIG SET maxmemory 0");
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(user_losses(user), 0);
}

FIXTURE_TEST(a_lock_is_forced_open_on_a_full_server, f)
{
    struct user *user = user_open(f, unhurried());
    bool was_locked = false;

    fixture_take_by_hand(f, 0);
    test_server_do(f->server, "CONFIG SET maxmemory 1");
    assert_code(rlock_force_unlock(user->lock, &was_locked), 0);
    assert_true(was_locked);
    assert_false(fixture_is_held(f));
}

/* ---- Paused and stopped ---- */

FIXTURE_TEST(a_paused_server_delays_and_loses_nothing, f)
{
    struct user *user = user_open(
        f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(100), .renewed_lease_ms = test_ms(3000)));
    struct user *rival = user_open_direct(f);
    struct waiter waiter;
    int64_t began_us;
    int code;

    assert_code(rlock_lock(user->lock), 0);
    test_server_do(f->server, test_slack() > 1 ? "CLIENT PAUSE 1500" : "CLIENT PAUSE 500");
    waiter_start(&waiter, rival, PATIENT_MS, NULL);
    began_us = test_now_us();
    code = rlock_try_lock(user->lock);
    assert_true(code == RLOCK_EINDOUBT || code == RLOCK_ECONN);
    assert_within(began_us, test_ms(100));
    assert_true(user_step(user));
    assert_true(TEST_EVENTUALLY(fixture_count(f) == 1, 5000)); /* answered after the pause */
    assert_code(rlock_lock_for(user->lock, PATIENT_MS, NULL, NULL), 0);
    assert_code(rlock_unlock(user->lock), 0);
    assert_true(user_step(user));
    assert_code(rlock_unlock(user->lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(user_losses(user), 0);
}

FIXTURE_TEST(what_a_stopped_server_runs_afterwards_leaves_no_hold, f)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(30),
                                                        .connect_timeout_ms = 1000 * test_slack()));
    struct user *rival = user_open_direct(f);

    for (int i = 0; i < 15; i++) {
        assert_code(user_visit(user, PATIENT_MS, NULL), 0);
        test_server_freeze(f->server);
        assert_code(rlock_try_lock(user->lock), RLOCK_EINDOUBT);
        test_server_thaw(f->server);
        /* its lease would last half a minute */
        assert_code(user_visit(rival, 5000, NULL), 0);
    }
}

/* ---- Many that ask a server which is stopped ---- */

enum { MANY = 100 };

/* How many of them were answered so. */
static size_t count_code(const struct waiter *waiters, int code)
{
    size_t n = 0;

    for (size_t i = 0; i < MANY; i++) {
        n += waiters[i].code == code;
    }
    return n;
}

static void ask_a_stopped_server(struct waiter *waiters, int64_t op_timeout_ms, int64_t wait_ms,
                                 const struct rlock_take *take)
{
    struct fixture f;
    struct user *user;

    fixture_open(&f, NULL);
    user = user_open(&f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = op_timeout_ms));
    assert_code(user_visit(user, PATIENT_MS, NULL), 0);
    test_server_freeze(f.server);
    for (size_t i = 0; i < MANY; i++) {
        waiter_start(&waiters[i], user, wait_ms, take);
    }
    for (size_t i = 0; i < MANY; i++) {
        (void)waiter_join(&waiters[i]);
    }
    test_server_thaw(f.server);
    assert_code(user_visit(user, PATIENT_MS, NULL), 0);
    fixture_close(&f);
}

/* Their deadlines come one soon after the other; who is first in line by then has no time left. The
 * first waits for the server's answer, long after all others have given up. */
TEST(of_many_that_wait_for_a_stopped_server_one_is_in_doubt)
{
    struct waiter waiters[MANY];

    ask_a_stopped_server(waiters, test_ms(4000), test_ms(700), NULL);
    assert_int_equal(count_code(waiters, RLOCK_EINDOUBT), 1);
    assert_int_equal(count_code(waiters, RLOCK_ETIMEDOUT), MANY - 1);
}

/* The calls of one owner go one after the other, and only the first is sent. */
TEST(of_many_tries_of_an_owner_on_a_stopped_server_one_is_in_doubt)
{
    struct waiter waiters[MANY];

    ask_a_stopped_server(waiters, test_ms(700), 0, RLOCK_TAKE(.owner = 7));
    assert_int_equal(count_code(waiters, RLOCK_EINDOUBT), 1);
    assert_int_equal(count_code(waiters, RLOCK_ECONN), MANY - 1);
}

/* ---- A socket that is full ---- */

/* One waits and keeps watch, for replies; what another cannot send at once goes on all the same. */
FIXTURE_TEST(a_request_beyond_what_a_socket_holds_is_sent_on_by_whoever_keeps_watch, f)
{
    struct user *user = user_open(f, unhurried());
    enum { LEN = 65536 }; /* four times in a fair lock's request */
    struct waiter waiter;
    struct rlock_handle *large = NULL;
    char *name = malloc(LEN);

    TEST_CHECK(name != NULL);
    memset(name, 'n', LEN);
    assert_code(rlock_fair_new(user->client, name, RLOCK_OPTS(.name_len = LEN), &large), 0);
    fixture_take_by_hand(f, 0);
    waiter_start(&waiter, user, PATIENT_MS, NULL);
    assert_true(fixture_wait_waiters(f, 1));
    for (int i = 0; i < 50; i++) {
        int64_t began_us = test_now_us();

        assert_code(rlock_try_lock(large), 0);
        assert_code(rlock_unlock(large), 0);
        assert_within(began_us, 1000 * test_slack());
    }
    test_server_do(f->server, "DEL " LOCK_A);
    test_server_do(f->server, "PUBLISH " CHANNEL_A " 0");
    assert_int_equal(waiter_join(&waiter), 0);
    assert_null(rlock_free(large));
    free(name);
}

/* ---- Connections that the server ends ---- */

FIXTURE_TEST(killed_connections_are_replaced_under_load, f)
{
    struct user *user = user_open(f, unhurried());
    struct user *rival = user_open(f, unhurried());
    struct crew crew = {.wait_ms = PATIENT_MS};
    struct crew others = {.wait_ms = PATIENT_MS};

    crew_start(&crew, user, 4);
    crew_start(&others, rival, 4);
    for (int i = 0; i < 60; i++) {
        size_t visits = atomic_load(&crew.visits) + atomic_load(&others.visits);

        test_server_do(f->server, i % 2 == 0 ? "CLIENT KILL TYPE normal SKIPME yes"
                                             : "CLIENT KILL TYPE pubsub");
        assert_true(TEST_EVENTUALLY(
            atomic_load(&crew.visits) + atomic_load(&others.visits) > visits + 5, 20000));
    }
    crew_stop(&crew);
    crew_stop(&others);
    assert_int_equal(user_losses(user) + user_losses(rival), 0);
}

static const char *const impatient[] = {"timeout 1", NULL};

FIXTURE_WITH_TEST(a_servers_idle_timeout_disturbs_nobody, f, .server.conf = impatient)
{
    struct user *user = user_open(f, unhurried());
    struct user *rival = user_open_direct(f); /* renews often: is never idle */
    long long connections;

    assert_code(rlock_try_lock(user->lock), 0);
    connections = test_server_info(f->server, "stats", "total_connections_received");
    assert_true(TEST_EVENTUALLY(
        test_server_info(f->server, "stats", "total_connections_received") > connections, 5000));
    assert_true(user_step(user));
    assert_code(rlock_try_lock(rival->lock), RLOCK_EBUSY);
    assert_code(rlock_unlock(user->lock), 0);
    assert_code(user_visit(rival, 0, NULL), 0);
    assert_int_equal(user_losses(user), 0);
}
