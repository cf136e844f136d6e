/* SPDX-License-Identifier: Apache-2.0 */
/* What the server does not permit: passwords, commands inside scripts, keys, channels; and what it
 * must permit at least. */
#include "fault/scene.h"
#include "fault/verbs.h"
#include "support/test.h"

#define SECRET "canary-0815"
#define LEASE_MS scene_ms(300)

static void say(const struct scene *scene, const char *command)
{
    char *reply = test_server_cmd(scene->server, "%s", command);

    assert_string_equal(reply, "OK");
    free(reply);
}

static void says_no_secret(struct actor *actor)
{
    assert_null(strstr(rlock_detail(), SECRET));
    assert_int_equal(actor_logged(actor, SECRET), 0);
}

/* ---- Passwords ---- */

/* Every call fails at once, also one that would wait, and nobody hammers at the door. */
static void is_turned_away(struct scene *scene, struct rlock_client_opts opts, const char *why)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct actor actor;
    int64_t began_us;
    long long tries = scene_info(scene, "stats", "total_connections_received");

    opts.op_timeout_ms = 1000 * test_slack();
    actor_open(&actor, scene, opts);
    began_us = test_now_us();
    assert_code(rlock_lock_with(actor.lock, RLOCK_TAKE(.wait_ms = 60000), NULL), RLOCK_EAUTH);
    assert_detail("lock " SCENE_NAME);
    assert_detail(why);
    assert_code(rlock_try_lock(actor.lock), RLOCK_EAUTH);
    says_no_secret(&actor);
    assert_code(rlock_inspect(actor.lock, &info), RLOCK_EAUTH);
    assert_code(rlock_force_unlock(actor.lock, NULL), RLOCK_EAUTH);
    says_no_secret(&actor);
    assert_within(began_us, 200);
    actor_close(&actor);
    tries = scene_info(scene, "stats", "total_connections_received") - tries;
    assert_in_range(tries, 1, 10);
}

TEST(a_wrong_password_is_final_and_never_repeated_in_a_text)
{
    static const char *const conf[] = {"requirepass good", "user off off >good ~* &* +@all", NULL};
    struct scene scene;
    struct actor actor;

    scene_open(&scene, &(struct scene_opts){.server.conf = conf});
    is_turned_away(&scene, RLOCK_CLIENT_OPTS(.password = NULL), "password");
    is_turned_away(&scene, RLOCK_CLIENT_OPTS(.password = SECRET), "WRONGPASS");
    is_turned_away(&scene, RLOCK_CLIENT_OPTS(.user = "nobody", .password = SECRET), "WRONGPASS");
    is_turned_away(&scene, RLOCK_CLIENT_OPTS(.user = "off", .password = "good"), "WRONGPASS");
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.password = "good"));
    assert_code(actor_visit(&actor, NULL), 0);
    actor_close(&actor);
    scene_close(&scene);
}

TEST(a_password_that_changes_ends_waiters_and_in_time_holds)
{
    static const char *const conf[] = {"requirepass good", NULL};
    struct scene scene;
    struct actor actor, other;
    struct waiter waiter;
    int64_t began_us;
    int code;

    scene_open(&scene, &(struct scene_opts){.server.conf = conf});
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.password = "good", .renewed_lease_ms = LEASE_MS));
    actor_open(&other, &scene, RLOCK_CLIENT_OPTS(.password = "good"));
    assert_code(rlock_try_lock(actor.lock), 0);
    waiter_start(&waiter, &other, RLOCK_TAKE(.wait_ms = 60000));
    assert_true(scene_wait_waiters(&scene, 1));
    say(&scene, "CONFIG SET requirepass better");
    free(test_server_cmd(scene.server, "CLIENT KILL TYPE normal SKIPME yes"));
    free(test_server_cmd(scene.server, "CLIENT KILL TYPE pubsub"));
    began_us = test_now_us();
    code = waiter_join(&waiter);
    assert_within(began_us, LEASE_MS + 1000);
    assert_true(code == RLOCK_EAUTH || code == RLOCK_EINDOUBT); /* it was just being asked for */
    (void)actor_work(&actor);
    assert_int_equal(actor_wait_loss(&actor, 1), RLOCK_LOST_EXPIRED);
    began_us = test_now_us();
    assert_code(rlock_unlock(actor.lock), RLOCK_ELOST);
    assert_code(rlock_try_lock(actor.lock), RLOCK_EAUTH);
    assert_within(began_us, 50);
    say(&scene, "CONFIG SET requirepass good");
    assert_true(TEST_EVENTUALLY(actor_visit(&actor, NULL) == 0, 5000)); /* it tries again */
    assert_true(TEST_EVENTUALLY(actor_visit(&other, NULL) == 0, 5000));
    actor_close(&actor);
    actor_close(&other);
    scene_close(&scene);
}

