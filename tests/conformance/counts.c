/* SPDX-License-Identifier: Apache-2.0 */
/* What a client counts of its calls: as many as a test counts from outside. */
#include "cases.h"

#include "support/counts.h"

enum { MINUTE_MS = 60 * 1000, PAIRS = 5 };

void each_call_is_counted_by_its_kind_and_code(struct fixture *f)
{
    struct rlock_client *client = client_open(f), *other = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, other);
    struct rlock_handle *other_name = lock_named(f, client, "handed over");
    struct rlock_cancel *cancel = NULL;
    struct rlock_stats stats;
    char text[RLOCK_TEXT_SIZE];

    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    assert_code(rlock_lock(rival), 0);
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    assert_code(rlock_lock_for(lock, 20, NULL, NULL), RLOCK_ETIMEDOUT);
    assert_code(rlock_unlock(rival), 0);
    assert_code(rlock_cancel_new(&cancel), 0);
    rlock_cancel_fire(cancel);
    assert_code(TAKE(lock, RLOCK_FOREVER, .cancel = cancel), RLOCK_ECANCELED);
    assert_null(rlock_cancel_free(cancel));
    for (int i = 0; i < PAIRS; i++) {
        assert_code(rlock_lock(lock), 0);
        assert_code(rlock_extend(lock, 0, MINUTE_MS, NULL), 0);
        assert_code(rlock_unlock(lock), 0);
    }
    assert_code(rlock_extend(lock, 0, MINUTE_MS, NULL), RLOCK_ENOTOWNER);
    assert_code(rlock_lock(other_name), 0);
    assert_code(rlock_detach(other_name, 0, MINUTE_MS, text), 0);
    assert_code(rlock_adopt(other_name, text, NULL, NULL), 0);
    assert_code(rlock_detach(other_name, 0, MINUTE_MS, text), 0);
    assert_code(rlock_adopt(other_name, text, NULL, NULL), 0);
    assert_code(rlock_adopt(other_name, text, RLOCK_TAKE(.owner = 78), NULL), RLOCK_ENOTOWNER);
    assert_code(rlock_unlock(other_name), 0);
    assert_code(rlock_lock_for(lock, -2, NULL, NULL), RLOCK_EINVAL); /* does not count */

    stats = counts_of(client);
    assert_takes(&stats, counts_kind(lock), {0, PAIRS + 1}, {RLOCK_EBUSY, 2}, {RLOCK_ETIMEDOUT, 1},
                 {RLOCK_ECANCELED, 1});
    assert_unlocks(&stats, counts_kind(lock), {0, PAIRS + 1}, {RLOCK_ENOTOWNER, 1});
    assert_int_equal(stats.extends[0], PAIRS);
    assert_int_equal(stats.extends[-RLOCK_ENOTOWNER], 1);
    assert_int_equal(counts_sum(stats.extends, RLOCK_STATS_CODES), PAIRS + 1);
    assert_int_equal(stats.detaches[0], 2);
    assert_int_equal(stats.adopts[0], 2);
    assert_int_equal(stats.adopts[-RLOCK_ENOTOWNER], 1);
    assert_int_equal(counts_sum(stats.detaches, RLOCK_STATS_CODES), 2);
    assert_int_equal(counts_sum(stats.adopts, RLOCK_STATS_CODES), 3);
    assert_int_equal(stats.wait.count, PAIRS + 3);
    assert_int_equal(stats.hold.count, PAIRS + 3);
    assert_int_equal(stats.holds, 0);
    assert_int_equal(stats.waiting, 0);
    stats = counts_of(other);
    assert_takes(&stats, counts_kind(rival), {0, 1});
    assert_unlocks(&stats, counts_kind(rival), {0, 1});
}

void a_forced_hold_is_counted_as_lost(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock_stats stats;

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_inspect(lock, &info), 0);
    assert_int_equal(counts_of(client).holds, 1);
    assert_code(rlock_force_unlock(lock, NULL), 0);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);

    stats = counts_of(client);
    assert_unlocks(&stats, counts_kind(lock), {RLOCK_ELOST, 1});
    assert_int_equal(stats.losses[RLOCK_LOST_FORCED], 1);
    assert_int_equal(counts_sum(stats.losses, RLOCK_STATS_REASONS), losses_told(f));
    assert_int_equal(stats.inspects[0], 1);
    assert_int_equal(stats.force_unlocks[0], 1);
    assert_int_equal(stats.hold.count, 1);
    assert_int_equal(stats.holds, 0);
}
