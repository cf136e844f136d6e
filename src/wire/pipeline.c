/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/pipeline.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/histogram.h"

#define ASKING "*1\r\n$6\r\nASKING\r\n"
#define ROUND_TRIP_MOST RLOCK__SECOND /* that the first reply is believed to need */
#define POOL_MOST 64                  /* requests that are kept for the next ones */
#define POOL_MOST_BYTES 1024          /* and what their buffers hold at most */

/* ---- Requests ---- */

struct rlock__request *rlock__request_new(struct rlock__pool *pool, rlock__answer_fn *answer,
                                          void *subject)
{
    struct rlock__request *request = pool->idle;

    if (request != NULL) {
        LL_DELETE(pool->idle, request);
        request->next = NULL;
        pool->n--;
    } else {
        request = calloc(1, sizeof(*request));
    }
    if (request != NULL) {
        request->pool = pool;
        request->answer = answer;
        request->subject = subject;
    }
    return request;
}

struct rlock__request *rlock__request_free(struct rlock__request *request)
{
    struct rlock__pool *pool = request != NULL ? request->pool : NULL;
    struct rlock__cmd *cmd = request != NULL ? &request->cmd : NULL;

    if (pool != NULL && pool->n < POOL_MOST && cmd->keys.cap + cmd->args.cap <= POOL_MOST_BYTES) {
        rlock__buf_clear(&cmd->keys);
        rlock__buf_clear(&cmd->args);
        *request = (struct rlock__request){.cmd = {.keys = cmd->keys, .args = cmd->args}};
        LL_PREPEND(pool->idle, request);
        pool->n++;
    } else if (request != NULL) {
        rlock__cmd_fini(cmd);
        free(request);
    }
    return NULL;
}

void rlock__pool_fini(struct rlock__pool *pool)
{
    struct rlock__request *request, *after;

    LL_FOREACH_SAFE(pool->idle, request, after) {
        rlock__cmd_fini(&request->cmd);
        free(request);
    }
    *pool = (struct rlock__pool){0};
}

/* ---- The queue ---- */

/* Has the driver close the link. */
static void close_link(struct rlock__pipeline *pipeline, const char *why)
{
    pipeline->close = true;
    pipeline->why = why;
}

/* Has the command sent behind all others. Without memory nothing of it is: returns false. ASKING is
 * for the next command, whoever's that is: so both are appended at once. */
static bool encode(struct rlock__pipeline *pipeline, struct rlock__request *request, bool whole)
{
    size_t before = pipeline->out.len;
    size_t asking = request->asking ? strlen(ASKING) : 0;
    bool good = rlock__buf_add(&pipeline->out, ASKING, asking);

    request->asking_end = request->asking ? pipeline->appended + asking : 0;
    good = rlock__cmd_encode(&request->cmd, whole, &pipeline->out) && good;
    if (!good) {
        pipeline->out.len = before;
        pipeline->out.failed = false;
    }
    pipeline->appended += pipeline->out.len - before;
    return good;
}

/* A copy of the request is behind all others. */
static void note_copy(struct rlock__pipeline *pipeline, struct rlock__request *request, int64_t now)
{
    request->copies++;
    pipeline->requests++;
    request->gen = pipeline->gen;
    request->t0 = now;
    request->sent = true;
    request->end = pipeline->appended;
    DL_APPEND(pipeline->sent, request);
}

/* Sends one that was taken over once more. Without memory that has to wait for another link. */
static void send_again(struct rlock__pipeline *pipeline, struct rlock__request *request, bool whole,
                       int64_t now)
{
    bool good = encode(pipeline, request, whole);

    pipeline->resends += request->copies > 0;
    note_copy(pipeline, request, now);
    if (!good) {
        request->end++; /* that a driver never gets */
        close_link(pipeline, "no memory for what is to be sent");
    }
}

bool rlock__pipeline_submit(struct rlock__pipeline *pipeline, struct rlock__request *request,
                            int64_t now)
{
    assert(!request->sent);
    if (!rlock__cmd_is_whole(&request->cmd)) {
        return false;
    }
    if (!pipeline->up || pipeline->drains) {
        request->sent = false;
        DL_APPEND(pipeline->waiting, request);
        return true;
    }
    if (!encode(pipeline, request, false)) {
        return false;
    }
    note_copy(pipeline, request, now);
    return true;
}

void rlock__pipeline_withdraw(struct rlock__pipeline *pipeline, struct rlock__request *request)
{
    DL_DELETE(pipeline->waiting, request);
}

