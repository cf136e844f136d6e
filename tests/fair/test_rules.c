/* SPDX-License-Identifier: Apache-2.0 */
/* What a fair lock's calls answer, and what becomes of the queue when things go wrong. */
#include <unistd.h>

#include "fair/hall.h"
#include "support/proxy.h"

/* A holder, and one or two who wait; each of a client of its own. */
struct trio {
    struct rlock_client *clients[3];
    struct rlock *locks[3];
    struct actor *waiters[2];
};

static void meet_with(struct world *w, struct trio *trio, const struct rlock_opts *opts)
{
    for (size_t i = 0; i < 3; i++) {
        trio->clients[i] = conf_client(w);
        trio->locks[i] = conf_lock_with(w, trio->clients[i], NAME, opts);
    }
    trio->waiters[0] = conf_actor(w);
    trio->waiters[1] = conf_actor(w);
}

static void meet(struct world *w, struct trio *trio)
{
    meet_with(w, trio, NULL);
}

/* The i-th waiter was granted the lock, and gives it up. */
static void end_turn(struct trio *trio, size_t i)
{
    assert_code(actor_end(trio->waiters[i]), 0);
    assert_code(actor_do(trio->waiters[i], act_unlock, trio->locks[i + 1], NULL), 0);
}

static const struct rlock_take for_ever = {.size = sizeof(for_ever), .wait_ms = RLOCK_FOREVER};

/* S2; trace 7: a peer says "released" here. */
HALL_TEST(unlocking_what_is_not_held_is_no_success, w)
{
    struct trio trio;

    meet(w, &trio);
    assert_code(rlock_unlock(trio.locks[0]), RLOCK_ENOTOWNER);
    assert_code(TAKE(trio.locks[0], .lease_ms = 50), 0);
    expect_loss(w, RLOCK_LOST_EXPIRED);
    assert_true(TEST_EVENTUALLY(!conf_has_key(w, NAME), 2000));
    assert_code(rlock_unlock(trio.locks[0]), RLOCK_ELOST);
    assert_code(rlock_lock(trio.locks[1]), 0);
    assert_code(rlock_unlock(trio.locks[0]), RLOCK_ENOTOWNER);
    assert_true(rlock_is_valid(trio.locks[1]));
    assert_code(rlock_unlock(trio.locks[1]), 0);
}

HALL_TEST(levels_are_counted_and_never_shorten_the_lease, w)
{
    struct trio trio;

    meet(w, &trio);
    assert_code(TAKE(trio.locks[0], .lease_ms = 20000), 0);
    assert_code(TAKE(trio.locks[0], .lease_ms = 1000), 0);
    assert_true(conf_ttl(trio.locks[0]) > 18000);
    assert_int_equal(rlock_hold_count(trio.locks[0]), 2);
    assert_code(rlock_try_lock(trio.locks[1]), RLOCK_EBUSY);
    assert_code(rlock_unlock(trio.locks[0]), 0);
    assert_true(conf_ttl(trio.locks[0]) > 18000);
    assert_code(rlock_try_lock(trio.locks[1]), RLOCK_EBUSY);
    assert_code(rlock_unlock(trio.locks[0]), 0);
    assert_code(rlock_try_lock(trio.locks[1]), 0);
    assert_code(rlock_unlock(trio.locks[1]), 0);
}

/* Others in the queue do not stand between a holder and its next level. */
HALL_TEST(a_holder_nests_past_the_queue, w)
{
    struct trio trio;

    meet(w, &trio);
    assert_code(rlock_lock(trio.locks[0]), 0);
    hall_line_up(w, trio.waiters, trio.locks + 1, 2, act_take, &for_ever);
    assert_code(rlock_lock(trio.locks[0]), 0);
    assert_int_equal(hall_queued(w), 2);
    assert_code(rlock_unlock(trio.locks[0]), 0);
    assert_true(rlock_is_valid(trio.locks[0]));
    assert_code(rlock_unlock(trio.locks[0]), 0);
    end_turn(&trio, 0);
    end_turn(&trio, 1);
}

/* Redisson's NonReentrantFairLock. */
HALL_TEST(without_reentry_the_holder_is_refused, w)
{
    struct trio trio;
    struct rlock *twin;
    const struct rlock_opts opts = RLOCK_OPTS(.no_reentry = true);

    meet_with(w, &trio, &opts);
    twin = conf_lock_with(w, trio.clients[0], NAME, &opts);
    assert_code(rlock_lock(trio.locks[0]), 0);
    assert_code(rlock_lock(trio.locks[0]), RLOCK_EREACQUIRE);
    assert_code(rlock_try_lock(trio.locks[0]), RLOCK_EREACQUIRE);
    assert_code(TAKE(trio.locks[0], .wait_ms = 100), RLOCK_EREACQUIRE);
    assert_code(rlock_lock(twin), RLOCK_EREACQUIRE);
    assert_int_equal(rlock_hold_count(trio.locks[0]), 1);
    assert_true(test_server_says(conf_server(w), "1", "HVALS " NAME));
    actor_begin(trio.waiters[0], act_take, trio.locks[1], &for_ever);
    hall_await_queued(w, 1);
    assert_true(STAYS(actor_is_busy(trio.waiters[0]), 300));
    assert_code(rlock_unlock(trio.locks[0]), 0);
    end_turn(&trio, 0);
}

