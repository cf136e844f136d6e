/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of TLS say to each other. */
#ifndef RLOCK_TLS_INTERNAL_H
#define RLOCK_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "tls/tls.h"

struct rlock__tls_files {
    struct rlock__tls tls; /* what the library sees of it */
    const struct rlock__tls_needs *needs;
    char *ca_file, *cert_file, *key_file;
};

/* Keeps the detail for rlock_detail() and is the code. */
#define rlock__tls_fail(files, code, ...) ((files)->needs->detail(__VA_ARGS__), (code))

/* Reads the files into a context, the caller's to free. Each connection has one of its own: there
 * is no other moment at which rotated certificates are noticed. Returns RLOCK_ETLS (a file) or
 * RLOCK_ENOMEM. */
int rlock__tls_context(const struct rlock__tls_files *files, SSL_CTX **ret_ctx);

/* ---- Members of the table ---- */

int rlock__tls_open(const struct rlock__tls_needs *needs, const char *ca_file,
                    const char *cert_file, const char *key_file, struct rlock__tls **ret_tls);
void rlock__tls_close(struct rlock__tls *tls);

#endif
