/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of connections: dialling a server to the end, and peers that are no Redis
 * server. */
#ifndef RLOCK_TEST_DIAL_H
#define RLOCK_TEST_DIAL_H

#include <pthread.h>

#include "net/conn.h"
#include "net/uri.h"
#include "support/server.h"

#define DIAL_NAME "rlock:00000000-0000-4000-8000-000000000000:host:1"

/* A connection and what it needs. */
struct dial {
    struct rlock__uri uri;
    struct rlock__conn_opts opts; /* may be changed before the first dial_start() */
    struct rlock__tls *tls;
    struct rlock__conn *conn;
};

/* Prepares a connection to a URL; a rediss:// one gets its authorities by dial_trust(). */
void dial_init(struct dial *dial, const char *url);
/* For TLS: the files; any may be NULL. */
void dial_trust(struct dial *dial, const char *ca, const char *cert, const char *key);
/* Starts it and waits until it is up (0) or failed (its code). */
int dial_start_fencing(struct dial *dial, const uint64_t *unfenced, size_t n);
int dial_start(struct dial *dial);
/* Starts it, expecting a code and a part of its text; nothing secret may be in the text. */
void dial_fails(struct dial *dial, int code, const char *text);
/* Starts it, expecting it up. */
void dial_works(struct dial *dial);
void dial_fini(struct dial *dial);

/* Sends it all, waiting as needed; 0 or a code. */
int dial_send(struct dial *dial, const char *bytes, size_t len);
/* Waits for the next reply: 1 or a code. */
int dial_next(struct dial *dial, struct rlock__reply *ret_reply);
/* Says PING and expects the answer. */
void dial_ping(struct dial *dial);

/* Copies a small file, in place of what was there. */
void dial_copy_file(const char *from, const char *to, mode_t mode);
/* Puts a certificate and its key into dir, and writes their paths. */
void dial_put_identity(const char *dir, enum test_cert kind, char cert[static 256],
                       char key[static 256]);

/* What a peer does with each connection that it accepts. */
struct peer {
    const char *says; /* after the first bytes came; NULL: nothing */
    bool unasked;     /* says it at once */
    bool echoes;      /* sends back what comes */
    bool resets;      /* ends with a reset instead of a close */
    bool holds;       /* keeps the connection open and silent */

    int fd, held;
    int port;
    pthread_t thread;
};

/* Listens on 127.0.0.1 and serves until peer_stop(). */
void peer_start(struct peer *peer);
void peer_stop(struct peer *peer);
/* "redis://127.0.0.1:port" in a static buffer. */
const char *peer_url(const struct peer *peer, const char *scheme);

/* How many SIGPIPE came since sigpipe_watch(). */
void sigpipe_watch(void);
int sigpipe_count(void);

#endif
