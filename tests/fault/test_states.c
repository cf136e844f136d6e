/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States of the server: scripts forgotten, restarted with and without its data, full, paused,
 * stopped, killing connections.
 */
#include "fault/scene.h"
#include "fault/verbs.h"
#include "support/test.h"

static const struct rlock_take patient = {.size = sizeof(patient), .wait_ms = 60000};

static void say(const struct scene *scene, const char *command)
{
    free(test_server_cmd(scene->server, "%s", command));
}

/* For tests in which no call may fail. */
static struct rlock_client_opts unhurried(void)
{
    return RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack(),
                             .connect_timeout_ms = 5000 * test_slack());
}

/* ---- Scripts ---- */

TEST(a_flushed_script_is_sent_again_by_every_command)
{
    struct scene scene;
    struct actor actor;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, unhurried());
    for (size_t i = 0; verbs[i] != NULL; i++) {
        verb_prepare(verbs[i], &actor);
        say(&scene, "SCRIPT FLUSH");
        assert_code(verbs[i]->run(&actor), 0);
        assert_int_equal(scene_count(&scene), verbs[i]->count_after);
        verb_clean_up(&actor);
    }
    actor_close(&actor);
    scene_close(&scene);
}

TEST(scripts_may_be_flushed_all_the_time)
{
    struct scene scene;
    struct actor actor, rival, holder;
    struct crew crew = {.actor = &actor, .take = &patient};
    struct crew others = {.actor = &rival, .take = &patient};
    struct rlock *other;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, unhurried());
    actor_open_direct(&rival, &scene);
    actor_open(&holder, &scene, RLOCK_CLIENT_OPTS(.renewed_lease_ms = scene_ms(300)));
    other = actor_lock(&holder, "b");
    assert_code(rlock_try_lock(other), 0);
    crew_start(&crew, 4);
    crew_start(&others, 2);
    for (int i = 0; i < 1500; i++) {
        say(&scene, "SCRIPT FLUSH");
    }
    crew_stop(&crew);
    crew_stop(&others);
    assert_true(atomic_load(&crew.visits) > 0 && atomic_load(&others.visits) > 0);
    assert_true(rlock_is_valid(other));
    assert_code(rlock_unlock(other), 0);
    assert_int_equal(actor_losses(&actor) + actor_losses(&rival) + actor_losses(&holder), 0);
    other = rlock_free(other);
    actor_close(&holder);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

/* ---- Restarts ---- */

