/* SPDX-License-Identifier: Apache-2.0 */
/* What the server does not permit: passwords, commands inside scripts, keys, channels; and what it
 * must permit at least. */
#include "fault/verbs.h"
#include "support/waiter.h"
#include "support/waiting.h"

#define SECRET "canary-0815"
#define LEASE_MS test_ms(300)

static void say(const struct fixture *f, const char *command)
{
    char *reply = test_server_cmd(f->server, "%s", command);

    assert_string_equal(reply, "OK");
    free(reply);
}

static void says_no_secret(struct user *user)
{
    assert_null(strstr(rlock_detail(), SECRET));
    assert_int_equal(user_logged(user, SECRET), 0);
}

/* ---- Passwords ---- */

/* Every call fails at once, also one that would wait, and nobody hammers at the door. */
static void is_turned_away(struct fixture *f, struct rlock_client_opts opts, const char *why)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct user *user;
    int64_t began_us;
    long long tries = test_server_info(f->server, "stats", "total_connections_received");

    opts.op_timeout_ms = 1000 * test_slack();
    user = user_open(f, opts);
    began_us = test_now_us();
    assert_code(rlock_lock_for(user->lock, 60000, NULL, NULL), RLOCK_EAUTH);
    assert_detail("lock " LOCK_A);
    assert_detail(why);
    assert_code(rlock_try_lock(user->lock), RLOCK_EAUTH);
    says_no_secret(user);
    assert_code(rlock_inspect(user->lock, &info), RLOCK_EAUTH);
    assert_code(rlock_force_unlock(user->lock, NULL), RLOCK_EAUTH);
    says_no_secret(user);
    assert_within(began_us, 200);
    user_close(user);
    tries = test_server_info(f->server, "stats", "total_connections_received") - tries;
    assert_in_range(tries, 1, 10);
}

static const char *const with_password[] = {"requirepass good", "user off off >good ~* &* +@all",
                                            NULL};

FIXTURE_WITH_TEST(a_wrong_password_is_final_and_never_repeated_in_a_text, f,
                  .server.conf = with_password)
{
    struct user *user;

    is_turned_away(f, *RLOCK_CLIENT_OPTS(.password = NULL), "password");
    is_turned_away(f, *RLOCK_CLIENT_OPTS(.password = SECRET), "WRONGPASS");
    is_turned_away(f, *RLOCK_CLIENT_OPTS(.user = "nobody", .password = SECRET), "WRONGPASS");
    is_turned_away(f, *RLOCK_CLIENT_OPTS(.user = "off", .password = "good"), "WRONGPASS");
    user = user_open(f, *RLOCK_CLIENT_OPTS(.password = "good"));
    assert_code(user_visit(user, 0, NULL), 0);
}

FIXTURE_WITH_TEST(a_password_that_changes_ends_waiters_and_in_time_holds, f,
                  .server.conf = with_password)
{
    struct user *user =
        user_open(f, *RLOCK_CLIENT_OPTS(.password = "good", .renewed_lease_ms = LEASE_MS));
    struct user *other = user_open(f, *RLOCK_CLIENT_OPTS(.password = "good"));
    struct waiter waiter;
    int64_t began_us;
    int code;

    assert_code(rlock_try_lock(user->lock), 0);
    waiter_start(&waiter, other, 60000, NULL);
    assert_true(fixture_wait_waiters(f, 1));
    say(f, "CONFIG SET requirepass better");
    test_server_do(f->server, "CLIENT KILL TYPE normal SKIPME yes");
    test_server_do(f->server, "CLIENT KILL TYPE pubsub");
    began_us = test_now_us();
    code = waiter_join(&waiter);
    assert_within(began_us, LEASE_MS + 1000);
    assert_true(code == RLOCK_EAUTH || code == RLOCK_EINDOUBT); /* it was just being asked for */
    (void)user_work(user);
    assert_int_equal(user_wait_loss(user, 1), RLOCK_LOST_EXPIRED);
    began_us = test_now_us();
    assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
    assert_code(rlock_try_lock(user->lock), RLOCK_EAUTH);
    assert_within(began_us, 50);
    say(f, "CONFIG SET requirepass good");
    assert_true(TEST_EVENTUALLY(user_visit(user, 0, NULL) == 0, 5000)); /* it tries again */
    assert_true(TEST_EVENTUALLY(user_visit(other, 0, NULL) == 0, 5000));
}

