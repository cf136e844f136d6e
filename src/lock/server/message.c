/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on a channel. They wake calls and listeners. */
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

/* What follows the first word of a text, behind the blank. */
static struct rlock__bytes behind_word(struct rlock__bytes text)
{
    const char *blank = text.len > 0 ? memchr(text.at, ' ', text.len) : NULL;

    return blank != NULL ? rlock__bytes(blank + 1, text.len - (size_t)(blank + 1 - text.at))
                         : rlock__bytes("", 0);
}

/* The call is to ask at that time. If others have a turn until then, the call hears them, and their
 * release may make it ask sooner. On plain and sharded channels the message comes twice. */
static void be_told(struct rlock__entry *entry, bool is_others_turn, int64_t ask_at)
{
    if (is_others_turn) {
        entry->marks -= entry->marks > 0 && entry->ask_at == 0;
        entry->is_foreign = true;
    }
    entry->ask_at = ask_at;
}

/* A release granted the lock to the call, by the entry with this ticket. While the call asks, the
 * answer says what counts. */
static void be_pushed(struct rlock__call *call, int64_t ticket, uint64_t token)
{
    struct rlock__entry *entry = call->acquire.entry;

    if (entry != NULL && entry->may_push && entry->entered_at != 0 && entry->ticket == ticket &&
        call->step != RLOCK__ASKING) {
        entry->is_pushed = true;
        entry->token = token;
    }
}

/* Notes a number in the channel. The end of the event looks at it. */
static void note_number(struct rlock__channel *channel, uint64_t *ret_number, uint64_t number)
{
    if (channel->stray == 0 && channel->awaited == 0) {
        LL_PREPEND2(channel->server->sub.told, channel, told_next);
        rlock__server_touch(channel->server);
    }
    *ret_number = number;
}

/* A message on the client's own channel. "g number …": the lock is reserved for the call with this
 * number. "p number ticket [token]": it is granted to the call. If no call has the number any more,
 * the end of the event gives the lock back. "s number ms": the call is to ask after that time. "o
 * number ms": the same, and meanwhile others have one of their turns. "w number": a call of another
 * client waits for the hold with this number. */
static void tell(struct rlock__channel *channel, struct rlock__bytes message, int64_t now)
{
    const char word = *(message.len > 0 ? message.at : "");
    bool is_given = word == 'g' || word == 'p', is_found = false;
    struct rlock__bytes rest = behind_word(message), more = behind_word(rest);
    uint64_t number = (uint64_t)rlock__max(rlock__bytes_number(rest, 0), 0);
    int64_t first = rlock__bytes_number(more, 0), ms = is_given ? 0 : first;
    struct rlock__call *call;

    DL_FOREACH2(channel->waiters, call, waits.next)
    {
        if (call->number != number) {
            continue;
        }
        is_found = true;
        if (ms > 0 && call->acquire.entry != NULL) {
            be_told(call->acquire.entry, word == 'o', now + rlock__reported_ms(ms));
            rlock__ready(call, RLOCK__TOLD);
        } else {
            if (word == 'p') {
                be_pushed(call, first,
                          (uint64_t)rlock__max(rlock__bytes_number(behind_word(more), 0), 0));
            }
            rlock__ready(call, RLOCK__WOKEN);
        }
    }
    if (word == 'w' && number != 0) {
        note_number(channel, &channel->awaited, number);
    }
    /* a number that this client never gave out may be a later call's */
    if (!is_found && is_given && number != 0 && number <= channel->server->core->last_number) {
        note_number(channel, &channel->stray, number);
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
        if (call->acquire.entry->is_foreign) { /* otherwise a release tells this call alone */
            on_release(call, now);
        }
    }
}

void rlock__channel_on_message(struct rlock__channel *channel, struct rlock__bytes message,
                               int64_t now)
{
    struct rlock__call *call;

    channel->server->core->stats.messages++;
    if (channel->spec != NULL) {
        tell(channel, message, now);
        return;
    }
    DL_FOREACH2(channel->waiters, call, waits.next)
    {
        assert(call->channel == channel);
        if (message.len > 1 && message.at[0] == 'p') { /* "p number ticket" of a fair lock */
            be_pushed(call, rlock__bytes_number(behind_word(behind_word(message)), 0), 0);
        }
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
        assert(call->channel == channel && rlock__listens(call));
        if (all || call->acquire.queue == NULL) {
            rlock__ready(call, RLOCK__WOKEN);
        }
    }
    DL_FOREACH2(all ? channel->hearers : NULL, call, acquire.entry->hears.next)
    {
        if (call->acquire.entry->ask_at == 0) { /* otherwise it would end a turn of others */
            rlock__ready(call, RLOCK__WOKEN);
        }
    }
    hear(channel);
}
