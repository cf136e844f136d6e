/* SPDX-License-Identifier: Apache-2.0 */
/* rlock_admin_set_units() and rlock_admin_add_units(): how many units a semaphore has. */
#include <rlock/admin.h>

#include "admin/primaries.h"
#include "client/lock.h"
#include "lock/common.h"

#define TOTAL_MAX INT32_MAX

static int check(const struct rlock_handle *lock)
{
    int code = rlock__lock_check_open(lock);

    if (code == 0 && (lock->spec == NULL || lock->spec->ops->resize == NULL)) {
        return rlock__fail(RLOCK_ENOTSUP, "a %s lock has no units", rlock_kind(lock));
    }
    return code == 0 ? rlock__check_wait(lock, 0) : code;
}

/* A call that adds must not run twice, so the client never sends it again. */
static int resize(const struct rlock_handle *lock, int64_t units, bool adds)
{
    struct rlock__texts texts;
    char name[96];
    struct rlock__call call = {.kind = RLOCK__COMMAND,
                               .spec = lock->spec,
                               .texts = &texts,
                               .command.read = rlock__read_nothing,
                               .command.once = adds};

    rlock__texts_begin(&texts);
    rlock__core_mutex_lock(&lock->client->mutex);
    lock->spec->ops->resize(lock->spec, units, adds, &call.command.cmd);
    rlock__core_mutex_unlock(&lock->client->mutex);
    if (rlock__run(lock->client, &call) != 0) {
        rlock__detail("lock %s: %s", rlock__spec_text(lock->spec, name), texts.detail);
    }
    rlock__cmd_fini(&call.command.cmd); /* a client that was closed meanwhile has not taken it */
    return call.code;
}

int rlock_admin_set_units(struct rlock_handle *lock, int64_t units)
{
    RLOCK__WHOLE;
    int code = check(lock);

    if (code == 0 && (units < 0 || units > TOTAL_MAX)) {
        code = rlock__fail(RLOCK_EINVAL, "units is %lld, must be 0 to %d", (long long)units,
                           TOTAL_MAX);
    }
    return code == 0 ? resize(lock, units, false) : code;
}

int rlock_admin_add_units(struct rlock_handle *lock, int64_t units)
{
    RLOCK__WHOLE;
    int code = check(lock);

    if (code == 0 && (units < -TOTAL_MAX || units > TOTAL_MAX)) {
        code = rlock__fail(RLOCK_EINVAL, "units is %lld, must be %d to %d", (long long)units,
                           -TOTAL_MAX, TOTAL_MAX);
    }
    return code == 0 ? resize(lock, units, true) : code;
}
