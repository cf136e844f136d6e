/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that nobody here holds, of which copies may still run: an attempt that was given up, a
 * hold that expired. Each is released behind its last copy on the same link, and after a break
 * again on the next one, until the answer proves that no copy can run any more: each was answered
 * or overtaken on its own link, or that link was fenced, before the last release was sent. Where
 * the key has moved, so that copies lie on other links than releases go over, a release is sent
 * over those too. The server's answer proves what the copies before it did there; a refusal only
 * that it has read them. Where the server does not let us fence, it is released again with each
 * renewal tick until a lease after the last copy.
 * What a call gave up is released at once; others, and all without a link, wait in link.unsent.
 */
#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/orphan.h"
#include "lock/hold/released.h"
#include "lock/server/classify.h"
#include "lock/server/hop.h"
#include "lock/server/route.h"
#include "lock/server/send.h"

static void orphan_free(struct rlock__orphan *orphan)
{
    struct rlock__core *core = orphan->core;

    assert(orphan->is_unsent + (orphan->request != NULL) + orphan->timer.set <= 1);
    assert(orphan->request == NULL || orphan->link->releasing > 0);
    assert(orphan->call == NULL || orphan->call->acquire.orphan == orphan);
    rlock__timer_unset(&core->crowd, &orphan->timer);
    if (orphan->request != NULL) {
        orphan->request->subject = NULL;
        orphan->link->releasing--;
        rlock__server_touch(orphan->link->server);
    }
    if (orphan->is_unsent) {
        DL_DELETE2(orphan->link->unsent, orphan, unsent_prev, unsent_next);
    }
    if (orphan->grant != NULL) {
        DL_DELETE2(orphan->grant->undone, orphan, undone_prev, undone_next);
    }
    if (orphan->call != NULL) {
        orphan->call->acquire.orphan = NULL;
    }
    DL_DELETE(core->recovery.orphans, orphan);
    orphan->doubt = rlock__doubt_close(orphan->doubt);
    (void)rlock__spec_unref(orphan->spec);
    rlock__orphan_put_away(core, orphan);
}

/* Another link than the key's on which a copy can be overtaken, or over which what it did can be
 * undone; NULL none. */
static struct rlock__link *elsewhere(const struct rlock__orphan *orphan,
                                     const struct rlock__link *route)
{
    for (unsigned i = 0; i < orphan->copies.n; i++) {
        const struct rlock__open_copy *open = &orphan->copies.open[i];

        if (open->link != route && open->link->pipeline.up &&
            (open->unproven || open->link->pipeline.gen == open->sent)) {
            return open->link;
        }
    }
    return NULL;
}

/* Decides which link the next release goes over. The first goes to the key: others wait for it. */
static struct rlock__link *choose(struct rlock__orphan *orphan)
{
    struct rlock__link *route = rlock__route(orphan->spec);
    struct rlock__link *other = orphan->seeks ? elsewhere(orphan, route) : NULL;

    orphan->link = other != NULL ? other : route;
    return orphan->link;
}

/* Has it wait for its turn: what calls wait for comes first. */
static void line_up(struct rlock__orphan *orphan)
{
    struct rlock__link *link = choose(orphan);

    assert(orphan->request == NULL && !orphan->timer.set);
    rlock__server_touch(link->server);
    orphan->is_unsent = true;
    link->server->is_let_go = false;
    if (orphan->call != NULL) {
        DL_PREPEND2(link->unsent, orphan, unsent_prev, unsent_next);
    } else {
        DL_APPEND2(link->unsent, orphan, unsent_prev, unsent_next);
    }
}

void rlock__orphans_reroute(struct rlock__link *link)
{
    struct rlock__orphan *orphan, *after, *unsent = link->unsent;

    link->unsent = NULL;
    DL_FOREACH_SAFE2(unsent, orphan, after, unsent_next)
    {
        line_up(orphan);
    }
}

static void on_timer(struct rlock__timer *timer, int64_t now)
{
    (void)now;
    line_up(RLOCK__OF(struct rlock__orphan, timer, timer));
}

static void plan(struct rlock__orphan *orphan, int64_t at)
{
    assert(!orphan->is_unsent && orphan->request == NULL);
    rlock__timer_set(&orphan->core->crowd, &orphan->timer, at);
}

/* Not settled: released again, where that may prove more at once, else with the next renewal tick,
 * until its lease has ended as far as we can know, and no copy is to be fenced. */
static void go_on(struct rlock__orphan *orphan, int64_t now)
{
    int64_t last =
        orphan->free_by + (rlock__copies_may_be_fenced(&orphan->copies) ? RLOCK__UNUSED_US : 0);
    bool fenced = rlock__copies_fence(&orphan->copies);

    orphan->seeks = true;
    if (fenced || elsewhere(orphan, rlock__route(orphan->spec)) != NULL) {
        line_up(orphan);
        return;
    }
    if (now >= last) {
        orphan_free(orphan);
        return;
    }
    plan(orphan, rlock__min(now + orphan->core->opts.renewed_lease_us / 3, last));
}

