/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks: the wall clock has no say, a machine that slept has lost what it held, and what is silent
 * for long is looked at again.
 */
#include "fault/clock.h"
#include "fault/verbs.h"
#include "support/waiter.h"
#include "support/waiting.h"

#include <time.h>
#include <unistd.h>

#define HOUR_MS INT64_C(3600000)
/* A connection that is silent for so long is tried. */
#define IDLE_MS 10000
/* The longest sleep of a waiter that is subscribed. */
#define RECHECK_MS 5000

static struct rlock_client_opts unhurried(void)
{
    return *RLOCK_CLIENT_OPTS(.op_timeout_ms = 1000 * test_slack(),
                              .connect_timeout_ms = 1000 * test_slack());
}

/* Waits until so many of the user's calls wait for a lock, and nothing of them is in flight. */
static bool is_settled(const struct user *user, size_t n)
{
    return TEST_EVENTUALLY(test_waiting(user->client) == n, 5000);
}

/* ---- The wall clock ---- */

TEST(the_wall_clock_may_jump)
{
    struct fixture f;
    struct user *user, *rival;
    const int64_t lease_ms = test_ms(300);
    struct crew crew = {.wait_ms = HOUR_MS};
    struct crew others = {.wait_ms = HOUR_MS};
    struct rlock_handle *other;
    size_t reads;

    /* plain: TLS asks for the date, and must */
    fixture_open(&f, &(struct fixture_opts){.server.transport = TEST_TCP});
    user = user_open(
        &f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms, .op_timeout_ms = 1000 * test_slack()));
    rival = user_open_direct(&f);
    other = user_lock(user, "b");
    assert_code(user_visit(rival, 0, NULL), 0);
    reads = clock_wall_reads();
    assert_code(rlock_try_lock(other), 0);
    crew_start(&crew, user, 3);
    crew_start(&others, rival, 1);
    for (int i = 0; i < 8; i++) {
        size_t visits = atomic_load(&crew.visits);

        clock_set_wall_ms(i % 2 == 0 ? HOUR_MS : -HOUR_MS);
        assert_true(TEST_EVENTUALLY(atomic_load(&crew.visits) > visits + 10, 5000));
        assert_true(TEST_EVENTUALLY(test_server_int(f.server, "PTTL b") < lease_ms * 9 / 10, 5000));
        assert_true(rlock_is_valid(other));
    }
    crew_stop(&crew);
    crew_stop(&others);
    clock_set_wall_ms(0);
    assert_int_equal(clock_wall_reads(), reads);
    assert_code(rlock_unlock(other), 0);
    assert_int_equal(user_losses(user) + user_losses(rival), 0);
    assert_int_equal(user_logged(user, ""), 0);
    fixture_close(&f);
}

/* Finds the shared library that was built with this program. */
static bool find_library(char *ret_path, size_t size)
{
    char self[256];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    for (int up = 0; up < 2 && n > 0; up++) {
        self[n] = '\0';
        *strrchr(self, '/') = '\0';
        n = (ssize_t)strlen(self);
    }
    test_text(ret_path, size, "%s/librlock.so", self);
    return access(ret_path, R_OK) == 0;
}

TEST(the_library_asks_nobody_for_the_wall_clock)
{
    static const char *const banned[] = {"time",      "gettimeofday", "timespec_get",
                                         "ftime",     "clock",        "sleep",
                                         "nanosleep", "localtime",    "timer_settime"};
    char library[300], log[300], line[512];
    const char *argv[] = {"/bin/sh", "-c", "command -v nm >/dev/null || exit 0; nm -D -u \"$0\"",
                          library, NULL};
    size_t found = 0;
    FILE *file;

    if (!find_library(library, sizeof(library))) {
        print_message("no shared library here\n");
        skip();
    }
    test_text(log, sizeof(log), "%s/nm", test_dir());
    test_run("/", log, argv);
    file = fopen(log, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        char name[128] = "";

        (void)sscanf(line, " %*s %127[^@ \n]", name);
        found += strcmp(name, "clock_gettime") == 0;
        for (size_t i = 0; i < sizeof(banned) / sizeof(banned[0]); i++) {
            assert_string_not_equal(name, banned[i]);
        }
    }
    (void)fclose(file);
    if (found == 0) {
        print_message("no nm here\n");
        skip();
    }
}

