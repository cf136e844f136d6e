/* SPDX-License-Identifier: Apache-2.0 */
#include "support/waiting.h"

#include <utlist.h>

#include "drive/client.h"

size_t test_waiting(struct rlock_client *client)
{
    const struct rlock__call *call;
    size_t n = 0;

    rlock__enter(client);
    DL_FOREACH2(client->core.calls, call, all.next)
    {
        n += call->step == RLOCK__LINED_UP || call->step == RLOCK__QUEUED ||
             call->step == RLOCK__SLEEPING;
    }
    rlock__leave(client);
    return n;
}

size_t test_asked(struct rlock_client *client)
{
    const struct rlock__call *call;
    bool written;
    size_t n = 0;

    rlock__take_link(client);
    rlock__enter(client);
    DL_FOREACH2(client->core.calls, call, all.next)
    {
        n += call->step == RLOCK__ASKING && call->request != NULL && call->request->sent;
    }
    written = client->nodes->server.links[0].pipeline.out.len == 0 &&
              client->nodes->ios[0].sent == client->nodes->ios[0].out.len;
    rlock__leave_with_link(client);
    rlock__give_link(client);
    return written ? n : 0;
}
