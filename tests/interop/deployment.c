#include "deployment.h"

#include "support/cluster.h"
#include "support/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRIMARIES = 3, NODES = 6, WATCHED = 3, FAILED_OVER_MS = 20000 };
#define DOWN_AFTER_MS                                                                              \
    2000 /* a primary that is busy is not to be replaced, only one that was killed */

const struct layout deployment_layouts[] = {
    {"standalone", STANDALONE},
    {"cluster", CLUSTER},
    {"sentinel", SENTINEL},
};
const size_t deployment_n_layouts = sizeof(deployment_layouts) / sizeof(deployment_layouts[0]);
const struct layout *const deployment_standalone = &deployment_layouts[0];

/* What a node has on disk is for its restart alone, so none waits for a disk that is kept busy. */
static const char *const node_conf[] = {"cluster-enabled yes", "cluster-node-timeout 2000",
                                        "cluster-allow-replica-migration no", "appendfsync no",
                                        NULL};

const struct layout *deployment_layout(const char *name)
{
    for (size_t i = 0; i < deployment_n_layouts; i++) {
        if (strcmp(deployment_layouts[i].name, name) == 0) {
            return &deployment_layouts[i];
        }
    }
    return NULL;
}

/* ---- start and stop ---- */

static void start_servers(struct deployment *deployment, const struct test_server_opts *opts,
                          size_t n)
{
    deployment->n_servers = n;
    for (size_t i = 0; i < n; i++) {
        deployment->servers[i] = test_server_start(opts);
    }
}

struct deployment *deployment_start(const struct layout *layout, const char *program, size_t n)
{
    struct deployment *deployment = calloc(1, sizeof(*deployment));
    struct test_server_opts opts = {.program = program, .transport = TEST_TCP};

    TEST_CHECK(deployment != NULL && n <= MAX_SERVERS);
    deployment->layout = layout;
    deployment->n_urls = 1;
    switch (layout->topology) {
    case CLUSTER:
        opts.conf = node_conf;
        opts.aof = true;
        start_servers(deployment, &opts, NODES);
        cluster_form(deployment->servers, PRIMARIES, NODES);
        cluster_url(deployment->servers, NODES, deployment->urls[0], sizeof(deployment->urls[0]));
        break;
    case SENTINEL:
        start_servers(deployment, &opts, WATCHED);
        sentinels_start(&deployment->sentinels, deployment->servers, WATCHED, &opts, NULL);
        for (size_t i = 0; i < SENTINELS; i++) {
            test_server_do(deployment->sentinels.each[i],
                           "SENTINEL SET primary down-after-milliseconds %d", DOWN_AFTER_MS);
        }
        sentinels_url(&deployment->sentinels, deployment->urls[0], sizeof(deployment->urls[0]));
        break;
    case STANDALONE:
    default:
        start_servers(deployment, &opts, n);
        deployment->n_urls = n;
        for (size_t i = 0; i < n; i++) {
            test_text(deployment->urls[i], sizeof(deployment->urls[i]), "%s",
                      test_server_url(deployment->servers[i]));
        }
    }
    return deployment;
}

struct deployment *deployment_stop(struct deployment *deployment)
{
    if (deployment->layout->topology == SENTINEL) {
        sentinels_stop(&deployment->sentinels);
    }
    for (size_t i = 0; i < deployment->n_servers; i++) {
        test_server_stop(deployment->servers[i]);
    }
    free(deployment);
    return NULL;
}

/* ---- who has a key ---- */

/* Whether most Sentinels name it: one that was replaced may call itself a primary for long. */
static bool is_named(struct deployment *deployment, struct test_server *server)
{
    size_t n = 0;

    for (size_t i = 0; i < SENTINELS; i++) {
        n += sentinel_names(deployment->sentinels.each[i], server);
    }
    return n > SENTINELS / 2;
}

/* Whether the server answers for the key: a node of a cluster names another one otherwise. */
static bool answers_for(struct test_server *server, const char *key)
{
    const char *const exists[] = {"EXISTS", key, NULL};
    char *reply = test_server_argv(server, exists);
    const bool does = strcmp(reply, "0") == 0 || strcmp(reply, "1") == 0;

    free(reply);
    return does;
}

