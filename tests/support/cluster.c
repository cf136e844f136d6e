/* SPDX-License-Identifier: Apache-2.0 */
#include "support/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/run.h"

enum { JOINED_MS = 20000, MOVE_MS = 5000, SLOTS = 16384 };

const char *const cluster_conf[] = {"cluster-enabled yes", NULL};

/* A number in what the server says of the cluster. */
static long long number_of(struct test_server *server, const char *field)
{
    char *info = test_server_cmd(server, "CLUSTER INFO");
    const char *at = strstr(info, field);
    const long long value = at != NULL ? strtoll(at + strlen(field) + 1, NULL, 10) : -1;

    free(info);
    return value;
}

static bool is_well(struct test_server *server)
{
    char *info = test_server_cmd(server, "CLUSTER INFO");
    const bool is = strstr(info, "cluster_state:ok") != NULL;

    free(info);
    return is;
}

/* Whether a server knows so many nodes, none of them by its address alone, and all slots. */
static bool has_joined(struct test_server *server, size_t n)
{
    char *nodes = test_server_cmd(server, "CLUSTER NODES");
    const bool is_shaking = strstr(nodes, "handshake") != NULL;

    free(nodes);
    return !is_shaking && number_of(server, "cluster_known_nodes") == (long long)n &&
           number_of(server, "cluster_slots_ok") == SLOTS && is_well(server);
}

/* Lets servers meet which have all slots. */
static void meet(struct test_server *const *servers, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        for (size_t j = 0; j < i; j++) { /* by gossip they would meet seconds later */
            test_server_do(servers[j], "CLUSTER MEET 127.0.0.1 %d", test_server_port(servers[i]));
        }
    }
    for (size_t i = 0; i < n; i++) {
        TEST_CHECK(TEST_EVENTUALLY(has_joined(servers[i], n), JOINED_MS));
    }
}

void cluster_join(struct test_server *const *servers, size_t n)
{
    test_server_do(servers[0], "CLUSTER ADDSLOTSRANGE 0 16383");
    meet(servers, n);
}

/* Whether a server knows of so many that they are replicas. */
static bool knows_replicas(struct test_server *server, size_t n)
{
    char *nodes = test_server_cmd(server, "CLUSTER NODES");
    size_t found = 0;

    for (const char *at = nodes; (at = strstr(at, "slave ")) != NULL; at++) {
        found++;
    }
    free(nodes);
    return found == n;
}

void cluster_form(struct test_server *const *servers, size_t n_primaries, size_t n)
{
    const size_t share = SLOTS / n_primaries;

    for (size_t i = 0; i < n_primaries; i++) {
        const size_t end = i + 1 < n_primaries ? (i + 1) * share : SLOTS;

        test_server_do(servers[i], "CLUSTER ADDSLOTSRANGE %zu %zu", i * share, end - 1);
        test_server_do(servers[i], "CLUSTER SET-CONFIG-EPOCH %zu", i + 1);
    }
    meet(servers, n);
    for (size_t i = n_primaries; i < n; i++) {
        char *id = test_server_cmd(servers[i - n_primaries], "CLUSTER MYID");

        test_server_do(servers[i], "CLUSTER REPLICATE %s", id);
        free(id);
    }
    for (size_t i = n_primaries; i < n; i++) {
        TEST_CHECK(TEST_EVENTUALLY(test_server_is_copied(servers[i]), JOINED_MS));
        TEST_CHECK(
            TEST_EVENTUALLY(test_server_is_acknowledged(servers[i - n_primaries], 1), JOINED_MS));
    }
    for (size_t i = 0; i < n; i++) {
        TEST_CHECK(TEST_EVENTUALLY(knows_replicas(servers[i], n - n_primaries), JOINED_MS));
    }
}

/* A restart empties the directory of the data. */
const char *const cluster_large_conf[] = {"cluster-enabled yes", "cluster-node-timeout 3600000",
                                          "cluster-config-file ../nodes.conf", NULL};

static size_t n_added;
static unsigned int asked_port;

unsigned int cluster_map_added(unsigned int port)
{
    return port <= n_added ? asked_port : port; /* their ports begin at 1 */
}

/* While the server does not run. */
static void add_nodes(const char *nodes_conf, size_t n)
{
    FILE *file = fopen(nodes_conf, "a");

    TEST_CHECK(file != NULL);
    for (size_t i = 1; i <= n; i++) {
        fprintf(file, "%040zx 127.0.0.1:%zu@%zu master - 0 0 %zu connected %zu\n", i, i, i, i + 2,
                SLOTS - i);
    }
    TEST_CHECK(fclose(file) == 0);
}

void cluster_enlarge(struct test_server *const *servers, size_t n_servers, size_t n)
{
    n_added = n;
    asked_port = (unsigned int)test_server_port(servers[n_servers - 1]);
    test_server_do(servers[0], "CLUSTER DELSLOTSRANGE %zu %d", SLOTS - n, SLOTS - 1);
    for (size_t i = 0; i < n_servers; i++) {
        char *dir = test_server_cmd(servers[i], "CONFIG GET dir");
        char path[256];

        test_text(path, sizeof(path), "%s/../nodes.conf", strchr(dir, '/'));
        free(dir);
        test_server_kill(servers[i]);
        add_nodes(path, n);
        test_server_restart(servers[i], false);
    }
    for (size_t i = 0; i < n_servers; i++) {
        TEST_CHECK(TEST_EVENTUALLY(has_joined(servers[i], n_servers + n), JOINED_MS));
    }
}

