/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spin lock: Redisson's RSpinLock. Waiters hear no channel; they look again after growing
 * pauses. Its release is announced all the same, for other kinds' waiters under the same name.
 */
#include "lock/plain.h"

const struct rlock_ops rlock__spin_ops = {
    .kind = "spin",
    .caps = RLOCK__CAP_REENTRANT | RLOCK__CAP_LOCAL_LINE | RLOCK__CAP_SPINS,
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
