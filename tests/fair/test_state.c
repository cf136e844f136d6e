/* SPDX-License-Identifier: Apache-2.0 */
/* What stands on the server: key by key, field by field, score by score. */
#include <rlock/admin.h>
#include <unistd.h>

#include "fair/hall.h"
#include "support/raw.h"

#define TICKETS "rlock_fair_asks:{" NAME "}"

enum { N = 3 };

/* A holder and waiters, each of a client of its own, in the order in which they queued. */
struct line {
    struct rlock_client *clients[N + 1];
    struct rlock_handle *locks[N + 1]; /* the last one is the holder's */
    struct actor *actors[N];
    struct hall_queue queue;
    long long held_at;
};

static void line_up(struct fixture *f, struct line *line, size_t n, const struct rlock_take *hold,
                    int64_t wait_ms, const struct rlock_take *take)
{
    for (size_t i = 0; i <= N; i++) {
        line->clients[i] = client_open(f);
        line->locks[i] = lock_new(f, line->clients[i]);
    }
    for (size_t i = 0; i < n; i++) {
        line->actors[i] = actor_open(f);
    }
    assert_code(rlock_lock_for(line->locks[N], 0, hold, NULL), 0);
    line->held_at = hall_clock(f);
    hall_line_up(f, line->actors, line->locks, n, act_take, wait_ms, take);
    hall_queue(f, &line->queue);
}

/* Each waiter gets it in turn. */
static void let_go(struct line *line, size_t from, size_t n)
{
    assert_code(rlock_unlock(line->locks[N]), 0);
    for (size_t i = from; i < n; i++) {
        assert_code(actor_end(line->actors[i]), 0);
        assert_code(actor_do(line->actors[i], act_unlock, line->locks[i], 0, NULL), 0);
    }
}

#define assert_near(value, expected, ms) assert_in_range((value) - (expected) + (ms), 0, 2 * (ms))

HALL_TEST(an_uncontended_lock_is_one_hash, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    char owner[HALL_OWNER_SIZE];

    assert_code(rlock_lock(lock), 0);
    test_text(owner, sizeof(owner), "%s:1\n1", rlock_client_uuid(client));
    assert_true(test_server_says(f->server, owner, "HGETALL " NAME));
    assert_near(ttl_of(lock), 30000, 1000);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 1);
    assert_true(test_server_says(f->server, "", "PUBSUB CHANNELS"));
    assert_code(rlock_unlock(lock), 0);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
}

/* Trace 5 of the wire facts: queue, keys and channels are Redisson's, and so is the first one's
 * score; the others' are the same, since none of ours adds to those behind it. */
HALL_TEST(each_of_ours_counts_for_a_slot_beyond_the_lease, f)
{
    struct line line;
    char all[400];

    line_up(f, &line, 2, RLOCK_TAKE(.lease_ms = 30000), RLOCK_FOREVER, NULL);
    assert_int_equal(line.queue.n, 2);
    assert_memory_equal(line.queue.owners[0], rlock_client_uuid(line.clients[0]), 36);
    assert_memory_equal(line.queue.owners[1], rlock_client_uuid(line.clients[1]), 36);
    assert_near(hall_score(f, line.queue.owners[0]), line.held_at + 30000 + SLOT_MS, 50);
    assert_near(hall_score(f, line.queue.owners[1]), line.held_at + 30000 + SLOT_MS, 50);
    test_text(all, sizeof(all), "%s\n%s", line.queue.owners[0], line.queue.owners[1]);
    assert_true(test_server_says(f->server, all, "LRANGE " QUEUE " 0 -1"));
    assert_int_equal(test_server_int(f->server, "ZCARD " SCORES), 2);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 4);
    assert_int_equal(test_server_int(f->server, "ZCARD " TICKETS), 2);
    assert_true(test_server_says(f->server, "list", "TYPE " QUEUE));
    assert_true(test_server_says(f->server, "zset", "TYPE " SCORES));
    assert_in_range(test_server_int(f->server, "PTTL " QUEUE), SLOT_MS, 30000 + 2 * SLOT_MS);
    assert_in_range(test_server_int(f->server, "PTTL " SCORES), SLOT_MS, 30000 + 2 * SLOT_MS);
    assert_int_equal(hall_listeners(f, line.queue.owners[0]), 1);
    assert_int_equal(hall_listeners(f, line.queue.owners[1]), 1);
    let_go(&line, 0, 2);
}

