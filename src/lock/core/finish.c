/* SPDX-License-Identifier: Apache-2.0 */
/* How an event ends: ready calls go on, and the core sends the commands that have become due. */
#include <utlist.h>

#include "lock/call/calls.h"
#include "lock/call/pass.h"
#include "lock/common.h"
#include "lock/core/check.h"
#include "lock/core/finish.h"
#include "lock/hold/hold.h"
#include "lock/hold/queue.h"
#include "lock/hold/recovery.h"
#include "lock/hold/renew.h"
#include "lock/server/channel.h"

void rlock__work(struct rlock__core *core, int64_t now)
{
    size_t left = core->opts.slice;

    if (now < core->resume_at) {
        return;
    }
    left -= rlock__holds_sweep(core, left, now);
    left -= rlock__timers_fire(&core->bulk, now, left);
    left -= rlock__renewals_expire(core, left, now);
    core->resume_at = left > 0 ? 0 : core->closed ? now : now + RLOCK__REST_US;
}

/* The call goes on, for one of the reasons why it is ready. */
static void go_on(struct rlock__call *call, unsigned why, int64_t now)
{
    if (call->kind == RLOCK__AWAIT) {
        if (why != RLOCK__HEARD) { /* RLOCK__WOKEN comes with it */
            rlock__await_wake(call, now);
        }
    } else if ((why & RLOCK__HEARD) != 0) {
        if (rlock__queue_on_message(call, now)) {
            rlock__pass_doubt(call->core, call->spec, now);
        }
    } else if ((why & RLOCK__SETTLED) != 0) {
        rlock__acquire_settled(call, now);
    } else if ((why & RLOCK__TURN) != 0) {
        rlock__hold_turn(call);
        if (call->kind == RLOCK__ACQUIRE) {
            rlock__acquire_turn(call, now);
        } else {
            rlock__release_turn(call, now);
        }
    } else if ((why & RLOCK__HEAD) != 0) {
        rlock__acquire_head(call, now);
    } else if ((why & RLOCK__DEAF) != 0) {
        rlock__acquire_deaf(call, now);
    } else if ((why & RLOCK__WOKEN) != 0) {
        rlock__acquire_wake(call, now);
    } else if ((why & RLOCK__EXTENDED) != 0) {
        rlock__extend_settled(call);
    } else if ((why & RLOCK__TOLD) != 0) {
        rlock__entry_told(call, now);
    } else if ((why & RLOCK__LOOKED) != 0) {
        rlock__acquire_looked(call);
    } else {
        rlock__acquire_again(call, now);
    }
}

/* Lets the ready calls go on, and the calls that they make ready. Returns a server that was
 * touched; NULL: there is none. */
static struct rlock__server *drain(struct rlock__core *core, int64_t now)
{
    while (core->ready != NULL) {
        struct rlock__call *call = core->ready;
        unsigned first = call->why & -call->why;

        rlock__unready(call, first);
        go_on(call, first, now);
    }
    return core->touched;
}

/* Sends the commands that have become due on the server's links. If a command cannot be sent, its
 * call may end and leave its channel. So the channels come last. */
static void flush_server(struct rlock__server *server, int64_t now)
{
    if (server->sub.told != NULL) {
        rlock__told_of_numbers(server, now);
    }
    for (unsigned i = 0; i < server->n_routed; i++) {
        rlock__recovery_flush(&server->links[i], now);
        rlock__renew_flush(&server->links[i], now);
    }
    for (unsigned i = server->n_routed; i < server->n_links; i++) {
        if (server->gathered != NULL || server->links[i].acks != NULL) {
            rlock__acks_flush(&server->links[i], now);
        }
    }
    if (server->sub.unsettled != NULL) {
        rlock__channels_settle(server, now);
    }
}

/* Notes the server for the driver, in core.changed. */
static void note_changed(struct rlock__server *server)
{
    if (!server->is_changed) {
        server->is_changed = true;
        LL_PREPEND2(server->core->changed, server, changed_next);
    }
}

void rlock__finish_event(struct rlock__core *core, int64_t now)
{
    struct rlock__server *server;

    while ((server = drain(core, now)) != NULL) {
        flush_server(server, now);
        LL_DELETE2(core->touched, server, touched_next);
        server->is_touched = false;
        for (unsigned i = 0; i < server->n_links; i++) {
            rlock__link_settle(&server->links[i], now);
            rlock__renew_plan(&server->links[i]);
        }
        note_changed(server);
    }
    rlock__core_check(core);
}
