/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that others lay hands on: of another type, without an end, deleted, renamed, restored,
 * taken.
 */
#include "fault/scene.h"
#include "fault/verbs.h"
#include "support/test.h"

#define LEASE_MS scene_ms(300)

static void open_pair(struct scene *scene, struct actor *actor, struct actor *rival)
{
    scene_open(scene, NULL);
    verbs_load(scene);
    actor_open(
        actor, scene,
        RLOCK_CLIENT_OPTS(.renewed_lease_ms = LEASE_MS, .op_timeout_ms = 1000 * test_slack()));
    actor_open_direct(rival, scene);
}

static void close_pair(struct scene *scene, struct actor *actor, struct actor *rival)
{
    actor_close(actor);
    actor_close(rival);
    scene_close(scene);
}

static void say(const struct scene *scene, const char *command)
{
    free(test_server_cmd(scene->server, "%s", command));
}

/* ---- Another type ---- */

/* Each call refuses at once, also one that would wait, and the key stays as it was. */
static void is_left_alone(const struct scene *scene, const struct actor *actor)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    char *before = test_server_cmd(scene->server, "DUMP " SCENE_NAME);
    char *after;
    int64_t began_us = test_now_us();

    assert_code(rlock_try_lock(actor->lock), RLOCK_EWRONGTYPE);
    assert_detail("lock " SCENE_NAME);
    assert_code(rlock_lock_with(actor->lock, RLOCK_TAKE(.wait_ms = 20000), NULL), RLOCK_EWRONGTYPE);
    assert_code(rlock_inspect(actor->lock, &info), RLOCK_EWRONGTYPE);
    assert_code(rlock_force_unlock(actor->lock, NULL), RLOCK_EWRONGTYPE);
    assert_code(rlock_unlock(actor->lock), RLOCK_ENOTOWNER);
    assert_within(began_us, 1000);
    after = test_server_cmd(scene->server, "DUMP " SCENE_NAME);
    assert_string_equal(before, after);
    assert_int_equal(scene_ttl(scene), -1);
    free(before);
    free(after);
}

TEST(a_key_of_another_type_is_no_lock_and_stays)
{
    static const char *const makers[] = {"SET a text", "RPUSH a x", "SADD a x", "ZADD a 1 x",
                                         "XADD a * f v"};
    struct scene scene;
    struct actor actor, rival;

    open_pair(&scene, &actor, &rival);
    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        say(&scene, makers[i]);
        is_left_alone(&scene, &actor);
        say(&scene, "DEL a");
        assert_code(actor_visit(&actor, NULL), 0);
    }
    close_pair(&scene, &actor, &rival);
}

TEST(a_waiter_learns_that_the_key_became_another_type)
{
    struct scene scene;
    struct actor actor, rival;
    struct waiter waiter;

    open_pair(&scene, &actor, &rival);
    scene_take_by_hand(&scene, 300);
    waiter_start(&waiter, &actor, RLOCK_TAKE(.wait_ms = 20000));
    assert_true(scene_wait_waiters(&scene, 1));
    say(&scene, "SET a text");
    assert_int_equal(waiter_join(&waiter), RLOCK_EWRONGTYPE);
    say(&scene, "DEL a");
    close_pair(&scene, &actor, &rival);
}

#define NEIGHBOURS 50

/* Whether the first neighbour's lease was extended since the last look. */
static bool is_renewed(const struct scene *scene, long long *inout_ttl)
{
    long long last = *inout_ttl;

    *inout_ttl = test_server_int(scene->server, "PTTL n0");
    return *inout_ttl > last;
}

