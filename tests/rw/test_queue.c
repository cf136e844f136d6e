/* SPDX-License-Identifier: Apache-2.0 */
/* Writers stand in the lock's queue on the server, and readers have turns between them. */
#include <stdatomic.h>

#include "rw/peer.h"
#include "rw/room.h"

#define QUEUE "rlock_wait:{" NAME "}"

/* Waits until so many calls stand in the queue. Marks do not count. */
static void await_entries(struct fixture *f, long long n)
{
    assert_true(TEST_EVENTUALLY(
        test_server_int(f->server,
                        "EVAL \"return redis.call('zcard', KEYS[1]) - "
                        "(redis.call('zscore', KEYS[1], '~z') and 1 or 0)\" 1 " QUEUE) == n,
        5000));
}

/* How many hear the lock's channel, or one beside it. */
static long long count_hearers(struct fixture *f, const char *which)
{
    return test_server_int(
        f->server, "EVAL \"return redis.call('pubsub', 'numsub', ARGV[1])[2]\" 0 " CHANNEL "%s",
        which);
}

/* Whether the lock is this client's when the release has returned. One release in 32 frees it. */
static bool is_given_to(struct fixture *f, const struct rlock_client *client)
{
    return strstr(room_hash(f), rlock_client_uuid(client)) != NULL;
}

/* Of eight releases, at least four must have given the lock. */
#define assert_mostly_given(n) assert_in_range(n, 4, 8)

ROOM_TEST(a_release_gives_the_lock_to_the_next_writer, f)
{
    struct rlock_client *a = client_open(f), *b = client_open(f);
    struct rlock_handle *held = rival_new(f, a), *wanted = rival_new(f, b);
    struct actor *actor = actor_open(f);
    int given = 0;

    for (int i = 0; i < 8; i++) {
        assert_code(rlock_lock(held), 0);
        actor_begin(actor, act_take, wanted, RLOCK_FOREVER, NULL);
        await_entries(f, 1);
        assert_code(rlock_unlock(held), 0);
        given += is_given_to(f, b);
        assert_code(actor_end(actor), 0);
        assert_code(actor_do(actor, act_unlock, wanted, 0, NULL), 0);
    }
    assert_mostly_given(given);
}

ROOM_TEST(the_last_reader_gives_the_lock_to_the_next_writer, f)
{
    struct rlock_client *a = client_open(f), *b = client_open(f), *c = client_open(f);
    struct rlock_handle *first = lock_new(f, a), *last = lock_new(f, b), *wanted = rival_new(f, c);
    struct actor *actor = actor_open(f);
    long long scripts = 0;

    for (int i = 0; i < 8; i++) {
        struct inside inside[2];

        assert_code(rlock_lock(first), 0);
        inside[0] = room_enter(first);
        assert_code(rlock_lock(last), 0);
        inside[1] = room_enter(last);
        actor_begin(actor, act_visit, wanted, RLOCK_FOREVER, NULL);
        await_entries(f, 1);
        room_leave(inside[0]);
        assert_code(rlock_unlock(first), 0);
        assert_false(is_given_to(f, c));
        room_leave(inside[1]);
        fixture_count_calls(f);
        assert_code(rlock_unlock(last), 0);
        assert_code(actor_end(actor), 0);
        scripts += fixture_calls(f, "evalsha") + fixture_calls(f, "eval");
    }
    /* two releases each; at one in 32 the writer has to ask */
    assert_in_range(scripts, 2 * 8, 2 * 8 + 4);
}

