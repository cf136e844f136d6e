/* SPDX-License-Identifier: Apache-2.0 */
/* The RedLock on real servers: its quorum, its members, its losses. */
#include "composite/fleet.h"
#include "support/stall.h"
#include "support/test.h"

#define OFF (-1) /* no delayed restarts: the tests' servers have just started */

static const struct rlock_client_opts usual = {.size = sizeof(usual)};

/* A server is out of reach, or back. */
static void reach(const struct fleet *fleet, size_t i, bool reachable)
{
    proxy_refuse(fleet->proxies[i], !reachable);
    if (!reachable) {
        proxy_cut_all(fleet->proxies[i], PROXY_ANY);
    }
}

/* ---- Taking and giving back ---- */

TEST(it_excludes_and_leaves_nothing)
{
    struct fleet fleet;
    struct crew one, two;

    fleet_open(&fleet, &(struct fleet_opts){.n = 5});
    crew_open(&one, &fleet, usual, OFF);
    crew_open(&two, &fleet, usual, OFF);
    for (int i = 0; i < 100; i++) {
        assert_code(rlock_try_lock(one.lock), 0);
        witness_enter(fleet.witness, 0, 1);
        assert_true(rlock_is_valid(one.lock));
        assert_code(rlock_try_lock(two.lock), RLOCK_EBUSY);
        assert_false(rlock_is_valid(two.lock));
        witness_leave(fleet.witness, 0, 1);
        assert_code(rlock_unlock(one.lock), 0);
        assert_false(rlock_is_valid(one.lock));
        assert_code(rlock_lock_with(two.lock, RLOCK_TAKE(.wait_ms = 1000), NULL), 0);
        assert_code(rlock_unlock(two.lock), 0);
    }
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 2000));
    crew_close(&one);
    crew_close(&two);
    fleet_close(&fleet);
}

/* The last round is begun as late as it can still be answered. */
TEST(a_timed_wait_lasts_to_its_end)
{
    enum { WAIT_MS = 250, ROUND_MS = 15 };
    struct fleet fleet;
    struct crew one, two;

    fleet_open(&fleet, &(struct fleet_opts){.n = 3});
    crew_open(&one, &fleet, usual, OFF);
    crew_open(&two, &fleet, usual, OFF);
    assert_code(rlock_try_lock(one.lock), 0);
    assert_code(rlock_try_lock(two.lock), RLOCK_EBUSY); /* connected now */
    for (int i = 0; i < 8; i++) {
        int64_t began_us = test_now_us();

        assert_code(rlock_lock_with(two.lock, RLOCK_TAKE(.wait_ms = WAIT_MS), NULL),
                    RLOCK_ETIMEDOUT);
        assert_true(test_now_us() - began_us >= (WAIT_MS - ROUND_MS) * 1000);
    }
    assert_code(rlock_unlock(one.lock), 0);
    crew_close(&one);
    crew_close(&two);
    fleet_close(&fleet);
}

static void silence(const struct fleet *fleet, unsigned int mask)
{
    for (size_t i = 0; i < fleet->n; i++) {
        proxy_go_silent(fleet->proxies[i], PROXY_ANY, (mask >> i & 1) == 0);
    }
}

/* The first try may go down with the links that it was sent on: nobody can know then. */
static void refused_by_the_dead(const struct crew *crew)
{
    int code = rlock_try_lock(crew->lock);

    code = code == RLOCK_EINDOUBT ? rlock_try_lock(crew->lock) : code;
    assert_code(code, RLOCK_ENOQUORUM);
    assert_non_null(strstr(rlock_detail(), "3 needed"));
}

/* What most of them may have granted is in doubt until they speak again; what is released behind
 * an earlier doubt may keep one of them busy until then. */
static void refused_by_the_silent(const struct crew *crew)
{
    int code = RLOCK_EBUSY;

    for (int i = 0; i < 50 && code == RLOCK_EBUSY; i++) {
        code = rlock_try_lock(crew->lock);
    }
    if (code != RLOCK_EINDOUBT) {
        assert_code(code, RLOCK_ENOQUORUM);
    }
    assert_false(rlock_is_valid(crew->lock));
}

