/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One round on a link for acknowledgements: ROLE, WAIT, ROLE behind the commands that were sent, or
 * WAIT alone if the replicas' names are of no use.
 *
 * WAIT returns when enough replicas have answered, whichever they are. So its number includes the
 * replicas that had the write in the last round and are not needed. If other replicas were quicker
 * all the same, another WAIT goes out, for one replica more.
 */
#include <assert.h>
#include <utlist.h>

#include "lock/core.h"
#include "lock/server/ack.h"
#include "lock/server/listing.h"

#define WAIT_MOST RLOCK__SECOND

bool rlock__wait_is_due(const struct rlock__link *link)
{
    return link->pipeline.up && link->wait == NULL;
}

/* ---- Results ---- */

/* The WAIT covers the commands that were answered before the first ROLE was. The others were sent
 * again since, or came from another server, and the next WAIT covers them. */
static void cover(struct rlock__link *link)
{
    struct rlock__ack *ack;

    DL_FOREACH(link->acks, ack) {
        assert(ack->ran == (ack->request == NULL));
        ack->is_covered = ack->ran;
    }
}

static void decide(struct rlock__link *link, const struct rlock__waited *waited, int64_t now)
{
    struct rlock__ack *ack = link->acks;

    assert(link->round.is_named || link->wait == NULL);
    link->round.is_over = true;
    while (ack != NULL) {
        if (ack->is_covered) {
            assert(ack->ran && ack->link == link);
            ack->have = waited != NULL ? waited->have : 0;
            link->server->acks_failed &= !rlock__ack_is_enough(ack, waited);
            ack->decided(ack, waited, now); /* decided() leaves, and others may too */
            ack = link->acks;
        } else {
            ack = ack->next;
        }
    }
}

/* The connection is gone, and no WAIT on another one covers its commands. */
static void decide_lost(struct rlock__link *link, int64_t now)
{
    cover(link);
    decide(link, NULL, now);
}

/* ---- Sending ---- */

/* How long a WAIT may take. Its own answer must not be overdue, and a renewal must have time for
 * several rounds. */
static int64_t wait_us(const struct rlock__link *link)
{
    const struct rlock__pipeline *pipeline = &link->pipeline;
    int64_t most = rlock__min(WAIT_MOST, pipeline->op_timeout / 2);

    assert(pipeline->op_timeout > 0);
    most = rlock__min(most, link->server->core->opts.renewed_lease_us / 6);
    if (pipeline->failover_us != 0) {
        most = rlock__min(most, pipeline->failover_us / 2);
    }
    return rlock__max(most, RLOCK__MS);
}

/* WAITAOF also asks for the disk of the primary. */
static void put_wait(const struct rlock__link *link, struct rlock__cmd *cmd, int64_t now)
{
    bool on_disk = link->server->core->opts.acks_on_disk;

    assert(RLOCK__IMPLIES(on_disk, !link->round.is_named));
    rlock__cmd_arg(cmd, rlock__bytes_of(on_disk ? "WAITAOF" : "WAIT"));
    if (on_disk) {
        rlock__cmd_num(cmd, 1);
    }
    rlock__cmd_num(cmd, link->round.asked);
    rlock__cmd_num(cmd, rlock__max((link->round.until - now) / RLOCK__MS, 1));
}

/* NULL: nothing was sent. */
static struct rlock__request *send(struct rlock__link *link, rlock__answer_fn *answer, bool is_wait,
                                   int64_t now)
{
    struct rlock__request *request =
        rlock__request_new(&link->server->core->requests, answer, link);

    assert(link->pipeline.up && !link->pipeline.drains); /* it must not wait for a connection */
    assert(!link->round.is_over);
    if (request == NULL) {
        return NULL;
    }
    request->resend = RLOCK__DROP;
    if (is_wait) {
        put_wait(link, &request->cmd, now);
    } else {
        rlock__cmd_arg(&request->cmd, rlock__bytes_of("ROLE"));
    }
    rlock__server_touch(link->server);
    return rlock__pipeline_submit(&link->pipeline, request, now) ? request
                                                                 : rlock__request_free(request);
}

static void on_waited(struct rlock__request *request, const struct rlock__reply *reply,
                      int64_t now);
static void on_second(struct rlock__request *request, const struct rlock__reply *reply,
                      int64_t now);

/* Returns whether a WAIT is in flight. */
static bool send_wait(struct rlock__link *link, int64_t now)
{
    struct rlock__request *wait;

    assert(link->wait == NULL && link->acks != NULL);
    wait = send(link, on_waited, true, now);
    link->wait = wait != NULL && link->round.is_named ? send(link, on_second, false, now) : wait;
    return link->wait != NULL;
}

