/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients tell by their callbacks: losses, with their time, and the log. A loss by expiry is a
 * matter of time: where the machine stood still, the test is run again (stall.h).
 *
 * RLOCK_TEST_LOG in the environment shows the log. Threads: any; making and ending: one.
 */
#ifndef RLOCK_TEST_DIARY_H
#define RLOCK_TEST_DIARY_H

#include <rlock/rlock.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIARY_LOSSES = 512 }; /* the first ones; those after them are counted */

struct told {
    struct rlock_loss loss; /* its texts are those below */
    char name[64];          /* cut to fit */
    char server[128], holder[64];
    int64_t at_us;
};

struct diary {
    pthread_mutex_t mutex; /* protects the rest */
    struct told told[DIARY_LOSSES];
    size_t n_told;
    _Atomic int64_t lease_us; /* of renewed holds of the client that was opened last */
    char *log;                /* line after line; NULL: nothing was logged */
    size_t log_len;
    bool shows;
};

/* Begins an empty diary, and ends it. */
void diary_init(struct diary *diary);
void diary_fini(struct diary *diary);
/* Has a client that is opened with these options write into it. */
void diary_listen(struct diary *diary, struct rlock_client_opts *opts);

/* How many losses were told. */
size_t diary_losses(struct diary *diary);
/* How many lines of the log contain a text. */
size_t diary_logged(struct diary *diary, const char *text);
void diary_forget_log(struct diary *diary);

#endif
