/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies and requests that come late: a reply belongs to its own command or to nobody, a peer that
 * vanished is found out, and a copy of an acquire that the server runs afterwards leaves no lock
 * behind that nobody holds.
 */
#include "fault/scene.h"
#include "fault/verbs.h"
#include "support/test.h"

/* ---- Late replies ---- */

/* Asks about a lock that somebody else holds seven times, until told to stop. */
struct asker {
    pthread_t thread;
    struct rlock *lock;
    _Atomic bool stop;
    _Atomic size_t answers;
};

static void *ask_main(void *arg)
{
    struct asker *asker = arg;

    while (!atomic_load(&asker->stop)) {
        struct rlock_info info = RLOCK_INFO_INIT;

        if (rlock_inspect(asker->lock, &info) == 0) {
            TEST_CHECK(info.locked && !info.mine && info.holders == 1 && info.count == 7);
            TEST_CHECK(info.ttl_ms == -1 && strcmp(info.holder, "somebody:1") == 0);
            atomic_fetch_add(&asker->answers, 1);
        }
    }
    return NULL;
}

TEST(a_late_reply_is_never_taken_for_another_commands)
{
    struct scene scene;
    struct actor actor, rival;
    const struct rlock_take take = {.size = sizeof(take), .wait_ms = 5000};
    struct crew crew = {.actor = &actor,
                        .take = &take,
                        .allowed = ALLOW(RLOCK_EINDOUBT) | ALLOW(RLOCK_ETIMEDOUT) |
                                   ALLOW(RLOCK_ECONN) | ALLOW(RLOCK_ELOST)};
    struct crew others = {
        .actor = &rival, .take = &take, .allowed = ALLOW(RLOCK_ETIMEDOUT) | ALLOW(RLOCK_ELOST)};
    struct asker asker = {.stop = false};

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    free(test_server_cmd(scene.server, "HSET b somebody:1 7"));
    actor_open(&actor, &scene,
               RLOCK_CLIENT_OPTS(.op_timeout_ms = scene_ms(25), .renewed_lease_ms = 1000,
                                 .connect_timeout_ms = 1000 * test_slack()));
    actor_open_direct(&rival, &scene);
    asker.lock = actor_lock(&actor, "b");
    proxy_jitter_us(scene.proxy, scene_ms(15) * 1000, 1);
    crew_start(&crew, 4);
    crew_start(&others, 1);
    TEST_CHECK(pthread_create(&asker.thread, NULL, ask_main, &asker) == 0);
    assert_true(TEST_EVENTUALLY(
        proxy_stats(scene.proxy).accepted >= 40 && atomic_load(&crew.visits) >= 10, 20000));
    assert_true(TEST_EVENTUALLY(atomic_load(&asker.answers) >= 10, 10000));
    atomic_store(&asker.stop, true);
    crew_stop(&crew);
    crew_stop(&others);
    TEST_CHECK(pthread_join(asker.thread, NULL) == 0);
    free(test_server_cmd(scene.server, "DEL b"));
    asker.lock = rlock_free(asker.lock);
    proxy_jitter_us(scene.proxy, 0, 0);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

struct canceled {
    pthread_t thread;
    const struct actor *actor;
    struct rlock_cancel *cancel;
    int code;
};

static void *cancel_main(void *arg)
{
    struct canceled *call = arg;

    call->code = rlock_lock_with(call->actor->lock,
                                 RLOCK_TAKE(.wait_ms = 20000, .cancel = call->cancel), NULL);
    return NULL;
}

TEST(the_reply_of_an_abandoned_call_is_read_in_its_place)
{
    struct scene scene;
    struct actor actor;
    struct canceled call = {.actor = &actor};
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock *other;
    struct proxy_rule rule;
    int number;

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    verbs_load(&scene);
    free(test_server_cmd(scene.server, "HSET b somebody:1 7"));
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack()));
    other = actor_lock(&actor, "b");
    assert_code(rlock_cancel_new(&call.cancel), 0);
    rule = script_rule("acquire", PROXY_DELAY_REPLY);
    rule.delay_us = 300000;
    number = proxy_add(scene.proxy, &rule);
    TEST_CHECK(pthread_create(&call.thread, NULL, cancel_main, &call) == 0);
    assert_true(proxy_wait_fired(scene.proxy, number, 1, 5000));
    rlock_cancel_fire(call.cancel);
    TEST_CHECK(pthread_join(call.thread, NULL) == 0);
    assert_int_equal(call.code, RLOCK_EINDOUBT); /* it was granted, but who knows */
    assert_code(rlock_inspect(other, &info), 0); /* behind it on the same connection */
    assert_int_equal(info.count, 7);
    assert_true(scene_wait_held(&scene, false));
    assert_int_equal(rlock_hold_count(actor.lock), 0);
    call.cancel = rlock_cancel_free(call.cancel);
    free(test_server_cmd(scene.server, "DEL b"));
    other = rlock_free(other);
    actor_close(&actor);
    scene_close(&scene);
}

