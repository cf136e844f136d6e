/* SPDX-License-Identifier: Apache-2.0 */
#include "live/dial.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/tls.h"
#include "support/run.h"
#include "support/stall.h"

#include <cmocka.h>

#define WAIT_MS 10000

/* ---- Dialling ---- */

void dial_init(struct dial *dial, const char *url)
{
    memset(dial, 0, sizeof(*dial));
    if (rlock__uri_parse(url, &dial->uri) != 0) {
        fail_msg("%s: %s", url, rlock_detail());
    }
    dial->opts = (struct rlock__conn_opts){
        .uri = &dial->uri,
        .user = dial->uri.user,
        .password = dial->uri.password,
        .client_name = DIAL_NAME,
        .connect_timeout_us = 2000000 * (int64_t)test_slack(),
    };
    dial->conn = rlock__conn_new(&dial->opts);
    assert_non_null(dial->conn);
}

void dial_trust(struct dial *dial, const char *ca, const char *cert, const char *key)
{
    if (rlock__tls_new(ca, cert, key, &dial->tls) != 0) {
        fail_msg("%s", rlock_detail());
    }
    dial->opts.tls = dial->tls;
}

static void wait_for(struct dial *dial, int64_t until)
{
    struct pollfd pfd = {rlock__conn_fd(dial->conn), rlock__conn_events(dial->conn), 0};
    int64_t now = rlock__now_us();

    (void)poll(&pfd, 1, until > now ? (int)rlock__ms_up(until - now) : 0);
}

int dial_start_fencing(struct dial *dial, const uint64_t *unfenced, size_t n)
{
    int r = rlock__conn_start(dial->conn, unfenced, n, rlock__now_us());

    while (r == 0 && !rlock__conn_is_up(dial->conn)) {
        wait_for(dial, rlock__conn_deadline(dial->conn));
        r = rlock__conn_step(dial->conn, rlock__now_us());
    }
    assert_true((r == 0) == rlock__conn_is_up(dial->conn));
    return r;
}

int dial_start(struct dial *dial)
{
    return dial_start_fencing(dial, NULL, 0);
}

void dial_fails(struct dial *dial, int code, const char *text)
{
    int r = dial_start(dial);
    const char *error = rlock__conn_error(dial->conn);

    print_message("%d %s\n", r, error);
    assert_int_equal(r, code);
    assert_non_null(strstr(error, text));
    assert_null(strchr(error, '\n'));
    if (dial->opts.password != NULL) {
        assert_null(strstr(error, dial->opts.password));
    }
    assert_int_equal(rlock__conn_events(dial->conn), 0);
}

void dial_works(struct dial *dial)
{
    int r = dial_start(dial);

    if (r != 0) {
        fail_msg("%d %s", r, rlock__conn_error(dial->conn));
    }
}

void dial_fini(struct dial *dial)
{
    dial->conn = rlock__conn_free(dial->conn);
    dial->tls = rlock__tls_free(dial->tls);
    rlock__uri_fini(&dial->uri);
}

static void has_time(int64_t end_us)
{
    const int64_t late_us = rlock__now_us() - end_us;

    assert_true(late_us < 0 || test_missed(end_us - WAIT_MS * 1000 * test_slack(), late_us));
}

int dial_send(struct dial *dial, const char *bytes, size_t len)
{
    int64_t end = test_deadline_us(WAIT_MS);
    size_t sent = 0;

    while (sent < len) {
        ssize_t n = rlock__conn_write(dial->conn, bytes + sent, len - sent);

        if (n < 0) {
            return (int)n;
        }
        sent += (size_t)n;
        if (sent < len) {
            assert_true(rlock__conn_events(dial->conn) & POLLOUT);
            has_time(end);
            wait_for(dial, end);
        }
    }
    assert_false(rlock__conn_events(dial->conn) & POLLOUT);
    return 0;
}

