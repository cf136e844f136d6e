/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the simulated server share; nobody else includes this. */
#ifndef RLOCK_TESTS_SIM_SERVER_IMPL_H
#define RLOCK_TESTS_SIM_SERVER_IMPL_H

#include "keyspace.h"
#include "lua_env.h"

#define SIM_WRONGTYPE "WRONGTYPE Operation against a key holding the wrong kind of value"
#define SIM_NOT_INTEGER "ERR value is not an integer or out of range"
#define SIM_NOT_FLOAT "ERR value is not a valid float"
#define SIM_SYNTAX_ERROR "ERR syntax error"

#define SIM_RUN_ID_LEN 40

/* A vector of pointers in order of arrival. */
struct sim_list {
    void **items;
    size_t n_items;
    size_t cap_items;
};

void sim_list_add(struct sim_list *list, void *item);
bool sim_list_remove(struct sim_list *list, const void *item); /* false: it was not there */
bool sim_list_has(const struct sim_list *list, const void *item);

struct sim_session {
    UT_hash_handle hh;
    uint64_t id;
    struct sim_buf name;
    struct sim_list channels[2]; /* struct sim_channel: plain, sharded */
    struct sim_list tracked;     /* keys that the server tracks for it: tracking.c */
    bool tracks;
    bool is_version_3; /* of the protocol; of that the server has pushes alone */
    bool closing;      /* after the reply */
    bool asking;       /* its next command is for a slot that is imported */
};

struct sim_channel {
    UT_hash_handle hh;
    char *name;
    size_t name_len;
    struct sim_list subscribers; /* struct sim_session */
};

struct sim_server {
    struct sim_keyspace space;
    struct sim_session *conns;
    struct sim_channel *channels[2]; /* plain, sharded */
    struct sim_command_index *commands;
    struct sim_lua *lua;
    uint64_t n_scripts_run;
    uint64_t n_writes;
    struct sim_events events;

    int64_t now_us;
    int64_t offset_us;
    int64_t started_us; /* wall clock */
    uint64_t next_conn;
    uint64_t first_conn; /* of this process: CLIENT ID counts from here */
    uint64_t random;
    char run_id[SIM_RUN_ID_LEN + 1];

    struct sim_buf reply; /* of the command in execution */
    struct sim_buf push;  /* of the message that is being sent */
    struct sim_words words;

    struct sim_cluster *cluster; /* NULL: it is alone */
    enum sim_dialect dialect;
    char *unsupported;
    bool tolerate;
    bool wants_keys; /* that scripts touch are declared */
    bool busy;       /* a command is in execution */
};

/* One command in execution, from a connection or from a script. */
struct sim_call {
    struct sim_server *server;
    struct sim_session *conn; /* who asked; for a command in a script, who asked for the script */
    const struct sim_view *argv;
    size_t argc;
    struct sim_buf *reply;
    bool in_script;
};

typedef void sim_command_fn(struct sim_call *call);

enum {
    SIM_CMD_NOSCRIPT = 1, /* refused inside scripts */
    SIM_CMD_PUBSUB = 2,   /* allowed on a connection that has subscribed */
};

struct sim_command {
    const char *name; /* lower case */
    int arity;        /* the number of words, both names included; negative: at least so many */
    unsigned flags;
    sim_command_fn *run;
    const struct sim_command *subs; /* CLIENT ID and its like; ends with a name NULL */
};

/* One table per file; each ends with a name NULL. */
extern const struct sim_command sim_commands_keys[];
extern const struct sim_command sim_commands_string[];
extern const struct sim_command sim_commands_hash[];
extern const struct sim_command sim_commands_list[];
extern const struct sim_command sim_commands_zset[];
extern const struct sim_command sim_commands_pubsub[];
extern const struct sim_command sim_commands_script[];
extern const struct sim_command sim_commands_admin[];
extern const struct sim_command sim_commands_cluster[];

/* All the tables by name. */
struct sim_command_index;
struct sim_command_index *sim_command_index_new(void);
struct sim_command_index *sim_command_index_free(struct sim_command_index *index);

/* Looks up the command, checks the number of its words and whether it may run here, and runs it. */
void sim_dispatch(struct sim_call *call);

/* Names what a real server has and this one lacks: aborts, or remembers. The caller answers. */
void sim_unsupported(struct sim_server *server, const char *what, struct sim_view which);

/* ---- for commands ---- */

char sim_to_lower(char c);
bool sim_word_is(struct sim_view word, const char *lower_case);

/* Finds the key that is word *at*. If it is there with another type, answers WRONGTYPE and returns
   false; *ret_key is NULL when it is not there at all. */
bool sim_typed_key(struct sim_call *call, size_t at, enum sim_type type, struct sim_key **ret_key);

/* The same, and creates it when it is not there. Returns NULL after WRONGTYPE. */
struct sim_key *sim_typed_key_or_new(struct sim_call *call, size_t at, enum sim_type type);

/* An empty hash, list or sorted set is no key. */
void sim_delete_if_empty(struct sim_call *call, struct sim_key *key);

/* Reads word *at* as an integer, or answers with the error. */
bool sim_int_arg(struct sim_call *call, size_t at, int64_t *ret_number);
bool sim_double_arg(struct sim_call *call, size_t at, double *ret_number);

void sim_reply_errorf(struct sim_buf *reply, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* An option that only a real server understands. */
void sim_reply_unsupported_option(struct sim_call *call, size_t at);

/* Answers with a score. */
void sim_reply_double(struct sim_buf *reply, double number);
void sim_reply_view(struct sim_buf *reply, struct sim_view view);

/* Redis' way with two indices into a row of n: negative ones count from the end. Returns how many
   are selected, from *start on. */
size_t sim_clamp_range(int64_t *start, int64_t stop, size_t n);

/* ---- connections ---- */

struct sim_session *sim_session_find(const struct sim_server *server, uint64_t id);

/* Closes from the server's side. */
void sim_session_kill(struct sim_server *server, struct sim_session *conn);

/* Sends the server's push buffer as one frame, and empties it. */
void sim_push(struct sim_server *server, struct sim_session *conn);

void sim_pubsub_leave_all(struct sim_server *server, struct sim_session *conn);
/* Tells the subscribers of the slot's sharded channels that they are none any more. */
void sim_pubsub_drop_slot(struct sim_server *server, unsigned slot);
size_t sim_n_subscriptions(const struct sim_session *conn);

/* ---- tracking.c ---- */

/* A connection reads a key. If it tracks keys, the server tells it of the key's next change. */
void sim_tracking_read(struct sim_call *call, struct sim_view name);
/* A command was executed: tells of the keys that have changed. */
void sim_tracking_tell(struct sim_server *server);
void sim_tracking_end(struct sim_session *conn);

/* ---- slots.c ---- */

struct sim_cluster *sim_cluster_free(struct sim_cluster *cluster);

/* Which words of a command are keys, or channels that have a slot. */
struct sim_keys_of {
    size_t first, n;
    bool are_channels;
};

/* Whether this node serves a command with these keys; if not, answers it. */
bool sim_cluster_serves(struct sim_call *call, const struct sim_keys_of *keys);

#endif