void cluster_add(struct test_server *const *servers, size_t n, struct test_server *added)
{
    test_server_do(added, "CLUSTER MEET 127.0.0.1 %d", test_server_port(servers[0]));
    TEST_CHECK(TEST_EVENTUALLY(has_joined(added, n + 1), JOINED_MS));
    for (size_t i = 0; i < n; i++) {
        TEST_CHECK(TEST_EVENTUALLY(has_joined(servers[i], n + 1), JOINED_MS));
    }
}

/* All within the minute in which none of them can hear of it from another one. */
void cluster_remove(struct test_server *const *servers, size_t n, struct test_server *removed)
{
    char *id = test_server_cmd(removed, "CLUSTER MYID");

    for (size_t i = 0; i < n; i++) {
        TEST_CHECK(test_server_says(servers[i], "OK", "CLUSTER FORGET %s", id));
    }
    free(id);
    test_server_do(removed, "CLUSTER RESET");
}

struct test_server *cluster_primary_of(struct test_server *const *servers, size_t n_primaries,
                                       unsigned int slot)
{
    const size_t i = slot / (SLOTS / n_primaries);

    return servers[i < n_primaries ? i : n_primaries - 1];
}

void cluster_url(struct test_server *const *servers, size_t n, char *out, size_t size)
{
    const bool tls = strncmp(test_server_url(servers[0]), "rediss:", 7) == 0;

    test_text(out, size, "redis%s+cluster://", tls ? "s" : "");
    for (size_t i = 0; i < n; i++) {
        const size_t len = strlen(out);

        test_text(out + len, size - len, "%s127.0.0.1:%d", i > 0 ? "," : "",
                  test_server_port(servers[i]));
    }
}

void cluster_set_slot(struct test_server *server, unsigned int slot, const char *state,
                      struct test_server *other)
{
    char *id = other != NULL ? test_server_cmd(other, "CLUSTER MYID") : NULL;
    char *reply =
        test_server_cmd(server, "CLUSTER SETSLOT %u %s %s", slot, state, id != NULL ? id : "");

    if (strcmp(reply, "OK") != 0) {
        test_die("slot %u, %s: %s", slot, state, reply);
    }
    free(reply);
    free(id);
}

void cluster_open_slot(struct test_server *from, struct test_server *to, unsigned int slot)
{
    cluster_set_slot(to, slot, "IMPORTING", from);
    cluster_set_slot(from, slot, "MIGRATING", to);
}

/* The source keeps its connection to the target for a while, which looks like a client's. */
static void end_migration(struct test_server *to)
{
    char *list = test_server_cmd(to, "CLIENT LIST");
    char *rest = list;

    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        if (strstr(line, " cmd=restore-asking ") != NULL) {
            test_server_do(to, "CLIENT KILL ID %lld", strtoll(line + strlen("id="), NULL, 10));
        }
    }
    free(list);
}

void cluster_move_key(struct test_server *from, struct test_server *to, const char *key)
{
    TEST_CHECK(test_server_says(from, "OK", "MIGRATE 127.0.0.1 %d %s 0 %d", test_server_port(to),
                                key, MOVE_MS));
    end_migration(to);
}

void cluster_abort_slot(struct test_server *from, struct test_server *to, unsigned int slot)
{
    cluster_set_slot(from, slot, "STABLE", NULL);
    cluster_set_slot(to, slot, "STABLE", NULL);
}

/* A key of the slot; NULL: there is none. */
static char *key_in(struct test_server *server, unsigned int slot)
{
    char *key = test_server_cmd(server, "CLUSTER GETKEYSINSLOT %u 1", slot);

    if (key[0] == '\0') {
        free(key);
        return NULL;
    }
    return key;
}

/* The epoch of a node's slots, as a server knows it. */
static long long epoch_of(struct test_server *server, const char *id)
{
    char *nodes = test_server_cmd(server, "CLUSTER NODES");
    char *line = strstr(nodes, id);
    long long epoch = -1;

    while (line != NULL && line != nodes && line[-1] != '\n') { /* a replica names its primary */
        line = strstr(line + 1, id);
    }
    for (int field = 0; line != NULL && field < 7; field++) {
        epoch = strtoll(line, NULL, 10);
        line = strchr(line, ' ');
        line = line != NULL ? line + 1 : NULL;
    }
    free(nodes);
    return epoch;
}

/* Whether all know the same epoch of a server's slots. */
static bool agree(struct test_server *const *servers, size_t n, struct test_server *of)
{
    char *id = test_server_cmd(of, "CLUSTER MYID");
    const long long epoch = epoch_of(of, id);
    bool is = true;

    for (size_t i = 0; i < n; i++) {
        is = is && epoch_of(servers[i], id) == epoch;
    }
    free(id);
    return is;
}

void cluster_move_keys(struct test_server *from, struct test_server *to, unsigned int slot)
{
    char *key;

    while ((key = key_in(from, slot)) != NULL) {
        /* "NOKEY": its lease has ended meanwhile */
        test_server_do(from, "MIGRATE 127.0.0.1 %d %s 0 %d", test_server_port(to), key, MOVE_MS);
        free(key);
    }
    end_migration(to);
}

void cluster_move_slot(struct test_server *const *servers, size_t n, size_t from, size_t to,
                       unsigned int slot)
{
    cluster_open_slot(servers[from], servers[to], slot);
    cluster_move_keys(servers[from], servers[to], slot);
    cluster_set_slot(servers[to], slot, "NODE", servers[to]);
    cluster_set_slot(servers[from], slot, "NODE", servers[to]);
    for (size_t i = 0; i < n; i++) {
        if (i != from && i != to) {
            cluster_set_slot(servers[i], slot, "NODE", servers[to]);
        }
    }
    /* else the next move may leave two servers that each say that the other one has the slot */
    TEST_CHECK(TEST_EVENTUALLY(agree(servers, n, servers[to]), JOINED_MS));
}
