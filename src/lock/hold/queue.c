/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/hold/queue.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/common.h"
#include "lock/server/channel.h"
#include "lock/server/route.h"

#define PAUSE_US RLOCK__MS            /* the shortest pause: a subscriber has asked by then */
#define PAUSE_MORE_US (3 * RLOCK__MS) /* and so much more, at random */
#define TURNS 8                       /* releases before a pause for others that do not subscribe */
#define PEERS_US RLOCK__SECOND        /* for so long another library may come back */
#define OWED_US (64 * RLOCK__MS)      /* the longest time that is owed to our calls */
#define YIELDS 5                      /* pauses for a poller that does not come */
#define YIELD_US (2 * RLOCK__MS)      /* half of the first pause; each next one is twice as long */
#define YIELD_MORE_US RLOCK__MS       /* and so much more, at random */
#define LEASE_US (2 * RLOCK__MS)      /* two answers differ by less about the end of one lease */

struct rlock__queue {
    struct rlock__table_node node; /* in core.queues, by the lock's key */
    struct rlock__queue *next;     /* in core.idle_queues */
    struct rlock__core *core;
    struct rlock__spec *spec;
    struct rlock__call *calls;
    int64_t paused_until;      /* waiters here ask then; 0: at once */
    int64_t own_due;           /* messages of our own release that are yet to come */
    int64_t peers_until;       /* no hold is passed on before: another library competes */
    int64_t peers_at;          /* when the server last named a holder of that library */
    int64_t peers_lease_until; /* the end of that holder's lease */
    int64_t peers_lease_us;    /* the longest rest of its lease that was seen */
    int64_t owed_us;           /* how much longer than us it has had the lock */
    unsigned yields;           /* pauses for it since then */
    int64_t left_at;           /* the latest release of this client */
    int64_t others;            /* receivers of its message that had no turn yet */
    unsigned turns;            /* releases since the last pause; polled locks: of the last second */
    int64_t turns_since;       /* when that count began */
    struct rlock__timer paused; /* fires when the pause ends, or that library is forgotten */
};

static struct rlock__queue *queue_find(struct rlock__core *core, const struct rlock__spec *spec)
{
    struct rlock__table_node *node = rlock__table_first(&core->queues, spec->hash);

    for (; node != NULL; node = rlock__table_next(node)) {
        struct rlock__queue *queue = RLOCK__OF(struct rlock__queue, node, node);

        if (rlock__bytes_equal(queue->spec->key, spec->key)) {
            return queue;
        }
    }
    return NULL;
}

/* Whether waiters for this lock poll, so that the server does not know of them. */
static bool is_polled(const struct rlock__queue *queue)
{
    return queue->spec->ops->pause != NULL && !queue->core->closed;
}

/* Whether another library polls for the lock. The queue may be kept for longer. */
static bool has_pollers(const struct rlock__queue *queue, int64_t now)
{
    return is_polled(queue) && now < queue->peers_until;
}

/* Until when the queue is kept because it remembers pollers or counts for them; 0: it is not. */
static int64_t remembered_until(const struct rlock__queue *queue)
{
    int64_t counted_until = queue->turns != 0 ? queue->left_at + PEERS_US : 0;

    return is_polled(queue) ? rlock__max(queue->peers_until, counted_until) : 0;
}

/* Puts away a queue that nothing needs. */
static void queue_settle(struct rlock__queue *queue)
{
    struct rlock__core *core = queue->core;

    assert((core->n_idle_queues == 0) == (core->idle_queues == NULL));
    if (queue->calls == NULL && queue->paused_until == 0 && remembered_until(queue) == 0) {
        rlock__timer_unset(&core->timers, &queue->paused);
        rlock__table_remove(&core->queues, &queue->node);
        (void)rlock__spec_unref(queue->spec);
        if (core->n_idle_queues < RLOCK__IDLE) {
            LL_PREPEND(core->idle_queues, queue);
            core->n_idle_queues++;
        } else {
            free(queue);
        }
    }
}

/* Sets the timer to the end of the pause or of the memory, the earlier one. */
static void plan(struct rlock__queue *queue)
{
    int64_t pause = queue->paused_until != 0 ? queue->paused_until : RLOCK__NEVER;
    int64_t until = remembered_until(queue);

    until = until != 0 ? until : RLOCK__NEVER;
    rlock__timer_set(&queue->core->timers, &queue->paused, rlock__min(pause, until));
}

/* A head that waits for the end of the pause has a timer of its own. */
static void on_paused(struct rlock__timer *timer, int64_t now)
{
    struct rlock__queue *queue = RLOCK__OF(struct rlock__queue, paused, timer);

    queue->paused_until = now < queue->paused_until ? queue->paused_until : 0;
    queue->peers_until = now < queue->peers_until ? queue->peers_until : 0;
    queue->turns = now < queue->left_at + PEERS_US ? queue->turns : 0;
    plan(queue);
    queue_settle(queue);
}

static struct rlock__queue *queue_new(struct rlock__core *core, struct rlock__spec *spec,
                                      int64_t now)
{
    struct rlock__queue *queue = core->idle_queues;

    if (queue != NULL) {
        LL_DELETE(core->idle_queues, queue);
        core->n_idle_queues--;
    } else {
        queue = malloc(sizeof(*queue));
    }
    if (queue != NULL) {
        *queue = (struct rlock__queue){.core = core,
                                       .spec = rlock__spec_ref(spec),
                                       .turns_since = now,
                                       .left_at = now,
                                       .paused = {.fire = on_paused}};
        rlock__table_add(&core->queues, &queue->node, spec->hash);
    }
    return queue;
}

