/* What the proxy does to connections, each fault once: slow, cut, silent, gone. */
#include "support/fixture.h"
#include "support/raw.h"

#include <signal.h>
#include <unistd.h>

#define PROXY_TEST(name, f)                                                                        \
    TEST_AROUND(name, struct fixture, f,                                                           \
                fixture_open(f, &(struct fixture_opts){.proxy = PROXY_ON_TCP}), fixture_drop(f))

PROXY_TEST(frames_pass_and_are_counted, f)
{
    struct proxy *on_socket = proxy_start_unix(test_server_unix_url(f->server));
    const int fd = raw_dial(proxy_url(on_socket));

    raw_say(fd, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1\r\n1\r\n"
                "*4\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$3\r\nkey\r\n");
    assert_true(raw_hears(fd, "+OK\r\n:1\r\n"));
    const struct proxy_stats stats = proxy_stats(on_socket);
    assert_int_equal(stats.accepted, 1);
    assert_int_equal(stats.open, 1);
    assert_int_equal(stats.requests, 2);
    assert_int_equal(stats.replies, 2);
    assert_string_equal(stats.command, "EVAL");
    assert_string_equal(stats.argument, "return 1");
    assert_string_equal(stats.key, "key");
    close(fd);
    assert_true(proxy_wait_open(on_socket, 0, 5000));
    proxy_stop(on_socket);
}

PROXY_TEST(a_stopped_proxy_leaves_nothing_open, f)
{
    const size_t fds = test_fds_open();
    const size_t threads = test_threads_running();
    struct proxy *other = proxy_start(test_server_unix_url(f->server));
    const int fd = raw_dial(proxy_url(other));

    raw_say(fd, "PING\r\n");
    assert_true(raw_hears(fd, "+PONG\r\n"));
    assert_null(proxy_stop(other));
    assert_string_equal(raw_hear(fd), "RESET");
    close(fd);
    assert_int_equal(test_fds_open(), fds);
    assert_true(TEST_EVENTUALLY(test_threads_running() == threads, 5000));
    assert_null(proxy_stop(NULL));
}

PROXY_TEST(a_delay_takes_its_time_in_each_direction, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));
    const int64_t before_us = test_now_us();

    proxy_delay_us(f->proxy, 10000);
    raw_say(fd, "PING\r\n");
    assert_true(raw_hears(fd, "+PONG\r\n"));
    assert_true(test_elapsed_us(before_us) >= 20000);
    proxy_delay_us(f->proxy, 0);
    proxy_delay_way_us(f->proxy, PROXY_SUBSCRIBERS, PROXY_TO_CLIENT, 1000000000);
    raw_say(fd, "PING\r\n");
    assert_true(raw_hears(fd, "+PONG\r\n"));
    close(fd);
}

PROXY_TEST(jitter_keeps_the_order, f)
{
    char expected[1024] = "";
    const int fd = raw_dial(proxy_url(f->proxy));

    proxy_jitter_us(f->proxy, 2000, 1);
    raw_say(fd, "DEL jitter\r\n");
    assert_true(raw_hears(fd, ":0\r\n"));
    for (int i = 1; i <= 50; i++) {
        raw_say(fd, "INCR jitter\r\n");
        const size_t len = strlen(expected);
        test_text(expected + len, sizeof(expected) - len, ":%d\r\n", i);
    }
    assert_true(raw_hears(fd, expected));
    close(fd);
}

PROXY_TEST(chopped_replies_are_whole_in_the_end, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));

    proxy_chop(f->proxy, 1);
    raw_say(fd, "ECHO abcdefgh\r\n");
    assert_true(raw_hears(fd, "$8\r\nabcdefgh\r\n"));
    close(fd);
}

PROXY_TEST(one_class_of_connections_is_cut, f)
{
    const int commands = raw_dial(proxy_url(f->proxy));
    const int subscriber = raw_dial(proxy_url(f->proxy));

    raw_say(commands, "PING\r\n");
    assert_true(raw_hears(commands, "+PONG\r\n"));
    raw_say(subscriber, "SUBSCRIBE c\r\n");
    assert_true(raw_hears(subscriber, "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"));
    assert_int_equal(proxy_stats(f->proxy).subscribers, 1);
    proxy_cut_all(f->proxy, PROXY_SUBSCRIBERS);
    assert_string_equal(raw_hear(subscriber), "RESET");
    raw_say(commands, "PING\r\n");
    assert_true(raw_hears(commands, "+PONG\r\n"));
    proxy_cut_all(f->proxy, PROXY_ANY);
    assert_string_equal(raw_hear(commands), "RESET");
    assert_true(proxy_wait_subscribers(f->proxy, 0, 5000));
    close(commands);
    close(subscriber);
}

