/* The private servers of the tests, on every program and transport, and their certificates. */
#include "run.h"
#include "server.h"
#include "support/test.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void server_test_fn(const struct test_server_opts *opts);

/* Runs a test for each server and transport; shows as skipped, at its end, when one of the servers
 * is missing. */
static void on_each_server(server_test_fn *test)
{
    static const char *const programs[] = {"redis", "valkey"};
    bool is_missing = false;

    for (size_t i = 0; i < 2; i++) {
        if (!test_server_available(programs[i])) {
            print_message("no %s-server here\n", programs[i]);
            is_missing = true;
            continue;
        }
        for (int transport = TEST_UNIX; transport <= TEST_TLS; transport++) {
            test(&(struct test_server_opts){
                .program = programs[i], .transport = (enum test_transport)transport, .aof = true});
        }
    }
    if (is_missing) {
        skip();
    }
}

static void check_address(const struct test_server_opts *opts)
{
    static const char *const schemes[] = {[TEST_UNIX] = "unix:///",
                                          [TEST_TCP] = "redis://127.0.0.1:",
                                          [TEST_TLS] = "rediss://localhost:"};
    const char *scheme = schemes[opts->transport];
    struct test_server *server = test_server_start(opts);

    assert_int_equal(strncmp(test_server_url(server), scheme, strlen(scheme)), 0);
    assert_int_equal(test_server_port(server) != 0, opts->transport != TEST_UNIX);
    assert_int_equal(test_server_clients(server), 0);
    test_server_stop(server);
}

TEST(a_server_has_the_address_that_was_asked_for)
{
    on_each_server(check_address);
}

static void check_answers(const struct test_server_opts *opts)
{
    struct test_server *server = test_server_start(opts);
    const bool is_valkey = strcmp(opts->program, "valkey") == 0;

    assert_true(test_server_says(server, "OK", "SET key \"a value\""));
    assert_true(test_server_says(server, "a value", "GET key"));
    assert_true(test_server_says(server, "1\n2\n", "EVAL \"return {1,2,false}\" 0"));
    assert_true(test_server_says(server, "", "GET nothing"));
    assert_int_equal(test_server_int(server, "DBSIZE"), 1);
    assert_int_equal(test_server_has_command(server, "WAITAOF"), is_valkey);
    assert_true(test_server_says(server, "1", "DEL key"));
    test_server_assert_clean(server);
    test_server_stop(server);
}

TEST(a_server_answers_commands)
{
    on_each_server(check_answers);
}

static void check_restart(const struct test_server_opts *opts)
{
    struct test_server *server = test_server_start(opts);
    char *url = strdup(test_server_url(server));

    assert_true(test_server_says(server, "OK", "SET key 1"));
    test_server_kill(server);
    test_server_restart(server, true);
    assert_int_equal(test_server_int(server, "GET key"), 1);
    test_server_restart(server, false);
    assert_int_equal(test_server_int(server, "DBSIZE"), 0);
    assert_string_equal(test_server_url(server), url);
    free(url);
    test_server_stop(server);
}

TEST(a_restart_keeps_or_empties_the_data)
{
    on_each_server(check_restart);
}

static void check_freezing(const struct test_server_opts *opts)
{
    struct test_server *server = test_server_start(opts);

    assert_true(test_server_says(server, "OK", "SET key 1"));
    test_server_freeze(server);
    test_server_thaw(server);
    assert_int_equal(test_server_int(server, "GET key"), 1);
    test_server_freeze(server);
    test_server_stop(server); /* also when frozen */
}

TEST(a_frozen_server_goes_on_where_it_was)
{
    on_each_server(check_freezing);
}

static void check_side_connection(const struct test_server_opts *opts)
{
    const char *const conf[] = {"user default off", "user locker on >secret ~app:* +get", NULL};
    const char *const argv[] = {"EVAL", "-- two\nreturn 2", "0", NULL};
    struct test_server_opts strict = *opts;

    strict.conf = conf;
    struct test_server *server = test_server_start(&strict);
    char *reply = test_server_argv(server, argv);
    assert_string_equal(reply, "2");
    free(reply);
    assert_int_equal(test_server_int(server, "CLIENT KILL TYPE normal"), 0);
    test_server_restart(server, true);
    assert_int_equal(test_server_int(server, "DBSIZE"), 0);
    reply = test_server_cmd(server, "NOSUCH command");
    assert_int_equal(strncmp(reply, "ERR unknown command", 19), 0);
    free(reply);
    test_server_stop(server);
}

TEST(the_side_connection_survives_what_tests_do)
{
    on_each_server(check_side_connection);
}

static struct test_server *server_of_default_kind(void)
{
    if (!test_server_available(NULL)) {
        print_message("no server here\n");
        skip();
    }
    return test_server_start(NULL);
}

