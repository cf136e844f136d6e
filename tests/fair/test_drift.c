/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scores do not drift: whoever comes, is let in, gives up or dies, each of ours in the queue counts
 * for a lease and a slot from now, and no longer. What Redisson's ...Drift... tests assert of the
 * times that its waiters are told, here of the scores they come from, and at every moment.
 */
#include <signal.h>
#include <unistd.h>

#include "fair/hall.h"
#include "support/raw.h"

enum { LEASE_MS = 30000, WAITERS = 3, TRIES = 50, SAYS_OPEN = 1, SHALL_WAIT = 2 };

/* By how much any score is beyond what its place asks for; less than 0 where nobody queues. */
static const char beyond_script[] =
    "local time, most = redis.call('time'), -1\n"
    "local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"
    "for _, name in ipairs(redis.call('lrange', KEYS[1], 0, -1)) do\n"
    "  most = math.max(most, redis.call('zscore', KEYS[2], name) - now - ARGV[1])\n"
    "end\n"
    "return most\n";

static long long beyond_slots(struct fixture *f, const char *slot_ms)
{
    const char *argv[] = {"EVAL", beyond_script, "2", QUEUE, SCORES, slot_ms, NULL};
    char *reply = test_server_argv(f->server, argv);
    long long ms = strtoll(reply, NULL, 10);

    assert_null(strstr(reply, "ERR"));
    free(reply);
    return ms;
}

#define assert_no_drift(f) assert_true(beyond_slots(f, "300000") <= LEASE_MS)

/* ---- One who is killed while it waits ---- */

static int wait_to_be_killed(struct test_peer *peer, void *payload)
{
    const struct rlock_client_opts opts = client_opts(payload, RLOCK_CLIENT_OPTS(.url = NULL));
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL;

    TEST_CHECK(test_peer_recv(peer, 30000) == SHALL_WAIT);
    TEST_CHECK(rlock_client_open(&opts, &client) == 0);
    TEST_CHECK(rlock_fair_new(client, NAME, NULL, &lock) == 0);
    test_peer_send(peer, SAYS_OPEN);
    return rlock_lock(lock); /* never granted: it is killed before */
}

static void wait_and_die(struct fixture *f, struct test_child *child)
{
    size_t before = hall_queued(f);

    test_child_send(child, SHALL_WAIT);
    assert_int_equal(test_child_recv(child, 10000), SAYS_OPEN);
    hall_await_queued(f, before + 1);
    test_child_kill(child, SIGKILL);
    assert_int_equal(test_child_wait(child, 5000), 128 + SIGKILL);
}

/* ---- Those who come and go ---- */

static struct witness *witness; /* the fixture's */

static int act_try_often(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    uint64_t id = (uint64_t)(uintptr_t)lock; /* each has a lock of its own */
    int granted = 0;

    for (int i = 0; i < TRIES; i++) {
        int code = rlock_lock_for(lock, wait_ms, take, NULL);

        if (code == 0) {
            witness_enter(witness, 0, id);
            (void)usleep(2000);
            witness_leave(witness, 0, id);
            TEST_CHECK(rlock_unlock(lock) == 0);
            granted++;
        } else {
            TEST_CHECK(hall_gave_up(code) && wait_ms >= 0);
        }
    }
    return granted;
}

/* Several do so at once; no score is ever beyond its place. Returns how often they were let in. */
static int come_and_go(struct fixture *f, int64_t wait_ms, const struct rlock_take *take)
{
    struct actor *actors[WAITERS];
    int granted = 0;

    for (size_t i = 0; i < WAITERS; i++) {
        struct rlock_handle *lock = lock_new(f, client_open(f));

        (void)is_locked(lock); /* connected now: short waits are for the lock */
        actors[i] = actor_open(f);
        actor_begin(actors[i], act_try_often, lock, wait_ms, take);
    }
    for (size_t i = 0; i < WAITERS; i++) {
        while (actor_is_busy(actors[i])) {
            assert_no_drift(f);
        }
        granted += actor_end(actors[i]);
    }
    return granted;
}

/* One is killed in the queue; its score, and that of the next behind it, are what they would be. */
static void die_and_be_followed(struct fixture *f, struct test_child *child)
{
    struct rlock_handle *holder = lock_new(f, client_open(f)), *next = lock_new(f, client_open(f));
    struct actor *actor = actor_open(f);

    assert_code(TAKE(holder, 0, .lease_ms = LEASE_MS), 0);
    wait_and_die(f, child);
    assert_no_drift(f);
    actor_begin(actor, act_take, next, RLOCK_FOREVER, NULL);
    hall_await_queued(f, 2);
    assert_no_drift(f);
    assert_code(rlock_unlock(holder), 0);
    assert_code(actor_end(actor), 0);
    assert_int_equal(hall_queued(f), 0);
    assert_code(actor_do(actor, act_unlock, next, 0, NULL), 0);
}

