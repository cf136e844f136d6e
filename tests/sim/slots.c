/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node of a cluster: which slots it serves, and where it sends those who ask for others. As redis
 * 7.0 decides it (getNodeByQuery and CLUSTER SETSLOT), which test_slots.c holds it to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server_impl.h"
#include "topology/slot.h"

#define NODES_MAX 8
#define MYSELF 1 /* the first of its nodes; 0 is nobody */

struct sim_slot {
    unsigned char owner, migrating_to, importing_from; /* nodes; 0 none */
};

struct sim_cluster {
    unsigned n_nodes;
    struct {
        char id[SIM_NODE_ID_LEN + 1], address[32];
    } nodes[NODES_MAX + 1];
    struct sim_slot slots[RLOCK__SLOTS];
};

struct sim_cluster *sim_cluster_free(struct sim_cluster *cluster)
{
    free(cluster);
    return NULL;
}

void sim_server_join(struct sim_server *server, const char *id, const char *address)
{
    struct sim_cluster *cluster = server->cluster;

    if (!cluster) {
        cluster = server->cluster = calloc(1, sizeof(*cluster));
    }
    if (!cluster || cluster->n_nodes == NODES_MAX) {
        abort();
    }
    cluster->n_nodes++;
    snprintf(cluster->nodes[cluster->n_nodes].id, sizeof(cluster->nodes[0].id), "%s", id);
    snprintf(cluster->nodes[cluster->n_nodes].address, sizeof(cluster->nodes[0].address), "%s",
             address);
}

void sim_server_assign(struct sim_server *server, unsigned from, unsigned to, unsigned node)
{
    for (unsigned slot = from; slot <= to; slot++) {
        server->cluster->slots[slot] = (struct sim_slot){.owner = (unsigned char)node};
    }
}

static unsigned slot_of(struct sim_view key)
{
    return rlock__slot((struct rlock__bytes){key.data, key.len});
}

/* ---- Who serves a command ---- */

struct query {
    unsigned slot;
    const struct sim_slot *state;
    size_t n, missing;
    bool several; /* not always the same key */
    struct sim_view first;
};

/* One of its keys, or channels. Returns false if it is of another slot. */
static bool add_key(const struct sim_call *call, struct query *query, struct sim_view key,
                    bool is_channel)
{
    unsigned slot = slot_of(key);

    if (query->n++ == 0) {
        query->slot = slot;
        query->state = &call->server->cluster->slots[slot];
        query->first = key;
    }
    query->several = query->several || !sim_view_equal(query->first, key);
    query->missing += !is_channel && !sim_key_peek(&call->server->space, key);
    return slot == query->slot;
}

static void redirect(const struct sim_call *call, const char *word, const struct query *query,
                     unsigned node)
{
    sim_reply_errorf(call->reply, "%s %u %s", word, query->slot,
                     call->server->cluster->nodes[node].address);
}

/* Whether it is served here; if not, answers who does, or why nobody. */
static bool is_served(struct sim_call *call, const struct query *query)
{
    const struct sim_slot *state = query->state;
    bool asks = call->conn->asking && state->importing_from != 0;

    if (state->owner == 0) {
        sim_resp_error(call->reply, "CLUSTERDOWN Hash slot not served");
        return false;
    }
    if (state->owner == MYSELF && state->migrating_to != 0 && query->missing == query->n) {
        redirect(call, "ASK", query, state->migrating_to);
        return false;
    }
    if ((state->owner == MYSELF && state->migrating_to != 0 && query->missing > 0) ||
        (asks && query->several && query->missing > 0)) {
        sim_resp_error(call->reply, "TRYAGAIN Multiple keys request during rehashing of slot");
        return false;
    }
    if (state->owner != MYSELF && !asks) {
        redirect(call, "MOVED", query, state->owner);
        return false;
    }
    return true;
}

bool sim_cluster_serves(struct sim_call *call, const struct sim_keys_of *keys)
{
    struct query query = {0};

    if (!call->server->cluster || keys->n == 0) {
        return true;
    }
    for (size_t i = 0; i < keys->n; i++) {
        if (!add_key(call, &query, call->argv[keys->first + i], keys->are_channels)) {
            sim_resp_error(call->reply, "CROSSSLOT Keys in request don't hash to the same slot");
            return false;
        }
    }
    return is_served(call, &query);
}

/* ---- CLUSTER, ASKING ---- */

