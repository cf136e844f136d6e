/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: what the server is asked for, what is believed here, and what renews them. */
#include "cases.h"

#include <pthread.h>
#include <stdatomic.h>

#include "drive/client.h"

enum { HOUR_MS = 3600 * 1000 };

/* The server's TTL lies between the lease less what went by since, and the lease. */
static void ttl_is(struct rlock_handle *lock, int64_t lease_ms, int64_t since_us)
{
    const int64_t ttl_ms = ttl_of(lock), passed_ms = test_elapsed_us(since_us) / 1000;

    assert_in_range(ttl_ms, lease_ms - passed_ms - 10, lease_ms);
}

void the_ttl_is_the_lease(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    int64_t since_us = test_now_us();

    assert_code(TAKE(lock, 0, .lease_ms = HOUR_MS), 0);
    ttl_is(lock, HOUR_MS, since_us);
    assert_code(rlock_unlock(lock), 0);
    assert_int_equal(ttl_of(lock), -2);
    since_us = test_now_us();
    assert_code(rlock_lock(lock), 0);
    ttl_is(lock, 30000, since_us);
    assert_code(rlock_unlock(lock), 0);
}

void a_renewed_lease_is_the_clients_option(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, 70000));
    const int64_t since_us = test_now_us();

    assert_code(rlock_lock(lock), 0);
    ttl_is(lock, 70000, since_us);
    assert_code(rlock_unlock(lock), 0);
}

void nested_leases_keep_the_longest(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    int64_t since_us = test_now_us();

    assert_code(TAKE(lock, 0, .lease_ms = 10000), 0);
    assert_code(TAKE(lock, 0, .lease_ms = 1000), 0); /* does not shorten it */
    ttl_is(lock, 10000, since_us);
    since_us = test_now_us();
    assert_code(TAKE(lock, 0, .lease_ms = 10000), 0); /* does not add to it */
    ttl_is(lock, 10000, since_us);
    since_us = test_now_us();
    assert_code(TAKE(lock, 0, .lease_ms = 40000), 0);
    ttl_is(lock, 40000, since_us);
    assert_true(rlock_valid_ms(lock) > 30000);
    for (int i = 0; i < 3; i++) {
        assert_code(rlock_unlock(lock), 0); /* leaves what remains */
        ttl_is(lock, 40000, since_us);
        assert_true(rlock_valid_ms(lock) > 30000);
    }
    assert_code(rlock_unlock(lock), 0);
}

void a_partial_unlock_leaves_the_lease_that_was_given(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    const int64_t since_us = test_now_us();

    for (int i = 0; i < 3; i++) {
        assert_code(TAKE(lock, 0, .lease_ms = 10000), 0);
    }
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    ttl_is(lock, 10000, since_us); /* not the client's renewed lease */
    assert_code(rlock_unlock(lock), 0);
}

/* S1: a lease is the hold's. What another thread asks for by the same handle is nothing to it. */
void anothers_lease_by_the_same_handle_changes_nothing(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct actor *other = actor_open(f);
    const int64_t since_us = test_now_us();

    assert_code(TAKE(lock, 0, .lease_ms = 10000), 0);
    assert_code(TAKE(lock, 0, .lease_ms = 10000), 0);
    if (actor_do(other, act_take, lock, 0, RLOCK_TAKE(.lease_ms = 5000)) == 0) { /* shares it */
        assert_code(actor_do(other, act_unlock, lock, 0, NULL), 0);
    } else {
        assert_code(actor_do(other, act_unlock, lock, 0, NULL), RLOCK_ENOTOWNER);
    }
    assert_code(rlock_unlock(lock), 0);
    ttl_is(lock, 10000, since_us);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
}

void a_renewed_hold_outlives_its_lease(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));

    assert_code(rlock_lock(lock), 0);
    assert_true(STAYS_KEPT(rlock_is_valid(lock), 3 * lease_ms / 2, lease_ms));
    assert_true(is_locked(lock));
    assert_code(rlock_unlock(lock), 0);
}

