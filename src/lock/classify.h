/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RLOCK_LOCK_CLASSIFY_H
#define RLOCK_LOCK_CLASSIFY_H

#include "lock/core.h"

#define RLOCK__HINT_SIZE 40

/* What an error of the server means for a call. */
struct rlock__class {
    int code;
    enum {
        RLOCK__GIVE_UP, /* it will not pass */
        RLOCK__RETRY,   /* it passes soon: a call of one attempt tries again too, until its deadline
                         */
        RLOCK__WAIT,    /* it may pass: only a call that waits tries again */
    } way;
    const char *hint; /* what to do, for texts */
};

struct rlock__class rlock__classify(const struct rlock__reply *reply);
/* Whether it was refused because of where its keys lie: one command for each may be done. */
bool rlock__is_scattered(const struct rlock__reply *reply);
/* Whether a script was stopped in the middle, so that it may have done what it was for. */
bool rlock__is_aborted(const struct rlock__reply *reply);
/* Whether the server says that it is a replica now: it takes no locks any more. */
bool rlock__is_demoted(const struct rlock__reply *reply);
/* The same as rlock__classify(), where keys may move: what is asked again is routed anew. */
struct rlock__class rlock__core_classify(const struct rlock__core *core,
                                         const struct rlock__reply *reply);
/* Whether it was refused, or stopped in the middle, since the key's slot is being moved. */
bool rlock__is_moving(const struct rlock__class *class);
/* The hint for a lock's text: which slot it is that is being moved. */
const char *rlock__hint(const struct rlock__class *class, const struct rlock__spec *spec,
                        char out[static RLOCK__HINT_SIZE]);

#endif
