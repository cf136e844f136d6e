/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two that want one RedLock and reach different servers, whose only common one restarts: before,
 * during and after an acquisition, with and without its data. The second tries all the time, and
 * each time that it has the lock looks whether the first believes in it, too.
 */
#include <time.h>

#include "support/waiter.h"

#define OFF 0       /* no delayed restarts */
#define OWNER 4711U /* the first one's: known to both */
#define FIRST 7U    /* the servers that the first one reaches, … */
#define SECOND 28U  /* … and the second: server 2 is the only common one */
#define ALL 31U

/* The shortest that lets servers count two seconds after their start. */
static int64_t lease_ms(void)
{
    return test_slack() > 1 ? 2000 : 1000;
}

/* The second one, which never stops trying. */
struct rival {
    pthread_t thread;
    const struct user *one, *two;
    atomic_bool stop;
    atomic_uint grants, tries, both;
};

struct sides {
    struct fixture f, *views[2];
    struct user *one, *two;
    struct rival rival;
};

static void *rival_main(void *arg)
{
    struct rival *rival = arg;

    while (!atomic_load(&rival->stop)) {
        const int code = rlock_lock_for(rival->two->lock, 20, NULL, NULL);

        atomic_fetch_add(&rival->tries, 1);
        if (code == 0) {
            const bool believes = rlock_is_valid_as(rival->one->lock, OWNER);

            atomic_fetch_add(&rival->both, believes && rlock_is_valid(rival->two->lock));
            atomic_fetch_add(&rival->grants, 1);
            (void)rlock_unlock(rival->two->lock);
        } else if (code != RLOCK_ETIMEDOUT && code != RLOCK_ENOQUORUM && code != RLOCK_EINDOUBT) {
            test_die("rival: %s: %s", rlock_code_name(code), rlock_detail());
        }
    }
    return NULL;
}

static void sides_open(struct sides *sides, unsigned int first, unsigned int second, bool aof,
                       int64_t renewed_lease_ms, int64_t max_lease_ms)
{
    const struct rlock_client_opts opts = {
        .size = sizeof(opts), .renewed_lease_ms = renewed_lease_ms, .op_timeout_ms = 1000};

    fixture_open(&sides->f, &(struct fixture_opts){
                                .servers = 5, .server.aof = aof, .max_lease_ms = max_lease_ms});
    for (size_t i = 0; i < 2; i++) {
        sides->views[i] = fixture_view(&sides->f);
        fixture_reach_only(sides->views[i], i == 0 ? first : second);
    }
    sides->one = user_open(sides->views[0], opts);
    sides->two = user_open(sides->views[1], opts);
}

static void rival_start(struct sides *sides)
{
    sides->rival.one = sides->one;
    sides->rival.two = sides->two;
    atomic_init(&sides->rival.stop, false);
    atomic_init(&sides->rival.grants, 0);
    atomic_init(&sides->rival.tries, 0);
    atomic_init(&sides->rival.both, 0);
    TEST_CHECK(pthread_create(&sides->rival.thread, NULL, rival_main, &sides->rival) == 0);
}

/* The rival gets the lock, once the first one has it no more. */
static void sides_close(struct sides *sides)
{
    assert_true(TEST_EVENTUALLY(atomic_load(&sides->rival.grants) > 0, 10000));
    atomic_store(&sides->rival.stop, true);
    TEST_CHECK(pthread_join(sides->rival.thread, NULL) == 0);
    fixture_reach_only(sides->views[0], ALL);
    fixture_reach_only(sides->views[1], ALL);
    assert_true(TEST_EVENTUALLY(fixture_holding(&sides->f, "a") == 0, 5000));
    fixture_close(&sides->f);
}

static int take_one(struct sides *sides, int64_t wait_ms)
{
    return rlock_lock_for(sides->one->lock, wait_ms, RLOCK_TAKE(.owner = OWNER), NULL);
}

