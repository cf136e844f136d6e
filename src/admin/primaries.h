/* SPDX-License-Identifier: Apache-2.0 */
/* The servers that have locks. A scan and a diagnosis ask each of them separately. */
#ifndef RLOCK_ADMIN_PRIMARIES_H
#define RLOCK_ADMIN_PRIMARIES_H

#include "drive/router.h"

struct rlock__primaries {
    struct rlock__node **nodes;
    size_t n;
};

/* Whether a function that asks all servers may run, with a callback that is set: 0, or a code. */
int rlock__primaries_check(struct rlock_client *client, bool is_fn_set);
/* Waits until it is known which these are. Ones that have failed and were not replaced count too.
 * End with rlock__primaries_fini(), whatever it returns. */
int rlock__primaries_find(struct rlock_client *client, struct rlock__primaries *ret_primaries);
void rlock__primaries_fini(struct rlock__primaries *primaries);
/* Reads the answer of a command that returns nothing but success. */
int rlock__read_nothing(struct rlock__call *call, const struct rlock__reply *reply);

#endif
