/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A detach: the last release of a hold, which gives it to a text instead of ending it. One step on
 * the server gives the field of the hold another name, which the text says. So the lock is taken
 * all the time.
 *
 * The validity ends before the request is sent. If the outcome stays unknown, the server has the
 * hold under one of the two names, and nobody knows the text. The owner detaches again, which
 * changes nothing if the first request ran; or it unlocks. An unlock releases both names: first the
 * number, then the text. A late copy of the detach finds nothing to rename then.
 */
#include <assert.h>

#include "lock/call/release.h"
#include "lock/hold/hold.h"
#include "lock/server/send.h"

bool rlock__detach_joins(struct rlock__hold *hold, const struct rlock__call *call)
{
    assert(hold->turn == NULL && hold->grant->releasing);
    if (rlock__detaches(call)) {
        return hold->detach == RLOCK__DETACHING;
    }
    if (hold->detach == RLOCK__DETACHING) {
        assert(hold->grant->release == NULL); /* rlock__detach_leave() */
        hold->detach = RLOCK__REVOKING;
    }
    return true;
}

/* Whether the owner has the other side of the lock too, which goes with this one. */
static bool has_other_side(const struct rlock__call *call)
{
    char side = call->spec->ops->other_side;
    const struct rlock__hold *other =
        side == 0 ? NULL : rlock__hold_find_side(call->core, call->spec, call->owner, side);

    return other != NULL && other->state != RLOCK__HOLD_NONE;
}

int rlock__detach_refusal(const struct rlock__call *call, const char **ret_why)
{
    const struct rlock__hold *hold = call->hold;

    *ret_why = "";
    if (hold->state == RLOCK__HOLD_LOST) {
        *ret_why = rlock_reason_text(hold->reason);
        return RLOCK_ELOST;
    }
    if (hold->count > 1 || hold->members > 0) {
        *ret_why = "only a hold of one level, which is not part of a multi-lock, can be detached";
        return RLOCK_EINVAL;
    }
    if (rlock__hold_units(hold, hold->count) > 1) {
        *ret_why = "only a hold of one permit can be detached";
        return RLOCK_EINVAL;
    }
    if (has_other_side(call)) {
        *ret_why = "its owner holds the other side of the lock too";
        return RLOCK_EINVAL;
    }
    return 0;
}

/* The server may keep the text's lease from now on. */
static void mind_text(struct rlock__hold *hold, int64_t now)
{
    rlock__grant_may_last(hold->grant, rlock__free_by(now, hold->turn->acquire.lease_us));
}

struct rlock__request *rlock__detach_send(struct rlock__hold *hold, rlock__answer_fn *answer,
                                          int64_t now)
{
    struct rlock__grant *grant = hold->grant;
    struct rlock__link *link = rlock__grant_route(grant);
    const struct rlock__rest rest = {.number = grant->number,
                                     .most_units = rlock__units_most(hold)};
    char text[RLOCK__OWNER_SIZE];

    assert(rlock__is_last(hold));
    switch (hold->detach) {
    case RLOCK__DETACHING:
        mind_text(hold, now);
        return rlock__rename_send(hold->spec, link, grant->number,
                                  rlock__text_owner(hold->spec->core, grant->number, text),
                                  hold->turn->acquire.lease_us, answer, hold, now);
    case RLOCK__REVOKING:
        return rlock__release_send(hold->spec, link, &rest, answer, hold, now);
    case RLOCK__REVOKING_TEXT:
        return rlock__text_release_send(hold->spec, link, grant->number, answer, hold, now);
    case RLOCK__ATTACHED:
        break;
    }
    assert(false); /* rlock__release_send() does that */
    return NULL;
}

int64_t rlock__detach_leave(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;

    if (grant->release != NULL) { /* it is not sent again, so that the text's lease has an end */
        grant->release = rlock__abandon(grant->release);
    }
    mind_text(hold, now);
    if (hold->lined > 0) { /* the owner unlocks already */
        hold->detach = RLOCK__REVOKING;
        return now;
    }
    return grant->free_by;
}
