/* SPDX-License-Identifier: Apache-2.0 */
/* What a program learns of a failed call as data: code, reason, holder, server, and when the lock
 * is free. */
#include <string.h>

#include "base/time.h"
#include "support/clients.h"
#include "support/completion.h"

#define LEASE_MS 20000

static struct rlock_failure last(void)
{
    struct rlock_failure failure = RLOCK_FAILURE_INIT;

    assert_code(rlock_last_failure(&failure), 0);
    assert_string_equal(failure.detail, rlock_detail());
    return failure;
}

/* Another client holds the lock with this lease. */
static struct rlock_handle *taken_by_another(struct fixture *f, int64_t lease_ms)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.lease_ms = lease_ms), NULL), 0);
    return lock;
}

static void assert_names_holder(const struct rlock_failure *failure, struct rlock_handle *lock)
{
    struct rlock_info info = RLOCK_INFO_INIT;

    assert_string_not_equal(failure->server, "");
    assert_code(rlock_inspect(lock, &info), 0);
    assert_string_equal(failure->holder, info.holder);
}

LOCK_TEST(a_busy_lock_names_its_holder_and_the_rest_of_the_lease, f)
{
    struct rlock_handle *theirs = taken_by_another(f, LEASE_MS);
    struct rlock_handle *ours = lock_new(f, client_open(f));
    struct rlock_failure failure;

    assert_code(rlock_try_lock(ours), RLOCK_EBUSY);
    failure = last();
    assert_int_equal(failure.code, RLOCK_EBUSY);
    assert_int_equal(failure.reason, 0);
    assert_in_range(failure.free_ms, 1, LEASE_MS);
    assert_names_holder(&failure, ours);
    assert_code(rlock_lock_for(ours, 50, NULL, NULL), RLOCK_ETIMEDOUT);
    failure = last();
    assert_int_equal(failure.code, RLOCK_ETIMEDOUT);
    assert_in_range(failure.free_ms, 1, LEASE_MS);
    assert_names_holder(&failure, ours);
    assert_code(rlock_unlock(theirs), 0);
}

LOCK_TEST(a_call_that_succeeds_leaves_no_failure, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_failure failure;

    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    assert_int_equal(last().code, RLOCK_ENOTOWNER);
    assert_int_equal(last().free_ms, -1);
    assert_code(rlock_lock(lock), 0);
    failure = last();
    assert_int_equal(failure.code, 0);
    assert_int_equal(failure.free_ms, -1);
    assert_string_equal(failure.holder, "");
    assert_string_equal(failure.server, "");
    assert_code(rlock_unlock(lock), 0);
}

LOCK_TEST(asking_for_the_failure_does_not_change_it, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_failure unset = RLOCK_FAILURE_INIT;

    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    unset.size = 0;
    assert_code(rlock_last_failure(&unset), RLOCK_EINVAL);
    assert_code(rlock_last_failure(NULL), RLOCK_EINVAL);
    assert_int_equal(last().code, RLOCK_ENOTOWNER);
}

LOCK_TEST(a_lost_hold_says_why, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    bool was_locked = false;

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_force_unlock(lock, &was_locked), 0);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_int_equal(last().code, RLOCK_ELOST);
    assert_int_equal(last().reason, RLOCK_LOST_FORCED);
    assert_string_not_equal(last().server, "");
}

/* The server is stopped, so nobody knows whether the release came through. */
LOCK_TEST(an_unlock_in_doubt_says_when_the_lock_is_free, f)
{
    struct rlock_client *client = client_open_with(f, RLOCK_CLIENT_OPTS(.op_timeout_ms = 200));
    struct rlock_handle *lock = lock_new(f, client);

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.lease_ms = LEASE_MS), NULL), 0);
    test_server_freeze(f->server);
    assert_code(rlock_unlock(lock), RLOCK_EINDOUBT);
    assert_int_equal(last().code, RLOCK_EINDOUBT);
    assert_in_range(last().free_ms, 1, LEASE_MS + 1000);
    assert_string_not_equal(last().server, "");
    test_server_thaw(f->server);
}

LOCK_TEST(a_lock_call_in_doubt_says_when_the_lock_is_free, f)
{
    struct rlock_client *client = client_open_with(f, RLOCK_CLIENT_OPTS(.op_timeout_ms = 200));
    struct rlock_handle *lock = lock_new(f, client);

    assert_code(rlock_lock(lock), 0); /* it is connected */
    assert_code(rlock_unlock(lock), 0);
    test_server_freeze(f->server);
    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.lease_ms = LEASE_MS), NULL), RLOCK_EINDOUBT);
    assert_in_range(last().free_ms, 1, LEASE_MS + 1000);
    test_server_thaw(f->server);
}

