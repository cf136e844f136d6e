/* SPDX-License-Identifier: Apache-2.0 */
#include "server_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LEN 32

struct entry {
    UT_hash_handle hh;
    const struct sim_command *command;
};

struct sim_command_index {
    struct entry *by_name;
};

static void index_table(struct sim_command_index *index, const struct sim_command *table)
{
    for (const struct sim_command *command = table; command->name; command++) {
        struct entry *entry = calloc(1, sizeof(*entry));

        if (!entry) {
            abort();
        }
        entry->command = command;
        HASH_ADD_KEYPTR(hh, index->by_name, command->name, strlen(command->name), entry);
    }
}

struct sim_command_index *sim_command_index_new(void)
{
    struct sim_command_index *index = calloc(1, sizeof(*index));

    if (!index) {
        abort();
    }
    index_table(index, sim_commands_keys);
    index_table(index, sim_commands_string);
    index_table(index, sim_commands_hash);
    index_table(index, sim_commands_list);
    index_table(index, sim_commands_zset);
    index_table(index, sim_commands_pubsub);
    index_table(index, sim_commands_script);
    index_table(index, sim_commands_admin);
    index_table(index, sim_commands_cluster);
    return index;
}

struct sim_command_index *sim_command_index_free(struct sim_command_index *index)
{
    struct entry *entry;
    struct entry *next;

    HASH_ITER(hh, index->by_name, entry, next) {
        HASH_DEL(index->by_name, entry);
        free(entry);
    }
    free(index);
    return NULL;
}

char sim_to_lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

bool sim_word_is(struct sim_view word, const char *lower_case)
{
    for (size_t i = 0; i < word.len; i++) {
        if (lower_case[i] == '\0' || sim_to_lower(word.data[i]) != lower_case[i]) {
            return false;
        }
    }
    return lower_case[word.len] == '\0';
}

static const struct sim_command *find_command(const struct sim_server *server, struct sim_view name)
{
    char lower[NAME_MAX_LEN];
    const struct entry *entry = NULL;

    if (name.len > sizeof(lower)) {
        return NULL;
    }
    for (size_t i = 0; i < name.len; i++) {
        lower[i] = sim_to_lower(name.data[i]);
    }
    HASH_FIND(hh, server->commands->by_name, lower, name.len, entry);
    return entry ? entry->command : NULL;
}

static const struct sim_command *find_sub(const struct sim_command *subs, struct sim_view name)
{
    while (subs->name && !sim_word_is(name, subs->name)) {
        subs++;
    }
    return subs->name ? subs : NULL;
}

static void answer_unknown(struct sim_call *call)
{
    struct sim_view name = call->argv[0];
    char args[256] = "";
    size_t len = 0;

    sim_unsupported(call->server, "command", name);
    if (call->in_script) {
        sim_resp_error(call->reply, "ERR Unknown Redis command called from script");
        return;
    }
    for (size_t i = 1; i < call->argc && len < 128; i++) {
        len += (size_t)snprintf(args + len, sizeof(args) - len, "'%.*s' ",
                                (int)(call->argv[i].len < 100 ? call->argv[i].len : 100),
                                call->argv[i].data);
    }
    sim_reply_errorf(call->reply, "ERR unknown command '%.*s', with args beginning with: %s",
                     (int)(name.len < 128 ? name.len : 128), name.data, args);
}