TEST(a_grant_that_comes_after_its_lease_is_none)
{
    struct scene scene;
    struct actor actor;
    struct proxy_rule rule;

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    verbs_load(&scene);
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack()));
    rule = script_rule("acquire", PROXY_DELAY_REPLY);
    rule.delay_us = 60000;
    proxy_add(scene.proxy, &rule);
    assert_code(rlock_lock_with(actor.lock, RLOCK_TAKE(.lease_ms = 50), NULL), RLOCK_ECONN);
    assert_false(rlock_is_valid(actor.lock));
    assert_int_equal(rlock_hold_count(actor.lock), 0);
    assert_code(rlock_unlock(actor.lock), RLOCK_ENOTOWNER);
    assert_true(scene_wait_held(&scene, false));
    actor_close(&actor);
    scene_close(&scene);
}

/* ---- Peers that vanished ---- */

TEST(a_vanished_peer_is_found_out_by_a_call_that_waits)
{
    struct scene scene;
    struct actor actor;
    int64_t began_us;

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = scene_ms(100)));
    assert_code(actor_visit(&actor, NULL), 0);
    proxy_black_hole(scene.proxy, PROXY_ANY, true);
    proxy_black_hole(scene.proxy, PROXY_ANY, false); /* for new connections alone */
    began_us = test_now_us();
    assert_code(actor_visit(&actor, RLOCK_TAKE(.wait_ms = 20000)), 0);
    assert_within(began_us, scene_ms(100));
    actor_close(&actor);
    scene.proxy = proxy_stop(scene.proxy); /* the vanished connection is still open behind it */
    scene_close(&scene);
}

TEST(a_hold_outlives_a_peer_that_vanished)
{
    struct scene scene;
    struct actor actor, rival;
    const int64_t lease_ms = scene_ms(600);

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    actor_open(&actor, &scene,
               RLOCK_CLIENT_OPTS(.op_timeout_ms = scene_ms(100), .renewed_lease_ms = lease_ms));
    actor_open_direct(&rival, &scene);
    assert_code(rlock_try_lock(actor.lock), 0);
    for (int i = 0; i < 3; i++) {
        uint64_t accepted = proxy_stats(scene.proxy).accepted;

        proxy_black_hole(scene.proxy, PROXY_ANY, true);
        proxy_black_hole(scene.proxy, PROXY_ANY, false);
        assert_true(TEST_EVENTUALLY(proxy_stats(scene.proxy).accepted > accepted, 2000));
        assert_true(scene_wait_renewed(&scene, lease_ms));
        assert_true(actor_step(&actor));
        assert_code(rlock_try_lock(rival.lock), RLOCK_EBUSY);
    }
    assert_code(rlock_unlock(actor.lock), 0);
    assert_code(actor_visit(&rival, NULL), 0);
    assert_int_equal(actor_losses(&actor), 0);
    actor_close(&actor);
    actor_close(&rival);
    scene.proxy = proxy_stop(scene.proxy);
    scene_close(&scene);
}

TEST(a_silent_server_loses_the_hold_at_the_end_of_its_validity)
{
    struct scene scene;
    struct actor actor, rival;
    int64_t began_us, lost_us;

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = 100, .renewed_lease_ms = 400));
    actor_open_direct(&rival, &scene);
    assert_code(rlock_try_lock(actor.lock), 0);
    began_us = test_now_us();
    proxy_go_silent(scene.proxy, PROXY_ANY, true);
    assert_true(actor_work(&actor) - began_us < 400000);
    lost_us = test_now_us();
    assert_int_equal(actor_wait_loss(&actor, 1), RLOCK_LOST_EXPIRED);
    assert_true(test_in_time(lost_us, actor.diary.lost_at_us[0] - lost_us,
                             (int64_t)SCENE_LATE_MS * 1000 * test_slack()));
    assert_code(actor_visit(&rival, RLOCK_TAKE(.wait_ms = 2000)), 0);
    assert_code(rlock_unlock(actor.lock), RLOCK_ELOST);
    proxy_go_silent(scene.proxy, PROXY_ANY, false);
    assert_code(actor_visit(&actor, RLOCK_TAKE(.wait_ms = 20000)), 0);
    assert_int_equal(actor_losses(&actor), 1);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

