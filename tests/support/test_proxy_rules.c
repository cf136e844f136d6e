/* What the proxy does to single requests, replies and messages, each fault once. */
#include "support/fixture.h"
#include "support/raw.h"
#include "support/refusal.h"

#include <unistd.h>

#define PROXY_TEST(name, f)                                                                        \
    TEST_AROUND(name, struct fixture, f,                                                           \
                fixture_open(f, &(struct fixture_opts){.proxy = PROXY_ON_TCP}), fixture_drop(f))

PROXY_TEST(a_cut_request_never_arrives, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));
    const int rule = proxy_add(
        f->proxy, &(struct proxy_rule){.act = PROXY_CUT_REQUEST, .command = "incr", .skip = 1});

    raw_say(fd, "INCR cut\r\n");
    assert_true(raw_hears(fd, ":1\r\n"));
    raw_say(fd, "INCR cut\r\n");
    assert_string_equal(raw_hear(fd), "RESET");
    assert_int_equal(proxy_fired(f->proxy, rule), 1);
    assert_int_equal(test_server_int(f->server, "GET cut"), 1);
    close(fd);
}

PROXY_TEST(a_cut_reply_belongs_to_an_executed_request, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));

    proxy_cut_after_requests(f->proxy, 2);
    raw_say(fd, "INCR cut\r\n");
    assert_true(raw_hears(fd, ":1\r\n"));
    raw_say(fd, "INCR cut\r\n");
    assert_string_equal(raw_hear(fd), "RESET");
    assert_int_equal(test_server_int(f->server, "GET cut"), 2);
    assert_int_equal(proxy_stats(f->proxy).cuts, 1);
    close(fd);
}

PROXY_TEST(a_reply_is_cut_after_any_byte, f)
{
    static const char reply[] = "$3\r\nabc\r\n";

    for (size_t at = 0; at < sizeof(reply); at++) {
        char part[sizeof(reply)] = "";
        const int fd = raw_dial(proxy_url(f->proxy));

        memcpy(part, reply, at);
        proxy_cut_in_reply(f->proxy, at);
        raw_say(fd, "ECHO abc\r\n");
        assert_true(raw_hears(fd, part));
        assert_string_equal(raw_hear(fd), "RESET");
        close(fd);
    }
}

PROXY_TEST(a_repeated_request_is_answered_once, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));

    proxy_repeat_requests(f->proxy, 1);
    raw_say(fd, "INCR twice\r\nINCR twice\r\n");
    assert_true(raw_hears(fd, ":1\r\n:3\r\n"));
    assert_int_equal(proxy_stats(f->proxy).swallowed, 1);
    close(fd);
}

PROXY_TEST(a_refusal_keeps_its_place_and_is_not_executed, f)
{
    static const struct refusal rows[] = {
        {.command = "incr", .contains = "no", .answer = "-ERR no\r\n"},
        {.command = "get", .does = REFUSAL_IS_SILENT},
        {.command = "quit", .does = REFUSAL_HANGS_UP},
        {0},
    };
    const int fd = raw_dial(proxy_url(f->proxy));

    refuse(f->proxy, rows);
    raw_say(fd, "INCR yes\r\nINCR no\r\nINCR yes\r\nGET yes\r\nQUIT\r\nINCR yes\r\n");
    assert_true(raw_hears(fd, ":1\r\n-ERR no\r\n:2\r\n"));
    assert_string_equal(raw_hear(fd), "END");
    assert_int_equal(test_server_int(f->server, "EXISTS no"), 0);
    close(fd);
}

PROXY_TEST(a_share_of_messages_is_lost, f)
{
    static const char message[] = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n1\r\n";

    const int fd = raw_dial(proxy_url(f->proxy));
    raw_say(fd, "SUBSCRIBE c\r\n");
    assert_true(raw_hears(fd, "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"));
    proxy_drop_messages(f->proxy, 50, 7);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(test_server_int(f->server, "PUBLISH c 1"), 1);
    }
    raw_say(fd, "PING\r\n"); /* its answer comes behind the messages */
    size_t heard = 0;
    for (const char *text = raw_hear(fd); strstr(text, "pong") == NULL; text = raw_hear(fd)) {
        heard += strlen(text) / strlen(message);
    }
    const struct proxy_stats stats = proxy_stats(f->proxy);
    assert_int_equal(stats.messages, 100);
    assert_in_range(stats.dropped_messages, 30, 70);
    assert_true(heard <= 100 - stats.dropped_messages);
    close(fd);
}

