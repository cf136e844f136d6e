/* SPDX-License-Identifier: Apache-2.0 */
/* Taking, giving up, and what is known meanwhile. */
#include "cases.h"

#include <unistd.h>

#include "support/async_calls.h"

void lock_and_unlock_twice(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    for (int i = 0; i < 2; i++) {
        assert_code(rlock_lock(lock), 0);
        assert_true(rlock_is_valid(lock));
        assert_code(rlock_unlock(lock), 0);
        assert_false(rlock_is_valid(lock));
    }
}

void each_level_needs_its_unlock(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client);
    struct actor *other = actor_open(f);

    assert_code(rlock_try_lock(lock), 0);
    assert_code(rlock_try_lock(lock), 0);
    assert_code(actor_do(other, act_take, rival, 0, NULL), RLOCK_EBUSY);
    assert_code(rlock_unlock(lock), 0);
    assert_true(rlock_is_valid(lock));
    assert_code(actor_do(other, act_take, rival, 0, NULL), RLOCK_EBUSY);
    assert_code(rlock_unlock(lock), 0);
    assert_code(actor_do(other, act_take, rival, 0, NULL), 0);
    assert_code(actor_do(other, act_unlock, rival, 0, NULL), 0);
}

void hold_count_follows_each_step(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    const uint32_t most = kind_can(f, CAN_NEST) ? 3 : 1;

    assert_int_equal(rlock_hold_count(lock), 0);
    for (uint32_t i = 1; i <= most; i++) {
        assert_code(rlock_lock(lock), 0);
        assert_int_equal(rlock_hold_count(lock), i);
    }
    for (uint32_t i = most; i-- > 0;) {
        assert_code(rlock_unlock(lock), 0);
        assert_int_equal(rlock_hold_count(lock), i);
    }
}

void a_thousand_levels_are_a_thousand_unlocks(struct fixture *f)
{
    enum { DEEP = 1000 };
    struct rlock_handle *lock = lock_new(f, client_open(f));

    for (uint32_t i = 1; i <= DEEP; i++) {
        assert_code(TAKE(lock, 0, .lease_ms = 60000), 0);
    }
    assert_int_equal(rlock_hold_count(lock), DEEP);
    for (uint32_t i = 1; i <= DEEP; i++) {
        assert_true(rlock_is_valid(lock));
        assert_code(rlock_unlock(lock), 0);
    }
    assert_int_equal(rlock_hold_count(lock), 0);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
}

void it_is_locked_from_lock_to_unlock(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f)),
                        *elsewhere = lock_new(f, client_open(f));
    struct rlock_info info = RLOCK_INFO_INIT;

    assert_false(is_locked(lock));
    assert_int_equal(ttl_of(lock), -2);
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_inspect(lock, &info), 0);
    assert_true(info.locked && info.mine);
    assert_int_equal(info.holders, 1);
    assert_int_equal(info.count, 1);
    if (test_calls() == TEST_CALLS_BLOCKING) { /* an async call does not find that out */
        assert_int_equal(info.pid, getpid());
    }
    assert_code(rlock_inspect(elsewhere, &info), 0);
    assert_true(info.locked && !info.mine);
    assert_code(rlock_unlock(lock), 0);
    assert_false(is_locked(lock));
    assert_false(is_locked(elsewhere));
}

static int act_is_locked(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    struct rlock_info info = RLOCK_INFO_INIT;

    (void)wait_ms;
    (void)take;
    return rlock_inspect(lock, &info) == 0 ? info.locked : -1;
}

void another_thread_sees_it_locked(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct actor *other = actor_open(f);

    assert_code(rlock_lock(lock), 0);
    assert_int_equal(actor_do(other, act_is_locked, lock, 0, NULL), 1);
    assert_code(rlock_unlock(lock), 0);
    assert_int_equal(actor_do(other, act_is_locked, lock, 0, NULL), 0);
}

void only_the_thread_that_took_it_holds_it(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct actor *other = actor_open(f);

    assert_false(rlock_is_valid(lock));
    assert_int_equal(rlock_valid_ms(lock), 0);
    assert_code(rlock_lock(lock), 0);
    assert_true(rlock_is_valid(lock));
    assert_false(actor_do(other, act_is_valid, lock, 0, NULL));
    assert_int_equal(actor_do(other, act_hold_count, lock, 0, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_false(rlock_is_valid(lock));
    assert_int_equal(rlock_valid_ms(lock), 0);
    assert_false(actor_do(other, act_is_valid, lock, 0, NULL));
}

void unlock_by_another_thread_is_refused(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct actor *holder = actor_open(f);

    assert_code(actor_do(holder, act_take, lock, RLOCK_FOREVER, NULL), 0);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    assert_true(actor_do(holder, act_is_valid, lock, 0, NULL));
    assert_code(actor_do(holder, act_unlock, lock, 0, NULL), 0);
}

void unlock_by_another_client_is_refused(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f)),
                        *elsewhere = lock_new(f, client_open(f));

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(elsewhere), RLOCK_ENOTOWNER);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
}

