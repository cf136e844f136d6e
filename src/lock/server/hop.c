/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/hop.h"

#include <assert.h>
#include <utlist.h>

#include "lock/server/channel.h"
#include "lock/server/route.h"
#include "lock/server/send.h"

static bool go_to(struct rlock__request *request, struct rlock__link *link, bool asking,
                  int64_t now)
{
    assert(!request->sent && !request->garbled);
    assert(link->server->core == request->spec->core);
    assert(request->hops <= RLOCK__HOPS); /* one hop more may lead home */
    request->first_t0 = rlock__hop_t0(request);
    request->hops++;
    request->link = link;
    request->gen = request->lost_gen = 0; /* no copy is on that link yet */
    rlock__server_need(link->server, now);
    rlock__set_asking(request, asking);
    assert(request->asking == asking && !link->server->is_let_go);
    rlock__server_touch(link->server);
    return rlock__pipeline_submit(&link->pipeline, request, now);
}

/* Without a subject nobody wants the answer, and the lock may be freed. */
static bool may_hop(const struct rlock__request *request)
{
    return request->subject != NULL && request->spec != NULL &&
           request->spec->core->driver.redirect != NULL && !request->garbled &&
           request->resend != RLOCK__DROP;
}

/* The request's link to that server: one for acknowledgements, if replicas have to acknowledge
 * it. */
static struct rlock__link *link_to(const struct rlock__request *request,
                                   struct rlock__server *server)
{
    if (request->acked && rlock__acks_needed(server) != 0) {
        struct rlock__link *first = &server->links[server->n_routed];

        assert(server->n_links > server->n_routed);
        return first->pipeline.up ? first : &server->links[server->n_links - 1];
    }
    return &server->links[request->spec->hash % server->n_routed];
}

static struct rlock__link *home_of(const struct rlock__request *request)
{
    return link_to(request, rlock__route(request->spec)->server);
}

bool rlock__hop(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__server *server = NULL;
    enum rlock__redirect way;

    if (!may_hop(request)) {
        return false;
    }
    assert(!request->sent);
    if (reply == NULL) {
        return request->asking && request->resend == RLOCK__RESEND &&
               go_to(request, home_of(request), false, now);
    }
    way = rlock__reply_is_error(reply) && request->hops < RLOCK__HOPS
              ? request->spec->core->driver.redirect(request->spec->core, request->link, reply,
                                                     &server)
              : RLOCK__NO_REDIRECT;
    if (way == RLOCK__NO_REDIRECT || server == NULL) {
        return false;
    }
    assert(server->core == request->spec->core);
    assert(request->copies > 0);
    request->copies--; /* the redirected copy did not run */
    return go_to(request, link_to(request, server), way == RLOCK__ASK, now);
}

bool rlock__hop_home(struct rlock__request *request, int64_t now)
{
    if (!request->asking || request->homed || !may_hop(request)) {
        return false;
    }
    assert(request->copies > 0);
    request->homed = true;
    request->copies--; /* the copy found nothing to do */
    return go_to(request, home_of(request), false, now);
}

int64_t rlock__hop_t0(const struct rlock__request *request)
{
    return request->hops != 0 ? request->first_t0 : request->t0;
}

struct rlock__server *rlock__hop_learn(struct rlock__link *from, const struct rlock__reply *reply)
{
    struct rlock__core *core = from->server->core;
    struct rlock__server *server = NULL;

    if (core->driver.redirect != NULL && rlock__reply_is_error(reply)) {
        (void)core->driver.redirect(core, from, reply, &server);
    }
    assert(server == NULL || server->core == core);
    return server;
}
