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
    const char *hint; /* for texts: what is wrong, or what to do */
};

struct rlock__class rlock__classify(const struct rlock__reply *reply);
/* Whether it was refused because of where its keys lie: one command for each may be done. */
bool rlock__is_scattered(const struct rlock__reply *reply);
/* Whether a script was stopped in the middle, so that it may have done what it was for. */
bool rlock__is_aborted(const struct rlock__reply *reply);
/* Whether the server says that it is a replica now: it takes no locks any more. */
bool rlock__is_demoted(const struct rlock__reply *reply);
/* Whether the error has the word at its start, or inside behind a blank or a dash: scripts wrap
 * errors. */
bool rlock__error_has(const struct rlock__reply *reply, const char *word);
/* Whether the server is not ready for anything yet, or has no room for this connection. */
bool rlock__is_not_ready(const struct rlock__reply *reply);
/* Whether the hint says more than that it was refused. */
bool rlock__is_known(const struct rlock__class *class);
/* Whether it was refused, or stopped in the middle, since the key's slot is being moved. */
bool rlock__is_moving(const struct rlock__class *class);
struct rlock__class rlock__class_of_moving(void);
/* Whether the server does not know a command, and its name if the error says it; else "". */
bool rlock__is_lacking(const struct rlock__class *class);
void rlock__lacking(const struct rlock__reply *reply, char *out, size_t size);

#endif
