/*
 * A proxy between a client and its server that injects faults: a thread of the test with an event
 * loop of its own.
 *
 * It reads requests and replies as whole frames, so a fault can be aimed at "the second EVALSHA" or
 * "byte 3 of its reply". In front of a TLS server it sees bytes only: rules, holding, dropping and
 * the counts of requests, replies and messages do nothing there, and every connection counts as one
 * for commands; the rest works.
 *
 * A cut is a TCP reset on both sides. On a unix socket there is none: the other end sees end of
 * file, or ECONNRESET if it had sent something that was not read.
 *
 * Faults act from the call on, and stay until taken back. Threads: any may call; one starts and
 * stops it. Start it after forking children; they may connect to it all the same.
 */
#ifndef RLOCK_TEST_PROXY_H
#define RLOCK_TEST_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proxy;

/* A connection is one for commands until its first SUBSCRIBE, PSUBSCRIBE or SSUBSCRIBE. */
enum proxy_class { PROXY_ANY, PROXY_COMMANDS, PROXY_SUBSCRIBERS };

enum proxy_way { PROXY_TO_SERVER, PROXY_TO_CLIENT };

/* `upstream_url` is a test server's. Listens on 127.0.0.1, or beside the test's other files on a
 * unix socket. */
struct proxy *proxy_start(const char *upstream_url);
struct proxy *proxy_start_unix(const char *upstream_url);
struct proxy *proxy_stop(struct proxy *proxy); /* NULL ok */

/* From now on new connections go to that server, as when a name comes to mean another address.
 * Those that there are stay. */
void proxy_lead(struct proxy *proxy, const char *upstream_url);

/* Where clients connect: redis://127.0.0.1:port, rediss://localhost:port or unix:///path. */
const char *proxy_url(const struct proxy *proxy);

/* ---- slow ---- */

/* Every frame takes that long in each direction; the order within a connection stays. 0 ends it. */
void proxy_delay_us(struct proxy *proxy, int64_t one_way_us);
void proxy_delay_way_us(struct proxy *proxy, enum proxy_class which, enum proxy_way way,
                        int64_t us);

/* A random time from 0 to `us` more for every frame. */
void proxy_jitter_us(struct proxy *proxy, int64_t us, uint64_t seed);

/* No write larger than `bytes`, so that the receiver sees frames in pieces. 0 ends it. */
void proxy_chop(struct proxy *proxy, size_t bytes);

/* ---- gone ---- */

/* Resets every such connection now. */
void proxy_cut_all(struct proxy *proxy, enum proxy_class which);

/* Resets towards the clients alone; what they had sent goes on to the server, also what is held. */
void proxy_strand_all(struct proxy *proxy, enum proxy_class which);

/* Accepts and reads but forwards nothing; everything goes on when it ends, also the closing of a
   connection. It stops reading after some 1 MiB, so that senders feel it. */
void proxy_go_silent(struct proxy *proxy, enum proxy_class which, bool is_silent);

/* Nothing more passes, ever, on connections that exist or arrive before it ends; the other side
   learns nothing, not even of a close: peers that vanished. Connections made afterwards work. */
void proxy_black_hole(struct proxy *proxy, enum proxy_class which, bool is_black);

/* Connections are refused, until it listens again at the same address. Existing ones stay. */
void proxy_refuse(struct proxy *proxy, bool is_refusing);

/* The next `n` connections are reset as soon as they are accepted. */
void proxy_cut_accepts(struct proxy *proxy, unsigned int n);

/* The next accepted connection is reset when `bytes` bytes went that way: for cuts inside a TLS
 * handshake. */
void proxy_cut_at_byte(struct proxy *proxy, enum proxy_way way, size_t bytes);

/* ---- late, twice, never ---- */

/* Holds back the requests of the connections there are, those in the air included; new connections
   are not concerned. When released they go to the server, although their client may have closed
   meanwhile. */
void proxy_hold_requests(struct proxy *proxy, bool is_holding);

/* Loses that share of the pub/sub messages. 0 ends it. */
void proxy_drop_messages(struct proxy *proxy, unsigned int percent, uint64_t seed);

/* ---- aimed at a request ---- */