PROXY_TEST(a_held_request_comes_after_its_client_has_left, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));

    raw_say(fd, "PING\r\n");
    assert_true(raw_hears(fd, "+PONG\r\n"));
    proxy_hold_requests(f->proxy, true);
    raw_say(fd, "APPEND late old\r\n");
    assert_true(proxy_wait_held(f->proxy, 1, 5000));
    close(fd);
    const int other = raw_dial(proxy_url(f->proxy));
    raw_say(other, "APPEND late new\r\n");
    assert_true(raw_hears(other, ":3\r\n"));
    proxy_hold_requests(f->proxy, false);
    assert_true(TEST_EVENTUALLY(test_server_says(f->server, "newold", "GET late"), 5000));
    assert_true(TEST_EVENTUALLY(test_server_clients(f->server) == 1, 5000));
    close(other);
}

PROXY_TEST(a_stranded_client_sees_a_reset_and_its_request_arrives, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));

    proxy_add(f->proxy, &(struct proxy_rule){.act = PROXY_HOLD, .contains = "late"});
    raw_say(fd, "APPEND late old\r\n");
    assert_true(proxy_wait_held(f->proxy, 1, 5000));
    proxy_strand_all(f->proxy, PROXY_COMMANDS);
    assert_string_equal(raw_hear(fd), "RESET");
    assert_int_equal(test_server_int(f->server, "EXISTS late"), 0);
    proxy_hold_requests(f->proxy, false);
    assert_true(TEST_EVENTUALLY(test_server_says(f->server, "old", "GET late"), 5000));
    close(fd);
}

PROXY_TEST(a_held_request_of_a_killed_connection_never_arrives, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));

    raw_say(fd, "CLIENT ID\r\n");
    const long id = strtol(raw_hear(fd) + 1, NULL, 10);
    proxy_hold_requests(f->proxy, true);
    raw_say(fd, "APPEND late old\r\n");
    assert_true(proxy_wait_held(f->proxy, 1, 5000));
    assert_int_equal(test_server_int(f->server, "CLIENT KILL ID %ld", id), 1);
    assert_string_equal(raw_hear(fd), "END");
    proxy_hold_requests(f->proxy, false);
    assert_int_equal(proxy_stats(f->proxy).held, 0);
    assert_int_equal(test_server_int(f->server, "EXISTS late"), 0);
    close(fd);
}

PROXY_TEST(a_reply_is_replaced_dropped_or_late, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));

    proxy_mutate(f->proxy, "-LOADING x\r\n", 12);
    raw_say(fd, "INCR key\r\nINCR key\r\n");
    assert_true(raw_hears(fd, "-LOADING x\r\n:2\r\n"));
    proxy_add(f->proxy, &(struct proxy_rule){.act = PROXY_DROP_REPLY, .command = "INCR"});
    proxy_add(f->proxy, &(struct proxy_rule){.act = PROXY_DROP_REQUEST, .command = "DECR"});
    proxy_add(f->proxy,
              &(struct proxy_rule){.act = PROXY_DELAY_REPLY, .command = "GET", .delay_us = 10000});
    const int64_t before_us = test_now_us();
    raw_say(fd, "INCR key\r\nDECR key\r\nGET key\r\nPING\r\n");
    assert_true(raw_hears(fd, "$1\r\n3\r\n+PONG\r\n"));
    assert_true(test_elapsed_us(before_us) >= 10000);
    close(fd);
}

PROXY_TEST(a_reply_comes_once_more, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));

    proxy_add(f->proxy, &(struct proxy_rule){.act = PROXY_ECHO_REPLY, .command = "INCR"});
    proxy_add(f->proxy, &(struct proxy_rule){.act = PROXY_ECHO_REPLY, .command = "GET", .at = 3});
    raw_say(fd, "INCR key\r\nGET key\r\nPING\r\n");
    assert_true(raw_hears(fd, ":1\r\n:1\r\n$1\r\n1\r\n$1\r+PONG\r\n"));
    assert_int_equal(proxy_stats(f->proxy).echoes, 2);
    close(fd);
}

PROXY_TEST(rules_count_what_they_match, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));
    const int incr =
        proxy_add(f->proxy, &(struct proxy_rule){.command = "INCR", .contains = "key"});
    const int lost =
        proxy_add(f->proxy, &(struct proxy_rule){.act = PROXY_DROP_REPLY, .times = PROXY_ALWAYS});

    raw_say(fd, "INCR key\r\nINCR other\r\nINCR key\r\n");
    assert_true(proxy_wait_fired(f->proxy, incr, 2, 5000));
    assert_true(proxy_wait_fired(f->proxy, lost, 3, 5000));
    proxy_remove(f->proxy, lost);
    raw_say(fd, "PING\r\n");
    assert_true(raw_hears(fd, "+PONG\r\n"));
    assert_int_equal(proxy_fired(f->proxy, incr), 2);
    close(fd);
}