/* Only the servers in the mask work. */
static void each_subset(void (*only)(const struct fleet *, unsigned int),
                        void (*is_refused)(const struct crew *))
{
    struct fleet fleet;
    struct crew crew;

    fleet_open(&fleet, &(struct fleet_opts){.n = 5, .proxied = true});
    crew_open(&crew, &fleet, RLOCK_CLIENT_OPTS(.op_timeout_ms = test_slack() > 1 ? 300 : 100), OFF);
    assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    assert_code(rlock_unlock(crew.lock), 0);
    for (unsigned int mask = 0; mask < 32; mask++) {
        only(&fleet, mask);
        if (__builtin_popcount(mask) >= 3) {
            assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
            assert_true(rlock_is_valid(crew.lock));
            assert_code(rlock_unlock(crew.lock), 0);
        } else {
            is_refused(&crew);
        }
        only(&fleet, 31);
        assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 5000));
    }
    assert_int_equal(crew_losses(&crew), 0);
    crew_close(&crew);
    fleet_close(&fleet);
}

TEST(each_subset_of_dead_servers_follows_the_majority)
{
    each_subset(fleet_reach_only, refused_by_the_dead);
}

TEST(each_subset_of_silent_servers_follows_the_majority)
{
    each_subset(silence, refused_by_the_silent);
}

/* Takes it on every server, once each is connected. */
static void take_all(const struct crew *crew)
{
    for (size_t i = 0; i < crew->fleet->n; i++) {
        assert_code(rlock_lock_with(crew->members[i], RLOCK_TAKE(.wait_ms = 20000), NULL), 0);
        assert_code(rlock_unlock(crew->members[i]), 0);
    }
    assert_code(rlock_lock_with(crew->lock, RLOCK_TAKE(.wait_ms = 20000), NULL), 0);
    assert_true(TEST_EVENTUALLY(fleet_holding(crew->fleet, "a") == crew->fleet->n, 5000));
}

/*
 * Under a hold: with most of them it stays valid beyond its lease, with fewer it is lost and told.
 * With three servers, and leases as short as a busy machine allows.
 */
TEST(each_subset_that_dies_under_a_hold_follows_the_majority)
{
    const int64_t lease_ms = test_slack() > 1 ? 900 : 400;
    struct fleet fleet;
    struct crew crew;
    unsigned int losses = 0;

    fleet_open(&fleet, &(struct fleet_opts){.n = 3, .proxied = true});
    crew_open(&crew, &fleet, RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms), OFF);
    for (unsigned int mask = 0; mask < 8; mask++) {
        bool most = __builtin_popcount(mask) >= 2;
        int64_t since_us;

        take_all(&crew);
        fleet_reach_only(&fleet, mask);
        since_us = test_now_us();
        losses += !most;
        assert_true(TEST_EVENTUALLY(crew_losses(&crew) == losses &&
                                        test_elapsed_us(since_us) > most * lease_ms * 1500,
                                    5000));
        assert_true(rlock_is_valid(crew.lock) == most);
        assert_code(rlock_unlock(crew.lock), most ? 0 : RLOCK_ELOST);
        fleet_reach_only(&fleet, 7);
        assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 5000));
    }
    crew_close(&crew);
    fleet_close(&fleet);
}

TEST(who_answers_late_joins)
{
    struct fleet fleet;
    struct crew crew;
    int64_t began_us;

    fleet_open(&fleet, &(struct fleet_opts){.n = 5, .proxied = true});
    crew_open(&crew, &fleet, RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000), OFF);
    assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    assert_code(rlock_unlock(crew.lock), 0);
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 2000));
    for (size_t i = 0; i < 5; i++) { /* who is still being left is not asked: behind its answer */
        struct rlock_info info = RLOCK_INFO_INIT;

        assert_code(rlock_inspect(crew.members[i], &info), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        proxy_delay_us(fleet.proxies[i], 300000);
    }
    began_us = test_now_us();
    assert_code(rlock_try_lock(crew.lock), 0);
    assert_in_time(began_us, 300000 * test_slack());
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 5, 5000));
    for (size_t i = 2; i < 4; i++) { /* without those that came late, this would be the end */
        reach(&fleet, i, false);
        assert_int_equal(test_server_int(fleet.servers[i], "DEL a"), 1);
    }
    assert_true(rlock_is_valid(crew.lock));
    for (size_t i = 2; i < 4; i++) {
        reach(&fleet, i, true);
    }
    assert_code(rlock_unlock(crew.lock), 0);
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 5000));
    crew_close(&crew);
    fleet_close(&fleet);
}

