/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Semaphores: what they are on the server, what clients of other libraries do there, and the
 * numbers that the suite of Redisson's RSemaphore asserts. Another library is played by its
 * commands.
 */
#include "live/permits.h"
#include "support/raw.h"

#include <rlock/admin.h>
#include <rlock/leader.h>
#include <unistd.h>

#define CHANNEL "redisson_sc:{" NAME "}"

/* A Redisson takes units, or gives some back. */
static void redisson_takes(const struct fixture *f, int64_t units)
{
    test_server_do(f->server, "DECRBY " NAME " %lld", (long long)units);
}

static void redisson_gives(const struct fixture *f, int64_t units)
{
    test_server_do(f->server,
                   "EVAL \"redis.call('publish', ARGV[2], redis.call('incrby', KEYS[1], ARGV[1]))\""
                   " 1 " NAME " %lld " CHANNEL,
                   (long long)units);
}

/* ---- On the server ---- */

SEMAPHORE_TEST(a_redisson_sees_a_number_alone, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    assert_code(take(lock, 0, 2), 0);
    assert_true(test_server_says(f->server, "1", FREE));
    assert_int_equal(test_server_int(f->server, "PTTL " NAME), -1);
    assert_false(fixture_has_key(f, PERMITS)); /* a permit of the other kind of semaphore */
    expect_info(lock, UNITS, 1, 2);
    assert_code(rlock_unlock(lock), 0);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 1);
    tidy_up(f, UNITS);
}

SEMAPHORE_TEST(the_units_of_a_redisson_count, f, .servers = 1)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    const uint64_t other = rlock_owner_new(client);

    assert_code(take(lock, 0, 1), 0);
    redisson_takes(f, 2);
    assert_code(take(lock, other, 1), RLOCK_EBUSY);
    assert_code(rlock_unlock(lock), 0);
    assert_code(take(lock, other, 2), RLOCK_EBUSY);
    redisson_gives(f, 1);
    assert_code(take(lock, other, 2), 0);
    assert_code(rlock_unlock_as(lock, other), 0);
    redisson_gives(f, 1);
    tidy_up(f, UNITS);
}

SEMAPHORE_TEST(a_redisson_wakes_as_many_waiters_as_it_gives_units, f, .servers = 1)
{
    struct rlock_client *other = client_open(f);
    struct rlock_handle *lock = lock_new(f, other);
    struct actor *actors[UNITS];
    int64_t begun;

    assert_code(rlock_admin_set_units(lock, 0), 0);
    for (size_t i = 0; i < UNITS; i++) {
        actors[i] = actor_open(f);
        actor_begin(actors[i], act_take, lock, RLOCK_FOREVER, NULL);
    }
    await_waiting(other, UNITS);
    begun = test_now_us();
    redisson_gives(f, UNITS);
    for (size_t i = 0; i < UNITS; i++) {
        assert_code(actor_end(actors[i]), 0);
    }
    assert_took(test_elapsed_us(begun), 0, 2 * LATE_MS); /* they would look again after 5 s */
    for (size_t i = 0; i < UNITS; i++) {
        assert_code(actor_do(actors[i], act_unlock, lock, 0, NULL), 0);
    }
    tidy_up(f, UNITS);
}

#define BULK_CHANNEL "$18\r\n" CHANNEL "\r\n"

/* A message of 0 or less would wake nobody, and Redisson fails on a negative one. */
SEMAPHORE_TEST(messages_say_how_many_units_are_free, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    const int fd = raw_dial(test_server_unix_url(f->server));

    raw_say(fd, "SUBSCRIBE " CHANNEL "\r\n");
    assert_true(raw_hears(fd, "*3\r\n$9\r\nsubscribe\r\n" BULK_CHANNEL ":1\r\n"));
    assert_code(take(lock, 0, 2), 0); /* which makes the number */
    assert_true(raw_hears(fd, "*3\r\n$7\r\nmessage\r\n" BULK_CHANNEL "$1\r\n1\r\n"));
    assert_code(rlock_unlock(lock), 0);
    assert_true(raw_hears(fd, "*3\r\n$7\r\nmessage\r\n" BULK_CHANNEL "$1\r\n3\r\n"));
    assert_code(take(lock, 0, 2), 0);
    redisson_takes(f, 5);
    assert_code(rlock_unlock(lock), 0); /* -2 are free */
    redisson_gives(f, 4);
    assert_true(raw_hears(fd, "*3\r\n$7\r\nmessage\r\n" BULK_CHANNEL "$1\r\n2\r\n"));
    redisson_gives(f, 1);
    assert_int_equal(close(fd), 0);
    tidy_up(f, UNITS);
}

