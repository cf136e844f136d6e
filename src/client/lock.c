/* SPDX-License-Identifier: Apache-2.0 */
/* Locks as their users see them: arguments checked, calls run, holds noted for the thread. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/sized.h"
#include "client/composite.h"
#include "lock/internal.h"
#include "multi/composite.h"

#define LEASE_MIN_MS 10

/* ---- Handles ---- */

struct rlock *rlock_free(struct rlock *lock)
{
    RLOCK__WHOLE;
    if (lock != NULL) {
        (void)rlock__spec_unref(lock->spec);
        (void)rlock__composite_unref(lock->composite);
        free(lock->results);
        free(lock);
    }
    return NULL;
}

const char *rlock_name(const struct rlock *lock, size_t *ret_len)
{
    struct rlock__bytes name = lock->composite != NULL ? lock->composite->name : lock->spec->name;

    if (ret_len != NULL) {
        *ret_len = name.len;
    }
    return name.at;
}

const char *rlock_kind(const struct rlock *lock)
{
    return lock->composite != NULL ? lock->composite->ops->kind : lock->spec->ops->kind;
}

/* ---- Taking ---- */

int rlock__lock_begin(const struct rlock *lock)
{
    rlock__detail_clear();
    if (lock == NULL) {
        return rlock__fail(RLOCK_EINVAL, "lock is NULL");
    }
    return rlock__client_check(lock->client);
}

static int owner_of(uint64_t id, struct rlock__owner *ret_owner)
{
    *ret_owner =
        (struct rlock__owner){.id = id != 0 ? id : rlock__thread_number(), .given = id != 0};
    return ret_owner->id != 0 ? 0 : rlock__fail(RLOCK_ENOMEM, "no memory");
}

static int check_take(const struct rlock_take *take, struct rlock_take *ret_take)
{
    struct rlock_take copy = {.size = sizeof(copy)};

    if (!rlock__sized_take(&copy, take)) {
        return rlock__fail(
            RLOCK_EINVAL,
            "the take's size is not set, or it wants what this library does not know");
    }
    if (copy.wait_ms < RLOCK_FOREVER || copy.wait_ms > RLOCK__TIME_MAX_MS) {
        return rlock__fail(RLOCK_EINVAL, "wait_ms is 0, positive, or RLOCK_FOREVER");
    }
    if (copy.lease_ms != 0 &&
        (copy.lease_ms < LEASE_MIN_MS || copy.lease_ms > RLOCK__TIME_MAX_MS)) {
        return rlock__fail(RLOCK_EINVAL, "lease_ms is 0, or at least %d", LEASE_MIN_MS);
    }
    if (copy.wait_ms != 0 && rlock__is_dispatcher()) {
        return rlock__fail(RLOCK_EDEADLOCK, "a callback must not wait; try instead");
    }
    *ret_take = copy;
    return 0;
}

/* A grant as the caller's version of the struct has it. */
static void put_grant(const struct rlock__call *call, struct rlock_grant *ret_grant)
{
    struct rlock_grant grant = {.size = sizeof(grant),
                                .token = call->token,
                                .lease_ms = call->lease_granted_us / RLOCK__MS,
                                .valid_ms =
                                    rlock__max(0, call->valid_until - rlock__now_us()) / RLOCK__MS};

    rlock__sized_give(ret_grant, &grant);
}

static int take_lock(struct rlock *lock, const struct rlock_take *take,
                     struct rlock_grant *ret_grant)
{
    struct rlock_client *client = lock->client;
    struct rlock__call call = {.kind = RLOCK__ACQUIRE, .spec = lock->spec};
    int code = owner_of(take->owner, &call.owner);

    if (code == 0 && lock->composite != NULL) {
        return rlock__composite_take(lock, take, call.owner, ret_grant);
    }
    call.wait_us = take->wait_ms * RLOCK__MS;
    call.lease_us = take->lease_ms * RLOCK__MS;
    if (call.lease_us != 0 && rlock__valid_until(&client->core, 0, call.lease_us) <= 0) {
        return rlock__fail(RLOCK_EINVAL, "lease_ms lies within the client's safety margin");
    }
    if (code == 0 && take->cancel != NULL) {
        code = rlock__cancel_watch(client, take->cancel);
    }
    if (code == 0) {
        code = rlock__run(client, &call, take->cancel);
    }
    if (code != 0) {
        return code;
    }
    if (call.owner.given) {
        (void)rlock__claim_unref(call.claim);
    } else {
        rlock__thread_add(call.claim);
    }
    if (ret_grant != NULL) {
        put_grant(&call, ret_grant);
    }
    return 0;
}

int rlock_lock_with(struct rlock *lock, const struct rlock_take *take,
                    struct rlock_grant *ret_grant)
{
    RLOCK__WHOLE;
    struct rlock_take checked;
    int code = rlock__lock_begin(lock);

    if (code == 0 && ret_grant != NULL && !rlock__sized_is_valid(ret_grant)) {
        code = rlock__fail(RLOCK_EINVAL, "the grant's size is not set");
    }
    if (code == 0) {
        code = check_take(take, &checked);
    }
    return code == 0 ? take_lock(lock, &checked, ret_grant) : code;
}