/* ---- Commands inside scripts ---- */

static void is_denied(const struct scene *scene, const struct actor *actor, const struct verb *verb,
                      const char *rule)
{
    int64_t began_us;
    int code;

    verb_prepare(verb, actor);
    free(test_server_cmd(scene->server, "ACL SETUSER default %s", rule));
    began_us = test_now_us();
    code = verb->run(actor);
    if (code != RLOCK_EPERM) {
        fail_msg("%s, %s: %s: %s", verb->name, rule, rlock_code_name(code), rlock_detail());
    }
    assert_detail("server");
    assert_detail("ACL");
    assert_within(began_us, 50);
    if (verb == &verb_acquire) {
        assert_code(rlock_lock_with(actor->lock, RLOCK_TAKE(.wait_ms = 60000), NULL), RLOCK_EPERM);
        assert_within(began_us, 100);
    }
    say(scene, "ACL SETUSER default +@all allkeys");
    verb_clean_up(actor);
}

static void denied_inside_a_script(const char *program)
{
    static const struct {
        const struct verb *verb;
        const char *rule;
    } cases[] = {{&verb_acquire, "-exists"},     {&verb_acquire, "-hset"},
                 {&verb_acquire, "-pexpire"},    {&verb_acquire, "-evalsha"},
                 {&verb_acquire, "-@all"},       {&verb_acquire, "resetkeys ~b"},
                 {&verb_nested, "-hget"},        {&verb_nested, "-pexpire"},
                 {&verb_nested, "-pttl"},        {&verb_nested, "-hset"},
                 {&verb_nested, "resetkeys"},    {&verb_partial, "-hget"},
                 {&verb_partial, "-pexpire"},    {&verb_partial, "-hset"},
                 {&verb_release, "-hdel"},       {&verb_release, "-evalsha"},
                 {&verb_release, "resetkeys"},   {&verb_force, "-hexists"},
                 {&verb_force, "-del"},          {&verb_inspect, "-hlen"},
                 {&verb_inspect, "-pttl"},       {&verb_inspect, "-hkeys"},
                 {&verb_inspect, "resetkeys ~b"}};
    struct scene scene;
    struct actor actor;

    scene_open(&scene, &(struct scene_opts){.server.program = program});
    verbs_load(&scene);
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack()));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        is_denied(&scene, &actor, cases[i].verb, cases[i].rule);
    }
    assert_code(actor_visit(&actor, NULL), 0);
    assert_int_equal(actor_losses(&actor), 0);
    actor_close(&actor);
    scene_close(&scene);
}

TEST(what_redis_denies_inside_a_script_is_a_matter_of_permission)
{
    denied_inside_a_script("redis");
}

TEST(what_valkey_denies_inside_a_script_is_a_matter_of_permission)
{
    denied_inside_a_script("valkey");
}

TEST(a_lease_that_is_not_permitted_leaves_no_lock_without_an_end)
{
    struct scene scene;
    struct actor actor;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.url = NULL));
    say(&scene, "ACL SETUSER default -pexpire");
    assert_code(rlock_try_lock(actor.lock), RLOCK_EPERM);
    assert_false(scene_is_held(&scene));
    actor_close(&actor);
    scene_close(&scene);
}

TEST(a_renewal_that_is_not_permitted_loses_the_hold_in_time)
{
    struct scene scene;
    struct actor actor, rival;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.renewed_lease_ms = LEASE_MS));
    actor_open_direct(&rival, &scene);
    assert_code(rlock_try_lock(actor.lock), 0);
    say(&scene, "ACL SETUSER default -time");
    (void)actor_work(&actor);
    assert_int_equal(actor_wait_loss(&actor, 1), RLOCK_LOST_EXPIRED);
    assert_true(actor_logged(&actor, "renewal failed") > 0);
    say(&scene, "ACL SETUSER default +time");
    assert_code(actor_visit(&rival, RLOCK_TAKE(.wait_ms = 5000)), 0);
    assert_code(rlock_unlock(actor.lock), RLOCK_ELOST);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

