/* SPDX-License-Identifier: Apache-2.0 */
/* The constructors of multi-locks and RedLocks: which members they may have. */
#include "client/lock.h"
#include "multi/group.h"

/* The leaves of all members, as they were given. */
struct leaves {
    size_t n;
    struct rlock__spec *at[RLOCK__MEMBERS_MAX];
};

static int add_leaf(struct leaves *leaves, struct rlock__spec *spec)
{
    char name[96];

    if (leaves->n == RLOCK__MEMBERS_MAX) {
        return rlock__fail(RLOCK_EINVAL, "more than %d members", RLOCK__MEMBERS_MAX);
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
static int gather(struct rlock_handle *const *members, size_t n, const struct rlock_opts *opts,
                  struct rlock_handle **ret_lock,
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
    int code = gather(members, n, opts, ret_lock, add_member, &leaves, &copy);

    return code == 0 ? rlock__group_lock_new(&rlock__multi_ops, leaves.at, leaves.n, 0, ret_lock)
                     : code;
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
    int code = gather(members, n, opts, ret_lock, add_server, &leaves, &copy);

    if (code != 0) {
        return code;
    }
    if (copy.max_lease_ms > INT32_MAX) {
        return rlock__fail(RLOCK_EINVAL, "max_lease_ms is out of its range");
    }
    if (n % 2 == 0) {
        struct rlock_client *client = rlock__client_of(leaves.at[0]->core);

        rlock__enter(client);
        rlock__note(&client->core, RLOCK_LOG_WARNING,
                    "a RedLock of %zu servers survives the loss of %zu, as one of %zu would", n,
                    (n - 1) / 2, n - 1);
        rlock__leave(client);
    }
    copy.max_lease_ms =
        copy.max_lease_ms == 0 ? RLOCK__MAX_LEASE_MS : rlock__max(copy.max_lease_ms, 0);
    return rlock__group_lock_new(&rlock__redlock_ops, leaves.at, leaves.n,
                                 copy.max_lease_ms * RLOCK__MS, ret_lock);
}
