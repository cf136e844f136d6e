/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Redisson's suite asserts of its RReadWriteLock (RedissonReadWriteLockTest), row by row and
 * with a witness; docs/conformance.md has the table. Its seconds are tenths here. Another thread is
 * another owner where nobody waits.
 */
#include <signal.h>
#include <unistd.h>

#include "rw/peer.h"
#include "rw/room.h"

enum { ME = 1, OTHER = 2, THIRD = 3 };

struct sides {
    struct rlock_client *client;
    struct rlock_handle *read, *write;
};

static struct sides sides_of(struct fixture *f, struct rlock_client *client)
{
    return (struct sides){client, lock_new(f, client), rival_new(f, client)};
}

static struct sides make(struct fixture *f)
{
    return sides_of(f, client_open(f));
}

static int try_as(struct rlock_handle *lock, uint64_t owner)
{
    return TAKE(lock, 0, .owner = owner);
}

static void give(struct rlock_handle *lock, uint64_t owner)
{
    assert_code(rlock_unlock_as(lock, owner), 0);
}

/* testWriteLock */
ROOM_TEST(a_writer_nests_and_may_read, f)
{
    struct sides s = make(f);
    struct inside inside;

    assert_code(try_as(s.write, ME), 0);
    assert_code(try_as(s.write, ME), 0);
    inside = room_enter(s.write);
    assert_true(is_locked(s.write));
    assert_false(rlock_is_valid_as(s.write, OTHER));
    assert_code(try_as(s.read, OTHER), RLOCK_EBUSY);
    give(s.write, ME);
    assert_code(try_as(s.read, OTHER), RLOCK_EBUSY);
    assert_code(try_as(s.read, ME), 0);
    room_leave(inside);
    give(s.write, ME);
    inside = room_enter(s.read);
    assert_false(is_locked(s.write));
    assert_code(try_as(s.read, OTHER), 0);
    assert_code(try_as(s.write, ME), RLOCK_EDEADLOCK); /* while it reads alone */
    give(s.read, OTHER);
    room_leave(inside);
    give(s.read, ME);
    assert_code(try_as(s.write, ME), 0);
    give(s.write, ME);
}

/* testMultiRead */
ROOM_TEST(a_writer_waits_for_all_readers, f)
{
    struct sides s = make(f);
    struct inside inside[2];

    for (uint64_t i = 0; i < 2; i++) {
        assert_code(try_as(s.read, i + 1), 0);
        inside[i] = room_enter(s.read);
    }
    assert_code(try_as(s.write, THIRD), RLOCK_EBUSY);
    assert_false(is_locked(s.write));
    for (uint64_t i = 0; i < 2; i++) {
        assert_code(try_as(s.write, THIRD), RLOCK_EBUSY);
        room_leave(inside[i]);
        give(s.read, i + 1);
    }
    assert_code(try_as(s.write, THIRD), 0);
    room_leave(room_enter(s.write));
    give(s.write, THIRD);
}

/* testWR */
ROOM_TEST(a_read_under_a_write_ends_alone, f)
{
    struct sides s = make(f);
    struct inside inside;

    assert_code(try_as(s.write, ME), 0);
    inside = room_enter(s.write);
    assert_code(try_as(s.read, ME), 0);
    give(s.read, ME);
    assert_true(is_locked(s.write));
    assert_code(try_as(s.read, OTHER), RLOCK_EBUSY);
    assert_code(try_as(s.write, OTHER), RLOCK_EBUSY);
    room_leave(inside);
    give(s.write, ME);
    assert_false(is_locked(s.write));
}

/* testWriteReadReentrancy */
ROOM_TEST(others_read_when_the_writer_only_reads, f)
{
    struct sides s = make(f);
    struct inside inside;

    assert_code(try_as(s.write, ME), 0);
    assert_code(try_as(s.read, ME), 0);
    inside = room_enter(s.write);
    assert_code(try_as(s.read, OTHER), RLOCK_EBUSY);
    room_leave(inside);
    give(s.write, ME);
    inside = room_enter(s.read);
    assert_code(try_as(s.write, ME), RLOCK_EDEADLOCK);
    assert_code(try_as(s.write, OTHER), RLOCK_EBUSY);
    assert_code(try_as(s.read, OTHER), 0);
    give(s.read, OTHER);
    room_leave(inside);
    give(s.read, ME);
    assert_code(try_as(s.write, ME), 0);
    give(s.write, ME);
}

