/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of one key: how they are taken and left, and one constructor for each kind. */
#include "client/lock.h"

#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "rw/rw.h"

#define NAME_MAX_LEN 65536

/* ---- Taking and leaving ---- */

/* The thread reads the view of its hold without a mutex. */
static void keep_claim(const struct rlock__call *call)
{
    if (call->owner.given) {
        (void)rlock__view_unref(call->view);
    } else {
        rlock__thread_add(call->view);
    }
}

/* What came of it. */
static void conclude(struct rlock__op *op)
{
    const struct rlock__call *call = &op->call;

    op->code = call->code;
    op->texts = call->texts;
    if (call->code == 0 && call->kind == RLOCK__ACQUIRE) {
        keep_claim(call);
    }
}

/* What the call was granted, with what the hold has besides. */
RLOCK__REQUIRES(core) static void note_standing(struct rlock__op *op)
{
    const struct rlock__call *call = &op->call;

    if (call->code != 0 || (call->kind != RLOCK__ACQUIRE && call->kind != RLOCK__EXTEND)) {
        return;
    }
    (void)rlock__core_standing(call->spec->core, call->spec, call->owner, &op->standing);
    if (call->kind == RLOCK__EXTEND) {
        op->standing.lease_us = call->extend.lease_granted_us;
        return;
    }
    op->standing.token = call->acquire.token;
    op->standing.lease_us = call->acquire.lease_granted_us;
}

RLOCK__REQUIRES(core) static void finish(struct rlock__call *call)
{
    struct rlock__op *op = call->payload;

    note_standing(op);
    conclude(op);
    if (op->tracing != NULL) {
        op->tracing->ended_at = rlock__now_us();
    }
    DL_APPEND(rlock__client_of(call->spec->core)->finished, op);
}

static int begin(const struct rlock_handle *lock, struct rlock__op *op,
                 const struct rlock_cancel *cancel)
{
    op->call.spec = lock->spec;
    op->call.texts = op->texts;
    if (op->finish == NULL) {
        return rlock__begin(lock->client, &op->call, &op->waiter, cancel);
    }
    op->call.says = true;
    op->call.finish = finish;
    op->call.payload = op;
    return rlock__begin(lock->client, &op->call, NULL, cancel);
}

/* A lease has to be longer than what the client never relies on. */
static int check_lease(const struct rlock_handle *lock, int64_t lease_us)
{
    if (lease_us != 0 && rlock__valid_until(&lock->client->core, 0, lease_us) <= 0) {
        return rlock__fail(RLOCK_EINVAL, "lease_ms lies within the client's safety margin");
    }
    return 0;
}

static int begin_take(const struct rlock_handle *lock, int64_t wait_ms,
                      const struct rlock_take *take, struct rlock__owner owner,
                      struct rlock__op *op)
{
    int64_t lease_us = take->lease_ms * RLOCK__MS;
    int code = check_lease(lock, lease_us);

    op->call.kind = RLOCK__ACQUIRE;
    op->call.owner = owner;
    op->call.acquire.wait_us = wait_ms * RLOCK__MS;
    op->call.acquire.lease_us = lease_us;
    op->call.acquire.units = (uint16_t)take->units;
    if (code == 0 && take->cancel != NULL) {
        code = rlock__cancel_watch(lock->client, take->cancel);
    }
    return code == 0 ? begin(lock, op, take->cancel) : code;
}

int rlock__single_await(const struct rlock_handle *lock, int64_t wait_ms,
                        const struct rlock_take *take, struct rlock__op *op)
{
    int code = take->cancel != NULL ? rlock__cancel_watch(lock->client, take->cancel) : 0;

    op->call.kind = RLOCK__AWAIT;
    op->call.acquire.wait_us = wait_ms * RLOCK__MS;
    return code == 0 ? begin(lock, op, take->cancel) : code;
}

int rlock__single_command(const struct rlock_handle *lock, struct rlock__op *op)
{
    int code;

    op->call.kind = RLOCK__COMMAND;
    code = begin(lock, op, NULL);
    if (code != 0) { /* the call has not taken it over */
        rlock__cmd_fini(&op->call.command.cmd);
    }
    return code;
}

