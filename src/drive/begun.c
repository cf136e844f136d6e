/* SPDX-License-Identifier: Apache-2.0 */
/* Turns that no thread waits for: the service thread of the group's home takes their steps. */
#include <utlist.h>

#include "base/clock.h"
#include "base/of.h"
#include "drive/turn.h"

static struct rlock__turn *turn_of(struct rlock__timer *timer)
{
    return RLOCK__OF(struct rlock__turn, due, timer);
}

bool rlock__begun_add(struct rlock__turn *turn)
{
    struct rlock_client *home = rlock__home_of(turn->spec);

    if (!home->begun_closed) {
        DL_APPEND2(home->begun, turn, begun_prev, begun_next);
    }
    return !home->begun_closed;
}

void rlock__begun_remove(struct rlock__turn *turn)
{
    struct rlock_client *home = rlock__home_of(turn->spec);

    DL_DELETE2(home->begun, turn, begun_prev, begun_next);
    rlock__timer_unset(&home->due, &turn->due);
}

void rlock__begun_due(struct rlock__turn *turn, int64_t at)
{
    struct rlock_client *home = rlock__home_of(turn->spec);

    rlock__timer_set(&home->due, &turn->due, at);
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

/* Takes a step of a turn, and hands its operation to the dispatcher if that is complete. */
static void serve(struct rlock_client *client, struct rlock__turn *turn)
{
    if (rlock__turn_step(turn, NULL) != RLOCK__OVER) {
        return;
    }
    rlock__home_mutex_lock(&client->home_mutex);
    rlock__begun_remove(turn);
    rlock__home_mutex_unlock(&client->home_mutex);
    rlock__enter(client);
    DL_APPEND(client->finished, rlock__op_of(turn));
    rlock__leave(client);
}

/* One whose next step is due by now; NULL: there is none. */
static struct rlock__turn *take_due(struct rlock_client *client, int64_t now)
{
    struct rlock__timer *first;

    rlock__home_mutex_lock(&client->home_mutex);
    client->begun_asleep = false;
    first = rlock__timers_next(&client->due) <= now ? client->due.root : NULL;
    if (first != NULL) {
        rlock__timer_unset(&client->due, first);
    }
    rlock__home_mutex_unlock(&client->home_mutex);
    return first != NULL ? turn_of(first) : NULL;
}

void rlock__begun_serve(struct rlock_client *client, int64_t now)
{
    struct rlock__turn *turn;

    while ((turn = take_due(client, now)) != NULL) {
        serve(client, turn);
    }
}

/* Lets those with a cancel signal, NULL all, take a step. */
RLOCK__REQUIRES(home) static void ring(const struct rlock_client *client, const void *cancel)
{
    struct rlock__turn *turn;

    DL_FOREACH2(client->begun, turn, begun_next)
    {
        if (cancel == NULL || turn->effort.cancel == cancel) {
            rlock__turn_ring(turn);
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