/* Where the holder lives is asked on a connection of its own: worth no waiting. */
TEST(an_inspect_does_not_wait_longer_for_the_holders_address)
{
    static const struct proxy_rule faults[] = {{.act = PROXY_DROP_REPLY, .command = "HELLO"},
                                               {.act = PROXY_DROP_REPLY, .contains = "LIST"}};
    struct scene scene;
    struct actor actor;

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    scene_take_by_hand(&scene, 0);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct rlock_info info = RLOCK_INFO_INIT;
        struct proxy_rule slow = script_rule("inspect", PROXY_DELAY_REPLY);
        int64_t began_us;
        int rule;

        actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = scene_ms(600)));
        assert_code(rlock_inspect(actor.lock, &info), 0);
        slow.delay_us = scene_ms(300) * 1000;
        (void)proxy_add(scene.proxy, &slow);
        rule = proxy_add(scene.proxy, &faults[i]);
        began_us = test_now_us();
        assert_code(rlock_inspect(actor.lock, &info), 0);
        assert_within(began_us, scene_ms(600));
        assert_int_equal(proxy_fired(scene.proxy, rule), 1);
        assert_string_equal(info.holder, "somebody:1");
        assert_string_equal(info.host, "");
        actor_close(&actor);
    }
    free(test_server_cmd(scene.server, "DEL " SCENE_NAME));
    scene_close(&scene);
}

/* ---- Late copies ---- */

static const char *const may_kill[] = {NULL};
static const char *const no_kill[] = {"user default on nopass ~* &* +@all -client|kill", NULL};
static const char *const no_number[] = {"user default on nopass ~* &* +@all -client|id",
                                        "rename-command HELLO \"\"", NULL};

/* The first acquire is held on its way while its connection is given up. */
static void late_open(struct scene *scene, struct actor *actor, struct actor *rival,
                      const char *const *conf)
{
    struct scene_opts opts = {.proxied = true, .server.conf = conf};
    struct proxy_rule rule;

    scene_open(scene, &opts);
    verbs_load(scene);
    actor_open(
        actor, scene,
        RLOCK_CLIENT_OPTS(.op_timeout_ms = scene_ms(100), .renewed_lease_ms = scene_ms(1000)));
    actor_open_direct(rival, scene);
    rule = script_rule("acquire", PROXY_HOLD);
    proxy_add(scene->proxy, &rule);
}

static void late_close(struct scene *scene, struct actor *actor, struct actor *rival)
{
    actor_close(actor);
    actor_close(rival);
    scene_close(scene);
}

TEST(a_late_copy_of_a_fenced_connection_leaves_no_orphan)
{
    struct scene scene;
    struct actor actor, rival;

    late_open(&scene, &actor, &rival, may_kill);
    for (int i = 0; i < 5; i++) {
        struct proxy_rule rule = script_rule("acquire", PROXY_HOLD);

        assert_code(actor_visit(&actor, RLOCK_TAKE(.wait_ms = 20000)), 0);
        proxy_hold_requests(scene.proxy, false); /* on its way again, to nobody */
        assert_code(actor_visit(&actor, NULL), 0);
        assert_false(scene_is_held(&scene));
        assert_code(actor_visit(&rival, NULL), 0);
        proxy_add(scene.proxy, &rule);
    }
    late_close(&scene, &actor, &rival);
}

TEST(busy_is_said_once_the_late_copy_is_fenced)
{
    struct scene scene;
    struct actor actor, rival;
    int64_t began_us;

    late_open(&scene, &actor, &rival, may_kill);
    assert_code(rlock_try_lock(rival.lock), 0);
    began_us = test_now_us();
    assert_code(rlock_lock_with(actor.lock, RLOCK_TAKE(.wait_ms = scene_ms(300)), NULL),
                RLOCK_ETIMEDOUT);
    assert_within(began_us, scene_ms(300));
    assert_code(rlock_unlock(rival.lock), 0);
    proxy_hold_requests(scene.proxy, false);
    assert_code(actor_visit(&actor, NULL), 0);
    assert_false(scene_is_held(&scene));
    late_close(&scene, &actor, &rival);
}