/* Trace 6: the head is told, on its own channel alone. Its grant changes no score but that of the
 * next head, if that is not a slot beyond the new lease. */
HALL_TEST(a_release_grants_the_lock_to_the_head_and_tells_it_alone, f)
{
    struct line line;
    long long before, ticket;
    char words[64];
    int fd = raw_dial(test_server_unix_url(f->server));
    char message[300];

    line_up(f, &line, 2, RLOCK_TAKE(.lease_ms = 30000), RLOCK_FOREVER, NULL);
    raw_say(fd, "PSUBSCRIBE redisson_lock__channel*\r\n");
    assert_true(
        raw_hears(fd, "*3\r\n$10\r\npsubscribe\r\n$23\r\nredisson_lock__channel*\r\n:1\r\n"));
    before = hall_score(f, line.queue.owners[1]);
    ticket = test_server_int(f->server, "ZSCORE " TICKETS " %s", line.queue.owners[0]);
    test_text(words, sizeof(words), "p %s %lld", line.queue.owners[0] + 37, ticket);
    assert_code(rlock_unlock(line.locks[N]), 0);
    assert_code(actor_end(line.actors[0]), 0);
    assert_string_equal(hall_holder(f), line.queue.owners[0]);
    assert_int_equal(hall_score(f, line.queue.owners[1]), before);
    assert_int_equal(hall_queued(f), 1);
    test_text(message, sizeof(message),
              "*4\r\n$8\r\npmessage\r\n$23\r\nredisson_lock__channel*\r\n$%zu\r\n" CHANNEL
              ":%s\r\n$%zu\r\n%s\r\n",
              strlen(CHANNEL) + 1 + strlen(line.queue.owners[0]), line.queue.owners[0],
              strlen(words), words);
    assert_true(raw_hears(fd, message));
    assert_string_equal(raw_hear_within(fd, 50), "");
    assert_code(actor_do(line.actors[0], act_unlock, line.locks[0], 0, NULL), 0);
    assert_code(actor_end(line.actors[1]), 0);
    assert_code(actor_do(line.actors[1], act_unlock, line.locks[1], 0, NULL), 0);
    close(fd);
}

HALL_TEST(waiters_are_told_if_the_key_of_their_tickets_is_somebody_elses, f)
{
    struct line line;

    test_server_do(f->server, "SADD " TICKETS " x");
    line_up(f, &line, 2, RLOCK_TAKE(.lease_ms = 30000), RLOCK_FOREVER, NULL);
    let_go(&line, 0, 2);
    assert_true(test_server_says(f->server, "x", "SMEMBERS " TICKETS));
    test_server_do(f->server, "DEL " TICKETS);
}

HALL_TEST(who_gives_up_changes_nobodys_score, f)
{
    struct line line;
    struct hall_queue after;
    long long first, third;

    line_up(f, &line, 1, RLOCK_TAKE(.lease_ms = 30000), RLOCK_FOREVER, NULL);
    actor_begin(line.actors[1] = actor_open(f), act_take, line.locks[1], 700, NULL);
    hall_await_queued(f, 2);
    actor_begin(line.actors[2] = actor_open(f), act_take, line.locks[2], RLOCK_FOREVER, NULL);
    hall_await_queued(f, 3);
    hall_queue(f, &line.queue);
    first = hall_score(f, line.queue.owners[0]);
    third = hall_score(f, line.queue.owners[2]);
    assert_code(actor_end(line.actors[1]), RLOCK_ETIMEDOUT);
    hall_await_queued(f, 2);
    hall_queue(f, &after);
    assert_string_equal(after.owners[1], line.queue.owners[2]);
    assert_int_equal(hall_score(f, line.queue.owners[0]), first);
    assert_int_equal(hall_score(f, line.queue.owners[2]), third);
    assert_int_equal(hall_listeners(f, line.queue.owners[1]), 0);
    assert_code(rlock_unlock(line.locks[N]), 0);
    assert_code(actor_end(line.actors[0]), 0);
    assert_code(actor_do(line.actors[0], act_unlock, line.locks[0], 0, NULL), 0);
    assert_code(actor_end(line.actors[2]), 0);
    assert_code(actor_do(line.actors[2], act_unlock, line.locks[2], 0, NULL), 0);
}