/* testWriteRead */
ROOM_TEST(waiting_readers_are_let_in_together, f)
{
    enum { N = 20 };
    struct sides s = make(f), there = make(f);
    struct actor *readers[N];
    struct inside inside;
    int64_t since_us;

    assert_code(rlock_lock(s.write), 0);
    inside = room_enter(s.write);
    room_expect_readers(N);
    for (size_t i = 0; i < N; i++) { /* half of them in another client */
        struct sides *of = i % 2 == 0 ? &s : &there;

        readers[i] = actor_open(f);
        actor_begin(readers[i], act_visit_with_all, of->read, RLOCK_FOREVER, NULL);
        await_waiting(of->client, i / 2 + 1);
    }
    room_leave(inside);
    since_us = test_now_us();
    assert_code(rlock_unlock(s.write), 0);
    for (size_t i = 0; i < N; i++) {
        assert_code(actor_end(readers[i]), 0);
    }
    assert_took(test_elapsed_us(since_us), 0, 1000);
}

/* testReadLockIsLocked, testIsLocked, testIsLockedOtherThread */
ROOM_TEST(each_side_says_when_it_is_locked, f)
{
    struct sides s = make(f);

    assert_false(is_locked(s.read));
    assert_code(try_as(s.write, ME), 0);
    assert_false(is_locked(s.read));
    assert_code(try_as(s.read, ME), 0);
    assert_true(is_locked(s.read));
    assert_true(is_locked(s.write));
    give(s.read, ME);
    give(s.write, ME);
    assert_false(is_locked(s.write));
}

/* testForceUnlock */
ROOM_TEST(force_works_on_the_side_that_is_held, f)
{
    struct sides s = make(f);
    bool was_locked = true;

    assert_code(rlock_force_unlock(s.read, &was_locked), 0);
    assert_false(was_locked);
    assert_code(try_as(s.read, ME), 0);
    assert_code(rlock_force_unlock(s.write, &was_locked), 0);
    assert_false(was_locked);
    assert_true(is_locked(s.read));
    assert_code(rlock_force_unlock(s.read, &was_locked), 0);
    assert_true(was_locked);
    assert_false(is_locked(s.read));
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_code(rlock_unlock_as(s.read, ME), RLOCK_ELOST);
    assert_code(try_as(s.write, ME), 0);
    assert_code(rlock_force_unlock(s.write, &was_locked), 0);
    assert_true(was_locked);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_code(rlock_unlock_as(s.write, ME), RLOCK_ELOST);
}

/* testName */
ROOM_TEST(names_with_braces_and_colons_work, f)
{
    static const char *const names[] = {"bar:{foo}:lock", "{foo}", "a{b", "x}y", "::", "{}z"};
    struct rlock_client *client = client_open(f);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct rlock_handle *read = lock_named(f, client, names[i]), *write = NULL;

        assert_code(rlock_write_new(client, names[i], NULL, &write), 0);
        for (int round = 0; round < 3; round++) {
            assert_code(try_as(write, ME), 0);
            assert_code(try_as(read, ME), 0);
            give(write, ME);
            assert_code(try_as(read, OTHER), 0);
            assert_code(try_as(write, THIRD), RLOCK_EBUSY);
            give(read, OTHER);
            give(read, ME);
        }
        assert_int_equal(fixture_keys(f), 0);
        assert_null(rlock_free(write));
    }
}

