/* SPDX-License-Identifier: Apache-2.0 */
/* Together with Redisson: its waiters and holders in one queue with ours. */
#include <unistd.h>

#include "fair/hall.h"
#include "support/raw.h"

#define assert_near(value, expected, ms) assert_in_range((value) - (expected) + (ms), 0, 2 * (ms))

/* Two waiters of ours. */
struct pair {
    struct rlock_client *clients[2];
    struct rlock *locks[2];
    struct actor *actors[2];
};

static void meet_with(struct world *w, struct pair *pair, const struct rlock_opts *opts)
{
    for (size_t i = 0; i < 2; i++) {
        pair->clients[i] = conf_client(w);
        pair->locks[i] = conf_lock_with(w, pair->clients[i], NAME, opts);
        pair->actors[i] = conf_actor(w);
    }
}

static void meet(struct world *w, struct pair *pair)
{
    meet_with(w, pair, NULL);
}

static const struct rlock_take for_ever = {.size = sizeof(for_ever), .wait_ms = RLOCK_FOREVER};

static void begin(struct world *w, struct pair *pair, size_t i)
{
    hall_line_up(w, pair->actors + i, pair->locks + i, 1, act_take, &for_ever);
}

static void end(struct pair *pair, size_t i)
{
    assert_code(actor_end(pair->actors[i]), 0);
    assert_code(actor_do(pair->actors[i], act_unlock, pair->locks[i], NULL), 0);
}

/* A peer adds what it waits for to the last one's score, and takes that along from all when it is
 * let in; ours count a slot, and one for each peer in front. */
HALL_TEST(peers_and_we_share_a_queue, w)
{
    struct pair pair;
    struct hall_queue queue;
    long long first, last;
    int fd;

    meet(w, &pair);
    assert_true(peer_takes(w, "H:1", 30000, SLOT_MS));
    begin(w, &pair, 0);
    assert_true(peer_queues(w, "J:1", 200000));
    fd = peer_listens(w, "J:1");
    begin(w, &pair, 1);
    hall_queue(w, &queue);
    first = hall_score(w, queue.owners[0]);
    assert_int_equal(hall_score(w, "J:1"), first + 200000);
    assert_near(hall_score(w, queue.owners[2]), first + SLOT_MS, 1000);

    assert_true(peer_releases(w, "H:1"));
    assert_code(actor_end(pair.actors[0]), 0);
    assert_int_equal(hall_score(w, "J:1"), first + 200000);
    last = hall_score(w, queue.owners[2]);
    assert_false(peer_takes(w, "J:1", 30000, 200000));
    assert_code(actor_do(pair.actors[0], act_unlock, pair.locks[0], NULL), 0);
    peer_hears(fd, "J:1");
    assert_true(peer_takes(w, "J:1", 30000, 200000));
    assert_int_equal(hall_score(w, queue.owners[2]), last - 200000);
    assert_true(actor_is_busy(pair.actors[1]));
    assert_true(peer_releases(w, "J:1"));
    end(&pair, 1);
    close(fd);
}

/* Trace 8: one that added 10 ms takes 10 s along; and the asynchronous one even 300 s. The next
 * look makes good for it. */
HALL_TEST(a_peer_that_takes_too_much_along_does_no_harm, w)
{
    struct rlock_client *client = conf_client(w);
    struct rlock *lock = conf_lock_with(w, client, NAME, &RLOCK_OPTS(.fair_slot_ms = 3000));
    struct actor *actor = conf_actor(w);
    struct hall_queue queue;
    long long before;

    assert_true(peer_takes(w, "H:1", 60000, SLOT_MS));
    assert_true(peer_queues(w, "J:1", 10));
    hall_line_up(w, &actor, &lock, 1, act_take, &for_ever);
    hall_queue(w, &queue);
    before = hall_score(w, queue.owners[1]);
    peer_leaves(w, "J:1", SLOT_MS);
    assert_true(hall_score(w, queue.owners[1]) < hall_clock(w));
    assert_true(TEST_EVENTUALLY(hall_score(w, queue.owners[1]) > before - 3100, 3000));
    assert_true(hall_score(w, queue.owners[1]) <= hall_clock(w) + 60000 + 3000);
    assert_int_equal(hall_queued(w), 1);
    assert_true(peer_releases(w, "H:1"));
    assert_code(actor_end(actor), 0);
    assert_code(actor_do(actor, act_unlock, lock, NULL), 0);
}

HALL_TEST(our_give_up_changes_no_peers_score, w)
{
    struct pair pair;
    long long before;

    meet(w, &pair);
    assert_true(peer_takes(w, "H:1", 30000, SLOT_MS));
    actor_begin(pair.actors[0], act_take, pair.locks[0], RLOCK_TAKE(.wait_ms = 300));
    hall_await_queued(w, 1);
    assert_true(peer_queues(w, "J:1", SLOT_MS));
    before = hall_score(w, "J:1");
    assert_code(actor_end(pair.actors[0]), RLOCK_ETIMEDOUT);
    hall_await_queued(w, 1);
    assert_int_equal(hall_score(w, "J:1"), before);
    peer_leaves(w, "J:1", SLOT_MS);
    assert_true(peer_releases(w, "H:1"));
}

/* A release of ours is heard by a peer at the head, and one of a peer by us: within a moment. */
HALL_TEST(releases_are_heard_both_ways, w)
{
    struct pair pair;
    int64_t released_us;
    int fd;

    meet(w, &pair);
    assert_code(rlock_lock(pair.locks[0]), 0);
    assert_true(peer_queues(w, "J:1", SLOT_MS));
    fd = peer_listens(w, "J:1");
    begin(w, &pair, 1);
    assert_code(rlock_unlock(pair.locks[0]), 0);
    peer_hears(fd, "J:1");
    assert_true(peer_takes(w, "J:1", 30000, SLOT_MS));
    released_us = test_now_us();
    assert_true(peer_releases(w, "J:1"));
    assert_code(actor_end(pair.actors[1]), 0);
    assert_took(actor_ended_us(pair.actors[1]) - released_us, 0, 500);
    assert_code(actor_do(pair.actors[1], act_unlock, pair.locks[1], NULL), 0);
    close(fd);
}

