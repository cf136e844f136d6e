/* SPDX-License-Identifier: Apache-2.0 */
/* The multi-lock on real servers: all or none, in any order, over clients and kinds. */
#include <sys/wait.h>
#include <unistd.h>

#include "composite/fleet.h"
#include "support/test.h"

#define OFF (-1)

static const struct rlock_client_opts usual = {.size = sizeof(usual)};

struct pair {
    struct fleet fleet;
    struct crew one, two;
    struct rlock *b[2], *multi[2]; /* of each crew: "b" on the last server, and "a" with "b" */
};

static void open_pair(struct pair *pair, size_t servers, struct rlock_client_opts opts)
{
    struct crew *crews[] = {&pair->one, &pair->two};

    fleet_open(&pair->fleet, &(struct fleet_opts){.n = servers});
    for (size_t i = 0; i < 2; i++) {
        struct rlock *members[2];

        crew_open(crews[i], &pair->fleet, opts, OFF);
        pair->b[i] = crew_lock(crews[i], servers - 1, "b");
        members[i] = crews[i]->members[0]; /* in different orders */
        members[1 - i] = pair->b[i];
        assert_code(rlock_multi_new(members, 2, NULL, &pair->multi[i]), 0);
    }
}

static void close_pair(struct pair *pair)
{
    assert_true(TEST_EVENTUALLY(fleet_holding(&pair->fleet, "a") == 0, 5000));
    assert_true(TEST_EVENTUALLY(fleet_holding(&pair->fleet, "b") == 0, 5000));
    for (size_t i = 0; i < 2; i++) {
        pair->multi[i] = rlock_free(pair->multi[i]);
        pair->b[i] = rlock_free(pair->b[i]);
    }
    crew_close(&pair->one);
    crew_close(&pair->two);
    fleet_close(&pair->fleet);
}

TEST(all_members_are_held_or_none)
{
    struct pair pair;

    open_pair(&pair, 2, usual);
    assert_string_equal(rlock_name(pair.multi[0], NULL), "a,b");
    assert_string_equal(rlock_name(pair.multi[1], NULL), "a,b");
    assert_string_equal(rlock_kind(pair.multi[0]), "multi");
    assert_code(rlock_try_lock(pair.multi[0]), 0);
    assert_true(rlock_is_valid(pair.multi[0]));
    assert_int_equal(fleet_holding(&pair.fleet, "a"), 1);
    assert_int_equal(fleet_holding(&pair.fleet, "b"), 1);
    assert_code(rlock_try_lock(pair.multi[1]), RLOCK_EBUSY);
    assert_non_null(strstr(rlock_detail(), "held by"));
    assert_code(rlock_try_lock(pair.two.members[0]), RLOCK_EBUSY);
    assert_code(rlock_try_lock(pair.b[1]), RLOCK_EBUSY);
    assert_code(rlock_unlock(pair.multi[0]), 0);
    assert_false(rlock_is_valid(pair.multi[0]));
    assert_code(rlock_unlock(pair.multi[0]), RLOCK_ENOTOWNER);
    assert_code(rlock_try_lock(pair.b[1]), 0);
    assert_code(rlock_try_lock(pair.multi[0]), RLOCK_EBUSY); /* and "a" is given back */
    assert_code(rlock_try_lock(pair.two.members[0]), 0);
    assert_code(rlock_unlock(pair.two.members[0]), 0);
    assert_code(rlock_unlock(pair.b[1]), 0);
    close_pair(&pair);
}

TEST(it_is_looked_at_and_opened_through_its_members)
{
    struct pair pair;
    struct rlock_info info = RLOCK_INFO_INIT;
    bool was_locked = true;

    open_pair(&pair, 2, usual);
    assert_code(rlock_inspect(pair.multi[1], &info), 0);
    assert_false(info.locked);
    assert_int_equal(info.ttl_ms, -2);
    assert_code(rlock_force_unlock(pair.multi[1], &was_locked), 0);
    assert_false(was_locked);
    assert_code(rlock_try_lock(pair.multi[0]), 0);
    assert_code(rlock_inspect(pair.multi[1], &info), 0);
    assert_true(info.locked);
    assert_int_equal(info.holders, 2);
    assert_true(strncmp(info.holder, rlock_client_uuid(pair.one.clients[0]), 36) == 0);
    assert_code(rlock_force_unlock(pair.multi[0], &was_locked), 0);
    assert_true(was_locked);
    assert_true(TEST_EVENTUALLY(crew_losses(&pair.one) == 1, 5000));
    assert_int_equal(pair.one.reason, RLOCK_LOST_FORCED);
    assert_code(rlock_unlock(pair.multi[0]), RLOCK_ELOST);
    close_pair(&pair);
}

