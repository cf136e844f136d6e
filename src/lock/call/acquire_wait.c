/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an acquisition waits: for a message, a time, or the end of its wait; never for a message
 * alone.
 *
 * wait_us only limits the wait for the holder, which ends at call.deadline. If an answer is on its
 * way then, the call still takes it. So a short wait is never less patient than wait 0, and no call
 * ends in doubt because of a slow link.
 */
#include <assert.h>
#include <stdio.h>

#include "lock/call/acquire.h"
#include "lock/call/calls.h"
#include "lock/call/enter.h"
#include "lock/call/explain.h"
#include "lock/call/pass.h"
#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/queue.h"
#include "lock/server/channel.h"
#include "lock/server/route.h"
#include "lock/server/stock.h"

#define OWN_ATTEMPTS 3 /* then a hold from before of the same owner counts as another holder */

static int64_t spin_pause(struct rlock__call *call)
{
    return call->spec->ops->pause(call->spec->tuning, call->acquire.spins++, &call->core->random);
}

static int64_t poll_pause(struct rlock__core *core)
{
    return RLOCK__POLL_US - rlock__random(core, RLOCK__POLL_US / 4);
}

/* Whether the call needs a channel for what it waits for. A call that waits for a hold of its own
 * client joins no channel of a tracked key. */
static bool listens(const struct rlock__call *call)
{
    return call->channel != NULL || call->spec->ops->pause == NULL;
}

/* For a call that does not hear its channel. */
static int64_t deaf_pause(struct rlock__call *call)
{
    bool spins = call->channel != NULL && call->spec->ops->pause != NULL;

    return spins ? spin_pause(call) : poll_pause(call->core);
}

/* Sleeps until a message comes, or until one of these times: the next look of a call that hears its
 * channel, or the end of a lease. A call that does not hear its channel polls. */
static void sleep_until(struct rlock__call *call, int64_t look, int64_t at, int64_t now)
{
    /* after an answer from behind ASKING the message comes on another server's channel */
    bool live = rlock__channel_is_live(call) && !call->acquire.asked;

    look = live ? look : rlock__min(look, now + deaf_pause(call));
    rlock__acquire_sleep(call, live || !listens(call) ? RLOCK__SLEEPING : RLOCK__SUBSCRIBING,
                         rlock__min(rlock__min(look, at), rlock__entry_ask_at(call)));
}

static void explain_own(const struct rlock__call *call, const struct rlock__grant *grant,
                        int64_t now)
{
    char owner[RLOCK__OWNER_SIZE];

    rlock__explain(call, now, "found it busy: %s, an owner in this client, holds it",
                   rlock__owner_text(call->core, grant->number, owner).at);
}

/* If a hold of this client has the lock, waits for it and asks the server nothing. Otherwise
 * returns false. */
static bool await(struct rlock__call *call, int64_t now)
{
    struct rlock__grant *grant = rlock__pass_awaited(call, now);
    struct rlock__texts *texts;

    assert(call->request == NULL);
    if (grant == NULL) {
        return false;
    }
    assert(grant->hold != call->hold); /* no call waits for its own hold */
    rlock__acquire_follow(call);
    if (call->spec->ops->pause == NULL && call->channel == NULL && !rlock__channel_join(call)) {
        return false;
    }
    texts = rlock__texts(call);
    if (texts != NULL) {
        (void)rlock__owner_text(call->core, grant->number, texts->facts.holder);
        texts->facts.free_at = grant->valid_until;
    }
    if (rlock__explains(call)) {
        explain_own(call, grant, now);
    }
    call->acquire.contended = true;
    rlock__unsay(call); /* the text from before is out of date */
    call->error = 0;
    if (call->acquire.entry != NULL) {
        call->acquire.entry->ask_at = 0; /* it asks once the hold here is over */
    }
    sleep_until(call, now + RLOCK__RECHECK_US, grant->valid_until + RLOCK__MS, now);
    return true;
}

/* A pause takes at most half of the time that is left, and leaves enough for the attempt. */
void rlock__acquire_go(struct rlock__call *call, int64_t now)
{
    int64_t rest = call->deadline - now;
    int64_t most =
        call->deadline - rlock__max(rest / 2, 2 * rlock__route(call->spec)->pipeline.rtt);
    int64_t until = rlock__min(rlock__queue_paused_until(call), most);

    assert(call->step != RLOCK__GIVING_UP);
    assert(call->hold->turn == call);
    if (await(call, now)) {
        return;
    }
    if (until > now) {
        rlock__acquire_sleep(call, RLOCK__PAUSING, until);
    } else {
        rlock__acquire_attempt(call, now);
    }
}

