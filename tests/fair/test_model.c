/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations of ours and of peers on the simulated server, with random deaths and pauses, in
 * virtual time: after each one the server must have exactly what the model says. The commands are
 * those that the kind builds, the replies are read by it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fair/model.h"
#include "fair/peer.h"
#include "lock/core.h"
#include "sim/server.h"

#define KEY "lock"
#define QUEUE "redisson_lock_queue:{" KEY "}"
#define SCORES "redisson_lock_timeout:{" KEY "}"
#define CHANNEL "redisson_lock__channel:{" KEY "}"

enum { ACTORS = 40, LEASE_MS = 2000 };

enum standing { IDLE, WAITS, HOLDS };

struct actor {
    char name[MODEL_NAME];
    bool peer;
    enum standing standing;
    int64_t asleep_until;
    uint64_t conn; /* that hears its channel; 0 none */
    void *memo, *look_memo;
    struct model_watch watch, look;
    uint32_t depth;
};

struct table {
    struct model model;
    struct sim_server *server;
    uint64_t conn;
    struct rlock__core core;
    struct rlock__spec *spec;
    struct actor actors[ACTORS];
    int64_t peers_wait;
    uint64_t random, names;
    char *reply;
    size_t reply_len;
    uint64_t grants, n_ours, n_peers;
};

static int64_t below(struct table *t, int64_t n)
{
    uint64_t z = (t->random += 0x9E3779B97F4A7C15ULL); /* splitmix64 (Steele, Lea, Flood 2014) */

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return (int64_t)((z ^ (z >> 31)) >> 1) % n;
}

static bool chance(struct table *t, int64_t percent)
{
    return below(t, 100) < percent;
}

/* ---- The server ---- */

static void on_frame(void *payload, uint64_t conn, const char *bytes, size_t len, bool is_push)
{
    struct table *t = payload;

    if (conn == t->conn && !is_push) {
        t->reply = realloc(t->reply, len);
        memcpy(t->reply, bytes, len);
        t->reply_len = len;
    }
}

static void on_unref(struct rlock__core *core)
{
    (void)core;
}

static void send_words(struct table *t, uint64_t conn, const char *const *words)
{
    struct sim_view views[12];
    struct sim_buf command = SIM_BUF_NULL;
    size_t n = 0;

    for (; words[n] != NULL; n++) {
        views[n] = (struct sim_view){words[n], strlen(words[n])};
    }
    sim_resp_command(&command, views, n);
    assert_true(sim_server_command(t->server, conn, command.data, command.len));
    sim_buf_fini(&command);
}

/* Reads the reply to the last command, as the core would. */
static size_t read_reply(struct table *t, struct rlock__value *values, struct sim_resp **ret_tree)
{
    struct sim_resp *tree = sim_resp_read(t->reply, t->reply_len);
    size_t n = tree->type == SIM_RESP_ARRAY ? tree->n_items : 0;

    assert_int_not_equal(tree->type, SIM_RESP_ERROR);
    for (size_t i = 0; i < n; i++) {
        const struct sim_resp *item = &tree->items[i];

        values[i] = (struct rlock__value){item->type == SIM_RESP_INTEGER ? RLOCK__REPLY_INT
                                                                         : RLOCK__REPLY_STR,
                                          item->integer, item->text.data, item->text.len};
    }
    *ret_tree = tree;
    return n;
}

static void tell_time(struct table *t)
{
    sim_server_set_time(t->server, t->model.now * 1000 - SIM_EPOCH_US);
}

static struct rlock__ask ask_of(struct table *t, const char *name, uint32_t count, void *memo)
{
    return (struct rlock__ask){.owner = rlock__bytes_of(name),
                               .count = count,
                               .lease_ms = LEASE_MS,
                               .publish = "PUBLISH",
                               .memo = memo,
                               .now = t->model.now * 1000};
}

/* Runs a command that the kind built. */
static void run(struct table *t, struct rlock__cmd *cmd)
{
    struct rlock__buf bytes = {0};

    assert_true(rlock__cmd_encode(cmd, true, &bytes));
    assert_true(sim_server_command(t->server, t->conn, bytes.data, bytes.len));
    rlock__buf_fini(&bytes);
    rlock__cmd_fini(cmd);
}