HALL_TEST(when_all_have_left_nothing_is_left, f)
{
    struct line line;

    line_up(f, &line, N, RLOCK_TAKE(.lease_ms = 30000), 300, NULL);
    for (size_t i = 0; i < N; i++) {
        assert_code(actor_end(line.actors[i]), RLOCK_ETIMEDOUT);
    }
    assert_true(TEST_EVENTUALLY(test_server_int(f->server, "DBSIZE") == 1, 1000));
    assert_code(rlock_unlock(line.locks[N]), 0);
}

HALL_TEST(a_waiter_that_does_not_queue_yet_is_not_there, f)
{
    struct line line;

    line_up(f, &line, 0, RLOCK_TAKE(.lease_ms = 30000), 0, NULL);
    assert_code(rlock_try_lock(line.locks[0]), RLOCK_EBUSY);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 1);
    assert_non_null(strstr(rlock_detail(), "held by"));
    assert_code(rlock_unlock(line.locks[N]), 0);
}

/* S19: a free lock with a queue is not for those who do not queue. */
HALL_TEST(a_try_does_not_go_past_the_queue, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    int fd;

    assert_true(peer_takes(f, "H:1", 30000, SLOT_MS));
    assert_true(peer_queues(f, "J:1", SLOT_MS));
    fd = peer_listens(f, "J:1");
    test_server_do(f->server, "DEL " NAME);
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    assert_non_null(strstr(rlock_detail(), "others wait for it"));
    peer_hears(fd, "J:1"); /* nobody had told it */
    assert_int_equal(hall_queued(f), 1);
    peer_leaves(f, "J:1", SLOT_MS);
    assert_code(rlock_try_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    close(fd);
}

/* A peer that is alive may have an old sum: time alone puts nobody out. The keys are gone with the
 * last one. */
HALL_TEST(heads_whose_time_is_over_stay_until_they_are_seen_dead, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    long long now = hall_clock(f);
    int fd = peer_listens(f, "J:2");

    test_server_do(f->server, "RPUSH " QUEUE " J:1 J:2");
    test_server_do(f->server, "ZADD " SCORES " %lld J:1 %lld J:2", now - 1, now - 5);
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    assert_true(test_server_says(f->server, "J:1\nJ:2", "LRANGE " QUEUE " 0 -1"));
    assert_near(hall_score(f, "J:1"), hall_clock(f) + SLOT_MS, 1000);
    assert_code(rlock_lock_for(lock, 1500, NULL, NULL),
                RLOCK_ETIMEDOUT); /* nobody hears the first */
    assert_true(TEST_EVENTUALLY(test_server_says(f->server, "J:2", "LRANGE " QUEUE " 0 -1"), 1000));
    assert_near(hall_score(f, "J:2"), hall_clock(f) + SLOT_MS, 3000);
    peer_leaves(f, "J:2", SLOT_MS);
    assert_code(rlock_try_lock(lock), 0);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 1);
    assert_code(rlock_unlock(lock), 0);
    close(fd);
}

static int count_locks(const struct rlock_found *found, void *payload)
{
    *(int *)payload += found->info->locked ? 1 : 0;
    return 0;
}

/* What is known of those in front stands beside the lock, for ten minutes at most, and is none. */
HALL_TEST(notes_are_no_lock_and_do_not_stay, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    int locks = 0;

    test_server_do(f->server, "RPUSH " QUEUE " 00000000-0000-8000-8000-000000000000:1");
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    assert_true(test_server_says(f->server, "hash", "TYPE rlock_fair:{" NAME "}"));
    assert_in_range(test_server_int(f->server, "PTTL rlock_fair:{" NAME "}"), 1, 600000);
    assert_code(rlock_admin_scan(client, NULL, count_locks, &locks), 0);
    assert_int_equal(locks, 0);
    assert_code(rlock_lock_for(lock, 4000, NULL, NULL), 0);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 1);
    assert_code(rlock_unlock(lock), 0);
}

