/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/ack.h"

#include <utlist.h>

#include "lock/hop.h"
#include "lock/internal.h"

#define WAIT_MOST RLOCK__SECOND

static unsigned count_replicas(const struct rlock__server *server)
{
    switch (server->core->acks) {
    case RLOCK_ACKS_OFF:
        return 0;
    case RLOCK_ACKS_AUTO:
        return server->replicas > 0;
    case RLOCK_ACKS_ALL:
        return server->replicas;
    default:
        return (unsigned)server->core->acks;
    }
}

unsigned rlock__acks_needed(const struct rlock__server *server)
{
    return count_replicas(server) + server->core->acks_on_disk;
}

static bool is_ready(const struct rlock__link *link)
{
    return link->pipeline.up && link->wait == NULL;
}

bool rlock__acks_is_ready(const struct rlock__server *server)
{
    for (unsigned i = server->n_routed; i < server->n_links; i++) {
        if (is_ready(&server->links[i])) {
            return true;
        }
    }
    return false;
}

/* ---- What waits ---- */

void rlock__ack_begin(struct rlock__ack *ack, struct rlock__server *server,
                      struct rlock__spec *spec, struct rlock__request *request,
                      rlock__ack_fn *decided)
{
    *ack = (struct rlock__ack){.server = server,
                               .spec = spec,
                               .request = request,
                               .decided = decided,
                               .needed = rlock__acks_needed(server)};
    request->link = &server->links[server->n_links - 1];
    DL_APPEND(server->gathered, ack);
}

void rlock__ack_ran(struct rlock__ack *ack)
{
    ack->request = NULL;
    ack->ran = true;
}

void rlock__ack_leave(struct rlock__ack *ack)
{
    if (ack->link != NULL) {
        DL_DELETE(ack->link->acks, ack);
    } else if (rlock__ack_is_open(ack)) {
        DL_DELETE(ack->server->gathered, ack);
    }
    *ack = (struct rlock__ack){.needed = 0};
}

void rlock__ack_follow(struct rlock__ack *ack, struct rlock__request *request,
                       rlock__ack_fn *decided)
{
    struct rlock__server *server = request->link->server;
    unsigned needed = rlock__acks_needed(server); /* what others have of it is in their past */

    rlock__ack_leave(ack);
    if (needed != 0) {
        *ack = (struct rlock__ack){.server = server,
                                   .link = request->link,
                                   .spec = request->spec,
                                   .request = request,
                                   .decided = decided,
                                   .needed = needed};
        DL_APPEND(request->link->acks, ack);
    }
}

void rlock__ack_abandon(struct rlock__ack *ack)
{
    if (ack->request != NULL && ack->link != NULL) {
        (void)rlock__abandon(ack->request);
    } else if (ack->request != NULL) {
        (void)rlock__request_free(ack->request);
    }
    rlock__ack_leave(ack);
}

unsigned rlock__ack_count(const struct rlock__ack *ack, const struct rlock__reply *waited)
{
    int64_t n = waited != NULL ? rlock__reply_int(waited, 0, 0) : 0;

    if (waited != NULL && ack->server->core->acks_on_disk) {
        n += rlock__reply_int(waited, 1, 0);
    }
    return (unsigned)rlock__max(n, 0);
}

/* Replicas do not make up for the primary, which would come back without it. */
static bool has_primary(const struct rlock__ack *ack, const struct rlock__reply *waited)
{
    return !ack->server->core->acks_on_disk || rlock__reply_int(waited, 0, 0) > 0;
}

bool rlock__ack_is_enough(const struct rlock__ack *ack, const struct rlock__reply *waited)
{
    bool enough = waited != NULL && rlock__ack_count(ack, waited) >= ack->needed;

    return enough && has_primary(ack, waited);
}

/* ---- WAIT ---- */

/* Those that ran by now are decided. The others were sent again since, or came from another server,
 * and the next WAIT tells of them. */
static void decide(struct rlock__link *link, const struct rlock__reply *waited, int64_t now)
{
    struct rlock__ack *ack = link->acks;

    while (ack != NULL) {
        if (ack->ran) {
            link->server->acks_failed &= !rlock__ack_is_enough(ack, waited);
            ack->decided(ack, waited, now); /* which leaves, and others may too */
            ack = link->acks;
        } else {
            ack = ack->next;
        }
    }
}

