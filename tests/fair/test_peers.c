/* SPDX-License-Identifier: Apache-2.0 */
/* Together with Redisson: its waiters and holders in one queue with ours. */
#include <unistd.h>

#include "fair/hall.h"
#include "support/raw.h"

#define assert_near(value, expected, ms) assert_in_range((value) - (expected) + (ms), 0, 2 * (ms))

/* Two waiters of ours. */
struct pair {
    struct rlock_client *clients[2];
    struct rlock_handle *locks[2];
    struct actor *actors[2];
};

static void meet_with(struct fixture *f, struct pair *pair, const struct rlock_opts *opts)
{
    for (size_t i = 0; i < 2; i++) {
        pair->clients[i] = client_open(f);
        pair->locks[i] = lock_with(f, pair->clients[i], NAME, opts);
        pair->actors[i] = actor_open(f);
    }
}

static void meet(struct fixture *f, struct pair *pair)
{
    meet_with(f, pair, NULL);
}

static void begin(struct fixture *f, struct pair *pair, size_t i)
{
    hall_line_up(f, pair->actors + i, pair->locks + i, 1, act_take, RLOCK_FOREVER, NULL);
}

static void end(struct pair *pair, size_t i)
{
    assert_code(actor_end(pair->actors[i]), 0);
    assert_code(actor_do(pair->actors[i], act_unlock, pair->locks[i], 0, NULL), 0);
}

/* A peer adds what it waits for to the last one's score, and takes that along from all when it is
 * let in; ours count a slot, and one for each peer in front. */
HALL_TEST(peers_and_we_share_a_queue, f)
{
    struct pair pair;
    struct hall_queue queue;
    long long first, last;
    int fd;

    meet(f, &pair);
    assert_true(peer_takes(f, "H:1", 30000, SLOT_MS));
    begin(f, &pair, 0);
    assert_true(peer_queues(f, "J:1", 200000));
    fd = peer_listens(f, "J:1");
    begin(f, &pair, 1);
    hall_queue(f, &queue);
    first = hall_score(f, queue.owners[0]);
    assert_int_equal(hall_score(f, "J:1"), first + 200000);
    assert_near(hall_score(f, queue.owners[2]), first + SLOT_MS, 1000);

    assert_true(peer_releases(f, "H:1"));
    assert_code(actor_end(pair.actors[0]), 0);
    assert_int_equal(hall_score(f, "J:1"), first + 200000);
    last = hall_score(f, queue.owners[2]);
    assert_false(peer_takes(f, "J:1", 30000, 200000));
    assert_code(actor_do(pair.actors[0], act_unlock, pair.locks[0], 0, NULL), 0);
    peer_hears(fd, "J:1");
    assert_true(peer_takes(f, "J:1", 30000, 200000));
    assert_int_equal(hall_score(f, queue.owners[2]), last - 200000);
    assert_true(actor_is_busy(pair.actors[1]));
    assert_true(peer_releases(f, "J:1"));
    end(&pair, 1);
    close(fd);
}

/* Trace 8: one that added 10 ms takes 10 s along; and the asynchronous one even 300 s. The next
 * look makes good for it. */
HALL_TEST(a_peer_that_takes_too_much_along_does_no_harm, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_with(f, client, NAME, RLOCK_OPTS(.fair_slot_ms = 3000));
    struct actor *actor = actor_open(f);
    struct hall_queue queue;
    long long before;

    assert_true(peer_takes(f, "H:1", 60000, SLOT_MS));
    assert_true(peer_queues(f, "J:1", 10));
    hall_line_up(f, &actor, &lock, 1, act_take, RLOCK_FOREVER, NULL);
    hall_queue(f, &queue);
    before = hall_score(f, queue.owners[1]);
    peer_leaves(f, "J:1", SLOT_MS);
    assert_true(hall_score(f, queue.owners[1]) < hall_clock(f));
    assert_true(TEST_EVENTUALLY(hall_score(f, queue.owners[1]) > before - 3100, 3000));
    assert_true(hall_score(f, queue.owners[1]) <= hall_clock(f) + 60000 + 3000);
    assert_int_equal(hall_queued(f), 1);
    assert_true(peer_releases(f, "H:1"));
    assert_code(actor_end(actor), 0);
    assert_code(actor_do(actor, act_unlock, lock, 0, NULL), 0);
}

HALL_TEST(our_give_up_changes_no_peers_score, f)
{
    struct pair pair;
    long long before;

    meet(f, &pair);
    assert_true(peer_takes(f, "H:1", 30000, SLOT_MS));
    actor_begin(pair.actors[0], act_take, pair.locks[0], 300, NULL);
    hall_await_queued(f, 1);
    assert_true(peer_queues(f, "J:1", SLOT_MS));
    before = hall_score(f, "J:1");
    assert_code(actor_end(pair.actors[0]), RLOCK_ETIMEDOUT);
    hall_await_queued(f, 1);
    assert_int_equal(hall_score(f, "J:1"), before);
    peer_leaves(f, "J:1", SLOT_MS);
    assert_true(peer_releases(f, "H:1"));
}

/* A release of ours is heard by a peer at the head, and one of a peer by us: within a moment. */
HALL_TEST(releases_are_heard_both_ways, f)
{
    struct pair pair;
    int64_t released_us;
    int fd;

    meet(f, &pair);
    assert_code(rlock_lock(pair.locks[0]), 0);
    assert_true(peer_queues(f, "J:1", SLOT_MS));
    fd = peer_listens(f, "J:1");
    begin(f, &pair, 1);
    assert_code(rlock_unlock(pair.locks[0]), 0);
    peer_hears(fd, "J:1");
    assert_true(peer_takes(f, "J:1", 30000, SLOT_MS));
    released_us = test_now_us();
    assert_true(peer_releases(f, "J:1"));
    assert_code(actor_end(pair.actors[1]), 0);
    assert_took(actor_ended_us(pair.actors[1]) - released_us, 0, 500);
    assert_code(actor_do(pair.actors[1], act_unlock, pair.locks[1], 0, NULL), 0);
    close(fd);
}

