/* SPDX-License-Identifier: Apache-2.0 */
/* The extension of a lease. */
#include "base/clock.h"
#include "base/sized.h"
#include "client/lock.h"

int rlock_extend(struct rlock_handle *lock, uint64_t id, int64_t lease_ms,
                 struct rlock_grant *ret_grant)
{
    RLOCK__WHOLE;
    struct rlock__texts texts;
    struct rlock__op op = {.texts = &texts, .wants_standing = ret_grant != NULL};
    struct rlock__tracing tracing;
    struct rlock__owner owner;
    int code = rlock__lock_check_open(lock);

    rlock__texts_begin(&texts);
    if (code == 0 && ret_grant != NULL && !rlock__sized_is_valid(ret_grant)) {
        code = rlock__fail(RLOCK_EINVAL, "the grant's size is not set");
    }
    code = code == 0 ? rlock__lease_read(&lease_ms) : code;
    code = code == 0 ? rlock__check_wait(lock, 0) : code;
    code = code == 0 ? rlock__known_owner(id, &owner) : code;
    if (code == 0) {
        rlock__trace_begin(lock, NULL, &tracing, &op.tracing);
        code = lock->vtable->begin_extend(lock, lease_ms * RLOCK__MS, owner, &op);
        code = rlock__lock_end(lock, &op, code);
        rlock__trace_end(lock, &op, RLOCK_CALL_EXTEND, code, id);
    }
    if (code == 0 && ret_grant != NULL) {
        rlock__grant_give(&op.standing, id, rlock__now_us(), ret_grant);
    }
    return code;
}
