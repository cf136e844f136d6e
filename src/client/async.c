/* SPDX-License-Identifier: Apache-2.0 */
/* The async calls: operations that nobody waits for, with references to them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sized.h"
#include "client/op.h"

/* Those of a group and of an inquiry are behind it; a single lock has none until it needs them, for
 * very many may wait for it. Behind an ADOPT is its text, behind the operation of a latch are two
 * numbers, and behind that is what a trace needs. */
static struct rlock__texts *texts_of(struct rlock_op *op)
{
    return (struct rlock__texts *)(op + 1);
}

/* ---- References ---- */

struct rlock_op *rlock_op_ref(struct rlock_op *op)
{
    (void)atomic_fetch_add(&op->refs, 1);
    return op;
}

struct rlock_op *rlock_op_unref(struct rlock_op *op)
{
    if (op != NULL && atomic_fetch_sub(&op->refs, 1) == 1) {
        (void)rlock__inquiry_free(op->inquiry);
        (void)rlock__lock_unref(op->lock);
        if (op->op.texts != texts_of(op)) {
            free(op->op.texts);
        }
        free(op);
    }
    return NULL;
}

/* ---- From begin to completion ---- */

/* On a dispatcher thread. */
static void finish(struct rlock__op *inner)
{
    struct rlock_op *op = inner->payload;
    const int call = (int)op->asked + RLOCK_CALL_LOCK;

    if (op->inquiry != NULL) {
        inner->code = rlock__inquiry_end(op->inquiry, &op->info, &op->was_locked, inner->tracing);
        (void)rlock__count_query(op->lock, op->asked == RLOCK__ASKED_FORCE, inner->code);
        (void)snprintf(inner->texts->detail, sizeof(inner->texts->detail), "%s",
                       inner->code == 0 ? "" : rlock_detail());
        inner->texts->facts = *rlock__last_facts();
    }
    if (inner->tracing != NULL && op->inquiry != NULL) {
        rlock__trace_tell(op->lock, inner->tracing, call, inner->code, op->owner);
    } else {
        rlock__trace_end(op->lock, inner, call, inner->code, op->owner);
    }
    atomic_store(&op->code, inner->code);
    if (op->done != NULL) {
        op->done(op, op->payload);
    }
    (void)rlock_op_unref(op);
}

