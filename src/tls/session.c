/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <rlock/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tls/internal.h"

#define HOST_SIZE 256
#define WHY_SIZE 200

struct rlock__session {
    const struct rlock__tls_needs *needs;
    BIO_METHOD *method; /* how OpenSSL gets at our socket */
    SSL *ssl;
    int fd;
    int io_error; /* errno of the last call on the socket that failed; 0 at the end of the stream */
    bool established;
    bool heard; /* bytes came from the server: it has accepted us */
    short events;
    char host[HOST_SIZE];
    char why[WHY_SIZE];
};

/* ---- The socket as OpenSSL sees it; its own way of sending raises SIGPIPE in the caller ---- */

static int bio_result(BIO *bio, ssize_t n, int retry)
{
    struct rlock__session *session = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (n == -EAGAIN || n == -EWOULDBLOCK) {
        BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
        return -1;
    }
    if (n < 0) {
        session->io_error = (int)-n;
        return -1;
    }
    return (int)n;
}

static int bio_write(BIO *bio, const char *bytes, int len)
{
    const struct rlock__session *session = BIO_get_data(bio);

    return bio_result(bio, session->needs->send(session->fd, bytes, (size_t)len), BIO_FLAGS_WRITE);
}

static int bio_read(BIO *bio, char *bytes, int len)
{
    const struct rlock__session *session = BIO_get_data(bio);

    return bio_result(bio, session->needs->recv(session->fd, bytes, (size_t)len), BIO_FLAGS_READ);
}

static long bio_ctrl(BIO *bio, int command, long num, void *arg)
{
    (void)bio;
    (void)num;
    (void)arg;
    return command == BIO_CTRL_FLUSH; /* nothing is kept back */
}

/* ---- Failing ---- */

static int fail(struct rlock__session *session, int code, const char *what, const char *detail)
{
    (void)snprintf(session->why, sizeof(session->why), "%s%s", what, detail);
    return code;
}

/* OpenSSL's words, and ours where they do not say which file to mend. */
static int fail_verification(struct rlock__session *session, long result)
{
    const char *also = "", *host = "";

    if (result == X509_V_ERR_HOSTNAME_MISMATCH || result == X509_V_ERR_IP_ADDRESS_MISMATCH) {
        also = ", it is not for ";
        host = session->host;
    } else if (result == X509_V_ERR_CRL_HAS_EXPIRED) {
        also = ": an authority's revocation list has expired, renew it in ca_file";
    } else if (result == X509_V_ERR_UNABLE_TO_GET_CRL) {
        also = ": ca_file has no revocation list by an authority of this certificate";
    }
    (void)snprintf(session->why, sizeof(session->why), "certificate refused: %s%s%.100s",
                   X509_verify_cert_error_string(result), also, host);
    return RLOCK_ETLS;
}

static int fail_io(struct rlock__session *session)
{
    if (session->io_error != 0) {
        return fail(session, RLOCK_ECONN, "connection lost: ", strerror(session->io_error));
    }
    return fail(session, RLOCK_ECONN, "closed by the server",
                session->established ? "" : " during the TLS handshake");
}

/* What is no TLS record at all looks to OpenSSL like one of a strange version or length. */
static bool is_plain(int reason)
{
    return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
           reason == SSL_R_PACKET_LENGTH_TOO_LONG;
}

static int fail_protocol(struct rlock__session *session)
{
    unsigned long error = ERR_peek_error();
    const char *text = ERR_reason_error_string(error);

    if (!session->established && is_plain(ERR_GET_REASON(error))) {
        return fail(session, RLOCK_ETLS, "the server does not speak TLS", "");
    }
    /* Once it has talked to us, whatever comes is an accident of this connection, not a refusal. */
    return fail(session, session->heard ? RLOCK_ECONN : RLOCK_ETLS,
                "TLS: ", text != NULL ? text : "unknown reason");
}

/* Returns 0 when OpenSSL only waits for the socket. */
static int result(struct rlock__session *session, int r)
{
    long verified = SSL_get_verify_result(session->ssl);
    int code = 0;

    switch (SSL_get_error(session->ssl, r)) {
    case SSL_ERROR_WANT_READ:
        session->events = POLLIN;
        return 0;
    case SSL_ERROR_WANT_WRITE:
        session->events = POLLOUT;
        return 0;
    case SSL_ERROR_SSL:
        code =
            verified != X509_V_OK ? fail_verification(session, verified) : fail_protocol(session);
        break;
    default:
        code = fail_io(session);
        break;
    }
    ERR_clear_error();
    return code;
}

