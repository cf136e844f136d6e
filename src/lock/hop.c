/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/hop.h"

#include <utlist.h>

#include "lock/channel.h"
#include "lock/internal.h"

/* Has the next copy go out behind ASKING, or not. A script is told of it by an argument more: what
 * is missing there may be on its way. */
static void set_asking(struct rlock__request *request, bool asking)
{
    struct rlock__cmd *cmd = &request->cmd;

    if (request->asking == asking) {
        return;
    }
    request->asking = asking;
    if (cmd->script != NULL && asking) {
        request->untold_len = cmd->args.len;
        rlock__cmd_arg(cmd, rlock__bytes_of("asking"));
    } else if (cmd->script != NULL) {
        cmd->args.len = request->untold_len;
        cmd->n_args--;
    }
}

bool rlock__submit(struct rlock__request *request, struct rlock__spec *spec,
                   struct rlock__link *link, int64_t now)
{
    request->spec = spec;
    request->link = link;
    request->homed = false;
    request->hops = 0;
    rlock__server_need(link->server, now);
    set_asking(request, spec->core->redirect != NULL && link->server != rlock__route(spec)->server);
    return rlock__pipeline_submit(&link->pipeline, request, now);
}

struct rlock__request *rlock__abandon(struct rlock__request *request)
{
    request->subject = NULL;
    request->resend = RLOCK__DROP;
    if (request->sent) {
        return NULL;
    }
    rlock__pipeline_withdraw(&request->link->pipeline, request);
    return rlock__request_free(request);
}

static bool go_to(struct rlock__request *request, struct rlock__link *link, bool asking,
                  int64_t now)
{
    request->first_t0 = rlock__hop_t0(request);
    request->hops++;
    request->link = link;
    request->gen = request->lost_gen = 0; /* none is on that link yet */
    rlock__server_need(link->server, now);
    set_asking(request, asking);
    return rlock__pipeline_submit(&link->pipeline, request, now);
}

/* Without a subject nobody wants it, and its lock may be gone. */
static bool may_hop(const struct rlock__request *request)
{
    return request->subject != NULL && request->spec != NULL &&
           request->spec->core->redirect != NULL && !request->garbled &&
           request->resend != RLOCK__DROP;
}

/* Its link to that server: what is to be acknowledged there goes over one for that. */
static struct rlock__link *link_to(const struct rlock__request *request,
                                   struct rlock__server *server)
{
    if (request->acked && rlock__acks_needed(server) != 0) {
        struct rlock__link *first = &server->links[server->n_routed];

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
    if (reply == NULL) {
        return request->asking && request->resend == RLOCK__RESEND &&
               go_to(request, home_of(request), false, now);
    }
    way = rlock__reply_is_error(reply) && request->hops < RLOCK__HOPS
              ? request->spec->core->redirect(request->spec->core, request->link, reply, &server)
              : RLOCK__NO_REDIRECT;
    if (way == RLOCK__NO_REDIRECT || server == NULL) {
        return false;
    }
    request->copies--; /* that one certainly did not run */
    return go_to(request, link_to(request, server), way == RLOCK__ASK, now);
}

bool rlock__hop_home(struct rlock__request *request, int64_t now)
{
    if (!request->asking || request->homed || !may_hop(request)) {
        return false;
    }
    request->homed = true;
    request->copies--; /* it found nothing to do */
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

    if (core->redirect != NULL && rlock__reply_is_error(reply)) {
        (void)core->redirect(core, from, reply, &server);
    }
    return server;
}

/* ---- When the map has changed ---- */

static bool is_elsewhere(const struct rlock__request *request)
{
    const struct rlock__server *server;

    if (request->subject == NULL || request->spec == NULL) {
        return false;
    }
    server = request->link->server;
    if (request->link >= &server->links[server->n_routed] && !rlock__acks_are_possible(server)) {
        return true; /* that link is made no more */
    }
    return request->asking ? request->link->replaced
                           : rlock__route(request->spec)->server != server;
}

/* Has what waits for the link asked anew, by whoever asked. */
static void reroute_link(struct rlock__link *link, int64_t now)
{
    static const char text[] = "MASTERDOWN another server has the key now";
    static const struct rlock__value value = {
        .type = RLOCK__REPLY_ERROR, .str = text, .len = sizeof(text) - 1};
    static const struct rlock__reply moved = {.v = &value, .n = 1};

    rlock__pipeline_refuse_waiting(&link->pipeline, is_elsewhere, &moved, now);
}

/* Whoever hears a channel hears the one of the server that has the key. */
static void reroute_call(struct rlock__call *call)
{
    if (call->channel == NULL || call->channel->server == rlock__route(call->spec)->server) {
        return;
    }
    if (call->kind == RLOCK__ACQUIRE) {
        rlock__ready(call, RLOCK__WOKEN);
        return;
    }
    call->link = rlock__route(call->spec);
    rlock__channel_leave(call);
    (void)rlock__channel_join(call);
}

void rlock__reroute(struct rlock__core *core, int64_t now)
{
    struct rlock__server *server;
    struct rlock__call *call, *after;

    core->moved_at = now;
    DL_FOREACH(core->servers, server) {
        for (unsigned i = 0; i < server->n_links; i++) {
            reroute_link(&server->links[i], now);
            rlock__orphans_reroute(&server->links[i]);
        }
        rlock__acks_reroute(server, now);
    }
    DL_FOREACH_SAFE2(core->calls, call, after, all_next)
    {
        reroute_call(call);
    }
}
