/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call that waits until a latch is open. It takes nothing, so it may end at any time: a copy of
 * its request that runs late changes nothing. While the latch is closed, the call asks again after
 * each message on the channel, and at least every RLOCK__RECHECK_US.
 */
#include <assert.h>

#include "lock/call/calls.h"
#include "lock/common.h"
#include "lock/server/channel.h"
#include "lock/server/classify.h"
#include "lock/server/hop.h"
#include "lock/server/route.h"
#include "lock/server/send.h"

static void end(struct rlock__call *call, int code)
{
    assert(call->request == NULL);
    if (call->channel != NULL) {
        rlock__channel_leave(call);
    }
    rlock__call_complete(call, code, NULL);
}

static void say(struct rlock__call *call, const char *why)
{
    char name[96];

    rlock__say(call, "latch %s: %s", rlock__spec_text(call->spec, name), why);
}

static void fail(struct rlock__call *call, int code, const char *why)
{
    say(call, why);
    end(call, code);
}

/* The end of the wait. As long as the server has not answered, the call waits for the server too. A
 * request that is under way at the end has the usual time for its answer. */
static int64_t until(const struct rlock__call *call)
{
    const int64_t timeout = call->core->opts.op_timeout_us;
    const int64_t grace = call->step == RLOCK__ASKING && call->acquire.wait_us > 0
                              ? rlock__patience_us(&call->link->pipeline.patience, timeout)
                              : 0;

    return call->acquire.contended
               ? rlock__later(call->deadline, grace)
               : rlock__max(call->deadline, rlock__later(call->acquire.begun_at, timeout));
}

static void sleep_until(struct rlock__call *call, int64_t at)
{
    rlock__call_step(call, RLOCK__SLEEPING);
    rlock__timer_set(&call->core->timers, &call->timer, rlock__min(at, until(call)));
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply,
                      int64_t now);

static void ask(struct rlock__call *call, int64_t now)
{
    struct rlock__request *request = rlock__request_new(&call->core->requests, on_answer, call);
    const struct rlock__args none = {.count = 0};

    assert(call->request == NULL);
    call->link = rlock__route(call->spec);
    if (request != NULL) {
        call->spec->ops->acquire(call->spec, &none, &request->cmd);
    }
    if (request == NULL || !rlock__submit(request, call->spec, call->link, now)) {
        (void)rlock__request_free(request);
        fail(call, RLOCK_ENOMEM, "no memory");
        return;
    }
    call->request = request;
    call->acquire.stale = false;
    call->error = 0;
    rlock__call_step(call, RLOCK__ASKING);
    rlock__timer_set(&call->core->timers, &call->timer, until(call));
}

static void on_closed(struct rlock__call *call, int64_t missing, int64_t now)
{
    bool joined = call->channel != NULL;
    char name[96];

    call->acquire.contended = true;
    rlock__say(call, "latch %s: closed, %lld parties are missing (server %s)",
               rlock__spec_text(call->spec, name), (long long)missing, call->link->server->address);
    if (call->acquire.wait_us == 0 || now >= call->deadline) {
        end(call, call->acquire.wait_us == 0 ? RLOCK_EBUSY : RLOCK_ETIMEDOUT);
        return;
    }
    if (joined && rlock__channel_is_outdated(call->channel, call->spec)) {
        rlock__channel_leave(call);
        joined = false;
    }
    if (!joined && !rlock__channel_join(call)) {
        fail(call, RLOCK_ENOMEM, "no memory");
    } else if (call->acquire.stale || (!joined && rlock__channel_is_live(call))) {
        ask(call, now); /* a message may have come before the call heard the channel */
    } else {
        sleep_until(call,
                    now + (rlock__channel_is_live(call) ? RLOCK__RECHECK_US : RLOCK__POLL_US));
    }
}

static void on_error(struct rlock__call *call, const struct rlock__reply *reply, int64_t now)
{
    const struct rlock__class class = rlock__core_classify(call->core, reply);
    char why[RLOCK__REFUSAL_SIZE];

    say(call, rlock__refusal(call->spec, call->link->server, reply, NULL, why));
    if (class.way == RLOCK__RETRY || (class.way == RLOCK__WAIT && call->acquire.wait_us != 0)) {
        call->error = class.code;
        sleep_until(call, now + rlock__backoff(call->core, call->failures++));
    } else {
        end(call, class.code);
    }
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__call *call = request->subject;

    if (call == NULL) {
        (void)rlock__request_free(request);
        return;
    }
    assert(call->request == request && call->step == RLOCK__ASKING);
    if (rlock__hop(request, reply, now)) {
        call->link = request->link;
        return;
    }
    call->request = rlock__request_free(request);
    if (reply == NULL) {
        fail(call, RLOCK_ECONN, "the server's answer makes no sense, or its connection broke");
    } else if (rlock__reply_is_error(reply)) {
        on_error(call, reply, now);
    } else if (call->spec->ops->read_acquire(call->spec, reply).outcome == RLOCK__DONE) {
        end(call, 0);
    } else {
        call->failures = 0;
        on_closed(call, rlock__reply_int(reply, 1, 0), now);
    }
}

void rlock__await_begin(struct rlock__call *call, int64_t now)
{
    assert(call->step == RLOCK__NEW);
    call->acquire.begun_at = now;
    call->deadline = call->acquire.wait_us < 0    ? RLOCK__NEVER
                     : call->acquire.wait_us == 0 ? now + call->core->opts.op_timeout_us
                                                  : rlock__later(now, call->acquire.wait_us);
    if (call->cancelled) {
        rlock__await_give_up(call, RLOCK_ECANCELED, now);
    } else {
        ask(call, now);
    }
}

void rlock__await_wake(struct rlock__call *call, int64_t now)
{
    if (call->step == RLOCK__ASKING) {
        call->acquire.stale = true;
    } else if (call->error == 0) { /* a pause after an error stays as long */
        ask(call, now);
    }
}

/* The call ends without an answer: at its deadline, or because somebody ends it. */
static void describe(struct rlock__call *call, int code)
{
    const struct rlock__link *link = call->link;
    char name[96];

    if (code == RLOCK_ECANCELED || code == RLOCK_ECLOSED) {
        say(call, rlock_strerror(code));
    } else if (code == RLOCK_ECONN) {
        rlock__say(call, "latch %s: server %s: %s", rlock__spec_text(call->spec, name),
                   link->server->address, link->code != 0 ? link->error : "no answer");
    }
}

void rlock__await_give_up(struct rlock__call *call, int code, int64_t now)
{
    (void)now;
    if (call->request != NULL) {
        rlock__call_withdraw(call);
    }
    if (code == RLOCK_ETIMEDOUT && call->error != 0) { /* the latest answer was a refusal */
        code = call->error;
    } else {
        code = code == RLOCK_ETIMEDOUT && !call->acquire.contended ? RLOCK_ECONN : code;
        describe(call, code);
    }
    end(call, code);
}

void rlock__await_timer(struct rlock__call *call, int64_t now)
{
    if (now >= until(call)) {
        rlock__await_give_up(call, RLOCK_ETIMEDOUT, now);
        return;
    }
    if (call->step == RLOCK__ASKING) { /* the answers have become slower, so the end is later */
        rlock__timer_set(&call->core->timers, &call->timer, until(call));
        return;
    }
    ask(call, now);
}
