/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls are no cancellation points: a call lies on its thread's stack, and others count on what it
 * does. Each function of the interface that may block, send or close begins with RLOCK__WHOLE; a
 * cancellation (pthread_cancel) that comes meanwhile acts once it has returned.
 */
#ifndef RLOCK_BASE_WHOLE_H
#define RLOCK_BASE_WHOLE_H

#include <pthread.h>

static inline int rlock__whole_begin(void)
{
    int before = PTHREAD_CANCEL_ENABLE;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void rlock__whole_end(const int *before)
{
    int ignored;

    (void)pthread_setcancelstate(*before, &ignored);
}

#define RLOCK__WHOLE                                                                               \
    const int rlock__whole __attribute__((unused, cleanup(rlock__whole_end))) = rlock__whole_begin()

#endif