TEST(a_restart_that_keeps_the_data_keeps_the_hold)
{
    struct scene scene;
    struct actor actor, rival;
    struct waiter waiter;
    struct rlock_client_opts opts = unhurried();
    const int64_t lease_ms = scene_ms(2000);

    scene_open(&scene, &(struct scene_opts){.server.aof = true});
    opts.renewed_lease_ms = lease_ms;
    actor_open(&actor, &scene, opts);
    actor_open_direct(&rival, &scene);
    assert_code(rlock_try_lock(actor.lock), 0);
    waiter_start(&waiter, &rival, &patient);
    assert_true(scene_wait_waiters(&scene, 1));
    test_server_restart(scene.server, true);
    assert_true(actor_step(&actor));
    assert_true(scene_wait_renewed(&scene, lease_ms));
    assert_true(scene_wait_waiters(&scene, 1));
    assert_true(actor_step(&actor));
    assert_code(rlock_lock_with(actor.lock, &patient, NULL), 0);
    assert_int_equal(scene_count(&scene), 2);
    assert_code(rlock_unlock(actor.lock), 0);
    assert_code(rlock_unlock(actor.lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(actor_losses(&actor), 0);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

TEST(restarts_under_load_break_no_promise)
{
    struct scene scene;
    struct actor actor, rival;
    struct crew crew = {.actor = &actor, .take = &patient};
    struct crew others = {.actor = &rival, .take = &patient};

    scene_open(&scene, &(struct scene_opts){.server.aof = true});
    actor_open(&actor, &scene, unhurried());
    actor_open(&rival, &scene, unhurried());
    crew_start(&crew, 4);
    crew_start(&others, 4);
    for (int i = 0; i < 5; i++) {
        size_t visits = atomic_load(&crew.visits) + atomic_load(&others.visits);

        test_server_restart(scene.server, true);
        assert_true(TEST_EVENTUALLY(
            atomic_load(&crew.visits) + atomic_load(&others.visits) > visits + 20, 20000));
    }
    crew_stop(&crew);
    crew_stop(&others);
    assert_int_equal(actor_losses(&actor) + actor_losses(&rival), 0);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

TEST(a_restart_without_the_data_is_a_loss_and_waiters_acquire)
{
    struct scene scene;
    struct actor actor, rival;
    struct waiter waiter;
    enum rlock_reason reason;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.renewed_lease_ms = scene_ms(600)));
    actor_open_direct(&rival, &scene);
    assert_code(rlock_try_lock(actor.lock), 0);
    assert_code(rlock_try_lock(actor.lock), 0);
    waiter_start(&waiter, &rival, &patient);
    assert_true(scene_wait_waiters(&scene, 1));
    test_server_restart(scene.server, false);
    reason = actor_wait_loss(&actor, 1);
    assert_true(reason == RLOCK_LOST_DELETED || reason == RLOCK_LOST_TAKEN);
    assert_false(rlock_is_valid(actor.lock));
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(waiter.unlock_code, 0);
    assert_code(rlock_unlock(actor.lock), RLOCK_ELOST);
    assert_code(rlock_unlock(actor.lock), RLOCK_ELOST);
    assert_code(actor_visit(&actor, NULL), 0);
    assert_int_equal(actor_losses(&actor), 1);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

TEST(flushed_data_are_a_loss_and_waiters_acquire)
{
    struct scene scene;
    struct actor actor, rival;
    struct waiter waiter;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.renewed_lease_ms = scene_ms(300)));
    actor_open_direct(&rival, &scene);
    assert_code(rlock_try_lock(actor.lock), 0);
    waiter_start(&waiter, &rival, RLOCK_TAKE(.wait_ms = 60000, .lease_ms = 60000));
    assert_true(scene_wait_waiters(&scene, 1));
    say(&scene, "FLUSHALL");
    assert_int_not_equal(actor_wait_loss(&actor, 1), 0);
    assert_code(rlock_unlock(actor.lock), RLOCK_ELOST);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_true(test_took_at_most(waiter.took_us, 400000 * test_slack()));
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

/* ---- Full ---- */

TEST(a_full_server_refuses_new_locks_and_lets_go_of_old_ones)
{
    const int64_t lease_ms = scene_ms(300);
    struct scene scene;
    struct actor actor, rival;
    struct waiter waiter;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms));
    actor_open_direct(&rival, &scene);
    assert_code(rlock_try_lock(actor.lock), 0);
    say(&scene, "CONFIG SET maxmemory 1");
    say(&scene, "SCRIPT FLUSH");
    assert_true(scene_wait_renewed(&scene, lease_ms));
    assert_true(scene_wait_renewed(&scene, lease_ms));
    assert_code(rlock_try_lock(rival.lock), RLOCK_EBUSY);
    assert_code(rlock_try_lock(actor.lock), 0); /* nested: a level more is no memory more */
    assert_true(actor_step(&actor));
    assert_int_equal(scene_count(&scene), 2);
    assert_code(rlock_unlock(actor.lock), 0);
    assert_code(rlock_unlock(actor.lock), 0);
    assert_false(scene_is_held(&scene));
    assert_code(rlock_try_lock(rival.lock), RLOCK_EREFUSED);
    assert_detail("OOM");
    assert_detail("maxmemory");
    assert_code(rlock_lock_with(rival.lock, RLOCK_TAKE(.wait_ms = 100), NULL), RLOCK_EREFUSED);
    waiter_start(&waiter, &rival, &patient);
    assert_true(TEST_EVENTUALLY(scene_info(&scene, "errorstats", "errorstat_OOM:count") >= 4 ||
                                    scene_info(&scene, "stats", "total_error_replies") >= 8,
                                5000));
    assert_false(atomic_load(&waiter.done));
    say(&scene, "CONFIG SET maxmemory 0");
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(actor_losses(&actor), 0);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

TEST(a_lock_is_forced_open_on_a_full_server)
{
    struct scene scene;
    struct actor actor;
    bool was_locked = false;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, unhurried());
    scene_take_by_hand(&scene, 0);
    say(&scene, "CONFIG SET maxmemory 1");
    assert_code(rlock_force_unlock(actor.lock, &was_locked), 0);
    assert_true(was_locked);
    assert_false(scene_is_held(&scene));
    actor_close(&actor);
    scene_close(&scene);
}

