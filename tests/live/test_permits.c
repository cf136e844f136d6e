/* SPDX-License-Identifier: Apache-2.0 */
/* Permits: how many are out at a time, who wakes for them, and what they are on the server. Some
 * tests play the same with a semaphore. */
#include "live/permits.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

PERMITS_TEST(as_many_owners_hold_permits_as_there_are, f, .servers = 1)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    uint64_t owners[UNITS + 1];
    struct rlock_info info = RLOCK_INFO_INIT;

    for (size_t i = 0; i < UNITS; i++) {
        owners[i] = rlock_owner_new(client);
        assert_code(take(lock, owners[i], 0), 0);
    }
    owners[UNITS] = rlock_owner_new(client);
    assert_code(take(lock, owners[UNITS], 0), RLOCK_EBUSY);
    assert_code(rlock_inspect(lock, &info), 0);
    assert_int_equal(info.units, UNITS);
    assert_int_equal(info.units_free, 0);
    assert_int_equal(info.holders, UNITS);
    assert_int_equal(info.mine, 1);
    assert_int_equal(info.pid, getpid());
    assert_code(rlock_inspect(rival_new(f, client_open(f)), &info), 0);
    assert_int_equal(strlen(info.holder), 32); /* only its client can tell the owner */
    assert_int_equal(info.pid, getpid());
    assert_code(rlock_unlock_as(lock, owners[1]), 0);
    assert_code(take(lock, owners[UNITS], 0), 0);
    assert_code(rlock_unlock_as(lock, owners[1]), RLOCK_ENOTOWNER);
    owners[1] = owners[UNITS];
    for (size_t i = 0; i < UNITS; i++) {
        assert_code(rlock_unlock_as(lock, owners[i]), 0);
    }
    tidy_up(f, UNITS);
}

PERMITS_TEST(a_take_gets_all_its_units_or_none, f, .servers = 1)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    const uint64_t one = rlock_owner_new(client), other = rlock_owner_new(client);

    assert_code(take(lock, one, 2), 0);
    assert_code(take(lock, other, 2), RLOCK_EBUSY);
    expect_free(f, 1, 2);
    assert_code(take(lock, other, 1), 0);
    assert_code(take(lock, other, UNITS + 1), RLOCK_EINVAL);
    assert_code(take(lock, other, -1), RLOCK_EINVAL);
    assert_code(rlock_unlock_as(lock, one), 0);
    expect_free(f, 2, 1);
    assert_code(rlock_unlock_as(lock, other), 0);
    tidy_up(f, 3);
}

PERMITS_TEST(an_unlock_gives_back_the_units_of_the_latest_take, f, .servers = 1)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_with(f, client, NAME, RLOCK_OPTS(.units = 700));
    const int64_t units[] = {1, 300, 5, 1, 260};
    int64_t left = 700;

    for (size_t i = 0; i < 5; i++) {
        assert_code(take(lock, 0, units[i]), 0);
        left -= units[i];
        expect_free(f, left, 700 - left);
    }
    assert_int_equal(rlock_hold_count(lock), 5);
    assert_code(take(lock, 0, left + 1), RLOCK_EBUSY);
    for (size_t i = 5; i-- > 0;) {
        assert_code(rlock_unlock(lock), 0);
        left += units[i];
        expect_free(f, left, 700 - left);
    }
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    tidy_up(f, 700);
}

PERMITS_TEST(permits_are_what_a_redisson_expects, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    char *type;
    int64_t left;

    assert_code(take(lock, 0, 2), 0);
    type = test_server_cmd(f->server, "TYPE " NAME);
    assert_non_null(strstr(type, "string"));
    free(type);
    assert_int_equal(test_server_int(f->server, "PTTL " NAME), -1);
    left = test_server_int(f->server, /* of the last permit, if it has 16 bytes */
                           "EVAL \""
                           "local ends = redis.call('zrange',KEYS[1],'-1','-1','WITHSCORES') "
                           "local time = redis.call('time') "
                           "return #ends[1] == 16 and ends[2] - time[1] * 1000 or 0"
                           "\" 1 {" NAME "}:timeout");
    assert_in_range(left, 20000, 32000);
    assert_code(rlock_unlock(lock), 0);
    tidy_up(f, UNITS);
}

