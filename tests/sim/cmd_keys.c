/* SPDX-License-Identifier: Apache-2.0 */
#include "server_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void cmd_exists(struct sim_call *call)
{
    int64_t found = 0;

    for (size_t i = 1; i < call->argc; i++) {
        found += sim_key_find(&call->server->space, call->argv[i]) != NULL;
    }
    sim_resp_integer(call->reply, found);
}

static void cmd_del(struct sim_call *call)
{
    int64_t deleted = 0;

    for (size_t i = 1; i < call->argc; i++) {
        struct sim_key *key = sim_key_find(&call->server->space, call->argv[i]);

        if (key) {
            sim_key_delete(&call->server->space, key);
            deleted++;
        }
    }
    sim_resp_integer(call->reply, deleted);
}

static void cmd_type(struct sim_call *call)
{
    static const char *const names[] = {"none", "string", "hash", "list", "zset"};
    const struct sim_key *key = sim_key_find(&call->server->space, call->argv[1]);

    sim_resp_status(call->reply, names[key ? key->type : SIM_NONE]);
}

/* Whether the options may be there: GT alone, that of redis 7.0. */
static bool reads_options(struct sim_call *call, const char *name, bool *ret_longer)
{
    *ret_longer = call->argc == 4 && sim_word_is(call->argv[3], "gt");
    if (call->argc > 3 && call->server->dialect == SIM_REDIS_6) {
        sim_reply_errorf(call->reply, "ERR wrong number of arguments for '%s' command", name);
        return false;
    }
    if (call->argc > 3 && !*ret_longer) {
        sim_reply_unsupported_option(call, 3);
        return false;
    }
    return true;
}

static void expire(struct sim_call *call, const char *name, int64_t base_ms)
{
    struct sim_keyspace *space = &call->server->space;
    struct sim_key *key;
    int64_t when;
    bool longer;

    if (!reads_options(call, name, &longer) || !sim_int_arg(call, 2, &when)) {
        return;
    }
    if (when > INT64_MAX - base_ms) {
        sim_reply_errorf(call->reply, "ERR invalid expire time in '%s' command", name);
        return;
    }
    when += base_ms;
    key = sim_key_find(space, call->argv[1]);
    if (key && longer && (key->expire_at_ms == SIM_NEVER || when <= key->expire_at_ms)) {
        key = NULL;
    }
    if (key && when <= space->now_ms) {
        sim_key_delete(space, key);
    } else if (key) {
        key->expire_at_ms = when;
    }
    sim_resp_integer(call->reply, key != NULL);
}

static void cmd_pexpire(struct sim_call *call)
{
    expire(call, "pexpire", call->server->space.now_ms);
}

static void cmd_pexpireat(struct sim_call *call)
{
    expire(call, "pexpireat", 0);
}

static void cmd_pttl(struct sim_call *call)
{
    const struct sim_key *key = sim_key_find(&call->server->space, call->argv[1]);

    sim_tracking_read(call, call->argv[1]);
    if (!key) {
        sim_resp_integer(call->reply, -2);
    } else if (key->expire_at_ms == SIM_NEVER) {
        sim_resp_integer(call->reply, -1);
    } else {
        sim_resp_integer(call->reply, key->expire_at_ms - call->server->space.now_ms);
    }
}

static void cmd_persist(struct sim_call *call)
{
    struct sim_key *key = sim_key_find(&call->server->space, call->argv[1]);
    bool had_ttl = key && key->expire_at_ms != SIM_NEVER;

    if (had_ttl) {
        key->expire_at_ms = SIM_NEVER;
    }
    sim_resp_integer(call->reply, had_ttl);
}

static void reply_matching_keys(struct sim_call *call, struct sim_view pattern)
{
    struct sim_keyspace *space = &call->server->space;
    size_t n_matches = 0;

    sim_keyspace_purge(space);
    for (const struct sim_key *key = space->keys; key; key = key->hh.next) {
        n_matches += sim_glob_match(pattern, sim_view_of(key->name));
    }
    sim_resp_array(call->reply, n_matches);
    for (const struct sim_key *key = space->keys; key; key = key->hh.next) {
        if (sim_glob_match(pattern, sim_view_of(key->name))) {
            sim_reply_view(call->reply, sim_view_of(key->name));
        }
    }
}

static void cmd_keys(struct sim_call *call)
{
    reply_matching_keys(call, call->argv[1]);
}

static bool scan_options(struct sim_call *call, struct sim_view *pattern)
{
    int64_t count;

    for (size_t i = 2; i < call->argc; i += 2) {
        bool has_value = i + 1 < call->argc;

        if (has_value && sim_word_is(call->argv[i], "match")) {
            *pattern = call->argv[i + 1];
        } else if (has_value && sim_word_is(call->argv[i], "count")) {
            if (!sim_int_arg(call, i + 1, &count)) {
                return false;
            }
            if (count < 1) {
                sim_resp_error(call->reply, SIM_SYNTAX_ERROR);
                return false;
            }
        } else {
            sim_reply_unsupported_option(call, i);
            return false;
        }
    }
    return true;
}

/* What strtoul reads, -1 and -0 too, but without blanks in front. */
static bool read_cursor(struct sim_view word, unsigned long *ret_cursor)
{
    char text[32];
    char *end;

    if (word.len == 0 || word.len >= sizeof(text) || strchr(" \t\n\v\f\r", word.data[0])) {
        return false;
    }
    memcpy(text, word.data, word.len);
    text[word.len] = '\0';
    errno = 0;
    *ret_cursor = strtoul(text, &end, 10);
    return end == text + word.len && errno == 0;
}

/* All at once, whatever the count: a real server may do that, too. */
static void cmd_scan(struct sim_call *call)
{
    struct sim_view pattern = SIM_VIEW("*");
    unsigned long cursor;

    if (!read_cursor(call->argv[1], &cursor)) {
        sim_resp_error(call->reply, "ERR invalid cursor");
        return;
    }
    if (!scan_options(call, &pattern)) {
        return;
    }
    sim_resp_array(call->reply, 2);
    sim_resp_bulk(call->reply, "0", 1);
    if (cursor == 0) {
        reply_matching_keys(call, pattern);
    } else {
        sim_resp_array(call->reply, 0);
    }
}

static void cmd_flushall(struct sim_call *call)
{
    if (call->argc > 2 || (call->argc == 2 && !sim_word_is(call->argv[1], "sync") &&
                           !sim_word_is(call->argv[1], "async"))) {
        sim_resp_error(call->reply, SIM_SYNTAX_ERROR);
        return;
    }
    sim_keyspace_clear(&call->server->space);
    sim_resp_status(call->reply, "OK");
}

static void cmd_dbsize(struct sim_call *call)
{
    sim_keyspace_purge(&call->server->space);
    sim_resp_integer(call->reply, HASH_COUNT(call->server->space.keys));
}

const struct sim_command sim_commands_keys[] = {
    {"exists", -2, 0, cmd_exists, NULL},
    {"del", -2, 0, cmd_del, NULL},
    {"type", 2, 0, cmd_type, NULL},
    {"pexpire", -3, 0, cmd_pexpire, NULL},
    {"pexpireat", -3, 0, cmd_pexpireat, NULL},
    {"pttl", 2, 0, cmd_pttl, NULL},
    {"persist", 2, 0, cmd_persist, NULL},
    {"keys", 2, 0, cmd_keys, NULL},
    {"scan", -2, 0, cmd_scan, NULL},
    {"flushall", -1, 0, cmd_flushall, NULL},
    {"dbsize", 1, 0, cmd_dbsize, NULL},
    {NULL, 0, 0, NULL, NULL},
};
