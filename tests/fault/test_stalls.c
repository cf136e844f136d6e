/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the program that stand still inside a call: in a signal handler, or since the
 * scheduler passes them over. Whoever keeps watch for all may be one of them; the others' calls and
 * the renewals go on without it.
 */
#include "support/counts.h"
#include "support/stall.h"
#include "support/waiter.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define K_CHANNEL "redisson_lock__channel:{k}"
#define STALL_MS 5000 /* how long a thread stands still: what depended on it would take as long */
#define LEASE_MS 600  /* of holds that are renewed while it does */

enum { PATIENT_MS = 60000 };

/* ---- A thread that stands still ---- */

static _Atomic int standing; /* threads that do */
static _Atomic bool goes_on;

static void stand_still(int number)
{
    const int64_t until_us = test_now_us() + STALL_MS * 1000;

    (void)number;
    (void)atomic_fetch_add(&standing, 1);
    while (!atomic_load(&goes_on) && test_now_us() < until_us) {
        (void)usleep(1000);
    }
    (void)atomic_fetch_sub(&standing, 1);
}

static void stop_thread(pthread_t thread)
{
    const int before = atomic_load(&standing);

    TEST_CHECK(pthread_kill(thread, SIGUSR1) == 0);
    assert_true(TEST_EVENTUALLY(atomic_load(&standing) == before + 1, 2000));
}

/* ---- The fixture: somebody else has "k", a renewed hold is on "h", others work with "a" ---- */

struct stage {
    struct fixture f;
    struct user *user;
    struct rlock_handle *k, *held;
};

static void stage_open(struct stage *stage)
{
    const struct sigaction action = {.sa_handler = stand_still, .sa_flags = SA_RESTART};

    atomic_store(&goes_on, false);
    test_must(sigaction(SIGUSR1, &action, NULL), "sigaction");
    fixture_open(&stage->f, NULL);
    stage->user = user_open(&stage->f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = test_ms(LEASE_MS),
                                                          .op_timeout_ms = 30000));
    stage->k = user_lock(stage->user, "k");
    stage->held = user_lock(stage->user, "h");
    test_server_do(stage->f.server, "HSET k somebody:1 1");
    assert_code(rlock_try_lock(stage->held), 0);
}

static void free_k(const struct stage *stage)
{
    test_server_do(stage->f.server, "DEL k");
    test_server_do(stage->f.server, "PUBLISH " K_CHANNEL " 0");
}

static void stage_close(struct stage *stage)
{
    assert_true(rlock_is_valid(stage->held));
    assert_code(rlock_unlock(stage->held), 0);
    assert_int_equal(user_losses(stage->user), 0);
    fixture_close(&stage->f);
}

#define STALL_TEST(name, stage)                                                                    \
    TEST_AROUND(name, struct stage, stage, stage_open(stage), stage_close(stage))

/* A thread waits for "k", and has gone to sleep over it. */
static void wait_for_k(struct stage *stage, struct waiter *waiter, int64_t wait_ms,
                       const struct rlock_take *take)
{
    waiter_start_on(waiter, stage->user, stage->k, wait_ms, take);
    assert_true(TEST_EVENTUALLY(test_server_waiters(stage->f.server, K_CHANNEL) == 1, 5000));
    assert_true(TEST_EVENTUALLY(test_thread_sleeps(atomic_load(&waiter->id)), 5000));
}

/* All of it in much less time than anybody stands still, and so long that a hold needs renewal. */
static void others_go_on(struct stage *stage)
{
    const int64_t since_us = test_now_us();
    size_t visits = 0;

    while (test_elapsed_us(since_us) < test_ms(LEASE_MS) * 2000) {
        const int64_t visit_us = test_now_us();

        assert_code(user_visit(stage->user, 0, NULL), 0);
        assert_within(visit_us, 1000);
        assert_true(rlock_is_valid(stage->held) ||
                    test_missed(visit_us, test_ms(LEASE_MS) * 1000 / 3));
        visits++;
    }
    assert_true(
        visits > 50 ||
        test_missed(since_us,
                    test_elapsed_us(since_us) /
                        10)); /* only the first ones waited for the service thread to look */
    assert_code(rlock_lock_for(stage->k, 100, NULL, NULL), RLOCK_ETIMEDOUT);
    assert_within(since_us, test_ms(LEASE_MS) * 2 + 100 + 1000);
}