void unlock_after_a_refused_try_does_no_harm(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f)), *rival = rival_new(f, client_open(f));

    assert_code(rlock_lock(rival), 0);
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    assert_true(rlock_is_valid(rival));
    assert_code(rlock_unlock(rival), 0);
}

void a_second_unlock_does_no_harm(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f)), *rival = rival_new(f, client_open(f));

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_lock(rival), 0);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    assert_true(rlock_is_valid(rival));
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    assert_code(rlock_unlock(rival), 0);
}

void any_handle_of_the_name_can_unlock(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = NULL, *again = lock_new(f, client);

    assert_code(f->kind->make(client, NAME, NULL, &lock), 0);
    assert_code(rlock_lock(lock), 0);
    assert_null(rlock_free(lock)); /* which does not unlock */
    assert_true(rlock_is_valid(again));
    assert_int_equal(rlock_hold_count(again), 1);
    assert_code(rlock_unlock(again), 0);
}

void a_handle_lives_until_its_last_reference_is_freed(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = NULL;

    assert_null(rlock_ref(NULL));
    assert_code(f->kind->make(client, NAME, NULL, &lock), 0);
    assert_ptr_equal(rlock_ref(lock), lock);
    assert_null(rlock_free(lock));
    assert_string_equal(rlock_name(lock, NULL), NAME);
    assert_code(rlock_lock(lock), 0);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
    assert_null(rlock_free(lock)); /* a leak here is found by AddressSanitizer */
}

void names_do_not_disturb_each_other(struct fixture *f)
{
    struct rlock_client *client = client_open(f), *elsewhere = client_open(f);
    struct rlock_handle *a = lock_named(f, client, "a"), *b = lock_named(f, elsewhere, "b");

    assert_code(rlock_lock(a), 0);
    assert_code(rlock_try_lock(b), 0);
    assert_code(rlock_unlock(a), 0);
    assert_true(rlock_is_valid(b));
    assert_code(rlock_unlock(b), 0);
}

/* ---- Forcing ---- */

void force_unlock_opens_it_for_all(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f)),
                        *elsewhere = lock_new(f, client_open(f));
    bool was_locked = false;

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_force_unlock(lock, &was_locked), 0);
    assert_true(was_locked);
    assert_false(rlock_is_valid(lock));
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_false(is_locked(elsewhere));
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    assert_code(rlock_force_unlock(lock, &was_locked), 0);
    assert_false(was_locked);
}

void force_unlock_from_elsewhere_is_found_by_the_unlock(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f)),
                        *elsewhere = lock_new(f, client_open(f));
    bool was_locked = false;

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_force_unlock(elsewhere, &was_locked), 0);
    assert_true(was_locked);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    (void)expect_loss(f, RLOCK_LOST_DELETED);
}

void force_unlock_wakes_a_waiter(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *waiter = actor_open(f);
    int64_t forced_us;

    assert_code(rlock_lock(rival), 0);
    actor_begin(waiter, act_take, lock, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    forced_us = test_now_us();
    assert_code(rlock_force_unlock(rival, NULL), 0);
    assert_code(actor_end(waiter), 0);
    assert_took(actor_ended_us(waiter) - forced_us, 0, 1000);
    assert_code(actor_do(waiter, act_unlock, lock, 0, NULL), 0);
    assert_code(rlock_unlock(rival), RLOCK_ELOST);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
}

/* ---- Again, by its owner ---- */

void a_second_take_by_its_owner_is_refused(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *again = lock_new(f, client);

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_lock(lock), RLOCK_EREACQUIRE);
    assert_code(rlock_try_lock(again), RLOCK_EREACQUIRE);
    assert_code(TAKE(again, 1000, .lease_ms = 60000), RLOCK_EREACQUIRE);
    assert_int_equal(rlock_hold_count(lock), 1);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0); /* one is enough */
    assert_false(is_locked(lock));
    assert_code(TAKE(lock, 0, .owner = 5), 0);
    assert_code(TAKE(again, 0, .owner = 5), RLOCK_EREACQUIRE);
    assert_code(rlock_unlock_as(again, 5), 0);
}

