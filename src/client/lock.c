/* SPDX-License-Identifier: Apache-2.0 */
/* What users call on a lock: arguments are checked here, the rest is in the handle's table. */
#include "client/lock.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/sized.h"

/* ---- Handles ---- */

struct rlock_handle *rlock__lock_ref(struct rlock_handle *lock)
{
    (void)atomic_fetch_add(&lock->refs, 1);
    return lock;
}

struct rlock_handle *rlock__lock_unref(struct rlock_handle *lock)
{
    if (lock != NULL && atomic_fetch_sub(&lock->refs, 1) == 1) {
        (void)rlock__spec_unref(lock->spec);
        (void)rlock__group_spec_unref(lock->group);
        free(lock);
    }
    return NULL;
}

struct rlock_handle *rlock_ref(struct rlock_handle *lock)
{
    RLOCK__WHOLE;
    return lock != NULL ? rlock__lock_ref(lock) : NULL;
}

struct rlock_handle *rlock_free(struct rlock_handle *lock)
{
    RLOCK__WHOLE;
    return rlock__lock_unref(lock);
}

const char *rlock_name(const struct rlock_handle *lock, size_t *ret_len)
{
    struct rlock__bytes name = lock->group != NULL ? lock->group->name : lock->spec->name;

    if (ret_len != NULL) {
        *ret_len = name.len;
    }
    return name.at;
}

const char *rlock_kind(const struct rlock_handle *lock)
{
    return lock->group != NULL ? lock->group->ops->kind : lock->spec->ops->kind;
}

/* Whether the handle was made in this process, and not by the one that forked it. */
static bool is_ours(const struct rlock_handle *lock)
{
    return lock != NULL && lock->client->fork_generation == rlock__fork_generation();
}

int rlock__lock_check(const struct rlock_handle *lock)
{
    rlock__detail_clear();
    if (lock == NULL) {
        return rlock__fail(RLOCK_EINVAL, "lock is NULL");
    }
    return is_ours(lock) ? 0 : rlock__client_check(lock->client);
}

int rlock__lock_check_open(const struct rlock_handle *lock)
{
    int code = rlock__lock_check(lock);

    return code == 0 ? rlock__client_check(lock->client) : code;
}

/* ---- Taking ---- */

int rlock__check_wait(const struct rlock_handle *lock, int64_t wait_ms)
{
    int code = 0;

    for (size_t i = 0; i < rlock__lock_n(lock) && code == 0; i++) {
        code = rlock__client_check_wait(rlock__client_of(rlock__lock_spec(lock, i)->core));
    }
    if (code != 0) {
        return code;
    }
    if (wait_ms != 0 && rlock__is_dispatcher()) {
        return rlock__fail(RLOCK_EDEADLOCK, "a callback must not wait; try instead");
    }
    return 0;
}

int rlock_lock_for(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take,
                   struct rlock_grant *ret_grant)
{
    RLOCK__WHOLE;
    struct rlock__texts texts;
    struct rlock__op op = {.texts = &texts, .wants_standing = ret_grant != NULL};
    struct rlock__tracing tracing;
    struct rlock_take checked;
    struct rlock__owner owner;
    int code = rlock__lock_check_open(lock);

    rlock__texts_begin(&texts);
    if (code == 0) {
        code = rlock__take_read(lock, &wait_ms, take, &checked);
    }
    if (code == 0 && (ret_grant != NULL || (checked.flags & RLOCK_TAKE_NEW_OWNER) != 0)) {
        code = rlock__grant_check(&checked, ret_grant);
    }
    if (code == 0) {
        code = rlock__check_wait(lock, wait_ms);
    }
    if (code == 0) {
        code = rlock__owner_of(checked.owner, &owner);
    }
    if (code == 0) {
        rlock__trace_begin(lock, checked.context, &tracing, &op.tracing);
        code = rlock__lock_end(lock, &op,
                               lock->vtable->begin_take(lock, wait_ms, &checked, owner, &op));
        rlock__trace_end(lock, &op, RLOCK_CALL_LOCK, code, checked.owner);
    }
    if (code == 0 && ret_grant != NULL) {
        rlock__grant_give(&op.standing, checked.owner, rlock__now_us(), ret_grant);
    }
    return code;
}

