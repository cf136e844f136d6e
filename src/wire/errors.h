/* SPDX-License-Identifier: Apache-2.0 */
/* What servers' errors mean, in the words of Redis, Valkey, and proxies. */
#ifndef RLOCK_WIRE_ERRORS_H
#define RLOCK_WIRE_ERRORS_H

#include <rlock/rlock.h>

#include "wire/reply.h"

/* What an error of the server means for a call. */
struct rlock__class {
    int code;
    enum {
        RLOCK__GIVE_UP, /* it will not pass */
        RLOCK__RETRY,   /* it passes soon: a call of one attempt tries again too, until its deadline
                         */
        RLOCK__WAIT,    /* it may pass: only a call that waits tries again */
    } way;
    unsigned is;      /* RLOCK__SCATTERED and so on */
    const char *hint; /* for texts: what is wrong, or what to do */
};

/* What else an error says. */
enum {
    RLOCK__SCATTERED = 1 << 0,  /* its keys are spread: one command for each may succeed */
    RLOCK__REDIRECTED = 1 << 1, /* its keys lie at another server */
    RLOCK__MOVING = 1 << 2,     /* the slot is being moved: it was refused, or stopped halfway */
    RLOCK__ABORTED = 1 << 3,    /* its script was stopped halfway, and may have done its work */
    RLOCK__DEMOTED = 1 << 4,    /* the server is a replica now: it takes no locks any more */
    RLOCK__NOT_READY = 1 << 5,  /* the server serves nobody yet, or has no room for a connection */
    RLOCK__LACKING = 1 << 6,    /* the server does not know a command */
    RLOCK__UNEXPLAINED = 1 << 7 /* the hint says no more than that it was refused */
};

#define RLOCK__MOVES "the slot is being moved" /* the hint of RLOCK__MOVING */

struct rlock__class rlock__classify(const struct rlock__reply *reply);

/* Whether the reply is an error that says so. */
static inline bool rlock__error_is(const struct rlock__reply *reply, unsigned what)
{
    return rlock__reply_is_error(reply) && (rlock__classify(reply).is & what) != 0;
}

/* The name of the command that the server does not know, if the error says it; else "". */
void rlock__lacking(const struct rlock__reply *reply, char *out, size_t size);

#endif