/* ---- Paused and stopped ---- */

TEST(a_paused_server_delays_and_loses_nothing)
{
    struct scene scene;
    struct actor actor, rival;
    struct waiter waiter;
    int64_t began_us;
    int code;

    scene_open(&scene, NULL);
    actor_open(
        &actor, &scene,
        RLOCK_CLIENT_OPTS(.op_timeout_ms = scene_ms(100), .renewed_lease_ms = scene_ms(3000)));
    actor_open_direct(&rival, &scene);
    assert_code(rlock_try_lock(actor.lock), 0);
    say(&scene, test_slack() > 1 ? "CLIENT PAUSE 1500" : "CLIENT PAUSE 500");
    waiter_start(&waiter, &rival, &patient);
    began_us = test_now_us();
    code = rlock_try_lock(actor.lock);
    assert_true(code == RLOCK_EINDOUBT || code == RLOCK_ECONN);
    assert_within(began_us, scene_ms(100));
    assert_true(actor_step(&actor));
    assert_true(TEST_EVENTUALLY(scene_count(&scene) == 1, 5000)); /* answered after the pause */
    assert_code(rlock_lock_with(actor.lock, &patient, NULL), 0);
    assert_code(rlock_unlock(actor.lock), 0);
    assert_true(actor_step(&actor));
    assert_code(rlock_unlock(actor.lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(actor_losses(&actor), 0);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

TEST(what_a_stopped_server_runs_afterwards_leaves_no_orphan)
{
    struct scene scene;
    struct actor actor, rival;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene,
               RLOCK_CLIENT_OPTS(.op_timeout_ms = scene_ms(30),
                                 .connect_timeout_ms = 1000 * test_slack()));
    actor_open_direct(&rival, &scene);
    for (int i = 0; i < 15; i++) {
        assert_code(actor_visit(&actor, &patient), 0);
        test_server_freeze(scene.server);
        assert_code(rlock_try_lock(actor.lock), RLOCK_EINDOUBT);
        test_server_thaw(scene.server);
        /* its lease would last half a minute */
        assert_code(actor_visit(&rival, RLOCK_TAKE(.wait_ms = 5000)), 0);
    }
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
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

static void ask_a_stopped_server(struct waiter *waiters, int64_t op_timeout_ms,
                                 const struct rlock_take *take)
{
    struct scene scene;
    struct actor actor;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = op_timeout_ms));
    assert_code(actor_visit(&actor, &patient), 0);
    test_server_freeze(scene.server);
    for (size_t i = 0; i < MANY; i++) {
        waiter_start(&waiters[i], &actor, take);
    }
    for (size_t i = 0; i < MANY; i++) {
        (void)waiter_join(&waiters[i]);
    }
    test_server_thaw(scene.server);
    assert_code(actor_visit(&actor, &patient), 0);
    actor_close(&actor);
    scene_close(&scene);
}

/* Their deadlines come one soon after the other; who is first in line by then has no time left. */
TEST(of_many_that_wait_for_a_stopped_server_one_is_in_doubt)
{
    struct waiter waiters[MANY];

    ask_a_stopped_server(waiters, 60000, RLOCK_TAKE(.wait_ms = scene_ms(700)));
    assert_int_equal(count_code(waiters, RLOCK_EINDOUBT), 1);
    assert_int_equal(count_code(waiters, RLOCK_ETIMEDOUT), MANY - 1);
}

/* The calls of one owner go one after the other, and only the first is sent. */
TEST(of_many_tries_of_an_owner_on_a_stopped_server_one_is_in_doubt)
{
    struct waiter waiters[MANY];

    ask_a_stopped_server(waiters, scene_ms(700), RLOCK_TAKE(.owner = 7));
    assert_int_equal(count_code(waiters, RLOCK_EINDOUBT), 1);
    assert_int_equal(count_code(waiters, RLOCK_ECONN), MANY - 1);
}

/* ---- A socket that is full ---- */

/* One waits and keeps watch, for replies; what another cannot send at once goes on all the same. */
TEST(a_request_beyond_what_a_socket_holds_is_sent_on_by_whoever_keeps_watch)
{
    enum { LEN = 65536 }; /* four times in a fair lock's request */
    struct scene scene;
    struct actor actor;
    struct waiter waiter;
    struct rlock *large = NULL;
    char *name = malloc(LEN);

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, unhurried());
    TEST_CHECK(name != NULL);
    memset(name, 'n', LEN);
    assert_code(rlock_fair_new(actor.client, name, &RLOCK_OPTS(.name_len = LEN), &large), 0);
    scene_take_by_hand(&scene, 0);
    waiter_start(&waiter, &actor, &patient);
    assert_true(scene_wait_waiters(&scene, 1));
    for (int i = 0; i < 50; i++) {
        int64_t began_us = test_now_us();

        assert_code(rlock_try_lock(large), 0);
        assert_code(rlock_unlock(large), 0);
        assert_within(began_us, 1000 * test_slack());
    }
    say(&scene, "DEL " SCENE_NAME);
    say(&scene, "PUBLISH " SCENE_CHANNEL " 0");
    assert_int_equal(waiter_join(&waiter), 0);
    assert_null(rlock_free(large));
    free(name);
    actor_close(&actor);
    scene_close(&scene);
}

