/* SPDX-License-Identifier: Apache-2.0 */
/* What all files of the core use: ready and complete calls, texts, times, random numbers. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/random.h"
#include "lock/common.h"

void rlock__ready(struct rlock__call *call, enum rlock__why why)
{
    assert(call->step != RLOCK__COMPLETE && why != 0);
    assert((why & (why - 1)) == 0); /* one reason */
    if (call->why == 0) {
        DL_APPEND2(call->core->ready, call, ready.prev, ready.next);
    }
    call->why |= why;
}

void rlock__unready(struct rlock__call *call, unsigned why)
{
    if (call->why != 0 && (call->why & ~why) == 0) {
        DL_DELETE2(call->core->ready, call, ready.prev, ready.next);
    }
    call->why &= ~why;
}

/* Which steps may follow each step. A call may also stay in its step. */
static const unsigned followers[] = {
#define STEP(step) (1U << RLOCK__##step)
    [RLOCK__NEW] = STEP(LINED_UP) | STEP(QUEUED) | STEP(ASKING) | STEP(SUBSCRIBING) |
                   STEP(SLEEPING) | STEP(PAUSING) | STEP(COMPLETE),
    [RLOCK__LINED_UP] = STEP(QUEUED) | STEP(ASKING) | STEP(SUBSCRIBING) | STEP(SLEEPING) |
                        STEP(PAUSING) | STEP(COMPLETE),
    [RLOCK__QUEUED] = STEP(ASKING) | STEP(SUBSCRIBING) | STEP(SLEEPING) | STEP(PAUSING) |
                      STEP(GIVING_UP) | STEP(COMPLETE),
    [RLOCK__ASKING] = STEP(QUEUED) | STEP(SUBSCRIBING) | STEP(SLEEPING) | STEP(PAUSING) |
                      STEP(GIVING_UP) | STEP(COMPLETE),
    [RLOCK__SUBSCRIBING] = STEP(QUEUED) | STEP(ASKING) | STEP(SLEEPING) | STEP(PAUSING) |
                           STEP(GIVING_UP) | STEP(COMPLETE),
    [RLOCK__SLEEPING] = STEP(QUEUED) | STEP(ASKING) | STEP(SUBSCRIBING) | STEP(PAUSING) |
                        STEP(GIVING_UP) | STEP(COMPLETE),
    [RLOCK__PAUSING] = STEP(QUEUED) | STEP(ASKING) | STEP(SUBSCRIBING) | STEP(SLEEPING) |
                       STEP(GIVING_UP) | STEP(COMPLETE),
    [RLOCK__GIVING_UP] = STEP(COMPLETE),
    [RLOCK__COMPLETE] = 0,
#undef STEP
};

void rlock__call_step(struct rlock__call *call, enum rlock__step step)
{
    bool may = step == call->step || (followers[call->step] & (1U << step)) != 0;

    assert(may);
    (void)may;
    call->step = step;
}

struct rlock__texts *rlock__texts(struct rlock__call *call)
{
    if (call->texts == NULL && call->says) {
        call->texts = calloc(1, sizeof(*call->texts));
    }
    return call->texts;
}

__attribute__((format(printf, 2, 0))) static void say(struct rlock__call *call, const char *format,
                                                      va_list args)
{
    struct rlock__texts *texts = rlock__texts(call);

    assert(call->step != RLOCK__COMPLETE); /* the caller may read the texts now */
    call->described = true;
    if (texts != NULL) {
        (void)vsnprintf(texts->detail, sizeof(texts->detail), format, args);
    }
}

int rlock__fail_as(int code, const struct rlock__texts *texts)
{
    rlock__detail("%s", texts->detail);
    return rlock__failed(code, &texts->facts);
}

void rlock__say(struct rlock__call *call, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(call, format, args);
    va_end(args);
}

void rlock__say_free(struct rlock__call *call, int64_t free_at)
{
    struct rlock__texts *texts = rlock__texts(call);

    if (texts != NULL) {
        texts->facts.free_at = free_at;
    }
}

static int reason_of(const struct rlock__call *call)
{
    if (call->kind == RLOCK__EXTEND) {
        return call->extend.reason;
    }
    return call->hold != NULL ? (int)call->hold->reason : 0;
}

/* The facts that each failed call has. */
static void say_facts(struct rlock__call *call)
{
    struct rlock__texts *texts = rlock__texts(call);

    if (texts == NULL) {
        return;
    }
    (void)snprintf(texts->facts.server, sizeof(texts->facts.server), "%s",
                   call->link != NULL ? call->link->server->address : "");
    texts->facts.reason = call->code == RLOCK_ELOST ? reason_of(call) : 0;
}

void rlock__unsay(struct rlock__call *call)
{
    call->described = false;
    if (call->texts != NULL) {
        call->texts->detail[0] = '\0';
    }
}

