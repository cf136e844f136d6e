/* SPDX-License-Identifier: Apache-2.0 */
/* The multi-lock on real servers: all or none, in any order, over clients and kinds. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/completion.h"
#include "support/waiter.h"

struct pair {
    struct fixture f;
    struct user *one, *two;
    struct rlock_handle *b[2],
        *multi[2]; /* of each user: "b" on the last server, and "a" with "b" */
};

static void open_pair(struct pair *pair, size_t servers, struct rlock_client_opts opts)
{
    fixture_open(&pair->f, &(struct fixture_opts){.servers = servers, .redlock = true});
    pair->one = user_open(&pair->f, opts);
    pair->two = user_open(&pair->f, opts);
    pair->b[0] = user_lock_on(pair->one, servers - 1, "b");
    pair->b[1] = user_lock_on(pair->two, servers - 1, "b");
    pair->multi[0] = user_multi(pair->one, pair->one->members[0], pair->b[0]);
    pair->multi[1] =
        user_multi(pair->two, pair->b[1], pair->two->members[0]); /* in another order */
}

static void close_pair(struct pair *pair)
{
    assert_true(TEST_EVENTUALLY(fixture_holding(&pair->f, "a") == 0, 5000));
    assert_true(TEST_EVENTUALLY(fixture_holding(&pair->f, "b") == 0, 5000));
    fixture_close(&pair->f);
}

#define PAIR_TEST(name, pair, servers, opts)                                                       \
    TEST_AROUND(name, struct pair, pair, open_pair(pair, servers, opts), close_pair(pair))

PAIR_TEST(all_members_are_held_or_none, pair, 2, USUAL)
{
    assert_string_equal(rlock_name(pair->multi[0], NULL), "a,b");
    assert_string_equal(rlock_name(pair->multi[1], NULL), "a,b");
    assert_string_equal(rlock_kind(pair->multi[0]), "multi");
    assert_code(rlock_try_lock(pair->multi[0]), 0);
    assert_true(rlock_is_valid(pair->multi[0]));
    assert_int_equal(fixture_holding(&pair->f, "a"), 1);
    assert_int_equal(fixture_holding(&pair->f, "b"), 1);
    assert_code(rlock_try_lock(pair->multi[1]), RLOCK_EBUSY);
    assert_non_null(strstr(rlock_detail(), "held by"));
    assert_code(rlock_try_lock(pair->two->members[0]), RLOCK_EBUSY);
    assert_code(rlock_try_lock(pair->b[1]), RLOCK_EBUSY);
    assert_code(rlock_unlock(pair->multi[0]), 0);
    assert_false(rlock_is_valid(pair->multi[0]));
    assert_code(rlock_unlock(pair->multi[0]), RLOCK_ENOTOWNER);
    assert_code(rlock_try_lock(pair->b[1]), 0);
    assert_code(rlock_try_lock(pair->multi[0]), RLOCK_EBUSY); /* and "a" is given back */
    assert_code(rlock_try_lock(pair->two->members[0]), 0);
    assert_code(rlock_unlock(pair->two->members[0]), 0);
    assert_code(rlock_unlock(pair->b[1]), 0);
}

PAIR_TEST(it_is_looked_at_and_opened_through_its_members, pair, 2, USUAL)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    bool was_locked = true;

    assert_code(rlock_inspect(pair->multi[1], &info), 0);
    assert_false(info.locked);
    assert_int_equal(info.ttl_ms, -2);
    assert_code(rlock_force_unlock(pair->multi[1], &was_locked), 0);
    assert_false(was_locked);
    assert_code(rlock_try_lock(pair->multi[0]), 0);
    assert_code(rlock_inspect(pair->multi[1], &info), 0);
    assert_true(info.locked);
    assert_int_equal(info.holders, 2);
    assert_true(strncmp(info.holder, rlock_client_uuid(pair->one->clients[0]), 36) == 0);
    assert_code(rlock_force_unlock(pair->multi[0], &was_locked), 0);
    assert_true(was_locked);
    assert_true(TEST_EVENTUALLY(user_losses(pair->one) == 1, 5000));
    assert_int_equal(user_last_loss(pair->one)->loss.reason, RLOCK_LOST_FORCED);
    assert_code(rlock_unlock(pair->multi[0]), RLOCK_ELOST);
}

