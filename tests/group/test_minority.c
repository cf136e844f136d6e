/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a minority of dead or silent servers costs a RedLock: little. Processes of several threads
 * take one lock on three servers, hold it and pause for up to five milliseconds each.
 *
 * What a minority in doubt changes: nothing, where the other members prove the outcome.
 */
#include <sys/mman.h>

#include "support/stall.h"
#include "support/waiter.h"

enum { PROCESSES = 2, WORKERS = 4, WINDOW_MS = 2000 };

struct shared {
    _Atomic bool stop;
    _Atomic uint64_t grants;
};

struct rush {
    struct fixture f;
    struct shared *shared;
    struct test_child *children[PROCESSES];
    size_t process; /* in a child: its own */
};

struct worker {
    const struct rush *rush;
    const struct user *user;
    pthread_t thread;
    uint64_t id, random;
};

static void pass_us(int64_t us)
{
    const int64_t end_us = test_now_us() + us;

    while (test_pause_until(end_us)) {
    }
}

static void pause_a_little(struct worker *worker)
{
    worker->random = worker->random * 6364136223846793005U + 1442695040888963407U;
    pass_us((int64_t)(worker->random >> 33) % 5000);
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct rlock_handle *lock = worker->user->lock;

    while (!atomic_load(&worker->rush->shared->stop)) {
        const int code = rlock_lock_for(lock, 2000, NULL, NULL);

        if (code == 0) {
            witness_enter(worker->rush->f.witness, 0, worker->id);
            atomic_fetch_add(&worker->rush->shared->grants, 1);
            pause_a_little(worker);
            witness_leave(worker->rush->f.witness, 0, worker->id);
            (void)rlock_unlock(lock);
        }
        pause_a_little(worker);
    }
    return NULL;
}

static int process_main(struct test_peer *peer, void *payload)
{
    struct rush *rush = payload;
    struct worker workers[WORKERS];
    struct user *user;

    (void)peer;
    user = user_open(&rush->f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = 30000));
    for (size_t i = 0; i < WORKERS; i++) {
        const uint64_t id = rush->process * WORKERS + i + 1;

        workers[i] = (struct worker){.rush = rush, .user = user, .id = id, .random = id * 7919};
        TEST_CHECK(pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) == 0);
    }
    for (size_t i = 0; i < WORKERS; i++) {
        TEST_CHECK(pthread_join(workers[i].thread, NULL) == 0);
    }
    user_close(user);
    return 0;
}

static uint64_t grants_in_a_window(const struct rush *rush)
{
    const uint64_t before = atomic_load(&rush->shared->grants);

    pass_us(WINDOW_MS * 1000);
    return atomic_load(&rush->shared->grants) - before;
}

static void rush_open(struct rush *rush)
{
    fixture_open(&rush->f, &(struct fixture_opts){.servers = 3});
    rush->shared = mmap(NULL, sizeof(*rush->shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(rush->shared != MAP_FAILED);
    for (size_t i = 0; i < PROCESSES; i++) {
        rush->process = i;
        rush->children[i] = test_child_spawn(process_main, rush);
    }
    assert_true(TEST_EVENTUALLY(atomic_load(&rush->shared->grants) > 50, 10000));
}

static void rush_close(struct rush *rush)
{
    atomic_store(&rush->shared->stop, true);
    for (size_t i = 0; i < PROCESSES; i++) {
        assert_int_equal(test_child_wait(rush->children[i], 20000), 0);
    }
    assert_true(TEST_EVENTUALLY(fixture_holding(&rush->f, "a") == 0, 5000));
    (void)munmap(rush->shared, sizeof(*rush->shared));
    fixture_close(&rush->f);
}

/* Whether it leaves at least seven tenths of the grants, or half of that among other tests, which
 * take more time from the one window than from the other. RLOCK_TEST_WHOLE: all of it. */
static bool costs_little(void (*strike)(struct test_server *server),
                         void (*heal)(struct test_server *server))
{
    struct rush rush;
    uint64_t all, most;
    int64_t since_us;

    rush_open(&rush);
    since_us = test_now_us();
    all = grants_in_a_window(&rush);
    strike(rush.f.servers[1]);
    most = grants_in_a_window(&rush);
    heal(rush.f.servers[1]);
    rush_close(&rush);
    print_message("%llu grants with all servers, %llu with two of three\n", (unsigned long long)all,
                  (unsigned long long)most);
    return most * 100 >= all * (getenv("RLOCK_TEST_WHOLE") != NULL ? 70 : 35) ||
           test_missed(since_us, test_elapsed_us(since_us) / 10);
}

static void start_again(struct test_server *server)
{
    test_server_restart(server, false);
}

TEST(a_dead_server_costs_few_grants)
{
    assert_true(costs_little(test_server_kill, start_again));
}

TEST(a_stopped_server_costs_few_grants)
{
    assert_true(costs_little(test_server_freeze, test_server_thaw));
}

/* Each time another owner: the same one's last release may be on its way still. */
static int64_t took_us(const struct user *user)
{
    const uint64_t owner = rlock_owner_new(user->clients[0]);
    int64_t since_us, us;

    assert_true(TEST_EVENTUALLY(fixture_holding(user->f, "a") == 0, 5000));
    since_us = test_now_us();
    assert_code(rlock_lock_for(user->lock, 5000, RLOCK_TAKE(.owner = owner), NULL), 0);
    us = test_elapsed_us(since_us);
    assert_code(rlock_unlock_as(user->lock, owner), 0);
    return us;
}

/* One is near, one far, one dead: the second answer decides. */
FIXTURE_WITH_TEST(beside_a_far_server_a_dead_one_costs_nothing, f, .servers = 3,
                  .proxy = PROXY_ON_UNIX)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 1000));
    int64_t least_us = INT64_MAX;

    proxy_delay_us(f->proxies[1], 25000);
    (void)took_us(user);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
    proxy_refuse(f->proxies[2], true);
    proxy_cut_all(f->proxies[2], PROXY_ANY);
    for (int i = 0; i < 10; i++) { /* the machine may stand still in some of them */
        const int64_t us = took_us(user);

        least_us = us < least_us ? us : least_us;
    }
    assert_in_range(least_us, 50000, 55000);
    proxy_refuse(f->proxies[2], false);
}

