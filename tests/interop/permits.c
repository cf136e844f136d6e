/*
 * Shares permits and a latch, and then a semaphore, with Redisson, on servers of its own:
 *
 *     permits <version>=<directory>...
 *
 * As for the program interop, a directory has what Maven made of java/. Both sides see each other's
 * units and wake each other. Then threads of both sides want three units. In a second run the test
 * kills a process of rlock's meanwhile, and in a third one the JVM. One script reads the number and
 * the set together, again and again: free permits and permits that are out always make three. For a
 * semaphore they make three at most, as Redisson does not record its units; all three are there
 * when both sides have finished. The units that a killed JVM had are lost.
 */
#include <rlock/rlock.h>

#include "latches.h"
#include "version.h"

#include "support/run.h"
#include "support/server.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNITS = 3, THREADS = 4, ROUNDS = 300, WAKE_UPS = 20, LEASE_MS = 2000 };

/* The two kinds of semaphore. */
struct sort {
    const char *name, *set; /* in the set are the units that are out */
    int (*make)(struct rlock_client *, const char *, const struct rlock_opts *,
                struct rlock_handle **);
    bool records_all; /* also Redisson's */
};

static const struct sort sorts[] = {
    {"permits", "timeout", rlock_permits_new, true},
    {"semaphore", "rlock-permits", rlock_semaphore_new, false},
};

struct scene {
    const struct sort *sort;
    char url[64];
    struct test_server *server;
    struct peer *java;
    struct rlock_client *client;
    struct rlock_handle *lock;
    atomic_int unfinished;
    size_t passed, failed, skipped;
};

/* What Redisson answers. The next call overwrites it. */
static const char *java_says(struct scene *scene, const char *what)
{
    static struct peer_answer answer;
    const int id =
        peer_tell(scene->java, "long a %s %s %s", scene->sort->name, scene->sort->name, what);

    answer = peer_wait(scene->java, id, PATIENCE_MS);
    if (!answer.ok) {
        printf("Redisson: %s: %s\n", what, answer.text);
    }
    return answer.text;
}

static int take(struct scene *scene, int64_t wait_ms, int64_t units)
{
    return rlock_lock_for(scene->lock, wait_ms, RLOCK_TAKE(.units = units), NULL);
}

/* How many units are not free at this moment; -1: more than there are, or some are lost. */
static int64_t out_now(struct scene *scene)
{
    return test_server_int(scene->server,
                           "EVAL \""
                           "local free = tonumber(redis.call('get', KEYS[1]) or -9) "
                           "local out = redis.call('zcard', KEYS[2]) "
                           "local all = ARGV[1] == '1' and free + out == 3 or free + out <= 3 "
                           "return free >= 0 and all and 3 - free or -1"
                           "\" 2 %s {%s}:%s %d",
                           scene->sort->name, scene->sort->name, scene->sort->set,
                           scene->sort->records_all);
}

static void verdict(struct scene *scene, const char *what, bool good)
{
    printf("%-16s %-10s %s\n", scene->sort->name, what, good ? "ok" : "FAILED");
    scene->passed += good;
    scene->failed += !good;
}

/* ---- What both see ---- */

static bool see_each_other(struct scene *scene)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    char id[128], give[160];
    bool good = strcmp(java_says(scene, "set 3"), "true") == 0 && take(scene, 0, 2) == 0 &&
                strcmp(java_says(scene, "free"), "1") == 0;

    test_text(id, sizeof(id), "%s", java_says(scene, "try 0 30000"));
    good = good && strlen(id) == (scene->sort->records_all ? 32 : 1) &&
           take(scene, 0, 1) == RLOCK_EBUSY &&
           strcmp(java_says(scene, "try 100 30000"), "none") == 0 &&
           rlock_inspect(scene->lock, &info) == 0 && info.units_free == 0 &&
           info.units == (scene->sort->records_all ? UNITS : UNITS - 1) &&
           info.holders == (size_t)info.units;
    test_text(give, sizeof(give), "give %s", id);
    (void)java_says(scene, give);
    return good && take(scene, 0, 1) == 0 && rlock_unlock(scene->lock) == 0 &&
           rlock_unlock(scene->lock) == 0 && strcmp(java_says(scene, "free"), "3") == 0;
}

/* ---- Wake-ups ---- */