/* The lock is busy: sleeps until the holder's lease ends at the latest. */
static void sleep_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now)
{
    int64_t look = now + RLOCK__RECHECK_US, end = RLOCK__NEVER;

    if (answer->place > 0) {
        look = rlock__entry_recheck(call, answer, now);
    } else if (answer->recheck_ms != 0) {
        look = rlock__min(look, now + answer->recheck_ms * RLOCK__MS);
    }
    if (answer->ttl_ms >= 0) { /* a key is gone in the millisecond after its PTTL reached 0 */
        end = now + rlock__reported_ms(answer->ttl_ms) + 2 * RLOCK__MS;
    }
    sleep_until(call, look, end, now);
}

/* Whether this owner's hold from before has the lock, and its release was sent behind the attempt.
 * For example, the unlock did not wait, and the server did not know its script. */
static bool is_behind_own_release(const struct rlock__call *call, struct rlock__bytes holder)
{
    const struct rlock__core *core = call->core;
    const struct rlock__hold *hold;

    if (holder.len <= RLOCK__UUID_LEN || call->acquire.batch != NULL ||
        memcmp(holder.at, core->opts.uuid, RLOCK__UUID_LEN) != 0) {
        return false;
    }
    holder = rlock__bytes(holder.at + RLOCK__UUID_LEN + 1, holder.len - RLOCK__UUID_LEN - 1);
    hold = rlock__hold_by_number(call->core, (uint64_t)rlock__bytes_number(holder, 0));
    return hold != NULL && hold->is_hidden && hold->owner_id == call->owner.id &&
           hold->given == call->owner.given && hold->grant->release != NULL &&
           hold->grant->release->sent;
}

/* Whether the call joined a channel where a message may have come before. For a tracked key the
 * server itself looks. */
static bool needs_second_look(const struct rlock__call *call)
{
    return rlock__channel_is_live(call) && !call->channel->is_tracked;
}

void rlock__acquire_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now)
{
    bool joined, missed;

    assert(answer->outcome == RLOCK__BUSY);
    assert(call->step == RLOCK__ASKING && call->request == NULL);
    rlock__acquire_follow(call);
    joined = call->channel != NULL;
    missed = rlock__entry_busy(call, answer);
    rlock__acquire_note_holder(call, answer, now);
    if (rlock__queue_saw(call, answer, now)) {
        call->acquire.spins = 0; /* the lock was free meanwhile, and may be again soon */
    }
    rlock__acquire_describe(call, RLOCK_EBUSY, now);
    if (call->acquire.attempts < OWN_ATTEMPTS && is_behind_own_release(call, answer->holder)) {
        rlock__acquire_attempt(call, now); /* this one goes behind the release */
        return;
    }
    rlock__stock_fill(call, now);
    if (call->acquire.wait_us == 0) {
        rlock__acquire_refuse(call, RLOCK_EBUSY, now);
    } else if (now >= call->deadline) { /* the answer came after the wait */
        rlock__acquire_refuse(call, RLOCK_ETIMEDOUT, now);
    } else if (rlock__ops_poll(call->spec->ops)) {
        rlock__acquire_sleep(call, RLOCK__SLEEPING, now + spin_pause(call));
    } else if (!joined && !rlock__channel_join(call)) {
        rlock__acquire_starve(call, now);
    } else if (call->acquire.stale || missed || (!joined && needs_second_look(call))) {
        rlock__acquire_go(call, now); /* a release came, or may have come, since the attempt */
    } else {
        sleep_busy(call, answer, now);
    }
}

void rlock__acquire_head(struct rlock__call *call, int64_t now)
{
    int64_t granted_until = call->acquire.granted_until;

    assert(call->step != RLOCK__GIVING_UP); /* a call that gives up has left the queue */
    assert(rlock__queue_is_head(call));
    if (call->step == RLOCK__ASKING) { /* the end of its wait made it ask before it was the head */
        return;
    }
    if (call->core->closed || await(call, now)) { /* if closed, the call ends next */
        return;
    }
    if (granted_until != 0 && rlock__ops_poll(call->spec->ops)) {
        rlock__acquire_sleep(call, RLOCK__SLEEPING, now + spin_pause(call));
        return;
    }
    if (granted_until == 0 || !rlock__channel_join(call)) {
        rlock__acquire_go(call, now);
        return;
    }
    sleep_until(call, now + RLOCK__RECHECK_US, granted_until + RLOCK__MS, now);
}

static bool is_asleep(const struct rlock__call *call)
{
    return call->step == RLOCK__SLEEPING || call->step == RLOCK__SUBSCRIBING ||
           call->step == RLOCK__PAUSING;
}