/* Redisson announces its releases on the common channel alone. */
ROOM_TEST(a_writer_in_the_queue_hears_readers_of_redisson, f)
{
    struct rlock_handle *read = lock_new(f, client_open(f)), *write = rival_new(f, client_open(f));
    struct actor *actor = actor_open(f);
    int64_t since_us;

    assert_code(rlock_lock(read), 0);
    actor_begin(actor, act_visit, write, RLOCK_FOREVER, NULL);
    await_entries(f, 1);
    assert_true(TEST_EVENTUALLY(count_hearers(f, "") == 1, 5000));
    peer_says(f, "", peer_read, "J:1", 20000);
    assert_code(rlock_unlock(read), 0);
    assert_true(STAYS(actor_is_busy(actor), 50));
    since_us = test_now_us();
    peer_says(f, "1", peer_read_release, "J:1", 0);
    assert_code(actor_end(actor), 0);
    assert_took(actor_ended_us(actor) - since_us, 0, LATE_MS);
}

/* While the lock was a writer's of ours, the call in the queue had no need to hear readers. */
ROOM_TEST(a_writer_in_the_queue_is_told_of_a_downgrade, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *read = lock_new(f, client), *write = rival_new(f, client);
    struct rlock_handle *wanted = rival_new(f, client_open(f));
    struct actor *actor = actor_open(f);
    int64_t since_us;

    assert_code(rlock_lock(write), 0);
    assert_code(rlock_lock(read), 0);
    actor_begin(actor, act_visit, wanted, RLOCK_FOREVER, NULL);
    await_entries(f, 1);
    assert_code(rlock_unlock(write), 0);
    assert_true(TEST_EVENTUALLY(count_hearers(f, "") == 1, LATE_MS));
    peer_says(f, "", peer_read, "J:1", 20000);
    assert_code(rlock_unlock(read), 0);
    since_us = test_now_us();
    peer_says(f, "1", peer_read_release, "J:1", 0);
    assert_code(actor_end(actor), 0);
    assert_took(actor_ended_us(actor) - since_us, 0, LATE_MS);
}

static atomic_size_t readers_before;

/* Notes how many readers have been in the room. */
static int act_look_round(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    int code = rlock_lock_for(lock, wait_ms, take, NULL);

    atomic_store(&readers_before, room_visits(false));
    return code != 0 ? code : rlock_unlock(lock);
}

enum { READERS = 3 };

/* While one writer has the lock and the next one stands in the queue, readers begin to wait, by one
 * handle each. They have their turn before a writer that comes once the next one has the lock. */
static void readers_have_a_turn(struct fixture *f, struct rlock_handle *const *handles, size_t n)
{
    struct rlock_handle *held = rival_new(f, client_open(f)), *next = rival_new(f, client_open(f));
    struct rlock_handle *later = rival_new(f, client_open(f));
    struct actor *writer = actor_open(f), *last = actor_open(f), *readers[READERS];

    assert_code(rlock_lock(held), 0);
    actor_begin(writer, act_take, next, RLOCK_FOREVER, NULL);
    await_entries(f, 1);
    room_expect_readers(n);
    for (size_t i = 0; i < n; i++) {
        readers[i] = actor_open(f);
        actor_begin(readers[i], act_visit_with_all, handles[i], RLOCK_FOREVER, NULL);
    }
    assert_true(TEST_EVENTUALLY(count_hearers(f, "") == (long long)n, 5000));
    assert_true(TEST_EVENTUALLY(count_hearers(f, ":readers") == (long long)n, 5000));
    assert_code(rlock_unlock(held), 0);
    assert_code(actor_end(writer), 0);
    actor_begin(last, act_look_round, later, RLOCK_FOREVER, NULL);
    await_entries(f, 1);
    assert_code(actor_do(writer, act_unlock, next, 0, NULL), 0);
    for (size_t i = 0; i < n; i++) {
        assert_code(actor_end(readers[i]), 0);
    }
    assert_code(actor_end(last), 0);
    assert_int_equal(atomic_load(&readers_before), n);
}

ROOM_TEST(readers_that_wait_have_one_turn_together, f)
{
    struct rlock_handle *handles[READERS];

    for (size_t i = 0; i < READERS; i++) {
        handles[i] = lock_new(f, client_open(f));
    }
    readers_have_a_turn(f, handles, READERS);
}

