/* SPDX-License-Identifier: Apache-2.0 */
/* How a connection comes up: the states from closed to up, see conn.h. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <utlist.h>

#include "net/conn_state.h"

/* Each step returns 1 when there is more to do now, 0 when it waits, or a negative code. */

/* Makes a socket in place of the one that is there, and begins to connect it. Returns 0 or an
 * errno. */
static int open_socket(struct rlock__conn *conn, const struct sockaddr *addr, socklen_t len)
{
    int fd;

    rlock__conn_leave_epoll(conn);
    rlock__sock_changing();
    (void)rlock__sock_close(conn->fd);
    fd = rlock__sock_connect(addr, len);
    conn->fd = fd >= 0 ? fd : -1;
    rlock__sock_changed();
    conn->state = RLOCK__CONN_CONNECTING;
    return fd >= 0 ? 0 : -fd;
}

static int fail_open(struct rlock__conn *conn, int error)
{
    return rlock__conn_fail(conn, rlock__sock_code(error), "cannot connect: %s", strerror(error));
}

/* Tries addresses until one does not fail at once; error: of the one before. */
static int try_next(struct rlock__conn *conn, int error, int64_t now)
{
    while (conn->next != NULL) {
        struct addrinfo *addr = conn->next, *each;
        int64_t left;

        /* A share of the time for each: an address that swallows packets must not eat it all. */
        LL_COUNT2(addr, each, left, ai_next);
        conn->address_deadline = now + (conn->deadline - now) / left;
        conn->next = addr->ai_next;
        rlock__sock_name(addr->ai_addr, addr->ai_addrlen, conn->peer);
        error = open_socket(conn, addr->ai_addr, addr->ai_addrlen);
        if (error == 0) {
            return 1;
        }
    }
    return fail_open(conn, error);
}

static int resolved(struct rlock__conn *conn, int code, int64_t now)
{
    conn->next = conn->addrs;
    return code == 0 ? try_next(conn, 0, now)
                     : rlock__conn_fail(conn, code, "name not resolved: %s", rlock_detail());
}

static int step_resolving(struct rlock__conn *conn, int64_t now)
{
    int code;

    if (!rlock__resolver_is_done(conn->resolver)) {
        return 0;
    }
    code = rlock__resolver_take(conn->resolver, &conn->addrs);
    conn->resolver = rlock__resolver_free(conn->resolver);
    return resolved(conn, code, now);
}

static int step_connecting(struct rlock__conn *conn, int64_t now)
{
    int error = rlock__sock_connected(conn->fd);

    if (error == 0) {
        conn->state = conn->opts->tls != NULL ? RLOCK__CONN_TLS : RLOCK__CONN_HELLO;
        return 1;
    }
    if (error != EINPROGRESS) {
        return try_next(conn, error, now);
    }
    return conn->next != NULL && now >= conn->address_deadline ? try_next(conn, ETIMEDOUT, now) : 0;
}

static int step_tls(struct rlock__conn *conn, int64_t now)
{
    int r = 0;

    (void)now;
    if (conn->session == NULL) {
        r = rlock__conn_tls(conn)->begin(conn->opts->tls, conn->fd, conn->opts->uri->host,
                                         &conn->session);
    }
    if (r < 0) {
        return rlock__conn_fail(conn, r, "%s", rlock_detail());
    }
    r = rlock__conn_tls(conn)->handshake(conn->session);
    if (r < 0) {
        return rlock__conn_fail(conn, r, "%s", rlock__conn_tls(conn)->why(conn->session));
    }
    if (r == 1) {
        conn->state = RLOCK__CONN_HELLO;
    }
    return r;
}

static int take_replies(struct rlock__conn *conn)
{
    struct rlock__reply reply;
    int r = rlock__conn_next(conn, &reply);

    while (r == 1) {
        r = rlock__hello_reply(&conn->hello, &reply);
        if (r < 0) {
            return rlock__conn_fail(conn, r, "%s", rlock_detail());
        }
        if (r == 1) {
            conn->knows_us |= conn->hello.got.client_id != 0;
            rlock__hello_fini(&conn->hello);
            conn->state = RLOCK__CONN_UP;
            conn->want_out = false;
            return 0;
        }
        r = rlock__conn_next(conn, &reply);
    }
    return r < 0 ? r : 1;
}