static void check_in_doubt_and_released_again(const char *const *conf)
{
    struct scene scene;
    struct actor actor, rival;
    int64_t began_us;

    late_open(&scene, &actor, &rival, conf);
    assert_code(rlock_try_lock(rival.lock), 0);
    began_us = test_now_us();
    assert_code(rlock_lock_with(actor.lock, RLOCK_TAKE(.wait_ms = scene_ms(300)), NULL),
                RLOCK_EINDOUBT);
    assert_free_in(1, scene_ms(1000));
    assert_within(began_us, scene_ms(300));
    assert_code(rlock_unlock(rival.lock), 0);
    proxy_hold_requests(scene.proxy, false); /* now it takes the lock, for nobody */
    assert_true(scene_wait_held(&scene, true));
    assert_true(scene_wait_held(&scene, false));
    assert_code(actor_visit(&rival, NULL), 0);
    late_close(&scene, &actor, &rival);
}

TEST(a_late_copy_that_nobody_may_kill_is_in_doubt_and_released_again)
{
    check_in_doubt_and_released_again(no_kill);
}

/* That none of those whose numbers are known lives on says nothing of it. */
TEST(a_late_copy_whose_connection_has_no_number_is_in_doubt_and_released_again)
{
    check_in_doubt_and_released_again(no_number);
}

TEST(a_late_copy_of_a_hold_that_has_ended_is_released_again)
{
    struct scene scene;
    struct actor actor, rival;

    late_open(&scene, &actor, &rival, no_kill);
    assert_code(actor_visit(&actor, RLOCK_TAKE(.wait_ms = 20000)), 0);
    proxy_hold_requests(scene.proxy, false);
    assert_true(scene_wait_held(&scene, true));
    assert_code(rlock_try_lock(rival.lock), RLOCK_EBUSY);
    assert_true(scene_wait_held(&scene, false));
    assert_code(actor_visit(&rival, NULL), 0);
    late_close(&scene, &actor, &rival);
}

/* ---- A slow line ---- */

TEST(eight_threads_share_one_name_over_a_slow_line)
{
    struct scene scene;
    struct actor actor, rival;
    const struct rlock_take take = {.size = sizeof(take), .wait_ms = RLOCK_FOREVER};
    struct crew crew = {.actor = &actor, .take = &take, .rounds = 2};
    struct crew others = {.actor = &rival, .take = &take, .rounds = 4};

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    proxy_delay_us(scene.proxy, 20000);
    actor_open(&actor, &scene,
               RLOCK_CLIENT_OPTS(.op_timeout_ms = 1000 * test_slack(),
                                 .renewed_lease_ms = 1000 * test_slack()));
    actor_open_direct(&rival, &scene);
    crew_start(&crew, 8);
    crew_start(&others, 1);
    crew_join(&crew);
    crew_join(&others);
    assert_int_equal(atomic_load(&crew.visits), 16);
    assert_int_equal(actor_losses(&actor) + actor_losses(&rival), 0);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

/* ---- What is taken while it is still being given up ---- */

struct giver {
    struct rlock *lock;
    uint64_t owner;
    int code;
};

static void *give_up_main(void *arg)
{
    struct giver *giver = arg;

    giver->code = rlock_unlock_as(giver->lock, giver->owner);
    return NULL;
}

TEST(an_owner_that_waits_for_its_unlock_may_take_another_kind)
{
    struct scene scene;
    struct actor actor;
    struct giver giver = {.code = -1};
    struct proxy_rule slow;
    pthread_t thread;
    struct rlock *spin;
    int rule;

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000));
    verbs_load(&scene);
    assert_code(rlock_spin_new(actor.client, SCENE_NAME, NULL, &spin), 0);
    giver.lock = spin;
    giver.owner = rlock_owner_new(actor.client);
    for (int i = 0; i < 3; i++) {
        assert_code(rlock_lock_with(giver.lock, RLOCK_TAKE(.owner = giver.owner), NULL), 0);
        slow = script_rule("release", PROXY_DELAY_REPLY);
        slow.delay_us = 200000;
        rule = proxy_add(scene.proxy, &slow);
        TEST_CHECK(pthread_create(&thread, NULL, give_up_main, &giver) == 0);
        assert_true(proxy_wait_fired(scene.proxy, rule, 1, 5000));
        assert_code(
            rlock_lock_with(actor.lock, RLOCK_TAKE(.owner = giver.owner, .wait_ms = 5000), NULL),
            0);
        TEST_CHECK(pthread_join(thread, NULL) == 0);
        assert_int_equal(giver.code, 0);
        assert_true(rlock_is_valid_as(actor.lock, giver.owner));
        assert_code(rlock_unlock_as(actor.lock, giver.owner), 0);
    }
    spin = rlock_free(spin);
    actor_close(&actor);
    scene_close(&scene);
}