/* Its writer heard the common channel a moment ago, and still subscribes to it. */
ROOM_TEST(readers_of_a_client_that_wrote_have_a_turn, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *read = lock_new(f, client), *write = rival_new(f, client);
    struct rlock_handle *other = lock_new(f, client_open(f));
    struct actor *actor = actor_open(f);

    assert_code(rlock_lock(other), 0);
    actor_begin(actor, act_take, write, RLOCK_FOREVER, NULL);
    assert_true(TEST_EVENTUALLY(count_hearers(f, ":rlock") == 1, 5000));
    assert_code(rlock_unlock(other), 0);
    assert_code(actor_end(actor), 0);
    assert_code(actor_do(actor, act_unlock, write, 0, NULL), 0);
    readers_have_a_turn(f, &read, 1);
}

ROOM_TEST(a_reader_visits_between_many_writers, f)
{
    enum { WRITERS = 4, VISITS = 20 };
    struct rlock_handle *read = lock_new(f, client_open(f));
    struct actor *reader = actor_open(f), *writers[WRITERS];

    for (int i = 0; i < WRITERS; i++) {
        writers[i] = actor_open(f);
        actor_begin(writers[i], act_keep_visiting, rival_new(f, client_open(f)), RLOCK_FOREVER,
                    NULL);
    }
    assert_true(TEST_EVENTUALLY(room_visits(true) > WRITERS, 5000));
    for (int i = 0; i < VISITS; i++) {
        const int64_t since_us = test_now_us();

        assert_code(actor_do(reader, act_visit, read, RLOCK_FOREVER, NULL), 0);
        assert_in_time(since_us, LATE_MS * 1000);
    }
    room_stop_visits();
    for (int i = 0; i < WRITERS; i++) {
        assert_code(actor_end(writers[i]), 0);
    }
}

ROOM_TEST(readers_stand_back_no_more_for_a_writer_that_was_given_the_lock, f)
{
    const struct rlock_opts *opts = RLOCK_OPTS(.flags = RLOCK_LOCK_PREFER_WRITERS);
    struct rlock_handle *held = rival_new(f, client_open(f)), *wanted = NULL;
    struct actor *actor = actor_open(f);

    assert_code(rlock_write_new(client_open(f), NAME, opts, &wanted), 0);
    assert_code(rlock_lock(held), 0);
    actor_begin(actor, act_take, wanted, RLOCK_FOREVER, NULL);
    await_entries(f, 1);
    assert_int_equal(test_server_int(f->server, "EXISTS " ASKS), 1);
    assert_code(rlock_unlock(held), 0);
    assert_code(actor_end(actor), 0);
    assert_int_equal(test_server_int(f->server, "EXISTS " ASKS), 0);
    assert_code(actor_do(actor, act_unlock, wanted, 0, NULL), 0);
    (void)rlock_free(wanted);
}

/* Two preferred writers stand in the queue, and the turn of a reader comes between them. The latest
 * request is the first one's, which now gets the lock. */