TEST(a_spoilt_key_is_lost_and_its_neighbours_are_renewed)
{
    struct scene scene;
    struct actor actor, rival;
    struct rlock *others[NEIGHBOURS];
    char name[16];

    open_pair(&scene, &actor, &rival);
    for (int i = 0; i < NEIGHBOURS; i++) { /* all renewed together */
        (void)snprintf(name, sizeof(name), "n%d", i);
        others[i] = actor_lock(&actor, name);
        assert_code(rlock_try_lock(others[i]), 0);
    }
    assert_code(rlock_try_lock(actor.lock), 0);
    say(&scene, "SET a text");
    assert_int_equal(actor_wait_loss(&actor, 1), RLOCK_LOST_DELETED);
    for (int i = 0; i < 3; i++) {
        long long ttl = test_server_int(scene.server, "PTTL n0");

        assert_true(TEST_EVENTUALLY(is_renewed(&scene, &ttl), 5000));
    }
    assert_int_equal(actor_losses(&actor), 1);
    for (int i = 0; i < NEIGHBOURS; i++) {
        assert_true(rlock_is_valid(others[i]));
        assert_code(rlock_unlock(others[i]), 0);
        others[i] = rlock_free(others[i]);
    }
    assert_code(rlock_unlock(actor.lock), RLOCK_ELOST);
    assert_true(test_server_says(scene.server, "text", "GET a"));
    say(&scene, "DEL a");
    close_pair(&scene, &actor, &rival);
}

/* What stands beside a lock, and is somebody else's: it stays, and keeps nobody from unlocking. */
TEST(a_key_of_another_type_beside_a_lock_stays)
{
    static const struct {
        const char *name;
        bool fair; /* the lock that has it; else a writer whom readers let go first */
    } keys[] = {{"redisson_lock_queue:{a}", true},
                {"redisson_lock_timeout:{a}", true},
                {"rlock_fair:{a}", true},
                {"rlock_writer_waits:{a}", false}};
    struct scene scene;
    struct actor actor, rival;

    open_pair(&scene, &actor, &rival);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct rlock *lock = NULL;

        assert_code(keys[i].fair ? rlock_fair_new(actor.client, SCENE_NAME, NULL, &lock)
                                 : rlock_write_new(actor.client, SCENE_NAME,
                                                   &RLOCK_OPTS(.prefer_writers = true), &lock),
                    0);
        assert_code(rlock_try_lock(lock), 0);
        free(test_server_cmd(scene.server, "SADD %s x", keys[i].name));
        assert_code(rlock_unlock(lock), 0);
        assert_false(scene_is_held(&scene));
        assert_code(rlock_try_lock(lock), RLOCK_EWRONGTYPE);
        assert_code(rlock_lock_with(lock, RLOCK_TAKE(.wait_ms = 20000), NULL), RLOCK_EWRONGTYPE);
        assert_true(test_server_says(scene.server, "x", "SMEMBERS %s", keys[i].name));
        assert_int_equal(test_server_int(scene.server, "PTTL %s", keys[i].name), -1);
        free(test_server_cmd(scene.server, "DEL %s", keys[i].name));
        assert_code(rlock_try_lock(lock), 0);
        assert_code(rlock_unlock(lock), 0);
        lock = rlock_free(lock);
    }
    close_pair(&scene, &actor, &rival);
}

/* ---- Without an end ---- */

TEST(a_key_without_an_end_does_not_hold_waiters_for_ever)
{
    struct scene scene;
    struct actor actor, rival;
    struct rlock_info info = RLOCK_INFO_INIT;
    int64_t began_us;

    open_pair(&scene, &actor, &rival);
    scene_take_by_hand(&scene, 0);
    began_us = test_now_us();
    assert_code(rlock_lock_with(actor.lock, RLOCK_TAKE(.wait_ms = 200), NULL), RLOCK_ETIMEDOUT);
    assert_detail("held by somebody:1");
    assert_within(began_us, 200);
    assert_code(rlock_try_lock(actor.lock), RLOCK_EBUSY);
    assert_code(rlock_inspect(actor.lock, &info), 0);
    assert_int_equal(info.ttl_ms, -1);
    assert_int_equal(scene_ttl(&scene), -1); /* nobody repairs what is not his */
    say(&scene, "DEL a");
    close_pair(&scene, &actor, &rival);
}

