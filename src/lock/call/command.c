/* SPDX-License-Identifier: Apache-2.0 */
/* A call that runs one command, until its deadline. After an error that may pass, the call sends
 * the command again. */
#include <assert.h>
#include <stdio.h>

#include "lock/call/calls.h"
#include "lock/call/pass.h"
#include "lock/common.h"
#include "lock/server/classify.h"
#include "lock/server/hop.h"
#include "lock/server/route.h"
#include "lock/server/send.h"

/* There will be no answer. */
static void on_none(struct rlock__call *call, bool garbled)
{
    const char *why =
        garbled ? "its answer makes no sense" : "the connection broke before its answer";

    assert(call->request == NULL);
    call->code = call->command.once ? RLOCK_EINDOUBT : RLOCK_ECONN;
    rlock__say(call, "server %s: %s", call->link->server->address, why);
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__call *call = request->subject;
    struct rlock__class class;
    char why[RLOCK__REFUSAL_SIZE];

    assert(call == NULL || call->request == request); /* ask() sent it */
    assert(call == NULL || call->step == RLOCK__ASKING);
    if (rlock__hop(request, reply, now)) {
        call->link = request->link;
        return;
    }
    if (call == NULL || reply == NULL || !rlock__reply_is_error(reply)) {
        bool garbled = request->garbled;

        (void)rlock__request_free(request);
        if (call == NULL) {
            return;
        }
        call->request = NULL;
        if (reply != NULL) {
            call->code = call->command.read(call, reply);
        } else {
            on_none(call, garbled);
        }
        rlock__call_complete(call, call->code, NULL);
        return;
    }
    class = rlock__core_classify(call->core, reply);
    rlock__say(call, "%s", rlock__refusal(call->spec, call->link->server, reply, NULL, why));
    if (class.way == RLOCK__RETRY) {
        call->error = class.code;
        rlock__call_step(call, RLOCK__SLEEPING);
        rlock__timer_set(
            &call->core->timers, &call->timer,
            rlock__min(call->deadline, now + rlock__backoff(call->core, call->failures++)));
        assert(call->request == request && !request->sent); /* the request is sent again */
        assert(call->timer.set);
        return;
    }
    assert(class.code != 0);
    call->request = NULL;
    (void)rlock__request_free(request);
    rlock__call_complete(call, class.code, NULL);
}

static void ask(struct rlock__call *call, int64_t now)
{
    assert(now < call->deadline);
    assert(call->request->subject == call);
    assert(!call->request->sent);
    assert(call->request->resend == (call->command.once ? RLOCK__ONCE : RLOCK__RESEND));
    call->link = rlock__route(call->spec);
    if (!rlock__submit(call->request, call->spec, call->link, now)) {
        call->request = rlock__request_free(call->request);
        rlock__call_complete(call, RLOCK_ENOMEM, "no memory");
        return;
    }
    rlock__call_step(call, RLOCK__ASKING);
    rlock__timer_set(&call->core->timers, &call->timer, call->deadline);
}

void rlock__command_begin(struct rlock__call *call, int64_t now)
{
    struct rlock__request *request = rlock__request_new(&call->core->requests, on_answer, call);

    assert(call->step == RLOCK__NEW);
    assert(call->request == NULL);
    call->deadline = now + call->core->opts.op_timeout_us;
    rlock__pass_forbid(call->core, call->spec, now);
    if (request == NULL) {
        rlock__cmd_fini(&call->command.cmd);
        rlock__call_complete(call, RLOCK_ENOMEM, "no memory");
        return;
    }
    rlock__cmd_fini(&request->cmd);
    request->cmd = call->command.cmd;
    call->command.cmd = (struct rlock__cmd){0};
    request->resend = call->command.once ? RLOCK__ONCE : RLOCK__RESEND;
    call->request = request;
    ask(call, now);
}

void rlock__command_give_up(struct rlock__call *call, int code, int64_t now)
{
    struct rlock__request *request = call->request;
    bool ran = request->copies > 0 && call->step == RLOCK__ASKING;

    assert(code != 0);
    assert(call->step == RLOCK__ASKING || (call->step == RLOCK__SLEEPING && !request->sent));
    (void)now;
    rlock__call_withdraw(call);
    if (code == RLOCK_ETIMEDOUT) {
        code = call->error != 0            ? call->error
               : ran && call->command.once ? RLOCK_EINDOUBT
                                           : RLOCK_ECONN;
    }
    if (call->error == 0) {
        rlock__say(call, "server %s: %s", call->link->server->address,
                   call->link->code != 0 ? call->link->error : "no answer");
    }
    rlock__call_complete(call, code, NULL);
}

void rlock__command_timer(struct rlock__call *call, int64_t now)
{
    if (now >= call->deadline) {
        rlock__command_give_up(call, RLOCK_ETIMEDOUT, now);
        return;
    }
    assert(call->step == RLOCK__SLEEPING); /* a command in flight has time until the deadline */
    call->error = 0;
    ask(call, now);
}