static int begin_leave(const struct rlock_handle *lock, struct rlock__owner owner,
                       struct rlock__op *op)
{
    int code = rlock__client_check(lock->client);

    op->call.kind = RLOCK__RELEASE;
    op->call.owner = owner;
    return code == 0 ? begin(lock, op, NULL) : code;
}

int rlock__single_detach(const struct rlock_handle *lock, int64_t lease_us,
                         struct rlock__owner owner, struct rlock__op *op)
{
    op->call.acquire.lease_us = lease_us;
    return begin_leave(lock, owner, op);
}

int rlock__single_adopt(const struct rlock_handle *lock, const char *from,
                        const struct rlock_take *take, struct rlock__owner owner,
                        struct rlock__op *op)
{
    op->call.acquire.adopts = from;
    return begin_take(lock, 0, take, owner, op);
}

static int begin_extend(const struct rlock_handle *lock, int64_t lease_us,
                        struct rlock__owner owner, struct rlock__op *op)
{
    int code = rlock__lock_is_renewed(lock)
                   ? rlock__fail(RLOCK_ENOTSUP, "the client always renews a %s", rlock_kind(lock))
                   : check_lease(lock, lease_us);

    op->call.kind = RLOCK__EXTEND;
    op->call.owner = owner;
    op->call.extend.lease_us = lease_us;
    return code == 0 ? begin(lock, op, NULL) : code;
}

static void await(const struct rlock_handle *lock, struct rlock__op *op)
{
    rlock__wait(lock->client, &op->waiter);
    if (op->wants_standing) {
        rlock__enter(lock->client);
        note_standing(op);
        rlock__core_mutex_unlock(&lock->client->mutex);
    }
    conclude(op);
    if (op->call.kind == RLOCK__RELEASE) {
        rlock__thread_forget(op->call.spec);
    }
}

/* ---- What is known without asking ---- */

static int64_t known(const struct rlock_handle *lock, uint64_t owner, uint32_t *ret_count)
{
    struct rlock_client *client = lock->client;
    int64_t until;

    if (owner == 0) { /* reads what its thread has, without a mutex */
        const struct rlock__view *view = rlock__thread_find(lock->spec, lock->hash);

        *ret_count = view != NULL ? atomic_load(&view->count) : 0;
        return view != NULL ? atomic_load(&view->valid_until) : 0;
    }
    rlock__enter(client);
    until = rlock__core_valid_until(&client->core, lock->spec,
                                    (struct rlock__owner){.id = owner, .given = true}, ret_count);
    rlock__core_mutex_unlock(&client->mutex);
    return until;
}

static bool standing(const struct rlock_handle *lock, struct rlock__owner owner,
                     struct rlock__standing *ret_standing)
{
    bool has;

    rlock__enter(lock->client);
    has = rlock__core_standing(&lock->client->core, lock->spec, owner, ret_standing);
    rlock__core_mutex_unlock(&lock->client->mutex);
    return has;
}

/* ---- The handle ---- */

static void cancel(const struct rlock_handle *lock, struct rlock__op *op)
{
    struct rlock_client *client = lock->client;

    rlock__enter(client);
    rlock__core_cancel_call(&client->core, &op->call, rlock__now_us());
    rlock__leave_and_drive(client);
}

static const struct rlock__vtable vtable = {
    .begin_take = begin_take,
    .begin_leave = begin_leave,
    .begin_extend = begin_extend,
    .wait = await,
    .known = known,
    .standing = standing,
    .cancel = cancel,
};

static int64_t time_us(int64_t ms)
{
    return rlock__min(ms, RLOCK_TIME_MAX_MS) * RLOCK__MS;
}

static struct rlock__tuning tuning_of(const struct rlock_opts *opts)
{
    return (struct rlock__tuning){
        .max_hold_us = time_us(opts->max_hold_ms),
        .linger_us = time_us(opts->linger_ms),
        .spin_initial_us = time_us(opts->pause_first_ms),
        .spin_max_us = time_us(opts->pause_max_ms),
        .spin_multiplier = opts->pause_growth,
        .units = opts->units,
        .fair_slot_ms = rlock__min(opts->fair_slot_ms, RLOCK_TIME_MAX_MS),
        .no_reentry = (opts->flags & RLOCK_LOCK_NO_REENTRY) != 0,
        .prefer_writers = (opts->flags & RLOCK_LOCK_PREFER_WRITERS) != 0,
    };
}

