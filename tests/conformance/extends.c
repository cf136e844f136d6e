/* SPDX-License-Identifier: Apache-2.0 */
/* Extensions: a longer lease, or the renewal, for what is held already. */
#include "cases.h"

#include "support/async_calls.h"

enum { MINUTE_MS = 60 * 1000 };

/* The hold lasts as long as a lease that began at that time, less what is never relied on. */
static void assert_lasts(const struct rlock_handle *lock, int64_t lease_ms, int64_t since_us)
{
    const int64_t passed_ms = test_elapsed_us(since_us) / 1000;

    assert_in_range(rlock_valid_ms(lock), lease_ms - lease_ms / 100 - passed_ms - 10, lease_ms);
}

void an_extended_lease_lasts_longer(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    int64_t since_us;

    assert_code(TAKE(lock, 0, .lease_ms = MINUTE_MS), 0);
    since_us = test_now_us();
    assert_code(rlock_extend(lock, 0, 10 * MINUTE_MS, &grant), 0);
    assert_int_equal(grant.lease_ms, 10 * MINUTE_MS);
    assert_int_equal(grant.levels, 1);
    assert_int_equal(grant.is_renewed, 0);
    assert_lasts(lock, 10 * MINUTE_MS, since_us);
    assert_in_range(ttl_of(lock), 9 * MINUTE_MS, 10 * MINUTE_MS);
    assert_code(rlock_unlock(lock), 0);
    assert_false(is_locked(lock));
}

void an_extension_never_shortens_a_lease(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    const int64_t since_us = test_now_us();

    assert_code(TAKE(lock, 0, .lease_ms = 10 * MINUTE_MS), 0);
    assert_code(rlock_extend(lock, 0, MINUTE_MS, NULL), 0);
    assert_lasts(lock, 10 * MINUTE_MS, since_us);
    assert_in_range(ttl_of(lock), 9 * MINUTE_MS, 10 * MINUTE_MS);
    assert_code(rlock_unlock(lock), 0);
}

void a_fixed_lease_is_renewed_from_its_extension_on(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    assert_code(TAKE(lock, 0, .lease_ms = lease_ms), 0);
    assert_code(rlock_extend(lock, 0, 0, &grant), 0);
    assert_int_equal(grant.is_renewed, 1);
    assert_true(STAYS_KEPT(rlock_is_valid(lock), 3 * lease_ms / 2, lease_ms));
    assert_code(rlock_unlock(lock), 0);
}

void an_extended_hold_stays_renewed(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_extend(lock, 0, lease_ms / 2, &grant), 0);
    assert_int_equal(grant.is_renewed, 1);
    assert_true(STAYS_KEPT(rlock_is_valid(lock), 3 * lease_ms / 2, lease_ms));
    assert_code(rlock_unlock(lock), 0);
}

void all_levels_share_an_extension(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    int64_t since_us;

    assert_code(TAKE(lock, 0, .lease_ms = lease_ms), 0);
    assert_code(TAKE(lock, 0, .lease_ms = lease_ms), 0);
    since_us = test_now_us();
    assert_code(rlock_extend(lock, 0, MINUTE_MS, &grant), 0);
    assert_int_equal(grant.levels, 2);
    assert_code(rlock_unlock(lock), 0);
    assert_lasts(lock, MINUTE_MS, since_us);
    assert_code(rlock_extend(lock, 0, 0, NULL), 0);
    assert_code(TAKE(lock, 0, .lease_ms = lease_ms), 0);
    assert_code(rlock_unlock(lock), 0); /* the level that is left is renewed */
    assert_code(rlock_extend(lock, 0, lease_ms, &grant), 0);
    assert_int_equal(grant.is_renewed, 1);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_extend(lock, 0, lease_ms, NULL), RLOCK_ENOTOWNER);
}

