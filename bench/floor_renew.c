/* SPDX-License-Identifier: Apache-2.0 */
/* The floor of renewal: one thread, one script for 100 holds, spread over the period. */
#include "floor.h"

#include "support/run.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 100, WORDS = 3 + 2 * BATCH + 1, OWNER_SIZE = 48 };

static const char script[] = "local lease = ARGV[#ARGV] "
                             "for i, key in ipairs(KEYS) do "
                             "if redis.call('hexists', key, ARGV[i]) == 1 then "
                             "redis.call('pexpire', key, lease) end end return 1";

struct renewal {
    redisContext *context;
    long n, next;     /* batches */
    int64_t due;      /* when the next one goes out */
    int64_t pause_ns; /* between two */
    struct bench_calls *batch;
};

/* Each hold has an owner's number of its own, as every hold of a lock has. */
static void owner_of(long hold, char owner[static OWNER_SIZE])
{
    test_text(owner, OWNER_SIZE, "00000000-0000-0000-0000-000000000000:%ld", hold + 1);
}

static void hold(redisContext *context, long locks)
{
    for (long i = 0; i < locks; i++) {
        char owner[OWNER_SIZE];

        owner_of(i, owner);
        redisAppendCommand(context, "HSET held%06ld %s 1", i, owner);
        if ((i + 1) % BATCH == 0) {
            for (int j = 0; j < BATCH; j++) {
                floor_read(context);
            }
        }
    }
}

static void format_batch(struct bench_calls *batch, long first, const char *sha, const char *lease)
{
    char names[BATCH][16], owners[BATCH][OWNER_SIZE], count[8];
    const char *words[WORDS] = {"EVALSHA", sha, count};

    test_text(count, sizeof(count), "%d", BATCH);
    for (int i = 0; i < BATCH; i++) {
        test_text(names[i], sizeof(names[i]), "held%06ld", first + i);
        owner_of(first + i, owners[i]);
        words[3 + i] = names[i];
        words[3 + BATCH + i] = owners[i];
    }
    words[3 + 2 * BATCH] = lease;
    batch->n = 1;
    batch->call[0].len = (size_t)redisFormatCommandArgv(&batch->call[0].bytes, WORDS, words, NULL);
}

static void start(struct bench_worker *worker)
{
    const struct bench_case *one = worker->run->one;
    struct renewal *renewal = calloc(1, sizeof(*renewal));
    char lease[24];

    TEST_CHECK(renewal != NULL && one->locks % BATCH == 0);
    renewal->context = floor_connect(worker->run->url[0]);
    hold(renewal->context, one->locks);
    redisReply *loaded = redisCommand(renewal->context, "SCRIPT LOAD %s", script);
    renewal->n = one->locks / BATCH;
    renewal->batch = calloc((size_t)renewal->n, sizeof(*renewal->batch));
    TEST_CHECK(renewal->batch != NULL && loaded != NULL && loaded->type == REDIS_REPLY_STRING);
    test_text(lease, sizeof(lease), "%lld", (long long)one->lease_ms);
    for (long i = 0; i < renewal->n; i++) {
        format_batch(&renewal->batch[i], i * BATCH, loaded->str, lease);
    }
    freeReplyObject(loaded);
    renewal->pause_ns = one->lease_ms * 1000000 / 3 / renewal->n;
    renewal->due = bench_now_ns();
    worker->state = renewal;
}

static void renew_batch(struct bench_worker *worker)
{
    struct renewal *renewal = worker->state;
    const int64_t wait_ns = renewal->due - bench_now_ns();

    bench_hold(wait_ns / 1000);
    const int64_t began = bench_now_ns();
    floor_send(renewal->context, &renewal->batch[renewal->next], 0);
    floor_read(renewal->context);
    bench_note(worker, bench_now_ns() - began);
    renewal->next = (renewal->next + 1) % renewal->n;
    renewal->due += renewal->pause_ns;
}

const struct bench_variant floor_renew = {
    .name = "script", .threads = 1, .start = start, .op = renew_batch};