/* The process of the head was killed: nobody hears it. */
HALL_TEST(a_dead_peer_is_passed_over, w)
{
    struct pair pair;
    int64_t unlocked_us;
    int patterns = raw_dial(test_server_unix_url(conf_server(w)));

    meet(w, &pair);
    raw_say(patterns, "PSUBSCRIBE *\r\n"); /* that hears all is no sign of life */
    assert_code(rlock_lock(pair.locks[0]), 0);
    for (int i = 0; i < 15; i++) {
        char owner[16];

        test_text(owner, sizeof(owner), "J:%d", i);
        assert_true(peer_queues(w, owner, SLOT_MS));
    }
    begin(w, &pair, 1);
    unlocked_us = test_now_us();
    assert_code(rlock_unlock(pair.locks[0]), 0);
    assert_code(actor_end(pair.actors[1]), 0);
    assert_took(actor_ended_us(pair.actors[1]) - unlocked_us, 900, 2000);
    assert_int_equal(hall_queued(w), 0);
    assert_code(actor_do(pair.actors[1], act_unlock, pair.locks[1], NULL), 0);
    close(patterns);
}

/* It is heard, as far as the server knows, but does not come. */
HALL_TEST(a_silent_peer_is_passed_over, w)
{
    struct pair pair;
    int64_t unlocked_us;
    int fd;

    meet(w, &pair);
    assert_code(rlock_lock(pair.locks[0]), 0);
    assert_true(peer_queues(w, "J:1", SLOT_MS));
    fd = peer_listens(w, "J:1");
    begin(w, &pair, 1);
    unlocked_us = test_now_us();
    assert_code(rlock_unlock(pair.locks[0]), 0);
    assert_code(actor_end(pair.actors[1]), 0);
    assert_took(actor_ended_us(pair.actors[1]) - unlocked_us, 2900, 5000 + 5000);
    assert_int_equal(hall_queued(w), 0);
    assert_code(actor_do(pair.actors[1], act_unlock, pair.locks[1], NULL), 0);
    close(fd);
}

/* Nobody of ours saw the release: each looks for itself, here every second. */
HALL_TEST(a_dead_peer_is_passed_over_after_a_peers_release, w)
{
    struct rlock *lock = conf_lock_with(w, conf_client(w), NAME, &RLOCK_OPTS(.fair_slot_ms = 3000));
    struct actor *actor = conf_actor(w);
    int64_t released_us;

    assert_true(peer_takes(w, "H:1", 30000, SLOT_MS));
    assert_true(peer_queues(w, "J:1", SLOT_MS));
    hall_line_up(w, &actor, &lock, 1, act_take, &for_ever);
    assert_true(peer_releases(w, "H:1"));
    released_us = test_now_us();
    assert_code(actor_end(actor), 0);
    assert_took(actor_ended_us(actor) - released_us, 900, 1000 + 1000 + 500);
    assert_code(actor_do(actor, act_unlock, lock, NULL), 0);
}

/* It hears, and comes late, but in time. */
HALL_TEST(a_slow_peer_keeps_its_turn, w)
{
    struct pair pair;
    int64_t unlocked_us;
    int fd;

    meet(w, &pair);
    assert_code(rlock_lock(pair.locks[0]), 0);
    assert_true(peer_queues(w, "J:1", SLOT_MS));
    fd = peer_listens(w, "J:1");
    begin(w, &pair, 1);
    unlocked_us = test_now_us();
    assert_code(rlock_unlock(pair.locks[0]), 0);
    assert_true(STAYS(actor_is_busy(pair.actors[1]), 2500 - test_elapsed_us(unlocked_us) / 1000));
    assert_true(peer_takes(w, "J:1", 30000, SLOT_MS));
    assert_true(peer_releases(w, "J:1"));
    end(&pair, 1);
    close(fd);
}

/* Redisson's polls here some ten thousand times a second. */
HALL_TEST(nobody_polls_while_another_is_the_head, w)
{
    struct pair pair;
    long long calls;
    int fd;

    meet_with(w, &pair,
              &RLOCK_OPTS(.fair_slot_ms = 3000)); /* look every second, until it is free */
    assert_true(peer_takes(w, "H:1", 30000, 3000));
    assert_true(peer_queues(w, "J:1", 3000));
    fd = peer_listens(w, "J:1");
    begin(w, &pair, 0);
    begin(w, &pair, 1);
    free(test_server_cmd(conf_server(w), "DEL " NAME));
    conf_count_from_here(w);
    assert_true(STAYS(actor_is_busy(pair.actors[0]), 2500));
    calls = conf_calls(w, "evalsha") + conf_calls(w, "eval");
    assert_in_range(calls, 4, 12);
    peer_leaves(w, "J:1", 3000);
    end(&pair, 0);
    end(&pair, 1);
    close(fd);
}

/* A lease that nobody renews or gives up ends for peers and for us. */
HALL_TEST(expiry_advances_a_mixed_queue, w)
{
    struct pair pair;
    int64_t began_us = test_now_us();

    meet(w, &pair);
    assert_true(peer_takes(w, "H:1", 300, SLOT_MS));
    begin(w, &pair, 0);
    begin(w, &pair, 1);
    end(&pair, 0);
    assert_took(test_elapsed_us(began_us), 290, 800);
    end(&pair, 1);
}
