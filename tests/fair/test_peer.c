/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what is written of Redisson is true: its own scripts and those of peer.c go through the
 * same random steps, each on a server of its own, and give the same answers, keys and messages.
 */
#include "base/random.h"
#include "fair/recorded.h"
#include "sim/server.h"
#include "support/run.h"
#include "support/test.h"

#define LOCK "lock"
#define QUEUE "redisson_lock_queue:{" LOCK "}"
#define SCORES "redisson_lock_timeout:{" LOCK "}"
#define LATCH "redisson_unlock_latch:"

enum { OWNERS = 5, LIVES = 250, STEPS = 400, ANSWERS = 4 };

static const char *const owners[OWNERS] = {"a:1", "a:2", "b:1", "c:1", "c:7"};

/* A server, what it answered last, and what it has said to those who listen since. */
struct side {
    const struct peer_script *scripts;
    struct sim_server *server;
    uint64_t conn;
    char reply[512];
    char heard[4096];
};

struct twins {
    struct side sides[2];
    uint64_t random;
    int64_t now_ms;
    uint64_t answers[PEER_VERBS][ANSWERS]; /* how many, as answer_of() has it */
};

static int64_t below(struct twins *twins, int64_t n)
{
    return rlock__random_below(&twins->random, n);
}

static int64_t one_of(struct twins *twins, const int64_t *values, int64_t n)
{
    return values[below(twins, n)];
}

/* ---- Sides ---- */

static void on_frame(void *payload, uint64_t conn, const char *bytes, size_t len, bool is_push)
{
    struct side *side = payload;
    size_t n = strlen(side->heard);

    if (conn == side->conn && !is_push) {
        test_text(side->reply, sizeof(side->reply), "%.*s", (int)len, bytes);
    } else {
        test_text(side->heard + n, sizeof(side->heard) - n, "%.*s", (int)len, bytes);
    }
}

static void open_side(struct side *side, const struct peer_script *scripts)
{
    const struct sim_events events = {.on_frame = on_frame, .payload = side};

    *side = (struct side){.scripts = scripts, .server = sim_server_new(1)};
    sim_server_set_events(side->server, &events);
    side->conn = sim_server_connect(side->server);
    for (int i = 0; i < OWNERS; i++) {
        char channel[64];

        test_text(channel, sizeof(channel), "redisson_lock__channel:{" LOCK "}:%s", owners[i]);
        TEST_CHECK(sim_server_words(side->server, sim_server_connect(side->server),
                                    (const char *const[]){"SUBSCRIBE", channel, NULL}));
    }
}

/* All keys and all that is in them, but for the latches: no peer looks at another's. */
static char *print_keys(const struct side *side)
{
    struct sim_key_info key = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    TEST_CHECK(out != NULL);
    for (const char *const *name = (const char *const[]){LOCK, QUEUE, SCORES, NULL}; *name != NULL;
         name++) {
        if (!sim_server_find_key(side->server, (struct sim_view){*name, strlen(*name)}, &key)) {
            continue;
        }
        (void)fprintf(out, "%s, %lld ms:", *name, (long long)key.pttl_ms);
        for (size_t i = 0; i < key.n_items; i++) {
            const struct sim_item_info item = sim_key_item(&key, i);

            (void)fprintf(out, " %.*s %.*s %.17g", (int)item.name.len, item.name.data,
                          (int)item.value.len, item.value.len != 0 ? item.value.data : "",
                          item.score);
        }
        (void)fputs("\n", out);
    }
    (void)fclose(out);
    return text;
}

/* How many keys there are besides. */
static size_t n_others(const struct side *side)
{
    struct sim_key_info key = {0};
    size_t n = 0;

    while (sim_server_next_key(side->server, &key)) {
        const char *const known[] = {LOCK, QUEUE, SCORES};
        bool is_known =
            key.name.len > strlen(LATCH) && memcmp(key.name.data, LATCH, strlen(LATCH)) == 0;

        for (size_t i = 0; i < 3; i++) {
            is_known = is_known || (key.name.len == strlen(known[i]) &&
                                    memcmp(key.name.data, known[i], key.name.len) == 0);
        }
        n += !is_known;
    }
    return n;
}

