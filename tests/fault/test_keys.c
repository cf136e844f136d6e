/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that others lay hands on: of another type, without an end, deleted, renamed, restored,
 * taken.
 */
#include "fault/verbs.h"
#include "support/waiter.h"

#define LEASE_MS test_ms(300)

static struct user *open_user(struct fixture *f)
{
    verbs_load(f);
    return user_open(
        f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = LEASE_MS, .op_timeout_ms = 1000 * test_slack()));
}

/* ---- Another type ---- */

/* Each call refuses at once, also one that would wait, and the key stays as it was. */
static void is_left_alone(const struct fixture *f, const struct user *user)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    char *before = test_server_cmd(f->server, "DUMP " LOCK_A);
    char *after;
    int64_t began_us = test_now_us();

    assert_code(rlock_try_lock(user->lock), RLOCK_EWRONGTYPE);
    assert_detail("lock " LOCK_A);
    assert_code(rlock_lock_for(user->lock, 20000, NULL, NULL), RLOCK_EWRONGTYPE);
    assert_code(rlock_inspect(user->lock, &info), RLOCK_EWRONGTYPE);
    assert_code(rlock_force_unlock(user->lock, NULL), RLOCK_EWRONGTYPE);
    assert_code(rlock_unlock(user->lock), RLOCK_ENOTOWNER);
    assert_within(began_us, 1000);
    after = test_server_cmd(f->server, "DUMP " LOCK_A);
    assert_string_equal(before, after);
    assert_int_equal(fixture_ttl(f), -1);
    free(before);
    free(after);
}

FIXTURE_TEST(a_key_of_another_type_is_no_lock_and_stays, f)
{
    struct user *user = open_user(f);
    static const char *const makers[] = {"SET a text", "RPUSH a x", "SADD a x", "ZADD a 1 x",
                                         "XADD a * f v"};

    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        test_server_do(f->server, "%s", makers[i]);
        is_left_alone(f, user);
        test_server_do(f->server, "DEL a");
        assert_code(user_visit(user, 0, NULL), 0);
    }
}

FIXTURE_TEST(a_waiter_learns_that_the_key_became_another_type, f)
{
    struct user *user = open_user(f);
    struct waiter waiter;

    fixture_take_by_hand(f, 300);
    waiter_start(&waiter, user, 20000, NULL);
    assert_true(fixture_wait_waiters(f, 1));
    test_server_do(f->server, "SET a text");
    assert_int_equal(waiter_join(&waiter), RLOCK_EWRONGTYPE);
    test_server_do(f->server, "DEL a");
}

#define NEIGHBOURS 50

/* Whether the first neighbour's lease was extended since the last look. */
static bool is_renewed(const struct fixture *f, long long *inout_ttl)
{
    long long last = *inout_ttl;

    *inout_ttl = test_server_int(f->server, "PTTL n0");
    return *inout_ttl > last;
}

FIXTURE_TEST(a_spoilt_key_is_lost_and_its_neighbours_are_renewed, f)
{
    struct user *user = open_user(f);
    struct rlock_handle *others[NEIGHBOURS];
    char name[16];

    for (int i = 0; i < NEIGHBOURS; i++) { /* all renewed together */
        (void)snprintf(name, sizeof(name), "n%d", i);
        others[i] = user_lock(user, name);
        assert_code(rlock_try_lock(others[i]), 0);
    }
    assert_code(rlock_try_lock(user->lock), 0);
    test_server_do(f->server, "SET a text");
    assert_int_equal(user_wait_loss(user, 1), RLOCK_LOST_DELETED);
    for (int i = 0; i < 3; i++) {
        long long ttl = test_server_int(f->server, "PTTL n0");

        assert_true(TEST_EVENTUALLY(is_renewed(f, &ttl), 5000));
    }
    assert_int_equal(user_losses(user), 1);
    for (int i = 0; i < NEIGHBOURS; i++) {
        assert_true(rlock_is_valid(others[i]));
        assert_code(rlock_unlock(others[i]), 0);
    }
    assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
    assert_true(test_server_says(f->server, "text", "GET a"));
    test_server_do(f->server, "DEL a");
}