PERMITS_TEST(the_number_on_the_server_counts, f, .servers = 1)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    const uint64_t other = rlock_owner_new(client);

    free(test_server_cmd(f->server, "SET " NAME " 1"));
    assert_code(take(lock, 0, 1), 0);
    assert_code(take(lock, other, 1), RLOCK_EBUSY);
    free(test_server_cmd(f->server, "INCRBY " NAME " -2")); /* as setPermits(-1) would do */
    assert_code(rlock_unlock(lock), 0);
    assert_code(take(lock, other, 1), RLOCK_EBUSY);
    free(test_server_cmd(f->server, "SET " NAME " 2"));
    assert_code(take(lock, other, 2), 0);
    assert_code(rlock_unlock_as(lock, other), 0);
    free(test_server_cmd(f->server, "SET " NAME " many"));
    assert_code(take(lock, other, 1), RLOCK_EWRONGTYPE);
    free(test_server_cmd(f->server, "DEL " NAME));
}

/* Redissons know nothing of an end: they ask for permits when they want some. */
PERMITS_TEST(permits_whose_leases_are_over_are_free, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_info info = RLOCK_INFO_INIT;

    free(test_server_cmd(f->server, "SET " NAME " 0"));
    free(test_server_cmd(f->server, "ZADD {" NAME "}:timeout 1000 aaaaaaaaaaaaaaaa 2000 b "
                                    "922337203685477 cccccccccccccccc"));
    assert_code(rlock_inspect(lock, &info), 0);
    assert_int_equal(info.units, 3);
    assert_int_equal(info.units_free, 2);
    assert_int_equal(info.ttl_ms, -1);
    assert_string_equal(info.holder, "63636363636363636363636363636363");
    assert_code(take(lock, 0, 2), 0);
    expect_free(f, 0, 3);
    assert_code(rlock_unlock(lock), 0);
    expect_free(f, 2, 1);
    free(test_server_cmd(f->server, "DEL " NAME " {" NAME "}:timeout"));
}

PERMITS_TEST(a_waiter_has_a_permit_as_soon_as_one_is_given_back, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_client *other = client_open(f);
    struct rlock_handle *rival = rival_new(f, other);
    struct actor *actor = actor_open(f);
    int64_t begun;

    assert_code(take(lock, 0, UNITS), 0);
    actor_begin(actor, act_take, rival, RLOCK_FOREVER, NULL);
    await_waiting(other, 1);
    begun = test_now_us();
    assert_code(rlock_unlock(lock), 0); /* no lease is near its end */
    assert_code(actor_end(actor), 0);
    assert_took(test_elapsed_us(begun), 0, LATE_MS); /* it would look again after 5 s */
    expect_free(f, UNITS - 1, 1);
    assert_code(actor_do(actor, act_unlock, rival, 0, NULL), 0);
    tidy_up(f, UNITS);
}

/* They are of one process, of which only the first one in the line asks. */
PERMITS_TEST(as_many_waiters_wake_as_permits_are_given_back, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_client *other = client_open(f);
    struct rlock_handle *rival = rival_new(f, other);
    struct actor *actors[UNITS];
    int64_t begun;

    assert_code(take(lock, 0, UNITS), 0);
    for (size_t i = 0; i < UNITS; i++) {
        actors[i] = actor_open(f);
        actor_begin(actors[i], act_take, rival, RLOCK_FOREVER, NULL);
    }
    await_waiting(other, UNITS);
    begun = test_now_us();
    assert_code(rlock_unlock(lock), 0);
    for (size_t i = 0; i < UNITS; i++) {
        assert_code(actor_end(actors[i]), 0);
    }
    assert_took(test_elapsed_us(begun), 0, 2 * LATE_MS); /* they would look again after 5 s */
    expect_free(f, 0, UNITS);
    for (size_t i = 0; i < UNITS; i++) {
        assert_code(actor_do(actors[i], act_unlock, rival, 0, NULL), 0);
    }
    tidy_up(f, UNITS);
}

