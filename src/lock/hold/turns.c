/* SPDX-License-Identifier: Apache-2.0 */
/* The turns that clients take on a lock: hold/queue.h says which. */
#include <assert.h>

#include "lock/common.h"
#include "lock/hold/queue_state.h"
#include "lock/server/channel.h"
#include "lock/server/ear.h"
#include "lock/server/route.h"

#define PAUSE_US RLOCK__MS            /* the shortest pause: a subscriber has asked by then */
#define PAUSE_MORE_US (3 * RLOCK__MS) /* and so much more, at random */
#define TURNS 8                       /* releases before a pause for others that do not subscribe */
#define OWED_US (64 * RLOCK__MS)      /* the longest time that is owed to our calls */
#define YIELDS 5                      /* pauses for a poller that does not come */
#define YIELD_US (2 * RLOCK__MS)      /* half of the first pause; each next one is twice as long */
#define YIELD_MORE_US RLOCK__MS       /* and so much more, at random */
#define LEASE_US (2 * RLOCK__MS)      /* two answers differ by less about the end of one lease */

/* Whether another library polls for the lock. The queue may be kept for longer. */
static bool has_pollers(const struct rlock__queue *queue, int64_t now)
{
    return rlock__queue_is_polled(queue) && now < queue->peers_until;
}

/*
 * Since when another library has had the lock, without the time that is counted already. Its latest
 * hold may not be its first one since our release, and nobody knows when the first one began. So
 * we count from the middle between our release and the begin of the latest hold.
 */
static int64_t peers_since(const struct rlock__queue *queue, int64_t lease_until)
{
    int64_t begun = rlock__max(queue->left_at, lease_until - queue->peers_lease_us);

    return queue->peers_at > queue->left_at ? queue->peers_at : (queue->left_at + begun) / 2;
}

bool rlock__queue_saw(struct rlock__call *call, const struct rlock__answer *answer, int64_t now)
{
    struct rlock__queue *queue = call->acquire.queue;
    bool is_peer = rlock__owner_is_foreign(answer->holder);
    int64_t lease_us = rlock__reported_ms(answer->ttl_ms), lease_until = now + lease_us;
    bool is_new;

    if (queue == NULL || !is_peer) {
        return false;
    }
    is_new = lease_until > queue->peers_lease_until + LEASE_US;
    queue->peers_until = now + RLOCK__PEERS_US;
    queue->peers_lease_us = rlock__max(queue->peers_lease_us, lease_us);
    queue->owed_us = rlock__min(queue->owed_us + now - peers_since(queue, lease_until), OWED_US);
    assert(peers_since(queue, lease_until) <= now);
    queue->peers_at = now;
    queue->yields = 0;
    queue->peers_lease_until = is_new ? lease_until : queue->peers_lease_until;
    rlock__queue_plan(queue);
    return is_new;
}

static bool takes_turns(const struct rlock__spec *spec)
{
    return (spec->ops->caps & RLOCK__CAP_WAIT_QUEUE) != 0;
}

static void pause_until(struct rlock__queue *queue, int64_t until)
{
    queue->paused_until = until;
    rlock__queue_plan(queue);
}

/* Whether waiting clients of this library enter the lock's queue on the server. A release gives the
 * lock to the first of them, so no pause is needed for them. */
static bool is_given(const struct rlock__spec *spec)
{
    return spec->core->opts.queues && (spec->ops->caps & RLOCK__CAP_ENTERS) != 0;
}

/* Whether the first call here will hear the announcement of this client's release. If the release
 * gives others a turn, the call pauses, and the next announcement that it hears ends the pause. */
static bool will_hear(const struct rlock__queue *queue, const struct rlock__channel *common)
{
    if (!is_given(queue->spec)) {
        return true;
    }
    return queue->calls != NULL && common != NULL && rlock__channel_is_subscribed(common) &&
           rlock__ear_keep(queue->calls);
}

void rlock__queue_releasing(struct rlock__core *core, const struct rlock__spec *spec, int64_t now)
{
    struct rlock__queue *queue = takes_turns(spec) ? rlock__queue_find(core, spec) : NULL;
    const struct rlock__channel *channel;

    if (queue == NULL) { /* nobody here waits, as in most releases */
        return;
    }
    channel = rlock__channel_find(rlock__route(spec)->server, spec->channel);
    queue->own_due = will_hear(queue, channel) ? rlock__channel_own_receivers(channel, false) : 0;
    pause_until(queue, now + core->opts.op_timeout_us);
}

