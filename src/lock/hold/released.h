/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was released of late. A server that takes another one's place, or is started again, may not
 * have the newest releases: the lock would be taken there until its lease ends. So they are sent
 * there again. A number is never used again, so a release that was not lost finds nothing.
 */
#ifndef RLOCK_LOCK_RELEASED_H
#define RLOCK_LOCK_RELEASED_H

#include "lock/core.h"

#define RLOCK__RELEASED_MAX 1000
#define RLOCK__RELEASED_US (2 * RLOCK__SECOND) /* before the server was last heard */

/*
 * The server answered that this number is released. replaced: a copy that may have taken it was
 * accounted for by another server in its server's place; that one may have it until its lease ends,
 * should it be asked again. Without memory nothing is remembered.
 */
void rlock__released(const struct rlock__link *link, struct rlock__spec *spec, uint64_t number,
                     bool replaced, int64_t now);
/* Releases again what another server has the key of now. */
void rlock__released_again(struct rlock__core *core, int64_t now);
void rlock__released_fini(struct rlock__core *core);

#endif