static void witnessed_open(struct fixture *f)
{
    fixture_open(f, &(struct fixture_opts){.kind = &kind_fair});
    witness = f->witness;
}

#define WITNESS_TEST(name, f)                                                                      \
    TEST_AROUND(name, struct fixture, f, witnessed_open(f), fixture_close(f))

/* testWaitTimeoutDrift */
WITNESS_TEST(waits_that_time_out_leave_no_drift, f)
{
    struct test_child *child = test_child_spawn(wait_to_be_killed, f);
    struct rlock_handle *holder = lock_new(f, client_open(f));
    const struct rlock_take *take = RLOCK_TAKE(.lease_ms = LEASE_MS);

    assert_code(TAKE(holder, 0, .lease_ms = LEASE_MS), 0);
    assert_int_equal(come_and_go(f, 5, take), 0);
    assert_code(rlock_unlock(holder), 0);
    (void)come_and_go(f, 5, take); /* now some are let in, and the others time out */
    hall_await_queued(f, 0);
    die_and_be_followed(f, child);
}

/* testLockAcquiredTimeoutDrift */
WITNESS_TEST(grants_leave_no_drift, f)
{
    struct test_child *child = test_child_spawn(wait_to_be_killed, f);
    const struct rlock_take *take = RLOCK_TAKE(.lease_ms = LEASE_MS);

    assert_int_equal(come_and_go(f, RLOCK_FOREVER, take), WAITERS * TRIES);
    hall_await_queued(f, 0);
    die_and_be_followed(f, child);
}

/* testFirstThreadDeathTimeoutDrift */
WITNESS_TEST(a_head_that_died_leaves_no_drift, f)
{
    struct test_child *child = test_child_spawn(wait_to_be_killed, f);
    struct rlock_handle *holder = lock_new(f, client_open(f)), *last = lock_new(f, client_open(f));

    assert_code(TAKE(holder, 0, .lease_ms = LEASE_MS), 0);
    wait_and_die(f, child);
    assert_int_equal(come_and_go(f, 5, NULL), 0);
    hall_await_queued(f, 1); /* the dead one, at its place */
    assert_no_drift(f);
    assert_code(rlock_unlock(holder), 0);
    assert_code(rlock_lock_for(last, 10000, NULL, NULL), 0);
    assert_code(rlock_unlock(last), 0);
}

/* ---- Step by step ---- */

/* A holder and four who may wait, each of a client of its own. */
struct party {
    struct rlock_handle *locks[5];
    struct actor *actors[5];
    struct hall_queue queue;
};

static void meet(struct fixture *f, struct party *party, int64_t slot_ms)
{
    for (size_t i = 0; i < 5; i++) {
        party->locks[i] = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.fair_slot_ms = slot_ms));
        party->actors[i] = actor_open(f);
    }
}

static void join(struct fixture *f, struct party *party, size_t i, int64_t wait_ms,
                 const struct rlock_take *take)
{
    size_t before = hall_queued(f);

    actor_begin(party->actors[i], act_take, party->locks[i], wait_ms, take);
    hall_await_queued(f, before + 1);
    hall_queue(f, &party->queue);
}

static void give(struct party *party, size_t i)
{
    assert_code(actor_do(party->actors[i], act_unlock, party->locks[i], 0, NULL), 0);
}

/* The next one is let in, and gives it up. */
static void turn(struct party *party, size_t i)
{
    assert_code(actor_end(party->actors[i]), 0);
    give(party, i);
}

#define assert_near(value, expected, ms) assert_in_range((value) - (expected) + (ms), 0, 2 * (ms))

/* testAcquireFailedTimeoutDrift_Descrete */
HALL_TEST(scores_are_a_slot_beyond_the_lease_whoever_leaves, f)
{
    enum { SLOT = 15000 };
    const struct rlock_take *take = RLOCK_TAKE(.lease_ms = LEASE_MS);
    struct party p;
    long long held_at, scores[5];
    char names[5][HALL_OWNER_SIZE];

    meet(f, &p, SLOT);
    assert_code(actor_do(p.actors[0], act_take, p.locks[0], 0, RLOCK_TAKE(.lease_ms = LEASE_MS)),
                0);
    held_at = hall_clock(f);
    for (size_t i = 1; i < 5; i++) {
        join(f, &p, i, i == 2 ? 700 : RLOCK_FOREVER, i == 2 ? NULL : take);
        test_text(names[i], sizeof(names[i]), "%s", p.queue.owners[i - 1]);
    }
    for (size_t i = 1; i < 5; i++) {
        scores[i] = hall_score(f, names[i]);
        assert_near(scores[i], held_at + LEASE_MS + SLOT, 100);
    }
    assert_code(actor_end(p.actors[2]), RLOCK_ETIMEDOUT);
    hall_await_queued(f, 3);
    assert_int_equal(hall_score(f, names[1]), scores[1]);
    assert_int_equal(hall_score(f, names[3]), scores[3]);
    assert_int_equal(hall_score(f, names[4]), scores[4]);
    give(&p, 0);
    assert_code(actor_end(p.actors[1]), 0);
    assert_string_equal(hall_holder(f), names[1]);
    assert_in_range(hall_score(f, names[3]), hall_clock(f) + SLOT,
                    hall_clock(f) + LEASE_MS + 2 * SLOT);
    assert_int_equal(hall_score(f, names[4]), scores[4]);
    give(&p, 1);
    turn(&p, 3);
    turn(&p, 4);
}