/* ---- A machine that slept ---- */

FIXTURE_WITH_TEST(a_hold_is_lost_when_the_machine_slept_past_it, f, .proxy = PROXY_AS_LEG)
{
    struct user *user, *rival;
    const int64_t lease_ms = test_ms(900);
    struct proxy_rule rule;
    int64_t woke_us;
    int renewals;

    user = user_open(
        f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms, .op_timeout_ms = 1000 * test_slack()));
    assert_code(rlock_try_lock(user->lock), 0);
    assert_true(fixture_wait_renewed(f, lease_ms));
    rule = (struct proxy_rule){.act = PROXY_PASS, .contains = script_digest("renew")};
    assert_true(rlock_is_valid(user->lock));
    renewals = proxy_add(f->proxy, &rule);
    clock_suspend_ms(HOUR_MS);
    assert_false(rlock_is_valid(user->lock)); /* before anybody else got to run */
    assert_int_equal(rlock_valid_ms(user->lock), 0);
    woke_us = test_now_us();
    assert_int_equal(user_wait_loss(user, 1), RLOCK_LOST_EXPIRED);
    assert_within(woke_us, lease_ms / 3);
    assert_int_equal(proxy_fired(f->proxy, renewals), 0);
    assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
    /* the server slept as well, or did not: what it has is given back */
    rival = user_open_direct(f);
    assert_code(user_visit(rival, HOUR_MS, NULL), 0);
    assert_code(user_visit(user, HOUR_MS, NULL), 0);
    assert_int_equal(proxy_fired(f->proxy, renewals), 0);
    assert_int_equal(user_losses(user), 1);
}

FIXTURE_TEST(each_call_after_the_sleep_says_lost, f)
{
    struct user *user = user_open(f, unhurried());

    for (int i = 0; i < 3; i++) {
        assert_code(rlock_lock_for(user->lock, 0, RLOCK_TAKE(.lease_ms = 60000), NULL), 0);
        assert_code(rlock_lock_for(user->lock, 0, RLOCK_TAKE(.lease_ms = 60000), NULL), 0);
        clock_suspend_ms(HOUR_MS);
        if (i == 1) {
            assert_code(rlock_try_lock(user->lock), RLOCK_ELOST);
        } else if (i == 2) {
            assert_code(rlock_lock_for(user->lock, HOUR_MS, NULL, NULL), RLOCK_ELOST);
        }
        assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
        assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
        assert_code(rlock_unlock(user->lock), RLOCK_ENOTOWNER);
        assert_int_equal(user_wait_loss(user, (size_t)i + 1), RLOCK_LOST_EXPIRED);
        assert_true(fixture_wait_held(f, false)); /* given back */
    }
}

FIXTURE_TEST(a_waiter_goes_on_waiting_after_the_sleep, f)
{
    struct user *user;
    struct waiter waiter, timed;

    fixture_take_by_hand(f, 0);
    user = user_open(f, unhurried());
    waiter_start(&timed, user, 30 * 60000, NULL);
    waiter_start(&waiter, user, RLOCK_FOREVER, NULL);
    assert_true(is_settled(user, 2));
    clock_suspend_ms(HOUR_MS);
    clock_skip_ms(RECHECK_MS); /* whoever slept meanwhile sleeps on, so long at most */
    assert_int_equal(waiter_join(&timed), RLOCK_ETIMEDOUT);
    test_server_do(f->server, "DEL " LOCK_A);
    test_server_do(f->server, "PUBLISH " CHANNEL_A " 0");
    assert_int_equal(waiter_join(&waiter), 0);
}

/* ---- Silence ---- */

