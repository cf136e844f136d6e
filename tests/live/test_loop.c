/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that the program's event loop runs. Each test is a program of one thread, whose loop
 * polls the clients' descriptors. What locks do there is in the conformance table.
 */
#include <poll.h>
#include <rlock/admin.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/completion.h"
#include "support/proxy.h"
#include "support/stall.h"
#include "support/user.h"

enum { SERVERS = 3, OWNER = 5, OTHER = 6 };

struct scene {
    struct fixture f;
    struct user *user;  /* whose clients the loop runs */
    struct user *rival; /* with threads of its own */
};

static struct rlock_client_opts looped(void)
{
    struct rlock_client_opts opts = USUAL;

    opts.flags |= RLOCK_CLIENT_USER_LOOP;
    opts.op_timeout_ms = 1000 * test_slack();
    return opts;
}

static void scene_open(struct scene *s)
{
    fixture_open(&s->f, &(struct fixture_opts){.servers = SERVERS, .proxy = PROXY_ON_UNIX});
    s->user = user_open(&s->f, looped());
    s->rival = user_open(&s->f, USUAL);
}

#define SCENE_TEST(name, s) TEST_AROUND(name, struct scene, s, scene_open(s), fixture_close(&s->f))

/* ---- The loop ---- */

/* Polls all clients of the user once, and dispatches those that are ready. Returns how many. */
static int turn(const struct user *user, int timeout_ms)
{
    struct pollfd fds[SERVERS];
    nfds_t n = 0;
    int ready = 0;

    for (size_t i = 0; i < SERVERS; i++) {
        if (user->clients[i] != NULL) {
            fds[n++] = (struct pollfd){.fd = rlock_client_fd(user->clients[i]), .events = POLLIN};
        }
    }
    (void)poll(fds, n, timeout_ms);
    n = 0;
    for (size_t i = 0; i < SERVERS; i++) {
        if (user->clients[i] != NULL && fds[n++].revents != 0) {
            assert_code(rlock_client_dispatch(user->clients[i]), 0);
            ready++;
        }
    }
    return ready;
}

/* Runs the loop for so long. Returns how many dispatches that took. */
static int run_for(const struct user *user, int64_t ms)
{
    const int64_t end_us = test_now_us() + ms * 1000;
    int dispatches = 0;

    while (test_now_us() < end_us) {
        dispatches += turn(user, (int)((end_us - test_now_us()) / 1000) + 1);
    }
    return dispatches;
}

/* Runs it while the condition does not hold; up to 30 s, stretched. */
#define RUN_UNTIL(user, condition)                                                                 \
    do {                                                                                           \
        const int64_t end_us_ = test_now_us() + 30000000 * (int64_t)test_slack();                  \
        while (!(condition)) {                                                                     \
            assert_true(test_now_us() < end_us_);                                                  \
            (void)turn(user, 100);                                                                 \
        }                                                                                          \
    } while (0)

static int await(const struct user *user, struct completion *completion)
{
    RUN_UNTIL(user, completion_is_there(completion));
    assert_true(pthread_equal(completion->thread, pthread_self()));
    return completion->code;
}

static int take(const struct user *user, struct rlock_handle *lock, int64_t wait_ms,
                const struct rlock_take *take)
{
    struct completion completion = COMPLETION;
    int code = rlock_lock_async(lock, wait_ms, take, completion_tell, &completion, NULL);

    return code == 0 ? await(user, &completion) : code;
}

static int leave(const struct user *user, struct rlock_handle *lock, uint64_t owner)
{
    struct completion completion = COMPLETION;
    int code = rlock_unlock_async(lock, owner, completion_tell, &completion, NULL);

    return code == 0 ? await(user, &completion) : code;
}

/* ---- What such a client is ---- */

FIXTURE_TEST(it_has_no_thread, f)
{
    const size_t threads = test_threads_running();
    struct user *user = user_open(f, looped());

    assert_code(take(user, user->lock, 0, RLOCK_TAKE(.owner = OWNER)), 0);
    assert_true(rlock_is_valid_as(user->lock, OWNER));
    assert_int_equal(test_threads_running(), threads);
    assert_code(leave(user, user->lock, OWNER), 0);
}

SCENE_TEST(functions_that_wait_are_refused, s)
{
    struct rlock_handle *multi = user_multi(s->user, s->user->members[0], s->user->members[1]);
    struct rlock_handle *locks[] = {s->user->members[0], multi, s->user->lock};
    struct rlock_info info = RLOCK_INFO_INIT;

    for (size_t i = 0; i < 3; i++) {
        assert_code(rlock_lock(locks[i]), RLOCK_ENOTSUP);
        assert_detail("event loop");
        assert_code(rlock_try_lock(locks[i]), RLOCK_ENOTSUP);
        assert_code(rlock_unlock(locks[i]), i == 0 ? RLOCK_ENOTOWNER : RLOCK_ENOTSUP);
        assert_code(rlock_inspect(locks[i], &info), RLOCK_ENOTSUP);
        assert_code(rlock_force_unlock(locks[i], NULL), RLOCK_ENOTSUP);
        assert_false(rlock_is_valid(locks[i]));
    }
    assert_code(
        rlock_admin_scan(s->user->client, NULL, (rlock_found_fn *)(void (*)(void))abort, NULL),
        RLOCK_ENOTSUP);
    assert_code(
        rlock_admin_diagnose(s->user->client, (rlock_finding_fn *)(void (*)(void))abort, NULL),
        RLOCK_ENOTSUP);
}

