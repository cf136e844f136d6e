/* SPDX-License-Identifier: Apache-2.0 */
#include "fair/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fair/peer.h"

#define QUEUE "redisson_lock_queue:{" KEY "}"
#define SCORES "redisson_lock_timeout:{" KEY "}"
#define CHANNEL "redisson_lock__channel:{" KEY "}"

int64_t table_below(struct table *t, int64_t n)
{
    uint64_t z = (t->random += 0x9E3779B97F4A7C15ULL); /* splitmix64 (Steele, Lea, Flood 2014) */

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return (int64_t)((z ^ (z >> 31)) >> 1) % n;
}

bool table_chance(struct table *t, int64_t percent)
{
    return table_below(t, 100) < percent;
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

void table_send_words(struct table *t, uint64_t conn, const char *const *words)
{
    assert_true(sim_server_words(t->server, conn, words));
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

void table_tell_time(struct table *t)
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

void table_compare(struct table *t)
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

    for (size_t i = 0; i < t->n_actors; i++) {
        if (t->actors[i].conn != 0 && strcmp(t->actors[i].name, name) == 0) {
            return 1;
        }
    }
    return 0;
}

void table_listen_to(struct table *t, struct actor *actor)
{
    char channel[100];

    (void)snprintf(channel, sizeof(channel), CHANNEL ":%s", actor->name);
    actor->conn = sim_server_connect(t->server);
    table_send_words(t, actor->conn, (const char *const[]){"SUBSCRIBE", channel, NULL});
}

static void fall_silent(struct table *t, struct actor *actor)
{
    if (actor->conn != 0) {
        sim_server_disconnect(t->server, actor->conn);
        actor->conn = 0;
    }
}

void table_be_idle(struct table *t, struct actor *actor)
{
    fall_silent(t, actor);
    actor->standing = IDLE;
    actor->depth = 0;
    (void)snprintf(actor->name, sizeof(actor->name), "%s%llu",
                   actor->peer ? "peer:" : "ours:", (unsigned long long)++t->names);
    memset(actor->memo, 0, rlock__fair_ops.memo_size);
    memset(&actor->watch, 0, sizeof(actor->watch));
}

void table_be_holder(struct table *t, struct actor *actor)
{
    fall_silent(t, actor);
    actor->standing = HOLDS;
    actor->depth++;
    t->grants++;
}

bool table_attempt(struct table *t, struct actor *actor, uint32_t count, bool waits)
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

void table_release(struct table *t, struct actor *actor)
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
    model_watch_head(&t->model, &actor->look);
    assert_int_equal(rlock__fair_ops.read_look(&reply, actor->look_memo, t->model.now * 1000) != 0,
                     actor->look.n != 0);
    (void)sim_resp_free(tree);
    t->n_ours++;
}

void table_look(struct table *t, struct actor *actor)
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

    table_send_words(
        t, t->conn,
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

bool table_peer_attempt(struct table *t, struct actor *actor, bool waits)
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

void table_peer_leave(struct table *t, struct actor *actor)
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

void table_begin(struct table *t, uint64_t seed, const struct game *game)
{
    struct sim_events events = {.on_frame = on_frame, .payload = t};
    struct rlock__tuning tuning = {.fair_slot_ms = game->slot};

    *t = (struct table){
        .random = seed, .peers_wait = game->peers_wait, .n_actors = game->n_ours + game->n_peers};
    t->server = sim_server_new(seed);
    sim_server_set_events(t->server, &events);
    t->conn = sim_server_connect(t->server);
    t->core.prefix = rlock__bytes("", 0);
    t->core.unref = on_unref;
    t->spec = rlock__spec_new(&t->core, &rlock__fair_ops, rlock__bytes_of(KEY), &tuning);
    t->model = (struct model){
        .now = SIM_EPOCH_US / 1000 + 1, .slot = game->slot, .hear = hear, .payload = t};
    table_tell_time(t);
    for (size_t i = 0; i < t->n_actors; i++) {
        t->actors[i].memo = calloc(1, rlock__fair_ops.memo_size);
        t->actors[i].look_memo = calloc(1, rlock__fair_ops.memo_size);
        t->actors[i].peer = i < game->n_peers;
        table_be_idle(t, &t->actors[i]);
    }
}

void table_end(struct table *t)
{
    for (size_t i = 0; i < t->n_actors; i++) {
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
