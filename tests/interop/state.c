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
 * a fair queue a tryLock() of its own has a slot as long as it waits, ours a whole one. The queue
 * has no end there, and a late one while one of ours stands in it. A 0 right after a 1 on the same
 * channel says nothing new to Redisson. The queue that clients of ours stand in, its channels, and
 * the tickets of a fair lock are nothing to Redisson either.
 *
 * Of a group each member is compared, on its server. Redisson takes members with a lease of
 * twice what it waits, which shows in the TTLs of renewed and of unlocked levels and of a reader's
 * keys: these are not compared, nor a fenced member's token, which it gives the lease. It asks the
 * members one after the other and ours at once: the messages are compared without their order, and
 * not where a waiter comes in between. Nor is who listens for a RedLock; ours does not.
 */
#include "look.h"

#include "support/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 64, TOLERANCE_MS = 4000 };
enum { PUSHED_MS = 2000 }; /* a waiter of ours may have this lease until its first renewal */

/* ASK: to be answered at once. TELL: will wait; the step ends when it listens. WAKE: sets the
 * waiter going, so that what is there is only looked at with the next. COLLECT: the waiter's
 * answer. END: the lease is over. */
enum way { ASK, TELL, WAKE, COLLECT, END };

struct step {
    bool by_waiter;
    const char *owner;
    const char *what;
    enum way way;
    enum {
        ANY,
        SINGLE,
        NESTING,
        QUEUE,
        SHARED
    } only;             /* the kinds that can: no group,
                                                          reentrant, fair, read */
    const char *as;     /* of a read/write lock: which side */
    bool is_told_apart; /* one of the libraries says something of it, the other does not */
};

static const struct step steps[] = {
    {.owner = "a", .what = "lock 30000"},
    {.owner = "a", .what = "lock 20000", .only = NESTING},
    {.by_waiter = true, .owner = "a", .what = "try 0 30000"},
    {.by_waiter = true, .owner = "a", .what = "unlock"},
    {.owner = "b", .what = "unlock"},
    {.owner = "a", .what = "unlock", .only = NESTING},
    {.owner = "a", .what = "unlock"},
    {.owner = "a", .what = "unlock", .only = SINGLE},
    {.owner = "a", .what = "lock 0"},
    {.owner = "a", .what = "lock 0", .only = NESTING},
    {.owner = "a", .what = "unlock", .only = NESTING},
    {.by_waiter = true, .owner = "a", .what = "lock 25000", .way = TELL},
    {.owner = "a", .what = "unlock", .way = WAKE},
    {.by_waiter = true, .owner = "a", .what = "lock 25000", .way = COLLECT},
    {.owner = "b", .what = "try 50 30000"},
    {.by_waiter = true, .owner = "a", .what = "unlock"},
    {.owner = "a", .what = "try 0 0", .only = SINGLE},
    {.by_waiter = true, .owner = "b", .what = "try 5000 0", .way = TELL, .only = SINGLE},
    {.by_waiter = true, .owner = "a", .what = "force", .way = WAKE, .only = SINGLE},
    {.by_waiter = true,
     .owner = "b",
     .what = "try 5000 0",
     .way = COLLECT,
     .only = SINGLE,
     .is_told_apart = true}, /* ours gives the lock to its waiter, and tells no Redisson */
    {.owner = "a", .what = "unlock", .only = SINGLE},
    {.owner = "a", .what = "force", .only = SINGLE},
    {.owner = "a", .what = "force", .only = SINGLE},
    {.by_waiter = true, .owner = "b", .what = "unlock", .only = SINGLE},
    {.owner = "a", .what = "lock 1000"},
    {.owner = "a", .what = "lock 1000", .way = END},
    {.owner = "a", .what = "unlock", .only = SINGLE},

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
     .as = "write",
     .is_told_apart = true}, /* the same: the last reader is ours */
    {.by_waiter = true, .owner = "b", .what = "lock 30000", .only = SHARED, .as = "read"},
    {.owner = "a", .what = "try 0 30000", .only = SHARED, .as = "read"},
    {.by_waiter = true,
     .owner = "b",
     .what = "unlock",
     .only = SHARED,
     .as = "write",
     .is_told_apart = true},
    {.owner = "a", .what = "lock 30000", .only = SHARED, .as = "read"},
    {.by_waiter = true, .owner = "b", .what = "unlock", .only = SHARED, .as = "read"},
    {.owner = "a", .what = "unlock", .only = SHARED, .as = "read"},
};
enum { N_STEPS = sizeof(steps) / sizeof(steps[0]) };

