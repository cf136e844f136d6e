/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for a lock in a cluster: what he hears while slots move, and what it costs. */
#include <pthread.h>
#include <unistd.h>

#include "support/clients.h"
#include "support/cluster.h"
#include "support/raw.h"
#include "support/room.h"
#include "support/witness.h"
#include "topology/slot.h"

#define OWNER 7
#define CHANNEL "redisson_lock__channel:{" NAME "}"
#define PEER "01234567-0123-4123-8123-0123456789ab:1" /* a Redisson's, or nobody's */

#define CLUSTER_TEST(name, f)                                                                      \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 3,                              \
                      .server = {.transport = TEST_TCP, .conf = cluster_conf})

static const struct kind kind_fair = {.name = "fair", .make = rlock_fair_new};

#define FAIR_TEST(name, f)                                                                         \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_fair, .servers = 3,                                   \
                      .server = {.transport = TEST_TCP, .conf = cluster_conf})

enum { PRIMARIES = 3 };

enum ways { DEFAULT, BOTH };

static struct rlock_client *open_cluster(struct fixture *f, enum ways ways)
{
    char url[200];

    cluster_url(f->servers, PRIMARIES, url, sizeof(url));
    return client_open_with(
        f, RLOCK_CLIENT_OPTS(.url = url, .flags = ways == BOTH ? RLOCK_CLIENT_ANNOUNCE_BOTH : 0));
}

static unsigned int slot(void)
{
    return rlock__slot(rlock__bytes_of(NAME));
}

static size_t home(const struct fixture *f)
{
    size_t i = 0;

    while (f->servers[i] != cluster_primary_of(f->servers, PRIMARIES, slot())) {
        i++;
    }
    return i;
}

/* ---- What is heard ---- */

struct scene {
    struct rlock_client *clients[2];
    struct rlock_handle *held, *wanted;
    struct actor *waiter;
    size_t from, to;
};

static void open_scene_of(struct scene *s, struct fixture *f, enum ways ways)
{
    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    s->from = home(f);
    s->to = (s->from + 1) % PRIMARIES;
    for (size_t i = 0; i < 2; i++) {
        s->clients[i] = open_cluster(f, ways);
    }
    s->held = lock_new(f, s->clients[0]);
    s->wanted = lock_new(f, s->clients[1]);
    s->waiter = actor_open(f);
    assert_code(rlock_lock(s->held), 0);
}

static void open_scene(struct scene *s, struct fixture *f)
{
    open_scene_of(s, f, DEFAULT);
}

static void begin_to_wait(struct scene *s)
{
    actor_begin(s->waiter, act_pass_through, s->wanted, RLOCK_FOREVER, NULL);
    await_waiting(s->clients[1], 1);
}

static void assert_heard(struct scene *s)
{
    int64_t released_us = test_now_us();

    assert_code(rlock_unlock(s->held), 0);
    assert_code(actor_end(s->waiter), 0);
    assert_took(actor_ended_us(s->waiter) - released_us, 0, 1500);
}

CLUSTER_TEST(a_waiter_whose_slot_has_moved_hears_of_the_release, f)
{
    struct scene s;

    open_scene(&s, f);
    begin_to_wait(&s);
    cluster_move_slot(f->servers, PRIMARIES, s.from, s.to, slot());
    assert_true(TEST_EVENTUALLY(test_server_waiters(f->servers[s.to], CHANNEL) == 1, 5000));
    assert_heard(&s);
}

CLUSTER_TEST(a_waiter_whose_slot_came_back_hears_of_the_release, f)
{
    struct scene s;

    open_scene(&s, f);
    begin_to_wait(&s);
    for (int i = 0; i < 3; i++) {
        cluster_move_slot(f->servers, PRIMARIES, s.from, s.to, slot());
        cluster_move_slot(f->servers, PRIMARIES, s.to, s.from, slot());
    }
    assert_true(TEST_EVENTUALLY(test_server_waiters(f->servers[s.from], CHANNEL) == 1, 5000));
    assert_heard(&s);
}

/* The release is announced where nobody hears it. */
CLUSTER_TEST(a_waiter_who_was_sent_elsewhere_looks_often, f)
{
    struct scene s;

    open_scene(&s, f);
    cluster_open_slot(f->servers[s.from], f->servers[s.to], slot());
    cluster_move_key(f->servers[s.from], f->servers[s.to], NAME);
    actor_begin(s.waiter, act_pass_through, s.wanted, RLOCK_FOREVER, NULL);
    assert_true(STAYS(actor_is_busy(s.waiter), 500));
    assert_heard(&s);
    cluster_abort_slot(f->servers[s.from], f->servers[s.to], slot());
}

/* ---- Those who know plain channels alone ---- */

