/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least lock: SET NX PX, and a script that deletes the key if it is still one's own. Each
 * thread has a connection. Nothing is renewed, entered again, announced or watched; who does not
 * get it asks again after a while.
 */
#include "floor.h"

#include "support/run.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

enum { LEASE_MS = 30000, LEAST_DELAY_US = 1000, MOST_DELAY_US = 10000 };

static const char release[] =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

struct plain {
    redisContext *context;
    struct {
        char *bytes;
        size_t len;
    } set, release;
    unsigned random;
};

static void start(struct bench_worker *worker)
{
    struct plain *plain = calloc(1, sizeof(*plain));
    char name[16], token[24];

    TEST_CHECK(plain != NULL);
    bench_name(worker->run, worker->index, name);
    test_text(token, sizeof(token), "%020d", worker->index);
    plain->random = (unsigned)worker->index;
    plain->context = floor_connect(worker->run->url[0]);
    redisReply *sha = redisCommand(plain->context, "SCRIPT LOAD %s", release);
    TEST_CHECK(sha != NULL && sha->type == REDIS_REPLY_STRING);
    plain->set.len =
        (size_t)redisFormatCommand(&plain->set.bytes, "SET %s %s NX PX %d", name, token, LEASE_MS);
    plain->release.len = (size_t)redisFormatCommand(&plain->release.bytes, "EVALSHA %s 1 %s %s",
                                                    sha->str, name, token);
    freeReplyObject(sha);
    worker->state = plain;
}

static bool try(struct plain *plain)
{
    redisReply *reply = NULL;

    TEST_CHECK(redisAppendFormattedCommand(plain->context, plain->set.bytes, plain->set.len) ==
                   REDIS_OK &&
               redisGetReply(plain->context, (void **)&reply) == REDIS_OK);
    const bool taken = reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return taken;
}

static void give(struct plain *plain)
{
    TEST_CHECK(redisAppendFormattedCommand(plain->context, plain->release.bytes,
                                           plain->release.len) == REDIS_OK &&
               floor_read(plain->context) == 1);
}

static void pair(struct bench_worker *worker)
{
    struct plain *plain = worker->state;
    const int64_t began = bench_now_ns();

    TEST_CHECK(try(plain));
    give(plain);
    bench_note(worker, bench_now_ns() - began);
}

static void contend(struct bench_worker *worker)
{
    struct plain *plain = worker->state;
    const int64_t began = bench_now_ns();
    bool taken;

    while (!(taken = try(plain)) && !bench_is_over()) {
        bench_hold(LEAST_DELAY_US + rand_r(&plain->random) % (MOST_DELAY_US - LEAST_DELAY_US));
    }
    bench_note(worker, bench_now_ns() - began);
    if (taken) {
        bench_hold(worker->run->one->hold_us);
        give(plain);
    }
}

static const char does[] = "nothing else; waiters poll";

const struct bench_variant floor_plain = {
    .name = "plain", .start = start, .op = pair, .does = does, .sends = "set"};
const struct bench_variant floor_plain_contend = {
    .name = "plain", .start = start, .op = contend, .does = does, .sends = "set"};
