/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on a channel, and whom they wake. */
#include <assert.h>
#include <utlist.h>

#include "lock/common.h"
#include "lock/server/channel.h"
#include "lock/server/listener.h"

#define TURN_US (4 * RLOCK__MS) /* the longest turn of another client that asks at once */

static void hear(struct rlock__channel *channel)
{
    struct rlock__listener *listener;

    DL_FOREACH(channel->listeners, listener) {
        rlock__listener_notify(listener);
    }
}

/* Takes the next number out of a message, behind a blank; 0: there is none. */
static uint64_t next_number(struct rlock__bytes *message)
{
    int64_t number = 0;

    if (message->len > 0 && message->at[0] == ' ') {
        *message = rlock__bytes(message->at + 1, message->len - 1);
        number = rlock__max(rlock__bytes_number(*message, 0), 0);
    }
    while (message->len > 0 && message->at[0] != ' ') {
        *message = rlock__bytes(message->at + 1, message->len - 1);
    }
    return (uint64_t)number;
}

/* "g number …": the lock is reserved for the call with this number. "s number ms": the call is to
 * ask after that time. If no call has the number, the end of the event gives the lock back. */
static void tell(struct rlock__channel *channel, struct rlock__bytes message, int64_t now)
{
    bool is_given = message.at[0] == 'g', is_found = false;
    struct rlock__bytes rest = rlock__bytes(message.at + 1, message.len - 1);
    uint64_t number = next_number(&rest);
    int64_t ms = is_given ? 0 : (int64_t)next_number(&rest);
    struct rlock__call *call;

    DL_FOREACH2(channel->waiters, call, waits.next)
    {
        if (call->number != number) {
            continue;
        }
        is_found = true;
        if (ms > 0 && call->acquire.entry != NULL) {
            call->acquire.entry->ask_at = now + rlock__reported_ms(ms);
            rlock__ready(call, RLOCK__TOLD);
        } else {
            rlock__ready(call, RLOCK__WOKEN);
        }
    }
    if (!is_found && is_given && number != 0 && channel->spec != NULL) {
        if (channel->stray == 0) {
            LL_PREPEND2(channel->server->sub.strays, channel, stray_next);
        }
        channel->stray = number;
        rlock__server_touch(channel->server);
    }
}

/* A release: as many others go first as have a turn before the call. */
static void on_release(struct rlock__call *call, int64_t now)
{
    struct rlock__entry *entry = call->acquire.entry;

    if (entry->marks == 0) {
        rlock__ready(call, RLOCK__HEARD);
        rlock__ready(call, RLOCK__WOKEN);
        return;
    }
    entry->ask_at = now + entry->marks * (RLOCK__MS + rlock__random(call->core, TURN_US));
    entry->marks--;
    rlock__ready(call, RLOCK__TOLD);
}

/* The calls in the lock's queue that hear another library here. */
static void tell_ears(const struct rlock__channel *channel, int64_t now)
{
    struct rlock__call *call;

    DL_FOREACH2(channel->hearers, call, acquire.entry->hears.next)
    {
        if (call->acquire.entry->is_foreign) { /* otherwise it is told when its turn comes */
            on_release(call, now);
        }
    }
}

void rlock__channel_on_message(struct rlock__channel *channel, struct rlock__bytes message,
                               int64_t now)
{
    struct rlock__call *call;

    channel->server->core->stats.messages++;
    if (message.len > 0 && (message.at[0] == 'g' || message.at[0] == 's')) {
        tell(channel, message, now);
        return;
    }
    DL_FOREACH2(channel->waiters, call, waits.next)
    {
        assert(call->channel == channel);
        rlock__ready(call, RLOCK__HEARD);
        rlock__ready(call, RLOCK__WOKEN);
    }
    tell_ears(channel, now);
    hear(channel);
}

void rlock__channel_wake(struct rlock__channel *channel, bool all)
{
    struct rlock__call *call;

    DL_FOREACH2(channel->waiters, call, waits.next)
    {
        assert(call->channel == channel && call->kind == RLOCK__ACQUIRE);
        if (all || call->acquire.queue == NULL) {
            rlock__ready(call, RLOCK__WOKEN);
        }
    }
    DL_FOREACH2(all ? channel->hearers : NULL, call, acquire.entry->hears.next)
    {
        rlock__ready(call, RLOCK__WOKEN);
    }
    hear(channel);
}
