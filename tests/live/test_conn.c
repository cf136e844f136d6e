/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/time.h"
#include "live/dial.h"
#include "support/run.h"
#include "support/test.h"

static const char *const no_conf[] = {NULL};

static struct test_server *start(enum test_transport transport, const char *const *conf)
{
    struct test_server_opts opts = {.transport = transport, .conf = conf};

    return test_server_start(&opts);
}

static void assert_listed(struct test_server *server, const struct dial *dial, const char *part)
{
    char *text = test_server_cmd(server, "client list id %llu",
                                 (unsigned long long)rlock__conn_greeting(dial->conn)->client_id);

    if (strstr(text, part) == NULL) {
        fail_msg("no \"%s\" in \"%s\"", part, text);
    }
    free(text);
}

static void comes_up_over(enum test_transport transport)
{
    struct test_server *server = start(transport, no_conf);
    struct dial dial;

    dial_init(&dial, test_server_url(server));
    dial_works(&dial);
    assert_listed(server, &dial, " name=" DIAL_NAME " ");
    assert_listed(server, &dial, " db=0 ");
    assert_true(rlock__conn_greeting(dial.conn)->fenced);
    assert_string_equal(rlock__conn_greeting(dial.conn)->run_id, "");
    assert_true(rlock__conn_greeting(dial.conn)->uptime_s == RLOCK__UNKNOWN);
    dial_ping(&dial);
    dial_fini(&dial);
    assert_true(TEST_EVENTUALLY(test_server_clients(server) == 0, 2000));
    test_server_stop(server);
}

TEST(comes_up_over_a_unix_socket)
{
    comes_up_over(TEST_UNIX);
}

TEST(comes_up_over_tcp)
{
    comes_up_over(TEST_TCP);
}

