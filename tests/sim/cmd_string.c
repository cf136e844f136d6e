/* SPDX-License-Identifier: Apache-2.0 */
#include "server_impl.h"

static void cmd_get(struct sim_call *call)
{
    struct sim_key *key;

    if (!sim_typed_key(call, 1, SIM_STRING, &key)) {
        return;
    }
    if (key) {
        sim_reply_view(call->reply, sim_view_of(key->string));
    } else {
        sim_resp_nil(call->reply);
    }
}

struct set_options {
    bool if_absent;
    bool if_present;
    bool keep_ttl;
    size_t ttl_at; /* the word with the time to live, 0 if there is none */
    int64_t ttl_unit_ms;
};

/* Returns false after having answered. */
static bool read_set_option(struct sim_call *call, size_t *at, struct set_options *options)
{
    struct sim_view word = call->argv[*at];
    bool has_ttl = options->keep_ttl || options->ttl_at;
    bool ok = true;

    if (sim_word_is(word, "nx") && !options->if_present) {
        options->if_absent = true;
    } else if (sim_word_is(word, "xx") && !options->if_absent) {
        options->if_present = true;
    } else if (sim_word_is(word, "keepttl") && !options->ttl_at) {
        options->keep_ttl = true;
    } else if ((sim_word_is(word, "px") || sim_word_is(word, "ex")) && !has_ttl &&
               *at + 1 < call->argc) {
        options->ttl_unit_ms = sim_word_is(word, "px") ? 1 : 1000;
        options->ttl_at = ++*at;
    } else if (sim_word_is(word, "get") || sim_word_is(word, "pxat") || sim_word_is(word, "exat")) {
        sim_reply_unsupported_option(call, *at);
        return false;
    } else {
        sim_resp_error(call->reply, SIM_SYNTAX_ERROR);
        ok = false;
    }
    return ok;
}

static bool read_set_ttl(struct sim_call *call, const struct set_options *options,
                         int64_t *ret_when)
{
    int64_t now_ms = call->server->space.now_ms;
    int64_t ttl;

    *ret_when = SIM_NEVER;
    if (!options->ttl_at) {
        return true;
    }
    if (!sim_int_arg(call, options->ttl_at, &ttl)) {
        return false;
    }
    if (ttl <= 0 || ttl > (INT64_MAX - now_ms) / options->ttl_unit_ms) {
        sim_resp_error(call->reply, "ERR invalid expire time in 'set' command");
        return false;
    }
    *ret_when = now_ms + ttl * options->ttl_unit_ms;
    return true;
}

static void cmd_set(struct sim_call *call)
{
    struct sim_keyspace *space = &call->server->space;
    struct set_options options = {0};
    struct sim_key *key;
    int64_t when;

    for (size_t i = 3; i < call->argc; i++) {
        if (!read_set_option(call, &i, &options)) {
            return;
        }
    }
    if (!read_set_ttl(call, &options, &when)) {
        return;
    }
    key = sim_key_find(space, call->argv[1]);
    if (key ? options.if_absent : options.if_present) {
        sim_resp_nil(call->reply);
        return;
    }
    if (key && options.keep_ttl) {
        when = key->expire_at_ms;
    }
    if (key && key->type != SIM_STRING) {
        sim_key_delete(space, key);
        key = NULL;
    }
    if (!key) {
        key = sim_key_create(space, call->argv[1], SIM_STRING);
    }
    sim_key_set_string(key, call->argv[2]);
    key->expire_at_ms = when;
    sim_resp_status(call->reply, "OK");
}

static void add(struct sim_call *call, int64_t increment)
{
    struct sim_key *key;
    char text[20];
    int64_t number = 0;

    if (!sim_typed_key(call, 1, SIM_STRING, &key)) {
        return;
    }
    if (key && !sim_parse_int64(sim_view_of(key->string), &number)) {
        sim_resp_error(call->reply, SIM_NOT_INTEGER);
        return;
    }
    if (__builtin_add_overflow(number, increment, &number)) {
        sim_resp_error(call->reply, "ERR increment or decrement would overflow");
        return;
    }
    if (!key) {
        key = sim_key_create(&call->server->space, call->argv[1], SIM_STRING);
    }
    sim_key_set_string(key, (struct sim_view){text, sim_decimal(text, number)});
    sim_resp_integer(call->reply, number);
}

static void cmd_incr(struct sim_call *call)
{
    add(call, 1);
}

static void cmd_incrby(struct sim_call *call)
{
    int64_t increment;

    if (sim_int_arg(call, 2, &increment)) {
        add(call, increment);
    }
}

const struct sim_command sim_commands_string[] = {
    {"get", 2, 0, cmd_get, NULL},   {"set", -3, 0, cmd_set, NULL},
    {"incr", 2, 0, cmd_incr, NULL}, {"incrby", 3, 0, cmd_incrby, NULL},
    {NULL, 0, 0, NULL, NULL},
};
