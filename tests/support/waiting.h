/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls of a client are doing. */
#ifndef RLOCK_TEST_WAITING_H
#define RLOCK_TEST_WAITING_H

#include <stddef.h>

struct rlock_client;

/* How many calls of this client wait for a lock, settled: nothing of them is in flight. */
size_t test_waiting(struct rlock_client *client);
/* How many have sent a request, and wait for its reply; 0 while anything is still to be written. */
size_t test_asked(struct rlock_client *client);

#endif