/* ---- Commands inside scripts ---- */

static void is_denied(const struct fixture *f, const struct user *user, const struct verb *verb,
                      const char *rule)
{
    int64_t began_us;
    int code;

    verb_prepare(verb, user);
    test_server_do(f->server, "ACL SETUSER default %s", rule);
    began_us = test_now_us();
    code = verb->run(user);
    if (code != RLOCK_EPERM) {
        fail_msg("%s, %s: %s: %s", verb->name, rule, rlock_code_name(code), rlock_detail());
    }
    assert_detail("server");
    assert_detail("ACL");
    assert_within(began_us, 50);
    if (verb == &verb_acquire) {
        assert_code(rlock_lock_for(user->lock, 60000, NULL, NULL), RLOCK_EPERM);
        assert_within(began_us, 100);
    }
    say(f, "ACL SETUSER default +@all allkeys");
    verb_clean_up(user);
}

static void denied_inside_a_script(const char *program)
{
    static const struct {
        const struct verb *verb;
        const char *rule;
    } cases[] = {{&verb_acquire, "-hlen"},       {&verb_acquire, "-hset"},
                 {&verb_acquire, "-pexpire"},    {&verb_acquire, "-evalsha"},
                 {&verb_acquire, "-@all"},       {&verb_acquire, "resetkeys ~b"},
                 {&verb_nested, "-hget"},        {&verb_nested, "-pexpire"},
                 {&verb_nested, "-pttl"},        {&verb_nested, "-hset"},
                 {&verb_nested, "resetkeys"},    {&verb_partial, "-hget"},
                 {&verb_partial, "-pexpire"},    {&verb_partial, "-hset"},
                 {&verb_release, "-hdel"},       {&verb_release, "-evalsha"},
                 {&verb_release, "resetkeys"},   {&verb_force, "-hexists"},
                 {&verb_force, "-hdel"},         {&verb_inspect, "-hlen"},
                 {&verb_inspect, "-pttl"},       {&verb_inspect, "-hkeys"},
                 {&verb_inspect, "resetkeys ~b"}};
    struct fixture f;
    struct user *user;

    fixture_open(&f, &(struct fixture_opts){.server.program = program});
    verbs_load(&f);
    user = user_open(&f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack()));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        is_denied(&f, user, cases[i].verb, cases[i].rule);
    }
    assert_code(user_visit(user, 0, NULL), 0);
    assert_int_equal(user_losses(user), 0);
    fixture_close(&f);
}

TEST(what_redis_denies_inside_a_script_is_a_matter_of_permission)
{
    denied_inside_a_script("redis");
}

TEST(what_valkey_denies_inside_a_script_is_a_matter_of_permission)
{
    denied_inside_a_script("valkey");
}

FIXTURE_TEST(a_lease_that_is_not_permitted_leaves_no_lock_without_an_end, f)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.url = NULL));

    say(f, "ACL SETUSER default -pexpire");
    assert_code(rlock_try_lock(user->lock), RLOCK_EPERM);
    assert_false(fixture_is_held(f));
}

FIXTURE_TEST(an_end_that_is_not_permitted_leaves_no_queue_without_one, f)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.url = NULL));
    struct user *rival = user_open_direct(f);
    struct rlock_handle *locks[2] = {NULL};

    assert_code(rlock_fair_new(user->client, "fair", NULL, &locks[0]), 0);
    assert_code(rlock_fair_new(rival->client, "fair", NULL, &locks[1]), 0);
    assert_code(rlock_try_lock(locks[1]), 0);
    say(f, "ACL SETUSER default -pexpireat");
    assert_code(rlock_lock_for(locks[0], 5000, NULL, NULL), RLOCK_EPERM);
    assert_int_equal(test_server_int(f->server, "EXISTS redisson_lock_queue:{fair} "
                                                "redisson_lock_timeout:{fair}"),
                     0);
    assert_code(rlock_unlock(locks[1]), 0);
    (void)rlock_free(locks[0]);
    (void)rlock_free(locks[1]);
}

