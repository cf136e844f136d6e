/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/dial.h"
#include "support/run.h"
#include "support/test.h"

#define BIG ((size_t)4 * 1024 * 1024)

static struct test_server *start(enum test_transport transport)
{
    struct test_server_opts opts = {.transport = transport};

    return test_server_start(&opts);
}

/* ---- Peers that are no Redis server, or not in the mood ---- */

static void a_peer_fails(struct peer *peer, int code, const char *text)
{
    struct dial dial;

    peer_start(peer);
    dial_init(&dial, peer_url(peer, "redis"));
    dial_fails(&dial, code, text);
    assert_int_equal(rlock__conn_error_is_final(&(struct rlock__conn_opts){0}, code),
                     code != RLOCK_ECONN);
    dial_fini(&dial);
    peer_stop(peer);
}

TEST(an_http_server_is_recognised)
{
    struct peer peer = {.says = "HTTP/1.0 400\r\n"};

    a_peer_fails(&peer, RLOCK_ECONN, "not a Redis server: it answers HTTP");
}

TEST(a_tls_server_on_a_plain_port_is_recognised)
{
    struct peer peer = {.says = "\x15\x03\x01\x02\x02\x46"};

    a_peer_fails(&peer, RLOCK_ECONN, "it speaks TLS");
}

TEST(an_echo_is_no_redis_server)
{
    struct peer peer = {.echoes = true};

    a_peer_fails(&peer, RLOCK_ECONN, "not a Redis server");
}

TEST(garbage_is_no_redis_server)
{
    struct peer peer = {.says = "220 mail ESMTP\r\n", .unasked = true};
    struct peer status = {.says = "+PONG\r\n", .unasked = true};

    a_peer_fails(&peer, RLOCK_ECONN, "not a reply of the Redis protocol");
    a_peer_fails(&status, RLOCK_ECONN, "not a Redis server");
}

TEST(a_peer_that_hangs_up_is_transient)
{
    struct peer closes = {0};
    struct peer resets = {.resets = true};
    struct peer breaks_off = {.says = "*14\r\n$6\r\nserv", .resets = true};

    a_peer_fails(&closes, RLOCK_ECONN, "closed by the server");
    a_peer_fails(&resets, RLOCK_ECONN, "connection lost");
    a_peer_fails(&breaks_off, RLOCK_ECONN, "connection lost");
}

TEST(a_server_that_is_not_ready_is_transient)
{
    struct peer full = {.says = "-ERR max number of clients reached\r\n", .unasked = true};
    struct peer loading = {.says = "-LOADING Redis is loading the dataset in memory\r\n"};

    a_peer_fails(&full, RLOCK_ECONN, "max number of clients");
    full.unasked = false;
    full.resets = true; /* our greeting met a closed socket */
    a_peer_fails(&full, RLOCK_ECONN, "max number of clients");
    a_peer_fails(&loading, RLOCK_ECONN, "LOADING");
}

TEST(protected_mode_is_a_matter_of_permission)
{
    struct peer peer = {.says = "-DENIED Redis is running in protected mode\r\n", .unasked = true};

    a_peer_fails(&peer, RLOCK_EPERM, "protected mode");
}

TEST(a_name_that_nobody_has_is_transient)
{
    const size_t threads = test_threads_at_rest();
    struct dial dial;

    dial_init(&dial, "redis://no-such-host.invalid");
    dial_fails(&dial, RLOCK_ECONN, "no-such-host.invalid:6379: name not resolved");
    dial_fini(&dial);
    assert_true(TEST_EVENTUALLY(test_threads_running() == threads, 5000)); /* the resolver's */
}

TEST(a_refused_connection_is_transient)
{
    char url[64];
    struct dial dial;

    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d", test_free_port());
    dial_init(&dial, url);
    dial_fails(&dial, RLOCK_ECONN, "refused");
    dial_fini(&dial);
    dial_init(&dial, "unix:///nonexistent/socket");
    dial_fails(&dial, RLOCK_ECONN, "No such file");
    dial_fini(&dial);
}

