/* Certificates of a test's own, made with the openssl command when they are first asked for. */
#ifndef RLOCK_TEST_CERTS_H
#define RLOCK_TEST_CERTS_H

enum test_cert {
    TEST_CERT_GOOD,        /* by test_ca(), for localhost, 127.0.0.1 and ::1 */
    TEST_CERT_CLIENT,      /* by test_ca(), for "rlock-client" */
    TEST_CERT_EXPIRED,     /* as GOOD, until yesterday */
    TEST_CERT_NOT_YET,     /* as GOOD, from tomorrow on */
    TEST_CERT_WRONG_CA,    /* as GOOD, by an authority that nobody trusts */
    TEST_CERT_WRONG_HOST,  /* by test_ca(), for "evil.example" alone */
    TEST_CERT_SELF_SIGNED, /* as GOOD, by itself */
    TEST_CERT_KINDS
};

/* The paths live as long as the process that asked first; its forked children may use them.
 * Threads: any. */
const char *test_ca(void);
const char *test_cert_file(enum test_cert kind);
const char *test_cert_key(enum test_cert kind);

#endif
