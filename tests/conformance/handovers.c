/* SPDX-License-Identifier: Apache-2.0 */
/* Holds that are handed over by texts. */
#include "cases.h"

#include <stdio.h>
#include <string.h>

#include "support/async_calls.h"

enum { MINUTE_MS = 60 * 1000 };

static bool is_free(struct fixture *f)
{
    struct rlock_handle *rival = rival_new(f, client_open(f));

    return rlock_try_lock(rival) == 0 && rlock_unlock(rival) == 0;
}

void a_detached_hold_is_adopted(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f)), *other = lock_new(f, client_open(f));
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    char text[RLOCK_TEXT_SIZE];

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), 0);
    assert_null(strchr(text, ' '));
    assert_false(rlock_is_valid(lock));
    assert_int_equal(rlock_hold_count(lock), 0);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    assert_code(rlock_adopt(other, text, RLOCK_TAKE(.lease_ms = MINUTE_MS), &grant), 0);
    assert_int_equal(grant.levels, 1);
    assert_int_equal(grant.lease_ms, MINUTE_MS);
    assert_in_range(rlock_valid_ms(other), MINUTE_MS / 2, MINUTE_MS);
    assert_code(rlock_adopt(lock, text, NULL, NULL), RLOCK_ENOTOWNER);
    assert_code(rlock_unlock(other), 0);
    assert_true(is_free(f));
    assert_code(rlock_adopt(other, text, NULL, NULL), RLOCK_ENOTOWNER);
    assert_int_equal(losses_told(f), 0);
}

void a_detached_lock_stays_taken(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client_open(f));
    char text[RLOCK_TEXT_SIZE];

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), 0);
    assert_code(rlock_try_lock(rival), RLOCK_EBUSY);
    assert_code(TAKE(rival_new(f, client), 0, .owner = 77), RLOCK_EBUSY);
    assert_code(rlock_adopt(lock, text, NULL, NULL), 0);
    assert_code(rlock_try_lock(rival), RLOCK_EBUSY);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_try_lock(rival), 0);
    assert_code(rlock_unlock(rival), 0);
}

/* The text's lease is shorter than what the hold had. */
void a_detached_hold_ends_with_its_lease(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_handle *rival = rival_new(f, client_open(f));
    char text[RLOCK_TEXT_SIZE];
    int64_t since_us;

    assert_code(rlock_lock(lock), 0);
    since_us = test_now_us();
    assert_code(rlock_detach(lock, 0, lease_ms, text), 0);
    assert_code(rlock_lock_for(rival, MINUTE_MS, NULL, NULL), 0);
    assert_took(test_now_us() - since_us, lease_ms - 2, lease_ms + wake_ms(f) + LATE_MS);
    assert_code(rlock_adopt(lock, text, NULL, NULL), RLOCK_ENOTOWNER);
    assert_true(rlock_is_valid(rival));
    assert_code(rlock_unlock(rival), 0);
}

/* A waiter counted on the end of the hold, which is later than that of the text's lease. */
static void gets_it_after_the_text(struct fixture *f, struct rlock_client *client,
                                   struct rlock_client *waiters)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, waiters);
    struct actor *waiter = actor_open(f);
    char text[RLOCK_TEXT_SIZE];
    int64_t since_us;

    assert_code(rlock_lock(lock), 0);
    actor_begin(waiter, act_take, rival, RLOCK_FOREVER, NULL);
    await_waiting(waiters, 1);
    since_us = test_now_us();
    assert_code(rlock_detach(lock, 0, lease_ms, text), 0);
    assert_code(actor_end(waiter), 0);
    assert_took(actor_ended_us(waiter) - since_us, lease_ms - 2, lease_ms + wake_ms(f) + LATE_MS);
    assert_code(actor_do(waiter, act_unlock, rival, 0, NULL), 0);
}

void a_waiter_of_the_same_client_gets_it_after_the_text(struct fixture *f)
{
    struct rlock_client *client = client_open(f);

    gets_it_after_the_text(f, client, client);
}

void a_waiter_elsewhere_gets_it_after_the_text(struct fixture *f)
{
    gets_it_after_the_text(f, client_open(f), client_open(f));
}

void an_adopted_hold_is_renewed(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_handle *other = lock_new(f, client_open_renewing(f, lease_ms));
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    char text[RLOCK_TEXT_SIZE];

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), 0);
    assert_code(rlock_adopt(other, text, NULL, &grant), 0);
    assert_int_equal(grant.is_renewed, 1);
    assert_int_equal(grant.lease_ms, lease_ms);
    assert_true(STAYS_KEPT(rlock_is_valid(other), 3 * lease_ms / 2, lease_ms));
    assert_code(rlock_unlock(other), 0);
    assert_true(is_free(f));
}

