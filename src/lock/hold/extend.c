/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that extend a hold. A call waits at the grant, and makes the next renewal due. That renewal
 * asks for the longest lease that a waiting call wants, and completes the calls that waited when it
 * was sent. If it fails, the next one follows, until the call's deadline or the end of the hold.
 */
#include <assert.h>
#include <utlist.h>

#include "lock/common.h"
#include "lock/hold/hold.h"

void rlock__extension_begin(struct rlock__grant *grant, struct rlock__call *call, int64_t now)
{
    assert(call->kind == RLOCK__EXTEND && call->extend.grant == NULL);
    assert(grant->hold->state == RLOCK__HOLD_HELD);
    call->extend.grant = grant;
    DL_APPEND(grant->extensions, call);
    rlock__grant_hurry(grant, now);
    rlock__grant_plan(grant);
}

/* Takes the call from the grant. */
static void part(struct rlock__call *call)
{
    assert(call->extend.grant != NULL);
    DL_DELETE(call->extend.grant->extensions, call);
    call->extend.grant = NULL;
}

void rlock__extension_end(struct rlock__call *call)
{
    struct rlock__grant *grant = call->extend.grant;

    part(call);
    if (grant->hold->state == RLOCK__HOLD_HELD) {
        rlock__grant_plan(grant);
    }
}

/* The call's outcome is known. */
static void settle(struct rlock__call *call, int code)
{
    part(call);
    call->code = code;
    rlock__ready(call, RLOCK__EXTENDED);
}

bool rlock__extensions_wait(const struct rlock__grant *grant)
{
    return grant->extensions != NULL && rlock__hold_left(grant->hold) > 0;
}

int64_t rlock__extensions_lease(const struct rlock__grant *grant, int64_t now)
{
    const struct rlock__call *call;
    int64_t longest = 0;

    if (!rlock__extensions_wait(grant)) {
        return 0;
    }
    DL_FOREACH(grant->extensions, call) {
        int64_t lease =
            call->extend.lease_us != 0 ? call->extend.lease_us : call->core->opts.renewed_lease_us;

        longest = rlock__max(longest, lease);
    }
    return rlock__min(longest, rlock__max(grant->held_until - now, RLOCK__MS));
}

void rlock__extensions_send(struct rlock__grant *grant, int64_t lease_us)
{
    struct rlock__call *call;

    DL_FOREACH(grant->extensions, call) {
        call->extend.is_sent = true;
        grant->lease_us = rlock__max(grant->lease_us, lease_us);
    }
}

/* The owner's levels are renewed from now on, as if the first one had asked for that. */
static void renew_all(struct rlock__hold *hold, const struct rlock__call *call)
{
    if (call->extend.lease_us == 0 && !call->member && hold->count > hold->members) {
        hold->renewed_from = 1;
    }
}

void rlock__extensions_granted(struct rlock__grant *grant, int64_t lease_us, int64_t now)
{
    struct rlock__call *call, *after;

    DL_FOREACH_SAFE(grant->extensions, call, after) {
        if (call->extend.is_sent) {
            call->extend.lease_granted_us = lease_us;
            renew_all(grant->hold, call);
            settle(call, 0);
        }
    }
    if (grant->extensions != NULL) { /* they came while it was in flight */
        rlock__grant_hurry(grant, now);
    }
}

void rlock__extensions_failed(struct rlock__grant *grant, bool may_have_run)
{
    struct rlock__call *call;

    DL_FOREACH(grant->extensions, call) {
        if (call->extend.is_sent) { /* the next renewal asks again */
            call->extend.requests++;
        }
        call->extend.may_have_run |= call->extend.is_sent && may_have_run;
        call->extend.is_sent = false;
    }
}

void rlock__extensions_refused(struct rlock__grant *grant, int code, bool is_final, const char *why)
{
    struct rlock__call *call, *after;
    char name[96];

    DL_FOREACH_SAFE(grant->extensions, call, after) {
        if (!call->extend.is_sent) {
            continue;
        }
        call->error = code;
        rlock__say(call, "lock %s: not extended: %s", rlock__spec_text(call->spec, name), why);
        if (is_final) {
            settle(call, call->extend.may_have_run ? RLOCK_EINDOUBT : code);
        }
    }
}

void rlock__extensions_over(struct rlock__grant *grant, int reason)
{
    struct rlock__call *call, *after;

    DL_FOREACH_SAFE(grant->extensions, call, after) {
        call->extend.reason = reason;
        settle(call, reason != 0 ? RLOCK_ELOST : RLOCK_ENOTOWNER);
    }
}
