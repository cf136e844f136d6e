/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The non-reentrant lock: Redisson's NonReentrantLock. On the server it is a reentrant lock of one
 * level; that its owner takes it again is seen here, before anything is sent, since owners' numbers
 * on the wire are fresh.
 */
#include "lock/plain.h"

const struct rlock_ops rlock__nonreentrant_ops = {
    .kind = "non-reentrant",
    .caps = RLOCK__CAP_WAIT_QUEUE | RLOCK__CAP_TOGETHER,
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