/* ---- Steps ---- */

static void type(struct twins *twins, const char *const *words)
{
    for (int i = 0; i < 2; i++) {
        (void)sim_server_words(twins->sides[i].server, twins->sides[i].conn, words);
    }
}

/* Somebody has been at the keys: what a script meets then is part of what it does. */
static void meddle(struct twins *twins)
{
    const char *owner = owners[below(twins, OWNERS)];
    char score[24];

    (void)snprintf(
        score, sizeof(score), "%lld",
        (long long)(SIM_EPOCH_US / 1000 + twins->now_ms + below(twins, 900000) - 300000));
    const char *const acts[][5] = {
        {"DEL", LOCK},
        {"DEL", QUEUE},
        {"DEL", SCORES},
        {"PERSIST", LOCK},
        {"ZREM", SCORES, owner},
        {"ZADD", SCORES, score, owner},
        {"RPUSH", QUEUE, owner},
        {"LREM", QUEUE, "1", owner},
        {"HSET", LOCK, owner, "2"},
    };
    type(twins, acts[below(twins, sizeof(acts) / sizeof(acts[0]))]);
}

static void pass_time(struct twins *twins)
{
    static const int64_t times[] = {0, 1, 20, 1000, 29000, 200000, 400000};

    twins->now_ms += one_of(twins, times, below(twins, 10) == 0 ? 7 : 4);
    for (int i = 0; i < 2; i++) {
        sim_server_set_time(twins->sides[i].server, twins->now_ms * 1000);
    }
}

static void run(struct side *side, enum peer_verb verb, const struct peer_values *values)
{
    struct peer_command command;

    peer_spell(&side->scripts[verb], values, &command);
    (void)sim_server_words(side->server, side->conn, command.argv);
}

/* nil, a number, something else, an error. */
static int answer_of(const char *reply)
{
    return reply[0] == '$' ? 0 : reply[0] == ':' ? 1 : reply[0] == '-' ? 3 : 2;
}

/* What differs, or NULL. */
static const char *difference(const struct twins *twins)
{
    const struct side *a = &twins->sides[0], *b = &twins->sides[1];
    char *keys[2] = {print_keys(a), print_keys(b)};
    const char *what = NULL;

    if (strcmp(a->reply, b->reply) != 0 && (a->reply[0] != '-' || b->reply[0] != '-')) {
        what = "answers"; /* the texts of errors are each one's own */
    } else if (strcmp(a->heard, b->heard) != 0) {
        what = "messages";
    } else if (strcmp(keys[0], keys[1]) != 0 || n_others(a) + n_others(b) != 0) {
        what = "keys";
    }
    free(keys[0]);
    free(keys[1]);
    return what;
}

static void print_twins(const struct twins *twins)
{
    for (int i = 0; i < 2; i++) {
        char *keys = print_keys(&twins->sides[i]);

        print_error("%s: %s%s%s\n", i == 0 ? "written" : "recorded", twins->sides[i].reply,
                    twins->sides[i].heard, keys);
        free(keys);
    }
}