/* ---- The record of units ---- */

SEMAPHORE_TEST(units_are_renewed_and_their_loss_is_reported, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, test_ms(300)));
    const int64_t until = test_now_us() + 2000 * test_ms(300);

    assert_code(take(lock, 0, 2), 0);
    while (test_now_us() < until) {
        assert_true(rlock_is_valid(lock));
        expect_free(f, 1, 2);
    }
    test_server_do(f->server, "DEL " RECORDS);
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST); /* nothing names their owner any more */
    tidy_up(f, 1);
}

SEMAPHORE_TEST(force_gives_back_the_recorded_units, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, test_ms(300)));
    struct rlock_handle *rival = rival_new(f, client_open(f));
    bool opened = false;

    assert_code(take(lock, 0, 1), 0);
    redisson_takes(f, 1);
    assert_code(rlock_force_unlock(rival, &opened), 0);
    assert_true(opened);
    expect_free(f, UNITS - 1, 0);
    assert_code(take(rival, 0, UNITS), RLOCK_EBUSY);
    redisson_gives(f, 1);
    assert_code(take(rival, 0, UNITS), 0);
    (void)expect_loss(f, 0);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_unlock(rival), 0);
    tidy_up(f, UNITS);
}

/* ---- The number ---- */

/* A Redisson may delete the semaphore. It does not know the records. */
SEMAPHORE_TEST(units_in_use_count_when_the_number_was_deleted, f, .servers = 1)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    const uint64_t other = rlock_owner_new(client);

    assert_code(take(lock, 0, 2), 0);
    test_server_do(f->server, "DEL " NAME);
    assert_code(take(lock, other, 2), RLOCK_EBUSY);
    assert_code(take(lock, other, 1), 0);
    expect_free(f, 0, 3);
    test_server_do(f->server, "DEL " NAME);
    assert_code(rlock_unlock(lock), 0); /* it makes no number */
    assert_false(fixture_has_key(f, NAME));
    assert_code(rlock_unlock_as(lock, other), 0);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
    assert_code(take(lock, other, 1), 0);
    assert_code(rlock_unlock_as(lock, other), 0);
    tidy_up(f, UNITS);
}

/* addPermits() of a Redisson ends the TTL of the number. A record with a TTL would be lost then,
 * and its units with it. */
SEMAPHORE_TEST(a_record_outlives_the_time_to_live_of_the_number, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    test_server_do(f->server, "SET " NAME " 3 PX 60000");
    assert_code(take(lock, 0, 2), 0);
    assert_in_range(test_server_int(f->server, "PTTL " NAME), 1000, 60000);
    assert_int_equal(test_server_int(f->server, "PTTL " RECORDS), -1);
    test_server_do(f->server, "SET " NAME " 1");
    assert_code(rlock_unlock(lock), 0);
    tidy_up(f, UNITS);
}

SEMAPHORE_TEST(the_number_of_a_redisson_stays, f, .servers = 1)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_with(f, client, NAME, RLOCK_OPTS(.units = 15));

    expect_info(lock, 0, 0, 0);
    test_server_do(f->server, "SET " NAME " 10"); /* trySetPermits(10) */
    assert_code(take(lock, 0, 11), RLOCK_EBUSY);
    assert_code(take(lock, 0, 10), 0);
    expect_info(lock, 10, 0, 10);
    assert_code(rlock_unlock(lock), 0);
    tidy_up(f, 10);
}

SEMAPHORE_TEST(a_semaphore_that_redisson_made_by_a_release_is_used, f, .servers = 1)
{
    struct rlock_handle *lock = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.units = 10));

    redisson_gives(f, 1);
    assert_code(take(lock, 0, 2), RLOCK_EBUSY);
    redisson_gives(f, 1);
    assert_code(take(lock, 0, 2), 0);
    expect_info(lock, 2, 0, 2);
    assert_code(rlock_unlock(lock), 0);
    tidy_up(f, 2);
}

SEMAPHORE_TEST(units_are_added_while_some_are_held, f, .servers = 1)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_with(f, client, NAME, RLOCK_OPTS(.units = 10));
    const uint64_t other = rlock_owner_new(client);

    assert_code(take(lock, 0, 10), 0);
    assert_code(rlock_admin_add_units(lock, 4), 0);
    expect_info(lock, 14, 4, 10);
    assert_code(rlock_unlock(lock), 0);
    expect_info(lock, 14, 14, 0);
    assert_code(take(lock, other, 5), 0);
    expect_info(lock, 14, 9, 5);
    assert_code(rlock_unlock_as(lock, other), 0);
    assert_code(rlock_admin_add_units(lock, -4), 0);
    assert_code(take(lock, 0, 10), 0);
    assert_code(rlock_admin_add_units(lock, -5), 0);
    expect_info(lock, 5, -5, 10);
    assert_code(rlock_unlock(lock), 0);
    expect_info(lock, 5, 5, 0);
    tidy_up(f, 5);
}

