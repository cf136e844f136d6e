/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that die, or stand still. They are forked before anything here has threads. */
#include "cases.h"

#include <signal.h>
#include <unistd.h>

enum { SAYS_READY = 1, SAYS_GO };

/* In the child: a client of its own, and a lock. */
static struct rlock_client *child_client(const struct world *w, int64_t renewed_lease_ms)
{
    const struct rlock_client_opts opts =
        conf_opts(w, &RLOCK_CLIENT_OPTS(.renewed_lease_ms = renewed_lease_ms));
    struct rlock_client *client = NULL;

    TEST_CHECK(rlock_client_open(&opts, &client) == 0);
    return client;
}

static struct rlock *child_lock(const struct world *w, struct rlock_client *client)
{
    struct rlock *lock = NULL;

    TEST_CHECK(conf_kind(w)->make_rival(client, NAME, NULL, &lock) == 0);
    return lock;
}

static int hold_until_killed(struct test_peer *peer, void *payload)
{
    struct world *w = payload;
    struct rlock *lock = child_lock(w, child_client(w, conf_ms(300)));

    TEST_CHECK(rlock_lock(lock) == 0);
    test_peer_send(peer, SAYS_READY);
    for (;;) {
        (void)pause();
    }
}

void a_killed_holders_lock_is_free_after_its_lease(struct world *w)
{
    struct test_child *child = test_child_spawn(hold_until_killed, w);
    struct rlock *lock = conf_lock(w, conf_client(w));
    int64_t killed_us;

    assert_int_equal(test_child_recv(child, 5000), SAYS_READY);
    (void)STAYS(true, conf_ms(350)); /* it is renewed */
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    killed_us = test_now_us();
    test_child_kill(child, SIGKILL);
    assert_int_equal(test_child_wait(child, 5000), 128 + SIGKILL);
    assert_code(TAKE(lock, .wait_ms = 10000), 0);
    assert_took(test_elapsed_us(killed_us), 0, conf_ms(300) + LATE_MS + conf_wake_ms(w));
    assert_code(rlock_unlock(lock), 0);
}

static int wait_until_killed(struct test_peer *peer, void *payload)
{
    struct world *w = payload;
    struct rlock_client *client = child_client(w, 0);
    struct rlock *lock = child_lock(w, client);
    struct actor *waiter = conf_actor(w);

    TEST_CHECK(test_peer_recv(peer, 5000) == SAYS_GO);
    actor_begin(waiter, act_lock, lock, NULL);
    TEST_CHECK(TEST_EVENTUALLY(test_waiting(client) == 1, 5000));
    test_peer_send(peer, SAYS_READY);
    for (;;) {
        (void)pause();
    }
}

void a_killed_waiter_leaves_nothing(struct world *w)
{
    struct test_child *child = test_child_spawn(wait_until_killed, w);
    struct rlock *lock = conf_lock(w, conf_client(w));

    assert_code(rlock_lock(lock), 0);
    test_child_send(child, SAYS_GO);
    assert_int_equal(test_child_recv(child, 5000), SAYS_READY);
    test_child_kill(child, SIGKILL);
    assert_int_equal(test_child_wait(child, 5000), 128 + SIGKILL);
    assert_code(rlock_unlock(lock), 0);
    assert_code(TAKE(lock, .wait_ms = 10000), 0);
    assert_code(rlock_unlock(lock), 0);
}

/* Holds, and looks all the time; says 2 if after a pause longer than the lease it still
 * believes. */
static int hold_through_a_pause(struct test_peer *peer, void *payload)
{
    struct world *w = payload;
    const int64_t lease_ms = conf_ms(200);
    struct rlock_client *client = child_client(w, lease_ms);
    struct rlock *lock = child_lock(w, client);
    int64_t before_us;
    int status = 0;

    TEST_CHECK(test_peer_recv(peer, 20000) == SAYS_GO);
    TEST_CHECK(rlock_lock(lock) == 0);
    before_us = test_now_us();
    test_peer_send(peer, SAYS_READY);
    for (bool is_valid = true; is_valid && status == 0;) {
        const int64_t now_us = test_now_us();

        is_valid = rlock_is_valid(lock);
        status = is_valid && now_us - before_us > lease_ms * 1000 ? 2 : 0;
        before_us = now_us;
    }
    TEST_CHECK(rlock_unlock(lock) == RLOCK_ELOST);
    (void)rlock_free(lock);
    (void)rlock_client_close(client);
    return status;
}

void a_paused_holder_wakes_up_without_its_lock(struct world *w)
{
    enum { N = 2 };
    struct test_child *children[N];
    struct rlock *lock;

    for (size_t i = 0; i < N; i++) {
        children[i] = test_child_spawn(hold_through_a_pause, w);
    }
    lock = conf_lock(w, conf_client(w));
    for (size_t i = 0; i < N; i++) {
        test_child_send(children[i], SAYS_GO);
        assert_int_equal(test_child_recv(children[i], 20000), SAYS_READY);
        (void)STAYS(true, (int64_t)i * 70);
        test_freeze(test_child_pid(children[i]));
        assert_code(TAKE(lock, .wait_ms = 20000), 0); /* free when its lease has ended */
        test_thaw(test_child_pid(children[i]));
        assert_int_equal(test_child_wait(children[i], 20000), 0);
        assert_true(rlock_is_valid(lock)); /* its late renewal and unlock did no harm */
        assert_code(rlock_unlock(lock), 0);
    }
}
