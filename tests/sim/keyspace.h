/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys, their values and their expiry. Hashes, lists and sorted sets are all one vector of items:
 * locks keep them short, and a vector has an order that depends on nothing but history. Private to
 * the simulated server.
 */
#ifndef RLOCK_TESTS_SIM_KEYSPACE_H
#define RLOCK_TESTS_SIM_KEYSPACE_H

#include "server.h"

#include <uthash.h>

/* No time of death. */
#define SIM_NEVER INT64_MIN

/* Bytes that are one's own. */
struct sim_bytes {
    char *data;
    size_t len;
};

struct sim_item {
    struct sim_bytes name;  /* field, element, member */
    struct sim_bytes value; /* hash */
    double score;           /* sorted set */
};

struct sim_key {
    UT_hash_handle hh; /* its order is that of creation */
    struct sim_bytes name;
    enum sim_type type;
    int64_t expire_at_ms; /* SIM_NEVER, or the last millisecond of its life */
    struct sim_bytes string;
    struct sim_item *items; /* sorted sets: by score, then by member */
    size_t n_items;
    size_t cap_items;
};

struct sim_keyspace {
    struct sim_key *keys;
    int64_t now_ms;
};

void sim_keyspace_clear(struct sim_keyspace *space);
/* Makes the one as the other is. */
void sim_keyspace_copy(const struct sim_keyspace *from, struct sim_keyspace *to);

/* Finds a live key; one that is past its time is deleted on the way. */
struct sim_key *sim_key_find(struct sim_keyspace *space, struct sim_view name);

/* The same without the deleting. */
const struct sim_key *sim_key_peek(const struct sim_keyspace *space, struct sim_view name);
bool sim_key_is_live(const struct sim_keyspace *space, const struct sim_key *key);

/* There must be no live key of that name. */
struct sim_key *sim_key_create(struct sim_keyspace *space, struct sim_view name,
                               enum sim_type type);
void sim_key_delete(struct sim_keyspace *space, struct sim_key *key);
/* There must be no live key of its name. */
void sim_key_move(struct sim_keyspace *from, struct sim_keyspace *to, struct sim_key *key);
void sim_keyspace_purge(struct sim_keyspace *space);

void sim_key_set_string(struct sim_key *key, struct sim_view text);

/* The index of the first item of that name from *start* on, or n_items. */
size_t sim_item_find(const struct sim_key *key, struct sim_view name, size_t start);

/* Puts a new item in front of item *at*, and returns it; value and score are empty. */
struct sim_item *sim_item_insert(struct sim_key *key, size_t at, struct sim_view name);
void sim_item_set_value(struct sim_item *item, struct sim_view value);

/* Does not delete the key when it was the last: the caller does, when it has done with it. */
void sim_item_remove(struct sim_key *key, size_t at);

/* Gives item *at* of a sorted set a score and moves it to where that belongs. */
void sim_item_set_score(struct sim_key *key, size_t at, double score);

struct sim_view sim_view_of(struct sim_bytes bytes);
bool sim_view_equal(struct sim_view a, struct sim_view b);

/* As redis reads integers: the whole text, no sign +, no leading zeros or blanks. */
bool sim_parse_int64(struct sim_view text, int64_t *ret_number);

/* As redis reads scores: anything that strtod reads to the end, but NaN. */
bool sim_parse_double(struct sim_view text, double *ret_number);

/* Redis' glob: * ? [a-z] [^a] and \. */
bool sim_glob_match(struct sim_view pattern, struct sim_view text);

#endif
