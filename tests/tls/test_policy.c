/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which servers TLS accepts, seen from outside: a server in memory does one thing wrong in each
 * test, and the client refuses it with the right code and words.
 */
#include "support/test.h"

#include <openssl/conf.h>
#include <rlock/rlock.h>
#include <unistd.h>

#include "support/run.h"
#include "tls/peer.h"

#define HOST "db.example.test"

/* An authority, an intermediate authority below it, and the client's files. */
struct scene {
    struct identity root, middle, leaf;
    char dir[200], ca[256], cert[256], key[256];
    struct peer_files files;
    struct peer peer;
};

static struct identity issue(const struct identity *issuer, const char *names)
{
    return identity_new(
        &(struct identity_opts){.common_name = "a server", .names = names, .issuer = issuer});
}

/* The client's file of authorities: the root, and a list for each issuer (NULL: none) that names
 * the certificate as revoked. */
static void trust_root(struct scene *s)
{
    FILE *file = fopen(s->ca, "we");

    TEST_CHECK(file != NULL);
    write_cert(file, &s->root);
    (void)fclose(file);
}

static void add_list(struct scene *s, const struct identity *issuer, const struct identity *revoked,
                     int to_day)
{
    FILE *file = fopen(s->ca, "ae");
    X509_CRL *list = revocation_list_new(issuer, revoked != NULL ? revoked->cert : NULL, to_day);

    TEST_CHECK(file != NULL);
    write_list(file, list);
    (void)fclose(file);
    X509_CRL_free(list);
}

static void begin(struct scene *s)
{
    memset(s, 0, sizeof(*s));
    test_dir_make(s->dir, sizeof(s->dir));
    test_text(s->ca, sizeof(s->ca), "%s/ca.pem", s->dir);
    test_text(s->cert, sizeof(s->cert), "%s/cert.pem", s->dir);
    test_text(s->key, sizeof(s->key), "%s/key.pem", s->dir);
    s->root = identity_new(&(struct identity_opts){.common_name = "root", .is_authority = true});
    s->middle = identity_new(
        &(struct identity_opts){.common_name = "middle", .issuer = &s->root, .is_authority = true});
    s->leaf = issue(&s->root, "DNS:" HOST);
    s->files.ca = s->ca;
    s->peer.shows = &s->leaf;
    trust_root(s);
}

static void end(struct scene *s)
{
    identity_free(&s->root);
    identity_free(&s->middle);
    identity_free(&s->leaf);
    test_dir_remove(s->dir);
}

#define POLICY_TEST(name) TEST_AROUND(name, struct scene, s, begin(s), end(s))

/* Shows another certificate from now on. */
static void show(struct scene *s, struct identity leaf)
{
    identity_free(&s->leaf);
    s->leaf = leaf;
}

static void accepts(struct scene *s, const char *host)
{
    peer_dial(&s->peer, &s->files, host);
    print_message("%s: %d %s\n", host, s->peer.code, s->peer.why);
    assert_int_equal(s->peer.code, 0);
}

static void refuses(struct scene *s, const char *host, const char *why)
{
    peer_dial(&s->peer, &s->files, host);
    print_message("%s: %d %s\n", host, s->peer.code, s->peer.why);
    assert_int_equal(s->peer.code, RLOCK_ETLS);
    assert_non_null(strstr(s->peer.why, why));
}

/* ---- Versions ---- */

POLICY_TEST(tls_1_2_and_1_3_are_spoken)
{
    s->peer.max_version = TLS1_2_VERSION;
    accepts(s, HOST);
    s->peer.max_version = TLS1_3_VERSION;
    accepts(s, HOST);
}

/* The machine's own configuration may permit old versions; OpenSSL reads it when it is first used,
 * which is why this is a process of its own. */
