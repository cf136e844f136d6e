/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many permits there are, how many are out, and how many are free: the numbers that the suite
 * of Redisson's RPermitExpirableSemaphore asserts, and what resizing a semaphore does.
 */
#include "live/permits.h"

#include <rlock/admin.h>

PERMITS_TEST(the_first_number_stays, f, .servers = 1)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *ten = lock_with(f, client, NAME, RLOCK_OPTS(.units = 10));
    struct rlock_handle *fifteen = lock_with(f, client, NAME, RLOCK_OPTS(.units = 15));

    expect_info(ten, 0, 0, 0); /* nobody has asked for any */
    assert_code(take(ten, 0, 0), 0);
    assert_code(take(fifteen, 0, 0), 0);
    expect_info(fifteen, 10, 8, 2);
    assert_code(rlock_unlock(fifteen), 0);
    assert_code(rlock_unlock(ten), 0);
    expect_info(fifteen, 10, 10, 0);
    tidy_up(f, 10);
}

PERMITS_TEST(a_semaphore_is_set_to_a_number_of_permits, f, .servers = 1)
{
    struct rlock_handle *lock = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.units = 10));
    const int64_t numbers[] = {10, 15, 5, 5};

    for (size_t i = 0; i < 4; i++) {
        assert_code(rlock_admin_set_units(lock, numbers[i]), 0);
        expect_info(lock, numbers[i], numbers[i], 0);
    }
    assert_code(take(lock, 0, 3), 0);
    expect_info(lock, 5, 2, 3);
    assert_code(rlock_admin_set_units(lock, 3), 0);
    expect_info(lock, 3, 0, 3);
    assert_code(rlock_admin_set_units(lock, 2), 0);
    expect_info(lock, 2, -1, 3);
    assert_code(take(lock, rlock_owner_new(f->clients[0]), 1), RLOCK_EBUSY);
    assert_code(rlock_unlock(lock), 0);
    expect_info(lock, 2, 2, 0);
    assert_code(rlock_admin_set_units(lock, 0), 0);
    assert_code(take(lock, 0, 1), RLOCK_EBUSY);
    tidy_up(f, 0);
}

PERMITS_TEST(permits_are_added_to_a_semaphore_and_removed, f, .servers = 1)
{
    struct rlock_handle *lock = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.units = 10));

    assert_code(rlock_admin_add_units(lock, 10), 0);
    expect_info(lock, 10, 10, 0);
    assert_code(rlock_admin_add_units(lock, 5), 0);
    expect_info(lock, 15, 15, 0);
    assert_code(rlock_admin_add_units(lock, -10), 0);
    expect_info(lock, 5, 5, 0);
    assert_code(rlock_admin_add_units(lock, -10), 0);
    expect_info(lock, -5, -5, 0);
    assert_code(take(lock, 0, 1), RLOCK_EBUSY);
    free(test_server_cmd(f->server, "DEL " NAME));
}

PERMITS_TEST(resizing_keeps_the_time_to_live_of_the_number, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    free(test_server_cmd(f->server, "SET " NAME " 3 PX 60000"));
    assert_code(rlock_admin_set_units(lock, 5), 0);
    assert_code(rlock_admin_add_units(lock, 1), 0);
    expect_info(lock, 6, 6, 0);
    assert_in_range(test_server_int(f->server, "PTTL " NAME), 1000, 60000);
    tidy_up(f, 6);
}

PERMITS_TEST(waiters_wake_for_permits_that_are_added, f, .servers = 1)
{
    struct rlock_client *other = client_open(f);
    struct rlock_handle *lock = lock_new(f, client_open(f)), *rival = rival_new(f, other);
    struct actor *actors[] = {actor_open(f), actor_open(f)};
    int64_t begun;

    assert_code(take(lock, 0, UNITS), 0);
    for (size_t i = 0; i < 2; i++) {
        actor_begin(actors[i], act_take, rival, RLOCK_FOREVER, NULL);
        await_waiting(other, i + 1);
    }
    begun = test_now_us();
    assert_code(rlock_admin_add_units(lock, 1), 0);
    assert_code(actor_end(actors[0]), 0);
    assert_code(rlock_admin_set_units(lock, UNITS + 2), 0);
    assert_code(actor_end(actors[1]), 0);
    assert_took(test_elapsed_us(begun), 0, 2 * LATE_MS); /* they would look again after 5 s */
    expect_info(lock, UNITS + 2, 0, UNITS + 2);
    assert_code(rlock_unlock(lock), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_code(actor_do(actors[i], act_unlock, rival, 0, NULL), 0);
    }
    tidy_up(f, UNITS + 2);
}

