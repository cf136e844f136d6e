/* SPDX-License-Identifier: Apache-2.0 */
#include "server_impl.h"

#include <math.h>
#include <string.h>

enum {
    ADD_NX = 1,
    ADD_XX = 2,
    ADD_GT = 4,
    ADD_LT = 8,
    ADD_CH = 16,
};

/* Returns the index of the first score. */
static size_t read_add_flags(struct sim_call *call, unsigned *ret_flags)
{
    static const char *const names[] = {"nx", "xx", "gt", "lt", "ch"};
    size_t at;

    *ret_flags = 0;
    for (at = 2; at < call->argc; at++) {
        size_t i = 0;

        while (i < 5 && !sim_word_is(call->argv[at], names[i])) {
            i++;
        }
        if (i == 5) {
            break;
        }
        *ret_flags |= 1U << i;
    }
    return at;
}

static bool check_add(struct sim_call *call, unsigned flags, size_t first)
{
    bool gt_and_lt = (flags & ADD_GT) && (flags & ADD_LT);
    bool nx_and_either = (flags & ADD_NX) && (flags & (ADD_GT | ADD_LT));
    double score;

    if (first < call->argc && sim_word_is(call->argv[first], "incr")) {
        sim_reply_unsupported_option(call, first);
        return false;
    }
    if (first == call->argc || (call->argc - first) % 2 != 0) {
        sim_resp_error(call->reply, SIM_SYNTAX_ERROR);
        return false;
    }
    if ((flags & ADD_NX) && (flags & ADD_XX)) {
        sim_resp_error(call->reply, "ERR XX and NX options at the same time are not compatible");
        return false;
    }
    if (nx_and_either || gt_and_lt) {
        sim_resp_error(call->reply,
                       "ERR GT, LT, and/or NX options at the same time are not compatible");
        return false;
    }
    for (size_t i = first; i < call->argc; i += 2) {
        if (!sim_double_arg(call, i, &score)) {
            return false;
        }
    }
    return true;
}

/* Returns what counts: 1 for a new member, with CH for a changed score too. */
static int add_one(struct sim_key *key, unsigned flags, double score, struct sim_view member)
{
    size_t at = sim_item_find(key, member, 0);
    bool is_new = at == key->n_items;

    if (flags & (is_new ? ADD_XX : ADD_NX)) {
        return 0;
    }
    if (is_new) {
        sim_item_insert(key, at, member);
    } else {
        double old = key->items[at].score;
        bool same = !(score < old) && !(score > old);

        if (same || ((flags & ADD_GT) && score < old) || ((flags & ADD_LT) && score > old)) {
            return 0;
        }
    }
    sim_item_set_score(key, at, score);
    return is_new || (flags & ADD_CH) ? 1 : 0;
}

static void cmd_zadd(struct sim_call *call)
{
    unsigned flags;
    size_t first = read_add_flags(call, &flags);
    struct sim_key *key;
    int64_t n_added = 0;

    if (!check_add(call, flags, first)) {
        return;
    }
    key = sim_typed_key_or_new(call, 1, SIM_ZSET);
    if (!key) {
        return;
    }
    for (size_t i = first; i < call->argc; i += 2) {
        double score = 0;

        sim_parse_double(call->argv[i], &score);
        n_added += add_one(key, flags, score, call->argv[i + 1]);
    }
    sim_delete_if_empty(call, key); /* XX on nothing */
    sim_resp_integer(call->reply, n_added);
}

static void cmd_zincrby(struct sim_call *call)
{
    struct sim_key *key;
    double score;
    size_t at;

    if (!sim_double_arg(call, 2, &score)) {
        return;
    }
    key = sim_typed_key_or_new(call, 1, SIM_ZSET);
    if (!key) {
        return;
    }
    at = sim_item_find(key, call->argv[3], 0);
    if (at == key->n_items) {
        sim_item_insert(key, at, call->argv[3]);
    } else {
        score += key->items[at].score;
    }
    if (isnan(score)) {
        sim_resp_error(call->reply, "ERR resulting score is not a number (NaN)");
        return;
    }
    sim_item_set_score(key, at, score);
    sim_reply_double(call->reply, score);
}

static void cmd_zscore(struct sim_call *call)
{
    struct sim_key *key;
    size_t at;

    if (!sim_typed_key(call, 1, SIM_ZSET, &key)) {
        return;
    }
    at = key ? sim_item_find(key, call->argv[2], 0) : 0;
    if (key && at < key->n_items) {
        sim_reply_double(call->reply, key->items[at].score);
    } else {
        sim_resp_nil(call->reply);
    }
}

static void cmd_zcard(struct sim_call *call)
{
    struct sim_key *key;

    if (sim_typed_key(call, 1, SIM_ZSET, &key)) {
        sim_resp_integer(call->reply, key ? (int64_t)key->n_items : 0);
    }
}

static void cmd_zrank(struct sim_call *call)
{
    struct sim_key *key;
    size_t at;

    if (!sim_typed_key(call, 1, SIM_ZSET, &key)) {
        return;
    }
    at = key != NULL ? sim_item_find(key, call->argv[2], 0) : 0;
    if (key != NULL && at < key->n_items) {
        sim_resp_integer(call->reply, (int64_t)at);
    } else {
        sim_resp_nil(call->reply);
    }
}