/* Neither a reply nor its cost grows with a hash of somebody else's. */
HALL_TEST(a_foreign_hash_is_a_wrong_type, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_info info = RLOCK_INFO_INIT;
    static const char many[] = "for i = 1, 101 do redis.call('hset', KEYS[1], i, 1) end";
    char *field = malloc(70001);

    (void)memset(field, 'f', 70000);
    field[70000] = '\0';
    free(test_server_argv(f->server, (const char *[]){"HSET", NAME, field, "1", NULL}));
    for (int i = 0; i < 2; i++) {
        assert_code(rlock_try_lock(lock), RLOCK_EWRONGTYPE);
        assert_code(rlock_lock_for(lock, 1000, NULL, NULL), RLOCK_EWRONGTYPE);
        assert_code(rlock_inspect(lock, &info), RLOCK_EWRONGTYPE);
        test_server_do(f->server, "DEL " NAME);
        free(test_server_argv(f->server, (const char *[]){"EVAL", many, "1", NAME, NULL}));
    }
    test_server_do(f->server, "DEL " NAME);
    free(field);
}

/* Trace 10: for a peer it would be there for ever. */
HALL_TEST(a_head_without_a_score_gets_one, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    test_server_do(f->server, "RPUSH " QUEUE " ghost:1");
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    assert_near(hall_score(f, "ghost:1"), hall_clock(f) + SLOT_MS, 100);
    assert_code(rlock_lock_for(lock, 4000, NULL, NULL), 0); /* nobody hears it: it is dead */
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 1);
    assert_code(rlock_unlock(lock), 0);
}

/* Trace 11: a peer would take it for queued, and let it starve. */
HALL_TEST(scores_without_an_entry_do_not_stay, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    test_server_do(f->server, "ZADD " SCORES " 1900000000000 ghost:1");
    assert_code(rlock_lock(lock), 0);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 1);
    assert_code(rlock_unlock(lock), 0);
}

/* A waiter mends its own entry, whatever half of it is lost. slot 3 s: it looks every second. */
HALL_TEST(a_waiter_mends_its_entry, f)
{
    struct line line;
    struct rlock_handle *waiting;
    const struct rlock_opts *opts = RLOCK_OPTS(.fair_slot_ms = 3000);

    line_up(f, &line, 0, RLOCK_TAKE(.lease_ms = 60000), 0, NULL);
    waiting = lock_with(f, line.clients[0], NAME, opts);
    actor_begin(line.actors[0] = actor_open(f), act_take, waiting, RLOCK_FOREVER, NULL);
    hall_await_queued(f, 1);
    hall_queue(f, &line.queue);
    test_server_do(f->server, "DEL " SCORES);
    assert_true(TEST_EVENTUALLY(test_server_int(f->server, "ZCARD " SCORES) == 1, 3000));
    test_server_do(f->server, "DEL " QUEUE);
    assert_true(TEST_EVENTUALLY(hall_queued(f) == 1, 3000));
    test_server_do(f->server, "DEL " QUEUE " " SCORES);
    assert_true(TEST_EVENTUALLY(hall_queued(f) == 1, 3000));
    assert_int_equal(test_server_int(f->server, "ZCARD " SCORES), 1);
    assert_true(hall_score(f, line.queue.owners[0]) > hall_clock(f));
    let_go(&line, 0, 1);
}

/* It was taken for dead, and queued again behind a peer; that answer was lost. So it believes still
 * that no peer stands in front of it, and its score knows better. */
HALL_TEST(a_waiter_that_queued_again_keeps_its_score, f)
{
    struct line line;
    const char *me;
    long long base, wrong;

    line_up(f, &line, 1, RLOCK_TAKE(.lease_ms = 60000), RLOCK_FOREVER, NULL);
    base = line.held_at + 60000;
    wrong = base + 2 * SLOT_MS + 5000;
    me = line.queue.owners[0];
    test_server_do(f->server,
                   "EVAL \"redis.call('lpush', KEYS[1], 'J:1'); redis.call('zadd', KEYS[2], %lld, "
                   "'J:1', %lld, ARGV[1])\" 2 " QUEUE " " SCORES " %s",
                   base + SLOT_MS, wrong, me);
    test_server_do(f->server, "PUBLISH " CHANNEL ":%s 0", me);
    assert_true(TEST_EVENTUALLY(hall_score(f, me) != wrong, 10000));
    assert_near(hall_score(f, me), base + 2 * SLOT_MS, 1000);
    peer_leaves(f, "J:1", SLOT_MS);
    let_go(&line, 0, 1);
}

