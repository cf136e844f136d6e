/* SPDX-License-Identifier: Apache-2.0 */
/* How an acquisition waits: for a message, a time, or its deadline; never on a message alone. */
#include <stdio.h>

#include "lock/acquire.h"
#include "lock/pass.h"
#include "lock/stock.h"

/* How long an answer takes: as usual, or as long as the oldest that is awaited has taken so far. */
static int64_t round_trip(const struct rlock__pipeline *pipeline, int64_t now)
{
    return pipeline->sent != NULL ? rlock__max(pipeline->rtt, now - pipeline->sent->t0)
                                  : pipeline->rtt;
}

bool rlock__acquire_may_try(const struct rlock__call *call, int64_t now)
{
    const struct rlock__pipeline *pipeline = &rlock__route(call->spec)->pipeline;

    if (call->attempts == 0) {
        return !call->behind || rlock__later(now, round_trip(pipeline, now)) < call->deadline;
    }
    return rlock__later(now, pipeline->rtt) <= call->deadline;
}

void rlock__acquire_sleep(struct rlock__call *call, enum rlock__step step, int64_t at)
{
    int64_t until = call->deadline;

    rlock__call_step(call, step);
    if (call->batch != NULL) { /* only the sender has a time */
        until = call->batch->sender == call ? rlock__min(until, call->batch->until) : RLOCK__NEVER;
        at = call->batch->sender == call ? at : RLOCK__NEVER;
    }
    rlock__timer_set(&call->core->timers, &call->timer, rlock__min(at, until));
}

static int64_t poll_pause(struct rlock__core *core)
{
    return RLOCK__POLL_US - rlock__random(core, RLOCK__POLL_US / 4);
}

/* Sleeps until a message, the next look, or that time at the latest: the end of a lease. */
static void sleep_until(struct rlock__call *call, int64_t at, int64_t now)
{
    bool live = rlock__channel_is_live(call) && !call->asked; /* else a message comes elsewhere */
    int64_t look = now + (live ? RLOCK__RECHECK_US : poll_pause(call->core));
    bool listens = call->spec->ops->pause == NULL;

    rlock__acquire_sleep(call, live || !listens ? RLOCK__SLEEPING : RLOCK__SUBSCRIBING,
                         rlock__min(look, at));
}

/* Waits for a hold of this client, and asks the server nothing; returns false where there is none.
 */
static bool await(struct rlock__call *call, int64_t now)
{
    struct rlock__grant *grant = rlock__pass_awaited(call, now);
    struct rlock__texts *texts;

    if (grant == NULL) {
        return false;
    }
    rlock__acquire_follow(call);
    if (call->spec->ops->pause == NULL && call->channel == NULL && !rlock__channel_join(call)) {
        return false;
    }
    texts = rlock__texts(call);
    if (texts != NULL) {
        (void)rlock__owner_text(call->core, grant->number, texts->holder);
    }
    call->contended = true;
    rlock__unsay(call); /* what was written there before is out of date */
    call->error = 0;
    sleep_until(call, grant->valid_until + RLOCK__MS, now);
    return true;
}

/* A pause leaves half of what is left of the wait, and time for the attempt in any case. */
void rlock__acquire_go(struct rlock__call *call, int64_t now)
{
    int64_t rest = call->deadline - now;
    int64_t most =
        call->deadline - rlock__max(rest / 2, 2 * rlock__route(call->spec)->pipeline.rtt);
    int64_t until = rlock__min(rlock__queue_paused_until(call), most);

    if (await(call, now)) {
        return;
    }
    if (!rlock__acquire_may_try(call, now)) { /* unless the link gets faster */
        rlock__acquire_sleep(call, RLOCK__QUEUED, now + RLOCK__POLL_US);
    } else if (until > now) {
        rlock__acquire_sleep(call, RLOCK__PAUSING, until);
    } else {
        rlock__acquire_attempt(call, now);
    }
}

/* Attempt failed for now: sleeps, at most until the holder's lease ends. ttl_ms: as PTTL says it.
 */
static void sleep_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now)
{
    int64_t pause = RLOCK__RECHECK_US;

    if (answer->recheck_ms != 0) {
        pause = rlock__min(pause, answer->recheck_ms * RLOCK__MS);
    }
    if (answer->ttl_ms >= 0) { /* a key is gone in the millisecond after its PTTL reached 0 */
        pause = rlock__min(pause, rlock__min(answer->ttl_ms, RLOCK__RECHECK_US / 1000) * RLOCK__MS +
                                      2 * RLOCK__MS);
    }
    sleep_until(call, now + pause, now);
}

static int64_t spin_pause(struct rlock__call *call)
{
    return call->spec->ops->pause(call->spec->tuning, call->spins++, &call->core->random);
}

