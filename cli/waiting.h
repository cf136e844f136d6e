/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells who waits for rlock run what it waits for: after a second who holds the lock, or what is
 * wrong with the server, and again when that changes. A thread of its own asks, since the waiting
 * one is inside the library.
 */
#ifndef RLOCK_CLI_WAITING_H
#define RLOCK_CLI_WAITING_H

#include "options.h"

#include <pthread.h>

struct cli_waiting {
    const struct cli_options *opts;
    struct rlock_client *client; /* NULL: only what the library tells is said */
    struct rlock_handle *lock;
    const char *name;
    pthread_t thread;
    pthread_mutex_t mutex; /* protects what follows */
    pthread_cond_t changed;
    bool begun, over;
    char news[512]; /* what the library told, not yet said; "" nothing */
    char said[512];
};

/* Ready for news, before the wait begins. */
void cli_waiting_init(struct cli_waiting *waiting, const struct cli_options *opts);

/* The library told something that matters: said if the wait lasts. From any thread. */
void cli_waiting_news(struct cli_waiting *waiting, const char *text);

/* The wait begins, for a lock of one client or, with client NULL, of several. */
void cli_waiting_begin(struct cli_waiting *waiting, struct rlock_client *client,
                       struct rlock_handle *lock, const char *name);

/* It is over. Returns when nothing more will be said. */
void cli_waiting_end(struct cli_waiting *waiting);

#endif