FIXTURE_TEST(a_renewal_that_is_not_permitted_loses_the_hold_in_time, f)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = LEASE_MS));
    struct user *rival = user_open_direct(f);

    assert_code(rlock_try_lock(user->lock), 0);
    say(f, "ACL SETUSER default -time");
    (void)user_work(user);
    assert_int_equal(user_wait_loss(user, 1), RLOCK_LOST_EXPIRED);
    assert_true(user_logged(user, "renewal failed") > 0);
    say(f, "ACL SETUSER default +time");
    assert_code(user_visit(rival, 5000, NULL), 0);
    assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
}

FIXTURE_TEST(a_release_that_is_not_permitted_is_not_tried_for_ever, f)
{
    struct user *user = user_open(
        f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 3000 * test_slack(), .renewed_lease_ms = LEASE_MS));
    int64_t began_us;

    assert_code(rlock_try_lock(user->lock), 0);
    say(f, "ACL SETUSER default -hdel");
    assert_code(rlock_unlock(user->lock), RLOCK_EPERM);
    assert_false(rlock_is_valid(user->lock)); /* whatever becomes of its release now */
    assert_code(rlock_unlock(user->lock), RLOCK_EPERM);
    assert_false(rlock_is_valid(user->lock));
    assert_int_equal(rlock_hold_count(user->lock), 0);
    assert_true(fixture_wait_held(f, false)); /* it is not renewed */
    assert_true(TEST_EVENTUALLY(rlock_unlock(user->lock) == RLOCK_ENOTOWNER, 5000));
    assert_int_equal(user_losses(user), 0); /* given up is not lost */
    /* The lease has ended on the server, as long ago as it lasted, and a little, since clocks may
     * differ: nothing is left to be done. */
    began_us = test_now_us();
    assert_true(TEST_EVENTUALLY(test_elapsed_us(began_us) > LEASE_MS * 1100, 5000));
    began_us = test_now_us();
    user->client = rlock_client_close(user->client);
    assert_within(began_us, 1000); /* it does not wait for its op_timeout */
    assert_int_equal(user_logged(user, "not released"), 0);
}

/* ---- Channels ---- */