static int greet(struct rlock__conn *conn, int64_t now)
{
    struct rlock__buf *out = &conn->hello.out;
    ssize_t sent = rlock__conn_write(conn, out->data + conn->said, out->len - conn->said);
    int got;

    if (sent > 0) {
        conn->hello.got.asked_at = now;
        conn->said += (size_t)sent;
    }
    /* Also when sending failed: a server that has no room for us says so and closes, unasked. */
    conn->state = RLOCK__CONN_HELLO;
    got = rlock__conn_read(conn);
    got = got > 0 ? take_replies(conn) : got;
    if (sent < 0 && conn->state == RLOCK__CONN_HELLO) {
        conn->state = RLOCK__CONN_FAILED;
        return (int)sent;
    }
    return got;
}

/* A server that closes the connection in place of an answer may not know what we ask for, like
 * Twemproxy. Then we ask for less, once for each part that can be left out. If the server answered
 * all of it before, we first ask in full again: it may have closed for another reason, and nothing
 * can fence a connection without a client id. */
static bool may_ask_again(const struct rlock__conn *conn)
{
    return conn->was_closed &&
           (conn->manner <= RLOCK__HELLO_FIRST ? !conn->heard
                                               : conn->manner == RLOCK__HELLO_IN_PARTS);
}

static int start(struct rlock__conn *conn, const uint64_t *unfenced, size_t n, int64_t now);

static int step_hello(struct rlock__conn *conn, int64_t now)
{
    int r = greet(conn, now);

    if (r < 0 && may_ask_again(conn)) {
        uint64_t *unfenced = conn->hello.unfenced;
        size_t n = conn->hello.n_unfenced;
        bool fenced = conn->hello.got.fenced;

        conn->hello.unfenced = NULL;
        conn->manner += !conn->knows_us;
        conn->knows_us = false;
        r = start(conn, unfenced, n, now);
        conn->hello.got.fenced = conn->hello.got.fenced && fenced;
        free(unfenced);
    }
    return r;
}

/* The states in which something is to be done, or waited for. */
static const struct {
    int (*step)(struct rlock__conn *conn, int64_t now);
    short events;
    const char *late; /* what lacks at the deadline; NULL: no handshake is under way */
} states[] = {
    [RLOCK__CONN_RESOLVING] = {step_resolving, POLLIN, "name not resolved"},
    [RLOCK__CONN_CONNECTING] = {step_connecting, POLLOUT, "not connected"},
    /* A plain Redis server takes the handshake for a command that does not end. */
    [RLOCK__CONN_TLS] =
        {step_tls, 0,
         "no answer to the TLS handshake (does it speak TLS? In a cluster, see tls-cluster)"},
    [RLOCK__CONN_HELLO] = {step_hello, POLLIN, "no answer"},
    [RLOCK__CONN_UP] = {NULL, POLLIN, NULL},
    [RLOCK__CONN_FAILED] = {NULL, 0, NULL},
};

short rlock__conn_events(const struct rlock__conn *conn)
{
    const short events = states[conn->state].events;

    if (conn->state == RLOCK__CONN_TLS) {
        return rlock__conn_tls(conn)->events(conn->session);
    }
    return (short)(events | (events == POLLIN && conn->want_out ? POLLOUT : 0));
}

int64_t rlock__conn_deadline(const struct rlock__conn *conn)
{
    if (states[conn->state].late == NULL) {
        return RLOCK__NEVER;
    }
    return conn->state == RLOCK__CONN_CONNECTING && conn->next != NULL
               ? rlock__min(conn->deadline, conn->address_deadline)
               : conn->deadline;
}