TEST(who_answers_after_the_unlock_is_left)
{
    struct fleet fleet;
    struct crew crew;

    fleet_open(&fleet, &(struct fleet_opts){.n = 3, .proxied = true});
    crew_open(&crew, &fleet, usual, OFF);
    assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    assert_code(rlock_unlock(crew.lock), 0);
    proxy_delay_us(fleet.proxies[1], 200000);
    for (int i = 0; i < 3; i++) {
        assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
        assert_code(rlock_unlock(crew.lock), 0);
    }
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 5000));
    proxy_delay_us(fleet.proxies[1], 0);
    crew_close(&crew);
    fleet_close(&fleet);
}

TEST(a_frozen_server_costs_nothing)
{
    struct fleet fleet;
    struct crew crew;
    int64_t began_us;

    fleet_open(&fleet, &(struct fleet_opts){.n = 3});
    crew_open(&crew, &fleet, RLOCK_CLIENT_OPTS(.op_timeout_ms = 1000), OFF);
    assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    assert_code(rlock_unlock(crew.lock), 0);
    test_server_freeze(fleet.servers[1]);
    began_us = test_now_us();
    assert_code(rlock_try_lock(crew.lock), 0);
    assert_code(rlock_unlock(crew.lock), 0);
    assert_in_time(began_us, 300000 * test_slack());
    test_server_thaw(fleet.servers[1]);
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 5000));
    crew_close(&crew);
    fleet_close(&fleet);
}

/* However long ago its lease would have ended: what was sent lies in the server's socket. */
TEST(what_a_frozen_server_may_yet_run_stays_in_doubt)
{
    const int64_t lease_ms = 50 * test_slack();
    struct fleet fleet;
    struct crew crew;

    fleet_open(&fleet, &(struct fleet_opts){.n = 1});
    crew_open(&crew, &fleet, RLOCK_CLIENT_OPTS(.op_timeout_ms = lease_ms), OFF);
    assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    assert_code(rlock_unlock(crew.lock), 0);
    test_server_freeze(fleet.servers[0]);
    assert_code(rlock_lock_with(crew.lock,
                                RLOCK_TAKE(.wait_ms = 10 * lease_ms, .lease_ms = lease_ms), NULL),
                RLOCK_EINDOUBT);
    test_server_thaw(fleet.servers[0]);
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 5000));
    crew_close(&crew);
    fleet_close(&fleet);
}

/* A copy may come after the answer that it is busy, where nobody may kill its connection. */
TEST(what_is_busy_after_a_doubt_stays_in_doubt)
{
    const int64_t op_ms = 50 * test_slack();
    struct fleet fleet;
    struct crew crew;

    fleet_open(&fleet, &(struct fleet_opts){.n = 1, .proxied = true});
    free(test_server_cmd(fleet.servers[0], "ACL SETUSER default -client|kill"));
    crew_open(&crew, &fleet,
              RLOCK_CLIENT_OPTS(.op_timeout_ms = op_ms, .renewed_lease_ms = 60 * op_ms), OFF);
    assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    assert_code(rlock_unlock(crew.lock), 0);
    free(test_server_cmd(fleet.servers[0], "HSET a somebody:1 1"));
    proxy_add(fleet.proxies[0], &(struct proxy_rule){.act = PROXY_HOLD, .command = "EVALSHA"});
    assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 20 * op_ms), NULL),
                RLOCK_EINDOUBT);
    free(test_server_cmd(fleet.servers[0], "DEL a"));
    proxy_hold_requests(fleet.proxies[0], false);
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 1, 5000));
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 5000));
    crew_close(&crew);
    fleet_close(&fleet);
}

/* ---- Nobody is helped to a second quorum ---- */

struct trier {
    pthread_t thread;
    const struct crew *crew;
    int code;
};

static void *trier_main(void *arg)
{
    struct trier *trier = arg;

    trier->code = rlock_try_lock(trier->crew->lock);
    if (trier->code == RLOCK_EINDOUBT) { /* its links were cut with the request on them */
        trier->code = rlock_try_lock(trier->crew->lock);
    }
    return NULL;
}

static void both_try(const struct crew crews[static 2], int ret_codes[static 2])
{
    struct trier triers[2];

    for (size_t i = 0; i < 2; i++) {
        triers[i] = (struct trier){.crew = &crews[i]};
        TEST_CHECK(pthread_create(&triers[i].thread, NULL, trier_main, &triers[i]) == 0);
    }
    for (size_t i = 0; i < 2; i++) {
        TEST_CHECK(pthread_join(triers[i].thread, NULL) == 0);
        ret_codes[i] = triers[i].code;
    }
}