/* As every child has it between fork and exec. */
PROXY_TEST(a_socket_that_a_child_holds_too_is_forgotten_when_it_is_cut, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));

    raw_say(fd, "PING\r\n");
    assert_true(raw_hears(fd, "+PONG\r\n"));
    const pid_t parent = getpid();
    const pid_t child = test_must(fork(), "fork");
    if (child == 0) {
        test_die_with_parent(parent);
        for (;;) {
            pause();
        }
    }
    proxy_cut_all(f->proxy, PROXY_ANY);
    assert_true(proxy_wait_open(f->proxy, 0, 5000));
    for (int i = 0; i < 10; i++) { /* the child's copy is readable; the proxy's thread turns */
        raw_say(fd, "PING\r\n");
        const int other = raw_dial(proxy_url(f->proxy));
        raw_say(other, "PING\r\n");
        assert_true(raw_hears(other, "+PONG\r\n"));
        close(other);
    }
    test_must(kill(child, SIGKILL), "kill");
    test_reap(child);
    close(fd);
}

PROXY_TEST(silence_keeps_what_is_sent, f)
{
    proxy_go_silent(f->proxy, PROXY_ANY, true);
    const int fd = raw_dial(proxy_url(f->proxy));

    raw_say(fd, "INCR silent\r\n");
    assert_true(proxy_wait_requests(f->proxy, 1, 5000));
    assert_string_equal(raw_hear_within(fd, 20), "");
    assert_int_equal(test_server_int(f->server, "EXISTS silent"), 0);
    proxy_go_silent(f->proxy, PROXY_ANY, false);
    assert_true(raw_hears(fd, ":1\r\n"));
    close(fd);
}

PROXY_TEST(a_black_hole_is_for_ever, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));

    raw_say(fd, "INCR black\r\n");
    assert_true(raw_hears(fd, ":1\r\n"));
    proxy_black_hole(f->proxy, PROXY_ANY, true);
    raw_say(fd, "INCR black\r\n");
    proxy_black_hole(f->proxy, PROXY_ANY, false);
    const int later = raw_dial(proxy_url(f->proxy));
    raw_say(later, "INCR black\r\n");
    assert_true(raw_hears(later, ":2\r\n"));
    assert_string_equal(raw_hear_within(fd, 20), "");
    close(fd);
    assert_true(proxy_wait_open(f->proxy, 1, 5000));
    assert_int_equal(test_server_clients(f->server), 2); /* the server did not learn of the close */
    close(later);
    assert_true(TEST_EVENTUALLY(test_server_clients(f->server) == 1, 5000));
}

PROXY_TEST(a_refusing_proxy_listens_again_at_its_address, f)
{
    proxy_refuse(f->proxy, true);
    assert_int_equal(raw_dial(proxy_url(f->proxy)), -1);
    proxy_refuse(f->proxy, false);
    const int fd = raw_dial(proxy_url(f->proxy));
    raw_say(fd, "PING\r\n");
    assert_true(raw_hears(fd, "+PONG\r\n"));
    proxy_cut_accepts(f->proxy, 1);
    const int cut = raw_dial(proxy_url(f->proxy));
    assert_string_equal(raw_hear(cut), "RESET");
    close(cut);
    close(fd);
}

PROXY_TEST(a_killed_server_closes_and_a_frozen_one_is_silent, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));

    raw_say(fd, "PING\r\n");
    assert_true(raw_hears(fd, "+PONG\r\n"));
    test_server_freeze(f->server);
    raw_say(fd, "PING\r\n");
    assert_true(proxy_wait_requests(f->proxy, 2, 5000));
    assert_string_equal(raw_hear_within(fd, 20), "");
    test_server_thaw(f->server);
    assert_true(raw_hears(fd, "+PONG\r\n"));
    test_server_kill(f->server);
    assert_string_equal(raw_hear(fd), "END");
    const int other = raw_dial(proxy_url(f->proxy));
    assert_string_equal(raw_hear(other), "END");
    close(other);
    close(fd);
}

PROXY_TEST(what_is_not_the_protocol_passes, f)
{
    const int fd = raw_dial(proxy_url(f->proxy));

    raw_say(fd, "\x16\x03\x01\x02 a TLS hello, say\r\n");
    assert_int_equal(raw_hear(fd)[0], '-');
    close(fd);
}

/* The exit status of a TLS handshake, and of one PING, through the proxy. */
static int ping_by_tls(const struct proxy *through)
{
    char *command = NULL;

    test_must(
        asprintf(
            &command,
            "(echo PING; echo QUIT) | timeout 20 openssl s_client -quiet -connect 127.0.0.1:%s "
            "-CAfile %s -verify_return_error 2>/dev/null | grep -q PONG",
            strrchr(proxy_url(through), ':') + 1, test_ca()),
        "asprintf");
    const int status = system(command); /* NOLINT(cert-env33-c): our own words */
    free(command);
    return status;
}

FIXTURE_WITH_TEST(a_tls_handshake_passes_or_is_cut, f, .server.transport = TEST_TLS,
                  .proxy = PROXY_OF_BYTES)
{
    assert_int_equal(strncmp(proxy_url(f->proxy), "rediss://localhost:", 19), 0);
    assert_int_equal(ping_by_tls(f->proxy), 0);
    proxy_cut_at_byte(f->proxy, PROXY_TO_CLIENT, 100);
    assert_int_not_equal(ping_by_tls(f->proxy), 0);
    assert_int_equal(proxy_stats(f->proxy).cuts, 1);
    assert_int_equal(ping_by_tls(f->proxy), 0);
}
