/* SPDX-License-Identifier: Apache-2.0 */
#include "drive/router.h"

struct rlock__router *rlock__router_free(struct rlock__router *router)
{
    return router != NULL ? router->ops->free(router) : NULL;
}

void rlock__router_close(struct rlock__router *router)
{
    if (router != NULL) {
        router->ops->close(router);
    }
}

int64_t rlock__router_plan(struct rlock__router *router)
{
    return router != NULL ? router->ops->plan(router) : RLOCK__NEVER;
}

void rlock__router_serve(struct rlock__router *router, int64_t now)
{
    if (router != NULL) {
        router->ops->serve(router, now);
    }
}

bool rlock__router_leads(struct rlock__router *router, const struct rlock__node *node)
{
    return router == NULL || router->ops->leads(router, node);
}

void rlock__router_want(struct rlock__router *router)
{
    if (router != NULL) {
        router->is_wanted = router->replans = true;
        router->client->watch.service_replans = true;
    }
}

void rlock__router_replan(struct rlock__router *router)
{
    if (router != NULL) {
        router->replans = true;
    }
}

RLOCK__ALONE void rlock__router_demoted(struct rlock__core *core)
{
    rlock__router_want(rlock__client_of(core)->router);
}

bool rlock__router_confirms(struct rlock__router *router, struct rlock__io *io, int64_t now)
{
    if (router == NULL) {
        return true;
    }
    if (io->greeted_at == 0) {
        io->greeted_at = now;
        io->alive_at = rlock__conn_greeting(io->conn)->asked_at;
        io->is_confirmed = false;
        rlock__router_replan(router);
    }
    return io->is_confirmed;
}
