/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated node of a cluster against a real one: who is served, redirected or refused while
 * slots are moved from here and to here. RLOCK_SIM_SEED=n replays one sequence, with its commands
 * printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "topology/slot.h"
#include "twin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SEQUENCES 60
#define COMMANDS_PER_SEQUENCE 300
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What is drawn for %: t one of the tags, for the whole line; k a key of it, o of any tag; s its
   slot; n a node; c the connection that subscribes, in front. */
static const char *const forms[] = {
    "get {%t}%k",
    "set {%t}%k v",
    "set {%t}%k v",
    "hset {%t}%k f v",
    "hget {%t}%k f",
    "hdel {%t}%k f",
    "del {%t}%k",
    "del {%t}%k {%t}%k",
    "exists {%t}%k {%t}%k",
    "exists {%t}%k {%o}%k",
    "asking",
    "asking",
    "ping",
    "dbsize",
    "cluster keyslot {%t}%k",
    "cluster myid",
    "cluster setslot %s migrating " TWIN_OTHER,
    "cluster setslot %s importing " TWIN_OTHER,
    "cluster setslot %s stable",
    "cluster setslot %s node %n",
    "spublish {%t}c m",
    "publish {%t}c m",
    "%cssubscribe {%t}c",
    "%csunsubscribe {%t}c",
    "%casking",
    "evalsha ffffffffffffffffffffffffffffffffffffffff 1 {%t}%k",
};

/* How many keys, and what it does with them. */
static const struct {
    int keys;
    const char *text;
} scripts[] = {
    {0, "return redis.call('get',ARGV[1])"},
    {1, "return redis.call('get',KEYS[1])"},
    {1, "redis.call('set',KEYS[1],1) return redis.call('get',ARGV[1])"},
    {1, "redis.call('del',KEYS[1]) return redis.call('exists',KEYS[1])"},
    {1, "redis.call('del',KEYS[1]) return redis.pcall('exists',KEYS[1])"},
    {1, "redis.call('del',KEYS[1]) return redis.call('spublish',ARGV[1],'x')"},
    {1, "return redis.call('del',KEYS[1],ARGV[1])"},
    {2, "redis.call('set',KEYS[2],1) return redis.call('get',KEYS[1])"},
    {2, "return redis.pcall('exists',KEYS[1],KEYS[2])"},
};

static struct twin *twin;
static const char *tags[4]; /* two of our slots, two of the other node's */

/* ---- one command by chance ---- */

