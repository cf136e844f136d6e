/* SPDX-License-Identifier: Apache-2.0 */
/* Holds that end before their unlock: told once, with the reason, and lost for good. That nothing
 * is told twice, fixture_close() sees. */
#include "cases.h"

#include "support/witness.h"

static const char *const steal[] = {
    "EVAL", "redis.call('del', KEYS[1]) redis.call('hset', KEYS[1], 'somebody:1', 1) return 1", "1",
    NAME, NULL};

/* The holder's field, to be freed. */
static char *field_of(struct fixture *f)
{
    return test_server_cmd(f->server, "HKEYS " NAME);
}

void a_deleted_lock_is_lost(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));
    int64_t deleted_us;

    assert_code(rlock_lock(lock), 0);
    deleted_us = test_now_us();
    assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
    assert_took(expect_loss(f, RLOCK_LOST_DELETED) - deleted_us, 0, lease_ms / 3 + LATE_MS);
    assert_false(rlock_is_valid(lock));
    assert_int_equal(rlock_valid_ms(lock), 0);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
}

void a_lock_whose_server_lost_its_data_is_lost(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, test_ms(300)));

    assert_code(rlock_lock(lock), 0);
    assert_true(test_server_says(f->server, "OK", "FLUSHALL"));
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    assert_false(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_lock(lock), 0);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
}

void a_stolen_lock_is_lost(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));
    int64_t stolen_us;

    assert_code(rlock_lock(lock), 0);
    stolen_us = test_now_us();
    free(test_server_argv(f->server, steal));
    assert_took(expect_loss(f, RLOCK_LOST_TAKEN) - stolen_us, 0, lease_ms / 3 + LATE_MS);
    assert_false(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_true(test_server_says(f->server, "somebody:1", "HKEYS " NAME)); /* untouched */
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
}

/* Owners of one client. The second one's grant proves that the first one's hold is gone, long
 * before that is renewed. */
void a_grant_to_another_owner_ends_a_deleted_hold(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client);
    struct witness *witness = witness_new(1);
    int64_t asked_us;

    assert_code(TAKE(lock, 0, .owner = 1), 0);
    witness_enter(witness, 0, 1);
    assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
    asked_us = test_now_us();
    assert_code(TAKE(rival, 0, .owner = 2), 0);
    if (!rlock_is_valid_as(lock, 1)) { /* the first one looks before it goes on */
        witness_evict(witness, 0, 1);
    }
    witness_enter(witness, 0, 2);
    assert_took(expect_loss(f, RLOCK_LOST_TAKEN) - asked_us, 0, LATE_MS);
    assert_int_equal(last_loss(f)->owner, 1);
    assert_true(rlock_is_valid_as(rival, 2));
    witness_leave(witness, 0, 2);
    assert_true(witness_is_clean(witness, stderr));
    witness = witness_free(witness);
    assert_code(rlock_unlock_as(lock, 1), RLOCK_ELOST);
    assert_code(rlock_unlock_as(rival, 2), 0);
}

/* The same owners; the second one is refused, and the answer names somebody else. */
void a_refusal_that_names_another_ends_a_stolen_hold(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client);
    int64_t asked_us;

    assert_code(TAKE(lock, 0, .owner = 1), 0);
    assert_code(TAKE(rival, 0, .owner = 2), RLOCK_EBUSY); /* which names the first one */
    assert_true(rlock_is_valid_as(lock, 1));
    free(test_server_argv(f->server, steal));
    asked_us = test_now_us();
    assert_code(TAKE(rival, 0, .owner = 2), RLOCK_EBUSY);
    assert_false(rlock_is_valid_as(lock, 1));
    assert_took(expect_loss(f, RLOCK_LOST_TAKEN) - asked_us, 0, LATE_MS);
    assert_code(rlock_unlock_as(lock, 1), RLOCK_ELOST);
    assert_true(test_server_says(f->server, "somebody:1", "HKEYS " NAME));
    assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
}

/* A short wait behind an owner of the same client asks the server as well: for the lock, and for
 * the hold that it waits for. Whichever is answered first proves the loss. */
void a_wait_behind_a_deleted_hold_gets_the_lock(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client);

    assert_code(TAKE(lock, 0, .owner = 1), 0);
    assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
    assert_code(TAKE(rival, 200, .owner = 2), 0);
    assert_false(rlock_is_valid_as(lock, 1));
    (void)expect_loss(f, 0);
    assert_true(last_loss(f)->reason == RLOCK_LOST_TAKEN ||
                last_loss(f)->reason == RLOCK_LOST_DELETED);
    assert_code(rlock_unlock_as(lock, 1), RLOCK_ELOST);
    assert_code(rlock_unlock_as(rival, 2), 0);
}

void an_unlock_that_finds_it_taken_says_lost(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    assert_code(rlock_lock(lock), 0);
    free(test_server_argv(f->server, steal));
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    (void)expect_loss(f, RLOCK_LOST_TAKEN);
    assert_true(test_server_says(f->server, "somebody:1", "HKEYS " NAME));
    assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
}