static void assert_lost_by_restart(struct sides *sides)
{
    assert_true(TEST_EVENTUALLY(user_losses(sides->one) == 1, 5000));
    assert_int_equal(user_last_loss(sides->one)->loss.reason, RLOCK_LOST_RESTARTED);
    assert_false(rlock_is_valid_as(sides->one->lock, OWNER));
    assert_code(rlock_unlock_as(sides->one->lock, OWNER), RLOCK_ELOST);
}

/* A few tries of the rival's that began after this call did. */
static void let_it_try(struct sides *sides)
{
    const unsigned int tries = atomic_load(&sides->rival.tries);

    assert_true(TEST_EVENTUALLY(atomic_load(&sides->rival.tries) > tries + 2, 10000));
}

/* ---- Empty restarts ---- */

TEST(after_the_grant_it_helps_nobody)
{
    struct sides sides;

    sides_open(&sides, FIRST, SECOND, false, lease_ms(), lease_ms());
    assert_code(take_one(&sides, 20000), 0);
    rival_start(&sides);
    let_it_try(&sides);
    test_server_restart(sides.f.servers[2], false);
    let_it_try(&sides);
    assert_lost_by_restart(&sides);
    sides_close(&sides);
    assert_int_equal(sides.rival.both, 0);
}

/* What shows that the others can fail. The first one cannot ask the restarted server, and would be
 * told. */
TEST(without_delayed_restarts_both_believe)
{
    struct sides sides;

    sides_open(&sides, FIRST, SECOND, false, 6000, OFF);
    assert_code(take_one(&sides, 20000), 0);
    rival_start(&sides);
    let_it_try(&sides);
    assert_int_equal(sides.rival.grants, 0);
    fixture_reach_only(sides.views[0], FIRST & ~SECOND);
    test_server_restart(sides.f.servers[2], false);
    assert_true(TEST_EVENTUALLY(atomic_load(&sides.rival.both) > 0, 5000));
    assert_int_equal(rlock_unlock_as(sides.one->lock, OWNER) == RLOCK_EINDOUBT, 0);
    sides_close(&sides);
}

TEST(before_the_grant_it_counts_for_nobody)
{
    struct sides sides;

    sides_open(&sides, FIRST, SECOND, false, lease_ms(), lease_ms());
    assert_code(take_one(&sides, 20000), 0);
    assert_code(rlock_unlock_as(sides.one->lock, OWNER), 0);
    test_server_restart(sides.f.servers[2], false);
    rival_start(&sides);
    assert_code(take_one(&sides, 300), RLOCK_ENOQUORUM);
    assert_int_equal(sides.rival.grants, 0);
    assert_code(take_one(&sides, 20000), 0); /* when it has run for long enough */
    let_it_try(&sides);
    assert_true(rlock_is_valid_as(sides.one->lock, OWNER));
    assert_code(rlock_unlock_as(sides.one->lock, OWNER), 0);
    sides_close(&sides);
    assert_int_equal(sides.rival.both, 0);
}

static bool is_late_in_its_second(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_nsec > 800000000 && now.tv_nsec < 850000000;
}

static bool is_up_for_a_second(struct test_server *server)
{
    char *info = test_server_cmd(server, "INFO server");
    bool is = strstr(info, "uptime_in_seconds:0") == NULL;

    free(info);
    return is;
}

/* A server says that it is up for a second as soon as the wall clock has another one. */
TEST(late_in_a_second_it_counts_for_nobody)
{
    struct sides sides;

    sides_open(&sides, FIRST, SECOND, false, 1000, 1000);
    assert_code(take_one(&sides, 20000), 0);
    assert_code(rlock_unlock_as(sides.one->lock, OWNER), 0);
    fixture_reach_only(sides.views[1], SECOND & ~4U);
    assert_true(TEST_EVENTUALLY(is_late_in_its_second(), 5000));
    assert_code(take_one(&sides, 1000), 0);
    fixture_reach_only(sides.views[0], 0);
    test_server_restart(sides.f.servers[2], false);
    assert_true(TEST_EVENTUALLY(is_up_for_a_second(sides.f.servers[2]), 2000));
    rival_start(&sides);
    fixture_reach_only(sides.views[1], SECOND);
    assert_true(TEST_EVENTUALLY(!rlock_is_valid_as(sides.one->lock, OWNER), 5000));
    (void)rlock_unlock_as(sides.one->lock, OWNER);
    sides_close(&sides);
    assert_int_equal(sides.rival.both, 0);
}

