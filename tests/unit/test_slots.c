/* SPDX-License-Identifier: Apache-2.0 */
/* What CLUSTER SLOTS says, as an answer to CLUSTER NODES. */
#include "net/resp.h"
#include "support/test.h"
#include "topology/nodes.h"
#include "topology/slot.h"
#include "topology/slots.h"

#define CAP ((size_t)8 * 1024 * 1024)

struct slots {
    struct rlock__resp *resp;
    struct rlock__buf text;
};

static int set_up(void **state)
{
    static struct slots slots;

    slots = (struct slots){.resp = rlock__resp_new(CAP)};
    assert_non_null(slots.resp);
    *state = &slots;
    return 0;
}

static int tear_down(void **state)
{
    struct slots *slots = *state;

    slots->resp = rlock__resp_free(slots->resp);
    rlock__buf_fini(&slots->text);
    return 0;
}

#define SLOTS_TEST(name, slots) TEST_WITH(set_up, tear_down, name, struct slots *slots)

/* What comes over the wire, rewritten. */
static bool rewrite(struct slots *slots, const char *wire, const char *myself)
{
    struct rlock__reply reply;

    assert_int_equal(rlock__resp_feed(slots->resp, wire, strlen(wire)), 0);
    assert_int_equal(rlock__resp_next(slots->resp, &reply), 1);
    return rlock__slots_rewrite(&reply, rlock__bytes_of(myself), &slots->text);
}

static void assert_text(const struct slots *slots, const char *expected)
{
    assert_int_equal(slots->text.len, strlen(expected));
    assert_memory_equal(slots->text.data, expected, slots->text.len);
}

#define HOST "$9\r\n127.0.0.1\r\n"
#define ID(letter) "$2\r\nn" letter "\r\n"
#define PLAIN(letter) "*3\r\n" HOST ":700" letter "\r\n" ID(letter)

SLOTS_TEST(each_range_names_its_primary_and_its_replicas, slots)
{
    assert_true(rewrite(slots,
                        "*2\r\n*4\r\n:0\r\n:99\r\n" PLAIN("1")
                            PLAIN("3") "*3\r\n:100\r\n:16383\r\n" PLAIN("2"),
                        "n3"));
    assert_text(slots, "n1 127.0.0.1:7001@0 master - 0 0 0 connected 0-99\n"
                       "n3 127.0.0.1:7003@0 myself,slave n1 0 0 0 connected\n"
                       "n2 127.0.0.1:7002@0 master - 0 0 0 connected 100-16383\n");
}

/* Each sort of host with, and without, what newer servers tell besides. */
SLOTS_TEST(what_newer_servers_tell_of_a_place_is_passed_over, slots)
{
    assert_true(rewrite(
        slots,
        "*2\r\n*5\r\n:0\r\n:1\r\n"
        "*4\r\n" HOST ":7001\r\n" ID(
            "1") "*0\r\n"
                 "*4\r\n$-1\r\n:7002\r\n" ID(
                     "2") "*2\r\n$2\r\nip\r\n" HOST
                          "*4\r\n$1\r\nh\r\n:7003\r\n" ID(
                              "3") "*4\r\n$2\r\nip\r\n$3\r\n::1\r\n$8\r\nhostname\r\n$1\r\nh\r\n"
                                   "*3\r\n:2\r\n:3\r\n"
                                   "*4\r\n$1\r\n?\r\n:7004\r\n" ID("4") "*2\r\n$2\r\nip\r\n" HOST,
        ""));
    assert_text(slots, "n1 127.0.0.1:7001@0 master - 0 0 0 connected 0-1\n"
                       "n2 :7002@0 slave n1 0 0 0 connected\n"
                       "n3 h:7003@0 slave n1 0 0 0 connected\n"
                       "n4 ?:7004@0 master - 0 0 0 connected 2-3\n");
}