TEST(a_release_that_is_not_permitted_is_not_tried_for_ever)
{
    struct scene scene;
    struct actor actor;
    int64_t began_us;

    scene_open(&scene, NULL);
    actor_open(
        &actor, &scene,
        RLOCK_CLIENT_OPTS(.op_timeout_ms = 3000 * test_slack(), .renewed_lease_ms = LEASE_MS));
    assert_code(rlock_try_lock(actor.lock), 0);
    say(&scene, "ACL SETUSER default -hdel");
    assert_code(rlock_unlock(actor.lock), RLOCK_EPERM);
    assert_false(rlock_is_valid(actor.lock)); /* whatever becomes of its release now */
    assert_code(rlock_unlock(actor.lock), RLOCK_EPERM);
    assert_false(rlock_is_valid(actor.lock));
    assert_int_equal(rlock_hold_count(actor.lock), 1);
    assert_true(scene_wait_held(&scene, false)); /* it is not renewed */
    assert_true(TEST_EVENTUALLY(rlock_unlock(actor.lock) == RLOCK_ENOTOWNER, 5000));
    assert_int_equal(actor_losses(&actor), 0); /* given up is not lost */
    /* The lease has ended on the server, as long ago as it lasted, and a little, since clocks may
     * differ: nothing is left to be done. */
    began_us = test_now_us();
    assert_true(TEST_EVENTUALLY(test_elapsed_us(began_us) > LEASE_MS * 1100, 5000));
    began_us = test_now_us();
    actor.client = rlock_client_close(actor.client);
    assert_within(began_us, 1000); /* it does not wait for its op_timeout */
    assert_int_equal(actor_logged(&actor, "not released"), 0);
    actor_close(&actor);
    scene_close(&scene);
}

/* ---- Channels ---- */

