/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a lock: which kind has which, and their ranges. */
#include "client/flags.h"
#include "client/lock.h"

#define SLOT_MIN_MS 1000 /* two answers of a slow network must fit into it */
#define GROWTH_MAX 1000
#define LINGER_MAX_MS 10 /* another library cannot say that it waits */

unsigned rlock__options_of(const struct rlock_ops *ops)
{
    unsigned options = RLOCK__OPTION_NAME;

    options |= ops->renew != NULL ? RLOCK__OPTION_HOLD : 0;
    options |= ops->pause != NULL ? RLOCK__OPTION_PAUSE : 0;
    options |= (ops->caps & RLOCK__CAP_QUEUES) != 0 ? RLOCK__OPTION_SLOT : 0;
    options |= (ops->caps & RLOCK__CAP_PASSES) != 0 ? RLOCK__OPTION_LINGER : 0;
    options |= (ops->caps & RLOCK__CAP_UNITS) != 0 ? RLOCK__OPTION_UNITS : 0;
    options |= ops->other_side != 0 ? RLOCK__OPTION_WRITERS : 0;
    return options;
}

static int64_t flag_of(const struct rlock_opts *opts, uint64_t flag)
{
    return (opts->flags & flag) != 0;
}

int rlock__lock_opts_check(const char *kind, unsigned options, const struct rlock_opts *opts)
{
    const struct {
        const char *name;
        unsigned option;
        int64_t value, least, most;
    } all[] = {
        {"name_len", RLOCK__OPTION_NAME, opts->name_len != 0, 1, 1},
        {"max_hold_ms", RLOCK__OPTION_HOLD, opts->max_hold_ms, 1, INT64_MAX},
        {"linger_ms", RLOCK__OPTION_LINGER, opts->linger_ms, 1, LINGER_MAX_MS},
        {"pause_first_ms", RLOCK__OPTION_PAUSE, opts->pause_first_ms, 1, INT64_MAX},
        {"pause_max_ms", RLOCK__OPTION_PAUSE, opts->pause_max_ms, 1, INT64_MAX},
        {"pause_growth", RLOCK__OPTION_PAUSE, opts->pause_growth, 1, GROWTH_MAX},
        {"fair_slot_ms", RLOCK__OPTION_SLOT, opts->fair_slot_ms, SLOT_MIN_MS, INT64_MAX},
        {"units", RLOCK__OPTION_UNITS, opts->units, 1, INT32_MAX},
        {"max_lease_ms", RLOCK__OPTION_MAX_LEASE, opts->max_lease_ms, INT64_MIN, INT32_MAX},
        {"RLOCK_LOCK_NO_REENTRY", RLOCK__OPTION_HOLD, flag_of(opts, RLOCK_LOCK_NO_REENTRY), 1, 1},
        {"RLOCK_LOCK_PREFER_WRITERS", RLOCK__OPTION_WRITERS,
         flag_of(opts, RLOCK_LOCK_PREFER_WRITERS), 1, 1},
        {"RLOCK_LOCK_SENT_UNLOCK", RLOCK__OPTION_HOLD, flag_of(opts, RLOCK_LOCK_SENT_UNLOCK), 1, 1},
    };
    int code = rlock__flags_check("rlock_opts", opts->flags, RLOCK__LOCK_FLAGS);

    for (size_t i = 0; code == 0 && i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].value != 0 && (all[i].option & options) == 0) {
            return rlock__fail(RLOCK_EINVAL, "%s is not an option of a %s lock", all[i].name, kind);
        }
        if (all[i].value != 0 && all[i].value < all[i].least) {
            return rlock__fail(RLOCK_EINVAL, "%s is %lld, must be 0, or at least %lld", all[i].name,
                               (long long)all[i].value, (long long)all[i].least);
        }
        if (all[i].value > all[i].most) {
            return rlock__fail(RLOCK_EINVAL, "%s is %lld, must be at most %lld", all[i].name,
                               (long long)all[i].value, (long long)all[i].most);
        }
    }
    return code;
}
