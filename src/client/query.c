/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the servers about a lock, and forces a lock open. A multi-lock or RedLock has one query for
 * each member. A query runs its commands one after the other: who holds it, then the force.
 */
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/of.h"
#include "client/query.h"

static int read_info(struct rlock__call *call, const struct rlock__reply *reply)
{
    struct rlock__query *query = call->command.reader;

    query->spec->ops->read_inspect(reply, &query->info, &query->seen);
    return query->seen.failed ? RLOCK_ENOMEM : 0;
}

static int read_force(struct rlock__call *call, const struct rlock__reply *reply)
{
    struct rlock__query *query = call->command.reader;

    query->opened = query->spec->ops->read_release(reply).outcome == RLOCK__DONE;
    return 0;
}

/* ---- A query's commands ---- */

static void set_command(struct rlock__query *query, bool forces)
{
    query->forces_now = forces;
    query->commands++;
    rlock__texts_clear(&query->texts);
    query->call = (struct rlock__call){.kind = RLOCK__COMMAND,
                                       .spec = query->spec,
                                       .texts = &query->texts,
                                       .command.read = forces ? read_force : read_info,
                                       .command.reader = query,
                                       .command.once = forces};
}

static void ask_who(struct rlock__query *query)
{
    query->opened = false;
    query->info = (struct rlock_info)RLOCK_INFO_INIT;
    rlock__buf_fini(&query->seen);
    set_command(query, false);
    query->spec->ops->inspect(query->spec, &query->call.command.cmd);
}

static void force_it(struct rlock__query *query)
{
    struct rlock__args ask = {.seen = rlock__bytes(query->seen.data, query->seen.len)};

    set_command(query, true);
    query->spec->ops->force(query->spec, &ask, &query->call.command.cmd);
}

/* Somebody else has it by now. That of a lock made of locks may have left it with the one before:
 * it is asked once more. Returns whether there is a command to run. */
static bool on_changed(struct rlock__query *query)
{
    if (query->inquiry->lock->group != NULL && query->changes++ == 0) {
        ask_who(query);
        return true;
    }
    query->code = RLOCK_EBUSY;
    (void)snprintf(query->texts.detail, sizeof(query->texts.detail),
                   "its holder changed meanwhile");
    return false;
}

/* Goes on after a command, with its code. Returns whether there is another one to run. */
RLOCK__REQUIRES(core) static bool go_on(struct rlock__query *query, int code)
{
    struct rlock__core *core = query->spec->core;
    struct rlock_info *info = &query->info;
    bool has_forced = code == 0 && query->forces_now;

    query->code = code;
    if (has_forced && !query->opened) {
        return on_changed(query);
    }
    if (has_forced && info->locked) {
        rlock__holder_forced(core, rlock__bytes(query->seen.data, query->seen.len));
    }
    if (code != 0 || has_forced) {
        return false;
    }
    info->mine = strncmp(info->holder, core->opts.uuid, RLOCK__UUID_LEN) == 0 &&
                 info->holder[RLOCK__UUID_LEN] == ':';
    if (query->inquiry->forces && (info->locked || info->dead_waiters > 0)) {
        force_it(query);
        return true;
    }
    return false;
}

/* ---- All of them ---- */

static struct rlock__inquiry *inquiry_new(const struct rlock_handle *lock, bool forces)
{
    struct rlock__inquiry *inquiry =
        calloc(1, sizeof(*inquiry) + rlock__lock_n(lock) * sizeof(inquiry->queries[0]));

    if (inquiry == NULL) {
        (void)rlock__fail(RLOCK_ENOMEM, "no memory");
        return NULL;
    }
    *inquiry = (struct rlock__inquiry){.lock = lock, .forces = forces};
    for (size_t i = 0; i < rlock__lock_n(lock); i++) {
        struct rlock_client *client = rlock__client_of(rlock__lock_spec(lock, i)->core);
        struct rlock__query *query = &inquiry->queries[i];

        *query = (struct rlock__query){.inquiry = inquiry, .spec = rlock__lock_spec(lock, i)};
        rlock__core_mutex_lock(&client->mutex);
        ask_who(query);
        rlock__core_mutex_unlock(&client->mutex);
    }
    return inquiry;
}

struct rlock__inquiry *rlock__inquiry_free(struct rlock__inquiry *inquiry)
{
    if (inquiry != NULL) {
        for (size_t i = 0; i < rlock__lock_n(inquiry->lock); i++) {
            rlock__cmd_fini(&inquiry->queries[i].call.command.cmd);
            rlock__buf_fini(&inquiry->queries[i].seen);
        }
        free(inquiry);
    }
    return NULL;
}

/* ---- For a thread that waits ---- */

/* Asks one member after the other. NULL: no memory. */
static struct rlock__inquiry *run(const struct rlock_handle *lock, bool forces)
{
    struct rlock__inquiry *inquiry = inquiry_new(lock, forces);

    for (size_t i = 0; inquiry != NULL && i < rlock__lock_n(lock); i++) {
        struct rlock__query *query = &inquiry->queries[i];
        struct rlock_client *client = rlock__client_of(query->spec->core);
        bool more = true;

        while (more) {
            int code = rlock__run(client, &query->call);

            rlock__enter(client);
            more = go_on(query, code);
            rlock__leave_and_drive(client);
        }
    }
    return inquiry;
}

int rlock__inspect(const struct rlock_handle *lock, struct rlock_info *ret_info,
                   struct rlock__tracing *tracing)
{
    int64_t deadline = rlock__now_us() + lock->client->core.opts.op_timeout_us;
    struct rlock__inquiry *inquiry = run(lock, false);
    const struct rlock__query *first;
    int code;

