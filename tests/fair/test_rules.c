/* SPDX-License-Identifier: Apache-2.0 */
/* What a fair lock's calls answer, and what becomes of the queue when things go wrong. */
#include <unistd.h>

#include "fair/hall.h"
#include "support/proxy.h"

/* A holder, and one or two who wait; each of a client of its own. */
struct trio {
    struct rlock_client *clients[3];
    struct rlock_handle *locks[3];
    struct actor *waiters[2];
};

static void meet_with(struct fixture *f, struct trio *trio, const struct rlock_opts *opts)
{
    for (size_t i = 0; i < 3; i++) {
        trio->clients[i] = client_open(f);
        trio->locks[i] = lock_with(f, trio->clients[i], NAME, opts);
    }
    trio->waiters[0] = actor_open(f);
    trio->waiters[1] = actor_open(f);
}

static void meet(struct fixture *f, struct trio *trio)
{
    meet_with(f, trio, NULL);
}

/* The i-th waiter was granted the lock, and gives it up. */
static void end_turn(struct trio *trio, size_t i)
{
    assert_code(actor_end(trio->waiters[i]), 0);
    assert_code(actor_do(trio->waiters[i], act_unlock, trio->locks[i + 1], 0, NULL), 0);
}

/* S2; trace 7: a peer says "released" here. */
HALL_TEST(unlocking_what_is_not_held_is_no_success, f)
{
    struct trio trio;

    meet(f, &trio);
    assert_code(rlock_unlock(trio.locks[0]), RLOCK_ENOTOWNER);
    assert_code(TAKE(trio.locks[0], 0, .lease_ms = 50), 0);
    expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_true(TEST_EVENTUALLY(!fixture_has_key(f, NAME), 2000));
    assert_code(rlock_unlock(trio.locks[0]), RLOCK_ELOST);
    assert_code(rlock_lock(trio.locks[1]), 0);
    assert_code(rlock_unlock(trio.locks[0]), RLOCK_ENOTOWNER);
    assert_true(rlock_is_valid(trio.locks[1]));
    assert_code(rlock_unlock(trio.locks[1]), 0);
}

HALL_TEST(levels_are_counted_and_never_shorten_the_lease, f)
{
    struct trio trio;

    meet(f, &trio);
    assert_code(TAKE(trio.locks[0], 0, .lease_ms = 20000), 0);
    assert_code(TAKE(trio.locks[0], 0, .lease_ms = 1000), 0);
    assert_true(ttl_of(trio.locks[0]) > 18000);
    assert_int_equal(rlock_hold_count(trio.locks[0]), 2);
    assert_code(rlock_try_lock(trio.locks[1]), RLOCK_EBUSY);
    assert_code(rlock_unlock(trio.locks[0]), 0);
    assert_true(ttl_of(trio.locks[0]) > 18000);
    assert_code(rlock_try_lock(trio.locks[1]), RLOCK_EBUSY);
    assert_code(rlock_unlock(trio.locks[0]), 0);
    assert_code(rlock_try_lock(trio.locks[1]), 0);
    assert_code(rlock_unlock(trio.locks[1]), 0);
}

/* Others in the queue do not stand between a holder and its next level. */
HALL_TEST(a_holder_nests_past_the_queue, f)
{
    struct trio trio;

    meet(f, &trio);
    assert_code(rlock_lock(trio.locks[0]), 0);
    hall_line_up(f, trio.waiters, trio.locks + 1, 2, act_take, RLOCK_FOREVER, NULL);
    assert_code(rlock_lock(trio.locks[0]), 0);
    assert_int_equal(hall_queued(f), 2);
    assert_code(rlock_unlock(trio.locks[0]), 0);
    assert_true(rlock_is_valid(trio.locks[0]));
    assert_code(rlock_unlock(trio.locks[0]), 0);
    end_turn(&trio, 0);
    end_turn(&trio, 1);
}

/* Redisson's NonReentrantFairLock. */
HALL_TEST(without_reentry_the_holder_is_refused, f)
{
    struct trio trio;
    struct rlock_handle *twin;
    const struct rlock_opts *opts = RLOCK_OPTS(.flags = RLOCK_LOCK_NO_REENTRY);

    meet_with(f, &trio, opts);
    twin = lock_with(f, trio.clients[0], NAME, opts);
    assert_code(rlock_lock(trio.locks[0]), 0);
    assert_code(rlock_lock(trio.locks[0]), RLOCK_EREACQUIRE);
    assert_code(rlock_try_lock(trio.locks[0]), RLOCK_EREACQUIRE);
    assert_code(rlock_lock_for(trio.locks[0], 100, NULL, NULL), RLOCK_EREACQUIRE);
    assert_code(rlock_lock(twin), RLOCK_EREACQUIRE);
    assert_int_equal(rlock_hold_count(trio.locks[0]), 1);
    assert_true(test_server_says(f->server, "1", "HVALS " NAME));
    actor_begin(trio.waiters[0], act_take, trio.locks[1], RLOCK_FOREVER, NULL);
    hall_await_queued(f, 1);
    assert_true(STAYS(actor_is_busy(trio.waiters[0]), 300));
    assert_code(rlock_unlock(trio.locks[0]), 0);
    end_turn(&trio, 0);
}