static void permit_everything(struct scene *s)
{
    char path[256];
    FILE *file;

    test_text(path, sizeof(path), "%s/openssl.cnf", s->dir);
    file = fopen(path, "we");
    TEST_CHECK(file != NULL);
    (void)fprintf(file, "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = loose\n"
                        "[loose]\nMinProtocol = TLSv1\nCipherString = DEFAULT@SECLEVEL=0\n");
    (void)fclose(file);
    TEST_CHECK(CONF_modules_load_file(path, NULL, 0) == 1);
}

POLICY_TEST(older_versions_are_not_offered_where_the_machine_permits_them)
{
    permit_everything(s);
    s->peer.max_version = TLS1_1_VERSION;
    refuses(s, HOST, "TLS: ");
    assert_int_equal(s->peer.versions[0], TLS1_3_VERSION);
    assert_int_equal(s->peer.versions[1], TLS1_2_VERSION);
    assert_int_equal(s->peer.versions[2], 0);
}

/* ---- Chains, dates, uses ---- */

POLICY_TEST(an_intermediate_authority_counts_only_if_it_is_shown)
{
    show(s, issue(&s->middle, "DNS:" HOST));
    refuses(s, HOST, "unable to get local issuer certificate");
    s->peer.chain[0] = &s->middle;
    accepts(s, HOST);
}

POLICY_TEST(a_certificate_that_is_no_authority_signs_nothing)
{
    struct identity forger = issue(&s->root, "DNS:forger.example.test");

    show(s, issue(&forger, "DNS:" HOST));
    s->peer.chain[0] = &forger;
    refuses(s, HOST, "certificate refused: ");
    identity_free(&forger);
}

POLICY_TEST(a_certificate_is_good_on_its_days_only)
{
    show(s, identity_new(&(struct identity_opts){.common_name = "old",
                                                 .names = "DNS:" HOST,
                                                 .issuer = &s->root,
                                                 .from_day = -9,
                                                 .to_day = -1}));
    refuses(s, HOST, "certificate has expired");
    show(s, identity_new(&(struct identity_opts){.common_name = "new",
                                                 .names = "DNS:" HOST,
                                                 .issuer = &s->root,
                                                 .from_day = 1,
                                                 .to_day = 9}));
    refuses(s, HOST, "certificate is not yet valid");
}

POLICY_TEST(a_certificate_for_clients_is_no_servers)
{
    show(s, identity_new(&(struct identity_opts){.common_name = "a client",
                                                 .names = "DNS:" HOST,
                                                 .issuer = &s->root,
                                                 .usage = "clientAuth"}));
    refuses(s, HOST, "certificate refused: ");
    show(s, identity_new(&(struct identity_opts){.common_name = "a server",
                                                 .names = "DNS:" HOST,
                                                 .issuer = &s->root,
                                                 .usage = "serverAuth"}));
    accepts(s, HOST);
}

/* ---- Names and addresses ---- */

POLICY_TEST(the_common_name_names_no_host)
{
    show(s, identity_new(&(struct identity_opts){.common_name = HOST, .issuer = &s->root}));
    refuses(s, HOST, "it is not for " HOST);
    show(s, identity_new(&(struct identity_opts){
                .common_name = HOST, .names = "email:a@b.test", .issuer = &s->root}));
    refuses(s, HOST, "it is not for " HOST);
}

POLICY_TEST(a_wildcard_stands_for_one_whole_label)
{
    show(s, issue(&s->root, "DNS:*.example.test"));
    accepts(s, HOST);
    refuses(s, "a.db.example.test", "it is not for a.db.example.test");
    refuses(s, "example.test", "it is not for example.test");
    show(s, issue(&s->root, "DNS:d*.example.test,DNS:*b.example.test,DNS:d*b.example.test"));
    refuses(s, HOST, "it is not for " HOST);
    show(s, issue(&s->root, "DNS:db.*.test"));
    refuses(s, HOST, "it is not for " HOST);
}