/* What stands beside a lock, and is somebody else's: it stays, and keeps nobody from unlocking. */
FIXTURE_TEST(a_key_of_another_type_beside_a_lock_stays, f)
{
    struct user *user = open_user(f);
    static const struct {
        const char *name;
        bool fair; /* the lock that has it; else a writer whom readers let go first */
    } keys[] = {{"redisson_lock_queue:{a}", true},
                {"redisson_lock_timeout:{a}", true},
                {"rlock_fair:{a}", true},
                {"rlock_writer_waits:{a}", false}};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct rlock_handle *lock = NULL;

        assert_code(keys[i].fair
                        ? rlock_fair_new(user->client, LOCK_A, NULL, &lock)
                        : rlock_write_new(user->client, LOCK_A,
                                          RLOCK_OPTS(.flags = RLOCK_LOCK_PREFER_WRITERS), &lock),
                    0);
        assert_code(rlock_try_lock(lock), 0);
        test_server_do(f->server, "SADD %s x", keys[i].name);
        assert_code(rlock_unlock(lock), 0);
        assert_false(fixture_is_held(f));
        assert_code(rlock_try_lock(lock), RLOCK_EWRONGTYPE);
        assert_code(rlock_lock_for(lock, 20000, NULL, NULL), RLOCK_EWRONGTYPE);
        assert_true(test_server_says(f->server, "x", "SMEMBERS %s", keys[i].name));
        assert_int_equal(test_server_int(f->server, "PTTL %s", keys[i].name), -1);
        test_server_do(f->server, "DEL %s", keys[i].name);
        assert_code(rlock_try_lock(lock), 0);
        assert_code(rlock_unlock(lock), 0);
        lock = rlock_free(lock);
    }
}

/* ---- Without an end ---- */

FIXTURE_TEST(a_key_without_an_end_does_not_hold_waiters_for_ever, f)
{
    struct user *user = open_user(f);
    struct rlock_info info = RLOCK_INFO_INIT;
    int64_t began_us;

    fixture_take_by_hand(f, 0);
    began_us = test_now_us();
    assert_code(rlock_lock_for(user->lock, 200, NULL, NULL), RLOCK_ETIMEDOUT);
    assert_detail("held by somebody:1");
    assert_within(began_us, 200);
    assert_code(rlock_try_lock(user->lock), RLOCK_EBUSY);
    assert_code(rlock_inspect(user->lock, &info), 0);
    assert_int_equal(info.ttl_ms, -1);
    assert_int_equal(fixture_ttl(f), -1); /* nobody repairs what is not his */
    test_server_do(f->server, "DEL a");
}

FIXTURE_TEST(a_hold_whose_end_was_taken_away_goes_on_as_any, f)
{
    struct user *user = open_user(f), *rival = user_open_direct(f);

    for (int lease_ms = 0; lease_ms <= 60000; lease_ms += 60000) { /* renewed, and fixed */
        const struct rlock_take take = {.size = sizeof(take), .lease_ms = lease_ms};

        assert_code(rlock_lock_for(user->lock, 0, &take, NULL), 0);
        assert_int_equal(test_server_int(f->server, "PERSIST a"), 1);
        assert_code(rlock_lock_for(user->lock, 0, &take, NULL), 0);
        assert_true(fixture_ttl(f) > 0);
        (void)test_server_int(f->server, "PERSIST a");
        assert_code(rlock_lock_for(user->lock, 0, &take, NULL), 0);
        (void)test_server_int(f->server, "PERSIST a");
        assert_code(rlock_unlock(user->lock), 0);
        assert_int_equal(fixture_count(f), 2);
        assert_code(rlock_try_lock(rival->lock), RLOCK_EBUSY);
        assert_true(user_step(user));
        assert_code(rlock_unlock(user->lock), 0);
        assert_code(rlock_unlock(user->lock), 0);
        assert_code(user_visit(rival, 0, NULL), 0);
    }
    assert_code(rlock_try_lock(user->lock), 0);
    assert_int_equal(test_server_int(f->server, "PERSIST a"), 1);
    assert_true(TEST_EVENTUALLY(fixture_ttl(f) > 0, 5000)); /* a renewal gives it one again */
    assert_code(rlock_unlock(user->lock), 0);
    assert_int_equal(user_losses(user), 0);
}

/* ---- Gone ---- */

FIXTURE_TEST(a_deleted_key_is_lost_at_the_next_renewal, f)
{
    struct user *user = open_user(f), *rival = user_open_direct(f);

    assert_code(rlock_try_lock(user->lock), 0);
    assert_true(user_step(user));
    test_server_do(f->server, "DEL a");
    assert_int_equal(user_wait_loss(user, 1), RLOCK_LOST_DELETED);
    assert_false(rlock_is_valid(user->lock));
    assert_code(user_visit(rival, 0, NULL), 0);
    assert_code(rlock_try_lock(user->lock), RLOCK_ELOST); /* until it is unlocked */
    assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
    assert_code(user_visit(user, 0, NULL), 0);
    assert_int_equal(user_losses(user), 1);
}