PAIR_TEST(a_wait_ends_at_its_deadline_with_nothing_held, pair, 2, USUAL)
{
    int64_t began_us;

    assert_code(rlock_try_lock(pair->b[1]), 0);
    began_us = test_now_us();
    assert_code(rlock_lock_for(pair->multi[0], 200, NULL, NULL), RLOCK_ETIMEDOUT);
    assert_true(test_elapsed_us(began_us) >= 200000);
    assert_in_time(began_us, 200000 + 250000 * test_slack());
    assert_int_equal(fixture_holding(&pair->f, "a"), 0);
    assert_code(rlock_unlock(pair->b[1]), 0);
}

PAIR_TEST(its_owner_takes_it_and_its_members_again, pair, 2, USUAL)
{
    assert_code(rlock_try_lock(pair->one->members[0]), 0); /* before, … */
    assert_code(rlock_try_lock(pair->multi[0]), 0);
    assert_code(rlock_try_lock(pair->multi[0]), 0);
    assert_int_equal(rlock_hold_count(pair->multi[0]), 2);
    assert_code(rlock_try_lock(pair->b[0]), 0); /* … and after */
    assert_true(test_server_says(pair->f.servers[0], "3", "HVALS a"));
    assert_true(test_server_says(pair->f.servers[1], "3", "HVALS b"));
    assert_code(rlock_unlock(pair->multi[0]), 0);
    assert_true(rlock_is_valid(pair->multi[0]));
    assert_code(rlock_unlock(pair->multi[0]), 0);
    assert_true(test_server_says(pair->f.servers[0], "1", "HVALS a"));
    assert_true(test_server_says(pair->f.servers[1], "1", "HVALS b"));
    assert_code(rlock_unlock(pair->one->members[0]), 0);
    assert_code(rlock_unlock(pair->b[0]), 0);
}

PAIR_TEST(losing_one_loses_all_and_is_told_once, pair, 2,
          *RLOCK_CLIENT_OPTS(.renewed_lease_ms = 600))
{
    assert_code(rlock_try_lock(pair->multi[0]), 0);
    assert_int_equal(test_server_int(pair->f.servers[1], "DEL b"), 1);
    assert_true(TEST_EVENTUALLY(user_losses(pair->one) == 1, 5000));
    assert_string_equal(user_last_loss(pair->one)->loss.kind, "multi");
    assert_string_equal(user_last_loss(pair->one)->name, "a,b");
    assert_int_equal(user_last_loss(pair->one)->loss.reason, RLOCK_LOST_DELETED);
    assert_false(rlock_is_valid(pair->multi[0]));
    assert_true(TEST_EVENTUALLY(fixture_holding(&pair->f, "a") == 0, 5000)); /* given back */
    assert_code(rlock_try_lock(pair->multi[0]), RLOCK_ELOST);
    assert_code(rlock_unlock(pair->multi[0]), RLOCK_ELOST);
    assert_code(rlock_try_lock(pair->multi[0]), 0);
    assert_code(rlock_unlock(pair->multi[0]), 0);
    assert_int_equal(user_losses(pair->one), 1);
}

PAIR_TEST(its_loss_counts_the_levels_that_are_still_to_be_unlocked, pair, 2, USUAL)
{
    for (int i = 0; i < 3; i++) {
        assert_code(rlock_try_lock(pair->multi[0]), 0);
    }
    assert_code(rlock_unlock(pair->multi[0]), 0);
    assert_code(rlock_force_unlock(pair->multi[0], NULL), 0);
    assert_true(TEST_EVENTUALLY(user_losses(pair->one) == 1, 5000));
    assert_int_equal(user_last_loss(pair->one)->loss.levels, 2);
    assert_code(rlock_unlock(pair->multi[0]), RLOCK_ELOST);
    assert_code(rlock_unlock(pair->multi[0]), RLOCK_ELOST);
    assert_code(rlock_unlock(pair->multi[0]), RLOCK_ENOTOWNER);
}

PAIR_TEST(a_fixed_lease_lasts_until_the_last_member_is_there, pair, 2, USUAL)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    int64_t began_us = test_now_us();

    assert_code(rlock_lock_for(pair->b[1], 0, RLOCK_TAKE(.lease_ms = 900), NULL), 0);
    assert_code(rlock_lock_for(pair->multi[0], 10000, RLOCK_TAKE(.lease_ms = 300), &grant), 0);
    assert_true(test_elapsed_us(began_us) > 500000); /* longer than its own lease */
    assert_in_range(grant.valid_ms, 100, 300);
    assert_int_equal(user_losses(pair->one), 0);
    assert_true(TEST_EVENTUALLY(user_losses(pair->one) == 1, 5000)); /* and then it ends */
    assert_int_equal(user_last_loss(pair->one)->loss.reason, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock(pair->multi[0]), RLOCK_ELOST);
    assert_code(rlock_unlock(pair->b[1]), RLOCK_ELOST);
}