void a_renewed_lease_never_falls_below_a_third(struct fixture *f)
{
    const int64_t lease_ms = test_ms(450);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));

    assert_code(rlock_lock(lock), 0);
    assert_true(STAYS_KEPT(test_server_int(f->server, "PTTL " NAME) >= lease_ms / 3,
                           3 * lease_ms / 2, lease_ms));
    assert_code(rlock_unlock(lock), 0);
}

void a_fixed_lease_is_not_renewed(struct fixture *f)
{
    const int64_t lease_ms = test_ms(150);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));
    const int64_t since_us = test_now_us();

    assert_code(TAKE(lock, 0, .lease_ms = lease_ms), 0);
    assert_took(expect_loss(f, RLOCK_LOST_EXPIRED) - since_us, lease_ms / 2, lease_ms + LATE_MS);
    assert_true(TEST_EVENTUALLY(!is_locked(lock), 100));
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
}

void a_hold_is_renewed_while_any_level_is(struct fixture *f)
{
    const int64_t lease_ms = test_ms(600);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));

    assert_code(TAKE(lock, 0, .lease_ms = lease_ms / 3), 0);
    assert_code(rlock_lock(lock), 0);
    assert_true(STAYS_KEPT(rlock_is_valid(lock), 3 * lease_ms / 2, lease_ms));
    assert_code(rlock_unlock(lock), 0); /* the renewed level: what is left ends by itself */
    assert_true(rlock_is_valid(lock));
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);

    assert_code(rlock_lock(lock), 0);
    assert_code(TAKE(lock, 0, .lease_ms = lease_ms / 3), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_true(STAYS_KEPT(rlock_is_valid(lock), 3 * lease_ms / 2, lease_ms));
    assert_code(rlock_unlock(lock), 0);
}

void max_hold_ends_a_renewed_hold(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300), most_ms = test_ms(450);
    struct rlock_client *client = client_open_renewing(f, lease_ms);
    struct rlock_handle *lock = lock_with(f, client, NAME, RLOCK_OPTS(.max_hold_ms = most_ms));
    const int64_t since_us = test_now_us();

    assert_code(rlock_lock(lock), 0);
    assert_took(expect_loss(f, RLOCK_LOST_EXPIRED) - since_us, most_ms - lease_ms,
                most_ms + LATE_MS);
    assert_true(TEST_EVENTUALLY(!is_locked(lock), 100));
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
}

/* Levels come and go all the while, renewed ones and others. */
void max_hold_counts_from_the_first_level(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300), most_ms = test_ms(450);
    struct rlock_client *client = client_open_renewing(f, lease_ms);
    struct rlock_handle *lock = lock_with(f, client, NAME, RLOCK_OPTS(.max_hold_ms = most_ms));
    const int64_t since_us = test_now_us();
    int64_t over_us = 0;

    assert_code(rlock_lock(lock), 0);
    while (test_elapsed_us(since_us) < 3 * most_ms * 1000 && over_us == 0) {
        int code = TAKE(lock, 0, .lease_ms = test_elapsed_us(since_us) % 2 == 0 ? 0 : 4 * most_ms);

        over_us = code == 0 ? 0 : test_elapsed_us(since_us);
        (void)rlock_unlock(lock);
    }
    assert_took(over_us, most_ms - lease_ms, most_ms + LATE_MS);
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_true(TEST_EVENTUALLY(!is_locked(lock), 100));
}

void max_hold_limits_fixed_leases(struct fixture *f)
{
    const int64_t most_ms = test_ms(400);
    struct rlock_handle *lock =
        lock_with(f, client_open(f), NAME, RLOCK_OPTS(.max_hold_ms = most_ms));
    struct rlock_grant grant = {.size = sizeof(grant)};
    const int64_t since_us = test_now_us();

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.lease_ms = 20 * most_ms), &grant), 0);
    assert_int_equal(grant.lease_ms, most_ms);
    if (kind_can(f, CAN_NEST)) {
        assert_code(TAKE(lock, 0, .lease_ms = 20 * most_ms), 0);
    }
    assert_true(rlock_valid_ms(lock) <= most_ms);
    assert_took(expect_loss(f, RLOCK_LOST_EXPIRED) - since_us, most_ms / 2, most_ms + LATE_MS);
    assert_true(TEST_EVENTUALLY(!is_locked(lock), 100));
}