/* It has cost a link: another try may do so too, and must not at once. There is one also where the
 * lease has ended, since a queue is not left by that. */
static void on_garbled(struct rlock__orphan *orphan, int64_t now)
{
    if (now >= orphan->free_by && orphan->garbled) {
        orphan_free(orphan);
        return;
    }
    orphan->garbled = true;
    plan(orphan, now + orphan->core->opts.renewed_lease_us / 3);
}

static void on_error(struct rlock__orphan *orphan, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__class class = rlock__core_classify(orphan->core, reply);

    if (class.way == RLOCK__GIVE_UP && now >= orphan->free_by) { /* not permitted, say */
        orphan_free(orphan);
    } else {
        plan(orphan, now + rlock__backoff(orphan->core, orphan->failures++));
    }
}

/* The server has the number no more. */
static void on_released(struct rlock__orphan *orphan, int64_t now)
{
    struct rlock__call *call = orphan->call;

    rlock__grant_mind_levels(orphan->grant, now);
    if (orphan->copies.n > 0 || orphan->copies.beyond) {
        go_on(orphan, now);
        return;
    }
    if (orphan->count == 0) {
        rlock__released(orphan->link, orphan->spec, orphan->number, orphan->copies.replaced, now);
    }
    orphan_free(orphan);
    if (call != NULL) {
        rlock__ready(call, RLOCK__SETTLED);
    }
}

/* Its release goes to the server that has the key; see rlock__hop(), rlock__hop_home(). */
static bool hops(struct rlock__orphan *orphan, struct rlock__request *request,
                 const struct rlock__reply *reply, int64_t now)
{
    const struct rlock__pipeline *pipeline = &orphan->link->pipeline;
    uint64_t gen = request->gen;
    /* no server has read a request that waited for its link when the slot map changed */
    bool was_read = reply != NULL && pipeline->up && gen == pipeline->gen;
    bool good = reply != NULL && !rlock__reply_is_error(reply);
    bool gone = good && orphan->spec->ops->read_release(reply).outcome == RLOCK__GONE;
    bool hopped = rlock__hop(request, reply, now);

    if (was_read && (good || hopped)) {
        rlock__copies_answered(&orphan->copies, orphan->link, gen);
    } else if (was_read) {
        rlock__copies_read(&orphan->copies, orphan->link, gen);
    }
    if (!hopped && !(gone && rlock__hop_home(request, now))) {
        return false;
    }
    orphan->link->releasing--;
    orphan->link = request->link;
    orphan->link->releasing++;
    return true;
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__orphan *orphan = request->subject;
    bool garbled = request->garbled;

    assert(orphan == NULL || (orphan->request == request && orphan->link->releasing > 0));
    if (orphan != NULL && hops(orphan, request, reply, now)) {
        return;
    }
    (void)rlock__request_free(request);
    if (orphan == NULL) {
        return;
    }
    orphan->request = NULL;
    orphan->link->releasing--;
    if (garbled) {
        on_garbled(orphan, now);
        return;
    }
    if (reply == NULL) { /* the link broke: it goes on when the next one is up */
        line_up(orphan);
        return;
    }
    if (rlock__reply_is_error(reply)) {
        on_error(orphan, reply, now);
    } else {
        on_released(orphan, now);
    }
}

static void send(struct rlock__orphan *orphan, int64_t now)
{
    assert(!orphan->is_unsent && orphan->request == NULL && !orphan->timer.set);
    assert(orphan->link->pipeline.up);
    rlock__copies_fence(&orphan->copies);
    orphan->request = rlock__release_send(orphan->spec, orphan->link, orphan->number, orphan->count,
                                          0, on_answer, orphan, now);
    if (orphan->request == NULL) {
        plan(orphan, now + rlock__backoff(orphan->core, orphan->failures++));
        return;
    }
    orphan->request->resend = RLOCK__ONCE;
    orphan->link->releasing++;
}

static bool is_time(const struct rlock__link *link)
{
    return link->pipeline.up && link->releasing < RLOCK__RELEASES;
}

void rlock__orphans_flush(struct rlock__link *link, int64_t now)
{
    while (link->unsent != NULL && is_time(link)) {
        struct rlock__orphan *orphan = link->unsent;

        DL_DELETE2(link->unsent, orphan, unsent_prev, unsent_next);
        orphan->is_unsent = false;
        send(orphan, now);
    }
}