TEST(a_stopped_server_leaves_nothing_open)
{
    const size_t threads = test_threads_running();
    const size_t fds = test_fds_open();
    struct test_server *server = server_of_default_kind();
    const pid_t pid = test_server_pid(server);

    assert_true(test_fds_open() > fds);
    assert_null(test_server_stop(server));
    assert_int_equal(test_fds_open(), fds);
    assert_int_equal(test_threads_running(), threads);
    assert_int_equal(kill(pid, 0), -1);
    assert_null(test_server_stop(NULL));
}

static int ask_from_a_child(struct test_peer *peer, void *payload)
{
    (void)peer;
    TEST_CHECK(test_server_int(payload, "INCR key") == 1);
    return 0;
}

TEST(a_forked_child_may_ask)
{
    struct test_server *server = server_of_default_kind();
    struct test_child *child = test_child_spawn(ask_from_a_child, server);

    assert_int_equal(test_child_wait(child, 10000), 0);
    assert_int_equal(test_server_int(server, "GET key"), 1);
    test_server_stop(server);
}

static int start_and_be_killed(struct test_peer *peer, void *payload)
{
    (void)payload;
    test_peer_send(peer, (uint64_t)test_server_pid(test_server_start(NULL)));
    test_peer_recv(peer, 1000000);
    return 0;
}

TEST(a_server_dies_with_its_test)
{
    test_server_stop(server_of_default_kind()); /* skips, in the parent, where there is none */
    test_must(prctl(PR_SET_CHILD_SUBREAPER, 1), "PR_SET_CHILD_SUBREAPER");
    struct test_child *child = test_child_spawn(start_and_be_killed, NULL);
    const pid_t server = (pid_t)test_child_recv(child, 10000);

    test_child_kill(child, SIGKILL);
    assert_int_equal(test_child_wait(child, 5000), 128 + SIGKILL);
    assert_int_equal(WTERMSIG(test_reap(server)), SIGKILL);
}

static int assert_quietly(struct test_peer *peer, void *payload)
{
    (void)peer;
    TEST_CHECK(freopen("/dev/null", "w", stderr) != NULL);
    setenv("RLOCK_TEST_SLACK", "1", 1); /* it will wait its whole time, for nothing */
    test_server_assert_clean(payload);
    return 0;
}

TEST(a_key_left_behind_is_reported)
{
    struct test_server *server = server_of_default_kind();

    assert_true(test_server_says(server, "OK", "SET key 1"));
    struct test_child *child = test_child_spawn(assert_quietly, server);
    assert_int_equal(test_child_wait(child, 10000), 128 + SIGABRT);
    test_server_stop(server);
}

/* ---- certificates ---- */

/* What `openssl s_client` finds wrong with the server: the line that says so, else its summary. */
static void verify(const struct test_server *server, char *ret_text, size_t size)
{
    char command[1024];

    test_text(command, sizeof(command),
              "echo | openssl s_client -connect 127.0.0.1:%d -CAfile %s -verify_return_error "
              "-verify_hostname localhost -cert %s -key %s 2>&1 | grep -E -m1 'verify "
              "error:|Verification: OK'",
              test_server_port(server), test_server_cacert(server), test_server_cert(server),
              test_server_key(server));
    FILE *out = popen(command, "re"); /* NOLINT(cert-env33-c): our own words */
    TEST_CHECK(out != NULL);
    ret_text[fread(ret_text, 1, size - 1, out)] = '\0';
    pclose(out);
}

TEST(each_certificate_is_refused_for_its_own_reason)
{
    static const char *const reasons[TEST_CERT_KINDS] = {
        [TEST_CERT_GOOD] = "Verification: OK",
        [TEST_CERT_CLIENT] = "mismatch",
        [TEST_CERT_EXPIRED] = "certificate has expired",
        [TEST_CERT_NOT_YET] = "certificate is not yet valid",
        [TEST_CERT_WRONG_CA] = "unable to get local issuer",
        [TEST_CERT_WRONG_HOST] = "mismatch",
        [TEST_CERT_SELF_SIGNED] = "self-signed certificate",
    };

    test_server_stop(server_of_default_kind()); /* skips where there is none */
    for (int cert = TEST_CERT_GOOD; cert < TEST_CERT_KINDS; cert++) {
        char found[256];
        struct test_server *server = test_server_start(&(struct test_server_opts){
            .transport = TEST_TLS, .tls_auth_clients = true, .cert = (enum test_cert)cert});
        verify(server, found, sizeof(found));
        if (strstr(found, reasons[cert]) == NULL) {
            fail_msg("certificate %d: %s, not: %s", cert, reasons[cert], found);
        }
        test_server_stop(server);
    }
}
