/* SPDX-License-Identifier: Apache-2.0 */
#include "keyspace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *memory)
{
    if (!memory) {
        abort();
    }
    return memory;
}

static struct sim_bytes bytes_copy(struct sim_view view)
{
    /* One byte more, so that strtod finds an end. */
    struct sim_bytes bytes = {must(malloc(view.len + 1)), view.len};

    memcpy(bytes.data, view.data, view.len);
    bytes.data[view.len] = '\0';
    return bytes;
}

static void bytes_assign(struct sim_bytes *bytes, struct sim_view view)
{
    struct sim_bytes old = *bytes;

    *bytes = bytes_copy(view);
    free(old.data);
}

struct sim_view sim_view_of(struct sim_bytes bytes)
{
    return (struct sim_view){bytes.data, bytes.len};
}

bool sim_view_equal(struct sim_view a, struct sim_view b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static void key_free(struct sim_key *key)
{
    for (size_t i = 0; i < key->n_items; i++) {
        free(key->items[i].name.data);
        free(key->items[i].value.data);
    }
    free(key->items);
    free(key->string.data);
    free(key->name.data);
    free(key);
}

void sim_keyspace_clear(struct sim_keyspace *space)
{
    struct sim_key *key;
    struct sim_key *next;

    HASH_ITER(hh, space->keys, key, next) {
        sim_key_delete(space, key);
    }
}

void sim_keyspace_copy(const struct sim_keyspace *from, struct sim_keyspace *to)
{
    const struct sim_key *key;

    sim_keyspace_clear(to);
    to->now_ms = from->now_ms;
    for (key = from->keys; key != NULL; key = key->hh.next) {
        struct sim_key *copy = sim_key_create(to, sim_view_of(key->name), key->type);

        copy->expire_at_ms = key->expire_at_ms;
        if (key->string.data != NULL) {
            copy->string = bytes_copy(sim_view_of(key->string));
        }
        for (size_t i = 0; i < key->n_items; i++) {
            struct sim_item *item = sim_item_insert(copy, i, sim_view_of(key->items[i].name));

            if (key->items[i].value.data != NULL) {
                item->value = bytes_copy(sim_view_of(key->items[i].value));
            }
            item->score = key->items[i].score;
        }
    }
}

bool sim_key_is_live(const struct sim_keyspace *space, const struct sim_key *key)
{
    return key->expire_at_ms == SIM_NEVER || space->now_ms <= key->expire_at_ms;
}

static struct sim_key *lookup(const struct sim_keyspace *space, struct sim_view name)
{
    struct sim_key *key;

    HASH_FIND(hh, space->keys, name.data, name.len, key);
    return key;
}

struct sim_key *sim_key_find(struct sim_keyspace *space, struct sim_view name)
{
    struct sim_key *key = lookup(space, name);

    if (key && !sim_key_is_live(space, key)) {
        sim_key_delete(space, key);
        return NULL;
    }
    return key;
}

const struct sim_key *sim_key_peek(const struct sim_keyspace *space, struct sim_view name)
{
    const struct sim_key *key = lookup(space, name);

    return key && sim_key_is_live(space, key) ? key : NULL;
}

struct sim_key *sim_key_create(struct sim_keyspace *space, struct sim_view name, enum sim_type type)
{
    struct sim_key *key = must(calloc(1, sizeof(*key)));

    key->name = bytes_copy(name);
    key->type = type;
    key->expire_at_ms = SIM_NEVER;
    HASH_ADD_KEYPTR(hh, space->keys, key->name.data, key->name.len, key);
    return key;
}

void sim_key_delete(struct sim_keyspace *space, struct sim_key *key)
{
    HASH_DEL(space->keys, key);
    key_free(key);
}

void sim_key_move(struct sim_keyspace *from, struct sim_keyspace *to, struct sim_key *key)
{
    HASH_DEL(from->keys, key);
    HASH_ADD_KEYPTR(hh, to->keys, key->name.data, key->name.len, key);
}

void sim_keyspace_purge(struct sim_keyspace *space)
{
    struct sim_key *key;
    struct sim_key *next;

    HASH_ITER(hh, space->keys, key, next) {
        if (!sim_key_is_live(space, key)) {
            sim_key_delete(space, key);
        }
    }
}

void sim_key_set_string(struct sim_key *key, struct sim_view text)
{
    bytes_assign(&key->string, text);
}

size_t sim_item_find(const struct sim_key *key, struct sim_view name, size_t start)
{
    size_t i = start;

    while (i < key->n_items && !sim_view_equal(sim_view_of(key->items[i].name), name)) {
        i++;
    }
    return i;
}

struct sim_item *sim_item_insert(struct sim_key *key, size_t at, struct sim_view name)
{
    struct sim_item *item;

    if (key->n_items == key->cap_items) {
        key->cap_items = key->cap_items ? key->cap_items * 2 : 2;
        key->items = must(realloc(key->items, key->cap_items * sizeof(*key->items)));
    }
    item = key->items + at;
    memmove(item + 1, item, (key->n_items - at) * sizeof(*item));
    key->n_items++;
    *item = (struct sim_item){.name = bytes_copy(name)};
    return item;
}

void sim_item_set_value(struct sim_item *item, struct sim_view value)
{
    bytes_assign(&item->value, value);
}

void sim_item_remove(struct sim_key *key, size_t at)
{
    struct sim_item *item = key->items + at;

    free(item->name.data);
    free(item->value.data);
    key->n_items--;
    memmove(item, item + 1, (key->n_items - at) * sizeof(*item));
}

static bool is_before(const struct sim_item *a, const struct sim_item *b)
{
    size_t common = a->name.len < b->name.len ? a->name.len : b->name.len;
    int order;

    if (a->score < b->score || a->score > b->score) {
        return a->score < b->score;
    }
    order = memcmp(a->name.data, b->name.data, common);
    return order < 0 || (order == 0 && a->name.len < b->name.len);
}

void sim_item_set_score(struct sim_key *key, size_t at, double score)
{
    struct sim_item moving = key->items[at];

    /* A small set keeps whole numbers as integers, and so forgets the sign of -0. */
    moving.score = score < 0 || score > 0 ? score : 0;
    while (at > 0 && is_before(&moving, &key->items[at - 1])) {
        key->items[at] = key->items[at - 1];
        at--;
    }
    while (at + 1 < key->n_items && is_before(&key->items[at + 1], &moving)) {
        key->items[at] = key->items[at + 1];
        at++;
    }
    key->items[at] = moving;
}

bool sim_parse_int64(struct sim_view text, int64_t *ret_number)
{
    size_t sign = text.len > 0 && text.data[0] == '-' ? 1 : 0;
    uint64_t number = 0;

    if (text.len == sign || text.len - sign > 19) {
        return false;
    }
    if (text.data[sign] == '0' && text.len > 1) {
        return false;
    }
    for (size_t i = sign; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    }
    if (number > (uint64_t)INT64_MAX + sign) {
        return false;
    }
    *ret_number = (int64_t)(sign ? 0 - number : number);
    return true;
}

bool sim_parse_double(struct sim_view text, double *ret_number)
{
    char copy[128];
    char *end;
    double number;

    /* Redis refuses blanks in front; longer numbers than this nobody writes. */
    if (text.len == 0 || text.len >= sizeof(copy) || strchr(" \t\n\v\f\r", text.data[0])) {
        return false;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    number = strtod(copy, &end);
    if (end != copy + text.len || isnan(number)) {
        return false;
    }
    *ret_number = number;
    return true;
}

static bool in_set(const char **pattern, const char *pattern_end, char c)
{
    const char *p = *pattern;
    bool negated = p < pattern_end && *p == '^';
    bool found = false;

    for (p += negated; p < pattern_end && *p != ']'; p++) {
        if (*p == '\\' && pattern_end - p >= 2) {
            p++;
            found = found || *p == c;
        } else if (pattern_end - p >= 3 && p[1] == '-') {
            bool upwards = p[0] <= p[2];

            found = found || (c >= p[upwards ? 0 : 2] && c <= p[upwards ? 2 : 0]);
            p += 2;
        } else {
            found = found || *p == c;
        }
    }
    *pattern = p < pattern_end ? p + 1 : p;
    return found != negated;
}

static bool match_one(const char **pattern, const char *pattern_end, char c)
{
    const char *p = *pattern;

    if (*p == '?') {
        *pattern = p + 1;
        return true;
    }
    if (*p == '[') {
        *pattern = p + 1;
        return in_set(pattern, pattern_end, c);
    }
    if (*p == '\\' && pattern_end - p >= 2) {
        p++;
    }
    *pattern = p + 1;
    return *p == c;
}

bool sim_glob_match(struct sim_view pattern, struct sim_view text)
{
    const char *p = pattern.data;
    const char *p_end = p + pattern.len;
    const char *t = text.data;
    const char *t_end = t + text.len;
    const char *star = NULL; /* where to go on after giving the last * one byte more */
    const char *star_text = NULL;

    while (t < t_end) {
        if (p < p_end && *p == '*') {
            star = ++p;
            star_text = t;
        } else if (p < p_end && match_one(&p, p_end, *t)) {
            t++;
        } else if (star) {
            p = star;
            t = ++star_text;
        } else {
            return false;
        }
    }
    while (p < p_end && *p == '*') {
        p++;
    }
    return p == p_end;
}
