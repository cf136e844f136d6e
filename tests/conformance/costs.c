/* SPDX-License-Identifier: Apache-2.0 */
/* What locks cost the server, by its own count. */
#include "cases.h"

#include <pthread.h>

static void pairs(struct rlock_handle *lock, int n)
{
    for (int i = 0; i < n; i++) {
        assert_code(rlock_lock(lock), 0);
        assert_code(rlock_unlock(lock), 0);
    }
}

/* What a script of a lock may call by itself; everything else that the server counts was sent. */
static bool is_inside_a_script(const char *command, size_t len)
{
    static const char *const inner[] = {
        "del",     "exists",  "get",           "hdel",   "hexists", "hget",    "hgetall",
        "hincrby", "hkeys",   "hlen",          "hset",   "incr",    "incrby",  "zrangebyscore",
        "lindex",  "llen",    "lpop",          "lrange", "lrem",    "pexpire", "psetex",
        "pttl",    "publish", "pubsub|numsub", "rpush",  "set",     "time",    "zadd",
        "zcard",   "zincrby", "zrange",        "zrank",  "zrem",    "zscore"};

    for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++) {
        if (strlen(inner[i]) == len && memcmp(inner[i], command, len) == 0) {
            return true;
        }
    }
    return false;
}

/* Fails if the server was sent anything but scripts, and what asks for this count. */
static void only_scripts_were_sent(struct fixture *f)
{
    char *stats = test_server_cmd(f->server, "INFO commandstats");

    for (const char *at = strstr(stats, "cmdstat_"); at != NULL; at = strstr(at, "cmdstat_")) {
        const size_t len = strcspn(at += strlen("cmdstat_"), ":");

        if (!is_inside_a_script(at, len) && strncmp(at, "evalsha:", 8) != 0 &&
            strncmp(at, "info:", 5) != 0 && strncmp(at, "config|resetstat:", 17) != 0 &&
            strncmp(at, "config:", 7) != 0) {
            fail_msg("sent: %.*s", (int)len, at);
        }
    }
    free(stats);
}

void a_pair_is_two_scripts_and_nothing_else(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    pairs(lock, 1); /* connected, scripts known */
    fixture_count_calls(f);
    pairs(lock, 20);
    assert_int_equal(fixture_calls(f, "evalsha"), 40);
    only_scripts_were_sent(f);
}

void each_level_is_a_script(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    assert_code(rlock_lock(lock), 0);
    pairs(lock, 1); /* the server knows the scripts from here on */
    assert_code(rlock_unlock(lock), 0);
    fixture_count_calls(f);
    for (int i = 0; i < 5; i++) {
        assert_code(rlock_lock(lock), 0);
    }
    for (int i = 0; i < 5; i++) {
        assert_code(rlock_unlock(lock), 0);
    }
    assert_int_equal(fixture_calls(f, "evalsha"), 10);
    only_scripts_were_sent(f);
}

void local_answers_cost_nothing(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    assert_code(rlock_lock(lock), 0);
    fixture_count_calls(f);
    for (int i = 0; i < 1000; i++) {
        assert_true(rlock_is_valid(lock));
        assert_true(rlock_valid_ms(lock) > 0);
        assert_int_equal(rlock_hold_count(lock), 1);
    }
    assert_int_equal(fixture_calls(f, "evalsha"), 0);
    only_scripts_were_sent(f);
    assert_code(rlock_unlock(lock), 0);
}

/* Scripts that waiters sent while somebody held the lock for that long. */
static void idle_for(struct fixture *f, int64_t ms, long long most)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct actor *waiters[3];

    assert_code(TAKE(rival, 0, .lease_ms = 600000), 0);
    for (size_t i = 0; i < 3; i++) {
        waiters[i] = actor_open(f);
        actor_begin(waiters[i], act_pass_through, lock, RLOCK_FOREVER, NULL);
        await_waiting(client, i + 1);
    }
    fixture_count_calls(f);
    (void)STAYS(true, ms);
    assert_in_range(fixture_calls(f, "evalsha"), 0, most);
    assert_code(rlock_unlock(rival), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_code(actor_end(waiters[i]), 0);
    }
}

void idle_waiters_are_silent(struct fixture *f)
{
    idle_for(f, 600, 1);
}

/* The first in a queue on the server looks again after 2.3 s or more, other waiters after 4.5 s. */
void idle_waiters_look_again_once_per_recheck(struct fixture *f)
{
    idle_for(f, 11000, 4);
}

/* ---- Ends of waits, which are nobody's business ---- */

enum { LINE = 6 };

static void line_up(struct fixture *f, struct rlock_client *client, struct rlock_cancel *cancel,
                    struct actor *waiters[static LINE])
{
    struct rlock_handle *lock = lock_new(f, client);

    for (size_t i = 0; i < LINE; i++) {
        waiters[i] = actor_open(f);
        actor_begin(waiters[i], act_take, lock, RLOCK_FOREVER, RLOCK_TAKE(.cancel = cancel));
        await_waiting(client, i + 1);
    }
    fixture_count_calls(f);
}