/* ---- A minority in doubt ---- */

enum { BOUNCING = 2, SERVERS = 5, TRIES = 10 };

/* These servers carry out what they are asked, and their answers never arrive. The answers of the
 * others take a while, so that the doubt is there first. */
static void bounce(const struct fixture *f)
{
    for (size_t i = 0; i < f->n; i++) {
        if (i < BOUNCING) {
            proxy_add(f->proxies[i], &(struct proxy_rule){.act = PROXY_CUT_REPLY,
                                                          .command = "EVALSHA",
                                                          .times = PROXY_ALWAYS});
        } else {
            proxy_delay_us(f->proxies[i], 10000);
        }
    }
}

static void stop_bouncing(const struct fixture *f)
{
    for (size_t i = 0; i < f->n; i++) {
        proxy_remove_all(f->proxies[i]);
        proxy_delay_us(f->proxies[i], 0);
    }
}

FIXTURE_WITH_TEST(a_minority_in_doubt_leaves_the_answer_to_the_others, f, .servers = SERVERS,
                  .proxy = PROXY_ON_UNIX)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 1000 * test_slack()));
    struct user *holder = user_open(fixture_view(f), USUAL);
    const int64_t wait_ms = 200;

    user_take_everywhere(user);
    assert_code(rlock_unlock(user->lock), 0);
    for (size_t i = BOUNCING; i < SERVERS; i++) {
        assert_code(rlock_lock_for(holder->members[i], 5000, NULL, NULL), 0);
    }
    bounce(f);
    for (size_t i = 0; i < TRIES; i++) {
        assert_code(rlock_try_lock(user->lock), RLOCK_EBUSY);
    }
    assert_code(rlock_lock_for(user->lock, wait_ms, NULL, NULL), RLOCK_ETIMEDOUT);
    assert_true(proxy_stats(f->proxies[0]).cuts > 0 && proxy_stats(f->proxies[1]).cuts > 0);
    stop_bouncing(f);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == SERVERS - BOUNCING, 20000));
    for (size_t i = BOUNCING; i < SERVERS; i++) {
        assert_code(rlock_unlock(holder->members[i]), 0);
    }
    assert_code(user_visit(user, 5000, NULL), 0);
}

/* The release of a member waits behind another call of the owner, which the server does not answer.
 * What is left of the validity of that hold proves nothing: the release may run at any moment. */
FIXTURE_WITH_TEST(a_member_that_is_being_released_does_not_count, f, .servers = 3,
                  .proxy = PROXY_ON_UNIX)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 10000));
    const struct rlock_take *take = RLOCK_TAKE(.owner = 7);
    struct waiter nested;
    uint64_t requests;

    assert_code(rlock_lock_for(user->lock, 20000, take, NULL), 0);
    /* the client has heard that, too: most servers were enough for the call */
    assert_true(TEST_EVENTUALLY(rlock_is_valid_as(user->members[2], 7), 5000));
    proxy_go_silent(f->proxies[2], PROXY_ANY, true);
    requests = proxy_stats(f->proxies[2]).requests;
    waiter_start_on(&nested, NULL, user->members[2], 20000, take);
    assert_true(TEST_EVENTUALLY(proxy_stats(f->proxies[2]).requests > requests, 5000));
    assert_code(rlock_unlock_as(user->lock, 7), 0);
    assert_code(rlock_lock_for(user->lock, 5000, take, NULL), 0);
    assert_true(rlock_is_valid_as(user->lock, 7));
    user->clients[0] = rlock_client_close(user->clients[0]);
    assert_false(rlock_is_valid_as(user->lock, 7));
    assert_int_equal(user_wait_loss(user, 1), RLOCK_LOST_CLOSED);
    proxy_go_silent(f->proxies[2], PROXY_ANY, false);
    assert_code(waiter_join(&nested), 0);
    assert_code(nested.unlock_code, 0);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
}
