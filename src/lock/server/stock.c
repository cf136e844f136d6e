/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/stock.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/server/channel.h"
#include "lock/server/route.h"

#define MOST 16               /* channels in advance; and channels that were granted */
#define IDLE_US RLOCK__SECOND /* after that time without a busy lock the stock is dropped */

struct rlock__stock {
    struct rlock__table_node node; /* in server.stocks, by the lock's channel */
    struct rlock__server *server;
    struct rlock__bytes channel;
    struct rlock__channel *ahead; /* subscribed in advance, the oldest first */
    struct rlock__channel *spent; /* of numbers that were granted */
    unsigned n_ahead, n_spent;
    unsigned wanted; /* calls that found the lock busy after the first, at most MOST */
    struct rlock__timer idle;
    char name[];
};

/* With plain channels beside sharded ones there is no stock: a refusal does not say which plain
 * channel it is for. */
static bool may_have(const struct rlock__call *call)
{
    return (call->spec->ops->caps & RLOCK__CAP_QUEUES) != 0 &&
           !(call->core->opts.announces_both && rlock__route(call->spec)->server->sub.is_sharded);
}

static struct rlock__stock *stock_of(struct rlock__table_node *node)
{
    return node != NULL ? RLOCK__OF(struct rlock__stock, node, node) : NULL;
}

static struct rlock__stock *stock_find(const struct rlock__call *call)
{
    const struct rlock__server *server = rlock__route(call->spec)->server;
    struct rlock__bytes channel = call->spec->channel;
    struct rlock__table_node *node = NULL;

    if (may_have(call)) {
        node = rlock__table_first(&server->stocks, rlock__bytes_hash(channel));
    }
    while (node != NULL && !rlock__bytes_equal(stock_of(node)->channel, channel)) {
        node = rlock__table_next(node);
    }
    assert(node == NULL || stock_of(node)->server == server);
    return stock_of(node);
}

static void take_out(struct rlock__channel *channel)
{
    struct rlock__stock *stock = channel->stock;

    assert(stock->server == channel->server);
    if (channel->is_spent) {
        assert(stock->n_spent > 0);
        DL_DELETE2(stock->spent, channel, stock_prev, stock_next);
        stock->n_spent--;
    } else {
        assert(stock->n_ahead > 0);
        DL_DELETE2(stock->ahead, channel, stock_prev, stock_next);
        stock->n_ahead--;
    }
    channel->stock = NULL;
    channel->is_spent = false;
    assert((stock->ahead == NULL) == (stock->n_ahead == 0));
    assert((stock->spent == NULL) == (stock->n_spent == 0));
}

/* Unsubscribes the live channels of the list, with one command. The end of the event looks at the
 * other channels. */
static void give_up(struct rlock__channel *list)
{
    struct rlock__channel *live[2 * MOST], *channel, *after;
    size_t n = 0;

    DL_FOREACH_SAFE2(list, channel, after, stock_next)
    {
        assert(!rlock__channel_is_needed(channel));
        assert(n < 2 * MOST); /* the list has no more */
        take_out(channel);
        if (channel->live && channel->asked == RLOCK__ASKED_NOTHING && n < 2 * MOST) {
            live[n++] = channel;
        } else {
            rlock__channel_unsettle(channel);
        }
    }
    rlock__channels_ask(live, n, false);
}

static void stock_drop(struct rlock__stock *stock)
{
    struct rlock__server *server = stock->server;

    give_up(stock->ahead);
    give_up(stock->spent);
    assert(stock->n_ahead == 0 && stock->n_spent == 0);
    rlock__timer_unset(&server->core->timers, &stock->idle);
    rlock__table_remove(&server->stocks, &stock->node);
    free(stock);
}

static void on_idle(struct rlock__timer *timer, int64_t now)
{
    (void)now;
    stock_drop(RLOCK__OF(struct rlock__stock, idle, timer));
}

static struct rlock__stock *stock_new(const struct rlock__call *call)
{
    struct rlock__server *server = rlock__route(call->spec)->server;
    struct rlock__bytes name = call->spec->channel;
    struct rlock__stock *stock = calloc(1, sizeof(*stock) + name.len);