void cancelling_a_whole_line_asks_nobody(struct fixture *f)
{
    struct rlock_handle *rival = rival_new(f, client_open(f));
    struct rlock_cancel *cancel = NULL;
    struct actor *waiters[LINE];

    assert_code(rlock_cancel_new(&cancel), 0);
    assert_code(rlock_lock(rival), 0);
    line_up(f, client_open(f), cancel, waiters);
    rlock_cancel_fire(cancel);
    for (size_t i = 0; i < LINE; i++) {
        assert_code(actor_end(waiters[i]), RLOCK_ECANCELED);
    }
    assert_in_range(fixture_calls(f, "evalsha"), 0, 1);
    assert_code(rlock_unlock(rival), 0);
    assert_null(rlock_cancel_free(cancel));
}

void closing_with_a_line_asks_nobody(struct fixture *f)
{
    struct rlock_handle *rival = rival_new(f, client_open(f));
    struct rlock_client *client = client_open(f);
    struct actor *waiters[LINE];

    assert_code(rlock_lock(rival), 0);
    line_up(f, client, NULL, waiters);
    client_close(f, client);
    for (size_t i = 0; i < LINE; i++) {
        assert_code(actor_end(waiters[i]), RLOCK_ECLOSED);
    }
    assert_in_range(fixture_calls(f, "evalsha"), 0, 1);
    assert_code(rlock_unlock(rival), 0);
}

/* Only a renewal asks the server for its time. There are two exceptions: a grant that has a token,
 * and each script of permits. Permits are the kind that does not name its holder. */
static long long renewals(struct fixture *f, int grants)
{
    return fixture_calls(f, "time") - (kind_can(f, HAS_TOKEN) ? grants : 0) -
           (kind_can(f, NAMES_HOLDER) ? 0 : 2 * grants);
}

void thousands_of_relocks_cause_no_renewal(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300), held_ms = 2 * lease_ms;
    const int n = 10000 / test_slack();
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));

    fixture_count_calls(f);
    pairs(lock, n);
    assert_in_range(renewals(f, n), 0,
                    2); /* a pair may take a third of the lease on a busy machine */
    assert_code(rlock_lock(lock), 0);
    fixture_count_calls(f);
    (void)STAYS(true, held_ms);
    assert_in_range(renewals(f, 0), 3, 8); /* one per third of the lease */
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
    fixture_count_calls(f);
    (void)STAYS(true, lease_ms / 2);
    assert_int_equal(renewals(f, 0), 0);
}

/* Holds that fall due within the same sixtieth of a lease share scripts, of which each takes 50,
 * and stay together from then on. So there are no more groups than sixtieths passed while they were
 * taken, and one for each script that was full. */
void renewals_of_many_holds_share_scripts(struct fixture *f)
{
    enum { N = 100 };
    const int64_t lease_ms = test_ms(450);
    struct rlock_client *client = client_open_renewing(f, lease_ms);
    struct rlock_handle *locks[N];
    int64_t since_us = test_now_us();
    long long calls, groups, periods;

    for (int i = 0; i < N; i++) {
        char name[32];

        test_text(name, sizeof(name), "many-%d", i);
        locks[i] = lock_named(f, client, name);
        assert_code(rlock_lock(locks[i]), 0);
    }
    groups = test_elapsed_us(since_us) * 60 / (lease_ms * 1000) + 2 + N / 50;
    since_us = test_now_us();
    (void)STAYS(true, lease_ms / 3); /* they have found each other by now */
    fixture_count_calls(f);
    (void)STAYS(true, lease_ms);
    calls = fixture_calls(f, "evalsha");
    periods = test_elapsed_us(since_us) * 3 / (lease_ms * 1000) + 1;
    assert_in_range(calls, 2, groups * periods); /* of 300 renewals or more */
    for (int i = 0; i < N; i++) {
        assert_true(rlock_is_valid(locks[i]));
        assert_code(rlock_unlock(locks[i]), 0);
    }
}

struct waiter {
    struct rlock_handle *lock;
    pthread_t thread;
};

static void *wait_main(void *arg)
{
    struct waiter *waiter = arg;

    TEST_CHECK(act_pass_through(waiter->lock, RLOCK_FOREVER, NULL) == 0);
    return NULL;
}

void hundreds_of_local_waiters_cost_two_attempts_per_grant(struct fixture *f)
{
    enum { MOST = 500 };
    static struct waiter waiters[MOST];
    const size_t n = test_slack() > 1 ? 100 : MOST;
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));

    pairs(lock, 1);
    assert_code(rlock_lock(rival), 0);
    for (size_t i = 0; i < n; i++) {
        waiters[i].lock = lock;
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_main, &waiters[i]), 0);
    }
    await_waiting(client, n);
    fixture_count_calls(f);
    assert_code(rlock_unlock(rival), 0);
    for (size_t i = 0; i < n; i++) {
        (void)pthread_join(waiters[i].thread, NULL);
    }
    print_message("%lld scripts for %zu grants\n", fixture_calls(f, "evalsha"), n);
    assert_in_range(fixture_calls(f, "evalsha"), 1,
                    3 * n + 10); /* two to get it, one to give it up */
    assert_in_range(fixture_calls(f, "subscribe"), 0, n);
}