/* testHoldCount, testIsHeldByCurrentThread and its other-thread form */
ROOM_TEST(each_side_counts_for_itself, f)
{
    struct sides s = make(f);
    struct actor *other = actor_open(f);

    for (int i = 0; i < 2; i++) {
        struct rlock_handle *lock = i == 0 ? s.write : s.read;

        assert_int_equal(rlock_hold_count(lock), 0);
        assert_code(rlock_lock(lock), 0);
        assert_int_equal(rlock_hold_count(lock), 1);
        assert_code(rlock_lock(lock), 0);
        assert_int_equal(rlock_hold_count(lock), 2);
        assert_true(rlock_is_valid(lock));
        assert_false(actor_do(other, act_is_valid, lock, 0, NULL));
        assert_int_equal(rlock_hold_count(i == 0 ? s.read : s.write), 0);
        assert_code(rlock_unlock(lock), 0);
        assert_code(rlock_unlock(lock), 0);
        assert_int_equal(rlock_hold_count(lock), 0);
        assert_false(rlock_is_valid(lock));
    }
}

/* testUnlockFail, testLockUnlock */
ROOM_TEST(only_its_owner_unlocks_a_side, f)
{
    struct sides s = make(f);

    assert_code(try_as(s.read, ME), 0);
    assert_code(rlock_unlock_as(s.read, OTHER), RLOCK_ENOTOWNER);
    assert_code(rlock_unlock_as(s.write, ME), RLOCK_ENOTOWNER);
    give(s.read, ME);
    assert_code(try_as(s.write, ME), 0);
    assert_code(rlock_unlock_as(s.read, ME), RLOCK_ENOTOWNER);
    assert_code(rlock_unlock_as(s.write, OTHER), RLOCK_ENOTOWNER);
    give(s.write, ME);
}

/* testReadWriteTTL */
ROOM_TEST(both_sides_are_renewed_and_the_read_after_the_write, f)
{
    const int64_t lease_ms = test_ms(600);
    struct sides s = sides_of(f, client_open_renewing(f, lease_ms));

    assert_code(try_as(s.write, ME), 0);
    assert_code(try_as(s.read, ME), 0);
    assert_true(STAYS(room_ttl(f) > lease_ms / 3, lease_ms * 3 / 2));
    give(s.write, ME);
    assert_true(STAYS(room_ttl(f) > lease_ms / 3, lease_ms * 3 / 2));
    assert_true(rlock_is_valid_as(s.read, ME));
    assert_code(try_as(s.read, OTHER), 0);
    give(s.read, OTHER);
    give(s.read, ME);
}

/* testReadLockExpirationRenewal */
ROOM_TEST(fifty_readers_outlive_their_lease, f)
{
    enum { N = 50 };
    const int64_t lease_ms = test_ms(400);
    struct sides s = sides_of(f, client_open_renewing(f, lease_ms));
    struct inside inside[N];

    for (uint64_t i = 0; i < N; i++) {
        assert_code(try_as(s.read, i + 1), 0);
        inside[i] = room_enter(s.read);
    }
    (void)STAYS(true, lease_ms * 5 / 3);
    assert_code(try_as(s.write, 1000), RLOCK_EBUSY);
    for (uint64_t i = 0; i < N; i++) {
        assert_true(rlock_is_valid_as(s.read, i + 1));
        room_leave(inside[i]);
        give(s.read, i + 1);
    }
    assert_int_equal(fixture_keys(f), 0);
}

/* testConcurrency_SingleInstance, ...Loop_MultiInstance, ..._MultiInstance, testReentrancy */
ROOM_TEST(readers_and_writers_of_many_clients_exclude_each_other, f)
{
    enum { CLIENTS = 4, ACTORS = 8 };
    struct sides sides[CLIENTS];
    struct actor *actors[ACTORS];

    for (int i = 0; i < CLIENTS; i++) {
        sides[i] = make(f);
    }
    for (int i = 0; i < ACTORS; i++) { /* every other one writes */
        struct sides *s = &sides[i % CLIENTS];

        actors[i] = actor_open(f);
        actor_begin(actors[i], act_keep_visiting, i / CLIENTS == 0 ? s->write : s->read, 2000,
                    NULL);
    }
    (void)STAYS(true, 1500);
    room_stop_visits();
    for (int i = 0; i < ACTORS; i++) {
        assert_code(actor_end(actors[i]), 0);
    }
    assert_true(room_visits(true) > 20 && room_visits(false) > 100);
}

