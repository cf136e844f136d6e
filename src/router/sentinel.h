/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One Sentinel. The client asks it for the primary, and subscribes to its reports that the primary
 * changes. Only the service thread uses it.
 */
#ifndef RLOCK_ROUTER_SENTINEL_H
#define RLOCK_ROUTER_SENTINEL_H

#include "base/error.h"
#include "net/question.h"
#include "topology/sentinel.h"
#include "topology/standby.h"

struct rlock__sentinel {
    char address[300];
    char id[RLOCK__SENTINEL_ID + 1]; /* "" unknown */
    bool is_id_refused;              /* the Sentinel does not tell it */
    struct rlock__buf peers;         /* the Sentinels that it knows: rlock__primary_read_peers() */
    struct rlock__buf commands;
    struct rlock__sentinel_asks asks; /* the commands of the question that is open */
    struct rlock__question question;  /* for the primary */
    struct rlock__conn *subscription; /* reports that the primary changes */
    int64_t subscribe_at;             /* when to make that connection again */
    bool is_subscribed;               /* the command has been sent on it */
    bool is_kept;                     /* it was asked over a connection that was there */
    bool is_silent;             /* it has not answered lately: the client does not wait for it */
    int64_t said_at;            /* its latest answer was asked for then */
    struct rlock__primary said; /* that; without a host while it is open, and of an error */
    struct rlock__standbys standbys; /* the same: the replicas */
    int code;                        /* why there is none */
    bool final;
    char why[RLOCK__DETAIL_SIZE];
};

/* conn_opts: copied; what they point to must outlive it. False without memory: it is to be ended
 * all the same. */
bool rlock__sentinel_init(struct rlock__sentinel *sentinel,
                          const struct rlock__conn_opts *conn_opts);
void rlock__sentinel_fini(struct rlock__sentinel *sentinel);
/* Asks it for the primary of this name; for its peers too, if they are wanted. */
void rlock__sentinel_ask(struct rlock__sentinel *sentinel, const char *name, bool wants_peers,
                         int64_t now);
/* Whether another one is among its peers, by its latest answer about them. */
bool rlock__sentinel_knows(const struct rlock__sentinel *sentinel,
                           const struct rlock__sentinel *other);
/* Takes what has come of its answer. A question over a connection that turns out to have ended
 * counts as not asked. */
void rlock__sentinel_go_on(struct rlock__sentinel *sentinel, int64_t now);
/* Reads its messages, as long as it answers questions. Returns whether the primary may have
 * changed. A new subscription counts as a change, because earlier messages were missed. */
bool rlock__sentinel_read_changes(struct rlock__sentinel *sentinel, int64_t now);
/* Until when to wait. */
int64_t rlock__sentinel_plan(const struct rlock__sentinel *sentinel);
/* Registers the Sentinel's connection in an epoll, without data. */
void rlock__sentinel_register(const struct rlock__sentinel *sentinel, int epoll_fd);

#endif
