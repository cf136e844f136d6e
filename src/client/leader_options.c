/* SPDX-License-Identifier: Apache-2.0 */
/* What a candidate may be made of. */
#include "client/leader.h"

/* Half of the shortest lease of its parts, less the client's own margin. */
static int64_t longest_margin(const struct rlock_handle *lock)
{
    int64_t most = RLOCK__NEVER;

    for (size_t i = 0; i < rlock__lock_n(lock); i++) {
        const struct rlock__spec *spec = rlock__lock_spec(lock, i);
        int64_t lease_us = spec->core->opts.renewed_lease_us;

        if (spec->tuning->max_hold_us != 0) {
            lease_us = rlock__min(lease_us, spec->tuning->max_hold_us);
        }
        most = rlock__min(most, lease_us / 2 - spec->core->opts.margin_us);
    }
    return most / RLOCK__MS;
}

/* Whether several owners may hold it at a time: two of them need not meet at a member that excludes
 * one of them. */
static bool is_shared(const struct rlock_handle *lock)
{
    const size_t n = rlock__lock_n(lock), quorum = n - rlock__lock_spare(lock);
    size_t readers = 0;

    for (size_t i = 0; i < n; i++) {
        readers += rlock__lock_spec(lock, i)->ops->side == 'r';
    }
    return readers >= 2 * quorum - n;
}

static int check_opts(const struct rlock_handle *lock, struct rlock_leader_opts *opts)
{
    if (opts->rest_ms < 0 || opts->margin_ms < 0 || opts->reserved != NULL) {
        return rlock__fail(RLOCK_EINVAL, "rest_ms or margin_ms is negative, or reserved not NULL");
    }
    if (opts->margin_ms >= longest_margin(lock)) {
        return rlock__fail(RLOCK_EINVAL, "margin_ms and safety_margin_ms together must be less "
                                         "than half of renewed_lease_ms, and of max_hold_ms");
    }
    opts->rest_ms = opts->rest_ms != 0 ? rlock__min(opts->rest_ms, RLOCK_TIME_MAX_MS) : 1000;
    return 0;
}

int rlock__leader_check(const struct rlock_handle *lock, const struct rlock_leader_opts *opts,
                        struct rlock_leader *const *ret_leader, struct rlock_leader_opts *ret_opts)
{
    int code = rlock__lock_check_open(lock);

    if (code == 0 && ret_leader == NULL) {
        return rlock__fail(RLOCK_EINVAL, "ret_leader is NULL");
    }
    if (code == 0 && is_shared(lock)) {
        return rlock__fail(RLOCK_ENOTSUP,
                           "several owners may hold this lock at a time: it has no leader");
    }
    code = code == 0 ? rlock__opts_read(ret_opts, opts) : code;
    return code == 0 ? check_opts(lock, ret_opts) : code;
}
