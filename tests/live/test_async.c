/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Async calls, of each sort of lock: the thread that begins them does nothing until it is told.
 * What they have in common with the calls that wait is in the conformance table.
 */
#include "support/completion.h"
#include "support/proxy.h"
#include "support/stall.h"
#include "support/user.h"

enum { SERVERS = 3, SORTS = 3, OWNER = 5, OTHER = 6 };

#define EACH_SORT(sort) for (size_t sort = 0; (sort) < SORTS; (sort)++)

/* Three servers, and two users. */
struct scene {
    struct fixture f;
    struct user *user, *rival;
    /* of the user: a lock of each sort that concerns "a" on the first server */
    struct rlock_handle *locks[SORTS];
};

static void scene_open(struct scene *s)
{
    fixture_open(&s->f, &(struct fixture_opts){.servers = SERVERS});
    s->user = user_open(&s->f, USUAL);
    s->rival = user_open(&s->f, USUAL);
    s->locks[0] = s->user->members[0];
    s->locks[1] = user_multi(s->user, s->user->members[0], s->user->members[1]);
    s->locks[2] = s->user->lock;
    user_take_everywhere(s->user);
    assert_code(rlock_unlock(s->user->lock), 0);
}

#define SCENE_TEST(name, s) TEST_AROUND(name, struct scene, s, scene_open(s), fixture_close(&s->f))

/* ---- Operations ---- */

static struct rlock_op *begin_take(struct rlock_handle *lock, int64_t wait_ms,
                                   const struct rlock_take *take, struct completion *completion)
{
    struct rlock_op *op = NULL;

    assert_code(rlock_lock_async(lock, wait_ms, take, completion_tell, completion, &op), 0);
    assert_non_null(op);
    return op;
}

static int take_async(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    struct completion completion = COMPLETION;
    int code;

    (void)rlock_op_unref(begin_take(lock, wait_ms, take, &completion));
    code = completion_await(&completion);
    return code;
}

static int unlock_async(struct rlock_handle *lock, uint64_t owner)
{
    struct completion completion = COMPLETION;

    assert_code(rlock_unlock_async(lock, owner, completion_tell, &completion, NULL), 0);
    return completion_await(&completion);
}

/* The rival has "a" on every server, until it leaves it. */
static void keep_out(const struct scene *s)
{
    for (size_t i = 0; i < SERVERS; i++) {
        assert_code(TAKE(s->rival->members[i], 5000, .owner = OTHER), 0);
    }
}

static void let_in(const struct scene *s)
{
    for (size_t i = 0; i < SERVERS; i++) {
        assert_code(rlock_unlock_as(s->rival->members[i], OTHER), 0);
    }
}

/* Whether somebody hears the channel on a server. */
static bool is_awaited(const struct scene *s)
{
    bool awaited = false;

    for (size_t i = 0; i < SERVERS; i++) {
        awaited = awaited || test_server_waiters(s->f.servers[i], CHANNEL_A) > 0;
    }
    return awaited;
}

/* One that was begun waits behind the rival. */
static struct rlock_op *wait_behind(const struct scene *s, size_t sort,
                                    struct completion *completion)
{
    struct rlock_op *op;

    keep_out(s);
    op = begin_take(s->locks[sort], RLOCK_FOREVER, RLOCK_TAKE(.owner = OWNER), completion);
    assert_true(TEST_EVENTUALLY(is_awaited(s), 5000));
    assert_false(completion_is_there(completion));
    assert_int_equal(rlock_op_code(op), RLOCK_UNDER_WAY);
    return op;
}

/* ---- Owners, and arguments ---- */