/* The first write of a release is one that a full server allows; a waiter at the head has one to
 * make, too: it leaves the queue. */
HALL_TEST(a_full_server_lets_go_and_lets_in, f)
{
    struct trio trio;

    meet(f, &trio);
    assert_code(rlock_lock(trio.locks[0]), 0);
    actor_begin(trio.waiters[0], act_take, trio.locks[1], RLOCK_FOREVER, NULL);
    hall_await_queued(f, 1);
    actor_begin(trio.waiters[1], act_take, trio.locks[2], 500, NULL);
    hall_await_queued(f, 2);
    test_server_do(f->server, "CONFIG SET maxmemory 1");
    assert_code(actor_end(trio.waiters[1]), RLOCK_ETIMEDOUT);
    hall_await_queued(f, 1);
    assert_code(rlock_unlock(trio.locks[0]), 0);
    end_turn(&trio, 0);
    assert_int_equal(hall_queued(f), 0);
    test_server_do(f->server, "CONFIG SET maxmemory 0");
}

/* Who may use no channel polls, and the queue goes on. */
HALL_TEST(without_channels_the_queue_goes_on, f)
{
    struct trio trio;
    int64_t unlocked_us;

    test_server_do(f->server, "ACL SETUSER default resetchannels");
    meet(f, &trio);
    assert_code(rlock_lock(trio.locks[0]), 0);
    hall_line_up(f, trio.waiters, trio.locks + 1, 2, act_pass_through, RLOCK_FOREVER, NULL);
    unlocked_us = test_now_us();
    assert_code(rlock_unlock(trio.locks[0]), 0);
    assert_code(actor_end(trio.waiters[0]), 0);
    assert_took(actor_ended_us(trio.waiters[0]) - unlocked_us, 0, 400);
    assert_code(actor_end(trio.waiters[1]), 0);
    assert_took(actor_ended_us(trio.waiters[1]) - unlocked_us, 0, 800);
}

/* Where the server does not say who is heard, everybody may be alive: three seconds. */
HALL_TEST(unknown_listeners_count_as_listeners, f)
{
    struct trio trio;
    int64_t began_us = test_now_us();

    test_server_do(f->server, "ACL SETUSER default -pubsub");
    meet(f, &trio);
    assert_true(peer_takes(f, "H:1", 30000, SLOT_MS));
    assert_true(peer_queues(f, "J:1", SLOT_MS));
    test_server_do(f->server, "DEL " NAME);
    assert_code(rlock_lock_for(trio.locks[0], 10000 * test_slack(), NULL, NULL), 0);
    assert_took(test_elapsed_us(began_us), 3000, 5000);
    assert_code(rlock_unlock(trio.locks[0]), 0);
}

HALL_TEST(force_tells_the_head, f)
{
    struct trio trio;
    bool was_locked = false;
    int64_t forced_us;

    meet(f, &trio);
    assert_code(rlock_lock(trio.locks[0]), 0);
    hall_line_up(f, trio.waiters, trio.locks + 1, 2, act_take, RLOCK_FOREVER, NULL);
    forced_us = test_now_us();
    assert_code(rlock_force_unlock(trio.locks[0], &was_locked), 0);
    assert_true(was_locked);
    expect_loss(f, RLOCK_LOST_FORCED);
    assert_code(actor_end(trio.waiters[0]), 0);
    assert_took(actor_ended_us(trio.waiters[0]) - forced_us, 0, 1000);
    assert_int_equal(hall_queued(f), 1);
    assert_code(rlock_unlock(trio.locks[0]), RLOCK_ELOST);
    assert_code(actor_do(trio.waiters[0], act_unlock, trio.locks[1], 0, NULL), 0);
    end_turn(&trio, 1);
}