/* The connection breaks after the server has run the attempt, and after it has run the release. */
static void cut_the_reply(struct fixture *f)
{
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.url = proxy_url(f->proxy)));
    struct rlock_handle *lock = lock_new(f, client);
    const struct proxy_rule lost = {
        .act = PROXY_CUT_REPLY, .command = "EVALSHA", .contains = NAME, .times = 1};

    assert_code(rlock_try_lock(lock), 0); /* the server knows the scripts from here on */
    assert_code(rlock_unlock(lock), 0);
    for (int i = 0; i < 3; i++) {
        int rule = proxy_add(f->proxy, &lost);

        assert_code(take(lock, 0, 2), 0);
        assert_int_equal(proxy_fired(f->proxy, rule), 1);
        expect_free(f, 1, 2);
        rule = proxy_add(f->proxy, &lost);
        assert_code(rlock_unlock(lock), 0);
        assert_int_equal(proxy_fired(f->proxy, rule), 1);
        expect_free(f, UNITS, 0);
    }
    tidy_up(f, UNITS);
}

PERMITS_TEST(a_request_that_is_sent_twice_counts_once, f, .proxy = PROXY_ON_UNIX)
{
    cut_the_reply(f);
}

SEMAPHORE_TEST(a_semaphores_request_that_is_sent_twice_counts_once, f, .proxy = PROXY_ON_UNIX)
{
    cut_the_reply(f);
}

static void kill_the_holder(struct fixture *f)
{
    struct test_child *child = victim_spawn(&(struct victim){f, f->kind->make_rival, test_ms(300)});
    struct rlock_handle *lock = lock_new(f, client_open(f));

    victim_await(child);
    assert_code(take(lock, 0, UNITS), RLOCK_EBUSY);
    (void)victim_kill(child);
    assert_code(rlock_lock_for(lock, 20000, RLOCK_TAKE(.units = UNITS), NULL), 0);
    expect_free(f, 0, UNITS);
    assert_code(rlock_unlock(lock), 0);
    tidy_up(f, UNITS);
}

PERMITS_TEST(the_permits_of_a_process_that_died_are_free_after_its_lease, f, .servers = 1)
{
    kill_the_holder(f);
}

SEMAPHORE_TEST(the_units_of_a_process_that_died_come_back, f, .servers = 1)
{
    kill_the_holder(f);
}

PERMITS_TEST(permits_are_renewed_and_their_loss_is_reported, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, test_ms(300)));
    const int64_t until = test_now_us() + 2000 * test_ms(300);

    assert_code(take(lock, 0, 2), 0);
    while (test_now_us() < until) {
        assert_true(rlock_is_valid(lock));
        assert_int_equal(test_server_int(f->server, OUT), 2);
    }
    free(test_server_cmd(f->server, "ZREMRANGEBYRANK {" NAME "}:timeout 0 0"));
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    /* the hold's other permit is free when its lease ends */
    assert_code(rlock_lock_for(lock, 20000, RLOCK_TAKE(.units = UNITS - 1), NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    tidy_up(f, UNITS - 1);
}

PERMITS_TEST(permits_are_opened_by_force, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, test_ms(300)));
    struct rlock_handle *rival = rival_new(f, client_open(f));
    bool opened = false;

    assert_code(take(lock, 0, 2), 0);
    assert_code(rlock_force_unlock(rival, &opened), 0);
    assert_true(opened);
    expect_free(f, UNITS, 0);
    assert_code(take(rival, 0, UNITS), 0);
    (void)expect_loss(f, 0);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_unlock(rival), 0);
    tidy_up(f, UNITS);
}

PERMITS_TEST(a_permit_is_handed_to_another_process, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open(f)), *rival = rival_new(f, client_open(f));
    char text[RLOCK_TEXT_SIZE];

    assert_code(take(lock, 0, 2), 0);
    assert_code(rlock_detach(lock, 0, 20000, text), RLOCK_EINVAL);
    assert_code(rlock_unlock(lock), 0);
    assert_code(take(lock, 0, 1), 0);
    assert_code(rlock_detach(lock, 0, 20000, text), 0);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    expect_free(f, UNITS - 1, 1);
    assert_code(rlock_adopt(rival, text, NULL, NULL), 0);
    expect_free(f, UNITS - 1, 1);
    assert_code(rlock_adopt(lock, text, NULL, NULL), RLOCK_ENOTOWNER);
    assert_code(rlock_unlock(rival), 0);
    tidy_up(f, UNITS);
}