int dial_next(struct dial *dial, struct rlock__reply *ret_reply)
{
    int64_t end = test_deadline_us(WAIT_MS);
    int r = rlock__conn_next(dial->conn, ret_reply);

    while (r == 0) {
        has_time(end);
        wait_for(dial, end);
        r = rlock__conn_read(dial->conn);
        if (r >= 0) {
            r = rlock__conn_next(dial->conn, ret_reply);
        }
    }
    return r;
}

void dial_ping(struct dial *dial)
{
    struct rlock__reply reply;

    assert_int_equal(dial_send(dial, "PING\r\n", 6), 0);
    assert_int_equal(dial_next(dial, &reply), 1);
    assert_memory_equal(rlock__reply_str(&reply, 0).at, "PONG", 4);
}

/* ---- Files ---- */

void dial_copy_file(const char *from, const char *to, mode_t mode)
{
    char bytes[8192];
    int in = test_must(open(from, O_RDONLY | O_CLOEXEC), from);
    int out = test_must(open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode), to);
    ssize_t n = read(in, bytes, sizeof(bytes));

    assert_int_equal(write(out, bytes, (size_t)n), n);
    test_must(fchmod(out, mode), to);
    (void)close(in);
    (void)close(out);
}

void dial_put_identity(const char *dir, enum test_cert kind, char cert[static 256],
                       char key[static 256])
{
    (void)snprintf(cert, 256, "%.200s/cert.pem", dir);
    (void)snprintf(key, 256, "%.200s/key.pem", dir);
    dial_copy_file(test_cert_file(kind), cert, 0644);
    dial_copy_file(test_cert_key(kind), key, 0600);
}

/* ---- Peers ---- */

static void end(const struct peer *peer, int fd)
{
    struct linger linger = {1, 0};

    if (peer->resets) {
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    }
    (void)close(fd);
}

static void serve(struct peer *peer, int fd)
{
    char bytes[1024];
    ssize_t n = peer->unasked ? 0 : recv(fd, bytes, sizeof(bytes), 0);

    if (peer->echoes && n > 0) {
        (void)send(fd, bytes, (size_t)n, MSG_NOSIGNAL);
        n = recv(fd, bytes, sizeof(bytes), 0);
    }
    if (peer->says != NULL) {
        (void)send(fd, peer->says, strlen(peer->says), MSG_NOSIGNAL);
    }
    if (peer->holds) {
        peer->held = fd;
    } else {
        end(peer, fd);
    }
}

static void *run(void *arg)
{
    struct peer *peer = arg;
    int fd = accept(peer->fd, NULL, NULL);

    while (fd >= 0) {
        serve(peer, fd);
        fd = accept(peer->fd, NULL, NULL);
    }
    return NULL;
}

void peer_start(struct peer *peer)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(addr);

    peer->held = -1;
    peer->fd = test_must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    test_must(bind(peer->fd, (struct sockaddr *)&addr, len), "bind");
    test_must(listen(peer->fd, 8), "listen");
    test_must(getsockname(peer->fd, (struct sockaddr *)&addr, &len), "getsockname");
    peer->port = ntohs(addr.sin_port);
    assert_int_equal(pthread_create(&peer->thread, NULL, run, peer), 0);
}

void peer_stop(struct peer *peer)
{
    (void)shutdown(peer->fd, SHUT_RDWR); /* ends accept() */
    (void)pthread_join(peer->thread, NULL);
    (void)close(peer->fd);
    if (peer->held >= 0) {
        end(peer, peer->held);
    }
}

const char *peer_url(const struct peer *peer, const char *scheme)
{
    static char url[64];

    (void)snprintf(url, sizeof(url), "%s://127.0.0.1:%d", scheme, peer->port);
    return url;
}

/* ---- SIGPIPE ---- */

static volatile sig_atomic_t pipes;

static void on_sigpipe(int signal)
{
    (void)signal;
    pipes++;
}

void sigpipe_watch(void)
{
    struct sigaction action = {.sa_handler = on_sigpipe};

    pipes = 0;
    test_must(sigaction(SIGPIPE, &action, NULL), "sigaction");
}

int sigpipe_count(void)
{
    return pipes;
}