/* ---- Cancelling ---- */

PAIR_TEST(a_wait_can_be_cancelled, pair, 2, USUAL)
{
    struct waiter waiter;
    struct rlock_cancel *cancel;

    assert_code(rlock_cancel_new(&cancel), 0);
    assert_code(rlock_try_lock(pair->b[1]), 0);
    waiter_start_on(&waiter, NULL, pair->multi[0], RLOCK_FOREVER, RLOCK_TAKE(.cancel = cancel));
    assert_true(TEST_EVENTUALLY(fixture_holding(&pair->f, "a") == 1, 5000)); /* waits for "b" */
    rlock_cancel_fire(cancel);
    assert_int_equal(waiter_join(&waiter), RLOCK_ECANCELED);
    assert_true(TEST_EVENTUALLY(fixture_holding(&pair->f, "a") == 0, 1000));
    assert_code(rlock_unlock(pair->b[1]), 0);
    cancel = rlock_cancel_free(cancel);
}

PAIR_TEST(a_cancel_that_came_first_ends_it_too, pair, 2, USUAL)
{
    struct rlock_cancel *cancel;
    int64_t began_us;

    assert_code(rlock_cancel_new(&cancel), 0);
    rlock_cancel_fire(cancel);
    assert_code(rlock_try_lock(pair->b[1]), 0);
    for (int i = 0; i < 3; i++) { /* a signal that was used before rings no more */
        began_us = test_now_us();
        assert_code(
            rlock_lock_for(pair->multi[0], RLOCK_FOREVER, RLOCK_TAKE(.cancel = cancel), NULL),
            RLOCK_ECANCELED);
        assert_in_time(began_us, 1000000);
        assert_true(TEST_EVENTUALLY(fixture_holding(&pair->f, "a") == 0, 1000));
    }
    assert_code(rlock_unlock(pair->b[1]), 0);
    cancel = rlock_cancel_free(cancel);
}

/* ---- Ends that nobody unlocks ---- */

static void *take_and_exit(void *arg)
{
    assert_code(rlock_try_lock(arg), 0);
    return NULL;
}

PAIR_TEST(a_thread_that_exits_loses_it, pair, 2, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = 600))
{
    pthread_t thread;

    TEST_CHECK(pthread_create(&thread, NULL, take_and_exit, pair->multi[0]) == 0);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    assert_true(TEST_EVENTUALLY(user_losses(pair->one) == 1, 5000));
    assert_string_equal(user_last_loss(pair->one)->loss.kind, "multi");
    assert_int_equal(user_last_loss(pair->one)->loss.reason, RLOCK_LOST_THREAD_EXITED);
    assert_code(rlock_lock_for(pair->multi[1], 10000, NULL, NULL), 0);
    assert_code(rlock_unlock(pair->multi[1]), 0);
}

FIXTURE_WITH_TEST(closing_one_client_loses_it_and_leaves_the_others_free, f, .servers = 2)
{
    struct rlock_client *clients[2];
    struct rlock_handle *members[2], *multi;

    for (size_t i = 0; i < 2;
         i++) { /* without callbacks: what is lost is given back all the same */
        assert_code(
            rlock_client_open(RLOCK_CLIENT_OPTS(.url = test_server_url(f->servers[i]),
                                                .ca_file = test_server_cacert(f->servers[i])),
                              &clients[i]),
            0);
        assert_code(rlock_reentrant_new(clients[i], "a", NULL, &members[i]), 0);
    }
    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    assert_code(rlock_try_lock(multi), 0);
    assert_int_equal(fixture_holding(f, "a"), 2);
    clients[0] = rlock_client_close(clients[0]);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
    assert_false(rlock_is_valid(multi));
    assert_code(rlock_unlock(multi), RLOCK_ECLOSED);
    multi = rlock_free(multi);
    members[0] = rlock_free(members[0]);
    members[1] = rlock_free(members[1]);
    clients[1] = rlock_client_close(clients[1]);
}

/* ---- Unlocks while the clients close ---- */

enum { LEAVERS = 8, CLOSES = 15 };

/* A thread that holds a lock of its own, and unlocks it when all do. */
struct leaver {
    pthread_t thread;
    struct rlock_handle *lock;
    pthread_barrier_t *start;
    int code;
};

