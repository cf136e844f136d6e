/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies and requests that come late: a reply belongs to its own command or to nobody, a peer that
 * vanished is found out, and a copy of an acquire that the server runs afterwards leaves no lock
 * behind that nobody holds.
 */
#include "fault/verbs.h"
#include "support/refusal.h"
#include "support/waiter.h"

/* ---- Late replies ---- */

/* Asks about a lock that somebody else holds seven times, until told to stop. */
struct asker {
    pthread_t thread;
    struct rlock_handle *lock;
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

FIXTURE_WITH_TEST(a_late_reply_is_never_taken_for_another_commands, f, .proxy = PROXY_AS_LEG)
{
    struct user *user, *rival;
    const int64_t wait_ms = 5000;
    struct crew crew = {.wait_ms = wait_ms,
                        .allowed = ALLOW(RLOCK_EINDOUBT) | ALLOW(RLOCK_ETIMEDOUT) |
                                   ALLOW(RLOCK_ECONN) | ALLOW(RLOCK_ELOST)};
    struct crew others = {.wait_ms = wait_ms,
                          .allowed = ALLOW(RLOCK_ETIMEDOUT) | ALLOW(RLOCK_ELOST)};
    struct asker asker = {.stop = false};

    test_server_do(f->server, "HSET b somebody:1 7");
    user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(25), .renewed_lease_ms = 1000,
                                           .connect_timeout_ms = 1000 * test_slack()));
    rival = user_open_direct(f);
    asker.lock = user_lock(user, "b");
    proxy_jitter_us(f->proxy, test_ms(15) * 1000, 1);
    crew_start(&crew, user, 4);
    crew_start(&others, rival, 1);
    TEST_CHECK(pthread_create(&asker.thread, NULL, ask_main, &asker) == 0);
    assert_true(TEST_EVENTUALLY(
        proxy_stats(f->proxy).accepted >= 40 && atomic_load(&crew.visits) >= 10, 20000));
    assert_true(TEST_EVENTUALLY(atomic_load(&asker.answers) >= 10, 10000));
    atomic_store(&asker.stop, true);
    crew_stop(&crew);
    crew_stop(&others);
    TEST_CHECK(pthread_join(asker.thread, NULL) == 0);
    test_server_do(f->server, "DEL b");
    proxy_jitter_us(f->proxy, 0, 0);
}

struct canceled {
    pthread_t thread;
    const struct user *user;
    struct rlock_cancel *cancel;
    int code;
};

static void *cancel_main(void *arg)
{
    struct canceled *call = arg;

    call->code = rlock_lock_for(call->user->lock, 20000, RLOCK_TAKE(.cancel = call->cancel), NULL);
    return NULL;
}

FIXTURE_WITH_TEST(the_reply_of_an_abandoned_call_is_read_in_its_place, f, .proxy = PROXY_AS_LEG)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack()));
    struct canceled call = {.user = user};
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock_handle *other = user_lock(user, "b");
    struct proxy_rule rule;
    int number;

    verbs_load(f);
    test_server_do(f->server, "HSET b somebody:1 7");
    assert_code(rlock_cancel_new(&call.cancel), 0);
    rule = script_rule("acquire", PROXY_DELAY_REPLY);
    rule.delay_us = 300000;
    number = proxy_add(f->proxy, &rule);
    TEST_CHECK(pthread_create(&call.thread, NULL, cancel_main, &call) == 0);
    assert_true(proxy_wait_fired(f->proxy, number, 1, 5000));
    rlock_cancel_fire(call.cancel);
    TEST_CHECK(pthread_join(call.thread, NULL) == 0);
    assert_int_equal(call.code, RLOCK_ECANCELED); /* it was granted, and is given back */
    assert_code(rlock_inspect(other, &info), 0);  /* behind it on the same connection */
    assert_int_equal(info.count, 7);
    assert_true(fixture_wait_held(f, false));
    assert_int_equal(rlock_hold_count(user->lock), 0);
    call.cancel = rlock_cancel_free(call.cancel);
    test_server_do(f->server, "DEL b");
}