struct trace {
    struct moment moments[MAX_STEPS];
};

/* A recording, and the requests that wait. */
struct recorder {
    struct pair *pair;
    struct ear ears[MAX_SERVERS];
    size_t n_servers;
    int waiting[2]; /* the request of the holder, and of the waiter, that waits */
    size_t n_waiting;
    bool is_raced; /* a RedLock was waited for, and is had */
};

struct trace *trace_free(struct trace *trace)
{
    for (size_t i = 0; trace != NULL && i < MAX_STEPS; i++) {
        free(trace->moments[i].text);
    }
    free(trace);
    return NULL;
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
        return pair->kind->is_fair
                   ? pair_is_queued(pair, recorder->n_waiting)
                   : pair_is_awaited(pair) && TEST_EVENTUALLY(pair_is_heard(pair), PATIENCE_MS);
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

/* The last word of the step is the lease, and 0 is a renewed one. */
static bool wants_renewal(const struct step *step)
{
    return strcmp(step->what + strlen(step->what) - 2, " 0") == 0;
}

/* What is there on each server. A RedLock's members all have it, or none, when all is done: a
 * minority may follow after the answer. */
static void print_servers(struct recorder *recorder, const struct step *step, bool is_heard,
                          FILE *out, struct moment *moment)
{
    struct pair *pair = recorder->pair;
    const bool is_redlock = kind_is_redlock(pair->kind);

    if (is_redlock) {
        (void)TEST_EVENTUALLY(pair_n_held(pair) % pair->kind->n_members == 0, PROMPT_MS);
    }
    for (size_t i = 0; i < recorder->n_servers; i++) {
        if (i > 0) {
            fprintf(out, "  server %zu\n", i);
        }
        look_at_keys(out, pair, recorder->ears[i].server, moment);
        look_at_messages(pair, &recorder->ears[i], out, is_heard);
        if (step->way == TELL && !is_redlock) {
            look_at_listeners(out, pair, recorder->ears[i].server);
        }
    }
    const bool is_leased =
        strcmp(step->what, "unlock") != 0 && !wants_renewal(step) && step->way != TELL;
    if (kind_is_group(pair->kind) && !is_leased) {
        moment->n_keys = 0;
    }
}

/* Who waits for a RedLock goes as soon as most are free, sometimes in vain at first: that it has
 * most is all that both have in common until it has left. */
static void print_quorum(struct recorder *recorder, FILE *out)
{
    struct pair *pair = recorder->pair;
    const bool has_most = pair_n_held(pair) >= pair->kind->quorum;

    fprintf(out, "  %s\n", has_most ? "a quorum" : "no quorum");
    recorder->is_raced = has_most || !TEST_EVENTUALLY(pair_is_free(pair), PROMPT_MS);
    for (size_t i = 0; i < recorder->n_servers; i++) {
        look_at_messages(pair, &recorder->ears[i], out, false);
    }
}

static bool record_step(struct recorder *recorder, const struct step *step, struct moment *moment)
{
    struct pair *pair = recorder->pair;
    size_t size = 0;
    FILE *out = open_memstream(&moment->text, &size);

    TEST_CHECK(out != NULL);
    /* where Redisson is lenient, what it does with a free lock is not to be followed */
    const bool may_lie =
        strcmp(step->what, "unlock") == 0 && (pair->kind->is_lenient || pair->kind->is_silent);
    const bool is_idle = may_lie && pair_is_free(pair);
    const bool went = go(recorder, step);
    if (step->way == COLLECT && wants_renewal(step)) {
        (void)TEST_EVENTUALLY(pair_ttl(pair) > PUSHED_MS, PROMPT_MS);
    }
    fprintf(out, "%s %s: %s\n", step->by_waiter ? "W" : "H", step->what,
            is_idle || pair->kind->is_silent        ? "not asked"
            : step->way != TELL && step->way != END ? outcome(&pair->last)
                                                    : "");
    const bool races = step->way == COLLECT && kind_is_group(pair->kind);

    if (recorder->is_raced || (races && kind_is_redlock(pair->kind))) {
        print_quorum(recorder, out);
    } else if (step->way != WAKE) {
        print_servers(recorder, step,
                      step->way != END && !step->is_told_apart && !is_idle && !races, out, moment);
    }
    fclose(out);
    moment->text = look_normalise(pair, moment->text);
    return went;
}

static bool is_possible(const struct step *step, const struct kind *kind)
{
    switch (step->only) {
    case SINGLE:
        return !kind_is_group(kind);
    case NESTING: /* of a RedLock, ours counts levels by itself */
        return kind->is_reentrant && !kind_is_redlock(kind);
    case QUEUE:
        return kind->is_fair;
    case SHARED:
        return kind->is_shared;
    case ANY:
    default:
        return true;
    }
}

static struct recorder *recorder_new(struct pair *pair)
{
    struct recorder *recorder = calloc(1, sizeof(*recorder));

