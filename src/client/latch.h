/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RLOCK_CLIENT_LATCH_H
#define RLOCK_CLIENT_LATCH_H

#include <rlock/latch.h>

#include "client/lock.h"
#include "lock/latch.h"

/* Its handle is that of a kind without holds. */
struct rlock_latch {
    struct rlock_handle *lock;
};

/* What a call asks, once its arguments are checked. */
struct rlock__latch_command {
    struct rlock__latch_ask ask;
    bool once; /* it must not be sent twice */
    char id[RLOCK__OWNER_SIZE];
};

/* Each checks the arguments of a call. Returns 0 or RLOCK_EINVAL, or why the latch cannot be
 * asked. */
int rlock__latch_check(const struct rlock_latch *latch);
int rlock__latch_read_set(const struct rlock_latch *latch, int64_t count,
                          struct rlock__latch_command *ret_command);
int rlock__latch_read_down(const struct rlock_latch *latch, const char *party,
                           struct rlock__latch_command *ret_command);

/* Begins to ask the server. ret_numbers: gets the numbers of the reply; must live until the
 * completion. Returns 0, or why it did not begin. */
int rlock__latch_begin(const struct rlock_latch *latch, const struct rlock__latch_command *command,
                       struct rlock__op *op, int64_t *ret_numbers);
/* The same, and waits for the reply. Returns the call's code. */
int rlock__latch_run(const struct rlock_latch *latch, const struct rlock__latch_command *command,
                     int64_t ret_numbers[static 2]);

#endif
