/* SPDX-License-Identifier: Apache-2.0 */
/* What no thread waits for: the service thread of its home takes its steps. */
#include <stdarg.h>
#include <stdio.h>
#include <utlist.h>

#include "base/of.h"
#include "drive/turn.h"

bool rlock__begun_add(struct rlock_client *home, struct rlock__begun *begun)
{
    if (!home->begun_closed) {
        begun->home = home;
        DL_APPEND(home->begun, begun);
    }
    return !home->begun_closed;
}

void rlock__begun_remove(struct rlock__begun *begun)
{
    DL_DELETE(begun->home->begun, begun);
    rlock__timer_unset(&begun->home->due, &begun->due);
    begun->home = NULL;
}

void rlock__begun_due(struct rlock__begun *begun, int64_t at)
{
    struct rlock_client *home = begun->home;

    rlock__timer_set(&home->due, &begun->due, at);
    if (home->begun_asleep) {
        home->begun_asleep = false;
        rlock__wake_service(home);
    }
}

int64_t rlock__begun_next(struct rlock_client *client)
{
    int64_t next;

    rlock__home_mutex_lock(&client->home_mutex);
    next = rlock__timers_next(&client->due);
    client->begun_asleep = true;
    rlock__home_mutex_unlock(&client->home_mutex);
    return next;
}

/* Takes a step, and hands the operation to the dispatcher if that is complete. */
static void serve(struct rlock_client *client, struct rlock__begun *begun)
{
    if (begun->step(begun) != RLOCK__OVER) {
        return;
    }
    rlock__home_mutex_lock(&client->home_mutex);
    rlock__begun_remove(begun);
    rlock__home_mutex_unlock(&client->home_mutex);
    rlock__enter(client);
    DL_APPEND(client->finished, begun->op);
    rlock__leave(client);
}

/* One whose next step is due by now; NULL: there is none. */
static struct rlock__begun *take_due(struct rlock_client *client, int64_t now)
{
    struct rlock__timer *first;

    rlock__home_mutex_lock(&client->home_mutex);
    client->begun_asleep = false;
    first = rlock__timers_next(&client->due) <= now ? client->due.root : NULL;
    if (first != NULL) {
        rlock__timer_unset(&client->due, first);
    }
    rlock__home_mutex_unlock(&client->home_mutex);
    return first != NULL ? RLOCK__OF(struct rlock__begun, due, first) : NULL;
}

void rlock__begun_serve(struct rlock_client *client, int64_t now)
{
    struct rlock__begun *begun;

    while ((begun = take_due(client, now)) != NULL) {
        serve(client, begun);
    }
}

/* Lets those with a cancel signal, NULL all, take a step. */
RLOCK__REQUIRES(home) static void ring(const struct rlock_client *client, const void *cancel)
{
    struct rlock__begun *begun;

    DL_FOREACH(client->begun, begun) {
        if (cancel == NULL || begun->cancel == cancel) {
            rlock__begun_due(begun, 0);
        }
    }
}

void rlock__begun_cancel(struct rlock_client *client, const void *cancel)
{
    rlock__home_mutex_lock(&client->home_mutex);
    ring(client, cancel);
    rlock__home_mutex_unlock(&client->home_mutex);
}

bool rlock__begun_close(struct rlock_client *client)
{
    bool none;

    rlock__home_mutex_lock(&client->home_mutex);
    if (!client->begun_closed) {
        client->begun_closed = true;
        ring(client, NULL);
    }
    none = client->begun == NULL;
    rlock__home_mutex_unlock(&client->home_mutex);
    return none;
}

/* ---- Turns ---- */

void rlock__op_say(struct rlock__op *op, const char *format, ...)
{
    va_list args;

    if (op->texts != NULL) {
        va_start(args, format);
        (void)vsnprintf(op->texts->detail, sizeof(op->texts->detail), format, args);
        va_end(args);
    }
}

int64_t rlock__begun_step_turn(struct rlock__begun *begun)
{
    return rlock__turn_step(RLOCK__OF(struct rlock__turn, begun, begun), NULL);
}

void rlock__turn_cancel(struct rlock__turn *turn)
{
    turn->canceled = !turn->leaves;
    if (turn->begun.home != NULL) {
        rlock__begun_due(&turn->begun, 0);
    }
}
