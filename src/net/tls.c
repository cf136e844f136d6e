/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <rlock/rlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "net/session.h"

struct rlock__tls {
    char *ca_file, *cert_file, *key_file;
    BIO_METHOD *socket; /* our socket as OpenSSL sees it; constant */
};

/* ---- Texts ---- */

/* OpenSSL's reason for what just failed, and its list of errors empty for the next one. */
static const char *reason(void)
{
    unsigned long error = ERR_peek_error();
    const char *text = ERR_reason_error_string(error);

    ERR_clear_error();
    if (ERR_GET_REASON(error) == ERR_R_INTERRUPTED_OR_CANCELLED) { /* by no_passphrase() */
        return "keys with a passphrase are not supported";
    }
    return text != NULL ? text : "not a valid PEM file";
}

static int fail_file(char *err, size_t err_size, const char *path, const char *why)
{
    (void)snprintf(err, err_size, "%s: %s", path, why);
    return RLOCK_ETLS;
}

/* ---- Files ---- */

/* As ssh does: a key that others can read is nobody's proof any more. */
static int check_key_file(const char *path, char *err, size_t err_size)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        return fail_file(err, err_size, path, strerror(errno));
    }
    if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return fail_file(err, err_size, path,
                         "the private key is open to others; its mode must be 0600 or stricter");
    }
    return 0;
}

static int check_readable(const char *path, char *err, size_t err_size)
{
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        return fail_file(err, err_size, path, strerror(errno));
    }
    (void)fclose(file);
    return 0;
}

static int load_authorities(SSL_CTX *ctx, const char *path, char *err, size_t err_size)
{
    if (path == NULL) {
        return SSL_CTX_set_default_verify_paths(ctx) == 1
                   ? 0
                   : fail_file(err, err_size, "the system's authorities", reason());
    }
    if (check_readable(path, err, err_size) != 0) {
        return RLOCK_ETLS;
    }
    return SSL_CTX_load_verify_file(ctx, path) == 1 ? 0 : fail_file(err, err_size, path, reason());
}

static int load_identity(SSL_CTX *ctx, const struct rlock__tls *tls, char *err, size_t err_size)
{
    if (tls->cert_file == NULL) {
        return 0;
    }
    if (check_readable(tls->cert_file, err, err_size) != 0 ||
        check_key_file(tls->key_file, err, err_size) != 0 ||
        check_readable(tls->key_file, err, err_size) != 0) {
        return RLOCK_ETLS;
    }
    if (SSL_CTX_use_certificate_chain_file(ctx, tls->cert_file) != 1) {
        return fail_file(err, err_size, tls->cert_file, reason());
    }
    if (SSL_CTX_use_PrivateKey_file(ctx, tls->key_file, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx) != 1) {
        (void)snprintf(err, err_size, "%s: no usable private key: %s", tls->key_file, reason());
        return RLOCK_ETLS;
    }
    return 0;
}

/* A key with a passphrase would have OpenSSL ask for it on the terminal. */
static int no_passphrase(char *buf, int size, int rwflag, void *payload)
{
    (void)buf;
    (void)size;
    (void)rwflag;
    (void)payload;
    return -1;
}

static SSL_CTX *bare_context(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

    if (ctx != NULL && SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    if (ctx != NULL) {
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
        SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    }
    return ctx;
}

int rlock__tls_context(const struct rlock__tls *tls, SSL_CTX **ret_ctx, char *err, size_t err_size)
{
    SSL_CTX *ctx;
    int r;

    ERR_clear_error();
    ctx = bare_context();
    if (ctx == NULL) {
        (void)snprintf(err, err_size, "OpenSSL: %s", reason());
        return RLOCK_ENOMEM;
    }
    r = load_authorities(ctx, tls->ca_file, err, err_size);
    if (r == 0) {
        r = load_identity(ctx, tls, err, err_size);
    }
    ERR_clear_error();
    if (r != 0) {
        SSL_CTX_free(ctx);
        return r;
    }
    *ret_ctx = ctx;
    return 0;
}

BIO_METHOD *rlock__tls_socket(const struct rlock__tls *tls)
{
    return tls->socket;
}

static bool copy_path(const char *path, char **ret_copy)
{
    *ret_copy = path != NULL ? strdup(path) : NULL;
    return path == NULL || *ret_copy != NULL;
}

int rlock__tls_new(const char *ca_file, const char *cert_file, const char *key_file,
                   struct rlock__tls **ret_tls, char *err, size_t err_size)
{
    struct rlock__tls *tls;
    SSL_CTX *ctx = NULL;
    int r;

    if ((cert_file == NULL) != (key_file == NULL)) {
        (void)snprintf(err, err_size,
                       "a client certificate needs its key, and a key its certificate");
        return RLOCK_EINVAL;
    }
    tls = calloc(1, sizeof(*tls));
    if (tls == NULL || !copy_path(ca_file, &tls->ca_file) ||
        !copy_path(cert_file, &tls->cert_file) || !copy_path(key_file, &tls->key_file) ||
        (tls->socket = rlock__session_method()) == NULL) {
        rlock__tls_free(tls);
        (void)snprintf(err, err_size, "no memory");
        return RLOCK_ENOMEM;
    }
    r = rlock__tls_context(tls, &ctx, err, err_size);
    if (r != 0) {
        rlock__tls_free(tls);
        return r;
    }
    SSL_CTX_free(ctx);
    *ret_tls = tls;
    return 0;
}

struct rlock__tls *rlock__tls_free(struct rlock__tls *tls)
{
    if (tls != NULL) {
        BIO_meth_free(tls->socket);
        free(tls->ca_file);
        free(tls->cert_file);
        free(tls->key_file);
        free(tls);
    }
    return NULL;
}