#define BULK_CHANNEL "$29\r\n" CHANNEL "\r\n"

/* A connection that hears the plain channel, at a server that has not the lock. */
static int listen_plainly(const struct scene *s, struct fixture *f)
{
    int fd = raw_dial(test_server_url(f->servers[s->to]));

    raw_say(fd, "SUBSCRIBE " CHANNEL "\r\n");
    assert_true(raw_hears(fd, "*3\r\n$9\r\nsubscribe\r\n" BULK_CHANNEL ":1\r\n"));
    return fd;
}

CLUSTER_TEST(plain_channels_are_told_nothing_unless_asked_for, f)
{
    struct scene s;
    int fd;

    open_scene(&s, f);
    fd = listen_plainly(&s, f);
    assert_code(rlock_unlock(s.held), 0);
    assert_string_equal(raw_hear_within(fd, 300), "");
    (void)close(fd);
}

CLUSTER_TEST(who_announces_both_is_heard_on_plain_channels, f)
{
    struct scene s;
    int fd;

    open_scene_of(&s, f, BOTH);
    fd = listen_plainly(&s, f);
    assert_code(rlock_unlock(s.held), 0);
    assert_true(raw_hears(fd, "*3\r\n$7\r\nmessage\r\n" BULK_CHANNEL "$1\r\n0\r\n"));
    (void)close(fd);
}

CLUSTER_TEST(who_announces_both_hears_plain_channels, f)
{
    struct scene s;
    int64_t released_us;

    open_scene_of(&s, f, BOTH);
    assert_code(rlock_unlock(s.held), 0);
    test_server_do(f->servers[s.from], "HSET " NAME " " PEER " 1");
    begin_to_wait(&s);
    released_us = test_now_us();
    test_server_do(f->servers[s.from], "DEL " NAME); /* as one who announces elsewhere */
    test_server_do(f->servers[s.to], "PUBLISH " CHANNEL " 0");
    assert_code(actor_end(s.waiter), 0);
    assert_took(actor_ended_us(s.waiter) - released_us, 0, 1500);
}

/* The release of one, and what it makes the other do. */
CLUSTER_TEST(two_messages_of_one_release_wake_once, f)
{
    struct scene s;
    long long sent;

    open_scene_of(&s, f, BOTH);
    assert_code(rlock_unlock(s.held), 0); /* the server has the scripts now */
    assert_code(rlock_lock(s.held), 0);
    begin_to_wait(&s); /* plainly, and sharded */
    assert_true(TEST_EVENTUALLY(test_server_waiters(f->servers[s.from], CHANNEL) == 2, 5000));
    test_server_do(f->servers[s.from], "CONFIG RESETSTAT");
    assert_heard(&s);
    sent = test_server_info(f->servers[s.from], "commandstats", "cmdstat_spublish:calls");
    assert_in_range(sent, 2, 3); /* one release in 32 is a turn of others, and sends one more */
    assert_int_equal(test_server_info(f->servers[s.from], "commandstats", "cmdstat_publish:calls"),
                     sent);
    assert_int_equal(test_server_info(f->servers[s.from], "commandstats", "cmdstat_evalsha:calls"),
                     3); /* two releases, and one attempt */
}

CLUSTER_TEST(who_heard_both_unsubscribes_from_both, f)
{
    struct scene s;

    open_scene_of(&s, f, BOTH);
    begin_to_wait(&s);
    cluster_move_slot(f->servers, PRIMARIES, s.from, s.to, slot());
    for (size_t i = 0; i < 2; i++) {
        static const char *const questions[] = {"PUBSUB CHANNELS", "PUBSUB SHARDCHANNELS"};

        assert_true(
            TEST_EVENTUALLY(!test_server_says(f->servers[s.to], "", "%s", questions[i]), 5000));
        assert_true(
            TEST_EVENTUALLY(test_server_says(f->servers[s.from], "", "%s", questions[i]), 5000));
    }
    assert_heard(&s);
}

CLUSTER_TEST(who_may_not_hear_plain_channels_hears_sharded_ones, f)
{
    struct scene s;

    open_scene_of(&s, f, BOTH);
    test_server_do(f->servers[s.from], "ACL SETUSER default -subscribe -unsubscribe");
    begin_to_wait(&s);
    assert_true(TEST_EVENTUALLY(test_server_waiters(f->servers[s.from], CHANNEL) == 1, 5000));
    assert_heard(&s);
    assert_true(
        TEST_EVENTUALLY(test_server_says(f->servers[s.from], "", "PUBSUB SHARDCHANNELS"), 5000));
}

static const struct kind kind_setnx = {.name = "setnx", .make = rlock_setnx_new};

