/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/call/late.h"

#include <assert.h>
#include <utlist.h>

#include "lock/core.h"

/* The request that a call has in flight, or waiting for a link; NULL: none. */
static const struct rlock__request *request_of(const struct rlock__call *call)
{
    const struct rlock__hold *hold = call->hold;

    assert(call->kind != RLOCK__COMMAND); /* no group runs a command */
    if (call->kind == RLOCK__ACQUIRE) {
        return call->request;
    }
    return hold != NULL && hold->turn == call && hold->grant != NULL ? hold->grant->release : NULL;
}

/* How many late calls have their request in flight on the link; RLOCK__LATE_MAX + 1: there is a
 * call that is awaited, or too many. */
static unsigned late_calls(const struct rlock__link *link)
{
    const struct rlock__call *call;
    unsigned n = 0, on_link = 0;

    DL_FOREACH2(link->server->core->calls, call, all.next)
    {
        const struct rlock__request *request;

        if (call->awaited == NULL || atomic_load(call->awaited) || ++n > RLOCK__LATE_MAX) {
            return RLOCK__LATE_MAX + 1;
        }
        assert(call->member); /* other calls are awaited */
        request = request_of(call);
        on_link += request != NULL && request->sent && request->link == link;
    }
    return on_link;
}

bool rlock__link_is_late(const struct rlock__link *link)
{
    const struct rlock__request *request;
    unsigned n = 0, late;

    if (link->server->core->closed || link->server->core->listeners != NULL) {
        return false;
    }
    late = late_calls(link);
    DL_FOREACH(link->pipeline.sent, request) {
        if (++n > late || late > RLOCK__LATE_MAX) { /* no late call's: a renewal, for example */
            return false;
        }
    }
    return true;
}