STALL_TEST(whoever_keeps_watch_may_stand_still, stage)
{
    struct waiter leader;

    wait_for_k(stage, &leader, PATIENT_MS, NULL);
    stop_thread(leader.thread);
    others_go_on(stage);
    atomic_store(&goes_on, true);
    free_k(stage);
    assert_int_equal(waiter_join(&leader), 0);
}

/* ThreadSanitizer lets no signal through to a thread in a system call that it does not know. */
#ifdef __SANITIZE_THREAD__
#define SIGNALS_REACH_ALL false
#else
#define SIGNALS_REACH_ALL true
#endif

/* Who was parked is given the watch while it stands still, and so takes notice of nothing. */
TEST(whoever_is_given_the_watch_may_stand_still)
{
    struct stage stage;
    struct rlock_cancel *cancel = NULL;
    struct waiter leader, parked;

    if (!SIGNALS_REACH_ALL) {
        skip();
    }
    stage_open(&stage);
    assert_code(rlock_cancel_new(&cancel), 0);
    wait_for_k(&stage, &leader, 60000, RLOCK_TAKE(.cancel = cancel));
    wait_for_k(&stage, &parked, PATIENT_MS, NULL);
    stop_thread(parked.thread);
    rlock_cancel_fire(cancel);
    assert_int_equal(waiter_join(&leader), RLOCK_ECANCELED);
    others_go_on(&stage);
    atomic_store(&goes_on, true);
    free_k(&stage);
    assert_int_equal(waiter_join(&parked), 0);
    cancel = rlock_cancel_free(cancel);
    stage_close(&stage);
}

/* ---- Passed over by the scheduler, which is as good as stopped ---- */

struct spinner {
    pthread_t thread;
    _Atomic bool stop;
};

static void *spin(void *arg)
{
    struct spinner *spinner = arg;

    while (!atomic_load(&spinner->stop)) {
    }
    return NULL;
}

static void *wait_idly(void *arg)
{
    struct waiter *waiter = arg;
    const struct sched_param param = {0};
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(0, &one);
    TEST_CHECK(pthread_setaffinity_np(pthread_self(), sizeof(one), &one) == 0);
    TEST_CHECK(sched_setscheduler(0, SCHED_IDLE, &param) == 0);
    waiter->code = rlock_lock_for(waiter->lock, PATIENT_MS, NULL, NULL);
    TEST_CHECK(waiter->code != 0 || rlock_unlock(waiter->lock) == 0);
    return NULL;
}

STALL_TEST(whoever_keeps_watch_may_be_passed_over, stage)
{
    struct waiter leader = {.code = 0};
    struct spinner spinners[4];

    leader.lock = stage->k;
    TEST_CHECK(pthread_create(&leader.thread, NULL, wait_idly, &leader) == 0);
    assert_true(TEST_EVENTUALLY(test_server_waiters(stage->f.server, K_CHANNEL) == 1, 5000));
    for (size_t i = 0; i < 4; i++) {
        cpu_set_t one;

        CPU_ZERO(&one);
        CPU_SET(0, &one);
        atomic_init(&spinners[i].stop, false);
        TEST_CHECK(pthread_create(&spinners[i].thread, NULL, spin, &spinners[i]) == 0);
        TEST_CHECK(pthread_setaffinity_np(spinners[i].thread, sizeof(one), &one) == 0);
    }
    others_go_on(stage);
    for (size_t i = 0; i < 4; i++) {
        atomic_store(&spinners[i].stop, true);
        TEST_CHECK(pthread_join(spinners[i].thread, NULL) == 0);
    }
    free_k(stage);
    TEST_CHECK(pthread_join(leader.thread, NULL) == 0);
    assert_int_equal(leader.code, 0);
}

