/* SPDX-License-Identifier: Apache-2.0 */
/* Checks how a lock is to be taken. */
#include "base/sized.h"
#include "client/flags.h"
#include "client/lock.h"

#define LEASE_MIN_MS 10
#define UNITS_MAX 1000 /* of one take: a script counts them */

int rlock__lease_read(int64_t *inout_lease_ms)
{
    if (*inout_lease_ms != 0 && *inout_lease_ms < LEASE_MIN_MS) {
        return rlock__fail(RLOCK_EINVAL, "lease_ms must be 0, or at least %d", LEASE_MIN_MS);
    }
    *inout_lease_ms = rlock__min(*inout_lease_ms, RLOCK_TIME_MAX_MS);
    return 0;
}

static int read_given(const struct rlock_handle *lock, const struct rlock_take *take,
                      uint64_t flags, struct rlock_take *inout_copy)
{
    if (!rlock__sized_take(inout_copy, take)) {
        return rlock__fail(
            RLOCK_EINVAL,
            "the take's size is not set, or it wants what this library does not know");
    }
    if (rlock__lease_read(&inout_copy->lease_ms) != 0 ||
        rlock__flags_check("rlock_take", inout_copy->flags, flags) != 0) {
        return RLOCK_EINVAL;
    }
    if (inout_copy->reserved != NULL) {
        return rlock__fail(RLOCK_EINVAL, "reserved must be NULL");
    }
    if ((inout_copy->flags & RLOCK_TAKE_NEW_OWNER) != 0) {
        if (inout_copy->owner != 0) {
            return rlock__fail(RLOCK_EINVAL, "RLOCK_TAKE_NEW_OWNER excludes an owner");
        }
        inout_copy->owner = rlock_owner_new(lock->client);
    }
    return 0;
}

static int check_units(const struct rlock_handle *lock, int64_t units)
{
    const bool has_units = (rlock__lock_caps(lock) & RLOCK__CAP_UNITS) != 0;

    if (units == 0) {
        return 0;
    }
    if (!has_units) {
        return rlock__fail(RLOCK_EINVAL, "units is not an option of a %s lock", rlock_kind(lock));
    }
    if (units < 0 || units > rlock__min(lock->spec->tuning->units, UNITS_MAX)) {
        return rlock__fail(RLOCK_EINVAL, "units is %lld, must be 0 to %lld", (long long)units,
                           (long long)rlock__min(lock->spec->tuning->units, UNITS_MAX));
    }
    return 0;
}

int rlock__take_read(const struct rlock_handle *lock, int64_t *inout_wait_ms,
                     const struct rlock_take *take, struct rlock_take *ret_take)
{
    struct rlock_take copy = {.size = sizeof(copy)};

    const uint64_t flags = inout_wait_ms != NULL ? RLOCK__TAKE_FLAGS : RLOCK__ADOPT_FLAGS;

    if (inout_wait_ms != NULL && *inout_wait_ms < RLOCK_FOREVER) {
        return rlock__fail(RLOCK_EINVAL, "wait_ms is %lld, must be 0, positive, or RLOCK_FOREVER",
                           (long long)*inout_wait_ms);
    }
    if (take != NULL && read_given(lock, take, flags, &copy) != 0) {
        return RLOCK_EINVAL;
    }
    if (check_units(lock, copy.units) != 0) {
        return RLOCK_EINVAL;
    }
    if (copy.lease_ms != 0 && rlock__lock_is_renewed(lock)) {
        return rlock__fail(RLOCK_EINVAL, "lease_ms is not an option of a %s: the client renews it",
                           rlock_kind(lock));
    }
    if (inout_wait_ms != NULL && *inout_wait_ms > RLOCK_TIME_MAX_MS) {
        *inout_wait_ms = RLOCK_FOREVER;
    }
    *ret_take = copy;
    return 0;
}

int rlock__grant_check(const struct rlock_take *take, const struct rlock_grant *ret_grant)
{
    if (ret_grant != NULL && !rlock__sized_is_valid(ret_grant)) {
        return rlock__fail(RLOCK_EINVAL, "the grant's size is not set");
    }
    if ((take->flags & RLOCK_TAKE_NEW_OWNER) != 0 && ret_grant == NULL) {
        return rlock__fail(RLOCK_EINVAL, "RLOCK_TAKE_NEW_OWNER needs a grant to fill");
    }
    return 0;
}
