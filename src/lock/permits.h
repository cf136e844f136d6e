/* SPDX-License-Identifier: Apache-2.0 */
/* Permits on the wire. */
#ifndef RLOCK_LOCK_PERMITS_H
#define RLOCK_LOCK_PERMITS_H

#include "lock/ops.h"

enum { RLOCK__PERMIT_LEN = 16, RLOCK__PERMIT_OWNER_LEN = 14, RLOCK__PERMIT_DIGITS = 32 };

/* The first permit of an owner "uuid:number"; or the permit with these 32 digits. All permits of an
 * owner begin with the same RLOCK__PERMIT_OWNER_LEN bytes. The other two bytes count them. */
void rlock__permit(struct rlock__bytes owner, unsigned char out[static RLOCK__PERMIT_LEN]);

#endif
