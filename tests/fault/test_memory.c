/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is not there, for one allocation of each story. */
#include <rlock/admin.h>

#include "fault/desk.h"
#include "support/waiter.h"

static const struct desk_kind kinds[] = {
    {"reentrant", rlock_reentrant_new, rlock_reentrant_new, true, true, false},
    {"nonreentrant", rlock_nonreentrant_new, rlock_nonreentrant_new, false, false, false},
    {"spin", rlock_spin_new, rlock_spin_new, true, false, true},
    {"setnx", rlock_setnx_new, rlock_setnx_new, true, false, true},
    {"fenced", rlock_fenced_new, rlock_fenced_new, true, false, false},
    {"fair", rlock_fair_new, rlock_fair_new, true, false, true},
    {"write", rlock_write_new, rlock_write_new, true, true, true},
    {"read", rlock_read_new, rlock_write_new, true, true, true},
    {"permits", one_permit, one_permit, false, true, true},
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))
#define N_SERVERS 3

/* ---- Stories of one lock ---- */

static void make_one(struct desk *desk)
{
    assert_code(desk->kind->make(desk->clients[0], LOCK_A, NULL, &desk->lock), 0);
    assert_code(desk->kind->make(desk->clients[0], "other", NULL, &desk->other), 0);
}

static void make_one_rival(struct desk *desk)
{
    assert_code(desk->kind->make_rival(desk->rival_clients[0], LOCK_A, NULL, &desk->rival), 0);
}

static bool any(const struct desk_kind *kind)
{
    (void)kind;
    return true;
}

static bool nests(const struct desk_kind *kind)
{
    return kind->nests;
}

static bool renews(const struct desk_kind *kind)
{
    return kind->renews;
}

static bool waits(const struct desk_kind *kind)
{
    return kind->waits;
}

static void play_kinds(const struct story *story, bool (*fits)(const struct desk_kind *kind))
{
    struct desk desk;

    desk_open(&desk, 1);
    for (desk.kind = kinds; desk.kind < kinds + N_KINDS; desk.kind++) {
        if (fits(desk.kind)) {
            desk_play(&desk, story, desk.kind->name, make_one, make_one_rival);
            test_server_do(desk.servers[0], "DEL redisson_lock_token:{other} " LOCK_A " other");
        }
    }
    desk_close(&desk);
}

static int open_visit_and_close(struct desk *desk)
{
    int code = desk_open_client(desk, 0, desk->lease_ms, &desk->clients[0]);

    code = code == 0 ? desk->kind->make(desk->clients[0], LOCK_A, NULL, &desk->lock) : code;
    code = code == 0 ? rlock_try_lock(desk->lock) : code;
    code = code == 0 ? rlock_unlock(desk->lock) : code;
    if (code == 0) { /* else with memory */
        desk_close_clients(desk);
    }
    return code;
}

static void closed_with_memory(struct desk *desk, int code)
{
    (void)code;
    desk_close_clients(desk);
}

TEST(a_client_opens_and_closes_or_says_no_memory)
{
    play_kinds(
        &(struct story){.run = open_visit_and_close, .check = closed_with_memory, .cold = true},
        renews);
}

static int take_and_leave(struct desk *desk)
{
    int code = rlock_try_lock(desk->lock);

    return code == 0 ? rlock_unlock(desk->lock) : code;
}

/* What a call said is so. */
static void is_held_as_known(struct desk *desk, int code)
{
    bool held = rlock_hold_count(desk->lock) > 0;

    assert_true(held == rlock_is_valid(desk->lock));
    assert_true(code != 0 || !held);
    if (held) {
        assert_code(rlock_try_lock(desk->rival), RLOCK_EBUSY);
    }
}

TEST(a_lock_is_taken_and_left_or_there_is_no_memory)
{
    play_kinds(&(struct story){.run = take_and_leave, .check = is_held_as_known}, renews);
}

static void take(struct desk *desk)
{
    assert_code(rlock_try_lock(desk->lock), 0);
}

static void outer_level_stays(struct desk *desk, int code)
{
    uint32_t count = rlock_hold_count(desk->lock);

    assert_true(count == 1 || (count == 2 && code == RLOCK_ENOMEM));
    assert_true(rlock_is_valid(desk->lock));
    assert_code(rlock_try_lock(desk->rival), RLOCK_EBUSY);
    for (; count > 0; count--) {
        assert_code(rlock_unlock(desk->lock), 0);
    }
}

TEST(one_level_more_and_less_leaves_the_outer_one)
{
    play_kinds(&(struct story){.prepare = take, .run = take_and_leave, .check = outer_level_stays},
               nests);
}

static void rival_takes(struct desk *desk)
{
    assert_code(rlock_try_lock(desk->rival), 0);
}

static int wait_in_vain(struct desk *desk)
{
    return rlock_lock_for(desk->lock, 5, NULL, NULL);
}

static void rival_leaves(struct desk *desk, int code)
{
    assert_int_not_equal(code, 0);
    assert_code(rlock_unlock(desk->rival), 0);
}