/* ---- Silence ---- */

static void fails_at_its_deadline(const char *url, const char *text)
{
    struct dial dial;
    int64_t before = test_now_us();

    dial_init(&dial, url);
    dial.opts.connect_timeout_us = 300000;
    dial_fails(&dial, RLOCK_ECONN, text);
    assert_true(test_elapsed_us(before) >= 299000);
    assert_in_time(before, 300000 + 200000 * test_slack());
    dial_fini(&dial);
}

TEST(a_stopped_server_fails_at_the_deadline)
{
    struct test_server *server = start(TEST_TCP);

    test_server_freeze(server);
    fails_at_its_deadline(test_server_url(server), "no answer within 300 ms");
    fails_at_its_deadline(test_server_unix_url(server), "no answer within 300 ms");
    test_server_stop(server);
}

TEST(a_silent_peer_fails_at_the_deadline)
{
    struct peer peer = {.holds = true, .says = "*14\r\n$6\r\nserver\r\n"};

    peer_start(&peer);
    fails_at_its_deadline(peer_url(&peer, "redis"), "no answer within 300 ms");
    peer_stop(&peer);
}

/* Packets to a listener with a full queue are dropped, as a firewall would. */
TEST(a_black_hole_fails_at_the_deadline)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(addr);
    int listener = test_must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    int fill[4];
    char url[64];

    test_must(bind(listener, (struct sockaddr *)&addr, len), "bind");
    test_must(listen(listener, 0), "listen");
    test_must(getsockname(listener, (struct sockaddr *)&addr, &len), "getsockname");
    for (size_t i = 0; i < sizeof(fill) / sizeof(fill[0]); i++) {
        fill[i] =
            test_must(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
        (void)connect(fill[i], (struct sockaddr *)&addr, len);
    }
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d", ntohs(addr.sin_port));
    fails_at_its_deadline(url, "not connected within 300 ms");
    for (size_t i = 0; i < sizeof(fill) / sizeof(fill[0]); i++) {
        (void)close(fill[i]);
    }
    (void)close(listener);
}

/* ---- Bytes ---- */

