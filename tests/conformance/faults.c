/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that are gone, stand still, or forget. */
#include "cases.h"

static struct rlock_client *client_with_timeout(struct fixture *f, int64_t op_timeout_ms)
{
    return client_open_with(
        f, RLOCK_CLIENT_OPTS(.op_timeout_ms = op_timeout_ms, .connect_timeout_ms = op_timeout_ms));
}

void without_a_server_a_call_says_so_in_time(struct fixture *f)
{
    const int64_t timeout_ms = 80 * test_slack();
    struct rlock_client *client = client_with_timeout(f, timeout_ms);
    struct rlock_handle *lock = lock_new(f, client);
    int64_t since_us;

    assert_code(rlock_lock(lock), 0);
    test_server_kill(f->server);
    since_us = test_now_us();
    assert_code(rlock_unlock(lock), RLOCK_EINDOUBT);
    assert_in_time(since_us, (timeout_ms + LATE_MS * test_slack()) * 1000);
    for (int i = 0; i < 2; i++) {
        struct rlock_handle *other = lock_named(f, client_with_timeout(f, timeout_ms), "other");

        since_us = test_now_us();
        assert_code(rlock_try_lock(other), RLOCK_ECONN); /* never "busy" */
        assert_in_time(since_us, (timeout_ms + LATE_MS * test_slack()) * 1000);
        since_us = test_now_us();
        assert_code(rlock_lock_for(other, timeout_ms / 2, NULL, NULL), RLOCK_ECONN);
        assert_in_time(since_us, (timeout_ms / 2 + LATE_MS * test_slack()) * 1000);
        assert_string_not_equal(rlock_detail(), "");
    }
    test_server_restart(f->server, false);
    client_close(f, client); /* which the unlock in doubt may have told meanwhile that it is gone */
    forgive_losses(f);
}

void a_server_that_comes_back_ends_the_wait(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct actor *waiter = actor_open(f);

    test_server_kill(f->server);
    actor_begin(waiter, act_pass_through, lock, RLOCK_FOREVER, NULL);
    assert_true(STAYS(actor_is_busy(waiter), 50));
    test_server_restart(f->server, false);
    assert_code(actor_end(waiter), 0);
}

void a_frozen_server_keeps_no_call_past_its_deadline(struct fixture *f)
{
    const int64_t timeout_ms =
        200 * test_slack(); /* also for calls before the server stands still */
    struct rlock_handle *lock = lock_new(f, client_with_timeout(f, timeout_ms));
    struct rlock_handle *held = lock_named(f, client_with_timeout(f, timeout_ms), "held");
    int64_t since_us;

    assert_code(rlock_lock(held), 0);
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    test_server_freeze(f->server);
    since_us = test_now_us();
    assert_code(rlock_try_lock(lock), RLOCK_EINDOUBT); /* sent; it may yet run */
    assert_non_null(strstr(rlock_detail(), "free again in"));
    assert_in_time(since_us, (timeout_ms + LATE_MS * test_slack()) * 1000);
    since_us = test_now_us();
    assert_code(rlock_unlock(held), RLOCK_EINDOUBT);
    assert_in_time(since_us, (timeout_ms + LATE_MS * test_slack()) * 1000);
    test_server_thaw(f->server);
    /* what ran late is given back long before its lease ends */
    assert_true(TEST_EVENTUALLY(fixture_keys(f) == 0, 5000));
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
}

/* Redisson's #2515: the watchdog did not renew the next lock of that name. */
void after_a_restart_the_next_lock_is_renewed_again(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));

    assert_code(rlock_lock(lock), 0);
    test_server_restart(f->server, false);
    (void)expect_loss(f, 0); /* deleted; expired, where the restart took longer than the lease */
    assert_true(last_loss(f)->reason == RLOCK_LOST_DELETED ||
                last_loss(f)->reason == RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_lock(lock), 0);
    assert_true(STAYS_KEPT(rlock_is_valid(lock), 2 * lease_ms, lease_ms));
    assert_true(is_locked(lock));
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
}

void scripts_that_the_server_forgot_are_sent_whole(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, test_ms(300)));

    for (int i = 0; i < 3; i++) {
        assert_true(test_server_says(f->server, "OK", "SCRIPT FLUSH"));
        assert_code(rlock_lock(lock), 0);
        assert_true(test_server_says(f->server, "OK", "SCRIPT FLUSH"));
        if (i == 0) {
            assert_true(STAYS(rlock_is_valid(lock), test_ms(300))); /* renewals, too */
        }
        assert_code(rlock_unlock(lock), 0);
    }
}

void a_key_of_another_type_is_refused_and_kept(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    assert_true(test_server_says(f->server, "OK", "SET " NAME " precious"));
    assert_code(rlock_try_lock(lock), RLOCK_EWRONGTYPE);
    assert_non_null(strstr(rlock_detail(), NAME));
    assert_code(rlock_lock(lock), RLOCK_EWRONGTYPE);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    assert_true(test_server_says(f->server, "precious", "GET " NAME));
    assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
}

void a_hold_survives_its_connections(struct fixture *f)
{
    const int64_t lease_ms = test_ms(400);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));
    const int64_t end_us = test_now_us() + 3 * lease_ms / 2 * 1000;

    assert_code(rlock_lock(lock), 0);
    do {
        test_server_do(f->server, "CLIENT KILL TYPE normal");
        assert_true(STAYS(rlock_is_valid(lock), 50));
        assert_true(is_locked(lock)); /* connected again, however long that takes here */
    } while (test_now_us() < end_us);
    assert_code(rlock_unlock(lock), 0);
}

void a_broken_connection_is_no_reason_to_fail(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    for (int i = 0; i < 5; i++) {
        test_server_do(f->server, "CLIENT KILL TYPE normal");
        assert_code(rlock_try_lock(lock), 0);
        test_server_do(f->server, "CLIENT KILL TYPE normal");
        if (kind_can(f, CAN_NEST)) {
            assert_code(rlock_lock(lock), 0);
            test_server_do(f->server, "CLIENT KILL TYPE normal");
            assert_code(rlock_unlock(lock), 0);
        }
        assert_code(rlock_unlock(lock), 0);
        assert_int_equal(fixture_keys(f), 0);
    }
}
