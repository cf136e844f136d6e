/* SPDX-License-Identifier: Apache-2.0 */
/* What a fair lock costs the server, by its own count of commands, however long the queue is. */
#include "fair/hall.h"

/* All that the server did since its counters were reset, inside scripts too. */
struct cost {
    long long commands, script_us;
};

static struct cost cost_so_far(struct fixture *f)
{
    char *stats = test_server_cmd(f->server, "INFO commandstats");
    struct cost cost = {0};

    for (const char *at = strstr(stats, "cmdstat_"); at != NULL; at = strstr(at + 1, "cmdstat_")) {
        const bool is_script = strncmp(at, "cmdstat_evalsha:", 16) == 0;
        const char *us = strstr(at, "usec=");

        if (strncmp(at, "cmdstat_info:", 13) != 0 && strncmp(at, "cmdstat_config", 14) != 0) {
            cost.commands += strtoll(strchr(at, '=') + 1, NULL, 10);
        }
        cost.script_us += is_script ? strtoll(us + 5, NULL, 10) : 0;
    }
    free(stats);
    return cost;
}

/* Entries of ours whose processes are somewhere else. */
static void fill_queue(struct fixture *f, size_t n)
{
    static const char script[] = "for i = 1, ARGV[1] do\n"
                                 "  local name = '00000000-0000-8000-8000-000000000000:' .. i\n"
                                 "  redis.call('rpush', KEYS[1], name)\n"
                                 "  redis.call('zadd', KEYS[2], 1900000000000, name)\n"
                                 "end\n";
    char number[24];
    const char *argv[] = {"EVAL", script, "2", QUEUE, SCORES, number, NULL};

    test_text(number, sizeof(number), "%zu", n);
    free(test_server_argv(f->server, argv));
}

/* One waiter comes to the end of a queue of so many, the lock is released, and the head has it. */
static struct cost cost_of_a_cycle(struct fixture *f, size_t n)
{
    struct rlock_handle *locks[3];
    struct actor *actors[] = {actor_open(f), actor_open(f)};
    struct cost cost;

    for (size_t i = 0; i < 3; i++) {
        locks[i] = lock_new(f, client_open(f));
        (void)is_locked(locks[i]); /* connected, scripts known */
    }
    assert_code(rlock_lock(locks[0]), 0);
    hall_line_up(f, actors, locks + 1, 1, act_take, RLOCK_FOREVER, NULL);
    fill_queue(f, n);
    fixture_count_calls(f);
    actor_begin(actors[1], act_take, locks[2], 3000, NULL);
    assert_true(TEST_EVENTUALLY(fixture_calls(f, "rpush") == 1, 5000));
    assert_code(rlock_unlock(locks[0]), 0);
    assert_code(actor_end(actors[0]), 0);
    cost = cost_so_far(f);
    /* it asks, subscribes, queues, and the release grants it the lock */
    assert_int_equal(fixture_calls(f, "evalsha"), 3);
    assert_code(actor_end(actors[1]), RLOCK_ETIMEDOUT);
    test_server_do(f->server,
                   "DEL " QUEUE " " SCORES " rlock_fair:{" NAME "} rlock_fair_asks:{" NAME "}");
    assert_code(actor_do(actors[0], act_unlock, locks[1], 0, NULL), 0);
    return cost;
}

HALL_TEST(a_grant_costs_as_much_in_a_long_queue_as_in_a_short_one, f)
{
    const struct cost few = cost_of_a_cycle(f, 8), many = cost_of_a_cycle(f, 512);

    print_message("8 wait: %lld commands, %lld us in scripts; 512 wait: %lld, %lld us\n",
                  few.commands, few.script_us, many.commands, many.script_us);
    assert_in_range(many.commands * 10, 0, few.commands * 11);
}

/* ---- Commands, of many who come again and again ---- */

enum { CROWD = 8, TURNS = 60 };

static int act_many_turns(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    int code = 0;

    for (int i = 0; i < TURNS && code == 0; i++) {
        code = act_pass_through(lock, wait_ms, take);
    }
    return code;
}

static void let_all_take_turns(struct actor *const *actors, struct rlock_handle *const *locks)
{
    for (int i = 0; i < CROWD; i++) {
        actor_begin(actors[i], act_many_turns, locks[i], RLOCK_FOREVER, NULL);
    }
    for (int i = 0; i < CROWD; i++) {
        assert_code(actor_end(actors[i]), 0);
    }
}

/* It enqueues, and gives the lock back to the next one; the rest is for the channels, many at a
 * time. */
HALL_TEST(a_grant_among_eight_waiters_costs_few_commands, f)
{
    static const char *const counted[] = {"evalsha", "subscribe", "unsubscribe"};
    struct rlock_client *client = client_open(f);
    struct rlock_handle *locks[CROWD];
    struct actor *actors[CROWD];
    long long commands = 0;

    for (int i = 0; i < CROWD; i++) {
        locks[i] = lock_new(f, client);
        actors[i] = actor_open(f);
    }
    let_all_take_turns(actors, locks);
    fixture_count_calls(f);
    let_all_take_turns(actors, locks);
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
        commands += fixture_calls(f, counted[i]);
    }
    print_message("%.2f commands a grant\n", (double)commands / (CROWD * TURNS));
    assert_in_range(commands * 10, 0, CROWD * TURNS * 25);
    assert_true(TEST_EVENTUALLY(fixture_publish(f, "0") == 0, 5000)); /* no channel stays */
}
