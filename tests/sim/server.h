/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Redis server as one object: single-threaded, in memory, without sockets, and a function of its
 * inputs alone. It speaks RESP2, runs real Lua scripts in a Lua 5.1 state, and answers byte for
 * byte as redis 7.0 does, which test_keyspace.c holds it to. What it does not know it does not
 * guess: see sim_server_tolerate.
 *
 * Time is the caller's. The server's wall clock is SIM_EPOCH_US + now + offset, the offset being
 * for clocks that step. It stands still while a command or a script runs.
 *
 * All callbacks run inside the call that causes them and must not call back into the server.
 */
#ifndef RLOCK_TESTS_SIM_SERVER_H
#define RLOCK_TESTS_SIM_SERVER_H

#include "resp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_EPOCH_US INT64_C(1700000000000000)

struct sim_server;

/* One reply, acknowledgement or message for one connection; the bytes are gone after the call. */
typedef void sim_frame_fn(void *payload, uint64_t conn, const char *bytes, size_t len,
                          bool is_push);

/* The server closed the connection by itself (CLIENT KILL, bad bytes, a restart). Frames that are
   still on their way may be dropped or delivered, as on a network. */
typedef void sim_close_fn(void *payload, uint64_t conn);

/* It published a message on a plain channel: other nodes of its cluster deliver that as well. */
typedef void sim_publish_fn(void *payload, struct sim_view channel, struct sim_view message);

struct sim_events {
    sim_frame_fn *on_frame; /* each may be NULL */
    sim_close_fn *on_close;
    sim_publish_fn *on_publish;
    void *payload;
};

/* The seed decides the run ids, nothing else. */
struct sim_server *sim_server_new(uint64_t seed);
struct sim_server *sim_server_free(struct sim_server *server);

/* As good as free and new (time 0, offset 0, ids from 1; events, tolerance and dialect stay), but
   the Lua state and the compiled scripts stay. No callback runs. */
void sim_server_reset(struct sim_server *server, uint64_t seed);

void sim_server_set_events(struct sim_server *server, const struct sim_events *events);

/* A script may touch only keys that it declares, unless its first line is "--!df
   flags=allow-undeclared-keys", as on Dragonfly; another key is noted as something unknown. */
void sim_server_want_keys(struct sim_server *server, bool wants);

/* Unknown commands, options and Lua globals abort the process with a message, unless tolerated:
   then the command answers with an error, and the first such text is kept. */
void sim_server_tolerate(struct sim_server *server, bool tolerate);
const char *sim_server_unsupported(const struct sim_server *server); /* NULL if there was none */

/* What it imitates. Of valkey 8 only what a client can trip over: UNSUBSCRIBE and SUNSUBSCRIBE on a
   connection without any subscription is an error there, and no acknowledgement. Of redis 6.2 that
   PEXPIRE takes no options. Kept by a reset. */
enum sim_dialect {
    SIM_REDIS_7,
    SIM_VALKEY_8,
    SIM_REDIS_6,
};

void sim_server_set_dialect(struct sim_server *server, enum sim_dialect dialect);

/* ---- time ---- */

/* Never goes backwards. */
void sim_server_set_time(struct sim_server *server, int64_t now_us);
void sim_server_set_clock_offset(struct sim_server *server, int64_t offset_us);
int64_t sim_server_clock_us(const struct sim_server *server);

/* ---- connections ---- */

/* Numbers grow and are never used twice before a reset. CLIENT ID is the same number until a
   restart; there it begins again at 1, as in a new process, so that ids from before can hit
   strangers. */
uint64_t sim_server_connect(struct sim_server *server);

/* The peer went away; on_close is not called. */
void sim_server_disconnect(struct sim_server *server, uint64_t conn);
bool sim_server_is_connected(const struct sim_server *server, uint64_t conn);

/* Executes one whole command. Returns false if there is no such connection: the bytes fell into a
   closed socket. */
bool sim_server_command(struct sim_server *server, uint64_t conn, const char *resp, size_t len);
/* The connection's command is answered without it; an ASKING before it is used up all the same. */
void sim_server_refuses(struct sim_server *server, uint64_t conn);

/* The same of words; the last one is NULL. */
bool sim_server_words(struct sim_server *server, uint64_t conn, const char *const *words);

/* ---- faults ---- */

/* The second one has the keys of the first, and no others. */
void sim_server_replicate(const struct sim_server *from, struct sim_server *to);
void sim_server_script_flush(struct sim_server *server);

/* ---- a node of a cluster, until the next reset ---- */

#define SIM_NODE_ID_LEN 40

/* It knows a node: first itself, which is node 1, then others, 2 and so on. */
void sim_server_join(struct sim_server *server, const char *id, const char *address);
/* Moves a key to another node, as MIGRATE does. False where it is not there, or is there already.
 */
bool sim_server_move_key(struct sim_server *from, struct sim_server *to, struct sim_view name);
/* As a node drops what is of a slot that is not its own. */
void sim_server_drop_key(struct sim_server *server, struct sim_view name);
/* These slots are that node's (0: nobody's), and not being moved. */
void sim_server_assign(struct sim_server *server, unsigned from, unsigned to, unsigned node);

/* A new process: connections are closed (on_close), scripts forgotten, run id new, uptime 0. Kept
   keys keep their time of death, so time spent down counts against them. */
void sim_server_restart(struct sim_server *server, bool keep_data);

/* ---- looking inside, without side effects ---- */

enum sim_type {
    SIM_NONE,
    SIM_STRING,
    SIM_HASH,
    SIM_LIST,
    SIM_ZSET,
};

struct sim_key_info {
    struct sim_view name;
    enum sim_type type;
    int64_t pttl_ms; /* -1: never expires */
    size_t n_items;  /* fields, elements, members; 1 for a string */
    const void *internal;
};

struct sim_item_info {
    struct sim_view name;  /* field, element, member */
    struct sim_view value; /* of the field; the string */
    double score;
};

/* Live keys in the order of their creation. Zero the struct to begin; false means there are no
   more. Any command in between ends the iteration. */
bool sim_server_next_key(const struct sim_server *server, struct sim_key_info *info);
bool sim_server_find_key(const struct sim_server *server, struct sim_view name,
                         struct sim_key_info *ret_info);

/* Item i < n_items: hashes in insertion order, lists and zsets in their own. */
struct sim_item_info sim_key_item(const struct sim_key_info *info, size_t i);

/* False if there is no such hash or no such field. A string that is the field counts as one with
 * the value 1: the lock of SET NX. */
bool sim_server_find_field(const struct sim_server *server, struct sim_view key,
                           struct sim_view field, struct sim_view *ret_value);

/* Delivers what another node published. */
void sim_server_deliver(struct sim_server *server, struct sim_view channel,
                        struct sim_view message);

size_t sim_server_n_conns(const struct sim_server *server);
size_t sim_server_n_channels(const struct sim_server *server); /* plain and sharded together */
size_t sim_server_n_subscribers(const struct sim_server *server, struct sim_view channel,
                                bool sharded);
/* Whether the connection is one of these. */
bool sim_server_hears(const struct sim_server *server, uint64_t conn, struct sim_view channel,
                      bool sharded);
/* Whether the server will tell the connection of the next change of the key. */
bool sim_server_tracks(const struct sim_server *server, uint64_t conn, struct sim_view key);
uint64_t sim_server_n_scripts_run(const struct sim_server *server);
/* How many commands changed something. */
uint64_t sim_server_n_writes(const struct sim_server *server);

#endif