static bool has(struct deployment *deployment, size_t i, const char *key)
{
    struct test_server *server = deployment->servers[i];

    return !deployment->is_down[i] && test_server_is_primary(server) && answers_for(server, key) &&
           (deployment->layout->topology != SENTINEL || is_named(deployment, server));
}

/* The number of the server that has the key; n_servers: none has. */
static size_t find(struct deployment *deployment, const char *key)
{
    size_t i = 0;

    while (i < deployment->n_servers && !has(deployment, i, key)) {
        i++;
    }
    return i;
}

struct test_server *deployment_server(struct deployment *deployment, size_t place, const char *key)
{
    const bool is_alone = deployment->layout->topology == STANDALONE;
    const size_t i = is_alone ? place : find(deployment, key);

    return i < deployment->n_servers && !deployment->is_down[i] ? deployment->servers[i] : NULL;
}

/* ---- failover ---- */

/* Whether all that replicate something have what it has. */
static bool is_copied(struct deployment *deployment)
{
    bool is = true;

    for (size_t i = 0; i < deployment->n_servers; i++) {
        is = is && !deployment->is_down[i] &&
             (test_server_is_primary(deployment->servers[i]) ||
              test_server_is_copied(deployment->servers[i]));
    }
    return is;
}

bool deployment_fail_over(struct deployment *deployment, const char *key)
{
    const size_t old = find(deployment, key);

    TEST_CHECK(old < deployment->n_servers &&
               TEST_EVENTUALLY(is_copied(deployment), FAILED_OVER_MS));
    test_server_kill(deployment->servers[old]);
    deployment->is_down[old] = true;
    return TEST_EVENTUALLY(find(deployment, key) < deployment->n_servers, FAILED_OVER_MS);
}

static void follow_primary(struct deployment *deployment, struct test_server *server)
{
    struct test_server *primary = NULL;

    TEST_CHECK(TEST_EVENTUALLY((primary = deployment_server(deployment, 0, "any")) != NULL,
                               FAILED_OVER_MS));
    test_server_do(server, "REPLICAOF 127.0.0.1 %d", test_server_port(primary));
}

bool deployment_heal(struct deployment *deployment)
{
    const bool is_cluster = deployment->layout->topology == CLUSTER;

    for (size_t i = 0; i < deployment->n_servers; i++) {
        if (deployment->is_down[i]) {
            struct test_server *server = deployment->servers[i];

            test_server_restart(server, is_cluster); /* a node has its cluster on disk */
            if (!is_cluster) {
                follow_primary(deployment, server);
            }
            deployment->is_down[i] = false;
            TEST_CHECK(TEST_EVENTUALLY(!test_server_is_primary(server), FAILED_OVER_MS));
        }
    }
    return TEST_EVENTUALLY(is_copied(deployment), FAILED_OVER_MS);
}

/* ---- a move ---- */

/* Those that have slots, with the one that has the key first. */
static size_t list_primaries(struct deployment *deployment, const char *key,
                             struct test_server **ret_servers)
{
    const size_t first = find(deployment, key);
    size_t n = 0;

    TEST_CHECK(first < deployment->n_servers);
    ret_servers[n++] = deployment->servers[first];
    for (size_t i = 0; i < deployment->n_servers; i++) {
        if (i != first && !deployment->is_down[i] &&
            test_server_is_primary(deployment->servers[i])) {
            ret_servers[n++] = deployment->servers[i];
        }
    }
    return n;
}

void deployment_reshard(struct deployment *deployment, const char *key)
{
    const char *const keyslot[] = {"CLUSTER", "KEYSLOT", key, NULL};
    struct test_server *primaries[MAX_SERVERS];
    const size_t n = list_primaries(deployment, key, primaries);
    char *slot = test_server_argv(primaries[0], keyslot);

    TEST_CHECK(n >= 2);
    cluster_move_slot(primaries, n, 0, 1, (unsigned int)strtoul(slot, NULL, 10));
    free(slot);
}