void max_hold_shorter_than_the_lease_is_the_lease(struct fixture *f)
{
    struct rlock_handle *lock =
        lock_with(f, client_open(f), NAME, RLOCK_OPTS(.max_hold_ms = 20000));
    const int64_t since_us = test_now_us();

    assert_code(rlock_lock(lock), 0);
    ttl_is(lock, 20000, since_us);
    assert_code(rlock_unlock(lock), 0);
}

static int act_spin(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    const int64_t end_us = test_now_us() + wait_ms * 1000;
    int code = rlock_lock(lock);

    (void)take;
    while (test_now_us() < end_us) {
    }
    TEST_CHECK(code != 0 || rlock_is_valid(lock));
    return code == 0 ? rlock_unlock(lock) : code;
}

void renewal_does_not_depend_on_the_holding_thread(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));
    struct actor *busy = actor_open(f);
    const int levels = kind_can(f, CAN_NEST) ? 2 : 1;

    for (int i = 0; i < levels; i++) {
        assert_code(rlock_lock(lock), 0);
    }
    for (int i = 0; i < levels; i++) {
        assert_code(rlock_unlock(lock), 0);
    }
    assert_code(actor_do(busy, act_spin, lock, 2 * lease_ms, NULL), 0);
}

void anothers_unlock_does_not_end_my_renewal(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_client *client = client_open_renewing(f, lease_ms);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client);
    struct actor *other = actor_open(f);
    const int64_t end_us = test_now_us() + 3 * lease_ms / 2 * 1000;

    assert_code(rlock_lock(lock), 0);
    do {
        assert_code(actor_do(other, act_take, rival, 0, NULL), RLOCK_EBUSY);
        assert_code(actor_do(other, act_unlock, rival, 0, NULL), RLOCK_ENOTOWNER);
        assert_true(rlock_is_valid(lock));
    } while (test_pause_until(end_us));
    assert_code(rlock_unlock(lock), 0);
}

/* ---- Validity ---- */

/* Nothing of the library can run: its mutex is ours. */
void validity_ends_without_any_thread_of_the_library(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    int64_t granted_us, valid_us;

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.lease_ms = test_ms(100)), &grant), 0);
    granted_us = test_now_us();
    rlock__enter(client);
    while (rlock_is_valid(lock)) {
        (void)test_pause_until(INT64_MAX);
    }
    valid_us = test_elapsed_us(granted_us);
    assert_int_equal(rlock_valid_ms(lock), 0);
    rlock__leave(client);
    assert_took(valid_us, grant.valid_ms - 2, grant.valid_ms + LATE_MS);
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
}

void valid_ms_counts_down(struct fixture *f)
{
    const int64_t lease_ms = test_ms(100);
    struct rlock_handle *lock = lock_new(f, client_open(f));
    int64_t before_ms = lease_ms, left_ms;

    assert_code(TAKE(lock, 0, .lease_ms = lease_ms), 0);
    while ((left_ms = rlock_valid_ms(lock)) > 0) {
        assert_true(left_ms <= before_ms);
        before_ms = left_ms;
        (void)test_pause_until(INT64_MAX);
    }
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_false(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
}

void a_safety_margin_shortens_validity_and_not_the_lease(struct fixture *f)
{
    struct rlock_client *client = client_open_with(f, RLOCK_CLIENT_OPTS(.safety_margin_ms = 7000));
    struct rlock_handle *lock = lock_new(f, client);
    const int64_t since_us = test_now_us();

    assert_code(TAKE(lock, 0, .lease_ms = 20000), 0);
    ttl_is(lock, 20000, since_us);
    assert_true(rlock_valid_ms(lock) <= 20000 - 200 - 7000);
    assert_true(rlock_valid_ms(lock) > 20000 - 200 - 7000 - test_elapsed_us(since_us) / 1000 - 10);
    assert_code(rlock_unlock(lock), 0);
}
