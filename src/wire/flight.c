/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/flight.h"

#include <stdlib.h>
#include <utlist.h>

struct rlock__request *rlock__request_free(struct rlock__request *request)
{
    if (request != NULL) {
        rlock__cmd_fini(&request->cmd);
        free(request);
    }
    return NULL;
}

/* ---- The queue ---- */

/* Has the driver close the link. */
static void close_link(struct rlock__flight *flight, const char *why)
{
    flight->close = true;
    flight->why = why;
}

/* Has the command sent behind all others. Without memory nothing of it is: returns false. */
static bool encode(struct rlock__flight *flight, const struct rlock__cmd *cmd, bool whole)
{
    size_t before = flight->out.len;
    bool good = rlock__cmd_encode(cmd, whole, &flight->out);

    if (!good) {
        flight->out.len = before;
        flight->out.failed = false;
    }
    flight->appended += flight->out.len - before;
    return good;
}

/* A copy of the request is behind all others. */
static void note_copy(struct rlock__flight *flight, struct rlock__request *request, int64_t now)
{
    request->copies++;
    request->gen = flight->gen;
    request->t0 = now;
    request->sent = true;
    request->end = flight->appended;
    DL_APPEND(flight->sent, request);
}

/* Sends one that was taken over once more. Without memory that has to wait for another link. */
static void send_again(struct rlock__flight *flight, struct rlock__request *request, bool whole,
                       int64_t now)
{
    bool good = encode(flight, &request->cmd, whole);

    note_copy(flight, request, now);
    if (!good) {
        request->end++; /* that a driver never gets */
        close_link(flight, "no memory for what is to be sent");
    }
}

bool rlock__flight_submit(struct rlock__flight *flight, struct rlock__request *request, int64_t now)
{
    if (!rlock__cmd_is_whole(&request->cmd)) {
        return false;
    }
    if (!flight->up) {
        request->sent = false;
        DL_APPEND(flight->waiting, request);
        return true;
    }
    if (!encode(flight, &request->cmd, false)) {
        return false;
    }
    note_copy(flight, request, now);
    return true;
}

void rlock__flight_withdraw(struct rlock__flight *flight, struct rlock__request *request)
{
    DL_DELETE(flight->waiting, request);
}

void rlock__flight_up(struct rlock__flight *flight, uint64_t gen, uint64_t fenced_below,
                      int64_t now)
{
    struct rlock__request *request, *after, *waiting = flight->waiting;

    rlock__flight_down(flight, flight->gen, now);
    flight->gen = gen;
    flight->fenced_below = fenced_below;
    flight->up = true;
    flight->close = flight->lied = false;
    flight->appended = flight->taken = flight->written = 0;
    flight->heard_at = now;
    flight->waiting = NULL;
    DL_FOREACH_SAFE(waiting, request, after) {
        send_again(flight, request, false, now);
    }
}

/* Notes that the link of its latest copy broke. Returns whether the request is to be sent again. */
static bool lose_copy(const struct rlock__flight *flight, struct rlock__request *request)
{
    request->sent = false;
    if (request->end > flight->taken) { /* no driver had all of it: it certainly did not run */
        request->copies--;
        return request->resend != RLOCK__DROP;
    }
    request->lost_gen = flight->gen;
    return request->resend == RLOCK__RESEND;
}

void rlock__flight_down(struct rlock__flight *flight, uint64_t gen, int64_t now)
{
    struct rlock__request *request, *after, *sent = flight->sent, *unanswered = NULL;

    if (!flight->up || gen != flight->gen) {
        return;
    }
    flight->up = false;
    flight->sent = NULL;
    rlock__buf_clear(&flight->out);
    DL_FOREACH_SAFE(sent, request, after) {
        DL_DELETE(sent, request);
        if (lose_copy(flight, request)) {
            DL_APPEND(flight->waiting, request);
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

/* Falls at once and rises slowly: one reply that a pause held up says nothing of the next. */
static void measure(struct rlock__flight *flight, int64_t us)
{
    int64_t usual = flight->rtt;

    flight->rtt = us < usual || usual == 0 ? us : usual + (rlock__min(us, 2 * usual) - usual) / 8;
}

void rlock__flight_take(struct rlock__flight *flight, struct rlock__buf *swap)
{
    struct rlock__buf out = flight->out;

    flight->out = *swap;
    *swap = out;
    flight->taken = flight->appended;
}

void rlock__flight_wrote(struct rlock__flight *flight, size_t n)
{
    flight->written += n;
}

bool rlock__flight_is_quiet(const struct rlock__flight *flight)
{
    return flight->sent == NULL || flight->sent->end > flight->written;
}

void rlock__flight_garbled(struct rlock__flight *flight, uint64_t gen, int64_t now)
{
    struct rlock__request *request = rlock__flight_is_quiet(flight) ? NULL : flight->sent;

    if (!flight->up || gen != flight->gen) {
        return;
    }
    if (request != NULL) {
        DL_DELETE(flight->sent, request);
        (void)lose_copy(flight, request);
        request->garbled = true;
    }
    flight->lied = true;
    close_link(flight, request != NULL ? "an answer that makes no sense"
                                       : "an answer to nothing that was asked");
    rlock__flight_down(flight, gen, now);
    if (request != NULL) {
        request->answer(request, NULL, now);
    }
}

/* Whether it is what the request may be answered with. */
static bool makes_sense(const struct rlock__request *request, const struct rlock__reply *reply)
{
    const struct rlock__cmd *cmd = &request->cmd;

    return cmd->script == NULL || rlock__reply_is_error(reply) ||
           rlock__reply_fits(reply, cmd->script->shapes, cmd->parts);
}

void rlock__flight_reply(struct rlock__flight *flight, uint64_t gen,
                         const struct rlock__reply *reply, int64_t now)
{
    struct rlock__request *request = flight->sent;

    if (!flight->up || gen != flight->gen) {
        return;
    }
    if (rlock__flight_is_quiet(flight) || !makes_sense(request, reply)) {
        rlock__flight_garbled(flight, gen, now);
        return;
    }
    DL_DELETE(flight->sent, request);
    request->sent = false;
    if (is_noscript(reply) && request->cmd.script != NULL && request->resend != RLOCK__DROP) {
        request->copies--; /* that one certainly did not run */
        send_again(flight, request, true, now);
        return;
    }
    flight->heard_at = now;
    measure(flight, now - request->t0);
    request->answer(request, reply, now);
}

int64_t rlock__flight_overdue_at(const struct rlock__flight *flight)
{
    return flight->sent != NULL ? rlock__later(flight->sent->t0, flight->op_timeout) : RLOCK__NEVER;
}

void rlock__flight_check(struct rlock__flight *flight, int64_t now)
{
    if (flight->up && (flight->close || now >= rlock__flight_overdue_at(flight))) {
        rlock__flight_down(flight, flight->gen, now);
        if (!flight->close) {
            close_link(flight, "no answer in time");
        }
    }
}

bool rlock__flight_is_fenced(const struct rlock__flight *flight, uint64_t gen)
{
    return gen < flight->fenced_below;
}

void rlock__flight_fini(struct rlock__flight *flight)
{
    struct rlock__request *request, *after;

    flight->up = false;
    DL_CONCAT(flight->waiting, flight->sent);
    flight->sent = NULL;
    DL_FOREACH_SAFE(flight->waiting, request, after) {
        DL_DELETE(flight->waiting, request);
        request->answer(request, NULL, 0);
    }
    rlock__buf_fini(&flight->out);
}
