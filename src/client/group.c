/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks and RedLocks: each call is a turn on its owner's group. */
#include "client/lock.h"

#include <stdlib.h>

#include "base/clock.h"
#include "multi/view.h"

/* ---- Taking and leaving ---- */

/* What the members' clients have in common. */
static int read_clients(const struct rlock_handle *lock, const struct rlock_take *take,
                        struct rlock__effort *inout_effort, int64_t *ret_longest)
{
    const struct rlock__group_spec *spec = lock->group;

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
        inout_effort->op_timeout_us =
            rlock__min(inout_effort->op_timeout_us, core->opts.op_timeout_us);
        *ret_longest = rlock__max(*ret_longest, core->opts.renewed_lease_us);
        inout_effort->renewed_lease_us =
            rlock__min(inout_effort->renewed_lease_us, core->opts.renewed_lease_us);
    }
    return 0;
}

static int begin_take(const struct rlock_handle *lock, const struct rlock_take *take,
                      struct rlock__owner owner, struct rlock__op *op)
{
    struct rlock__effort effort = {.wait_us = take->wait_ms * RLOCK__MS,
                                   .lease_us = take->lease_ms * RLOCK__MS,
                                   .cancel = rlock__cancel_id(take->cancel)};
    int64_t max_lease = lock->group->max_lease_us, longest = 0, wait;
    int code = read_clients(lock, take, &effort, &longest);

    if (code != 0) {
        return code;
    }
    longest = effort.lease_us != 0 ? effort.lease_us : longest;
    if (max_lease != 0 && longest > max_lease) {
        return rlock__fail(RLOCK_EINVAL, "the lease is longer than the RedLock's max_lease_ms");
    }
    wait = effort.wait_us == 0 ? effort.op_timeout_us : effort.wait_us;
    op->group_op = (struct rlock__group_op){
        .spec = lock->group,
        .owner = owner,
        .effort = effort,
        .deadline = effort.wait_us < 0 ? RLOCK__NEVER : rlock__later(rlock__now_us(), wait),
        .cancel = take->cancel,
        .results = lock->results};
    return rlock__group_op_begin(&op->group_op);
}

/* The members' clients answer for themselves: one of them may be closed. */
static int begin_leave(const struct rlock_handle *lock, struct rlock__owner owner,
                       struct rlock__op *op)
{
    int64_t timeout = lock->client->core.opts.op_timeout_us;
    int code;

    op->group_op = (struct rlock__group_op){.spec = lock->group,
                                            .owner = owner,
                                            .leaves = true,
                                            .deadline = rlock__later(rlock__now_us(), timeout),
                                            .results = lock->results};
    code = rlock__group_op_begin(&op->group_op);
    if (code != 0 && !owner.given) { /* its level may be given up */
        rlock__thread_forget_group(lock->group);
    }
    return code;
}

static void await(const struct rlock_handle *lock, struct rlock__op *op)
{
    rlock__group_op_wait(&op->group_op);
    if (op->group_op.view != NULL) {
        rlock__thread_add_group(op->group_op.view);
    } else if (op->group_op.leaves) {
        rlock__thread_forget_group(lock->group);
    }
}

/* ---- What is known without asking ---- */

static int64_t known(const struct rlock_handle *lock, uint64_t owner, uint32_t *ret_count)
{
    const struct rlock__group_spec *spec = lock->group;
    const struct rlock__group *group;
    int64_t until;

    if (owner == 0) { /* reads what its thread has, without a mutex */
        const struct rlock__group_view *view = rlock__thread_find_group(spec);

        *ret_count = view != NULL ? atomic_load(&view->count) : 0;
        return view != NULL ? rlock__group_view_valid_until(view) : 0;
    }
    rlock__groups_lock(spec);
    group = rlock__group_find(spec, (struct rlock__owner){.id = owner, .given = true});
    until = group != NULL ? rlock__group_valid_until(group) : 0;
    *ret_count = group != NULL && !group->lost ? rlock__group_left(group) : 0;
    rlock__groups_unlock(spec);
    return until;
}

/* ---- Ending before its time ---- */

static void cancel(const struct rlock_handle *lock, struct rlock__op *op)
{
    rlock__groups_lock(lock->group);
    rlock__group_op_cancel(&op->group_op);
    rlock__groups_unlock(lock->group);
}

/* ---- The handle ---- */

static const struct rlock__vtable vtable = {
    .begin_take = begin_take,
    .begin_leave = begin_leave,
    .wait = await,
    .known = known,
    .cancel = cancel,
};

int rlock__group_lock_new(const struct rlock__group_ops *ops, struct rlock__spec *const *members,
                          size_t n, int64_t max_lease_us, struct rlock_handle **ret_lock)
{
    struct rlock__group_spec *spec = rlock__group_spec_new(ops, members, n);
    struct rlock_handle *lock = calloc(1, sizeof(*lock) + n * sizeof(struct rlock__result));

    if (spec == NULL || lock == NULL) {
        (void)rlock__group_spec_unref(spec);
        free(lock);
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    spec->max_lease_us = max_lease_us;
    lock->vtable = &vtable;
    lock->client = rlock__client_of(spec->first->core);
    lock->group = spec;
    lock->results = (struct rlock__result *)(lock + 1);
    atomic_init(&lock->refs, 1);
    *ret_lock = lock;
    return 0;
}
