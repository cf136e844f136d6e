/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One non-blocking connection to one server, for commands or as the subscriber.
 *
 * States, and what holds in each:
 *   closed      no socket; what rlock__conn_error() says is of the last try
 *   resolving   no socket; the host's addresses are being asked for, and the descriptor is ready
 *               when they are known
 *   connecting  a socket whose connect() is under way; further addresses may follow
 *   tls         connected; the TLS handshake is under way
 *   hello       bytes can be exchanged; the server's answers to our greeting are awaited (hello.h)
 *   up          greeted, authenticated, in its database: bytes belong to the caller
 *   failed      the socket is still there, so that whoever polls it does not poll somebody else's,
 *               but nothing is read or written any more; it waits for rlock__conn_close()
 *
 * Nothing here blocks. Waiting is the caller's: poll rlock__conn_fd() for rlock__conn_events()
 * until rlock__conn_deadline(), then rlock__conn_step(); ask for all three anew after each step,
 * since a step may go on to the next address with another socket.
 *
 * Threads: none and no mutex of its own; one caller at a time.
 * Fork: in a child only rlock__conns_abandon() may be called.
 */
#ifndef RLOCK_NET_CONN_H
#define RLOCK_NET_CONN_H

#include <rlock/rlock.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/guarded.h"
#include "net/uri.h"
#include "wire/reply.h"

struct rlock__tls;

/* What replies may hold at most: those of locks, of which a subscription's names a channel, the
 * longest name of a lock and more; and those of scans and cluster maps. */
#define RLOCK__REPLY_CAP ((size_t)256 * 1024)
#define RLOCK__REPLY_CAP_LARGE ((size_t)1024 * 1024)

/* How to reach a server. Immutable but for one thing, shared by its connections, lives longer than
 * they. */
struct rlock__conn_opts {
    const struct rlock__uri *uri; /* where it is, and its database; not its login */
    const char *user;             /* NULL: the default user, if there is a password */
    const char *password;         /* NULL: none; without user and password no authentication */
    rlock_login_fn *on_login;     /* may set others at each connection; NULL: nobody does */
    void *payload;                /* its */
    bool is_sentinel;             /* for it */
    const struct rlock__tls *tls; /* NULL: plain */
    const char *client_name;      /* "rlock:<uuid>:<host>:<pid>"; NULL: none */
    int64_t connect_timeout_us;   /* of the whole handshake */
    bool want_info;               /* ask for the server's run id and uptime in the handshake */
    bool want_role;               /* a replica is refused */
    /* For TLS: whether the cluster that named this place names plain ports to every client. Another
       thread may set it later. NULL: no cluster named it */
    const atomic_bool *names_plain;
};

/* What the handshake brought. */
struct rlock__greeting {
    int64_t asked_at;   /* when the latest part of our greeting was sent, no later than that */
    uint64_t client_id; /* 0: not told */
    bool fenced;        /* none of the earlier connections that were to be killed lives on */
    int64_t uptime_s;   /* RLOCK__UNKNOWN: not told; 0 also: may have just started */
    char run_id[48];    /* "": not asked, or not told */
    int64_t version;    /* of Redis that it speaks like, the first number; 0: the same */
    bool pushes;        /* it speaks version 3 of the protocol */
    bool tracks;        /* it tells of changes of the keys that the connection reads */
};

struct rlock__conn;

/* Makes a closed connection. NULL without memory. */
struct rlock__conn *rlock__conn_new(const struct rlock__conn_opts *opts);
/* Closes and frees it. Returns NULL; NULL is ok. */
struct rlock__conn *rlock__conn_free(struct rlock__conn *conn);

/* Whether the connection is to speak version 3 of the protocol and to track keys, if the server
 * permits, from its next start on. The greeting says whether it does. */
void rlock__conn_want_pushes(struct rlock__conn *conn, bool wants);
/* Closes what was there, starts anew, and goes on as rlock__conn_step() does, which also says what
 * is returned. unfenced: client ids of earlier connections of ours, to be killed in the handshake;
 * copied. An id of 0 cannot be killed. */