/* ---- What must be the same ---- */

static struct sim_view view_of(const char *text)
{
    return (struct sim_view){text, strlen(text)};
}

static void assert_view(struct sim_view view, const char *expected)
{
    if (view.len != strlen(expected) || memcmp(view.data, expected, view.len) != 0) {
        fail_msg("'%.*s', expected '%s'", (int)view.len, view.data, expected);
    }
}

static int64_t score_of(const struct sim_key_info *scores, const char *name)
{
    for (size_t i = 0; i < scores->n_items; i++) {
        struct sim_item_info item = sim_key_item(scores, i);

        if (item.name.len == strlen(name) && memcmp(item.name.data, name, item.name.len) == 0) {
            return (int64_t)item.score;
        }
    }
    return -1;
}

static void compare_lock(struct table *t)
{
    struct sim_key_info lock;
    char count[24];

    if (!sim_server_find_key(t->server, view_of(KEY), &lock)) {
        assert_string_equal(t->model.holder, "");
        return;
    }
    assert_int_equal(lock.n_items, 1);
    assert_view(sim_key_item(&lock, 0).name, t->model.holder);
    (void)snprintf(count, sizeof(count), "%lld", (long long)t->model.count);
    assert_view(sim_key_item(&lock, 0).value, count);
    assert_int_equal(lock.pttl_ms, t->model.ends - t->model.now);
}

static void compare(struct table *t)
{
    struct sim_key_info list = {0}, scores = {0};

    (void)model_ttl(&t->model); /* lets it end */
    compare_lock(t);
    (void)sim_server_find_key(t->server, view_of(QUEUE), &list);
    (void)sim_server_find_key(t->server, view_of(SCORES), &scores);
    assert_int_equal(list.n_items, t->model.n);
    assert_int_equal(scores.n_items, t->model.n);
    for (size_t i = 0; i < t->model.n; i++) {
        assert_view(sim_key_item(&list, i).name, t->model.queue[i].name);
        assert_int_equal(score_of(&scores, t->model.queue[i].name), t->model.queue[i].score);
    }
}

/* ---- Who does what ---- */

static int64_t hear(void *payload, const char *name)
{
    const struct table *t = payload;

    for (size_t i = 0; i < ACTORS; i++) {
        if (t->actors[i].conn != 0 && strcmp(t->actors[i].name, name) == 0) {
            return 1;
        }
    }
    return 0;
}

static void listen_to(struct table *t, struct actor *actor)
{
    char channel[100];

    (void)snprintf(channel, sizeof(channel), CHANNEL ":%s", actor->name);
    actor->conn = sim_server_connect(t->server);
    send_words(t, actor->conn, (const char *const[]){"SUBSCRIBE", channel, NULL});
}

static void fall_silent(struct table *t, struct actor *actor)
{
    if (actor->conn != 0) {
        sim_server_disconnect(t->server, actor->conn);
        actor->conn = 0;
    }
}

static void be_idle(struct table *t, struct actor *actor)
{
    fall_silent(t, actor);
    actor->standing = IDLE;
    actor->depth = 0;
    (void)snprintf(actor->name, sizeof(actor->name), "%s%llu",
                   actor->peer ? "peer:" : "ours:", (unsigned long long)++t->names);
    memset(actor->memo, 0, rlock__fair_ops.memo_size);
    memset(&actor->watch, 0, sizeof(actor->watch));
}

static void be_holder(struct table *t, struct actor *actor)
{
    fall_silent(t, actor);
    actor->standing = HOLDS;
    actor->depth++;
    t->grants++;
}

