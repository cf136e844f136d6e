/*
 * A redis-server or valkey-server of the test's own, in its own directory, that ends with the test.
 *
 * It listens where the test asked (`transport`) and always on a unix socket as well, for the side
 * connection that test_server_cmd() uses. Whatever goes wrong here ends the process with a message
 * that holds the server's log.
 *
 * Threads: any may use a server, one may start and stop it. A server dies with the thread that
 * started it. A forked child may ask the server (it gets a side connection of its own) but not
 * freeze, kill or stop it.
 */
#ifndef RLOCK_TEST_SERVER_H
#define RLOCK_TEST_SERVER_H

#include "certs.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum test_transport {
    TEST_DEFAULT, /* RLOCK_TEST_TRANSPORT = unix | tcp | tls, else unix */
    TEST_UNIX,
    TEST_TCP,
    TEST_TLS
};

struct test_server_opts {
    const char *program; /* "redis" or "valkey"; NULL: RLOCK_TEST_SERVER, else redis */
    enum test_transport transport;
    bool sentinel; /* it is a Sentinel */
    bool aof;      /* every write is on disk before its reply: a restart can keep the data */
    bool tls_auth_clients; /* TLS: a client needs a certificate, as test_server_cert() */
    enum test_cert cert;   /* TLS: what the server shows; zero is a good one */
    /* Lines for its configuration file, also "user NAME …"; NULL-terminated; copied. */
    const char *const *conf;
    /* "NAME=value" for its environment; NULL-terminated; must outlive the server. */
    const char *const *env;
};

struct test_server;

/* Whether the binary is there; for a visible skip. NULL as in the options. */
bool test_server_available(const char *program);

/* Returns when it answers, within 5 s. NULL options are all defaults. */
struct test_server *test_server_start(const struct test_server_opts *opts);

/* Kills it, frozen or not, waits for its end, removes its directory; takes and returns NULL. */
struct test_server *test_server_stop(struct test_server *server);

/* unix:///path, redis://127.0.0.1:port or rediss://localhost:port; the same after a restart. */
const char *test_server_url(const struct test_server *server);
/* unix:///path in any case: plain, so a proxy in front of it sees requests and replies. */
const char *test_server_unix_url(const struct test_server *server);
int test_server_port(const struct test_server *server); /* 0 for TEST_UNIX */
pid_t test_server_pid(const struct test_server *server);

/* What a client of a TLS server needs: the authority to trust, and a certificate to show. */
const char *test_server_cacert(const struct test_server *server);
const char *test_server_cert(const struct test_server *server);
const char *test_server_key(const struct test_server *server);

/* Stop and go on, returning when it has; while frozen it accepts connections (the kernel does) and
 * says nothing. */
void test_server_freeze(struct test_server *server);
void test_server_thaw(struct test_server *server);

/* SIGKILL, waited for. Connections to its address are refused until the restart. */
void test_server_kill(struct test_server *server);

/* Starts it again on the same address, killing it first if it runs. `keep_data` needs opts.aof. */
void test_server_restart(struct test_server *server, bool keep_data);

/* The same, with the configuration that it had at first: a Sentinel keeps what it knows there. */
void test_server_forget(struct test_server *server);

/*
 * One command over the side connection, as typed into redis-cli (quotes as there); the reply as
 * redis-cli --raw shows it, errors as "ERR …", nil as "". The caller frees. Dies when there is no
 * answer in 5 s.
 */
char *test_server_cmd(struct test_server *server, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for a reply that must be a number. */
long long test_server_int(struct test_server *server, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Whether the reply is exactly `expected`. */
bool test_server_says(struct test_server *server, const char *expected, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A command whose reply does not matter. */
void test_server_do(struct test_server *server, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* One command given word by word, NULL-terminated: for scripts, and values with newlines. */
char *test_server_argv(struct test_server *server, const char *const *argv);

bool test_server_has_command(struct test_server *server, const char *name);

/* A number in a section of INFO, "errorstats" and "errorstat_OOM:count"; -1: it is not there. */
long long test_server_info(struct test_server *server, const char *section, const char *field);
/* Whether it is no replica, by its own word. */
bool test_server_is_primary(struct test_server *server);
/* Whether a replica has all that its primary had when it connected, and is connected. */
bool test_server_is_copied(struct test_server *replica);
/* Whether so many replicas of it acknowledge what it writes: one that was copied does a second
 * later. */
bool test_server_is_acknowledged(struct test_server *primary, size_t n);
/* How many subscribe to a channel. */
long long test_server_listeners(struct test_server *server, const char *channel);
/* How many clients wait for the lock that is announced on a channel, plain or sharded. */
long long test_server_waiters(struct test_server *server, const char *channel);

/* Connections other than side connections, and those between a primary and its replica. */
long long test_server_clients(struct test_server *server);

/* No key, and no channel with a subscriber, plain or sharded; waits up to 2 s for it, as
   unsubscribing and expiry take their time. Dies with a list of what is left. */
void test_server_assert_clean(struct test_server *server);

#endif