/* A waiter on the lock gets it soon after it is free, by asking again and again. */
static void polls(struct scene *scene, struct actor *actor, struct actor *rival)
{
    struct waiter waiter;
    long long calls;
    int64_t released_us;

    assert_code(rlock_try_lock(rival->lock), 0);
    calls = scene_info(scene, "commandstats", "cmdstat_evalsha:calls");
    waiter_start(&waiter, actor, RLOCK_TAKE(.wait_ms = 60000));
    assert_true(TEST_EVENTUALLY(
        scene_info(scene, "commandstats", "cmdstat_evalsha:calls") >= calls + 2, 5000));
    assert_true(actor_logged(actor, "refuses a subscription") > 0);
    assert_true(actor_step(rival));
    released_us = test_now_us();
    assert_code(rlock_unlock(rival->lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(released_us, 250);
    assert_true(scene_wait_waiters(scene, 0));
}

static void may_not_subscribe(const char *rule)
{
    struct scene scene;
    struct actor actor, rival;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = 1000 * test_slack()));
    actor_open_direct(&rival, &scene);
    free(test_server_cmd(scene.server, "ACL SETUSER default %s", rule));
    for (int i = 0; i < 4; i++) {
        polls(&scene, &actor, &rival);
    }
    assert_int_equal(actor_logged(&actor, "refuses a subscription"), 1);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

TEST(waiters_that_may_not_subscribe_poll_and_say_so_once)
{
    may_not_subscribe("-subscribe");
}

TEST(waiters_that_may_not_use_the_channel_poll_and_say_so_once)
{
    may_not_subscribe("resetchannels &other");
}

TEST(a_refused_subscription_does_not_disturb_another)
{
    struct scene scene;
    struct actor actor, other, rival;
    struct waiter waiter, refused;
    int64_t released_us;

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack()));
    actor_open_direct(&rival, &scene);
    other = actor; /* the same client's, on another lock */
    other.lock = actor_lock(&actor, "b");
    free(test_server_cmd(scene.server, "HSET b somebody:1 1"));
    say(&scene, "ACL SETUSER default resetchannels &" SCENE_CHANNEL);
    assert_code(rlock_try_lock(rival.lock), 0);
    proxy_delay_way_us(scene.proxy, PROXY_SUBSCRIBERS, PROXY_TO_CLIENT, 200000);
    waiter_start(&refused, &other, RLOCK_TAKE(.wait_ms = 1000));
    assert_true(proxy_wait_subscribers(scene.proxy, 1, 5000));
    waiter_start(&waiter, &actor, RLOCK_TAKE(.wait_ms = 60000));
    assert_true(scene_wait_waiters(&scene, 1)); /* while the refusal is still on its way */
    assert_int_equal(actor_logged(&actor, "refuses a subscription"), 0);
    assert_true(TEST_EVENTUALLY(actor_logged(&actor, "refuses a subscription") == 1, 5000));
    proxy_delay_way_us(scene.proxy, PROXY_SUBSCRIBERS, PROXY_TO_CLIENT, 0);
    released_us = test_now_us();
    assert_code(rlock_unlock(rival.lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(released_us, 250);
    assert_int_equal(waiter_join(&refused), RLOCK_ETIMEDOUT);
    free(test_server_cmd(scene.server, "DEL b"));
    assert_true(scene_wait_waiters(&scene, 0)); /* nobody waits: nobody is subscribed */
    other.lock = rlock_free(other.lock);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

static void may_not_publish(const char *rule)
{
    struct scene scene;
    struct actor actor, rival;
    struct waiter waiter;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.renewed_lease_ms = LEASE_MS));
    actor_open_direct(&rival, &scene);
    assert_code(rlock_try_lock(actor.lock), 0);
    waiter_start(&waiter, &rival, RLOCK_TAKE(.wait_ms = 60000));
    assert_true(scene_wait_waiters(&scene, 1));
    free(test_server_cmd(scene.server, "ACL SETUSER default %s", rule));
    assert_true(actor_step(&actor));
    assert_code(rlock_unlock(actor.lock), 0);
    assert_false(rlock_is_valid(actor.lock));
    assert_true(TEST_EVENTUALLY(actor_logged(&actor, "its waiters were not told") == 1, 5000));
    assert_int_equal(waiter_join(&waiter), 0); /* when the lease would have ended */
    assert_true(test_took_at_most(waiter.took_us, 500000 * test_slack()));
    assert_int_equal(actor_losses(&actor), 0);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

TEST(an_unlock_that_may_not_publish_succeeds_and_says_so)
{
    may_not_publish("-publish");
    may_not_publish("resetchannels &other");
}

/* ---- The least that is needed ---- */

static const char *const recipe[] = {
    "user locker on >" SECRET " -@all +evalsha +eval +script|load +subscribe +unsubscribe"
    " +ssubscribe +sunsubscribe +ping +client|setname +client|id +client|kill +client|list +role"
    " +wait +exists +hexists +hincrby +hset +hget +hdel +hlen +hkeys +pexpire +pttl +get +set +del"
    " +incr +publish +spublish +time +hmget +lindex +llen +lpos +lrange +lrem +rpush +zscore +zadd"
    " +zrem +pubsub|numsub ~rlock_fair:{app:*"
    " ~app:* ~redisson_lock_queue:{app:* ~redisson_lock_timeout:{app:* ~redisson_lock_token:{app:*"
    " ~redisson_unlock_latch:{app:* ~{app:*}:*:rwlock_timeout:* ~redisson_lock__channel:{app:*"
    " resetchannels &redisson_lock__channel:{app:*",
    NULL};

#define APP "app:orders"

static void app_waits(const struct scene *scene, struct rlock *lock, const struct actor *rival)
{
    struct actor app = {.lock = lock};
    struct rlock *theirs = actor_lock(rival, APP);
    struct waiter waiter;

    app.scene = rival->scene;
    assert_code(rlock_try_lock(theirs), 0);
    waiter_start(&waiter, &app, RLOCK_TAKE(.wait_ms = 60000));
    assert_true(TEST_EVENTUALLY(
        test_server_says(scene->server, "redisson_lock__channel:{" APP "}", "PUBSUB CHANNELS"),
        5000));
    assert_code(rlock_unlock(theirs), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(waiter.unlock_code, 0);
    theirs = rlock_free(theirs);
}

static void app_holds(const struct scene *scene, struct rlock *lock)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    bool was_locked = false;

    assert_code(rlock_try_lock(lock), 0);
    assert_code(rlock_try_lock(lock), 0);
    assert_true(
        TEST_EVENTUALLY(test_server_int(scene->server, "PTTL " APP) < LEASE_MS * 9 / 10, 5000));
    assert_true(
        TEST_EVENTUALLY(test_server_int(scene->server, "PTTL " APP) >= LEASE_MS * 9 / 10, 5000));
    assert_code(rlock_inspect(lock, &info), 0);
    assert_true(info.mine && info.count == 2 && info.pid != 0);
    free(test_server_cmd(scene->server, "CLIENT KILL TYPE normal SKIPME yes"));
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    free(test_server_cmd(scene->server, "HSET " APP " somebody:1 1"));
    assert_code(rlock_force_unlock(lock, &was_locked), 0);
    assert_true(was_locked);
}

static void recipe_suffices(const char *program)
{
    struct scene scene;
    struct actor actor, rival;
    struct rlock *lock;

    scene_open(&scene, &(struct scene_opts){.server = {.program = program, .conf = recipe}});
    actor_open(&actor, &scene,
               RLOCK_CLIENT_OPTS(.user = "locker", .password = SECRET,
                                 .op_timeout_ms = 1000 * test_slack(),
                                 .renewed_lease_ms = LEASE_MS));
    actor_open_direct(&rival, &scene);
    lock = actor_lock(&actor, APP);
    app_holds(&scene, lock);
    app_waits(&scene, lock, &rival);
    assert_code(rlock_try_lock(actor.lock), RLOCK_EPERM); /* and no more than that */
    assert_int_equal(test_server_int(scene.server, "EXISTS " SCENE_NAME), 0);
    assert_int_equal(actor_losses(&actor), 0);
    assert_int_equal(actor_logged(&actor, ""), 0);
    lock = rlock_free(lock);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

TEST(the_recipe_for_a_user_suffices_on_redis)
{
    recipe_suffices("redis");
}

TEST(the_recipe_for_a_user_suffices_on_valkey)
{
    recipe_suffices("valkey");
}
