/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An unlock that gets no turn on its group. It ends the members' renewal on the calling thread,
 * beside the call that has the turn. The next call gets the turn when that is done, lest it end the
 * renewal of a later hold.
 */
#include <stdio.h>

#include "base/clock.h"
#include "drive/turn.h"

RLOCK__REQUIRES(home)
static int not_held(const struct rlock__turn *turn, char ret_detail[static RLOCK__DETAIL_SIZE])
{
    (void)snprintf(ret_detail, RLOCK__DETAIL_SIZE, "lock %s: %s", turn->spec->name.at,
                   rlock_strerror(RLOCK_ENOTOWNER));
    return RLOCK_ENOTOWNER;
}

/* Gives up a level. Returns the code, and writes its text. */
RLOCK__EXCLUDES(home)
static int owe(const struct rlock__turn *turn, char ret_detail[static RLOCK__DETAIL_SIZE])
{
    struct rlock__group *group;
    struct rlock__group_step step;
    int code;

    rlock__groups_lock(turn->spec);
    group = rlock__group_find(turn->spec, turn->owner);
    if (group == NULL) {
        code = not_held(turn, ret_detail);
        rlock__groups_unlock(turn->spec);
        return code;
    }
    code = rlock__group_owe(group, rlock__now_us(), ret_detail, &step);
    group->users++;
    group->busy++;
    rlock__groups_unlock(turn->spec);
    rlock__group_report(turn->spec, step.loss, NULL);
    rlock__turn_carry_out(&step, NULL);
    rlock__groups_lock(turn->spec);
    rlock__turn_hand_on(group, NULL);
    rlock__groups_unlock_and_drop(group);
    return code;
}

int rlock__turn_refuse(struct rlock__turn *turn, int code, const char *why)
{
    char detail[RLOCK__DETAIL_SIZE];
    int owed = turn->leaves ? owe(turn, detail) : 0;

    if (owed == 0 || code == RLOCK_ECLOSED) {
        return rlock__fail(code, "%s", why);
    }
    return rlock__fail(owed, "%s", detail);
}

static void end_take(struct rlock__turn *turn)
{
    struct rlock__op *op = rlock__op_of(turn);

    op->code = turn->stop != 0             ? turn->stop
               : turn->effort.wait_us == 0 ? RLOCK_EBUSY
                                           : RLOCK_ETIMEDOUT;
    rlock__op_say(op, "lock %s: %s", turn->spec->name.at, rlock_strerror(op->code));
}

void rlock__turn_end_in_line(struct rlock__turn *turn)
{
    struct rlock__op *op = rlock__op_of(turn);
    char detail[RLOCK__DETAIL_SIZE];

    if (!turn->leaves) {
        end_take(turn);
        return;
    }
    op->code = owe(turn, detail);
    rlock__op_say(op, "%s", detail);
    rlock__groups_lock(turn->spec);
    rlock__turn_blame_close(turn);
    rlock__groups_unlock(turn->spec);
    if (turn->stop != 0) {
        op->code = turn->stop;
        rlock__op_say(op, "lock %s: %s", turn->spec->name.at, rlock_strerror(op->code));
    }
}
