/* SPDX-License-Identifier: Apache-2.0 */
/* When the keys beside a fair lock end: a queue of the dead goes by itself, or by force. */
#include <rlock/admin.h>
#include <unistd.h>

#include "fair/hall.h"
#include "support/raw.h"

#define GHOST "00000000-0000-8000-8000-000000000000"
#define NOTES "rlock_fair:{" NAME "}"

static long long left_of(struct fixture *f, const char *key)
{
    return test_server_int(f->server, "PTTL %s", key);
}

/* Whether queue and scores end, no sooner than so many ms from now. */
static void assert_ends_after(struct fixture *f, long long ms)
{
    assert_in_range(left_of(f, QUEUE), ms, ms + 3 * SLOT_MS);
    assert_in_range(left_of(f, SCORES), ms, ms + 3 * SLOT_MS);
}

/* One of ours behind the dead of ours, as a killed process leaves them. */
static void queue_ghosts(struct fixture *f, int n)
{
    for (int i = 1; i <= n; i++) {
        test_server_do(f->server, "RPUSH " QUEUE " " GHOST ":%d", i);
        test_server_do(f->server, "ZADD " SCORES " %lld " GHOST ":%d", hall_clock(f) + SLOT_MS, i);
    }
}

HALL_TEST(a_queue_of_ours_ends_after_its_last_score, f)
{
    struct rlock_handle *locks[] = {lock_new(f, client_open(f)), lock_new(f, client_open(f))};
    struct actor *waiter = actor_open(f);

    assert_code(TAKE(locks[0], 0, .lease_ms = 30000), 0);
    hall_line_up(f, &waiter, &locks[1], 1, act_take, RLOCK_FOREVER, NULL);
    assert_ends_after(f, 30000 + SLOT_MS);
    /* a Redisson that comes behind us adds its wait to our score */
    assert_true(peer_queues(f, "J:1", SLOT_MS));
    assert_true(TEST_EVENTUALLY(left_of(f, QUEUE) > 30000 + 2 * SLOT_MS, 10000));
    assert_code(rlock_unlock(locks[0]), 0);
    assert_code(actor_end(waiter), 0);
    assert_code(actor_do(waiter, act_unlock, locks[1], 0, NULL), 0);
    peer_leaves(f, "J:1", SLOT_MS);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
}

/* A Redisson renews no key: where the last of ours leaves, the end goes too. */
HALL_TEST(a_queue_of_peers_has_no_end, f)
{
    struct rlock_handle *locks[] = {lock_new(f, client_open(f)), lock_new(f, client_open(f))};
    struct actor *waiter = actor_open(f);
    int fd = peer_listens(f, "J:1");

    assert_code(TAKE(locks[0], 0, .lease_ms = 30000), 0);
    hall_line_up(f, &waiter, &locks[1], 1, act_take, 500, NULL);
    assert_true(peer_queues(f, "J:1", SLOT_MS));
    assert_ends_after(f, SLOT_MS);
    assert_code(actor_end(waiter), RLOCK_ETIMEDOUT); /* it leaves */
    assert_true(TEST_EVENTUALLY(left_of(f, QUEUE) == -1 && left_of(f, SCORES) == -1, 2000));
    peer_leaves(f, "J:1", SLOT_MS);
    hall_line_up(f, &waiter, &locks[1], 1, act_take, RLOCK_FOREVER, NULL);
    assert_true(peer_queues(f, "J:1", SLOT_MS));
    assert_code(rlock_unlock(locks[0]), 0);
    assert_code(actor_end(waiter), 0); /* it is granted the lock */
    assert_int_equal(left_of(f, QUEUE), -1);
    assert_int_equal(left_of(f, SCORES), -1);
    /* a Redisson put out one of ours by its time, and nobody took the end away */
    test_server_do(f->server, "PEXPIRE " QUEUE " 100000");
    test_server_do(f->server, "PEXPIRE " SCORES " 100000");
    assert_code(actor_do(waiter, act_unlock, locks[1], 0, NULL), 0);
    assert_int_equal(left_of(f, QUEUE), -1);
    assert_int_equal(left_of(f, SCORES), -1);
    peer_leaves(f, "J:1", SLOT_MS);
    close(fd);
}