/* ---- Leases ---- */

/* testAutoExpire */
ROOM_TEST(a_killed_writers_lock_is_free_after_its_lease, f)
{
    struct test_child *child = victim_spawn(&(struct victim){f, rlock_write_new, test_ms(500)});
    struct sides s = make(f);
    int64_t killed_us;

    victim_await(child);
    killed_us = victim_kill(child);
    assert_code(rlock_lock_for(s.read, 10000, NULL, NULL), 0);
    assert_took(test_elapsed_us(killed_us), 0, test_ms(500) + LATE_MS);
    assert_code(rlock_unlock(s.read), 0);
}

/* testReadLockExpiration */
ROOM_TEST(a_short_lease_does_not_shorten_a_longer_readers, f)
{
    struct sides s = make(f);
    struct actor *writer = actor_open(f);
    int64_t since_us = test_now_us();

    assert_code(TAKE(s.read, 0, .owner = ME, .lease_ms = test_ms(1000)), 0);
    assert_code(TAKE(s.read, 0, .owner = OTHER, .lease_ms = test_ms(300)), 0);
    actor_begin(writer, act_visit, s.write, RLOCK_FOREVER, NULL);
    (void)STAYS(true, test_ms(280) - test_elapsed_us(since_us) / 1000);
    give(s.read, OTHER);
    assert_true(STAYS(actor_is_busy(writer), test_ms(910) - test_elapsed_us(since_us) / 1000));
    give(s.read, ME);
    assert_code(actor_end(writer), 0);
    assert_took(actor_ended_us(writer) - since_us, test_ms(800), test_ms(1000) + LATE_MS);
}

/*
 * testReadLockLeaseTimeout: a nested read that is over must not keep the hold longer than its
 * longest level. (Redisson's level has the lease of the outer one there; ours keeps the longest.)
 */
ROOM_TEST(a_nested_read_lengthens_by_no_more_than_its_lease, f)
{
    struct sides s = make(f);
    int64_t since_us = test_now_us();

    assert_code(TAKE(s.read, 0, .owner = ME, .lease_ms = test_ms(400)), 0);
    (void)STAYS(true, test_ms(200));
    assert_code(TAKE(s.read, 0, .owner = ME, .lease_ms = test_ms(200)), 0);
    give(s.read, ME);
    assert_code(TAKE(s.write, 5000, .owner = OTHER), 0);
    assert_took(test_elapsed_us(since_us), test_ms(380), test_ms(400) + LATE_MS);
    give(s.write, OTHER);
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock_as(s.read, ME), RLOCK_ELOST);
}

/* testReadLockLeaseTimeoutDiffThreadsRRW */
ROOM_TEST(anothers_read_does_not_lengthen_mine, f)
{
    struct sides s = make(f), there = make(f);
    int64_t since_us = test_now_us();

    assert_code(TAKE(s.read, 0, .owner = ME, .lease_ms = test_ms(600)), 0);
    (void)STAYS(true, test_ms(300));
    assert_code(try_as(there.read, OTHER), 0); /* renewed, 30 s */
    give(there.read, OTHER);
    assert_code(TAKE(there.write, 10000, .owner = OTHER), 0);
    assert_took(test_elapsed_us(since_us), test_ms(570), test_ms(600) + LATE_MS);
    give(there.write, OTHER);
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock_as(s.read, ME), RLOCK_ELOST);
}

/* testReadLockLeaseTimeoutDiffThreadsWRR */
ROOM_TEST(readers_come_in_when_a_writers_lease_ends, f)
{
    struct sides s = make(f), there = make(f);
    struct actor *readers[2] = {actor_open(f), actor_open(f)};
    int64_t since_us = test_now_us();

    assert_code(TAKE(s.write, 0, .owner = ME, .lease_ms = test_ms(500)), 0);
    room_expect_readers(2);
    actor_begin(readers[0], act_visit_with_all, s.read, RLOCK_FOREVER, NULL);
    actor_begin(readers[1], act_visit_with_all, there.read, RLOCK_FOREVER, NULL);
    assert_code(actor_end(readers[0]), 0);
    assert_code(actor_end(readers[1]), 0);
    assert_took(test_elapsed_us(since_us), test_ms(480), test_ms(500) + LATE_MS);
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock_as(s.write, ME), RLOCK_ELOST);
}

