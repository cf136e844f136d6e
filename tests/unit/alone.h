/* SPDX-License-Identifier: Apache-2.0 */
/* A core without a driver: the test is its link, and its server. */
#ifndef RLOCK_TEST_UNIT_ALONE_H
#define RLOCK_TEST_UNIT_ALONE_H

#include "lock/internal.h"

/* For core.unref: the test frees the core. */
static inline void alone_unref(struct rlock__core *core)
{
    (void)core;
}

/* Sends what is to be sent. */
static inline void alone_carry(struct rlock__flight *flight)
{
    struct rlock__buf bytes = {0};

    rlock__flight_take(flight, &bytes);
    rlock__flight_wrote(flight, bytes.len);
    rlock__buf_fini(&bytes);
}

#endif