/* Whether one server of the cluster has all that belongs to the lock. A tracked key is alone. */
static bool is_in_one_slot(const struct rlock__spec *spec)
{
    const struct rlock__core *core = spec->core;

    return core->driver.slot == NULL || (spec->ops->caps & RLOCK__CAP_TRACKS) != 0 ||
           core->driver.slot(spec->channel) == spec->slot;
}

static int make(struct rlock_client *client, const struct rlock_ops *ops, struct rlock__bytes name,
                const struct rlock_opts *opts, struct rlock_handle **ret_lock)
{
    const struct rlock__tuning tuning = tuning_of(opts);
    struct rlock_handle *lock = calloc(1, sizeof(*lock));
    struct rlock__spec *spec =
        lock != NULL ? rlock__spec_new(&client->core, ops, name, &tuning) : NULL;

    if (spec == NULL) {
        free(lock);
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    /* The spec's reference. */
    (void)atomic_fetch_add_explicit(&client->refs, 1, memory_order_relaxed);
    if (!is_in_one_slot(spec)) {
        (void)rlock__spec_unref(spec);
        free(lock);
        return rlock__fail(RLOCK_EINVAL,
                           "the name's keys would lie in different slots of the "
                           "cluster: %s",
                           ops->renew == NULL ? "use a latch name and a key_prefix without braces"
                                              : "a name with { needs a tag, as in {order}7");
    }
    lock->vtable = &vtable;
    lock->client = client;
    lock->spec = spec;
    lock->hash = spec->hash;
    lock->sends_unlocks = (opts->flags & RLOCK_LOCK_SENT_UNLOCK) != 0;
    atomic_init(&lock->refs, 1);
    *ret_lock = lock;
    return 0;
}

int rlock__single_new(struct rlock_client *client, const struct rlock_ops *ops, const char *name,
                      const struct rlock_opts *opts, struct rlock_handle **ret_lock)
{
    struct rlock_opts copy = {.size = sizeof(copy)};
    size_t len;
    int code;

    rlock__detail_clear();
    if (client == NULL || name == NULL || ret_lock == NULL) {
        return rlock__fail(RLOCK_EINVAL, "client, name or ret_lock is NULL");
    }
    code = rlock__client_check(client);
    code = code == 0 ? rlock__opts_read(&copy, opts) : code;
    if (code != 0) {
        return code;
    }
    len = copy.name_len != 0 ? copy.name_len : strlen(name);
    if (len == 0 || len > NAME_MAX_LEN) {
        return rlock__fail(RLOCK_EINVAL, "a name has 1 to %d bytes", NAME_MAX_LEN);
    }
    code = rlock__lock_opts_check(ops->kind, rlock__options_of(ops), &copy);
    if (code != 0) {
        return code;
    }
    if ((ops->caps & RLOCK__CAP_UNITS) != 0 && copy.units == 0) {
        return rlock__fail(RLOCK_EINVAL, "a %s lock requires the option units: how many there are",
                           ops->kind);
    }
    return make(client, ops, rlock__bytes(name, len), &copy, ret_lock);
}

#define CONSTRUCTOR(kind)                                                                          \
    int rlock_##kind##_new(struct rlock_client *client, const char *name,                          \
                           const struct rlock_opts *opts, struct rlock_handle **ret_lock)          \
    {                                                                                              \
        return rlock__single_new(client, &rlock__##kind##_ops, name, opts, ret_lock);              \
    }

CONSTRUCTOR(reentrant)
CONSTRUCTOR(nonreentrant)
CONSTRUCTOR(spin)
CONSTRUCTOR(setnx)
CONSTRUCTOR(permits)
CONSTRUCTOR(semaphore)
CONSTRUCTOR(fenced)
CONSTRUCTOR(fair)
CONSTRUCTOR(read)
CONSTRUCTOR(write)