static bool await_tracked(struct test_server *server)
{
    return TEST_EVENTUALLY(test_server_info(server, "stats", "tracking_total_items") == 1, 5000);
}

/* Its waiter follows the key: the server that has it now tells of its changes. */
FIXTURE_WITH_TEST(a_waiter_for_a_setnx_lock_whose_slot_has_moved_hears_of_the_release, f,
                  .kind = &kind_setnx, .servers = 3,
                  .server = {.transport = TEST_TCP, .conf = cluster_conf})
{
    struct scene s;

    open_scene(&s, f);
    actor_begin(s.waiter, act_pass_through, s.wanted, RLOCK_FOREVER, NULL);
    assert_true(await_tracked(f->servers[s.from]));
    cluster_move_slot(f->servers, PRIMARIES, s.from, s.to, slot());
    assert_true(await_tracked(f->servers[s.to]));
    cluster_move_slot(f->servers, PRIMARIES, s.to, s.from, slot());
    assert_true(await_tracked(f->servers[s.from]));
    cluster_move_slot(f->servers, PRIMARIES, s.from, s.to, slot());
    assert_true(await_tracked(f->servers[s.to]));
    assert_heard(&s);
}

/* ---- Who is dead ---- */

#define QUEUE "redisson_lock_queue:{" NAME "}"

static bool is_queued(struct fixture *f, size_t at)
{
    return !test_server_says(f->servers[at], "", "LRANGE " QUEUE " 0 0");
}

/* One who hears nothing where the slot has just come to may not have heard of that yet. */
CLUSTER_TEST(nobody_is_dead_unheard_until_a_server_has_had_its_slot_for_long, f)
{
    struct rlock_handle *fair = NULL;
    struct rlock_client *client;
    int64_t began_us;
    size_t at;

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    at = home(f);
    client = open_cluster(f, DEFAULT);
    assert_code(rlock_fair_new(client, NAME, NULL, &fair), 0);
    test_server_do(f->servers[at], "RPUSH " QUEUE " " PEER);
    assert_code(rlock_try_lock(fair), RLOCK_EBUSY);
    began_us = test_now_us();
    assert_true(STAYS(is_queued(f, at), 1200));
    assert_code(rlock_try_lock(fair), RLOCK_EBUSY);
    assert_true(STAYS(is_queued(f, at), 1200));
    assert_code(rlock_try_lock(fair), RLOCK_EBUSY);
    assert_true(is_queued(f, at));
    test_server_do(f->servers[at], "DEL rlock_fair:{" NAME "}");
    assert_true(STAYS(is_queued(f, at), (int)(10500 - (test_now_us() - began_us) / 1000)));
    assert_code(rlock_try_lock(fair), RLOCK_EBUSY);
    assert_true(STAYS(is_queued(f, at), 1200));
    assert_code(rlock_try_lock(fair), 0);
    assert_code(rlock_unlock(fair), 0);
    assert_null(rlock_free(fair));
}

/* ---- What it costs ---- */

enum { NAMES = 10000, STACK = 128 * 1024 };

struct crowd {
    struct rlock_handle *held[NAMES], *locks[NAMES];
    pthread_t threads[NAMES];
    struct rlock_cancel *cancel;
    struct rlock_client *client;
};

struct one {
    struct crowd *crowd;
    size_t i;
};

static struct crowd crowd;
static struct one ones[NAMES];

static void *wait_for_one(void *payload)
{
    const struct one *one = payload;

    TEST_CHECK(rlock_lock_for(one->crowd->locks[one->i], RLOCK_FOREVER,
                              RLOCK_TAKE(.cancel = one->crowd->cancel), NULL) == RLOCK_ECANCELED);
    return NULL;
}

static void name_of(size_t i, char *out, size_t size)
{
    test_text(out, size, "name-%zu", i);
}

static void begin_all(struct rlock_client *holder)
{
    pthread_attr_t attr;

    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, STACK), 0);
    for (size_t i = 0; i < NAMES; i++) {
        char name[32];

        name_of(i, name, sizeof(name));
        assert_code(rlock_reentrant_new(holder, name, NULL, &crowd.held[i]), 0);
        assert_code(TAKE(crowd.held[i], 10000, .lease_ms = 600000, .owner = OWNER), 0);
        assert_code(rlock_reentrant_new(crowd.client, name, NULL, &crowd.locks[i]), 0);
        ones[i] = (struct one){&crowd, i};
        assert_int_equal(pthread_create(&crowd.threads[i], &attr, wait_for_one, &ones[i]), 0);
    }
    (void)pthread_attr_destroy(&attr);
}

static long long lines_of(struct test_server *server, const char *command)
{
    char *text = test_server_cmd(server, "%s", command);
    long long n = 0;

    for (const char *at = text; *at != '\0'; at++) {
        n += *at == '\n';
    }
    free(text);
    return n;
}