/* ---- Tokens ---- */

static uint64_t take_token(struct rlock_handle *lock)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    assert_code(rlock_lock_for(lock, 0, NULL, &grant), 0);
    return grant.token;
}

void each_grant_has_a_larger_token(struct fixture *f)
{
    struct rlock_handle *locks[] = {lock_new(f, client_open(f)), lock_new(f, client_open(f))};
    uint64_t latest = 0;

    for (int i = 0; i < 6; i++) {
        struct rlock_handle *lock = locks[i % 2];
        const uint64_t token = take_token(lock);

        assert_true(token > latest);
        if (kind_can(f, CAN_NEST)) {
            assert_true(take_token(lock) == token);
            assert_code(rlock_unlock(lock), 0);
        }
        assert_code(rlock_unlock(lock), 0);
        latest = token;
    }
}

void a_token_grows_when_the_data_are_lost(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    const uint64_t before = take_token(lock);

    assert_code(rlock_unlock(lock), 0);
    assert_true(test_server_says(f->server, "OK", "FLUSHALL"));
    assert_true(take_token(lock) > before);
    assert_code(rlock_unlock(lock), 0);
}

/* ---- Grants and guards ---- */

static void grant_says(const struct fixture *f, struct rlock_handle *lock, int64_t lease_ms,
                       int64_t expected_ms)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    const int64_t drift_ms = expected_ms / 100 > 2 ? expected_ms / 100 : 2;

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.lease_ms = lease_ms), &grant), 0);
    assert_int_equal(grant.size, sizeof(grant));
    assert_int_equal(grant.lease_ms, expected_ms);
    assert_int_equal(grant.token != 0, kind_can(f, HAS_TOKEN));
    assert_true(grant.valid_ms <= expected_ms - drift_ms);
    assert_true(grant.valid_ms >= expected_ms - drift_ms - 500 * test_slack());
    assert_true(rlock_valid_ms(lock) <= grant.valid_ms);
    assert_true(rlock_valid_ms(lock) > 0);
    assert_code(rlock_unlock(lock), 0);
}

void the_grant_says_what_was_granted(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    grant_says(f, lock, 60000, 60000);
    grant_says(f, lock, 0, 30000);
    grant_says(f, lock, INT64_C(7) * 24 * 3600 * 1000, INT64_C(7) * 24 * 3600 * 1000);
}

void a_grant_of_an_older_program_is_filled_as_far_as_it_goes(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_grant grant = {.size = offsetof(struct rlock_grant, lease_ms), .lease_ms = 77};

    assert_code(rlock_lock_for(lock, 0, NULL, &grant), 0);
    assert_int_equal(grant.size, offsetof(struct rlock_grant, lease_ms));
    assert_int_equal(grant.lease_ms, 77);
    assert_code(rlock_unlock(lock), 0);
}

void without_a_take_the_thread_gets_a_renewed_lease(struct fixture *f)
{
    static const int64_t waits_ms[] = {0, 10000, RLOCK_FOREVER};
    struct rlock_handle *lock = lock_new(f, client_open(f));

    for (size_t i = 0; i < sizeof(waits_ms) / sizeof(waits_ms[0]); i++) {
        struct rlock_grant grant = RLOCK_GRANT_INIT;
        struct rlock_guard guard;

        assert_code(rlock_lock_for(lock, waits_ms[i], NULL, &grant), 0);
        assert_int_equal(grant.lease_ms, 30000);
        assert_true(rlock_is_valid(lock));
        assert_code(rlock_unlock(lock), 0);

        guard = rlock_guard_lock_for(lock, waits_ms[i], NULL);
        assert_code(guard.code, 0);
        assert_int_equal(guard.owner, 0);
        assert_true(rlock_is_valid(lock));
        assert_code(rlock_guard_end(&guard), 0);
    }
}

static int hold_in_a_scope(struct rlock_handle *lock, int64_t wait_ms,
                           const struct rlock_take *take)
{
    RLOCK_GUARD guard = rlock_guard_lock_for(lock, wait_ms, take);

    return guard.code != 0 ? guard.code : (int)rlock_is_valid_as(lock, guard.owner);
}

void a_guard_unlocks_at_the_end_of_its_scope(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f)), *rival = rival_new(f, client_open(f));

    assert_int_equal(hold_in_a_scope(lock, 0, NULL), 1);
    assert_int_equal(rlock_hold_count(lock), 0);
    assert_int_equal(
        hold_in_a_scope(lock, 0, RLOCK_TAKE(.owner = 5, .lease_ms = fixed_ms(f, 60000))), 1);
    assert_code(rlock_try_lock(rival), 0);
    assert_code(hold_in_a_scope(lock, 0, NULL), RLOCK_EBUSY);
    assert_true(rlock_is_valid(rival));
    assert_code(rlock_unlock(rival), 0);
}