/* Redisson shows a permit as 32 digits. */
PERMITS_TEST(a_redisson_permit_is_adopted_by_its_digits, f, .servers = 1)
{
    static const char digits[] = "6162636465666768696A6b6c6d6e6f70";
    struct rlock_handle *lock = lock_new(f, client_open(f)), *reentrant = NULL;
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    free(test_server_cmd(f->server, "SET " NAME " 2"));
    free(test_server_cmd(f->server, "ZADD {" NAME "}:timeout 922337203685477 abcdefghijklmnop"));
    assert_code(rlock_adopt(lock, digits + 1, NULL, NULL), RLOCK_EINVAL);
    assert_code(rlock_adopt(lock, "6162636465666768696a6b6c6d6e6f7g", NULL, NULL), RLOCK_EINVAL);
    assert_code(rlock_adopt(lock, digits, NULL, NULL), RLOCK_EBUSY);
    assert_code(rlock_adopt(lock, digits,
                            RLOCK_TAKE(.lease_ms = 20000, .flags = RLOCK_TAKE_FROM_DEAD), &grant),
                0);
    assert_in_range(grant.lease_ms, 19000, 20000);
    expect_free(f, 2, 1);
    assert_code(rlock_adopt(lock, digits,
                            RLOCK_TAKE(.owner = rlock_owner_new(f->clients[0]),
                                       .flags = RLOCK_TAKE_FROM_DEAD),
                            NULL),
                RLOCK_ENOTOWNER);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_reentrant_new(f->clients[0], NAME, NULL, &reentrant), 0);
    assert_code(rlock_adopt(reentrant, digits, NULL, NULL), RLOCK_EINVAL);
    assert_null(rlock_free(reentrant));
    tidy_up(f, UNITS);
}

TEST(groups_take_no_permits)
{
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL, *group = NULL;

    assert_code(rlock_client_open(RLOCK_CLIENT_OPTS(.url = "redis://127.0.0.1:1"), &client), 0);
    assert_code(rlock_permits_new(client, NAME, NULL, &lock), RLOCK_EINVAL);
    assert_code(rlock_permits_new(client, NAME, RLOCK_OPTS(.units = 3), &lock), 0);
    assert_code(rlock_multi_new(&lock, 1, NULL, &group), RLOCK_ENOTSUP);
    assert_code(rlock_redlock_new(&lock, 1, NULL, &group), RLOCK_ENOTSUP);
    assert_null(rlock_free(lock));
    assert_code(rlock_reentrant_new(client, NAME, NULL, &lock), 0);
    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.units = 1), NULL), RLOCK_EINVAL);
    assert_null(rlock_free(lock));
    rlock_client_close(client);
}

/* ---- Many at once ---- */

struct crew {
    struct rlock_handle *lock;
    atomic_int *at_work; /* the witness: how many units work at this moment */
    int64_t units;
    int rounds;
};

static void *work(void *payload)
{
    const struct crew *crew = payload;

    for (int i = 0; i < crew->rounds; i++) {
        TEST_CHECK(
            rlock_lock_for(crew->lock, RLOCK_FOREVER, RLOCK_TAKE(.units = crew->units), NULL) == 0);
        TEST_CHECK(atomic_fetch_add(crew->at_work, (int)crew->units) + crew->units <= 8);
        sched_yield();
        (void)atomic_fetch_sub(crew->at_work, (int)crew->units);
        TEST_CHECK(rlock_unlock(crew->lock) == 0);
    }
    return NULL;
}

static void work_together(struct fixture *f)
{
    enum { CLIENTS = 4, THREADS = 24 };
    struct rlock_handle *locks[CLIENTS];
    struct crew crews[THREADS];
    pthread_t threads[THREADS];
    atomic_int at_work = 0;

    for (size_t i = 0; i < CLIENTS; i++) {
        locks[i] = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.units = 8));
    }
    for (size_t i = 0; i < THREADS; i++) {
        crews[i] = (struct crew){locks[i % CLIENTS], &at_work, 1 + (int64_t)(i % 3),
                                 test_slack() > 1 ? 20 : 100};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &crews[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    tidy_up(f, 8);
}

PERMITS_TEST(never_more_units_are_at_work_than_there_are, f, .servers = 1)
{
    work_together(f);
}

SEMAPHORE_TEST(never_more_units_of_a_semaphore_are_at_work_than_there_are, f, .servers = 1)
{
    work_together(f);
}
