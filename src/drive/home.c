/* SPDX-License-Identifier: Apache-2.0 */
#include "drive/home.h"

struct rlock_client *rlock__home_of(const struct rlock__group_spec *spec)
{
    return rlock__client_of(spec->members[0]->core);
}

void rlock__groups_lock(const struct rlock__group_spec *spec)
{
    rlock__home_mutex_lock(&rlock__home_of(spec)->home_mutex);
}

void rlock__groups_unlock(const struct rlock__group_spec *spec)
{
    rlock__home_mutex_unlock(&rlock__home_of(spec)->home_mutex);
}

struct rlock__group *rlock__group_find(const struct rlock__group_spec *spec,
                                       struct rlock__owner owner)
{
    return rlock__home_find(&rlock__home_of(spec)->home, spec, owner);
}

void rlock__group_unref(struct rlock__group *group)
{
    if (atomic_fetch_sub(&group->refs, 1) == 1) {
        rlock__group_free(group);
    }
}

/* Lets losses of the group's members find it (rlock__home_join), or no more (rlock__home_part). */
RLOCK__EXCLUDES(home)
static void at_each_home(struct rlock__group *group,
                         void (*act)(struct rlock__home *home, struct rlock__member *member))
{
    for (size_t i = 0; i < group->spec->n; i++) {
        struct rlock_client *client = rlock__client_of(group->spec->members[i]->core);

        rlock__home_mutex_lock(&client->home_mutex);
        act(&client->home, &group->members[i]);
        rlock__home_mutex_unlock(&client->home_mutex);
    }
}

void rlock__group_move_in(struct rlock__group *group)
{
    atomic_init(&group->refs, 1);
    group->at_home = true;
    rlock__home_add(&rlock__home_of(group->spec)->home, group);
    rlock__groups_unlock(group->spec);
    at_each_home(group, rlock__home_join);
    rlock__groups_lock(group->spec);
}

void rlock__groups_unlock_and_drop(struct rlock__group *group)
{
    bool over = group->at_home && group->users == 0 && rlock__group_is_over(group);

    if (over) {
        group->at_home = false;
        rlock__home_remove(&rlock__home_of(group->spec)->home, group);
    }
    rlock__groups_unlock(group->spec);
    if (over) {
        at_each_home(group, rlock__home_part);
        rlock__group_unref(group);
    }
}
