/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/hold/queue_state.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/common.h"
#include "lock/server/channel.h"
#include "lock/server/route.h"

struct rlock__queue *rlock__queue_find(struct rlock__core *core, const struct rlock__spec *spec)
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

/* Until when the queue is kept because it remembers others, or counts for pollers; 0: it is not. */
static int64_t remembered_until(const struct rlock__queue *queue)
{
    int64_t counted_until = queue->turns != 0 ? queue->left_at + RLOCK__PEERS_US : 0;

    int64_t polled_until = rlock__max(queue->peers_until, counted_until);

    return rlock__max(rlock__queue_is_polled(queue) ? polled_until : 0,
                      queue->core->closed ? 0 : queue->contended_until);
}

void rlock__queue_settle(struct rlock__queue *queue)
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

void rlock__queue_plan(struct rlock__queue *queue)
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
    queue->contended_until = now < queue->contended_until ? queue->contended_until : 0;
    queue->turns = now < queue->left_at + RLOCK__PEERS_US ? queue->turns : 0;
    rlock__queue_plan(queue);
    rlock__queue_settle(queue);
}

struct rlock__queue *rlock__queue_new(struct rlock__core *core, struct rlock__spec *spec,
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
    struct rlock__queue *queue = rlock__queue_find(call->core, call->spec);

    assert(call->acquire.queue == NULL);
    assert(call->hold->turn == call); /* the other calls of its owner wait in the hold's line */
    if (queue == NULL) {
        queue = rlock__queue_new(call->core, call->spec, now);
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
    const struct rlock__queue *queue = rlock__queue_find(hold->spec->core, hold->spec);

    return queue != NULL && now >= queue->peers_until ? queue->calls : NULL;
}

void rlock__queue_contended(struct rlock__core *core, struct rlock__spec *spec, int64_t now)
{
    struct rlock__queue *queue = rlock__queue_find(core, spec);

    if (queue == NULL && !core->closed) {
        queue = rlock__queue_new(core, spec, now);
    }
    if (queue != NULL) {
        queue->contended_until = now + RLOCK__PEERS_US;
        rlock__queue_plan(queue);
    }
}

bool rlock__queue_is_contended(struct rlock__core *core, const struct rlock__spec *spec,
                               int64_t now)
{
    const struct rlock__queue *queue = rlock__queue_find(core, spec);

    return queue != NULL && (queue->calls != NULL || queue->paused_until != 0 ||
                             now < rlock__max(queue->contended_until, queue->peers_until));
}

bool rlock__queue_is_kept(const struct rlock__call *call)
{
    const struct rlock__queue *queue = rlock__queue_find(call->core, call->spec);

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
        rlock__queue_settle(queue);
    } else if (was_head) {
        queue->calls->acquire.granted_until = call->acquire.has_more ? 0 : granted_until;
        rlock__ready(queue->calls, RLOCK__HEAD);
    }
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