FIXTURE_WITH_TEST(a_grant_that_comes_after_its_lease_is_none, f, .proxy = PROXY_AS_LEG)
{
    struct user *user;
    struct proxy_rule rule;

    verbs_load(f);
    user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack()));
    rule = script_rule("acquire", PROXY_DELAY_REPLY);
    rule.delay_us = 60000;
    proxy_add(f->proxy, &rule);
    assert_code(rlock_lock_for(user->lock, 0, RLOCK_TAKE(.lease_ms = 50), NULL), RLOCK_ECONN);
    assert_false(rlock_is_valid(user->lock));
    assert_int_equal(rlock_hold_count(user->lock), 0);
    assert_code(rlock_unlock(user->lock), RLOCK_ENOTOWNER);
    assert_true(fixture_wait_held(f, false));
}

/* ---- Peers that vanished ---- */

FIXTURE_WITH_TEST(a_vanished_peer_is_found_out_by_a_call_that_waits, f, .proxy = PROXY_AS_LEG)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(100)));
    int64_t began_us;

    assert_code(user_visit(user, 0, NULL), 0);
    proxy_black_hole(f->proxy, PROXY_ANY, true);
    proxy_black_hole(f->proxy, PROXY_ANY, false); /* for new connections alone */
    began_us = test_now_us();
    assert_code(user_visit(user, 20000, NULL), 0);
    assert_within(began_us, test_ms(100));
    user_close(user);
    f->proxy = proxy_stop(f->proxy); /* the vanished connection is still open behind it */
}

FIXTURE_WITH_TEST(a_hold_outlives_a_peer_that_vanished, f, .proxy = PROXY_AS_LEG)
{
    struct user *user, *rival;
    const int64_t lease_ms = test_ms(600);

    user = user_open(
        f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(100), .renewed_lease_ms = lease_ms));
    rival = user_open_direct(f);
    assert_code(rlock_try_lock(user->lock), 0);
    for (int i = 0; i < 3; i++) {
        uint64_t accepted = proxy_stats(f->proxy).accepted;

        proxy_black_hole(f->proxy, PROXY_ANY, true);
        proxy_black_hole(f->proxy, PROXY_ANY, false);
        assert_true(TEST_EVENTUALLY(proxy_stats(f->proxy).accepted > accepted, 2000));
        assert_true(fixture_wait_renewed(f, lease_ms));
        assert_true(user_step(user));
        assert_code(rlock_try_lock(rival->lock), RLOCK_EBUSY);
    }
    assert_code(rlock_unlock(user->lock), 0);
    assert_code(user_visit(rival, 0, NULL), 0);
    assert_int_equal(user_losses(user), 0);
    user_close(user);
    user_close(rival);
    f->proxy = proxy_stop(f->proxy);
}

FIXTURE_WITH_TEST(a_silent_server_loses_the_hold_at_the_end_of_its_validity, f,
                  .proxy = PROXY_AS_LEG)
{
    struct user *user =
        user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 100, .renewed_lease_ms = 400));
    struct user *rival = user_open_direct(f);
    int64_t began_us, lost_us;

    assert_code(rlock_try_lock(user->lock), 0);
    began_us = test_now_us();
    proxy_go_silent(f->proxy, PROXY_ANY, true);
    assert_true(user_work(user) - began_us < 400000);
    lost_us = test_now_us();
    assert_int_equal(user_wait_loss(user, 1), RLOCK_LOST_EXPIRED);
    assert_true(test_in_time(lost_us, user->diary.told[0].at_us - lost_us,
                             (int64_t)CALL_LATE_MS * 1000 * test_slack()));
    assert_code(user_visit(rival, 2000, NULL), 0);
    assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
    proxy_go_silent(f->proxy, PROXY_ANY, false);
    assert_code(user_visit(user, 20000, NULL), 0);
    assert_int_equal(user_losses(user), 1);
}

/* Where the holder lives is asked on a connection of its own: worth no waiting. */
FIXTURE_WITH_TEST(an_inspect_does_not_wait_longer_for_the_holders_address, f, .proxy = PROXY_AS_LEG)
{
    static const struct proxy_rule faults[] = {{.act = PROXY_DROP_REPLY, .command = "HELLO"},
                                               {.act = PROXY_DROP_REPLY, .contains = "LIST"}};
    struct user *user;

    fixture_take_by_hand(f, 0);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct rlock_info info = RLOCK_INFO_INIT;
        struct proxy_rule slow = script_rule("inspect", PROXY_DELAY_REPLY);
        int64_t began_us;
        int rule;

        user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(600)));
        assert_code(rlock_inspect(user->lock, &info), 0);
        slow.delay_us = test_ms(300) * 1000;
        (void)proxy_add(f->proxy, &slow);
        rule = proxy_add(f->proxy, &faults[i]);
        began_us = test_now_us();
        assert_code(rlock_inspect(user->lock, &info), 0);
        assert_within(began_us, test_ms(600));
        assert_int_equal(proxy_fired(f->proxy, rule), 1);
        assert_string_equal(info.holder, "somebody:1");
        assert_string_equal(info.host, "");
        user_close(user);
    }
    test_server_do(f->server, "DEL " LOCK_A);
}

