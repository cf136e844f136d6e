/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers to acquisitions that prove the end of another hold of this client. The server grants the
 * lock to another owner, or names another holder; so the hold is gone, whatever took it away.
 *
 * An answer is a proof if its request was sent after the grant of the hold was read, to the server
 * that has both the hold and the key. If that is not certain, the client asks the server about the
 * hold. A hold that lingers is released in any case.
 */
#include <assert.h>

#include "lock/call/acquire.h"
#include "lock/call/pass.h"
#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/server/route.h"

/* Whether the hold is another owner's, and either both locks have sides or both have none. */
static bool is_rival(const struct rlock__hold *hold, const struct rlock__call *call)
{
    bool is_own = hold->owner_id == call->owner.id && hold->given == call->owner.given;

    return !is_own && hold->state == RLOCK__HOLD_HELD && !hold->grant->releasing &&
           (hold->spec->ops->side == 'x') == (call->spec->ops->side == 'x');
}

static bool is_newer(const struct rlock__call *call, const struct rlock__hold *hold)
{
    return call->acquire.sent_at > hold->grant->granted_at;
}

static bool is_certain(const struct rlock__call *call, const struct rlock__hold *hold)
{
    const struct rlock__server *server = call->link->server;
    const struct rlock__grant *grant = hold->grant;

    return is_newer(call, hold) && !call->acquire.asked && server == grant->link->server &&
           server == rlock__route(hold->spec)->server && !rlock__grant_moved(grant);
}

/* Ends the hold, or asks the server about it. Returns whether the hold has ended. */
static bool end(struct rlock__hold *hold, const struct rlock__call *call, int64_t now)
{
    bool is_over = is_certain(call, hold);

    assert(hold->state == RLOCK__HOLD_HELD);
    assert(hold != call->hold); /* no answer to a call proves anything against its own hold */
    if (is_over) { /* the answer is newer than the grant, and comes from the server that has it */
        assert(call->acquire.sent_at > hold->grant->granted_at);
        assert(call->link->server == hold->grant->link->server);
        rlock__hold_gone(hold, true, now);
        assert(hold->state == RLOCK__HOLD_LOST);
    } else if (!hold->grant->verifies) {
        rlock__grant_verify(hold->grant, now);
    }
    return is_over;
}

bool rlock__proof_granted(const struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold, *after;
    bool alone = true;

    assert(call->step == RLOCK__ASKING && call->request == NULL);
    rlock__pass_yield(call->core, call->spec, now);
    hold = rlock__hold_by_lock(call->core, call->spec, NULL);
    for (; hold != NULL; hold = after) {
        after = rlock__hold_by_lock(call->core, call->spec, hold);
        if (is_rival(hold, call)) {
            alone = end(hold, call, now) && alone;
        }
    }
    return alone;
}

/* Whether the server names this hold: "uuid:number", for a writer with the side behind it. */
static bool is_named(const struct rlock__hold *hold, struct rlock__bytes holder)
{
    char text[RLOCK__OWNER_SIZE];
    struct rlock__bytes own = rlock__owner_text(hold->spec->core, hold->grant->number, text);

    return holder.len >= own.len && memcmp(holder.at, own.at, own.len) == 0 &&
           (holder.len == own.len || holder.at[own.len] == ':');
}

void rlock__proof_refused(const struct rlock__call *call, struct rlock__bytes holder, int64_t now)
{
    struct rlock__hold *hold, *after;

    assert(call->request == NULL); /* the answer was read */
    rlock__pass_yield(call->core, call->spec, now);
    hold = rlock__hold_by_lock(call->core, call->spec, NULL);
    for (; hold != NULL && holder.len != 0 && !call->acquire.asked; hold = after) {
        after = rlock__hold_by_lock(call->core, call->spec, hold);
        if (is_rival(hold, call) && is_newer(call, hold) && !is_named(hold, holder)) {
            (void)end(hold, call, now);
        }
    }
}