static bool attempt(struct table *t, struct actor *actor, uint32_t count, bool waits)
{
    struct rlock__ask ask = ask_of(t, actor->name, count, actor->memo);
    struct rlock__cmd cmd = {0};
    struct rlock__value values[64];
    struct rlock__reply reply = {.v = values, .is_array = true};
    struct rlock__answer answer;
    struct sim_resp *tree;
    bool granted;

    ask.waits = waits;
    rlock__fair_ops.acquire(t->spec, &ask, &cmd);
    run(t, &cmd);
    reply.n = read_reply(t, values, &tree);
    answer = rlock__fair_ops.read_acquire(&reply, actor->memo, t->model.now * 1000);
    granted = model_acquire(&t->model, actor->name, LEASE_MS, count, waits, &actor->watch);
    assert_int_equal(answer.outcome, granted ? RLOCK__DONE : RLOCK__BUSY);
    if (waits && !granted) {
        assert_int_equal(values[3].num, model_place(&t->model, actor->name));
    }
    (void)sim_resp_free(tree);
    t->n_ours++;
    return granted;
}

static void release(struct table *t, struct actor *actor)
{
    struct rlock__ask ask = ask_of(t, actor->name, 0, NULL);
    struct rlock__cmd cmd = {0};
    struct rlock__value values[64];
    struct rlock__reply reply = {.v = values, .is_array = true};
    struct sim_resp *tree;
    bool held;

    rlock__fair_ops.release(t->spec, &ask, &cmd);
    run(t, &cmd);
    reply.n = read_reply(t, values, &tree);
    held = model_release(&t->model, actor->name);
    assert_int_equal(rlock__fair_ops.read_release(&reply).outcome,
                     held ? RLOCK__DONE : RLOCK__GONE);
    /* the head that a release woke is what a look begins with */
    memset(actor->look_memo, 0, rlock__fair_ops.memo_size);
    memset(&actor->look, 0, sizeof(actor->look));
    (void)sim_resp_free(tree);
    t->n_ours++;
}

static void look(struct table *t, struct actor *actor)
{
    struct rlock__ask ask = ask_of(t, "", 0, actor->look_memo);
    struct rlock__cmd cmd = {0};
    struct rlock__value values[64];
    struct rlock__reply reply = {.v = values, .is_array = true};
    struct sim_resp *tree;
    int64_t pause;

    rlock__fair_ops.look(t->spec, &ask, &cmd);
    run(t, &cmd);
    reply.n = read_reply(t, values, &tree);
    pause = rlock__fair_ops.read_look(&reply, actor->look_memo, t->model.now * 1000);
    model_look(&t->model, &actor->look);
    assert_int_equal(pause != 0, model_ttl(&t->model) == -2 && t->model.n != 0);
    (void)sim_resp_free(tree);
}

/* ---- Peers ---- */

/* Runs a peer's script with four arguments: an integer, or INT64_MIN for nil. */
static int64_t run_peer(struct table *t, const char *script, const char *a, const char *b,
                        const char *c, const char *d)
{
    struct sim_resp *tree;
    int64_t result;

    send_words(t, t->conn,
               (const char *const[]){"EVAL", script, "3", KEY, QUEUE, SCORES, a, b, c, d, NULL});
    tree = sim_resp_read(t->reply, t->reply_len);
    assert_int_not_equal(tree->type, SIM_RESP_ERROR);
    result = tree->type == SIM_RESP_NIL ? INT64_MIN : tree->integer;
    (void)sim_resp_free(tree);
    t->n_peers++;
    return result;
}

static void number(char out[static 24], int64_t value)
{
    (void)snprintf(out, 24, "%lld", (long long)value);
}

static bool peer_attempt(struct table *t, struct actor *actor, bool waits)
{
    char lease[24], wait[24], now[24];
    bool granted;

    number(lease, LEASE_MS);
    number(wait, t->peers_wait);
    number(now, t->model.now);
    granted =
        run_peer(t, waits ? peer_acquire : peer_try, lease, actor->name, wait, now) == INT64_MIN;
    assert_int_equal(granted,
                     model_peer_acquire(&t->model, actor->name, LEASE_MS, t->peers_wait, waits));
    return granted;
}

static void peer_leave(struct table *t, struct actor *actor)
{
    char lease[24], now[24], wait[24];
    int64_t left;

    number(lease, LEASE_MS);
    number(now, t->model.now);
    number(wait, t->peers_wait);
    if (actor->standing == WAITS) {
        (void)run_peer(t, peer_give_up, actor->name, wait, NULL, NULL);
        model_peer_give_up(&t->model, actor->name, t->peers_wait);
    } else {
        left = run_peer(t, peer_release, actor->name, lease, now, CHANNEL);
        assert_int_equal(model_peer_release(&t->model, actor->name, LEASE_MS),
                         left == INT64_MIN ? -1
                         : left == 0       ? t->model.count
                                           : 0);
    }
}

