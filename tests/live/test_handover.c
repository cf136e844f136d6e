/* SPDX-License-Identifier: Apache-2.0 */
/* Holds that go from one client to another: between crowds, processes and the nodes of a cluster,
 * while connections break. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/clients.h"
#include "support/cluster.h"
#include "support/witness.h"
#include "topology/slot.h"

enum { MINUTE_MS = 60 * 1000 };

/* ---- Many adopters ---- */

enum { CLIENTS = 8, ADOPTERS = 64 };

struct adopter {
    pthread_t thread;
    pthread_barrier_t *barrier;
    struct rlock_handle *lock;
    const char *text;
    int code;
};

static void *adopt(void *arg)
{
    struct adopter *adopter = arg;

    (void)pthread_barrier_wait(adopter->barrier);
    adopter->code = rlock_adopt(adopter->lock, adopter->text, NULL, NULL);
    if (adopter->code == 0) {
        TEST_CHECK(rlock_is_valid(adopter->lock));
        TEST_CHECK(rlock_unlock(adopter->lock) == 0);
    }
    return NULL;
}

static void one_of_many_adopts(struct fixture *f, const struct kind *kind,
                               struct rlock_client *const *clients)
{
    struct rlock_handle *locks[CLIENTS];
    struct adopter adopters[ADOPTERS];
    pthread_barrier_t barrier;
    char text[RLOCK_TEXT_SIZE];
    size_t n = 0;

    assert_int_equal(pthread_barrier_init(&barrier, NULL, ADOPTERS), 0);
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_code(kind->make(clients[i], kind->name, NULL, &locks[i]), 0);
    }
    assert_code(rlock_try_lock(locks[0]), 0);
    assert_code(rlock_detach(locks[0], 0, MINUTE_MS, text), 0);
    for (size_t i = 0; i < ADOPTERS; i++) {
        adopters[i] =
            (struct adopter){.barrier = &barrier, .lock = locks[i % CLIENTS], .text = text};
        assert_int_equal(pthread_create(&adopters[i].thread, NULL, adopt, &adopters[i]), 0);
    }
    for (size_t i = 0; i < ADOPTERS; i++) {
        assert_int_equal(pthread_join(adopters[i].thread, NULL), 0);
        assert_true(adopters[i].code == 0 || adopters[i].code == RLOCK_ENOTOWNER);
        n += adopters[i].code == 0;
    }
    assert_int_equal(n, 1);
    assert_false(is_locked(locks[0]));
    for (size_t i = 0; i < CLIENTS; i++) {
        locks[i] = rlock_free(locks[i]);
    }
    assert_int_equal(pthread_barrier_destroy(&barrier), 0);
    assert_int_equal(losses_told(f), 0);
}

LOCK_TEST(of_64_adopters_one_gets_it, f)
{
    struct rlock_client *clients[CLIENTS];

    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = client_open(f);
    }
    for (size_t i = 0; i < LEASED_KINDS; i++) {
        one_of_many_adopts(f, &single_kinds[i], clients);
    }
}

/* ---- A detach beside an unlock ---- */

enum { RACES = 100 };

struct racer {
    pthread_barrier_t barrier;
    struct rlock_handle *lock;
    uint64_t owner;
    int code; /* of the unlock */
};

static void *unlock_beside(void *arg)
{
    struct racer *racer = arg;

    (void)pthread_barrier_wait(&racer->barrier);
    racer->code = rlock_unlock_as(racer->lock, racer->owner);
    return NULL;
}

