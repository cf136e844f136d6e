/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that wait on a channel, and their ears. Listeners are in listener.c. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lock/common.h"
#include "lock/server/channel.h"
#include "lock/server/ear.h"
#include "lock/server/route.h"
#include "lock/server/stock.h"

#define KEPT_US (10 * RLOCK__SECOND) /* a hold that lasts longer need not linger */

/* The name of a channel of the lock: its common one, a colon, and this. Empty without memory. */
static struct rlock__bytes beside(const struct rlock__spec *spec, const char *which)
{
    struct rlock__buf *buf = &spec->core->scratch;

    rlock__buf_clear(buf);
    (void)rlock__buf_add(buf, spec->channel.at, spec->channel.len);
    (void)rlock__buf_add(buf, ":", 1);
    (void)rlock__buf_add(buf, which, strlen(which));
    return rlock__bytes(buf->data, buf->failed ? 0 : buf->len);
}

static struct rlock__channel *get(struct rlock__server *server, struct rlock__bytes name)
{
    return name.len != 0 ? rlock__channel_get(server, name) : NULL;
}

/* A channel that is kept for a while when nobody needs it; NULL without memory. */
static struct rlock__channel *kept(struct rlock__server *server, struct rlock__bytes name)
{
    struct rlock__channel *channel = get(server, name);

    if (channel != NULL) {
        channel->lingers = true;
    }
    return channel;
}

struct rlock__channel *rlock__channel_own(struct rlock__server *server,
                                          const struct rlock__spec *spec, uint64_t number)
{
    char owner[RLOCK__OWNER_SIZE];
    struct rlock__bytes name;

    assert(number != 0 && number <= spec->core->last_number);
    assert(spec->core == server->core);
    assert((spec->ops->caps & RLOCK__CAP_QUEUES) != 0);
    name = beside(spec, rlock__owner_text(spec->core, number, owner).at);
    return name.len != 0 ? rlock__channel_get(server, name) : NULL;
}

struct rlock__channel *rlock__channel_client(struct rlock__server *server, struct rlock__spec *spec)
{
    struct rlock__channel *channel = kept(server, beside(spec, spec->core->opts.uuid));

    if (channel != NULL && channel->spec == NULL) {
        channel->spec = rlock__spec_ref(spec);
    }
    return channel;
}

bool rlock__channel_client_keep(struct rlock__spec *spec, int64_t now)
{
    struct rlock__server *server = rlock__route(spec)->server;
    struct rlock__channel *channel =
        server->sub.refused ? NULL : rlock__channel_client(server, spec);

    if (channel == NULL) {
        return false;
    }
    channel->kept_until = now + KEPT_US;
    if (!channel->live) {
        rlock__channel_unsettle(channel);
    }
    return rlock__channel_is_subscribed(channel);
}

bool rlock__channel_client_is_live(const struct rlock__call *call)
{
    const struct rlock__spec *spec = call->spec;
    struct rlock__server *server = rlock__route(spec)->server;
    const struct rlock__channel *channel;

    if (server->channels.n == 0) { /* most locks are free */
        return false;
    }
    channel = rlock__channel_find(server, beside(spec, spec->core->opts.uuid));
    return channel != NULL && rlock__channel_is_subscribed(channel);
}

static void count_on(struct rlock__channel *channel, bool waits)
{
    if (channel != NULL && channel->counts_readers != waits) {
        channel->counts_readers = waits;
        rlock__channel_unsettle(channel);
    }
}

/*
 * Readers wait on the common channel of a read/write lock, and so do writers that do not enter the
 * queue. Scripts count the clients that have such calls. All of them have one turn together, so
 * none of these clients counts as another library.
 */
static void count_readers(const struct rlock__spec *spec, const struct rlock__channel *channel)
{
    struct rlock__server *server = channel->server;
    bool is_common = channel->spec == NULL;

    if (!is_common || spec->ops->other_side == 0 || !spec->core->opts.queues) {
        return;
    }
    if (channel->waiters != NULL) {
        count_on(kept(server, beside(spec, "rlock")), true);
        count_on(get(server, beside(spec, "readers")), true);
    } else {
        count_on(rlock__channel_find(server, beside(spec, "rlock")), false);
        count_on(rlock__channel_find(server, beside(spec, "readers")), false);
    }
}