int rlock_lock(struct rlock_handle *lock)
{
    return rlock_lock_for(lock, RLOCK_FOREVER, NULL, NULL);
}

int rlock_try_lock(struct rlock_handle *lock)
{
    return rlock_lock_for(lock, 0, NULL, NULL);
}

/* ---- Giving up ---- */

/* Whether an unlock does not wait for the answer to its release. In a callback it would delay other
 * callbacks, and in the program's event loop no call may wait. */
static bool sends(const struct rlock_handle *lock)
{
    return lock->spec != NULL &&
           (lock->sends_unlocks || lock->client->loop != NULL || rlock__is_dispatcher());
}

int rlock_unlock_as(struct rlock_handle *lock, uint64_t id)
{
    RLOCK__WHOLE;
    struct rlock__texts texts;
    struct rlock__op op = {.texts = &texts};
    struct rlock__tracing tracing;
    struct rlock__owner owner;
    int code = rlock__lock_check(lock);

    rlock__texts_begin(&texts);
    op.call.sends = code == 0 && sends(lock);
    code = code == 0 && !op.call.sends ? rlock__check_wait(lock, 0) : code;
    code = code == 0 ? rlock__known_owner(id, &owner) : code;
    if (code == 0) {
        rlock__trace_begin(lock, NULL, &tracing, &op.tracing);
        code = rlock__lock_end(lock, &op, lock->vtable->begin_leave(lock, owner, &op));
        rlock__trace_end(lock, &op, RLOCK_CALL_UNLOCK, code, id);
    }
    return code;
}

int rlock_unlock(struct rlock_handle *lock)
{
    return rlock_unlock_as(lock, 0);
}

struct rlock_guard rlock_guard_lock_for(struct rlock_handle *lock, int64_t wait_ms,
                                        const struct rlock_take *take)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    const int code = rlock_lock_for(lock, wait_ms, take, &grant);

    return (struct rlock_guard){
        .lock = code == 0 ? lock : NULL, .owner = grant.owner, .code = code};
}

struct rlock_guard rlock_guard_lock(struct rlock_handle *lock)
{
    return rlock_guard_lock_for(lock, RLOCK_FOREVER, NULL);
}

int rlock_guard_end(struct rlock_guard *guard)
{
    struct rlock_handle *lock = guard->lock;

    guard->lock = NULL;
    return lock != NULL ? rlock_unlock_as(lock, guard->owner) : 0;
}

/* ---- What is known without asking ---- */

void rlock__grant_give(const struct rlock__standing *standing, uint64_t owner, int64_t now,
                       struct rlock_grant *ret_grant)
{
    const struct rlock_grant grant = {
        .size = sizeof(grant),
        .levels = standing->levels,
        .token = standing->token,
        .owner = owner,
        .lease_ms = standing->lease_us / RLOCK__MS,
        .valid_ms = rlock__max(0, standing->valid_until - now) / RLOCK__MS,
        .held_ms = rlock__max(0, now - standing->since) / RLOCK__MS,
        .reason = standing->reason,
        .is_renewed = standing->is_renewed,
    };

    rlock__sized_give(ret_grant, &grant);
}

int rlock_held(const struct rlock_handle *lock, uint64_t id, struct rlock_grant *ret_grant)
{
    struct rlock__standing standing;
    struct rlock__owner owner;
    int code = rlock__lock_check_open(lock);

    if (code == 0 && (ret_grant == NULL || !rlock__sized_is_valid(ret_grant))) {
        code = rlock__fail(RLOCK_EINVAL, "ret_grant is NULL, or its size is not set");
    }
    if (code == 0 &&
        (rlock__owner_of(id, &owner) != 0 || !lock->vtable->standing(lock, owner, &standing))) {
        code = rlock__fail(RLOCK_ENOTOWNER, "not held by this owner");
    }
    if (code == 0) {
        rlock__grant_give(&standing, id, rlock__now_us(), ret_grant);
    }
    return code;
}

