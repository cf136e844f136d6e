/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS as a table of functions. What is behind it is linked with OpenSSL, and stands in a module
 * that is loaded for the first client with TLS, or in the static library: net/tls.h. So nothing of
 * src/tls calls the library by name, and nothing of the library calls src/tls by name. There is no
 * way to turn verification off.
 *
 * Threads: struct rlock__tls is immutable; any thread. A session: one caller at a time.
 */
#ifndef RLOCK_TLS_TLS_H
#define RLOCK_TLS_TLS_H

#include <rlock/rlock.h>
#include <stddef.h>
#include <sys/types.h>

/* Counts the changes of the structs below, and of what their functions mean. A module that was made
 * for another number is not used. */
#define RLOCK__TLS_INTERFACE 1

/* What the module needs of the library. It lives as long as the process. */
struct rlock__tls_needs {
    /* As rlock__detail(). */
    void (*detail)(const char *format, ...) __attribute__((format(printf, 1, 2)));
    /* As rlock__sock_send() and rlock__sock_recv(). */
    ssize_t (*send)(int fd, const void *bytes, size_t len);
    ssize_t (*recv)(int fd, void *bytes, size_t len);
};

/* What TLS connections have in common: which authorities to trust, and who we are. The module has
 * more behind it. */
struct rlock__tls {
    const struct rlock__tls_table *table;
};

/* TLS on one connection, over a socket that stays the caller's. The peer's certificate must be
 * good, and issued for the host that was asked for. */
struct rlock__session;

struct rlock__tls_table {
    int number;          /* RLOCK__TLS_INTERFACE; it stays where it is, */
    const char *version; /* and so does the rlock that it belongs to */

    /* Checks the files, PEM, and keeps their names. ca_file: NULL for the system's authorities.
     * cert_file and key_file: both, or NULL for none. Returns RLOCK_ETLS (a file), RLOCK_EINVAL or
     * RLOCK_ENOMEM. */
    int (*open)(const struct rlock__tls_needs *needs, const char *ca_file, const char *cert_file,
                const char *key_file, struct rlock__tls **ret_tls);
    /* Frees it, when its sessions are freed. */
    void (*close)(struct rlock__tls *tls);

    /* Makes a session for a connected socket. host: the name or address to be verified. Returns
     * RLOCK_ETLS (a file) or RLOCK_ENOMEM. */
    int (*begin)(const struct rlock__tls *tls, int fd, const char *host,
                 struct rlock__session **ret_session);
    /* Frees it, sending nothing. */
    void (*end)(struct rlock__session *session);
    /* Goes on with the handshake. Returns 1 when it is done, 0 when it waits, RLOCK_ETLS, or
     * RLOCK_ECONN when the peer only broke off. */
    int (*handshake)(struct rlock__session *session);
    /* Send and receive. Return how much, 0 when nothing goes now, RLOCK_ECONN, also at the end of
     * the stream, or RLOCK_ETLS when the peer refuses our certificate: TLS 1.3 tells that no
     * earlier. */
    ssize_t (*write)(struct rlock__session *session, const void *bytes, size_t len);
    ssize_t (*read)(struct rlock__session *session, void *bytes, size_t len);
    /* What the handshake waits for: POLLIN or POLLOUT. */
    short (*events)(const struct rlock__session *session);
    /* Why it failed. */
    const char *(*why)(const struct rlock__session *session);
    /* Says goodbye, if that goes at once. */
    void (*bye)(struct rlock__session *session);
};

extern const struct rlock__tls_table rlock__tls_table;

/* What a module exports, by this name. */
extern const struct rlock__tls_table *const rlock_tls_module;
#define RLOCK__TLS_SYMBOL "rlock_tls_module"

#endif
