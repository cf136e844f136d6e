/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One Sentinel, asked for the primary, and heard when it says that this changes. The service
 * thread's own.
 */
#ifndef RLOCK_DRIVE_SENTINEL_H
#define RLOCK_DRIVE_SENTINEL_H

#include "base/error.h"
#include "cluster/sentinel.h"
#include "drive/question.h"

struct rlock__sentinel {
    char address[300];
    struct rlock__question question; /* for the primary */
    struct rlock__conn *ear;         /* hears that the primary changes */
    int64_t hears_at;                /* when to make it anew */
    bool hears;
    bool is_kept;               /* it was asked over a connection that was there */
    bool is_silent;             /* it had no answer of late: nobody waits for it */
    int64_t said_at;            /* its latest answer was asked for then */
    struct rlock__primary said; /* that; without a host while it is open, and of an error */
    int code;                   /* why there is none */
    bool final;
    char why[RLOCK__DETAIL_SIZE];
};

/* conn_opts: copied; what they point to must outlive it. False without memory: it is to be ended
 * all the same. */
bool rlock__sentinel_init(struct rlock__sentinel *sentinel,
                          const struct rlock__conn_opts *conn_opts);
void rlock__sentinel_fini(struct rlock__sentinel *sentinel);
/* Asks it: the commands of rlock__primary_ask(). */
void rlock__sentinel_ask(struct rlock__sentinel *sentinel, struct rlock__bytes commands,
                         int64_t now);
/* Takes what has come of its answer. A question over a connection that turns out to have ended
 * counts as not asked. */
void rlock__sentinel_go_on(struct rlock__sentinel *sentinel, int64_t now);
/* Hears it, as long as it answers. Returns whether the primary may have changed: also when it is
 * heard from now on, since what it said before was missed. */
bool rlock__sentinel_hear(struct rlock__sentinel *sentinel, int64_t now);
/* What to poll, and until when. */
int64_t rlock__sentinel_plan(const struct rlock__sentinel *sentinel, struct pollfd *ret_question,
                             struct pollfd *ret_ear);

#endif