TEST(who_waits_in_vain_leaves_nothing)
{
    play_kinds(
        &(struct story){
            .prepare = rival_takes, .run = wait_in_vain, .check = rival_leaves, .hurried = true},
        waits);
}

struct waiting {
    struct desk *desk;
    int code;
    _Atomic bool done;
};

static void *wait_and_leave(void *arg)
{
    struct waiting *waiting = arg;
    struct rlock_handle *lock = waiting->desk->lock;
    const int64_t wait_ms = 1500 * (int64_t)test_slack();

    waiting->code = rlock_lock_for(lock, wait_ms, NULL, NULL);
    waiting->code = waiting->code == 0 ? rlock_unlock(lock) : waiting->code;
    test_text(waiting->desk->detail, sizeof(waiting->desk->detail), "%s", rlock_detail());
    if (waiting->code != 0 && rlock_hold_count(lock) != 0) { /* by this thread */
        scarce_spare_me(true);
        TEST_CHECK(rlock_unlock(lock) == 0 || rlock_unlock(lock) == 0);
    }
    atomic_store(&waiting->done, true);
    return NULL;
}

static bool is_waited_for(const struct desk *desk, struct waiting *waiting)
{
    bool waited_for = atomic_load(&waiting->done);

    for (size_t i = 0; i < desk->n_servers; i++) {
        waited_for = waited_for || !test_server_says(desk->servers[i], "", "PUBSUB CHANNELS");
    }
    return waited_for;
}

/* The rival leaves when it is waited for; this thread has memory. */
static int wait_for_rival(struct desk *desk)
{
    const bool polls = desk->kind->make == rlock_spin_new || desk->kind->make == rlock_setnx_new;
    struct waiting waiting = {.desk = desk};
    pthread_t thread;

    scarce_spare_me(true);
    assert_int_equal(pthread_create(&thread, NULL, wait_and_leave, &waiting), 0);
    (void)TEST_EVENTUALLY(is_waited_for(desk, &waiting), polls ? 5 : 1000);
    assert_code(rlock_unlock(desk->rival), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    scarce_spare_me(false);
    return waiting.code;
}

TEST(who_waits_gets_it_or_there_is_no_memory)
{
    play_kinds(&(struct story){.prepare = rival_takes, .run = wait_for_rival}, waits);
}

/* ms until the only permit expires. */
static long long permit_ttl(const struct desk *desk)
{
    return test_server_int(desk->servers[0],
                           "EVAL \"local time = redis.call('time') "
                           "return redis.call('zrange',KEYS[1],0,0,'WITHSCORES')[2] "
                           "- time[1] * 1000 - time[2] / 1000\" 1 {" LOCK_A "}:timeout");
}

static bool is_renewed(const struct desk *desk)
{
    const long long most = desk->lease_ms * 9 / 10;

    if (desk->kind->make != one_permit) {
        return fixture_wait_renewed(&desk->f, desk->lease_ms);
    }
    return TEST_EVENTUALLY(permit_ttl(desk) < most, 5000) &&
           TEST_EVENTUALLY(permit_ttl(desk) >= most, 5000);
}

static int renewals(struct desk *desk)
{
    bool renewed;

    scarce_spare_me(true);
    renewed = is_renewed(desk);
    scarce_spare_me(false);
    assert_true(renewed);
    return 0;
}

static void nothing_is_lost(struct desk *desk, int code)
{
    (void)code;
    assert_true(rlock_is_valid(desk->lock));
    assert_int_equal(atomic_load(&desk->losses), 0);
    assert_code(rlock_unlock(desk->lock), 0);
}

TEST(a_hold_is_renewed_all_the_same)
{
    play_kinds(
        &(struct story){
            .prepare = take, .run = renewals, .check = nothing_is_lost, .lease_ms = test_ms(200)},
        renews);
}

static int force(struct desk *desk)
{
    return rlock_force_unlock(desk->lock, NULL);
}

static void is_open_if_it_was_said(struct desk *desk, int code)
{
    struct rlock_info info = RLOCK_INFO_INIT;

    assert_code(rlock_inspect(desk->rival, &info), 0);
    assert_true(info.locked == (code != 0) || desk->kind->make == rlock_read_new);
}

TEST(a_lock_is_forced_open_or_stays_as_it_is)
{
    play_kinds(
        &(struct story){.prepare = rival_takes, .run = force, .check = is_open_if_it_was_said},
        any);
}

static int inspect(struct desk *desk)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    int code = rlock_inspect(desk->lock, &info);

    assert_true(code != 0 || info.locked || desk->kind->make == rlock_read_new);
    return code;
}

TEST(a_lock_is_looked_at_or_there_is_no_memory)
{
    play_kinds(&(struct story){.prepare = rival_takes, .run = inspect, .asks = 1}, any);
}

