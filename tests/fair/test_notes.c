/* SPDX-License-Identifier: Apache-2.0 */
/* What a fair lock's scripts keep about waiters: notes, by which waiters leave the queue, and
 * tickets, by which a release grants the lock to one. The scripts run on the simulated server. */
#include <lua_scripts.h>

#include "sim/server.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)
#define QUEUE RLOCK__FAIR_QUEUE ":{f}"
#define CHANNEL "redisson_lock__channel:{f}:"
#define UUID "00000000-0000-8000-8000-000000000000:"
#define HOLDER UUID "9"
#define PEER "00000000-0000-4000-8000-000000000000:1"
#define SCORES "redisson_lock_timeout:{f}"
#define TICKETS "rlock_fair_asks:{f}"
#define FRESH_MS 750 /* older tickets are too old */

enum { FRONT, MIDDLE, BACK, WAITERS };

static const char *const names[WAITERS] = {UUID "1", UUID "2", UUID "3"};

struct scene {
    struct alone_scene alone;
    struct rlock__spec *fair;
    struct sim_server *server;
    uint64_t conn, ears[WAITERS];
    bool is_moving;  /* the slot is on its way to the server */
    bool counts_not; /* those who ask do not count who hears a waiter */
};

static void send(struct scene *s, struct rlock__cmd *cmd)
{
    struct rlock__buf bytes = {0};

    assert_true(rlock__cmd_encode(cmd, true, &bytes));
    assert_true(sim_server_command(s->server, s->conn, bytes.data, bytes.len));
    rlock__buf_fini(&bytes);
    rlock__cmd_fini(cmd);
}

/* A waiter asks for the lock, so many ms after the begin. */
static void asks(struct scene *s, size_t waiter, int64_t after_ms)
{
    const struct rlock__args args = {.owner = rlock__bytes_of(names[waiter]),
                                     .count = 1,
                                     .lease_ms = 30000,
                                     .waits = true,
                                     .settled = rlock__bytes_of(s->counts_not ? "-" : ""),
                                     .may_push = true};
    struct rlock__cmd cmd = {0};

    sim_server_set_time(s->server, NOW + after_ms * RLOCK__MS);
    rlock__fair_ops.acquire(s->fair, &args, &cmd);
    if (s->is_moving) {
        rlock__cmd_arg(&cmd, rlock__bytes_of("asking"));
    }
    send(s, &cmd);
}

/* The holder unlocks, so many ms after the begin. */
static void releases(struct scene *s, int64_t after_ms)
{
    const struct rlock__args args = {.owner = rlock__bytes_of(HOLDER)};
    struct rlock__cmd cmd = {0};

    sim_server_set_time(s->server, NOW + after_ms * RLOCK__MS);
    rlock__fair_ops.release(s->fair, &args, &cmd);
    if (s->is_moving) {
        rlock__cmd_arg(&cmd, rlock__bytes_of("asking"));
    }
    send(s, &cmd);
}

static bool has(const struct scene *s, const char *key, const char *name, int64_t *ret_ttl_ms)
{
    const struct sim_view view = {key, strlen(key)};
    struct sim_key_info info;
    bool found = false, any = sim_server_find_key(s->server, view, &info);

    for (size_t i = 0; any && i < info.n_items; i++) {
        struct sim_view item = sim_key_item(&info, i).name;

        found =
            found || rlock__bytes_equal(rlock__bytes(item.data, item.len), rlock__bytes_of(name));
    }
    if (ret_ttl_ms != NULL) {
        *ret_ttl_ms = any ? info.pttl_ms : 0;
    }
    return found;
}

static void assert_waits(const struct scene *s, size_t waiter, bool waits)
{
    assert_int_equal(has(s, QUEUE, names[waiter], NULL), waits);
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
        s->ears[i] = sim_server_connect(s->server);
        assert_true(sim_server_words(s->server, s->ears[i],
                                     (const char *const[]){"SUBSCRIBE", channel, NULL}));
        asks(s, i, 0);
    }
    types(s, (const char *const[]){"DEL", "f", NULL});
}

/* The same, and the lock is held. */
static void begin_held(struct scene *s)
{
    begin(s);
    types(s, (const char *const[]){"HSET", "f", HOLDER, "1", NULL});
    types(s, (const char *const[]){"PEXPIRE", "f", "30000", NULL});
}

