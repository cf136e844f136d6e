/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks of one owner that share a member: each keeps to its own levels of it. */
#include "composite/fleet.h"
#include "support/test.h"

#define LEASE_MS 1000

/* One server, one client, and two multi-locks of it: "a" with "b", and "b" with "c". */
struct overlap {
    struct fleet fleet;
    struct crew crew;
    struct rlock *b, *c, *ab, *bc;
};

static void open_overlap(struct overlap *all)
{
    fleet_open(&all->fleet, &(struct fleet_opts){.n = 1});
    crew_open(&all->crew, &all->fleet, RLOCK_CLIENT_OPTS(.renewed_lease_ms = LEASE_MS), -1);
    all->b = crew_lock(&all->crew, 0, "b");
    all->c = crew_lock(&all->crew, 0, "c");
    assert_code(
        rlock_multi_new((struct rlock *[]){all->crew.members[0], all->b}, 2, NULL, &all->ab), 0);
    assert_code(rlock_multi_new((struct rlock *[]){all->b, all->c}, 2, NULL, &all->bc), 0);
}

static void close_overlap(struct overlap *all)
{
    assert_true(TEST_EVENTUALLY(test_server_int(all->fleet.servers[0], "EXISTS a b c") == 0, 5000));
    all->ab = rlock_free(all->ab);
    all->bc = rlock_free(all->bc);
    all->b = rlock_free(all->b);
    all->c = rlock_free(all->c);
    crew_close(&all->crew);
    fleet_close(&all->fleet);
}

TEST(they_are_released_in_either_order)
{
    struct overlap all;

    open_overlap(&all);
    for (int i = 0; i < 2; i++) {
        assert_code(rlock_try_lock(all.ab), 0);
        assert_code(rlock_try_lock(all.bc), 0);
        assert_code(rlock_unlock(i == 0 ? all.ab : all.bc), 0);
        assert_true(rlock_is_valid(i == 0 ? all.bc : all.ab));
        assert_int_equal(test_server_int(all.fleet.servers[0], "EXISTS a b c"), 2);
        assert_code(rlock_unlock(i == 0 ? all.bc : all.ab), 0);
    }
    close_overlap(&all);
}

TEST(a_renewed_one_outlives_one_with_a_lease)
{
    struct overlap all;
    int64_t began_us;

    open_overlap(&all);
    assert_code(rlock_lock_with(all.ab, RLOCK_TAKE(.lease_ms = LEASE_MS), NULL), 0);
    assert_code(rlock_try_lock(all.bc), 0);
    assert_code(rlock_unlock(all.ab), 0);
    began_us = test_now_us();
    assert_true(TEST_EVENTUALLY(
        !rlock_is_valid(all.bc) || test_elapsed_us(began_us) > 1500 * LEASE_MS, 5000));
    assert_true(rlock_is_valid(all.bc));
    assert_code(rlock_unlock(all.bc), 0);
    assert_int_equal(crew_losses(&all.crew), 0);
    close_overlap(&all);
}

TEST(one_with_a_lease_is_not_renewed_for_one_that_was)
{
    struct overlap all;
    struct rlock *part; /* "b" alone: nothing but that can end it */

    open_overlap(&all);
    assert_code(rlock_multi_new(&all.b, 1, NULL, &part), 0);
    assert_code(rlock_try_lock(all.bc), 0);
    assert_code(rlock_lock_with(part, RLOCK_TAKE(.lease_ms = LEASE_MS / 2), NULL), 0);
    assert_code(rlock_unlock(all.bc), 0);
    assert_true(TEST_EVENTUALLY(crew_losses(&all.crew) == 1, 5000));
    assert_code(rlock_unlock(part), RLOCK_ELOST);
    part = rlock_free(part);
    close_overlap(&all);
}

TEST(losing_the_other_s_own_member_leaves_this_one)
{
    struct overlap all;

    open_overlap(&all);
    assert_code(rlock_try_lock(all.ab), 0);
    assert_code(rlock_try_lock(all.bc), 0);
    (void)test_server_int(all.fleet.servers[0], "DEL a");
    assert_true(TEST_EVENTUALLY(crew_losses(&all.crew) == 1, 5000));
    assert_code(rlock_unlock(all.ab), RLOCK_ELOST);
    assert_true(rlock_is_valid(all.bc));
    assert_int_equal(test_server_int(all.fleet.servers[0], "EXISTS a b c"), 2);
    assert_code(rlock_unlock(all.bc), 0);
    assert_int_equal(crew_losses(&all.crew), 1);
    close_overlap(&all);
}
