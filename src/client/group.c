/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks and RedLocks: each call is a turn on its owner's group. */
#include "client/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/single.h"
#include "drive/turn.h"
#include "multi/claim.h"

static const struct rlock__group_lock *handle_of(const struct rlock_handle *lock)
{
    return (const struct rlock__group_lock *)(const void *)lock;
}

static const struct rlock__group_spec *spec_of(const struct rlock_handle *lock)
{
    return handle_of(lock)->spec;
}

/* ---- Taking and leaving ---- */

/* Keeps what the members said, for rlock_members(). */
RLOCK__REQUIRES(home)
static void note_results(const struct rlock_handle *lock, const struct rlock__group *group)
{
    for (size_t i = 0; i < group->spec->n; i++) {
        const struct rlock__member *member = &group->members[i];
        struct rlock__result *result = &handle_of(lock)->results[i];
        bool waits = member->state == RLOCK__MEMBER_TAKING;

        result->held = member->state == RLOCK__MEMBER_HELD;
        result->code = waits ? RLOCK_ETIMEDOUT : result->held ? 0 : member->code;
        (void)snprintf(result->detail, sizeof(result->detail), "%s",
                       result->held      ? ""
                       : member->running ? "no answer yet"
                                         : member->call.detail);
    }
}

/* One effort on a group whose turn it is; the mutex is dropped while it is driven. */
RLOCK__REQUIRES(home)
static int run_on(const struct rlock_handle *lock, struct rlock__group *group,
                  const struct rlock__turn *turn, const struct rlock__effort *effort,
                  struct rlock_grant *ret_grant)
{
    int64_t now = rlock__now_us();

    if (effort == NULL) {
        rlock__group_leave(group, now);
    } else {
        struct rlock__effort rest = *effort;

        rest.wait_us = rest.wait_us > 0 ? rlock__max(turn->deadline - now, 1) : rest.wait_us;
        rlock__group_take(group, &rest, now);
    }
    rlock__groups_unlock(turn->spec);
    rlock__turn_drive(group, turn);
    rlock__groups_lock(turn->spec);
    if (ret_grant != NULL) {
        now = rlock__now_us();
        ret_grant->lease_ms = group->lease_granted_us / RLOCK__MS;
        ret_grant->valid_ms = rlock__max(0, rlock__group_valid_until(group) - now) / RLOCK__MS;
    }
    note_results(lock, group);
    return group->code;
}

/* Runs one effort, NULL an unlock. ret_grant: NULL not wanted. */
static int run(const struct rlock_handle *lock, struct rlock__turn *turn,
               const struct rlock__effort *effort, struct rlock_grant *ret_grant)
{
    struct rlock__group_claim *claim = NULL;
    struct rlock__group *group = NULL;
    char detail[RLOCK__DETAIL_SIZE];
    int code;

    turn->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (turn->fd < 0) {
        return rlock__fail(RLOCK_ERESOURCE, "no file descriptor to wait with");
    }
    rlock__groups_lock(turn->spec);
    code = rlock__turn_begin(turn, &group);
    if (code == 0) {
        code = run_on(lock, group, turn, effort, ret_grant);
        (void)snprintf(detail, sizeof(detail), "%s", group->detail);
        if (code == 0 && effort != NULL && !turn->owner.given) {
            claim = rlock__group_claim_ref(group->claim);
        }
        rlock__turn_end(group);
    } else {
        rlock__groups_unlock(turn->spec);
        if (code == RLOCK_ETIMEDOUT && effort != NULL && effort->wait_us == 0) {
            code = RLOCK_EBUSY;
        }
        (void)snprintf(detail, sizeof(detail), "lock %s: %s", lock->name.at, rlock_strerror(code));
    }
    (void)close(turn->fd);
    if (claim != NULL) {
        rlock__thread_add_group(claim);
    } else if (effort == NULL) {
        rlock__thread_forget_group(turn->spec);
    }
    return code == 0 ? 0 : rlock__fail(code, "%s", detail);
}