void rlock__acquire_hold_up(struct rlock__call *call, const struct rlock__answer *answer)
{
    struct rlock__texts *texts = rlock__texts(call);

    call->contended = true;
    if (texts != NULL) {
        (void)snprintf(texts->holder, sizeof(texts->holder), "%.*s",
                       (int)rlock__min((int64_t)answer->holder.len, 127), answer->holder.at);
    }
}

void rlock__acquire_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now)
{
    bool joined;

    rlock__acquire_follow(call);
    joined = call->channel != NULL;
    rlock__acquire_hold_up(call, answer);
    rlock__queue_saw(call, answer->holder, now);
    rlock__acquire_describe(call, RLOCK_EBUSY, now);
    rlock__stock_fill(call, now);
    if (call->wait_us == 0) {
        rlock__acquire_refuse(call, RLOCK_EBUSY, now);
    } else if (call->spec->ops->pause != NULL) {
        rlock__acquire_sleep(call, RLOCK__SLEEPING, now + spin_pause(call));
    } else if (!joined && !rlock__channel_join(call)) {
        rlock__acquire_starve(call, now);
    } else if ((call->stale || (!joined && rlock__channel_is_live(call))) &&
               rlock__acquire_may_try(call, now)) {
        rlock__acquire_go(
            call, now); /* the lock was released after that attempt, or may have been, unheard */
    } else {
        sleep_busy(call, answer, now);
    }
}

void rlock__acquire_head(struct rlock__call *call, int64_t now)
{
    int64_t granted_until = call->granted_until;

    if (call->core->closed || await(call, now)) { /* closed: it ends next */
        return;
    }
    if (granted_until != 0 && call->spec->ops->pause != NULL) {
        rlock__acquire_sleep(call, RLOCK__SLEEPING, now + spin_pause(call));
        return;
    }
    if (granted_until == 0 || !rlock__channel_join(call)) {
        rlock__acquire_go(call, now);
        return;
    }
    sleep_until(call, granted_until + RLOCK__MS, now);
}

void rlock__acquire_wake(struct rlock__call *call, int64_t now)
{
    if (call->step == RLOCK__ASKING) {
        call->stale = true;
    } else if ((call->step == RLOCK__SLEEPING || call->step == RLOCK__SUBSCRIBING ||
                call->step == RLOCK__PAUSING) &&
               rlock__acquire_may_try(call, now)) {
        rlock__acquire_go(call, now);
    }
}

void rlock__acquire_deaf(struct rlock__call *call, int64_t now)
{
    if (call->step == RLOCK__SLEEPING) {
        rlock__acquire_sleep(call, RLOCK__SUBSCRIBING,
                             rlock__min(call->timer.at, now + poll_pause(call->core)));
    }
}

/* What a call that ran into its deadline says. One attempt that was not answered, or not made since
 * the owner's call before it got no answer, speaks of the server and not of the lock. */
static int timeout_code(const struct rlock__call *call)
{
    const struct rlock__link *link = call->link;
    const struct rlock__call *before = call->step == RLOCK__LINED_UP ? call->hold->turn : NULL;

    if (rlock__ack_is_open(&call->ack)) {
        return RLOCK_ENOTREPLICATED;
    }
    if (!link->pipeline.up) {
        return link->code != 0 ? link->code : RLOCK_ECONN;
    }
    if (call->error != 0) {
        return call->error;
    }
    if (call->wait_us != 0 || call->timed) {
        return RLOCK_ETIMEDOUT;
    }
    return before != NULL && before->contended ? RLOCK_EBUSY : RLOCK_ECONN;
}

void rlock__acquire_timer(struct rlock__call *call, int64_t now)
{
    if (call->step == RLOCK__GIVING_UP) { /* the grace is over */
        rlock__orphan_forget(call);
        rlock__acquire_describe(call, RLOCK_EINDOUBT, now);
        rlock__acquire_end(call, RLOCK_EINDOUBT, now);
    } else if (now >= call->deadline) {
        int code = timeout_code(call);
        struct rlock__batch *batch = call->batch;

        rlock__acquire_give_up(call, code, now);
        if (batch != NULL) {
            rlock__batch_give_up(batch, code, now);
        }
    } else if (call->batch != NULL && now >= call->batch->until) {
        rlock__batch_tire(call, now);
    } else if (call->step == RLOCK__QUEUED) {
        rlock__acquire_go(call, now);
    } else if (await(call, now)) {
        rlock__pass_doubt(call->core, call->spec, now);
    } else if (rlock__acquire_may_try(call, now)) {
        rlock__acquire_attempt(call, now);
    } else { /* unless the link gets faster */
        rlock__acquire_sleep(call, call->step, now + RLOCK__POLL_US);
    }
}
