/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that nobody here holds, of which copies may still run: an attempt that was given up, a
 * hold that expired. Each is released behind its last copy on the same link, and after a break
 * again on the next one, until the answer proves that no copy can run any more: read on the link of
 * the last copy, or with that link fenced. Where the server does not let us fence, it is released
 * again with each renewal tick until a lease after the last copy.
 */
#include <stdlib.h>
#include <utlist.h>

#include "lock/internal.h"

struct rlock__orphan {
    struct rlock__orphan *prev, *next;
    struct rlock__core *core;
    struct rlock__spec *spec;
    uint64_t number;
    uint32_t count;
    struct rlock__open_copies copies;
    int64_t free_by;
    struct rlock__call *call;
    struct rlock__request *request;
    struct rlock__timer timer;
    unsigned failures;
};

static void orphan_free(struct rlock__orphan *orphan)
{
    rlock__timer_unset(&orphan->core->timers, &orphan->timer);
    if (orphan->request != NULL) {
        orphan->request->subject = NULL;
    }
    DL_DELETE(orphan->core->orphans, orphan);
    (void)rlock__spec_unref(orphan->spec);
    free(orphan);
}

static void send(struct rlock__orphan *orphan, int64_t now);

static void on_timer(struct rlock__timer *timer, int64_t now)
{
    struct rlock__orphan *orphan =
        (struct rlock__orphan *)(void *)((char *)timer - offsetof(struct rlock__orphan, timer));

    send(orphan, now);
}

static void plan(struct rlock__orphan *orphan, int64_t at)
{
    rlock__timer_set(&orphan->core->timers, &orphan->timer, at);
}

static bool is_settled(const struct rlock__orphan *orphan, uint64_t gen)
{
    const struct rlock__flight *flight = &orphan->core->server.flight;
    uint64_t lost = orphan->copies.lost_gen;

    return (orphan->copies.gen == gen || rlock__flight_is_fenced(flight, orphan->copies.gen)) &&
           (lost == 0 || lost == gen || rlock__flight_is_fenced(flight, lost));
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__orphan *orphan = request->subject;
    uint64_t gen = request->gen;
    struct rlock__call *call;

    (void)rlock__request_free(request);
    if (orphan == NULL) {
        return;
    }
    orphan->request = NULL;
    if (reply == NULL) { /* the link broke: it goes on when the next one is up */
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
    rlock__look_after(orphan->spec, reply, now);
    if (!is_settled(orphan, gen) && now < orphan->free_by) {
        plan(orphan, rlock__min(now + orphan->core->renewed_lease_us / 3, orphan->free_by));
        return;
    }
    if (!is_settled(orphan, gen)) { /* its lease has ended, as far as we can know */
        orphan_free(orphan);
        return;
    }
    call = orphan->call;
    orphan_free(orphan);
    if (call != NULL) {
        rlock__acquire_settled(call, now);
    }
}

static void send(struct rlock__orphan *orphan, int64_t now)
{
    struct rlock__core *core = orphan->core;

    if (!core->server.flight.up || orphan->request != NULL) {
        return;
    }
    orphan->request =
        rlock__release_request(orphan->spec, orphan->number, orphan->count, 0, on_answer, orphan);
    if (orphan->request == NULL) {
        plan(orphan, now + rlock__backoff(core, orphan->failures++));
        return;
    }
    orphan->request->resend = RLOCK__ONCE;
    rlock__flight_submit(&core->server.flight, orphan->request, now);
}

void rlock__orphan_new(struct rlock__spec *spec, uint64_t number, uint32_t count,
                       struct rlock__open_copies copies, int64_t lease_us, struct rlock__call *call,
                       int64_t now)
{
    struct rlock__orphan *orphan = calloc(1, sizeof(*orphan));
    char name[96];

    if (orphan == NULL) { /* the lease ends by itself; a call that waits says "in doubt" */
        rlock__note(spec->core, RLOCK_LOG_ERROR, "lock %s: no memory to release it",
                    rlock__spec_text(spec, name));
        return;
    }
    orphan->core = spec->core;
    orphan->spec = rlock__spec_ref(spec);
    orphan->number = number;
    orphan->count = count;
    orphan->copies = copies;
    orphan->free_by = rlock__max(copies.sent_at, 0) + lease_us + RLOCK__MS;
    orphan->call = call;
    orphan->timer.fire = on_timer;
    DL_APPEND(spec->core->orphans, orphan);
    send(orphan, now);
}

void rlock__orphan_supersede(struct rlock__call *call)
{
    struct rlock__orphan *orphan, *after;

    DL_FOREACH_SAFE(call->core->orphans, orphan, after) {
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

void rlock__orphan_forget(struct rlock__core *core, const struct rlock__call *call)
{
    struct rlock__orphan *orphan;

    DL_FOREACH(core->orphans, orphan) {
        if (orphan->call == call) {
            orphan->call = NULL;
        }
    }
}

void rlock__orphans_link_up(struct rlock__core *core, int64_t now)
{
    struct rlock__orphan *orphan, *after;

    DL_FOREACH_SAFE(core->orphans, orphan, after) {
        send(orphan, now);
    }
}

void rlock__core_note_rest(struct rlock__core *core, int64_t now)
{
    struct rlock__orphan *orphan;
    char name[96];

    DL_FOREACH(core->orphans, orphan) {
        rlock__note(core, RLOCK_LOG_WARNING, "lock %s: not released, free in %lld ms (server %s)",
                    rlock__spec_text(orphan->spec, name),
                    (long long)rlock__ms_up(rlock__max(0, orphan->free_by - now)), core->address);
    }
}

void rlock__orphans_fini(struct rlock__core *core)
{
    struct rlock__orphan *orphan, *after;

    DL_FOREACH_SAFE(core->orphans, orphan, after) {
        orphan_free(orphan);
    }
}