static int64_t any_pause(struct rlock__core *core)
{
    return PAUSE_US + rlock__random(core, PAUSE_MORE_US + 1);
}

/*
 * How long the waiters here pause for another library that polls; 0: not at all. This client
 * keeps the lock until it has had it for as long as that library. Then it leaves the lock free, for
 * longer each time, because a poller looks more and more seldom.
 */
static int64_t yield(struct rlock__queue *queue, int64_t now)
{
    assert(queue->yields < YIELDS); /* the shift below is small */
    queue->owed_us -= now - rlock__max(queue->left_at, queue->peers_at);
    if (queue->owed_us > 0) {
        return 0;
    }
    queue->owed_us = 0;
    queue->yields++;
    return (YIELD_US + rlock__random(queue->core, YIELD_MORE_US + 1)) << queue->yields;
}

/* How long the waiters here pause after a release; 0: not at all. */
static int64_t pause_after(struct rlock__queue *queue, bool is_others_turn, int64_t now)
{
    int64_t pause = any_pause(queue->core);

    if (is_given(queue->spec)) {
        return is_others_turn ? pause : 0;
    }
    queue->turns++;
    if (has_pollers(queue, now) && queue->yields < YIELDS) {
        return yield(queue, now);
    }
    if (queue->others == 0 && (queue->calls == NULL || queue->turns < TURNS)) {
        return 0;
    }
    if (queue->others == 0) {
        pause = rlock__min(pause, (now - queue->turns_since) / TURNS);
    }
    queue->turns = 0;
    queue->turns_since = now;
    return pause;
}

/* receivers: how many subscriptions received the message, perhaps our own among them. A client with
 * two subscriptions counts twice; its own release then sends two messages. */
static struct rlock__queue *take_turns(struct rlock__core *core, struct rlock__spec *spec,
                                       const struct rlock__channel *channel,
                                       const struct rlock__answer *answer, int64_t now)
{
    struct rlock__queue *queue = rlock__queue_find(core, spec);
    int64_t receivers = answer != NULL ? answer->receivers : 0, others = 0, pause;
    bool is_others_turn = answer != NULL && answer->is_others_turn;

    if (receivers > 0 && !is_given(spec)) {
        others = rlock__max(receivers - rlock__channel_own_receivers(channel, true), 0);
    }
    if (queue == NULL && (others != 0 || is_others_turn) && !core->closed) {
        queue = rlock__queue_new(core, spec, now);
    }
    if (queue != NULL) {
        queue->others = others;
        queue->own_due = receivers > 0 ? queue->own_due : 0; /* there was no announcement */
        pause = pause_after(queue, is_others_turn, now);
        queue->left_at = now;
        pause_until(queue, pause != 0 ? now + pause : 0);
    }
    return queue;
}

void rlock__queue_released(struct rlock__core *core, struct rlock__spec *spec,
                           const struct rlock__answer *answer, int64_t now)
{
    struct rlock__channel *channel = rlock__channel_find(rlock__route(spec)->server, spec->channel);
    struct rlock__queue *queue = takes_turns(spec) ? take_turns(core, spec, channel, answer, now)
                                                   : rlock__queue_find(core, spec);

    if (queue != NULL && queue->calls != NULL) {
        rlock__ready(queue->calls, RLOCK__WOKEN);
    } else if (queue != NULL) {
        rlock__queue_settle(queue);
    }
    if (channel != NULL) {
        rlock__channel_wake(channel, false);
    }
}

bool rlock__queue_on_message(struct rlock__call *call, int64_t now)
{
    struct rlock__queue *queue = call->acquire.queue;

    if (queue == NULL) {
        return false;
    }
    assert(queue->own_due >= 0 && queue->others >= 0);
    if (queue->own_due > 0) {
        queue->own_due--;
        return false;
    }
    queue->others -= queue->others > 0;
    pause_until(queue, queue->others > 0 ? now + any_pause(queue->core) : 0);
    return true;
}
