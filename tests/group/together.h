/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of multi-locks on one server share: the server behind a proxy, and two users. */
#ifndef RLOCK_TEST_GROUP_TOGETHER_H
#define RLOCK_TEST_GROUP_TOGETHER_H

#include "support/waiter.h"

struct together {
    struct fixture f;
    struct user *one, *two;
    struct rlock_handle *b[2], *multi[2]; /* of each user: "b", and "b" with "a" */
};

void together_open(struct together *t);
/* When "a" and "b" are free again. */
void together_close(struct together *t);
/* A test between the two. */
#define TOGETHER_TEST(name, t)                                                                     \
    TEST_AROUND(name, struct together, t, together_open(t), together_close(t))

/* How many requests came to the proxy. */
uint64_t requests(const struct together *t);
/* Starts a thread that takes a lock within 20 s, and gives it back. */
void pass_through(struct waiter *waiter, struct rlock_handle *lock);

#endif
