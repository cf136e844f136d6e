/* SPDX-License-Identifier: Apache-2.0 */
/* What a cluster's servers say of each other and of slots, and the map that comes of it. */
#include <stdio.h>
#include <stdlib.h>

#include "support/test.h"
#include "topology/map.h"
#include "topology/nodes.h"
#include "topology/redirect.h"
#include "topology/sentinel.h"
#include "topology/slot.h"

#define ROUNDS 3000

static char servers[4]; /* their addresses stand for servers */

/* ---- Redirections ---- */

static bool read_error(const char *text, struct rlock__redirection *ret)
{
    const struct rlock__value value = {
        .type = RLOCK__REPLY_ERROR, .str = text, .len = strlen(text)};
    const struct rlock__reply reply = {.v = &value, .n = 1};

    return rlock__redirection_read(&reply, ret);
}

static void assert_bytes(struct rlock__bytes bytes, const char *expected)
{
    assert_int_equal(bytes.len, strlen(expected));
    assert_memory_equal(bytes.at, expected, bytes.len);
}

TEST(a_redirection_names_a_slot_and_a_server)
{
    struct rlock__redirection to;

    assert_true(read_error("MOVED 3999 127.0.0.1:6381", &to));
    assert_false(to.ask);
    assert_int_equal(to.slot, 3999);
    assert_bytes(to.host, "127.0.0.1");
    assert_int_equal(to.port, 6381);
    assert_true(read_error("ASK 0 redis-1.example:1", &to));
    assert_true(to.ask);
    assert_bytes(to.host, "redis-1.example");
}

TEST(a_redirection_may_have_an_odd_host)
{
    struct rlock__redirection to;

    assert_true(read_error("MOVED 1 :6381", &to));
    assert_bytes(to.host, "");
    assert_true(read_error("MOVED 1 ?:6381", &to));
    assert_bytes(to.host, "?");
    assert_true(read_error("MOVED 16383 2001:db8::1:6381", &to));
    assert_bytes(to.host, "2001:db8::1");
    assert_int_equal(to.port, 6381);
}

TEST(what_makes_no_sense_is_no_redirection)
{
    static const char *const texts[] = {"MOVED",
                                        "MOVED 1",
                                        "MOVED 16384 a:1",
                                        "MOVED x a:1",
                                        "MOVED 1 a",
                                        "MOVED 1 a:0",
                                        "MOVED 1 a:70000",
                                        "MOVED -1 a:1",
                                        "MOVEDX 1 a:1",
                                        "ERR MOVED 1 a:1",
                                        "",
                                        "ASK"};
    const struct rlock__value ok = {.type = RLOCK__REPLY_STATUS, .str = "MOVED 1 a:1", .len = 11};
    const struct rlock__reply reply = {.v = &ok, .n = 1};
    struct rlock__redirection to;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_false(read_error(texts[i], &to));
    }
    assert_false(rlock__redirection_read(&reply, &to));
}

/* ---- CLUSTER NODES ---- */

static const char answer[] =
    "07c3 127.0.0.1:30004@31004,hostname4 slave e7d1 0 1426238317239 4 connected\n"
    "67ed 127.0.0.1:30002@31002,,shard-id=69bc master - 0 1426238316232 2 connected 5461-10922\n"
    "nonsense\n"
    "292f :30003@31003 master,fail - 0 1426238318243 3 disconnected 10923-16383\r\n"
    "6ec2 :0@0 slave,noaddr 67ed 0 0 5 disconnected\n"
    "e7d1 127.0.0.1:30001@31001 myself,master - 0 0 7 connected 0-99 200 300-5460 [93->-292f]\n";

TEST(an_answer_is_read_line_by_line)
{
    struct rlock__bytes text = rlock__bytes_of(answer);
    struct rlock__nodes_line line;

    assert_true(rlock__nodes_next(&text, RLOCK__NAME_OR_ADDRESS, &line));
    assert_bytes(line.id, "07c3");
    assert_bytes(line.host, "hostname4");
    assert_int_equal(line.port, 30004);
    assert_false(line.is_primary || line.is_asked || line.has_failed || line.is_away);
    assert_bytes(line.primary, "e7d1");
    assert_true(rlock__nodes_next(&text, RLOCK__NAME_OR_ADDRESS, &line));
    assert_bytes(line.host, "127.0.0.1");
    assert_true(line.is_primary);
    assert_int_equal(line.epoch, 2);
    assert_true(rlock__nodes_next(&text, RLOCK__NAME_OR_ADDRESS, &line));
    assert_bytes(line.host, "");
    assert_true(line.is_primary && line.has_failed);
    assert_true(rlock__nodes_next(&text, RLOCK__NAME_OR_ADDRESS, &line));
    assert_true(line.is_away);
    assert_true(rlock__nodes_next(&text, RLOCK__NAME_OR_ADDRESS, &line));
    assert_true(line.is_asked && line.is_primary);
    assert_false(rlock__nodes_next(&text, RLOCK__NAME_OR_ADDRESS, &line));
}