TEST(a_hold_whose_end_was_taken_away_goes_on_as_any)
{
    struct scene scene;
    struct actor actor, rival;

    open_pair(&scene, &actor, &rival);
    for (int lease_ms = 0; lease_ms <= 60000; lease_ms += 60000) { /* renewed, and fixed */
        const struct rlock_take take = {.size = sizeof(take), .lease_ms = lease_ms};

        assert_code(rlock_lock_with(actor.lock, &take, NULL), 0);
        assert_int_equal(test_server_int(scene.server, "PERSIST a"), 1);
        assert_code(rlock_lock_with(actor.lock, &take, NULL), 0);
        assert_true(scene_ttl(&scene) > 0);
        (void)test_server_int(scene.server, "PERSIST a");
        assert_code(rlock_lock_with(actor.lock, &take, NULL), 0);
        (void)test_server_int(scene.server, "PERSIST a");
        assert_code(rlock_unlock(actor.lock), 0);
        assert_int_equal(scene_count(&scene), 2);
        assert_code(rlock_try_lock(rival.lock), RLOCK_EBUSY);
        assert_true(actor_step(&actor));
        assert_code(rlock_unlock(actor.lock), 0);
        assert_code(rlock_unlock(actor.lock), 0);
        assert_code(actor_visit(&rival, NULL), 0);
    }
    assert_code(rlock_try_lock(actor.lock), 0);
    assert_int_equal(test_server_int(scene.server, "PERSIST a"), 1);
    assert_true(TEST_EVENTUALLY(scene_ttl(&scene) > 0, 5000)); /* a renewal gives it one again */
    assert_code(rlock_unlock(actor.lock), 0);
    assert_int_equal(actor_losses(&actor), 0);
    close_pair(&scene, &actor, &rival);
}

/* ---- Gone ---- */

TEST(a_deleted_key_is_lost_at_the_next_renewal)
{
    struct scene scene;
    struct actor actor, rival;

    open_pair(&scene, &actor, &rival);
    assert_code(rlock_try_lock(actor.lock), 0);
    assert_true(actor_step(&actor));
    say(&scene, "DEL a");
    assert_int_equal(actor_wait_loss(&actor, 1), RLOCK_LOST_DELETED);
    assert_false(rlock_is_valid(actor.lock));
    assert_code(actor_visit(&rival, NULL), 0);
    assert_code(rlock_try_lock(actor.lock), RLOCK_ELOST); /* until it is unlocked */
    assert_code(rlock_unlock(actor.lock), RLOCK_ELOST);
    assert_code(actor_visit(&actor, NULL), 0);
    assert_int_equal(actor_losses(&actor), 1);
    close_pair(&scene, &actor, &rival);
}

TEST(a_key_taken_by_another_is_lost_and_stays_his)
{
    struct scene scene;
    struct actor actor, rival;

    open_pair(&scene, &actor, &rival);
    assert_code(rlock_try_lock(actor.lock), 0);
    say(&scene, "DEL a");
    assert_code(rlock_try_lock(rival.lock), 0);
    assert_int_equal(actor_wait_loss(&actor, 1), RLOCK_LOST_TAKEN);
    assert_true(actor_step(&rival));
    assert_code(rlock_unlock(actor.lock), RLOCK_ELOST);
    assert_int_equal(scene_count(&scene), 1);
    assert_true(actor_step(&rival));
    assert_code(rlock_unlock(rival.lock), 0);
    close_pair(&scene, &actor, &rival);
}

TEST(a_hold_that_is_gone_is_found_by_each_command)
{
    struct scene scene;
    struct actor actor, rival;

    open_pair(&scene, &actor, &rival);
    for (int i = 0; i < 2; i++) {
        const struct rlock_take take = {.size = sizeof(take), .lease_ms = 60000};

        assert_code(rlock_lock_with(actor.lock, &take, NULL), 0);
        assert_code(rlock_lock_with(actor.lock, &take, NULL), 0);
        say(&scene, "DEL a");
        if (i == 0) {
            assert_code(rlock_lock_with(actor.lock, &take, NULL), RLOCK_ELOST);
        }
        assert_code(rlock_unlock(actor.lock), RLOCK_ELOST);
        assert_false(rlock_is_valid(actor.lock));
        assert_false(scene_is_held(&scene));
        assert_code(rlock_unlock(actor.lock), RLOCK_ELOST);
        assert_code(rlock_unlock(actor.lock), RLOCK_ENOTOWNER);
        assert_int_equal(actor_wait_loss(&actor, (size_t)i + 1), RLOCK_LOST_DELETED);
    }
    close_pair(&scene, &actor, &rival);
}

