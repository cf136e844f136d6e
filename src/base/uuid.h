/* SPDX-License-Identifier: Apache-2.0 */
/* UUIDs (RFC 9562) as text, by libuuid. Our clients' have version 8, Redisson's have version 4: the
 * fair lock's scripts tell them apart by that. */
#ifndef RLOCK_BASE_UUID_H
#define RLOCK_BASE_UUID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define RLOCK__UUID_LEN 36
#define RLOCK__UUID_VERSION 8

/* Makes a UUID of ours from random bytes, in lower case. */
void rlock__uuid_write(const uint8_t random[static 16], char out[static RLOCK__UUID_LEN + 1]);

/* The version of the UUID in an owner's name, "uuid:number"; -1 if the name does not begin so. */
int rlock__uuid_version(struct rlock__bytes owner);
/* Whether an owner's name is that of another library, such as Redisson. False: it is ours or "". */
bool rlock__owner_is_foreign(struct rlock__bytes owner);

#endif