enum proxy_act {
    PROXY_PASS,         /* only counts, without an end; other rules see the request, too */
    PROXY_CUT_REQUEST,  /* reset instead of forwarding it: what was sent before it does arrive */
    PROXY_CUT_REPLY,    /* forward it, wait for its reply, reset instead of forwarding that */
    PROXY_CUT_IN_REPLY, /* the same after `at` bytes of the reply; all of them if there are fewer */
    PROXY_DROP_REQUEST,
    PROXY_ANSWER,  /* `bytes` of `len` in its place in the order of replies; it is not forwarded */
    PROXY_HANG_UP, /* closes towards the client, as its server would; what was asked before it is
                      answered first; it is not forwarded */
    PROXY_DROP_REPLY,
    PROXY_DELAY_REPLY,   /* by `delay_us`, and so those behind it */
    PROXY_REPLACE_REPLY, /* by `bytes` of `len` */
    PROXY_ECHO_REPLY,    /* forwards it, and once more `delay_us` later; `at` bytes of it, 0 all */
    PROXY_REPEAT,        /* forward it twice, swallow the second reply */
    PROXY_HOLD /* it and what follows on its connection, until proxy_hold_requests(proxy, false) */
};

#define PROXY_ALWAYS (~0U)

struct proxy_rule {
    enum proxy_act act;
    enum proxy_class which;
    const char *command;  /* its first word, in any case; NULL: any; copied */
    const char *contains; /* anywhere in it, such as a key or a SHA-1; NULL: anything; copied */
    unsigned int skip;    /* so many matching ones pass first */
    unsigned int times;   /* then it acts so often; 0 is once */
    size_t at;
    int64_t delay_us;
    const char *bytes; /* copied */
    size_t len;
};

/* Adds a rule and returns its number. Of several that match the one added first acts. */
int proxy_add(struct proxy *proxy, const struct proxy_rule *rule);
void proxy_remove(struct proxy *proxy, int rule);
void proxy_remove_all(struct proxy *proxy);

/* How often it acted; for PROXY_PASS how often it matched, after `skip`. */
unsigned int proxy_fired(struct proxy *proxy, int rule);

/* Shorthands, for any request of a command connection: the n-th, the next one, the next n. */
int proxy_cut_after_requests(struct proxy *proxy, unsigned int n); /* PROXY_CUT_REPLY */
int proxy_cut_in_reply(struct proxy *proxy, size_t at);
int proxy_repeat_requests(struct proxy *proxy, unsigned int n);
int proxy_mutate(struct proxy *proxy, const char *bytes, size_t len); /* PROXY_REPLACE_REPLY */

/* ---- what went through ---- */

struct proxy_stats {
    uint64_t accepted;  /* connections, ever */
    size_t open;        /* to a client that has not closed */
    size_t subscribers; /* of these */
    uint64_t requests;  /* that arrived, whatever became of them */
    uint64_t replies;   /* that the server gave, subscription acknowledgements included */
    uint64_t messages;  /* the same of pub/sub */
    uint64_t dropped_messages;
    uint64_t swallowed; /* replies that no client saw */
    uint64_t echoes;    /* that were written to a client */
    uint64_t cuts;      /* connections that were reset here */
    size_t held;        /* requests that wait for their release */
    char command[32];   /* of the last request, cut to fit */
    char argument[128]; /* its first argument */
    char key[128];      /* the first key, of EVAL and EVALSHA */
};

struct proxy_stats proxy_stats(struct proxy *proxy);

/* Called with the proxy's mutex held: only looks. */
typedef bool proxy_cond_fn(const struct proxy_stats *stats, void *payload);

/* Waits until the condition holds; false when the time, stretched by test_slack(), is over. */
bool proxy_wait(struct proxy *proxy, proxy_cond_fn *cond, void *payload, int64_t timeout_ms);

/* The usual ones: so many, or more. */
bool proxy_wait_requests(struct proxy *proxy, uint64_t n, int64_t timeout_ms);
bool proxy_wait_held(struct proxy *proxy, size_t n, int64_t timeout_ms);
bool proxy_wait_fired(struct proxy *proxy, int rule, unsigned int n, int64_t timeout_ms);
/* Exactly so many. */
bool proxy_wait_open(struct proxy *proxy, size_t n, int64_t timeout_ms);
bool proxy_wait_subscribers(struct proxy *proxy, size_t n, int64_t timeout_ms);

#endif
