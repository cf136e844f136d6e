/* SPDX-License-Identifier: Apache-2.0 */
/* What an owner holds, as its process knows it; and owners that a call makes. */
#include <string.h>

#include "support/clients.h"
#include "support/completion.h"

static const struct kind fenced = {.name = "fenced", .make = rlock_fenced_new};

static struct rlock_grant held(const struct rlock_handle *lock, uint64_t owner)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    assert_code(rlock_held(lock, owner, &grant), 0);
    assert_int_equal(grant.owner, owner);
    return grant;
}

static void assert_nothing_is_held(const struct rlock_handle *lock, uint64_t owner)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    assert_code(rlock_held(lock, owner, &grant), RLOCK_ENOTOWNER);
}

FIXTURE_WITH_TEST(what_is_held_has_its_levels_lease_and_token, f, .kind = &fenced)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_grant first = RLOCK_GRANT_INIT, grant;

    assert_nothing_is_held(lock, 0);
    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.lease_ms = 20000), &first), 0);
    assert_int_equal(first.levels, 1);
    assert_int_equal(first.owner, 0);
    assert_int_equal(first.is_renewed, 0);
    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.lease_ms = 30000), NULL), 0);
    grant = held(lock, 0);
    assert_int_equal(grant.levels, 2);
    assert_true(grant.token != 0 && grant.token == first.token);
    assert_int_equal(grant.lease_ms, 30000);
    assert_in_range(grant.valid_ms, 1, 30000);
    assert_int_equal(grant.reason, 0);
    assert_nothing_is_held(lock, 77);
    assert_code(rlock_unlock(lock), 0);
    assert_int_equal(held(lock, 0).levels, 1);
    assert_code(rlock_unlock(lock), 0);
    assert_nothing_is_held(lock, 0);
}

LOCK_TEST(a_renewed_hold_says_so_and_how_long_it_lasts, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.owner = 5), NULL), 0);
    assert_int_equal(held(lock, 5).is_renewed, 1);
    assert_true(TEST_EVENTUALLY(held(lock, 5).held_ms >= 20, 5000));
    assert_nothing_is_held(lock, 0);
    assert_code(rlock_unlock_as(lock, 5), 0);
}

LOCK_TEST(a_lost_hold_is_there_with_its_reason_until_it_is_unlocked, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_grant grant;

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_force_unlock(lock, NULL), 0);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    grant = held(lock, 0);
    assert_int_equal(grant.reason, RLOCK_LOST_FORCED);
    assert_int_equal(grant.levels, 2);
    assert_int_equal(grant.valid_ms, 0);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_int_equal(held(lock, 0).levels, 1);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_nothing_is_held(lock, 0);
}

LOCK_TEST(a_loss_has_the_server_the_holder_and_the_levels, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock_info info = RLOCK_INFO_INIT;

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_inspect(lock, &info), 0);
    assert_code(rlock_force_unlock(lock, NULL), 0);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_int_equal(last_loss(f)->levels, 2);
    assert_string_equal(last_loss(f)->holder, info.holder);
    assert_string_not_equal(last_loss(f)->server, "");
}

LOCK_TEST(what_is_held_of_a_multi_lock_is_known_too, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *members[] = {lock_named(f, client, "a"), lock_named(f, client, "b")};
    struct rlock_handle *multi = NULL;
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    assert_nothing_is_held(multi, 0);
    assert_code(rlock_lock_for(multi, 0, NULL, &grant), 0);
    assert_int_equal(grant.levels, 1);
    assert_int_equal(grant.is_renewed, 1);
    assert_code(rlock_lock(multi), 0);
    assert_int_equal(held(multi, 0).levels, 2);
    assert_int_equal(held(members[0], 0).levels, 2);
    assert_code(rlock_force_unlock(members[0], NULL), 0);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_int_equal(held(multi, 0).reason, RLOCK_LOST_FORCED);
    assert_code(rlock_unlock(multi), RLOCK_ELOST);
    assert_code(rlock_unlock(multi), RLOCK_ELOST);
    assert_nothing_is_held(multi, 0);
    multi = rlock_free(multi);
}

LOCK_TEST(what_is_held_needs_a_grant_to_fill, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_grant unset = {.size = 0};

    assert_code(rlock_held(lock, 0, NULL), RLOCK_EINVAL);
    assert_code(rlock_held(lock, 0, &unset), RLOCK_EINVAL);
}

/* ---- Owners that a call makes ---- */

LOCK_TEST(a_call_makes_an_owner_of_its_own, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *other = lock_named(f, client, "other");
    struct rlock_grant one = RLOCK_GRANT_INIT, two = RLOCK_GRANT_INIT;
    const struct rlock_take *take = RLOCK_TAKE(.flags = RLOCK_TAKE_NEW_OWNER);

    assert_code(rlock_lock_for(lock, 0, take, &one), 0);
    assert_code(rlock_lock_for(other, 0, take, &two), 0);
    assert_true(one.owner != 0 && two.owner != 0 && one.owner != two.owner);
    assert_code(rlock_lock_for(lock, 0, take, &two), RLOCK_EBUSY);
    assert_false(rlock_is_valid(lock)); /* of this thread */
    assert_true(rlock_is_valid_as(lock, one.owner));
    assert_code(rlock_unlock_as(lock, one.owner), 0);
    assert_code(rlock_unlock_as(other, two.owner), 0);
}

LOCK_TEST(an_owner_that_nobody_would_know_is_not_made, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.flags = RLOCK_TAKE_NEW_OWNER), NULL),
                RLOCK_EINVAL);
    assert_code(
        rlock_lock_for(lock, 0, RLOCK_TAKE(.owner = 3, .flags = RLOCK_TAKE_NEW_OWNER), &grant),
        RLOCK_EINVAL);
    assert_non_null(strstr(rlock_detail(), "RLOCK_TAKE_NEW_OWNER"));
    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.flags = RLOCK_LOCK_NO_REENTRY), &grant),
                RLOCK_EINVAL);
    assert_non_null(strstr(rlock_detail(), "RLOCK_LOCK_NO_REENTRY"));
}

LOCK_TEST(a_guard_ends_the_hold_of_an_owner_that_it_made, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    {
        RLOCK_GUARD guard =
            rlock_guard_lock_for(lock, 0, RLOCK_TAKE(.flags = RLOCK_TAKE_NEW_OWNER));

        assert_code(guard.code, 0);
        assert_true(guard.owner != 0 && rlock_is_valid_as(lock, guard.owner));
    }
    assert_false(is_locked(lock));
}

LOCK_TEST(an_async_call_may_make_its_owner, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    struct completion end = COMPLETION;
    struct rlock_op *op = NULL;

    assert_code(rlock_lock_async(lock, 0, RLOCK_TAKE(.flags = RLOCK_TAKE_NEW_OWNER),
                                 completion_tell, &end, &op),
                0);
    assert_code(completion_await(&end), 0);
    assert_code(rlock_op_grant(op, &grant), 0);
    assert_true(grant.owner != 0 && grant.levels == 1 && grant.is_renewed == 1);
    assert_code(rlock_unlock_as(lock, grant.owner), 0);
    op = rlock_op_unref(op);
}
