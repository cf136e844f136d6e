/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where waiters queue on the server, each acquisition has a number and a channel of its own. While
 * many come to one lock, a stock of channels is subscribed ahead, many by one command, for numbers
 * that nobody has had yet. Who takes one of them has heard its channel since before its first
 * attempt: that attempt may enqueue, and no other one is needed before it sleeps. Channels that
 * were granted are given up together too.
 *
 * A stock is made when a call finds the lock busy, grows with each one more, and goes when none did
 * for a second, or when its connection goes. All its channels are in the lock's slot: where that
 * moves in a cluster, all leave the stock.
 */
#ifndef RLOCK_LOCK_STOCK_H
#define RLOCK_LOCK_STOCK_H

#include "lock/core.h"

struct rlock__stock;

/* The call, which needs a number, has one from the stock and hears its channel; false: it does not
 * wait, or there is none whose subscription was acknowledged. */
bool rlock__stock_take(struct rlock__call *call);
/* The call has found the lock busy. If it waits, others may come. */
void rlock__stock_fill(const struct rlock__call *call, int64_t now);
/* Takes over a live channel whose number was granted, to give it up with others; false: there is no
 * stock, or it is not for that. */
bool rlock__stock_put_by(struct rlock__channel *channel, const struct rlock__call *call);
/* The channel is in the stock no more: its subscription was refused, or its slot is elsewhere. */
void rlock__stock_forget(struct rlock__channel *channel);
/* The connection is down: there is no stock. */
void rlock__stocks_drop(struct rlock__server *server);
/* The core ends: no server has one. */
void rlock__stocks_close(struct rlock__core *core);

#endif