bool rlock__queue_join(struct rlock__call *call, int64_t now)
{
    struct rlock__queue *queue = queue_find(call->core, call->spec);

    assert(call->acquire.queue == NULL);
    assert(call->hold->turn == call); /* the other calls of its owner wait in the hold's line */
    if (queue == NULL) {
        queue = queue_new(call->core, call->spec, now);
    }
    if (queue == NULL) {
        return false;
    }
    call->acquire.queue = queue;
    DL_APPEND(queue->calls, call);
    return true;
}

bool rlock__queue_is_head(const struct rlock__call *call)
{
    return call->acquire.queue->calls == call;
}

struct rlock__call *rlock__queue_heir(const struct rlock__hold *hold, int64_t now)
{
    const struct rlock__queue *queue = queue_find(hold->spec->core, hold->spec);

    return queue != NULL && now >= queue->peers_until ? queue->calls : NULL;
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
    queue->peers_until = now + PEERS_US;
    queue->peers_lease_us = rlock__max(queue->peers_lease_us, lease_us);
    queue->owed_us = rlock__min(queue->owed_us + now - peers_since(queue, lease_until), OWED_US);
    assert(peers_since(queue, lease_until) <= now);
    queue->peers_at = now;
    queue->yields = 0;
    queue->peers_lease_until = is_new ? lease_until : queue->peers_lease_until;
    plan(queue);
    return is_new;
}

bool rlock__queue_is_kept(const struct rlock__call *call)
{
    const struct rlock__queue *queue = queue_find(call->core, call->spec);

    return queue != NULL && (queue->calls != NULL || queue->paused_until != 0);
}

int64_t rlock__queue_paused_until(const struct rlock__call *call)
{
    return call->acquire.queue != NULL ? call->acquire.queue->paused_until : 0;
}

void rlock__queue_leave(struct rlock__call *call, int64_t granted_until)
{
    struct rlock__queue *queue = call->acquire.queue;
    bool was_head = queue->calls == call;

    assert(call->acquire.queue != NULL && call->acquire.queue->calls != NULL);
    DL_DELETE(queue->calls, call);
    rlock__unready(call, RLOCK__HEAD);
    call->acquire.queue = NULL;
    if (queue->calls == NULL) {
        queue_settle(queue);
    } else if (was_head) {
        queue->calls->acquire.granted_until = granted_until;
        rlock__ready(queue->calls, RLOCK__HEAD);
    }
}

/* ---- Turns ---- */

static bool takes_turns(const struct rlock__spec *spec)
{
    return (spec->ops->caps & RLOCK__CAP_WAIT_QUEUE) != 0;
}

static void pause_until(struct rlock__queue *queue, int64_t until)
{
    queue->paused_until = until;
    plan(queue);
}

void rlock__queue_releasing(struct rlock__core *core, const struct rlock__spec *spec, int64_t now)
{
    struct rlock__queue *queue = takes_turns(spec) ? queue_find(core, spec) : NULL;
    const struct rlock__channel *channel =
        rlock__channel_find(rlock__route(spec)->server, spec->channel);

    if (queue != NULL) {
        queue->own_due = rlock__channel_own_receivers(channel, false);
        pause_until(queue, now + core->opts.op_timeout_us);
    }
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
static int64_t pause_after(struct rlock__queue *queue, int64_t now)
{
    int64_t pause = any_pause(queue->core);

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
                                       const struct rlock__channel *channel, int64_t receivers,
                                       int64_t now)
{
    struct rlock__queue *queue = queue_find(core, spec);
    int64_t own = rlock__channel_own_receivers(channel, true);
    int64_t others = rlock__max(rlock__max(receivers, 0) - own, 0), pause;

    if (queue == NULL && others != 0 && !core->closed) {
        queue = queue_new(core, spec, now);
    }
    if (queue != NULL) {
        queue->others = others;
        pause = pause_after(queue, now);
        queue->left_at = now;
        pause_until(queue, pause != 0 ? now + pause : 0);
    }
    return queue;
}

void rlock__queue_released(struct rlock__core *core, struct rlock__spec *spec, int64_t receivers,
                           int64_t now)
{
    struct rlock__channel *channel = rlock__channel_find(rlock__route(spec)->server, spec->channel);
    struct rlock__queue *queue = takes_turns(spec) ? take_turns(core, spec, channel, receivers, now)
                                                   : queue_find(core, spec);

    if (queue != NULL && queue->calls != NULL) {
        rlock__ready(queue->calls, RLOCK__WOKEN);
    } else if (queue != NULL) {
        queue_settle(queue);
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

static void queue_free(struct rlock__queue *queue)
{
    assert(queue->calls == NULL);
    rlock__timer_unset(&queue->core->timers, &queue->paused);
    (void)rlock__spec_unref(queue->spec);
    free(queue);
}

static bool drop_empty(struct rlock__table_node *node)
{
    struct rlock__queue *queue = RLOCK__OF(struct rlock__queue, node, node);
    bool is_empty = queue->calls == NULL;

    if (is_empty) {
        queue_free(queue);
    }
    return is_empty;
}

void rlock__queues_close(struct rlock__core *core)
{
    rlock__table_sweep(&core->queues, drop_empty);
}

void rlock__queues_trim(struct rlock__core *core)
{
    struct rlock__queue *queue, *after;

    LL_FOREACH_SAFE(core->idle_queues, queue, after) {
        free(queue);
    }
    core->idle_queues = NULL;
    core->n_idle_queues = 0;
}

void rlock__queues_fini(struct rlock__core *core)
{
    struct rlock__table_node *node;
    size_t chain = 0;

    while ((node = rlock__table_take(&core->queues, &chain)) != NULL) {
        queue_free(RLOCK__OF(struct rlock__queue, node, node));
    }
    rlock__queues_trim(core);
}
