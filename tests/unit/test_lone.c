/* SPDX-License-Identifier: Apache-2.0 */
/* What the library does by itself, without a server: its sockets, the first answer, and fork. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "drive/client.h"
#include "net/conn.h"
#include "net/hello.h"
#include "support/run.h"
#include "support/test.h"

/* A listener on loopback; nobody accepts. */
static int listen_at(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    const int fd = test_must(socket(AF_INET, SOCK_STREAM, 0), "socket");

    (void)test_must(bind(fd, (struct sockaddr *)&address, len), "bind");
    (void)test_must(listen(fd, 1), "listen");
    (void)test_must(getsockname(fd, (struct sockaddr *)&address, &len), "getsockname");
    *ret_port = ntohs(address.sin_port);
    return fd;
}

TEST(no_command_is_held_back_for_another)
{
    char host[] = "127.0.0.1";
    struct rlock__uri uri = {.host = host};
    struct rlock__conn_opts opts = {.uri = &uri, .connect_timeout_us = 1000000};
    struct rlock__conn *conn = rlock__conn_new(&opts);
    socklen_t len = sizeof(int);
    int no_delay = 0, listener;

    assert_non_null(conn);
    listener = listen_at(&uri.port);
    assert_int_equal(rlock__conn_start(conn, NULL, 0, rlock__now_us()), 0);
    assert_int_equal(getsockopt(rlock__conn_fd(conn), IPPROTO_TCP, TCP_NODELAY, &no_delay, &len),
                     0);
    assert_int_not_equal(no_delay, 0);
    (void)rlock__conn_free(conn);
    (void)close(listener);
}

/* What a greeting makes of HELLO's reply that names this version of the protocol. */
static int take_version(enum rlock__hello_manner manner, int64_t version)
{
    const struct rlock__uri uri = {0};
    const struct rlock__conn_opts opts = {.uri = &uri};
    const struct rlock__value values[] = {{RLOCK__REPLY_STR, .str = "proto", .len = 5},
                                          {RLOCK__REPLY_INT, .num = version},
                                          {RLOCK__REPLY_STR, .str = "id", .len = 2},
                                          {RLOCK__REPLY_INT, .num = 7}};
    struct rlock__reply reply = {.v = values, .n = 4, .is_array = true};
    struct rlock__hello hello = {0};
    int r;

    assert_int_equal(rlock__hello_begin(&hello, &opts, manner, NULL, 0), 0);
    r = rlock__hello_reply(&hello, &reply);
    rlock__hello_fini(&hello);
    return r;
}

TEST(only_the_version_that_was_asked_for_will_do)
{
    assert_int_equal(take_version(RLOCK__HELLO_FIRST, 2), 1);
    assert_int_equal(take_version(RLOCK__HELLO_FIRST, 3), RLOCK_ECONN);
    assert_int_equal(take_version(RLOCK__HELLO_FIRST, 1), RLOCK_ECONN);
    assert_int_equal(take_version(RLOCK__HELLO_PUSHES, 3), 0); /* CLIENT TRACKING follows */
    assert_int_equal(take_version(RLOCK__HELLO_PUSHES, 2), RLOCK_ECONN);
}

/* Whether the connection tracks keys after the server answered HELLO and CLIENT TRACKING so. */
static bool tracks_after(struct rlock__value hello_says, struct rlock__value tracking_says)
{
    const struct rlock__uri uri = {0};
    const struct rlock__conn_opts opts = {.uri = &uri};
    const struct rlock__value fields[] = {{RLOCK__REPLY_STR, .str = "proto", .len = 5}, hello_says};
    const struct rlock__value id = {RLOCK__REPLY_INT, .num = 7};
    const struct rlock__reply refusal = {.v = &hello_says, .n = 1},
                              greeting = {.v = fields, .n = 2, .is_array = true},
                              tracking = {.v = &tracking_says, .n = 1}, number = {.v = &id, .n = 1};
    bool is_refused = hello_says.type == RLOCK__REPLY_ERROR, tracks;
    struct rlock__hello hello = {0};

    assert_int_equal(rlock__hello_begin(&hello, &opts, RLOCK__HELLO_PUSHES, NULL, 0), 0);
    assert_int_equal(rlock__hello_reply(&hello, is_refused ? &refusal : &greeting), 0);
    if (is_refused) { /* what was said behind HELLO is said again, behind its parts */
        assert_int_equal(rlock__hello_reply(&hello, &tracking), 0);
        assert_int_equal(rlock__hello_reply(&hello, &number), 0);
    }
    assert_int_equal(rlock__hello_reply(&hello, &tracking), 1);
    tracks = hello.got.tracks;
    rlock__hello_fini(&hello);
    return tracks;
}