PERMITS_TEST(only_permits_can_be_resized, f, .servers = 1)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *reentrant = NULL;

    assert_code(rlock_admin_set_units(lock, -1), RLOCK_EINVAL);
    assert_code(rlock_admin_set_units(lock, INT64_C(2147483648)), RLOCK_EINVAL);
    assert_code(rlock_admin_add_units(lock, INT64_C(-2147483648)), RLOCK_EINVAL);
    assert_code(rlock_admin_set_units(NULL, 1), RLOCK_EINVAL);
    assert_code(rlock_reentrant_new(client, NAME, NULL, &reentrant), 0);
    assert_code(rlock_admin_set_units(reentrant, 1), RLOCK_ENOTSUP);
    assert_null(rlock_free(reentrant));
    free(test_server_cmd(f->server, "SET " NAME " many"));
    assert_code(rlock_admin_set_units(lock, 1), RLOCK_EWRONGTYPE);
    assert_code(rlock_admin_add_units(lock, 1), RLOCK_EWRONGTYPE);
    assert_detail("lock " NAME ": ");
    free(test_server_cmd(f->server, "SET " NAME " 2147483000"));
    assert_code(rlock_admin_add_units(lock, 1000), RLOCK_EREFUSED);
    free(test_server_cmd(f->server, "DEL " NAME));
}

/* What sets is sent again; what adds is not. */
PERMITS_TEST(permits_are_never_added_twice, f, .proxy = PROXY_ON_UNIX)
{
    struct rlock_handle *lock =
        lock_new(f, client_open_with(f, RLOCK_CLIENT_OPTS(.url = proxy_url(f->proxy))));
    const struct proxy_rule lost = {
        .act = PROXY_CUT_REPLY, .command = "EVALSHA", .contains = NAME, .times = 1};

    assert_code(rlock_admin_set_units(lock, 3), 0); /* the server knows the script from here on */
    (void)proxy_add(f->proxy, &lost);
    assert_code(rlock_admin_add_units(lock, 2), RLOCK_EINDOUBT);
    expect_info(lock, 5, 5, 0);
    (void)proxy_add(f->proxy, &lost);
    assert_code(rlock_admin_set_units(lock, 7), 0);
    expect_info(lock, 7, 7, 0);
    tidy_up(f, 7);
}

PERMITS_TEST(permits_are_free_one_by_one_as_their_leases_end, f, .servers = 1)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_with(f, client, NAME, RLOCK_OPTS(.units = 2));
    const uint64_t owners[] = {rlock_owner_new(client), rlock_owner_new(client),
                               rlock_owner_new(client)};
    const int64_t lease_ms = test_ms(500);

    expect_info(lock, 0, 0, 0);
    for (size_t i = 0; i < 2; i++) {
        assert_code(
            rlock_lock_for(lock, 0,
                           RLOCK_TAKE(.owner = owners[i], .lease_ms = (int64_t)(i + 1) * lease_ms),
                           NULL),
            0);
    }
    expect_info(lock, 2, 0, 2);
    assert_code(take(lock, owners[2], 1), RLOCK_EBUSY);
    assert_code(rlock_lock_for(lock, 20000, RLOCK_TAKE(.owner = owners[2]), NULL), 0);
    expect_info(lock, 2, 0, 2);
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock_as(lock, owners[0]), RLOCK_ELOST);
    assert_code(rlock_unlock_as(lock, owners[2]), 0);
    assert_code(rlock_lock_for(lock, 20000, RLOCK_TAKE(.owner = owners[2], .units = 2), NULL), 0);
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock_as(lock, owners[1]), RLOCK_ELOST); /* it gives nothing back */
    expect_info(lock, 2, 0, 2);
    assert_code(rlock_unlock_as(lock, owners[2]), 0);
    tidy_up(f, 2);
}

