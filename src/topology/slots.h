/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the answer to CLUSTER SLOTS, for clusters that do not permit CLUSTER NODES. The answer
 * has no epochs and no failed servers, and does not say which server sent it. Pure. Source: the
 * Redis documentation of CLUSTER SLOTS.
 */
#ifndef RLOCK_TOPOLOGY_SLOTS_H
#define RLOCK_TOPOLOGY_SLOTS_H

#include "wire/reply.h"

/* Writes it as an answer to CLUSTER NODES that says the same: a line for each server of each range,
 * all of epoch 0. myself: the id of who answered; empty unknown. False: it makes no sense, or there
 * is no memory. */
bool rlock__slots_rewrite(const struct rlock__reply *reply, struct rlock__bytes myself,
                          struct rlock__buf *out);

#endif
