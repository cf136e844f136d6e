/* SPDX-License-Identifier: Apache-2.0 */
/* What the log says of calls that were slow, and of what made them so. */
#include "support/clients.h"

#include <stdlib.h>
#include <string.h>

static struct rlock_client *client_open_talking(struct fixture *f, int level)
{
    return client_open_with(f, RLOCK_CLIENT_OPTS(.log_level = level));
}

/* Whether the log has all of them, each behind the one before. NULL ends them. */
static bool tells(struct fixture *f, const char *const texts[])
{
    const char *at;

    (void)pthread_mutex_lock(&f->diary.mutex);
    at = f->diary.log;
    for (; at != NULL && *texts != NULL; texts++) {
        at = strstr(at, *texts);
        at = at != NULL ? at + strlen(*texts) : NULL;
    }
    (void)pthread_mutex_unlock(&f->diary.mutex);
    return at != NULL && *texts == NULL;
}

LOCK_TEST(the_log_of_a_wait_names_the_holder_and_what_ended_the_wait, f)
{
    struct rlock_client *holder = client_open(f), *client = client_open_talking(f, RLOCK_LOG_DEBUG);
    struct rlock_handle *held = lock_new(f, holder), *lock = lock_new(f, client);
    struct actor *actor = actor_open(f);
    char busy[100];
    const char *const waits[] = {
        "lock " NAME ": call ", "asks server ", busy, "subscribed to its channel\n",
        "asks server ",         busy,           NULL};
    const char *const gets[] = {"subscribed to its channel\n", "was woken by a release\n",
                                "was granted after ", NULL};
    /* one release in 32 lets others go first */
    const char *const gets_later[] = {"subscribed to its channel\n", "was told to ask in ",
                                      "asks server ", "was granted after ", NULL};

    test_text(busy, sizeof(busy), "found it busy: %s:", rlock_client_uuid(holder));
    assert_code(rlock_lock(held), 0);
    assert_true(TEST_EVENTUALLY(diary_logged(&f->diary, ": connected") > 0, 10000));
    actor_begin(actor, act_take, lock, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    assert_true(TEST_EVENTUALLY(tells(f, waits), 5000));
    assert_int_equal(diary_logged(&f->diary, "was granted"), 0);
    assert_code(rlock_unlock(held), 0);
    assert_code(actor_end(actor), 0);
    assert_true(TEST_EVENTUALLY(tells(f, gets) || tells(f, gets_later), 5000));
    assert_code(actor_do(actor, act_unlock, lock, 0, NULL), 0);
}

LOCK_TEST(the_log_of_a_call_that_failed_says_why, f)
{
    struct rlock_client *holder = client_open(f), *client = client_open_talking(f, RLOCK_LOG_DEBUG);
    struct rlock_handle *held = lock_new(f, holder), *lock = lock_new(f, client);
    char text[120];

    assert_code(rlock_lock(held), 0);
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    test_text(text, sizeof(text), "(attempts: 1): %s: held by %s:", rlock_strerror(RLOCK_EBUSY),
              rlock_client_uuid(holder));
    assert_true(TEST_EVENTUALLY(diary_logged(&f->diary, text) == 1, 5000));
    assert_code(rlock_unlock(held), 0);
}

LOCK_TEST(calls_are_logged_at_the_level_debug_alone, f)
{
    struct rlock_client *client = client_open_talking(f, RLOCK_LOG_INFO);
    struct rlock_handle *lock = lock_new(f, client);

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    client_close(f, client);
    assert_true(diary_logged(&f->diary, ": connected") > 0);
    assert_int_equal(diary_logged(&f->diary, "call "), 0);
}

/* The sum of what the log says it left out. */
static size_t left_out(struct fixture *f)
{
    static const char behind[] = " lines of this level were left out";
    const char *log = f->diary.log, *at;
    size_t sum = 0;

    for (at = strstr(log, behind); at != NULL; at = strstr(at + 1, behind)) {
        const char *number = at;

        while (number > log && number[-1] != '\n') {
            number--;
        }
        sum += strtoul(number, NULL, 10);
    }
    return sum;
}

LOCK_TEST(a_storm_of_calls_is_logged_in_part_and_the_log_says_how_many_lines_it_left_out, f)
{
    enum { PAIRS = 3000, A_SECOND = 100 };

    struct rlock_client *client = client_open_talking(f, RLOCK_LOG_DEBUG);
    struct rlock_handle *lock = lock_new(f, client);
    int64_t since_us, seconds;
    size_t lines;

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    since_us = test_now_us();
    for (int i = 1; i < PAIRS; i++) {
        assert_code(rlock_lock(lock), 0);
        assert_code(rlock_unlock(lock), 0);
    }
    seconds = test_elapsed_us(since_us) / 1000000;
    client_close(f, client);
    lines = diary_logged(&f->diary, "asks server") + diary_logged(&f->diary, "waits for a conn") +
            diary_logged(&f->diary, "was granted");
    assert_true(lines <= (size_t)(seconds + 3) * A_SECOND + 1);
    assert_int_equal(lines + left_out(f), 2 * PAIRS);
}

/* ---- Connections and renewals ---- */

#define PROXY_TEST(name, f)                                                                        \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .proxy = PROXY_ON_UNIX)

static struct rlock_client *client_open_behind(struct fixture *f, int64_t renewed_lease_ms)
{
    return client_open_with(f, RLOCK_CLIENT_OPTS(.url = proxy_url(f->proxy),
                                                 .renewed_lease_ms = renewed_lease_ms,
                                                 .log_level = RLOCK_LOG_INFO));
}

/* Closes the client, and waits until the proxy has closed its connections too. */
static void close_behind(struct fixture *f, struct rlock_client *client)
{
    client_close(f, client);
    assert_true(proxy_wait_open(f->proxy, 0, 10000));
    assert_true(TEST_EVENTUALLY(test_server_clients(f->server) == 0, 10000));
}

PROXY_TEST(a_connection_that_broke_and_came_back_is_logged, f)
{
    struct rlock_client *client = client_open_behind(f, 0), *rival = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *held = lock_new(f, rival);
    struct actor *actor = actor_open(f);

    assert_code(rlock_lock(held), 0);
    actor_begin(actor, act_take, lock, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    assert_true(proxy_wait_subscribers(f->proxy, 1, 5000));
    assert_int_equal(diary_logged(&f->diary, "reconnected"), 0);
    proxy_cut_all(f->proxy, PROXY_ANY);
    assert_true(TEST_EVENTUALLY(diary_logged(&f->diary, ": reconnected after ") > 0, 10000));
    assert_true(TEST_EVENTUALLY(diary_logged(&f->diary, "subscriber connection is back after ") > 0,
                                10000));
    assert_true(tells(f, (const char *const[]){"subscriber connection broke", "is back", NULL}));
    assert_code(rlock_unlock(held), 0);
    assert_code(actor_end(actor), 0);
    assert_code(actor_do(actor, act_unlock, lock, 0, NULL), 0);
    client_close(f, rival);
    close_behind(f, client);
}

PROXY_TEST(a_renewal_that_comes_late_is_logged, f)
{
    const int64_t lease_ms = test_ms(1500);
    struct rlock_client *client = client_open_behind(f, lease_ms);
    struct rlock_handle *lock = lock_named(f, client, LOCK_A);

    assert_code(rlock_lock(lock), 0);
    assert_true(fixture_wait_renewed(f, lease_ms)); /* the server knows its script by then */
    assert_int_equal(diary_logged(&f->diary, "renewed late"), 0);
    proxy_delay_way_us(f->proxy, PROXY_COMMANDS, PROXY_TO_CLIENT, lease_ms * 1000 / 2);
    assert_true(TEST_EVENTUALLY(diary_logged(&f->diary, "lock a: renewed late, ") > 0, 10000));
    proxy_delay_us(f->proxy, 0);
    assert_code(rlock_unlock(lock), 0);
    close_behind(f, client);
}