/* Nothing of it is on its way: the call waited for a message. */
LOCK_TEST(a_canceled_wait_leaves_nothing_that_has_to_end, f)
{
    struct rlock_handle *theirs = taken_by_another(f, LEASE_MS);
    struct rlock_handle *ours = lock_new(f, client_open(f));
    struct rlock_cancel *cancel = NULL;

    assert_code(rlock_cancel_new(&cancel), 0);
    rlock_cancel_fire(cancel);
    assert_code(rlock_lock_for(ours, RLOCK_FOREVER, RLOCK_TAKE(.cancel = cancel), NULL),
                RLOCK_ECANCELED);
    assert_int_equal(last().code, RLOCK_ECANCELED);
    assert_int_equal(last().free_ms, -1);
    cancel = rlock_cancel_free(cancel);
    assert_code(rlock_unlock(theirs), 0);
}

LOCK_TEST(a_multi_lock_names_the_holder_of_its_busy_member, f)
{
    struct rlock_handle *theirs = taken_by_another(f, LEASE_MS);
    struct rlock_client *client = client_open(f);
    struct rlock_handle *ours = lock_new(f, client);
    struct rlock_handle *members[] = {lock_named(f, client, "other"), ours};
    struct rlock_handle *multi = NULL;
    struct rlock_failure failure;

    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    assert_code(rlock_try_lock(multi), RLOCK_EBUSY);
    failure = last();
    assert_in_range(failure.free_ms, 1, LEASE_MS);
    assert_names_holder(&failure, ours);
    assert_code(rlock_unlock(theirs), 0);
    assert_code(rlock_lock(multi), 0);
    assert_code(rlock_force_unlock(members[0], NULL), 0);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_code(rlock_unlock(multi), RLOCK_ELOST);
    assert_int_equal(last().reason, RLOCK_LOST_FORCED);
    multi = rlock_free(multi);
}

/* It waits for an earlier call of its owner all the time, and asks no server. */
LOCK_TEST(a_call_that_never_had_its_turn_names_no_server, f)
{
    struct rlock_handle *theirs = taken_by_another(f, LEASE_MS);
    struct rlock_client *client = client_open(f);
    struct rlock_handle *ours = lock_new(f, client), *multi = NULL;
    struct completion end = COMPLETION;
    struct rlock_op *op = NULL;

    assert_code(rlock_multi_new(&ours, 1, NULL, &multi), 0);
    assert_code(
        rlock_lock_async(multi, RLOCK_FOREVER, RLOCK_TAKE(.owner = 7), completion_tell, &end, &op),
        0);
    assert_code(rlock_try_lock(ours), RLOCK_EBUSY); /* it leaves its texts on the stack */
    assert_code(rlock_lock_for(multi, 20, RLOCK_TAKE(.owner = 7), NULL), RLOCK_ETIMEDOUT);
    assert_string_equal(last().server, "");
    assert_string_equal(last().holder, "");
    assert_int_equal(last().free_ms, -1);
    rlock_op_cancel(op);
    assert_code(completion_await(&end), RLOCK_ECANCELED);
    op = rlock_op_unref(op);
    assert_code(rlock_unlock(theirs), 0);
    multi = rlock_free(multi);
}

LOCK_TEST(an_async_call_has_its_failure_too, f)
{
    struct rlock_handle *theirs = taken_by_another(f, LEASE_MS);
    struct rlock_handle *ours = lock_new(f, client_open(f));
    struct rlock_failure failure = RLOCK_FAILURE_INIT;
    struct completion end = COMPLETION;
    struct rlock_op *op = NULL;

    assert_code(rlock_lock_async(ours, 0, RLOCK_TAKE(.owner = 7), completion_tell, &end, &op), 0);
    assert_code(completion_await(&end), RLOCK_EBUSY);
    assert_code(rlock_op_failure(op, &failure), 0);
    assert_int_equal(failure.code, RLOCK_EBUSY);
    assert_string_equal(failure.detail, rlock_op_detail(op));
    assert_in_range(failure.free_ms, 1, LEASE_MS);
    assert_names_holder(&failure, ours);
    op = rlock_op_unref(op);
    assert_code(rlock_unlock(theirs), 0);
}