/* Two threads that are one owner give up its only level: one of them has it. */
static void give_up_in_two_ways(const struct kind *kind, struct rlock_client *client)
{
    struct racer racer = {.owner = rlock_owner_new(client)};
    char text[RLOCK_TEXT_SIZE];
    pthread_t thread;
    int code;

    assert_code(kind->make(client, kind->name, NULL, &racer.lock), 0);
    assert_int_equal(pthread_barrier_init(&racer.barrier, NULL, 2), 0);
    for (int i = 0; i < RACES; i++) {
        assert_code(TAKE(racer.lock, 0, .owner = racer.owner), 0);
        assert_int_equal(pthread_create(&thread, NULL, unlock_beside, &racer), 0);
        (void)pthread_barrier_wait(&racer.barrier);
        code = rlock_detach(racer.lock, racer.owner, MINUTE_MS, text);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(code == 0 || code == RLOCK_ENOTOWNER);
        assert_code(racer.code, code == 0 ? RLOCK_ENOTOWNER : 0);
        assert_int_equal(is_locked(racer.lock), code == 0);
        if (code == 0) {
            assert_code(rlock_adopt(racer.lock, text, NULL, NULL), 0);
            assert_code(rlock_unlock(racer.lock), 0);
        }
    }
    assert_int_equal(pthread_barrier_destroy(&racer.barrier), 0);
    racer.lock = rlock_free(racer.lock);
}

LOCK_TEST(of_a_detach_and_an_unlock_of_one_owner_one_has_the_hold, f)
{
    struct rlock_client *client = client_open(f);

    for (size_t i = 0; i < LEASED_KINDS; i++) {
        give_up_in_two_ways(&single_kinds[i], client);
    }
    assert_int_equal(losses_told(f), 0);
}

/* ---- A process that dies ---- */

static int hold_and_tell(struct test_peer *peer, void *payload)
{
    const struct fixture *f = payload;
    const struct rlock_client_opts opts = client_opts(f, NULL);
    struct rlock_handle *lock = NULL;
    struct rlock_client *client = NULL;
    char text[RLOCK_TEXT_SIZE] = "";

    TEST_CHECK(rlock_client_open(&opts, &client) == 0);
    TEST_CHECK(rlock_reentrant_new(client, NAME, NULL, &lock) == 0);
    TEST_CHECK(rlock_lock(lock) == 0);
    TEST_CHECK(rlock_hold_text(lock, 0, text) == 0);
    for (size_t i = 0; i < sizeof(text); i += sizeof(uint64_t)) {
        uint64_t word;

        memcpy(&word, text + i, sizeof(word));
        test_peer_send(peer, word);
    }
    (void)test_peer_recv(peer, MINUTE_MS);
    return 0;
}

LOCK_TEST(the_hold_of_a_dead_process_goes_on_without_a_pause, f)
{
    struct test_child *child = test_child_spawn(hold_and_tell, f);
    char text[RLOCK_TEXT_SIZE];
    struct rlock_handle *lock;
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    for (size_t i = 0; i < sizeof(text); i += sizeof(uint64_t)) {
        const uint64_t word = test_child_recv(child, 10000);

        memcpy(text + i, &word, sizeof(word));
    }
    lock = lock_new(f, client_open(f));
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    test_child_kill(child, SIGKILL);
    assert_int_equal(test_child_wait(child, 10000), 128 + SIGKILL);
    assert_code(rlock_adopt(lock, text, NULL, NULL), RLOCK_EBUSY);
    assert_code(rlock_adopt(lock, text, RLOCK_TAKE(.flags = RLOCK_TAKE_FROM_DEAD), &grant), 0);
    assert_int_equal(grant.is_renewed, 1);
    assert_code(rlock_unlock(lock), 0);
    assert_false(is_locked(lock));
}

/* ---- A cluster ---- */

enum { PRIMARIES = 3 };