/* Counts a call of a program; those for a group's members are not. */
static inline void count(struct rlock_stats *stats, const struct rlock__call *call)
{
    const unsigned kind = call->spec->ops->number, code = (unsigned)-call->code;

    assert(kind < RLOCK_STATS_KINDS && code < RLOCK_STATS_CODES);
    if (call->member) {
        return;
    }
    if (call->kind == RLOCK__ACQUIRE) {
        if (call->acquire.adopts != NULL) {
            stats->adopts[code]++;
        } else {
            stats->takes[kind][code]++;
        }
    } else if (call->kind == RLOCK__RELEASE) {
        if (rlock__detaches(call)) {
            stats->detaches[code]++;
        } else {
            stats->unlocks[kind][code]++;
        }
    } else if (call->kind == RLOCK__EXTEND) {
        stats->extends[code]++;
    }
}

void rlock__call_complete(struct rlock__call *call, int code, const char *format, ...)
{
    struct rlock__core *core = call->core;
    va_list args;

    assert(call->step != RLOCK__COMPLETE);
    assert(call->request == NULL);
    assert(call->channel == NULL);
    assert(call->kind != RLOCK__ACQUIRE || call->acquire.queue == NULL);
    assert(call->kind != RLOCK__ACQUIRE || call->acquire.ticket == NULL);
    if (code == 0 && call->kind == RLOCK__ACQUIRE &&
        !RLOCK__ENSURE(core, call->view != NULL && call->count > 0)) {
        code = RLOCK_EINDOUBT;
    }
    call->code = code;
    if (code != 0) {
        say_facts(call);
    }
    if (format != NULL) {
        va_start(args, format);
        say(call, format, args);
        va_end(args);
    }
    rlock__timer_unset(&core->timers, &call->timer);
    rlock__unready(call, ~0U);
    rlock__call_step(call, RLOCK__COMPLETE);
    count(&core->stats, call);
    DL_DELETE2(core->calls, call, all.prev, all.next);
    DL_APPEND(core->done, call);
}

bool rlock__broken(struct rlock__core *core, const char *condition, const char *function)
{
    rlock__note(core, RLOCK_LOG_ERROR, rlock__about("internal", core->opts.address, 0),
                "internal error in rlock, please report it: not %s, in %s() (server %s)", condition,
                function, core->opts.address);
#ifndef NDEBUG
    (void)fprintf(stderr, "%s(): not %s\n", function, condition);
    abort();
#endif
    return false;
}

const char *rlock__spec_text(const struct rlock__spec *spec, char out[static 96])
{
    return rlock__text(spec->name, out, 96);
}

int64_t rlock__random(struct rlock__core *core, int64_t n)
{
    assert(core->random != 0); /* 0 would stay 0 */
    return rlock__random_below(&core->random, n);
}

int64_t rlock__backoff(struct rlock__core *core, unsigned failures)
{
    int64_t top = failures < 7 ? RLOCK__BACKOFF_US << failures : RLOCK__BACKOFF_MAX_US;
    int64_t most = core->several ? RLOCK__BACKOFF_MOVING_US : RLOCK__BACKOFF_MAX_US;

    return RLOCK__BACKOFF_US + rlock__random(core, rlock__min(top, most));
}

static inline struct rlock__bytes owner_text(const char *uuid, uint64_t number,
                                             char out[static RLOCK__OWNER_SIZE])
{
    size_t len = strlen(uuid);

    assert(number != 0); /* no owner has the number 0 */
    assert(len <= RLOCK__UUID_LEN);
    memcpy(out, uuid, len);
    out[len++] = ':';
    len += rlock__digits(number, out + len);
    out[len] = '\0';
    return rlock__bytes(out, len);
}

struct rlock__bytes rlock__owner_text(const struct rlock__core *core, uint64_t number,
                                      char out[static RLOCK__OWNER_SIZE])
{
    return owner_text(core->opts.uuid, number, out);
}

struct rlock__bytes rlock__text_owner(const struct rlock__core *core, uint64_t number,
                                      char out[static RLOCK__OWNER_SIZE])
{
    assert(core->opts.text_uuid[0] != '\0');
    return owner_text(core->opts.text_uuid, number, out);
}

int64_t rlock__free_by(int64_t now, int64_t lease_us)
{
    int64_t rounded = 2 * RLOCK__MS; /* of the lease that is sent, and of the server's clock */

    assert(lease_us >= 0);
    return now + lease_us + rlock__max(2 * RLOCK__MS, lease_us / 100) + rounded;
}

int64_t rlock__valid_until(const struct rlock__core *core, int64_t t0, int64_t lease_us)
{
    return t0 + lease_us - rlock__max(2 * RLOCK__MS, lease_us / 100) - core->opts.margin_us;
}