/* Every two pairs of servers that have none in common, at the same time. */
TEST(two_that_reach_different_minorities_both_fail)
{
    struct fleet fleet, views[2];
    struct crew crews[2];
    int codes[2];

    fleet_open(&fleet, &(struct fleet_opts){.n = 5});
    for (size_t i = 0; i < 2; i++) {
        fleet_view_open(&views[i], &fleet);
        crew_open(&crews[i], &views[i],
                  RLOCK_CLIENT_OPTS(.op_timeout_ms = test_slack() > 1 ? 200 : 60), OFF);
        assert_code(rlock_lock_with(crews[i].lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
        assert_code(rlock_unlock(crews[i].lock), 0);
    }
    for (unsigned int masks = 0; masks < 32 * 32; masks++) {
        unsigned int one = masks / 32, two = masks % 32;

        if ((one & two) != 0 || __builtin_popcount(one) != 2 || __builtin_popcount(two) != 2) {
            continue;
        }
        assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 5000));
        fleet_reach_only(&views[0], one);
        fleet_reach_only(&views[1], two);
        both_try(crews, codes);
        assert_int_equal(codes[0], RLOCK_ENOQUORUM);
        assert_int_equal(codes[1], RLOCK_ENOQUORUM);
        fleet_reach_only(&views[0], 31);
        fleet_reach_only(&views[1], 31);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_code(rlock_lock_with(crews[i].lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
        assert_code(rlock_unlock(crews[i].lock), 0);
    }
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 2000));
    for (size_t i = 0; i < 2; i++) {
        crew_close(&crews[i]);
        fleet_view_close(&views[i]);
    }
    fleet_close(&fleet);
}

/* Longer than anything that is done under it, however slow the machine. */
static int lease_ms(void)
{
    return test_slack() > 1 ? 6000 : 3000;
}

/* Takes it on every server, not renewed: as soon as each has run for long enough to count. */
static bool takes_all(const struct crew *crew)
{
    bool all;

    assert_code(
        rlock_lock_with(crew->lock, RLOCK_TAKE(.wait_ms = 20000, .lease_ms = lease_ms()), NULL), 0);
    all = TEST_EVENTUALLY(fleet_holding(crew->fleet, "a") == crew->fleet->n, 200);
    if (!all) {
        assert_code(rlock_unlock(crew->lock), 0);
    }
    return all;
}

/* One holds on servers 0 to 2, the other reaches 2 to 4; server 2 restarts empty in between. */
static int second_taker(struct fleet *fleet, struct crew *one, struct crew *two)
{
    crew_open(one, fleet, RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms()), lease_ms());
    crew_open(two, fleet, RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms()), lease_ms());
    /* as if nobody could reach the last two: they are free for the other */
    assert_true(TEST_EVENTUALLY(takes_all(one), 20000));
    for (size_t i = 3; i < 5; i++) {
        assert_int_equal(test_server_int(fleet->servers[i], "DEL a"), 1);
    }
    test_server_restart(fleet->servers[2], false);
    return rlock_lock_with(two->lock, RLOCK_TAKE(.wait_ms = 500), NULL);
}

TEST(a_restarted_server_does_not_help_to_a_second_quorum)
{
    struct fleet fleet;
    struct crew one, two;
    int codes[FLEET_MAX];

    fleet_open(&fleet, &(struct fleet_opts){.n = 5});
    assert_code(second_taker(&fleet, &one, &two), RLOCK_ETIMEDOUT);
    assert_code(rlock_try_lock(two.lock), RLOCK_EBUSY);
    crew_codes(&two, codes);
    assert_int_equal(codes[0], RLOCK_EBUSY);
    assert_int_equal(codes[2], RLOCK_ERESTARTED);
    assert_true(TEST_EVENTUALLY(crew_losses(&one) == 1, 5000)); /* it has 0 and 1 left */
    assert_code(rlock_unlock(one.lock), RLOCK_ELOST);
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 5000));
    crew_close(&one);
    crew_close(&two);
    fleet_close(&fleet);
}

/* ---- Losses ---- */

/* Whether the lease on the last server was extended since the last look. */
static bool is_renewed(const struct fleet *fleet, long long *inout_ttl)
{
    long long last = *inout_ttl;

    *inout_ttl = test_server_int(fleet->servers[fleet->n - 1], "PTTL a");
    return *inout_ttl > last;
}