FIXTURE_TEST(a_key_taken_by_another_is_lost_and_stays_his, f)
{
    struct user *user = open_user(f), *rival = user_open_direct(f);

    assert_code(rlock_try_lock(user->lock), 0);
    test_server_do(f->server, "DEL a");
    assert_code(rlock_try_lock(rival->lock), 0);
    assert_int_equal(user_wait_loss(user, 1), RLOCK_LOST_TAKEN);
    assert_true(user_step(rival));
    assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
    assert_int_equal(fixture_count(f), 1);
    assert_true(user_step(rival));
    assert_code(rlock_unlock(rival->lock), 0);
}

FIXTURE_TEST(a_hold_that_is_gone_is_found_by_each_command, f)
{
    struct user *user = open_user(f);

    for (int i = 0; i < 2; i++) {
        const struct rlock_take take = {.size = sizeof(take), .lease_ms = 60000};

        assert_code(rlock_lock_for(user->lock, 0, &take, NULL), 0);
        assert_code(rlock_lock_for(user->lock, 0, &take, NULL), 0);
        test_server_do(f->server, "DEL a");
        if (i == 0) {
            assert_code(rlock_lock_for(user->lock, 0, &take, NULL), RLOCK_ELOST);
        }
        assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
        assert_false(rlock_is_valid(user->lock));
        assert_false(fixture_is_held(f));
        assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
        assert_code(rlock_unlock(user->lock), RLOCK_ENOTOWNER);
        assert_int_equal(user_wait_loss(user, (size_t)i + 1), RLOCK_LOST_DELETED);
    }
}

FIXTURE_TEST(a_renamed_key_that_comes_back_stays_lost, f)
{
    struct user *user = open_user(f), *rival = user_open_direct(f);
    long long ttl;

    assert_code(rlock_try_lock(user->lock), 0);
    test_server_do(f->server, "RENAME a z");
    assert_int_equal(user_wait_loss(user, 1), RLOCK_LOST_DELETED);
    test_server_do(f->server, "PEXPIRE z 400");
    test_server_do(f->server, "RENAME z a");
    assert_false(rlock_is_valid(user->lock));
    assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
    ttl = fixture_ttl(f);
    assert_true(ttl > 0);
    assert_code(rlock_try_lock(rival->lock), RLOCK_EBUSY);
    while (fixture_is_held(f)) { /* nobody renews it */
        assert_true(fixture_ttl(f) <= ttl);
    }
    assert_code(user_visit(user, 0, NULL), 0);
    assert_int_equal(user_losses(user), 1);
}

FIXTURE_TEST(a_key_restored_from_a_dump_does_not_bring_a_hold_back, f)
{
    struct user *user = open_user(f), *rival = user_open_direct(f);
    static const char restore[] = "return redis.call('restore', 'a', 400, redis.call('get', 'z'))";
    static const char dump[] = "return redis.call('set', 'z', redis.call('dump', 'a'))";
    const char *save[] = {"EVAL", dump, "0", NULL};
    const char *load[] = {"EVAL", restore, "0", NULL};

    assert_code(rlock_try_lock(user->lock), 0);
    free(test_server_argv(f->server, save));
    test_server_do(f->server, "DEL a");
    assert_int_equal(user_wait_loss(user, 1), RLOCK_LOST_DELETED);
    free(test_server_argv(f->server, load));
    assert_int_equal(fixture_count(f), 1);
    assert_false(rlock_is_valid(user->lock));
    assert_code(rlock_try_lock(user->lock), RLOCK_ELOST);
    assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
    assert_true(fixture_wait_held(f, false));
    assert_code(user_visit(rival, 0, NULL), 0);
    assert_int_equal(user_losses(user), 1);
    test_server_do(f->server, "DEL z");
}

/* ---- Hashes that are no locks ---- */

/* Makes a hash of so many fields, each with so many bytes in its name. */
static void make_hash(const struct fixture *f, const char *n, const char *bytes)
{
    static const char script[] =
        "for i = 1, tonumber(ARGV[1]) do\n"
        "  redis.call('hset', KEYS[1], string.rep('x', tonumber(ARGV[2])) .. i, i)\n"
        "end\n"
        "return 'made'";
    const char *words[] = {"EVAL", script, "1", LOCK_A, n, bytes, NULL};

    free(test_server_argv(f->server, words));
}