/* ---- Late copies ---- */

static const char *const no_kill[] = {"user default on nopass ~* &* +@all -client|kill", NULL};
static const char *const no_number[] = {"user default on nopass ~* &* +@all -client|id",
                                        "rename-command HELLO \"\"", NULL};

/* The first acquire is held on its way while its connection is given up. */
static struct user *late_open(struct fixture *f)
{
    struct proxy_rule rule = script_rule("acquire", PROXY_HOLD);

    verbs_load(f);
    proxy_add(f->proxy, &rule);
    return user_open(
        f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(100), .renewed_lease_ms = test_ms(1000)));
}

FIXTURE_WITH_TEST(a_late_copy_of_a_fenced_connection_leaves_no_hold, f, .proxy = PROXY_AS_LEG)
{
    struct user *user = late_open(f), *rival = user_open_direct(f);

    for (int i = 0; i < 5; i++) {
        struct proxy_rule rule = script_rule("acquire", PROXY_HOLD);

        assert_code(user_visit(user, 20000, NULL), 0);
        proxy_hold_requests(f->proxy, false); /* on its way again, to nobody */
        assert_code(user_visit(user, 0, NULL), 0);
        assert_false(fixture_is_held(f));
        assert_code(user_visit(rival, 0, NULL), 0);
        proxy_add(f->proxy, &rule);
    }
}

FIXTURE_WITH_TEST(busy_is_said_once_the_late_copy_is_fenced, f, .proxy = PROXY_AS_LEG)
{
    struct user *user = late_open(f), *rival = user_open_direct(f);
    int64_t began_us;

    assert_code(rlock_try_lock(rival->lock), 0);
    began_us = test_now_us();
    assert_code(rlock_lock_for(user->lock, test_ms(300), NULL, NULL), RLOCK_ETIMEDOUT);
    assert_within(began_us, test_ms(300));
    assert_code(rlock_unlock(rival->lock), 0);
    proxy_hold_requests(f->proxy, false);
    assert_code(user_visit(user, 0, NULL), 0);
    assert_false(fixture_is_held(f));
}

/* The proxy closes connections like one that knows neither HELLO nor CLIENT; later it does. */
FIXTURE_WITH_TEST(a_late_copy_is_fenced_even_if_an_earlier_connection_had_no_number, f,
                  .proxy = PROXY_AS_LEG)
{
    static const struct refusal refused[] = {{.command = "HELLO", .does = REFUSAL_HANGS_UP},
                                             {.command = "CLIENT", .does = REFUSAL_HANGS_UP},
                                             {0}};
    static const struct refusal none[] = {{0}};
    struct proxy_rule rule = script_rule("acquire", PROXY_HOLD);
    struct user *user, *rival = user_open_direct(f);
    uint64_t another;
    int64_t began_us;

    refuse(f->proxy, refused);
    user = late_open(f);
    assert_true(TEST_EVENTUALLY(rlock_try_lock(user->lock) != RLOCK_ECONN, 20000)); /* held */
    refuse(f->proxy, none);
    proxy_cut_all(f->proxy, PROXY_COMMANDS);
    assert_true(TEST_EVENTUALLY(user_visit(user, 0, NULL) == 0, 20000));
    assert_code(rlock_try_lock(rival->lock), 0);
    proxy_add(f->proxy, &rule);
    another = rlock_owner_new(user->client);
    began_us = test_now_us();
    assert_code(TAKE(user->lock, test_ms(300), .owner = another), RLOCK_ETIMEDOUT);
    assert_within(began_us, test_ms(300));
    assert_code(rlock_unlock(rival->lock), 0);
}

