/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of one number's commands that are not accounted for. A copy may run on its server as
 * long as its reply was not read and its link is not fenced. So a copy belongs to its link, and to
 * that link's generation. If a generation is fenced, so are all before it. An answer accounts for
 * what was sent before it on its own generation alone.
 */
#ifndef RLOCK_LOCK_COPIES_H
#define RLOCK_LOCK_COPIES_H

#include "lock/server/link.h"

#define RLOCK__COPIES_MAX 4 /* links with open copies of one number; more are never accounted for */

struct rlock__copies {
    struct rlock__open_copy {
        struct rlock__link *link;
        uint64_t lost; /* latest generation that broke with a copy on it; 0 none */
        uint64_t sent; /* generation of the latest copy, which may be up; 0 none */
        bool unproven; /* another one is read or fenced, and nothing proves what it did */
    } open[RLOCK__COPIES_MAX];
    unsigned n;
    bool beyond;   /* there are more */
    bool replaced; /* one is accounted for because another server took its server's place */
    bool ran;      /* some that are accounted for may have run */
};

void rlock__copies_add_lost(struct rlock__copies *copies, struct rlock__link *link, uint64_t gen);
void rlock__copies_add_sent(struct rlock__copies *copies, struct rlock__link *link, uint64_t gen);
void rlock__copies_join(struct rlock__copies *copies, const struct rlock__copies *more);
/* Notes those that are fenced. Call it before you send something whose answer is to prove what they
 * did. Returns whether there are more than before. */
bool rlock__copies_fence(struct rlock__copies *copies);
/* The server refused what was sent after them, on this generation of the link. It has read them,
 * and that proves nothing of what they did. */
void rlock__copies_read(struct rlock__copies *copies, const struct rlock__link *link, uint64_t gen);
/* What was sent after rlock__copies_fence() was answered, on this generation of the link. Forgets
 * the copies that the server read before it, and those of the link that nothing proved yet. */
void rlock__copies_answered(struct rlock__copies *copies, const struct rlock__link *link,
                            uint64_t gen);
/* That answer said that the number is not there. So what is accounted for did nothing. */
void rlock__copies_refuted(struct rlock__copies *copies);
/* Whether one of them may run yet. */
bool rlock__copies_may_run(const struct rlock__copies *copies);
/* Whether one lies on a link that is down, and is fenced when that is up: until then it may run. */
bool rlock__copies_may_be_fenced(const struct rlock__copies *copies);
/* Whether one of them may run yet, or may have run. */
bool rlock__copies_are_open(const struct rlock__copies *copies);

#endif
