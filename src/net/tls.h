/* SPDX-License-Identifier: Apache-2.0 */
/* What TLS connections have in common: which authorities to trust, and who we are. There is no way
 * to turn verification off. Threads: struct rlock__tls is immutable; any thread. */
#ifndef RLOCK_NET_TLS_H
#define RLOCK_NET_TLS_H

#include <openssl/ssl.h>
#include <stddef.h>
#include <sys/types.h>

struct rlock__tls;

/* Checks the files, PEM, and keeps their names. ca_file: NULL for the system's authorities.
 * cert_file and key_file: both, or NULL for none. Returns RLOCK_ETLS (a file), RLOCK_EINVAL or
 * RLOCK_ENOMEM. */
int rlock__tls_new(const char *ca_file, const char *cert_file, const char *key_file,
                   struct rlock__tls **ret_tls);
/* Returns NULL; NULL is ok. */
struct rlock__tls *rlock__tls_free(struct rlock__tls *tls);

/* Reads the files into a context, the caller's to free. Each connection has one of its own: there
 * is no other moment at which rotated certificates are noticed. Returns as rlock__tls_new(). */
int rlock__tls_context(const struct rlock__tls *tls, SSL_CTX **ret_ctx);

/* ---- session.c ---- */

/* TLS on one connection, over a socket that stays the caller's. The peer's certificate must be
 * good, and issued for the host that was asked for. One caller at a time. */
struct rlock__session;

/* Makes a session for a connected socket. host: the name or address to be verified. Returns
 * RLOCK_ETLS (a file) or RLOCK_ENOMEM. */
int rlock__session_new(const struct rlock__tls *tls, int fd, const char *host,
                       struct rlock__session **ret_session);
/* Frees it, sending nothing. Returns NULL; NULL is ok. */
struct rlock__session *rlock__session_free(struct rlock__session *session);
/* Goes on with the handshake. Returns 1 when it is done, 0 when it waits, RLOCK_ETLS, or
 * RLOCK_ECONN when the peer only broke off. */
int rlock__session_handshake(struct rlock__session *session);
/* Send and receive. Return how much, 0 when nothing goes now, RLOCK_ECONN, also at the end of the
 * stream, or RLOCK_ETLS when the peer refuses our certificate: TLS 1.3 tells that no earlier. */
ssize_t rlock__session_write(struct rlock__session *session, const void *bytes, size_t len);
ssize_t rlock__session_read(struct rlock__session *session, void *bytes, size_t len);
/* What the handshake waits for: POLLIN or POLLOUT. */
short rlock__session_events(const struct rlock__session *session);
/* Why it failed. */
const char *rlock__session_why(const struct rlock__session *session);
/* Says goodbye, if that goes at once. */
void rlock__session_bye(struct rlock__session *session);

#endif
