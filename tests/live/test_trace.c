/* SPDX-License-Identifier: Apache-2.0 */
/* Traces: each call that asked a server has one, with what it did, where, and for how long. */
#include <pthread.h>
#include <string.h>

#include "drive/client.h"
#include "support/async_calls.h"
#include "support/clients.h"
#include "support/completion.h"
#include "support/counts.h"

enum { OWNER = 41, MOST = 4096, MINUTE_MS = 60 * 1000 };

struct traced {
    struct rlock_trace trace; /* its texts are those below */
    char name[32], kind[16], server[256];
    pthread_t thread;
};

static struct {
    pthread_mutex_t mutex; /* protects the rest */
    struct traced traced[MOST];
    size_t n, read;
} traces = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void on_trace(const struct rlock_trace *trace, void *payload)
{
    (void)payload;
    (void)pthread_mutex_lock(&traces.mutex);
    if (traces.n < MOST) {
        struct traced *traced = &traces.traced[traces.n];

        traced->trace = *trace;
        test_text(traced->name, sizeof(traced->name), "%s", trace->name);
        test_text(traced->kind, sizeof(traced->kind), "%s", trace->kind);
        test_text(traced->server, sizeof(traced->server), "%s", trace->server);
        traced->thread = pthread_self();
    }
    traces.n++;
    (void)pthread_mutex_unlock(&traces.mutex);
}

static struct rlock_client *client_open_traced(struct fixture *f, struct rlock_client_opts opts)
{
    opts.on_trace = on_trace;
    return client_open_with(f, &opts);
}

#define DEFAULT (*RLOCK_CLIENT_OPTS(.url = NULL))

static size_t count_traces(void)
{
    size_t n;

    (void)pthread_mutex_lock(&traces.mutex);
    n = traces.n;
    (void)pthread_mutex_unlock(&traces.mutex);
    return n;
}

/* The next trace, which is there already, and the only one. */
static struct traced next_trace(void)
{
    struct traced traced;

    assert_int_equal(count_traces(), traces.read + 1);
    traced = traces.traced[traces.read++];
    assert_int_equal(traced.trace.size, sizeof(traced.trace));
    assert_int_equal(traced.trace.name_len, strlen(traced.name));
    assert_int_equal(traced.trace.waited_us + traced.trace.server_us, traced.trace.total_us);
    assert_true(traced.trace.waited_us >= 0 && traced.trace.server_us >= 0);
    return traced;
}

static void assert_no_trace(void)
{
    assert_int_equal(count_traces(), traces.read);
}

/* The call has one trace, with this call and code. Returns it. */
static struct traced assert_traced(int call, int code)
{
    const struct traced traced = next_trace();

    assert_int_equal(traced.trace.call, call);
    assert_code(traced.trace.code, code);
    return traced;
}

/* ---- What a trace says ---- */