static void *leave_at_start(void *arg)
{
    struct leaver *leaver = arg;

    TEST_CHECK(rlock_lock_for(leaver->lock, 20000, NULL, NULL) == 0);
    (void)pthread_barrier_wait(leaver->start);
    leaver->code = rlock_unlock(leaver->lock);
    return NULL;
}

/* The same by an async call, for an owner that was given by id. */
static void *begin_to_leave_at_start(void *arg)
{
    struct leaver *leaver = arg;
    struct completion left = COMPLETION;

    TEST_CHECK(rlock_lock_for(leaver->lock, 20000, RLOCK_TAKE(.owner = 1), NULL) == 0);
    (void)pthread_barrier_wait(leaver->start);
    leaver->code = rlock_unlock_async(leaver->lock, 1, completion_tell, &left, NULL);
    if (leaver->code == 0) {
        leaver->code = completion_await(&left);
    }
    return NULL;
}

/* A multi-lock or RedLock of a name of its own, over the user's clients. */
static struct rlock_handle *lock_of(struct user *user, size_t i, bool redlock)
{
    struct rlock_handle *members[3], *lock;
    char name[16];

    test_text(name, sizeof(name), "n%zu", i);
    for (size_t j = 0; j < 3; j++) {
        members[j] = user_lock_on(user, j, name);
    }
    assert_code(redlock ? rlock_redlock_new(members, 3, RLOCK_OPTS(.max_lease_ms = -1), &lock)
                        : rlock_multi_new(members, 3, NULL, &lock),
                0);
    return lock;
}

static void unlock_while_closing(struct fixture *f, bool redlock, void *(*leave)(void *))
{
    struct user *user = user_open(f, USUAL);
    struct leaver leavers[LEAVERS];
    pthread_barrier_t start;

    TEST_CHECK(pthread_barrier_init(&start, NULL, LEAVERS + 1) == 0);
    for (size_t i = 0; i < LEAVERS; i++) {
        leavers[i] = (struct leaver){.lock = lock_of(user, i, redlock), .start = &start};
        TEST_CHECK(pthread_create(&leavers[i].thread, NULL, leave, &leavers[i]) == 0);
    }
    (void)pthread_barrier_wait(&start);
    for (size_t i = 0; i < 3; i++) {
        user->clients[i] = rlock_client_close(user->clients[i]);
    }
    for (size_t i = 0; i < LEAVERS; i++) {
        TEST_CHECK(pthread_join(leavers[i].thread, NULL) == 0);
        if (leavers[i].code != 0) {
            assert_code(leavers[i].code, RLOCK_ECLOSED);
        }
        leavers[i].lock = rlock_free(leavers[i].lock);
    }
    (void)pthread_barrier_destroy(&start);
    user_close(user);
}

FIXTURE_WITH_TEST(an_unlock_while_the_clients_close_says_that_they_are_closed, f, .servers = 3)
{
    for (int i = 0; i < 2 * CLOSES; i++) {
        unlock_while_closing(f, i % 2 != 0, leave_at_start);
    }
}

FIXTURE_WITH_TEST(an_async_unlock_while_the_clients_close_says_that_they_are_closed, f,
                  .servers = 3)
{
    for (int i = 0; i < 2 * CLOSES; i++) {
        unlock_while_closing(f, i % 2 != 0, begin_to_leave_at_start);
    }
}

PAIR_TEST(a_release_that_is_refused_is_tried_again, pair, 2,
          *RLOCK_CLIENT_OPTS(.op_timeout_ms = 500))
{
    assert_code(rlock_try_lock(pair->multi[0]), 0);
    test_server_do(pair->f.servers[1], "CONFIG SET min-replicas-to-write 1");
    assert_int_not_equal(rlock_unlock(pair->multi[0]), 0);
    assert_int_equal(fixture_holding(&pair->f, "b"), 1);
    test_server_do(pair->f.servers[1], "CONFIG SET min-replicas-to-write 0");
    assert_true(TEST_EVENTUALLY(fixture_holding(&pair->f, "b") == 0, 10000));
    assert_code(rlock_lock_for(pair->multi[0], 5000, NULL, NULL), 0);
    assert_code(rlock_unlock(pair->multi[0]), 0);
}

/* ---- Kinds, and multi-locks as members ---- */

