/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/call/explain.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "lock/common.h"
#include "lock/server/channel.h"

/* Whether the call has not had to wait for a holder or a connection so far. */
static bool is_routine(const struct rlock__call *call)
{
    return call->acquire.attempts <= 1 && !call->acquire.contended && call->link->pipeline.up;
}

/* The text that says why a call failed, without the "lock NAME: " in front. */
static const char *detail_of(const struct rlock__call *call, const char *name)
{
    const char *detail = rlock__call_detail(call);
    size_t len = strlen(name);

    if (strncmp(detail, "lock ", 5) == 0 && strncmp(detail + 5, name, len) == 0 &&
        strncmp(detail + 5 + len, ": ", 2) == 0) {
        return detail + 5 + len + 2;
    }
    return detail;
}

__attribute__((format(printf, 4, 0))) static void explain(const struct rlock__call *call,
                                                          bool routine, int64_t now,
                                                          const char *format, va_list args)
{
    struct rlock__core *core = call->core;
    char name[96], text[RLOCK__DETAIL_SIZE];

    assert(rlock__explains(call));
    assert(call->kind == RLOCK__ACQUIRE);
    if (rlock__log_may(core, RLOCK_LOG_DEBUG, routine, now)) {
        (void)vsnprintf(text, sizeof(text), format, args);
        rlock__note(core, RLOCK_LOG_DEBUG, rlock__about("call", NULL, 0), "lock %s: call %llu %s",
                    rlock__spec_text(call->spec, name), (unsigned long long)call->number, text);
    }
}

void rlock__explain(const struct rlock__call *call, int64_t now, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    explain(call, false, now, format, args);
    va_end(args);
}

__attribute__((format(printf, 3, 4))) static void explain_routine(const struct rlock__call *call,
                                                                  int64_t now, const char *format,
                                                                  ...)
{
    va_list args;

    va_start(args, format);
    explain(call, is_routine(call), now, format, args);
    va_end(args);
}

void rlock__explain_attempt(const struct rlock__call *call, int64_t now)
{
    const char *address = call->link->server->address;

    assert(call->step == RLOCK__ASKING);
    assert(call->acquire.attempts > 0);
    if (call->link->pipeline.up) {
        explain_routine(call, now, "asks server %s", address);
    } else {
        rlock__explain(call, now, "waits for a connection to server %s", address);
    }
}

void rlock__explain_busy(const struct rlock__call *call, const struct rlock__answer *answer,
                         int64_t now)
{
    char holder[RLOCK__FACT_SIZE], lease[48] = "";

    assert(answer->outcome == RLOCK__BUSY);
    if (answer->ttl_ms >= 0) {
        (void)snprintf(lease, sizeof(lease), " for at most %lld ms", (long long)answer->ttl_ms);
    }
    if (answer->holder.len == 0) {
        rlock__explain(
            call, now, "found it busy: %s%s",
            rlock__has_units(call->spec) ? "too few units are free" : "others wait for it", lease);
    } else {
        rlock__explain(call, now, "found it busy: %s holds it%s",
                       rlock__text(answer->holder, holder, sizeof(holder)), lease);
    }
}

void rlock__explain_wake(const struct rlock__call *call, int64_t now)
{
    bool subscribed =
        call->step == RLOCK__SUBSCRIBING || (call->step == RLOCK__ASKING && call->acquire.deaf);

    assert(call->step == RLOCK__ASKING || call->step == RLOCK__SUBSCRIBING ||
           call->step == RLOCK__SLEEPING || call->step == RLOCK__PAUSING);
    if (subscribed && rlock__channel_is_live(call)) {
        rlock__explain(call, now, "subscribed to its channel");
    } else if (call->step != RLOCK__ASKING) {
        rlock__explain(call, now, "was woken by a release");
    }
}

void rlock__explain_end(const struct rlock__call *call, int code, int64_t now)
{
    long long ms = (long long)((now - call->acquire.begun_at) / RLOCK__MS);
    char name[96];

    if (code == 0) {
        explain_routine(call, now, "was granted after %lld ms (attempts: %u)", ms,
                        call->acquire.attempts);
        return;
    }
    rlock__explain(call, now, "ended after %lld ms (attempts: %u): %s: %s", ms,
                   call->acquire.attempts, rlock_strerror(code),
                   detail_of(call, rlock__spec_text(call->spec, name)));
}