SCENE_TEST(a_client_with_threads_has_nothing_to_dispatch, s)
{
    assert_int_equal(rlock_client_fd(s->rival->client), -1);
    assert_code(rlock_client_dispatch(s->rival->client), RLOCK_EINVAL);
    assert_int_equal(rlock_client_fd(NULL), -1);
    assert_code(rlock_client_dispatch(NULL), RLOCK_EINVAL);
}

struct nested {
    struct completion completion;
    struct rlock_client *client;
    int dispatched;
    bool closed;
};

static void on_done(struct rlock_op *op, void *payload)
{
    struct nested *nested = payload;

    nested->dispatched = rlock_client_dispatch(nested->client);
    nested->closed = rlock_client_close(nested->client) == NULL;
    completion_tell(op, &nested->completion);
}

SCENE_TEST(a_callback_neither_dispatches_nor_closes, s)
{
    struct nested nested = {.completion = COMPLETION, .client = s->user->client};

    assert_code(rlock_lock_async(s->user->members[0], 0, RLOCK_TAKE(.owner = OWNER), on_done,
                                 &nested, NULL),
                0);
    assert_code(await(s->user, &nested.completion), 0);
    assert_code(nested.dispatched, RLOCK_EDEADLOCK);
    assert_false(nested.closed);
    assert_code(leave(s->user, s->user->members[0], OWNER), 0);
}

/* ---- When the loop is woken ---- */

SCENE_TEST(an_idle_client_lets_the_loop_sleep, s)
{
    assert_code(take(s->user, s->user->lock, 5000, RLOCK_TAKE(.owner = OWNER)), 0);
    (void)run_for(s->user, 300); /* what followed the grant */
    assert_in_range(run_for(s->user, 1000), 0, 10);
    assert_code(leave(s->user, s->user->lock, OWNER), 0);
}

SCENE_TEST(a_waiter_is_woken_by_the_release, s)
{
    struct rlock_handle *multi = user_multi(s->user, s->user->members[0], s->user->members[1]);
    struct rlock_handle *locks[] = {s->user->members[0], multi, s->user->lock};

    for (size_t i = 0; i < 3; i++) {
        struct completion completion = COMPLETION;
        int64_t since_us;

        for (size_t k = 0; k < SERVERS; k++) {
            assert_code(TAKE(s->rival->members[k], 5000, .owner = OTHER), 0);
        }
        assert_code(rlock_lock_async(locks[i], RLOCK_FOREVER, RLOCK_TAKE(.owner = OWNER),
                                     completion_tell, &completion, NULL),
                    0);
        (void)run_for(s->user, 300);
        assert_false(completion_is_there(&completion));
        for (size_t k = 0; k < SERVERS; k++) {
            assert_code(rlock_unlock_as(s->rival->members[k], OTHER), 0);
        }
        since_us = test_now_us();
        assert_code(await(s->user, &completion), 0);
        assert_in_time(since_us, 500000 * test_slack());
        assert_code(leave(s->user, locks[i], OWNER), 0);
    }
}

static void *begin_elsewhere(void *arg)
{
    struct scene *s = arg;

    (void)usleep(50000);
    TEST_CHECK(rlock_unlock_async(s->user->members[0], OWNER, NULL, NULL, NULL) == 0);
    return NULL;
}

SCENE_TEST(a_call_of_another_thread_wakes_the_loop, s)
{
    pthread_t thread;

    assert_code(take(s->user, s->user->members[0], 0, RLOCK_TAKE(.owner = OWNER)), 0);
    (void)run_for(s->user, 100);
    assert_int_equal(pthread_create(&thread, NULL, begin_elsewhere, s), 0);
    RUN_UNTIL(s->user, !rlock_is_valid_as(s->user->members[0], OWNER) && !fixture_is_held(&s->f));
    (void)pthread_join(thread, NULL);
}

