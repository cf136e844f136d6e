/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of multi-locks and RedLocks share: a fleet of servers, each behind a proxy of
 * its own where asked, and crews on it: one client for each server, the lock "a" on each, and one
 * RedLock of them.
 *
 * A fleet that is closed has seen every crew gone, and checks that nothing is left: no overlap,
 * no key, no channel, no descriptor, no thread.
 */
#ifndef RLOCK_TEST_GROUP_FLEET_H
#define RLOCK_TEST_GROUP_FLEET_H

#include <rlock/rlock.h>

#include <pthread.h>
#include <stdatomic.h>

#include "support/codes.h"
#include "support/proxy.h"
#include "support/run.h"
#include "support/server.h"
#include "support/witness.h"

enum { FLEET_MAX = 5 };

struct fleet {
    size_t n;
    struct test_server *servers[FLEET_MAX];
    struct proxy *proxies[FLEET_MAX]; /* NULL: none */
    struct witness *witness;
    size_t fds, threads; /* before it opened */
};

struct fleet_opts {
    size_t n;
    bool proxied, aof;
};

void fleet_open(struct fleet *fleet, const struct fleet_opts *opts);
/* Servers that were killed are started again, empty, to be looked at. */
void fleet_close(struct fleet *fleet);
/* The same servers as somebody else reaches them: behind proxies of its own, none of the rest. */
void fleet_view_open(struct fleet *view, const struct fleet *fleet);
void fleet_view_close(struct fleet *view);
/* The proxies of the servers in the mask let everything pass; those of the others refuse. */
void fleet_reach_only(const struct fleet *fleet, unsigned int mask);
/* How many of the servers that run have the key. */
size_t fleet_holding(const struct fleet *fleet, const char *key);

struct crew {
    struct fleet *fleet;
    struct rlock_client *clients[FLEET_MAX];
    struct rlock *members[FLEET_MAX]; /* "a" on each */
    struct rlock *lock;               /* the RedLock of all members */
    int64_t lease_us;                 /* of renewed holds */
    pthread_mutex_t mutex;            /* protects what follows */
    unsigned int losses;
    enum rlock_reason reason;
    char kind[16], name[32]; /* of the latest loss */
    char log[4096];
};

/* url is set for each; max_lease_ms as in rlock_opts, -1 off. */
void crew_open(struct crew *crew, struct fleet *fleet, struct rlock_client_opts opts,
               int64_t max_lease_ms);
void crew_close(struct crew *crew);
unsigned int crew_losses(struct crew *crew);
/* Whether its log has a text. */
bool crew_logged(struct crew *crew, const char *text);
/* One more handle, to be freed. */
struct rlock *crew_lock(const struct crew *crew, size_t server, const char *name);
/* The code of each member in the latest call on the lock, in the servers' order. */
void crew_codes(const struct crew *crew, int codes[static FLEET_MAX]);

#endif