static uint64_t draw(uint64_t *random, uint64_t n)
{
    uint64_t z = (*random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % n;
}

static void fill(const char *form, uint64_t *random, char *ret_line, size_t size, size_t *ret_conn)
{
    const char *tag = tags[draw(random, COUNT(tags))];
    size_t len = 0;

    for (; *form; form++) {
        char letter = *form == '%' ? *++form : '\0';
        size_t room = size - len;

        if (letter == 't' || letter == 'o') {
            const char *which = letter == 't' ? tag : tags[draw(random, COUNT(tags))];

            len += (size_t)snprintf(ret_line + len, room, "%s", which);
        } else if (letter == 'k') {
            len += (size_t)snprintf(ret_line + len, room, "%u", (unsigned)draw(random, 3));
        } else if (letter == 's') {
            struct rlock__bytes key = {tag, strlen(tag)};

            len += (size_t)snprintf(ret_line + len, room, "%u", rlock__slot(key));
        } else if (letter == 'n') {
            len += (size_t)snprintf(ret_line + len, room, "%s",
                                    draw(random, 2) ? TWIN_SELF : TWIN_OTHER);
        } else if (letter == 'c') {
            *ret_conn = 1;
        } else {
            len += (size_t)snprintf(ret_line + len, room, "%c", *form);
        }
    }
}

static void add_script(struct sim_words *words, uint64_t *random, char (*keys)[16])
{
    size_t which = (size_t)draw(random, COUNT(scripts));
    const char *tag = tags[draw(random, COUNT(tags))];
    static const char *const counts[] = {"0", "1", "2"};

    sim_words_add(words, SIM_VIEW("eval"));
    sim_words_add(words, (struct sim_view){scripts[which].text, strlen(scripts[which].text)});
    sim_words_add(words, (struct sim_view){counts[scripts[which].keys], 1});
    for (int i = 0; i <= scripts[which].keys; i++) { /* the last one is an argument */
        snprintf(keys[i], sizeof(keys[i]), "{%s}%u", tag, (unsigned)draw(random, 3));
        sim_words_add(words, (struct sim_view){keys[i], strlen(keys[i])});
    }
}

static bool run_one(uint64_t *random, bool verbose)
{
    struct sim_words words = {NULL, 0, 0};
    char line[160] = "", keys[3][16];
    size_t conn = 0;
    bool is_same;

    if (draw(random, 3) == 0) {
        add_script(&words, random, keys);
    } else {
        fill(forms[draw(random, COUNT(forms))], random, line, sizeof(line), &conn);
        for (const char *at = line; *at;) {
            size_t len = strcspn(at, " ");

            sim_words_add(&words, (struct sim_view){at, len});
            at += len + (at[len] == ' ');
        }
    }
    if (verbose) {
        twin_print_command(&words);
    }
    is_same = twin_command(twin, conn, &words, 0);
    sim_words_fini(&words);
    return is_same;
}

/* ---- sequences ---- */

/* As it was at first: what was of a slot is gone, and the slot is whole. */
static bool begin_anew(void)
{
    bool is_same = twin_line(twin, 0, 0, "FLUSHALL", NULL);

    for (size_t i = 0; i < COUNT(tags); i++) {
        char line[120];
        unsigned slot = rlock__slot((struct rlock__bytes){tags[i], strlen(tags[i])});

        snprintf(line, sizeof(line), "CLUSTER SETSLOT %u STABLE", slot);
        is_same = twin_line(twin, 0, 0, line, NULL) && is_same;
        snprintf(line, sizeof(line), "CLUSTER SETSLOT %u NODE %s", slot,
                 slot < TWIN_OTHERS ? TWIN_SELF : TWIN_OTHER);
        is_same = twin_line(twin, 0, 0, line, NULL) && is_same;
    }
    return is_same;
}

static bool run_sequence(uint64_t seed, bool verbose)
{
    uint64_t random = seed;
    bool is_same = begin_anew();

    for (int i = 0; i < COMMANDS_PER_SEQUENCE && is_same; i++) {
        is_same = run_one(&random, verbose);
        if (!is_same) {
            printf("command %d, RLOCK_SIM_SEED=%" PRIu64 " replays it\n", i, seed);
        }
    }
    return is_same;
}

static void nodes_serve_and_redirect_alike(void **state)
{
    const char *text = getenv("RLOCK_SIM_SEED"); /* NOLINT(concurrency-mt-unsafe): one thread */
    uint64_t seed;

    (void)state;
    if (!twin || !twin_is_exact(twin)) { /* others write nodes.conf otherwise */
        print_message("needs redis 7.0\n");
        skip();
    }
    if (text) {
        assert_true(run_sequence(strtoull(text, NULL, 10), true));
        return;
    }
    assert_int_equal(getrandom(&seed, sizeof(seed), 0), sizeof(seed));
    for (uint64_t i = 0; i < SEQUENCES; i++) {
        assert_true(run_sequence(seed + i, false));
    }
}

/* Tags of one letter. */
static void choose_tags(void)
{
    static const char *const letters[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    size_t own = 0, others = 0;

    for (size_t i = 0; i < COUNT(letters) && own + others < COUNT(tags); i++) {
        bool is_own = rlock__slot((struct rlock__bytes){letters[i], 1}) < TWIN_OTHERS;

        if (is_own && own < 2) {
            tags[own++] = letters[i];
        } else if (!is_own && others < 2) {
            tags[2 + others++] = letters[i];
        }
    }
}

static int start(void **state)
{
    (void)state;
    choose_tags();
    twin = twin_new_node();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    twin = twin_free(twin);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_serve_and_redirect_alike),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
