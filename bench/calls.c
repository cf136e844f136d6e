/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a floor sends is what rlock sends: a child takes and gives back a lock, and MONITOR says
 * which commands the server got. So no floor knows how a script is called.
 */
#include "bench.h"

#include "floor.h"
#include "support/run.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WORDS = 256, WARM_PAIRS = 3 };

static void say(redisContext *context, const char *command)
{
    redisReply *reply = redisCommand(context, command);

    TEST_CHECK(reply != NULL && reply->type != REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

/* The child: pairs that nobody looks at, then one between two marks. */
static _Noreturn void take_and_give(struct bench_run run, const char *url)
{
    static struct bench_worker worker;
    redisContext *marks = floor_connect(url);

    run.url[0] = url;
    run.n_servers = 1;
    run.shared = run.variant->open(&run);
    worker.run = &run;
    run.variant->start(&worker);
    for (int i = 0; i < WARM_PAIRS; i++) {
        run.variant->op(&worker);
    }
    say(marks, "ECHO mark");
    run.variant->op(&worker);
    say(marks, "ECHO mark");
    _exit(0);
}

/* A word in quotes, as MONITOR prints it; in place. Returns what follows, NULL at the end. */
static char *next_word(char *text, const char **ret_word, size_t *ret_len)
{
    char *in = strchr(text, '"');
    char *out;

    if (in == NULL) {
        return NULL;
    }
    *ret_word = out = ++in;
    while (*in != '"' && *in != 0) {
        unsigned byte = 0;

        if (*in != '\\') {
            *out++ = *in++;
        } else if (in[1] == 'x' && sscanf(in + 2, "%2x", &byte) == 1) {
            *out++ = (char)byte;
            in += 4;
        } else {
            static const char letters[] = "nrtab", bytes[] = "\n\r\t\a\b";
            const char *at = strchr(letters, in[1]);

            *out++ = at != NULL ? bytes[at - letters] : in[1];
            in += 2;
        }
    }
    *ret_len = (size_t)(out - *ret_word);
    in++;
    *out = 0;
    return in;
}

static size_t split(char *line, const char *words[], size_t lens[])
{
    size_t n = 0;

    for (char *rest = line; n < MAX_WORDS; n++) {
        rest = next_word(rest, &words[n], &lens[n]);
        if (rest == NULL) {
            break;
        }
    }
    return n;
}

/* "uuid:number" */
static bool is_owner(const char *word, size_t len)
{
    return len > 37 && len < 64 && word[8] == '-' && word[23] == '-' && word[36] == ':';
}

static void add_call(struct bench_calls *calls, const char *words[], size_t lens[], size_t n)
{
    sds bytes = NULL;
    const long long len = redisFormatSdsCommandArgv(&bytes, (int)n, words, lens);

    TEST_CHECK(len > 0 && calls->n < BENCH_MAX_CALLS);
    calls->call[calls->n].bytes = malloc((size_t)len);
    TEST_CHECK(calls->call[calls->n].bytes != NULL);
    memcpy(calls->call[calls->n].bytes, bytes, (size_t)len);
    calls->call[calls->n].len = (size_t)len;
    calls->n++;
    for (size_t i = 0; i < n && calls->owner[0] == 0; i++) {
        if (is_owner(words[i], lens[i])) {
            snprintf(calls->owner, sizeof(calls->owner), "%.*s", (int)lens[i], words[i]);
        }
    }
    redisFreeSdsCommand(bytes);
}

static void listen_between_marks(redisContext *monitor, struct bench_calls *calls)
{
    for (int marks = 0; marks < 2;) {
        const char *words[MAX_WORDS];
        size_t lens[MAX_WORDS];
        redisReply *line = NULL;

        if (redisGetReply(monitor, (void **)&line) != REDIS_OK) {
            test_die("MONITOR: %s", monitor->errstr);
        }
        const bool inner = strstr(line->str, " lua] ") != NULL;
        const size_t n = split(line->str, words, lens);
        if (n == 2 && strcasecmp(words[0], "echo") == 0) {
            marks++;
        } else if (marks == 1 && !inner && n > 0 && strcasecmp(words[0], "evalsha") == 0) {
            add_call(calls, words, lens, n);
        }
        freeReplyObject(line);
    }
}

const struct bench_calls *bench_capture(const struct bench_run *run, const char *url)
{
    const pid_t parent = getpid();
    struct bench_calls *calls = calloc(1, sizeof(*calls));
    redisContext *monitor = floor_connect(url);

    TEST_CHECK(calls != NULL);
    say(monitor, "MONITOR");
    const pid_t pid = test_must(fork(), "fork");
    if (pid == 0) {
        test_die_with_parent(parent);
        take_and_give(*run, url);
    }
    redisSetTimeout(monitor, (struct timeval){.tv_sec = 10});
    listen_between_marks(monitor, calls);
    redisFree(monitor);
    TEST_CHECK(test_reap(pid) == 0 && calls->n >= 2);
    return calls;
}

static void replace(char *bytes, size_t len, const char *old, const char *new)
{
    const size_t n = strlen(old);

    TEST_CHECK(n == strlen(new));
    for (char *at = bytes; n > 0 && (at = memmem(at, len - (size_t)(at - bytes), old, n)) != NULL;
         at += n) {
        memcpy(at, new, n);
    }
}

void bench_calls_copy(const struct bench_calls *from, const char *old_name, const char *name,
                      unsigned owner, struct bench_calls *ret_calls)
{
    char other[128];

    *ret_calls = *from;
    test_text(other, sizeof(other), "%s", from->owner);
    if (other[0] != 0) { /* the UUID's first digits */
        char digits[9];

        test_text(digits, sizeof(digits), "%08x", owner);
        memcpy(other, digits, 8);
    }
    for (size_t i = 0; i < from->n; i++) {
        char *bytes = malloc(from->call[i].len);

        TEST_CHECK(bytes != NULL);
        memcpy(bytes, from->call[i].bytes, from->call[i].len);
        replace(bytes, from->call[i].len, old_name, name);
        replace(bytes, from->call[i].len, from->owner, other);
        ret_calls->call[i].bytes = bytes;
    }
}
