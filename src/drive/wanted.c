/* SPDX-License-Identifier: Apache-2.0 */
#include "drive/wanted.h"

void rlock__wanted_add(struct rlock__io *io)
{
    struct rlock_client *client = io->node->client;

    if (!atomic_exchange(&io->wanted, true)) {
        io->wanted_next = atomic_load(&client->wanted);
        while (!atomic_compare_exchange_weak(&client->wanted, &io->wanted_next, io)) {
        }
    }
}

size_t rlock__wanted_bytes(const struct rlock_client *client)
{
    const struct rlock__io *io = atomic_load(&client->wanted);
    size_t n = 0;

    for (; io != NULL; io = io->wanted_next) { /* set under the core's mutex alone */
        n += io->link->pipeline.out.len;
    }
    return n;
}

struct rlock__io *rlock__wanted_take(struct rlock_client *client)
{
    return atomic_exchange(&client->wanted, NULL);
}

struct rlock__io *rlock__wanted_next(struct rlock__io *io)
{
    struct rlock__io *next = io->wanted_next;

    atomic_store(&io->wanted, false);
    return next;
}
