/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an owner that has an id: its holds are given back, and its waits end. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/clients.h"
#include "support/completion.h"
#include "support/witness.h"

#define OWNER 41

static void assert_nothing_is_held(const struct rlock_handle *lock, uint64_t owner)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    assert_code(rlock_held(lock, owner, &grant), RLOCK_ENOTOWNER);
}

LOCK_TEST(an_owner_that_ends_loses_its_holds_and_the_server_gets_them_back, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *other = lock_named(f, client, "other");

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.owner = OWNER), NULL), 0);
    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.owner = OWNER), NULL), 0);
    assert_code(rlock_lock_for(other, 0, RLOCK_TAKE(.owner = OWNER + 1), NULL), 0);
    assert_code(rlock_owner_end(client, OWNER), 0);
    assert_false(rlock_is_valid_as(lock, OWNER));
    (void)expect_loss(f, RLOCK_LOST_OWNER_ENDED);
    assert_int_equal(last_loss(f)->owner, OWNER);
    assert_int_equal(last_loss(f)->levels, 2);
    assert_true(TEST_EVENTUALLY(!is_locked(lock), 5000));
    assert_nothing_is_held(lock, OWNER);
    assert_code(rlock_unlock_as(lock, OWNER), RLOCK_ENOTOWNER);
    assert_true(rlock_is_valid_as(other, OWNER + 1));
    assert_code(rlock_unlock_as(other, OWNER + 1), 0);
}

LOCK_TEST(an_owner_that_has_nothing_may_end, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);

    assert_code(rlock_owner_end(client, OWNER), 0);
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_owner_end(client, OWNER), 0);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
}

LOCK_TEST(the_waits_of_an_owner_that_ends_are_canceled, f)
{
    struct rlock_handle *theirs = lock_new(f, client_open(f));
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct actor *actor = actor_open(f);
    struct completion end = COMPLETION, other = COMPLETION;

    assert_code(rlock_lock(theirs), 0);
    assert_code(rlock_lock_async(lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = OWNER), completion_tell,
                                 &end, NULL),
                0);
    assert_code(rlock_lock_async(lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = OWNER + 1),
                                 completion_tell, &other, NULL),
                0);
    actor_begin(actor, act_take, lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = OWNER));
    await_waiting(client, 3);
    assert_code(rlock_owner_end(client, OWNER), 0);
    assert_code(completion_await(&end), RLOCK_ECANCELED);
    assert_code(actor_end(actor), RLOCK_ECANCELED);
    assert_false(completion_is_there(&other));
    assert_code(rlock_unlock(theirs), 0);
    assert_code(completion_await(&other), 0);
    assert_code(rlock_unlock_as(lock, OWNER + 1), 0);
    assert_nothing_is_held(lock, OWNER);
}

/* Its nested call is under way when it ends: nobody knows yet what that does. */
LOCK_TEST(a_call_that_is_under_way_leaves_nothing_of_an_owner_that_ends, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct completion nested = COMPLETION, left = COMPLETION;

    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.owner = OWNER), NULL), 0);
    test_server_freeze(f->server);
    assert_code(rlock_lock_async(lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = OWNER), completion_tell,
                                 &nested, NULL),
                0);
    assert_code(rlock_unlock_async(lock, OWNER, completion_tell, &left, NULL), 0);
    assert_code(rlock_owner_end(client, OWNER), 0);
    assert_false(rlock_is_valid_as(lock, OWNER));
    (void)expect_loss(f, RLOCK_LOST_OWNER_ENDED);
    test_server_thaw(f->server);
    assert_int_not_equal(completion_await(&nested), 0);
    (void)completion_await(&left);
    assert_true(TEST_EVENTUALLY(!is_locked(lock), 10000));
    assert_true(TEST_EVENTUALLY(rlock_hold_count_as(lock, OWNER) == 0, 5000));
    assert_nothing_is_held(lock, OWNER);
}

LOCK_TEST(a_multi_lock_of_an_owner_that_ends_is_given_back_as_a_whole, f)
{
    struct rlock_client *clients[] = {client_open(f), client_open(f)};
    struct rlock_handle *members[] = {lock_named(f, clients[0], "a"),
                                      lock_named(f, clients[1], "b")};
    struct rlock_handle *multi = NULL;

    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    assert_code(rlock_lock_for(multi, 0, RLOCK_TAKE(.owner = OWNER), NULL), 0);
    assert_code(rlock_lock_for(multi, 0, RLOCK_TAKE(.owner = OWNER), NULL), 0);
    assert_code(rlock_owner_end(clients[1], OWNER), 0);
    assert_false(rlock_is_valid_as(multi, OWNER));
    (void)expect_loss(f, RLOCK_LOST_OWNER_ENDED);
    assert_string_equal(last_loss(f)->kind, "multi");
    assert_int_equal(last_loss(f)->levels, 2);
    assert_true(TEST_EVENTUALLY(!is_locked(members[0]) && !is_locked(members[1]), 5000));
    assert_code(rlock_unlock_as(multi, OWNER), RLOCK_ENOTOWNER);
    assert_int_equal(losses_told(f), 1);
    multi = rlock_free(multi);
}