static void *take_one_main(void *arg)
{
    struct sides *sides = arg;

    (void)take_one(sides, 0);
    return NULL;
}

/* It had granted it, and forgets that before the others have answered. */
TEST(during_an_acquisition_it_helps_nobody)
{
    struct sides sides;
    pthread_t thread;

    sides_open(&sides, FIRST, SECOND, false, lease_ms(), lease_ms());
    assert_code(take_one(&sides, 20000), 0);
    assert_code(rlock_unlock_as(sides.one->lock, OWNER), 0);
    assert_true(TEST_EVENTUALLY(fixture_holding(&sides.f, "a") == 0, 2000));
    (void)proxy_add(sides.views[0]->proxies[0],
                    &(struct proxy_rule){.act = PROXY_HOLD, .command = "EVALSHA"});
    TEST_CHECK(pthread_create(&thread, NULL, take_one_main, &sides) == 0);
    assert_true(TEST_EVENTUALLY(test_server_int(sides.f.servers[2], "EXISTS a") == 1, 5000));
    test_server_restart(sides.f.servers[2], false);
    rival_start(&sides);
    proxy_hold_requests(sides.views[0]->proxies[0], false);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    let_it_try(&sides);
    /* whether it was told that it has it or not: soon it knows that it has not */
    assert_true(TEST_EVENTUALLY(!rlock_is_valid_as(sides.one->lock, OWNER), 5000));
    (void)rlock_unlock_as(sides.one->lock, OWNER);
    sides_close(&sides);
    assert_int_equal(sides.rival.both, 0);
}

/* The lease outlasts the restart of a server also on a busy machine: a member that expires first
 * was not lost by the restart. */
TEST(one_after_the_other_they_end_it_with_the_majority)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct sides sides;

    sides_open(&sides, ALL, ALL, false, 3 * lease_ms(), 3 * lease_ms());
    assert_code(take_one(&sides, 20000), 0);
    while (!TEST_EVENTUALLY(fixture_holding(&sides.f, "a") == 5, 200)) {
        assert_code(rlock_unlock_as(sides.one->lock, OWNER), 0);
        assert_code(take_one(&sides, 20000), 0);
    }
    assert_code(rlock_inspect(sides.one->lock, &info), 0); /* behind what the last ones answered */
    rival_start(&sides);
    for (size_t i = 0; i < 3; i++) {
        assert_true(rlock_is_valid_as(sides.one->lock, OWNER));
        assert_int_equal(user_losses(sides.one), 0);
        diary_forget_log(&sides.one->diary);
        test_server_restart(sides.f.servers[i], false);
        assert_true(TEST_EVENTUALLY(user_logged(sides.one, "server restarted"), 5000));
        let_it_try(&sides);
    }
    assert_lost_by_restart(&sides);
    sides_close(&sides);
    assert_int_equal(sides.rival.both, 0);
}

/* ---- Servers whose clock was set ---- */

/* What the second one is told of server 2 from here on. */
static void tell_second(const struct sides *sides, const char *info)
{
    char reply[256];

    test_text(reply, sizeof(reply), "$%zu\r\n%s\r\n", strlen(info), info);
    (void)proxy_add(sides->views[1]->proxies[2], &(struct proxy_rule){.act = PROXY_REPLACE_REPLY,
                                                                      .command = "INFO",
                                                                      .times = PROXY_ALWAYS,
                                                                      .bytes = reply,
                                                                      .len = strlen(reply)});
}

