/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS that fails, as a user of locks sees it: the code and the text of each call, no hesitation
 * where waiting would not help, and patience where it does.
 */
#include "fault/verbs.h"
#include "support/waiter.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENT_MS = 60000 };

static void open_tls(struct fixture *f, enum test_cert cert, bool auth_clients, bool proxied)
{
    fixture_open(
        f, &(struct fixture_opts){
               .proxy = proxied ? PROXY_OF_BYTES : PROXY_NONE,
               .server = {.transport = TEST_TLS, .cert = cert, .tls_auth_clients = auth_clients}});
}

static struct rlock_client_opts unhurried(void)
{
    return *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack(),
                              .connect_timeout_ms = 5000 * test_slack());
}

/* Every call fails with ETLS, at once, and says why; nobody hammers at the door. */
static void is_refused(const struct fixture *f, const struct user *user, const char *why)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    long long tries = test_server_info(f->server, "stats", "total_connections_received");
    int64_t began_us = test_now_us();

    assert_code(rlock_lock_for(user->lock, PATIENT_MS, NULL, NULL), RLOCK_ETLS);
    assert_detail("lock " LOCK_A);
    assert_detail("localhost");
    assert_detail(why);
    assert_code(rlock_try_lock(user->lock), RLOCK_ETLS);
    assert_detail(why);
    assert_code(rlock_inspect(user->lock, &info), RLOCK_ETLS);
    assert_detail(why);
    assert_code(rlock_force_unlock(user->lock, NULL), RLOCK_ETLS);
    assert_code(rlock_unlock(user->lock), RLOCK_ENOTOWNER);
    assert_within(began_us, 100);
    tries = test_server_info(f->server, "stats", "total_connections_received") - tries;
    assert_in_range(tries, 0, 10);
}

static void certificate_is_refused(enum test_cert cert, const char *why)
{
    struct fixture f;
    struct user *user;
    int64_t began_us;

    open_tls(&f, cert, false, false);
    user = user_open(&f, unhurried());
    is_refused(&f, user, why);
    began_us = test_now_us();
    user_close(user);
    assert_within(began_us, 0);
    fixture_close(&f);
}

TEST(an_expired_certificate_fails_every_call)
{
    certificate_is_refused(TEST_CERT_EXPIRED, "certificate has expired");
}

TEST(a_certificate_of_the_future_fails_every_call)
{
    certificate_is_refused(TEST_CERT_NOT_YET, "not yet valid");
}

TEST(a_self_signed_certificate_fails_every_call)
{
    certificate_is_refused(TEST_CERT_SELF_SIGNED, "self-signed certificate");
}

TEST(a_certificate_by_a_strange_authority_fails_every_call)
{
    certificate_is_refused(TEST_CERT_WRONG_CA, "certificate refused");
}

TEST(a_certificate_for_another_host_fails_every_call)
{
    certificate_is_refused(TEST_CERT_WRONG_HOST, "it is not for localhost");
}

/* ---- Our own certificate ---- */

static void copy_file(const char *from, const char *to)
{
    const char *argv[] = {"/bin/cp", from, to, NULL};
    char log[300];

    test_text(log, sizeof(log), "%s/cp", test_dir());
    test_run("/", log, argv);
}

/* What a program registered for its end before it had a client runs when OpenSSL's own end did. */
static void linger(void)
{
    (void)STAYS(true, 1500);
}

static int end_while_connecting(struct test_peer *peer, void *payload)
{
    const struct fixture *f = payload;
    struct rlock_client *client = NULL;

    (void)peer;
    TEST_CHECK(atexit(linger) == 0);
    TEST_CHECK(rlock_client_open(RLOCK_CLIENT_OPTS(.url = test_server_url(f->server)), &client) ==
               0); /* it trusts nobody there */
    exit(EXIT_SUCCESS);
}