TEST(a_wait_ends_at_its_deadline_with_nothing_held)
{
    struct pair pair;
    int64_t began_us;

    open_pair(&pair, 2, usual);
    assert_code(rlock_try_lock(pair.b[1]), 0);
    began_us = test_now_us();
    assert_code(rlock_lock_with(pair.multi[0], RLOCK_TAKE(.wait_ms = 200), NULL), RLOCK_ETIMEDOUT);
    assert_true(test_elapsed_us(began_us) >= 200000);
    assert_in_time(began_us, 200000 + 250000 * test_slack());
    assert_int_equal(fleet_holding(&pair.fleet, "a"), 0);
    assert_code(rlock_unlock(pair.b[1]), 0);
    close_pair(&pair);
}

TEST(its_owner_takes_it_and_its_members_again)
{
    struct pair pair;

    open_pair(&pair, 2, usual);
    assert_code(rlock_try_lock(pair.one.members[0]), 0); /* before, … */
    assert_code(rlock_try_lock(pair.multi[0]), 0);
    assert_code(rlock_try_lock(pair.multi[0]), 0);
    assert_int_equal(rlock_hold_count(pair.multi[0]), 2);
    assert_code(rlock_try_lock(pair.b[0]), 0); /* … and after */
    assert_true(test_server_says(pair.fleet.servers[0], "3", "HVALS a"));
    assert_true(test_server_says(pair.fleet.servers[1], "3", "HVALS b"));
    assert_code(rlock_unlock(pair.multi[0]), 0);
    assert_true(rlock_is_valid(pair.multi[0]));
    assert_code(rlock_unlock(pair.multi[0]), 0);
    assert_true(test_server_says(pair.fleet.servers[0], "1", "HVALS a"));
    assert_true(test_server_says(pair.fleet.servers[1], "1", "HVALS b"));
    assert_code(rlock_unlock(pair.one.members[0]), 0);
    assert_code(rlock_unlock(pair.b[0]), 0);
    close_pair(&pair);
}

TEST(losing_one_loses_all_and_is_told_once)
{
    struct pair pair;

    open_pair(&pair, 2, RLOCK_CLIENT_OPTS(.renewed_lease_ms = 600));
    assert_code(rlock_try_lock(pair.multi[0]), 0);
    assert_int_equal(test_server_int(pair.fleet.servers[1], "DEL b"), 1);
    assert_true(TEST_EVENTUALLY(crew_losses(&pair.one) == 1, 5000));
    assert_string_equal(pair.one.kind, "multi");
    assert_string_equal(pair.one.name, "a,b");
    assert_int_equal(pair.one.reason, RLOCK_LOST_DELETED);
    assert_false(rlock_is_valid(pair.multi[0]));
    assert_true(TEST_EVENTUALLY(fleet_holding(&pair.fleet, "a") == 0, 5000)); /* given back */
    assert_code(rlock_try_lock(pair.multi[0]), RLOCK_ELOST);
    assert_code(rlock_unlock(pair.multi[0]), RLOCK_ELOST);
    assert_code(rlock_try_lock(pair.multi[0]), 0);
    assert_code(rlock_unlock(pair.multi[0]), 0);
    assert_int_equal(crew_losses(&pair.one), 1);
    close_pair(&pair);
}

