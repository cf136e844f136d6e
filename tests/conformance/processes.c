/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that die, or stand still. They are forked before anything here has threads. */
#include "cases.h"

#include <signal.h>
#include <unistd.h>

enum { SAYS_READY = 1, SAYS_GO };

/* In the child: a client of its own, and a lock. */
static struct rlock_client *child_client(const struct fixture *f, int64_t renewed_lease_ms)
{
    const struct rlock_client_opts opts =
        client_opts(f, RLOCK_CLIENT_OPTS(.renewed_lease_ms = renewed_lease_ms));
    struct rlock_client *client = NULL;

    TEST_CHECK(rlock_client_open(&opts, &client) == 0);
    return client;
}

static struct rlock_handle *child_lock(const struct fixture *f, struct rlock_client *client)
{
    struct rlock_handle *lock = NULL;

    TEST_CHECK(f->kind->make_rival(client, NAME, NULL, &lock) == 0);
    return lock;
}

void a_killed_holders_lock_is_free_after_its_lease(struct fixture *f)
{
    struct test_child *child = victim_spawn(&(struct victim){f, f->kind->make_rival, test_ms(300)});
    struct rlock_handle *lock = lock_new(f, client_open(f));
    int64_t killed_us;

    victim_await(child);
    (void)STAYS(true, test_ms(350)); /* it is renewed */
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    killed_us = victim_kill(child);
    assert_code(rlock_lock_for(lock, 10000, NULL, NULL), 0);
    assert_took(test_elapsed_us(killed_us), 0, test_ms(300) + LATE_MS + wake_ms(f));
    assert_code(rlock_unlock(lock), 0);
}

static int wait_until_killed(struct test_peer *peer, void *payload)
{
    struct fixture *f = payload;
    struct rlock_client *client = child_client(f, 0);
    struct rlock_handle *lock = child_lock(f, client);
    struct actor *waiter = actor_open(f);

    TEST_CHECK(test_peer_recv(peer, 5000) == SAYS_GO);
    actor_begin(waiter, act_take, lock, RLOCK_FOREVER, NULL);
    TEST_CHECK(TEST_EVENTUALLY(test_waiting(client) == 1, 5000));
    test_peer_send(peer, SAYS_READY);
    for (;;) {
        (void)pause();
    }
}

void a_killed_waiter_leaves_nothing(struct fixture *f)
{
    struct test_child *child = test_child_spawn(wait_until_killed, f);
    struct rlock_handle *lock = lock_new(f, client_open(f));

    assert_code(rlock_lock(lock), 0);
    test_child_send(child, SAYS_GO);
    assert_int_equal(test_child_recv(child, 5000), SAYS_READY);
    (void)victim_kill(child);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_lock_for(lock, 10000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
}

/* Holds, and looks all the time; says 2 if after a pause longer than the lease it still
 * believes. */
static int hold_through_a_pause(struct test_peer *peer, void *payload)
{
    struct fixture *f = payload;
    const int64_t lease_ms = test_ms(200);
    struct rlock_client *client = child_client(f, lease_ms);
    struct rlock_handle *lock = child_lock(f, client);
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

void a_paused_holder_wakes_up_without_its_lock(struct fixture *f)
{
    enum { N = 2 };
    struct test_child *children[N];
    struct rlock_handle *lock;

    for (size_t i = 0; i < N; i++) {
        children[i] = test_child_spawn(hold_through_a_pause, f);
    }
    lock = lock_new(f, client_open(f));
    for (size_t i = 0; i < N; i++) {
        test_child_send(children[i], SAYS_GO);
        assert_int_equal(test_child_recv(children[i], 20000), SAYS_READY);
        (void)STAYS(true, (int64_t)i * 70);
        test_freeze(test_child_pid(children[i]));
        assert_code(rlock_lock_for(lock, 20000, NULL, NULL), 0); /* free when its lease has ended */
        test_thaw(test_child_pid(children[i]));
        assert_int_equal(test_child_wait(children[i], 20000), 0);
        assert_true(rlock_is_valid(lock)); /* its late renewal and unlock did no harm */
        assert_code(rlock_unlock(lock), 0);
    }
}
