/* SPDX-License-Identifier: Apache-2.0 */
/* Uncontended pairs: a connection for each thread, or one for all with many calls in flight. */
#include "floor.h"

#include "support/run.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { MOST_IN_FLIGHT = 256, MANY_THREADS = 128 };

redisContext *floor_connect(const char *url)
{
    redisContext *context = redisConnect("127.0.0.1", atoi(strrchr(url, ':') + 1));

    if (context == NULL || context->err != 0 || redisEnableKeepAlive(context) != REDIS_OK) {
        test_die("no connection to %s", url);
    }
    return context;
}

long long floor_read(redisContext *context)
{
    redisReply *reply = NULL;
    long long first = 0;

    if (redisGetReply(context, (void **)&reply) != REDIS_OK || reply->type == REDIS_REPLY_ERROR) {
        test_die("floor: %s", reply != NULL ? reply->str : context->errstr);
    }
    first = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 ? reply->element[0]->integer
                                                                    : reply->integer;
    freeReplyObject(reply);
    return first;
}

void floor_send(redisContext *context, const struct bench_calls *calls, size_t call)
{
    TEST_CHECK(redisAppendFormattedCommand(context, calls->call[call].bytes,
                                           calls->call[call].len) == REDIS_OK);
}

/* Kinds say in different ways that they grant. But who was not granted it cannot release it. */
static void read_answer(redisContext *context, bool is_release)
{
    if (floor_read(context) < 1 && is_release) {
        test_die("floor: a release was refused");
    }
}

static void send_release(redisContext *context, const struct bench_calls *calls)
{
    for (size_t i = 1; i < calls->n; i++) {
        floor_send(context, calls, i);
    }
}

/* ---- a connection for each thread ---- */

struct own {
    redisContext *context;
    struct bench_calls calls;
};

static void copy_calls(const struct bench_run *run, int name, struct bench_calls *ret_calls)
{
    char own_name[16];

    test_text(own_name, sizeof(own_name), "name%04d", name);
    bench_calls_copy(run->calls, "name0000", own_name, (unsigned)name, ret_calls);
}

static void start(struct bench_worker *worker)
{
    struct own *own = calloc(1, sizeof(*own));

    TEST_CHECK(own != NULL);
    own->context = floor_connect(worker->run->url[0]);
    copy_calls(worker->run, worker->index, &own->calls);
    worker->state = own;
}

/* What came on an idle link before a call is sent would be taken for its answer. */
static void look(const redisContext *context)
{
    char byte;

    if (recv(context->fd, &byte, 1, MSG_DONTWAIT) >= 0) {
        test_die("floor: the server said something unasked, or closed the connection");
    }
}

void floor_take_and_give(redisContext *context, const struct bench_calls *calls)
{
    look(context);
    floor_send(context, calls, 0);
    read_answer(context, false);
    look(context);
    send_release(context, calls);
    for (size_t i = 1; i < calls->n; i++) {
        read_answer(context, true);
    }
}

static void pair(struct bench_worker *worker)
{
    struct own *own = worker->state;
    const int64_t began = bench_now_ns();

    floor_take_and_give(own->context, &own->calls);
    bench_note(worker, bench_now_ns() - began);
}

/* ---- one connection ---- */

struct pipe {
    redisContext *context;
    size_t n, next; /* names in flight, and the one whose reply comes next */
    struct {
        struct bench_calls calls;
        size_t answered; /* of its calls */
        int64_t began;
    } name[MOST_IN_FLIGHT];
};

static void start_pipe(struct bench_worker *worker)
{
    const int threads = worker->run->one->threads;
    struct pipe *pipe = calloc(1, sizeof(*pipe));

    TEST_CHECK(pipe != NULL && threads <= MOST_IN_FLIGHT);
    pipe->context = floor_connect(worker->run->url[0]);
    pipe->n = threads < MANY_THREADS ? (size_t)threads : MOST_IN_FLIGHT;
    for (size_t i = 0; i < pipe->n; i++) {
        copy_calls(worker->run, (int)i, &pipe->name[i].calls);
        floor_send(pipe->context, &pipe->name[i].calls, 0);
        pipe->name[i].began = bench_now_ns();
    }
    worker->state = pipe;
}

/* One reply, and what the name that it is for sends next. */
static void turn(struct bench_worker *worker)
{
    struct pipe *pipe = worker->state;
    const size_t i = pipe->next;
    const struct bench_calls *calls = &pipe->name[i].calls;

    read_answer(pipe->context, pipe->name[i].answered > 0);
    pipe->name[i].answered++;
    if (pipe->name[i].answered == 1) {
        send_release(pipe->context, calls);
    } else if (pipe->name[i].answered == calls->n) {
        const int64_t now = bench_now_ns();

        bench_note(worker, now - pipe->name[i].began);
        pipe->name[i].began = now;
        pipe->name[i].answered = 0;
        floor_send(pipe->context, calls, 0);
    } else {
        return; /* the next reply is this name's too */
    }
    pipe->next = (i + 1) % pipe->n;
}

const struct bench_variant floor_each = {.name = "each", .start = start, .op = pair};
const struct bench_variant floor_alone = {
    .name = "alone", .threads = 1, .start = start, .op = pair};
const struct bench_variant floor_pipe = {
    .name = "pipe", .threads = 1, .start = start_pipe, .op = turn};
