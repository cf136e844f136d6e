/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/peer.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "support/run.h"

/* The client's callbacks get a file descriptor only, so there is one server at a time. */
static SSL *server;
static char detail[512];

__attribute__((format(printf, 1, 2))) static void keep_detail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);
}

static ssize_t send_to_server(int fd, const void *bytes, size_t len)
{
    (void)fd;
    return BIO_write(SSL_get_rbio(server), bytes, (int)len);
}

static ssize_t recv_from_server(int fd, void *bytes, size_t len)
{
    int n = BIO_read(SSL_get_wbio(server), bytes, (int)len);

    (void)fd;
    return n > 0 ? n : -EAGAIN;
}

static const struct rlock__tls_needs needs = {keep_detail, send_to_server, recv_from_server};

/* ---- The server ---- */

static void note_server_name(struct peer *peer, SSL *ssl)
{
    const unsigned char *bytes;
    size_t len;

    /* RFC 6066: the length of the list, a type, the length of the name, the name */
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &bytes, &len) == 1 && len > 5) {
        test_text(peer->asked_for, sizeof(peer->asked_for), "%.*s", (int)(len - 5), bytes + 5);
    }
}

static void note_versions(struct peer *peer, SSL *ssl)
{
    const unsigned char *bytes;
    size_t len, n = 0;

    /* RFC 8446: the length in bytes, then two bytes for each version */
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_supported_versions, &bytes, &len) == 1) {
        for (size_t i = 1; i + 1 < len && n + 1 < PEER_MOST; i += 2) {
            peer->versions[n++] = bytes[i] << 8 | bytes[i + 1];
        }
    }
}

static int on_hello(SSL *ssl, int *alert, void *payload)
{
    (void)alert;
    note_server_name(payload, ssl);
    note_versions(payload, ssl);
    return SSL_CLIENT_HELLO_SUCCESS;
}

static void trust(SSL_CTX *ctx, const struct identity *authority)
{
    TEST_CHECK(X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), authority->cert) == 1);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
}

static SSL *server_new(struct peer *peer)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    SSL *ssl;

    TEST_CHECK(ctx != NULL && SSL_CTX_use_certificate(ctx, peer->shows->cert) == 1 &&
               SSL_CTX_use_PrivateKey(ctx, peer->shows->key) == 1);
    for (size_t i = 0; i < PEER_MOST && peer->chain[i] != NULL; i++) {
        TEST_CHECK(SSL_CTX_add1_chain_cert(ctx, peer->chain[i]->cert) == 1);
    }
    SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_mode(ctx, SSL_MODE_NO_AUTO_CHAIN); /* it sends what the test says, no more */
    SSL_CTX_set_security_level(ctx, 0);
    TEST_CHECK(SSL_CTX_set_min_proto_version(ctx, TLS1_VERSION) == 1 &&
               SSL_CTX_set_max_proto_version(ctx, peer->max_version) == 1);
    SSL_CTX_set_client_hello_cb(ctx, on_hello, peer);
    if (peer->trusts != NULL) {
        trust(ctx, peer->trusts);
    }
    ssl = SSL_new(ctx);
    SSL_CTX_free(ctx);
    TEST_CHECK(ssl != NULL);
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(ssl);
    return ssl;
}

/* ---- The exchange ---- */

/* Returns what the client's handshake came to: 1, or an error. The server goes on as far as it can
 * after each of the client's steps. */
static int shake_hands(struct rlock__session *session)
{
    int r = 0;

    for (int i = 0; r == 0 && i < 10; i++) {
        r = rlock__tls_table.handshake(session);
        (void)SSL_do_handshake(server);
    }
    return r;
}

/* With TLS 1.3 a server refuses the client's certificate after the client's handshake. */
static int exchange(struct rlock__session *session)
{
    char byte = '?';
    ssize_t n = rlock__tls_table.write(session, &byte, 1);

    if (n == 1 && SSL_read(server, &byte, 1) == 1 && SSL_write(server, "!", 1) == 1) {
        n = rlock__tls_table.read(session, &byte, 1);
        return n == 1 ? 0 : (int)n;
    }
    n = rlock__tls_table.read(session, &byte, 1);
    return n > 0 ? RLOCK_ECONN : (int)n;
}

static int converse(struct peer *peer, struct rlock__session *session)
{
    int r = shake_hands(session);
    X509 *client;

    r = r == 1 ? exchange(session) : r;
    client = SSL_get1_peer_certificate(server);
    peer->has_client = client != NULL && r == 0;
    X509_free(client);
    test_text(detail, sizeof(detail), "%s", r != 0 ? rlock__tls_table.why(session) : "");
    return r;
}

void peer_dial(struct peer *peer, const struct peer_files *files, const char *host)
{
    struct rlock__tls *tls = NULL;
    struct rlock__session *session = NULL;

    detail[0] = peer->asked_for[0] = '\0';
    memset(peer->versions, 0, sizeof(peer->versions));
    peer->has_client = false;
    server = server_new(peer);
    peer->code = rlock__tls_table.open(&needs, files->ca, files->cert, files->key, &tls);
    if (peer->code == 0) {
        peer->code = rlock__tls_table.begin(tls, -1, host, &session);
    }
    if (peer->code == 0) {
        peer->code = converse(peer, session);
    }
    test_text(peer->why, sizeof(peer->why), "%s", detail);
    if (session != NULL) {
        rlock__tls_table.end(session);
    }
    if (tls != NULL) {
        rlock__tls_table.close(tls);
    }
    SSL_free(server);
    server = NULL;
}
