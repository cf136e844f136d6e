/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/call/enter.h"

#include <assert.h>
#include <stdlib.h>

#include "base/uuid.h"
#include "lock/call/calls.h"
#include "lock/call/explain.h"
#include "lock/common.h"
#include "lock/hold/queue.h"
#include "lock/server/ack.h"
#include "lock/server/channel.h"
#include "lock/server/ear.h"
#include "lock/server/route.h"

#define SPAN_US (50 * RLOCK__MS) /* the shortest reservation; each next one is 4 times as long */
#define SPANS 4
#define TRIPS 4 /* round trips that a reservation lasts at least */

/* A reservation must outlast the message, and the attempt that it makes the call send. */
static uint8_t span_for(const struct rlock__call *call)
{
    int64_t least = TRIPS * rlock__route(call->spec)->pipeline.rtt, lasts = SPAN_US;
    uint8_t span = 0;

    while (span + 1 < SPANS && lasts < least) {
        lasts *= 4;
        span++;
    }
    return span;
}

/* Whether a release may grant the lock to the call. The lease of such a grant is short at first,
 * and no replica has acknowledged it. */
static bool may_push(const struct rlock__call *call)
{
    const struct rlock__core *core = call->core;
    int64_t most = call->spec->tuning->max_hold_us;

    return !core->opts.no_pass && call->acquire.lease_us == 0 && !call->member &&
           core->opts.renewed_lease_us >= RLOCK__PUSH_US &&
           (most == 0 || most >= 2 * RLOCK__PUSH_US) && call->acquire.min_uptime_us == 0 &&
           rlock__acks_needed(rlock__route(call->spec)->server) == 0;
}

/* Whether the call's attempts ask for tickets, by which a release may grant it a fair lock. */
static bool wants_ticket(const struct rlock__call *call)
{
    return call->core->opts.queues && (call->spec->ops->caps & RLOCK__CAP_QUEUES) != 0 &&
           call->channel != NULL && call->acquire.target == 1 && may_push(call);
}

bool rlock__entry_prepare(struct rlock__call *call)
{
    if (wants_ticket(call)) {
        return rlock__entry_get(call);
    }
    if (!rlock__call_enters(call)) {
        return true;
    }
    if (!rlock__queue_is_head(call)) {
        return true; /* the call asks because its wait ends, and does not enter */
    }
    if (call->channel == NULL && rlock__channel_client_is_live(call)) {
        (void)rlock__channel_join(call);
    }
    return !rlock__channel_is_live(call) || rlock__entry_get(call);
}

void rlock__entry_ask(struct rlock__call *call, struct rlock__args *args, int64_t now)
{
    struct rlock__acquire *acquire = &call->acquire;
    struct rlock__entry *entry = acquire->entry;

    assert(acquire->target == 1);
    entry->ask_at = 0;
    entry->asked_at = entry->asked_at != 0 ? entry->asked_at : now;
    entry->is_pushed = false; /* the answer says what counts */
    if (!rlock__call_enters(call)) {
        args->may_push = entry->may_push = wants_ticket(call);
        return;
    }
    args->waits = rlock__channel_is_live(call);
    if (!acquire->enqueued) { /* an entry keeps its form */
        entry->span = span_for(call);
        entry->may_push = may_push(call);
    }
    acquire->enqueued |= args->waits; /* also if the answer is lost */
    args->enters = acquire->enqueued; /* a grant takes out its entry */
    args->span = entry->span;
    args->may_push = entry->may_push;
    args->hint = entry->ticket;
}

bool rlock__entry_busy(struct rlock__call *call, const struct rlock__answer *answer)
{
    struct rlock__entry *entry = call->acquire.entry;
    bool is_out = call->acquire.enqueued && answer->place == 0 && !call->acquire.deaf;

    if (entry == NULL || call->channel == NULL) {
        return false;
    }
    entry->place = answer->place;
    if (answer->ticket != 0 && (answer->ticket != entry->ticket || entry->entered_at == 0)) {
        entry->ticket = answer->ticket;
        entry->entered_at = entry->asked_at;
    }
    entry->asked_at = 0;
    if (!rlock__call_enters(call)) {
        return false;
    }
    entry->is_foreign = is_out || answer->shared || rlock__owner_is_foreign(answer->holder);
    if (!entry->is_counted && answer->place > 0) {
        entry->marks = answer->marks;
        entry->is_counted = true;
    }
    if (entry->is_foreign && answer->place <= 1) {
        return entry->common == NULL && rlock__ear_open(call);
    }
    rlock__ear_close(call); /* the subscription is kept for a while */
    return false;
}

void rlock__entry_end(struct rlock__call *call)
{
    assert(call->acquire.entry->common == NULL); /* the call has left its channels */
    free(call->acquire.entry);
    call->acquire.entry = NULL;
}

int64_t rlock__entry_recheck(const struct rlock__call *call, const struct rlock__answer *answer,
                             int64_t now)
{
    int64_t pause = answer->recheck_ms * RLOCK__MS;

    assert(answer->place > 0 && pause > 0);
    return now + pause - rlock__random(call->core, pause / 10);
}

void rlock__entry_told(struct rlock__call *call, int64_t now)
{
    bool is_asleep = call->step == RLOCK__SLEEPING || call->step == RLOCK__SUBSCRIBING;

    if ((is_asleep || call->step == RLOCK__PAUSING) && call->acquire.entry->is_foreign) {
        (void)rlock__ear_keep(call);
    }
    if (is_asleep) {
        if (rlock__explains(call) && call->acquire.entry->ask_at != 0) {
            rlock__explain(call, now, "was told to ask in %lld ms",
                           (long long)rlock__ms_up(call->acquire.entry->ask_at - now));
        }
        rlock__timer_set(&call->core->timers, &call->timer,
                         rlock__min(call->timer.at, rlock__entry_ask_at(call)));
    }
}