TEST(a_process_may_end_while_a_client_connects)
{
    struct fixture f;
    struct test_child *child;

    open_tls(&f, TEST_CERT_SELF_SIGNED, false, false);
    child = test_child_spawn(end_while_connecting, &f);
    assert_int_equal(test_child_wait(child, 20000), EXIT_SUCCESS);
    fixture_close(&f);
}

TEST(a_certificate_that_is_put_right_is_read_again)
{
    struct fixture f;
    struct user *user;
    struct rlock_client_opts opts = unhurried();
    char cert[300], key[300];

    open_tls(&f, TEST_CERT_GOOD, true, false);
    test_text(cert, sizeof(cert), "%s/cert", test_dir());
    test_text(key, sizeof(key), "%s/key", test_dir());
    copy_file(test_cert_file(TEST_CERT_WRONG_CA), cert);
    copy_file(test_cert_key(TEST_CERT_WRONG_CA), key);
    opts.cert_file = cert;
    opts.key_file = key;
    user = user_open(&f, opts);
    is_refused(&f, user, "TLS");
    copy_file(test_cert_file(TEST_CERT_CLIENT), cert);
    copy_file(test_cert_key(TEST_CERT_CLIENT), key);
    assert_true(TEST_EVENTUALLY(user_visit(user, PATIENT_MS, NULL) == 0, 5000));
    user_close(user);
    (void)unlink(cert);
    (void)unlink(key);
    fixture_close(&f);
}

TEST(a_server_that_wants_a_certificate_says_so)
{
    struct fixture f;
    struct user *user;

    open_tls(&f, TEST_CERT_GOOD, true, false);
    user = user_open(&f, unhurried());
    is_refused(&f, user, "certificate required");
    fixture_close(&f);
}

TEST(files_that_are_no_certificates_fail_at_open)
{
    static const struct {
        const char *ca, *cert, *key;
        int code;
    } cases[] = {{"/nonexistent", NULL, NULL, RLOCK_ETLS},
                 {"/dev/null", NULL, NULL, RLOCK_ETLS},
                 {NULL, "/dev/null", "/dev/null", RLOCK_ETLS},
                 {NULL, "/nonexistent", NULL, RLOCK_EINVAL}};
    struct rlock_client *client = NULL;
    size_t threads = test_threads_running();
    size_t fds = test_fds_open();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct rlock_client_opts *opts =
            RLOCK_CLIENT_OPTS(.url = "rediss://localhost:1", .ca_file = cases[i].ca,
                              .cert_file = cases[i].cert, .key_file = cases[i].key);

        assert_code(rlock_client_open(opts, &client), cases[i].code);
        assert_string_not_equal(rlock_detail(), "");
    }
    assert_int_equal(test_threads_running(), threads);
    assert_int_equal(test_fds_open(), fds);
}

/* ---- Files, and programs that are executed meanwhile ---- */

/* Stands for a file in which it can be seen how it is opened: whoever reads it waits for us. */
struct feeder {
    pthread_t thread;
    char fifo[300];
    char text[8192];
    size_t len;
    _Atomic bool stop;
    _Atomic size_t fed, inherited;
};

/* How many descriptors for the fifo there are, or of these, that a program would inherit that is
 * executed now. */
static size_t count_open(const struct feeder *feeder, bool inherited)
{
    char path[64], target[300];
    size_t n = 0;

    for (int fd = 3; fd < 256; fd++) {
        ssize_t len;

        test_text(path, sizeof(path), "/proc/self/fd/%d", fd);
        len = readlink(path, target, sizeof(target) - 1);
        target[len > 0 ? len : 0] = '\0';
        n += strcmp(target, feeder->fifo) == 0 &&
             (!inherited || (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0);
    }
    return n;
}

static void *feed_main(void *arg)
{
    struct feeder *feeder = arg;
    sigset_t pipe;

    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE); /* a reader may leave */
    (void)pthread_sigmask(SIG_BLOCK, &pipe, NULL);
    while (!atomic_load(&feeder->stop)) {
        int fd = test_must(open(feeder->fifo, O_WRONLY | O_CLOEXEC), feeder->fifo);

        if (!atomic_load(&feeder->stop) && write(fd, feeder->text, feeder->len) > 0) {
            atomic_fetch_add(&feeder->inherited, count_open(feeder, true));
            atomic_fetch_add(&feeder->fed, 1);
        }
        (void)close(fd);
        TEST_CHECK(TEST_EVENTUALLY(atomic_load(&feeder->stop) || count_open(feeder, false) == 0,
                                   5000)); /* read to its end */
    }
    return NULL;
}

