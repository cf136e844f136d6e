/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CLIENT TRACKING: a connection reads a key, and the server tells it of the key's next change. The
 * server deletes an expired key, and tells of that, when the next command runs. Only PTTL counts as
 * reading, since rlock looks with PTTL. A connection of version 2 of the protocol gets an array in
 * place of a push.
 */
#include "server_impl.h"

#include <stdlib.h>
#include <string.h>

struct sim_tracked {
    char *name;
    size_t name_len;
    uint64_t state; /* of the key, when it was read */
};

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Another number for each value, lease and type of the key; 0: there is no key. */
static uint64_t state_of(const struct sim_server *server, struct sim_view name)
{
    const struct sim_key *key = sim_key_peek(&server->space, name);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    if (!key) {
        return 0;
    }
    hash = mix(hash, &key->type, sizeof(key->type));
    hash = mix(hash, &key->expire_at_ms, sizeof(key->expire_at_ms));
    hash = mix(hash, &key->n_items, sizeof(key->n_items));
    return mix(hash, key->string.data, key->string.len) | 1;
}

static void drop(struct sim_session *conn, size_t at)
{
    struct sim_tracked *tracked = conn->tracked.items[at];

    sim_list_remove(&conn->tracked, tracked);
    free(tracked->name);
    free(tracked);
}

void sim_tracking_read(struct sim_call *call, struct sim_view name)
{
    struct sim_tracked *tracked;

    if (!call->conn->tracks || call->in_script) {
        return;
    }
    for (size_t i = call->conn->tracked.n_items; i > 0; i--) {
        tracked = call->conn->tracked.items[i - 1];
        if (tracked->name_len == name.len && memcmp(tracked->name, name.data, name.len) == 0) {
            drop(call->conn, i - 1);
        }
    }
    tracked = calloc(1, sizeof(*tracked));
    if (!tracked || !(tracked->name = malloc(name.len + 1))) {
        abort();
    }
    memcpy(tracked->name, name.data, name.len);
    tracked->name_len = name.len;
    tracked->state = state_of(call->server, name);
    sim_list_add(&call->conn->tracked, tracked);
}

static void tell(struct sim_server *server, struct sim_session *conn, size_t at)
{
    const struct sim_tracked *tracked = conn->tracked.items[at];
    struct sim_view name = {tracked->name, tracked->name_len};

    if (state_of(server, name) == tracked->state) {
        return;
    }
    if (conn->is_version_3) {
        sim_resp_push(&server->push, 2);
    } else {
        sim_resp_array(&server->push, 2);
    }
    sim_resp_bulk(&server->push, "invalidate", 10);
    sim_resp_array(&server->push, 1);
    sim_resp_bulk(&server->push, name.data, name.len);
    sim_push(server, conn);
    drop(conn, at);
}

void sim_tracking_tell(struct sim_server *server)
{
    struct sim_session *conn;
    struct sim_session *next;

    HASH_ITER(hh, server->conns, conn, next) {
        for (size_t i = conn->tracked.n_items; i > 0; i--) {
            tell(server, conn, i - 1);
        }
    }
}

bool sim_server_tracks(const struct sim_server *server, uint64_t conn, struct sim_view key)
{
    const struct sim_session *session = sim_session_find(server, conn);
    bool has = false;

    for (size_t i = 0; session && i < session->tracked.n_items; i++) {
        const struct sim_tracked *tracked = session->tracked.items[i];
        struct sim_view name = {tracked->name, tracked->name_len};

        has = has || sim_view_equal(name, key);
    }
    return has;
}

void sim_tracking_end(struct sim_session *conn)
{
    while (conn->tracked.n_items > 0) {
        drop(conn, conn->tracked.n_items - 1);
    }
    free(conn->tracked.items);
}