LOCK_TEST(each_call_has_one_trace_of_what_it_did, f)
{
    struct rlock_client *client = client_open_traced(f, DEFAULT);
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock_info info = RLOCK_INFO_INIT;
    struct traced traced;
    int context;

    assert_code(TAKE(lock, 0, .owner = OWNER, .context = &context), 0);
    traced = assert_traced(RLOCK_CALL_LOCK, 0);
    assert_string_equal(traced.name, NAME);
    assert_string_equal(traced.kind, "reentrant");
    assert_string_equal(traced.server, client->address);
    assert_ptr_equal(traced.trace.context, &context);
    assert_int_equal(traced.trace.owner, OWNER);
    assert_int_equal(traced.trace.requests, 1);
    assert_int_equal(traced.trace.levels, 1);
    assert_int_equal(traced.trace.held_us, 0);
    assert_true(traced.trace.server_us > 0);
    assert_code(TAKE(lock, 0, .owner = OWNER), 0);
    traced = assert_traced(RLOCK_CALL_LOCK, 0);
    assert_null(traced.trace.context);
    assert_int_equal(traced.trace.levels, 2);
    assert_code(rlock_extend(lock, OWNER, MINUTE_MS, NULL), 0);
    traced = assert_traced(RLOCK_CALL_EXTEND, 0);
    assert_int_equal(traced.trace.owner, OWNER);
    assert_int_equal(traced.trace.requests, 1);
    assert_int_equal(traced.trace.levels, 2);
    assert_code(rlock_inspect(lock, &info), 0);
    traced = assert_traced(RLOCK_CALL_INSPECT, 0);
    assert_int_equal(traced.trace.owner, 0);
    assert_int_equal(traced.trace.requests, 1);
    assert_code(rlock_unlock_as(lock, OWNER), 0);
    traced = assert_traced(RLOCK_CALL_UNLOCK, 0);
    assert_int_equal(traced.trace.levels, 1);
    assert_int_equal(traced.trace.requests, 1);
    assert_int_equal(traced.trace.owner, OWNER);
    assert_true(traced.trace.held_us > 0);
    assert_string_equal(traced.server, client->address);
    assert_code(rlock_force_unlock(lock, NULL), 0);
    traced = assert_traced(RLOCK_CALL_FORCE_UNLOCK, 0);
    assert_int_equal(traced.trace.requests, 2);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_code(rlock_unlock_as(lock, OWNER), RLOCK_ELOST);
    assert_no_trace(); /* the loss was known */
}

LOCK_TEST(a_hold_that_is_handed_over_has_two_traces, f)
{
    struct rlock_client *client = client_open_traced(f, DEFAULT);
    struct rlock_handle *lock = lock_new(f, client);
    struct traced traced;
    char text[RLOCK_TEXT_SIZE];
    int context;

    assert_code(TAKE(lock, 0, .owner = OWNER), 0);
    (void)assert_traced(RLOCK_CALL_LOCK, 0);
    assert_code(rlock_detach(lock, OWNER, MINUTE_MS, text), 0);
    traced = assert_traced(RLOCK_CALL_DETACH, 0);
    assert_int_equal(traced.trace.owner, OWNER);
    assert_int_equal(traced.trace.requests, 1);
    assert_int_equal(traced.trace.levels, 0);
    assert_true(traced.trace.held_us > 0);
    assert_code(rlock_adopt(lock, text, RLOCK_TAKE(.owner = OWNER, .context = &context), NULL), 0);
    traced = assert_traced(RLOCK_CALL_ADOPT, 0);
    assert_ptr_equal(traced.trace.context, &context);
    assert_int_equal(traced.trace.levels, 1);
    assert_true(traced.trace.server_us > 0);
    assert_code(rlock_adopt(lock, text, RLOCK_TAKE(.owner = OWNER + 1), NULL), RLOCK_ENOTOWNER);
    (void)assert_traced(RLOCK_CALL_ADOPT, RLOCK_ENOTOWNER);
    assert_code(rlock_unlock_as(lock, OWNER), 0);
    (void)assert_traced(RLOCK_CALL_UNLOCK, 0);
}

FIXTURE_WITH_TEST(a_trace_has_the_token_of_a_fenced_lock, f, .kind = &kind_reentrant)
{
    struct rlock_client *client = client_open_traced(f, DEFAULT);
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    struct rlock_handle *lock = NULL;

    assert_code(rlock_fenced_new(client, NAME, NULL, &lock), 0);
    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.owner = OWNER), &grant), 0);
    assert_true(grant.token > 0);
    assert_int_equal(assert_traced(RLOCK_CALL_LOCK, 0).trace.token, grant.token);
    assert_code(rlock_unlock_as(lock, OWNER), 0);
    assert_int_equal(assert_traced(RLOCK_CALL_UNLOCK, 0).trace.token, grant.token);
    lock = rlock_free(lock);
}

/* ---- How long ---- */

