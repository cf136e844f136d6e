/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that nobody here holds, of which copies may still run: an attempt that was given up, a
 * hold that expired. Each is released behind its last copy on the same link, and after a break
 * again on the next one, until the answer proves that no copy can run any more: read on the link of
 * the last copy, or with that link fenced. Where the server does not let us fence, it is released
 * again with each renewal tick until a lease after the last copy.
 *
 * What a call gave up is released at once. The others wait for their turn in core.unsent, while
 * many are in flight, and so do all that have no link.
 */
#include <stdlib.h>
#include <utlist.h>

#include "lock/internal.h"

struct rlock__orphan {
    struct rlock__orphan *prev, *next;
    struct rlock__orphan *unsent_prev, *unsent_next;
    struct rlock__orphan *undone_prev, *undone_next; /* in hold.undone */
    struct rlock__core *core;
    struct rlock__spec *spec;
    uint64_t number;
    uint32_t count;
    struct rlock__open_copies copies;
    int64_t free_by;
    struct rlock__call *call;
    struct rlock__hold *hold; /* a level of it is undone; NULL none, or its row is gone */
    struct rlock__request *request;
    bool is_unsent;
    struct rlock__timer timer;
    unsigned failures;
};

static void orphan_free(struct rlock__orphan *orphan)
{
    struct rlock__core *core = orphan->core;

    rlock__timer_unset(&core->crowd, &orphan->timer);
    if (orphan->request != NULL) {
        orphan->request->subject = NULL;
        core->releasing--;
    }
    if (orphan->is_unsent) {
        DL_DELETE2(core->unsent, orphan, unsent_prev, unsent_next);
    }
    if (orphan->hold != NULL) {
        DL_DELETE2(orphan->hold->undone, orphan, undone_prev, undone_next);
    }
    if (orphan->call != NULL) {
        orphan->call->orphan = NULL;
    }
    DL_DELETE(core->orphans, orphan);
    (void)rlock__spec_unref(orphan->spec);
    free(orphan);
}

/* Has it wait for its turn: what calls wait for comes first. */
static void line_up(struct rlock__orphan *orphan)
{
    struct rlock__core *core = orphan->core;

    orphan->is_unsent = true;
    if (orphan->call != NULL) {
        DL_PREPEND2(core->unsent, orphan, unsent_prev, unsent_next);
    } else {
        DL_APPEND2(core->unsent, orphan, unsent_prev, unsent_next);
    }
}

static void on_timer(struct rlock__timer *timer, int64_t now)
{
    (void)now;
    line_up(
        (struct rlock__orphan *)(void *)((char *)timer - offsetof(struct rlock__orphan, timer)));
}

static void plan(struct rlock__orphan *orphan, int64_t at)
{
    rlock__timer_set(&orphan->core->crowd, &orphan->timer, at);
}

static bool is_settled(const struct rlock__orphan *orphan, uint64_t gen)
{
    const struct rlock__pipeline *pipeline = &orphan->core->server.link.pipeline;
    uint64_t lost = orphan->copies.lost_gen;

    return (orphan->copies.gen == gen || rlock__pipeline_is_fenced(pipeline, orphan->copies.gen)) &&
           (lost == 0 || lost == gen || rlock__pipeline_is_fenced(pipeline, lost));
}

/* Not settled: released again with the next renewal tick, until its lease has ended as far as we
 * can know. */
static void give_up_or_wait(struct rlock__orphan *orphan, int64_t now)
{
    if (now >= orphan->free_by) {
        orphan_free(orphan);
        return;
    }
    plan(orphan, rlock__min(now + orphan->core->renewed_lease_us / 3, orphan->free_by));
}

/* It has cost a link: another try may do so too, and must not at once. There is one also where the
 * lease has ended, since a queue is not left by that. */
static void on_garbled(struct rlock__orphan *orphan, int64_t now)
{
    if (now >= orphan->free_by && orphan->failures > 0) {
        orphan_free(orphan);
        return;
    }
    orphan->failures++;
    plan(orphan, now + orphan->core->renewed_lease_us / 3);
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__orphan *orphan = request->subject;
    uint64_t gen = request->gen;
    bool garbled = request->garbled;
    struct rlock__call *call;

    (void)rlock__request_free(request);
    if (orphan == NULL) {
        return;
    }
    orphan->request = NULL;
    orphan->core->releasing--;
    if (garbled) {
        on_garbled(orphan, now);
        return;
    }
    if (reply == NULL) { /* the link broke: it goes on when the next one is up */
        line_up(orphan);
        return;
    }
    if (rlock__reply_is_error(reply)) {
        bool passes = rlock__classify(reply).way != RLOCK__GIVE_UP;

        if (!passes && now >= orphan->free_by) { /* not permitted, say; its lease has ended */
            orphan_free(orphan);
            return;
        }
        plan(orphan, now + rlock__backoff(orphan->core, orphan->failures++));
        return;
    }
    if (!is_settled(orphan, gen)) {
        give_up_or_wait(orphan, now);
        return;
    }
    call = orphan->call;
    orphan_free(orphan);
    if (call != NULL) {
        rlock__ready(call, RLOCK__SETTLED);
    }
}

static void send(struct rlock__orphan *orphan, int64_t now)
{
    struct rlock__core *core = orphan->core;

    orphan->request =
        rlock__release_send(orphan->spec, orphan->number, orphan->count, 0, on_answer, orphan, now);
    if (orphan->request == NULL) {
        plan(orphan, now + rlock__backoff(core, orphan->failures++));
        return;
    }
    orphan->request->resend = RLOCK__ONCE;
    core->releasing++;
}

