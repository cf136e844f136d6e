/* SPDX-License-Identifier: Apache-2.0 */
/* Latches: the calls that talk to the server. */
#include "client/latch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/common.h"

#define COUNT_MAX INT32_MAX
#define PARTY_MAX 255

int rlock_latch_new(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                    struct rlock_latch **ret_latch)
{
    struct rlock_latch *latch;
    int code;

    rlock__detail_clear();
    if (ret_latch == NULL) {
        return rlock__fail(RLOCK_EINVAL, "ret_latch is NULL");
    }
    latch = calloc(1, sizeof(*latch));
    if (latch == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    code = rlock__single_new(client, &rlock__latch_ops, name, opts, &latch->lock);
    if (code != 0) {
        free(latch);
        return code;
    }
    *ret_latch = latch;
    return 0;
}

struct rlock_latch *rlock_latch_free(struct rlock_latch *latch)
{
    if (latch != NULL) {
        (void)rlock_free(latch->lock);
        free(latch);
    }
    return NULL;
}

/* ---- Arguments ---- */

int rlock__latch_check(const struct rlock_latch *latch)
{
    return rlock__lock_check_open(latch != NULL ? latch->lock : NULL);
}

/* A name of its own for each call. */
static struct rlock__bytes name_call(const struct rlock_latch *latch,
                                     struct rlock__latch_command *command)
{
    (void)snprintf(command->id, sizeof(command->id), "%s:%" PRIu64,
                   latch->lock->client->core.opts.uuid, rlock_owner_new(latch->lock->client));
    return rlock__bytes_of(command->id);
}

int rlock__latch_read_set(const struct rlock_latch *latch, int64_t count,
                          struct rlock__latch_command *ret_command)
{
    int code = rlock__latch_check(latch);

    if (code == 0 && (count < 1 || count > COUNT_MAX)) {
        code = rlock__fail(RLOCK_EINVAL, "count is %" PRId64 ", must be 1 to %d", count, COUNT_MAX);
    }
    if (code == 0) {
        ret_command->ask = (struct rlock__latch_ask){
            .what = RLOCK__LATCH_SET, .count = count, .id = name_call(latch, ret_command)};
    }
    return code;
}

int rlock__latch_read_down(const struct rlock_latch *latch, const char *party,
                           struct rlock__latch_command *ret_command)
{
    const size_t len = party != NULL ? strnlen(party, PARTY_MAX + 1) : 0;
    int code = rlock__latch_check(latch);

    if (code == 0 && party != NULL && (len == 0 || len > PARTY_MAX)) {
        code = rlock__fail(RLOCK_EINVAL, "a party has 1 to %d bytes", PARTY_MAX);
    }
    if (code == 0) {
        ret_command->once = party == NULL;
        ret_command->ask =
            (struct rlock__latch_ask){.what = RLOCK__LATCH_DOWN,
                                      .party = rlock__bytes(party != NULL ? party : "", len),
                                      .id = name_call(latch, ret_command)};
    }
    return code;
}

/* ---- Commands ---- */

int rlock__latch_begin(const struct rlock_latch *latch, const struct rlock__latch_command *command,
                       struct rlock__op *op, int64_t *ret_numbers)
{
    const struct rlock_handle *lock = latch->lock;

    op->call.command.once = command->once;
    op->call.command.read = rlock__latch_read;
    op->call.command.reader = ret_numbers;
    rlock__core_mutex_lock(&lock->client->mutex);
    rlock__latch_spell(lock->spec, &command->ask, &op->call.command.cmd);
    rlock__core_mutex_unlock(&lock->client->mutex);
    return rlock__single_command(lock, op);
}

int rlock__latch_run(const struct rlock_latch *latch, const struct rlock__latch_command *command,
                     int64_t ret_numbers[static 2])
{
    struct rlock__texts texts;
    struct rlock__op op = {.texts = &texts};
    char name[96];
    int code = rlock__check_wait(latch->lock, 0);

    rlock__texts_begin(&texts);
    if (code != 0) {
        return code;
    }
    code = rlock__latch_begin(latch, command, &op, ret_numbers);
    code = rlock__lock_end(latch->lock, &op, code);
    rlock__cmd_fini(&op.call.command.cmd);
    if (code != 0) {
        rlock__detail("latch %s: %s", rlock__spec_text(latch->lock->spec, name), texts.detail);
    }
    return code;
}

int rlock_latch_set(struct rlock_latch *latch, int64_t count, bool *ret_set)
{
    RLOCK__WHOLE;
    struct rlock__latch_command command = {.once = false};
    int64_t numbers[2];
    int code = rlock__latch_read_set(latch, count, &command);

    code = code == 0 ? rlock__latch_run(latch, &command, numbers) : code;
    if (code == 0 && ret_set != NULL) {
        *ret_set = numbers[0] == 1;
    }
    return code;
}

int rlock_latch_down(struct rlock_latch *latch, const char *party)
{
    RLOCK__WHOLE;
    struct rlock__latch_command command;
    int64_t numbers[2];
    const int code = rlock__latch_read_down(latch, party, &command);

    return code == 0 ? rlock__latch_run(latch, &command, numbers) : code;
}

int rlock_latch_count(struct rlock_latch *latch, int64_t *ret_count)
{
    RLOCK__WHOLE;
    const struct rlock__latch_command command = {.ask.what = RLOCK__LATCH_LOOK};
    int64_t numbers[2];
    int code = rlock__latch_check(latch);

    if (code == 0 && ret_count == NULL) {
        code = rlock__fail(RLOCK_EINVAL, "ret_count is NULL");
    }
    code = code == 0 ? rlock__latch_run(latch, &command, numbers) : code;
    if (code == 0) {
        *ret_count = numbers[1];
    }
    return code;
}

/* ---- Waiting ---- */

int rlock_latch_wait(struct rlock_latch *latch, int64_t wait_ms, struct rlock_cancel *cancel)
{
    RLOCK__WHOLE;
    struct rlock_take take = {.size = sizeof(take), .cancel = cancel};
    struct rlock__texts texts;
    struct rlock__op op = {.texts = &texts};
    int code = rlock__latch_check(latch);

    rlock__texts_begin(&texts);
    code = code == 0 ? rlock__take_read(latch->lock, &wait_ms, &take, &take) : code;
    code = code == 0 ? rlock__check_wait(latch->lock, wait_ms) : code;
    code = code == 0 ? rlock__single_await(latch->lock, wait_ms, &take, &op) : code;
    return code == 0 ? rlock__lock_end(latch->lock, &op, 0) : code;
}
