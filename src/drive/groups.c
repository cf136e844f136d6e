/* SPDX-License-Identifier: Apache-2.0 */
/* Where groups live, and what happens to them when a member's hold is lost, or a thread ends. */
#include <utlist.h>

#include "base/clock.h"
#include "drive/alarm.h"
#include "drive/group_op.h"

struct rlock_client *rlock__home_of(const struct rlock__group_spec *spec)
{
    return rlock__client_of(spec->members[0]->core);
}

void rlock__groups_lock(const struct rlock__group_spec *spec)
{
    rlock__groups_mutex_lock(&rlock__home_of(spec)->groups_mutex);
}

void rlock__groups_unlock(const struct rlock__group_spec *spec)
{
    rlock__groups_mutex_unlock(&rlock__home_of(spec)->groups_mutex);
}

struct rlock__group *rlock__group_find(const struct rlock__group_spec *spec,
                                       struct rlock__owner owner)
{
    return rlock__groups_find(&rlock__home_of(spec)->groups, spec, owner);
}

/* A reference keeps a group's memory, wherever it is. */
static void unref(struct rlock__group *group)
{
    if (atomic_fetch_sub(&group->refs, 1) == 1) {
        rlock__group_free(group);
    }
}

/* Lets losses of the group's other members find it (rlock__groups_join), or no more
 * (rlock__groups_part). */
RLOCK__EXCLUDES(groups)
static void at_other_homes(struct rlock__group *group,
                           void (*act)(struct rlock__groups *groups, struct rlock__member *member))
{
    for (size_t i = 1; i < group->spec->n; i++) {
        struct rlock_client *client = rlock__client_of(group->spec->members[i]->core);

        rlock__groups_mutex_lock(&client->groups_mutex);
        act(&client->groups, &group->members[i]);
        rlock__groups_mutex_unlock(&client->groups_mutex);
    }
}

void rlock__group_move_in(struct rlock__group *group)
{
    atomic_init(&group->refs, 1);
    group->at_home = true;
    group->users = 1;
    rlock__groups_join(&rlock__home_of(group->spec)->groups, group->members);
    rlock__groups_unlock(group->spec);
    at_other_homes(group, rlock__groups_join);
    rlock__groups_lock(group->spec);
}

/* Whether the client that keeps the groups is closed, or so many of the members' clients are that
 * the others are not a hold. */
static bool is_closed(const struct rlock__group_spec *spec)
{
    size_t open = 0;

    if (atomic_load(&rlock__client_of(spec->first->core)->closed)) {
        return true;
    }
    for (size_t i = 0; i < spec->n; i++) {
        open += !atomic_load(&rlock__client_of(spec->members[i]->core)->closed);
    }
    return open < spec->quorum;
}

/* A lost hold, which its owner did not unlock before the clients were closed, ends with them. */
void rlock__groups_unlock_and_drop(struct rlock__group *group)
{
    bool idle = group->at_home && group->users == 0, over;

    if (idle && group->lost && is_closed(group->spec)) {
        rlock__group_end_lost(group);
    }
    over = idle && rlock__group_is_over(group);
    if (over) {
        group->at_home = false;
        rlock__groups_part(&rlock__home_of(group->spec)->groups, group->members);
    }
    rlock__groups_unlock(group->spec);
    if (over) {
        at_other_homes(group, rlock__groups_part);
        unref(group);
    }
}

void rlock__group_op_blame_close(struct rlock__group_op *group_op)
{
    struct rlock__op *op = rlock__op_of(group_op);

    if (group_op->leaves && (op->code == RLOCK_ENOTOWNER || op->code == RLOCK_ELOST) &&
        is_closed(group_op->spec)) {
        op->code = RLOCK_ECLOSED;
        rlock__op_say(op, "lock %s: the client is closed", group_op->spec->name.at);
    }
}

/* ---- Losses ---- */

/* Who reports a group's loss: the first member's client, or another while that one is closed, or
 * the one that is just being closed; NULL nobody can. */
static struct rlock_client *reporter(const struct rlock__group_spec *spec,
                                     struct rlock_client *closing)
{
    struct rlock_client *client = rlock__client_of(spec->first->core);

    for (size_t i = 0; atomic_load(&client->closed) && i < spec->n; i++) {
        client = rlock__client_of(spec->members[i]->core);
    }
    return atomic_load(&client->closed) ? closing : client;
}