/* A waiter on the lock gets it soon after it is free, by asking again and again. */
static void polls(struct fixture *f, struct user *user, struct user *rival)
{
    struct waiter waiter;
    long long calls;
    int64_t released_us;

    assert_code(rlock_try_lock(rival->lock), 0);
    calls = test_server_info(f->server, "commandstats", "cmdstat_evalsha:calls");
    waiter_start(&waiter, user, 60000, NULL);
    assert_true(TEST_EVENTUALLY(
        test_server_info(f->server, "commandstats", "cmdstat_evalsha:calls") >= calls + 2, 5000));
    assert_true(user_logged(user, "refuses a subscription") > 0);
    assert_true(user_step(rival));
    released_us = test_now_us();
    assert_code(rlock_unlock(rival->lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(released_us, 250);
    assert_true(fixture_wait_waiters(f, 0));
}

static void may_not_subscribe(const char *rule)
{
    struct fixture f;
    struct user *user, *rival;

    fixture_open(&f, NULL);
    user = user_open(&f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 1000 * test_slack()));
    rival = user_open_direct(&f);
    test_server_do(f.server, "ACL SETUSER default %s", rule);
    for (int i = 0; i < 4; i++) {
        polls(&f, user, rival);
    }
    assert_int_equal(user_logged(user, "refuses a subscription"), 1);
    fixture_close(&f);
}

TEST(waiters_that_may_not_subscribe_poll_and_say_so_once)
{
    may_not_subscribe("-subscribe");
}

TEST(waiters_that_may_not_use_the_channel_poll_and_say_so_once)
{
    may_not_subscribe("resetchannels &other");
}

FIXTURE_WITH_TEST(a_refused_subscription_does_not_disturb_another, f, .proxy = PROXY_AS_LEG)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack()));
    struct user *rival = user_open_direct(f);
    struct rlock_handle *other = user_lock(user, "b");
    struct waiter waiter, refused;
    int64_t released_us;

    test_server_do(f->server, "HSET b somebody:1 1");
    say(f, "ACL SETUSER default resetchannels &" CHANNEL_A "*");
    assert_code(rlock_try_lock(rival->lock), 0);
    proxy_delay_way_us(f->proxy, PROXY_SUBSCRIBERS, PROXY_TO_CLIENT, 200000);
    waiter_start_on(&refused, user, other, 1000, NULL);
    assert_true(proxy_wait_subscribers(f->proxy, 1, 5000));
    waiter_start(&waiter, user, 60000, NULL);
    assert_true(fixture_wait_waiters(f, 1)); /* while the refusal is still on its way */
    assert_int_equal(user_logged(user, "refuses a subscription"), 0);
    assert_true(TEST_EVENTUALLY(user_logged(user, "refuses a subscription") == 1, 5000));
    proxy_delay_way_us(f->proxy, PROXY_SUBSCRIBERS, PROXY_TO_CLIENT, 0);
    released_us = test_now_us();
    assert_code(rlock_unlock(rival->lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(released_us, 250);
    assert_int_equal(waiter_join(&refused), RLOCK_ETIMEDOUT);
    test_server_do(f->server, "DEL b");
    assert_true(fixture_wait_waiters(f, 0)); /* nobody waits: nobody is subscribed */
}

static long long refused_unsubscriptions(const struct fixture *f)
{
    return test_server_info(f->server, "commandstats",
                            "cmdstat_unsubscribe:calls=0,usec=0,usec_per_call=0.00,rejected_calls");
}

/* Each channel stays, and was asked for once. The waiter hears up to three. */
static bool unsubscribed_once(const struct fixture *f)
{
    long long refused = refused_unsubscriptions(f);

    return refused > 0 && refused == test_server_info(f->server, "stats", "pubsub_channels");
}

TEST(an_unsubscription_that_is_refused_is_not_asked_for_again)
{
    struct fixture f;
    struct user *user, *rival;
    struct waiter waiter;

    fixture_open(&f, NULL);
    user = user_open(&f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 1000 * test_slack()));
    rival = user_open_direct(&f);
    test_server_do(f.server, "ACL SETUSER default -unsubscribe");
    assert_code(rlock_try_lock(rival->lock), 0);
    waiter_start(&waiter, user, 60000, NULL);
    assert_true(fixture_wait_waiters(&f, 1));
    assert_code(rlock_unlock(rival->lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_true(TEST_EVENTUALLY(unsubscribed_once(&f), 5000));
    assert_true(STAYS(unsubscribed_once(&f), 200));
    fixture_close(&f);
}

static void may_not_publish(const char *rule)
{
    struct fixture f;
    struct user *user, *rival;
    struct waiter waiter;

    fixture_open(&f, NULL);
    user = user_open(&f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = LEASE_MS));
    rival = user_open_direct(&f);
    assert_code(rlock_try_lock(user->lock), 0);
    waiter_start(&waiter, rival, 60000, NULL);
    assert_true(fixture_wait_waiters(&f, 1));
    test_server_do(f.server, "ACL SETUSER default %s", rule);
    assert_true(user_step(user));
    assert_code(rlock_unlock(user->lock), 0);
    assert_false(rlock_is_valid(user->lock));
    assert_true(TEST_EVENTUALLY(user_logged(user, "its waiters were not told") == 1, 5000));
    assert_int_equal(waiter_join(&waiter), 0); /* when the lease would have ended */
    assert_true(test_took_at_most(waiter.took_us, 500000 * test_slack()));
    assert_int_equal(user_losses(user), 0);
    fixture_close(&f);
}

TEST(an_unlock_that_may_not_publish_succeeds_and_says_so)
{
    may_not_publish("-publish");
    may_not_publish("resetchannels &other");
}

/* ---- The least that is needed ---- */

/* docs/server.md: the lines that every kind needs, and the one that lets waiting calls queue. */
static const char *const recipe[] = {
    "user locker on >" SECRET " resetchannels -@all +evalsha +eval +subscribe +unsubscribe +ping"
    " +info +client|setname +client|id +client|kill +client|list +scan +exists +hexists +hset +hget"
    " +hdel +hlen +hkeys +pexpire +pttl +del +publish +time ~app:* &redisson_lock__channel:{app:*"
    " +zadd +zrange +zrank +zrem +zscore +pubsub|numsub ~rlock_wait:{app:*",
    NULL};

#define APP "app:orders"

#define APP_CHANNEL "redisson_lock__channel:{" APP "}"
#define APP_QUEUE "rlock_wait:{" APP "}"

static void app_waits(const struct user *user, struct rlock_handle *lock, struct user *rival,
                      bool may_queue)
{
    struct test_server *server = user->f->server;
    struct rlock_handle *theirs = user_lock(rival, APP);
    struct waiter waiter;
    int64_t released_us;

    assert_code(rlock_try_lock(theirs), 0);
    waiter_start_on(&waiter, rival, lock, 60000, NULL);
    if (may_queue) {
        assert_true(TEST_EVENTUALLY(test_server_int(server, "ZCARD " APP_QUEUE) == 1, 5000));
    } else {
        assert_true(TEST_EVENTUALLY(test_server_listeners(server, APP_CHANNEL) == 1 &&
                                        test_waiting(user->client) == 1,
                                    5000));
    }
    released_us = test_now_us();
    assert_code(rlock_unlock(theirs), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    /* a message woke it: without one it asks when the lease would have ended */
    assert_true(
        test_in_time(released_us, waiter.answered_us - released_us, LEASE_MS * 1000 * 2 / 3));
    assert_int_equal(waiter.unlock_code, 0);
    assert_int_equal(test_server_int(server, "EXISTS " APP_QUEUE), 0);
}

static void app_holds(const struct fixture *f, struct rlock_handle *lock)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    bool was_locked = false;

    assert_code(rlock_try_lock(lock), 0);
    assert_code(rlock_try_lock(lock), 0);
    assert_true(TEST_EVENTUALLY(test_server_int(f->server, "PTTL " APP) < LEASE_MS * 9 / 10, 5000));
    assert_true(
        TEST_EVENTUALLY(test_server_int(f->server, "PTTL " APP) >= LEASE_MS * 9 / 10, 5000));
    assert_code(rlock_inspect(lock, &info), 0);
    assert_true(info.mine && info.count == 2 && info.pid != 0);
    test_server_do(f->server, "CLIENT KILL TYPE normal SKIPME yes");
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    test_server_do(f->server, "HSET " APP " somebody:1 1");
    assert_code(rlock_force_unlock(lock, &was_locked), 0);
    assert_true(was_locked);
}

/* A user without one of these rights cannot queue, and waits as before. */
static const struct {
    const char *taken, *given;
} queueing[] = {{"ACL SETUSER locker -zadd", "ACL SETUSER locker +zadd"},
                {"ACL SETUSER locker -zrange", "ACL SETUSER locker +zrange"},
                {"ACL SETUSER locker -zrank", "ACL SETUSER locker +zrank"},
                {"ACL SETUSER locker -zrem", "ACL SETUSER locker +zrem"},
                {"ACL SETUSER locker -zscore", "ACL SETUSER locker +zscore"},
                {"ACL SETUSER locker resetkeys ~app:*", "ACL SETUSER locker ~rlock_wait:{app:*"}};

static void recipe_suffices(const char *program)
{
    struct fixture f;
    const struct rlock_client_opts opts =
        *RLOCK_CLIENT_OPTS(.user = "locker", .password = SECRET,
                           .op_timeout_ms = 1000 * test_slack(), .renewed_lease_ms = LEASE_MS);
    struct user *user, *rival;
    struct rlock_handle *lock;

    fixture_open(&f, &(struct fixture_opts){.server = {.program = program, .conf = recipe}});
    user = user_open(&f, opts);
    rival = user_open(&f, opts);
    lock = user_lock(user, APP);
    app_holds(&f, lock);
    app_waits(user, lock, rival, true);
    for (size_t i = 0; i < sizeof(queueing) / sizeof(queueing[0]); i++) {
        say(&f, queueing[i].taken);
        app_waits(user, lock, rival, false);
        say(&f, queueing[i].given);
    }
    app_waits(user, lock, rival, true);
    assert_code(rlock_try_lock(user->lock), RLOCK_EPERM); /* and no more than that */
    assert_int_equal(test_server_int(f.server, "EXISTS " LOCK_A), 0);
    assert_int_equal(user_losses(user), 0);
    assert_int_equal(user_logged(user, ""), 0);
    fixture_close(&f);
}

TEST(the_recipe_for_a_user_suffices_on_redis)
{
    recipe_suffices("redis");
}

TEST(the_recipe_for_a_user_suffices_on_valkey)
{
    recipe_suffices("valkey");
}