TEST(a_fixed_lease_lasts_until_the_last_member_is_there)
{
    struct pair pair;
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    int64_t began_us = test_now_us();

    open_pair(&pair, 2, usual);
    assert_code(rlock_lock_with(pair.b[1], RLOCK_TAKE(.lease_ms = 900), NULL), 0);
    assert_code(
        rlock_lock_with(pair.multi[0], RLOCK_TAKE(.wait_ms = 10000, .lease_ms = 300), &grant), 0);
    assert_true(test_elapsed_us(began_us) > 500000); /* longer than its own lease */
    assert_in_range(grant.valid_ms, 100, 300);
    assert_int_equal(crew_losses(&pair.one), 0);
    assert_true(TEST_EVENTUALLY(crew_losses(&pair.one) == 1, 5000)); /* and then it ends */
    assert_int_equal(pair.one.reason, RLOCK_LOST_EXPIRED);
    assert_code(rlock_unlock(pair.multi[0]), RLOCK_ELOST);
    assert_code(rlock_unlock(pair.b[1]), RLOCK_ELOST);
    close_pair(&pair);
}

/* ---- Cancelling ---- */

struct taker {
    pthread_t thread;
    struct rlock *lock;
    struct rlock_take take;
    int code;
    atomic_bool begun;
};

static void *take_main(void *arg)
{
    struct taker *taker = arg;

    atomic_store(&taker->begun, true);
    taker->code = rlock_lock_with(taker->lock, &taker->take, NULL);
    return NULL;
}

TEST(a_wait_can_be_cancelled)
{
    struct pair pair;
    struct taker taker;
    struct rlock_cancel *cancel;

    open_pair(&pair, 2, usual);
    assert_code(rlock_cancel_new(&cancel), 0);
    assert_code(rlock_try_lock(pair.b[1]), 0);
    taker = (struct taker){.lock = pair.multi[0],
                           .take = {.size = sizeof(taker.take), .wait_ms = -1, .cancel = cancel}};
    TEST_CHECK(pthread_create(&taker.thread, NULL, take_main, &taker) == 0);
    assert_true(TEST_EVENTUALLY(fleet_holding(&pair.fleet, "a") == 1, 5000)); /* waits for "b" */
    rlock_cancel_fire(cancel);
    TEST_CHECK(pthread_join(taker.thread, NULL) == 0);
    assert_int_equal(taker.code, RLOCK_ECANCELED);
    assert_true(TEST_EVENTUALLY(fleet_holding(&pair.fleet, "a") == 0, 1000));
    assert_code(rlock_unlock(pair.b[1]), 0);
    cancel = rlock_cancel_free(cancel);
    close_pair(&pair);
}

TEST(a_cancel_that_came_first_ends_it_too)
{
    struct pair pair;
    struct rlock_cancel *cancel;
    int64_t began_us;

    open_pair(&pair, 2, usual);
    assert_code(rlock_cancel_new(&cancel), 0);
    rlock_cancel_fire(cancel);
    assert_code(rlock_try_lock(pair.b[1]), 0);
    for (int i = 0; i < 3; i++) { /* a signal that was used before rings no more */
        began_us = test_now_us();
        assert_code(
            rlock_lock_with(pair.multi[0], RLOCK_TAKE(.wait_ms = -1, .cancel = cancel), NULL),
            RLOCK_ECANCELED);
        assert_in_time(began_us, 1000000);
        assert_true(TEST_EVENTUALLY(fleet_holding(&pair.fleet, "a") == 0, 1000));
    }
    assert_code(rlock_unlock(pair.b[1]), 0);
    cancel = rlock_cancel_free(cancel);
    close_pair(&pair);
}

/* ---- Ends that nobody unlocks ---- */

static void *take_and_exit(void *arg)
{
    assert_code(rlock_try_lock(arg), 0);
    return NULL;
}

TEST(a_thread_that_exits_loses_it)
{
    struct pair pair;
    pthread_t thread;

    open_pair(&pair, 2, RLOCK_CLIENT_OPTS(.renewed_lease_ms = 600));
    TEST_CHECK(pthread_create(&thread, NULL, take_and_exit, pair.multi[0]) == 0);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    assert_true(TEST_EVENTUALLY(crew_losses(&pair.one) == 1, 5000));
    assert_string_equal(pair.one.kind, "multi");
    assert_int_equal(pair.one.reason, RLOCK_LOST_THREAD_EXITED);
    assert_code(rlock_lock_with(pair.multi[1], RLOCK_TAKE(.wait_ms = 10000), NULL), 0);
    assert_code(rlock_unlock(pair.multi[1]), 0);
    close_pair(&pair);
}