FIXTURE_WITH_TEST(a_hold_is_handed_over_while_its_slot_moves, f, .kind = &kind_reentrant,
                  .servers = PRIMARIES, .server = {.transport = TEST_TCP, .conf = cluster_conf})
{
    struct rlock_client *clients[2];
    char url[200], text[RLOCK_TEXT_SIZE], name[32];

    cluster_form(f->servers, PRIMARIES, PRIMARIES);
    cluster_url(f->servers, PRIMARIES, url, sizeof(url));
    for (size_t i = 0; i < 2; i++) {
        clients[i] = client_open_with(f, RLOCK_CLIENT_OPTS(.url = url));
    }
    for (size_t i = 0; i < LEASED_KINDS; i++) {
        struct rlock_handle *lock = NULL, *other = NULL;
        unsigned int slot;
        size_t from = 0;

        test_text(name, sizeof(name), "%s-{%zu}", single_kinds[i].name, i);
        slot = rlock__slot(rlock__bytes_of(name));
        while (cluster_primary_of(f->servers, PRIMARIES, slot) != f->servers[from]) {
            from++;
        }
        assert_code(single_kinds[i].make(clients[0], name, NULL, &lock), 0);
        assert_code(single_kinds[i].make(clients[1], name, NULL, &other), 0);
        assert_code(rlock_lock(lock), 0);
        cluster_move_slot(f->servers, PRIMARIES, from, (from + 1) % PRIMARIES, slot);
        assert_code(rlock_detach(lock, 0, MINUTE_MS, text), 0);
        cluster_move_slot(f->servers, PRIMARIES, (from + 1) % PRIMARIES, (from + 2) % PRIMARIES,
                          slot);
        assert_code(rlock_adopt(other, text, NULL, NULL), 0);
        assert_code(rlock_extend(other, 0, 2 * MINUTE_MS, NULL), 0);
        assert_code(rlock_unlock(other), 0);
        assert_false(is_locked(other));
        lock = rlock_free(lock);
        other = rlock_free(other);
    }
    for (size_t i = 0; i < PRIMARIES; i++) { /* the token of the fenced lock */
        test_server_do(f->servers[i], "FLUSHALL");
    }
}

FIXTURE_WITH_TEST(a_text_outlives_a_failover_that_loses_nothing, f, .kind = &kind_reentrant,
                  .servers = 2, .server = {.transport = TEST_TCP, .conf = cluster_conf})
{
    struct rlock_handle *lock, *other;
    char url[200], text[RLOCK_TEXT_SIZE];

    cluster_form(f->servers, 1, 2);
    cluster_url(f->servers, 2, url, sizeof(url));
    lock = lock_new(f, client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .acks = 1)));
    other = lock_new(f, client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .acks = 1)));
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), 0);
    assert_true(TEST_EVENTUALLY(test_server_int(f->servers[0], "WAIT 1 100") == 1, 10000));
    test_server_do(f->servers[1], "CLUSTER FAILOVER");
    assert_code(rlock_lock_for(other, 20, NULL, NULL), RLOCK_ETIMEDOUT);
    assert_true(TEST_EVENTUALLY(rlock_adopt(other, text, NULL, NULL) == 0, 20000));
    assert_true(rlock_is_valid(other));
    assert_code(rlock_unlock(other), 0);
    assert_false(is_locked(other));
}

/* ---- A baton that goes round while connections break ---- */

enum { RUNNERS = 6, LAPS = 300 };

/* What the runners share: the text of the hold that nobody has now. */
struct baton {
    pthread_mutex_t mutex;
    char text[RLOCK_TEXT_SIZE];
    struct witness *witness;
    struct proxy *proxy;
    atomic_bool over;
    atomic_uint handed, taken_back, gone;
};

struct runner {
    pthread_t thread;
    struct baton *baton;
    struct rlock_handle *lock;
    unsigned seed;
    uint64_t id;
};

/* Takes the text, so that one runner has it. */
static bool pick_up(struct baton *baton, char text[static RLOCK_TEXT_SIZE])
{
    (void)pthread_mutex_lock(&baton->mutex);
    memcpy(text, baton->text, RLOCK_TEXT_SIZE);
    baton->text[0] = '\0';
    (void)pthread_mutex_unlock(&baton->mutex);
    return text[0] != '\0';
}

static void put_down(struct baton *baton, const char *text)
{
    (void)pthread_mutex_lock(&baton->mutex);
    TEST_CHECK(baton->text[0] == '\0'); /* a thread that detaches it holds it alone */
    memcpy(baton->text, text, RLOCK_TEXT_SIZE);
    (void)pthread_mutex_unlock(&baton->mutex);
}