void rlock__acquire_wake(struct rlock__call *call, int64_t now)
{
    assert(call->step != RLOCK__LINED_UP); /* a call in the line has no queue and no channel */
    if (rlock__explains(call) && (is_asleep(call) || call->step == RLOCK__ASKING)) {
        rlock__explain_wake(call, now);
    }
    if (call->step == RLOCK__ASKING) {
        call->acquire.stale = true;
        call->acquire.deaf = false;
    } else if (is_asleep(call) && !rlock__acquire_pushed(call, now) &&
               rlock__acquire_may_try(call, now)) {
        rlock__acquire_go(call, now);
    }
}

void rlock__acquire_again(struct rlock__call *call, int64_t now)
{
    if (is_asleep(call)) {
        rlock__acquire_go(call, now);
    }
}

void rlock__acquire_deaf(struct rlock__call *call, int64_t now)
{
    if (call->step == RLOCK__SLEEPING) {
        assert(call->timer.set); /* the call polls sooner, never later */
        rlock__acquire_sleep(call, RLOCK__SUBSCRIBING,
                             rlock__min(call->timer.at, now + deaf_pause(call)));
    }
}

void rlock__acquire_looked(struct rlock__call *call)
{
    if (is_asleep(call) && call->channel != NULL && call->channel->ends_at != 0) {
        rlock__timer_set(&call->core->timers, &call->timer,
                         rlock__min(call->timer.at, call->channel->ends_at));
    }
}

/* The code of a call that ran into its deadline. If its attempt got no answer, or was not sent
 * because the owner's call before it got none, the code reports the server and not the lock. */
static int timeout_code(const struct rlock__call *call)
{
    const struct rlock__link *link = call->link;
    bool lives =
        call->acquire.wait_us != 0 && call->core->last_gen != 0; /* a server was in reach before */
    const struct rlock__call *before = call->step == RLOCK__LINED_UP ? call->hold->turn : NULL;

    if (rlock__ack_is_open(&call->acquire.ack)) {
        return RLOCK_ENOTREPLICATED;
    }
    if (!link->pipeline.up && link->code != 0 && link->code != RLOCK_ECONN) {
        return link->code;
    }
    if (!link->pipeline.up) {
        return lives ? RLOCK_ETIMEDOUT : RLOCK_ECONN;
    }
    if (call->error != 0) {
        return call->error;
    }
    if (call->acquire.wait_us != 0 || call->acquire.timed) {
        return RLOCK_ETIMEDOUT;
    }
    return before != NULL && before->acquire.contended ? RLOCK_EBUSY : RLOCK_ECONN;
}

/* Whether the server answers as far as the client knows, so that an attempt may learn something. */
static bool may_answer(const struct rlock__call *call, int64_t now)
{
    const struct rlock__link *link = rlock__route(call->spec);
    const struct rlock__pipeline *pipeline = &link->pipeline;
    int64_t most = rlock__patience_us(&pipeline->patience, RLOCK__NEVER);

    return !rlock__link_is_down(link) &&
           (pipeline->sent == NULL || now - pipeline->sent->t0 <= most);
}

static void on_end(struct rlock__call *call, int64_t now)
{
    struct rlock__batch *batch = call->acquire.batch;
    int code = timeout_code(call);

    assert(call->step != RLOCK__GIVING_UP);
    assert(code != 0);
    /* the holder that the calls ahead wait for may be gone */
    if (rlock__acquire_is_behind(call) && batch == NULL && may_answer(call, now)) {
        rlock__acquire_attempt(call, now);
        return;
    }
    rlock__acquire_give_up(call, code, now);
    if (batch != NULL) {
        rlock__batch_give_up(batch, code, now);
    }
}

void rlock__acquire_timer(struct rlock__call *call, int64_t now)
{
    int64_t until = rlock__acquire_until(call);

    assert(call->step == RLOCK__LINED_UP || call->hold->turn == call);
    if (call->step == RLOCK__GIVING_UP) { /* the grace is over */
        rlock__acquire_end_open(call, now);
    } else if (now >= until) {
        on_end(call, now);
    } else if (call->step == RLOCK__ASKING) { /* a request that was sent has time for its answer */
        rlock__timer_set(&call->core->timers, &call->timer, until);
    } else if (call->acquire.batch != NULL && now >= call->acquire.batch->until) {
        rlock__batch_tire(call, now);
    } else if (call->step == RLOCK__QUEUED) {
        rlock__acquire_go(call, now);
    } else if (await(call, now)) {
        rlock__pass_doubt(call->core, call->spec, now);
    } else {
        if (rlock__explains(call) && call->channel != NULL && call->step == RLOCK__SLEEPING) {
            rlock__explain(call, now, "heard nothing, and looks again");
        }
        rlock__acquire_attempt(call, now);
    }
}
