/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An unlock that gets no turn on its group. It ends the members' renewal on the calling thread,
 * beside the call that has the turn. The next call gets the turn when that is done, lest it end the
 * renewal of a later hold.
 */
#include <stdio.h>

#include "base/clock.h"
#include "drive/group_op.h"

/* ---- What comes of an operation ---- */

/* Most texts are empty. */
static void set_text(char ret_detail[static RLOCK__DETAIL_SIZE], const char *text)
{
    ret_detail[0] = '\0';
    if (text[0] != '\0') {
        (void)snprintf(ret_detail, RLOCK__DETAIL_SIZE, "%s", text);
    }
}

/* Keeps the results of the members, for rlock_members(). */
RLOCK__REQUIRES(groups) static void note_results(const struct rlock__group_op *group_op)
{
    for (size_t i = 0; i < group_op->spec->n; i++) {
        const struct rlock__member *member = &group_op->group->members[i];
        struct rlock__result *result = &group_op->results[i];
        bool waits = member->state == RLOCK__MEMBER_TAKING;

        result->held = member->state == RLOCK__MEMBER_HELD;
        result->code = waits ? RLOCK_ETIMEDOUT : result->held ? 0 : member->code;
        set_text(result->detail, result->held      ? ""
                                 : member->running ? "no answer yet"
                                                   : member->texts.detail);
    }
}

RLOCK__REQUIRES(groups) static void trace(struct rlock__group_op *group_op)
{
    const struct rlock__group *group = group_op->group;
    struct rlock__tracing *tracing = rlock__op_of(group_op)->tracing;

    tracing->ended_at = rlock__now_us();
    tracing->server = "";
    tracing->requests = group->effort.requests;
    tracing->server_us = group->effort.server_us;
    tracing->levels = rlock__group_left(group);
    if (group_op->leaves && group->since != 0) {
        tracing->held_us = tracing->ended_at - group->since;
    }
}

void rlock__group_op_note(struct rlock__group_op *group_op)
{
    note_results(group_op);
    if (rlock__op_of(group_op)->tracing != NULL) {
        trace(group_op);
    }
}

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

/* ---- Without a turn ---- */

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
