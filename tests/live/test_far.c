/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that is far away: 50 ms each way. A wait is for the holder, and the answer comes when it
 * comes: a short wait gets a lock that is free, and is told of one that is not.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "support/user.h"

enum { TRIES = 100, WAITS = 4, CALLS = TRIES * WAITS, ONE_WAY_US = 50000, TRIP_MS = 100 };
enum { NAME_SIZE = 24, LEASE_MS = 120000 };

static const int64_t waits_ms[WAITS] = {1, 10, 50, 200};

struct far_call {
    struct rlock_handle *lock;
    struct rlock_op *op;
    int64_t wait_ms, began_us;
    _Atomic int64_t ended_us; /* 0: it goes on */
};

/* As many calls as there are, each on a lock of its own. */
struct far {
    struct far_call calls[CALLS];
    size_t n;
};

/* Makes the i-th lock of a user. */
typedef struct rlock_handle *make_fn(struct user *user, const char *name, new_fn *make);

static struct rlock_handle *single(struct user *user, const char *name, new_fn *make)
{
    struct rlock_handle *lock;

    assert_code(make(user->client, name, NULL, &lock), 0);
    return lock;
}

/* Of two names, the second of this kind: a fair one is taken by itself, behind the first. */
static struct rlock_handle *pair(struct user *user, const char *name, new_fn *make)
{
    struct rlock_handle *lock, *both[2];
    char first[NAME_SIZE + 8];

    test_text(first, sizeof(first), "%s-first", name);
    both[0] = single(user, first, rlock_reentrant_new);
    both[1] = single(user, name, make);
    assert_code(rlock_multi_new(both, 2, NULL, &lock), 0);
    (void)rlock_free(both[0]);
    (void)rlock_free(both[1]);
    return lock;
}

static struct rlock_handle *quorum(struct user *user, const char *name, new_fn *make)
{
    struct rlock_handle *members[FIXTURE_SERVERS] = {NULL}, *lock;
    const size_t n = user->f->n;

    for (size_t i = 0; i < n; i++) {
        assert_code(make(user->clients[i], name, NULL, &members[i]), 0);
    }
    assert_code(rlock_redlock_new(members, n, RLOCK_OPTS(.max_lease_ms = -1), &lock), 0);
    for (size_t i = 0; i < n; i++) {
        (void)rlock_free(members[i]);
    }
    return lock;
}

static void on_done(struct rlock_op *op, void *payload)
{
    struct far_call *call = payload;

    (void)op;
    atomic_store(&call->ended_us, test_now_us());
}

/* Every fourth call has the same wait. Owners are the calls' numbers. */
static struct far *far_begin(struct user *user, make_fn *lock_of, new_fn *make, size_t n)
{
    struct far *far = calloc(1, sizeof(*far));
    char name[NAME_SIZE];

    TEST_CHECK(far != NULL);
    far->n = n;
    for (size_t i = 0; i < n; i++) {
        struct far_call *call = &far->calls[i];

        test_text(name, sizeof(name), "far-%zu", i);
        call->lock = lock_of(user, name, make);
        call->wait_ms = waits_ms[i % WAITS];
    }
    for (size_t i = 0; i < n; i++) {
        struct far_call *call = &far->calls[i];
        const struct rlock_take *take = RLOCK_TAKE(.owner = i + 1);

        call->began_us = test_now_us();
        assert_code(rlock_lock_async(call->lock, call->wait_ms, take, on_done, call, &call->op), 0);
    }
    return far;
}

static bool is_over(struct far *far)
{
    size_t n = 0;

    for (size_t i = 0; i < far->n; i++) {
        n += atomic_load(&far->calls[i].ended_us) != 0;
    }
    return n == far->n;
}

/* All are over within their wait and that; of each wait 99 of 100 with this code. A call that is
 * canceled may have had its grant before that. */
