/* SPDX-License-Identifier: Apache-2.0 */
/* A call that extends a hold. It takes no turn: other calls of its owner go on meanwhile. */
#include <assert.h>

#include "lock/call/calls.h"
#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/server/link.h"

static void fail(struct rlock__call *call, int code, const char *why)
{
    char name[96];

    rlock__say(call, "lock %s: not extended: %s (server %s)", rlock__spec_text(call->spec, name),
               why, call->link->server->address);
    rlock__call_complete(call, code, NULL);
}

/* Whether the owner has levels that this call speaks for. */
static bool has_levels(const struct rlock__hold *hold, const struct rlock__call *call)
{
    return hold->state != RLOCK__HOLD_NONE && rlock__hold_left(hold) > 0 &&
           (call->member || hold->count > hold->members) && !hold->grant->releasing;
}

void rlock__extend_begin(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = rlock__hold_find(call->core, call->spec, call->owner);

    assert(call->kind == RLOCK__EXTEND && call->extend.lease_us >= 0);
    if (hold == NULL || !has_levels(hold, call)) {
        fail(call, RLOCK_ENOTOWNER, rlock_strerror(RLOCK_ENOTOWNER));
        return;
    }
    if (hold->state == RLOCK__HOLD_HELD && now >= hold->grant->valid_until) {
        rlock__hold_lose(hold, RLOCK_LOST_EXPIRED, now);
    }
    if (hold->state == RLOCK__HOLD_LOST) {
        call->extend.reason = (int)hold->reason;
        fail(call, RLOCK_ELOST, rlock_reason_text((int)hold->reason));
        return;
    }
    call->count = rlock__hold_left(hold);
    call->deadline = now + call->core->opts.op_timeout_us;
    rlock__call_step(call, RLOCK__SLEEPING);
    call->extend.asked_at = now;
    call->extend.requests = 1;
    rlock__timer_set(&call->core->timers, &call->timer, call->deadline);
    rlock__extension_begin(hold->grant, call, now);
}

void rlock__extend_settled(struct rlock__call *call)
{
    assert(call->extend.grant == NULL);
    if (call->code == 0 || call->error != 0) { /* the server's refusal is the text */
        rlock__call_complete(call, call->code, NULL);
    } else {
        fail(call, call->code,
             call->code == RLOCK_ELOST ? rlock_reason_text(call->extend.reason)
                                       : rlock_strerror(call->code));
    }
}

/* The code of a call that has no more time. */
static int late_code(const struct rlock__call *call)
{
    if (call->extend.is_sent || call->extend.may_have_run) {
        return RLOCK_EINDOUBT;
    }
    return call->error != 0 ? call->error : RLOCK_ECONN;
}

void rlock__extend_give_up(struct rlock__call *call, int code, int64_t now)
{
    struct rlock__grant *grant = call->extend.grant;

    if (grant == NULL) { /* its outcome is known already */
        rlock__extend_settled(call);
        return;
    }
    call->link = grant->link;
    if (code == RLOCK_ETIMEDOUT) {
        code = late_code(call);
    }
    rlock__grant_mind_renewal(grant, now);
    rlock__say_free(call, grant->free_by);
    rlock__extension_end(call);
    if (code == RLOCK_EINDOUBT) {
        fail(call, code, "no answer; it is valid as before");
    } else if (call->error != 0) {
        rlock__call_complete(call, code, NULL);
    } else {
        fail(call, code,
             code == RLOCK_ECONN && call->link->code != 0 ? call->link->error
                                                          : rlock_strerror(code));
    }
}

void rlock__extend_timer(struct rlock__call *call, int64_t now)
{
    rlock__extend_give_up(call, RLOCK_ETIMEDOUT, now);
}