/* ---- A turn ---- */

static void take(struct table *t, struct actor *actor, bool waits)
{
    bool granted = actor->peer ? peer_attempt(t, actor, waits) : attempt(t, actor, 1, waits);

    if (granted) {
        be_holder(t, actor);
    }
}

static void turn_idle(struct table *t, struct actor *actor)
{
    bool waits = chance(t, 80);

    take(t, actor, actor->peer && waits);
    if (actor->standing == IDLE && waits) {
        actor->standing = WAITS;
        if (chance(t, 95)) { /* some cannot, or not yet */
            listen_to(t, actor);
        }
        take(t, actor, true);
    } else if (actor->standing == IDLE && !actor->peer && chance(t, 30)) {
        look(t, actor);
    }
}

static void turn_waiting(struct table *t, struct actor *actor)
{
    int64_t dice = below(t, 100);

    if (dice < 80) {
        take(t, actor, true);
    } else if (dice < 88) {
        if (actor->peer) {
            peer_leave(t, actor);
        } else {
            release(t, actor);
        }
        be_idle(t, actor);
    } else if (dice < 91) { /* its process is killed */
        be_idle(t, actor);
    } else if (dice < 94) { /* its process is stopped, or its machine is */
        actor->asleep_until = t->model.now + below(t, 12000);
    }
}

static void turn_holding(struct table *t, struct actor *actor)
{
    int64_t dice = below(t, 100);

    if (dice < 70) {
        if (actor->peer) {
            peer_leave(t, actor);
        } else {
            release(t, actor);
        }
        be_idle(t, actor);
    } else if (dice < 80 && !actor->peer && model_ttl(&t->model) != -2 &&
               strcmp(t->model.holder, actor->name) == 0) {
        assert_true(attempt(t, actor, ++actor->depth, false));
    } else if (dice < 84) {
        be_idle(t, actor);
    }
}

static void delete_by_hand(struct table *t)
{
    send_words(t, t->conn, (const char *const[]){"DEL", KEY, NULL});
    t->model.holder[0] = '\0';
}

static void pass_time(struct table *t)
{
    int64_t dice = below(t, 100);

    t->model.now += dice < 60   ? below(t, 3)
                    : dice < 95 ? below(t, 200)
                    : dice < 99 ? below(t, 1500)
                                : below(t, 8000);
    tell_time(t);
}

static void turn(struct table *t)
{
    struct actor *actor = &t->actors[below(t, ACTORS)];

    if (t->model.now < actor->asleep_until) {
        return;
    }
    if (actor->standing == IDLE) {
        turn_idle(t, actor);
    } else if (actor->standing == WAITS) {
        turn_waiting(t, actor);
    } else {
        turn_holding(t, actor);
    }
    if (below(t, 500) == 0) {
        delete_by_hand(t);
    }
}

/* Without peers, who take other things along than they brought, no score is later than places
 * explain: its own, one of grace, and those that were passed over since it was set. */
static void check_drift(const struct table *t)
{
    for (size_t i = 0; i < t->model.n; i++) {
        int64_t left = t->model.queue[i].score - t->model.now;

        if (left > LEASE_MS + t->model.slot * ((int64_t)t->model.longest + 1)) {
            fail_msg("%s is %lld ms ahead, in a queue of %zu", t->model.queue[i].name,
                     (long long)left, t->model.n);
        }
    }
}

