/* SPDX-License-Identifier: Apache-2.0 */
/* How soon clients have what they wait for, and know what they lost, once another server has taken
 * the primary's place: counted from the first write that it accepts. */
#include <pthread.h>
#include <unistd.h>

#include "base/time.h"
#include "support/clients.h"
#include "support/cluster.h"
#include "support/raw.h"
#include "support/sentinel.h"
#include "topology/slot.h"

enum {
    PRIMARIES = 3,
    CLIENTS = 4,
    EACH = 3,
    WAITERS = CLIENTS * EACH,
    KNOWN_MS = 250,
    LATEST_MS = 500
};

static const char *const failing_conf[] = {"cluster-enabled yes", "cluster-node-timeout 1000",
                                           "cluster-require-full-coverage no", NULL};

/* Of three primaries with a replica each. */
#define CLUSTER_TEST(name, f)                                                                      \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 6,                              \
                      .server = {.transport = TEST_TCP, .conf = failing_conf})
/* Of a primary with two replicas. */
#define SENTINEL_TEST(name, f)                                                                     \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 3,                              \
                      .server = {.transport = TEST_TCP})

/* Asks servers to write until one of them does. */
struct probe {
    struct test_server *const *servers;
    size_t n;
    const char *key;
    const struct sentinels *sentinels; /* NULL: in a cluster */
    int64_t accepted_us, named_us;     /* when a Sentinel named it: clients cannot know before */
    pthread_t thread;
};

static bool accepts(struct test_server *server, int *fd, const char *command)
{
    const char *said;

    if (*fd < 0) {
        *fd = raw_dial(test_server_url(server));
    }
    if (*fd < 0) {
        return false;
    }
    raw_say(*fd, command);
    said = raw_hear(*fd);
    if (strcmp(said, "END") == 0 || strcmp(said, "RESET") == 0) {
        (void)close(*fd); /* Sentinels close the connections to whom they promote */
        *fd = -1;
    }
    return strcmp(said, "+OK\r\n") == 0;
}

static bool is_named(const struct probe *probe)
{
    for (size_t i = 0; i < SENTINELS && probe->sentinels != NULL; i++) {
        for (size_t j = 0; j < probe->n; j++) {
            if (sentinel_names(probe->sentinels->each[i], probe->servers[j])) {
                return true;
            }
        }
    }
    return probe->sentinels == NULL;
}

static void *probe_main(void *arg)
{
    struct probe *probe = arg;
    int fds[2] = {-1, -1};
    char command[80];

    test_text(command, sizeof(command), "SET %s 1 PX 1\r\n", probe->key);
    while (probe->accepted_us == 0) {
        for (size_t i = 0; i < probe->n; i++) {
            if (probe->accepted_us == 0 && accepts(probe->servers[i], &fds[i], command)) {
                probe->accepted_us = test_now_us();
            }
        }
        (void)test_pause_until(INT64_MAX);
    }
    while (!is_named(probe)) {
        (void)test_pause_until(INT64_MAX);
    }
    probe->named_us = test_now_us();
    for (size_t i = 0; i < probe->n; i++) {
        (void)close(fds[i]);
    }
    return NULL;
}

/* A name with this number, whose slot the first primary has. */
static void name_at(const struct fixture *f, const char *what, size_t number, char *out,
                    size_t size)
{
    size_t n = 0;

    do {
        test_text(out, size, "%s-%zu-%zu", what, number, n++);
    } while (f->n > PRIMARIES &&
             cluster_primary_of(f->servers, PRIMARIES, rlock__slot(rlock__bytes_of(out))) !=
                 f->servers[0]);
}

struct scene {
    struct fixture *f;
    struct rlock_client *clients[CLIENTS];
    struct rlock_handle *lost[CLIENTS];
    struct actor *waiters[WAITERS];
};

