/*
 * What is in Redis after each step of a script, and what was said on the channels: recorded of two
 * Redissons, then compared with a Redisson and one of ours.
 *
 * Names of owners are made equal (the holder's are H:n, the waiter's W:n), and so is the lock's.
 * A TTL may be longer than Redisson's, never shorter: where Redisson's unlock of a nested level, or
 * a nested lock with a shorter lease, shortens the lease of the outer hold, ours keeps it. Also
 * different on purpose, and not compared: the values of fencing tokens; the message by which ours
 * says that a fixed lease has ended; that of a spin lock's release, which Redisson leaves out; that
 * of an unlock of a read/write lock that nobody holds; and that such an unlock, as that of a fair
 * lock, may succeed with Redisson. Its writers add the leases of their levels up: ours need not. In
 * a fair queue a tryLock() of its own has a slot as long as it waits, ours a whole one. A 0 right
 * after a 1 on the same channel says nothing new to Redisson.
 */
#include "interop.h"

#include "support/raw.h"
#include "support/resp.h"
#include "support/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_STEPS = 64, MAX_KEYS = 16, TOLERANCE_MS = 4000 };

/* ASK: to be answered at once. TELL: will wait; the step ends when it listens. WAKE: sets the
 * waiter going, so that what is there is only looked at with the next. COLLECT: the waiter's
 * answer. END: the lease is over. */
enum way { ASK, TELL, WAKE, COLLECT, END };

struct step {
    bool by_waiter;
    const char *owner;
    const char *what;
    enum way way;
    enum { ANY, NESTING, QUEUE, SHARED } only; /* the kinds that can: reentrant, fair, read */
    const char *as;                            /* of a read/write lock: which side */
    bool is_our_word;                          /* Redisson says nothing of it, ours does */
};

static const struct step steps[] = {
    {.owner = "a", .what = "lock 30000"},
    {.owner = "a", .what = "lock 20000", .only = NESTING},
    {.by_waiter = true, .owner = "a", .what = "try 0 30000"},
    {.by_waiter = true, .owner = "a", .what = "unlock"},
    {.owner = "b", .what = "unlock"},
    {.owner = "a", .what = "unlock", .only = NESTING},
    {.owner = "a", .what = "unlock"},
    {.owner = "a", .what = "unlock"},
    {.owner = "a", .what = "lock 0"},
    {.owner = "a", .what = "lock 0", .only = NESTING},
    {.owner = "a", .what = "unlock", .only = NESTING},
    {.by_waiter = true, .owner = "a", .what = "lock 25000", .way = TELL},
    {.owner = "a", .what = "unlock", .way = WAKE},
    {.by_waiter = true, .owner = "a", .what = "lock 25000", .way = COLLECT},
    {.owner = "b", .what = "try 50 30000"},
    {.by_waiter = true, .owner = "a", .what = "unlock"},
    {.owner = "a", .what = "try 0 0"},
    {.by_waiter = true, .owner = "b", .what = "try 5000 0", .way = TELL},
    {.by_waiter = true, .owner = "a", .what = "force", .way = WAKE},
    {.by_waiter = true, .owner = "b", .what = "try 5000 0", .way = COLLECT},
    {.owner = "a", .what = "unlock"},
    {.owner = "a", .what = "force"},
    {.owner = "a", .what = "force"},
    {.by_waiter = true, .owner = "b", .what = "unlock"},
    {.owner = "a", .what = "lock 1000"},
    {.owner = "a", .what = "lock 1000", .way = END},
    {.owner = "a", .what = "unlock"},

    /* a queue, of which one gives up */
    {.owner = "a", .what = "lock 30000", .only = QUEUE},
    {.by_waiter = true, .owner = "a", .what = "lock 30000", .way = TELL, .only = QUEUE},
    {.owner = "b", .what = "lock 30000", .way = TELL, .only = QUEUE},
    {.by_waiter = true, .owner = "b", .what = "try 300 30000", .only = QUEUE},
    {.owner = "a", .what = "unlock", .way = WAKE, .only = QUEUE},
    {.by_waiter = true, .owner = "a", .what = "lock 30000", .way = COLLECT, .only = QUEUE},
    {.by_waiter = true, .owner = "a", .what = "unlock", .way = WAKE, .only = QUEUE},
    {.owner = "b", .what = "lock 30000", .way = COLLECT, .only = QUEUE},
    {.owner = "b", .what = "unlock", .only = QUEUE},

    /* readers of both sides, then a writer who becomes one of them */
    {.owner = "a", .what = "lock 30000", .only = SHARED, .as = "read"},
    {.by_waiter = true, .owner = "a", .what = "lock 25000", .only = SHARED, .as = "read"},
    {.owner = "a", .what = "lock 30000", .only = SHARED, .as = "read"},
    {.by_waiter = true, .owner = "b", .what = "try 0 0", .only = SHARED, .as = "write"},
    {.owner = "a", .what = "unlock", .only = SHARED, .as = "read"},
    {.by_waiter = true,
     .owner = "b",
     .what = "lock 30000",
     .way = TELL,
     .only = SHARED,
     .as = "write"},
    {.owner = "a", .what = "unlock", .only = SHARED, .as = "read"},
    {.by_waiter = true, .owner = "a", .what = "unlock", .way = WAKE, .only = SHARED, .as = "read"},
    {.by_waiter = true,
     .owner = "b",
     .what = "lock 30000",
     .way = COLLECT,
     .only = SHARED,
     .as = "write"},
    {.by_waiter = true, .owner = "b", .what = "lock 30000", .only = SHARED, .as = "read"},
    {.owner = "a", .what = "try 0 30000", .only = SHARED, .as = "read"},
    {.by_waiter = true,
     .owner = "b",
     .what = "unlock",
     .only = SHARED,
     .as = "write",
     .is_our_word = true},
    {.owner = "a", .what = "lock 30000", .only = SHARED, .as = "read"},
    {.by_waiter = true, .owner = "b", .what = "unlock", .only = SHARED, .as = "read"},
    {.owner = "a", .what = "unlock", .only = SHARED, .as = "read"},
};
enum { N_STEPS = sizeof(steps) / sizeof(steps[0]) };

