/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of one number's commands that are not accounted for. A copy may run on its server
 * until its reply was read or its link is fenced. So a copy belongs to a link, and to one
 * generation of it. A reply accounts for what was sent before its request on the same generation,
 * and for nothing else.
 */
#ifndef RLOCK_LOCK_IN_FLIGHT_H
#define RLOCK_LOCK_IN_FLIGHT_H

#include "lock/server/link.h"

#define RLOCK__IN_FLIGHT_MAX 4 /* links with copies of one number; more are never accounted for */

struct rlock__in_flight {
    struct rlock__open_copy {
        struct rlock__link *link;
        uint64_t lost; /* generation that broke with a copy on it, and is fenced last; 0: none */
        uint64_t sent; /* generation of the latest copy, which may be up; 0: none */
        bool unproven; /* a copy was read or fenced, but no reply has told us its effect */
    } open[RLOCK__IN_FLIGHT_MAX];
    unsigned n;
    bool beyond;   /* there are copies on more links */
    bool replaced; /* one is accounted for because another server took its server's place */
    bool ran;      /* some that are accounted for may have run */
};

void rlock__in_flight_add_lost(struct rlock__in_flight *set, struct rlock__link *link,
                               uint64_t gen);
void rlock__in_flight_add_sent(struct rlock__in_flight *set, struct rlock__link *link,
                               uint64_t gen);
void rlock__in_flight_join(struct rlock__in_flight *set, const struct rlock__in_flight *more);
/* Notes which copies are fenced. Call it before you send a request whose reply is to prove what
 * they did. Returns whether more of them are fenced than before. */
bool rlock__in_flight_fence(struct rlock__in_flight *set);
/* The server refused a request that was sent after the copies, on this generation of the link. So
 * it has read the copies, but the refusal does not prove what they did. */
void rlock__in_flight_read(struct rlock__in_flight *set, const struct rlock__link *link,
                           uint64_t gen);
/* A request that was sent after rlock__in_flight_fence(), on this generation of the link, was
 * answered. Removes the copies that the server had read before, and those of the link that were not
 * proven yet. */
void rlock__in_flight_answered(struct rlock__in_flight *set, const struct rlock__link *link,
                               uint64_t gen);
/* That reply says that the number is not on the server. So the removed copies did nothing. */
void rlock__in_flight_refuted(struct rlock__in_flight *set);
/* Whether a copy may still run. */
bool rlock__in_flight_may_run(const struct rlock__in_flight *set);
/* Whether a copy lies on a link that is down and will be fenced when it is up again. */
bool rlock__in_flight_may_be_fenced(const struct rlock__in_flight *set);
/* Whether a copy may still run, or may have run. */
bool rlock__in_flight_is_open(const struct rlock__in_flight *set);

#endif
