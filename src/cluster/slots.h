/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to CLUSTER SLOTS, for where CLUSTER NODES is not permitted. It has no epochs, no
 * failed servers, and does not say who answered. Pure. Source: the Redis documentation of CLUSTER
 * SLOTS.
 */
#ifndef RLOCK_CLUSTER_SLOTS_H
#define RLOCK_CLUSTER_SLOTS_H

#include "wire/reply.h"

/* Writes it as an answer to CLUSTER NODES that says the same: a line for each server of each range,
 * all of epoch 0. myself: the id of who answered; empty unknown. False: it makes no sense, or there
 * is no memory. */
bool rlock__slots_rewrite(const struct rlock__reply *reply, struct rlock__bytes myself,
                          struct rlock__buf *out);

#endif
