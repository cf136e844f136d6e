/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/primaries.h"

#include <assert.h>
#include <stdlib.h>

#include "client/lock.h"

int rlock__primaries_check(struct rlock_client *client, bool is_fn_set)
{
    int code;

    rlock__detail_clear();
    if (client == NULL || !is_fn_set) {
        return rlock__fail(RLOCK_EINVAL, "client or fn is NULL");
    }
    code = rlock__client_check(client);
    return code == 0 ? rlock__client_check_wait(client) : code;
}

/* Those that are known to be primaries now; of a plain URL its server. */
static int gather(struct rlock_client *client, struct rlock__primaries *primaries)
{
    struct rlock__node *node;
    size_t n_nodes = 0;

    rlock__enter(client); /* nodes are added under the mutex alone */
    RLOCK__EACH_NODE(client, node) {
        n_nodes++;
    }
    assert(n_nodes > 0); /* one is there from the start */
    primaries->n = 0;
    primaries->nodes = calloc(n_nodes, sizeof(struct rlock__node *));
    RLOCK__EACH_NODE(client, node) {
        if (primaries->nodes != NULL && rlock__router_leads(client->router, node)) {
            primaries->nodes[primaries->n++] = node;
        }
    }
    rlock__leave(client);
    return primaries->nodes != NULL ? 0 : rlock__fail(RLOCK_ENOMEM, "no memory");
}

int rlock__read_nothing(struct rlock__call *call, const struct rlock__reply *reply)
{
    (void)call, (void)reply;
    return 0;
}

/* They are known once one of them has answered for a key; and often before. */
static int await(struct rlock_client *client)
{
    struct rlock__texts texts = {.detail = ""};
    struct rlock__call call = {
        .kind = RLOCK__COMMAND, .command.read = rlock__read_nothing, .texts = &texts};
    struct rlock__spec *spec =
        rlock__spec_new(&client->core, &rlock__reentrant_ops, rlock__bytes_of("nodes"), NULL);
    int code;

    if (spec == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    (void)atomic_fetch_add(&client->refs, 1); /* the spec's */
    call.spec = spec;
    spec->ops->inspect(spec, &call.command.cmd);
    code = rlock__run(client, &call);
    rlock__cmd_fini(&call.command.cmd); /* a client that was closed meanwhile has not taken it */
    (void)rlock__spec_unref(spec);
    return code;
}

int rlock__primaries_find(struct rlock_client *client, struct rlock__primaries *ret_primaries)
{
    int awaited = client->router != NULL ? await(client) : 0;
    int code = gather(client, ret_primaries);

    return code == 0 && ret_primaries->n == 0 ? awaited : code; /* that one may be down */
}

void rlock__primaries_fini(struct rlock__primaries *primaries)
{
    free(primaries->nodes);
    *primaries = (struct rlock__primaries){.n = 0};
}