static bool is_awaited(struct scene *scene)
{
    char *channels = test_server_cmd(scene->server, "PUBSUB CHANNELS");
    bool is = strstr(channels, "redisson_sc") != NULL;

    free(channels);
    return is;
}

static void *wait_for_all(void *payload)
{
    struct scene *scene = payload;

    TEST_CHECK(take(scene, PATIENCE_MS, UNITS) == 0);
    TEST_CHECK(rlock_unlock(scene->lock) == 0);
    return NULL;
}

static int64_t wake_ours(struct scene *scene)
{
    pthread_t thread;
    char give[160];
    int64_t since_us;

    test_text(give, sizeof(give), "give %s", java_says(scene, "try 0 30000"));
    TEST_CHECK(pthread_create(&thread, NULL, wait_for_all, scene) == 0);
    TEST_CHECK(TEST_EVENTUALLY(is_awaited(scene), 10000));
    since_us = test_now_us();
    (void)java_says(scene, give);
    (void)pthread_join(thread, NULL);
    return test_elapsed_us(since_us);
}

static int64_t wake_java(struct scene *scene)
{
    struct peer_answer answer;
    char give[160];
    int64_t since_us;
    int id;

    TEST_CHECK(take(scene, 0, UNITS) == 0);
    id = peer_tell(scene->java, "long b %s %s try 30000 30000", scene->sort->name,
                   scene->sort->name);
    TEST_CHECK(TEST_EVENTUALLY(is_awaited(scene), 10000));
    since_us = test_now_us();
    TEST_CHECK(rlock_unlock(scene->lock) == 0);
    answer = peer_wait(scene->java, id, PATIENCE_MS);
    since_us = test_elapsed_us(since_us);
    test_text(give, sizeof(give), "give %s", answer.text);
    (void)java_says(scene, give);
    return since_us;
}

static bool wake_each_other(struct scene *scene)
{
    int64_t ours[WAKE_UPS], java[WAKE_UPS], us[2];

    for (size_t i = 0; i < WAKE_UPS; i++) {
        ours[i] = wake_ours(scene);
        java[i] = wake_java(scene);
    }
    us[0] = test_median(ours, WAKE_UPS);
    us[1] = test_median(java, WAKE_UPS);
    printf("%-16s wake-up    rlock %.1f ms, Redisson %.1f ms (medians of %d)\n", scene->sort->name,
           (double)us[0] / 1000, (double)us[1] / 1000, WAKE_UPS);
    return us[0] < 1000000 && us[1] < 1000000;
}

/* ---- Many ---- */

static void *work(void *payload)
{
    struct scene *scene = payload;

    for (int i = 0; i < ROUNDS; i++) {
        TEST_CHECK(take(scene, RLOCK_FOREVER, 1 + i % 2) == 0);
        TEST_CHECK(rlock_unlock(scene->lock) == 0);
    }
    (void)atomic_fetch_sub(&scene->unfinished, 1);
    return NULL;
}

/* A process of rlock's that takes units and gives them back until it is killed. */
static int live(struct test_peer *peer, void *payload)
{
    const struct scene *scene = payload;
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL;

    (void)peer;
    TEST_CHECK(rlock_client_open(RLOCK_CLIENT_OPTS(.url = scene->url, .renewed_lease_ms = LEASE_MS),
                                 &client) == 0);
    TEST_CHECK(scene->sort->make(client, scene->sort->name, RLOCK_OPTS(.units = UNITS), &lock) ==
               0);
    for (;;) {
        TEST_CHECK(rlock_lock(lock) == 0);
        TEST_CHECK(rlock_unlock(lock) == 0);
    }
}

enum victim { NOBODY, OURS, JAVA };

static bool is_at_work(struct scene *scene, int id, enum victim victim)
{
    return atomic_load(&scene->unfinished) > 0 ||
           (victim != JAVA && !peer_has_answered(scene->java, id));
}

/* Threads of both take units, and one process is killed. Returns whether number and set were right
 * at each look. */