static void begin_call(struct rlock__session *session)
{
    session->io_error = 0;
    ERR_clear_error(); /* other libraries' errors in this thread would be taken for ours */
}

/* ---- Sessions ---- */

/* Has the peer's certificate checked for the host, and the host named to the peer if it
 * is a name. */
static bool expect_host(SSL *ssl, char *host)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

    /* RFC 9525: a certificate's common name names no host. */
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1) {
        return true;
    }
    return X509_VERIFY_PARAM_set1_host(param, host, 0) == 1 &&
           SSL_set_tlsext_host_name(ssl, host) == 1;
}

/* The dot that ends an absolute name is not part of the names in certificates. */
static bool set_host(struct rlock__session *session, const char *host)
{
    size_t len = strlen(host);

    len -= len > 1 && host[len - 1] == '.';
    if (len >= sizeof(session->host)) {
        return false;
    }
    memcpy(session->host, host, len);
    return true;
}

static BIO *bio_new(struct rlock__session *session)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "rlock socket");

    session->method = method;
    return method != NULL && BIO_meth_set_write(method, bio_write) &&
                   BIO_meth_set_read(method, bio_read) && BIO_meth_set_ctrl(method, bio_ctrl)
               ? BIO_new(method)
               : NULL;
}

static bool set_up(struct rlock__session *session, SSL_CTX *ctx)
{
    BIO *bio;

    session->ssl = SSL_new(ctx); /* keeps the context */
    if (session->ssl == NULL || !expect_host(session->ssl, session->host)) {
        return false;
    }
    bio = bio_new(session);
    if (bio == NULL) {
        return false;
    }
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(session->ssl, bio, bio);
    SSL_set_connect_state(session->ssl);
    return true;
}

static void end(struct rlock__session *session)
{
    if (session != NULL) {
        SSL_free(session->ssl);
        BIO_meth_free(session->method);
        free(session);
    }
}

static int begin(const struct rlock__tls *tls, int fd, const char *host,
                 struct rlock__session **ret_session)
{
    const struct rlock__tls_files *files = (const struct rlock__tls_files *)tls;
    SSL_CTX *ctx = NULL;
    struct rlock__session *session;
    int code = rlock__tls_context(files, &ctx);
    bool good;

    if (code != 0) {
        return code;
    }
    session = calloc(1, sizeof(*session));
    if (session != NULL) {
        session->needs = files->needs;
        session->fd = fd;
        session->events = POLLOUT;
    }
    good = session != NULL && set_host(session, host) && set_up(session, ctx);
    SSL_CTX_free(ctx);
    if (!good) {
        end(session);
        ERR_clear_error();
        return rlock__tls_fail(files, RLOCK_ENOMEM, "TLS cannot be set up for this host");
    }
    *ret_session = session;
    return 0;
}

static int handshake(struct rlock__session *session)
{
    int r;

    begin_call(session);
    r = SSL_do_handshake(session->ssl);
    if (r == 1) {
        session->established = true;
        return 1;
    }
    return result(session, r);
}

static ssize_t send_bytes(struct rlock__session *session, const void *bytes, size_t len)
{
    size_t n = 0;
    int r;

    begin_call(session);
    r = SSL_write_ex(session->ssl, bytes, len, &n);
    return r == 1 ? (ssize_t)n : result(session, r);
}

static ssize_t receive(struct rlock__session *session, void *bytes, size_t len)
{
    size_t n = 0;
    int r;

    begin_call(session);
    r = SSL_read_ex(session->ssl, bytes, len, &n);
    if (r == 1) {
        session->heard = true;
        return (ssize_t)n;
    }
    return result(session, r);
}

static short events(const struct rlock__session *session)
{
    return session->events;
}

static const char *why(const struct rlock__session *session)
{
    return session->why;
}

static void bye(struct rlock__session *session)
{
    begin_call(session);
    (void)SSL_shutdown(session->ssl);
    ERR_clear_error();
}

const struct rlock__tls_table rlock__tls_table = {
    .number = RLOCK__TLS_INTERFACE,
    .version = RLOCK_VERSION,
    .open = rlock__tls_open,
    .close = rlock__tls_close,
    .begin = begin,
    .end = end,
    .handshake = handshake,
    .write = send_bytes,
    .read = receive,
    .events = events,
    .why = why,
    .bye = bye,
};