static const char *step(struct twins *twins, uint64_t number)
{
    static const int64_t verbs[] = {PEER_ACQUIRE, PEER_ACQUIRE, PEER_ACQUIRE,
                                    PEER_TRY,     PEER_GIVE_UP, PEER_RELEASE,
                                    PEER_RELEASE, PEER_RENEW,   PEER_FORCE};
    static const int64_t leases[] = {1000, 30000}, waits[] = {10, 203, 20000, 300000},
                         aheads[] = {0, 0, 0, 15, -40, 600000, -600000};
    enum peer_verb verb = (enum peer_verb)one_of(twins, verbs, 9);
    char latch[32];
    const struct peer_values values = {.lock = LOCK,
                                       .owner = owners[below(twins, OWNERS)],
                                       .latch = latch,
                                       .lease = one_of(twins, leases, 2),
                                       .wait = one_of(twins, waits, 4),
                                       .now = SIM_EPOCH_US / 1000 + twins->now_ms +
                                              one_of(twins, aheads, 7)};

    (void)snprintf(latch, sizeof(latch), "{" LOCK "}:%llu", (unsigned long long)number);
    pass_time(twins);
    if (below(twins, 20) == 0) {
        meddle(twins);
    }
    for (int i = 0; i < 2; i++) {
        twins->sides[i].heard[0] = '\0';
        run(&twins->sides[i], verb, &values);
    }
    twins->answers[verb][answer_of(twins->sides[1].reply)]++;
    return difference(twins);
}

/* One life of a lock. Returns what was seen to differ, or NULL. */
static const char *live(struct twins *twins, const struct peer_script *const *scripts)
{
    const char *what = NULL;

    twins->now_ms = 0;
    open_side(&twins->sides[0], scripts[0]);
    open_side(&twins->sides[1], scripts[1]);
    for (uint64_t i = 0; i < STEPS && what == NULL; i++) {
        what = step(twins, i);
    }
    return what;
}

static const char *compare(const struct peer_script *left, const struct peer_script *right,
                           uint64_t lives, bool tells, struct twins *twins)
{
    const struct peer_script *scripts[] = {left, right};
    const char *what = NULL;

    *twins = (struct twins){.random = 1};
    for (uint64_t life = 0; life < lives && what == NULL; life++) {
        twins->random = life * 0x9E3779B97F4A7C15ULL | 1;
        what = live(twins, scripts);
        if (what != NULL && tells) {
            print_error("life %llu: other %s\n", (unsigned long long)life, what);
            print_twins(twins);
        }
        (void)sim_server_free(twins->sides[0].server);
        (void)sim_server_free(twins->sides[1].server);
    }
    return what;
}

/* Every script was seen to give each answer that it has. */
static void assert_all_was_met(const struct twins *twins)
{
    enum { NIL = 0, NUMBER = 1, OTHER = 2, MANY = 10 };

    for (int verb = 0; verb < PEER_VERBS; verb++) {
        const uint64_t *answers = twins->answers[verb];

        if (verb == PEER_ACQUIRE || verb == PEER_TRY || verb == PEER_RELEASE) {
            assert_true(answers[NIL] > MANY && answers[NUMBER] > MANY);
        }
        assert_true(answers[NIL] + answers[NUMBER] + answers[OTHER] > MANY);
    }
}

TEST(redissons_own_scripts_do_what_is_written_of_them)
{
    const struct peer_script *recorded = recorded_scripts();
    static struct twins twins;

    if (recorded == NULL) {
        skip();
    }
    assert_null(compare(peer_scripts(recorded_age()), recorded, LIVES, true, &twins));
    assert_all_was_met(&twins);
    print_message("%d steps, each the same with Redisson's scripts and with ours\n", LIVES * STEPS);
}

/* So that what is alike is known to be: each script in turn is another. */
TEST(any_other_script_is_seen)
{
    static struct twins twins;
    struct peer_script others[PEER_VERBS];

    assert_null(compare(peer_scripts(PEER_NEW), peer_scripts(PEER_NEW), 20, true, &twins));
    assert_all_was_met(&twins);
    assert_non_null(compare(peer_scripts(PEER_OLD), peer_scripts(PEER_NEW), 1, false, &twins));
    for (int verb = 0; verb < PEER_VERBS; verb++) {
        memcpy(others, peer_scripts(PEER_NEW), sizeof(others));
        others[verb].body = "return redis.call('exists', KEYS[1])";
        assert_non_null(compare(peer_scripts(PEER_NEW), others, 1, false, &twins));
    }
}
