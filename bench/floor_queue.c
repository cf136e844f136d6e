/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floors of one name with many processes: they queue in a list on the server, and the lock
 * belongs to the head of the list. A release removes the head, and sends the next process a
 * message. In `push` that message is the grant. In `queue` the process then asks for the lock,
 * which costs a round trip more.
 */
#include "floor.h"

#include "support/run.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

enum script { ENTER, ASK, LEAVE, N_SCRIPTS };

/* KEYS[1] is the list. ARGV[1] is the process, and the channel that it listens on. All reply 1 to
 * the process that has the lock. LEAVE replies 0 if another one had it. */
static const char *const script[] = {
    [ENTER] = "return redis.call('rpush', KEYS[1], ARGV[1])",
    [ASK] = "return redis.call('lindex', KEYS[1], 0) == ARGV[1]",
    [LEAVE] = "if redis.call('lpop', KEYS[1]) ~= ARGV[1] then return 0 end "
              "local next = redis.call('lindex', KEYS[1], 0) "
              "if next then redis.call('publish', next, '') end return 1",
};

struct contender {
    redisContext *context; /* for the scripts and for messages */
    struct bench_calls calls;
};

static void freed(redisReply *reply)
{
    TEST_CHECK(reply != NULL && reply->type != REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

/* With RESP3 messages come over the connection that sends the scripts. */
static redisContext *connect_and_listen(const char *url, const char *channel)
{
    redisContext *context = floor_connect(url);

    redisSetPushCallback(context, NULL); /* read messages like replies */
    freed(redisCommand(context, "HELLO 3"));
    freed(redisCommand(context, "SUBSCRIBE %s", channel));
    return context;
}

static void start(struct bench_worker *worker)
{
    struct contender *self = calloc(1, sizeof(*self));
    char name[16], channel[16];

    TEST_CHECK(self != NULL);
    bench_name(worker->run, worker->index, name);
    test_text(channel, sizeof(channel), "turn%04d", worker->index);
    self->context = connect_and_listen(worker->run->url[0], channel);
    self->calls.n = N_SCRIPTS;
    for (int i = 0; i < N_SCRIPTS; i++) {
        redisReply *sha = redisCommand(self->context, "SCRIPT LOAD %s", script[i]);

        TEST_CHECK(sha != NULL && sha->type == REDIS_REPLY_STRING);
        self->calls.call[i].len = (size_t)redisFormatCommand(
            &self->calls.call[i].bytes, "EVALSHA %s 1 %s %s", sha->str, name, channel);
        freeReplyObject(sha);
    }
    worker->state = self;
}

static long long call(struct contender *self, enum script which)
{
    floor_send(self->context, &self->calls, which);
    return floor_read(self->context);
}

static void wait_message(redisContext *context)
{
    redisReply *message = NULL;

    TEST_CHECK(redisGetReply(context, (void **)&message) == REDIS_OK &&
               message->type == REDIS_REPLY_PUSH);
    freeReplyObject(message);
}

static void contend(struct bench_worker *worker, bool asks)
{
    struct contender *self = worker->state;
    const int64_t began = bench_now_ns();

    if (call(self, ENTER) != 1) {
        wait_message(self->context);
        TEST_CHECK(!asks || call(self, ASK) == 1);
    }
    bench_note(worker, bench_now_ns() - began);
    bench_hold(worker->run->one->hold_us);
    TEST_CHECK(call(self, LEAVE) == 1); /* or two had the lock */
}

static void ask_and_leave(struct bench_worker *worker)
{
    contend(worker, true);
}

static void take_and_leave(struct bench_worker *worker)
{
    contend(worker, false);
}

const struct bench_variant floor_queue = {.name = "queue", .start = start, .op = ask_and_leave};
const struct bench_variant floor_push = {.name = "push", .start = start, .op = take_and_leave};