static void feeder_start(struct feeder *feeder, const char *from)
{
    FILE *file = fopen(from, "re");

    memset(feeder, 0, sizeof(*feeder));
    assert_non_null(file);
    feeder->len = fread(feeder->text, 1, sizeof(feeder->text), file);
    (void)fclose(file);
    test_text(feeder->fifo, sizeof(feeder->fifo), "%s/fifo", test_dir());
    test_must(mkfifo(feeder->fifo, 0600), feeder->fifo);
    TEST_CHECK(pthread_create(&feeder->thread, NULL, feed_main, feeder) == 0);
}

static void feeder_stop(struct feeder *feeder)
{
    int fd;

    atomic_store(&feeder->stop, true);
    fd = test_must(open(feeder->fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC), feeder->fifo);
    TEST_CHECK(pthread_join(feeder->thread, NULL) == 0);
    (void)close(fd);
    (void)unlink(feeder->fifo);
}

TEST(the_files_of_certificates_are_inherited_by_nobody)
{
    struct fixture f;
    struct user *user;
    struct feeder feeder;
    struct rlock_client_opts opts = unhurried();

    open_tls(&f, TEST_CERT_GOOD, false, false);
    feeder_start(&feeder, test_ca());
    opts.ca_file = feeder.fifo;
    user = user_open(&f, opts);
    assert_code(user_visit(user, 0, NULL), 0); /* read at open, and for the connection */
    assert_true(atomic_load(&feeder.fed) >= 2);
    assert_int_equal(atomic_load(&feeder.inherited), 0);
    user_close(user);
    feeder_stop(&feeder);
    fixture_close(&f);
}

/* ---- Peers that do not speak TLS, or stop in the middle ---- */

FIXTURE_WITH_TEST(a_plain_server_is_no_tls_server, f, .server.transport = TEST_TCP)
{
    struct user *user;
    char url[64];
    int64_t began_us;

    test_text(url, sizeof(url), "rediss://127.0.0.1:%d", test_server_port(f->server));
    user = user_open(f, *RLOCK_CLIENT_OPTS(.url = url, .ca_file = test_ca(), .op_timeout_ms = 300,
                                           .connect_timeout_ms = 150));
    began_us = test_now_us();
    assert_code(rlock_try_lock(user->lock), RLOCK_ECONN);
    assert_detail("does it speak TLS?");
    assert_within(began_us, 300);
}

TEST(a_tls_server_is_no_plain_server)
{
    struct fixture f;
    struct user *user;
    char url[64];
    int64_t began_us;

    open_tls(&f, TEST_CERT_GOOD, false, false);
    test_text(url, sizeof(url), "redis://127.0.0.1:%d", test_server_port(f.server));
    user = user_open(
        &f, *RLOCK_CLIENT_OPTS(.url = url, .op_timeout_ms = 300, .connect_timeout_ms = 150));
    began_us = test_now_us();
    assert_code(rlock_try_lock(user->lock), RLOCK_ECONN);
    assert_within(began_us, 300);
    fixture_close(&f);
}