/* Nobody is told of a DEL; a slot of 3 s makes a waiter look every second. */
HALL_TEST(a_lock_that_is_deleted_goes_to_the_head, f)
{
    struct trio trio;
    const struct rlock_opts *opts = RLOCK_OPTS(.fair_slot_ms = 3000);
    int64_t deleted_us;

    meet_with(f, &trio, opts);
    assert_code(rlock_lock(trio.locks[0]), 0);
    hall_line_up(f, trio.waiters, trio.locks + 1, 2, act_take, RLOCK_FOREVER, NULL);
    test_server_do(f->server, "DEL " NAME);
    deleted_us = test_now_us();
    end_turn(&trio, 0);
    end_turn(&trio, 1);
    assert_took(actor_ended_us(trio.waiters[1]) - deleted_us, 0, 1500);
    assert_code(rlock_unlock(trio.locks[0]), RLOCK_ELOST);
    expect_loss(f, RLOCK_LOST_DELETED);
}

HALL_TEST(a_cancelled_call_leaves_the_queue, f)
{
    struct trio trio;
    struct rlock_cancel *cancel = NULL;

    meet(f, &trio);
    assert_code(rlock_cancel_new(&cancel), 0);
    assert_code(rlock_lock(trio.locks[0]), 0);
    actor_begin(trio.waiters[0], act_take, trio.locks[1], RLOCK_FOREVER,
                RLOCK_TAKE(.cancel = cancel));
    hall_await_queued(f, 1);
    rlock_cancel_fire(cancel);
    assert_code(actor_end(trio.waiters[0]), RLOCK_ECANCELED);
    hall_await_queued(f, 0);
    assert_code(rlock_unlock(trio.locks[0]), 0);
    assert_null(rlock_cancel_free(cancel));
}

HALL_TEST(a_closed_client_leaves_the_queue, f)
{
    struct trio trio;

    meet(f, &trio);
    assert_code(rlock_lock(trio.locks[0]), 0);
    hall_line_up(f, trio.waiters, trio.locks + 1, 2, act_take, RLOCK_FOREVER, NULL);
    client_close(f, trio.clients[1]);
    assert_code(actor_end(trio.waiters[0]), RLOCK_ECLOSED);
    assert_int_equal(hall_queued(f), 1);
    assert_code(rlock_unlock(trio.locks[0]), 0);
    end_turn(&trio, 1);
}

/* Trace 9: the release is announced to a head that gives up. To a client with this flag a release
 * grants nothing. */
HALL_TEST(a_head_that_gives_up_wakes_the_next, f)
{
    struct trio trio;
    struct proxy *proxy;
    struct rlock_client *slow;
    struct rlock_handle *lock;
    int64_t passed_us;

    meet(f, &trio);
    proxy = proxy_start_unix(test_server_unix_url(f->server));
    slow = client_open_with(f, RLOCK_CLIENT_OPTS(.url = proxy_url(proxy), .op_timeout_ms = 20000,
                                                 .flags = RLOCK_CLIENT_NO_PASS));
    lock = lock_new(f, slow);
    assert_code(rlock_lock(trio.locks[0]), 0);
    actor_begin(trio.waiters[0], act_take, lock, 1000, NULL);
    hall_await_queued(f, 1);
    actor_begin(trio.waiters[1], act_take, trio.locks[2], RLOCK_FOREVER, NULL);
    hall_await_queued(f, 2);
    proxy_hold_requests(proxy, true);
    assert_code(rlock_unlock(trio.locks[0]), 0);
    assert_true(proxy_wait_held(proxy, 1, 2000));
    assert_code(actor_end(trio.waiters[0]), RLOCK_EINDOUBT);
    proxy_hold_requests(proxy, false);
    passed_us = test_now_us();
    end_turn(&trio, 1);
    assert_took(actor_ended_us(trio.waiters[1]) - passed_us, 0, 1000);
    client_close(f, slow);
    assert_null(proxy_stop(proxy));
}

/* A server that does not write for longer than every timeout, A.2's last row. */
HALL_TEST(who_timed_out_on_a_silent_server_leaves_too, f)
{
    struct rlock_client *clients[2];
    struct actor *waiters[] = {actor_open(f), actor_open(f)};
    int codes[2];

    assert_true(peer_takes(f, "H:1", 60000, SLOT_MS));
    for (size_t i = 0; i < 2; i++) {
        clients[i] = client_open_with(f, RLOCK_CLIENT_OPTS(.op_timeout_ms = 200));
        actor_begin(waiters[i], act_take, lock_new(f, clients[i]), 900, NULL);
        hall_await_queued(f, i + 1);
    }
    test_server_do(f->server, "CLIENT PAUSE 1500 WRITE");
    for (size_t i = 0; i < 2; i++) {
        codes[i] = actor_end(waiters[i]);
        assert_true(codes[i] == RLOCK_ETIMEDOUT || codes[i] == RLOCK_EINDOUBT);
    }
    hall_await_queued(f, 0);
    assert_true(peer_releases(f, "H:1"));
}