/* The first write of a release is one that a full server allows; a waiter at the head has one to
 * make, too: it leaves the queue. */
HALL_TEST(a_full_server_lets_go_and_lets_in, w)
{
    struct trio trio;

    meet(w, &trio);
    assert_code(rlock_lock(trio.locks[0]), 0);
    actor_begin(trio.waiters[0], act_take, trio.locks[1], &for_ever);
    hall_await_queued(w, 1);
    actor_begin(trio.waiters[1], act_take, trio.locks[2], RLOCK_TAKE(.wait_ms = 500));
    hall_await_queued(w, 2);
    free(test_server_cmd(conf_server(w), "CONFIG SET maxmemory 1"));
    assert_code(actor_end(trio.waiters[1]), RLOCK_ETIMEDOUT);
    hall_await_queued(w, 1);
    assert_code(rlock_unlock(trio.locks[0]), 0);
    end_turn(&trio, 0);
    assert_int_equal(hall_queued(w), 0);
    free(test_server_cmd(conf_server(w), "CONFIG SET maxmemory 0"));
}

/* Who may use no channel polls, and the queue goes on. */
HALL_TEST(without_channels_the_queue_goes_on, w)
{
    struct trio trio;
    int64_t unlocked_us;

    free(test_server_cmd(conf_server(w), "ACL SETUSER default resetchannels"));
    meet(w, &trio);
    assert_code(rlock_lock(trio.locks[0]), 0);
    hall_line_up(w, trio.waiters, trio.locks + 1, 2, act_pass_through, NULL);
    unlocked_us = test_now_us();
    assert_code(rlock_unlock(trio.locks[0]), 0);
    assert_code(actor_end(trio.waiters[0]), 0);
    assert_took(actor_ended_us(trio.waiters[0]) - unlocked_us, 0, 400);
    assert_code(actor_end(trio.waiters[1]), 0);
    assert_took(actor_ended_us(trio.waiters[1]) - unlocked_us, 0, 800);
}

/* Where the server does not say who is heard, everybody may be alive: three seconds. */
HALL_TEST(unknown_listeners_count_as_listeners, w)
{
    struct trio trio;
    int64_t began_us = test_now_us();

    free(test_server_cmd(conf_server(w), "ACL SETUSER default -pubsub"));
    meet(w, &trio);
    assert_true(peer_takes(w, "H:1", 30000, SLOT_MS));
    assert_true(peer_queues(w, "J:1", SLOT_MS));
    free(test_server_cmd(conf_server(w), "DEL " NAME));
    assert_code(TAKE(trio.locks[0], .wait_ms = 10000 * test_slack()), 0);
    assert_took(test_elapsed_us(began_us), 3000, 5000);
    assert_code(rlock_unlock(trio.locks[0]), 0);
}

HALL_TEST(force_tells_the_head, w)
{
    struct trio trio;
    bool was_locked = false;
    int64_t forced_us;

    meet(w, &trio);
    assert_code(rlock_lock(trio.locks[0]), 0);
    hall_line_up(w, trio.waiters, trio.locks + 1, 2, act_take, &for_ever);
    forced_us = test_now_us();
    assert_code(rlock_force_unlock(trio.locks[0], &was_locked), 0);
    assert_true(was_locked);
    expect_loss(w, RLOCK_LOST_FORCED);
    assert_code(actor_end(trio.waiters[0]), 0);
    assert_took(actor_ended_us(trio.waiters[0]) - forced_us, 0, 1000);
    assert_int_equal(hall_queued(w), 1);
    assert_code(rlock_unlock(trio.locks[0]), RLOCK_ELOST);
    assert_code(actor_do(trio.waiters[0], act_unlock, trio.locks[1], NULL), 0);
    end_turn(&trio, 1);
}

