/* SPDX-License-Identifier: Apache-2.0 */
#include "multi/groups.h"

#include "base/of.h"

static unsigned mix(unsigned hash, struct rlock__owner owner)
{
    uint64_t mixed = (owner.id * 2 + owner.given) * UINT64_C(0x9e3779b97f4a7c15);

    return hash ^ (unsigned)(mixed >> 32);
}

static bool is_of(const struct rlock__group *group, struct rlock__owner owner)
{
    return group->owner.id == owner.id && group->owner.given == owner.given;
}

static struct rlock__member *member_of(struct rlock__table_node *node)
{
    return RLOCK__OF(struct rlock__member, node, node);
}

struct rlock__group *rlock__groups_find(const struct rlock__groups *groups,
                                        const struct rlock__group_spec *spec,
                                        struct rlock__owner owner)
{
    struct rlock__table_node *node =
        rlock__table_first(&groups->members, mix(spec->members[0]->hash, owner));

    for (; node != NULL; node = rlock__table_next(node)) {
        const struct rlock__member *member = member_of(node);
        struct rlock__group *group = member->group;

        if (member == group->members && is_of(group, owner) &&
            rlock__group_spec_equal(group->spec, spec)) {
            return group;
        }
    }
    return NULL;
}

void rlock__groups_join(struct rlock__groups *groups, struct rlock__member *member)
{
    rlock__table_add(&groups->members, &member->node,
                     mix(member->spec->hash, member->group->owner));
}

void rlock__groups_part(struct rlock__groups *groups, struct rlock__member *member)
{
    rlock__table_remove(&groups->members, &member->node);
}

static struct rlock__member *each(const struct rlock__groups *groups,
                                  const struct rlock__member *after)
{
    struct rlock__table_node *node =
        rlock__table_after(&groups->members, after != NULL ? &after->node : NULL);

    return node != NULL ? member_of(node) : NULL;
}

struct rlock__member *rlock__groups_hit(const struct rlock__groups *groups,
                                        const struct rlock__loss *loss,
                                        const struct rlock__member *after)
{
    struct rlock__owner owner;
    struct rlock__table_node *node;

    if (loss == NULL) {
        return each(groups, after);
    }
    owner = (struct rlock__owner){.id = loss->owner_id, .given = loss->given};
    node = after != NULL ? rlock__table_next(&after->node)
                         : rlock__table_first(&groups->members, mix(loss->spec->hash, owner));
    for (; node != NULL; node = rlock__table_next(node)) {
        struct rlock__member *member = member_of(node);

        if (is_of(member->group, owner) && rlock__spec_equal(member->spec, loss->spec)) {
            return member;
        }
    }
    return NULL;
}
