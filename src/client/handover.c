/* SPDX-License-Identifier: Apache-2.0 */
/* Holds that are handed over: detached, and adopted. */
#include "base/clock.h"
#include "client/lock.h"
#include "lock/common.h"

int rlock__detach_read(const struct rlock_handle *lock, int64_t *inout_lease_ms)
{
    int code = rlock__text_check(lock);

    if (code == 0 && *inout_lease_ms == 0) {
        code = rlock__fail(RLOCK_EINVAL, "the hold of a text is not renewed: it needs a lease");
    }
    return code == 0 ? rlock__lease_read(inout_lease_ms) : code;
}

int rlock_detach(struct rlock_handle *lock, uint64_t id, int64_t lease_ms,
                 char ret_text[static RLOCK_TEXT_SIZE])
{
    RLOCK__WHOLE;
    struct rlock__texts texts;
    struct rlock__op op = {.texts = &texts};
    struct rlock__tracing tracing;
    struct rlock__owner owner;
    int code = rlock__detach_read(lock, &lease_ms);

    rlock__texts_begin(&texts);
    ret_text[0] = '\0';
    code = code == 0 ? rlock__check_wait(lock, 0) : code;
    code = code == 0 ? rlock__known_owner(id, &owner) : code;
    if (code == 0) {
        rlock__trace_begin(lock, NULL, &tracing, &op.tracing);
        code = rlock__single_detach(lock, lease_ms * RLOCK__MS, owner, &op);
        code = rlock__lock_end(lock, &op, code);
        rlock__trace_end(lock, &op, RLOCK_CALL_DETACH, code, id);
    }
    if (code == 0) {
        rlock__text_of_detach(lock, &op, ret_text);
    }
    return code;
}

int rlock_hold_text(const struct rlock_handle *lock, uint64_t id,
                    char ret_text[static RLOCK_TEXT_SIZE])
{
    struct rlock__standing standing;
    struct rlock__owner owner;
    char name[RLOCK__OWNER_SIZE];
    int code = rlock__text_check(lock);

    ret_text[0] = '\0';
    code = code == 0 ? rlock__known_owner(id, &owner) : code;
    if (code == 0 && !lock->vtable->standing(lock, owner, &standing)) {
        code = rlock__fail(RLOCK_ENOTOWNER, "not held by this owner");
    }
    if (code == 0 && standing.reason != 0) {
        code = rlock__fail(RLOCK_ELOST, "%s", rlock_reason_text(standing.reason));
    }
    if (code == 0) {
        rlock__text_write(lock, false,
                          rlock__owner_text(&lock->client->core, standing.number, name), ret_text);
    }
    return code;
}

int rlock_adopt(struct rlock_handle *lock, const char *text, const struct rlock_take *take,
                struct rlock_grant *ret_grant)
{
    RLOCK__WHOLE;
    struct rlock__texts texts;
    struct rlock__op op = {.texts = &texts, .wants_standing = ret_grant != NULL};
    struct rlock__tracing tracing;
    struct rlock_take checked;
    struct rlock__owner owner;
    const char *from;
    int code = rlock__text_check(lock);

    rlock__texts_begin(&texts);
    code = code == 0 ? rlock__take_read(lock, NULL, take, &checked) : code;
    code = code == 0 ? rlock__grant_check(&checked, ret_grant) : code;
    code = code == 0 ? rlock__text_read(lock, text, &checked, &from) : code;
    code = code == 0 ? rlock__check_wait(lock, 0) : code;
    code = code == 0 ? rlock__owner_of(checked.owner, &owner) : code;
    if (code == 0) {
        rlock__trace_begin(lock, checked.context, &tracing, &op.tracing);
        code = rlock__single_adopt(lock, from, &checked, owner, &op);
        code = rlock__lock_end(lock, &op, code);
        rlock__trace_end(lock, &op, RLOCK_CALL_ADOPT, code, checked.owner);
    }
    if (code == 0 && ret_grant != NULL) {
        rlock__grant_give(&op.standing, checked.owner, rlock__now_us(), ret_grant);
    }
    return code;
}
