/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spin lock: Redisson's RSpinLock. Its waiters do not subscribe: they poll, after growing
 * pauses. Its release is announced anyway, for waiters of other kinds under the same name.
 */
#include <assert.h>

#include "base/random.h"
#include "lock/plain.h"

#define MOST_US (128 * RLOCK__MS)

int64_t rlock__spin_pause(const struct rlock__tuning *tuning, unsigned looks, int64_t first,
                          int64_t most)
{
    int64_t factor = tuning->spin_multiplier != 0 ? tuning->spin_multiplier : 2;
    int64_t pause = tuning->spin_initial_us != 0 ? tuning->spin_initial_us : first;

    most = tuning->spin_max_us != 0 ? tuning->spin_max_us : most;
    assert(pause > 0 && most > 0 && factor > 0); /* otherwise it would spin without a pause */
    for (unsigned i = 0; i < looks && pause < most && factor > 1; i++) {
        pause *= factor;
    }
    return rlock__min(pause, most);
}

/*
 * The pause before a spinning call polls again. It grows by the multiplier up to the maximum, plus
 * a jitter of a millisecond for each poll. These are Redisson's back-off options.
 */
static int64_t pause_before(const struct rlock__tuning *tuning, unsigned looks, uint64_t *random)
{
    int64_t most = tuning->spin_max_us != 0 ? tuning->spin_max_us : MOST_US;

    return rlock__spin_pause(tuning, looks, RLOCK__MS, MOST_US) +
           rlock__random_below(random, rlock__min((int64_t)looks * RLOCK__MS, most) + 1);
}

const struct rlock_ops rlock__spin_ops = {
    .kind = "spin",
    .number = RLOCK_KIND_SPIN,
    .caps = RLOCK__CAP_REENTRANT | RLOCK__CAP_WAIT_QUEUE | RLOCK__CAP_TOGETHER | RLOCK__CAP_PASSES,
    RLOCK__PLAIN_OPS,
    .pause = pause_before,
    .acquire = rlock__plain_acquire,
    .release = rlock__plain_release,
    .rename = rlock__plain_rename,
    .inspect = rlock__plain_inspect,
    .force = rlock__plain_force,
};