int rlock_lock(struct rlock *lock)
{
    return rlock_lock_with(lock, RLOCK_TAKE(.wait_ms = RLOCK_FOREVER), NULL);
}

int rlock_try_lock(struct rlock *lock)
{
    return rlock_lock_with(lock, NULL, NULL);
}

/* ---- Giving up ---- */

static bool is_ours(const struct rlock *lock)
{
    return lock != NULL && lock->client->fork_generation == rlock__fork_generation();
}

/* The members' clients answer for themselves: one of them may be closed. */
static int unlock_composite(struct rlock *lock, uint64_t id)
{
    struct rlock__owner owner;
    int code;

    rlock__detail_clear();
    if (!is_ours(lock)) {
        return rlock__client_check(lock->client);
    }
    code = owner_of(id, &owner);
    return code == 0 ? rlock__composite_leave(lock, owner) : code;
}

int rlock_unlock_as(struct rlock *lock, uint64_t owner)
{
    RLOCK__WHOLE;
    struct rlock__call call = {.kind = RLOCK__RELEASE};
    int code;

    if (lock != NULL && lock->composite != NULL) {
        return unlock_composite(lock, owner);
    }
    code = rlock__lock_begin(lock);
    if (code == 0) {
        call.spec = lock->spec;
        code = owner_of(owner, &call.owner);
    }
    if (code == 0) {
        code = rlock__run(lock->client, &call, NULL);
        rlock__thread_forget(lock->spec);
    }
    return code;
}

int rlock_unlock(struct rlock *lock)
{
    return rlock_unlock_as(lock, 0);
}

struct rlock_guard rlock_guard_take(struct rlock *lock, const struct rlock_take *take)
{
    struct rlock_guard guard = {.lock = lock, .owner = take != NULL ? take->owner : 0};

    guard.code = take != NULL ? rlock_lock_with(lock, take, NULL) : rlock_lock(lock);
    if (guard.code != 0) {
        guard.lock = NULL;
    }
    return guard;
}

int rlock_guard_end(struct rlock_guard *guard)
{
    struct rlock *lock = guard->lock;

    guard->lock = NULL;
    return lock != NULL ? rlock_unlock_as(lock, guard->owner) : 0;
}

/* ---- What is known without asking ---- */

/* Of a composite, for an owner (id 0: the calling thread). */
static int64_t composite_valid_until(const struct rlock *lock, uint64_t id, uint32_t *ret_count)
{
    struct rlock__owner owner;

    *ret_count = 0;
    return owner_of(id, &owner) == 0 ? rlock__composite_valid_until(lock, owner, ret_count) : 0;
}

static int64_t valid_until(const struct rlock *lock)
{
    const struct rlock__claim *claim;
    uint32_t count;

    if (!is_ours(lock)) {
        return 0;
    }
    if (lock->composite != NULL) {
        return composite_valid_until(lock, 0, &count);
    }
    claim = rlock__thread_find(lock->spec, lock->hash);
    return claim != NULL ? atomic_load(&claim->valid_until) : 0;
}

bool rlock_is_valid(const struct rlock *lock)
{
    int64_t until = valid_until(lock);

    return until != 0 && rlock__now_us() < until;
}

static int64_t left_ms(int64_t until)
{
    return rlock__max(0, until - rlock__now_us()) / RLOCK__MS;
}

int64_t rlock_valid_ms(const struct rlock *lock)
{
    return left_ms(valid_until(lock));
}

uint32_t rlock_hold_count(const struct rlock *lock)
{
    const struct rlock__claim *claim;
    uint32_t count = 0;

    if (!is_ours(lock)) {
        return 0;
    }
    if (lock->composite != NULL) {
        (void)composite_valid_until(lock, 0, &count);
        return count;
    }
    claim = rlock__thread_find(lock->spec, lock->hash);
    return claim != NULL ? atomic_load(&claim->count) : 0;
}

/* Of an owner that was given by id. */
static int64_t valid_until_as(const struct rlock *lock, uint64_t id, uint32_t *ret_count)
{
    struct rlock_client *client;
    int64_t until;

    *ret_count = 0;
    if (!is_ours(lock)) {
        return 0;
    }
    if (lock->composite != NULL) {
        return composite_valid_until(lock, id, ret_count);
    }
    client = lock->client;
    rlock__enter(client);
    until = rlock__core_valid_until(&client->core, lock->spec,
                                    (struct rlock__owner){.id = id, .given = true}, ret_count);
    (void)pthread_mutex_unlock(&client->mutex);
    return until;
}

bool rlock_is_valid_as(const struct rlock *lock, uint64_t owner)
{
    uint32_t count;

    return owner == 0 ? rlock_is_valid(lock)
                      : rlock__now_us() < valid_until_as(lock, owner, &count);
}

int64_t rlock_valid_ms_as(const struct rlock *lock, uint64_t owner)
{
    uint32_t count;

    return owner == 0 ? rlock_valid_ms(lock) : left_ms(valid_until_as(lock, owner, &count));
}

uint32_t rlock_hold_count_as(const struct rlock *lock, uint64_t owner)
{
    uint32_t count;

    (void)valid_until_as(lock, owner, &count);
    return owner == 0 ? rlock_hold_count(lock) : count;
}