LOCK_TEST(a_trace_tells_the_wait_from_the_answers, f)
{
    enum { WAIT_MS = 60 };
    struct rlock_client *client = client_open_traced(f, DEFAULT);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct traced traced;
    int64_t since_us, held_since_us;

    assert_code(rlock_lock(rival), 0);
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    traced = assert_traced(RLOCK_CALL_LOCK, RLOCK_EBUSY);
    assert_int_equal(traced.trace.levels, 0);
    since_us = test_now_us();
    assert_code(rlock_lock_for(lock, WAIT_MS, NULL, NULL), RLOCK_ETIMEDOUT);
    traced = assert_traced(RLOCK_CALL_LOCK, RLOCK_ETIMEDOUT);
    assert_in_range(traced.trace.total_us, 1000 * WAIT_MS, test_elapsed_us(since_us));
    assert_true(traced.trace.waited_us > traced.trace.server_us);
    assert_true(traced.trace.requests >= 2);
    assert_code(rlock_unlock(rival), 0);

    since_us = test_now_us(); /* the hold lasts less than that, */
    assert_code(rlock_lock(lock), 0);
    (void)assert_traced(RLOCK_CALL_LOCK, 0);
    held_since_us = test_now_us(); /* and longer than that */
    assert_true(TEST_EVENTUALLY(test_elapsed_us(held_since_us) > 30000, 10000));
    assert_code(rlock_unlock(lock), 0);
    traced = assert_traced(RLOCK_CALL_UNLOCK, 0);
    assert_in_range(traced.trace.held_us, 30000, test_elapsed_us(since_us));
}

/* ---- Calls that fail ---- */

LOCK_TEST(a_canceled_call_has_a_trace, f)
{
    struct rlock_client *client = client_open_traced(f, DEFAULT);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    struct rlock_cancel *cancel = NULL;
    struct actor *waiter = actor_open(f);
    int context;

    assert_code(rlock_lock(rival), 0);
    assert_code(rlock_cancel_new(&cancel), 0);
    actor_begin(waiter, act_take, lock, RLOCK_FOREVER,
                RLOCK_TAKE(.cancel = cancel, .context = &context));
    await_waiting(client, 1);
    assert_no_trace();
    rlock_cancel_fire(cancel);
    assert_code(actor_end(waiter), RLOCK_ECANCELED);
    assert_ptr_equal(assert_traced(RLOCK_CALL_LOCK, RLOCK_ECANCELED).trace.context, &context);
    assert_code(TAKE(lock, RLOCK_FOREVER, .cancel = cancel), RLOCK_ECANCELED);
    assert_no_trace(); /* it asked nothing */
    assert_null(rlock_cancel_free(cancel));
    assert_code(rlock_unlock(rival), 0);
}

LOCK_TEST(a_call_in_doubt_has_a_trace, f)
{
    struct rlock_client *client =
        client_open_traced(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(150)));
    struct rlock_handle *lock = lock_new(f, client), *held = lock_named(f, client, "held");
    struct traced traced;

    assert_code(rlock_lock(held), 0);
    (void)assert_traced(RLOCK_CALL_LOCK, 0);
    test_server_freeze(f->server);
    assert_code(rlock_try_lock(lock), RLOCK_EINDOUBT);
    traced = assert_traced(RLOCK_CALL_LOCK, RLOCK_EINDOUBT);
    assert_int_equal(traced.trace.requests, 1);
    assert_true(traced.trace.server_us >= 1000 * test_ms(100));
    assert_code(rlock_extend(held, 0, 0, NULL), RLOCK_ECONN); /* the connection is broken */
    (void)assert_traced(RLOCK_CALL_EXTEND, RLOCK_ECONN);
    assert_code(rlock_unlock(held), RLOCK_EINDOUBT);
    traced = assert_traced(RLOCK_CALL_UNLOCK, RLOCK_EINDOUBT);
    assert_true(traced.trace.held_us > traced.trace.total_us);
    test_server_thaw(f->server);
    assert_true(TEST_EVENTUALLY(test_server_int(f->server, "DBSIZE") == 0, 10000));
}