static void a_reader_stands_back(struct fixture *f, bool by_force)
{
    const struct rlock_opts *opts = RLOCK_OPTS(.flags = RLOCK_LOCK_PREFER_WRITERS);
    struct rlock_client *client = client_open(f);
    struct rlock_handle *held = rival_new(f, client_open(f)), *next = rival_new(f, client_open(f));
    struct rlock_handle *read = lock_with(f, client_open(f), NAME, opts), *wanted[2] = {NULL};
    struct actor *writers[3] = {actor_open(f), actor_open(f), actor_open(f)};
    struct actor *reader = actor_open(f);
    char owner[80];

    test_text(owner, sizeof(owner), "%s:write", room_owner(client, 1));
    assert_code(rlock_write_new(client, NAME, opts, &wanted[0]), 0);
    assert_code(rlock_write_new(client_open(f), NAME, opts, &wanted[1]), 0);
    assert_code(rlock_lock(held), 0);
    actor_begin(writers[0], act_take, next, RLOCK_FOREVER, NULL);
    await_entries(f, 1);
    actor_begin(writers[1], act_take, wanted[0], RLOCK_FOREVER, NULL);
    await_entries(f, 2);
    actor_begin(reader, act_visit, read, RLOCK_FOREVER, NULL);
    assert_true(TEST_EVENTUALLY(count_hearers(f, ":readers") == 1, 5000));
    assert_code(rlock_unlock(held), 0);
    assert_code(actor_end(writers[0]), 0);
    actor_begin(writers[2], act_look_round, wanted[1], RLOCK_FOREVER, NULL);
    await_entries(f, 2);
    assert_true(TEST_EVENTUALLY(test_server_says(f->server, owner, "GET " ASKS), 5000));
    if (by_force) {
        assert_code(rlock_force_unlock(held, NULL), 0);
    } else {
        assert_code(actor_do(writers[0], act_unlock, next, 0, NULL), 0);
    }
    assert_code(actor_end(writers[1]), 0);
    assert_code(actor_do(writers[1], act_unlock, wanted[0], 0, NULL), 0);
    assert_code(actor_end(writers[2]), 0);
    assert_int_equal(atomic_load(&readers_before), 0);
    assert_code(actor_end(reader), 0);
    if (by_force) {
        assert_code(actor_do(writers[0], act_unlock, next, 0, NULL), RLOCK_ELOST);
        (void)expect_loss(f, RLOCK_LOST_DELETED);
    }
    (void)rlock_free(wanted[0]);
    (void)rlock_free(wanted[1]);
}

/* The release gives the lock to the first one. */
ROOM_TEST(a_reader_stands_back_for_a_writer_behind_the_one_that_is_given_the_lock, f)
{
    a_reader_stands_back(f, false);
}

/* The first one asks. */
ROOM_TEST(a_reader_stands_back_for_a_writer_behind_the_one_that_takes_the_lock, f)
{
    a_reader_stands_back(f, true);
}

ROOM_TEST(a_writer_that_gives_up_leaves_the_queue, f)
{
    struct rlock_handle *held = rival_new(f, client_open(f)),
                        *wanted = rival_new(f, client_open(f));
    struct rlock_handle *other = rival_new(f, client_open(f));
    struct actor *first = actor_open(f), *second = actor_open(f);
    int64_t since_us;

    assert_code(rlock_lock(held), 0);
    actor_begin(first, act_take, wanted, test_ms(300), NULL);
    await_entries(f, 1);
    actor_begin(second, act_visit, other, RLOCK_FOREVER, NULL);
    assert_code(actor_end(first), RLOCK_ETIMEDOUT);
    await_entries(f, 1);
    since_us = test_now_us();
    assert_code(rlock_unlock(held), 0);
    assert_code(actor_end(second), 0);
    assert_took(actor_ended_us(second) - since_us, 0, LATE_MS);
}

/* Nobody of theirs hears the common channel. */
ROOM_TEST(a_forced_lock_goes_to_the_writer_in_the_queue, f)
{
    struct rlock_handle *held = rival_new(f, client_open(f)),
                        *wanted = rival_new(f, client_open(f));
    struct rlock_handle *judge = rival_new(f, client_open(f));
    struct actor *actor = actor_open(f);
    int64_t since_us;

    assert_code(rlock_lock(held), 0);
    actor_begin(actor, act_take, wanted, RLOCK_FOREVER, NULL);
    await_entries(f, 1);
    since_us = test_now_us();
    assert_code(rlock_force_unlock(judge, NULL), 0);
    assert_code(actor_end(actor), 0);
    assert_took(actor_ended_us(actor) - since_us, 0, LATE_MS);
    assert_code(rlock_unlock(held), RLOCK_ELOST);
    (void)expect_loss(f, RLOCK_LOST_TAKEN);
    assert_code(actor_do(actor, act_unlock, wanted, 0, NULL), 0);
}