FIXTURE_TEST(a_waiter_looks_again_after_five_seconds_without_a_message, f)
{
    struct user *user;
    struct waiter waiter;
    long long calls;

    fixture_take_by_hand(f, 0);
    user = user_open(f, unhurried());
    waiter_start(&waiter, user, HOUR_MS, NULL);
    for (int i = 0; i < 3; i++) { /* each time in vain */
        assert_true(is_settled(user, 1));
        calls = test_server_info(f->server, "commandstats", "cmdstat_evalsha:calls");
        clock_skip_ms(RECHECK_MS);
        assert_true(TEST_EVENTUALLY(
            test_server_info(f->server, "commandstats", "cmdstat_evalsha:calls") > calls, 5000));
    }
    assert_true(is_settled(user, 1));
    test_server_do(f->server, "DEL " LOCK_A); /* in silence */
    clock_skip_ms(RECHECK_MS);
    assert_int_equal(waiter_join(&waiter), 0);
}

FIXTURE_WITH_TEST(every_message_may_be_lost, f, .proxy = PROXY_AS_LEG)
{
    struct user *user, *rival;
    struct waiter waiter;

    proxy_drop_messages(f->proxy, 100, 1);
    user = user_open(f, unhurried());
    rival = user_open_direct(f);
    for (int i = 0; i < 5; i++) {
        assert_code(rlock_lock_for(rival->lock, 0, RLOCK_TAKE(.lease_ms = HOUR_MS), NULL), 0);
        waiter_start(&waiter, user, HOUR_MS, NULL);
        assert_true(is_settled(user, 1));
        assert_true(user_step(rival));
        assert_code(rlock_unlock(rival->lock), 0);
        clock_skip_ms(RECHECK_MS);
        assert_int_equal(waiter_join(&waiter), 0);
        assert_true(fixture_wait_waiters(f, 0));
    }
    assert_true(proxy_stats(f->proxy).dropped_messages >= 5);
}

static bool accepts(const struct fixture *f, uint64_t more_than)
{
    return proxy_stats(f->proxy).accepted > more_than;
}

/* Lets the time pass that it takes to try a silent connection and to give it up. */
static bool is_found_out(const struct fixture *f, uint64_t accepted)
{
    clock_skip_ms(IDLE_MS);
    for (int i = 0; i < 3 && !accepts(f, accepted); i++) {
        (void)TEST_EVENTUALLY(accepts(f, accepted), 200);
        clock_skip_ms(IDLE_MS);
    }
    return accepts(f, accepted);
}

FIXTURE_WITH_TEST(an_idle_connection_whose_peer_vanished_is_found_out, f, .proxy = PROXY_AS_LEG)
{
    struct user *user = user_open(f, unhurried());
    uint64_t accepted;

    assert_code(user_visit(user, 0, NULL), 0);
    for (int i = 0; i < 3; i++) {
        accepted = proxy_stats(f->proxy).accepted;
        proxy_black_hole(f->proxy, PROXY_ANY, true);
        proxy_black_hole(f->proxy, PROXY_ANY, false);
        assert_true(is_found_out(f, accepted));
        assert_code(user_visit(user, 0, NULL), 0);
    }
    user_close(user);
    f->proxy = proxy_stop(f->proxy); /* the vanished connections are still open behind it */
}

FIXTURE_WITH_TEST(a_subscriber_whose_peer_vanished_is_found_out, f, .proxy = PROXY_AS_LEG)
{
    struct user *user;
    struct waiter waiter;
    uint64_t accepted;

    fixture_take_by_hand(f, 0);
    user = user_open(f, unhurried());
    waiter_start(&waiter, user, HOUR_MS, NULL);
    assert_true(is_settled(user, 1));
    accepted = proxy_stats(f->proxy).accepted;
    proxy_black_hole(f->proxy, PROXY_SUBSCRIBERS, true);
    proxy_black_hole(f->proxy, PROXY_SUBSCRIBERS, false);
    assert_true(is_found_out(f, accepted));
    assert_true(fixture_wait_waiters(f, 2)); /* the vanished one is still subscribed */
    test_server_do(f->server, "DEL " LOCK_A);
    test_server_do(f->server, "PUBLISH " CHANNEL_A " 0");
    assert_int_equal(waiter_join(&waiter), 0);
    user_close(user);
    f->proxy = proxy_stop(f->proxy);
}
