/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/authority.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include "support/run.h"

#define DAY (24L * 60 * 60)

static void set_name(X509_NAME *name, const char *common_name)
{
    TEST_CHECK(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                          (const unsigned char *)common_name, -1, -1, 0) == 1);
}

static void add_extension(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    TEST_CHECK(extension != NULL && X509_add_ext(cert, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

struct identity identity_new(const struct identity_opts *opts)
{
    static long serial;
    struct identity it = {.cert = X509_new(), .key = EVP_EC_gen("P-256")};
    const struct identity *issuer = opts->issuer != NULL ? opts->issuer : &it;
    bool dated = opts->from_day != 0 || opts->to_day != 0;

    TEST_CHECK(it.cert != NULL && it.key != NULL);
    TEST_CHECK(X509_set_version(it.cert, X509_VERSION_3) == 1);
    TEST_CHECK(ASN1_INTEGER_set(X509_get_serialNumber(it.cert), ++serial) == 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(it.cert), (dated ? opts->from_day : -1) * DAY);
    (void)X509_gmtime_adj(X509_getm_notAfter(it.cert), (dated ? opts->to_day : 30) * DAY);
    set_name(X509_get_subject_name(it.cert), opts->common_name);
    TEST_CHECK(X509_set_issuer_name(it.cert, X509_get_subject_name(issuer->cert)) == 1);
    TEST_CHECK(X509_set_pubkey(it.cert, it.key) == 1);
    if (opts->is_authority) {
        add_extension(it.cert, NID_basic_constraints, "critical,CA:TRUE");
        add_extension(it.cert, NID_key_usage, "critical,keyCertSign,cRLSign");
    }
    if (opts->names != NULL) {
        add_extension(it.cert, NID_subject_alt_name, opts->names);
    }
    if (opts->usage != NULL) {
        add_extension(it.cert, NID_ext_key_usage, opts->usage);
    }
    TEST_CHECK(X509_sign(it.cert, issuer->key, EVP_sha256()) > 0);
    return it;
}

void identity_free(struct identity *identity)
{
    X509_free(identity->cert);
    EVP_PKEY_free(identity->key);
    *identity = (struct identity){0};
}

static void add_revoked(X509_CRL *list, X509 *cert, ASN1_TIME *when)
{
    X509_REVOKED *revoked = X509_REVOKED_new();

    TEST_CHECK(revoked != NULL &&
               X509_REVOKED_set_serialNumber(revoked, X509_get_serialNumber(cert)) == 1 &&
               X509_REVOKED_set_revocationDate(revoked, when) == 1 &&
               X509_CRL_add0_revoked(list, revoked) == 1);
}

X509_CRL *revocation_list_new(const struct identity *issuer, X509 *revoked, int to_day)
{
    X509_CRL *list = X509_CRL_new();
    ASN1_TIME *from = X509_gmtime_adj(NULL, -DAY), *until = X509_gmtime_adj(NULL, to_day * DAY);

    /* A list that has expired began before that. */
    if (to_day <= -1) {
        (void)X509_gmtime_adj(from, (to_day - 1) * DAY);
    }
    TEST_CHECK(list != NULL && from != NULL && until != NULL);
    TEST_CHECK(X509_CRL_set_version(list, X509_CRL_VERSION_2) == 1 &&
               X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer->cert)) == 1 &&
               X509_CRL_set1_lastUpdate(list, from) == 1 &&
               X509_CRL_set1_nextUpdate(list, until) == 1);
    if (revoked != NULL) {
        add_revoked(list, revoked, from);
    }
    TEST_CHECK(X509_CRL_sign(list, issuer->key, EVP_sha256()) > 0);
    ASN1_TIME_free(from);
    ASN1_TIME_free(until);
    return list;
}

void write_cert(FILE *file, const struct identity *identity)
{
    TEST_CHECK(PEM_write_X509(file, identity->cert) == 1);
}

void write_list(FILE *file, X509_CRL *list)
{
    TEST_CHECK(PEM_write_X509_CRL(file, list) == 1);
}

void write_key(const char *path, const struct identity *identity)
{
    int fd = test_must(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), path);
    FILE *file = fdopen(fd, "w");

    TEST_CHECK(file != NULL &&
               PEM_write_PrivateKey(file, identity->key, NULL, NULL, 0, NULL, NULL) == 1);
    (void)fclose(file);
}