SCENE_TEST(a_cancel_signal_wakes_the_loop, s)
{
    struct completion completion = COMPLETION;
    struct rlock_cancel *cancel;

    assert_code(rlock_cancel_new(&cancel), 0);
    assert_code(TAKE(s->rival->members[0], 0, .owner = OTHER), 0);
    assert_code(rlock_lock_async(s->user->members[0], RLOCK_FOREVER,
                                 RLOCK_TAKE(.owner = OWNER, .cancel = cancel), completion_tell,
                                 &completion, NULL),
                0);
    (void)run_for(s->user, 100);
    rlock_cancel_fire(cancel);
    assert_code(await(s->user, &completion), RLOCK_ECANCELED);
    cancel = rlock_cancel_free(cancel);
    assert_code(rlock_unlock_as(s->rival->members[0], OTHER), 0);
}

/* ---- Renewal ---- */

FIXTURE_TEST(a_loop_that_runs_keeps_its_holds, f)
{
    struct rlock_client_opts opts = looped();
    struct user *user;

    opts.renewed_lease_ms = 600 * test_slack();
    user = user_open(f, opts);
    assert_code(take(user, user->lock, 0, RLOCK_TAKE(.owner = OWNER)), 0);
    (void)run_for(user, 3 * opts.renewed_lease_ms / 2);
    assert_true(rlock_is_valid_as(user->lock, OWNER));
    assert_true(fixture_is_held(f));
    assert_code(leave(user, user->lock, OWNER), 0);
}

FIXTURE_TEST(a_loop_that_stood_still_has_lost_its_holds_and_is_told, f)
{
    struct rlock_client_opts opts = looped();
    struct user *user;

    opts.renewed_lease_ms = 300;
    user = user_open(f, opts);
    assert_code(take(user, user->lock, 0, RLOCK_TAKE(.owner = OWNER)), 0);
    assert_true(TEST_EVENTUALLY(!rlock_is_valid_as(user->lock, OWNER), 5000)); /* no dispatch */
    assert_int_equal(user_losses(user), 0);
    RUN_UNTIL(user, user_losses(user) == 1);
    assert_int_equal(user_last_loss(user)->loss.reason, RLOCK_LOST_EXPIRED);
    assert_code(leave(user, user->lock, OWNER), RLOCK_ELOST);
}

/* ---- Faults, and the end ---- */

SCENE_TEST(connections_that_break_are_made_anew, s)
{
    for (int i = 0; i < 5; i++) {
        assert_code(take(s->user, s->user->lock, 5000, RLOCK_TAKE(.owner = OWNER)), 0);
        for (size_t k = 0; k < SERVERS; k++) {
            proxy_cut_all(s->f.proxies[k], PROXY_ANY);
        }
        assert_code(leave(s->user, s->user->lock, OWNER), 0);
    }
}

SCENE_TEST(to_close_runs_what_is_left, s)
{
    struct completion taken = COMPLETION, queued = COMPLETION, seen = COMPLETION;

    assert_code(take(s->user, s->user->members[1], 5000, RLOCK_TAKE(.owner = OWNER)), 0);
    assert_code(TAKE(s->rival->members[0], 0, .owner = OTHER), 0);
    assert_code(rlock_lock_async(s->user->members[0], RLOCK_FOREVER, RLOCK_TAKE(.owner = OWNER),
                                 completion_tell, &taken, NULL),
                0);
    assert_code(rlock_lock_async(s->user->lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = OWNER + 2),
                                 completion_tell, &queued, NULL),
                0);
    assert_code(rlock_inspect_async(s->user->lock, completion_tell, &seen, NULL), 0);
    for (size_t i = 0; i < SERVERS; i++) {
        s->user->clients[i] = rlock_client_close(s->user->clients[i]);
    }
    assert_true(completion_is_there(&taken) && completion_is_there(&queued) &&
                completion_is_there(&seen));
    assert_code(taken.code, RLOCK_ECLOSED);
    assert_true(pthread_equal(taken.thread, pthread_self()));
    assert_true(fixture_wait_held(&s->f, true)); /* the rival's; what this client held is free: */
    assert_code(TAKE(s->rival->members[1], 0, .owner = OTHER), 0);
    assert_code(rlock_unlock_as(s->rival->members[1], OTHER), 0);
    assert_code(rlock_unlock_as(s->rival->members[0], OTHER), 0);
}

SCENE_TEST(to_close_against_a_stopped_server_is_bounded, s)
{
    struct completion taken = COMPLETION;
    int64_t since_us;

    assert_code(take(s->user, s->user->members[0], 0, RLOCK_TAKE(.owner = OWNER, .lease_ms = 1000)),
                0);
    test_server_freeze(s->f.servers[0]);
    assert_code(rlock_lock_async(s->user->lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = OTHER),
                                 completion_tell, &taken, NULL),
                0);
    since_us = test_now_us();
    s->user->client = rlock_client_close(s->user->client);
    assert_in_time(since_us, (1000 * test_slack() + CALL_LATE_MS) * 2000);
    test_server_thaw(s->f.servers[0]);
    for (size_t i = 1; i < SERVERS; i++) {
        s->user->clients[i] = rlock_client_close(s->user->clients[i]);
    }
    assert_true(completion_is_there(&taken));
}