/* What there is after a step. */
struct moment {
    char *text; /* answer, keys with their values, messages; NULL: the step was left out */
    int64_t ttl_ms[MAX_KEYS];
    bool is_score[MAX_KEYS];
    size_t n_keys;
};

struct trace {
    struct moment moments[MAX_STEPS];
};

/* A recording: who listens to everything, and the requests that wait. */
struct recorder {
    struct pair *pair;
    int fd;
    char heard[16384];
    size_t n_heard;
    int waiting[2]; /* the request of the holder, and of the waiter, that waits */
    size_t n_waiting;
};

struct trace *trace_free(struct trace *trace)
{
    for (size_t i = 0; trace != NULL && i < MAX_STEPS; i++) {
        free(trace->moments[i].text);
    }
    free(trace);
    return NULL;
}

/* Replaces every `from`, and with it the number that follows, if it is an owner's. */
static char *replaced(char *text, const char *from, const char *to, bool is_owner)
{
    char *out = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&out, &size);
    const char *at = text;

    TEST_CHECK(file != NULL);
    for (const char *hit = strstr(at, from); *from != '\0' && hit != NULL; hit = strstr(at, from)) {
        fprintf(file, "%.*s%s", (int)(hit - at), at, to);
        at = hit + strlen(from);
        if (is_owner && *at == ':') {
            fputs(":n", file);
            at += 1 + strspn(at + 1, "0123456789");
        }
    }
    fputs(at, file);
    fclose(file);
    free(text);
    return out;
}

static char *normalised(const struct pair *pair, char *text)
{
    text = replaced(text, pair->holder->uuid_long, "H", true);
    text = replaced(text, pair->waiter->uuid_long, "W", true);
    return replaced(text, pair->name, "NAME", false);
}