int rlock__conn_step(struct rlock__conn *conn, int64_t now)
{
    int r = 1;

    if (conn->state == RLOCK__CONN_FAILED) {
        return conn->code;
    }
    while (r > 0) {
        r = states[conn->state].step != NULL ? states[conn->state].step(conn, now) : 0;
    }
    if (r == 0 && now >= rlock__conn_deadline(conn) && conn->state == RLOCK__CONN_TLS &&
        conn->opts->names_plain != NULL && atomic_load(conn->opts->names_plain)) {
        return rlock__conn_fail(conn, RLOCK_ETLS,
                                "no TLS there: its cluster names plain ports (tls-cluster no)");
    }
    if (r == 0 && now >= rlock__conn_deadline(conn)) {
        r = rlock__conn_fail(conn, RLOCK_ECONN, "%s within %lld ms", states[conn->state].late,
                             (long long)(conn->opts->connect_timeout_us / RLOCK__MS));
    }
    return r;
}

static int begin_unix(struct rlock__conn *conn, const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int error;

    assert(strlen(path) < sizeof(addr.sun_path)); /* a longer one is no URL */
    memcpy(addr.sun_path, path, strlen(path));
    error = open_socket(conn, (const struct sockaddr *)&addr, sizeof(addr));
    return error == 0 ? 1 : fail_open(conn, error);
}

static int begin(struct rlock__conn *conn, int64_t now)
{
    const struct rlock__uri *uri = conn->opts->uri;
    int r;

    if (uri->path != NULL) {
        return begin_unix(conn, uri->path);
    }
    r = rlock__resolve_literal(uri->host, uri->port, &conn->addrs);
    if (r <= 0) {
        return resolved(conn, r, now);
    }
    if (conn->resolver != NULL && rlock__resolver_is_done(conn->resolver)) { /* of some time ago */
        conn->resolver = rlock__resolver_free(conn->resolver);
    }
    /* One without an answer goes on: a silent name server gets one question at a time. */
    r = conn->resolver != NULL ? 0 : rlock__resolver_new(uri->host, uri->port, &conn->resolver);
    if (r == 0) {
        conn->fd = fcntl(rlock__resolver_fd(conn->resolver), F_DUPFD_CLOEXEC, 0);
    }
    if (r != 0 || conn->fd < 0) {
        return rlock__conn_fail(conn, RLOCK_ERESOURCE, "no thread to resolve its name");
    }
    conn->state = RLOCK__CONN_RESOLVING;
    return 0;
}

/* From the beginning, within the time that is left. */
static int start(struct rlock__conn *conn, const uint64_t *unfenced, size_t n, int64_t now)
{
    int code;

    rlock__conn_close(conn);
    conn->heard = conn->want_out = conn->was_closed = false;
    conn->said = 0;
    conn->peer[0] = '\0';
    rlock__conn_where(conn, conn->peer, sizeof(conn->peer));
    (void)rlock__resp_free(conn->resp);
    conn->resp = rlock__resp_new(RLOCK__REPLY_CAP);
    if (conn->resp == NULL) {
        return rlock__conn_fail(conn, RLOCK_ENOMEM, "no memory");
    }
    if (conn->manner == RLOCK__HELLO_PUSHES) {
        rlock__resp_take_pushes(conn->resp);
    }
    code = rlock__hello_begin(&conn->hello, conn->opts, conn->manner, unfenced, n);
    if (code != 0) {
        return rlock__conn_fail(conn, code, "%s", rlock_detail());
    }
    return begin(conn, now);
}

void rlock__conn_want_pushes(struct rlock__conn *conn, bool wants)
{
    conn->wants_pushes = wants;
}

int rlock__conn_start(struct rlock__conn *conn, const uint64_t *unfenced, size_t n, int64_t now)
{
    int r;

    conn->deadline = conn->address_deadline = rlock__later(now, conn->opts->connect_timeout_us);
    conn->manner = conn->wants_pushes ? RLOCK__HELLO_PUSHES : RLOCK__HELLO_FIRST;
    r = start(conn, unfenced, n, now);
    return r < 0 ? r : rlock__conn_step(conn, now);
}
