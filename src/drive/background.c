/* SPDX-License-Identifier: Apache-2.0 */
/* Background operations: the service thread of their home runs their steps. */
#include <stdarg.h>
#include <stdio.h>
#include <utlist.h>

#include "base/of.h"
#include "drive/group_op.h"

bool rlock__background_add(struct rlock_client *home, struct rlock__background *background)
{
    if (!home->background_closed) {
        background->home = home;
        DL_APPEND(home->background, background);
    }
    return !home->background_closed;
}

void rlock__background_remove(struct rlock__background *background)
{
    DL_DELETE(background->home->background, background);
    rlock__timer_unset(&background->home->due, &background->due);
    background->home = NULL;
}

void rlock__background_due(struct rlock__background *background, int64_t at)
{
    struct rlock_client *home = background->home;

    rlock__timer_set(&home->due, &background->due, at);
    if (home->background_asleep) {
        home->background_asleep = false;
        rlock__wake_service(home);
    }
}

int64_t rlock__background_next(struct rlock_client *client)
{
    int64_t next;

    rlock__groups_mutex_lock(&client->groups_mutex);
    next = rlock__timers_next(&client->due);
    client->background_asleep = true;
    rlock__groups_mutex_unlock(&client->groups_mutex);
    return next;
}

/* Runs a step. If the operation is complete then, hands it to the dispatcher. */
static void serve(struct rlock_client *client, struct rlock__background *background)
{
    if (background->step(background) != RLOCK__OVER) {
        return;
    }
    rlock__groups_mutex_lock(&client->groups_mutex);
    rlock__background_remove(background);
    rlock__groups_mutex_unlock(&client->groups_mutex);
    rlock__enter(client);
    DL_APPEND(client->finished, background->op);
    rlock__leave(client);
}

/* Returns an operation with a step that is due; NULL: there is none. */
static struct rlock__background *take_due(struct rlock_client *client, int64_t now)
{
    struct rlock__timer *first;

    rlock__groups_mutex_lock(&client->groups_mutex);
    client->background_asleep = false;
    first = rlock__timers_next(&client->due) <= now ? client->due.root : NULL;
    if (first != NULL) {
        rlock__timer_unset(&client->due, first);
    }
    rlock__groups_mutex_unlock(&client->groups_mutex);
    return first != NULL ? RLOCK__OF(struct rlock__background, due, first) : NULL;
}

void rlock__background_serve(struct rlock_client *client, int64_t now)
{
    struct rlock__background *background;

    while ((background = take_due(client, now)) != NULL) {
        serve(client, background);
    }
}

/* Has the operations with this cancel signal run a step; NULL: all operations. */
RLOCK__REQUIRES(groups) static void ring(const struct rlock_client *client, const void *cancel)
{
    struct rlock__background *background;

    DL_FOREACH(client->background, background) {
        if (cancel == NULL || background->cancel == cancel) {
            rlock__background_due(background, 0);
        }
    }
}

void rlock__background_cancel(struct rlock_client *client, const void *cancel)
{
    rlock__groups_mutex_lock(&client->groups_mutex);
    ring(client, cancel);
    rlock__groups_mutex_unlock(&client->groups_mutex);
}

bool rlock__background_close(struct rlock_client *client)
{
    bool none;

    rlock__groups_mutex_lock(&client->groups_mutex);
    if (!client->background_closed) {
        client->background_closed = true;
        ring(client, NULL);
    }
    none = client->background == NULL;
    rlock__groups_mutex_unlock(&client->groups_mutex);
    return none;
}

/* ---- Group operations ---- */

void rlock__op_say(struct rlock__op *op, const char *format, ...)
{
    va_list args;

    if (op->texts != NULL) {
        rlock__texts_clear(op->texts);
        va_start(args, format);
        (void)vsnprintf(op->texts->detail, sizeof(op->texts->detail), format, args);
        va_end(args);
    }
}

int64_t rlock__background_step_group_op(struct rlock__background *background)
{
    return rlock__group_op_step(RLOCK__OF(struct rlock__group_op, background, background), NULL);
}

void rlock__group_op_cancel(struct rlock__group_op *group_op)
{
    group_op->canceled = !group_op->leaves && !group_op->extends;
    if (group_op->background.home != NULL) {
        rlock__background_due(&group_op->background, 0);
    }
}