static void far_end(struct far *far, int expected, int64_t most_ms)
{
    const int64_t late_ms = (int64_t)CALL_LATE_MS * test_slack();
    size_t good[WAITS] = {0};

    assert_true(TEST_EVENTUALLY(is_over(far), 10000));
    for (size_t i = 0; i < far->n; i++) {
        struct far_call *call = &far->calls[i];
        const int64_t took_us = call->ended_us - call->began_us;
        const int code = rlock_op_code(call->op);

        good[i % WAITS] += code == expected || (expected == RLOCK_ECANCELED && code == 0);
        if (code != expected) {
            print_message("wait %lld: %s after %lld us: %s\n", (long long)call->wait_ms,
                          rlock_code_name(code), (long long)took_us, rlock_op_detail(call->op));
        }
        assert_true(
            test_in_time(call->began_us, took_us, (call->wait_ms + most_ms + late_ms) * 1000));
        (void)rlock_op_unref(call->op);
        (void)rlock_free(call->lock);
    }
    for (size_t i = 0; i < WAITS; i++) {
        assert_true(100 * good[i] >= 99 * far->n / WAITS);
    }
    free(far);
}

static void set_distance(struct fixture *f, int64_t one_way_us)
{
    for (size_t i = 0; i < f->n; i++) {
        if (f->proxies[i] != NULL) {
            proxy_delay_us(f->proxies[i], one_way_us);
        }
    }
}

static struct user *user_far(struct fixture *f, int acks)
{
    return user_open(f,
                     *RLOCK_CLIENT_OPTS(.op_timeout_ms = 3000 * test_slack(),
                                        .connect_timeout_ms = 3000 * test_slack(), .acks = acks));
}

/* Takes all that the calls want, while the servers are near; a client of its own has them. */
static struct user *rival_takes_all(struct fixture *f, make_fn *lock_of, new_fn *make)
{
    struct user *rival = user_far(f, RLOCK_ACKS_OFF);
    char name[NAME_SIZE];

    for (size_t i = 0; i < CALLS; i++) {
        struct rlock_handle *lock;

        test_text(name, sizeof(name), "far-%zu", i);
        lock = lock_of(rival, name, make);
        assert_code(TAKE(lock, 0, .lease_ms = LEASE_MS, .owner = 1), 0);
        (void)rlock_free(lock);
    }
    return rival;
}

