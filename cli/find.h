/* SPDX-License-Identifier: Apache-2.0 */
/* The lock that a name stands for, where nobody says which kind it is. */
#ifndef RLOCK_CLI_FIND_H
#define RLOCK_CLI_FIND_H

#include "options.h"

/*
 * Makes a lock of the kind that the options name, else of the kind that fits what is on the server,
 * and asks about it. Returns 0, or the exit status after saying why. Owns: *ret_lock is the
 * caller's.
 */
int cli_lock_find(const struct cli_options *opts, struct rlock_client *client, const char *name,
                  struct rlock_handle **ret_lock, struct rlock_info *ret_info);

/* Asks who holds the lock; of a read/write lock, who holds the other side where nobody holds this
 * one. client: of this lock. Returns the library's code. */
int cli_holder_ask(struct rlock_handle *lock, struct rlock_client *client, const char *name,
                   struct rlock_info *ret_info);

#endif