SCENE_TEST(an_async_call_wants_an_owner, s)
{
    struct completion completion = COMPLETION;
    struct rlock_op *op = NULL;

    EACH_SORT(sort)
    {
        struct rlock_handle *lock = s->locks[sort];

        for (int64_t wait_ms = RLOCK_FOREVER; wait_ms <= 1; wait_ms++) {
            assert_code(rlock_lock_async(lock, wait_ms, NULL, completion_tell, &completion, &op),
                        RLOCK_EINVAL);
            assert_detail("owner");
        }
        assert_code(rlock_lock_async(lock, -2, RLOCK_TAKE(.owner = OWNER), completion_tell,
                                     &completion, &op),
                    RLOCK_EINVAL);
        assert_detail("wait_ms is -2");
        assert_code(rlock_unlock_async(lock, 0, completion_tell, &completion, &op), RLOCK_EINVAL);
    }
    assert_code(rlock_lock_async(NULL, 0, NULL, NULL, NULL, NULL), RLOCK_EINVAL);
    assert_code(rlock_inspect_async(NULL, NULL, NULL, NULL), RLOCK_EINVAL);
    assert_code(rlock_force_unlock_async(NULL, NULL, NULL, NULL), RLOCK_EINVAL);
    assert_null(op);
    assert_null(rlock_op_unref(NULL));
    rlock_op_cancel(NULL);
    assert_false(completion_is_there(&completion)); /* none began */
}

SCENE_TEST(one_thread_holds_for_many_owners, s)
{
    enum { OWNERS = 100 };
    struct completion waits[OWNERS];
    struct rlock_handle *lock = s->locks[0];
    uint64_t owners[OWNERS];
    size_t left = OWNERS;

    for (size_t i = 0; i < OWNERS; i++) {
        waits[i] = (struct completion)COMPLETION;
        owners[i] = rlock_owner_new(s->user->client);
        assert_code(rlock_lock_async(lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = owners[i]),
                                     completion_tell, &waits[i], NULL),
                    0);
    }
    while (left > 0) {
        size_t holders = 0, holder = 0;

        for (size_t i = 0; i < OWNERS; i++) {
            if (rlock_is_valid_as(lock, owners[i])) {
                holders++;
                holder = i;
            }
        }
        assert_true(holders <= 1);
        if (holders == 1) {
            assert_code(completion_await(&waits[holder]), 0);
            assert_code(unlock_async(lock, owners[holder]), 0);
            left--;
        }
    }
}

/* ---- Completions ---- */

/* Steps of a chain: each is begun by the completion of the one before. */
struct chain {
    struct rlock_handle *lock;
    unsigned steps, most;
    struct completion end;
    int waits; /* what a call that waits returned in a completion */
};

static void go_on(struct rlock_op *op, void *payload)
{
    struct chain *chain = payload;
    bool takes = chain->steps++ % 2 == 0;

    TEST_CHECK(rlock_op_code(op) == 0);
    if (chain->steps == chain->most) {
        chain->waits = TAKE(chain->lock, 1, .owner = OTHER);
        completion_tell(op, &chain->end);
        return;
    }
    if (takes) { /* it has it now */
        TEST_CHECK(rlock_is_valid_as(chain->lock, OWNER));
        TEST_CHECK(rlock_unlock_async(chain->lock, OWNER, go_on, chain, NULL) == 0);
    } else {
        TEST_CHECK(rlock_lock_async(chain->lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = OWNER), go_on,
                                    chain, NULL) == 0);
    }
}

SCENE_TEST(a_completion_begins_the_next_and_does_not_wait, s)
{
    EACH_SORT(sort)
    {
        struct chain chain = {.lock = s->locks[sort], .most = 200, .end = COMPLETION};

        assert_code(
            rlock_lock_async(chain.lock, 0, RLOCK_TAKE(.owner = OWNER), go_on, &chain, NULL), 0);
        assert_code(completion_await(&chain.end), 0);
        assert_int_equal(chain.steps, chain.most);
        assert_code(chain.waits, RLOCK_EDEADLOCK);
        assert_false(rlock_is_valid_as(chain.lock, OWNER)); /* an even number of steps */
    }
}

