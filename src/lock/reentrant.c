/* SPDX-License-Identifier: Apache-2.0 */
/* The reentrant lock: Redisson's RLock. One hash per lock, one field: the owner, its value the hold
 * count. */
#include "lock/plain.h"

const struct rlock_ops rlock__reentrant_ops = {
    .kind = "reentrant",
    .caps = RLOCK__CAP_REENTRANT | RLOCK__CAP_WAIT_QUEUE | RLOCK__CAP_TOGETHER,
    .side = 'x',
    .channel = rlock__plain_channel,
    .acquire = rlock__plain_acquire,
    .release = rlock__plain_release,
    .renew = rlock__plain_renew,
    .inspect = rlock__plain_inspect,
    .force = rlock__plain_force,
    .read_acquire = rlock__plain_read_acquire,
    .read_release = rlock__plain_read_release,
    .read_inspect = rlock__plain_read_inspect,
};