/* Redisson allows a wait of 292 million years. */
HALL_TEST(a_wait_without_an_end_leaves_keys_with_one, f)
{
    struct rlock_handle *locks[] = {lock_new(f, client_open(f)), lock_new(f, client_open(f))};
    struct actor *waiter = actor_open(f);

    assert_code(TAKE(locks[0], 0, .lease_ms = 30000), 0);
    assert_true(peer_queues(f, "J:1", 9000000000000000LL));
    hall_line_up(f, &waiter, &locks[1], 1, act_take, RLOCK_FOREVER, NULL);
    assert_in_range(left_of(f, QUEUE), 86000000, 2 * 86400000);
    assert_in_range(left_of(f, SCORES), 86000000, 2 * 86400000);
    peer_leaves(f, "J:1", 0);
    assert_code(rlock_unlock(locks[0]), 0);
    assert_code(actor_end(waiter), 0);
    assert_code(actor_do(waiter, act_unlock, locks[1], 0, NULL), 0);
}

HALL_TEST(force_takes_the_dead_out_of_a_free_locks_queue, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_info info = RLOCK_INFO_INIT;
    bool was_locked = true;

    queue_ghosts(f, 130);
    test_server_do(f->server, "HSET " NOTES " @ head");
    assert_code(rlock_inspect(lock, &info), 0);
    assert_false(info.locked);
    assert_int_equal(info.waiters, 130);
    assert_int_equal(info.dead_waiters, 130);
    assert_code(rlock_force_unlock(lock, &was_locked), 0);
    assert_false(was_locked);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
    assert_code(rlock_force_unlock(lock, &was_locked), 0); /* again: nothing to do */
}

HALL_TEST(force_leaves_the_living_in_a_free_locks_queue, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_info info = RLOCK_INFO_INIT;
    int fd = peer_listens(f, "J:1");

    queue_ghosts(f, 2);
    test_server_do(f->server, "RPUSH " QUEUE " J:1");
    test_server_do(f->server, "ZADD " SCORES " 1 J:1");
    assert_code(rlock_inspect(lock, &info), 0);
    assert_int_equal(info.waiters, 3);
    assert_int_equal(info.dead_waiters, 2);
    assert_code(rlock_force_unlock(lock, NULL), 0);
    assert_true(test_server_says(f->server, "J:1", "LRANGE " QUEUE " 0 -1"));
    assert_int_equal(test_server_int(f->server, "ZCARD " SCORES), 1);
    assert_true(hall_score(f, "J:1") > hall_clock(f));
    assert_int_equal(left_of(f, QUEUE), -1);
    peer_hears(fd, "J:1");
    peer_leaves(f, "J:1", SLOT_MS);
    close(fd);
}

/* Who holds the lock is not opened for a queue's sake, and what is somebody else's stays. */
HALL_TEST(force_of_a_queue_touches_nothing_else, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    test_server_do(f->server, "SET " SCORES " text");
    test_server_do(f->server, "RPUSH " QUEUE " " GHOST ":1");
    assert_code(rlock_force_unlock(lock, NULL), 0);
    assert_true(test_server_says(f->server, "text", "GET " SCORES));
    assert_int_equal(left_of(f, SCORES), -1);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 1);
    test_server_do(f->server, "DEL " SCORES);
}

struct seen {
    int n;
    char key[64];
    struct rlock_info info;
};

static int see(const struct rlock_found *found, void *payload)
{
    struct seen *seen = payload;

    seen->n++;
    seen->info = *found->info;
    test_text(seen->key, sizeof(seen->key), "%.*s", (int)found->key_len, found->key);
    return 0;
}

HALL_TEST(a_scan_finds_the_queue_of_a_free_lock, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct seen seen = {0};

    queue_ghosts(f, 2);
    assert_code(rlock_admin_scan(client, NULL, see, &seen), 0);
    assert_int_equal(seen.n, 1);
    assert_string_equal(seen.key, NAME);
    assert_false(seen.info.locked);
    assert_int_equal(seen.info.waiters, 2);
    assert_int_equal(seen.info.dead_waiters, 2);
    seen.n = 0;
    assert_code(rlock_admin_scan(client, "other*", see, &seen), 0);
    assert_int_equal(seen.n, 0);
    test_server_do(f->server, "HSET " NAME " " GHOST ":7 1");
    assert_code(rlock_admin_scan(client, NULL, see, &seen), 0);
    assert_int_equal(seen.n, 1); /* it is held: the hash is what is found */
    assert_true(seen.info.locked);
    test_server_do(f->server, "DEL " NAME);
    assert_code(rlock_force_unlock(lock, NULL), 0);
    test_server_do(f->server, "RPUSH redisson_lock_queue:a{b}c " GHOST ":1"); /* its own tag */
    seen.n = 0;
    assert_code(rlock_admin_scan(client, NULL, see, &seen), 0);
    assert_int_equal(seen.n, 1);
    assert_string_equal(seen.key, "a{b}c");
    test_server_do(f->server, "DEL redisson_lock_queue:a{b}c");
}
