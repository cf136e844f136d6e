/* SPDX-License-Identifier: Apache-2.0 */
/* Requests on their way to a link. */
#ifndef RLOCK_LOCK_SEND_H
#define RLOCK_LOCK_SEND_H

#include "lock/core.h"

/* Gives a request to a link: rlock__pipeline_submit() for a new attempt, which has made no hop yet.
 * If the map does not name the link's server, the request goes out behind ASKING. The request
 * borrows the spec for as long as it has a subject. */
bool rlock__submit(struct rlock__request *request, struct rlock__spec *spec,
                   struct rlock__link *link, int64_t now);
/* Nobody awaits the request's answer any more: the request is not sent, or not again. Returns
 * NULL. */
struct rlock__request *rlock__abandon(struct rlock__request *request);
/* The same for the request of a call, which loses it. The request may be one that was not submitted
 * again, or the link may be gone. */
void rlock__call_withdraw(struct rlock__call *call);
/* The next copy goes out behind ASKING, or not. An extra argument says so to a script: a key that
 * is missing there may be on its way. */
void rlock__set_asking(struct rlock__request *request, bool asking);
/* What a release leaves of a number. */
struct rlock__rest {
    uint64_t number;
    uint32_t count;      /* of its levels */
    uint32_t units;      /* that these levels have */
    uint32_t most_units; /* that it may have before the release */
    int64_t lease_us;    /* that the levels ask for; 0: none */
};

/* Sends the release that lowers a number to that. NULL without memory: nothing is sent. */
struct rlock__request *rlock__release_send(struct rlock__spec *spec, struct rlock__link *link,
                                           const struct rlock__rest *rest, rlock__answer_fn *answer,
                                           void *subject, int64_t now);
/* Sends the last release of the text that the number's hold was detached to. */
struct rlock__request *rlock__text_release_send(struct rlock__spec *spec, struct rlock__link *link,
                                                uint64_t number, rlock__answer_fn *answer,
                                                void *subject, int64_t now);
/* Sends what gives the number's hold to another owner, with a lease from then on. */
struct rlock__request *rlock__rename_send(struct rlock__spec *spec, struct rlock__link *link,
                                          uint64_t number, struct rlock__bytes to, int64_t lease_us,
                                          rlock__answer_fn *answer, void *subject, int64_t now);

#endif