void an_ended_lease_is_told_at_the_end_of_its_validity(struct fixture *f)
{
    enum { ROUNDS = 5 };
    struct rlock_handle *lock = lock_new(f, client_open(f));
    int64_t late_us[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        struct rlock_grant grant = RLOCK_GRANT_INIT;
        int64_t began_us = test_now_us(), took_us, told_us;

        assert_code(rlock_lock_for(lock, 1000, RLOCK_TAKE(.lease_ms = test_ms(50)), &grant), 0);
        took_us = test_now_us() - began_us; /* it was granted at any time of these */
        told_us = expect_loss(f, RLOCK_LOST_EXPIRED) - began_us;
        assert_true(told_us > grant.valid_ms * 1000 - 1000);
        late_us[i] = told_us - took_us - grant.valid_ms * 1000;
        assert_code(rlock_unlock(lock), RLOCK_ELOST);
    }
    assert_usually_took(late_us, ROUNDS, 50, 500);
}

void a_lost_hold_is_lost_for_good(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));
    char *field;

    assert_code(rlock_lock(lock), 0);
    field = field_of(f);
    assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    test_server_do(f->server, "HSET " NAME " %s 1", field); /* somebody restores it */
    assert_true(STAYS(!rlock_is_valid(lock), lease_ms / 2));
    assert_int_equal(test_server_int(f->server, "PTTL " NAME), -1); /* nobody renews it */
    assert_code(rlock_lock_for(lock, 50, NULL, NULL), RLOCK_ELOST);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    test_server_do(f->server, "DEL " NAME);
    free(field);
}

void every_level_of_a_lost_hold_wants_its_unlock(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, test_ms(300)));

    for (int i = 0; i < 3; i++) {
        assert_code(rlock_lock(lock), 0);
    }
    assert_true(test_server_says(f->server, "OK", "FLUSHALL"));
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    for (int i = 0; i < 3; i++) {
        assert_code(rlock_lock(lock), RLOCK_ELOST);
        assert_code(rlock_unlock(lock), RLOCK_ELOST);
    }
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    assert_code(rlock_lock(lock), 0);
    assert_int_equal(rlock_hold_count(lock), 1);
    assert_code(rlock_unlock(lock), 0);
}

void a_nested_take_finds_the_loss(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    assert_code(rlock_lock(lock), 0);
    assert_true(test_server_says(f->server, "OK", "FLUSHALL"));
    assert_code(rlock_lock(lock), RLOCK_ELOST); /* and creates nothing */
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    assert_int_equal(fixture_keys(f), 0);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
}

void a_partial_unlock_finds_the_loss(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_lock(lock), 0);
    assert_true(test_server_says(f->server, "OK", "FLUSHALL"));
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
}

void unlock_of_a_lost_hold_asks_nobody(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, test_ms(300)));
    int64_t since_us;

    assert_code(rlock_lock(lock), 0);
    assert_true(test_server_says(f->server, "OK", "FLUSHALL"));
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    test_server_freeze(f->server);
    since_us = test_now_us();
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_took(test_elapsed_us(since_us), 0, LATE_MS);
    test_server_thaw(f->server);
}

void losing_one_leaves_the_others(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_client *client = client_open_renewing(f, lease_ms);
    struct rlock_handle *lock = lock_new(f, client), *other = lock_named(f, client, "other");

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_lock(other), 0);
    assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    assert_true(STAYS_KEPT(rlock_is_valid(other), lease_ms, lease_ms));
    assert_code(rlock_unlock(other), 0);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
}

void a_loss_lets_a_waiter_of_this_process_in(struct fixture *f)
{
    struct rlock_client *client = client_open_renewing(f, test_ms(300));
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client);
    struct actor *waiter = actor_open(f);

    assert_code(rlock_lock(rival), 0);
    actor_begin(waiter, act_pass_through, lock, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    assert_true(test_server_says(f->server, "OK", "FLUSHALL"));
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    assert_code(actor_end(waiter), 0);
    assert_code(rlock_unlock(rival), RLOCK_ELOST);
}

/* ---- Threads that end ---- */

void a_thread_that_ends_loses_what_it_holds(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_client *client = client_open_renewing(f, lease_ms);
    struct rlock_handle *lock = lock_new(f, client);
    struct actor *holder = actor_open(f);
    int64_t exited_us;

    assert_code(actor_do(holder, act_take, lock, RLOCK_FOREVER, NULL), 0);
    exited_us = test_now_us();
    actor_exit(holder);
    assert_took(expect_loss(f, RLOCK_LOST_THREAD_EXITED) - exited_us, 0, LATE_MS);
    assert_int_equal(last_loss(f)->owner, 0);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    /* not renewed: free within a lease, and this thread has not inherited it */
    assert_code(rlock_lock_for(lock, 10 * lease_ms, NULL, NULL), 0);
    assert_took(test_elapsed_us(exited_us), 0, lease_ms + LATE_MS + wake_ms(f));
    assert_code(rlock_unlock(lock), 0);
}

void a_given_owners_hold_outlives_its_thread(struct fixture *f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));
    struct actor *holder = actor_open(f);

    assert_code(actor_do(holder, act_take, lock, 0, RLOCK_TAKE(.owner = 9)), 0);
    actor_exit(holder);
    assert_true(STAYS_KEPT(rlock_is_valid_as(lock, 9), 3 * lease_ms / 2, lease_ms));
    assert_code(rlock_unlock_as(lock, 9), 0);
}
