/* SPDX-License-Identifier: Apache-2.0 */
#include "server_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64: enough for names. */
static uint64_t draw(struct sim_server *server)
{
    uint64_t z = (server->random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void update_clock(struct sim_server *server)
{
    server->space.now_ms = sim_server_clock_us(server) / 1000;
}

static void begin_process(struct sim_server *server)
{
    snprintf(server->run_id, sizeof(server->run_id), "%016" PRIx64 "%016" PRIx64 "%08" PRIx32,
             draw(server), draw(server), (uint32_t)draw(server));
    server->first_conn = server->next_conn;
    server->started_us = sim_server_clock_us(server);
}

static void forget_unsupported(struct sim_server *server)
{
    free(server->unsupported);
    server->unsupported = NULL;
}

static void conn_free(struct sim_server *server, struct sim_session *conn)
{
    sim_pubsub_leave_all(server, conn);
    sim_tracking_end(conn);
    HASH_DEL(server->conns, conn);
    for (int i = 0; i < 2; i++) {
        free(conn->channels[i].items);
    }
    sim_buf_fini(&conn->name);
    free(conn);
}

static void free_all_conns(struct sim_server *server)
{
    struct sim_session *conn;
    struct sim_session *next;

    HASH_ITER(hh, server->conns, conn, next) {
        conn_free(server, conn);
    }
}

void sim_server_reset(struct sim_server *server, uint64_t seed)
{
    assert(!server->busy);
    free_all_conns(server);
    sim_keyspace_clear(&server->space);
    sim_lua_forget(server->lua);
    forget_unsupported(server);
    server->now_us = 0;
    server->offset_us = 0;
    server->next_conn = 1;
    server->n_scripts_run = 0;
    server->n_writes = 0;
    server->cluster = sim_cluster_free(server->cluster);
    server->random = seed;
    update_clock(server);
    begin_process(server);
}

struct sim_server *sim_server_new(uint64_t seed)
{
    struct sim_server *server = calloc(1, sizeof(*server));

    if (!server) {
        abort();
    }
    server->commands = sim_command_index_new();
    server->lua = sim_lua_new(server);
    sim_server_reset(server, seed);
    return server;
}

struct sim_server *sim_server_free(struct sim_server *server)
{
    if (!server) {
        return NULL;
    }
    free_all_conns(server);
    sim_keyspace_clear(&server->space);
    forget_unsupported(server);
    server->cluster = sim_cluster_free(server->cluster);
    sim_lua_free(server->lua);
    sim_command_index_free(server->commands);
    sim_buf_fini(&server->reply);
    sim_buf_fini(&server->push);
    sim_words_fini(&server->words);
    free(server);
    return NULL;
}

void sim_server_set_events(struct sim_server *server, const struct sim_events *events)
{
    server->events = *events;
}

void sim_server_set_dialect(struct sim_server *server, enum sim_dialect dialect)
{
    server->dialect = dialect;
}

void sim_server_want_keys(struct sim_server *server, bool wants)
{
    server->wants_keys = wants;
}

/* ---- what it does not know ---- */

void sim_server_tolerate(struct sim_server *server, bool tolerate)
{
    server->tolerate = tolerate;
}

const char *sim_server_unsupported(const struct sim_server *server)
{
    return server->unsupported;
}

void sim_unsupported(struct sim_server *server, const char *what, struct sim_view which)
{
    char text[200];

    snprintf(text, sizeof(text), "%s: %.*s", what, (int)which.len, which.data);
    if (!server->tolerate) {
        fprintf(stderr, "the simulated server does not know this %s\n", text);
        abort();
    }
    if (!server->unsupported) {
        server->unsupported = strdup(text);
    }
}

/* ---- time ---- */

int64_t sim_server_clock_us(const struct sim_server *server)
{
    return SIM_EPOCH_US + server->now_us + server->offset_us;
}

void sim_server_set_time(struct sim_server *server, int64_t now_us)
{
    assert(!server->busy && now_us >= server->now_us);
    server->now_us = now_us;
    update_clock(server);
}

void sim_server_set_clock_offset(struct sim_server *server, int64_t offset_us)
{
    assert(!server->busy);
    server->offset_us = offset_us;
    update_clock(server);
}

/* ---- connections ---- */

struct sim_session *sim_session_find(const struct sim_server *server, uint64_t id)
{
    struct sim_session *conn;

    HASH_FIND(hh, server->conns, &id, sizeof(id), conn);
    return conn;
}

uint64_t sim_server_connect(struct sim_server *server)
{
    struct sim_session *conn = calloc(1, sizeof(*conn));

    assert(!server->busy);
    if (!conn) {
        abort();
    }
    conn->id = server->next_conn++;
    HASH_ADD(hh, server->conns, id, sizeof(conn->id), conn);
    return conn->id;
}

void sim_server_disconnect(struct sim_server *server, uint64_t conn)
{
    struct sim_session *session = sim_session_find(server, conn);

    assert(!server->busy);
    if (session) {
        conn_free(server, session);
    }
}

bool sim_server_is_connected(const struct sim_server *server, uint64_t conn)
{
    return sim_session_find(server, conn) != NULL;
}

void sim_session_kill(struct sim_server *server, struct sim_session *conn)
{
    uint64_t id = conn->id;

    conn_free(server, conn);
    if (server->events.on_close) {
        server->events.on_close(server->events.payload, id);
    }
}

static void send_frame(struct sim_server *server, const struct sim_session *conn,
                       struct sim_buf *buf, bool is_push)
{
    if (buf->len > 0 && server->events.on_frame) {
        server->events.on_frame(server->events.payload, conn->id, buf->data, buf->len, is_push);
    }
    buf->len = 0;
}

void sim_push(struct sim_server *server, struct sim_session *conn)
{
    send_frame(server, conn, &server->push, true);
}

static void execute(struct sim_server *server, struct sim_session *conn, const char *resp,
                    size_t len)
{
    struct sim_call call = {.server = server, .conn = conn, .reply = &server->reply};

    if (!sim_resp_read_command(resp, len, &server->words)) {
        sim_resp_error(&server->reply, "ERR Protocol error");
        conn->closing = true;
        return;
    }
    call.argv = server->words.words;
    call.argc = server->words.n;
    if (call.argc > 0) {
        sim_dispatch(&call);
        conn->asking = conn->asking && sim_word_is(call.argv[0], "asking");
    }
}

void sim_server_refuses(struct sim_server *server, uint64_t conn)
{
    struct sim_session *session = sim_session_find(server, conn);

    if (session != NULL) {
        session->asking = false;
    }
}

bool sim_server_command(struct sim_server *server, uint64_t conn, const char *resp, size_t len)
{
    struct sim_session *session = sim_session_find(server, conn);

    assert(!server->busy);
    if (!session) {
        return false;
    }
    server->busy = true;
    execute(server, session, resp, len);
    sim_tracking_tell(server);
    send_frame(server, session, &server->reply, false);
    if (session->closing) {
        sim_session_kill(server, session);
    }
    server->busy = false;
    return true;
}

bool sim_server_words(struct sim_server *server, uint64_t conn, const char *const *words)
{
    struct sim_words views = {NULL, 0, 0};
    struct sim_buf command = SIM_BUF_NULL;
    bool open;

    for (; *words != NULL; words++) {
        sim_words_add(&views, (struct sim_view){*words, strlen(*words)});
    }
    sim_resp_command(&command, views.words, views.n);
    open = sim_server_command(server, conn, command.data, command.len);
    sim_buf_fini(&command);
    sim_words_fini(&views);
    return open;
}

/* ---- faults ---- */

void sim_server_script_flush(struct sim_server *server)
{
    assert(!server->busy);
    sim_lua_forget(server->lua);
}

void sim_server_replicate(const struct sim_server *from, struct sim_server *to)
{
    sim_keyspace_copy(&from->space, &to->space);
}

void sim_server_restart(struct sim_server *server, bool keep_data)
{
    assert(!server->busy);
    server->busy = true;
    while (server->conns) {
        sim_session_kill(server, server->conns);
    }
    server->busy = false;
    if (!keep_data) {
        sim_keyspace_clear(&server->space);
    }
    sim_lua_forget(server->lua);
    begin_process(server);
}
