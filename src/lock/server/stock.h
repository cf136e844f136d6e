/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The waiters of a fair lock queue on the server, and each acquisition has its own number and
 * channel. While many calls come to one lock, the client subscribes in advance to a stock of
 * channels, many by one command, for numbers that no call has had yet. A call that takes such a
 * channel is subscribed before its first attempt. So that attempt may enqueue the call, which then
 * sleeps without a second attempt. Channels whose numbers were granted are unsubscribed together.
 *
 * A stock is created when a call finds the lock busy, and grows with each further such call. It is
 * dropped after a second without one, or when the subscriber connection breaks. All its channels
 * are in the lock's slot: if a cluster moves the slot, all leave the stock.
 */
#ifndef RLOCK_LOCK_STOCK_H
#define RLOCK_LOCK_STOCK_H

#include "lock/core.h"

struct rlock__stock;

/* Gives the call, which needs a number, a number and its channel from the stock. Returns false if
 * the call does not wait, or the stock has no channel that is live. */
bool rlock__stock_take(struct rlock__call *call);
/* The call has found the lock busy. If it waits, creates the stock or lets it grow. */
void rlock__stock_fill(const struct rlock__call *call, int64_t now);
/* Takes over a live channel whose number was granted, to unsubscribe it together with others.
 * Returns false if there is no stock for the channel. */
bool rlock__stock_put_by(struct rlock__channel *channel, const struct rlock__call *call);
/* Takes the channel out of its stock: its subscription was refused, or its slot is elsewhere. */
void rlock__stock_forget(struct rlock__channel *channel);
/* The subscriber connection is down: drops the server's stocks. */
void rlock__stocks_drop(struct rlock__server *server);
/* The client is closed: drops all stocks. */
void rlock__stocks_close(struct rlock__core *core);

#endif