PAIR_TEST(members_may_be_of_any_kind_and_multis_too, pair, 1, USUAL)
{
    struct rlock_handle *kinds[5], *inner, *outer;
    struct rlock_client *client;

    client = pair->one->clients[0];
    assert_code(rlock_fair_new(client, "f", NULL, &kinds[0]), 0);
    assert_code(rlock_read_new(client, "r", NULL, &kinds[1]), 0);
    assert_code(rlock_write_new(client, "w", NULL, &kinds[2]), 0);
    assert_code(rlock_fenced_new(client, "t", NULL, &kinds[3]), 0);
    assert_code(rlock_multi_new(kinds, 4, NULL, &inner), 0);
    assert_code(rlock_multi_new((struct rlock_handle *[]){inner, pair->multi[0]}, 2, NULL, &outer),
                0);
    assert_string_equal(rlock_name(outer, NULL), "a,b,f,r,t,w");
    for (int i = 0; i < 3; i++) {
        assert_code(rlock_try_lock(outer), 0);
        assert_code(rlock_try_lock(pair->two->members[0]), RLOCK_EBUSY);
        assert_int_equal(fixture_holding(&pair->f, "w"), 1);
        assert_code(rlock_unlock(outer), 0);
        assert_int_equal(fixture_holding(&pair->f, "w"), 0);
    }
    assert_code(rlock_write_new(client, "r", NULL, &kinds[4]), 0);
    assert_code(rlock_multi_new((struct rlock_handle *[]){kinds[1], kinds[4]}, 2, NULL, &inner),
                RLOCK_EINVAL);
    assert_code(rlock_multi_new((struct rlock_handle *[]){kinds[1], kinds[1]}, 2, NULL, &inner),
                RLOCK_EINVAL);
    assert_code(rlock_multi_new(&pair->one->lock, 1, NULL, &inner), RLOCK_ENOTSUP);
    for (size_t i = 0; i < 5; i++) {
        kinds[i] = rlock_free(kinds[i]);
    }
    inner = rlock_free(inner);
    outer = rlock_free(outer);
    test_server_do(pair->f.servers[0], "DEL t redisson_lock_token:{t}");
}

/* ---- One server through two clients ---- */

struct twins {
    struct fixture f;
    struct user *one, *two;    /* which have different addresses for their server */
    struct rlock_handle *lock; /* of the test; freed here */
};

static void open_twins(struct twins *twins)
{
    fixture_open(&twins->f, NULL);
    twins->one = user_open(&twins->f, USUAL);
    twins->two = user_open(fixture_view(&twins->f), USUAL);
}

static void close_twins(struct twins *twins)
{
    twins->lock = rlock_free(twins->lock);
    fixture_close(&twins->f);
}

#define TWINS_TEST(name, twins)                                                                    \
    TEST_AROUND(name, struct twins, twins, open_twins(twins), close_twins(twins))

/* It would wait for itself. */
TWINS_TEST(one_name_through_two_clients_of_one_server_is_refused, twins)
{
    struct rlock_handle *members[2];

    members[0] = twins->one->members[0];
    members[1] = twins->two->members[0];
    assert_code(rlock_multi_new(members, 2, NULL, &twins->lock), 0);
    for (int i = 0; i < 2; i++) { /* as soon as both are connected, and then at once */
        assert_code(rlock_lock(twins->lock), RLOCK_EINVAL);
        assert_non_null(strstr(rlock_detail(), "lock a: "));
        assert_non_null(strstr(rlock_detail(), "one server"));
        assert_int_equal(fixture_holding(&twins->f, "a"), 0);
    }
}

/* One of them gets its connection while the other one is held, or is asked. */
FIXTURE_WITH_TEST(one_name_through_two_clients_is_refused_when_both_are_connected, f,
                  .proxy = PROXY_ON_UNIX)
{
    struct fixture *views[2] = {fixture_view(f), fixture_view(f)};

    for (int late = 0; late < 2; late++) {
        const int64_t began_us = test_now_us();
        struct completion done = COMPLETION;
        struct rlock_handle *members[2], *lock;
        struct user *users[2];

        proxy_go_silent(views[late]->proxy, PROXY_ANY, true);
        for (int i = 0; i < 2; i++) {
            users[i] = user_open(views[i], USUAL);
            members[i] = users[i]->members[0];
        }
        assert_code(rlock_multi_new(members, 2, NULL, &lock), 0);
        assert_code(rlock_lock_async(lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = 1), completion_tell,
                                     &done, NULL),
                    0);
        (void)TEST_EVENTUALLY(fixture_holding(f, "a") == 1, 500);
        proxy_go_silent(views[late]->proxy, PROXY_ANY, false);
        assert_code(completion_await(&done), RLOCK_EINVAL);
        assert_within(began_us, 5000);
        lock = rlock_free(lock);
        user_close(users[0]);
        user_close(users[1]);
    }
}