int rlock__op_new(enum rlock__asked asked, struct rlock_handle *lock, rlock_done_fn *done,
                  void *payload, struct rlock_op **ret_op)
{
    bool needs =
        lock->group != NULL || asked == RLOCK__ASKED_FORCE || asked == RLOCK__ASKED_INSPECT;
    bool is_of_latch = asked >= RLOCK__ASKED_LATCH;
    size_t more = needs                         ? sizeof(struct rlock__texts)
                  : asked == RLOCK__ASKED_ADOPT ? RLOCK_TEXT_SIZE
                  : is_of_latch                 ? 2 * sizeof(int64_t)
                                                : 0;
    size_t size = sizeof(struct rlock_op) + more;
    bool is_traced = lock->client->opts.on_trace != NULL && !is_of_latch;
    char *at = calloc(1, size + (is_traced ? sizeof(struct rlock__tracing) : 0));
    struct rlock_op *op = (struct rlock_op *)(void *)at;

    if (op == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    *op = (struct rlock_op){
        .op = {.finish = finish, .payload = op, .texts = needs ? texts_of(op) : NULL},
        .asked = asked,
        .lock = rlock__lock_ref(lock),
        .done = done,
        .payload = payload,
        .refs = 2,
        .code = RLOCK_UNDER_WAY};
    if (is_traced) {
        rlock__trace_begin(lock, NULL, (struct rlock__tracing *)(void *)(at + size),
                           &op->op.tracing);
    }
    *ret_op = op;
    return 0;
}

int rlock__op_started(struct rlock_op *op, int code, struct rlock_op **ret_op)
{
    if (code != 0) { /* it is not completed */
        (void)rlock_op_unref(op);
    }
    if (code == 0 && ret_op != NULL) {
        *ret_op = op;
    } else {
        (void)rlock_op_unref(op);
    }
    return code;
}

static int check_owner(uint64_t owner)
{
    return owner != 0 ? 0
                      : rlock__fail(RLOCK_EINVAL,
                                    "an async call wants an owner: an id from rlock_owner_new()");
}

/* ---- The calls ---- */

static void set_context(struct rlock_op *op, const struct rlock_take *take)
{
    if (op->op.tracing != NULL) {
        op->op.tracing->context = take->context;
    }
}

int rlock_lock_async(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take,
                     rlock_done_fn *done, void *payload, struct rlock_op **ret_op)
{
    RLOCK__WHOLE;
    struct rlock_take checked;
    struct rlock_op *op;
    int code = rlock__lock_check_open(lock);

    code = code == 0 ? rlock__take_read(lock, &wait_ms, take, &checked) : code;
    code = code == 0 ? check_owner(checked.owner) : code;
    code = code == 0 ? rlock__op_new(RLOCK__ASKED_TAKE, lock, done, payload, &op) : code;
    if (code == 0) {
        struct rlock__owner owner = {.id = checked.owner, .given = true};

        op->owner = checked.owner;
        set_context(op, &checked);
        code = rlock__op_started(
            op, lock->vtable->begin_take(lock, wait_ms, &checked, owner, &op->op), ret_op);
    }
    return code;
}

int rlock_unlock_async(struct rlock_handle *lock, uint64_t owner, rlock_done_fn *done,
                       void *payload, struct rlock_op **ret_op)
{
    RLOCK__WHOLE;
    struct rlock_op *op;
    int code = rlock__lock_check(lock);

    code = code == 0 ? check_owner(owner) : code;
    code = code == 0 ? rlock__op_new(RLOCK__ASKED_LEAVE, lock, done, payload, &op) : code;
    if (code == 0) {
        struct rlock__owner given = {.id = owner, .given = true};

        op->owner = owner;
        code = rlock__op_started(op, lock->vtable->begin_leave(lock, given, &op->op), ret_op);
    }
    return code;
}

int rlock_extend_async(struct rlock_handle *lock, uint64_t owner, int64_t lease_ms,
                       rlock_done_fn *done, void *payload, struct rlock_op **ret_op)
{
    RLOCK__WHOLE;
    struct rlock_op *op;
    int code = rlock__lock_check_open(lock);

    code = code == 0 ? rlock__lease_read(&lease_ms) : code;
    code = code == 0 ? check_owner(owner) : code;
    code = code == 0 ? rlock__op_new(RLOCK__ASKED_EXTEND, lock, done, payload, &op) : code;
    if (code == 0) {
        struct rlock__owner given = {.id = owner, .given = true};

        op->owner = owner;
        code = lock->vtable->begin_extend(lock, lease_ms * RLOCK__MS, given, &op->op);
        code = rlock__op_started(op, code, ret_op);
    }
    return code;
}

int rlock_detach_async(struct rlock_handle *lock, uint64_t owner, int64_t lease_ms,
                       rlock_done_fn *done, void *payload, struct rlock_op **ret_op)
{
    RLOCK__WHOLE;
    struct rlock_op *op;
    int code = rlock__detach_read(lock, &lease_ms);

    code = code == 0 ? check_owner(owner) : code;
    code = code == 0 ? rlock__op_new(RLOCK__ASKED_DETACH, lock, done, payload, &op) : code;
    if (code == 0) {
        struct rlock__owner given = {.id = owner, .given = true};

        op->owner = owner;
        code = rlock__single_detach(lock, lease_ms * RLOCK__MS, given, &op->op);
        code = rlock__op_started(op, code, ret_op);
    }
    return code;
}

int rlock_adopt_async(struct rlock_handle *lock, const char *text, const struct rlock_take *take,
                      rlock_done_fn *done, void *payload, struct rlock_op **ret_op)
{
    RLOCK__WHOLE;
    struct rlock_take checked;
    const char *from;
    struct rlock_op *op;
    int code = rlock__text_check(lock);

    code = code == 0 ? rlock__take_read(lock, NULL, take, &checked) : code;
    code = code == 0 ? rlock__text_read(lock, text, &checked, &from) : code;
    code = code == 0 ? check_owner(checked.owner) : code;
    code = code == 0 ? rlock__op_new(RLOCK__ASKED_ADOPT, lock, done, payload, &op) : code;
    if (code == 0) {
        struct rlock__owner owner = {.id = checked.owner, .given = true};

        op->owner = checked.owner;
        set_context(op, &checked);
        from = memcpy(op + 1, from, strlen(from) + 1);
        code = rlock__single_adopt(lock, from, &checked, owner, &op->op);
        code = rlock__op_started(op, code, ret_op);
    }
    return code;
}

static int inquire(enum rlock__asked asked, struct rlock_handle *lock, rlock_done_fn *done,
                   void *payload, struct rlock_op **ret_op)
{
    struct rlock_op *op;
    int code = rlock__lock_check_open(lock);

    code = code == 0 ? rlock__op_new(asked, lock, done, payload, &op) : code;
    if (code == 0) {
        code = rlock__inquiry_begin(lock, asked == RLOCK__ASKED_FORCE, &op->op, &op->inquiry);
        code = rlock__op_started(op, code, ret_op);
    }
    return code;
}

int rlock_force_unlock_async(struct rlock_handle *lock, rlock_done_fn *done, void *payload,
                             struct rlock_op **ret_op)
{
    RLOCK__WHOLE;
    return inquire(RLOCK__ASKED_FORCE, lock, done, payload, ret_op);
}

int rlock_inspect_async(struct rlock_handle *lock, rlock_done_fn *done, void *payload,
                        struct rlock_op **ret_op)
{
    RLOCK__WHOLE;
    return inquire(RLOCK__ASKED_INSPECT, lock, done, payload, ret_op);
}

/* ---- What came of it ---- */

int rlock_op_code(const struct rlock_op *op)
{
    return atomic_load(&op->code);
}

const char *rlock_op_detail(const struct rlock_op *op)
{
    int code = rlock_op_code(op);

    if (code >= 0) {
        return "";
    }
    return op->op.texts != NULL ? op->op.texts->detail : rlock_strerror(code); /* no memory */
}

int rlock_op_failure(const struct rlock_op *op, struct rlock_failure *ret_failure)
{
    static const struct rlock__facts none;
    int code = rlock_op_code(op);

    return rlock__failure_give(code < 0 ? code : 0, rlock_op_detail(op),
                               code < 0 && op->op.texts != NULL ? &op->op.texts->facts : &none,
                               ret_failure);
}

/* Whether it has such a result, and there is room for it. */
static int check_result(const struct rlock_op *op, bool has_it, const void *room)
{
    rlock__detail_clear();
    if (!has_it || rlock_op_code(op) != 0) {
        return rlock__fail(RLOCK_EINVAL, "the operation has no such result");
    }
    if (room == NULL || !rlock__sized_is_valid(room)) {
        return rlock__fail(RLOCK_EINVAL, "the result's size is not set");
    }
    return 0;
}

int rlock_op_grant(const struct rlock_op *op, struct rlock_grant *ret_grant)
{
    bool has_it = op->asked == RLOCK__ASKED_TAKE || op->asked == RLOCK__ASKED_EXTEND ||
                  op->asked == RLOCK__ASKED_ADOPT;
    int code = check_result(op, has_it, ret_grant);

    if (code == 0) {
        rlock__grant_give(&op->op.standing, op->owner, rlock__now_us(), ret_grant);
    }
    return code;
}

int rlock_op_text(const struct rlock_op *op, char ret_text[static RLOCK_TEXT_SIZE])
{
    rlock__detail_clear();
    ret_text[0] = '\0';
    if (op->asked != RLOCK__ASKED_DETACH || rlock_op_code(op) != 0) {
        return rlock__fail(RLOCK_EINVAL, "the operation has no such result");
    }
    rlock__text_of_detach(op->lock, &op->op, ret_text);
    return 0;
}

int rlock_op_info(const struct rlock_op *op, struct rlock_info *ret_info)
{
    int code = check_result(op, op->asked == RLOCK__ASKED_INSPECT, ret_info);

    if (code == 0) {
        rlock__sized_give(ret_info, op->info);
    }
    return code;
}

bool rlock_op_was_locked(const struct rlock_op *op)
{
    return rlock_op_code(op) == 0 && op->was_locked;
}

void rlock_op_cancel(struct rlock_op *op)
{
    RLOCK__WHOLE;
    if (op != NULL &&
        (op->asked == RLOCK__ASKED_TAKE || op->asked == RLOCK__ASKED_ADOPT ||
         op->asked == RLOCK__ASKED_LATCH) &&
        rlock_op_code(op) == RLOCK_UNDER_WAY &&
        op->lock->client->fork_generation == rlock__fork_generation()) {
        op->lock->vtable->cancel(op->lock, &op->op);
    }
}