    assert(may_have(call) && stock_find(call) == NULL);
    if (stock == NULL) {
        return NULL;
    }
    stock->server = server;
    stock->idle.fire = on_idle;
    memcpy(stock->name, name.at, name.len);
    stock->channel = rlock__bytes(stock->name, name.len);
    rlock__table_add(&server->stocks, &stock->node, rlock__bytes_hash(name));
    return stock;
}

/* Subscribes to the channels of the next numbers, with one command. */
static void order(struct rlock__stock *stock, const struct rlock__spec *spec)
{
    struct rlock__channel *fresh[MOST];
    size_t n = 0;

    assert(stock->wanted <= MOST && stock->server->sub.up);
    while (stock->n_ahead < stock->wanted) {
        uint64_t number = ++spec->core->last_number;
        struct rlock__channel *channel = rlock__channel_own(stock->server, spec, number);

        if (channel == NULL) {
            break;
        }
        assert(channel->stock == NULL && !channel->live && !rlock__channel_is_needed(channel));
        channel->number = number;
        channel->stock = stock;
        DL_APPEND2(stock->ahead, channel, stock_prev, stock_next);
        stock->n_ahead++;
        fresh[n++] = channel;
    }
    assert(n <= MOST && stock->n_ahead <= MOST);
    rlock__channels_ask(fresh, n, true);
}

void rlock__stock_fill(const struct rlock__call *call, int64_t now)
{
    struct rlock__stock *stock = stock_find(call);

    if (!may_have(call) || call->acquire.wait_us == 0 || call->acquire.attempts > 1 ||
        call->core->closed) {
        return;
    }
    if (stock != NULL) {
        stock->wanted += stock->wanted < MOST;
    } else {
        stock = stock_new(call);
    }
    if (stock != NULL) {
        rlock__timer_set(&call->core->timers, &stock->idle, now + IDLE_US);
        if (stock->server->sub.up && !stock->server->sub.refused &&
            stock->n_ahead <= stock->wanted / 2) {
            order(stock, call->spec);
        }
    }
}

bool rlock__stock_take(struct rlock__call *call)
{
    bool waits = call->acquire.wait_us != 0 && call->acquire.batch == NULL;
    struct rlock__stock *stock = waits ? stock_find(call) : NULL;
    struct rlock__channel *channel = stock != NULL ? stock->ahead : NULL;
    bool joined;

    if (channel == NULL || !channel->live || channel->asked != RLOCK__ASKED_NOTHING) {
        return false;
    }
    assert(!channel->is_spent && channel->number != 0 && !rlock__channel_is_needed(channel));
    take_out(channel);
    call->number = channel->number;
    joined = rlock__channel_join(call);
    assert(RLOCK__IMPLIES(joined, call->channel == channel)); /* found by its number */
    return joined;
}

bool rlock__stock_put_by(struct rlock__channel *channel, const struct rlock__call *call)
{
    struct rlock__stock *stock = stock_find(call);

    if (stock == NULL || stock->wanted == 0 || stock->server != channel->server ||
        rlock__channel_is_needed(channel) || !channel->live ||
        channel->asked != RLOCK__ASKED_NOTHING) {
        return false;
    }
    assert(channel->stock == NULL && stock->n_spent < MOST);
    channel->stock = stock;
    channel->is_spent = true;
    DL_APPEND2(stock->spent, channel, stock_prev, stock_next);
    stock->n_spent++;
    if (stock->n_spent == MOST) {
        give_up(stock->spent);
        assert(stock->n_spent == 0);
    }
    return true;
}

void rlock__stock_forget(struct rlock__channel *channel)
{
    if (channel->stock != NULL) {
        take_out(channel);
    }
}

void rlock__stocks_drop(struct rlock__server *server)
{
    struct rlock__stock *stock;

    while ((stock = stock_of(rlock__table_after(&server->stocks, NULL))) != NULL) {
        stock_drop(stock);
    }
    assert(server->stocks.n == 0);
    rlock__table_fini(&server->stocks);
}

void rlock__stocks_close(struct rlock__core *core)
{
    struct rlock__server *server;

    assert(core->closed); /* otherwise a call may make one again */
    DL_FOREACH(core->servers, server) {
        rlock__stocks_drop(server);
    }
}