SEMAPHORE_TEST(a_waiter_gets_several_units_when_they_have_come_together, f, .servers = 1)
{
    struct rlock_client *other = client_open(f);
    struct rlock_handle *lock = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.units = 5));
    struct rlock_handle *rival = lock_with(f, other, NAME, RLOCK_OPTS(.units = 5));
    const struct rlock_take four = {.size = sizeof(four), .units = 4};
    struct actor *actor = actor_open(f);
    int64_t begun;

    assert_code(take(lock, 1, 1), 0);
    assert_code(take(lock, 2, 1), 0);
    assert_code(take(lock, 3, 1), 0);
    assert_code(take(rival, 0, 4), RLOCK_EBUSY);
    actor_begin(actor, act_take, rival, 2000 * test_slack(), &four);
    await_waiting(other, 1);
    assert_code(rlock_unlock_as(lock, 1), 0);
    begun = test_now_us();
    assert_code(rlock_unlock_as(lock, 2), 0);
    assert_code(actor_end(actor), 0);
    assert_took(test_elapsed_us(begun), 0, LATE_MS);
    expect_info(lock, 5, 0, 5);
    assert_code(rlock_unlock_as(lock, 3), 0);
    assert_code(actor_do(actor, act_unlock, rival, 0, NULL), 0);
    tidy_up(f, 5);
}

SEMAPHORE_TEST(drained_units_are_gone, f, .servers = 1)
{
    struct rlock_handle *lock = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.units = 10));

    assert_code(take(lock, 0, 3), 0);
    assert_true(test_server_says(f->server, "7", "GETSET " NAME " 0")); /* drainPermits() */
    assert_code(take(lock, 0, 1), RLOCK_EBUSY);
    assert_code(rlock_unlock(lock), 0);
    tidy_up(f, 3);
}

SEMAPHORE_TEST(a_semaphore_may_have_as_many_units_as_redissons, f, .servers = 1)
{
    struct rlock_handle *lock = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.units = INT32_MAX));

    assert_code(take(lock, 0, 1000), 0);
    expect_free(f, INT32_MAX - 1000, 1000);
    assert_code(rlock_unlock(lock), 0);
    tidy_up(f, INT32_MAX);
}

/* ---- What it cannot do ---- */

SEMAPHORE_TEST(a_semaphore_has_no_leases_and_is_not_handed_over, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open(f)), *group = NULL;
    struct rlock_leader *leader = NULL;
    char text[RLOCK_TEXT_SIZE];

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.lease_ms = 10000), NULL), RLOCK_EINVAL);
    assert_detail("lease_ms is not an option of a semaphore: the client renews it");
    assert_code(take(lock, 0, 1), 0);
    assert_code(rlock_extend(lock, 0, 10000, NULL), RLOCK_ENOTSUP);
    assert_code(rlock_extend(lock, 0, 0, NULL), RLOCK_ENOTSUP);
    assert_code(rlock_detach(lock, 0, 10000, text), RLOCK_ENOTSUP);
    assert_detail("a semaphore cannot be handed over");
    assert_code(rlock_hold_text(lock, 0, text), RLOCK_ENOTSUP);
    assert_code(rlock_adopt(lock, "6162636465666768696a6b6c6d6e6f70",
                            RLOCK_TAKE(.flags = RLOCK_TAKE_FROM_DEAD), NULL),
                RLOCK_ENOTSUP);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_leader_new(lock, NULL, &leader), RLOCK_ENOTSUP);
    assert_code(rlock_multi_new(&lock, 1, NULL, &group), RLOCK_ENOTSUP);
    assert_code(rlock_redlock_new(&lock, 1, NULL, &group), RLOCK_ENOTSUP);
    assert_code(rlock_semaphore_new(f->clients[0], NAME, NULL, &group), RLOCK_EINVAL);
    tidy_up(f, UNITS);
}

SEMAPHORE_TEST(the_longest_hold_ends_a_renewal, f, .servers = 1)
{
    struct rlock_handle *lock = lock_with(f, client_open_renewing(f, test_ms(300)), NAME,
                                          RLOCK_OPTS(.units = UNITS, .max_hold_ms = test_ms(600)));

    assert_code(take(lock, 0, UNITS), 0);
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_lock_for(lock, 20000, RLOCK_TAKE(.units = UNITS), NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    tidy_up(f, UNITS);
}