static int compare_lines(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Splits the text at its newlines into at most `n` sorted lines. */
static size_t sort_lines(char *text, char **ret_lines, size_t n)
{
    size_t count = 0;

    for (char *line = strsep(&text, "\n"); line != NULL && count < n; line = strsep(&text, "\n")) {
        if (line[0] != '\0') {
            ret_lines[count++] = line;
        }
    }
    qsort(ret_lines, count, sizeof(*ret_lines), compare_lines);
    return count;
}

/* Prints fields as "field = value", sorted. */
static void print_hash(FILE *out, char *reply)
{
    char *lines[MAX_KEYS];
    char *joined = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&joined, &size);
    char *rest = reply;

    TEST_CHECK(file != NULL);
    for (char *field = strsep(&rest, "\n"); field != NULL && rest != NULL;
         field = strsep(&rest, "\n")) {
        fprintf(file, "%s = %s\n", field, strsep(&rest, "\n"));
    }
    fclose(file);
    const size_t n = sort_lines(joined, lines, MAX_KEYS);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "    %s\n", lines[i]);
    }
    free(joined);
}

static void print_key(FILE *out, struct pair *pair, const char *key)
{
    char *type = test_server_cmd(pair->server, "TYPE %s", key);

    fprintf(out, "  %s %s\n", type, key);
    if (strncmp(key, "redisson_lock_token:", 20) == 0) {
        free(type);
        return;
    }
    char *value = strcmp(type, "hash") == 0   ? test_server_cmd(pair->server, "HGETALL %s", key)
                  : strcmp(type, "list") == 0 ? test_server_cmd(pair->server, "LRANGE %s 0 -1", key)
                  : strcmp(type, "zset") == 0 ? test_server_cmd(pair->server, "ZRANGE %s 0 -1", key)
                                              : test_server_cmd(pair->server, "GET %s", key);
    if (strcmp(type, "hash") == 0) {
        value = normalised(pair, value); /* that is how its lines are sorted */
        print_hash(out, value);
    } else {
        fprintf(out, "    %s\n", value);
    }
    free(value);
    free(type);
}

/* The key's TTL; and of a fair queue's scores, which are moments of time, how far the last is. */
static void note_time(struct pair *pair, struct moment *moment, const char *key)
{
    TEST_CHECK(moment->n_keys + 2 <= MAX_KEYS);
    moment->ttl_ms[moment->n_keys++] = test_server_int(pair->server, "PTTL %s", key);
    if (strncmp(key, "redisson_lock_timeout:", 22) == 0) {
        char *last = test_server_cmd(pair->server, "ZRANGE %s -1 -1 WITHSCORES", key);
        char *time = test_server_cmd(pair->server, "TIME");
        const char *score = strchr(last, '\n');
        moment->is_score[moment->n_keys] = true;
        moment->ttl_ms[moment->n_keys++] =
            score == NULL ? 0 : strtoll(score + 1, NULL, 10) - strtoll(time, NULL, 10) * 1000;
        free(last);
        free(time);
    }
}

/* A level's key of a reader that is not there any more: Redisson's forceUnlock() leaves it. */
static bool is_left_over(struct pair *pair, const char *key)
{
    const char *owner = strchr(key, '}');
    const char *end = strstr(key, ":rwlock_timeout:");

    return owner != NULL && end != NULL &&
           test_server_int(pair->server, "HEXISTS %s %.*s", pair->name, (int)(end - owner - 2),
                           owner + 2) == 0;
}

/* All keys that have to do with the lock, but Redisson's latches, by which it remembers for a while
 * that an unlock was carried out: no peer looks at them. */
static void print_keys(FILE *out, struct pair *pair, struct moment *moment)
{
    char *keys[MAX_KEYS * 4];
    char *reply = test_server_cmd(pair->server, "KEYS *%s*", pair->name);
    const size_t n = sort_lines(reply, keys, MAX_KEYS * 4);

    for (size_t i = 0; i < n; i++) { /* the holder's, which is H, before the waiter's */
        for (size_t j = i + 1; j < n && strstr(keys[i], pair->waiter->uuid_long) != NULL; j++) {
            if (strstr(keys[j], pair->holder->uuid_long) != NULL) {
                char *swapped = keys[i];
                keys[i] = keys[j];
                keys[j] = swapped;
            }
        }
        if (strncmp(keys[i], "redisson_unlock_latch:", 22) != 0 && !is_left_over(pair, keys[i])) {
            note_time(pair, moment, keys[i]);
            print_key(out, pair, keys[i]);
        }
    }
    free(reply);
}