static void check_in_doubt_and_released_again(struct fixture *f)
{
    struct user *user = late_open(f), *rival = user_open_direct(f);
    int64_t began_us;

    assert_code(rlock_try_lock(rival->lock), 0);
    began_us = test_now_us();
    assert_code(rlock_lock_for(user->lock, test_ms(300), NULL, NULL), RLOCK_EINDOUBT);
    assert_free_in(1, test_ms(1000));
    assert_within(began_us, test_ms(300));
    assert_code(rlock_unlock(rival->lock), 0);
    proxy_hold_requests(f->proxy, false); /* now it takes the lock, for nobody */
    assert_true(fixture_wait_held(f, true));
    assert_true(fixture_wait_held(f, false));
    assert_code(user_visit(rival, 0, NULL), 0);
}

FIXTURE_WITH_TEST(a_late_copy_that_nobody_may_kill_is_in_doubt_and_released_again, f,
                  .proxy = PROXY_AS_LEG, .server.conf = no_kill)
{
    check_in_doubt_and_released_again(f);
}

/* That none of those whose numbers are known lives on says nothing of it. */
FIXTURE_WITH_TEST(a_late_copy_whose_connection_has_no_number_is_in_doubt_and_released_again, f,
                  .proxy = PROXY_AS_LEG, .server.conf = no_number)
{
    check_in_doubt_and_released_again(f);
}

FIXTURE_WITH_TEST(a_late_copy_of_a_hold_that_has_ended_is_released_again, f, .proxy = PROXY_AS_LEG,
                  .server.conf = no_kill)
{
    struct user *user = late_open(f), *rival = user_open_direct(f);

    assert_code(user_visit(user, 20000, NULL), 0);
    proxy_hold_requests(f->proxy, false);
    assert_true(fixture_wait_held(f, true));
    assert_code(rlock_try_lock(rival->lock), RLOCK_EBUSY);
    assert_true(fixture_wait_held(f, false));
    assert_code(user_visit(rival, 0, NULL), 0);
}

/* ---- A slow line ---- */

FIXTURE_WITH_TEST(eight_threads_share_one_name_over_a_slow_line, f, .proxy = PROXY_AS_LEG)
{
    struct user *user, *rival;
    const int64_t wait_ms = RLOCK_FOREVER;
    struct crew crew = {.wait_ms = wait_ms, .rounds = 2};
    struct crew others = {.wait_ms = wait_ms, .rounds = 4};

    proxy_delay_us(f->proxy, 20000);
    user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 1000 * test_slack(),
                                           .renewed_lease_ms = 1000 * test_slack()));
    rival = user_open_direct(f);
    crew_start(&crew, user, 8);
    crew_start(&others, rival, 1);
    crew_join(&crew);
    crew_join(&others);
    assert_int_equal(atomic_load(&crew.visits), 16);
    assert_int_equal(user_losses(user) + user_losses(rival), 0);
}

/* ---- What is taken while it is still being given up ---- */

struct giver {
    struct rlock_handle *lock;
    uint64_t owner;
    int code;
};

static void *give_up_main(void *arg)
{
    struct giver *giver = arg;

    giver->code = rlock_unlock_as(giver->lock, giver->owner);
    return NULL;
}

FIXTURE_WITH_TEST(an_owner_that_waits_for_its_unlock_may_take_another_kind, f,
                  .proxy = PROXY_AS_LEG)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000));
    struct giver giver = {.code = -1};
    struct proxy_rule slow;
    pthread_t thread;
    struct rlock_handle *spin;
    int rule;

    verbs_load(f);
    assert_code(rlock_spin_new(user->client, LOCK_A, NULL, &spin), 0);
    giver.lock = spin;
    giver.owner = rlock_owner_new(user->client);
    for (int i = 0; i < 3; i++) {
        assert_code(rlock_lock_for(giver.lock, 0, RLOCK_TAKE(.owner = giver.owner), NULL), 0);
        slow = script_rule("release", PROXY_DELAY_REPLY);
        slow.delay_us = 200000;
        rule = proxy_add(f->proxy, &slow);
        TEST_CHECK(pthread_create(&thread, NULL, give_up_main, &giver) == 0);
        assert_true(proxy_wait_fired(f->proxy, rule, 1, 5000));
        assert_code(rlock_lock_for(user->lock, 5000, RLOCK_TAKE(.owner = giver.owner), NULL), 0);
        TEST_CHECK(pthread_join(thread, NULL) == 0);
        assert_int_equal(giver.code, 0);
        assert_true(rlock_is_valid_as(user->lock, giver.owner));
        assert_code(rlock_unlock_as(user->lock, giver.owner), 0);
    }
    spin = rlock_free(spin);
}