void an_adopted_hold_is_detached_again(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f)), *other = lock_new(f, client_open(f));
    char first[RLOCK_TEXT_SIZE], second[RLOCK_TEXT_SIZE];

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, first), 0);
    assert_code(rlock_adopt(other, first, NULL, NULL), 0);
    assert_code(rlock_detach(other, 0, MINUTE_MS, second), 0);
    assert_string_not_equal(first, second);
    assert_code(rlock_adopt(lock, first, NULL, NULL), RLOCK_ENOTOWNER);
    assert_code(rlock_adopt(lock, second, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_true(is_free(f));
}

void an_adopters_token_is_larger(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f)), *other = lock_new(f, client_open(f));
    struct rlock_grant before = RLOCK_GRANT_INIT, after = RLOCK_GRANT_INIT;
    char text[RLOCK_TEXT_SIZE];

    assert_code(rlock_lock_for(lock, 0, NULL, &before), 0);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), 0);
    assert_code(rlock_adopt(other, text, NULL, &after), 0);
    assert_true(after.token > before.token);
    assert_code(rlock_unlock(other), 0);
}

void a_dead_holders_text_is_adopted_on_request(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));
    struct rlock_handle *other = lock_new(f, client_open(f));
    const struct rlock_take *vouched = RLOCK_TAKE(.flags = RLOCK_TAKE_FROM_DEAD);
    char text[RLOCK_TEXT_SIZE];

    assert_code(rlock_hold_text(lock, 0, text), RLOCK_ENOTOWNER);
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_hold_text(lock, 0, text), 0);
    assert_code(rlock_adopt(other, text, NULL, NULL), RLOCK_EBUSY);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_adopt(other, text, vouched, NULL), 0);
    (void)expect_loss(f, kind_can(f, EXCLUDES_ITSELF | NAMES_HOLDER) ? RLOCK_LOST_TAKEN
                                                                     : RLOCK_LOST_DELETED);
    assert_true(rlock_is_valid(other));
    assert_code(rlock_hold_text(lock, 0, text), RLOCK_ELOST);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_unlock(other), 0);
    assert_true(is_free(f));
}

void texts_of_other_locks_are_refused(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *other = lock_named(f, client, "other");
    char text[RLOCK_TEXT_SIZE], wrong[2 * RLOCK_TEXT_SIZE];

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), 0);
    assert_code(rlock_adopt(other, text, NULL, NULL), RLOCK_EINVAL);
    assert_code(rlock_adopt(lock, NULL, NULL, NULL), RLOCK_EINVAL);
    assert_code(rlock_adopt(lock, "", NULL, NULL), RLOCK_EINVAL);
    for (size_t n = strlen(text); n-- > strlen(text) - 38;) { /* a part of it */
        memcpy(wrong, text, n);
        wrong[n] = '\0';
        if (strchr(strrchr(wrong, ':'), '-') != NULL) {
            assert_code(rlock_adopt(lock, wrong, NULL, NULL), RLOCK_EINVAL);
        }
    }
    (void)snprintf(wrong, sizeof(wrong), "%sx", text);
    assert_code(rlock_adopt(lock, wrong, NULL, NULL), RLOCK_EINVAL);
    memset(wrong, '1', sizeof(wrong));
    memcpy(wrong, text, strlen(text));
    wrong[sizeof(wrong) - 1] = '\0';
    assert_code(rlock_adopt(lock, wrong, NULL, NULL), RLOCK_EINVAL);
    assert_code(rlock_adopt(lock, text, RLOCK_TAKE(.lease_ms = 9), NULL), RLOCK_EINVAL);
    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.flags = RLOCK_TAKE_FROM_DEAD), NULL),
                RLOCK_EINVAL);
    assert_code(rlock_adopt(lock, text, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
}

void what_is_not_held_is_not_detached(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    char text[RLOCK_TEXT_SIZE] = "before";

    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), RLOCK_ENOTOWNER);
    assert_string_equal(text, "");
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_detach(lock, 78, MINUTE_MS, text), RLOCK_ENOTOWNER);
    assert_code(rlock_detach(lock, 0, 0, text), RLOCK_EINVAL);
    assert_code(rlock_detach(lock, 0, 9, text), RLOCK_EINVAL);
    assert_code(rlock_detach(lock, 0, -1, text), RLOCK_EINVAL);
    assert_code(rlock_detach(NULL, 0, MINUTE_MS, text), RLOCK_EINVAL);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), RLOCK_ENOTOWNER);
}