static void end(struct scene *s)
{
    rlock__core_fini(&s->alone.core);
    (void)rlock__spec_unref(s->fair);
    (void)rlock__spec_unref(s->alone.spec);
    (void)sim_server_free(s->server);
}

#define NOTES_TEST(name) TEST_AROUND(name, struct scene, s, begin(s), end(s))
#define TICKET_TEST(name) TEST_AROUND(name, struct scene, s, begin_held(s), end(s))

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
    assert_false(has(s, TICKETS, names[FRONT], NULL));
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

/* Two callers ask in turn. The one in the middle counts the listeners of the one in front. The one
 * at the back does not, because its client has only just learned that this server has the key. */
static void ask_in_turn(struct scene *s, int64_t from_ms, int64_t until_ms)
{
    for (int64_t at_ms = from_ms; at_ms < until_ms; at_ms += 500) {
        asks(s, MIDDLE, at_ms);
        s->counts_not = true;
        asks(s, BACK, at_ms + 250);
        s->counts_not = false;
    }
}

NOTES_TEST(a_dead_head_goes_though_every_other_one_that_asks_does_not_count)
{
    sim_server_disconnect(s->server, s->ears[FRONT]);
    ask_in_turn(s, 0, 1500);
    assert_waits(s, FRONT, false);
    assert_waits(s, BACK, true);
}

NOTES_TEST(a_silent_head_goes_though_every_other_one_that_asks_does_not_count)
{
    ask_in_turn(s, 0, 2500);
    assert_waits(s, FRONT, true);
    ask_in_turn(s, 2500, 4500);
    assert_waits(s, FRONT, false);
    assert_true(has(s, "f", names[MIDDLE], NULL));
    assert_waits(s, BACK, true);
}

NOTES_TEST(one_that_does_not_count_asks_a_head_that_another_one_did_not_hear_long_ago)
{
    sim_server_disconnect(s->server, s->ears[FRONT]);
    asks(s, MIDDLE, 0);
    s->counts_not = true;
    for (int64_t at_ms = 2000; at_ms <= 5500; at_ms += 500) {
        asks(s, BACK, at_ms);
    }
    assert_waits(s, FRONT, false);
}

/* ---- Grants by release ---- */

static void assert_told(const struct scene *s)
{
    assert_false(has(s, "f", names[FRONT], NULL));
    assert_false(has(s, "f", HOLDER, NULL));
    assert_waits(s, FRONT, true);
}

TICKET_TEST(a_release_grants_the_lock_to_a_head_that_asked_just_now)
{
    int64_t ttl_ms;

    releases(s, FRESH_MS);
    assert_true(has(s, "f", names[FRONT], &ttl_ms));
    assert_int_equal(ttl_ms, RLOCK__PUSH_US / RLOCK__MS);
    assert_false(has(s, "f", HOLDER, NULL));
    assert_waits(s, FRONT, false);
    assert_waits(s, MIDDLE, true);
    assert_false(has(s, SCORES, names[FRONT], NULL));
    assert_false(has(s, TICKETS, names[FRONT], NULL));
    assert_true(has(s, TICKETS, names[MIDDLE], NULL));
}

TICKET_TEST(a_head_with_an_old_ticket_is_told_that_the_lock_is_free)
{
    releases(s, FRESH_MS + 1);
    assert_told(s);
}

TICKET_TEST(a_head_with_a_ticket_from_the_future_is_told_that_the_lock_is_free)
{
    asks(s, FRONT, 1);
    sim_server_set_clock_offset(s->server, -5 * RLOCK__MS);
    releases(s, 2);
    assert_told(s);
}

TICKET_TEST(a_head_that_nobody_hears_is_granted_nothing)
{
    sim_server_disconnect(s->server, s->ears[FRONT]);
    releases(s, 1);
    assert_told(s);
}

TICKET_TEST(a_head_without_a_ticket_is_told)
{
    types(s, (const char *const[]){"ZREM", TICKETS, names[FRONT], NULL});
    releases(s, 1);
    assert_told(s);
}