static int64_t known(const struct rlock_handle *lock, uint64_t owner, uint32_t *ret_count)
{
    *ret_count = 0;
    return is_ours(lock) ? lock->vtable->known(lock, owner, ret_count) : 0;
}

bool rlock_is_valid_as(const struct rlock_handle *lock, uint64_t owner)
{
    uint32_t count;
    int64_t until = known(lock, owner, &count);

    return until != 0 && rlock__now_us() < until;
}

bool rlock_is_valid(const struct rlock_handle *lock)
{
    return rlock_is_valid_as(lock, 0);
}

int64_t rlock_valid_ms_as(const struct rlock_handle *lock, uint64_t owner)
{
    uint32_t count;

    return rlock__max(0, known(lock, owner, &count) - rlock__now_us()) / RLOCK__MS;
}

int64_t rlock_valid_ms(const struct rlock_handle *lock)
{
    return rlock_valid_ms_as(lock, 0);
}

uint32_t rlock_hold_count_as(const struct rlock_handle *lock, uint64_t owner)
{
    uint32_t count;

    (void)known(lock, owner, &count);
    return count;
}

uint32_t rlock_hold_count(const struct rlock_handle *lock)
{
    return rlock_hold_count_as(lock, 0);
}

/* ---- Asking the servers ---- */

int rlock_inspect(struct rlock_handle *lock, struct rlock_info *ret_info)
{
    RLOCK__WHOLE;
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock__tracing tracing, *traced = NULL;
    int code = rlock__lock_check_open(lock);

    if (code == 0 && (ret_info == NULL || !rlock__sized_is_valid(ret_info))) {
        code = rlock__fail(RLOCK_EINVAL, "ret_info is NULL, or its size is not set");
    }
    if (code == 0) {
        code = rlock__check_wait(lock, 0);
    }
    if (code == 0) {
        rlock__trace_begin(lock, NULL, &tracing, &traced);
        code = rlock__count_query(lock, false, rlock__inspect(lock, &info, traced));
        if (traced != NULL) {
            rlock__trace_tell(lock, traced, RLOCK_CALL_INSPECT, code, 0);
        }
    }
    if (code == 0) {
        rlock__sized_give(ret_info, &info);
    }
    return code;
}

int rlock_force_unlock(struct rlock_handle *lock, bool *ret_was_locked)
{
    RLOCK__WHOLE;
    struct rlock__tracing tracing, *traced = NULL;
    bool was_locked = false;
    int code = rlock__lock_check_open(lock);

    if (code == 0) {
        code = rlock__check_wait(lock, 0);
    }
    if (code == 0) {
        rlock__trace_begin(lock, NULL, &tracing, &traced);
        code = rlock__count_query(lock, true, rlock__force(lock, &was_locked, traced));
        if (traced != NULL) {
            rlock__trace_tell(lock, traced, RLOCK_CALL_FORCE_UNLOCK, code, 0);
        }
    }
    if (code == 0 && ret_was_locked != NULL) {
        *ret_was_locked = was_locked;
    }
    return code;
}

/* ---- What the members said ---- */

int rlock_members(const struct rlock_handle *lock, rlock_member_fn *fn, void *payload)
{
    rlock__detail_clear();
    if (lock == NULL || (rlock__lock_caps(lock) & RLOCK__CAP_MEMBERS) == 0 || fn == NULL) {
        return rlock__fail(RLOCK_EINVAL, "lock is no multi-lock or RedLock, or fn is NULL");
    }
    if (!is_ours(lock)) {
        return RLOCK_EFORKED;
    }
    for (size_t i = 0; i < lock->group->n; i++) {
        const struct rlock__spec *spec = lock->group->members[i];
        struct rlock__result result;
        struct rlock_member member;

        rlock__groups_lock(lock->group);
        result = lock->results[i];
        rlock__groups_unlock(lock->group);
        member = (struct rlock_member){.size = sizeof(member),
                                       .name = spec->name.at,
                                       .name_len = spec->name.len,
                                       .kind = spec->ops->kind,
                                       .server = spec->core->opts.address,
                                       .code = result.code,
                                       .held = result.held,
                                       .detail = result.detail};
        fn(&member, payload);
    }
    return 0;
}
