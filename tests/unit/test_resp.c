/* SPDX-License-Identifier: Apache-2.0 */
#include <rlock/rlock.h>

#include "net/resp.h"
#include "support/test.h"

#define CAP 4096

struct fixture {
    struct rlock__resp *resp;
};

static int set_up(void **state)
{
    static struct fixture fixture;

    fixture.resp = rlock__resp_new(CAP);
    assert_non_null(fixture.resp);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    fixture->resp = rlock__resp_free(fixture->resp);
    return 0;
}

#define RESP_TEST(name, fixture) TEST_WITH(set_up, tear_down, name, struct fixture *fixture)

static void restart(struct fixture *fixture)
{
    rlock__resp_free(fixture->resp);
    fixture->resp = rlock__resp_new(CAP);
    assert_non_null(fixture->resp);
}

static void feed(struct fixture *fixture, const char *bytes, size_t len)
{
    /* From a block of its own size, so that a sanitizer sees a reader that looks further. */
    char *copy = malloc(len + (len == 0));

    assert_non_null(copy);
    memcpy(copy, bytes, len);
    assert_int_equal(rlock__resp_feed(fixture->resp, copy, len), 0);
    free(copy);
}

/* Writes a reply as text: "[1 "a" +OK -ERR nil]", without brackets for a scalar. */
static void describe(const struct rlock__reply *reply, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "%s", reply->is_array ? "[" : "");

    for (size_t i = 0; i < reply->n; i++) {
        const struct rlock__value *v = &reply->v[i];
        const char *space = i == 0 ? "" : " ";

        switch (v->type) {
        case RLOCK__REPLY_NIL:
            used += (size_t)snprintf(out + used, size - used, "%snil", space);
            break;
        case RLOCK__REPLY_INT:
            used += (size_t)snprintf(out + used, size - used, "%s%lld", space, (long long)v->num);
            break;
        case RLOCK__REPLY_STR:
            used +=
                (size_t)snprintf(out + used, size - used, "%s\"%.*s\"", space, (int)v->len, v->str);
            break;
        case RLOCK__REPLY_STATUS:
        case RLOCK__REPLY_ERROR:
            used +=
                (size_t)snprintf(out + used, size - used, "%s%c%.*s", space,
                                 v->type == RLOCK__REPLY_ERROR ? '-' : '+', (int)v->len, v->str);
            break;
        }
    }
    (void)snprintf(out + used, size - used, "%s", reply->is_array ? "]" : "");
}

static void assert_next(struct fixture *fixture, const char *expected)
{
    struct rlock__reply reply;
    char text[512];

    assert_int_equal(rlock__resp_next(fixture->resp, &reply), 1);
    describe(&reply, text, sizeof(text));
    assert_string_equal(text, expected);
}

static void assert_none(struct fixture *fixture)
{
    struct rlock__reply reply;

    assert_int_equal(rlock__resp_next(fixture->resp, &reply), 0);
}

static void assert_refused(struct fixture *fixture, const char *why)
{
    struct rlock__reply reply;

    assert_int_equal(rlock__resp_next(fixture->resp, &reply), RLOCK_ECONN);
    assert_non_null(strstr(rlock__resp_error(fixture->resp), why));
    assert_int_equal(rlock__resp_next(fixture->resp, &reply), RLOCK_ECONN);
    assert_int_equal(rlock__resp_feed(fixture->resp, "+OK\r\n", 5), RLOCK_ECONN);
}

static const struct sample {
    const char *wire, *text;
} samples[] = {
    {"+OK\r\n", "+OK"},
    {"+\r\n", "+"},
    {"-ERR no\r\n", "-ERR no"},
    {":0\r\n", "0"},
    {":-9223372036854775808\r\n", "-9223372036854775808"},
    {":9223372036854775807\r\n", "9223372036854775807"},
    {"$-1\r\n", "nil"},
    {"*-1\r\n", "nil"},
    {"$0\r\n\r\n", "\"\""},
    {"$4\r\na\r\nb\r\n", "\"a\r\nb\""},
    {"*0\r\n", "[]"},
    {"*1\r\n*0\r\n", "[]"},
    {"*3\r\n:1\r\n$1\r\na\r\n$-1\r\n", "[1 \"a\" nil]"},
    {"*2\r\n*2\r\n:1\r\n*1\r\n+x\r\n*2\r\n-E y\r\n:2\r\n", "[1 +x -E y 2]"},
    {"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n", "[\"message\" \"c\" \"0\"]"},
};

#define SAMPLES (sizeof(samples) / sizeof(samples[0]))

