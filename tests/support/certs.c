#include "certs.h"

#include "run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATH_SIZE = 512, DAY = 24 * 60 * 60 };

static const struct {
    const char *subject;
    const char *names; /* subjectAltName */
    int from_day;      /* relative to today */
    int to_day;
    bool by_other;
} kinds[TEST_CERT_KINDS] = {
    [TEST_CERT_GOOD] = {"/CN=localhost", "DNS:localhost,IP:127.0.0.1,IP:::1", -1, 30, false},
    [TEST_CERT_CLIENT] = {"/CN=rlock-client", "DNS:rlock-client", -1, 30, false},
    [TEST_CERT_EXPIRED] = {"/CN=localhost", "DNS:localhost,IP:127.0.0.1,IP:::1", -9, -1, false},
    [TEST_CERT_NOT_YET] = {"/CN=localhost", "DNS:localhost,IP:127.0.0.1,IP:::1", 1, 30, false},
    [TEST_CERT_WRONG_CA] = {"/CN=localhost", "DNS:localhost,IP:127.0.0.1,IP:::1", -1, 30, true},
    [TEST_CERT_WRONG_HOST] = {"/CN=evil.example", "DNS:evil.example", -1, 30, false},
    [TEST_CERT_SELF_SIGNED] = {"/CN=localhost", "DNS:localhost,IP:127.0.0.1,IP:::1", -1, 30, false},
};

/* Every directory has its own database, so that one request cannot disturb another. */
static const char config[] = "[req]\n"
                             "distinguished_name = name\n"
                             "prompt = no\n"
                             "[name]\n"
                             "CN = unused\n"
                             "[authority]\n"
                             "basicConstraints = critical,CA:TRUE\n"
                             "keyUsage = critical,keyCertSign,cRLSign\n"
                             "subjectKeyIdentifier = hash\n"
                             "[ca]\n"
                             "default_ca = own\n"
                             "[own]\n"
                             "new_certs_dir = .\n"
                             "database = index.txt\n"
                             "rand_serial = yes\n"
                             "default_md = sha256\n"
                             "policy = any\n"
                             "[any]\n"
                             "commonName = supplied\n"
                             "[leaf]\n"; /* its names follow */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects what follows */
static char authority_dirs[2][PATH_SIZE];                 /* the trusted one and the other */
static char kind_dirs[TEST_CERT_KINDS][PATH_SIZE];
static char ca_path[PATH_SIZE + 16];
static char cert_paths[TEST_CERT_KINDS][PATH_SIZE + 16];
static char key_paths[TEST_CERT_KINDS][PATH_SIZE + 16];

static FILE *create(const char *dir, const char *name)
{
    char path[PATH_SIZE + 32];

    test_text(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        test_die("cannot write %s", path);
    }
    return file;
}

static void prepare_dir(char *dir, const char *names)
{
    test_dir_make(dir, PATH_SIZE);
    FILE *file = create(dir, "openssl.cnf");
    fprintf(file, "%ssubjectAltName = %s\n", config, names);
    fclose(file);
    fclose(create(dir, "index.txt"));
}

static void run(const char *dir, const char *const *argv)
{
    char log[320];

    test_text(log, sizeof(log), "%s/openssl.log", dir);
    test_run(dir, log, argv);
}

/* Makes key.pem and, signed by it, cert.pem. */
static void sign_by_itself(const char *dir, const char *subject, const char *extensions)
{
    const char *argv[] = {"openssl",
                          "req",
                          "-x509",
                          "-newkey",
                          "ec",
                          "-pkeyopt",
                          "ec_paramgen_curve:prime256v1",
                          "-nodes",
                          "-keyout",
                          "key.pem",
                          "-out",
                          "cert.pem",
                          "-days",
                          "30",
                          "-subj",
                          subject,
                          "-config",
                          "openssl.cnf",
                          "-extensions",
                          extensions,
                          NULL};

    run(dir, argv);
}

static void request_signature(const char *dir, const char *subject)
{
    const char *argv[] = {"openssl",
                          "req",
                          "-new",
                          "-newkey",
                          "ec",
                          "-pkeyopt",
                          "ec_paramgen_curve:prime256v1",
                          "-nodes",
                          "-keyout",
                          "key.pem",
                          "-out",
                          "request.pem",
                          "-subj",
                          subject,
                          "-config",
                          "openssl.cnf",
                          NULL};

    run(dir, argv);
}

/* `openssl ca` because only it takes both dates in every version. */
static void sign_request(const char *dir, const char *authority, const char *from, const char *to)
{
    char cert[PATH_SIZE + 16];
    char key[PATH_SIZE + 16];

    test_text(cert, sizeof(cert), "%s/cert.pem", authority);
    test_text(key, sizeof(key), "%s/key.pem", authority);
    const char *argv[] = {
        "openssl",    "ca",       "-batch",   "-notext", "-config",     "openssl.cnf", "-cert",
        cert,         "-keyfile", key,        "-in",     "request.pem", "-out",        "cert.pem",
        "-startdate", from,       "-enddate", to,        "-extensions", "leaf",        NULL};
    run(dir, argv);
}

static void format_day(char *text, size_t size, int days_from_now)
{
    const time_t when = time(NULL) + (time_t)days_from_now * DAY;
    struct tm parts;

    gmtime_r(&when, &parts);
    strftime(text, size, "%Y%m%d%H%M%SZ", &parts);
}

/* Mutex held. */
static const char *authority(bool other)
{
    char *dir = authority_dirs[other];

    if (dir[0] == '\0') {
        prepare_dir(dir, "DNS:unused");
        sign_by_itself(dir, other ? "/CN=somebody else's CA" : "/CN=rlock test CA", "authority");
    }
    return dir;
}

/* Mutex held. */
static const char *certificate(enum test_cert kind)
{
    char *dir = kind_dirs[kind];
    char from[32];
    char to[32];

    if (dir[0] != '\0') {
        return dir;
    }
    prepare_dir(dir, kinds[kind].names);
    if (kind == TEST_CERT_SELF_SIGNED) {
        sign_by_itself(dir, kinds[kind].subject, "leaf");
        return dir;
    }
    format_day(from, sizeof(from), kinds[kind].from_day);
    format_day(to, sizeof(to), kinds[kind].to_day);
    request_signature(dir, kinds[kind].subject);
    sign_request(dir, authority(kinds[kind].by_other), from, to);
    return dir;
}

const char *test_ca(void)
{
    pthread_mutex_lock(&mutex);
    test_text(ca_path, sizeof(ca_path), "%s/cert.pem", authority(false));
    pthread_mutex_unlock(&mutex);
    return ca_path;
}

static const char *file_of(enum test_cert kind, char (*paths)[PATH_SIZE + 16], const char *name)
{
    pthread_mutex_lock(&mutex);
    test_text(paths[kind], PATH_SIZE + 16, "%s/%s", certificate(kind), name);
    pthread_mutex_unlock(&mutex);
    return paths[kind];
}

const char *test_cert_file(enum test_cert kind)
{
    return file_of(kind, cert_paths, "cert.pem");
}

const char *test_cert_key(enum test_cert kind)
{
    return file_of(kind, key_paths, "key.pem");
}