/* The first one holds, and does not hear that server 2 restarts; the second one is told a lie. */
static void it_counts_for_nobody(unsigned int second, const char *info)
{
    struct sides sides;

    sides_open(&sides, FIRST, second, false, lease_ms(), lease_ms());
    assert_code(take_one(&sides, 20000), 0);
    while (!TEST_EVENTUALLY(fixture_holding(&sides.f, "a") == 3, 200)) {
        assert_code(rlock_unlock_as(sides.one->lock, OWNER), 0);
        assert_code(take_one(&sides, 20000), 0);
    }
    rival_start(&sides);
    let_it_try(&sides);
    tell_second(&sides, info);
    fixture_reach_only(sides.views[0], FIRST & ~4U);
    test_server_restart(sides.f.servers[2], false);
    fixture_reach_only(sides.views[1], SECOND);
    assert_true(TEST_EVENTUALLY(!rlock_is_valid_as(sides.one->lock, OWNER), 5000));
    (void)rlock_unlock_as(sides.one->lock, OWNER);
    sides_close(&sides);
    assert_int_equal(sides.rival.both, 0);
}

TEST(set_back_it_has_just_started)
{
    it_counts_for_nobody(SECOND & ~4U,
                         "# Server\r\nrun_id:0123456789abcdef\r\nuptime_in_seconds:-3600\r\n");
}

TEST(set_forward_it_deceives_nobody_who_saw_it_before)
{
    it_counts_for_nobody(SECOND,
                         "# Server\r\nrun_id:0123456789abcdef\r\nuptime_in_seconds:3600\r\n");
}

TEST(that_a_server_does_not_tell_its_age_is_logged_once)
{
    const char *const text = "does not tell since when it runs";
    struct sides sides;

    sides_open(&sides, FIRST, ALL, false, lease_ms(), lease_ms());
    tell_second(&sides, "# Server\r\n");
    fixture_reach_only(sides.views[1], 0);
    fixture_reach_only(sides.views[1], ALL);
    for (int i = 0; i < 3; i++) {
        assert_code(user_visit(sides.two, 20000, NULL), 0);
    }
    assert_true(TEST_EVENTUALLY(user_logged(sides.two, text), 5000));
    assert_int_equal(user_logged(sides.two, text), 1);
    rival_start(&sides);
    sides_close(&sides);
}

/* ---- Restarts that keep the data ---- */

static bool is_renewed_since(struct test_server *server, long long *inout_ttl)
{
    const long long last = *inout_ttl;

    *inout_ttl = test_server_int(server, "PTTL a");
    return *inout_ttl > last;
}

TEST(with_its_data_it_may_restart_at_any_time)
{
    struct sides sides;

    sides_open(&sides, FIRST, SECOND, true, 3 * lease_ms(), OFF);
    assert_code(take_one(&sides, 20000), 0);
    rival_start(&sides);
    for (size_t i = 3; i-- > 0;) {
        long long ttl;

        test_server_restart(sides.f.servers[i], true);
        ttl = test_server_int(sides.f.servers[i], "PTTL a");
        let_it_try(&sides);
        assert_true(TEST_EVENTUALLY(is_renewed_since(sides.f.servers[i], &ttl), 5000));
        assert_true(rlock_is_valid_as(sides.one->lock, OWNER));
    }
    assert_int_equal(sides.rival.grants, 0);
    assert_int_equal(user_losses(sides.one), 0);
    assert_code(rlock_unlock_as(sides.one->lock, OWNER), 0);
    sides_close(&sides);
}

/* Nobody can tell that it kept them. */
TEST(with_its_data_it_is_out_for_its_time_all_the_same)
{
    struct sides sides;

    sides_open(&sides, FIRST, SECOND, true, lease_ms(), lease_ms());
    assert_code(take_one(&sides, 20000), 0);
    rival_start(&sides);
    test_server_restart(sides.f.servers[2], true);
    let_it_try(&sides);
    assert_lost_by_restart(&sides);
    sides_close(&sides);
    assert_int_equal(sides.rival.both, 0);
}