static void hear(struct recorder *recorder)
{
    const ssize_t n = recv(recorder->fd, recorder->heard + recorder->n_heard,
                           sizeof(recorder->heard) - recorder->n_heard, MSG_DONTWAIT);

    if (n > 0) {
        recorder->n_heard += (size_t)n;
    }
}

static bool same(struct resp_bytes word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.data, text, word.len) == 0;
}

/* Prints a message of the lock's channels; `before` is the payload of the one before it. */
static void print_message(FILE *out, struct resp_bytes frame, char *before)
{
    const struct resp_bytes channel = resp_word(frame, 2);
    const struct resp_bytes payload = resp_word(frame, 3);

    if (*before != '1' || !same(payload, "0")) {
        fprintf(out, "  message %.*s: %.*s\n", (int)channel.len, channel.data, (int)payload.len,
                payload.data);
    }
    *before = payload.len == 1 ? payload.data[0] : ' ';
}

/* Prints messages until the mark; true when that was there. */
static bool print_messages(struct recorder *recorder, FILE *out)
{
    const struct pair *pair = recorder->pair;
    struct resp_bytes rest = {recorder->heard, recorder->n_heard};
    bool is_marked = false;
    char before = ' ';

    for (long n = resp_frame_len(rest); n > 0; n = resp_frame_len(rest)) {
        const struct resp_bytes frame = {rest.data, (size_t)n};
        const struct resp_bytes channel = resp_word(frame, 2);
        is_marked = is_marked || same(channel, "interop-mark");
        if (pair->kind->channel != NULL && resp_is(resp_word(frame, 0), "pmessage") &&
            memmem(channel.data, channel.len, pair->name, strlen(pair->name)) != NULL) {
            print_message(out, frame, &before);
        }
        rest.data += n;
        rest.len -= (size_t)n;
    }
    memmove(recorder->heard, rest.data, rest.len);
    recorder->n_heard = rest.len;
    return is_marked;
}

static void print_heard(struct recorder *recorder, FILE *out, bool counts)
{
    char *text = NULL;
    size_t size = 0;
    FILE *heard = open_memstream(&text, &size);

    TEST_CHECK(heard != NULL);
    free(test_server_cmd(recorder->pair->server, "PUBLISH interop-mark 0"));
    TEST_CHECK(TEST_EVENTUALLY((hear(recorder), print_messages(recorder, heard)), 5000));
    fclose(heard);
    if (counts) {
        fputs(text, out);
    }
    free(text);
}

static void print_listeners(FILE *out, struct pair *pair)
{
    char *lines[MAX_KEYS];
    char *channels =
        normalised(pair, test_server_cmd(pair->server, "PUBSUB CHANNELS *%s*", pair->name));
    const size_t n = sort_lines(channels, lines, MAX_KEYS);

    for (size_t i = 0; i < n; i++) {
        fprintf(out, "  listening on %s\n", lines[i]);
    }
    free(channels);
}

static const char *outcome(const struct peer_answer *answer)
{
    return answer->ok ? answer->text : answer_is_not_yours(answer) ? "not yours" : "failed";
}

static bool go(struct recorder *recorder, const struct step *step)
{
    struct pair *pair = recorder->pair;
    const struct party *side = step->by_waiter ? pair->waiter : pair->holder;
    int *waiting = &recorder->waiting[step->by_waiter ? 1 : 0];

    pair->as = step->as;
    switch (step->way) {
    case TELL:
        *waiting = pair_tell(pair, side, step->owner, step->what);
        recorder->n_waiting++;
        return pair->kind->is_fair ? pair_is_queued(pair, recorder->n_waiting)
                                   : pair_is_awaited(pair);
    case COLLECT:
        recorder->n_waiting--;
        return pair_wait(pair, side, *waiting, PATIENCE_MS).ok;
    case END:
        return TEST_EVENTUALLY(pair_is_free(pair), PATIENCE_MS);
    case ASK:
    case WAKE:
    default:
        pair_ask(pair, side, step->owner, step->what);
        return true;
    }
}

