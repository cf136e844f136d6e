/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the fair lock share, beyond fixtures and their clients: the queue as
 * the server has it, peers who are not ours, and what the server was seen to do, in its order.
 */
#ifndef RLOCK_TEST_FAIR_HALL_H
#define RLOCK_TEST_FAIR_HALL_H

#include "support/clients.h"

#define QUEUE "redisson_lock_queue:{" NAME "}"
#define SCORES "redisson_lock_timeout:{" NAME "}"
#define CHANNEL "redisson_lock__channel:{" NAME "}"
#define SLOT_MS 300000LL

/* A test whose locks are fair ones. */
extern const struct kind kind_fair;
#define HALL_TEST(name, f) FIXTURE_WITH_TEST(name, f, .kind = &kind_fair)

/* ---- the queue ---- */

enum { HALL_OWNER_SIZE = 80, HALL_MOST = 600 };

/* The owners that wait, the head first. */
struct hall_queue {
    size_t n;
    char owners[HALL_MOST][HALL_OWNER_SIZE];
};

void hall_queue(struct fixture *f, struct hall_queue *ret_queue);
size_t hall_queued(struct fixture *f);
/* Waits until so many queue, dead ones too. */
void hall_await_queued(struct fixture *f, size_t n);
/* Whether a call says that its wait is over. In doubt it may be of an attempt that was not answered
 * within the grace, on a machine that has other things to do. */
bool hall_gave_up(int code);
/* Who holds, "" nobody. Valid until the next call. */
const char *hall_holder(struct fixture *f);
/* The score of an owner; dies when it has none. */
long long hall_score(struct fixture *f, const char *owner);
/* The server's clock in ms. */
long long hall_clock(struct fixture *f);
/* How many hear an owner's channel. */
long long hall_listeners(struct fixture *f, const char *owner);

/* Waiters that queue one after the other, so that the i-th actor is the i-th in the queue. */
void hall_line_up(struct fixture *f, struct actor *const *actors, struct rlock_handle *const *locks,
                  size_t n, act_fn *fn, int64_t wait_ms, const struct rlock_take *take);

/* ---- peers ---- */

/* Runs one of the scripts of peer.h with the server's clock; its answer as test_server_cmd() has
 * it. */
bool peer_takes(struct fixture *f, const char *owner, long long lease_ms, long long wait_ms);
/* Whether it has queued, or waits in the queue already. */
bool peer_queues(struct fixture *f, const char *owner, long long wait_ms);
void peer_leaves(struct fixture *f, const char *owner, long long wait_ms);
bool peer_releases(struct fixture *f, const char *owner);
/* Subscribes to the owner's own channel: the connection. */
int peer_listens(struct fixture *f, const char *owner);
/* Waits for one message there. */
void peer_hears(int fd, const char *owner);

/* ---- what the server did ---- */

struct chronicle;

/* Writes down from here on who queued, who was granted the lock and who left. One at a time. */
struct chronicle *chronicle_begin(struct fixture *f);
/*
 * Ends it, and says whether the grants went to those who were queued in the order in which they
 * queued, the first in front, but for those who left. grants, leavers: how many there were, may be
 * NULL.
 */
bool chronicle_end(struct chronicle *chronicle, size_t *ret_grants, size_t *ret_leavers);

#endif