static bool work_together(struct scene *scene, enum victim victim)
{
    struct test_child *child = victim == OURS ? test_child_spawn(live, scene) : NULL;
    pthread_t threads[THREADS];
    bool good = true;
    int looks = 0, id;

    id = peer_tell(scene->java, "long a %s %s loop %d %d %d", scene->sort->name, scene->sort->name,
                   THREADS, victim == JAVA ? 1000000 : ROUNDS, LEASE_MS);
    atomic_store(&scene->unfinished, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        TEST_CHECK(pthread_create(&threads[i], NULL, work, scene) == 0);
    }
    while (is_at_work(scene, id, victim)) {
        good = out_now(scene) >= 0 && good;
        if (++looks == 100 && victim == JAVA) {
            peer_kill(scene->java);
        } else if (looks == 100 && victim == OURS) {
            test_child_kill(child, SIGKILL);
            TEST_CHECK(test_child_wait(child, PATIENCE_MS) == 128 + SIGKILL);
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    return (victim == JAVA || peer_wait(scene->java, id, PATIENCE_MS).ok) && good;
}

/* What the dead had is free when its lease ends. */
static bool crowd(struct scene *scene, enum victim victim)
{
    return work_together(scene, victim) && take(scene, PATIENCE_MS, UNITS) == 0 &&
           rlock_unlock(scene->lock) == 0 && out_now(scene) == 0;
}

/* A JVM with units of a semaphore dies, and its units are lost. Ours are all there. */
static bool lose_units(struct scene *scene)
{
    const bool good = strcmp(java_says(scene, "try 0 30000"), "1") == 0 && take(scene, 0, 2) == 0;

    peer_kill(scene->java);
    return rlock_unlock(scene->lock) == 0 && good && take(scene, 100, UNITS) != 0 &&
           take(scene, 0, UNITS - 1) == 0 && rlock_unlock(scene->lock) == 0 && out_now(scene) == 1;
}

/* ---- All of it ---- */

static void open_both(struct scene *scene, const struct version *version)
{
    char log[320];

    test_text(log, sizeof(log), "%s/java.log", test_dir());
    test_text(scene->url, sizeof(scene->url), "redis://127.0.0.1:%d",
              test_server_port(scene->server));
    scene->java = peer_start("Redisson", log, version_argv(version));
    TEST_CHECK(peer_wait(scene->java,
                         peer_tell(scene->java, "long - - - open %s 30000 300000 0",
                                   peer_word(scene->url)),
                         PATIENCE_MS)
                   .ok);
    TEST_CHECK(rlock_client_open(RLOCK_CLIENT_OPTS(.url = scene->url), &scene->client) == 0);
    TEST_CHECK(scene->sort->make(scene->client, scene->sort->name, RLOCK_OPTS(.units = UNITS),
                                 &scene->lock) == 0);
}

static void play(struct scene *scene, const struct version *version, const char *program)
{
    if (!test_server_available(program)) {
        printf("%-16s skipped: there is no %s-server\n", scene->sort->name, program);
        scene->skipped++;
        return;
    }
    scene->server =
        test_server_start(&(struct test_server_opts){.program = program, .transport = TEST_TCP});
    printf("---- Redisson %s, %s-server, and %s\n", version->name, program, scene->sort->name);
    open_both(scene, version);
    verdict(scene, "seen", see_each_other(scene));
    verdict(scene, "wake-up", wake_each_other(scene));
    if (scene->sort == sorts) {
        verdict(scene, "latch", latches_meet(scene->server, scene->java, scene->client));
    }
    verdict(scene, "crowd", crowd(scene, NOBODY));
    verdict(scene, "ours die", crowd(scene, OURS));
    verdict(scene, "JVM dies", scene->sort->records_all ? crowd(scene, JAVA) : lose_units(scene));
    (void)rlock_free(scene->lock);
    (void)rlock_client_close(scene->client);
    (void)peer_free(scene->java);
    (void)test_server_stop(scene->server);
}

int main(int argc, char **argv)
{
    static struct version version;
    struct scene scene = {.passed = 0};

    if (argc < 2) {
        fprintf(stderr, "usage: permits <version>=<directory>...\n");
        return 64;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        version_read(&version, argv[i]);
        for (size_t j = 0; j < sizeof(sorts) / sizeof(sorts[0]); j++) {
            scene.sort = &sorts[j];
            play(&scene, &version, "redis");
            play(&scene, &version, "valkey");
        }
    }
    printf("%zu passed, %zu failed, %zu skipped\n", scene.passed, scene.failed, scene.skipped);
    return scene.failed == 0 ? 0 : 1;
}