static bool record_step(struct recorder *recorder, const struct step *step, struct moment *moment)
{
    struct pair *pair = recorder->pair;
    size_t size = 0;
    FILE *out = open_memstream(&moment->text, &size);

    TEST_CHECK(out != NULL);
    /* where Redisson is lenient, what it does with a free lock is not to be followed */
    const bool is_idle =
        pair->kind->is_lenient && strcmp(step->what, "unlock") == 0 && pair_is_free(pair);
    const bool went = go(recorder, step);
    fprintf(out, "%s %s: %s\n", step->by_waiter ? "W" : "H", step->what,
            is_idle                                 ? "not yours"
            : step->way != TELL && step->way != END ? outcome(&pair->last)
                                                    : "");
    if (step->way != WAKE) {
        print_keys(out, pair, moment);
        print_heard(recorder, out, step->way != END && !step->is_our_word && !is_idle);
    }
    if (step->way == TELL) {
        print_listeners(out, pair);
    }
    fclose(out);
    moment->text = normalised(pair, moment->text);
    return went;
}

static bool is_possible(const struct step *step, const struct kind *kind)
{
    switch (step->only) {
    case NESTING:
        return kind->is_reentrant;
    case QUEUE:
        return kind->is_fair;
    case SHARED:
        return kind->is_shared;
    case ANY:
    default:
        return true;
    }
}

struct trace *trace_record(struct pair *pair)
{
    struct recorder recorder = {.pair = pair, .fd = raw_dial(test_server_unix_url(pair->server))};
    struct trace *trace = calloc(1, sizeof(*trace));
    bool went = true;

    TEST_CHECK(trace != NULL && recorder.fd >= 0);
    raw_say(recorder.fd, "PSUBSCRIBE *\r\n");
    for (size_t i = 0; went && i < N_STEPS; i++) {
        if (is_possible(&steps[i], pair->kind)) {
            went = record_step(&recorder, &steps[i], &trace->moments[i]);
        }
    }
    close(recorder.fd);
    pair->as = NULL;
    if (!went) {
        pair_failed(pair, __FILE__, __LINE__, "the steps go on");
        return trace_free(trace);
    }
    return trace;
}

static bool ttls_fit(const struct moment *of_redisson, const struct moment *mixed)
{
    for (size_t i = 0; i < mixed->n_keys; i++) {
        const int64_t theirs = of_redisson->ttl_ms[i];
        const bool is_score = mixed->is_score[i];
        const int64_t least = (theirs < LONG_MS || is_score ? theirs : LONG_MS) - TOLERANCE_MS;
        const int64_t most = theirs + LONG_MS + TOLERANCE_MS + (is_score ? SLOT_MS : 0);
        const int64_t ttl = mixed->ttl_ms[i];
        if (theirs < 0 ? ttl != theirs : ttl < least || ttl > most) {
            return false;
        }
    }
    return true;
}

static bool agrees(struct pair *pair, const struct moment *of_redisson, const struct moment *mixed)
{
    if (strcmp(of_redisson->text, mixed->text) == 0 && ttls_fit(of_redisson, mixed)) {
        return true;
    }
    snprintf(pair->failure, sizeof(pair->failure),
             "state differs; two Redissons (first TTL %lld):\n%swith ours (first TTL %lld):\n%s",
             (long long)of_redisson->ttl_ms[0], of_redisson->text, (long long)mixed->ttl_ms[0],
             mixed->text);
    return false;
}

bool interop_state(struct pair *pair)
{
    struct trace *trace = trace_record(pair);
    bool is_same = trace != NULL;

    for (size_t i = 0; is_same && i < N_STEPS; i++) {
        is_same = trace->moments[i].text == NULL ||
                  agrees(pair, &pair->reference->moments[i], &trace->moments[i]);
    }
    trace_free(trace);
    return is_same;
}
