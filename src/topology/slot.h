/* SPDX-License-Identifier: Apache-2.0 */
/* The hash slot of a key in a Redis Cluster. Pure. */
#ifndef RLOCK_TOPOLOGY_SLOT_H
#define RLOCK_TOPOLOGY_SLOT_H

#include "base/bytes.h"

#define RLOCK__SLOTS 16384

/*
 * CRC16 of the key modulo RLOCK__SLOTS; of a key with a tag, that of the tag alone: what stands
 * between its first "{" and the first "}" behind that, if it is not empty. Source: the Redis
 * Cluster specification, "Key distribution model" and "Hash tags".
 */
unsigned rlock__slot(struct rlock__bytes key);

#endif