/* All kinds refuse it at once, the calls of several members too, and nothing else is disturbed. */
static void is_no_lock_of_any_kind(struct user *user)
{
    int (*const make[])(struct rlock_client *, const char *, const struct rlock_opts *,
                        struct rlock_handle **) = {
        rlock_reentrant_new, rlock_nonreentrant_new, rlock_spin_new, rlock_fenced_new,
        rlock_fair_new,      rlock_read_new,         rlock_write_new};
    struct rlock_handle *other = user_lock(user, "b");

    assert_code(rlock_try_lock(other), 0);
    for (size_t i = 0; i < sizeof(make) / sizeof(make[0]); i++) {
        struct rlock_handle *lock = NULL, *both = NULL, *members[2] = {NULL};
        struct rlock_info info = RLOCK_INFO_INIT;

        assert_code(make[i](user->client, LOCK_A, NULL, &lock), 0);
        members[0] = lock;
        members[1] = user_lock(user, "c");
        assert_code(rlock_multi_new(members, 2, NULL, &both), 0);
        assert_code(rlock_try_lock(lock), RLOCK_EWRONGTYPE);
        assert_code(rlock_lock_for(lock, 20000, NULL, NULL), RLOCK_EWRONGTYPE);
        assert_code(rlock_inspect(lock, &info), RLOCK_EWRONGTYPE);
        assert_code(rlock_force_unlock(lock, NULL), RLOCK_EWRONGTYPE);
        assert_code(rlock_try_lock(both), RLOCK_EWRONGTYPE);
        both = rlock_free(both);
        lock = rlock_free(lock);
        assert_true(rlock_is_valid(other));
    }
    assert_code(rlock_unlock(other), 0);
}

FIXTURE_TEST(a_hash_that_is_no_lock_is_refused_whatever_its_size, f)
{
    struct user *user = open_user(f);
    static const struct {
        const char *fields, *bytes;
    } sizes[] = {{"1", "1"}, {"1", "300"}, {"1", "300000"}, {"2", "5"}, {"20000", "10"}};

    assert_code(user_visit(user, 0, NULL), 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        long long connections;

        make_hash(f, sizes[i].fields, sizes[i].bytes);
        connections = test_server_info(f->server, "stats", "total_connections_received");
        is_no_lock_of_any_kind(user);
        /* the look for a number took one itself: the client's link is the one that it was */
        assert_true(test_server_info(f->server, "stats", "total_connections_received") <=
                    connections + 2);
        test_server_do(f->server, "DEL a");
    }
    assert_int_equal(user_losses(user), 0);
}

/* What a script does with a large hash does not grow with it. */
FIXTURE_TEST(a_large_hash_costs_the_server_no_more_than_a_small_one, f)
{
    struct user *user = open_user(f);
    static const char *const makers[] = {"HSET a x 1", "HSET a mode read x 1"};
    struct rlock_handle *write = NULL;

    assert_code(rlock_write_new(user->client, LOCK_A, NULL, &write), 0);
    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        char *stats;

        test_server_do(f->server, "%s", makers[i]);
        make_hash(f, "20000", "10");
        test_server_do(f->server, "CONFIG RESETSTAT");
        for (int j = 0; j < 3; j++) {
            assert_true(rlock_try_lock(user->lock) != 0);
            assert_true(rlock_try_lock(write) != 0);
        }
        stats = test_server_cmd(f->server, "INFO commandstats");
        assert_null(strstr(stats, "cmdstat_hkeys:")); /* what lists a hash whole is not called */
        assert_null(strstr(stats, "cmdstat_hgetall:"));
        free(stats);
        test_server_do(f->server, "DEL a");
    }
    write = rlock_free(write);
}

/* ---- Strange contents ---- */

FIXTURE_TEST(strange_contents_are_somebody_elses_lock, f)
{
    struct user *user = open_user(f);
    static const char *const makers[] = {
        "HSET a somebody:1 -7", "HSET a somebody:1 99999999999999999999", "HSET a somebody:1 nan",
        "HSET a mode read one:1 1 two:2 2"};
    struct rlock_info info = RLOCK_INFO_INIT;

    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        bool was_locked = false;

        test_server_do(f->server, "%s", makers[i]);
        assert_code(rlock_try_lock(user->lock), RLOCK_EBUSY);
        assert_code(rlock_lock_for(user->lock, 200, NULL, NULL), RLOCK_ETIMEDOUT);
        assert_code(rlock_inspect(user->lock, &info), 0);
        assert_true(info.locked);
        assert_false(info.mine);
        assert_code(rlock_force_unlock(user->lock, &was_locked), 0);
        assert_true(was_locked);
        assert_false(fixture_is_held(f));
    }
    assert_code(rlock_try_lock(user->lock), 0); /* ours, with guests and a count that is not ours */
    test_server_do(f->server, "HSET a somebody:1 1");
    assert_true(fixture_wait_renewed(f, LEASE_MS));
    assert_code(rlock_unlock(user->lock), 0);
    assert_true(test_server_says(f->server, "somebody:1", "HKEYS a"));
    test_server_do(f->server, "DEL a");
}
