/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says what rlock run waits for: after a second the holder of the lock, or what is wrong with the
 * server, again when that changes, and every five minutes. A thread of its own asks, because the
 * waiting one is inside the library. Nothing waits for that thread: a server that does not answer
 * delays neither the command nor the end of the wait.
 */
#ifndef RLOCK_CLI_WAITING_H
#define RLOCK_CLI_WAITING_H

#include "options.h"

#include <pthread.h>

#define CLI_WAITING_TEXT 512

struct cli_waiting {
    const struct cli_options *opts;
    struct rlock_client *client; /* NULL: only the library's own news is said */
    struct rlock_handle *lock;
    const char *name;
    pthread_t thread;
    pthread_mutex_t mutex; /* protects what follows */
    pthread_cond_t changed;
    int64_t begun_ms;
    int64_t last_ms;                /* when to ask for the last time; INT64_MAX: never, or done */
    bool begun, over;               /* the thread runs; it is to end */
    bool asking, answered;          /* it is in the library; it was answered once */
    char news[CLI_WAITING_TEXT];    /* from the library, not yet said; "" nothing */
    char trouble[CLI_WAITING_TEXT]; /* the latest news that was said */
    char said[CLI_WAITING_TEXT];
    int64_t said_ms;
    char holder[CLI_WAITING_TEXT]; /* "held by …", as last answered; "" unknown */
};

/* Ready for news, before the wait begins. */
void cli_waiting_init(struct cli_waiting *waiting, const struct cli_options *opts);

/* The library reported something that matters: said if the wait lasts. From any thread. */
void cli_waiting_news(struct cli_waiting *waiting, const char *text);

/* The wait begins, the first one or one after cli_waiting_leave(), for a lock of one client; with
 * client NULL, of several. With opts->wait_ms 0 the thread asks at once, and only once. */
void cli_waiting_begin(struct cli_waiting *waiting, struct rlock_client *client,
                       struct rlock_handle *lock, const char *name);

/* Waits for the first answer about the holder, most_ms at most. */
void cli_waiting_hear(struct cli_waiting *waiting, int64_t most_ms);

/* The wait is over: nothing more is said. Returns at once. Harmless without a beginning. */
void cli_waiting_end(struct cli_waiting *waiting);

/* Writes "held by …" as it was last answered, "" if that is not known. */
void cli_waiting_holder(struct cli_waiting *waiting, char *out, size_t size);

/* Ends the thread, unless it is in the library: then it still uses the client, and false is
 * returned. */
bool cli_waiting_leave(struct cli_waiting *waiting);

#endif
