/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rlock/rlock.h>

#include "live/dial.h"
#include "net/tls.h"
#include "support/run.h"
#include "support/test.h"

#define BIG ((size_t)4 * 1024 * 1024)

static struct test_server *start(enum test_cert cert, bool auth_clients)
{
    struct test_server_opts opts = {
        .transport = TEST_TLS, .cert = cert, .tls_auth_clients = auth_clients};

    return test_server_start(&opts);
}

/* Prepares a connection that trusts the tests' own authority and shows no certificate. */
static void dial_tls(struct dial *dial, struct test_server *server, const char *host)
{
    char url[64];

    (void)snprintf(url, sizeof(url), "rediss://%s:%d", host, test_server_port(server));
    dial_init(dial, url);
    dial_trust(dial, test_ca(), NULL, NULL);
}

/* ---- Whom we talk to ---- */

TEST(a_good_certificate_is_accepted)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1"};
    struct test_server *server = start(TEST_CERT_GOOD, false);

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct dial dial;

        dial_tls(&dial, server, hosts[i]);
        dial_works(&dial);
        assert_true(rlock__conn_greeting(dial.conn)->client_id > 0);
        dial_ping(&dial);
        dial_fini(&dial);
    }
    test_server_stop(server);
}

static void a_bad_certificate_is_refused(enum test_cert cert, const char *host, const char *why)
{
    struct test_server *server = start(cert, false);
    struct dial dial;

    dial_tls(&dial, server, host);
    dial_fails(&dial, RLOCK_ETLS, why);
    assert_true(rlock__conn_error_is_final(&(struct rlock__conn_opts){0}, RLOCK_ETLS));
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(an_expired_certificate_is_refused)
{
    a_bad_certificate_is_refused(TEST_CERT_EXPIRED, "localhost", "certificate has expired");
}

TEST(a_certificate_of_the_future_is_refused)
{
    a_bad_certificate_is_refused(TEST_CERT_NOT_YET, "localhost", "not yet valid");
}

TEST(a_certificate_by_a_strange_authority_is_refused)
{
    a_bad_certificate_is_refused(TEST_CERT_WRONG_CA, "localhost", "certificate refused: ");
}

TEST(a_self_signed_certificate_is_refused)
{
    a_bad_certificate_is_refused(TEST_CERT_SELF_SIGNED, "localhost", "self-signed certificate");
}

TEST(a_certificate_for_another_host_is_refused)
{
    a_bad_certificate_is_refused(TEST_CERT_WRONG_HOST, "localhost", "it is not for localhost");
    a_bad_certificate_is_refused(TEST_CERT_WRONG_HOST, "127.0.0.1", "it is not for 127.0.0.1");
}

TEST(the_systems_authorities_do_not_know_ours)
{
    struct test_server *server = start(TEST_CERT_GOOD, false);
    struct dial dial;
    char url[64];

    (void)snprintf(url, sizeof(url), "rediss://localhost:%d", test_server_port(server));
    dial_init(&dial, url);
    dial_trust(&dial, NULL, NULL, NULL);
    dial_fails(&dial, RLOCK_ETLS, "certificate refused: ");
    dial_fini(&dial);
    test_server_stop(server);
}

/* ---- Who we are ---- */

TEST(a_client_certificate_is_shown_where_it_is_wanted)
{
    struct test_server *server = start(TEST_CERT_GOOD, true);
    struct dial dial;

    dial_tls(&dial, server, "localhost");
    dial_fails(&dial, RLOCK_ETLS, "certificate required");
    dial_fini(&dial);
    dial_init(&dial, test_server_url(server));
    dial_trust(&dial, test_ca(), test_cert_file(TEST_CERT_CLIENT), test_cert_key(TEST_CERT_CLIENT));
    dial_works(&dial);
    dial_ping(&dial);
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(a_rotated_certificate_is_read_at_the_next_connection)
{
    struct test_server *server = start(TEST_CERT_GOOD, true);
    char dir[200], cert[256], key[256];
    struct dial dial;

    test_dir_make(dir, sizeof(dir));
    dial_put_identity(dir, TEST_CERT_WRONG_CA, cert, key);
    dial_init(&dial, test_server_url(server));
    dial_trust(&dial, test_ca(), cert, key);
    dial_fails(&dial, RLOCK_ETLS, "TLS: ");
    dial_put_identity(dir, TEST_CERT_CLIENT, cert, key);
    dial_works(&dial);
    (void)unlink(key);
    dial_fails(&dial, RLOCK_ETLS, "No such file");
    dial_fini(&dial);
    test_dir_remove(dir);
    test_server_stop(server);
}

static void assert_files_refused(const char *ca, const char *cert, const char *key, int code,
                                 const char *why)
{
    struct rlock__tls *tls = NULL;

    assert_int_equal(rlock__tls_new(ca, cert, key, &tls), code);
    print_message("%s\n", rlock_detail());
    assert_non_null(strstr(rlock_detail(), why));
    assert_null(tls);
}

TEST(bad_files_are_refused_at_once)
{
    const char *client = test_cert_file(TEST_CERT_CLIENT),
               *its_key = test_cert_key(TEST_CERT_CLIENT);
    char dir[200], cert[256], key[256];

    test_dir_make(dir, sizeof(dir));
    dial_put_identity(dir, TEST_CERT_CLIENT, cert, key);
    assert_files_refused("/nonexistent", NULL, NULL, RLOCK_ETLS, "/nonexistent: No such file");
    assert_files_refused(its_key, NULL, NULL, RLOCK_ETLS, its_key);
    assert_files_refused(NULL, client, NULL, RLOCK_EINVAL, "needs its key");
    assert_files_refused(NULL, NULL, its_key, RLOCK_EINVAL, "needs its key");
    assert_files_refused(NULL, client, "/nonexistent", RLOCK_ETLS, "/nonexistent: No such file");
    assert_files_refused(NULL, client, client, RLOCK_ETLS, client);
    assert_files_refused(NULL, test_cert_file(TEST_CERT_GOOD), its_key, RLOCK_ETLS, "mismatch");
    dial_copy_file(client, key, 0600);
    assert_files_refused(NULL, cert, key, RLOCK_ETLS, key);
    test_must(chmod(key, 0640), key);
    assert_files_refused(NULL, cert, key, RLOCK_ETLS, "open to others");
    test_must(chmod(key, 0604), key);
    assert_files_refused(NULL, cert, key, RLOCK_ETLS, "open to others");
    test_dir_remove(dir);
}

TEST(a_key_with_a_passphrase_asks_nobody)
{
    char dir[200], cert[256], key[256], locked[256], log[256];
    const char *argv[] = {"openssl", "pkey", "-aes256", "-passout", "pass:x",
                          "-in",     key,    "-out",    locked,     NULL};

    test_dir_make(dir, sizeof(dir));
    dial_put_identity(dir, TEST_CERT_CLIENT, cert, key);
    (void)snprintf(locked, sizeof(locked), "%.200s/locked.pem", dir);
    (void)snprintf(log, sizeof(log), "%.200s/log", dir);
    test_run(dir, log, argv);
    test_must(chmod(locked, 0600), locked);
    assert_files_refused(NULL, cert, locked, RLOCK_ETLS, "passphrase");
    test_dir_remove(dir);
}

/* ---- Peers ---- */

static void a_peer_fails(struct peer *peer, int code, const char *text)
{
    struct dial dial;

    peer_start(peer);
    dial_init(&dial, peer_url(peer, "rediss"));
    dial.opts.connect_timeout_us = 300000;
    dial_trust(&dial, test_ca(), NULL, NULL);
    dial_fails(&dial, code, text);
    dial_fini(&dial);
    peer_stop(peer);
}

TEST(a_peer_without_tls_is_recognised)
{
    struct peer redis = {.says = "-ERR unknown command\r\n"};
    struct peer http = {.says = "HTTP/1.0 400 Bad Request\r\n\r\n"};
    struct peer mail = {.says = "220 mail ESMTP\r\n", .unasked = true};

    a_peer_fails(&redis, RLOCK_ETLS, "does not speak TLS");
    a_peer_fails(&http, RLOCK_ETLS, "does not speak TLS");
    a_peer_fails(&mail, RLOCK_ETLS, "does not speak TLS");
}

TEST(a_peer_that_breaks_the_handshake_off_is_transient)
{
    struct peer closes = {0};
    struct peer resets = {.resets = true};
    struct peer cuts = {.says = "\x16\x03\x03\x01\x02\x02"};
    struct peer silent = {.holds = true};

    a_peer_fails(&closes, RLOCK_ECONN, "closed by the server during the TLS handshake");
    a_peer_fails(&resets, RLOCK_ECONN, "connection lost: Connection reset");
    a_peer_fails(&cuts, RLOCK_ECONN, "closed by the server during the TLS handshake");
    a_peer_fails(&silent, RLOCK_ECONN, "no answer to the TLS handshake");
}

TEST(a_plain_server_on_a_tls_port_fails_at_the_deadline)
{
    struct test_server_opts opts = {.transport = TEST_TCP};
    struct test_server *server = test_server_start(&opts);
    struct dial dial;

    dial_tls(&dial, server, "127.0.0.1");
    dial.opts.connect_timeout_us = 300000;
    dial_fails(&dial, RLOCK_ECONN, "does it speak TLS?");
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(a_tls_server_on_a_plain_port_fails)
{
    struct test_server *server = start(TEST_CERT_GOOD, false);
    struct dial dial;
    char url[64];

    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d", test_server_port(server));
    dial_init(&dial, url);
    dial_fails(&dial, RLOCK_ECONN, "127.0.0.1");
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(a_stopped_server_fails_at_the_deadline)
{
    struct test_server *server = start(TEST_CERT_GOOD, false);
    int64_t before;
    struct dial dial;

    dial_tls(&dial, server, "localhost");
    dial.opts.connect_timeout_us = 300000;
    test_server_freeze(server);
    before = test_now_us();
    dial_fails(&dial, RLOCK_ECONN, "within 300 ms");
    assert_true(test_elapsed_us(before) >= 299000);
    assert_in_time(before, 300000 + 200000 * test_slack());
    dial_fini(&dial);
    test_server_stop(server);
}

/* ---- Bytes ---- */

TEST(a_long_write_goes_in_parts)
{
    struct test_server *server = start(TEST_CERT_GOOD, false);
    char *big = calloc(1, BIG), *moved = malloc(BIG);
    struct rlock__reply reply;
    struct dial dial;
    int head = snprintf(big, BIG, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%zu\r\n", BIG - 100);
    size_t len = (size_t)head + BIG - 100 + 2;
    ssize_t sent;

    memcpy(big + len - 2, "\r\n", 2);
    memcpy(moved, big, BIG);
    dial_tls(&dial, server, "localhost");
    dial_works(&dial);
    test_server_freeze(server);
    sent = rlock__conn_write(dial.conn, big, len);
    assert_in_range(sent, 1, len - 1);
    assert_int_equal(rlock__conn_events(dial.conn), POLLIN | POLLOUT);
    memset(big, 'x', BIG); /* the rest comes from elsewhere */
    test_server_thaw(server);
    assert_int_equal(dial_send(&dial, moved + sent, len - (size_t)sent), 0);
    assert_int_equal(dial_next(&dial, &reply), 1);
    assert_int_equal(reply.v[0].type, RLOCK__REPLY_STATUS);
    rlock__conn_set_reply_cap(dial.conn, 2 * BIG);
    assert_int_equal(dial_send(&dial, "GET k\r\n", 7), 0);
    assert_int_equal(dial_next(&dial, &reply), 1);
    assert_int_equal(reply.v[0].len, BIG - 100);
    assert_memory_equal(reply.v[0].str, moved + head, BIG - 100);
    free(big);
    free(moved);
    dial_fini(&dial);
    test_server_stop(server);
}

TEST(writing_to_a_reset_connection_raises_no_signal)
{
    struct test_server *server = start(TEST_CERT_GOOD, false);
    struct rlock__reply reply;
    struct dial dial;

    sigpipe_watch();
    dial_tls(&dial, server, "localhost");
    dial_works(&dial);
    assert_int_equal(rlock__conn_write(dial.conn, "PING\r\n", 6), 6);
    test_server_kill(server);
    for (int i = 0; i < 3; i++) {
        (void)rlock__conn_write(dial.conn, "PING\r\n", 6);
    }
    rlock__conn_close(dial.conn);
    test_server_restart(server, false);
    dial_works(&dial);
    test_server_kill(server);
    while (dial_next(&dial, &reply) == 1) {
    }
    rlock__conn_close(dial.conn);
    test_server_restart(server, false);
    dial_works(&dial);
    test_server_kill(server);
    rlock__conn_close(dial.conn); /* the goodbye meets nobody */
    assert_int_equal(sigpipe_count(), 0);
    dial_fini(&dial);
    test_server_stop(server);
}