/* One that is in no line yet, made of the spare one, if there is any. */
static struct rlock__orphan *make(struct rlock__spec *spec, struct rlock__orphan *spare,
                                  uint64_t number, struct rlock__copies copies, int64_t free_by)
{
    struct rlock__orphan *orphan = spare != NULL ? spare : rlock__orphan_alloc(spec->core);
    char name[96];

    assert(number != 0);
    if (orphan == NULL) { /* the lease ends by itself; a call that waits says "in doubt" */
        rlock__note(spec->core, RLOCK_LOG_ERROR, "lock %s: no memory to release it",
                    rlock__spec_text(spec, name));
        return NULL;
    }
    orphan->core = spec->core;
    orphan->spec = rlock__spec_ref(spec);
    orphan->number = number;
    orphan->copies = copies;
    orphan->free_by = free_by + RLOCK__MS;
    orphan->timer.fire = on_timer;
    DL_APPEND(spec->core->recovery.orphans, orphan);
    return orphan;
}

struct rlock__orphan *rlock__orphan_new(struct rlock__hold *hold, uint64_t number, uint32_t count,
                                        struct rlock__copies copies, int64_t free_by,
                                        struct rlock__call *call, int64_t now)
{
    struct rlock__orphan *orphan =
        make(hold->spec, rlock__orphan_take_spare(hold), number, copies, free_by);

    assert(call == NULL || (call->hold == hold && call->acquire.orphan == NULL));
    assert(call != NULL || count == 0); /* a call alone gives up a level */
    if (orphan == NULL) {
        return NULL;
    }
    orphan->count = count;
    orphan->call = call;
    if (call != NULL) {
        call->acquire.orphan = orphan;
    }
    if (call != NULL && count > 0) {
        orphan->grant = hold->grant;
        orphan->lease_us = rlock__acquire_lease(call, call->acquire.sent_at);
        DL_APPEND2(hold->grant->undone, orphan, undone_prev, undone_next);
    }
    if (choose(orphan)->pipeline.up) {
        send(orphan, now);
    } else {
        line_up(orphan);
    }
    return orphan;
}

void rlock__orphan_of_lost(struct rlock__hold *hold, struct rlock__copies copies, int64_t now)
{
    struct rlock__orphan *orphan =
        make(hold->spec, NULL, hold->grant->number, copies, now + hold->grant->lease_us);

    assert(hold->state == RLOCK__HOLD_LOST);
    assert(!hold->grant->is_numbered);
    if (orphan != NULL) {
        if (hold->turn != NULL && hold->turn->kind == RLOCK__RELEASE) {
            rlock__orphan_doubt(orphan, hold->turn);
        } else { /* about its release, which the orphan goes on with */
            orphan->doubt = hold->grant->doubt;
            hold->grant->doubt = NULL;
        }
        line_up(orphan);
        rlock__orphans_flush(orphan->link,
                             now); /* before who waits for the lock here asks for it */
    }
}

void rlock__orphan_of_released(struct rlock__spec *spec, uint64_t number,
                               struct rlock__copies copies, int64_t now)
{
    struct rlock__orphan *orphan =
        make(spec, NULL, number, copies, now + spec->core->opts.renewed_lease_us);

    if (orphan != NULL) {
        line_up(orphan);
    }
}

void rlock__orphans_outlive(struct rlock__grant *grant)
{
    struct rlock__orphan *orphan, *after;

    DL_FOREACH_SAFE2(grant->undone, orphan, after, undone_next)
    {
        orphan->grant = NULL;
    }
    grant->undone = NULL;
}

void rlock__orphan_supersede(struct rlock__call *call)
{
    struct rlock__orphan *orphan, *after;
    struct rlock__copies lost;

    DL_FOREACH_SAFE2(call->hold->grant->undone, orphan, after, undone_next)
    {
        if (orphan->number != call->number) {
            continue;
        }
        assert(orphan->call == NULL);  /* that call has left the hold */
        if (orphan->request != NULL) { /* behind a NOSCRIPT it would run after the attempt */
            orphan->request->resend = RLOCK__DROP;
        }
        lost = rlock__copies_kept(call->acquire.lost);
        rlock__copies_join(&lost, &orphan->copies);
        rlock__copies_keep(&call->acquire.lost, &lost);
        orphan_free(orphan);
    }
}

void rlock__orphan_forget(struct rlock__call *call)
{
    if (call->acquire.orphan != NULL) {
        assert(call->acquire.orphan->call == call);
        call->acquire.orphan->call = NULL;
        call->acquire.orphan = NULL;
    }
}

void rlock__orphans_fini(struct rlock__core *core)
{
    struct rlock__orphan *orphan, *after;

    DL_FOREACH_SAFE(core->recovery.orphans, orphan, after) {
        orphan_free(orphan);
    }
}
