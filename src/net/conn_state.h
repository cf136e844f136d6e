/* SPDX-License-Identifier: Apache-2.0 */
/* What conn.c, which moves bytes, and connect.c, which brings a connection up, share. */
#ifndef RLOCK_NET_CONN_STATE_H
#define RLOCK_NET_CONN_STATE_H

#include "base/error.h"
#include "base/time.h"
#include "net/conn.h"
#include "net/hello.h"
#include "net/resolve.h"
#include "net/resp.h"
#include "net/sock.h"
#include "net/tls.h"

/* One TLS record at most, so that nothing that was read stays behind in OpenSSL, unseen
 * by poll(). */
#define RLOCK__CONN_READ_SIZE 16384
#define RLOCK__CONN_PEER_SIZE 128
#define RLOCK__CONN_ERROR_SIZE 320

/* See conn.h. */
enum rlock__conn_state {
    RLOCK__CONN_CLOSED,
    RLOCK__CONN_RESOLVING,
    RLOCK__CONN_CONNECTING,
    RLOCK__CONN_TLS,
    RLOCK__CONN_HELLO,
    RLOCK__CONN_UP,
    RLOCK__CONN_FAILED,
};

struct rlock__conn {
    struct rlock__conn *prev, *behind; /* of the process; prev NULL: a parent's */
    const struct rlock__conn_opts *opts;
    enum rlock__conn_state state;
    int fd;
    int epoll_fd;                     /* an epoll that has fd; set while it is registered there */
    short registered;                 /* for these events; 0: it is not */
    bool want_out;                    /* a write was short */
    struct rlock__resolver *resolver; /* asked, maybe for an earlier try; NULL none */
    struct addrinfo *addrs;           /* what the host's name stands for */
    struct addrinfo *next;            /* the address to try after the present one */
    int64_t deadline;                 /* of the handshake */
    int64_t address_deadline;         /* of connecting to the present address */
    struct rlock__session *session;
    struct rlock__hello hello;
    size_t said; /* how much of hello.out was sent */
    struct rlock__resp *resp;
    enum rlock__hello_manner manner;
    bool wants_pushes;
    bool heard;      /* something was read */
    bool was_closed; /* it failed since the server closed it */
    bool knows_us;   /* its server has reported a client id, so it knows what we ask for */
    char first;      /* the first byte of it: tells other protocols from Redis' */
    int code;        /* why it failed */
    char peer[RLOCK__CONN_PEER_SIZE];
    char error[RLOCK__CONN_ERROR_SIZE];
    char in[RLOCK__CONN_READ_SIZE];
};

/* The functions of its TLS; for a connection that has one. */
static inline const struct rlock__tls_table *rlock__conn_tls(const struct rlock__conn *conn)
{
    return conn->opts->tls->table;
}

/* The epoll forgets the descriptor: it is about to be closed. */
void rlock__conn_leave_epoll(struct rlock__conn *conn);
/* Writes the server's place for texts: "redis.example:6379 (10.0.0.7:6379)". */
void rlock__conn_where(const struct rlock__conn *conn, char *out, size_t size);
/* Keeps why the connection failed, and returns code. The last reason counts: it says the most. */
int rlock__conn_fail(struct rlock__conn *conn, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
