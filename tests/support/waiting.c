/* SPDX-License-Identifier: Apache-2.0 */
#include "support/waiting.h"

#include <utlist.h>

#include "client/client.h"

size_t test_waiting(struct rlock_client *client)
{
    const struct rlock__call *call;
    size_t n = 0;

    rlock__enter(client);
    DL_FOREACH2(client->core.calls, call, all_next)
    {
        n += call->step == RLOCK__LINED_UP || call->step == RLOCK__QUEUED ||
             call->step == RLOCK__SLEEPING;
    }
    rlock__leave(client);
    return n;
}