void rlock__pipeline_up(struct rlock__pipeline *pipeline, uint64_t gen, bool fenced, int64_t now)
{
    struct rlock__request *request, *after, *waiting = pipeline->waiting;

    rlock__pipeline_down(pipeline, pipeline->gen, now);
    pipeline->gen = gen;
    if (fenced) {
        rlock__fence_raise(&pipeline->fence, gen);
    }
    pipeline->up = true;
    pipeline->close = pipeline->lied = pipeline->drains = pipeline->is_nameless = false;
    pipeline->appended = pipeline->taken = pipeline->written = 0;
    pipeline->heard_at = now;
    pipeline->waiting = NULL;
    DL_FOREACH_SAFE(waiting, request, after) {
        send_again(pipeline, request, false, now);
    }
}

/* Notes that the link of its latest copy broke. Returns whether the request is to be sent again. */
static bool lose_copy(struct rlock__pipeline *pipeline, struct rlock__request *request)
{
    request->sent = false;
    if (request->end > pipeline->taken) { /* no driver had all of it: it certainly did not run */
        request->copies--;
        return request->resend != RLOCK__DROP;
    }
    if (pipeline->is_nameless) {
        rlock__fence_add_nameless(&pipeline->fence, pipeline->gen);
    }
    request->lost_gen = rlock__fence_last(&pipeline->fence, request->lost_gen, pipeline->gen);
    return request->resend == RLOCK__RESEND && !request->asking;
}

void rlock__pipeline_down(struct rlock__pipeline *pipeline, uint64_t gen, int64_t now)
{
    struct rlock__request *request, *after, *sent = pipeline->sent, *unanswered = NULL;

    if (!pipeline->up || gen != pipeline->gen) {
        return;
    }
    pipeline->up = false;
    pipeline->sent = NULL;
    rlock__buf_clear(&pipeline->out);
    DL_FOREACH_SAFE(sent, request, after) {
        DL_DELETE(sent, request);
        if (lose_copy(pipeline, request)) {
            DL_APPEND(pipeline->waiting, request);
        } else {
            DL_APPEND(unanswered, request);
        }
    }
    DL_FOREACH_SAFE(unanswered, request, after) {
        DL_DELETE(unanswered, request);
        request->answer(request, NULL, now);
    }
}

static bool is_noscript(const struct rlock__reply *reply)
{
    return rlock__reply_is_error(reply) && reply->v[0].len >= 8 &&
           memcmp(reply->v[0].str, "NOSCRIPT", 8) == 0;
}

/* Falls at once and rises slowly: one reply that a pause held up says nothing of the next. Nor does
 * it where it is the first. */
static void measure(struct rlock__pipeline *pipeline, int64_t us)
{
    int64_t usual = pipeline->rtt;

    rlock__patience_learn(&pipeline->patience, us);
    rlock__histogram_add(&pipeline->replies, us);
    if (usual == 0) {
        pipeline->rtt = rlock__min(us, ROUND_TRIP_MOST);
    } else {
        pipeline->rtt = us < usual ? us : usual + (rlock__min(us, 2 * usual) - usual) / 8;
    }
}

void rlock__pipeline_take(struct rlock__pipeline *pipeline, struct rlock__buf *swap)
{
    struct rlock__buf out = pipeline->out;

    pipeline->out = *swap;
    *swap = out;
    pipeline->taken = pipeline->appended;
}

void rlock__pipeline_untake(struct rlock__pipeline *pipeline, size_t n)
{
    pipeline->taken -= n;
}

void rlock__pipeline_wrote(struct rlock__pipeline *pipeline, size_t n)
{
    pipeline->written += n;
}

bool rlock__pipeline_is_quiet(const struct rlock__pipeline *pipeline)
{
    const struct rlock__request *next = pipeline->sent;

    return next == NULL ||
           (next->asking_end != 0 ? next->asking_end : next->end) > pipeline->written;
}

void rlock__pipeline_garbled(struct rlock__pipeline *pipeline, uint64_t gen, int64_t now)
{
    struct rlock__request *request = rlock__pipeline_is_quiet(pipeline) ? NULL : pipeline->sent;

    if (!pipeline->up || gen != pipeline->gen) {
        return;
    }
    if (request != NULL) {
        DL_DELETE(pipeline->sent, request);
        (void)lose_copy(pipeline, request);
        request->garbled = true;
    }
    pipeline->lied = true;
    close_link(pipeline, request != NULL ? "an answer that makes no sense"
                                         : "an answer to nothing that was asked");
    rlock__pipeline_down(pipeline, gen, now);
    if (request != NULL) {
        request->answer(request, NULL, now);
    }
}