SLOTS_TEST(it_is_read_as_an_answer_to_cluster_nodes, slots)
{
    struct rlock__nodes_line line;
    struct rlock__bytes text;
    unsigned from, to;

    assert_true(rewrite(slots,
                        "*1\r\n*4\r\n:7\r\n:7\r\n*3\r\n$3\r\n::1\r\n:7001\r\n" ID(
                            "1") "*3\r\n$0\r\n\r\n:0\r\n" ID("2"),
                        "n1"));
    text = rlock__bytes(slots->text.data, slots->text.len);
    assert_int_equal(rlock__nodes_count(text), 1);
    assert_true(rlock__nodes_next(&text, RLOCK__NAME_OR_ADDRESS, &line));
    assert_true(line.is_primary && line.is_asked && !line.has_failed && !line.is_away);
    assert_true(rlock__bytes_equal(line.host, rlock__bytes_of("::1")));
    assert_int_equal(line.port, 7001);
    assert_int_equal(line.epoch, 0);
    assert_true(rlock__nodes_range(&line.slots, &from, &to));
    assert_int_equal(from, 7);
    assert_int_equal(to, 7);
    assert_true(rlock__nodes_next(&text, RLOCK__NAME_OR_ADDRESS, &line));
    assert_true(line.is_away); /* its port is none */
    assert_true(!line.is_primary && !line.is_asked);
    assert_true(rlock__bytes_equal(line.primary, rlock__bytes_of("n1")));
}

SLOTS_TEST(a_server_may_know_of_no_slots, slots)
{
    assert_true(rewrite(slots, "*0\r\n", ""));
    assert_text(slots, "");
}

SLOTS_TEST(what_makes_no_sense_is_no_map, slots)
{
    static const char *const wires[] = {
        "+OK\r\n",
        "$2\r\nn1\r\n",
        ":0\r\n",
        "-ERR no\r\n",
        "*1\r\n*2\r\n:0\r\n:1\r\n",                                     /* no server */
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n" HOST ":7001\r\n",              /* no id, as before 4.0 */
        "*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n" HOST ":7001\r\n$0\r\n\r\n",    /* an empty one */
        "*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n" HOST ":7001\r\n:5\r\n",        /* a number */
        "*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n" HOST "$4\r\n7001\r\n" ID("1"), /* no number */
        "*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n+h\r\n:7001\r\n" ID("1"),
        "*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$3\r\nh i\r\n:7001\r\n" ID("1"),
        "*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$3\r\nh\ni\r\n:7001\r\n" ID("1"),
        "*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$1\r\n,\r\n:7001\r\n" ID("1"),
        "*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$1\r\n@\r\n:7001\r\n" ID("1"),
        "*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$1\r\nh\r\n:7001\r\n$3\r\nn 1\r\n",
        "*1\r\n*3\r\n:2\r\n:1\r\n" PLAIN("1"),
        "*1\r\n*3\r\n:-1\r\n:1\r\n" PLAIN("1"),
        "*1\r\n*3\r\n:0\r\n:16384\r\n" PLAIN("1"),
        "*1\r\n*3\r\n$1\r\n0\r\n:1\r\n" PLAIN("1"),
        "*1\r\n*4\r\n:0\r\n:1\r\n" PLAIN("1") "*1\r\n$1\r\nx\r\n", /* a name without a value */
        "*2\r\n*3\r\n:0\r\n:1\r\n" PLAIN("1") "*1\r\n:2\r\n",
    };

    for (size_t i = 0; i < sizeof(wires) / sizeof(wires[0]); i++) {
        if (rewrite(slots, wires[i], "")) {
            fail_msg("%zu: %s", i, wires[i]);
        }
    }
}

/* A reply of so many ranges of one slot. */
static bool rewrite_ranges(struct slots *slots, unsigned n)
{
    struct rlock__buf wire = {.len = 0};
    bool is;

    assert_true(rlock__buf_addf(&wire, "*%u\r\n", n));
    for (unsigned i = 0; i < n; i++) {
        assert_true(rlock__buf_addf(&wire, "*3\r\n:%u\r\n:%u\r\n" PLAIN("1"), i % RLOCK__SLOTS,
                                    i % RLOCK__SLOTS));
    }
    assert_true(rlock__buf_add(&wire, "", 1));
    is = rewrite(slots, wire.data, "");
    rlock__buf_fini(&wire);
    return is;
}

SLOTS_TEST(more_ranges_than_slots_make_no_sense, slots)
{
    assert_true(rewrite_ranges(slots, RLOCK__SLOTS));
    assert_int_equal(rlock__nodes_count(rlock__bytes(slots->text.data, slots->text.len)),
                     RLOCK__SLOTS);
    assert_false(rewrite_ranges(slots, RLOCK__SLOTS + 1));
}