void a_hold_of_two_levels_is_not_detached(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    char text[RLOCK_TEXT_SIZE];

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), RLOCK_EINVAL);
    assert_true(rlock_is_valid(lock));
    assert_int_equal(rlock_hold_count(lock), 2);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), 0);
    assert_code(rlock_adopt(lock, text, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_true(is_free(f));
}

void a_lost_hold_is_not_detached(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    char text[RLOCK_TEXT_SIZE];

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_force_unlock(lock, NULL), 0);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), RLOCK_ELOST);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), RLOCK_ELOST);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
}

void a_detach_finds_the_loss(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    char text[RLOCK_TEXT_SIZE];

    assert_code(rlock_lock(lock), 0);
    assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), RLOCK_ELOST);
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_true(is_free(f));
}

void an_owner_that_has_the_lock_adopts_nothing(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    char text[RLOCK_TEXT_SIZE];

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_hold_text(lock, 0, text), 0);
    assert_code(rlock_adopt(lock, text, RLOCK_TAKE(.flags = RLOCK_TAKE_FROM_DEAD), NULL),
                RLOCK_EINVAL);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
}

/* A hold whose detach got no answer, at a server that answers again. */
static struct rlock_handle *detach_in_doubt(struct fixture *f, struct rlock_client *client)
{
    struct rlock_handle *lock = lock_new(f, client);
    char text[RLOCK_TEXT_SIZE] = "before";

    assert_code(rlock_lock(lock), 0);
    test_server_freeze(f->server);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), RLOCK_EINDOUBT);
    assert_string_equal(text, "");
    assert_false(rlock_is_valid(lock));
    test_server_thaw(f->server);
    return lock;
}

static struct rlock_client *client_of_little_patience(struct fixture *f)
{
    return client_open_with(f, RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(200)));
}

void a_detach_in_doubt_is_repeated(struct fixture *f)
{
    struct rlock_handle *lock = detach_in_doubt(f, client_of_little_patience(f));
    struct rlock_handle *other = lock_new(f, client_open(f));
    char text[RLOCK_TEXT_SIZE];

    assert_true(TEST_EVENTUALLY(rlock_detach(lock, 0, MINUTE_MS, text) == 0, 10000));
    assert_code(rlock_adopt(other, text, NULL, NULL), 0);
    assert_code(rlock_unlock(other), 0);
    assert_true(is_free(f));
    assert_int_equal(losses_told(f), 0);
}

void an_unlock_takes_back_a_detach_in_doubt(struct fixture *f)
{
    struct rlock_handle *lock = detach_in_doubt(f, client_of_little_patience(f));
    char text[RLOCK_TEXT_SIZE];

    assert_true(TEST_EVENTUALLY(rlock_unlock(lock) == 0, 10000));
    assert_true(is_free(f));
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), RLOCK_ENOTOWNER);
    assert_int_equal(losses_told(f), 0);
}

void a_close_takes_back_a_detach_in_doubt(struct fixture *f)
{
    struct rlock_client *client = client_of_little_patience(f);

    (void)detach_in_doubt(f, client);
    client_close(f, client);
    assert_true(is_free(f));
}

/* The server runs the adoption when nobody waits for it any more. */
void an_adoption_in_doubt_is_repeated(struct fixture *f)
{
    struct rlock_client *client = client_of_little_patience(f);
    struct rlock_handle *lock = lock_new(f, client_open(f)), *other = lock_new(f, client);
    struct rlock_info info = RLOCK_INFO_INIT;
    char text[RLOCK_TEXT_SIZE];
    int code = RLOCK_EINDOUBT;

    assert_true(TEST_EVENTUALLY(rlock_inspect(other, &info) == 0, 10000)); /* it is connected */
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_detach(lock, 0, MINUTE_MS, text), 0);
    test_server_freeze(f->server);
    assert_code(rlock_adopt(other, text, NULL, NULL), RLOCK_EINDOUBT);
    assert_false(rlock_is_valid(other));
    test_server_thaw(f->server);
    for (int64_t since_us = test_now_us();
         code == RLOCK_EINDOUBT && test_elapsed_us(since_us) < 10 * 1000000;) {
        code = rlock_adopt(other, text, NULL, NULL);
    }
    assert_code(code, 0);
    assert_true(rlock_is_valid(other));
    assert_code(rlock_try_lock(rival_new(f, client_open(f))), RLOCK_EBUSY);
    assert_code(rlock_unlock(other), 0);
    assert_true(is_free(f));
}