/* Whether it is what the request may be answered with. */
static bool makes_sense(const struct rlock__request *request, const struct rlock__reply *reply)
{
    const struct rlock__cmd *cmd = &request->cmd;

    if (request->asking_end != 0) {
        return !reply->is_array;
    }
    return cmd->script == NULL || rlock__reply_is_error(reply) ||
           rlock__reply_fits(reply, cmd->script->shapes, cmd->parts);
}

/* From when on nothing that the server says is believed. */
static int64_t silent_at(const struct rlock__pipeline *pipeline)
{
    return pipeline->failover_us != 0 ? pipeline->alive_at + pipeline->failover_us : RLOCK__NEVER;
}

void rlock__pipeline_break(struct rlock__pipeline *pipeline, const char *why, int64_t now)
{
    if (pipeline->up) {
        rlock__pipeline_down(pipeline, pipeline->gen, now);
        close_link(pipeline, why);
    }
}

void rlock__pipeline_drain(struct rlock__pipeline *pipeline, const char *why)
{
    pipeline->drains = true;
    pipeline->why = why;
}

void rlock__pipeline_reply(struct rlock__pipeline *pipeline, uint64_t gen,
                           const struct rlock__reply *reply, int64_t now)
{
    struct rlock__request *request = pipeline->sent;

    if (!pipeline->up || gen != pipeline->gen) {
        return;
    }
    if (rlock__pipeline_is_quiet(pipeline) || !makes_sense(request, reply)) {
        rlock__pipeline_garbled(pipeline, gen, now);
        return;
    }
    if (now >= silent_at(pipeline)) {
        rlock__pipeline_break(
            pipeline, "silent for so long that another server may have taken its place", now);
        return;
    }
    pipeline->alive_at = request->t0;
    pipeline->heard_at = now;
    if (request->asking_end != 0) {
        request->asking_end = 0;
        return;
    }
    DL_DELETE(pipeline->sent, request);
    request->sent = false;
    if (is_noscript(reply) && request->cmd.script != NULL && request->resend != RLOCK__DROP) {
        request->copies--; /* that one certainly did not run */
        send_again(pipeline, request, true, now);
        return;
    }
    measure(pipeline, now - request->t0);
    request->answer(request, reply, now);
}

int64_t rlock__pipeline_overdue_at(const struct rlock__pipeline *pipeline)
{
    return pipeline->sent != NULL
               ? rlock__min(rlock__later(pipeline->sent->t0, pipeline->op_timeout),
                            silent_at(pipeline))
               : RLOCK__NEVER;
}

void rlock__pipeline_refuse_waiting(struct rlock__pipeline *pipeline,
                                    bool (*is_picked)(const struct rlock__request *request),
                                    const struct rlock__reply *reply, int64_t now)
{
    struct rlock__request *request, *after, *picked = NULL;

    DL_FOREACH_SAFE(pipeline->waiting, request, after) {
        if (is_picked(request)) {
            DL_DELETE(pipeline->waiting, request);
            DL_APPEND(picked, request);
        }
    }
    DL_FOREACH_SAFE(picked, request, after) {
        DL_DELETE(picked, request);
        request->copies++; /* the one that is refused */
        request->answer(request, reply, now);
    }
}

void rlock__pipeline_replaced(struct rlock__pipeline *pipeline, int64_t now)
{
    rlock__fence_replaced(&pipeline->fence, pipeline->gen);
    rlock__pipeline_break(pipeline, "another server has taken its place", now);
}

void rlock__pipeline_check(struct rlock__pipeline *pipeline, int64_t now)
{
    if (pipeline->up && pipeline->drains && pipeline->sent == NULL) {
        rlock__pipeline_break(pipeline, pipeline->why, now);
    } else if (pipeline->up && pipeline->close) {
        rlock__pipeline_down(pipeline, pipeline->gen, now);
    } else if (now >= rlock__pipeline_overdue_at(pipeline)) {
        rlock__pipeline_break(pipeline, "no answer in time", now);
    }
}

void rlock__pipeline_fini(struct rlock__pipeline *pipeline)
{
    struct rlock__request *request, *after;

    pipeline->up = false;
    DL_CONCAT(pipeline->waiting, pipeline->sent);
    pipeline->sent = NULL;
    DL_FOREACH_SAFE(pipeline->waiting, request, after) {
        DL_DELETE(pipeline->waiting, request);
        request->answer(request, NULL, 0);
    }
    rlock__buf_fini(&pipeline->out);
}