/* ---- Connections that the server ends ---- */

TEST(killed_connections_are_replaced_under_load)
{
    struct scene scene;
    struct actor actor, rival;
    struct crew crew = {.actor = &actor, .take = &patient};
    struct crew others = {.actor = &rival, .take = &patient};

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, unhurried());
    actor_open(&rival, &scene, unhurried());
    crew_start(&crew, 4);
    crew_start(&others, 4);
    for (int i = 0; i < 60; i++) {
        size_t visits = atomic_load(&crew.visits) + atomic_load(&others.visits);

        say(&scene, i % 2 == 0 ? "CLIENT KILL TYPE normal SKIPME yes" : "CLIENT KILL TYPE pubsub");
        assert_true(TEST_EVENTUALLY(
            atomic_load(&crew.visits) + atomic_load(&others.visits) > visits + 5, 20000));
    }
    crew_stop(&crew);
    crew_stop(&others);
    assert_int_equal(actor_losses(&actor) + actor_losses(&rival), 0);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

TEST(a_servers_idle_timeout_disturbs_nobody)
{
    static const char *const conf[] = {"timeout 1", NULL};
    struct scene scene;
    struct actor actor, rival;
    long long connections;

    scene_open(&scene, &(struct scene_opts){.server.conf = conf});
    actor_open(&actor, &scene, unhurried());
    actor_open_direct(&rival, &scene); /* renews often: is never idle */
    assert_code(rlock_try_lock(actor.lock), 0);
    connections = scene_info(&scene, "stats", "total_connections_received");
    assert_true(TEST_EVENTUALLY(
        scene_info(&scene, "stats", "total_connections_received") > connections, 5000));
    assert_true(actor_step(&actor));
    assert_code(rlock_try_lock(rival.lock), RLOCK_EBUSY);
    assert_code(rlock_unlock(actor.lock), 0);
    assert_code(actor_visit(&rival, NULL), 0);
    assert_int_equal(actor_losses(&actor), 0);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}
