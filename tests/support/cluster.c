/* SPDX-License-Identifier: Apache-2.0 */
#include "support/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "support/run.h"

enum { JOINED_MS = 20000, MOVE_MS = 5000 };

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

/* Whether a server knows so many nodes, none of them by its address alone, and all slots. */
static bool has_joined(struct test_server *server, size_t n)
{
    char *nodes = test_server_cmd(server, "CLUSTER NODES");
    const bool is_shaking = strstr(nodes, "handshake") != NULL;

    free(nodes);
    return !is_shaking && number_of(server, "cluster_known_nodes") == (long long)n &&
           number_of(server, "cluster_slots_ok") == 16384;
}

void cluster_join(struct test_server *const *servers, size_t n)
{
    test_server_do(servers[0], "CLUSTER ADDSLOTSRANGE 0 16383");
    for (size_t i = 1; i < n; i++) {
        test_server_do(servers[0], "CLUSTER MEET 127.0.0.1 %d", test_server_port(servers[i]));
    }
    for (size_t i = 0; i < n; i++) {
        TEST_CHECK(TEST_EVENTUALLY(has_joined(servers[i], n), JOINED_MS));
    }
}

/* Says what becomes of a slot: which state it has at the server, and the other side where there is
 * one. */
static void set_slot(struct test_server *server, unsigned int slot, const char *state,
                     struct test_server *other)
{
    char *id = other != NULL ? test_server_cmd(other, "CLUSTER MYID") : NULL;

    TEST_CHECK(test_server_says(server, "OK", "CLUSTER SETSLOT %u %s %s", slot, state,
                                id != NULL ? id : ""));
    free(id);
}

void cluster_open_slot(struct test_server *from, struct test_server *to, unsigned int slot)
{
    set_slot(to, slot, "IMPORTING", from);
    set_slot(from, slot, "MIGRATING", to);
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
    set_slot(from, slot, "STABLE", NULL);
    set_slot(to, slot, "STABLE", NULL);
}