LOCK_TEST(a_multi_lock_that_waits_for_a_member_is_canceled_with_its_owner, f)
{
    struct rlock_handle *theirs = lock_named(f, client_open(f), "b");
    struct rlock_client *clients[] = {client_open(f), client_open(f)};
    struct rlock_handle *members[] = {lock_named(f, clients[0], "a"),
                                      lock_named(f, clients[1], "b")};
    struct rlock_handle *multi = NULL;
    struct completion end = COMPLETION;

    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    assert_code(rlock_lock(theirs), 0);
    assert_code(rlock_lock_async(multi, RLOCK_FOREVER, RLOCK_TAKE(.owner = OWNER), completion_tell,
                                 &end, NULL),
                0);
    await_waiting(clients[1], 1);
    assert_code(rlock_owner_end(clients[0], OWNER), 0);
    assert_code(completion_await(&end), RLOCK_ECANCELED);
    assert_true(TEST_EVENTUALLY(!is_locked(members[0]), 5000));
    assert_code(rlock_unlock(theirs), 0);
    multi = rlock_free(multi);
}

FIXTURE_WITH_TEST(a_redlock_of_an_owner_that_ends_is_given_back_as_a_whole, f,
                  .kind = &kind_reentrant, .servers = 3)
{
    struct rlock_client *clients[3];
    struct rlock_handle *members[3], *redlock = NULL;

    for (size_t i = 0; i < 3; i++) {
        clients[i] = client_open_with(f, RLOCK_CLIENT_OPTS(.url = test_server_url(f->servers[i])));
        members[i] = lock_new(f, clients[i]);
    }
    assert_code(rlock_redlock_new(members, 3, RLOCK_OPTS(.max_lease_ms = -1), &redlock), 0);
    assert_code(rlock_lock_for(redlock, 5000, RLOCK_TAKE(.owner = OWNER), NULL), 0);
    assert_code(rlock_owner_end(clients[2], OWNER), 0);
    assert_false(rlock_is_valid_as(redlock, OWNER));
    (void)expect_loss(f, RLOCK_LOST_OWNER_ENDED);
    for (size_t i = 0; i < 3; i++) {
        assert_true(TEST_EVENTUALLY(!is_locked(members[i]), 5000));
    }
    assert_int_equal(losses_told(f), 1);
    redlock = rlock_free(redlock);
}

/* ---- Owners come, and end at any time ---- */

enum { CREWS = 6, TURNS = 150 };

struct crew {
    pthread_t thread;
    struct rlock_client *client;
    struct rlock_handle *lock;
    struct witness *witness;
    unsigned seed;
    uint64_t id;
    unsigned ended; /* with a hold */
};

/* An owner stops its work before it ends. Some end while their calls wait or are under way. */
static void one_owner(struct crew *crew)
{
    const uint64_t owner = rlock_owner_new(crew->client);
    const bool in_vain = rand_r(&crew->seed) % 4 == 0;
    struct completion end = COMPLETION;
    int code;

    TEST_CHECK(rlock_lock_async(crew->lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = owner),
                                completion_tell, &end, NULL) == 0);
    if (in_vain) {
        TEST_CHECK(rlock_owner_end(crew->client, owner) == 0);
    }
    code = completion_await(&end);
    TEST_CHECK(code == 0 || (in_vain && code == RLOCK_ECANCELED));
    if (in_vain) {
        TEST_CHECK(!rlock_is_valid_as(crew->lock, owner));
        crew->ended += code == 0;
        return;
    }
    TEST_CHECK(rlock_is_valid_as(crew->lock, owner));
    witness_enter(crew->witness, 0, crew->id);
    witness_leave(crew->witness, 0, crew->id);
    if (rand_r(&crew->seed) % 2 == 0) {
        TEST_CHECK(rlock_unlock_as(crew->lock, owner) == 0);
    } else {
        TEST_CHECK(rlock_owner_end(crew->client, owner) == 0);
        crew->ended++;
    }
}

static void *work(void *arg)
{
    struct crew *crew = arg;

    for (int i = 0; i < TURNS; i++) {
        one_owner(crew);
    }
    return NULL;
}

LOCK_TEST(owners_that_end_at_any_time_leave_nothing_and_exclude_each_other, f)
{
    struct rlock_client *clients[] = {client_open(f), client_open(f)};
    struct witness *witness = witness_new(1);
    struct crew crews[CREWS];
    size_t ended = 0;

    for (size_t i = 0; i < CREWS; i++) {
        crews[i] = (struct crew){.client = clients[i % 2],
                                 .lock = lock_new(f, clients[i % 2]),
                                 .witness = witness,
                                 .seed = (unsigned)i,
                                 .id = i + 1};
        assert_int_equal(pthread_create(&crews[i].thread, NULL, work, &crews[i]), 0);
    }
    for (size_t i = 0; i < CREWS; i++) {
        assert_int_equal(pthread_join(crews[i].thread, NULL), 0);
        ended += crews[i].ended;
    }
    assert_true(witness_is_clean(witness, stderr));
    assert_true(TEST_EVENTUALLY(losses_told(f) == ended, 5000));
    assert_true(TEST_EVENTUALLY(!is_locked(crews[0].lock), 5000));
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
    forgive_losses(f);
    witness = witness_free(witness);
}
