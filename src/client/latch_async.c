/* SPDX-License-Identifier: Apache-2.0 */
/* Latches: the async calls. */
#include "client/latch.h"
#include "client/op.h"

/* Begins an operation that asks the server. code: of the arguments. */
static int begin(struct rlock_latch *latch, enum rlock__asked asked,
                 const struct rlock__latch_command *command, int code, rlock_done_fn *done,
                 void *payload, struct rlock_op **ret_op)
{
    struct rlock_op *op;

    code = code == 0 ? rlock__op_new(asked, latch->lock, done, payload, &op) : code;
    if (code == 0) {
        code = rlock__latch_begin(latch, command, &op->op, rlock__op_numbers(op));
        code = rlock__op_started(op, code, ret_op);
    }
    return code;
}

int rlock_latch_set_async(struct rlock_latch *latch, int64_t count, rlock_done_fn *done,
                          void *payload, struct rlock_op **ret_op)
{
    RLOCK__WHOLE;
    struct rlock__latch_command command = {.once = false};
    const int code = rlock__latch_read_set(latch, count, &command);

    return begin(latch, RLOCK__ASKED_LATCH, &command, code, done, payload, ret_op);
}

int rlock_latch_down_async(struct rlock_latch *latch, const char *party, rlock_done_fn *done,
                           void *payload, struct rlock_op **ret_op)
{
    RLOCK__WHOLE;
    struct rlock__latch_command command;
    const int code = rlock__latch_read_down(latch, party, &command);

    return begin(latch, RLOCK__ASKED_LATCH, &command, code, done, payload, ret_op);
}

int rlock_latch_count_async(struct rlock_latch *latch, rlock_done_fn *done, void *payload,
                            struct rlock_op **ret_op)
{
    RLOCK__WHOLE;
    const struct rlock__latch_command command = {.ask.what = RLOCK__LATCH_LOOK};

    return begin(latch, RLOCK__ASKED_LATCH_COUNT, &command, rlock__latch_check(latch), done,
                 payload, ret_op);
}

int rlock_latch_wait_async(struct rlock_latch *latch, int64_t wait_ms, struct rlock_cancel *cancel,
                           rlock_done_fn *done, void *payload, struct rlock_op **ret_op)
{
    RLOCK__WHOLE;
    struct rlock_take take = {.size = sizeof(take), .cancel = cancel};
    struct rlock_op *op;
    int code = rlock__latch_check(latch);

    code = code == 0 ? rlock__take_read(latch->lock, &wait_ms, &take, &take) : code;
    code = code == 0 ? rlock__op_new(RLOCK__ASKED_LATCH, latch->lock, done, payload, &op) : code;
    if (code == 0) {
        code = rlock__single_await(latch->lock, wait_ms, &take, &op->op);
        code = rlock__op_started(op, code, ret_op);
    }
    return code;
}

int64_t rlock_op_count(const struct rlock_op *op)
{
    const bool has_it = op->asked == RLOCK__ASKED_LATCH_COUNT && rlock_op_code(op) == 0;

    return has_it ? ((const int64_t *)(const void *)(op + 1))[1] : RLOCK_EINVAL;
}
