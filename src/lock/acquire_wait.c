/* SPDX-License-Identifier: Apache-2.0 */
/* How an acquisition waits: for a message, a time, or its deadline; never on a message alone. */
#include <stdio.h>

#include "lock/acquire.h"

bool rlock__acquire_may_try(const struct rlock__call *call, int64_t now)
{
    return call->attempts == 0 ||
           rlock__later(now, call->core->server.flight.rtt) <= call->deadline;
}

void rlock__acquire_sleep(struct rlock__call *call, enum rlock__step step, int64_t at)
{
    int64_t until = call->deadline;

    call->step = step;
    if (call->team != NULL) { /* only who leads has a time */
        until = call->team->leader == call ? rlock__min(until, call->team->until) : RLOCK__NEVER;
        at = call->team->leader == call ? at : RLOCK__NEVER;
    }
    rlock__timer_set(&call->core->timers, &call->timer, rlock__min(at, until));
}

static int64_t poll_pause(struct rlock__core *core)
{
    return RLOCK__POLL_US - rlock__random(core, RLOCK__POLL_US / 4);
}

/* Attempt failed for now: sleeps, at most until the holder's lease ends. ttl_ms: as PTTL says it.
 */
static void sleep_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now)
{
    bool live = rlock__channel_is_live(call);
    int64_t pause = live ? RLOCK__RECHECK_US : poll_pause(call->core);

    if (answer->recheck_ms != 0) {
        pause = rlock__min(pause, answer->recheck_ms * RLOCK__MS);
    }
    if (answer->ttl_ms >= 0) { /* a key is gone in the millisecond after its PTTL reached 0 */
        pause = rlock__min(pause, rlock__min(answer->ttl_ms, RLOCK__RECHECK_US / 1000) * RLOCK__MS +
                                      2 * RLOCK__MS);
    }
    rlock__acquire_sleep(call, live ? RLOCK__SLEEPING : RLOCK__SUBSCRIBING, now + pause);
}

void rlock__acquire_hold_up(struct rlock__call *call, const struct rlock__answer *answer)
{
    call->contended = true;
    (void)snprintf(call->holder, sizeof(call->holder), "%.*s",
                   (int)rlock__min((int64_t)answer->holder.len, 127), answer->holder.at);
}

void rlock__acquire_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now)
{
    bool joined = call->channel != NULL;

    rlock__acquire_hold_up(call, answer);
    rlock__acquire_say(call, RLOCK_EBUSY, now);
    if (call->wait_us == 0) {
        rlock__acquire_refuse(call, RLOCK_EBUSY, now);
    } else if ((call->spec->ops->caps & RLOCK__CAP_SPINS) != 0) {
        rlock__acquire_sleep(call, RLOCK__SLEEPING, now + rlock__spin_pause(call));
    } else if (!joined && !rlock__channel_join(call)) {
        rlock__acquire_refuse(call, RLOCK_ENOMEM, now);
    } else if ((call->stale || (!joined && rlock__channel_is_live(call))) &&
               rlock__acquire_may_try(call, now)) {
        rlock__acquire_attempt(
            call, now); /* the lock was released after that attempt, or may have been, unheard */
    } else {
        sleep_busy(call, answer, now);
    }
}

void rlock__acquire_head(struct rlock__call *call, int64_t granted_until, int64_t now)
{
    bool live;

    if (call->core->closed) { /* it ends next */
        return;
    }
    if (granted_until != 0 && (call->spec->ops->caps & RLOCK__CAP_SPINS) != 0) {
        rlock__acquire_sleep(call, RLOCK__SLEEPING, now + rlock__spin_pause(call));
        return;
    }
    if (granted_until == 0 || !rlock__channel_join(call)) {
        rlock__acquire_attempt(call, now);
        return;
    }
    live = rlock__channel_is_live(call);
    rlock__acquire_sleep(call, live ? RLOCK__SLEEPING : RLOCK__SUBSCRIBING,
                         rlock__min(now + (live ? RLOCK__RECHECK_US : poll_pause(call->core)),
                                    granted_until + RLOCK__MS));
}

void rlock__acquire_wake(struct rlock__call *call, int64_t now)
{
    if (call->step == RLOCK__ASKING) {
        call->stale = true;
    } else if ((call->step == RLOCK__SLEEPING || call->step == RLOCK__SUBSCRIBING) &&
               rlock__acquire_may_try(call, now)) {
        rlock__acquire_attempt(call, now);
    }
}

void rlock__acquire_unheard(struct rlock__call *first, int64_t now)
{
    for (struct rlock__call *call = first; call != NULL; call = call->wait_next) {
        if (call->step == RLOCK__SLEEPING) {
            rlock__acquire_sleep(call, RLOCK__SUBSCRIBING,
                                 rlock__min(call->timer.at, now + poll_pause(call->core)));
        }
    }
}

/* What a call that ran into its deadline says. */
static int timeout_code(const struct rlock__call *call)
{
    const struct rlock__server *server = &call->core->server;

    if (!server->flight.up) {
        return server->link_code != 0 ? server->link_code : RLOCK_ECONN;
    }
    if (call->error != 0) {
        return call->error;
    }
    return call->wait_us == 0 && call->step == RLOCK__LINED_UP ? RLOCK_EBUSY : RLOCK_ETIMEDOUT;
}

void rlock__acquire_timer(struct rlock__call *call, int64_t now)
{
    if (call->step == RLOCK__GIVING_UP) { /* the grace is over */
        rlock__orphan_forget(call->core, call);
        rlock__acquire_say(call, RLOCK_EINDOUBT, now);
        rlock__acquire_end(call, RLOCK_EINDOUBT, now);
    } else if (now >= call->deadline) {
        int code = timeout_code(call);
        struct rlock__team *team = call->team;

        rlock__acquire_give_up(call, code, now);
        if (team != NULL) {
            rlock__team_give_up(team, code, now);
        }
    } else if (call->team != NULL && now >= call->team->until) {
        rlock__team_tire(call, now);
    } else if (rlock__acquire_may_try(call, now)) {
        rlock__acquire_attempt(call, now);
    } else {
        rlock__acquire_sleep(call, call->step, call->deadline);
    }
}