TEST(commands_in_a_row_are_answered_in_a_row)
{
    struct test_server *server = start(TEST_UNIX);
    struct rlock__reply reply;
    struct dial dial;
    char line[32];

    dial_init(&dial, test_server_url(server));
    dial_works(&dial);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(
            dial_send(&dial, line, (size_t)snprintf(line, sizeof(line), "ECHO %d\r\n", i)), 0);
    }
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(line, sizeof(line), "%d", i);
        assert_int_equal(dial_next(&dial, &reply), 1);
        assert_true(rlock__bytes_equal(rlock__reply_str(&reply, 0), rlock__bytes_of(line)));
    }
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(a_long_write_goes_in_parts)
{
    struct test_server *server = start(TEST_UNIX);
    char *big = calloc(1, BIG);
    struct rlock__reply reply;
    struct dial dial;
    int head = snprintf(big, BIG, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%zu\r\n", BIG - 100);
    size_t len = (size_t)head + BIG - 100 + 2;
    ssize_t sent;

    memcpy(big + len - 2, "\r\n", 2);
    dial_init(&dial, test_server_url(server));
    dial_works(&dial);
    test_server_freeze(server);
    sent = rlock__conn_write(dial.conn, big, len);
    assert_in_range(sent, 1, len - 1);
    assert_int_equal(rlock__conn_write(dial.conn, big + sent, len - (size_t)sent), 0);
    assert_int_equal(rlock__conn_events(dial.conn), POLLIN | POLLOUT);
    test_server_thaw(server);
    assert_int_equal(dial_send(&dial, big + sent, len - (size_t)sent), 0);
    assert_int_equal(dial_next(&dial, &reply), 1);
    assert_int_equal(reply.v[0].type, RLOCK__REPLY_STATUS);
    assert_int_equal(test_server_int(server, "strlen k"), BIG - 100);
    free(big);
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(a_reply_that_is_too_long_ends_the_connection)
{
    struct test_server *server = start(TEST_UNIX);
    struct rlock__reply reply;
    struct dial dial;

    test_server_do(server, "setrange k 299999 x");
    dial_init(&dial, test_server_url(server));
    dial_works(&dial);
    assert_int_equal(dial_send(&dial, "GET k\r\n", 7), 0);
    assert_int_equal(dial_next(&dial, &reply), RLOCK_ECONN);
    assert_non_null(strstr(rlock__conn_error(dial.conn), "longer than allowed"));
    dial_works(&dial);
    rlock__conn_set_reply_cap(dial.conn, RLOCK__REPLY_CAP_LARGE);
    assert_int_equal(dial_send(&dial, "GET k\r\n", 7), 0);
    assert_int_equal(dial_next(&dial, &reply), 1);
    assert_int_equal(reply.v[0].len, 300000);
    dial_fini(&dial);
    test_server_stop(server);
}

/* ---- The process ---- */

TEST(writing_to_a_reset_connection_raises_no_signal)
{
    struct test_server *server = start(TEST_UNIX);
    struct dial dial;

    sigpipe_watch();
    dial_init(&dial, test_server_url(server));
    dial_works(&dial);
    test_server_kill(server);
    assert_int_equal(rlock__conn_write(dial.conn, "PING\r\n", 6), RLOCK_ECONN);
    assert_int_equal(rlock__conn_write(dial.conn, "PING\r\n", 6), RLOCK_ECONN);
    rlock__conn_close(dial.conn);
    assert_int_equal(sigpipe_count(), 0);
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(without_descriptors_it_fails_until_there_are_some)
{
    struct test_server *server = start(TEST_TCP);
    size_t open = test_fds_open();
    struct rlimit old, none;
    struct dial dial;

    dial_init(&dial, test_server_url(server));
    test_must(getrlimit(RLIMIT_NOFILE, &old), "getrlimit");
    none = old;
    none.rlim_cur = 0; /* what is open stays open */
    test_must(setrlimit(RLIMIT_NOFILE, &none), "setrlimit");
    dial_fails(&dial, RLOCK_ERESOURCE, "Too many open files");
    test_must(setrlimit(RLIMIT_NOFILE, &old), "setrlimit");
    dial_works(&dial);
    dial_fini(&dial);
    assert_int_equal(test_fds_open(), open);
    test_server_stop(server);
}

static void on_alarm(int signal)
{
    (void)signal;
}

TEST(interrupted_calls_are_repeated)
{
    struct test_server *server = start(TEST_TCP);
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    struct dial dial;

    dial_init(&dial, test_server_url(server));
    test_must(sigaction(SIGALRM, &action, NULL), "sigaction");
    test_must(setitimer(ITIMER_REAL, &often, NULL), "setitimer");
    for (int i = 0; i < 200; i++) {
        dial_works(&dial);
        dial_ping(&dial);
    }
    test_must(setitimer(ITIMER_REAL, &never, NULL), "setitimer");
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(a_child_that_lets_go_does_not_disturb_the_parent)
{
    struct test_server *server = start(TEST_UNIX);
    struct dial dial;
    int status = -1;
    pid_t pid;

    dial_init(&dial, test_server_url(server));
    dial_works(&dial);
    pid = test_must(fork(), "fork");
    if (pid == 0) {
        rlock__conns_abandon();
        _exit(rlock__conn_fd(dial.conn) == -1 ? 0 : 1);
    }
    test_must(waitpid(pid, &status, 0), "waitpid");
    assert_int_equal(status, 0);
    dial_ping(&dial);
    dial_fini(&dial);
    test_server_stop(server);
}
