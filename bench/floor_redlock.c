/* SPDX-License-Identifier: Apache-2.0 */
/* The floor of a RedLock: all servers are sent the call, and most answers decide. Each thread has a
 * connection to each server; what is late is read with what comes next. */
#include "floor.h"

#include "support/run.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

struct quorum {
    int n;
    struct bench_calls calls;
    redisContext *server[BENCH_MAX_SERVERS];
    int in_flight[BENCH_MAX_SERVERS];
    struct pollfd fd[BENCH_MAX_SERVERS];
};

static void start(struct bench_worker *worker)
{
    const struct bench_run *run = worker->run;
    struct quorum *quorum = calloc(1, sizeof(*quorum));
    char name[16];

    TEST_CHECK(quorum != NULL);
    bench_name(run, worker->index, name);
    bench_calls_copy(run->calls, "name0000", name, (unsigned)worker->index, &quorum->calls);
    quorum->n = run->n_servers;
    for (int i = 0; i < quorum->n; i++) {
        quorum->server[i] = floor_connect(run->url[i]);
        quorum->fd[i] = (struct pollfd){.fd = quorum->server[i]->fd, .events = POLLIN};
    }
    worker->state = quorum;
}

/* Reads what has come from one server. Returns whether the newest call was answered by yes. */
static bool read_some(struct quorum *quorum, int server)
{
    redisContext *context = quorum->server[server];
    redisReply *reply = NULL;
    bool is_yes = false;

    TEST_CHECK(redisBufferRead(context) == REDIS_OK);
    while (redisGetReplyFromReader(context, (void **)&reply) == REDIS_OK && reply != NULL) {
        TEST_CHECK(reply->type == REDIS_REPLY_ARRAY && reply->elements > 0);
        quorum->in_flight[server]--;
        is_yes = quorum->in_flight[server] == 0 && reply->element[0]->integer == 1;
        freeReplyObject(reply);
        reply = NULL;
    }
    return is_yes;
}

static void ask_all(struct quorum *quorum, size_t call)
{
    int yes = 0;

    for (int i = 0; i < quorum->n; i++) {
        const ssize_t len = (ssize_t)quorum->calls.call[call].len;

        TEST_CHECK(write(quorum->fd[i].fd, quorum->calls.call[call].bytes, (size_t)len) == len);
        quorum->in_flight[i]++;
    }
    while (yes <= quorum->n / 2) {
        test_must(poll(quorum->fd, (nfds_t)quorum->n, -1), "poll");
        for (int i = 0; i < quorum->n; i++) {
            if ((quorum->fd[i].revents & POLLIN) != 0 && read_some(quorum, i)) {
                yes++;
            }
        }
    }
}

static void take_and_give(struct bench_worker *worker)
{
    const int64_t began = bench_now_ns();

    ask_all(worker->state, 0);
    bench_note(worker, bench_now_ns() - began);
    ask_all(worker->state, 1);
}

const struct bench_variant floor_quorum = {.name = "quorum", .start = start, .op = take_and_give};
