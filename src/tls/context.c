/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tls/internal.h"

/* OpenSSL's reason for what just failed, and its list of errors empty for the next one. */
static const char *reason(void)
{
    unsigned long error = ERR_peek_error();
    const char *text = ERR_reason_error_string(error);

    ERR_clear_error();
    if (ERR_GET_REASON(error) == ERR_R_INTERRUPTED_OR_CANCELLED) { /* by no_passphrase() */
        return "keys with a passphrase are not supported";
    }
    if (ERR_SYSTEM_ERROR(error)) {
        return strerror(ERR_GET_REASON(error));
    }
    return text != NULL ? text : "not a valid PEM file";
}

/* ---- Files ---- */

/* As ssh does: a key that others can read is nobody's proof any more. */
static int check_key_file(const struct rlock__tls_files *files)
{
    const char *path = files->key_file;
    struct stat st;

    if (stat(path, &st) != 0) {
        return rlock__tls_fail(files, RLOCK_ETLS, "%s: %s", path, strerror(errno));
    }
    if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return rlock__tls_fail(
            files, RLOCK_ETLS,
            "%s: the private key is open to others; its mode must be 0600 or stricter", path);
    }
    return 0;
}

/* Adds every certificate and every revocation list in the file; false if it has no certificate. If
 * it has a list, each certificate of a server's chain is looked up in its issuer's list. */
static bool add_authorities(SSL_CTX *ctx, BIO *bio)
{
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    STACK_OF(X509_INFO) *infos = PEM_X509_INFO_read_bio(bio, NULL, NULL, NULL);
    int n = infos != NULL ? sk_X509_INFO_num(infos) : 0, certs = 0, lists = 0;

    for (int i = 0; i < n; i++) {
        const X509_INFO *info = sk_X509_INFO_value(infos, i);

        certs += info->x509 != NULL && X509_STORE_add_cert(store, info->x509) == 1;
        lists += info->crl != NULL && X509_STORE_add_crl(store, info->crl) == 1;
    }
    sk_X509_INFO_pop_free(infos, X509_INFO_free);
    return certs != 0 &&
           (lists == 0 ||
            X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) == 1);
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

/* The certificate, and those that lead from it to its authority. */
static bool use_chain(SSL_CTX *ctx, BIO *bio)
{
    X509 *cert = PEM_read_bio_X509_AUX(bio, NULL, no_passphrase, NULL);
    bool used = cert != NULL && SSL_CTX_use_certificate(ctx, cert) == 1;

    X509_free(cert);
    while (used && (cert = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL)) != NULL) {
        used = SSL_CTX_add0_chain_cert(ctx, cert) == 1;
        if (!used) {
            X509_free(cert);
        }
    }
    if (used) {
        ERR_clear_error(); /* the end of the file */
    }
    return used;
}

static bool use_key(SSL_CTX *ctx, BIO *bio)
{
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
    bool used = key != NULL && SSL_CTX_use_PrivateKey(ctx, key) == 1;

    EVP_PKEY_free(key);
    return used && SSL_CTX_check_private_key(ctx) == 1;
}

/* Opened so that a program that is executed meanwhile does not inherit it. what: begins the reason
 * where the file is of no use. */
static int read_file(const struct rlock__tls_files *files, SSL_CTX *ctx, const char *path,
                     bool (*use)(SSL_CTX *ctx, BIO *bio), const char *what)
{
    BIO *bio = BIO_new_file(path, "re");
    int code = 0;

    if (bio == NULL || !use(ctx, bio)) {
        code =
            rlock__tls_fail(files, RLOCK_ETLS, "%s: %s%s", path, bio != NULL ? what : "", reason());
    }
    BIO_free(bio);
    return code;
}

static int load_authorities(const struct rlock__tls_files *files, SSL_CTX *ctx)
{
    if (files->ca_file != NULL) {
        return read_file(files, ctx, files->ca_file, add_authorities,
                         "no certificate of an authority: ");
    }
    return SSL_CTX_set_default_verify_paths(ctx) == 1
               ? 0
               : rlock__tls_fail(files, RLOCK_ETLS, "the system's authorities: %s", reason());
}

static int load_identity(const struct rlock__tls_files *files, SSL_CTX *ctx)
{
    int code = 0;

    if (files->cert_file != NULL) {
        code = read_file(files, ctx, files->cert_file, use_chain, "");
        code = code == 0 ? check_key_file(files) : code;
        code = code == 0
                   ? read_file(files, ctx, files->key_file, use_key, "no usable private key: ")
                   : code;
    }
    return code;
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

int rlock__tls_context(const struct rlock__tls_files *files, SSL_CTX **ret_ctx)
{
    SSL_CTX *ctx;
    int code;

    ERR_clear_error();
    ctx = bare_context();
    if (ctx == NULL) {
        return rlock__tls_fail(files, RLOCK_ENOMEM, "OpenSSL: %s", reason());
    }
    code = load_authorities(files, ctx);
    code = code == 0 ? load_identity(files, ctx) : code;
    ERR_clear_error();
    if (code != 0) {
        SSL_CTX_free(ctx);
        return code;
    }
    *ret_ctx = ctx;
    return 0;
}

/* ---- Beginning and end ---- */

static bool copy_path(const char *path, char **ret_copy)
{
    *ret_copy = path != NULL ? strdup(path) : NULL;
    return path == NULL || *ret_copy != NULL;
}

static bool copy_paths(struct rlock__tls_files *files, const char *ca_file, const char *cert_file,
                       const char *key_file)
{
    return copy_path(ca_file, &files->ca_file) && copy_path(cert_file, &files->cert_file) &&
           copy_path(key_file, &files->key_file);
}

static void free_files(struct rlock__tls_files *files)
{
    free(files->ca_file);
    free(files->cert_file);
    free(files->key_file);
    free(files);
}

int rlock__tls_open(const struct rlock__tls_needs *needs, const char *ca_file,
                    const char *cert_file, const char *key_file, struct rlock__tls **ret_tls)
{
    struct rlock__tls_files *files = calloc(1, sizeof(*files));
    SSL_CTX *ctx = NULL;
    int code;

    if (files == NULL) {
        needs->detail("no memory");
        return RLOCK_ENOMEM;
    }
    files->tls.table = &rlock__tls_table;
    files->needs = needs;
    /* Its own end would come at the program's, while threads of ours may still use it. */
    (void)OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
    if ((cert_file == NULL) != (key_file == NULL)) {
        code = rlock__tls_fail(files, RLOCK_EINVAL,
                               "a client certificate needs its key, and a key its certificate");
    } else if (!copy_paths(files, ca_file, cert_file, key_file)) {
        code = rlock__tls_fail(files, RLOCK_ENOMEM, "no memory");
    } else {
        code = rlock__tls_context(files, &ctx);
    }
    SSL_CTX_free(ctx);
    if (code == 0) {
        *ret_tls = &files->tls;
    } else {
        free_files(files);
    }
    return code;
}

void rlock__tls_close(struct rlock__tls *tls)
{
    free_files((struct rlock__tls_files *)tls);
}
