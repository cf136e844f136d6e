/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/ack.h"

#include <assert.h>
#include <stdio.h>
#include <utlist.h>

#include "lock/server/route.h"
#include "lock/server/send.h"

bool rlock__acks_is_ready(const struct rlock__server *server)
{
    for (unsigned i = server->n_routed; i < server->n_links; i++) {
        if (rlock__wait_is_due(&server->links[i])) {
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
    assert(!ack->is_open && ack->link == NULL);
    assert(rlock__acks_are_possible(server) && server->n_links > server->n_routed);
    assert(request->subject != NULL && decided != NULL);
    assert(!request->sent && request->copies == 0);
    assert(spec->core == server->core);
    *ack = (struct rlock__ack){.server = server,
                               .spec = spec,
                               .request = request,
                               .decided = decided,
                               .is_open = true,
                               .need = rlock__acks_need(server)};
    request->link = &server->links[server->n_links - 1];
    DL_APPEND(server->gathered, ack);
    rlock__server_touch(server);
}

/* The command is sent now: a replica that is back by now must have it too. */
static void send_on(struct rlock__ack *ack, struct rlock__link *link)
{
    assert(ack->is_open && ack->link == NULL && !ack->ran && !ack->is_covered);
    assert(link->server == ack->server);
    assert(link >= &link->server->links[link->server->n_routed]); /* WAIT holds up other commands */
    ack->link = link;
    ack->need = rlock__acks_need(link->server);
    ack->changes = link->server->replicas.changes;
    DL_APPEND(link->acks, ack);
}

void rlock__ack_ran(struct rlock__ack *ack)
{
    assert(ack->is_open && !ack->ran && ack->link != NULL);
    assert(ack->request != NULL); /* the owner has freed this request */
    assert(!ack->is_covered);
    assert(ack->link->pipeline.up); /* it carried the answer just now */
    ack->request = NULL;
    ack->ran = true;
}

void rlock__ack_leave(struct rlock__ack *ack)
{
    assert(ack->is_open || (ack->link == NULL && ack->request == NULL));
    assert(RLOCK__IMPLIES(ack->ran, ack->request == NULL)); /* the owner has it again */
    if (ack->link != NULL) {
        assert(ack->link->acks != NULL);
        DL_DELETE(ack->link->acks, ack);
    } else if (rlock__ack_is_open(ack)) {
        assert(ack->server->gathered != NULL);
        DL_DELETE(ack->server->gathered, ack);
    }
    *ack = (struct rlock__ack){.is_open = false};
}

void rlock__ack_follow(struct rlock__ack *ack, struct rlock__request *request,
                       rlock__ack_fn *decided)
{
    struct rlock__server *server = request->link->server;

    assert(RLOCK__IMPLIES(ack->is_open, ack->request == request));
    assert(request->hops > 0 && decided != NULL);
    rlock__ack_leave(ack); /* acknowledgements of the server before do not count */
    if (rlock__acks_needed(server) != 0) {
        *ack = (struct rlock__ack){.server = server,
                                   .spec = request->spec,
                                   .request = request,
                                   .decided = decided,
                                   .is_open = true};
        send_on(ack, request->link);
    }
}

void rlock__ack_abandon(struct rlock__ack *ack)
{
    if (ack->request != NULL && ack->link != NULL) {
        (void)rlock__abandon(ack->request);
    } else if (ack->request != NULL) {
        assert(!ack->request->sent && ack->request->copies == 0); /* it was only gathered */
        (void)rlock__request_free(ack->request);
    }
    rlock__ack_leave(ack);
}

/* ---- Whether it is enough ---- */

/* Whether the replicas that the ack needs are known by name. */
static bool is_named(const struct rlock__ack *ack, const struct rlock__waited *waited)
{
    return waited != NULL && waited->is_named && (ack->need.must != 0 || ack->need.n != 0);
}

unsigned rlock__ack_size(const struct rlock__ack *ack)
{
    assert(ack->is_open);
    return rlock__need_size(&ack->need) + ack->server->core->opts.acks_on_disk;
}

unsigned rlock__ack_count(const struct rlock__ack *ack, const struct rlock__waited *waited)
{
    assert(ack->is_open);
    if (waited == NULL || waited->error != NULL) {
        return 0;
    }
    if (is_named(ack, waited)) {
        return rlock__rows(waited->have & (ack->need.must | ack->need.may));
    }
    return (unsigned)rlock__max(waited->count + waited->local, 0);
}

/* Replicas do not make up for the primary's disk: after a restart the primary would lack the
 * write. */
static bool has_primary(const struct rlock__ack *ack, const struct rlock__waited *waited)
{
    return !ack->server->core->opts.acks_on_disk || waited->local > 0;
}

/* A row counts only while it means the same replica. */
bool rlock__ack_is_enough(const struct rlock__ack *ack, const struct rlock__waited *waited)
{
    bool enough = waited != NULL && waited->error == NULL && has_primary(ack, waited);

    assert(ack->is_open && ack->ran && ack->is_covered); /* otherwise the WAIT does not cover it */
    if (is_named(ack, waited)) {
        return enough && ack->changes == ack->server->replicas.changes &&
               rlock__need_is_met(&ack->need, waited->have);
    }
    return enough && waited->count >= ack->need.count;
}

bool rlock__ack_is_eased(const struct rlock__ack *ack, const struct rlock__waited *waited)
{
    const struct rlock__need now = rlock__acks_need(ack->server);

    assert(ack->is_open && ack->ran && ack->is_covered);
    return waited != NULL && waited->error == NULL && has_primary(ack, waited) &&
           is_named(ack, waited) && ack->need.must != now.must &&
           rlock__need_is_met(&now, waited->have);
}

const char *rlock__ack_lacking(const struct rlock__ack *ack, char *out, size_t size)
{
    uint32_t lacking = ack->need.must & ~ack->have;
    size_t len = 0;

    assert(ack->is_open && size > 0);
    out[0] = '\0';
    for (size_t i = 0; i < RLOCK__REPLICAS && len < size; i++) {
        const char *place = ack->server->replicas.each[i].place;

        if ((lacking >> i & 1) != 0 && place[0] != '\0') {
            len += (size_t)snprintf(out + len, size - len, "%s%s", len != 0 ? ", " : "", place);
        }
    }
    return out;
}

/* ---- What is sent ---- */

/* Without memory the request is answered as if the link had broken. */
static void send_first(struct rlock__server *server, struct rlock__link *link, int64_t now)
{
    struct rlock__ack *ack = server->gathered;

    assert(link->server == server && rlock__wait_is_due(link));
    assert(ack->request != NULL && ack->request->subject != NULL);
    DL_DELETE(server->gathered, ack);
    send_on(ack, link);
    if (!rlock__submit(ack->request, ack->spec, link, now)) {
        ack->request->answer(ack->request, NULL, now);
    }
}

void rlock__acks_flush(struct rlock__link *link, int64_t now)
{
    struct rlock__server *server = link->server;

    assert(link >= &server->links[server->n_routed]); /* the others are for locks */
    while (rlock__wait_is_due(link) && server->gathered != NULL) {
        send_first(server, link, now);
    }
    if (rlock__wait_is_due(link) && link->acks != NULL) {
        rlock__wait_send(link, now);
    }
}

static void drop(struct rlock__server *server, bool all, int64_t now)
{
    struct rlock__ack *ack, *after;

    DL_FOREACH_SAFE(server->gathered, ack, after) {
        if (all || !rlock__acks_are_possible(server) || server->links[0].replaced) {
            assert(ack->is_open && ack->link == NULL && !ack->request->sent);
            ack->request->answer(ack->request, NULL, now); /* its owner leaves */
        }
    }
    assert(RLOCK__IMPLIES(all, server->gathered == NULL));
}

void rlock__acks_drop(struct rlock__server *server, int64_t now)
{
    drop(server, true, now);
}

void rlock__acks_reroute(struct rlock__server *server, int64_t now)
{
    drop(server, false, now);
}

void rlock__acks_failed(const struct rlock__ack *ack, const struct rlock__waited *waited)
{
    struct rlock__server *server = ack->server;
    const struct rlock__reply *error = waited != NULL ? waited->error : NULL;
    char text[160], lacking[160];

    assert(!rlock__ack_is_enough(ack, waited));
    (void)rlock__ack_lacking(ack, lacking, sizeof(lacking));
    if (!server->acks_failed) {
        rlock__note(server->core, RLOCK_LOG_WARNING,
                    rlock__about("replicas", server->address, RLOCK_ENOTREPLICATED),
                    "server %s: too few %s confirm what is granted and renewed%s%s",
                    server->address, server->core->opts.acks_on_disk ? "disks" : "replicas",
                    error != NULL        ? ": WAIT: "
                    : lacking[0] != '\0' ? ": not "
                                         : "",
                    error != NULL ? rlock__text(rlock__reply_str(error, 0), text, sizeof(text))
                                  : lacking);
    }
    server->acks_failed = true;
}
