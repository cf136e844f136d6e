/* SPDX-License-Identifier: Apache-2.0 */
/* A call that asks for nothing and hears its lock's channel, until it is given up. */
#include "lock/call/calls.h"
#include "lock/common.h"
#include "lock/server/channel.h"

void rlock__listen_begin(struct rlock__call *call, int64_t now)
{
    (void)now;
    rlock__call_step(call, RLOCK__SUBSCRIBING);
    if (!rlock__channel_join(call)) {
        rlock__call_complete(call, RLOCK_ENOMEM, NULL);
    } else if (rlock__channel_is_live(call)) { /* for others: what it said just now is not known */
        call->finish(call);
    }
}

void rlock__listen_give_up(struct rlock__call *call, int code, int64_t now)
{
    (void)now;
    if (call->channel != NULL) { /* it follows its key, and found no memory to */
        rlock__channel_leave(call);
    }
    rlock__call_complete(call, code, NULL);
}