TEST(a_handshake_that_is_cut_anywhere_is_tried_again)
{
    struct fixture f;
    struct user *user;

    open_tls(&f, TEST_CERT_GOOD, false, true);
    user = user_open(&f, unhurried());
    for (size_t at = 0; at < 1600; at += 100) {
        enum proxy_way way = at % 200 == 0 ? PROXY_TO_CLIENT : PROXY_TO_SERVER;

        proxy_cut_at_byte(f.proxy, way, at / 2);
        proxy_cut_all(f.proxy, PROXY_ANY);
        assert_code(user_visit(user, PATIENT_MS, NULL), 0);
    }
    fixture_close(&f);
}

TEST(a_slow_handshake_in_small_pieces_succeeds_within_its_time)
{
    struct fixture f;
    struct user *user;

    open_tls(&f, TEST_CERT_GOOD, false, true);
    proxy_chop(f.proxy, 100);
    proxy_delay_us(f.proxy, 10000);
    user = user_open(&f, unhurried());
    assert_code(user_visit(user, PATIENT_MS, NULL), 0);
    fixture_close(&f);
}

TEST(a_handshake_that_stops_in_the_middle_fails_in_time)
{
    struct fixture f;
    struct user *user;
    int64_t began_us;

    open_tls(&f, TEST_CERT_GOOD, false, true);
    proxy_delay_way_us(f.proxy, PROXY_ANY, PROXY_TO_CLIENT, 60000000);
    /* Long enough for several connections, one of which a loaded machine gets as far as that. */
    user = user_open(&f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 2000, .connect_timeout_ms = 150));
    began_us = test_now_us();
    assert_code(rlock_try_lock(user->lock), RLOCK_ECONN);
    assert_detail("no answer to the TLS handshake");
    assert_within(began_us, 2000);
    proxy_delay_way_us(f.proxy, PROXY_ANY, PROXY_TO_CLIENT, 0);
    user_close(user);
    f.proxy = proxy_stop(f.proxy);
    fixture_close(&f);
}

TEST(resets_under_load_raise_no_signal)
{
    struct fixture f;
    struct user *user, *rival;
    struct crew crew = {.wait_ms = PATIENT_MS};
    struct crew others = {.wait_ms = PATIENT_MS};

    open_tls(&f, TEST_CERT_GOOD, false, true);
    user = user_open(&f, unhurried());
    rival = user_open_direct(&f);
    crew_start(&crew, user, 3);
    crew_start(&others, rival, 1);
    for (int i = 0; i < 60; i++) {
        size_t visits = atomic_load(&crew.visits);

        assert_true(TEST_EVENTUALLY(atomic_load(&crew.visits) > visits + 2, 20000));
        proxy_cut_all(f.proxy, PROXY_ANY);
    }
    crew_stop(&crew);
    crew_stop(&others);
    assert_int_equal(user_losses(user) + user_losses(rival), 0);
    assert_int_equal(fixture_sigpipes(), 0);
    fixture_close(&f);
}

/* ---- Small stacks ---- */

static void *visit_often(void *arg)
{
    struct user *user = arg;

    for (int i = 0; i < 20; i++) {
        TEST_CHECK(user_visit(user, PATIENT_MS, NULL) == 0);
        if (i % 5 == 0) {
            proxy_cut_all(user->f->proxy, PROXY_ANY);
        }
    }
    return NULL;
}

/* The size that docs/server.md names; sanitizers need more room. */
TEST(a_stack_of_64_kib_is_enough)
{
    struct fixture f;
    struct user *user;
    pthread_attr_t attr;
    pthread_t thread;

    open_tls(&f, TEST_CERT_GOOD, false, true);
    user = user_open(&f, unhurried());
    TEST_CHECK(pthread_attr_init(&attr) == 0 &&
               pthread_attr_setstacksize(&attr, 65536 * (size_t)test_slack()) == 0);
    TEST_CHECK(pthread_create(&thread, &attr, visit_often, user) == 0);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    (void)pthread_attr_destroy(&attr);
    fixture_close(&f);
}
