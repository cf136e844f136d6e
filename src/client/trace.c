/* SPDX-License-Identifier: Apache-2.0 */
/* Hands traces of calls to the program. */
#include "base/clock.h"
#include "client/lock.h"

struct rlock__tracing *rlock__trace_new(void *context, struct rlock__tracing *ret_tracing)
{
    *ret_tracing = (struct rlock__tracing){.begun_at = rlock__now_us(), .context = context};
    return ret_tracing;
}

/* What a single lock's call knows. The call is complete. */
static void read_call(const struct rlock__call *call, struct rlock__tracing *tracing)
{
    const bool is_acquire = call->kind == RLOCK__ACQUIRE, is_release = call->kind == RLOCK__RELEASE;

    if (call->link == NULL) { /* it has not begun */
        return;
    }
    tracing->ended_at = tracing->ended_at != 0 ? tracing->ended_at : rlock__now_us();
    tracing->server = call->link->server->address;
    tracing->server_us = rlock__call_server_us(call, tracing->ended_at);
    tracing->requests =
        call->kind == RLOCK__EXTEND ? call->extend.requests : call->acquire.attempts;
    tracing->levels = call->count;
    if (is_release || (is_acquire && call->code == 0)) {
        tracing->token = call->acquire.token;
    }
    if (is_release && call->acquire.begun_at != 0) {
        tracing->held_us = tracing->ended_at - call->acquire.begun_at;
    }
}

void rlock__trace_op(const struct rlock_handle *lock, const struct rlock__op *op, int call,
                     int code, uint64_t owner)
{
    if (lock->spec != NULL) {
        read_call(&op->call, op->tracing);
    }
    rlock__trace_tell(lock, op->tracing, call, code, owner);
}

void rlock__trace_tell(const struct rlock_handle *lock, const struct rlock__tracing *tracing,
                       int call, int code, uint64_t owner)
{
    const struct rlock_client_opts *opts = &lock->client->opts;
    const int64_t total_us = rlock__max(tracing->ended_at - tracing->begun_at, 0);
    const int64_t server_us = rlock__min(tracing->server_us, total_us);
    struct rlock_trace trace = {.size = sizeof(trace),
                                .kind = rlock_kind(lock),
                                .server = tracing->server,
                                .context = tracing->context,
                                .owner = owner,
                                .token = tracing->token,
                                .total_us = total_us,
                                .waited_us = total_us - server_us,
                                .server_us = server_us,
                                .held_us = tracing->held_us,
                                .call = call,
                                .code = code,
                                .requests = tracing->requests,
                                .levels = tracing->levels};

    if (tracing->requests != 0) {
        trace.name = rlock_name(lock, &trace.name_len);
        opts->on_trace(&trace, opts->payload);
    }
}