void rlock__group_report(const struct rlock__group_spec *spec, struct rlock__loss *loss,
                         struct rlock_client *closing)
{
    struct rlock_client *client = reporter(spec, closing);
    char name[96];

    if (loss == NULL || client == NULL) {
        (void)rlock__loss_free(loss);
        return;
    }
    rlock__enter(client);
    rlock__note(&client->core, RLOCK_LOG_WARNING, rlock__about("lost", NULL, RLOCK_ELOST),
                "lock %s: lost: %s", rlock__text(rlock__loss_name(loss), name, sizeof(name)),
                rlock_reason_text((int)loss->reason));
    client->core.stats.losses[loss->reason]++;
    DL_APPEND(client->core.lost, loss);
    rlock__leave(client);
}

/* The members of groups that a loss concerns (NULL: of all groups), each with a reference on its
 * group. */
static struct rlock__member *hits(struct rlock_client *client, const struct rlock__loss *loss)
{
    struct rlock__member *member = NULL, *first = NULL;

    rlock__groups_mutex_lock(&client->groups_mutex);
    while ((member = rlock__groups_hit(&client->groups, loss, member)) != NULL) {
        (void)atomic_fetch_add(&member->group->refs, 1);
        member->next_hit = first;
        first = member;
    }
    rlock__groups_mutex_unlock(&client->groups_mutex);
    return first;
}

bool rlock__groups_lost(const struct rlock__loss *loss)
{
    struct rlock_client *client = rlock__client_of(loss->spec->core);
    struct rlock__member *member, *after;

    if (loss->kind != NULL) {
        return true;
    }
    for (member = hits(client, loss); member != NULL; member = after) {
        struct rlock__group *group = member->group;

        after = member->next_hit;
        rlock__groups_lock(group->spec);
        if (member->levels > 0) {
            rlock__group_member_lost(group, loss->reason, rlock__now_us());
        }
        if (group->untold != NULL) {
            rlock__group_cleanup(group, client);
        }
        rlock__groups_unlock_and_drop(group);
        if (group->owner.given) { /* the validity of the rest may end sooner */
            struct rlock_client *home = rlock__home_of(group->spec);

            rlock__enter(home);
            rlock__alarms_lost(home, group->owner.id, (int)loss->reason);
            rlock__leave(home);
        }
        unref(group);
    }
    return loss->own > 0;
}

void rlock__groups_closed(struct rlock_client *client)
{
    struct rlock__member *member, *after;

    for (member = hits(client, NULL); member != NULL; member = after) {
        struct rlock__group *group = member->group;

        after = member->next_hit;
        rlock__groups_lock(group->spec);
        rlock__groups_unlock_and_drop(group);
        unref(group);
    }
}

RLOCK__REQUIRES(groups) static void end_owner(struct rlock__group *group)
{
    struct rlock__group_op *op;

    DL_FOREACH(group->line, op) {
        rlock__group_op_cancel(op);
        rlock__group_op_notify(op);
    }
    if (group->waiter != NULL) {
        rlock__group_op_cancel(group->waiter);
    }
    rlock__group_owner_end(group);
    rlock__group_cleanup(group, NULL);
}

void rlock__groups_owner_end(struct rlock_client *client, uint64_t owner)
{
    struct rlock__member *member, *after;

    for (member = hits(client, NULL); member != NULL; member = after) {
        struct rlock__group *group = member->group;

        after = member->next_hit;
        rlock__groups_lock(group->spec);
        if (group->owner.given && group->owner.id == owner) {
            end_owner(group);
        }
        rlock__groups_unlock_and_drop(group);
        unref(group);
    }
}

void rlock__groups_thread_exit(const struct rlock__group_spec *spec, uint64_t thread)
{
    struct rlock__group *group;

    rlock__groups_lock(spec);
    group = rlock__group_find(spec, (struct rlock__owner){.id = thread});
    if (group == NULL) {
        rlock__groups_unlock(spec);
        return;
    }
    group->users++;
    rlock__group_abandon(group, RLOCK_LOST_THREAD_EXITED);
    rlock__groups_unlock(spec);
    for (size_t i = 0; i < spec->n; i++) {
        struct rlock_client *client = rlock__client_of(spec->members[i]->core);

        rlock__enter(client);
        rlock__core_thread_exit(&client->core, spec->members[i], thread, rlock__now_us());
        rlock__leave_and_drive(client);
    }
    rlock__groups_lock(spec);
    rlock__group_cleanup(group, NULL);
    group->users--;
    rlock__groups_unlock_and_drop(group);
}