static void answer_unknown_sub(struct sim_call *call)
{
    struct sim_view sub = call->argv[1];
    char container[NAME_MAX_LEN + 1] = "";

    sim_unsupported(call->server, "subcommand", sub);
    if (call->in_script) {
        sim_resp_error(call->reply, "ERR Unknown Redis command called from script");
        return;
    }
    for (size_t i = 0; i < call->argv[0].len; i++) {
        char c = sim_to_lower(call->argv[0].data[i]);

        container[i] = (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    }
    sim_reply_errorf(call->reply, "ERR unknown subcommand '%.*s'. Try %s HELP.",
                     (int)(sub.len < 128 ? sub.len : 128), sub.data, container);
}

static bool check_arity(struct sim_call *call, const struct sim_command *command,
                        const struct sim_command *container)
{
    int64_t argc = (int64_t)call->argc;

    if (command->arity < 0 ? argc >= -command->arity : argc == command->arity) {
        return true;
    }
    if (call->in_script) {
        sim_resp_error(call->reply, "ERR Wrong number of args calling Redis command from script");
    } else {
        sim_reply_errorf(call->reply, "ERR wrong number of arguments for '%s%s%s' command",
                         container ? container->name : "", container ? "|" : "", command->name);
    }
    return false;
}

static bool check_place(struct sim_call *call, const struct sim_command *command)
{
    if (call->in_script && (command->flags & SIM_CMD_NOSCRIPT)) {
        sim_resp_error(call->reply, "ERR This Redis command is not allowed from script");
        return false;
    }
    if (!call->in_script && !(command->flags & SIM_CMD_PUBSUB) &&
        !call->conn->tracks && /* that takes version 3 of the protocol */
        sim_n_subscriptions(call->conn) > 0) {
        sim_reply_errorf(call->reply,
                         "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / "
                         "QUIT / RESET are allowed in this context",
                         command->name);
        return false;
    }
    return true;
}

static bool is_in(const struct sim_command *table, const struct sim_command *command)
{
    while (table->name && table != command) {
        table++;
    }
    return table == command;
}

/* Where the keys are that decide which node serves a command. */
static struct sim_keys_of keys_of(const struct sim_call *call, const struct sim_command *command)
{
    bool has_key = is_in(sim_commands_string, command) || is_in(sim_commands_hash, command) ||
                   is_in(sim_commands_list, command) || is_in(sim_commands_zset, command);
    bool is_channel = sim_word_is(call->argv[0], "spublish");
    bool are_channels =
        sim_word_is(call->argv[0], "ssubscribe") || sim_word_is(call->argv[0], "sunsubscribe");
    bool are_keys = sim_word_is(call->argv[0], "del") || sim_word_is(call->argv[0], "exists");
    bool is_script = sim_word_is(call->argv[0], "eval") || sim_word_is(call->argv[0], "evalsha");
    bool is_scan = sim_word_is(call->argv[0], "keys") || sim_word_is(call->argv[0], "scan") ||
                   sim_word_is(call->argv[0], "flushall") || sim_word_is(call->argv[0], "dbsize");
    int64_t n;

    if (is_script && sim_parse_int64(call->argv[2], &n) && n > 0 && n <= (int64_t)call->argc - 3) {
        return (struct sim_keys_of){.first = 3, .n = (size_t)n};
    }
    if (are_keys || are_channels) {
        return (struct sim_keys_of){1, call->argc - 1, are_channels};
    }
    if (has_key || is_channel || (is_in(sim_commands_keys, command) && !is_scan)) {
        return (struct sim_keys_of){1, 1, is_channel};
    }
    return (struct sim_keys_of){.n = 0};
}

/* Whether it changed something that replicas are told of. What changes nothing answers 0, if it is
 * one that may. */
static bool has_written(const struct sim_call *call, const struct sim_command *command, size_t len)
{
    static const char *const reads[] = {
        "exists", "type",   "ttl",     "pttl",  "keys",   "scan",          "dbsize", "get",
        "hget",   "hmget",  "hexists", "hlen",  "hkeys",  "llen",          "lindex", "lrange",
        "lpos",   "zscore", "zcard",   "zrank", "zrange", "zrangebyscore", "hgetall"};
    bool writes = is_in(sim_commands_keys, command) || is_in(sim_commands_string, command) ||
                  is_in(sim_commands_hash, command) || is_in(sim_commands_list, command) ||
                  is_in(sim_commands_zset, command);

    for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
        writes = writes && strcmp(command->name, reads[i]) != 0;
    }
    if (strcmp(command->name, "pexpire") == 0) {
        writes = writes && memcmp(call->reply->data + len, ":1", 2) == 0;
    }
    return writes;
}

/* Whether this node may run it; if not, answers that. */
static bool check_node(struct sim_call *call, const struct sim_command *command)
{
    struct sim_keys_of keys;
    size_t len = call->reply->len;

    if (!call->server->cluster) {
        return true;
    }
    keys = keys_of(call, command);
    if (sim_cluster_serves(call, &keys)) {
        return true;
    }
    if (call->in_script) {
        call->reply->len = len;
        sim_resp_error(call->reply,
                       "ERR Script attempted to access a non local key in a cluster node");
    }
    return false;
}

