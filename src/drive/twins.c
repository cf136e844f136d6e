/* SPDX-License-Identifier: Apache-2.0 */
/* Members that turn out to be one: through two clients of one server. */
#include <stdio.h>

#include "drive/turn.h"

static uint64_t server_of(const struct rlock__spec *spec)
{
    return atomic_load(&rlock__client_of(spec->core)->nodes->ios[0].server);
}

/* Whether two members are one lock, or of a RedLock on one server, as far as is known by now. */
static bool are_twins(const struct rlock__group_spec *spec, const struct rlock__spec *a,
                      const struct rlock__spec *b)
{
    bool same = rlock__bytes_equal(a->key, b->key) &&
                rlock__client_of(a->core)->uri.db == rlock__client_of(b->core)->uri.db;
    bool apart = (spec->ops->caps & RLOCK__CAP_QUORUM) != 0;

    return (same || apart) && server_of(a) != 0 && server_of(a) == server_of(b);
}

bool rlock__twins_refuse(struct rlock__group *group, int64_t now)
{
    const struct rlock__group_spec *spec = group->spec;
    char name[96];

    bool known = true;

    if (spec->together || group->phase != RLOCK__GROUP_TAKING) { /* one client; it takes none */
        return true;
    }
    known = server_of(spec->members[0]) != 0;
    for (size_t i = 1; i < spec->n; i++) {
        const struct rlock__spec *b = spec->members[i];

        known = known && server_of(b) != 0;
        for (size_t j = i; group->phase == RLOCK__GROUP_TAKING && j-- > 0;) {
            const struct rlock__spec *a = spec->members[j];

            if (are_twins(spec, a, b)) {
                (void)snprintf(group->detail, sizeof(group->detail),
                               "lock %s: clients of two members are on one server (%s and %s)",
                               rlock__text(a->name, name, sizeof(name)), a->core->address,
                               b->core->address);
                rlock__group_back_out(group, RLOCK_EINVAL, now);
            }
        }
    }
    return known;
}