/* ---- What happens while a thread sleeps, and how often ---- */

static _Thread_local struct user *unheard[2]; /* two until the thread next sleeps; NULL: none */
static pthread_t caller;
static _Atomic bool counts;
static _Atomic size_t polls; /* of the threads of the library */

static bool have_both(struct user *one, struct user *two)
{
    return fixture_keys(one->f) == 2 && counts_of(one->client).waiting == 0 &&
           counts_of(two->client).waiting == 0;
}

/* The servers answer at last. The thread stands still until others have read both answers. */
static void stand_still_until_both_have(void)
{
    struct user *one = unheard[0], *two = unheard[1];

    unheard[0] = NULL;
    proxy_go_silent(one->f->proxy, PROXY_ANY, false);
    proxy_go_silent(two->f->proxy, PROXY_ANY, false);
    TEST_CHECK(TEST_EVENTUALLY(have_both(one, two), 5000));
}

/* The library's poll() is this one. */
int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    const struct timespec pause = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};

    if (atomic_load(&counts) && !pthread_equal(pthread_self(), caller)) {
        (void)atomic_fetch_add(&polls, 1);
    }
    if (unheard[0] != NULL) {
        stand_still_until_both_have();
    }
    return ppoll(fds, n, timeout_ms < 0 ? NULL : &pause, NULL);
}

/* The links come up and both members answer before it looks again which servers they have. */
FIXTURE_WITH_TEST(two_members_on_one_server_are_refused_while_the_caller_hangs, f,
                  .proxy = PROXY_ON_UNIX)
{
    const struct rlock_client_opts opts = *RLOCK_CLIENT_OPTS(.op_timeout_ms = 30000);
    struct fixture *view = fixture_view(f);
    struct rlock_handle *members[2], *lock;
    struct user *one, *two;
    int code;

    proxy_go_silent(f->proxy, PROXY_ANY, true);
    proxy_go_silent(view->proxy, PROXY_ANY, true);
    one = user_open(f, opts);
    two = user_open(view, opts);
    members[0] = one->members[0];
    members[1] = user_lock(two, "b");
    assert_code(rlock_redlock_new(members, 2, RLOCK_OPTS(.max_lease_ms = -1), &lock), 0);
    unheard[0] = one;
    unheard[1] = two;
    code = rlock_try_lock(lock);
    if (code == RLOCK_EINDOUBT) { /* the answers to the members' releases came late */
        assert_true(TEST_EVENTUALLY((code = rlock_try_lock(lock)) != RLOCK_EINDOUBT, 5000));
    }
    assert_code(code, RLOCK_EINVAL);
    assert_non_null(strstr(rlock_detail(), "one server"));
    assert_true(TEST_EVENTUALLY(fixture_keys(f) == 0, 5000));
    lock = rlock_free(lock);
}

/* ---- What it costs ---- */

/* The service thread looks after the leader every 50 ms, not at every command, and not for ever. */
FIXTURE_TEST(looking_after_the_leader_wakes_nobody_for_each_command, f)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = 60000));
    int64_t since_us;

    assert_code(user_visit(user, 0, NULL), 0);
    caller = pthread_self();
    since_us = test_now_us();
    atomic_store(&counts, true);
    for (int i = 0; i < 1000; i++) {
        assert_code(user_visit(user, 0, NULL), 0);
    }
    assert_true(atomic_load(&polls) <= 20 + (size_t)test_elapsed_us(since_us) / 25000);
    (void)usleep(200000); /* there is no event to wait for: it goes to sleep */
    atomic_store(&polls, 0);
    (void)usleep(500000);
    assert_true(atomic_load(&polls) <= 1);
    atomic_store(&counts, false);
}