/* The process of the head was killed: nobody hears it. */
HALL_TEST(a_dead_peer_is_passed_over, f)
{
    struct pair pair;
    int64_t unlocked_us;
    int patterns = raw_dial(test_server_unix_url(f->server));

    meet(f, &pair);
    raw_say(patterns, "PSUBSCRIBE *\r\n"); /* that hears all is no sign of life */
    assert_code(rlock_lock(pair.locks[0]), 0);
    for (int i = 0; i < 15; i++) {
        char owner[16];

        test_text(owner, sizeof(owner), "J:%d", i);
        assert_true(peer_queues(f, owner, SLOT_MS));
    }
    begin(f, &pair, 1);
    unlocked_us = test_now_us();
    assert_code(rlock_unlock(pair.locks[0]), 0);
    assert_code(actor_end(pair.actors[1]), 0);
    assert_took(actor_ended_us(pair.actors[1]) - unlocked_us, 900, 2000);
    assert_int_equal(hall_queued(f), 0);
    assert_code(actor_do(pair.actors[1], act_unlock, pair.locks[1], 0, NULL), 0);
    close(patterns);
}

/* It is heard, as far as the server knows, but does not come. */
HALL_TEST(a_silent_peer_is_passed_over, f)
{
    struct pair pair;
    int64_t unlocked_us;
    int fd;

    meet(f, &pair);
    assert_code(rlock_lock(pair.locks[0]), 0);
    assert_true(peer_queues(f, "J:1", SLOT_MS));
    fd = peer_listens(f, "J:1");
    begin(f, &pair, 1);
    unlocked_us = test_now_us();
    assert_code(rlock_unlock(pair.locks[0]), 0);
    assert_code(actor_end(pair.actors[1]), 0);
    assert_took(actor_ended_us(pair.actors[1]) - unlocked_us, 2900, 5000 + 5000);
    assert_int_equal(hall_queued(f), 0);
    assert_code(actor_do(pair.actors[1], act_unlock, pair.locks[1], 0, NULL), 0);
    close(fd);
}

/* Nobody of ours saw the release: each looks for itself, here every second. */
HALL_TEST(a_dead_peer_is_passed_over_after_a_peers_release, f)
{
    struct rlock_handle *lock =
        lock_with(f, client_open(f), NAME, RLOCK_OPTS(.fair_slot_ms = 3000));
    struct actor *actor = actor_open(f);
    int64_t released_us;

    assert_true(peer_takes(f, "H:1", 30000, SLOT_MS));
    assert_true(peer_queues(f, "J:1", SLOT_MS));
    hall_line_up(f, &actor, &lock, 1, act_take, RLOCK_FOREVER, NULL);
    assert_true(peer_releases(f, "H:1"));
    released_us = test_now_us();
    assert_code(actor_end(actor), 0);
    assert_took(actor_ended_us(actor) - released_us, 900, 1000 + 1000 + 500);
    assert_code(actor_do(actor, act_unlock, lock, 0, NULL), 0);
}

/* It hears, and comes late, but in time. */
HALL_TEST(a_slow_peer_keeps_its_turn, f)
{
    struct pair pair;
    int64_t unlocked_us;
    int fd;

    meet(f, &pair);
    assert_code(rlock_lock(pair.locks[0]), 0);
    assert_true(peer_queues(f, "J:1", SLOT_MS));
    fd = peer_listens(f, "J:1");
    begin(f, &pair, 1);
    unlocked_us = test_now_us();
    assert_code(rlock_unlock(pair.locks[0]), 0);
    assert_true(STAYS(actor_is_busy(pair.actors[1]), 2500 - test_elapsed_us(unlocked_us) / 1000));
    assert_true(peer_takes(f, "J:1", 30000, SLOT_MS));
    assert_true(peer_releases(f, "J:1"));
    end(&pair, 1);
    close(fd);
}

/* Redisson's polls here some ten thousand times a second. */
HALL_TEST(nobody_polls_while_another_is_the_head, f)
{
    struct pair pair;
    long long calls;
    int fd;

    meet_with(f, &pair, RLOCK_OPTS(.fair_slot_ms = 3000)); /* look every second, until it is free */
    assert_true(peer_takes(f, "H:1", 30000, 3000));
    assert_true(peer_queues(f, "J:1", 3000));
    fd = peer_listens(f, "J:1");
    begin(f, &pair, 0);
    begin(f, &pair, 1);
    test_server_do(f->server, "DEL " NAME);
    fixture_count_calls(f);
    assert_true(STAYS(actor_is_busy(pair.actors[0]), 2500));
    calls = fixture_calls(f, "evalsha") + fixture_calls(f, "eval");
    assert_in_range(calls, 4, 12);
    peer_leaves(f, "J:1", 3000);
    end(&pair, 0);
    end(&pair, 1);
    close(fd);
}

/* A lease that nobody renews or gives up ends for peers and for us. */
HALL_TEST(expiry_advances_a_mixed_queue, f)
{
    struct pair pair;
    int64_t began_us = test_now_us();

    meet(f, &pair);
    assert_true(peer_takes(f, "H:1", 300, SLOT_MS));
    begin(f, &pair, 0);
    begin(f, &pair, 1);
    end(&pair, 0);
    assert_took(test_elapsed_us(began_us), 290, 800);
    end(&pair, 1);
}