TEST(all_addresses_of_a_name_are_tried)
{
    struct test_server *server = start(TEST_TCP, no_conf);
    char url[64], peer[64];
    struct dial dial;

    /* Where localhost is ::1 as well, that one refuses: the server listens on 127.0.0.1 alone. */
    (void)snprintf(url, sizeof(url), "redis://localhost:%d", test_server_port(server));
    (void)snprintf(peer, sizeof(peer), "127.0.0.1:%d", test_server_port(server));
    dial_init(&dial, url);
    dial_works(&dial);
    assert_string_equal(rlock__conn_peer(dial.conn), peer);
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(the_database_is_selected)
{
    struct test_server *server = start(TEST_UNIX, no_conf);
    struct dial dial;

    dial_init(&dial, test_server_url(server));
    dial.uri.db = 3;
    dial_works(&dial);
    assert_listed(server, &dial, " db=3 ");
    dial.uri.db = 999;
    dial_fails(&dial, RLOCK_EREFUSED, "out of range");
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(run_id_and_uptime_are_told_when_asked)
{
    struct test_server *server = start(TEST_UNIX, no_conf);
    char *info = test_server_cmd(server, "info server");
    struct dial dial;

    dial_init(&dial, test_server_url(server));
    dial.opts.want_info = true;
    dial_works(&dial);
    assert_int_equal(strlen(rlock__conn_greeting(dial.conn)->run_id), 40);
    assert_non_null(strstr(info, rlock__conn_greeting(dial.conn)->run_id));
    assert_in_range(rlock__conn_greeting(dial.conn)->uptime_s, 0, 600);
    free(info);
    dial_fini(&dial);
    test_server_stop(server);
}

/* How many events there are of what was registered with this data. */
static int events_of(int epoll_fd, const void *data)
{
    struct epoll_event events[2];
    const int n = epoll_wait(epoll_fd, events, 2, 0);

    for (int i = 0; i < n; i++) {
        assert_ptr_equal(events[i].data.ptr, data);
    }
    return n;
}

TEST(an_epoll_reports_the_events_that_were_registered_last)
{
    struct test_server *server = start(TEST_UNIX, no_conf);
    const int epoll_fd = test_must(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    struct dial dial;

    dial_init(&dial, test_server_url(server));
    dial_works(&dial);
    assert_true(rlock__conn_register(dial.conn, epoll_fd, POLLIN, &dial));
    assert_int_equal(events_of(epoll_fd, &dial), 0);
    assert_true(rlock__conn_register(dial.conn, epoll_fd, POLLOUT, &dial));
    assert_int_equal(events_of(epoll_fd, &dial), 1);
    assert_true(rlock__conn_register(dial.conn, epoll_fd, 0, &dial));
    assert_int_equal(events_of(epoll_fd, &dial), 0);
    dial_fini(&dial);
    close(epoll_fd);
    test_server_stop(server);
}

/* As a child of fork has it, which has not closed it yet. */
TEST(an_epoll_reports_nothing_of_a_closed_connection_whose_file_is_open_elsewhere)
{
    struct test_server *server = start(TEST_UNIX, no_conf);
    const int epoll_fd = test_must(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    struct dial dial;
    int copy;

    dial_init(&dial, test_server_url(server));
    dial_works(&dial);
    assert_true(rlock__conn_register(dial.conn, epoll_fd, POLLOUT, &dial));
    copy = test_must(dup(rlock__conn_fd(dial.conn)), "dup");
    rlock__conn_close(dial.conn);
    assert_int_equal(events_of(epoll_fd, &dial), 0);
    dial_works(&dial);
    assert_true(rlock__conn_register(dial.conn, epoll_fd, POLLOUT, &dial));
    assert_int_equal(events_of(epoll_fd, &dial), 1);
    close(copy);
    dial_fini(&dial);
    close(epoll_fd);
    test_server_stop(server);
}

/* Listens on a port of its own, which goes to url. */
static int listen_at(char *url, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    const int fd = test_must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");

    test_must(bind(fd, (const struct sockaddr *)&at, len), "bind");
    test_must(getsockname(fd, (struct sockaddr *)&at, &len), "getsockname");
    test_must(listen(fd, 1), "listen");
    test_text(url, size, "redis://127.0.0.1:%d/7", ntohs(at.sin_port));
    return fd;
}

TEST(a_first_greeting_takes_one_round_trip)
{
    static const char *const parts[] = {"HELLO", "AUTH", "SETNAME", "SELECT", "INFO", "ROLE"};
    char url[64], said[1024] = "";
    const int listener = listen_at(url, sizeof(url));
    struct pollfd pfd = {.events = POLLOUT};
    struct dial dial;
    int fd;

    dial_init(&dial, url);
    dial.opts.want_info = dial.opts.want_role = true;
    dial.opts.password = "s3cret";
    assert_int_equal(rlock__conn_start(dial.conn, NULL, 0, rlock__now_us()), 0);
    fd = test_must(accept(listener, NULL, NULL), "accept");
    pfd.fd = rlock__conn_fd(dial.conn);
    assert_int_equal(poll(&pfd, 1, 10000), 1);
    assert_int_equal(rlock__conn_step(dial.conn, rlock__now_us()), 0);
    assert_true(recv(fd, said, sizeof(said) - 1, 0) > 0);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strstr(said, parts[i]) == NULL) {
            fail_msg("no %s in %s", parts[i], said);
        }
    }
    dial_fini(&dial);
    (void)close(fd);
    (void)close(listener);
}

TEST(what_was_asked_behind_an_unknown_hello_is_asked_again)
{
    static const char *const conf[] = {"requirepass s3cret", "rename-command HELLO \"\"", NULL};
    struct test_server *server = start(TEST_UNIX, conf);
    struct dial dial;

    dial_init(&dial, test_server_url(server));
    dial.opts.want_info = dial.opts.want_role = true;
    dial.opts.password = "s3cret";
    dial.uri.db = 7;
    dial_works(&dial);
    assert_int_equal(strlen(rlock__conn_greeting(dial.conn)->run_id), 40);
    assert_listed(server, &dial, " db=7 ");
    dial_ping(&dial);
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(a_connection_can_be_started_again)
{
    struct test_server *server = start(TEST_UNIX, no_conf);
    struct rlock__reply reply;
    struct dial dial;

    dial_init(&dial, test_server_url(server));
    dial_works(&dial);
    test_server_kill(server);
    assert_int_equal(dial_next(&dial, &reply), RLOCK_ECONN);
    assert_non_null(strstr(rlock__conn_error(dial.conn), "closed by the server"));
    assert_int_equal(rlock__conn_write(dial.conn, "x", 1), RLOCK_ECONN);
    dial_fails(&dial, RLOCK_ECONN, "cannot connect");
    test_server_restart(server, false);
    dial_works(&dial);
    dial_ping(&dial);
    dial_fini(&dial);
    test_server_stop(server);
}

/* ---- Earlier connections ---- */

TEST(earlier_connections_are_killed)
{
    struct test_server *server = start(TEST_UNIX, no_conf);
    struct dial earlier, gone, dial;
    struct rlock__reply reply;
    uint64_t ids[3];

    dial_init(&earlier, test_server_url(server));
    dial_init(&gone, test_server_url(server));
    dial_init(&dial, test_server_url(server));
    dial_works(&earlier);
    dial_works(&gone);
    ids[0] = rlock__conn_greeting(gone.conn)->client_id;
    ids[1] = rlock__conn_greeting(earlier.conn)->client_id;
    ids[2] = (uint64_t)1 << 62; /* of a server that has ended: not ours to kill */
    dial_fini(&gone);
    assert_int_equal(dial_start_fencing(&dial, ids, 3), 0);
    assert_true(rlock__conn_greeting(dial.conn)->fenced);
    assert_int_equal(dial_next(&earlier, &reply), RLOCK_ECONN);
    dial_ping(&dial);
    dial_fini(&earlier);
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(a_connection_that_only_has_the_number_of_an_earlier_one_is_spared)
{
    struct test_server *server = start(TEST_UNIX, no_conf);
    struct dial other, dial;
    uint64_t id;

    dial_init(&other, test_server_url(server));
    dial_init(&dial, test_server_url(server));
    other.opts.client_name = "somebody-else";
    dial_works(&other);
    id = rlock__conn_greeting(other.conn)->client_id;
    assert_int_equal(dial_start_fencing(&dial, &id, 1), 0);
    assert_true(rlock__conn_greeting(dial.conn)->fenced);
    dial_ping(&other);
    dial_ping(&dial);
    dial_fini(&other);
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(earlier_connections_are_killed_unseen_where_they_cannot_be_listed)
{
    static const char *const conf[] = {"user meek on >s3cret +@all -client|list ~* &*", NULL};
    struct test_server *server = start(TEST_UNIX, conf);
    struct rlock__reply reply;
    struct dial earlier, dial;
    uint64_t id;

    dial_init(&earlier, test_server_url(server));
    dial_init(&dial, test_server_url(server));
    dial_works(&earlier);
    id = rlock__conn_greeting(earlier.conn)->client_id;
    dial.opts.user = "meek";
    dial.opts.password = "s3cret";
    assert_int_equal(dial_start_fencing(&dial, &id, 1), 0);
    assert_true(rlock__conn_greeting(dial.conn)->fenced);
    assert_int_equal(dial_next(&earlier, &reply), RLOCK_ECONN);
    dial_fini(&earlier);
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(an_earlier_connection_that_may_not_be_killed_is_told)
{
    static const char *const conf[] = {"user meek on >s3cret +@all -client|kill ~* &*", NULL};
    struct test_server *server = start(TEST_UNIX, conf);
    struct dial earlier, dial;
    uint64_t id = 0;

    dial_init(&earlier, test_server_url(server));
    dial_init(&dial, test_server_url(server));
    dial_works(&earlier);
    assert_int_equal(dial_start_fencing(&dial, &id, 1), 0);
    assert_false(rlock__conn_greeting(dial.conn)->fenced); /* its id is not known */
    dial.opts.user = "meek";
    dial.opts.password = "s3cret";
    id = rlock__conn_greeting(earlier.conn)->client_id;
    assert_int_equal(dial_start_fencing(&dial, &id, 1), 0);
    assert_false(rlock__conn_greeting(dial.conn)->fenced);
    dial_ping(&dial);
    dial_ping(&earlier);
    dial_fini(&earlier);
    dial_fini(&dial);
    test_server_stop(server);
}

/* ---- Authentication ---- */

static void a_password_is_needed_and_checked(const char *const *conf)
{
    struct test_server *server = start(TEST_UNIX, conf);
    struct dial dial;

    dial_init(&dial, test_server_url(server));
    dial_fails(&dial, RLOCK_EAUTH, "password");
    dial.opts.password = "wrong-s3cret";
    dial_fails(&dial, RLOCK_EAUTH, "WRONGPASS");
    assert_true(rlock__conn_error_is_final(&(struct rlock__conn_opts){0}, RLOCK_EAUTH));
    dial.opts.password = "s3cret";
    dial_works(&dial);
    assert_listed(server, &dial, " name=" DIAL_NAME " ");
    assert_listed(server, &dial, " user=default ");
    dial.opts.user = "alice";
    dial_fails(&dial, RLOCK_EAUTH, "WRONGPASS");
    dial.opts.password = "wonderland";
    dial_works(&dial);
    assert_listed(server, &dial, " user=alice ");
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(passwords_are_checked_by_hello)
{
    static const char *const conf[] = {"requirepass s3cret",
                                       "user alice on >wonderland +@all ~* &*", NULL};

    a_password_is_needed_and_checked(conf);
}

TEST(passwords_are_checked_where_hello_is_unknown)
{
    static const char *const conf[] = {"requirepass s3cret",
                                       "user alice on >wonderland +@all ~* &*",
                                       "rename-command HELLO \"\"", NULL};

    a_password_is_needed_and_checked(conf);
}

TEST(a_server_that_repeats_a_password_is_not_quoted)
{
    struct peer peer = {.says =
                            "-ERR unknown command 'HELLO', with args beginning with: '2'\r\n"
                            "-ERR unknown command 'AUTH', with args beginning with: 's3cret'\r\n"};
    struct peer echo = {.says = "-ERR what do you mean by s3cret?\r\n"
                                "-ERR what do you mean by s3cret?\r\n"};
    struct dial dial;

    peer_start(&peer);
    dial_init(&dial, peer_url(&peer, "redis"));
    dial.opts.password = "s3cret";
    dial_fails(&dial, RLOCK_EREFUSED, "refused by the server");
    dial_fini(&dial);
    peer_stop(&peer);
    peer_start(&echo);
    dial_init(&dial, peer_url(&echo, "redis"));
    dial.opts.password = "s3cret";
    dial_fails(&dial, RLOCK_EREFUSED, "refused by the server");
    dial_fini(&dial);
    peer_stop(&echo);
}

TEST(without_client_commands_it_comes_up_without_id)
{
    static const char *const conf[] = {"user meek on >s3cret +@all -client ~* &*",
                                       "rename-command HELLO \"\"", NULL};
    struct test_server *server = start(TEST_UNIX, conf);
    struct dial dial;

    dial_init(&dial, test_server_url(server));
    dial.opts.user = "meek";
    dial.opts.password = "s3cret";
    dial_works(&dial);
    assert_int_equal(rlock__conn_greeting(dial.conn)->client_id, 0);
    dial_ping(&dial);
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(a_forbidden_database_is_a_matter_of_permission)
{
    static const char *const conf[] = {"user meek on >s3cret +@all -select ~* &*", NULL};
    struct test_server *server = start(TEST_UNIX, conf);
    struct dial dial;

    dial_init(&dial, test_server_url(server));
    dial.opts.user = "meek";
    dial.opts.password = "s3cret";
    dial.uri.db = 1;
    dial_fails(&dial, RLOCK_EPERM, "NOPERM");
    dial_fini(&dial);
    test_server_stop(server);
}
