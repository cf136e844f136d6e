/* SPDX-License-Identifier: Apache-2.0 */
#include "server_impl.h"

/* Finds the hash and in it the field that is word 2. Returns false after WRONGTYPE; *ret_item is
   NULL when either is missing. The pointer lives until the hash changes. */
static bool find_field(struct sim_call *call, struct sim_key **ret_key, struct sim_item **ret_item)
{
    size_t at;

    *ret_item = NULL;
    if (!sim_typed_key(call, 1, SIM_HASH, ret_key)) {
        return false;
    }
    if (*ret_key) {
        at = sim_item_find(*ret_key, call->argv[2], 0);
        if (at < (*ret_key)->n_items) {
            *ret_item = &(*ret_key)->items[at];
        }
    }
    return true;
}

/* Returns whether the field is new. */
static bool set_field(struct sim_key *key, struct sim_view field, struct sim_view value)
{
    size_t at = sim_item_find(key, field, 0);
    bool is_new = at == key->n_items;

    sim_item_set_value(is_new ? sim_item_insert(key, at, field) : &key->items[at], value);
    return is_new;
}

static void cmd_hset(struct sim_call *call)
{
    struct sim_key *key;
    int64_t n_new = 0;

    if (call->argc % 2 != 0) {
        sim_resp_error(call->reply, "ERR wrong number of arguments for 'hset' command");
        return;
    }
    key = sim_typed_key_or_new(call, 1, SIM_HASH);
    if (!key) {
        return;
    }
    for (size_t i = 2; i < call->argc; i += 2) {
        n_new += set_field(key, call->argv[i], call->argv[i + 1]);
    }
    sim_resp_integer(call->reply, n_new);
}

static void cmd_hsetnx(struct sim_call *call)
{
    struct sim_key *key;
    struct sim_item *item;

    if (!find_field(call, &key, &item)) {
        return;
    }
    if (!item) {
        key = sim_typed_key_or_new(call, 1, SIM_HASH);
        set_field(key, call->argv[2], call->argv[3]);
    }
    sim_resp_integer(call->reply, item == NULL);
}

static void reply_value(struct sim_call *call, const struct sim_item *item)
{
    if (item) {
        sim_reply_view(call->reply, sim_view_of(item->value));
    } else {
        sim_resp_nil(call->reply);
    }
}

static void cmd_hget(struct sim_call *call)
{
    struct sim_key *key;
    struct sim_item *item;

    if (find_field(call, &key, &item)) {
        reply_value(call, item);
    }
}

static void cmd_hmget(struct sim_call *call)
{
    struct sim_key *key;

    if (!sim_typed_key(call, 1, SIM_HASH, &key)) {
        return;
    }
    sim_resp_array(call->reply, call->argc - 2);
    for (size_t i = 2; i < call->argc; i++) {
        size_t at = key ? sim_item_find(key, call->argv[i], 0) : 0;

        reply_value(call, key && at < key->n_items ? &key->items[at] : NULL);
    }
}

static void cmd_hexists(struct sim_call *call)
{
    struct sim_key *key;
    struct sim_item *item;

    if (find_field(call, &key, &item)) {
        sim_resp_integer(call->reply, item != NULL);
    }
}

static void cmd_hdel(struct sim_call *call)
{
    struct sim_key *key;
    int64_t deleted = 0;

    if (!sim_typed_key(call, 1, SIM_HASH, &key)) {
        return;
    }
    for (size_t i = 2; key && i < call->argc; i++) {
        size_t at = sim_item_find(key, call->argv[i], 0);

        if (at < key->n_items) {
            sim_item_remove(key, at);
            deleted++;
        }
    }
    if (key) {
        sim_delete_if_empty(call, key);
    }
    sim_resp_integer(call->reply, deleted);
}

static void cmd_hlen(struct sim_call *call)
{
    struct sim_key *key;

    if (sim_typed_key(call, 1, SIM_HASH, &key)) {
        sim_resp_integer(call->reply, key ? (int64_t)key->n_items : 0);
    }
}

static void reply_fields(struct sim_call *call, bool with_values)
{
    struct sim_key *key;
    size_t n;

    if (!sim_typed_key(call, 1, SIM_HASH, &key)) {
        return;
    }
    n = key ? key->n_items : 0;
    sim_resp_array(call->reply, with_values ? 2 * n : n);
    for (size_t i = 0; i < n; i++) {
        sim_reply_view(call->reply, sim_view_of(key->items[i].name));
        if (with_values) {
            sim_reply_view(call->reply, sim_view_of(key->items[i].value));
        }
    }
}

static void cmd_hkeys(struct sim_call *call)
{
    reply_fields(call, false);
}

static void cmd_hgetall(struct sim_call *call)
{
    reply_fields(call, true);
}

static void cmd_hincrby(struct sim_call *call)
{
    struct sim_key *key;
    struct sim_item *item;
    char text[20];
    int64_t increment;
    int64_t number = 0;

    if (!sim_int_arg(call, 3, &increment) || !find_field(call, &key, &item)) {
        return;
    }
    if (item && !sim_parse_int64(sim_view_of(item->value), &number)) {
        sim_resp_error(call->reply, "ERR hash value is not an integer");
        return;
    }
    if (__builtin_add_overflow(number, increment, &number)) {
        sim_resp_error(call->reply, "ERR increment or decrement would overflow");
        return;
    }
    key = sim_typed_key_or_new(call, 1, SIM_HASH);
    set_field(key, call->argv[2], (struct sim_view){text, sim_decimal(text, number)});
    sim_resp_integer(call->reply, number);
}

const struct sim_command sim_commands_hash[] = {
    {"hset", -4, 0, cmd_hset, NULL},
    {"hsetnx", 4, 0, cmd_hsetnx, NULL},
    {"hget", 3, 0, cmd_hget, NULL},
    {"hmget", -3, 0, cmd_hmget, NULL},
    {"hexists", 3, 0, cmd_hexists, NULL},
    {"hdel", -3, 0, cmd_hdel, NULL},
    {"hlen", 2, 0, cmd_hlen, NULL},
    {"hkeys", 2, 0, cmd_hkeys, NULL},
    {"hgetall", 2, 0, cmd_hgetall, NULL},
    {"hincrby", 4, 0, cmd_hincrby, NULL},
    {NULL, 0, 0, NULL, NULL},
};