TEST(closing_one_client_loses_it_and_leaves_the_others_free)
{
    struct fleet fleet;
    struct rlock_client *clients[2];
    struct rlock *members[2], *multi;

    fleet_open(&fleet, &(struct fleet_opts){.n = 2});
    for (size_t i = 0; i < 2;
         i++) { /* without callbacks: what is lost is given back all the same */
        assert_code(
            rlock_client_open(&RLOCK_CLIENT_OPTS(.url = test_server_url(fleet.servers[i]),
                                                 .ca_file = test_server_cacert(fleet.servers[i])),
                              &clients[i]),
            0);
        assert_code(rlock_reentrant_new(clients[i], "a", NULL, &members[i]), 0);
    }
    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    assert_code(rlock_try_lock(multi), 0);
    assert_int_equal(fleet_holding(&fleet, "a"), 2);
    clients[0] = rlock_client_close(clients[0]);
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 5000));
    assert_false(rlock_is_valid(multi));
    assert_code(rlock_unlock(multi), RLOCK_ENOTOWNER);
    multi = rlock_free(multi);
    members[0] = rlock_free(members[0]);
    members[1] = rlock_free(members[1]);
    clients[1] = rlock_client_close(clients[1]);
    fleet_close(&fleet);
}

TEST(a_release_that_is_refused_is_tried_again)
{
    struct pair pair;

    open_pair(&pair, 2, RLOCK_CLIENT_OPTS(.op_timeout_ms = 500));
    assert_code(rlock_try_lock(pair.multi[0]), 0);
    free(test_server_cmd(pair.fleet.servers[1], "CONFIG SET min-replicas-to-write 1"));
    assert_int_not_equal(rlock_unlock(pair.multi[0]), 0);
    assert_int_equal(fleet_holding(&pair.fleet, "b"), 1);
    free(test_server_cmd(pair.fleet.servers[1], "CONFIG SET min-replicas-to-write 0"));
    assert_true(TEST_EVENTUALLY(fleet_holding(&pair.fleet, "b") == 0, 10000));
    assert_code(rlock_lock_with(pair.multi[0], RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    assert_code(rlock_unlock(pair.multi[0]), 0);
    close_pair(&pair);
}

/* ---- Kinds, and multi-locks as members ---- */

TEST(members_may_be_of_any_kind_and_multis_too)
{
    struct pair pair;
    struct rlock *kinds[5], *inner, *outer;
    struct rlock_client *client;

    open_pair(&pair, 1, usual);
    client = pair.one.clients[0];
    assert_code(rlock_fair_new(client, "f", NULL, &kinds[0]), 0);
    assert_code(rlock_read_new(client, "r", NULL, &kinds[1]), 0);
    assert_code(rlock_write_new(client, "w", NULL, &kinds[2]), 0);
    assert_code(rlock_fenced_new(client, "t", NULL, &kinds[3]), 0);
    assert_code(rlock_multi_new(kinds, 4, NULL, &inner), 0);
    assert_code(rlock_multi_new((struct rlock *[]){inner, pair.multi[0]}, 2, NULL, &outer), 0);
    assert_string_equal(rlock_name(outer, NULL), "a,b,f,r,t,w");
    for (int i = 0; i < 3; i++) {
        assert_code(rlock_try_lock(outer), 0);
        assert_code(rlock_try_lock(pair.two.members[0]), RLOCK_EBUSY);
        assert_int_equal(fleet_holding(&pair.fleet, "w"), 1);
        assert_code(rlock_unlock(outer), 0);
        assert_int_equal(fleet_holding(&pair.fleet, "w"), 0);
    }
    assert_code(rlock_write_new(client, "r", NULL, &kinds[4]), 0);
    assert_code(rlock_multi_new((struct rlock *[]){kinds[1], kinds[4]}, 2, NULL, &inner),
                RLOCK_EINVAL);
    assert_code(rlock_multi_new((struct rlock *[]){kinds[1], kinds[1]}, 2, NULL, &inner),
                RLOCK_EINVAL);
    assert_code(rlock_multi_new(&pair.one.lock, 1, NULL, &inner), RLOCK_ENOTSUP);
    for (size_t i = 0; i < 5; i++) {
        kinds[i] = rlock_free(kinds[i]);
    }
    inner = rlock_free(inner);
    outer = rlock_free(outer);
    free(test_server_cmd(pair.fleet.servers[0], "DEL t redisson_lock_token:{t}"));
    close_pair(&pair);
}

/* ---- One server through two clients ---- */

struct twins {
    struct fleet fleet, view;
    struct crew one, two; /* which have different addresses for their server */
    struct rlock *lock;
};

static void open_twins(struct twins *twins)
{
    fleet_open(&twins->fleet, &(struct fleet_opts){.n = 1});
    fleet_view_open(&twins->view, &twins->fleet);
    crew_open(&twins->one, &twins->fleet, usual, OFF);
    crew_open(&twins->two, &twins->view, usual, OFF);
}

static void close_twins(struct twins *twins)
{
    twins->lock = rlock_free(twins->lock);
    crew_close(&twins->one);
    crew_close(&twins->two);
    fleet_view_close(&twins->view);
    fleet_close(&twins->fleet);
}

/* It would wait for itself. */
TEST(one_name_through_two_clients_of_one_server_is_refused)
{
    struct twins twins;
    struct rlock *members[2];

    open_twins(&twins);
    members[0] = twins.one.members[0];
    members[1] = twins.two.members[0];
    assert_code(rlock_multi_new(members, 2, NULL, &twins.lock), 0);
    for (int i = 0; i < 2; i++) { /* as soon as both are connected, and then at once */
        assert_code(rlock_lock(twins.lock), RLOCK_EINVAL);
        assert_non_null(strstr(rlock_detail(), "lock a: "));
        assert_non_null(strstr(rlock_detail(), "one server"));
        assert_int_equal(fleet_holding(&twins.fleet, "a"), 0);
    }
    close_twins(&twins);
}

TEST(two_names_through_two_clients_of_one_server_are_fine)
{
    struct twins twins;
    struct rlock *b;

    open_twins(&twins);
    b = crew_lock(&twins.two, 0, "b");
    assert_code(rlock_multi_new((struct rlock *[]){twins.one.members[0], b}, 2, NULL, &twins.lock),
                0);
    assert_code(rlock_lock_with(twins.lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    assert_int_equal(fleet_holding(&twins.fleet, "b"), 1);
    assert_code(rlock_unlock(twins.lock), 0);
    b = rlock_free(b);
    close_twins(&twins);
}

TEST(one_name_in_two_databases_of_one_server_is_fine)
{
    struct fleet fleet;
    struct rlock_client *clients[2];
    struct rlock *members[2], *multi;

    fleet_open(&fleet, &(struct fleet_opts){.n = 1});
    for (int i = 0; i < 2; i++) {
        char url[256];

        test_text(url, sizeof(url), "%s?db=%d", test_server_unix_url(fleet.servers[0]), i + 1);
        assert_code(rlock_client_open(&RLOCK_CLIENT_OPTS(.url = url), &clients[i]), 0);
        assert_code(rlock_reentrant_new(clients[i], "a", NULL, &members[i]), 0);
    }
    assert_code(rlock_multi_new(members, 2, NULL, &multi), 0);
    assert_code(rlock_lock_with(multi, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    assert_code(rlock_unlock(multi), 0);
    multi = rlock_free(multi);
    for (int i = 0; i < 2; i++) {
        members[i] = rlock_free(members[i]);
        clients[i] = rlock_client_close(clients[i]);
    }
    fleet_close(&fleet);
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
    struct rlock *locks[NAMES], *multi;
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
    if (rlock_lock_with(multi, RLOCK_TAKE(.wait_ms = 20000), NULL) == 0) {
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

TEST(random_subsets_always_make_progress)
{
    struct pair pair;
    struct member members[2 * THREADS];

    open_pair(&pair, 1, usual);
    for (size_t i = 0; i < 2 * THREADS; i++) {
        members[i] = (struct member){
            .client = i % 2 == 0 ? pair.one.clients[0] : pair.two.clients[0],
            .witness = pair.fleet.witness,
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
    close_pair(&pair);
}