static int lose(struct desk *desk)
{
    bool lost;

    scarce_spare_me(true);
    for (size_t i = 0; i < desk->n_servers; i++) {
        test_server_do(desk->servers[i], "FLUSHALL");
    }
    lost = TEST_EVENTUALLY(atomic_load(&desk->losses) > 0, 1000);
    scarce_spare_me(false);
    assert_true(lost);
    return 0;
}

static void is_lost_once(struct desk *desk, int code)
{
    (void)code;
    assert_false(rlock_is_valid(desk->lock));
    assert_code(rlock_unlock(desk->lock), RLOCK_ELOST);
    assert_int_equal(atomic_load(&desk->losses), 1);
}

TEST(a_loss_is_told_once)
{
    play_kinds(
        &(struct story){
            .prepare = take, .run = lose, .check = is_lost_once, .lease_ms = test_ms(60)},
        renews);
}

/* ---- Locks made of locks ---- */

static void make_multi_of(struct rlock_client *client, new_fn *second,
                          struct rlock_handle **ret_lock)
{
    struct rlock_handle *members[2];

    assert_code(rlock_reentrant_new(client, LOCK_A, NULL, &members[0]), 0);
    assert_code(second(client, "b", NULL, &members[1]), 0);
    assert_code(rlock_multi_new(members, 2, NULL, ret_lock), 0);
    (void)rlock_free(members[0]);
    (void)rlock_free(members[1]);
}

static void make_multi(struct desk *desk)
{
    make_multi_of(desk->clients[0], desk->kind->make, &desk->lock);
    assert_code(rlock_reentrant_new(desk->clients[0], "other", NULL, &desk->other), 0);
}

static void make_multi_rival(struct desk *desk)
{
    make_multi_of(desk->rival_clients[0], desk->kind->make, &desk->rival);
}

static void make_redlock_of(struct rlock_client *const *clients, struct rlock_handle **ret_lock)
{
    struct rlock_handle *members[N_SERVERS];

    for (size_t i = 0; i < N_SERVERS; i++) {
        assert_code(rlock_reentrant_new(clients[i], LOCK_A, NULL, &members[i]), 0);
    }
    assert_code(rlock_redlock_new(members, N_SERVERS, RLOCK_OPTS(.max_lease_ms = -1), ret_lock), 0);
    for (size_t i = 0; i < N_SERVERS; i++) {
        (void)rlock_free(members[i]);
    }
}

static void make_redlock(struct desk *desk)
{
    make_redlock_of(desk->clients, &desk->lock);
    assert_code(rlock_reentrant_new(desk->clients[0], "other", NULL, &desk->other), 0);
}

static void make_redlock_rival(struct desk *desk)
{
    make_redlock_of(desk->rival_clients, &desk->rival);
}

/* Members of one client, which are taken together, and such with a fair one, which are not. */
static void play_multis(const struct story *story)
{
    static const struct desk_kind seconds[] = {{.name = "together", .make = rlock_write_new},
                                               {.name = "apart", .make = rlock_fair_new}};
    struct desk desk;

    desk_open(&desk, 1);
    for (desk.kind = seconds; desk.kind < seconds + 2; desk.kind++) {
        desk_play(&desk, story, desk.kind->name, make_multi, make_multi_rival);
    }
    desk_close(&desk);
}

static void play_groups(const struct story *story)
{
    struct desk desk;

    play_multis(story);
    desk_open(&desk, N_SERVERS);
    desk.kind = kinds;
    desk_play(&desk, story, "redlock", make_redlock, make_redlock_rival);
    desk_close(&desk);
}

TEST(a_lock_of_locks_is_taken_and_left_or_there_is_no_memory)
{
    play_groups(&(struct story){.run = take_and_leave, .check = is_held_as_known});
}

TEST(one_level_of_a_multi_lock_leaves_the_outer_one)
{
    play_multis(
        &(struct story){.prepare = take, .run = take_and_leave, .check = outer_level_stays});
}

TEST(who_waits_in_vain_for_a_lock_of_locks_leaves_nothing)
{
    play_groups(&(struct story){
        .prepare = rival_takes, .run = wait_in_vain, .check = rival_leaves, .hurried = true});
}

TEST(who_waits_for_a_lock_of_locks_gets_it_or_there_is_no_memory)
{
    play_groups(&(struct story){.prepare = rival_takes, .run = wait_for_rival});
}

TEST(a_lock_of_locks_is_lost_once)
{
    play_groups(&(struct story){
        .prepare = take, .run = lose, .check = is_lost_once, .lease_ms = test_ms(60)});
}

/* ---- The rest ---- */

static int count_keys(const struct rlock_found *found, void *payload)
{
    (void)found;
    (void)payload;
    return 0;
}

static int scan(struct desk *desk)
{
    return rlock_admin_scan(desk->clients[0], NULL, count_keys, NULL);
}

TEST(locks_are_looked_for_or_there_is_no_memory)
{
    struct desk desk;

    desk_open(&desk, 1);
    desk.kind = kinds;
    desk_play(&desk, &(struct story){.prepare = rival_takes, .run = scan, .asks = 1}, "scan",
              make_one, make_one_rival);
    desk_close(&desk);
}