/* Nobody is told of a DEL; a slot of 3 s makes a waiter look every second. */
HALL_TEST(a_lock_that_is_deleted_goes_to_the_head, w)
{
    struct trio trio;
    const struct rlock_opts opts = RLOCK_OPTS(.fair_slot_ms = 3000);
    int64_t deleted_us;

    meet_with(w, &trio, &opts);
    assert_code(rlock_lock(trio.locks[0]), 0);
    hall_line_up(w, trio.waiters, trio.locks + 1, 2, act_take, &for_ever);
    free(test_server_cmd(conf_server(w), "DEL " NAME));
    deleted_us = test_now_us();
    end_turn(&trio, 0);
    end_turn(&trio, 1);
    assert_took(actor_ended_us(trio.waiters[1]) - deleted_us, 0, 1500);
    assert_code(rlock_unlock(trio.locks[0]), RLOCK_ELOST);
    expect_loss(w, RLOCK_LOST_DELETED);
}

HALL_TEST(a_cancelled_call_leaves_the_queue, w)
{
    struct trio trio;
    struct rlock_cancel *cancel = NULL;

    meet(w, &trio);
    assert_code(rlock_cancel_new(&cancel), 0);
    assert_code(rlock_lock(trio.locks[0]), 0);
    actor_begin(trio.waiters[0], act_take, trio.locks[1],
                RLOCK_TAKE(.wait_ms = RLOCK_FOREVER, .cancel = cancel));
    hall_await_queued(w, 1);
    rlock_cancel_fire(cancel);
    assert_code(actor_end(trio.waiters[0]), RLOCK_ECANCELED);
    hall_await_queued(w, 0);
    assert_code(rlock_unlock(trio.locks[0]), 0);
    assert_null(rlock_cancel_free(cancel));
}

HALL_TEST(a_closed_client_leaves_the_queue, w)
{
    struct trio trio;

    meet(w, &trio);
    assert_code(rlock_lock(trio.locks[0]), 0);
    hall_line_up(w, trio.waiters, trio.locks + 1, 2, act_take, &for_ever);
    conf_close(w, trio.clients[1]);
    assert_code(actor_end(trio.waiters[0]), RLOCK_ECLOSED);
    assert_int_equal(hall_queued(w), 1);
    assert_code(rlock_unlock(trio.locks[0]), 0);
    end_turn(&trio, 1);
}

/* Trace 9: the release is announced to a head that gives up. */
HALL_TEST(a_head_that_gives_up_wakes_the_next, w)
{
    struct trio trio;
    struct proxy *proxy;
    struct rlock_client *slow;
    struct rlock *lock;
    int64_t passed_us;

    meet(w, &trio);
    proxy = proxy_start_unix(test_server_unix_url(conf_server(w)));
    slow = conf_client_with(w, &RLOCK_CLIENT_OPTS(.url = proxy_url(proxy), .op_timeout_ms = 20000));
    lock = conf_lock(w, slow);
    assert_code(rlock_lock(trio.locks[0]), 0);
    actor_begin(trio.waiters[0], act_take, lock, RLOCK_TAKE(.wait_ms = 1000));
    hall_await_queued(w, 1);
    actor_begin(trio.waiters[1], act_take, trio.locks[2], &for_ever);
    hall_await_queued(w, 2);
    proxy_hold_requests(proxy, true);
    assert_code(rlock_unlock(trio.locks[0]), 0);
    assert_true(proxy_wait_held(proxy, 1, 2000));
    assert_code(actor_end(trio.waiters[0]), RLOCK_EINDOUBT);
    proxy_hold_requests(proxy, false);
    passed_us = test_now_us();
    end_turn(&trio, 1);
    assert_took(actor_ended_us(trio.waiters[1]) - passed_us, 0, 1000);
    conf_close(w, slow);
    assert_null(proxy_stop(proxy));
}

/* A server that does not write for longer than every timeout, A.2's last row. */
HALL_TEST(who_timed_out_on_a_silent_server_leaves_too, w)
{
    struct rlock_client *clients[2];
    struct actor *waiters[] = {conf_actor(w), conf_actor(w)};
    int codes[2];

    assert_true(peer_takes(w, "H:1", 60000, SLOT_MS));
    for (size_t i = 0; i < 2; i++) {
        clients[i] = conf_client_with(w, &RLOCK_CLIENT_OPTS(.op_timeout_ms = 200));
        actor_begin(waiters[i], act_take, conf_lock(w, clients[i]), RLOCK_TAKE(.wait_ms = 900));
        hall_await_queued(w, i + 1);
    }
    free(test_server_cmd(conf_server(w), "CLIENT PAUSE 1500 WRITE"));
    for (size_t i = 0; i < 2; i++) {
        codes[i] = actor_end(waiters[i]);
        assert_true(codes[i] == RLOCK_ETIMEDOUT || codes[i] == RLOCK_EINDOUBT);
    }
    hall_await_queued(w, 0);
    assert_true(peer_releases(w, "H:1"));
}
