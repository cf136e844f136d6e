/* SPDX-License-Identifier: Apache-2.0 */
#include "net/conn.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <utlist.h>

#include "net/conn_state.h"

/* All there are, which a child of fork has to close; see rlock__sock_changing(). */
RLOCK__GUARDED_BY(sock) static struct rlock__conn *conns;

/* ---- Failing ---- */

void rlock__conn_where(const struct rlock__conn *conn, char *out, size_t size)
{
    const struct rlock__uri *uri = conn->opts->uri;
    char asked[RLOCK__CONN_PEER_SIZE];
    bool bare;

    if (uri->path != NULL) {
        (void)snprintf(out, size, "%s", uri->path);
        return;
    }
    bare = strchr(uri->host, ':') == NULL;
    (void)snprintf(asked, sizeof(asked), "%s%.100s%s:%u", bare ? "" : "[", uri->host,
                   bare ? "" : "]", (unsigned)uri->port);
    if (strcmp(asked, conn->peer) == 0 || conn->peer[0] == '\0') {
        (void)snprintf(out, size, "%s", asked);
    } else {
        (void)snprintf(out, size, "%s (%s)", asked, conn->peer);
    }
}

int rlock__conn_fail(struct rlock__conn *conn, int code, const char *format, ...)
{
    size_t used;
    va_list args;

    rlock__conn_where(conn, conn->error, sizeof(conn->error) - 2);
    used = strlen(conn->error);
    memcpy(conn->error + used, ": ", 3);
    used += 2;
    va_start(args, format);
    (void)vsnprintf(conn->error + used, sizeof(conn->error) - used, format, args);
    va_end(args);
    conn->code = code;
    conn->state = RLOCK__CONN_FAILED;
    return code;
}

/* What somebody who does not speak Redis' protocol might be, by the first byte. */
static const char *guess(const struct rlock__conn *conn)
{
    if (conn->first == 'H' || conn->first == '<') {
        return "not a Redis server: it answers HTTP";
    }
    if ((conn->first == 0x15 || conn->first == 0x16) && conn->session == NULL) {
        return "it speaks TLS: use rediss://";
    }
    return rlock__resp_error(conn->resp);
}

/* ---- Bytes ---- */

static int fail_io(struct rlock__conn *conn, int error)
{
    const char *words = conn->hello.refused_hello;

    conn->was_closed = error == 0 || error == ECONNRESET || error == EPIPE;
    if (error == 0 && words[0] != '\0' && conn->state == RLOCK__CONN_HELLO) {
        return rlock__conn_fail(conn, RLOCK_ECONN, "closed by the server, after \"%s\" to HELLO",
                                words);
    }
    if (error == 0) {
        return rlock__conn_fail(conn, RLOCK_ECONN, "closed by the server%s",
                                conn->heard ? "" : " without a word");
    }
    return rlock__conn_fail(conn, RLOCK_ECONN, "connection lost: %s", strerror(error));
}

/* What reading or writing came to: how much, 0 when nothing goes now, or the code of a failure. */
static ssize_t moved(struct rlock__conn *conn, ssize_t n)
{
    if (conn->session != NULL) {
        conn->was_closed = n == RLOCK_ECONN;
        return n >= 0 ? n
                      : rlock__conn_fail(conn, (int)n, "%s",
                                         rlock__conn_tls(conn)->why(conn->session));
    }
    if (n == -EAGAIN || n == -EWOULDBLOCK) {
        return 0;
    }
    return n > 0 ? n : fail_io(conn, (int)-n);
}

static bool is_open(const struct rlock__conn *conn)
{
    return conn->state == RLOCK__CONN_HELLO || conn->state == RLOCK__CONN_UP;
}

ssize_t rlock__conn_write(struct rlock__conn *conn, const char *bytes, size_t len)
{
    size_t sent = 0;
    ssize_t n = 1;

    if (!is_open(conn)) {
        return RLOCK_ECONN;
    }
    while (n > 0 && sent < len) {
        n = moved(conn, conn->session != NULL
                            ? rlock__conn_tls(conn)->write(conn->session, bytes + sent, len - sent)
                            : rlock__sock_send(conn->fd, bytes + sent, len - sent));
        sent += n > 0 ? (size_t)n : 0;
    }
    conn->want_out = sent < len;
    return n >= 0 ? (ssize_t)sent : n;
}

int rlock__conn_read(struct rlock__conn *conn)
{
    ssize_t n;
    int r;

    if (!is_open(conn)) {
        return RLOCK_ECONN;
    }
    n = moved(conn, conn->session != NULL
                        ? rlock__conn_tls(conn)->read(conn->session, conn->in, sizeof(conn->in))
                        : rlock__sock_recv(conn->fd, conn->in, sizeof(conn->in)));
    if (n <= 0) {
        return (int)n;
    }
    if (!conn->heard) {
        conn->heard = true;
        conn->first = conn->in[0];
    }
    r = rlock__resp_feed(conn->resp, conn->in, (size_t)n);
    return r == 0 ? (int)n : rlock__conn_fail(conn, r, "%s", rlock__resp_error(conn->resp));
}

