/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An unlock that gets no turn on its group. It ends the members' renewal on the calling thread,
 * beside the call that has the turn. The next call gets the turn when that is done, lest it end the
 * renewal of a later hold.
 */
#include <stdio.h>

#include "base/clock.h"
#include "drive/group_op.h"

void rlock__group_op_count(struct rlock__group_op *group_op)
{
    struct rlock_client *client = rlock__client_of(group_op->spec->first->core);
    struct rlock_stats *stats = &client->groups.stats;
    const unsigned kind = group_op->spec->ops->number;
    const unsigned code = (unsigned)-rlock__op_of(group_op)->code;

    rlock__groups_mutex_lock(&client->groups_mutex);
    if (group_op->leaves) {
        stats->unlocks[kind][code]++;
    } else if (group_op->extends) {
        stats->extends[code]++;
    } else {
        stats->takes[kind][code]++;
    }
    if (!group_op->leaves && !group_op->extends && code == 0) {
        rlock__histogram_add(&stats->wait, rlock__now_us() - group_op->begun_at);
    }
    rlock__groups_mutex_unlock(&client->groups_mutex);
}

RLOCK__REQUIRES(groups)
static int not_held(const struct rlock__group_op *group_op, struct rlock__texts *ret_texts)
{
    rlock__texts_clear(ret_texts);
    (void)snprintf(ret_texts->detail, sizeof(ret_texts->detail), "lock %s: %s",
                   group_op->spec->name.at, rlock_strerror(RLOCK_ENOTOWNER));
    return RLOCK_ENOTOWNER;
}

/* Gives up a level. Returns the code, and writes its texts. */
RLOCK__EXCLUDES(groups)
static int owe(const struct rlock__group_op *group_op, struct rlock__texts *ret_texts)
{
    struct rlock__group *group;
    struct rlock__group_step step;
    int code;

    rlock__groups_lock(group_op->spec);
    group = rlock__group_find(group_op->spec, group_op->owner);
    if (group == NULL) {
        code = not_held(group_op, ret_texts);
        rlock__groups_unlock(group_op->spec);
        return code;
    }
    code = rlock__group_owe(group, rlock__now_us(), ret_texts, &step);
    group->users++;
    group->busy++;
    rlock__groups_unlock(group_op->spec);
    rlock__group_report(group_op->spec, step.loss, NULL);
    rlock__group_op_carry_out(&step, NULL);
    rlock__groups_lock(group_op->spec);
    rlock__group_op_hand_on(group, NULL);
    rlock__groups_unlock_and_drop(group);
    return code;
}

int rlock__group_op_refuse(struct rlock__group_op *group_op, int code, const char *why)
{
    struct rlock__texts texts;
    int owed = group_op->leaves ? owe(group_op, &texts) : 0;

    if (owed == 0 || code == RLOCK_ECLOSED) {
        return rlock__fail(code, "%s", why);
    }
    return rlock__fail_as(owed, &texts);
}

/* A take, or an extension: the hold is as it was. */
static void end_other(struct rlock__group_op *group_op)
{
    struct rlock__op *op = rlock__op_of(group_op);

    op->code = group_op->stop != 0             ? group_op->stop
               : group_op->extends             ? RLOCK_EINDOUBT
               : group_op->effort.wait_us == 0 ? RLOCK_EBUSY
                                               : RLOCK_ETIMEDOUT;
    rlock__op_say(op, "lock %s: %s", group_op->spec->name.at, rlock_strerror(op->code));
}

void rlock__group_op_end_in_line(struct rlock__group_op *group_op)
{
    struct rlock__op *op = rlock__op_of(group_op);
    struct rlock__texts texts;

    if (group_op->leaves) {
        op->code = owe(group_op, &texts);
        if (op->texts != NULL) {
            *op->texts = texts;
        }
    } else {
        end_other(group_op);
    }
    rlock__groups_lock(group_op->spec);
    rlock__group_op_blame_close(group_op);
    if (group_op->leaves && group_op->stop != 0) {
        op->code = group_op->stop;
        rlock__op_say(op, "lock %s: %s", group_op->spec->name.at, rlock_strerror(op->code));
    }
    rlock__groups_unlock(group_op->spec);
    rlock__group_op_count(group_op);
}