void a_guard_can_be_ended_before(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    RLOCK_GUARD guard = rlock_guard_lock(lock);

    assert_code(guard.code, 0);
    assert_code(rlock_guard_end(&guard), 0);
    assert_false(rlock_is_valid(lock));
    assert_code(rlock_guard_end(&guard), 0);
}

/* ---- Arguments ---- */

static void refused(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    assert_code(rlock_lock_for(lock, wait_ms, take, NULL), RLOCK_EINVAL);
    assert_string_not_equal(rlock_detail(), "");
}

void wrong_takes_are_refused(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct {
        struct rlock_take take;
        int64_t wish; /* of a newer header: nothing that this library knows */
    } newer = {.take = {.size = sizeof(newer)}, .wish = 1};
    struct rlock_take older = {.size = sizeof(size_t)};
    struct rlock_grant unset = {.size = 0};

    refused(lock, 0, RLOCK_TAKE(.lease_ms = -1));
    refused(lock, 0, RLOCK_TAKE(.lease_ms = 9));
    refused(lock, 0, RLOCK_TAKE(.reserved = lock));
    refused(lock, 0, &(struct rlock_take){.size = 0});
    refused(lock, 0, &newer.take);
    refused(NULL, 0, NULL);
    assert_code(rlock_lock_for(lock, 0, NULL, &unset), RLOCK_EINVAL);
    assert_code(rlock_unlock(NULL), RLOCK_EINVAL);
    assert_false(rlock_is_valid(NULL));
    assert_int_equal(rlock_valid_ms(NULL), 0);
    assert_int_equal(rlock_hold_count(NULL), 0);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    assert_code(rlock_lock_for(lock, 0, &older, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
}

void a_wait_below_forever_is_refused(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    assert_code(rlock_lock_for(lock, -2, NULL, NULL), RLOCK_EINVAL);
    assert_detail("wait_ms is -2");
    assert_code(TAKE(lock, INT64_MIN, .lease_ms = 60000), RLOCK_EINVAL);
    assert_detail("wait_ms");
    assert_code(rlock_guard_lock_for(lock, -2, NULL).code, RLOCK_EINVAL);
    assert_detail("wait_ms is -2");
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
}

void the_shortest_lease_is_ten_ms(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    int code = RLOCK_ECONN;

    for (int i = 0; i < 20 && code == RLOCK_ECONN; i++) { /* over before its reply was read */
        code = TAKE(lock, 0, .lease_ms = 10);
    }
    assert_code(code, 0);
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
}

/* It would be over before it began, again and again. */
void a_lease_within_the_safety_margin_is_refused(struct fixture *f)
{
    struct rlock_handle *lock =
        lock_new(f, client_open_with(f, RLOCK_CLIENT_OPTS(.safety_margin_ms = 5000)));

    assert_code(TAKE(lock, 0, .lease_ms = 10000), 0);
    assert_code(rlock_unlock(lock), 0);
    fixture_count_calls(f);
    assert_code(TAKE(lock, 100, .lease_ms = 5000), RLOCK_EINVAL);
    assert_in_range(fixture_calls(f, "evalsha"), 0, 10);
}

void wrong_locks_are_refused(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    new_fn *make = f->kind->make;
    struct rlock_handle *lock = NULL;

    assert_code(make(NULL, NAME, NULL, &lock), RLOCK_EINVAL);
    assert_code(make(client, NULL, NULL, &lock), RLOCK_EINVAL);
    assert_code(make(client, NAME, NULL, NULL), RLOCK_EINVAL);
    assert_code(make(client, "", NULL, &lock), RLOCK_EINVAL);
    assert_code(make(client, NAME, RLOCK_OPTS(.name_len = 65537), &lock), RLOCK_EINVAL);
    assert_code(make(client, NAME, RLOCK_OPTS(.max_hold_ms = -1), &lock), RLOCK_EINVAL);
    assert_code(make(client, NAME, &(struct rlock_opts){.size = 0}, &lock), RLOCK_EINVAL);
    assert_code(make(client, NAME, &(struct rlock_opts){.size = SIZE_MAX}, &lock), RLOCK_EINVAL);
    assert_null(lock);
    assert_null(rlock_free(NULL));
}