/* The server finds the loss. */
LOCK_TEST(an_unlock_that_finds_the_loss_has_a_trace, f)
{
    struct rlock_handle *lock = lock_new(f, client_open_traced(f, DEFAULT));

    assert_code(TAKE(lock, 0, .lease_ms = MINUTE_MS), 0);
    (void)assert_traced(RLOCK_CALL_LOCK, 0);
    assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    (void)assert_traced(RLOCK_CALL_UNLOCK, RLOCK_ELOST);
    (void)expect_loss(f, RLOCK_LOST_DELETED);
}

LOCK_TEST(a_call_without_a_connection_has_a_trace, f)
{
    struct rlock_client *client = client_open_traced(
        f, *RLOCK_CLIENT_OPTS(.url = "unix:///nowhere/at/all", .op_timeout_ms = test_ms(100)));
    struct rlock_handle *lock = lock_new(f, client);

    assert_code(rlock_try_lock(lock), RLOCK_ECONN);
    assert_int_equal(assert_traced(RLOCK_CALL_LOCK, RLOCK_ECONN).trace.requests, 1);
}

LOCK_TEST(what_is_refused_at_once_has_no_trace, f)
{
    struct rlock_handle *lock = lock_new(f, client_open_traced(f, DEFAULT));

    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    assert_code(rlock_extend(lock, 0, MINUTE_MS, NULL), RLOCK_ENOTOWNER);
    assert_code(TAKE(lock, 0, .lease_ms = 1), RLOCK_EINVAL);
    assert_no_trace();
}

/* ---- Many ---- */

enum { THREADS = 6, ROUNDS = 60 };

static void *work(void *arg)
{
    struct rlock_handle *lock = arg;

    for (int i = 0; i < ROUNDS; i++) {
        assert_code(rlock_lock(lock), 0);
        assert_code(rlock_unlock(lock), 0);
    }
    return NULL;
}

/* An unlock that hands over asks no server. Neither does a call that gets the hold so. */
LOCK_TEST(as_many_requests_are_traced_as_there_were, f)
{
    struct rlock_client *client = client_open_traced(f, DEFAULT);
    struct rlock_handle *lock = lock_new(f, client);
    uint64_t requests[RLOCK_CALL_INSPECT + 1] = {0}, n[RLOCK_CALL_INSPECT + 1] = {0};
    pthread_t threads[THREADS];
    struct rlock_stats stats;

    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, lock), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    for (; traces.read < count_traces(); traces.read++) {
        const struct rlock_trace *trace = &traces.traced[traces.read].trace;

        assert_true(trace->requests > 0);
        assert_code(trace->code, 0);
        requests[trace->call] += trace->requests;
        n[trace->call]++;
    }
    stats = counts_of(client);
    assert_int_equal(requests[RLOCK_CALL_LOCK], stats.attempts);
    assert_int_equal(n[RLOCK_CALL_UNLOCK], THREADS * ROUNDS - stats.passes);
    assert_true(n[RLOCK_CALL_LOCK] >= n[RLOCK_CALL_UNLOCK]);
}

/* ---- Locks made of locks ---- */

