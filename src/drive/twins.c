/* SPDX-License-Identifier: Apache-2.0 */
/* Members that turn out to be one: through two clients of one server. */
#include <stdio.h>

#include "drive/group_op.h"

/* What is known of the members' servers; 0 nothing. Links go up and down meanwhile: each is asked
 * once, or two that go down at one time might be taken for one. */
static bool read_servers(const struct rlock__group_spec *spec,
                         uint64_t ret_servers[static RLOCK__MEMBERS_MAX])
{
    bool known = true;

    for (size_t i = 0; i < spec->n; i++) {
        const struct rlock_client *client = rlock__client_of(spec->members[i]->core);

        ret_servers[i] = atomic_load(&client->nodes->ios[0].server);
        known = known && ret_servers[i] != 0;
    }
    return known;
}

/* Whether two members on one server may not be: they are one lock, or a RedLock's. */
static bool may_not_meet(const struct rlock__group_spec *spec, const struct rlock__spec *a,
                         const struct rlock__spec *b)
{
    return (spec->ops->caps & RLOCK__CAP_QUORUM) != 0 ||
           (rlock__bytes_equal(a->key, b->key) &&
            rlock__client_of(a->core)->uri.db == rlock__client_of(b->core)->uri.db);
}

static void refuse(struct rlock__group *group, const struct rlock__spec *a,
                   const struct rlock__spec *b, int64_t now)
{
    char name[96];

    (void)snprintf(group->texts.detail, sizeof(group->texts.detail),
                   "lock %s: clients of two members are on one server (%s and %s)",
                   rlock__text(a->name, name, sizeof(name)), a->core->opts.address,
                   b->core->opts.address);
    rlock__group_back_out(group, RLOCK_EINVAL, now);
}

bool rlock__twins_refuse(struct rlock__group *group, int64_t now)
{
    const struct rlock__group_spec *spec = group->spec;
    uint64_t servers[RLOCK__MEMBERS_MAX];
    bool known;

    if (spec->together || group->phase != RLOCK__GROUP_TAKING) { /* one client; it takes none */
        return true;
    }
    known = read_servers(spec, servers);
    for (size_t i = 1; i < spec->n; i++) {
        for (size_t j = i; servers[i] != 0 && j-- > 0;) {
            if (servers[i] == servers[j] &&
                may_not_meet(spec, spec->members[i], spec->members[j])) {
                refuse(group, spec->members[j], spec->members[i], now);
                return known;
            }
        }
    }
    return known;
}
