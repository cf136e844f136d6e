/* SPDX-License-Identifier: Apache-2.0 */
#include "server_impl.h"

#include <stdlib.h>

static void push(struct sim_call *call, bool at_head)
{
    struct sim_key *key = sim_typed_key_or_new(call, 1, SIM_LIST);

    if (!key) {
        return;
    }
    for (size_t i = 2; i < call->argc; i++) {
        sim_item_insert(key, at_head ? 0 : key->n_items, call->argv[i]);
    }
    sim_resp_integer(call->reply, (int64_t)key->n_items);
}

static void cmd_rpush(struct sim_call *call)
{
    push(call, false);
}

static void cmd_lpush(struct sim_call *call)
{
    push(call, true);
}

static void pop(struct sim_call *call, struct sim_key *key, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sim_reply_view(call->reply, sim_view_of(key->items[0].name));
        sim_item_remove(key, 0);
    }
    sim_delete_if_empty(call, key);
}

static void cmd_lpop(struct sim_call *call)
{
    bool has_count = call->argc > 2;
    struct sim_key *key;
    int64_t count = 1;

    if (call->argc > 3) {
        sim_resp_error(call->reply, "ERR wrong number of arguments for 'lpop' command");
        return;
    }
    if (has_count && (!sim_parse_int64(call->argv[2], &count) || count < 0)) {
        sim_resp_error(call->reply, "ERR value is out of range, must be positive");
        return;
    }
    if (!sim_typed_key(call, 1, SIM_LIST, &key)) {
        return;
    }
    if (!key) {
        (has_count ? sim_resp_nil_array : sim_resp_nil)(call->reply);
        return;
    }
    if ((uint64_t)count > key->n_items) {
        count = (int64_t)key->n_items;
    }
    if (has_count) {
        sim_resp_array(call->reply, (size_t)count);
    }
    pop(call, key, (size_t)count);
}

static void cmd_llen(struct sim_call *call)
{
    struct sim_key *key;

    if (sim_typed_key(call, 1, SIM_LIST, &key)) {
        sim_resp_integer(call->reply, key ? (int64_t)key->n_items : 0);
    }
}

static void cmd_lindex(struct sim_call *call)
{
    struct sim_key *key;
    int64_t at;

    if (!sim_typed_key(call, 1, SIM_LIST, &key)) {
        return;
    }
    if (!key) {
        sim_resp_nil(call->reply);
        return;
    }
    if (!sim_int_arg(call, 2, &at)) {
        return;
    }
    if (at < 0) {
        at += (int64_t)key->n_items;
    }
    if (at < 0 || (uint64_t)at >= key->n_items) {
        sim_resp_nil(call->reply);
    } else {
        sim_reply_view(call->reply, sim_view_of(key->items[at].name));
    }
}

static void cmd_lrange(struct sim_call *call)
{
    struct sim_key *key;
    int64_t start;
    int64_t stop;
    size_t n;

    if (!sim_int_arg(call, 2, &start) || !sim_int_arg(call, 3, &stop) ||
        !sim_typed_key(call, 1, SIM_LIST, &key)) {
        return;
    }
    n = key ? sim_clamp_range(&start, stop, key->n_items) : 0;
    sim_resp_array(call->reply, n);
    for (size_t i = 0; i < n; i++) {
        sim_reply_view(call->reply, sim_view_of(key->items[(size_t)start + i].name));
    }
}

static int64_t remove_forward(struct sim_key *key, struct sim_view element, int64_t limit)
{
    int64_t removed = 0;
    size_t at = 0;

    while (removed < limit) {
        at = sim_item_find(key, element, at);
        if (at == key->n_items) {
            break;
        }
        sim_item_remove(key, at);
        removed++;
    }
    return removed;
}

static int64_t remove_backward(struct sim_key *key, struct sim_view element, uint64_t limit)
{
    uint64_t removed = 0;

    for (size_t at = key->n_items; at-- > 0 && removed < limit;) {
        if (sim_view_equal(sim_view_of(key->items[at].name), element)) {
            sim_item_remove(key, at);
            removed++;
        }
    }
    return (int64_t)removed;
}

static void cmd_lrem(struct sim_call *call)
{
    struct sim_key *key;
    int64_t count;
    int64_t removed = 0;

    if (!sim_int_arg(call, 2, &count) || !sim_typed_key(call, 1, SIM_LIST, &key)) {
        return;
    }
    if (key && count < 0) {
        removed = remove_backward(key, call->argv[3], 0 - (uint64_t)count);
    } else if (key) {
        removed = remove_forward(key, call->argv[3], count ? count : INT64_MAX);
    }
    if (key) {
        sim_delete_if_empty(call, key);
    }
    sim_resp_integer(call->reply, removed);
}

/* How LPOS looks: which match, from which end, among how many; 0 all. */
struct lpos {
    int64_t rank, most;
};

/* Reads the options behind the element; false after an error. The COUNT of redis is not there. */
static bool read_lpos(struct sim_call *call, struct lpos *ret_lpos)
{
    *ret_lpos = (struct lpos){.rank = 1};
    for (size_t i = 3; i + 1 < call->argc; i += 2) {
        bool is_rank = sim_word_is(call->argv[i], "rank");

        if (!is_rank && !sim_word_is(call->argv[i], "maxlen")) {
            sim_reply_unsupported_option(call, i);
            return false;
        }
        if (!sim_int_arg(call, i + 1, is_rank ? &ret_lpos->rank : &ret_lpos->most)) {
            return false;
        }
    }
    if (call->argc % 2 == 0 || ret_lpos->rank == 0 || ret_lpos->most < 0) {
        sim_reply_unsupported_option(call, call->argc - 1);
        return false;
    }
    return true;
}

static void cmd_lpos(struct sim_call *call)
{
    struct sim_key *key;
    struct lpos lpos;
    int64_t left;
    size_t n;

    if (!read_lpos(call, &lpos) || !sim_typed_key(call, 1, SIM_LIST, &key)) {
        return;
    }
    left = llabs(lpos.rank);
    n = key ? key->n_items : 0;
    for (size_t i = 0; i < n && (lpos.most == 0 || i < (uint64_t)lpos.most); i++) {
        size_t at = lpos.rank > 0 ? i : n - 1 - i;

        left -= sim_view_equal(sim_view_of(key->items[at].name), call->argv[2]);
        if (left == 0) {
            sim_resp_integer(call->reply, (int64_t)at);
            return;
        }
    }
    sim_resp_nil(call->reply);
}

const struct sim_command sim_commands_list[] = {
    {"rpush", -3, 0, cmd_rpush, NULL},  {"lpush", -3, 0, cmd_lpush, NULL},
    {"lpop", -2, 0, cmd_lpop, NULL},    {"llen", 2, 0, cmd_llen, NULL},
    {"lindex", 3, 0, cmd_lindex, NULL}, {"lrange", 4, 0, cmd_lrange, NULL},
    {"lrem", 4, 0, cmd_lrem, NULL},     {"lpos", -3, 0, cmd_lpos, NULL},
    {NULL, 0, 0, NULL, NULL},
};