int rlock__conn_start(struct rlock__conn *conn, const uint64_t *unfenced, size_t n, int64_t now);
/*
 * Goes on with the handshake as far as that goes without waiting; harmless at any time.
 * Returns 0 (under way, or up), or what it failed with, the text in rlock__conn_error():
 *   RLOCK_ECONN: refused, unreachable, timed out, closed by the server, not a Redis server,
 *                or a server that is not ready;
 *   RLOCK_ETLS:  the peer's certificate, ours, or a peer that does not speak TLS;
 *   RLOCK_EAUTH, RLOCK_EPERM, RLOCK_EREFUSED: the server's own answers;
 *   RLOCK_ERESOURCE, RLOCK_ENOMEM: this process's lacks.
 */
int rlock__conn_step(struct rlock__conn *conn, int64_t now);
/* Whether trying again will not help before somebody changes an option, a file or the server. A
 * refused login is not final if the program is asked for another one. */
bool rlock__conn_error_is_final(const struct rlock__conn_opts *opts, int code);

/* What to poll: the socket, once there is one; -1 when closed. */
int rlock__conn_fd(const struct rlock__conn *conn);
/* What it waits for: POLLIN, POLLOUT; 0 when closed or failed. */
short rlock__conn_events(const struct rlock__conn *conn);
/* Has an epoll report these events on the descriptor, with this data; 0: it reports nothing, not
 * even the end of the connection. This ends when the descriptor is closed, which a step may do: so
 * call it again after each step. False: the system has no room. */
bool rlock__conn_register(struct rlock__conn *conn, int epoll_fd, short events, void *data);
/* When rlock__conn_step() is due without an event; RLOCK__NEVER when no handshake is under way. */
int64_t rlock__conn_deadline(const struct rlock__conn *conn);
bool rlock__conn_is_up(const struct rlock__conn *conn);
/* One line: the server, and why it failed last; never a secret. "" if it never did. */
const char *rlock__conn_error(const struct rlock__conn *conn);
/* Its address: "127.0.0.1:6379", "[::1]:6379", a path; until it is resolved, as in the options. */
const char *rlock__conn_peer(const struct rlock__conn *conn);

/* Meaningful when up. */
const struct rlock__greeting *rlock__conn_greeting(const struct rlock__conn *conn);

/* Sends as much as goes now. Returns how much that was (0: nothing now, wait for POLLOUT), or
 * RLOCK_ECONN. After a short write the next one must begin with the rest, the same bytes and at
 * least as many: TLS may have encrypted them already. They may lie elsewhere in memory. */
ssize_t rlock__conn_write(struct rlock__conn *conn, const char *bytes, size_t len);
/* Reads once, up to 16 KiB, for rlock__conn_next(). Returns how much, 0 when nothing is there now,
 * or RLOCK_ECONN, ENOMEM. */
int rlock__conn_read(struct rlock__conn *conn);
/* Takes the next whole reply of what was read; call it until it returns 0 before reading again.
 * Returns 1 with a reply that is borrowed until the next call on the connection, 0 when none is
 * complete, or RLOCK_ECONN (not the Redis protocol, or longer than the cap), ENOMEM. */
int rlock__conn_next(struct rlock__conn *conn, struct rlock__reply *ret_reply);
/* Whether nothing is there of a reply that is not whole yet. */
bool rlock__conn_is_drained(const struct rlock__conn *conn);
/* Sets how long a reply may be; RLOCK__REPLY_CAP until then, and again after a new start. */
void rlock__conn_set_reply_cap(struct rlock__conn *conn, size_t bytes);

/* Closes it, with a goodbye where TLS has one. Harmless when closed. */
void rlock__conn_close(struct rlock__conn *conn);
/* In a child of fork: closes the sockets that it inherited from all connections, telling nobody;
 * their memory is not freed. The parent forked within rlock__sock_changing(). */
void rlock__conns_abandon(void) RLOCK__REQUIRES(sock);

#endif