/* How many replicas WAIT has to wait for. */
static unsigned ask_for(const struct rlock__link *link)
{
    const struct rlock__ack *ack;
    uint32_t must = 0, may = 0;
    unsigned n = 0, count = 0;

    DL_FOREACH(link->acks, ack) {
        must |= ack->need.must;
        may |= ack->need.may;
        n = ack->need.n > n ? ack->need.n : n;
        count = ack->need.count > count ? ack->need.count : count;
    }
    if (!link->round.is_named) {
        return count;
    }
    n += rlock__rows(must & ~may) + rlock__rows(link->server->replicas.quick & ~(must | may));
    return n > count ? n : count;
}

static void on_first(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__link *link = request->subject;
    struct rlock__server *server = link->server;

    (void)now;
    assert(link->wait != NULL || link->round.is_over);
    assert(request->copies <= 1 && !request->asking); /* a DROP is sent once */
    (void)rlock__request_free(request);
    link->round.offset = reply != NULL ? rlock__role_offset(reply) : -1;
    cover(link);
    if (reply != NULL && rlock__reply_is_error(reply) && !server->listing.is_nameless) {
        server->listing.is_nameless = true;
        rlock__note(server->core, RLOCK_LOG_WARNING, rlock__about("replicas", server->address, 0),
                    "server %s does not permit ROLE: the number of replicas that confirm a grant "
                    "counts, and a copy that no failover promotes counts too",
                    server->address);
    }
}

void rlock__wait_send(struct rlock__link *link, int64_t now)
{
    struct rlock__server *server = link->server;
    bool sent;

    assert(rlock__wait_is_due(link) && link->acks != NULL);
    assert(link >= &server->links[server->n_routed]);
    link->round = (struct rlock__wait_round){
        .is_named = !server->core->opts.acks_on_disk && !server->listing.is_nameless &&
                    rlock__replicas_have_names(&server->replicas),
        .offset = -1,
        .until = now + wait_us(link)};
    link->round.asked = ask_for(link);
    sent = !link->pipeline.drains &&
           (!link->round.is_named || send(link, on_first, false, now) != NULL) &&
           send_wait(link, now);
    assert(sent == (link->wait != NULL));
    if (!sent) {
        decide_lost(link, now);
    }
}

/* A number of servers in a reply. A server that is broken may report any number. */
static int64_t count_of(const struct rlock__reply *reply, size_t i)
{
    return rlock__min(rlock__max(rlock__reply_int(reply, i, 0), 0), INT16_MAX);
}

/* ---- Answers ---- */

static void on_waited(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__link *link = request->subject;
    bool on_disk = link->server->core->opts.acks_on_disk;
    struct rlock__waited waited = {.is_named = false};

    assert(link->wait != NULL || link->round.is_over);
    assert(request->copies <= 1);
    (void)rlock__request_free(request);
    if (!link->round.is_named) {
        link->wait = NULL;
        cover(link);
    }
    if (reply == NULL) {
        if (!link->round.is_named) {
            decide(link, NULL, now);
        }
        return;
    }
    waited.error = rlock__reply_is_error(reply) ? reply : NULL;
    waited.local = on_disk ? count_of(reply, 0) : 0;
    waited.count = count_of(reply, on_disk ? 1 : 0);
    link->round.count = waited.count;
    if (!link->round.is_named || waited.error != NULL || link->server->listing.is_nameless) {
        decide(link, &waited, now);
    }
}

/* Whether a replica that is needed, and was slower than others, may answer yet. */
static bool is_worth_more(const struct rlock__link *link, const struct rlock__waited *waited,
                          int64_t now)
{
    const struct rlock__ack *ack;

    assert(link->wait == NULL && !link->round.is_over);
    assert(waited->is_named && waited->error == NULL);
    if (waited->count < (int64_t)link->round.asked || now + RLOCK__MS > link->round.until ||
        link->pipeline.drains) {
        return false;
    }
    DL_FOREACH(link->acks, ack) {
        if (ack->is_covered && !rlock__ack_is_enough(ack, waited)) {
            return true;
        }
    }
    return false;
}

static void on_second(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__link *link = request->subject;
    struct rlock__server *server = link->server;
    struct rlock__waited waited = {.count = link->round.count};

    assert(link->wait == request && link->round.is_named);
    assert(request->copies <= 1);
    assert(reply == NULL || link->pipeline.up);
    (void)rlock__request_free(request);
    link->wait = NULL;
    if (link->round.is_over) {
        return;
    }
    if (reply == NULL) {
        decide_lost(link, now);
        return;
    }
    rlock__listing_expect(server);
    waited.have = rlock__replicas_role(&server->replicas, reply, link->round.offset, now);
    waited.is_named = rlock__replicas_have_names(&server->replicas);
    rlock__listing_tell(server);
    if (waited.is_named && is_worth_more(link, &waited, now)) {
        link->round.asked = (unsigned)waited.count + 1;
        if (send_wait(link, now)) {
            return;
        }
    }
    decide(link, &waited, now);
}