TICKET_TEST(a_peer_in_front_is_told_whatever_stands_beside_it)
{
    char ticket[32];

    (void)snprintf(ticket, sizeof(ticket), "%lld", (long long)sim_server_clock_us(s->server));
    types(s, (const char *const[]){"LPUSH", QUEUE, PEER, NULL});
    types(s, (const char *const[]){"ZADD", SCORES, "1900000000000", PEER, NULL});
    types(s, (const char *const[]){"ZADD", TICKETS, ticket, PEER, NULL});
    types(s, (const char *const[]){"SUBSCRIBE", CHANNEL PEER, NULL});
    releases(s, 1);
    assert_false(has(s, "f", PEER, NULL));
    assert_true(has(s, QUEUE, PEER, NULL));
}

/* A copy of its release may have run already. */
TICKET_TEST(the_second_copy_of_a_release_grants_nothing)
{
    releases(s, 1);
    releases(s, 1);
    assert_true(has(s, "f", names[FRONT], NULL));
    assert_false(has(s, "f", names[MIDDLE], NULL));
    assert_waits(s, MIDDLE, true);
}

/* Tickets that are there could not come. */
TICKET_TEST(no_ticket_is_made_while_the_slot_is_on_its_way)
{
    types(s, (const char *const[]){"DEL", TICKETS, NULL});
    s->is_moving = true;
    asks(s, FRONT, 1);
    assert_false(has(s, TICKETS, names[FRONT], NULL));
    s->is_moving = false;
    asks(s, FRONT, 2);
    assert_true(has(s, TICKETS, names[FRONT], NULL));
}

TICKET_TEST(a_release_grants_nothing_while_the_slot_is_on_its_way)
{
    s->is_moving = true;
    releases(s, 1);
    assert_told(s);
}

/* It may have another owner's field beside it, that nobody knows of. */
TICKET_TEST(a_release_grants_nothing_under_a_key_with_two_owners)
{
    types(s, (const char *const[]){"HSET", "f", PEER, "1", NULL});
    releases(s, 1);
    assert_false(has(s, "f", names[FRONT], NULL));
    assert_true(has(s, "f", PEER, NULL));
}

TICKET_TEST(the_next_in_the_queue_counts_from_the_lease_that_the_lock_had)
{
    struct sim_key_info scores;
    const struct sim_view key = {SCORES, sizeof(SCORES) - 1};

    types(s, (const char *const[]){"ZADD", SCORES, "1", names[MIDDLE], NULL});
    releases(s, 1);
    assert_true(sim_server_find_key(s->server, key, &scores));
    for (size_t i = 0; i < scores.n_items; i++) {
        struct sim_item_info item = sim_key_item(&scores, i);

        if (rlock__bytes_equal(rlock__bytes(item.name.data, item.name.len),
                               rlock__bytes_of(names[MIDDLE]))) {
            assert_true(item.score > (double)(sim_server_clock_us(s->server) / RLOCK__MS) + 329000);
        }
    }
}

/* The holder unlocks, and announces that in another way; the head hears sharded channels too. */
static void releases_by(struct scene *s, const char *way)
{
    const char *const args[] = {HOLDER,   "0",    "0",
                                "300000", way,    "redisson_lock__channel:{f}",
                                QUEUE,    SCORES, "rlock_fair:{f}"};
    struct rlock__cmd cmd = {.script = &rlock__script_fair_release};
    char channel[128];

    (void)snprintf(channel, sizeof(channel), CHANNEL "%s", names[FRONT]);
    assert_true(sim_server_words(s->server, s->ears[FRONT],
                                 (const char *const[]){"SSUBSCRIBE", channel, NULL}));
    rlock__cmd_key(&cmd, rlock__bytes_of("f"));
    for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++) {
        rlock__cmd_arg(&cmd, rlock__bytes_of(args[i]));
    }
    send(s, &cmd);
}

TICKET_TEST(a_release_on_sharded_channels_grants_the_lock)
{
    releases_by(s, "SPUBLISH");
    assert_true(has(s, "f", names[FRONT], NULL));
}

/* Nobody knows who hears both. */
TICKET_TEST(a_release_on_both_sorts_of_channels_grants_nothing)
{
    releases_by(s, "BOTH");
    assert_told(s);
}

/* GET has one argument, so the server refuses the message. */
TICKET_TEST(a_release_that_may_not_publish_grants_nothing)
{
    releases_by(s, "GET");
    assert_told(s);
    assert_true(has(s, SCORES, names[FRONT], NULL));
    assert_true(has(s, TICKETS, names[FRONT], NULL));
}