static bool is_time(const struct rlock__core *core)
{
    return core->server.link.pipeline.up && core->releasing < RLOCK__RELEASES;
}

void rlock__orphans_flush(struct rlock__core *core, int64_t now)
{
    while (core->unsent != NULL && is_time(core)) {
        struct rlock__orphan *orphan = core->unsent;

        DL_DELETE2(core->unsent, orphan, unsent_prev, unsent_next);
        orphan->is_unsent = false;
        send(orphan, now);
    }
}

struct rlock__orphan *rlock__orphan_spare(void)
{
    return calloc(1, sizeof(struct rlock__orphan));
}

struct rlock__orphan *rlock__orphan_unspare(struct rlock__orphan *spare)
{
    free(spare);
    return NULL;
}

/* One that is in no line yet, made of the hold's spare one. */
static struct rlock__orphan *make(struct rlock__hold *hold, uint64_t number,
                                  struct rlock__open_copies copies, int64_t lease_us)
{
    struct rlock__spec *spec = hold->spec;
    struct rlock__orphan *orphan = hold->spare != NULL ? hold->spare : rlock__orphan_spare();
    char name[96];

    hold->spare = NULL;
    if (orphan == NULL) { /* the lease ends by itself; a call that waits says "in doubt" */
        rlock__note(spec->core, RLOCK_LOG_ERROR, "lock %s: no memory to release it",
                    rlock__spec_text(spec, name));
        return NULL;
    }
    orphan->core = spec->core;
    orphan->spec = rlock__spec_ref(spec);
    orphan->number = number;
    orphan->copies = copies;
    orphan->free_by = rlock__max(copies.sent_at, 0) + lease_us + RLOCK__MS;
    orphan->timer.fire = on_timer;
    DL_APPEND(spec->core->orphans, orphan);
    return orphan;
}

void rlock__orphan_new(struct rlock__hold *hold, uint64_t number, uint32_t count,
                       struct rlock__open_copies copies, int64_t lease_us, struct rlock__call *call,
                       int64_t now)
{
    struct rlock__orphan *orphan = make(hold, number, copies, lease_us);

    if (orphan == NULL) {
        return;
    }
    orphan->count = count;
    orphan->call = call;
    if (call != NULL) {
        call->orphan = orphan;
    }
    if (call != NULL && count > 0) {
        orphan->hold = hold;
        DL_APPEND2(hold->undone, orphan, undone_prev, undone_next);
    }
    if (hold->core->server.link.pipeline.up) {
        send(orphan, now);
    } else {
        line_up(orphan);
    }
}

void rlock__orphan_of_lost(struct rlock__hold *hold, struct rlock__open_copies copies, int64_t now)
{
    struct rlock__orphan *orphan = make(hold, hold->number, copies, hold->lease_us);

    if (orphan != NULL) {
        line_up(orphan);
        rlock__orphans_flush(hold->core, now); /* before who waits for the lock here asks for it */
    }
}

void rlock__orphans_outlive(struct rlock__hold *hold)
{
    struct rlock__orphan *orphan, *after;

    DL_FOREACH_SAFE2(hold->undone, orphan, after, undone_next)
    {
        orphan->hold = NULL;
    }
    hold->undone = NULL;
}

void rlock__orphan_supersede(struct rlock__call *call)
{
    struct rlock__orphan *orphan, *after;

    DL_FOREACH_SAFE2(call->hold->undone, orphan, after, undone_next)
    {
        uint64_t gen = orphan->copies.gen > orphan->copies.lost_gen ? orphan->copies.gen
                                                                    : orphan->copies.lost_gen;

        if (orphan->number != call->number) {
            continue;
        }
        if (orphan->request != NULL) { /* behind a NOSCRIPT it would run after the attempt */
            orphan->request->resend = RLOCK__DROP;
        }
        call->lost_gen = gen > call->lost_gen ? gen : call->lost_gen;
        orphan_free(orphan);
    }
}

void rlock__orphan_forget(struct rlock__call *call)
{
    if (call->orphan != NULL) {
        call->orphan->call = NULL;
        call->orphan = NULL;
    }
}

void rlock__orphans_note_rest(struct rlock__core *core, int64_t now)
{
    const struct rlock__orphan *orphan;
    int64_t free_by = now;
    size_t n = 0;
    char name[96];

    DL_FOREACH(core->orphans, orphan) {
        free_by = rlock__max(free_by, orphan->free_by);
        n++;
    }
    if (n == 1) {
        rlock__note(core, RLOCK_LOG_WARNING, "lock %s: not released, free in %lld ms (server %s)",
                    rlock__spec_text(core->orphans->spec, name),
                    (long long)rlock__ms_up(free_by - now), core->server.address);
    } else if (n > 1) {
        rlock__note(core, RLOCK_LOG_WARNING,
                    "%zu locks: not released, the last is free in %lld ms (server %s)", n,
                    (long long)rlock__ms_up(free_by - now), core->server.address);
    }
}

void rlock__orphans_fini(struct rlock__core *core)
{
    struct rlock__orphan *orphan, *after;

    DL_FOREACH_SAFE(core->orphans, orphan, after) {
        orphan_free(orphan);
    }
}