/* testLockAcquiredTimeoutDrift_Descrete */
HALL_TEST(a_grant_costs_nobody_and_the_next_head_has_its_slot, f)
{
    enum { SLOT = 15000, LONG_MS = 300000 };
    const struct rlock_take *take = RLOCK_TAKE(.lease_ms = LONG_MS);
    struct party p;
    long long third;

    meet(f, &p, SLOT);
    assert_code(actor_do(p.actors[0], act_take, p.locks[0], 0, RLOCK_TAKE(.lease_ms = LONG_MS)), 0);
    join(f, &p, 1, RLOCK_FOREVER, take);
    join(f, &p, 2, RLOCK_FOREVER, take);
    join(f, &p, 3, RLOCK_FOREVER, take);
    third = hall_score(f, p.queue.owners[2]);
    test_server_do(f->server, "ZADD " SCORES " %lld %s", hall_clock(f) + 1, p.queue.owners[1]);
    give(&p, 0);
    assert_code(actor_end(p.actors[1]), 0);
    assert_int_equal(hall_queued(f), 2);
    assert_near(hall_score(f, p.queue.owners[1]), hall_clock(f) + LONG_MS + SLOT, 1000);
    assert_int_equal(hall_score(f, p.queue.owners[2]), third);
    give(&p, 1);
    turn(&p, 2);
    turn(&p, 3);
}

/* testAbandonedTimeoutDrift_Descrete, testLockAcquiredBooleanTimeoutDrift_Descrete: two in front
 * have vanished. The shortest slot here is 1 s, Redisson's is 100 ms. */
HALL_TEST(those_in_front_who_vanished_cost_their_slots_at_most, f)
{
    enum { SLOT = 1000 };
    struct party p;
    int64_t unlocked_us;

    meet(f, &p, SLOT);
    assert_code(actor_do(p.actors[0], act_take, p.locks[0], 0, RLOCK_TAKE(.lease_ms = LEASE_MS)),
                0);
    assert_true(peer_queues(f, "J:1", SLOT));
    assert_true(peer_queues(f, "J:2", SLOT));
    join(f, &p, 3, RLOCK_FOREVER, NULL);
    assert_near(hall_score(f, p.queue.owners[2]) - hall_score(f, "J:1"), 2 * SLOT, 100);
    assert_near(hall_score(f, "J:2") - hall_score(f, "J:1"), SLOT, 100);
    unlocked_us = test_now_us();
    give(&p, 0);
    assert_code(actor_end(p.actors[3]), 0);
    assert_took(actor_ended_us(p.actors[3]) - unlocked_us, 0, 2 * SLOT);
    assert_int_equal(hall_queued(f), 0);
    give(&p, 3);
}

/* ---- Whose clock ---- */

/* S13: scores are made of the server's clock, so nobody's may be among what a script is told. */
HALL_TEST(scripts_are_told_no_time, f)
{
    struct party p;
    int fd = raw_dial(test_server_unix_url(f->server));
    long long now_s = hall_clock(f) / 1000;
    size_t scripts = 0, numbers = 0;
    char *text;

    raw_say(fd, "MONITOR\r\n");
    assert_true(raw_hears(fd, "+OK\r\n"));
    meet(f, &p, SLOT_MS);
    assert_code(actor_do(p.actors[0], act_take, p.locks[0], RLOCK_FOREVER, NULL), 0);
    join(f, &p, 1, 500, NULL);
    join(f, &p, 2, RLOCK_FOREVER, NULL);
    assert_code(actor_end(p.actors[1]), RLOCK_ETIMEDOUT);
    give(&p, 0);
    turn(&p, 2);
    text = strdup(raw_hear(fd));
    assert_non_null(text);
    for (char *line = strtok(text, "\r\n"); line != NULL; line = strtok(NULL, "\r\n")) {
        bool ours = strcasestr(line, "\"evalsha\"") != NULL || strcasestr(line, "\"eval\"") != NULL;

        scripts += ours;
        for (char *word = ours ? strchr(line, '"') : NULL; word != NULL;
             word = strstr(word + 1, " \"")) {
            long long number = strtoll(word + (*word == ' ' ? 2 : 1), NULL, 10);

            numbers += number > 0;
            for (long long unit = 1; unit <= 1000000; unit *= 1000) { /* s, ms, us */
                assert_not_in_range(number, (now_s - 86400) * unit, (now_s + 86400) * unit);
            }
        }
    }
    free(text);
    assert_true(scripts >= 6 && numbers > scripts);
    close(fd);
}