TEST(a_connection_tracks_keys_where_the_server_knows_version_3_and_permits_it)
{
    const struct rlock__value three = {RLOCK__REPLY_INT, .num = 3},
                              ok = {RLOCK__REPLY_STATUS, .str = "OK", .len = 2},
                              refused = {RLOCK__REPLY_ERROR, .str = "ERR no", .len = 6};

    assert_true(tracks_after(three, ok));
    assert_false(tracks_after(three, refused));
    assert_false(tracks_after(refused, ok)); /* in version 2 the server would tell nobody */
    assert_false(tracks_after(refused, refused));
}

/* A program that knows a newer password than the options have. */
static int give_password(struct rlock_login *login, void *payload)
{
    assert_string_equal(rlock_login_server(login), "db.example:7000");
    assert_false(rlock_login_is_sentinel(login));
    return rlock_login_set(login, NULL, payload);
}

TEST(what_the_program_sets_is_said_and_the_rest_of_the_options)
{
    char host[] = "db.example", newest[] = "newest";
    const struct rlock__uri uri = {.host = host, .port = 7000};
    const struct rlock__conn_opts opts = {.uri = &uri,
                                          .user = "teller",
                                          .password = "older",
                                          .on_login = give_password,
                                          .payload = newest};
    struct rlock__hello hello = {0};

    assert_int_equal(rlock__hello_begin(&hello, &opts, RLOCK__HELLO_FIRST, NULL, 0), 0);
    assert_true(rlock__buf_add(&hello.out, "", 1));
    assert_non_null(strstr(hello.out.data, "AUTH\r\n$6\r\nteller\r\n$6\r\nnewest\r\n"));
    rlock__hello_fini(&hello);
    assert_true(rlock__conn_error_is_final(&(struct rlock__conn_opts){0}, RLOCK_EAUTH));
    assert_false(rlock__conn_error_is_final(&opts, RLOCK_EAUTH));
    assert_true(rlock__conn_error_is_final(&opts, RLOCK_EPERM));
}

static int give_up(struct rlock_login *login, void *payload)
{
    (void)login;
    (void)payload;
    return 1;
}

TEST(a_program_without_a_login_says_nothing_to_the_server)
{
    char host[] = "db.example";
    const struct rlock__uri uri = {.host = host, .port = 7000};
    const struct rlock__conn_opts opts = {.uri = &uri, .password = "older", .on_login = give_up};
    struct rlock__hello hello = {0};

    assert_int_equal(rlock__hello_begin(&hello, &opts, RLOCK__HELLO_FIRST, NULL, 0), RLOCK_EAUTH);
    assert_int_equal(hello.out.len, 0);
    rlock__hello_fini(&hello);
}

/* A greeting as number 7, of a client that lost the connections 3 and 9; CLIENT LIST is refused. */
static void greet_behind_lost_ones(struct rlock__hello *hello)
{
    static const uint64_t lost[] = {3, 9};
    static const struct rlock__uri uri = {0};
    static const struct rlock__conn_opts opts = {.uri = &uri, .client_name = "me"};
    const struct rlock__value values[] = {{RLOCK__REPLY_STR, .str = "proto", .len = 5},
                                          {RLOCK__REPLY_INT, .num = 2},
                                          {RLOCK__REPLY_STR, .str = "id", .len = 2},
                                          {RLOCK__REPLY_INT, .num = 7}};
    const struct rlock__value error = {RLOCK__REPLY_ERROR, .str = "NOPERM no", .len = 9};
    struct rlock__reply refusal = {.v = &error, .n = 1};

    assert_int_equal(rlock__hello_begin(hello, &opts, RLOCK__HELLO_FIRST, lost, 2), 0);
    assert_int_equal(
        rlock__hello_reply(hello, &(struct rlock__reply){.v = values, .n = 4, .is_array = true}),
        0);
    assert_int_equal(rlock__hello_reply(hello, &refusal), 0);
}

/* Numbers only grow while a server runs: one that is not below ours was of a server that has ended,
 * and is somebody else's by now. */
TEST(nobody_else_is_killed_where_nobody_says_whose_a_connection_is)
{
    struct rlock__hello hello = {0};

    greet_behind_lost_ones(&hello);
    assert_true(rlock__buf_add(&hello.out, "", 1));
    assert_non_null(strstr(hello.out.data, "KILL\r\n$2\r\nID\r\n$1\r\n3\r\n"));
    assert_null(strstr(hello.out.data, "KILL\r\n$2\r\nID\r\n$1\r\n9\r\n"));
    rlock__hello_fini(&hello);
}

TEST(a_signal_that_a_child_fires_does_not_reach_its_parent)
{
    struct rlock_cancel *cancel = NULL;
    struct pollfd pfd = {.events = POLLIN};
    int status = -1;
    pid_t pid;

    assert_int_equal(rlock_cancel_new(&cancel), 0);
    pfd.fd = atomic_load(&cancel->fd);
    pid = test_must(fork(), "fork");
    if (pid == 0) {
        rlock_cancel_fire(cancel);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(poll(&pfd, 1, 0), 0);
    rlock_cancel_fire(cancel); /* the parent's own does */
    assert_int_equal(poll(&pfd, 1, 0), 1);
    (void)rlock_cancel_free(cancel);
}