bool rlock__ear_open(struct rlock__call *call)
{
    struct rlock__entry *entry = call->acquire.entry;
    struct rlock__server *server = rlock__route(call->spec)->server;

    assert(call->channel != NULL && entry->common == NULL);
    entry->common = kept(server, call->spec->channel);
    entry->marker = entry->common != NULL ? kept(server, beside(call->spec, "rlock")) : NULL;
    if (entry->common == NULL) {
        return false;
    }
    DL_APPEND2(entry->common->hearers, call, acquire.entry->hears.prev, acquire.entry->hears.next);
    rlock__channel_unsettle(entry->common);
    if (entry->marker != NULL) {
        entry->marker->marked++;
        rlock__channel_unsettle(entry->marker);
    }
    return rlock__channel_is_subscribed(entry->common);
}

bool rlock__entry_get(struct rlock__call *call)
{
    struct rlock__acquire *acquire = &call->acquire;

    if (acquire->entry == NULL) {
        acquire->entry = calloc(1, sizeof(*acquire->entry));
    }
    return acquire->entry != NULL;
}

bool rlock__ear_keep(struct rlock__call *call)
{
    if (!rlock__call_enters(call) || call->channel == NULL || !rlock__entry_get(call)) {
        return false;
    }
    call->acquire.entry->is_foreign = true;
    return call->acquire.entry->common != NULL || rlock__ear_open(call);
}

void rlock__ear_close(struct rlock__call *call)
{
    struct rlock__entry *entry = call->acquire.entry;

    if (entry == NULL || entry->common == NULL) {
        return;
    }
    DL_DELETE2(entry->common->hearers, call, acquire.entry->hears.prev, acquire.entry->hears.next);
    rlock__channel_unsettle(entry->common);
    if (entry->marker != NULL) {
        assert(entry->marker->marked > 0);
        entry->marker->marked--;
        rlock__channel_unsettle(entry->marker);
    }
    entry->common = entry->marker = NULL;
}

static struct rlock__channel *channel_for(const struct rlock__call *call,
                                          struct rlock__server *server)
{
    if ((call->spec->ops->caps & RLOCK__CAP_QUEUES) != 0) {
        return rlock__channel_own(server, call->spec, call->number);
    }
    return rlock__call_enters(call) ? rlock__channel_client(server, call->spec)
                                    : rlock__channel_get(server, call->spec->channel);
}

bool rlock__channel_join(struct rlock__call *call)
{
    struct rlock__server *server = rlock__route(call->spec)->server;
    struct rlock__channel *channel = channel_for(call, server);

    assert(rlock__listens(call) && call->channel == NULL);
    assert(channel == NULL || channel->server == server);
    if (channel == NULL) {
        return false;
    }
    call->channel = channel;
    DL_APPEND2(channel->waiters, call, waits.prev, waits.next);
    rlock__channel_unsettle(channel);
    count_readers(call->spec, channel);
    return true;
}

static struct rlock__channel *leave(struct rlock__call *call)
{
    struct rlock__channel *channel = call->channel;

    assert(channel->waiters != NULL && rlock__listens(call));
    rlock__ear_close(call);
    call->channel = NULL;
    DL_DELETE2(channel->waiters, call, waits.prev, waits.next);
    count_readers(call->spec, channel);
    return channel;
}

void rlock__channel_leave(struct rlock__call *call)
{
    rlock__channel_unsettle(leave(call));
}

void rlock__channel_leave_granted(struct rlock__call *call)
{
    struct rlock__channel *channel = leave(call);

    if (!rlock__stock_put_by(channel, call)) {
        rlock__channel_unsettle(channel);
    }
}

bool rlock__channel_is_live(const struct rlock__call *call)
{
    assert(call->channel == NULL || call->channel->waiters != NULL);
    return call->channel != NULL && rlock__channel_is_subscribed(call->channel);
}