/* What the members' clients have in common. */
static int read_clients(const struct rlock_handle *lock, const struct rlock_take *take,
                        struct rlock__effort *inout_effort, int64_t *ret_longest)
{
    const struct rlock__group_spec *spec = spec_of(lock);

    inout_effort->op_timeout_us = inout_effort->renewed_lease_us = RLOCK__NEVER;
    for (size_t i = 0; i < spec->n; i++) {
        struct rlock_client *client = rlock__client_of(spec->members[i]->core);
        const struct rlock__core *core = &client->core;
        int code = rlock__client_check(client);

        if (code == 0 && take->cancel != NULL) {
            code = rlock__cancel_watch(client, take->cancel);
        }
        if (code != 0) {
            return code;
        }
        if (inout_effort->lease_us != 0 &&
            rlock__valid_until(core, 0, inout_effort->lease_us) <= 0) {
            return rlock__fail(RLOCK_EINVAL, "lease_ms lies within a client's safety margin");
        }
        inout_effort->op_timeout_us = rlock__min(inout_effort->op_timeout_us, core->op_timeout_us);
        *ret_longest = rlock__max(*ret_longest, core->renewed_lease_us);
        inout_effort->renewed_lease_us =
            rlock__min(inout_effort->renewed_lease_us, core->renewed_lease_us);
    }
    return 0;
}

static int take(const struct rlock_handle *lock, const struct rlock_take *take,
                struct rlock__owner owner, struct rlock_grant *ret_grant)
{
    struct rlock__effort effort = {.wait_us = take->wait_ms * RLOCK__MS,
                                   .lease_us = take->lease_ms * RLOCK__MS,
                                   .cancel = rlock__cancel_id(take->cancel)};
    struct rlock__turn turn = {
        .spec = handle_of(lock)->spec, .owner = owner, .cancel = take->cancel};
    int64_t max_lease = spec_of(lock)->max_lease_us, longest = 0, wait;
    int code = read_clients(lock, take, &effort, &longest);

    if (code != 0) {
        return code;
    }
    longest = effort.lease_us != 0 ? effort.lease_us : longest;
    if (max_lease != 0 && longest > max_lease) {
        return rlock__fail(RLOCK_EINVAL, "the lease is longer than the RedLock's max_lease_ms");
    }
    wait = effort.wait_us == 0 ? effort.op_timeout_us : effort.wait_us;
    turn.deadline = effort.wait_us < 0 ? RLOCK__NEVER : rlock__later(rlock__now_us(), wait);
    return run(lock, &turn, &effort, ret_grant);
}

/* The members' clients answer for themselves: one of them may be closed. */
static int leave(const struct rlock_handle *lock, struct rlock__owner owner)
{
    int64_t timeout = lock->client->core.op_timeout_us;
    struct rlock__turn turn = {.spec = handle_of(lock)->spec,
                               .owner = owner,
                               .deadline = rlock__later(rlock__now_us(), timeout)};

    return run(lock, &turn, NULL, NULL);
}

/* ---- What is known without asking ---- */

/* Of an owner that was given by id. */
static int64_t look_up(const struct rlock_handle *lock, uint64_t id, uint32_t *ret_count)
{
    const struct rlock__group_spec *spec = spec_of(lock);
    const struct rlock__group *group;
    int64_t until;

    rlock__groups_lock(spec);
    group = rlock__group_find(spec, (struct rlock__owner){.id = id, .given = true});
    until = group != NULL ? rlock__group_valid_until(group) : 0;
    *ret_count = group != NULL && !group->lost ? group->count : 0;
    rlock__groups_unlock(spec);
    return until;
}

static int64_t valid_until(const struct rlock_handle *lock, uint64_t owner)
{
    const struct rlock__group_claim *claim;
    uint32_t count;

    if (owner != 0) {
        return look_up(lock, owner, &count);
    }
    claim = rlock__thread_find_group(spec_of(lock));
    return claim != NULL ? rlock__group_claim_valid_until(claim) : 0;
}