    TEST_CHECK(recorder != NULL);
    recorder->pair = pair;
    recorder->n_servers = kind_servers(pair->kind);
    for (size_t i = 0; i < recorder->n_servers; i++) {
        ear_open(&recorder->ears[i], pair->deployment->servers[i]);
    }
    return recorder;
}

static void recorder_free(struct recorder *recorder)
{
    for (size_t i = 0; i < recorder->n_servers; i++) {
        ear_close(&recorder->ears[i]);
    }
    free(recorder);
}

struct trace *trace_record(struct pair *pair)
{
    struct recorder *recorder = recorder_new(pair);
    struct trace *trace = calloc(1, sizeof(*trace));
    bool went = true;

    TEST_CHECK(trace != NULL);
    for (size_t i = 0; went && i < N_STEPS; i++) {
        if (is_possible(&steps[i], pair->kind)) {
            went = record_step(recorder, &steps[i], &trace->moments[i]);
        }
    }
    recorder_free(recorder);
    pair->as = NULL;
    if (!went) {
        pair_failed(pair, __FILE__, __LINE__, "the steps go on");
        return trace_free(trace);
    }
    return trace;
}

/* The last score of a fair lock's queue, in ms from now; 0: it is past, or there is none. */
static int64_t last_score(const struct moment *moment)
{
    int64_t last_ms = 0;

    for (size_t i = 0; i < moment->n_keys; i++) {
        if (moment->is_score[i] && moment->ttl_ms[i] > last_ms) {
            last_ms = moment->ttl_ms[i];
        }
    }
    return last_ms;
}

/* A fair lock's queue and scores have no end with Redisson. While one of ours stands in the queue
 * they end one slot behind the last score. A Redisson that comes or is admitted moves the scores by
 * a slot, and only the next attempt of ours moves the end. */
static bool ends_late(const struct moment *moment, int64_t ttl_ms)
{
    return strstr(moment->text, "redisson_lock_queue:") != NULL &&
           ttl_ms > SLOT_MS - TOLERANCE_MS &&
           ttl_ms < last_score(moment) + 2 * SLOT_MS + TOLERANCE_MS;
}

static bool ttls_fit(const struct moment *of_redisson, const struct moment *mixed)
{
    for (size_t i = 0; i < mixed->n_keys; i++) {
        const int64_t theirs = of_redisson->ttl_ms[i];
        const bool is_score = mixed->is_score[i];
        const int64_t least = (theirs < LONG_MS || is_score ? theirs : LONG_MS) - TOLERANCE_MS;
        const int64_t most = theirs + LONG_MS + TOLERANCE_MS + (is_score ? SLOT_MS : 0);
        const int64_t ttl = mixed->ttl_ms[i];
        if (theirs < 0 ? ttl != theirs && !ends_late(mixed, ttl) : ttl < least || ttl > most) {
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