void max_hold_limits_an_extension(struct fixture *f)
{
    const int64_t most_ms = test_ms(400);
    struct rlock_handle *lock =
        lock_with(f, client_open(f), NAME, RLOCK_OPTS(.max_hold_ms = most_ms));
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    const int64_t since_us = test_now_us();

    assert_code(TAKE(lock, 0, .lease_ms = most_ms / 2), 0);
    assert_code(rlock_extend(lock, 0, MINUTE_MS, &grant), 0);
    assert_true(grant.lease_ms <= most_ms);
    assert_code(rlock_extend(lock, 0, 0, NULL), 0);
    assert_true(rlock_valid_ms(lock) <= most_ms);
    assert_took(expect_loss(f, RLOCK_LOST_EXPIRED) - since_us, most_ms / 2, most_ms + LATE_MS);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
}

void what_is_not_held_is_not_extended(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client);

    assert_code(rlock_extend(lock, 0, MINUTE_MS, NULL), RLOCK_ENOTOWNER);
    assert_code(TAKE(rival, 0, .owner = 77), 0);
    assert_code(rlock_extend(lock, 0, MINUTE_MS, NULL), RLOCK_ENOTOWNER);
    assert_code(rlock_extend(lock, 78, MINUTE_MS, NULL), RLOCK_ENOTOWNER);
    assert_code(rlock_extend(rival, 77, MINUTE_MS, NULL), 0);
    assert_code(rlock_unlock_as(rival, 77), 0);
}

void a_lost_hold_is_not_extended(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_failure failure = RLOCK_FAILURE_INIT;

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_force_unlock(lock, NULL), 0);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_code(rlock_extend(lock, 0, MINUTE_MS, NULL), RLOCK_ELOST);
    if (test_calls() == TEST_CALLS_BLOCKING) {
        assert_code(rlock_last_failure(&failure), 0);
        assert_int_equal(failure.reason, RLOCK_LOST_FORCED);
    }
    assert_false(is_locked(lock));
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
}

void wrong_extensions_are_refused(struct fixture *f)
{
    struct rlock_client *client = client_open_with(f, RLOCK_CLIENT_OPTS(.safety_margin_ms = 100));
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock_grant unset = {.size = 0};

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_extend(lock, 0, -1, NULL), RLOCK_EINVAL);
    assert_code(rlock_extend(lock, 0, 9, NULL), RLOCK_EINVAL);
    assert_code(rlock_extend(lock, 0, 100, NULL), RLOCK_EINVAL);
    assert_code(rlock_extend(lock, 0, MINUTE_MS, &unset), RLOCK_EINVAL);
    assert_code(rlock_extend(NULL, 0, MINUTE_MS, NULL), RLOCK_EINVAL);
    assert_code(rlock_extend(lock, 0, INT64_MAX, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
}

/* The hold is as valid as it was before, and can be unlocked. */
void an_extension_without_an_answer_is_in_doubt(struct fixture *f)
{
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(200)));
    struct rlock_handle *lock = lock_new(f, client);
    int64_t until_us;

    assert_code(TAKE(lock, 0, .lease_ms = MINUTE_MS), 0);
    test_server_freeze(f->server);
    until_us = test_now_us() + rlock_valid_ms(lock) * 1000;
    assert_code(rlock_extend(lock, 0, 10 * MINUTE_MS, NULL), RLOCK_EINDOUBT);
    assert_true(test_now_us() + rlock_valid_ms(lock) * 1000 <= until_us + 2000);
    assert_true(rlock_is_valid(lock));
    test_server_thaw(f->server);
    assert_true(TEST_EVENTUALLY(rlock_extend(lock, 0, MINUTE_MS, NULL) == 0, 10000));
    assert_code(rlock_unlock(lock), 0);
    assert_false(is_locked(lock));
}

void an_extension_finds_the_loss(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    assert_code(TAKE(lock, 0, .lease_ms = MINUTE_MS), 0);
    assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
    assert_code(rlock_extend(lock, 0, MINUTE_MS, NULL), RLOCK_ELOST);
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    assert_false(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
}
