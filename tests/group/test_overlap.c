/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks of one owner that share a member: each keeps to its own levels of it. */
#include "support/waiter.h"

#define LEASE_MS 1000

/* One server, one client, and two multi-locks of it: "a" with "b", and "b" with "c". */
struct overlap {
    struct fixture f;
    struct user *user;
    struct rlock_handle *b, *c, *ab, *bc;
};

static void open_overlap(struct overlap *all)
{
    fixture_open(&all->f, NULL);
    all->user = user_open(&all->f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = LEASE_MS));
    all->b = user_lock(all->user, "b");
    all->c = user_lock(all->user, "c");
    all->ab = user_multi(all->user, all->user->lock, all->b);
    all->bc = user_multi(all->user, all->b, all->c);
}

static void close_overlap(struct overlap *all)
{
    assert_true(TEST_EVENTUALLY(test_server_int(all->f.server, "EXISTS a b c") == 0, 5000));
    fixture_close(&all->f);
}

#define OVERLAP_TEST(name, all)                                                                    \
    TEST_AROUND(name, struct overlap, all, open_overlap(all), close_overlap(all))

OVERLAP_TEST(they_are_released_in_either_order, all)
{
    for (int i = 0; i < 2; i++) {
        assert_code(rlock_try_lock(all->ab), 0);
        assert_code(rlock_try_lock(all->bc), 0);
        assert_code(rlock_unlock(i == 0 ? all->ab : all->bc), 0);
        assert_true(rlock_is_valid(i == 0 ? all->bc : all->ab));
        assert_int_equal(test_server_int(all->f.server, "EXISTS a b c"), 2);
        assert_code(rlock_unlock(i == 0 ? all->bc : all->ab), 0);
    }
}

OVERLAP_TEST(a_renewed_one_outlives_one_with_a_lease, all)
{
    int64_t began_us;

    assert_code(rlock_lock_for(all->ab, 0, RLOCK_TAKE(.lease_ms = LEASE_MS), NULL), 0);
    assert_code(rlock_try_lock(all->bc), 0);
    assert_code(rlock_unlock(all->ab), 0);
    began_us = test_now_us();
    assert_true(TEST_EVENTUALLY(
        !rlock_is_valid(all->bc) || test_elapsed_us(began_us) > 1500 * LEASE_MS, 5000));
    assert_true(rlock_is_valid(all->bc));
    assert_code(rlock_unlock(all->bc), 0);
    assert_int_equal(user_losses(all->user), 0);
}

OVERLAP_TEST(one_with_a_lease_is_not_renewed_for_one_that_was, all)
{
    struct rlock_handle *part; /* "b" alone: nothing but that can end it */

    assert_code(rlock_multi_new(&all->b, 1, NULL, &part), 0);
    assert_code(rlock_try_lock(all->bc), 0);
    assert_code(rlock_lock_for(part, 0, RLOCK_TAKE(.lease_ms = LEASE_MS / 2), NULL), 0);
    assert_code(rlock_unlock(all->bc), 0);
    assert_true(TEST_EVENTUALLY(user_losses(all->user) == 1, 5000));
    assert_code(rlock_unlock(part), RLOCK_ELOST);
    part = rlock_free(part);
}

OVERLAP_TEST(losing_the_other_s_own_member_leaves_this_one, all)
{
    assert_code(rlock_try_lock(all->ab), 0);
    assert_code(rlock_try_lock(all->bc), 0);
    (void)test_server_int(all->f.server, "DEL a");
    assert_true(TEST_EVENTUALLY(user_losses(all->user) == 1, 5000));
    assert_code(rlock_unlock(all->ab), RLOCK_ELOST);
    assert_true(rlock_is_valid(all->bc));
    assert_int_equal(test_server_int(all->f.server, "EXISTS a b c"), 2);
    assert_code(rlock_unlock(all->bc), 0);
    assert_int_equal(user_losses(all->user), 1);
}