RESP_TEST(each_kind_of_reply_is_read, fixture)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        feed(fixture, samples[i].wire, strlen(samples[i].wire));
        assert_next(fixture, samples[i].text);
        assert_none(fixture);
    }
}

RESP_TEST(a_reply_split_at_any_byte_is_the_same, fixture)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t len = strlen(samples[i].wire);

        for (size_t cut = 1; cut < len; cut++) {
            feed(fixture, samples[i].wire, cut);
            assert_none(fixture);
            feed(fixture, samples[i].wire + cut, len - cut);
            assert_next(fixture, samples[i].text);
            assert_none(fixture);
        }
    }
}

RESP_TEST(replies_that_come_byte_by_byte_come_in_order, fixture)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t len = strlen(samples[i].wire);

        for (size_t at = 0; at < len; at++) {
            assert_none(fixture);
            feed(fixture, samples[i].wire + at, 1);
        }
        assert_next(fixture, samples[i].text);
    }
}

RESP_TEST(replies_that_come_at_once_come_one_by_one, fixture)
{
    /* More than the reader keeps in one piece, so that it moves its buffer between replies. */
    for (int round = 0; round < 100; round++) {
        for (size_t i = 0; i < SAMPLES; i++) {
            feed(fixture, samples[i].wire, strlen(samples[i].wire));
        }
    }
    for (int round = 0; round < 100; round++) {
        for (size_t i = 0; i < SAMPLES; i++) {
            assert_next(fixture, samples[i].text);
        }
    }
    assert_none(fixture);
}

RESP_TEST(an_error_reply_is_one_value, fixture)
{
    struct rlock__reply reply;

    feed(fixture, "-NOSCRIPT x\r\n*1\r\n-ERR y\r\n", 25);
    assert_int_equal(rlock__resp_next(fixture->resp, &reply), 1);
    assert_true(rlock__reply_is_error(&reply));
    assert_int_equal(rlock__resp_next(fixture->resp, &reply), 1);
    assert_false(rlock__reply_is_error(&reply));
}

RESP_TEST(what_is_no_redis_protocol_is_refused, fixture)
{
    static const char *const garbage[] = {
        "HTTP/1.0 400 Bad Request\r\n\r\n",
        "\x15\x03\x01\x02\x02\x46",
        "<html>",
        "\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        ":12x\r\n",
        ":\r\n",
        ":99999999999999999999\r\n",
        "$x\r\n",
        "$-2\r\n",
        "*-2\r\n",
        "*2\r\n:1\r\nx",
        "#x\r\n",
        "_x\r\n",
        "=2\r\nab\r\n",
    };

    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        restart(fixture);
        feed(fixture, garbage[i], strlen(garbage[i]));
        assert_refused(fixture, "not a reply");
    }
}

/* Nobody asks for it; a true that is taken for a 1 would be a grant. */
RESP_TEST(pushes_and_maps_are_read_where_they_are_wanted, fixture)
{
    static const char push[] = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n:5\r\n";
    static const char others[] = "%1\r\n$5\r\nproto\r\n:3\r\n=6\r\ntxt:ab\r\n_\r\n";
    struct rlock__reply reply;

    rlock__resp_take_pushes(fixture->resp);
    feed(fixture, push, strlen(push));
    assert_int_equal(rlock__resp_next(fixture->resp, &reply), 1);
    assert_true(reply.is_push && reply.is_array && reply.is_nested);
    assert_int_equal(reply.n, 2);
    assert_int_equal(rlock__resp_next(fixture->resp, &reply), 1);
    assert_false(reply.is_push || reply.is_array);
    feed(fixture, others, strlen(others));
    assert_int_equal(rlock__resp_next(fixture->resp, &reply), 1);
    assert_int_equal(reply.n, 2);
    assert_true(reply.is_array && !reply.is_push);
    assert_int_equal(rlock__resp_next(fixture->resp, &reply), 1);
    assert_int_equal(reply.v[0].type, RLOCK__REPLY_STR);
    assert_int_equal(rlock__resp_next(fixture->resp, &reply), 1);
    assert_int_equal(reply.v[0].type, RLOCK__REPLY_NIL);
    feed(fixture, "#t\r\n", 4); /* a server sends us none */
    assert_int_equal(rlock__resp_next(fixture->resp, &reply), RLOCK_ECONN);
}