    if (inquiry == NULL) {
        return RLOCK_ENOMEM;
    }
    code = rlock__query_sum_inspected(inquiry, ret_info, &first);
    if (code == 0 && first != NULL) {
        rlock__holder_find(first->spec, ret_info, deadline);
    }
    rlock__query_trace(inquiry, tracing);
    (void)rlock__inquiry_free(inquiry);
    return code;
}

int rlock__force(const struct rlock_handle *lock, bool *ret_was_locked,
                 struct rlock__tracing *tracing)
{
    struct rlock__inquiry *inquiry = run(lock, true);
    int code = inquiry != NULL ? rlock__query_sum_forced(inquiry, ret_was_locked) : RLOCK_ENOMEM;

    if (inquiry != NULL) {
        rlock__query_trace(inquiry, tracing);
    }
    (void)rlock__inquiry_free(inquiry);
    return code;
}

/* ---- For nobody who waits ---- */

/* All are complete: the operation is. */
RLOCK__REQUIRES(core) static void end(struct rlock__inquiry *inquiry)
{
    const struct rlock_handle *lock = inquiry->lock;

    if (lock->group == NULL) {
        DL_APPEND(lock->client->finished, inquiry->op);
        return;
    }
    rlock__groups_lock(lock->group);
    rlock__background_due(&inquiry->background, 0);
    rlock__groups_unlock(lock->group);
}

static bool is_last(struct rlock__inquiry *inquiry)
{
    return atomic_fetch_sub(&inquiry->running, 1) == 1;
}

RLOCK__REQUIRES(core) static void on_complete(struct rlock__call *call)
{
    struct rlock__query *query = call->payload;

    if (go_on(query, call->code)) {
        query->call.finish = on_complete;
        query->call.payload = query;
        rlock__core_begin(query->spec->core, &query->call, rlock__now_us());
    } else if (is_last(query->inquiry)) {
        end(query->inquiry);
    }
}

/* Nobody waits for the other members' servers, whose clients' loops may be this thread's. */
static void give_up(struct rlock__inquiry *inquiry)
{
    for (size_t i = 0; i < rlock__lock_n(inquiry->lock); i++) {
        struct rlock__query *query = &inquiry->queries[i];
        struct rlock_client *client = rlock__client_of(query->spec->core);

        rlock__enter(client);
        if (query->call.core != NULL) { /* else it has not begun */
            rlock__core_give_up(query->spec->core, &query->call, RLOCK_ECLOSED, rlock__now_us());
        }
        rlock__leave_and_drive(client);
    }
}

static int64_t step(struct rlock__background *background)
{
    struct rlock__inquiry *inquiry = RLOCK__OF(struct rlock__inquiry, background, background);
    bool closed;

    rlock__groups_lock(inquiry->lock->group);
    closed = background->home->background_closed;
    rlock__groups_unlock(inquiry->lock->group);
    if (closed) {
        give_up(inquiry);
    }
    return atomic_load(&inquiry->running) == 0 ? RLOCK__OVER : RLOCK__NEVER;
}

/* At its home, which waits for it when it is closed. */
static bool move_in(struct rlock__inquiry *inquiry)
{
    const struct rlock_handle *lock = inquiry->lock;
    bool open = true;

    inquiry->background = (struct rlock__background){.step = step, .op = inquiry->op};
    if (lock->group != NULL) {
        rlock__groups_lock(lock->group);
        open = rlock__background_add(rlock__home_of(lock->group), &inquiry->background);
        rlock__groups_unlock(lock->group);
    }
    return open;
}

/* Returns whether it is the lock's only member, and its client is closed: it is not completed. */
static bool begin(struct rlock__query *query)
{
    int code;

    query->call.finish = on_complete;
    query->call.payload = query;
    code = rlock__begin(rlock__client_of(query->spec->core), &query->call, NULL, NULL);
    if (code == 0) { /* it may be complete by now: its results are no more ours to write */
        return false;
    }
    query->code = code;
    (void)snprintf(query->texts.detail, sizeof(query->texts.detail), "the client is closed");
    (void)is_last(query->inquiry); /* not the last: that is who begins them */
    return query->inquiry->lock->group == NULL;
}

int rlock__inquiry_begin(const struct rlock_handle *lock, bool forces, struct rlock__op *op,
                         struct rlock__inquiry **ret_inquiry)
{
    struct rlock__inquiry *inquiry = inquiry_new(lock, forces);
    bool closed;

    if (inquiry == NULL) {
        return RLOCK_ENOMEM;
    }
    *ret_inquiry = inquiry;
    inquiry->op = op;
    atomic_init(&inquiry->running, rlock__lock_n(lock) + 1);
    closed = !move_in(inquiry);
    for (size_t i = 0; !closed && i < rlock__lock_n(lock); i++) {
        closed = begin(&inquiry->queries[i]);
    }
    if (closed) {
        *ret_inquiry = rlock__inquiry_free(inquiry);
        return rlock__fail(RLOCK_ECLOSED, "the client is closed");
    }
    rlock__enter(lock->client);
    if (is_last(inquiry)) {
        end(inquiry);
    }
    rlock__leave(lock->client);
    return 0;
}

int rlock__inquiry_end(struct rlock__inquiry *inquiry, const struct rlock_info **ret_info,
                       bool *ret_was_locked, struct rlock__tracing *tracing)
{
    const struct rlock__query *first;

    *ret_info = &inquiry->info;
    rlock__query_trace(inquiry, tracing);
    return inquiry->forces ? rlock__query_sum_forced(inquiry, ret_was_locked)
                           : rlock__query_sum_inspected(inquiry, &inquiry->info, &first);
}