TEST(a_renamed_key_that_comes_back_stays_lost)
{
    struct scene scene;
    struct actor actor, rival;
    long long ttl;

    open_pair(&scene, &actor, &rival);
    assert_code(rlock_try_lock(actor.lock), 0);
    say(&scene, "RENAME a z");
    assert_int_equal(actor_wait_loss(&actor, 1), RLOCK_LOST_DELETED);
    say(&scene, "PEXPIRE z 400");
    say(&scene, "RENAME z a");
    assert_false(rlock_is_valid(actor.lock));
    assert_code(rlock_unlock(actor.lock), RLOCK_ELOST);
    ttl = scene_ttl(&scene);
    assert_true(ttl > 0);
    assert_code(rlock_try_lock(rival.lock), RLOCK_EBUSY);
    while (scene_is_held(&scene)) { /* nobody renews it */
        assert_true(scene_ttl(&scene) <= ttl);
    }
    assert_code(actor_visit(&actor, NULL), 0);
    assert_int_equal(actor_losses(&actor), 1);
    close_pair(&scene, &actor, &rival);
}

TEST(a_key_restored_from_a_dump_does_not_bring_a_hold_back)
{
    static const char restore[] = "return redis.call('restore', 'a', 400, redis.call('get', 'z'))";
    static const char dump[] = "return redis.call('set', 'z', redis.call('dump', 'a'))";
    const char *save[] = {"EVAL", dump, "0", NULL};
    const char *load[] = {"EVAL", restore, "0", NULL};
    struct scene scene;
    struct actor actor, rival;

    open_pair(&scene, &actor, &rival);
    assert_code(rlock_try_lock(actor.lock), 0);
    free(test_server_argv(scene.server, save));
    say(&scene, "DEL a");
    assert_int_equal(actor_wait_loss(&actor, 1), RLOCK_LOST_DELETED);
    free(test_server_argv(scene.server, load));
    assert_int_equal(scene_count(&scene), 1);
    assert_false(rlock_is_valid(actor.lock));
    assert_code(rlock_try_lock(actor.lock), RLOCK_ELOST);
    assert_code(rlock_unlock(actor.lock), RLOCK_ELOST);
    assert_true(scene_wait_held(&scene, false));
    assert_code(actor_visit(&rival, NULL), 0);
    assert_int_equal(actor_losses(&actor), 1);
    say(&scene, "DEL z");
    close_pair(&scene, &actor, &rival);
}

/* ---- Hashes that are no locks ---- */

/* Makes a hash of so many fields, each with so many bytes in its name. */
static void make_hash(const struct scene *scene, const char *n, const char *bytes)
{
    static const char script[] =
        "for i = 1, tonumber(ARGV[1]) do\n"
        "  redis.call('hset', KEYS[1], string.rep('x', tonumber(ARGV[2])) .. i, i)\n"
        "end\n"
        "return 'made'";
    const char *words[] = {"EVAL", script, "1", SCENE_NAME, n, bytes, NULL};

    free(test_server_argv(scene->server, words));
}

/* All kinds refuse it at once, the calls of several members too, and nothing else is disturbed. */
static void is_no_lock_of_any_kind(const struct actor *actor)
{
    int (*const make[])(struct rlock_client *, const char *, const struct rlock_opts *,
                        struct rlock **) = {
        rlock_reentrant_new, rlock_nonreentrant_new, rlock_spin_new, rlock_fenced_new,
        rlock_fair_new,      rlock_read_new,         rlock_write_new};
    struct rlock *other = actor_lock(actor, "b");

    assert_code(rlock_try_lock(other), 0);
    for (size_t i = 0; i < sizeof(make) / sizeof(make[0]); i++) {
        struct rlock *lock = NULL, *both = NULL, *members[2] = {NULL};
        struct rlock_info info = RLOCK_INFO_INIT;

        assert_code(make[i](actor->client, SCENE_NAME, NULL, &lock), 0);
        members[0] = lock;
        members[1] = actor_lock(actor, "c");
        assert_code(rlock_multi_new(members, 2, NULL, &both), 0);
        assert_code(rlock_try_lock(lock), RLOCK_EWRONGTYPE);
        assert_code(rlock_lock_with(lock, RLOCK_TAKE(.wait_ms = 20000), NULL), RLOCK_EWRONGTYPE);
        assert_code(rlock_inspect(lock, &info), RLOCK_EWRONGTYPE);
        assert_code(rlock_force_unlock(lock, NULL), RLOCK_EWRONGTYPE);
        assert_code(rlock_try_lock(both), RLOCK_EWRONGTYPE);
        both = rlock_free(both);
        members[1] = rlock_free(members[1]);
        lock = rlock_free(lock);
        assert_true(rlock_is_valid(other));
    }
    assert_code(rlock_unlock(other), 0);
    other = rlock_free(other);
}

