/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/send.h"

#include <assert.h>

#include "lock/common.h"
#include "lock/server/route.h"

#define GIVES_WAY 32 /* one of so many releases leaves the lock free for those who poll */

void rlock__set_asking(struct rlock__request *request, bool asking)
{
    struct rlock__cmd *cmd = &request->cmd;

    assert(!request->sent); /* a copy that was sent is encoded */
    if (request->asking == asking) {
        return;
    }
    request->asking = asking;
    if (cmd->script != NULL && asking) {
        request->untold_len = cmd->args.len;
        rlock__cmd_arg(cmd, rlock__bytes_of("asking"));
    } else if (cmd->script != NULL) {
        assert(cmd->n_args > 0 && request->untold_len <= cmd->args.len);
        cmd->args.len = request->untold_len;
        cmd->n_args--;
    }
}

bool rlock__submit(struct rlock__request *request, struct rlock__spec *spec,
                   struct rlock__link *link, int64_t now)
{
    assert(!request->sent && !request->garbled);
    assert(request->answer != NULL && request->subject != NULL);
    assert(spec->core == link->server->core);
    request->spec = spec;
    request->link = link;
    request->homed = false;
    request->hops = 0;
    rlock__server_need(link->server, now);
    rlock__set_asking(request, spec->core->driver.redirect != NULL &&
                                   link->server != rlock__route(spec)->server);
    rlock__server_touch(link->server);
    assert(!link->server->is_let_go && link->server->is_touched);
    return rlock__pipeline_submit(&link->pipeline, request, now);
}

struct rlock__request *rlock__abandon(struct rlock__request *request)
{
    assert(request->subject != NULL && request->link != NULL);
    request->subject = NULL;
    request->resend = RLOCK__DROP;
    if (request->sent) {
        return NULL;
    }
    assert(request->link->pipeline.waiting != NULL);
    rlock__server_touch(request->link->server);
    rlock__pipeline_withdraw(&request->link->pipeline, request);
    return rlock__request_free(request);
}

void rlock__call_withdraw(struct rlock__call *call)
{
    struct rlock__request *request = call->request;

    call->request = NULL;
    request->subject = NULL;
    if (request->sent) {
        request->resend = RLOCK__DROP; /* the pipeline still awaits its reply */
        return;
    }
    if (call->step == RLOCK__ASKING) {
        rlock__server_touch(call->link->server);
        rlock__pipeline_withdraw(&call->link->pipeline, request);
    }
    (void)rlock__request_free(request);
}

typedef void command_fn(const struct rlock__spec *spec, const struct rlock__args *args,
                        struct rlock__cmd *ret_cmd);

static inline struct rlock__request *send(struct rlock__spec *spec, struct rlock__link *link,
                                          command_fn *command, const struct rlock__args *args,
                                          rlock__answer_fn *answer, void *subject, int64_t now)
{
    struct rlock__request *request = rlock__request_new(&spec->core->requests, answer, subject);

    assert(subject != NULL);
    if (request == NULL) {
        return NULL;
    }
    command(spec, args, &request->cmd);
    return rlock__submit(request, spec, link, now) ? request : rlock__request_free(request);
}

struct rlock__request *rlock__release_send(struct rlock__spec *spec, struct rlock__link *link,
                                           const struct rlock__rest *rest, rlock__answer_fn *answer,
                                           void *subject, int64_t now)
{
    char owner[RLOCK__OWNER_SIZE];
    struct rlock__args args = {.owner = rlock__owner_text(spec->core, rest->number, owner),
                               .count = rest->count,
                               .units = rest->units,
                               .held_units = rest->most_units,
                               .lease_ms = rlock__ms_up(rest->lease_us)};

    assert(rest->number != 0);
    assert(rest->lease_us >= 0);
    if (spec->core->opts.queues && rest->count == 0) {
        args.gives_way = rlock__random(spec->core, GIVES_WAY) == 0;
    }
    return send(spec, link, spec->ops->release, &args, answer, subject, now);
}

struct rlock__request *rlock__text_release_send(struct rlock__spec *spec, struct rlock__link *link,
                                                uint64_t number, rlock__answer_fn *answer,
                                                void *subject, int64_t now)
{
    char owner[RLOCK__OWNER_SIZE];
    struct rlock__args args = {.owner = rlock__text_owner(spec->core, number, owner),
                               .held_units = 1};

    return send(spec, link, spec->ops->release, &args, answer, subject, now);
}

struct rlock__request *rlock__rename_send(struct rlock__spec *spec, struct rlock__link *link,
                                          uint64_t number, struct rlock__bytes to, int64_t lease_us,
                                          rlock__answer_fn *answer, void *subject, int64_t now)
{
    char from[RLOCK__OWNER_SIZE];
    struct rlock__args args = {.owner = to,
                               .from = rlock__owner_text(spec->core, number, from),
                               .count = 1,
                               .lease_ms = rlock__ms_up(lease_us)};

    assert(lease_us > 0);
    return send(spec, link, spec->ops->rename, &args, answer, subject, now);
}