int rlock__conn_next(struct rlock__conn *conn, struct rlock__reply *ret_reply)
{
    int r;

    if (!is_open(conn)) {
        return RLOCK_ECONN;
    }
    r = rlock__resp_next(conn->resp, ret_reply);
    return r >= 0 ? r : rlock__conn_fail(conn, r, "%s", guess(conn));
}

bool rlock__conn_is_drained(const struct rlock__conn *conn)
{
    return rlock__resp_is_empty(conn->resp);
}

/* ---- An epoll that has the descriptor ---- */

/* The descriptor is taken out before it is closed: the file behind it stays open where a child of
 * fork has it too, or a resolver, and an epoll goes on to report it. */
void rlock__conn_leave_epoll(struct rlock__conn *conn)
{
    if (conn->registered != 0) {
        (void)epoll_ctl(conn->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
        conn->registered = 0;
    }
}

bool rlock__conn_register(struct rlock__conn *conn, int epoll_fd, short events, void *data)
{
    struct epoll_event event = {.events = (uint32_t)(unsigned short)events, .data.ptr = data};

    if (events == 0 || conn->fd < 0) {
        rlock__conn_leave_epoll(conn);
    } else if (events != conn->registered) {
        int how = conn->registered != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

        if (epoll_ctl(epoll_fd, how, conn->fd, &event) != 0) {
            return false;
        }
        conn->epoll_fd = epoll_fd;
        conn->registered = events;
    }
    return true;
}

/* ---- Beginning, end, and questions ---- */

struct rlock__conn *rlock__conn_new(const struct rlock__conn_opts *opts)
{
    struct rlock__conn *conn = malloc(sizeof(*conn));

    if (conn == NULL) {
        return NULL;
    }
    memset(conn, 0, offsetof(struct rlock__conn, in)); /* its pages, not before they are needed */
    conn->opts = opts;
    conn->fd = -1;
    conn->deadline = RLOCK__NEVER;
    rlock__conn_where(conn, conn->peer, sizeof(conn->peer));
    rlock__sock_changing();
    DL_APPEND2(conns, conn, prev, behind);
    rlock__sock_changed();
    return conn;
}

void rlock__conn_close(struct rlock__conn *conn)
{
    if (conn->state == RLOCK__CONN_UP && conn->session != NULL) {
        rlock__conn_tls(conn)->bye(conn->session);
    }
    if (conn->session != NULL) {
        rlock__conn_tls(conn)->end(conn->session);
        conn->session = NULL;
    }
    rlock__hello_fini(&conn->hello);
    if (conn->addrs != NULL) {
        freeaddrinfo(conn->addrs);
    }
    conn->addrs = conn->next = NULL;
    rlock__conn_leave_epoll(conn);
    rlock__sock_changing();
    conn->fd = rlock__sock_close(conn->fd);
    rlock__sock_changed();
    conn->state = RLOCK__CONN_CLOSED;
}

struct rlock__conn *rlock__conn_free(struct rlock__conn *conn)
{
    if (conn != NULL) {
        rlock__conn_close(conn);
        rlock__sock_changing();
        if (conn->prev != NULL) {
            DL_DELETE2(conns, conn, prev, behind);
        }
        rlock__sock_changed();
        (void)rlock__resolver_free(conn->resolver);
        rlock__resp_free(conn->resp);
        free(conn);
    }
    return NULL;
}

void rlock__conns_abandon(void)
{
    struct rlock__conn *conn;

    DL_FOREACH2(conns, conn, behind)
    {
        conn->resolver = rlock__resolver_abandon(conn->resolver);
        conn->fd = rlock__sock_close(conn->fd);
        conn->state = RLOCK__CONN_CLOSED;
        conn->prev = NULL;
    }
    conns = NULL;
}

int rlock__conn_fd(const struct rlock__conn *conn)
{
    return conn->fd;
}

bool rlock__conn_is_up(const struct rlock__conn *conn)
{
    return conn->state == RLOCK__CONN_UP;
}

const char *rlock__conn_error(const struct rlock__conn *conn)
{
    return conn->error;
}

const char *rlock__conn_peer(const struct rlock__conn *conn)
{
    return conn->peer;
}

const struct rlock__greeting *rlock__conn_greeting(const struct rlock__conn *conn)
{
    return &conn->hello.got;
}

void rlock__conn_set_reply_cap(struct rlock__conn *conn, size_t bytes)
{
    if (conn->resp != NULL) {
        rlock__resp_set_cap(conn->resp, bytes);
    }
}

bool rlock__conn_error_is_final(const struct rlock__conn_opts *opts, int code)
{
    return (code == RLOCK_EAUTH && opts->on_login == NULL) || code == RLOCK_ETLS ||
           code == RLOCK_EPERM || code == RLOCK_EREFUSED;
}