static uint32_t hold_count(const struct rlock_handle *lock, uint64_t owner)
{
    const struct rlock__group_claim *claim;
    uint32_t count = 0;

    if (owner != 0) {
        (void)look_up(lock, owner, &count);
        return count;
    }
    claim = rlock__thread_find_group(spec_of(lock));
    return claim != NULL ? atomic_load(&claim->count) : 0;
}

/* ---- Asking the servers ---- */

/* The first member that somebody holds speaks for the whole. A member that cannot be asked
 * counts as held, as it would for who takes it. */
static int inspect(const struct rlock_handle *lock, struct rlock_info *ret_info)
{
    const struct rlock__group_spec *spec = spec_of(lock);
    bool quorum = (lock->caps & RLOCK__CAP_QUORUM) != 0;
    size_t spare = quorum ? spec->n - spec->quorum : 0, held = 0, failed = 0;
    int code = 0;

    *ret_info = (struct rlock_info){.size = sizeof(*ret_info), .ttl_ms = -2};
    for (size_t i = 0; i < spec->n; i++) {
        struct rlock_info info;
        int result = rlock__single_inspect(spec->members[i], &info);

        if (result != 0) {
            code = result;
            failed++;
        } else if (info.locked && held++ == 0) {
            *ret_info = info;
        }
    }
    ret_info->holders = (uint32_t)held;
    ret_info->locked = held + failed > spare;
    return failed > spare ? code : 0;
}

/* All that can be opened are; the first error is the whole's. */
static int force(const struct rlock_handle *lock, bool *ret_was_locked)
{
    const struct rlock__group_spec *spec = spec_of(lock);
    int code = 0;

    *ret_was_locked = false;
    for (size_t i = 0; i < spec->n; i++) {
        bool was_locked;
        int result = rlock__single_force(spec->members[i], &was_locked);

        if (result == RLOCK_EBUSY) { /* it may have been left with the one before */
            result = rlock__single_force(spec->members[i], &was_locked);
        }
        code = code == 0 ? result : code;
        *ret_was_locked |= was_locked;
    }
    return code;
}

/* ---- The handle ---- */

static int each_member(const struct rlock_handle *lock, rlock__member_fn *fn, void *payload)
{
    const struct rlock__group_spec *spec = spec_of(lock);
    int code = 0;

    for (size_t i = 0; code == 0 && i < spec->n; i++) {
        struct rlock__result result;

        rlock__groups_lock(spec);
        result = handle_of(lock)->results[i];
        rlock__groups_unlock(spec);
        code = fn(spec->members[i], &result, payload);
    }
    return code;
}

static void free_handle(struct rlock_handle *lock)
{
    (void)rlock__group_spec_unref(handle_of(lock)->spec);
    free(handle_of(lock)->results);
    free(lock);
}

static const struct rlock__vtable vtable = {
    .take = take,
    .leave = leave,
    .valid_until = valid_until,
    .hold_count = hold_count,
    .inspect = inspect,
    .force = force,
    .each_member = each_member,
    .free = free_handle,
};

struct rlock_handle *rlock__group_lock_new(struct rlock__group_spec *spec)
{
    struct rlock__group_lock *handle = calloc(1, sizeof(*handle));
    struct rlock__result *results = calloc(spec->n, sizeof(*results));

    if (handle == NULL || results == NULL) {
        (void)rlock__group_spec_unref(spec);
        free(handle);
        free(results);
        return NULL;
    }
    *handle = (struct rlock__group_lock){.lock = {.vtable = &vtable,
                                                  .kind = spec->ops->kind,
                                                  .caps = spec->ops->caps,
                                                  .name = spec->name,
                                                  .client = rlock__client_of(spec->first->core)},
                                         .spec = spec,
                                         .results = results};
    return &handle->lock;
}
