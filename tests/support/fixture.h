/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real servers of a test's own, and all that the test opens on them:
 *
 *     FIXTURE_WITH_TEST(what_happens, f, .servers = 3, .proxy = PROXY_ON_UNIX)
 *     {
 *         struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 100));
 *         …
 *     }
 *
 * What was opened on a fixture ends with it (user.h). Then nothing may be left: no connection, key,
 * channel, overlap, descriptor or thread; and no SIGPIPE may have come.
 *
 * Threads: one opens and closes; any may look at the server.
 */
#ifndef RLOCK_TEST_FIXTURE_H
#define RLOCK_TEST_FIXTURE_H

#include "support/asserts.h"
#include "support/diary.h"
#include "support/proxy.h"
#include "support/server.h"
#include "support/witness.h"

enum { FIXTURE_SERVERS = 6, FIXTURE_MOST = 600 /* clients, locks, actors */ };

/* The lock that a user has, and its channel. */
#define LOCK_A "a"
#define CHANNEL_A "redisson_lock__channel:{" LOCK_A "}"

/* What stands before each server. */
enum fixture_proxy {
    PROXY_NONE,
    PROXY_AS_LEG,  /* on TCP or unix sockets as the leg says; plain: it sees requests and replies */
    PROXY_ON_UNIX, /* plain, on unix sockets in any case */
    PROXY_OF_BYTES, /* on the server's own transport: of TLS it sees bytes alone */
    PROXY_ON_TCP    /* plain, on TCP in any case */
};

/* Makes a lock of a kind; the same shape as the library's constructors. */
typedef int new_fn(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                   struct rlock_handle **ret_lock);

/* A kind of lock. A rival on the same name excludes the lock and other rivals: it is of the same
 * kind for most, the writer for readers. */
struct kind {
    const char *name;
    new_fn *make, *make_rival;
    unsigned int can; /* conformance/kinds.h */
};

struct fixture_opts {
    const struct kind *kind;        /* of the locks of clients.h; NULL: there are none */
    size_t servers;                 /* how many; 0: one */
    enum fixture_proxy proxy;       /* one before each server */
    bool redlock;                   /* users have a RedLock though there is one server alone */
    int64_t max_lease_ms;           /* of users' RedLocks; 0: no delayed restarts */
    struct test_server_opts server; /* of each */
};

struct user;
struct actor;

struct fixture {
    const struct kind *kind;
    size_t n; /* servers */
    union {
        struct test_server *server; /* the first, or only one */
        struct test_server *servers[FIXTURE_SERVERS];
    };
    union {
        struct proxy *proxy; /* NULL: none */
        struct proxy *proxies[FIXTURE_SERVERS];
    };
    struct witness *witness; /* of 16 cells */
    bool redlock;
    int64_t max_lease_ms;
    struct user *users;
    struct fixture *views;
    struct rlock_client *clients[FIXTURE_MOST]; /* of clients.h, as all that follows */
    struct rlock_handle *locks[FIXTURE_MOST];
    struct actor *actors[FIXTURE_MOST];
    size_t n_clients, n_locks, n_actors;
    struct diary diary;
    size_t n_expected;            /* losses */
    size_t fds, threads, fds_run; /* before it opened; when the servers ran */
};

/* opts: NULL for all defaults. Skips the test where its server is not there. */
void fixture_open(struct fixture *f, const struct fixture_opts *opts);
/* Closes whatever is still open on it. Servers that the test stopped run again. */
void fixture_close(struct fixture *f);
/* Ends it without a look at what is left: where processes were killed that had something. */
void fixture_drop(struct fixture *f);

/* A test between the two, which has the fixture as `f`; options of struct fixture_opts follow. */
#define FIXTURE_TEST(name, f) FIXTURE_WITH_TEST(name, f, .servers = 1)
#define FIXTURE_WITH_TEST(name, f, ...)                                                            \
    TEST_AROUND(name, struct fixture, f, fixture_open(f, &(struct fixture_opts){__VA_ARGS__}),     \
                fixture_close(f))

/* Starts the proxy of a fixture that opened without: after children were forked, as it is a
 * thread. */
void fixture_start_proxy(struct fixture *f);
/* The same servers as somebody else reaches them: behind proxies of its own, on unix sockets. */
struct fixture *fixture_view(struct fixture *f);
/* A server is out of reach for those behind its proxy, or back. */
void fixture_reach(const struct fixture *f, size_t server, bool is_reachable);
/* The same for all: the servers in the mask are in reach. */
void fixture_reach_only(const struct fixture *f, unsigned int mask);

/* How many SIGPIPE came since the first fixture opened. */
int fixture_sigpipes(void);

/* ---- what the servers have ---- */

/* How many of the servers that run have the key. */
size_t fixture_holding(const struct fixture *f, const char *key);
/* Of the first server: whether the lock "a" is held, its hold count there (0 free), its PTTL. */
bool fixture_is_held(const struct fixture *f);
long long fixture_count(const struct fixture *f);
long long fixture_ttl(const struct fixture *f);
/* Waits up to 2 s until so many subscribe to the channel of "a"; whether they did. */
bool fixture_wait_waiters(const struct fixture *f, int n);
/* Waits up to 2 s until the server has "a", or has it no more; whether it came so. */
bool fixture_wait_held(const struct fixture *f, bool held);
/* Waits until "a" was renewed once more: its lease falls below, and rises above, nine tenths. Up to
 * 5 s for each; whether it was. */
bool fixture_wait_renewed(const struct fixture *f, long long lease_ms);
/* Makes a semaphore of one permit: a lock. */
int one_permit(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
               struct rlock_handle **ret_lock);
/* Makes a semaphore of one unit. */
int one_unit(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
             struct rlock_handle **ret_lock);

/* How many keys there are, not counting tokens and numbers of free permits, which stay. */
long long fixture_keys(const struct fixture *f);
/* Whether a key is there. */
bool fixture_has_key(const struct fixture *f, const char *key);
/* Says something on each channel that anybody listens to; how many listeners heard it. */
long long fixture_publish(const struct fixture *f, const char *message);
/* Counts the server's commands from here on: those outside of scripts; and one of them. */
void fixture_count_calls(const struct fixture *f);
long long fixture_calls(const struct fixture *f, const char *command);
/* Somebody who is none of ours takes "a" by hand. ttl_ms 0: for ever. */
void fixture_take_by_hand(const struct fixture *f, long long ttl_ms);

#endif
