/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates and revocation lists, good ones and bad ones, made in memory. Each is freed with its
 * _free function; NULL is ok there. A failure ends the test program. */
#ifndef RLOCK_TEST_TLS_AUTHORITY_H
#define RLOCK_TEST_TLS_AUTHORITY_H

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdio.h>

struct identity {
    X509 *cert;
    EVP_PKEY *key;
};

struct identity_opts {
    const char *common_name;
    const char *names;             /* subjectAltName; NULL: the certificate has none */
    const char *usage;             /* extendedKeyUsage; NULL: none */
    const struct identity *issuer; /* NULL: the certificate signs itself */
    bool is_authority;
    int from_day, to_day; /* relative to today; both 0: from yesterday, for 30 days */
};

struct identity identity_new(const struct identity_opts *opts);
void identity_free(struct identity *identity);

/* A list of the issuer with at most one revoked certificate (NULL: none). It is valid from
 * yesterday until to_day. */
X509_CRL *revocation_list_new(const struct identity *issuer, X509 *revoked, int to_day);

/* Writes PEM. The key file gets mode 0600. */
void write_cert(FILE *file, const struct identity *identity);
void write_list(FILE *file, X509_CRL *list);
void write_key(const char *path, const struct identity *identity);

#endif