/* Takes over the hold, or takes the lock if there is no text. Returns whether it holds. */
static bool get(struct runner *runner)
{
    char text[RLOCK_TEXT_SIZE];
    int code = RLOCK_EINDOUBT;

    if (!pick_up(runner->baton, text)) {
        code = rlock_lock_for(runner->lock, 20, NULL, NULL);
        TEST_CHECK(code == 0 || code == RLOCK_ETIMEDOUT || code == RLOCK_EINDOUBT);
        return code == 0;
    }
    while (code == RLOCK_EINDOUBT || code == RLOCK_ECONN) {
        code = rlock_adopt(runner->lock, text, NULL, NULL);
    }
    TEST_CHECK(code == 0);
    return true;
}

/* Hands it over, or takes that back if its outcome stays unknown. */
static void pass_on(struct runner *runner)
{
    char text[RLOCK_TEXT_SIZE];
    int code = rlock_detach(runner->lock, 0, MINUTE_MS, text);

    for (int i = 0; i < 3 && code == RLOCK_EINDOUBT; i++) {
        code = rlock_detach(runner->lock, 0, MINUTE_MS, text);
    }
    if (code == 0) {
        put_down(runner->baton, text);
        runner->baton->handed++;
        return;
    }
    TEST_CHECK(code == RLOCK_EINDOUBT);
    do {
        code = rlock_unlock(runner->lock);
    } while (code == RLOCK_EINDOUBT);
    TEST_CHECK(code == 0);
    runner->baton->taken_back++;
}

static void *run(void *arg)
{
    struct runner *runner = arg;
    struct baton *baton = runner->baton;

    for (int laps = 0; laps < LAPS;) {
        if (!get(runner)) {
            continue;
        }
        TEST_CHECK(rlock_is_valid(runner->lock));
        witness_enter(baton->witness, 0, runner->id);
        witness_leave(baton->witness, 0, runner->id);
        if (rand_r(&runner->seed) % 4 != 0) {
            pass_on(runner);
        } else {
            int code;

            do {
                code = rlock_unlock(runner->lock);
            } while (code == RLOCK_EINDOUBT);
            TEST_CHECK(code == 0);
        }
        laps++;
    }
    return NULL;
}

static void *cut(void *arg)
{
    struct baton *baton = arg;

    while (!atomic_load(&baton->over)) { /* a pace, not a wait: connections break all the time */
        proxy_cut_all(baton->proxy, PROXY_ANY);
        (void)usleep(20 * 1000);
    }
    return NULL;
}

FIXTURE_WITH_TEST(a_hold_that_goes_round_is_never_held_twice_while_connections_break, f,
                  .kind = &kind_reentrant, .proxy = PROXY_ON_UNIX)
{
    struct baton baton = {
        .mutex = PTHREAD_MUTEX_INITIALIZER, .witness = witness_new(1), .proxy = f->proxy};
    struct runner runners[RUNNERS];
    char text[RLOCK_TEXT_SIZE];
    pthread_t cutter;

    for (size_t i = 0; i < RUNNERS; i++) {
        runners[i] = (struct runner){
            .baton = &baton, .lock = lock_new(f, client_open(f)), .seed = (unsigned)i, .id = i + 1};
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run, &runners[i]), 0);
    }
    assert_int_equal(pthread_create(&cutter, NULL, cut, &baton), 0);
    for (size_t i = 0; i < RUNNERS; i++) {
        assert_int_equal(pthread_join(runners[i].thread, NULL), 0);
    }
    atomic_store(&baton.over, true);
    assert_int_equal(pthread_join(cutter, NULL), 0);
    assert_true(witness_is_clean(baton.witness, stderr));
    assert_int_equal(witness_entries(baton.witness), RUNNERS * LAPS);
    if (pick_up(&baton, text)) {
        assert_true(TEST_EVENTUALLY(rlock_adopt(runners[0].lock, text, NULL, NULL) == 0, 10000));
        assert_code(rlock_unlock(runners[0].lock), 0);
    }
    assert_true(TEST_EVENTUALLY(test_server_int(f->server, "DBSIZE") == 0, 10000));
    assert_true(baton.handed > RUNNERS * LAPS / 4);
    assert_int_equal(losses_told(f), 0);
    baton.witness = witness_free(baton.witness);
}
