/* SPDX-License-Identifier: Apache-2.0 */
/* Different kinds of lock under one name. */
#include "support/clients.h"

/* Those that are one hash under the name. */
static new_fn *const kinds[] = {rlock_reentrant_new, rlock_nonreentrant_new, rlock_spin_new,
                                rlock_fenced_new};
enum { N = sizeof(kinds) / sizeof(kinds[0]) };

static struct rlock_handle *make(new_fn *kind, struct rlock_client *client)
{
    struct rlock_handle *lock = NULL;

    assert_code(kind(client, NAME, NULL, &lock), 0);
    return lock;
}

LOCK_TEST(kinds_of_one_hash_exclude_each_other, f)
{
    struct rlock_client *clients[2] = {client_open(f), client_open(f)};

    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < N; j++) {
            struct rlock_handle *a = make(kinds[i], clients[0]), *b = make(kinds[j], clients[1]);

            assert_code(rlock_lock(a), 0);
            assert_code(rlock_try_lock(b), RLOCK_EBUSY);
            assert_code(rlock_lock_for(b, 100, NULL, NULL), RLOCK_ETIMEDOUT);
            assert_code(rlock_unlock(a), 0);
            assert_null(rlock_free(a));
            assert_null(rlock_free(b));
        }
    }
}

LOCK_TEST(a_release_of_any_kind_wakes_waiters_of_all, f)
{
    struct rlock_client *clients[2] = {client_open(f), client_open(f)};
    struct actor *waiter = actor_open(f);

    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < N; j++) {
            struct rlock_handle *holder = make(kinds[i], clients[0]),
                                *b = make(kinds[j], clients[1]);
            int64_t unlocked_us;

            assert_code(rlock_lock(holder), 0);
            actor_begin(waiter, act_pass_through, b, RLOCK_FOREVER, NULL);
            await_waiting(clients[1], 1);
            unlocked_us = test_now_us();
            assert_code(rlock_unlock(holder), 0);
            assert_code(actor_end(waiter), 0);
            assert_took(actor_ended_us(waiter) - unlocked_us, 0, 1000);
            assert_null(rlock_free(holder));
            assert_null(rlock_free(b));
        }
    }
}

/* An owner that nests another kind under the same name has made a mistake; it must not hang. */
LOCK_TEST(another_kind_under_a_held_name_is_refused, f)
{
    struct rlock_client *client = client_open(f);

    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < N; j++) {
            struct rlock_handle *held = make(kinds[i], client), *other = make(kinds[j], client);

            assert_code(rlock_lock(held), 0);
            if (i != j) {
                assert_code(rlock_lock(other), RLOCK_EINVAL);
                assert_code(rlock_try_lock(other), RLOCK_EINVAL);
                assert_string_not_equal(rlock_detail(), "");
                assert_true(rlock_is_valid(held));
                assert_int_equal(rlock_hold_count(held), 1);
            }
            assert_code(rlock_unlock(held), 0);
            assert_code(rlock_lock(other), 0); /* nothing stands in its way now */
            assert_code(rlock_unlock(other), 0);
            assert_null(rlock_free(held));
            assert_null(rlock_free(other));
        }
    }
}

LOCK_TEST(each_kind_says_what_it_is, f)
{
    static const char *const names[] = {"reentrant", "non-reentrant", "spin", "fenced"};
    struct rlock_client *client = client_open(f);

    for (size_t i = 0; i < N; i++) {
        struct rlock_handle *lock = make(kinds[i], client);

        assert_string_equal(rlock_kind(lock), names[i]);
        assert_null(rlock_free(lock));
    }
}