TEST(a_server_is_called_as_the_caller_prefers)
{
    static const struct {
        enum rlock__endpoint endpoint;
        const char *named, *nameless;
    } cases[] = {
        {RLOCK__NAME_OR_ADDRESS, "hostname4", "127.0.0.1"},
        {RLOCK__ADDRESS, "127.0.0.1", "127.0.0.1"},
        {RLOCK__HOST_ASKED, "", ""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rlock__bytes text = rlock__bytes_of(answer);
        struct rlock__nodes_line line;

        assert_true(rlock__nodes_next(&text, cases[i].endpoint, &line));
        assert_bytes(line.host, cases[i].named);
        assert_true(rlock__nodes_next(&text, cases[i].endpoint, &line));
        assert_bytes(line.host, cases[i].nameless);
        assert_int_equal(line.port, 30002);
    }
}

TEST(ranges_are_counted_up_to_what_makes_sense)
{
    char line[] = "a 127.0.0.1:1@2 master - 0 0 1 connected";
    struct rlock__buf text = {.len = 0};

    assert_int_equal(rlock__nodes_count(rlock__bytes_of("nonsense")), 0);
    assert_int_equal(rlock__nodes_count(rlock__bytes_of(answer)), 5);
    assert_true(rlock__buf_add(&text, line, strlen(line)));
    for (unsigned i = 0; i < 3 * RLOCK__SLOTS; i++) {
        assert_true(rlock__buf_add(&text, " 7", 2));
    }
    assert_int_equal(rlock__nodes_count(rlock__bytes(text.data, text.len)), RLOCK__SLOTS + 1);
    rlock__buf_fini(&text);
}

TEST(a_line_has_its_ranges_of_slots)
{
    static const unsigned expected[][2] = {{0, 99}, {200, 200}, {300, 5460}};
    struct rlock__bytes slots = rlock__bytes_of("0-99 200 9-3 x 16384 300-5460 [93->-292f]");
    unsigned from, to;

    for (size_t i = 0; i < 3; i++) {
        assert_true(rlock__nodes_range(&slots, &from, &to));
        assert_int_equal(from, expected[i][0]);
        assert_int_equal(to, expected[i][1]);
    }
    assert_false(rlock__nodes_range(&slots, &from, &to));
}

/* ---- The map ---- */

TEST(a_map_of_nothing_knows_no_server)
{
    const struct rlock__map map = {.n = 0};

    assert_null(rlock__map_find(&map, 7));
}

TEST(an_answer_changes_nothing_that_was_told_after_the_question)
{
    struct rlock__map map = {.n = 0};

    assert_true(rlock__map_learn(&map, 0, 9, &servers[0], 1, 10, NULL));
    assert_true(rlock__map_told(&map, 5, &servers[1], 20));
    assert_true(rlock__map_learn(&map, 0, 9, &servers[0], 1, 15, NULL));
    assert_ptr_equal(rlock__map_find(&map, 5), &servers[1]);
    assert_ptr_equal(rlock__map_find(&map, 6), &servers[0]);
    assert_true(rlock__map_learn(&map, 0, 9, &servers[0], 1, 25, NULL));
    assert_ptr_equal(rlock__map_find(&map, 5), &servers[0]);
    rlock__map_fini(&map);
}

TEST(an_answer_with_a_lower_epoch_changes_nothing)
{
    struct rlock__map map = {.n = 0};

    assert_true(rlock__map_learn(&map, 0, 9, &servers[0], 4, 10, NULL));
    assert_true(rlock__map_learn(&map, 5, 20, &servers[1], 3, 20, NULL));
    assert_ptr_equal(rlock__map_find(&map, 9), &servers[0]);
    assert_ptr_equal(rlock__map_find(&map, 10), &servers[1]);
    assert_true(rlock__map_learn(&map, 5, 5, &servers[2], 5, 20, NULL));
    assert_ptr_equal(rlock__map_find(&map, 5), &servers[2]);
    rlock__map_fini(&map);
}

static void *gone;
static bool is_gone(void *server)
{
    return server == gone;
}

/* A cluster that was made again. */
TEST(a_server_that_has_the_slots_of_a_lost_one_counts_with_a_lower_epoch)
{
    struct rlock__map map = {.n = 0};

    assert_true(rlock__map_learn(&map, 0, 9, &servers[0], 8, 10, NULL));
    assert_true(rlock__map_learn(&map, 0, 9, &servers[1], 2, 20, is_gone));
    assert_ptr_equal(rlock__map_find(&map, 5), &servers[0]);
    assert_ptr_equal(rlock__map_newer(&map, 5, &servers[1], 2), &servers[0]);
    assert_null(rlock__map_newer(&map, 5, &servers[0], 2));
    assert_null(rlock__map_newer(&map, 5, &servers[1], 8));
    gone = &servers[0];
    assert_true(rlock__map_told(&map, 7, &servers[0], 25));
    assert_true(rlock__map_learn(&map, 0, 9, &servers[1], 2, 20, NULL)); /* by another server */
    assert_ptr_equal(rlock__map_find(&map, 5), &servers[0]);
    assert_true(rlock__map_learn(&map, 0, 9, &servers[1], 2, 20, is_gone));
    assert_ptr_equal(rlock__map_find(&map, 5), &servers[1]);
    assert_ptr_equal(rlock__map_find(&map, 7), &servers[0]); /* told after the question */
    assert_true(
        rlock__map_learn(&map, 0, 6, &servers[2], 3, 30, NULL)); /* the failover after that */
    assert_ptr_equal(rlock__map_find(&map, 5), &servers[2]);
    rlock__map_fini(&map);
}

/* Its answers come for ever, and most say what is known. */
TEST(an_answer_that_says_nothing_new_makes_no_new_map)
{
    struct rlock__map map = {.n = 0};
    const struct rlock__range *ranges;

    assert_true(rlock__map_learn(&map, 0, 9, &servers[0], 1, 10, NULL));
    assert_true(rlock__map_learn(&map, 10, 99, &servers[1], 2, 10, NULL));
    ranges = map.ranges;
    assert_true(rlock__map_learn(&map, 0, 9, &servers[0], 1, 20, NULL));
    assert_true(rlock__map_learn(&map, 10, 99, &servers[1], 2, 20, NULL));
    assert_ptr_equal(map.ranges, ranges);
    rlock__map_fini(&map);
}

/* As CLUSTER SLOTS says it. */
TEST(an_answer_without_an_epoch_changes_what_nobody_knows_better)
{
    struct rlock__map map = {.n = 0};

    assert_true(rlock__map_learn(&map, 0, 9, &servers[0], 0, 10, NULL));
    assert_true(rlock__map_learn(&map, 5, 9, &servers[1], 0, 20, NULL));
    assert_ptr_equal(rlock__map_find(&map, 5), &servers[1]);
    assert_true(rlock__map_told(&map, 6, &servers[2], 30));
    assert_true(rlock__map_learn(&map, 7, 7, &servers[3], 1, 30, NULL));
    assert_true(rlock__map_learn(&map, 0, 9, &servers[0], 0, 25, NULL));
    assert_ptr_equal(rlock__map_find(&map, 5), &servers[0]);
    assert_ptr_equal(rlock__map_find(&map, 6), &servers[2]);
    assert_ptr_equal(rlock__map_find(&map, 7), &servers[3]);
    assert_true(rlock__map_learn(&map, 0, 9, &servers[0], 0, 35, NULL));
    assert_ptr_equal(rlock__map_find(&map, 6), &servers[0]);
    assert_ptr_equal(rlock__map_find(&map, 7), &servers[3]);
    rlock__map_fini(&map);
}

/* The same, slot by slot. */
struct model {
    void *server;
    uint64_t epoch;
    int64_t told_at;
};

static struct model model[RLOCK__SLOTS];

static void model_learn(unsigned from, unsigned to, void *server, uint64_t epoch, int64_t asked_at)
{
    for (unsigned i = from; i <= to; i++) {
        if (model[i].told_at <= asked_at && model[i].epoch <= epoch) {
            model[i] = (struct model){.server = server, .epoch = epoch};
        }
    }
}

/* Few ranges, so that their ends meet often. */
static unsigned random_slot(void)
{
    return (unsigned)(rand() % 40) * (RLOCK__SLOTS / 40) + (unsigned)(rand() % 3);
}

TEST(ranges_are_what_the_slots_one_by_one_are)
{
    struct rlock__map map = {.n = 0};

    srand(1);
    for (int now = 1; now <= ROUNDS; now++) {
        unsigned from = random_slot(), to = from + (unsigned)(rand() % 900);
        void *server = &servers[rand() % 4];
        uint64_t epoch = (uint64_t)(rand() % 8);
        int64_t asked_at = now - rand() % 50;

        to = to < RLOCK__SLOTS ? to : RLOCK__SLOTS - 1;
        if (rand() % 3 == 0) {
            assert_true(rlock__map_told(&map, from, server, now));
            model[from].server = server;
            model[from].told_at = now;
        } else {
            assert_true(rlock__map_learn(&map, from, to, server, epoch, asked_at, NULL));
            model_learn(from, to, server, epoch, asked_at);
        }
        for (unsigned slot = 0; slot < RLOCK__SLOTS; slot += now % 10 == 0 ? 1 : 97) {
            assert_ptr_equal(rlock__map_find(&map, slot), model[slot].server);
        }
    }
    rlock__map_fini(&map);
}

/* ---- Sentinels ---- */

/* Reads an answer that has so many values. */
static struct rlock__reply answer_of(const char *const *texts, size_t n,
                                     struct rlock__value *values)
{
    for (size_t i = 0; i < n; i++) {
        values[i] = (struct rlock__value){
            .type = RLOCK__REPLY_STR, .str = texts[i], .len = strlen(texts[i])};
    }
    return (struct rlock__reply){.v = values, .n = n, .is_array = true};
}

TEST(sentinels_are_asked_for_the_epoch_before_the_address)
{
    struct rlock__buf out = {0};

    assert_true(rlock__primary_ask(&out, "name", (struct rlock__sentinel_asks){.id = false}));
    assert_bytes(rlock__bytes(out.data, out.len),
                 "*3\r\n$8\r\nSENTINEL\r\n$6\r\nMASTER\r\n$4\r\nname\r\n"
                 "*3\r\n$8\r\nSENTINEL\r\n$8\r\nREPLICAS\r\n$4\r\nname\r\n"
                 "*3\r\n$8\r\nSENTINEL\r\n$23\r\nGET-MASTER-ADDR-BY-NAME\r\n$4\r\nname\r\n");
    rlock__buf_fini(&out);
}

TEST(a_sentinel_is_asked_who_it_is_and_which_others_it_knows)
{
    static const char *const fields[] = {"name",  "n",  "ip", "10.0.0.1", "port", "26379",
                                         "runid", "a1", "ip", "::1",      "port", "7",
                                         "runid", "b2", "ip", "x",        "port", "8"};
    struct rlock__value values[18];
    struct rlock__reply reply = answer_of(fields, 18, values);
    struct rlock__buf out = {0};

    assert_true(
        rlock__primary_ask(&out, "name", (struct rlock__sentinel_asks){.id = true, .peers = true}));
    assert_memory_equal(out.data,
                        "*2\r\n$8\r\nSENTINEL\r\n$4\r\nMYID\r\n"
                        "*3\r\n$8\r\nSENTINEL\r\n$9\r\nSENTINELS\r\n$4\r\nname\r\n*3\r\n",
                        68);
    reply.is_nested = true;
    rlock__primary_read_peers(&reply, &out);
    assert_bytes(rlock__bytes(out.data, out.len), "a1 10.0.0.1:26379\nb2 ::1:7\n");
    reply.is_nested = false; /* an error, or no peers */
    rlock__primary_read_peers(&reply, &out);
    assert_int_equal(out.len, 0);
    rlock__buf_fini(&out);
}

TEST(a_sentinel_says_the_epoch_and_the_address)
{
    static const char *const fields[] = {
        "name",  "primary",       "config-epoch",       "7", "down-after-milliseconds", "500",
        "flags", "s_down,master", "last-ok-ping-reply", "12"};
    static const char *const place[] = {"127.0.0.1", "6380"};
    struct rlock__value values[10];
    struct rlock__primary said = {.port = 0};
    struct rlock__reply reply = answer_of(fields, 10, values);

    assert_true(rlock__primary_read(&reply, &said));
    reply = answer_of(place, 2, values);
    assert_true(rlock__primary_read_place(&reply, &said));
    assert_string_equal(said.host, "127.0.0.1");
    assert_int_equal(said.port, 6380);
    assert_int_equal(said.epoch, 7);
    assert_int_equal(said.down_after_ms, 500);
    assert_int_equal(said.silence_ms, 12);
    assert_true(said.is_down);
}

TEST(what_is_no_answer_of_a_sentinel_is_none)
{
    static const char *const fields[] = {"name", "primary"}, *const odd[] = {"config-epoch", "x"};
    static const char *const places[][2] = {
        {"", "6379"}, {"h", "0"}, {"h", "65536"}, {"h", "-1"}, {"h", "x"}};
    struct rlock__value values[2];
    struct rlock__primary said = {.port = 0};
    struct rlock__reply reply = answer_of(fields, 2, values);

    assert_false(rlock__primary_read(&reply, &said));
    reply = answer_of(odd, 2, values);
    assert_false(rlock__primary_read(&reply, &said));
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        reply = answer_of(places[i], 2, values);
        assert_false(rlock__primary_read_place(&reply, &said));
    }
    reply = answer_of(places[0], 0, values); /* a name that is unknown */
    assert_false(rlock__primary_read_place(&reply, &said));
    assert_string_equal(said.host, "");
}
