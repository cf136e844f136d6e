/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of multi-locks on one server share. */
#ifndef RLOCK_TEST_COMPOSITE_TOGETHER_H
#define RLOCK_TEST_COMPOSITE_TOGETHER_H

#include "group/fleet.h"

/* One server behind a proxy; two clients of it. */
struct scene {
    struct fleet fleet;
    struct crew one, two;
    struct rlock *b[2], *multi[2]; /* of each: "b", and "b" with "a" */
};

void open_scene(struct scene *scene);
/* When "a" and "b" are free again. */
void close_scene(struct scene *scene);
/* How many requests came to the proxy. */
uint64_t requests(const struct scene *scene);
/* A thread that takes the multi-lock within 20 s, and gives it up. */
void *lock_and_unlock(void *multi);

#endif