SCENE_TEST(nobody_need_hear_of_a_completion, s)
{
    EACH_SORT(sort)
    {
        struct rlock_handle *lock = s->locks[sort];
        struct rlock_op *op = NULL;

        assert_code(rlock_lock_async(lock, 0, RLOCK_TAKE(.owner = OWNER), NULL, NULL, &op), 0);
        assert_true(TEST_EVENTUALLY(rlock_op_code(op) == 0, 5000));
        op = rlock_op_unref(op);
        assert_true(rlock_is_valid_as(lock, OWNER));
        assert_code(rlock_unlock_async(lock, OWNER, NULL, NULL, NULL), 0);
        assert_true(TEST_EVENTUALLY(!fixture_is_held(&s->f), 5000));
    }
}

SCENE_TEST(the_lock_may_be_freed_while_a_call_is_under_way, s)
{
    EACH_SORT(sort)
    {
        struct completion completion = COMPLETION;
        struct rlock_handle *lock = NULL, *members[] = {s->user->members[0], s->user->members[1]};
        struct rlock_op *op = NULL;

        assert_code(sort == 0   ? rlock_reentrant_new(s->user->client, "a", NULL, &lock)
                    : sort == 1 ? rlock_multi_new(members, 2, NULL, &lock)
                                : rlock_redlock_new(s->user->members, SERVERS,
                                                    RLOCK_OPTS(.max_lease_ms = -1), &lock),
                    0);
        keep_out(s);
        op = begin_take(lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = OWNER), &completion);
        lock = rlock_free(lock);
        let_in(s);
        assert_code(completion_await(&completion), 0);
        op = rlock_op_unref(op);
        assert_code(unlock_async(s->locks[sort], OWNER), 0);
    }
}

/* ---- Results ---- */

SCENE_TEST(an_operation_has_the_results_of_its_call_alone, s)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT, unset = {.size = 0};
    struct rlock_info info = RLOCK_INFO_INIT;
    struct completion taken = COMPLETION, seen = COMPLETION;
    struct rlock_op *take =
        begin_take(s->locks[0], 0, RLOCK_TAKE(.lease_ms = 20000, .owner = OWNER), &taken);
    struct rlock_op *look = NULL;

    assert_code(completion_await(&taken), 0);
    assert_code(rlock_op_grant(take, &grant), 0);
    assert_int_equal(grant.lease_ms, 20000);
    assert_in_range(grant.valid_ms, 1, 20000);
    assert_code(rlock_op_grant(take, &unset), RLOCK_EINVAL);
    assert_code(rlock_op_info(take, &info), RLOCK_EINVAL);
    assert_false(rlock_op_was_locked(take));
    assert_string_equal(rlock_op_detail(take), "");

    assert_code(rlock_inspect_async(s->locks[0], completion_tell, &seen, &look), 0);
    assert_code(completion_await(&seen), 0);
    assert_code(rlock_op_info(look, &info), 0);
    assert_true(info.locked && info.mine);
    assert_code(rlock_op_grant(look, &grant), RLOCK_EINVAL);
    take = rlock_op_unref(take);
    look = rlock_op_unref(look);
    assert_code(unlock_async(s->locks[0], OWNER), 0);
}

SCENE_TEST(a_failure_says_what_the_call_that_waits_says, s)
{
    EACH_SORT(sort)
    {
        struct completion completion = COMPLETION;
        struct rlock_op *op;

        keep_out(s);
        op = begin_take(s->locks[sort], 0, RLOCK_TAKE(.owner = OWNER), &completion);
        assert_code(completion_await(&completion), RLOCK_EBUSY);
        assert_code(TAKE(s->locks[sort], 0, .owner = OWNER), RLOCK_EBUSY);
        assert_contains(rlock_op_detail(op), "held by");
        assert_detail("held by");
        op = rlock_op_unref(op);
        assert_code(take_async(s->locks[sort], 30, RLOCK_TAKE(.owner = OWNER)), RLOCK_ETIMEDOUT);
        assert_code(unlock_async(s->locks[sort], OWNER), RLOCK_ENOTOWNER);
        let_in(s);
    }
}