/* Whether the script that runs it, if one does, may touch its keys; if not, answers that. */
static bool check_declared(struct sim_call *call, const struct sim_command *command)
{
    struct sim_keys_of keys = {0};

    if (call->in_script && call->server->wants_keys) {
        keys = keys_of(call, command);
    }
    for (size_t i = keys.first; !keys.are_channels && i < keys.first + keys.n; i++) {
        if (!sim_lua_may_touch(call->server->lua, call->argv[i])) {
            sim_unsupported(call->server, "undeclared key", call->argv[i]);
            sim_resp_error(call->reply, "ERR script tried accessing undeclared key");
            return false;
        }
    }
    return true;
}

void sim_dispatch(struct sim_call *call)
{
    const struct sim_command *command = find_command(call->server, call->argv[0]);
    const struct sim_command *container = NULL;

    if (!command) {
        answer_unknown(call);
        return;
    }
    if (is_in(sim_commands_cluster, command) && !call->server->cluster) {
        sim_resp_error(call->reply, "ERR This instance has cluster support disabled");
        return;
    }
    if (command->subs && call->argc > 1) {
        container = command;
        command = find_sub(container->subs, call->argv[1]);
        if (!command) {
            answer_unknown_sub(call);
            return;
        }
    }
    if (check_arity(call, command, container) &&
        (container || (check_declared(call, command) && check_node(call, command))) &&
        check_place(call, command)) {
        size_t len = call->reply->len;

        command->run(call);
        call->server->n_writes += has_written(call, command, len);
    }
}

/* ---- help for commands ---- */

void sim_reply_errorf(struct sim_buf *reply, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    sim_resp_error(reply, text);
}

void sim_reply_unsupported_option(struct sim_call *call, size_t at)
{
    sim_unsupported(call->server, "option", call->argv[at]);
    sim_resp_error(call->reply, SIM_SYNTAX_ERROR);
}

bool sim_typed_key(struct sim_call *call, size_t at, enum sim_type type, struct sim_key **ret_key)
{
    *ret_key = sim_key_find(&call->server->space, call->argv[at]);
    if (*ret_key && (*ret_key)->type != type) {
        sim_resp_error(call->reply, SIM_WRONGTYPE);
        return false;
    }
    return true;
}

struct sim_key *sim_typed_key_or_new(struct sim_call *call, size_t at, enum sim_type type)
{
    struct sim_key *key;

    if (!sim_typed_key(call, at, type, &key)) {
        return NULL;
    }
    return key ? key : sim_key_create(&call->server->space, call->argv[at], type);
}

void sim_delete_if_empty(struct sim_call *call, struct sim_key *key)
{
    if (key->n_items == 0) {
        sim_key_delete(&call->server->space, key);
    }
}

bool sim_int_arg(struct sim_call *call, size_t at, int64_t *ret_number)
{
    if (!sim_parse_int64(call->argv[at], ret_number)) {
        sim_resp_error(call->reply, SIM_NOT_INTEGER);
        return false;
    }
    return true;
}

bool sim_double_arg(struct sim_call *call, size_t at, double *ret_number)
{
    if (!sim_parse_double(call->argv[at], ret_number)) {
        sim_resp_error(call->reply, SIM_NOT_FLOAT);
        return false;
    }
    return true;
}

void sim_reply_double(struct sim_buf *reply, double number)
{
    char text[40];
    int len;

    if (isinf(number)) {
        len = snprintf(text, sizeof(text), "%s", number > 0 ? "inf" : "-inf");
    } else {
        len = snprintf(text, sizeof(text), "%.17g", number);
    }
    sim_resp_bulk(reply, text, (size_t)len);
}

void sim_reply_view(struct sim_buf *reply, struct sim_view view)
{
    sim_resp_bulk(reply, view.data, view.len);
}

size_t sim_clamp_range(int64_t *start, int64_t stop, size_t n)
{
    int64_t count = (int64_t)n;

    if (*start < 0) {
        *start = *start + count > 0 ? *start + count : 0;
    }
    if (stop < 0) {
        stop += count;
    }
    if (stop >= count) {
        stop = count - 1;
    }
    return *start > stop ? 0 : (size_t)(stop - *start + 1);
}