/* ThreadSanitizer needs more mappings for as many threads than Linux permits by default. */
#ifdef __SANITIZE_THREAD__
#define HAS_ROOM false
#else
#define HAS_ROOM true
#endif

CLUSTER_TEST(ten_thousand_names_take_one_connection_for_messages_to_each_server, f)
{
    if (!HAS_ROOM) {
        skip();
    }
    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    assert_code(rlock_cancel_new(&crowd.cancel), 0);
    crowd.client = open_cluster(f, DEFAULT);
    begin_all(open_cluster(f, DEFAULT));
    assert_true(TEST_EVENTUALLY(test_waiting(crowd.client) == NAMES, 60000));
    for (size_t i = 0; i < PRIMARIES; i++) {
        assert_int_equal(lines_of(f->servers[i], "CLIENT LIST TYPE pubsub"), 1);
    }
    rlock_cancel_fire(crowd.cancel);
    for (size_t i = 0; i < NAMES; i++) {
        assert_int_equal(pthread_join(crowd.threads[i], NULL), 0);
        assert_null(rlock_free(crowd.locks[i]));
        assert_code(rlock_unlock_as(crowd.held[i], OWNER), 0);
        assert_null(rlock_free(crowd.held[i]));
    }
    assert_null(rlock_cancel_free(crowd.cancel));
}

/* ---- A crowd at a fair lock ---- */

enum { TURNERS = 8, TURNS = 40, MOVES = PRIMARIES };

static struct witness *turning;

static int act_many_turns(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    int code = 0;

    for (int i = 0; i < TURNS && code == 0; i++) {
        code = rlock_lock_for(lock, wait_ms, take, NULL);
        if (code == 0) {
            witness_enter(turning, 0, (uintptr_t)lock);
            TEST_CHECK(rlock_is_valid(lock));
            witness_leave(turning, 0, (uintptr_t)lock);
            code = rlock_unlock(lock);
        }
    }
    return code;
}

struct turners {
    struct rlock_handle *locks[TURNERS];
    struct actor *actors[TURNERS];
};

static void turners_open(struct turners *t, struct fixture *f)
{
    struct rlock_client *client;

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    turning = witness_new(1);
    client = open_cluster(f, DEFAULT);
    for (int i = 0; i < TURNERS; i++) {
        t->locks[i] = lock_new(f, client);
        t->actors[i] = actor_open(f);
    }
}

static void turners_begin(const struct turners *t)
{
    for (int i = 0; i < TURNERS; i++) {
        actor_begin(t->actors[i], act_many_turns, t->locks[i], RLOCK_FOREVER, NULL);
    }
}

static void turners_end(const struct turners *t)
{
    for (int i = 0; i < TURNERS; i++) {
        assert_code(actor_end(t->actors[i]), 0);
    }
}

static void turners_close(void)
{
    assert_true(witness_is_clean(turning, stderr));
    turning = witness_free(turning);
}

static long long calls_of(struct test_server *server, const char *command)
{
    char field[64];
    long long calls;

    test_text(field, sizeof(field), "cmdstat_%s:calls", command);
    calls = test_server_info(server, "commandstats", field);
    return calls > 0 ? calls : 0;
}

/* Channels are subscribed ahead, and given up together, as on one server. */
static void assert_few_commands(const struct turners *t, struct test_server *server)
{
    static const char *const counted[] = {"evalsha", "ssubscribe", "sunsubscribe"};
    long long commands = 0;

    test_server_do(server, "CONFIG RESETSTAT");
    turners_begin(t);
    turners_end(t);
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
        commands += calls_of(server, counted[i]);
    }
    print_message("%.2f commands a grant\n", (double)commands / (TURNERS * TURNS));
    assert_in_range(commands * 10, 0, TURNERS * TURNS * 35);
}

FAIR_TEST(a_grant_of_a_fair_lock_that_many_want_costs_few_commands, f)
{
    struct turners t;

    turners_open(&t, f);
    turners_begin(&t);
    turners_end(&t);
    assert_few_commands(&t, f->servers[home(f)]);
    turners_close();
}

/* It comes home again, to what was subscribed ahead there. */
FAIR_TEST(turns_of_a_fair_lock_go_on_while_its_slot_moves, f)
{
    struct turners t;
    size_t from;

    turners_open(&t, f);
    from = home(f);
    turners_begin(&t);
    for (size_t i = 0; i < MOVES; i++) {
        cluster_move_slot(f->servers, PRIMARIES, from, (from + 1) % PRIMARIES, slot());
        from = (from + 1) % PRIMARIES;
    }
    turners_end(&t);
    assert_few_commands(&t, f->servers[from]);
    turners_close();
}