SCENE_TEST(members_are_asked_and_forced_together, s)
{
    for (size_t sort = 1; sort < SORTS; sort++) {
        struct completion seen = COMPLETION, forced = COMPLETION, again = COMPLETION;
        struct rlock_handle *lock = s->locks[sort];
        struct rlock_info info = RLOCK_INFO_INIT;
        struct rlock_op *op = NULL;

        keep_out(s);
        assert_code(rlock_inspect_async(lock, completion_tell, &seen, &op), 0);
        assert_code(completion_await(&seen), 0);
        assert_code(rlock_op_info(op, &info), 0);
        assert_true(info.locked && !info.mine);
        assert_int_equal(info.holders, sort == 1 ? 2 : SERVERS);
        op = rlock_op_unref(op);
        assert_code(rlock_force_unlock_async(lock, completion_tell, &forced, &op), 0);
        assert_code(completion_await(&forced), 0);
        assert_true(rlock_op_was_locked(op));
        op = rlock_op_unref(op);
        assert_code(rlock_force_unlock_async(lock, completion_tell, &again, &op), 0);
        assert_code(completion_await(&again), 0);
        assert_false(rlock_op_was_locked(op));
        op = rlock_op_unref(op);
        for (size_t i = 0; i < SERVERS; i++) {
            (void)rlock_unlock_as(s->rival->members[i], OTHER);
        }
        assert_code(take_async(lock, 0, RLOCK_TAKE(.owner = OWNER)), 0);
        assert_code(unlock_async(lock, OWNER), 0);
    }
}

/* ---- Cancellation ---- */

SCENE_TEST(a_canceled_operation_ends_at_once_and_leaves_nothing, s)
{
    EACH_SORT(sort)
    {
        struct completion completion = COMPLETION;
        struct rlock_op *op = wait_behind(s, sort, &completion);
        int64_t since_us = test_now_us();

        rlock_op_cancel(op);
        assert_code(completion_await(&completion), RLOCK_ECANCELED);
        assert_in_time(since_us, 100000 * test_slack());
        rlock_op_cancel(op); /* it is complete */
        op = rlock_op_unref(op);
        let_in(s);
        assert_code(take_async(s->locks[sort], 0, RLOCK_TAKE(.owner = OTHER)), 0);
        assert_code(unlock_async(s->locks[sort], OTHER), 0);
    }
}

SCENE_TEST(a_cancel_ends_no_other_operation, s)
{
    EACH_SORT(sort)
    {
        struct completion first = COMPLETION, second = COMPLETION;
        struct rlock_op *op = wait_behind(s, sort, &first);

        (void)rlock_op_unref(
            begin_take(s->locks[sort], RLOCK_FOREVER, RLOCK_TAKE(.owner = OWNER + 2), &second));
        rlock_op_cancel(op);
        assert_code(completion_await(&first), RLOCK_ECANCELED);
        assert_false(completion_is_there(&second));
        op = rlock_op_unref(op);
        let_in(s);
        assert_code(completion_await(&second), 0);
        assert_code(unlock_async(s->locks[sort], OWNER + 2), 0);
    }
}

SCENE_TEST(a_cancel_after_the_grant_takes_nothing_away, s)
{
    EACH_SORT(sort)
    {
        struct completion completion = COMPLETION;
        struct rlock_op *op =
            begin_take(s->locks[sort], 0, RLOCK_TAKE(.owner = OWNER), &completion);

        assert_code(completion_await(&completion), 0);
        rlock_op_cancel(op);
        assert_int_equal(rlock_op_code(op), 0);
        assert_true(rlock_is_valid_as(s->locks[sort], OWNER));
        op = rlock_op_unref(op);
        assert_code(unlock_async(s->locks[sort], OWNER), 0);
    }
}

