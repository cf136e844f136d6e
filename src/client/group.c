/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks and RedLocks: which members they may have; and each call is a turn on its owner's
 * group. */
#include "client/lock.h"

#include <stdlib.h>

#include "base/clock.h"
#include "multi/view.h"

/* ---- Taking and leaving ---- */

/* What the members' clients have in common. */
static int read_clients(const struct rlock_handle *lock, struct rlock_cancel *cancel,
                        struct rlock__effort *inout_effort, int64_t *ret_longest)
{
    const struct rlock__group_spec *spec = lock->group;

    inout_effort->op_timeout_us = inout_effort->renewed_lease_us = RLOCK__NEVER;
    for (size_t i = 0; i < spec->n; i++) {
        struct rlock_client *client = rlock__client_of(spec->members[i]->core);
        const struct rlock__core *core = &client->core;
        int code = rlock__client_check(client);

        if (code == 0 && cancel != NULL) {
            code = rlock__cancel_watch(client, cancel);
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

/* The same, with the lease that the lock allows. */
static int read_effort(const struct rlock_handle *lock, struct rlock_cancel *cancel,
                       struct rlock__effort *inout_effort)
{
    int64_t max_lease = lock->group->max_lease_us, longest = 0;
    int code = read_clients(lock, cancel, inout_effort, &longest);

    longest = inout_effort->lease_us != 0 ? inout_effort->lease_us : longest;
    if (code == 0 && max_lease != 0 && longest > max_lease) {
        return rlock__fail(RLOCK_EINVAL, "the lease is longer than the RedLock's max_lease_ms");
    }
    return code;
}

static int begin_take(const struct rlock_handle *lock, int64_t wait_ms,
                      const struct rlock_take *take, struct rlock__owner owner,
                      struct rlock__op *op)
{
    struct rlock__effort effort = {.wait_us = wait_ms * RLOCK__MS,
                                   .lease_us = take->lease_ms * RLOCK__MS,
                                   .cancel = rlock__cancel_id(take->cancel)};
    int64_t wait, now;
    int code = read_effort(lock, take->cancel, &effort);

    if (code != 0) {
        return code;
    }
    wait = effort.wait_us == 0 ? effort.op_timeout_us : effort.wait_us;
    now = rlock__now_us();
    op->group_op = (struct rlock__group_op){
        .spec = lock->group,
        .owner = owner,
        .effort = effort,
        .deadline = effort.wait_us < 0 ? RLOCK__NEVER : rlock__later(now, wait),
        .cancel = take->cancel,
        .begun_at = now,
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

static int begin_extend(const struct rlock_handle *lock, int64_t lease_us,
                        struct rlock__owner owner, struct rlock__op *op)
{
    struct rlock__effort effort = {.lease_us = lease_us};
    int code = read_effort(lock, NULL, &effort);

    if (code != 0) {
        return code;
    }
    op->group_op =
        (struct rlock__group_op){.spec = lock->group,
                                 .owner = owner,
                                 .extends = true,
                                 .effort = effort,
                                 .deadline = rlock__later(rlock__now_us(), effort.op_timeout_us),
                                 .results = lock->results};
    return rlock__group_op_begin(&op->group_op);
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

static bool standing(const struct rlock_handle *lock, struct rlock__owner owner,
                     struct rlock__standing *ret_standing)
{
    const struct rlock__group *group;
    bool has;

    rlock__groups_lock(lock->group);
    group = rlock__group_find(lock->group, owner);
    has = group != NULL && rlock__group_standing(group, ret_standing);
    rlock__groups_unlock(lock->group);
    return has;
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
    .begin_extend = begin_extend,
    .wait = await,
    .known = known,
    .standing = standing,
    .cancel = cancel,
};

/* The leaves of all members, as they were given. */
struct leaves {
    size_t n;
    struct rlock__spec *at[RLOCK__MEMBERS_MAX];
};

static int make(const struct rlock__group_ops *ops, const struct leaves *leaves,
                int64_t max_lease_us, struct rlock_handle **ret_lock)
{
    struct rlock__group_spec *spec = rlock__group_spec_new(ops, leaves->at, leaves->n);
    struct rlock_handle *lock = calloc(1, sizeof(*lock) + leaves->n * sizeof(struct rlock__result));

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

/* ---- The constructors ---- */

static int add_leaf(struct leaves *leaves, struct rlock__spec *spec)
{
    char name[96];

    if (leaves->n == RLOCK__MEMBERS_MAX) {
        return rlock__fail(RLOCK_EINVAL, "more than %d members", RLOCK__MEMBERS_MAX);
    }
    if (rlock__has_units(spec)) {
        return rlock__fail(RLOCK_ENOTSUP, "a %s lock cannot be a member of another lock",
                           spec->ops->kind);
    }
    for (size_t i = 0; i < leaves->n; i++) {
        if (leaves->at[i]->core == spec->core &&
            rlock__bytes_equal(leaves->at[i]->key, spec->key)) {
            return rlock__fail(RLOCK_EINVAL, "lock %s is a member twice",
                               rlock__text(spec->name, name, sizeof(name)));
        }
    }
    leaves->at[leaves->n++] = spec;
    return 0;
}

/* The members of a multi-lock count as its own. */
static int add_member(struct leaves *leaves, const struct rlock_handle *member)
{
    int code = 0;

    if (member->spec != NULL) {
        return add_leaf(leaves, member->spec);
    }
    if ((rlock__lock_caps(member) & RLOCK__CAP_QUORUM) != 0) {
        return rlock__fail(RLOCK_ENOTSUP, "a RedLock cannot be a member");
    }
    for (size_t i = 0; code == 0 && i < member->group->n; i++) {
        code = add_leaf(leaves, member->group->members[i]);
    }
    return code;
}

/* What both kinds begin with: checks the arguments, and adds each member as the kind does it. */
static int gather(const struct rlock__group_ops *ops, struct rlock_handle *const *members, size_t n,
                  const struct rlock_opts *opts, struct rlock_handle **ret_lock,
                  int (*add)(struct leaves *leaves, const struct rlock_handle *member),
                  struct leaves *leaves, struct rlock_opts *ret_opts)
{
    int code;

    *ret_opts = (struct rlock_opts){.size = sizeof(*ret_opts)};
    rlock__detail_clear();
    if (members == NULL || n == 0 || ret_lock == NULL) {
        return rlock__fail(RLOCK_EINVAL, "members or ret_lock is NULL, or n is 0");
    }
    code = rlock__opts_read(ret_opts, opts);
    if (code == 0) {
        code = rlock__lock_opts_check(
            ops->kind, (ops->caps & RLOCK__CAP_QUORUM) != 0 ? RLOCK__OPTION_MAX_LEASE : 0,
            ret_opts);
    }
    for (size_t i = 0; code == 0 && i < n; i++) {
        code = members[i] != NULL ? add(leaves, members[i])
                                  : rlock__fail(RLOCK_EINVAL, "a member is NULL");
    }
    for (size_t i = 0; code == 0 && i < leaves->n; i++) {
        code = rlock__client_check(rlock__client_of(leaves->at[i]->core));
    }
    return code;
}

int rlock_multi_new(struct rlock_handle *const *members, size_t n, const struct rlock_opts *opts,
                    struct rlock_handle **ret_lock)
{
    struct leaves leaves = {0};
    struct rlock_opts copy;
    int code = gather(&rlock__multi_ops, members, n, opts, ret_lock, add_member, &leaves, &copy);

    return code == 0 ? make(&rlock__multi_ops, &leaves, 0, ret_lock) : code;
}

/* Each of them on a server of its own, as far as we know. */
static int add_server(struct leaves *leaves, const struct rlock_handle *member)
{
    if ((rlock__lock_caps(member) & RLOCK__CAP_MEMBERS) != 0) {
        return rlock__fail(RLOCK_ENOTSUP, "a RedLock has single locks as members");
    }
    if ((rlock__lock_caps(member) & RLOCK__CAP_FENCED) != 0) {
        return rlock__fail(RLOCK_ENOTSUP, "a RedLock's tokens would not grow: no fenced members");
    }
    if (member->client->router != NULL) {
        return rlock__fail(RLOCK_ENOTSUP, "a RedLock's members are on servers of their own, not "
                                          "in a cluster or behind Sentinels");
    }
    for (size_t i = 0; i < leaves->n; i++) {
        if (rlock__client_of(leaves->at[i]->core) == member->client) {
            return rlock__fail(RLOCK_EINVAL, "two members of a RedLock share a client");
        }
    }
    return add_leaf(leaves, member->spec);
}

int rlock_redlock_new(struct rlock_handle *const *members, size_t n, const struct rlock_opts *opts,
                      struct rlock_handle **ret_lock)
{
    struct leaves leaves = {0};
    struct rlock_opts copy;
    int code = gather(&rlock__redlock_ops, members, n, opts, ret_lock, add_server, &leaves, &copy);

    if (code != 0) {
        return code;
    }
    if (n % 2 == 0) {
        struct rlock_client *client = rlock__client_of(leaves.at[0]->core);

        rlock__enter(client);
        rlock__note(&client->core, RLOCK_LOG_WARNING, rlock__about("redlock", NULL, 0),
                    "a RedLock of %zu servers survives the loss of %zu, as one of %zu would", n,
                    (n - 1) / 2, n - 1);
        rlock__leave(client);
    }
    copy.max_lease_ms =
        copy.max_lease_ms == 0 ? RLOCK__MAX_LEASE_MS : rlock__max(copy.max_lease_ms, 0);
    return make(&rlock__redlock_ops, &leaves, copy.max_lease_ms * RLOCK__MS, ret_lock);
}
