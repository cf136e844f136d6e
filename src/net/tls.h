/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What TLS connections have in common: which authorities to trust, and who we are. There is no way
 * to turn verification off.
 * Threads: immutable; any thread.
 */
#ifndef RLOCK_NET_TLS_H
#define RLOCK_NET_TLS_H

#include <openssl/ssl.h>
#include <stddef.h>

struct rlock__tls;

/*
 * Checks the files, PEM, and keeps their names.
 * ca_file: NULL for the system's authorities. cert_file and key_file: both, or NULL for none.
 * Returns RLOCK_ETLS (a file), RLOCK_EINVAL or RLOCK_ENOMEM, with the reason in err.
 */
int rlock__tls_new(const char *ca_file, const char *cert_file, const char *key_file,
                   struct rlock__tls **ret_tls, char *err, size_t err_size);
/* Returns NULL; NULL is ok. */
struct rlock__tls *rlock__tls_free(struct rlock__tls *tls);

/*
 * Reads the files into a context, the caller's to free. Each connection has one of its own: there
 * is no other moment at which rotated certificates would be noticed. Returns as rlock__tls_new().
 */
int rlock__tls_context(const struct rlock__tls *tls, SSL_CTX **ret_ctx, char *err, size_t err_size);
/* Our sockets as OpenSSL sees them; lives as long as tls. */
BIO_METHOD *rlock__tls_socket(const struct rlock__tls *tls);

#endif