/* Connects a user, while its servers are near. */
static void connect_to_all(struct user *user, make_fn *lock_of, new_fn *make)
{
    struct rlock_handle *lock = lock_of(user, "near", make);

    set_distance(user->f, 0);
    assert_code(rlock_lock_for(lock, 10000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    (void)rlock_free(lock);
}

/* By a client that was opened just now, and by one that is connected. */
static void get_what_is_free(struct fixture *f, make_fn *lock_of, new_fn *make, int acks)
{
    struct user *user;

    set_distance(f, ONE_WAY_US);
    user = user_far(f, acks);
    far_end(far_begin(user, lock_of, make, CALLS), 0, 3000 * test_slack() + 50);
    user_close(user);
    user = user_far(f, acks);
    connect_to_all(user, lock_of, make);
    set_distance(f, ONE_WAY_US);
    far_end(far_begin(user, lock_of, make, CALLS), 0, 5 * TRIP_MS + 50);
}

static void are_told_of_the_holder(struct fixture *f, make_fn *lock_of, new_fn *make,
                                   make_fn *rival_of, new_fn *make_rival)
{
    struct user *user, *rival;

    rival = rival_takes_all(f, rival_of, make_rival);
    set_distance(f, ONE_WAY_US);
    user = user_far(f, RLOCK_ACKS_OFF);
    far_end(far_begin(user, lock_of, make, CALLS), RLOCK_ETIMEDOUT, 3000 * test_slack() + 50);
    far_end(far_begin(user, lock_of, make, CALLS), RLOCK_ETIMEDOUT, 5 * TRIP_MS + 50);
    user_close(rival);
}

/* Tokens stay, and are too many for the fixture. */
static void drop_tokens(struct fixture *f)
{
    users_close(f);
    assert_int_equal(fixture_keys(f), 0);
    test_server_do(f->server, "FLUSHALL");
}

#define FAR_TEST(name, f) FIXTURE_WITH_TEST(name, f, .proxy = PROXY_ON_UNIX)
#define FAR_QUORUM_TEST(name, f) FIXTURE_WITH_TEST(name, f, .servers = 3, .proxy = PROXY_ON_UNIX)

FAR_TEST(short_waits_get_a_free_reentrant_lock, f)
{
    get_what_is_free(f, single, rlock_reentrant_new, RLOCK_ACKS_OFF);
}

FAR_TEST(short_waits_are_told_who_holds_a_reentrant_lock, f)
{
    are_told_of_the_holder(f, single, rlock_reentrant_new, single, rlock_reentrant_new);
}

FAR_TEST(short_waits_get_a_free_nonreentrant_lock, f)
{
    get_what_is_free(f, single, rlock_nonreentrant_new, RLOCK_ACKS_OFF);
}

FAR_TEST(short_waits_are_told_who_holds_a_nonreentrant_lock, f)
{
    are_told_of_the_holder(f, single, rlock_nonreentrant_new, single, rlock_nonreentrant_new);
}

FAR_TEST(short_waits_get_a_free_spin_lock, f)
{
    get_what_is_free(f, single, rlock_spin_new, RLOCK_ACKS_OFF);
}

FAR_TEST(short_waits_are_told_who_holds_a_spin_lock, f)
{
    are_told_of_the_holder(f, single, rlock_spin_new, single, rlock_spin_new);
}

FAR_TEST(short_waits_get_a_free_fenced_lock, f)
{
    get_what_is_free(f, single, rlock_fenced_new, RLOCK_ACKS_OFF);
    drop_tokens(f);
}

FAR_TEST(short_waits_are_told_who_holds_a_fenced_lock, f)
{
    are_told_of_the_holder(f, single, rlock_fenced_new, single, rlock_fenced_new);
    drop_tokens(f);
}

FAR_TEST(short_waits_get_a_free_fair_lock, f)
{
    get_what_is_free(f, single, rlock_fair_new, RLOCK_ACKS_OFF);
}

FAR_TEST(short_waits_are_told_who_holds_a_fair_lock, f)
{
    are_told_of_the_holder(f, single, rlock_fair_new, single, rlock_fair_new);
}

FAR_TEST(short_waits_get_a_free_read_lock, f)
{
    get_what_is_free(f, single, rlock_read_new, RLOCK_ACKS_OFF);
}

FAR_TEST(short_waits_are_told_who_holds_a_read_lock, f)
{
    are_told_of_the_holder(f, single, rlock_read_new, single, rlock_write_new);
}

FAR_TEST(short_waits_get_a_free_write_lock, f)
{
    get_what_is_free(f, single, rlock_write_new, RLOCK_ACKS_OFF);
}

FAR_TEST(short_waits_are_told_who_holds_a_write_lock, f)
{
    are_told_of_the_holder(f, single, rlock_write_new, single, rlock_write_new);
}

FAR_TEST(short_waits_get_a_free_multi_lock_of_one_script, f)
{
    get_what_is_free(f, pair, rlock_reentrant_new, RLOCK_ACKS_OFF);
}

FAR_TEST(short_waits_are_told_who_holds_a_multi_lock_of_one_script, f)
{
    are_told_of_the_holder(f, pair, rlock_reentrant_new, single, rlock_reentrant_new);
}

FAR_TEST(short_waits_get_a_free_multi_lock_taken_one_by_one, f)
{
    get_what_is_free(f, pair, rlock_fair_new, RLOCK_ACKS_OFF);
}

FAR_TEST(short_waits_are_told_who_holds_a_multi_lock_taken_one_by_one, f)
{
    are_told_of_the_holder(f, pair, rlock_fair_new, single, rlock_fair_new);
}

/* Both calls begin before the client is connected. The first one has a member, and waits for the
 * server with its attempt; the second one waits behind it. */
FAR_TEST(short_waits_behind_another_call_are_told_who_holds_a_multi_lock, f)
{
    struct far far = {.n = 2};
    struct user *user;

    set_distance(f, ONE_WAY_US);
    user = user_far(f, RLOCK_ACKS_OFF);
    far.calls[0].lock = single(user, "far-first", rlock_reentrant_new);
    far.calls[1].lock = pair(user, "far", rlock_reentrant_new);
    for (size_t i = 0; i < far.n; i++) {
        struct far_call *call = &far.calls[i];

        assert_code(
            rlock_lock_async(call->lock, 1, RLOCK_TAKE(.owner = i + 1), on_done, call, &call->op),
            0);
    }
    assert_true(TEST_EVENTUALLY(is_over(&far), 10000));
    assert_code(rlock_op_code(far.calls[0].op), 0);
    assert_code(rlock_op_code(far.calls[1].op), RLOCK_ETIMEDOUT);
    for (size_t i = 0; i < far.n; i++) {
        (void)rlock_op_unref(far.calls[i].op);
        (void)rlock_free(far.calls[i].lock);
    }
}

FAR_QUORUM_TEST(short_waits_get_a_free_redlock, f)
{
    get_what_is_free(f, quorum, rlock_reentrant_new, RLOCK_ACKS_OFF);
}

FAR_QUORUM_TEST(short_waits_are_told_who_holds_a_redlock, f)
{
    are_told_of_the_holder(f, quorum, rlock_reentrant_new, quorum, rlock_reentrant_new);
}

/* It has a replica, which is near it. */
FIXTURE_WITH_TEST(short_waits_get_a_lock_that_a_replica_acknowledges, f, .servers = 2,
                  .proxy = PROXY_ON_TCP, .server = {.transport = TEST_TCP})
{
    test_server_do(f->servers[1], "REPLICAOF 127.0.0.1 %d", test_server_port(f->server));
    assert_true(TEST_EVENTUALLY(test_server_int(f->server, "WAIT 1 10") == 1, 10000));
    get_what_is_free(f, single, rlock_reentrant_new, 1);
}

/* ---- Cancels, at a round trip of 20 ms ---- */

static void cancel_all(struct far *far)
{
    for (size_t i = 0; i < far->n; i++) {
        rlock_op_cancel(far->calls[i].op);
    }
}

static size_t count_open(struct far *far)
{
    size_t n = 0;

    for (size_t i = 0; i < far->n; i++) {
        n += strstr(rlock_op_detail(far->calls[i].op), "if it was granted") != NULL;
    }
    return n;
}

/* What was granted before the cancel. */
static void give_back_granted(struct far *far)
{
    for (size_t i = 0; i < far->n; i++) {
        if (rlock_op_code(far->calls[i].op) == 0) {
            assert_code(rlock_unlock_as(far->calls[i].lock, i + 1), 0);
        }
    }
}

/* They are canceled as soon as they have asked. What they get by that is given back. */
static void canceled_calls_end_in_time(struct fixture *f, make_fn *lock_of, new_fn *make)
{
    struct user *user = user_far(f, RLOCK_ACKS_OFF);
    struct far *far;
    int64_t fired_us;

    connect_to_all(user, lock_of, make);
    set_distance(f, 10000);
    far = far_begin(user, lock_of, make, TRIES);
    fired_us = test_now_us();
    cancel_all(far);
    assert_true(TEST_EVENTUALLY(is_over(far), 10000));
    assert_in_time(fired_us, (50 + CALL_LATE_MS) * 1000);
    /* a canceled call waits for 50 ms, where threads run slowly too */
    assert_true(test_slack() > 1 || count_open(far) <= TRIES / 100 || test_missed(fired_us, 10000));
    give_back_granted(far);
    far_end(far, RLOCK_ECANCELED, 50 + CALL_LATE_MS);
    assert_true(TEST_EVENTUALLY(fixture_keys(f) == 0, 5000)); /* long before a lease ends */
}

FAR_TEST(a_canceled_call_has_time_for_its_answer, f)
{
    canceled_calls_end_in_time(f, single, rlock_reentrant_new);
}

FAR_TEST(a_canceled_call_for_a_fair_lock_leaves_nothing, f)
{
    canceled_calls_end_in_time(f, single, rlock_fair_new);
}

FAR_TEST(a_canceled_call_for_a_multi_lock_leaves_nothing, f)
{
    canceled_calls_end_in_time(f, pair, rlock_fair_new);
}
