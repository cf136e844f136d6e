/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be told of one async call, in whichever thread, and waiting for that. */
#ifndef RLOCK_TEST_COMPLETION_H
#define RLOCK_TEST_COMPLETION_H

#include <pthread.h>

#include <rlock/rlock.h>

struct completion {
    pthread_mutex_t mutex;
    pthread_cond_t told;
    unsigned n; /* how often it was told: more than once is an error */
    int code;   /* the operation's */
    pthread_t thread;
};

#define COMPLETION                                                                                 \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER                       \
    }

/* To be handed to an async call, with a completion. */
void completion_tell(struct rlock_op *op, void *completion);
/* Whether it was told by now. */
bool completion_is_there(struct completion *completion);
/* Waits for it, up to 30 s, stretched. Returns the operation's code. */
int completion_await(struct completion *completion);

#endif