static void begin(struct table *t, uint64_t seed, int64_t slot, size_t n_peers, int64_t peers_wait)
{
    struct sim_events events = {.on_frame = on_frame, .payload = t};
    struct rlock__tuning tuning = {.fair_slot_ms = slot};

    *t = (struct table){.random = seed, .peers_wait = peers_wait};
    t->server = sim_server_new(seed);
    sim_server_set_events(t->server, &events);
    t->conn = sim_server_connect(t->server);
    t->core.prefix = rlock__bytes("", 0);
    t->core.unref = on_unref;
    t->spec = rlock__spec_new(&t->core, &rlock__fair_ops, rlock__bytes_of(KEY), &tuning);
    t->model =
        (struct model){.now = SIM_EPOCH_US / 1000 + 1, .slot = slot, .hear = hear, .payload = t};
    tell_time(t);
    for (size_t i = 0; i < ACTORS; i++) {
        t->actors[i].memo = calloc(1, rlock__fair_ops.memo_size);
        t->actors[i].look_memo = calloc(1, rlock__fair_ops.memo_size);
        t->actors[i].peer = i < n_peers;
        be_idle(t, &t->actors[i]);
    }
}

static void end(struct table *t)
{
    for (size_t i = 0; i < ACTORS; i++) {
        free(t->actors[i].memo);
        free(t->actors[i].look_memo);
    }
    (void)rlock__spec_unref(t->spec);
    (void)sim_server_free(t->server);
    free(t->reply);
    print_message("%llu operations of ours, %llu of peers, %llu grants, %llu passed over, %llu put "
                  "out, at most %zu waited\n",
                  (unsigned long long)t->n_ours, (unsigned long long)t->n_peers,
                  (unsigned long long)t->grants, (unsigned long long)t->model.passed,
                  (unsigned long long)t->model.purged, t->model.longest);
}

static void play(uint64_t seed, int64_t slot, size_t n_peers, int64_t peers_wait, int turns)
{
    struct table t;

    begin(&t, seed, slot, n_peers, peers_wait);
    for (int i = 0; i < turns; i++) {
        pass_time(&t);
        turn(&t);
        compare(&t);
        if (n_peers == 0) {
            check_drift(&t);
        }
    }
    assert_true(t.grants > (uint64_t)turns / 100);
    end(&t);
}

static void among_ourselves_the_server_has_what_the_model_says(void **state)
{
    (void)state;
    play(1, 300000, 0, 0, 120000);
}

static void short_slots_put_out_whom_the_model_puts_out(void **state)
{
    (void)state;
    play(2, 3000, 0, 0, 60000);
}

static void with_peers_the_server_has_what_the_model_says(void **state)
{
    (void)state;
    play(3, 300000, ACTORS / 2, 300000, 60000);
    play(4, 3000, ACTORS / 2, 3000, 60000);
}

static void with_peers_that_wait_for_less_too(void **state)
{
    (void)state;
    play(5, 300000, ACTORS / 2, 10000, 60000);
}

/* 10^5 rounds in a queue that is never empty: each holder queues again behind all others, now and
 * then one dies. */
static void scores_do_not_drift_in_a_hundred_thousand_rounds(void **state)
{
    enum { WAITERS = 6, ROUNDS = 100000 };
    struct table t;
    size_t at = 0;

    (void)state;
    begin(&t, 6, 300000, 0, 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct actor *actor = &t.actors[at++ % WAITERS];

        t.model.now += below(&t, 40);
        tell_time(&t);
        if (actor->standing == HOLDS) {
            release(&t, actor);
            be_idle(&t, actor);
        } else if (actor->standing == WAITS && below(&t, 1000) == 0) {
            be_idle(&t, actor);
        }
        if (actor->standing == IDLE) {
            actor->standing = WAITS;
            listen_to(&t, actor);
        }
        take(&t, actor, true);
        compare(&t);
        for (size_t i = 0; i < t.model.n; i++) {
            int64_t left = t.model.queue[i].score - t.model.now;

            assert_in_range(left, 1, LEASE_MS + 300000 * (int64_t)(t.model.longest + 1));
        }
        t.model.longest = t.model.n > WAITERS ? t.model.n : WAITERS;
    }
    assert_true(t.grants > ROUNDS / WAITERS / 2);
    end(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(among_ourselves_the_server_has_what_the_model_says),
        cmocka_unit_test(short_slots_put_out_whom_the_model_puts_out),
        cmocka_unit_test(with_peers_the_server_has_what_the_model_says),
        cmocka_unit_test(with_peers_that_wait_for_less_too),
        cmocka_unit_test(scores_do_not_drift_in_a_hundred_thousand_rounds),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests_name("fair_model", tests, NULL, NULL);
}