static unsigned node_of(const struct sim_cluster *cluster, struct sim_view id)
{
    for (unsigned node = 1; node <= cluster->n_nodes; node++) {
        if (sim_view_equal(id, (struct sim_view){cluster->nodes[node].id, SIM_NODE_ID_LEN})) {
            return node;
        }
    }
    return 0;
}

static bool has_keys(const struct sim_server *server, unsigned slot)
{
    struct sim_key_info info = {.n_items = 0};

    while (sim_server_next_key(server, &info)) {
        if (slot_of(info.name) == slot) {
            return true;
        }
    }
    return false;
}

static void set_owner(struct sim_call *call, unsigned slot, unsigned node)
{
    struct sim_slot *state = &call->server->cluster->slots[slot];
    bool is_empty = !has_keys(call->server, slot);

    if (state->owner == MYSELF && node != MYSELF && !is_empty) {
        sim_reply_errorf(call->reply,
                         "ERR Can't assign hashslot %u to a different node while I still hold keys "
                         "for this hash slot.",
                         slot);
        return;
    }
    if (is_empty) {
        state->migrating_to = 0;
    }
    if (state->owner == MYSELF) {
        sim_pubsub_drop_slot(call->server, slot);
    }
    state->owner = (unsigned char)node;
    if (node == MYSELF) {
        state->importing_from = 0;
    }
    sim_resp_status(call->reply, "OK");
}

static void cmd_setslot(struct sim_call *call)
{
    struct sim_cluster *cluster = call->server->cluster;
    unsigned node = call->argc > 4 ? node_of(cluster, call->argv[4]) : 0;
    struct sim_slot *state;
    int64_t slot;

    if (!sim_parse_int64(call->argv[2], &slot) || slot < 0 || slot >= RLOCK__SLOTS) {
        sim_resp_error(call->reply, "ERR Invalid or out of range slot");
        return;
    }
    state = &cluster->slots[slot];
    if (sim_word_is(call->argv[3], "migrating") && state->owner != MYSELF) {
        sim_reply_errorf(call->reply, "ERR I'm not the owner of hash slot %u", (unsigned)slot);
    } else if (sim_word_is(call->argv[3], "migrating")) {
        state->migrating_to = (unsigned char)node;
        sim_resp_status(call->reply, "OK");
    } else if (sim_word_is(call->argv[3], "importing") && state->owner == MYSELF) {
        sim_reply_errorf(call->reply, "ERR I'm already the owner of hash slot %u", (unsigned)slot);
    } else if (sim_word_is(call->argv[3], "importing")) {
        state->importing_from = (unsigned char)node;
        sim_resp_status(call->reply, "OK");
    } else if (sim_word_is(call->argv[3], "stable")) {
        state->migrating_to = state->importing_from = 0;
        sim_resp_status(call->reply, "OK");
    } else {
        set_owner(call, (unsigned)slot, node);
    }
}

static void cmd_myid(struct sim_call *call)
{
    sim_resp_bulk(call->reply, call->server->cluster->nodes[MYSELF].id, SIM_NODE_ID_LEN);
}

static void cmd_keyslot(struct sim_call *call)
{
    sim_resp_integer(call->reply, slot_of(call->argv[2]));
}

static void cmd_asking(struct sim_call *call)
{
    call->conn->asking = true;
    sim_resp_status(call->reply, "OK");
}

static const struct sim_command cluster_subs[] = {
    {"setslot", -4, SIM_CMD_NOSCRIPT, cmd_setslot, NULL},
    {"myid", 2, 0, cmd_myid, NULL},
    {"keyslot", 3, 0, cmd_keyslot, NULL},
    {NULL, 0, 0, NULL, NULL},
};

const struct sim_command sim_commands_cluster[] = {
    {"asking", 1, 0, cmd_asking, NULL},
    {"cluster", -2, 0, NULL, cluster_subs},
    {NULL, 0, 0, NULL, NULL},
};

/* ---- Keys that move ---- */

bool sim_server_move_key(struct sim_server *from, struct sim_server *to, struct sim_view name)
{
    struct sim_key *key = sim_key_find(&from->space, name);

    if (!key || sim_key_find(&to->space, name)) {
        return false;
    }
    sim_key_move(&from->space, &to->space, key);
    return true;
}

void sim_server_drop_key(struct sim_server *server, struct sim_view name)
{
    struct sim_key *key = sim_key_find(&server->space, name);

    if (key) {
        sim_key_delete(&server->space, key);
    }
}