PERMITS_TEST(a_waiter_has_the_permit_when_a_lease_ends, f, .servers = 1)
{
    const struct rlock_opts one = {.size = sizeof(one), .units = 1};
    struct rlock_handle *lock = lock_with(f, client_open(f), NAME, &one);
    struct rlock_handle *rival = lock_with(f, client_open(f), NAME, &one);
    const int64_t lease_ms = test_ms(500), begun = test_now_us();

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.lease_ms = lease_ms), NULL), 0);
    assert_code(rlock_lock_for(rival, 20000, NULL, NULL), 0);
    /* the holder gives it up its safety margin before the end */
    assert_took(test_elapsed_us(begun), lease_ms - lease_ms / 50, lease_ms + LATE_MS);
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_unlock(rival), 0);
    tidy_up(f, 1);
}

PERMITS_TEST(a_call_for_two_permits_gets_in_behind_one_for_one, f, .servers = 1)
{
    struct rlock_client *other = client_open(f);
    struct rlock_handle *lock = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.units = 2));
    struct rlock_handle *rival = lock_with(f, other, NAME, RLOCK_OPTS(.units = 2));
    const struct rlock_take two = {.size = sizeof(two), .units = 2};
    struct actor *first = actor_open(f), *second = actor_open(f);

    assert_code(take(lock, 0, 2), 0);
    actor_begin(first, act_take, rival, RLOCK_FOREVER, NULL);
    await_waiting(other, 1);
    actor_begin(second, act_take, rival, RLOCK_FOREVER, &two);
    await_waiting(other, 2);
    assert_code(rlock_unlock(lock), 0);
    assert_code(actor_end(first), 0);
    assert_code(actor_do(first, act_unlock, rival, 0, NULL), 0);
    assert_code(actor_end(second), 0);
    expect_info(lock, 2, 0, 2);
    assert_code(actor_do(second, act_unlock, rival, 0, NULL), 0);
    tidy_up(f, 2);
}

PERMITS_TEST(levels_of_permits_add_up, f, .servers = 1)
{
    struct rlock_handle *lock = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.units = 10));

    assert_code(take(lock, 0, 2), 0);
    assert_code(take(lock, 0, 4), 0);
    expect_info(lock, 10, 4, 6);
    assert_code(rlock_unlock(lock), 0);
    expect_info(lock, 10, 8, 2);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    tidy_up(f, 10);
}

PERMITS_TEST(permits_are_extended_until_their_lease_ends, f, .servers = 1)
{
    struct rlock_handle *lock = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.units = 2));
    const int64_t lease_ms = test_ms(500);
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.units = 2, .lease_ms = 60000), NULL), 0);
    assert_code(rlock_extend(lock, 0, 90000, &grant), 0);
    assert_int_equal(grant.lease_ms, 90000);
    assert_code(rlock_held(lock, 0, &grant), 0);
    assert_in_range(grant.valid_ms, 60000, 90000);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_extend(lock, 0, 90000, NULL), RLOCK_ENOTOWNER);
    assert_code(rlock_held(lock, 0, &grant), RLOCK_ENOTOWNER);
    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.units = 2, .lease_ms = lease_ms), NULL), 0);
    assert_true(TEST_EVENTUALLY(!rlock_is_valid(lock), 2 * lease_ms));
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_extend(lock, 0, 90000, NULL), RLOCK_ELOST);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    tidy_up(f, 2);
}

PERMITS_TEST(a_semaphore_that_expires_leaves_nothing, f, .servers = 1)
{
    struct rlock_handle *lock = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.units = 10));

    assert_code(rlock_admin_set_units(lock, 10), 0);
    free(test_server_cmd(f->server, "PEXPIRE " NAME " %lld", (long long)test_ms(300)));
    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.units = 6, .lease_ms = 60000), NULL), 0);
    assert_true(TEST_EVENTUALLY(test_server_int(f->server, "DBSIZE") == 0, 10000));
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
}
