/*
 * The proxy's insides. Files: proxy.c and proxy_ask.c (interface), proxy_loop.c (thread, sockets),
 * proxy_conn.c (one connection: its queues and its end), proxy_rules.c (what becomes of a frame).
 *
 * One mutex protects everything. The thread holds it except while it waits for events; an interface
 * call holds it while it changes things and then wakes the thread. Only the thread frees a
 * connection, between two waits: an event that was fetched before a cut still finds it.
 */
#ifndef RLOCK_TEST_PROXY_IMPL_H
#define RLOCK_TEST_PROXY_IMPL_H

#include "proxy.h"
#include "resp.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { N_WAYS = 2, N_CLASSES = 3, PAUSE_BYTES = 1 << 20 };

/* What happens when a frame has been written. */
enum proxy_then { THEN_NOTHING, THEN_RESET, THEN_END, THEN_HANG_UP, THEN_COUNT };

struct proxy_frame {
    struct proxy_frame *next;
    int64_t due_us;
    bool is_held;
    enum proxy_then then;
    size_t sent;
    size_t len;
    char bytes[];
};

/* One direction of a connection. */
struct proxy_flow {
    char *partial; /* read, and not a whole frame yet */
    size_t partial_len;
    size_t partial_size;
    struct proxy_frame *first;
    struct proxy_frame **last;
    size_t queued; /* bytes in frames */
    int64_t last_due_us;
    size_t forwarded;
    size_t reset_at; /* bytes to forward before a reset; SIZE_MAX: none */
    bool is_blocked; /* the socket takes no more for now */
};

/* A socket in the event loop. Of a connection's two, end[way] is the one that the flow of that way
 * is written to. */
struct proxy_end {
    struct proxy_conn *conn; /* NULL: the listener, the timer or the wake-up */
    int fd;                  /* -1: closed */
    uint32_t events;
};

/* A reply that is to come, and the rule for it. */
struct proxy_expected {
    struct proxy_expected *next;
    const struct proxy_rule_kept *rule; /* NULL: forward it */
    bool is_repeat;
    bool is_ours; /* the server was not asked: the rule says what it is */
};

struct proxy_conn {
    struct proxy_conn *next;
    struct proxy *proxy;
    struct proxy_end end[N_WAYS];
    struct proxy_flow flow[N_WAYS];
    struct proxy_expected *expected;
    struct proxy_expected **last_expected;
    bool is_subscriber;
    bool is_holding;
    bool is_black; /* for ever */
};

struct proxy_rule_kept {
    struct proxy_rule_kept *next;
    int number;
    struct proxy_rule rule; /* its strings are these: */
    char *command;
    char *contains;
    char *bytes;
    bool is_removed;
    unsigned int seen;
    unsigned int fired;
};

struct proxy_address {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_un un;
    } to;
    socklen_t len;
};

struct proxy {
    pthread_t thread;
    pthread_mutex_t mutex; /* protects everything below */
    pthread_cond_t changed;
    bool is_stopping;
    bool is_raw; /* TLS: bytes, not frames */
    struct proxy_address upstream;
    struct proxy_address own;
    char url[192];
    int epoll_fd;
    struct proxy_end listener;
    struct proxy_end timer;
    struct proxy_end wake;
    struct proxy_conn *conns;
    struct proxy_rule_kept *rules;
    struct proxy_rule_kept **last_rule;
    int n_rules;
    int64_t delay_us[N_CLASSES][N_WAYS]; /* by class, [PROXY_ANY] unused */
    bool is_silent[N_CLASSES];
    bool is_black[N_CLASSES];
    int64_t jitter_us;
    uint64_t jitter_state;
    size_t chop;
    unsigned int drop_percent;
    uint64_t drop_state;
    unsigned int cut_accepts;
    size_t next_reset_at[N_WAYS];
    struct proxy_stats stats;
};

/* Everything below: mutex held. */

/* ---- proxy_loop.c ---- */

void *proxy__run(void *payload); /* the proxy */
void proxy__add(struct proxy *proxy, struct proxy_end *end, int fd);
void proxy__watch(struct proxy *proxy, struct proxy_end *end, uint32_t events);
/* Takes the socket out of the epoll set first: closing alone leaves it there while a child that is
 * between fork and exec has it too, and its events would outlive the end. */
void proxy__close(struct proxy *proxy, struct proxy_end *end);
void proxy__listen(struct proxy *proxy);
void proxy__wake(struct proxy *proxy);

/* ---- proxy_conn.c ---- */

struct proxy_conn *proxy__conn_new(struct proxy *proxy, int client_fd, int server_fd);
void proxy__conn_free(struct proxy_conn *conn);
bool proxy__conn_is_over(const struct proxy_conn *conn);
enum proxy_class proxy__conn_class(const struct proxy_conn *conn);
bool proxy__conn_is(const struct proxy_conn *conn, enum proxy_class which);

/* Closes both sockets with a reset. */
void proxy__conn_reset(struct proxy_conn *conn);
void proxy__close_client(struct proxy_conn *conn, bool with_reset);

/* Appends a copy of `bytes` to the flow, due when the delays have passed. */
struct proxy_frame *proxy__send(struct proxy_conn *conn, enum proxy_way way,
                                struct resp_bytes bytes, enum proxy_then then);
void proxy__discard(struct proxy_conn *conn, enum proxy_way way);

/* Reads what `end` has, cuts it into frames, and gives them to proxy_rules.c. */
void proxy__read(struct proxy_conn *conn, struct proxy_end *end);

/* Writes what is due; returns when the next frame will be, or INT64_MAX. */
int64_t proxy__pump(struct proxy_conn *conn, int64_t now_us);

/* ---- proxy_rules.c ---- */

void proxy__on_request(struct proxy_conn *conn, struct resp_bytes frame);
void proxy__on_reply(struct proxy_conn *conn, struct resp_bytes frame);
uint64_t proxy__random(uint64_t *state);

#endif
