/* SPDX-License-Identifier: Apache-2.0 */
/* What a program's event loop calls of a client that it runs. */
#include "client/client.h"
#include "drive/loop.h"

int rlock_client_fd(const struct rlock_client *client)
{
    return client != NULL && client->loop != NULL ? client->loop->fd : -1;
}

int rlock_client_dispatch(struct rlock_client *client)
{
    RLOCK__WHOLE;
    rlock__detail_clear();
    if (client == NULL || client->loop == NULL) {
        return rlock__fail(RLOCK_EINVAL, "client is NULL, or has threads of its own");
    }
    if (client->fork_generation != rlock__fork_generation()) {
        return rlock__client_check(client);
    }
    if (rlock__is_dispatcher()) {
        return rlock__fail(RLOCK_EDEADLOCK, "a callback cannot dispatch");
    }
    return rlock__loop_dispatch(client);
}