RESP_TEST(what_is_of_version_3_of_the_protocol_is_refused, fixture)
{
    static const char *const replies[] = {
        "#t\r\n",       "*1\r\n#t\r\n", "%1\r\n+k\r\n:1\r\n", "~1\r\n:1\r\n",
        ">1\r\n:1\r\n", ",1.5\r\n",     "(1234567\r\n",       "=5\r\ntxt:a\r\n",
    };

    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
        feed(fixture, replies[i], strlen(replies[i]));
        assert_refused(fixture, "another version of the protocol");
        restart(fixture);
    }
}

RESP_TEST(what_is_left_of_a_reply_is_known, fixture)
{
    assert_true(rlock__resp_is_empty(fixture->resp));
    feed(fixture, ":1\r\n*2\r\n:1\r\n", 12);
    assert_next(fixture, "1");
    assert_none(fixture);
    assert_false(rlock__resp_is_empty(fixture->resp));
    feed(fixture, ":2\r\n:", 5);
    assert_next(fixture, "[1 2]");
    assert_none(fixture);
    assert_false(rlock__resp_is_empty(fixture->resp));
    feed(fixture, "3\r\n", 3);
    assert_next(fixture, "3");
    assert_none(fixture);
    assert_true(rlock__resp_is_empty(fixture->resp));
}

static void feed_array_of_ints(struct fixture *fixture, size_t n)
{
    char head[32];

    feed(fixture, head, (size_t)snprintf(head, sizeof(head), "*%zu\r\n", n));
    for (size_t i = 0; i < n; i++) {
        feed(fixture, ":1\r\n", 4);
    }
}

static void feed_string(struct fixture *fixture, size_t len)
{
    static const char zeros[2 * CAP];
    char head[32];

    feed(fixture, head, (size_t)snprintf(head, sizeof(head), "$%zu\r\n", len));
    feed(fixture, zeros, len);
}

RESP_TEST(a_reply_as_long_as_allowed_is_read, fixture)
{
    struct rlock__reply reply;

    feed_string(fixture, CAP - 9);
    feed(fixture, "\r\n", 2);
    assert_int_equal(rlock__resp_next(fixture->resp, &reply), 1);
    assert_int_equal(reply.v[0].len, CAP - 9);
    feed_array_of_ints(fixture, CAP / 4 - 2);
    assert_int_equal(rlock__resp_next(fixture->resp, &reply), 1);
    assert_int_equal(reply.n, CAP / 4 - 2);
}

RESP_TEST(a_reply_longer_than_allowed_is_refused_before_its_end, fixture)
{
    feed_string(fixture, 2 * CAP);
    assert_refused(fixture, "longer than allowed");

    restart(fixture);
    feed(fixture, "*9\r\n", 4); /* no single part of it is too long */
    for (int i = 0; i < 9; i++) {
        feed_string(fixture, CAP / 8);
        feed(fixture, "\r\n", 2);
    }
    assert_refused(fixture, "longer than allowed");
}

RESP_TEST(an_array_that_never_ends_is_refused, fixture)
{
    feed(fixture, "*99999999\r\n", 11);
    assert_refused(fixture, "longer than allowed");

    restart(fixture);
    for (int i = 0; i < CAP; i++) {
        feed(fixture, "*1\r\n", 4); /* ever deeper */
    }
    assert_refused(fixture, "longer than allowed");
}

RESP_TEST(the_limit_can_be_raised, fixture)
{
    struct rlock__reply reply;

    rlock__resp_set_cap(fixture->resp, (size_t)4 * CAP);
    feed_string(fixture, 2 * CAP);
    feed(fixture, "\r\n", 2);
    assert_int_equal(rlock__resp_next(fixture->resp, &reply), 1);
    assert_int_equal(reply.v[0].len, 2 * CAP);
    feed_array_of_ints(fixture, CAP - 4);
    assert_int_equal(rlock__resp_next(fixture->resp, &reply), 1);
    assert_int_equal(reply.n, CAP - 4);
}

/* Whatever comes, every outcome is one of the three, and a sanitizer has no complaint. */
RESP_TEST(random_bytes_do_no_harm, fixture)
{
    static const char alphabet[] = "*$:+-0123456789\r\n%~_#,(=>a";
    uint32_t seed = 1;

    for (int round = 0; round < 20000; round++) {
        struct rlock__reply reply;
        char bytes[64];
        int r = 1;

        for (size_t i = 0; i < sizeof(bytes); i++) {
            seed = seed * 1664525u + 1013904223u;
            bytes[i] = alphabet[(seed >> 16) % (sizeof(alphabet) - 1)];
        }
        restart(fixture);
        feed(fixture, bytes, sizeof(bytes));
        while (r == 1) {
            r = rlock__resp_next(fixture->resp, &reply);
        }
        assert_true(r == 0 || r == RLOCK_ECONN);
    }
}