TWINS_TEST(two_names_through_two_clients_of_one_server_are_fine, twins)
{
    struct rlock_handle *b;

    b = user_lock(twins->two, "b");
    assert_code(rlock_multi_new((struct rlock_handle *[]){twins->one->members[0], b}, 2, NULL,
                                &twins->lock),
                0);
    assert_code(rlock_lock_for(twins->lock, 5000, NULL, NULL), 0);
    assert_int_equal(fixture_holding(&twins->f, "b"), 1);
    assert_code(rlock_unlock(twins->lock), 0);
}

FIXTURE_WITH_TEST(one_name_in_two_databases_of_one_server_is_fine, f, .servers = 1)
{
    struct rlock_client *clients[2];
    struct rlock_handle *members[2], *multi;

    for (int i = 0; i < 2; i++) {
        char url[256];

        test_text(url, sizeof(url), "%s?db=%d", test_server_unix_url(f->servers[0]), i + 1);
        assert_code(rlock_client_open(RLOCK_CLIENT_OPTS(.url = url), &clients[i]), 0);
        assert_code(rlock_reentrant_new(clients[i], "a", NULL, &members[i]), 0);
    }
    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    assert_code(rlock_lock_for(multi, 5000, NULL, NULL), 0);
    assert_code(rlock_unlock(multi), 0);
    multi = rlock_free(multi);
    for (int i = 0; i < 2; i++) {
        members[i] = rlock_free(members[i]);
        clients[i] = rlock_client_close(clients[i]);
    }
}

/* ---- Crowds ---- */

enum { NAMES = 10, THREADS = 8 };

struct member {
    pthread_t thread;
    struct rlock_client *client;
    struct witness *witness;
    uint64_t id, random;
    int64_t until_us;
    unsigned int rounds;
};

static unsigned int draw(struct member *member, unsigned int n)
{
    member->random = member->random * 6364136223846793005U + 1442695040888963407U;
    return (unsigned int)(member->random >> 33) % n;
}

/* Takes some of the names, in any order, works in each, gives them back. */
static void take_some(struct member *member)
{
    struct rlock_handle *locks[NAMES], *multi;
    bool chosen[NAMES] = {false};
    size_t n = 0;

    for (unsigned int want = 1 + draw(member, 4); n < want;) {
        unsigned int i = draw(member, NAMES);
        char name[8];

        if (!chosen[i]) {
            chosen[i] = true;
            test_text(name, sizeof(name), "n%u", i);
            TEST_CHECK(rlock_reentrant_new(member->client, name, NULL, &locks[n++]) == 0);
        }
    }
    TEST_CHECK(rlock_multi_new(locks, n, NULL, &multi) == 0);
    if (rlock_lock_for(multi, 20000, NULL, NULL) == 0) {
        for (size_t i = 0; i < NAMES; i++) {
            if (chosen[i]) {
                witness_enter(member->witness, i, member->id);
            }
        }
        for (size_t i = 0; i < NAMES; i++) {
            if (chosen[i]) {
                witness_leave(member->witness, i, member->id);
            }
        }
        TEST_CHECK(rlock_unlock(multi) == 0);
        member->rounds++;
    }
    (void)rlock_free(multi);
    for (size_t i = 0; i < n; i++) {
        (void)rlock_free(locks[i]);
    }
}

static void *member_main(void *arg)
{
    struct member *member = arg;

    while (test_now_us() < member->until_us) {
        take_some(member);
    }
    return NULL;
}

PAIR_TEST(random_subsets_always_make_progress, pair, 1, USUAL)
{
    struct member members[2 * THREADS];

    for (size_t i = 0; i < 2 * THREADS; i++) {
        members[i] = (struct member){
            .client = i % 2 == 0 ? pair->one->clients[0] : pair->two->clients[0],
            .witness = pair->f.witness,
            .id = i + 1,
            .random = i * 7919 + 1,
            .until_us = test_now_us() + 2000000,
        };
        TEST_CHECK(pthread_create(&members[i].thread, NULL, member_main, &members[i]) == 0);
    }
    for (size_t i = 0; i < 2 * THREADS; i++) {
        TEST_CHECK(pthread_join(members[i].thread, NULL) == 0);
        assert_true(members[i].rounds > 0);
    }
}
