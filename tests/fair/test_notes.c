/* SPDX-License-Identifier: Apache-2.0 */
/* The notes that a fair lock's scripts keep about waiters, and which waiters leave the queue
 * because of them. The scripts run on the simulated server. */
#include "sim/server.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)
#define QUEUE RLOCK__FAIR_QUEUE ":{f}"
#define CHANNEL "redisson_lock__channel:{f}:"
#define UUID "00000000-0000-8000-8000-000000000000:"

enum { FRONT, MIDDLE, BACK, WAITERS };

static const char *const names[WAITERS] = {UUID "1", UUID "2", UUID "3"};

struct scene {
    struct alone_scene alone;
    struct rlock__spec *fair;
    struct sim_server *server;
    uint64_t conn;
};

/* A waiter asks for the lock, so many ms after the begin. */
static void asks(struct scene *s, size_t waiter, int64_t after_ms)
{
    const struct rlock__args args = {
        .owner = rlock__bytes_of(names[waiter]), .count = 1, .lease_ms = 30000, .waits = true};
    struct rlock__buf bytes = {0};
    struct rlock__cmd cmd = {0};

    sim_server_set_time(s->server, NOW + after_ms * RLOCK__MS);
    rlock__fair_ops.acquire(s->fair, &args, &cmd);
    assert_true(rlock__cmd_encode(&cmd, true, &bytes));
    assert_true(sim_server_command(s->server, s->conn, bytes.data, bytes.len));
    rlock__buf_fini(&bytes);
    rlock__cmd_fini(&cmd);
}

static void assert_waits(const struct scene *s, size_t waiter, bool waits)
{
    const struct rlock__bytes name = rlock__bytes_of(names[waiter]);
    const struct sim_view key = {QUEUE, sizeof(QUEUE) - 1};
    struct sim_key_info queue;
    bool found = false, any = sim_server_find_key(s->server, key, &queue);

    for (size_t i = 0; any && i < queue.n_items; i++) {
        struct sim_view item = sim_key_item(&queue, i).name;

        found = found || rlock__bytes_equal(rlock__bytes(item.data, item.len), name);
    }
    assert_int_equal(found, waits);
}

static void types(struct scene *s, const char *const *words)
{
    assert_true(sim_server_words(s->server, sim_server_connect(s->server), words));
}

/* Three waiters, each subscribed to its channel. The lock is free, and no message was sent. */
static void begin(struct scene *s)
{
    char channel[128];

    *s = (struct scene){.server = sim_server_new(1)};
    s->conn = sim_server_connect(s->server);
    alone_open(&s->alone, NOW);
    s->fair = rlock__spec_new(&s->alone.core, &rlock__fair_ops, rlock__bytes_of("f"), NULL);
    types(s, (const char *const[]){"HSET", "f", "holder:1", "1", NULL});
    for (size_t i = 0; i < WAITERS; i++) {
        (void)snprintf(channel, sizeof(channel), CHANNEL "%s", names[i]);
        types(s, (const char *const[]){"SUBSCRIBE", channel, NULL});
        asks(s, i, 0);
    }
    types(s, (const char *const[]){"DEL", "f", NULL});
}

static void end(struct scene *s)
{
    rlock__core_fini(&s->alone.core);
    (void)rlock__spec_unref(s->fair);
    (void)rlock__spec_unref(s->alone.spec);
    (void)sim_server_free(s->server);
}

#define NOTES_TEST(name) TEST_AROUND(name, struct scene, s, begin(s), end(s))

/* The first one is silent for four seconds, and for the last three the second one is asked too. */
static void looks_again_and_again(struct scene *s, bool middle_answers)
{
    static const int64_t times_ms[] = {0, 1000, 1100, 1200, 1300};

    for (size_t i = 0; i < sizeof(times_ms) / sizeof(times_ms[0]); i++) {
        asks(s, BACK, times_ms[i]);
        if (middle_answers) {
            asks(s, MIDDLE, times_ms[i]);
        }
    }
    assert_waits(s, FRONT, true);
    assert_waits(s, MIDDLE, true);
    asks(s, BACK, 4500);
    assert_waits(s, FRONT, false);
}

NOTES_TEST(a_waiter_that_is_as_silent_as_its_head_goes_with_it)
{
    looks_again_and_again(s, false);
    assert_waits(s, MIDDLE, false);
}

NOTES_TEST(a_waiter_that_asks_for_the_lock_after_it_was_asked_stays_when_its_head_goes)
{
    looks_again_and_again(s, true);
    assert_waits(s, MIDDLE, true);
}