TEST(losing_a_minority_leaves_it_valid_losing_more_is_told_once)
{
    struct fleet fleet;
    struct crew crew;

    fleet_open(&fleet, &(struct fleet_opts){.n = 5});
    crew_open(&crew, &fleet, RLOCK_CLIENT_OPTS(.renewed_lease_ms = 600), OFF);
    assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 5, 5000));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(test_server_int(fleet.servers[i], "DEL a"), 1);
    }
    assert_true(TEST_EVENTUALLY(crew_logged(&crew, "deleted"), 5000));
    for (int i = 0; i < 3; i++) { /* renewals go on */
        long long ttl = test_server_int(fleet.servers[4], "PTTL a");

        assert_true(TEST_EVENTUALLY(is_renewed(&fleet, &ttl), 5000));
    }
    assert_true(rlock_is_valid(crew.lock));
    assert_int_equal(crew_losses(&crew), 0);
    assert_int_equal(test_server_int(fleet.servers[2], "DEL a"), 1);
    assert_true(TEST_EVENTUALLY(crew_losses(&crew) == 1, 5000));
    assert_false(rlock_is_valid(crew.lock));
    assert_string_equal(crew.kind, "redlock");
    assert_string_equal(crew.name, "a");
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 5000)); /* the others are free */
    assert_code(rlock_unlock(crew.lock), RLOCK_ELOST);
    assert_code(rlock_unlock(crew.lock), RLOCK_ENOTOWNER);
    assert_int_equal(crew_losses(&crew), 1);
    assert_code(rlock_lock_with(crew.lock, RLOCK_TAKE(.wait_ms = 5000), NULL), 0);
    assert_code(rlock_unlock(crew.lock), 0);
    assert_true(TEST_EVENTUALLY(fleet_holding(&fleet, "a") == 0, 5000));
    crew_close(&crew);
    fleet_close(&fleet);
}

/* ---- Arguments ---- */

TEST(members_that_it_cannot_have_are_refused)
{
    struct fleet fleet;
    struct crew crew;
    struct rlock *fenced, *twice, *made;
    struct rlock_take take = {.size = sizeof(take), .lease_ms = 3001};

    fleet_open(&fleet, &(struct fleet_opts){.n = 2});
    crew_open(&crew, &fleet, RLOCK_CLIENT_OPTS(.renewed_lease_ms = 1000), 3000);
    assert_true(TEST_EVENTUALLY(crew_logged(&crew, "survives the loss of 0"), 5000));
    assert_code(rlock_fenced_new(crew.clients[0], "f", NULL, &fenced), 0);
    assert_code(rlock_redlock_new(&fenced, 1, NULL, &made), RLOCK_ENOTSUP);
    assert_code(rlock_redlock_new(&crew.lock, 1, NULL, &made), RLOCK_ENOTSUP);
    twice = crew_lock(&crew, 0, "b");
    assert_code(rlock_redlock_new((struct rlock *[]){twice, crew.members[0]}, 2, NULL, &made),
                RLOCK_EINVAL);
    assert_code(rlock_redlock_new(NULL, 1, NULL, &made), RLOCK_EINVAL);
    assert_code(rlock_redlock_new(crew.members, 0, NULL, &made), RLOCK_EINVAL);
    assert_code(rlock_lock_with(crew.lock, &take, NULL), RLOCK_EINVAL);
    fenced = rlock_free(fenced);
    twice = rlock_free(twice);
    crew_close(&crew);
    fleet_close(&fleet);
}

/* The loss of that one would be the loss of two. */
TEST(two_members_on_one_server_are_refused)
{
    struct fleet fleet, view;
    struct crew one, two;
    struct rlock *b, *made;

    fleet_open(&fleet, &(struct fleet_opts){.n = 1});
    fleet_view_open(&view, &fleet);
    crew_open(&one, &fleet, usual, OFF);
    crew_open(&two, &view, usual, OFF);
    b = crew_lock(&two, 0, "b");
    assert_code(rlock_redlock_new((struct rlock *[]){one.members[0], b}, 2,
                                  &RLOCK_OPTS(.max_lease_ms = OFF), &made),
                0);
    assert_true(TEST_EVENTUALLY(rlock_try_lock(made) == RLOCK_EINVAL, 5000));
    assert_non_null(strstr(rlock_detail(), "one server"));
    assert_int_equal(fleet_holding(&fleet, "a"), 0);
    made = rlock_free(made);
    b = rlock_free(b);
    crew_close(&one);
    crew_close(&two);
    fleet_view_close(&view);
    fleet_close(&fleet);
}