/* The replicas hear of nothing any more; then each client takes a lock. */
static void take_what_is_lost(struct scene *scene, const char *url, size_t first, size_t n)
{
    struct fixture *f = scene->f;
    char name[40];

    for (size_t i = 0; i < CLIENTS; i++) {
        scene->clients[i] =
            client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .acks = RLOCK_ACKS_OFF));
        name_at(f, "lost", i, name, sizeof(name));
        scene->lost[i] = lock_named(f, scene->clients[i], name);
        assert_code(act_pass_through(scene->lost[i], RLOCK_FOREVER, NULL), 0);
    }
    for (size_t i = first; i < first + n; i++) {
        test_server_freeze(f->servers[i]);
    }
    test_server_do(f->servers[0], "CLIENT KILL TYPE replica");
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_code(rlock_lock(scene->lost[i]), 0);
    }
    test_server_kill(f->servers[0]);
    for (size_t i = first; i < first + n; i++) {
        test_server_thaw(f->servers[i]);
    }
}

static void begin_waiting(struct scene *scene)
{
    char name[40];

    for (size_t i = 0; i < WAITERS; i++) {
        scene->waiters[i] = actor_open(scene->f);
        name_at(scene->f, "new", i, name, sizeof(name));
        actor_begin(scene->waiters[i], act_pass_through,
                    lock_named(scene->f, scene->clients[i % CLIENTS], name), RLOCK_FOREVER, NULL);
    }
}

static void see_who_is_when_there(struct scene *scene, struct test_server *const *replicas,
                                  size_t n, const struct sentinels *sentinels)
{
    struct probe probe = {.servers = replicas, .n = n, .sentinels = sentinels};
    int64_t granted_us[WAITERS], told_us[CLIENTS];
    char key[40];

    name_at(scene->f, "probe", 0, key, sizeof(key));
    probe.key = key;
    assert_int_equal(pthread_create(&probe.thread, NULL, probe_main, &probe), 0);
    begin_waiting(scene);
    for (size_t i = 0; i < WAITERS; i++) {
        assert_code(actor_end(scene->waiters[i]), 0);
        granted_us[i] = actor_ended_us(scene->waiters[i]);
    }
    (void)pthread_join(probe.thread, NULL);
    for (size_t i = 0; i < CLIENTS; i++) {
        told_us[i] =
            rlock__max(expect_loss(scene->f, RLOCK_LOST_NOT_REPLICATED) - probe.named_us, 0);
        assert_code(rlock_unlock(scene->lost[i]), RLOCK_ELOST);
    }
    for (size_t i = 0; i < WAITERS; i++) {
        granted_us[i] = rlock__max(granted_us[i] - probe.named_us, 0);
    }
    assert_usually_took(granted_us, WAITERS, KNOWN_MS, LATEST_MS);
    assert_usually_took(told_us, CLIENTS, KNOWN_MS, LATEST_MS);
    print_message("named after %lld ms, all granted %lld ms later, all told %lld ms later\n",
                  (long long)(probe.named_us - probe.accepted_us) / 1000,
                  (long long)granted_us[WAITERS - 1] / 1000,
                  (long long)told_us[CLIENTS - 1] / 1000);
}

CLUSTER_TEST(a_promoted_replica_is_used_and_what_it_lacks_is_told_at_once, f)
{
    struct scene scene = {.f = f};
    char url[200];

    cluster_form(f->servers, PRIMARIES, f->n);
    cluster_url(f->servers, PRIMARIES, url, sizeof(url));
    take_what_is_lost(&scene, url, PRIMARIES, 1);
    see_who_is_when_there(&scene, &f->servers[PRIMARIES], 1, NULL);
    test_server_restart(f->servers[0], false);
}

SENTINEL_TEST(the_primary_that_sentinels_promote_is_used_and_what_it_lacks_is_told_at_once, f)
{
    struct scene scene = {.f = f};
    struct sentinels sentinels;
    char url[200];

    sentinels_start(&sentinels, f->servers, f->n, &(struct test_server_opts){.transport = TEST_TCP},
                    NULL);
    sentinels_url(&sentinels, url, sizeof(url));
    take_what_is_lost(&scene, url, 1, 2);
    see_who_is_when_there(&scene, &f->servers[1], 2, &sentinels);
    sentinels_stop(&sentinels);
    test_server_restart(f->servers[0], false);
}
