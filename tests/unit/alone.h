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
static inline void alone_carry(struct rlock__pipeline *pipeline)
{
    struct rlock__buf bytes = {0};

    rlock__pipeline_take(pipeline, &bytes);
    rlock__pipeline_wrote(pipeline, bytes.len);
    rlock__buf_fini(&bytes);
}

#endif