POLICY_TEST(an_address_is_compared_with_addresses_only)
{
    show(s, issue(&s->root, "IP:127.0.0.1,IP:::1"));
    accepts(s, "127.0.0.1");
    accepts(s, "::1");
    refuses(s, "127.0.0.2", "it is not for 127.0.0.2");
    show(s, issue(&s->root, "DNS:127.0.0.1,DNS:*.0.0.1"));
    refuses(s, "127.0.0.1", "it is not for 127.0.0.1");
}

POLICY_TEST(letters_and_the_last_dot_do_not_matter)
{
    accepts(s, "DB.Example.Test");
    accepts(s, HOST ".");
}

POLICY_TEST(the_server_is_asked_for_by_name_and_not_by_address)
{
    accepts(s, HOST ".");
    assert_string_equal(s->peer.asked_for, HOST);
    show(s, issue(&s->root, "IP:127.0.0.1"));
    accepts(s, "127.0.0.1");
    assert_string_equal(s->peer.asked_for, "");
}

/* ---- The client's own certificate ---- */

static void show_client(struct scene *s, const struct identity *client,
                        const struct identity *middle)
{
    FILE *file = fopen(s->cert, "we");

    TEST_CHECK(file != NULL);
    write_cert(file, client);
    if (middle != NULL) {
        write_cert(file, middle);
    }
    (void)fclose(file);
    write_key(s->key, client);
    s->files.cert = s->cert;
    s->files.key = s->key;
}

POLICY_TEST(the_clients_chain_goes_to_the_server)
{
    struct identity client = issue(&s->middle, "DNS:client.example.test");

    s->peer.trusts = &s->root;
    show_client(s, &client, &s->middle);
    accepts(s, HOST);
    assert_true(s->peer.has_client);
    s->peer.max_version = TLS1_2_VERSION;
    accepts(s, HOST);
    assert_true(s->peer.has_client);
    show_client(s, &client, NULL);
    s->peer.max_version = 0;
    refuses(s, HOST, "TLS: ");
    identity_free(&client);
}

/* ---- Revocation ---- */

POLICY_TEST(a_revoked_certificate_is_refused)
{
    add_list(s, &s->root, NULL, 30);
    accepts(s, HOST);
    trust_root(s);
    add_list(s, &s->root, &s->leaf, 30);
    refuses(s, HOST, "certificate revoked");
}

POLICY_TEST(a_revoked_intermediate_authority_is_refused)
{
    show(s, issue(&s->middle, "DNS:" HOST));
    s->peer.chain[0] = &s->middle;
    add_list(s, &s->middle, NULL, 30);
    add_list(s, &s->root, NULL, 30);
    accepts(s, HOST);
    trust_root(s);
    add_list(s, &s->middle, NULL, 30);
    add_list(s, &s->root, &s->middle, 30);
    refuses(s, HOST, "certificate revoked");
}

POLICY_TEST(each_authority_of_a_chain_needs_a_list_if_one_has_a_list)
{
    show(s, issue(&s->middle, "DNS:" HOST));
    s->peer.chain[0] = &s->middle;
    add_list(s, &s->root, NULL, 30);
    refuses(s, HOST, "has no revocation list by an authority of this certificate");
}

POLICY_TEST(an_expired_revocation_list_is_refused_by_name)
{
    add_list(s, &s->root, NULL, -1);
    refuses(s, HOST, "revocation list has expired");
    trust_root(s);
    add_list(s, &s->root, NULL, 30);
    accepts(s, HOST); /* each connection reads the file again */
}

POLICY_TEST(a_revocation_list_by_a_stranger_counts_for_nothing)
{
    struct identity stranger =
        identity_new(&(struct identity_opts){.common_name = "root", .is_authority = true});

    add_list(s, &stranger, NULL, 30); /* the name of the root, and another key */
    refuses(s, HOST, "certificate refused: ");
    identity_free(&stranger);
}

POLICY_TEST(a_file_of_lists_alone_has_no_authority)
{
    test_must(unlink(s->ca), s->ca);
    add_list(s, &s->root, NULL, 30);
    refuses(s, HOST, "no certificate of an authority");
}