static void on_waited(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__link *link = request->subject;

    link->wait = NULL;
    (void)rlock__request_free(request);
    decide(link, reply, now);
}

/* How long it may take. Its answer must not be late itself, and what is to be renewed has time for
 * several such. */
static int64_t wait_ms(const struct rlock__link *link)
{
    const struct rlock__pipeline *pipeline = &link->pipeline;
    int64_t most = rlock__min(WAIT_MOST, pipeline->op_timeout / 2);

    most = rlock__min(most, link->server->core->renewed_lease_us / 6);
    if (pipeline->failover_us != 0) {
        most = rlock__min(most, pipeline->failover_us / 2);
    }
    return rlock__max(most / RLOCK__MS, 1);
}

/* So many servers are needed: with WAITAOF the primary is one of them. */
static void put_wait(struct rlock__link *link, unsigned needed, struct rlock__cmd *cmd)
{
    bool on_disk = link->server->core->acks_on_disk;

    rlock__cmd_arg(cmd, rlock__bytes_of(on_disk ? "WAITAOF" : "WAIT"));
    if (on_disk) {
        rlock__cmd_num(cmd, 1);
    }
    rlock__cmd_num(cmd, needed - on_disk);
    rlock__cmd_num(cmd, wait_ms(link));
}

static void send_wait(struct rlock__link *link, int64_t now)
{
    struct rlock__request *request =
        rlock__request_new(&link->server->core->requests, on_waited, link);
    struct rlock__ack *ack;
    unsigned needed = 0;

    DL_FOREACH(link->acks, ack) {
        needed = ack->needed > needed ? ack->needed : needed;
    }
    if (request != NULL) {
        request->resend = RLOCK__DROP;
        put_wait(link, needed, &request->cmd);
    }
    if (request != NULL && !link->pipeline.drains &&
        rlock__pipeline_submit(&link->pipeline, request, now)) {
        link->wait = request;
    } else { /* what ran is told of by no WAIT on another connection */
        (void)rlock__request_free(request);
        decide(link, NULL, now);
    }
}

/* Without memory it is answered as if the link had broken. */
static void send_first(struct rlock__server *server, struct rlock__link *link, int64_t now)
{
    struct rlock__ack *ack = server->gathered;

    DL_DELETE(server->gathered, ack);
    ack->link = link;
    DL_APPEND(link->acks, ack);
    if (!rlock__submit(ack->request, ack->spec, link, now)) {
        ack->request->answer(ack->request, NULL, now);
    }
}

void rlock__acks_flush(struct rlock__link *link, int64_t now)
{
    struct rlock__server *server = link->server;

    if (link < &server->links[server->n_routed]) {
        return;
    }
    while (is_ready(link) && server->gathered != NULL) {
        send_first(server, link, now);
    }
    if (is_ready(link) && link->acks != NULL) {
        send_wait(link, now);
    }
}

static void drop(struct rlock__server *server, bool all, int64_t now)
{
    struct rlock__ack *ack, *after;

    DL_FOREACH_SAFE(server->gathered, ack, after) {
        if (all || rlock__acks_needed(server) == 0 || server->links[0].replaced) {
            ack->request->answer(ack->request, NULL, now); /* its owner leaves */
        }
    }
}

void rlock__acks_drop(struct rlock__server *server, int64_t now)
{
    drop(server, true, now);
}

void rlock__acks_reroute(struct rlock__server *server, int64_t now)
{
    drop(server, false, now);
}

void rlock__acks_failed(struct rlock__server *server, const struct rlock__reply *waited)
{
    bool error = waited != NULL && rlock__reply_is_error(waited);
    char text[160];

    if (!server->acks_failed) {
        rlock__note(server->core, RLOCK_LOG_WARNING,
                    "server %s: too few %s confirm what is granted and renewed%s%s",
                    server->address, server->core->acks_on_disk ? "disks" : "replicas",
                    error ? ": WAIT: " : "",
                    error ? rlock__text(rlock__reply_str(waited, 0), text, sizeof(text)) : "");
    }
    server->acks_failed = true;
}