/* Redisson's sums stand still, and put out who waits longer than its slot. */
HALL_TEST(a_waiter_outlives_its_slot, f)
{
    const struct rlock_opts *opts = RLOCK_OPTS(.fair_slot_ms = 1000);
    struct rlock_client *client = client_open_renewing(f, 600);
    struct rlock_handle *lock = lock_with(f, client, NAME, opts);
    struct rlock_handle *other = lock_with(f, client_open(f), NAME, opts);
    struct actor *actor = actor_open(f);
    struct hall_queue queue;
    long long end;

    assert_code(rlock_lock(lock), 0);
    actor_begin(actor, act_take, other, RLOCK_FOREVER, NULL);
    hall_await_queued(f, 1);
    hall_queue(f, &queue);
    end = hall_clock(f) + 3000;
    while (hall_clock(f) < end) {
        (void)peer_takes(f, "J:1", 1000, SLOT_MS); /* puts out whose time is over */
        assert_true(hall_score(f, queue.owners[0]) > hall_clock(f));
    }
    assert_code(rlock_unlock(lock), 0);
    assert_code(actor_end(actor), 0);
    assert_code(actor_do(actor, act_unlock, other, 0, NULL), 0);
}

HALL_TEST(names_follow_prefix_and_braces, f)
{
    struct rlock_client *plain = client_open(f);
    struct rlock_client *prefixed = client_open_with(f, RLOCK_CLIENT_OPTS(.key_prefix = "p:"));
    struct rlock_handle *locks[] = {lock_named(f, plain, "a"), lock_named(f, prefixed, "a"),
                                    lock_named(f, plain, "x{a}y")};
    static const char *const queues[] = {"redisson_lock_queue:{a}", "redisson_lock_queue:{p:a}",
                                         "redisson_lock_queue:x{a}y"};
    static const char *const scores[] = {"redisson_lock_timeout:{a}", "redisson_lock_timeout:{p:a}",
                                         "redisson_lock_timeout:x{a}y"};

    for (size_t i = 0; i < 3; i++) {
        struct actor *actor = actor_open(f);

        assert_code(rlock_lock(locks[i]), 0);
        actor_begin(actor, act_take, locks[i], test_ms(500), NULL);
        assert_true(TEST_EVENTUALLY(fixture_has_key(f, queues[i]), 2000));
        assert_true(fixture_has_key(f, scores[i]));
        assert_code(actor_end(actor), RLOCK_ETIMEDOUT);
        assert_code(rlock_unlock(locks[i]), 0);
    }
}

HALL_TEST(inspect_says_how_many_wait, f)
{
    struct line line;
    struct rlock_info info = RLOCK_INFO_INIT;

    line_up(f, &line, 2, RLOCK_TAKE(.lease_ms = 30000), 1000, NULL);
    assert_code(rlock_inspect(line.locks[0], &info), 0);
    assert_true(info.locked);
    assert_false(info.mine);
    assert_int_equal(info.waiters, 2);
    assert_memory_equal(info.holder, rlock_client_uuid(line.clients[N]), 36);
    assert_code(actor_end(line.actors[0]), RLOCK_ETIMEDOUT);
    assert_code(actor_end(line.actors[1]), RLOCK_ETIMEDOUT);
    assert_code(rlock_unlock(line.locks[N]), 0);
    assert_true(TEST_EVENTUALLY(hall_queued(f) == 0, 1000));
    assert_code(rlock_inspect(line.locks[0], &info), 0);
    assert_false(info.locked);
    assert_int_equal(info.waiters, 0);
}

HALL_TEST(options_have_their_ranges, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = NULL;

    assert_code(rlock_fair_new(client, NAME, RLOCK_OPTS(.fair_slot_ms = 999), &lock), RLOCK_EINVAL);
    assert_code(rlock_fair_new(client, NAME, RLOCK_OPTS(.fair_slot_ms = -1), &lock), RLOCK_EINVAL);
    assert_null(lock);
    assert_string_equal(rlock_kind(lock_new(f, client)), "fair");
}