TEST(a_hash_that_is_no_lock_is_refused_whatever_its_size)
{
    static const struct {
        const char *fields, *bytes;
    } sizes[] = {{"1", "1"}, {"1", "300"}, {"1", "300000"}, {"2", "5"}, {"20000", "10"}};
    struct scene scene;
    struct actor actor, rival;

    open_pair(&scene, &actor, &rival);
    assert_code(actor_visit(&actor, NULL), 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        long long connections;

        make_hash(&scene, sizes[i].fields, sizes[i].bytes);
        connections = scene_info(&scene, "stats", "total_connections_received");
        is_no_lock_of_any_kind(&actor);
        /* the look for a number took one itself: the client's link is the one that it was */
        assert_true(scene_info(&scene, "stats", "total_connections_received") <= connections + 2);
        say(&scene, "DEL a");
    }
    assert_int_equal(actor_losses(&actor), 0);
    close_pair(&scene, &actor, &rival);
}

/* What a script does with a large hash does not grow with it. */
TEST(a_large_hash_costs_the_server_no_more_than_a_small_one)
{
    static const char *const makers[] = {"HSET a x 1", "HSET a mode read x 1"};
    struct scene scene;
    struct actor actor, rival;
    struct rlock *write = NULL;

    open_pair(&scene, &actor, &rival);
    assert_code(rlock_write_new(actor.client, SCENE_NAME, NULL, &write), 0);
    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        char *stats;

        say(&scene, makers[i]);
        make_hash(&scene, "20000", "10");
        say(&scene, "CONFIG RESETSTAT");
        for (int j = 0; j < 3; j++) {
            assert_true(rlock_try_lock(actor.lock) != 0);
            assert_true(rlock_try_lock(write) != 0);
        }
        stats = test_server_cmd(scene.server, "INFO commandstats");
        assert_null(strstr(stats, "cmdstat_hkeys:")); /* what lists a hash whole is not called */
        assert_null(strstr(stats, "cmdstat_hgetall:"));
        free(stats);
        say(&scene, "DEL a");
    }
    write = rlock_free(write);
    close_pair(&scene, &actor, &rival);
}

/* ---- Strange contents ---- */

TEST(strange_contents_are_somebody_elses_lock)
{
    static const char *const makers[] = {
        "HSET a somebody:1 -7", "HSET a somebody:1 99999999999999999999", "HSET a somebody:1 nan",
        "HSET a mode read one:1 1 two:2 2"};
    struct scene scene;
    struct actor actor, rival;
    struct rlock_info info = RLOCK_INFO_INIT;

    open_pair(&scene, &actor, &rival);
    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        bool was_locked = false;

        say(&scene, makers[i]);
        assert_code(rlock_try_lock(actor.lock), RLOCK_EBUSY);
        assert_code(rlock_lock_with(actor.lock, RLOCK_TAKE(.wait_ms = 200), NULL), RLOCK_ETIMEDOUT);
        assert_code(rlock_inspect(actor.lock, &info), 0);
        assert_true(info.locked);
        assert_false(info.mine);
        assert_code(rlock_force_unlock(actor.lock, &was_locked), 0);
        assert_true(was_locked);
        assert_false(scene_is_held(&scene));
    }
    assert_code(rlock_try_lock(actor.lock), 0); /* ours, with guests and a count that is not ours */
    say(&scene, "HSET a somebody:1 1");
    assert_true(scene_wait_renewed(&scene, LEASE_MS));
    assert_code(rlock_unlock(actor.lock), 0);
    assert_true(test_server_says(scene.server, "somebody:1", "HKEYS a"));
    say(&scene, "DEL a");
    close_pair(&scene, &actor, &rival);
}