/* testWriteLockExpiration: there nesting adds; here the longest lease counts, and never less. */
ROOM_TEST(a_nested_write_neither_shortens_nor_adds, f)
{
    struct sides s = make(f);
    int64_t since_us = test_now_us();

    assert_code(TAKE(s.write, 0, .owner = ME, .lease_ms = test_ms(600)), 0);
    assert_code(TAKE(s.write, 0, .owner = ME, .lease_ms = test_ms(100)), 0);
    assert_in_range(room_ttl(f), 1, test_ms(600));
    assert_code(TAKE(s.write, test_ms(300), .owner = OTHER), RLOCK_ETIMEDOUT);
    assert_code(TAKE(s.read, test_ms(100), .owner = OTHER), RLOCK_ETIMEDOUT);
    assert_code(TAKE(s.write, 5000, .owner = OTHER), 0);
    assert_took(test_elapsed_us(since_us), test_ms(580), test_ms(600) + 2 * LATE_MS);
    give(s.write, OTHER);
    (void)expect_loss(f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock_as(s.write, ME), RLOCK_ELOST);
    assert_code(rlock_unlock_as(s.write, ME), RLOCK_ELOST);
}

/* testExpireWrite, testExpireRead */
ROOM_TEST(a_lease_that_ended_lets_others_in_and_its_unlock_is_refused, f)
{
    for (int i = 0; i < 2; i++) {
        struct sides s = make(f), there = make(f);
        struct rlock_handle *held = i == 0 ? s.write : s.read;
        int64_t since_us = test_now_us();

        assert_code(TAKE(held, 0, .owner = ME, .lease_ms = test_ms(200)), 0);
        assert_code(TAKE(there.write, 10000, .owner = OTHER), 0);
        assert_took(test_elapsed_us(since_us), test_ms(190), test_ms(200) + LATE_MS);
        (void)expect_loss(f, RLOCK_LOST_EXPIRED);
        assert_code(rlock_unlock_as(held, ME), RLOCK_ELOST);
        assert_true(rlock_is_valid_as(there.write, OTHER));
        give(there.write, OTHER);
    }
}

/* testMultiInstanceReadLockZombieCleanup */
ROOM_TEST(a_dead_reader_is_not_kept_by_anothers_renewals, f)
{
    struct test_child *child = victim_spawn(&(struct victim){f, rlock_read_new, test_ms(500)});
    struct sides s = sides_of(f, client_open_renewing(f, test_ms(500)));
    int64_t killed_us;

    victim_await(child);
    assert_code(try_as(s.read, ME), 0);
    killed_us = victim_kill(child);
    (void)STAYS(true, test_ms(700) - test_elapsed_us(killed_us) / 1000);
    give(s.read, ME);
    assert_code(rlock_try_lock(s.write), 0);
    assert_code(rlock_unlock(s.write), 0);
}

/* testMultiInstanceZombieReadLockPerformance, which Redisson has disabled */
ROOM_TEST(many_dead_readers_are_forgotten_at_once, f)
{
    struct sides s = make(f);
    const int64_t lease_ms = test_ms(300);
    int64_t since_us;
    char name[32];

    for (int i = 0; i < 20 * 3; i++) {
        test_text(name, sizeof(name), "J%d:%d", i / 3, i % 3);
        peer_says(f, "", peer_read, name, lease_ms); /* and is never heard of again */
    }
    since_us = test_now_us();
    assert_code(TAKE(s.write, 10000, .owner = OTHER), 0);
    assert_took(test_elapsed_us(since_us), 0, lease_ms + LATE_MS);
    give(s.write, OTHER);
}