static void cmd_zrem(struct sim_call *call)
{
    struct sim_key *key;
    int64_t removed = 0;

    if (!sim_typed_key(call, 1, SIM_ZSET, &key)) {
        return;
    }
    for (size_t i = 2; key && i < call->argc; i++) {
        size_t at = sim_item_find(key, call->argv[i], 0);

        if (at < key->n_items) {
            sim_item_remove(key, at);
            removed++;
        }
    }
    if (key) {
        sim_delete_if_empty(call, key);
    }
    sim_resp_integer(call->reply, removed);
}

static void reply_members(struct sim_call *call, const struct sim_key *key, size_t start, size_t n,
                          bool with_scores)
{
    sim_resp_array(call->reply, with_scores ? 2 * n : n);
    for (size_t i = start; i < start + n; i++) {
        sim_reply_view(call->reply, sim_view_of(key->items[i].name));
        if (with_scores) {
            sim_reply_double(call->reply, key->items[i].score);
        }
    }
}

/* By index; the BYSCORE, BYLEX and REV of redis 6.2 are not there. */
static void cmd_zrange(struct sim_call *call)
{
    bool with_scores = call->argc == 5 && sim_word_is(call->argv[4], "withscores");
    struct sim_key *key;
    int64_t start;
    int64_t stop;
    size_t n;

    if (call->argc > 4 && !with_scores) {
        sim_reply_unsupported_option(call, call->argc - 1);
        return;
    }
    if (!sim_int_arg(call, 2, &start) || !sim_int_arg(call, 3, &stop) ||
        !sim_typed_key(call, 1, SIM_ZSET, &key)) {
        return;
    }
    n = key ? sim_clamp_range(&start, stop, key->n_items) : 0;
    reply_members(call, key, (size_t)start, n, with_scores);
}

struct bound {
    double score;
    bool exclusive;
};

static bool read_bound(struct sim_view word, struct bound *bound)
{
    bound->exclusive = word.len > 0 && word.data[0] == '(';
    word.data += bound->exclusive;
    word.len -= bound->exclusive;
    return sim_parse_double(word, &bound->score);
}

struct score_options {
    bool with_scores;
    int64_t offset;
    int64_t limit; /* negative: all */
};

static bool read_score_options(struct sim_call *call, struct score_options *options)
{
    *options = (struct score_options){.limit = -1};
    for (size_t i = 4; i < call->argc; i++) {
        if (sim_word_is(call->argv[i], "withscores")) {
            options->with_scores = true;
        } else if (sim_word_is(call->argv[i], "limit") && i + 2 < call->argc) {
            if (!sim_int_arg(call, i + 1, &options->offset) ||
                !sim_int_arg(call, i + 2, &options->limit)) {
                return false;
            }
            i += 2;
        } else {
            sim_resp_error(call->reply, SIM_SYNTAX_ERROR);
            return false;
        }
    }
    return true;
}

static bool is_below(double score, const struct bound *bound)
{
    return bound->exclusive ? score <= bound->score : score < bound->score;
}

static bool is_above(double score, const struct bound *bound)
{
    return bound->exclusive ? score >= bound->score : score > bound->score;
}

static void reply_between(struct sim_call *call, const struct sim_key *key, const struct bound *low,
                          const struct bound *high, const struct score_options *options)
{
    size_t start = 0;
    size_t end;

    while (start < key->n_items && is_below(key->items[start].score, low)) {
        start++;
    }
    end = start;
    while (end < key->n_items && !is_above(key->items[end].score, high)) {
        end++;
    }
    if (options->offset < 0 || (uint64_t)options->offset > end - start) {
        start = end;
    } else {
        start += (size_t)options->offset;
    }
    if (options->limit >= 0 && end - start > (uint64_t)options->limit) {
        end = start + (size_t)options->limit;
    }
    reply_members(call, key, start, end - start, options->with_scores);
}

static void cmd_zrangebyscore(struct sim_call *call)
{
    struct score_options options;
    struct bound low;
    struct bound high;
    struct sim_key *key;

    if (!read_score_options(call, &options)) {
        return;
    }
    if (!read_bound(call->argv[2], &low) || !read_bound(call->argv[3], &high)) {
        sim_resp_error(call->reply, "ERR min or max is not a float");
        return;
    }
    if (!sim_typed_key(call, 1, SIM_ZSET, &key)) {
        return;
    }
    if (key) {
        reply_between(call, key, &low, &high, &options);
    } else {
        sim_resp_array(call->reply, 0);
    }
}

const struct sim_command sim_commands_zset[] = {
    {"zadd", -4, 0, cmd_zadd, NULL},
    {"zincrby", 4, 0, cmd_zincrby, NULL},
    {"zscore", 3, 0, cmd_zscore, NULL},
    {"zcard", 2, 0, cmd_zcard, NULL},
    {"zrank", 3, 0, cmd_zrank, NULL},
    {"zrem", -3, 0, cmd_zrem, NULL},
    {"zrange", -4, 0, cmd_zrange, NULL},
    {"zrangebyscore", -4, 0, cmd_zrangebyscore, NULL},
    {NULL, 0, 0, NULL, NULL},
};