/* ---- Closing, and fork ---- */

SCENE_TEST(closing_the_client_completes_everything, s)
{
    EACH_SORT(sort)
    {
        struct completion taken = COMPLETION, seen = COMPLETION, forced = COMPLETION;
        struct completion left = COMPLETION;
        struct rlock_op *op = wait_behind(s, sort, &taken);

        op = rlock_op_unref(op);
        assert_code(rlock_inspect_async(s->locks[sort], completion_tell, &seen, NULL), 0);
        assert_code(rlock_force_unlock_async(s->locks[sort], completion_tell, &forced, NULL), 0);
        assert_code(rlock_unlock_async(s->locks[sort], OTHER, completion_tell, &left, NULL), 0);
        for (size_t i = 0; i < SERVERS; i++) {
            s->user->clients[i] = rlock_client_close(s->user->clients[i]);
        }
        assert_true(completion_is_there(&taken) && completion_is_there(&seen) &&
                    completion_is_there(&forced) && completion_is_there(&left));
        assert_code(rlock_lock_async(s->locks[sort], 0, RLOCK_TAKE(.owner = OWNER), completion_tell,
                                     &taken, NULL),
                    RLOCK_ECLOSED);
        assert_code(rlock_inspect_async(s->locks[sort], completion_tell, &taken, NULL),
                    RLOCK_ECLOSED);
        for (size_t i = 0; i < SERVERS; i++) {
            (void)rlock_unlock_as(s->rival->members[i], OTHER);
        }
        user_close(s->user);
        s->user = user_open(&s->f, USUAL);
        s->locks[0] = s->user->members[0];
        s->locks[1] = user_multi(s->user, s->user->members[0], s->user->members[1]);
        s->locks[2] = s->user->lock;
    }
}

SCENE_TEST(closing_against_a_stopped_server_is_bounded, s)
{
    struct completion taken = COMPLETION, seen = COMPLETION;
    int64_t since_us;

    /* Closing sends the release, but the server may not read it: it reads one TLS record at a time,
     * and its answer to the take meets a closed link. The lease ends the hold then. */
    test_server_freeze(s->f.servers[0]);
    assert_code(rlock_lock_async(s->locks[0], RLOCK_FOREVER,
                                 RLOCK_TAKE(.owner = OWNER, .lease_ms = 500), completion_tell,
                                 &taken, NULL),
                0);
    assert_code(rlock_inspect_async(s->locks[2], completion_tell, &seen, NULL), 0);
    since_us = test_now_us();
    for (size_t i = 0; i < SERVERS; i++) {
        s->user->clients[i] = rlock_client_close(s->user->clients[i]);
    }
    assert_within(since_us, SERVERS * 1000 * test_slack());
    assert_true(completion_is_there(&taken) && completion_is_there(&seen));
    test_server_thaw(s->f.servers[0]);
}

/* ---- Costs ---- */

enum { RTT_MS = 200 };

FIXTURE_WITH_TEST(to_take_a_redlock_and_leave_it_costs_its_owner_one_round_trip, f,
                  .servers = SERVERS, .proxy = PROXY_ON_UNIX)
{
    struct user *user = user_open(f, USUAL);
    struct completion left = COMPLETION;
    int64_t since_us, us;

    user_take_everywhere(user);
    assert_code(rlock_unlock(user->lock), 0);
    for (size_t i = 0; i < SERVERS; i++) {
        proxy_delay_us(f->proxies[i], RTT_MS * 1000 / 2);
    }
    since_us = test_now_us();
    assert_code(take_async(user->lock, 0, RLOCK_TAKE(.owner = OWNER)), 0);
    assert_code(rlock_unlock_async(user->lock, OWNER, completion_tell, &left, NULL), 0);
    us = test_elapsed_us(since_us);
    assert_true(test_in_time(since_us, us, RTT_MS * 1100));
    assert_code(completion_await(&left), 0);
}