FIXTURE_WITH_TEST(a_lock_made_of_locks_has_one_trace, f, .kind = &kind_reentrant, .servers = 3)
{
    struct rlock_handle *members[3], *multi = NULL, *redlock = NULL;
    struct rlock_info info = RLOCK_INFO_INIT;
    struct traced traced;
    int context;

    for (size_t i = 0; i < 3; i++) {
        members[i] = lock_named(
            f, client_open_traced(f, *RLOCK_CLIENT_OPTS(.url = test_server_url(f->servers[i]))),
            "member");
    }
    assert_code(rlock_multi_new(members, 3, NULL, &multi), 0);
    assert_code(rlock_redlock_new(members, 3, RLOCK_OPTS(.max_lease_ms = -1), &redlock), 0);
    assert_code(TAKE(multi, 20000, .owner = OWNER, .context = &context), 0);
    traced = assert_traced(RLOCK_CALL_LOCK, 0);
    assert_string_equal(traced.name, "member,member,member");
    assert_string_equal(traced.kind, "multi");
    assert_string_equal(traced.server, "");
    assert_ptr_equal(traced.trace.context, &context);
    assert_int_equal(traced.trace.requests, 3);
    assert_int_equal(traced.trace.levels, 1);
    assert_true(traced.trace.server_us > 0);
    assert_code(rlock_extend(multi, OWNER, MINUTE_MS, NULL), 0);
    assert_int_equal(assert_traced(RLOCK_CALL_EXTEND, 0).trace.requests, 3);
    assert_code(rlock_inspect(multi, &info), 0);
    assert_int_equal(assert_traced(RLOCK_CALL_INSPECT, 0).trace.requests, 3);
    assert_code(rlock_unlock_as(multi, OWNER), 0);
    traced = assert_traced(RLOCK_CALL_UNLOCK, 0);
    assert_int_equal(traced.trace.levels, 0);
    assert_int_equal(traced.trace.requests, 3);
    assert_true(traced.trace.held_us > 0);
    assert_code(rlock_unlock_as(multi, OWNER), RLOCK_ENOTOWNER);
    assert_no_trace();
    assert_code(TAKE(redlock, 20000, .owner = OWNER), 0);
    assert_string_equal(assert_traced(RLOCK_CALL_LOCK, 0).kind, "redlock");
    assert_code(rlock_unlock_as(redlock, OWNER), 0);
    (void)assert_traced(RLOCK_CALL_UNLOCK, 0);
    multi = rlock_free(multi);
    redlock = rlock_free(redlock);
}

/* ---- Threads ---- */

LOCK_TEST(a_trace_comes_in_the_thread_that_called, f)
{
    struct rlock_handle *lock = lock_new(f, client_open_traced(f, DEFAULT));
    const bool is_own = test_calls() == TEST_CALLS_BLOCKING;
    struct traced traced;

    assert_code(rlock_lock(lock), 0);
    traced = assert_traced(RLOCK_CALL_LOCK, 0);
    assert_int_equal(pthread_equal(traced.thread, pthread_self()) != 0, is_own);
    assert_code(rlock_unlock(lock), 0);
    traced = assert_traced(RLOCK_CALL_UNLOCK, 0);
    assert_int_equal(pthread_equal(traced.thread, pthread_self()) != 0, is_own);
}

static void done(struct rlock_op *op, void *completion)
{
    TEST_CHECK(count_traces() == traces.read + 1); /* the trace came first */
    completion_tell(op, completion);
}

/* In the dispatcher or the program's loop, as it has the callbacks of async calls. */
LOCK_TEST(a_trace_of_an_async_call_comes_before_its_callback, f)
{
    struct rlock_handle *lock = lock_new(f, client_open_traced(f, DEFAULT));
    struct completion taken = COMPLETION, left = COMPLETION;
    struct traced traced;
    int context;

    assert_code(rlock_lock_async(lock, 0, RLOCK_TAKE(.owner = OWNER, .context = &context), done,
                                 &taken, NULL),
                0);
    assert_code(completion_await(&taken), 0);
    traced = assert_traced(RLOCK_CALL_LOCK, 0);
    assert_ptr_equal(traced.trace.context, &context);
    assert_true(pthread_equal(traced.thread, taken.thread));
    assert_code(rlock_unlock_async(lock, OWNER, done, &left, NULL), 0);
    assert_code(completion_await(&left), 0);
    traced = assert_traced(RLOCK_CALL_UNLOCK, 0);
    assert_int_equal(traced.trace.owner, OWNER);
    assert_true(pthread_equal(traced.thread, left.thread));
}
