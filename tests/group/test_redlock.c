/* SPDX-License-Identifier: Apache-2.0 */
/* The RedLock on real servers: its quorum, its members, its losses. */
#include <pthread.h>
#include <stdatomic.h>

#include "drive/client.h"
#include "support/stall.h"
#include "support/waiter.h"

/* ---- Taking and giving back ---- */

FIXTURE_WITH_TEST(it_excludes_and_leaves_nothing, f, .servers = 5)
{
    struct user *one = user_open(f, USUAL);
    struct user *two = user_open(f, USUAL);

    for (int i = 0; i < 100; i++) {
        assert_code(rlock_try_lock(one->lock), 0);
        witness_enter(f->witness, 0, 1);
        assert_true(rlock_is_valid(one->lock));
        assert_code(rlock_try_lock(two->lock), RLOCK_EBUSY);
        assert_false(rlock_is_valid(two->lock));
        witness_leave(f->witness, 0, 1);
        assert_code(rlock_unlock(one->lock), 0);
        assert_false(rlock_is_valid(one->lock));
        assert_code(user_visit(two, 1000, NULL), 0);
    }
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 2000));
}

/* Each server knows the holder by the id of its client there. */
FIXTURE_WITH_TEST(a_busy_one_names_its_holder, f, .servers = 3)
{
    struct user *one = user_open(f, USUAL);
    struct user *two = user_open(f, USUAL);
    int named = 0;

    assert_code(rlock_try_lock(one->lock), 0);
    assert_code(rlock_try_lock(two->lock), RLOCK_EBUSY);
    for (size_t i = 0; i < f->n; i++) {
        named += strstr(rlock_detail(), rlock_client_uuid(one->clients[i])) != NULL;
    }
    assert_int_equal(named, 1);
    assert_code(rlock_unlock(one->lock), 0);
}

/* Whoever takes it can have one server at most, of two that are needed. */
FIXTURE_WITH_TEST(a_member_that_cannot_be_asked_is_not_free, f, .servers = 3,
                  .proxy = PROXY_ON_UNIX)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_info info = RLOCK_INFO_INIT;

    assert_code(rlock_inspect(user->lock, &info), 0);
    assert_false(info.locked);
    assert_code(rlock_try_lock(user->members[0]), 0);
    assert_code(rlock_inspect(user->lock, &info), 0);
    assert_false(info.locked);
    fixture_reach(f, 1, false);
    assert_code(rlock_inspect(user->lock, &info), 0);
    assert_true(info.locked);
    assert_int_equal(info.holders, 1);
    fixture_reach(f, 1, true);
    assert_code(rlock_unlock(user->members[0]), 0);
}

/* The last round is begun as late as it can still be answered. */
FIXTURE_WITH_TEST(a_timed_wait_lasts_to_its_end, f, .servers = 3)
{
    struct user *one = user_open(f, USUAL);
    struct user *two = user_open(f, USUAL);
    enum { WAIT_MS = 250, ROUND_MS = 15 };

    assert_code(rlock_try_lock(one->lock), 0);
    assert_code(rlock_try_lock(two->lock), RLOCK_EBUSY); /* connected now */
    for (int i = 0; i < 8; i++) {
        int64_t began_us = test_now_us();

        assert_code(rlock_lock_for(two->lock, WAIT_MS, NULL, NULL), RLOCK_ETIMEDOUT);
        assert_true(test_now_us() - began_us >= (WAIT_MS - ROUND_MS) * 1000);
    }
    assert_code(rlock_unlock(one->lock), 0);
}

static void silence(const struct fixture *f, unsigned int mask)
{
    for (size_t i = 0; i < f->n; i++) {
        proxy_go_silent(f->proxies[i], PROXY_ANY, (mask >> i & 1) == 0);
    }
}

/* The first try may go down with the links that it was sent on: nobody can know then. */
static void refused_by_the_dead(const struct user *user)
{
    int code = rlock_try_lock(user->lock);

    code = code == RLOCK_EINDOUBT ? rlock_try_lock(user->lock) : code;
    assert_code(code, RLOCK_ENOQUORUM);
    assert_non_null(strstr(rlock_detail(), "3 needed"));
}

/* What most of them may have granted is in doubt until they speak again; what is released behind
 * an earlier doubt may keep one of them busy until then. */
static void refused_by_the_silent(const struct user *user)
{
    int code = RLOCK_EBUSY;

    for (int i = 0; i < 50 && code == RLOCK_EBUSY; i++) {
        code = rlock_try_lock(user->lock);
    }
    if (code != RLOCK_EINDOUBT) {
        assert_code(code, RLOCK_ENOQUORUM);
    }
    assert_false(rlock_is_valid(user->lock));
}

/* Only the servers in the mask work. */
static void each_subset(void (*only)(const struct fixture *, unsigned int),
                        void (*is_refused)(const struct user *))
{
    struct fixture f;
    struct user *user;

    fixture_open(&f, &(struct fixture_opts){.servers = 5, .proxy = PROXY_ON_UNIX});
    user = user_open(&f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_slack() > 1 ? 300 : 100));
    assert_code(user_visit(user, 5000, NULL), 0);
    for (unsigned int mask = 0; mask < 32; mask++) {
        only(&f, mask);
        if (__builtin_popcount(mask) >= 3) {
            assert_code(rlock_lock_for(user->lock, 5000, NULL, NULL), 0);
            assert_true(rlock_is_valid(user->lock));
            assert_code(rlock_unlock(user->lock), 0);
        } else {
            is_refused(user);
        }
        only(&f, 31);
        assert_true(TEST_EVENTUALLY(fixture_holding(&f, "a") == 0, 5000));
    }
    assert_int_equal(user_losses(user), 0);
    fixture_close(&f);
}

TEST(each_subset_of_dead_servers_follows_the_majority)
{
    each_subset(fixture_reach_only, refused_by_the_dead);
}

TEST(each_subset_of_silent_servers_follows_the_majority)
{
    each_subset(silence, refused_by_the_silent);
}

struct blinker {
    pthread_t thread;
    const struct user *user;
    atomic_bool ends;
};

/* What the driver knows of a server while its link is up and down, as often as the processor can.
 */
static void *blink(void *payload)
{
    struct blinker *blinker = payload;
    unsigned long long numbers[3];

    for (size_t i = 0; i < 3; i++) {
        numbers[i] = atomic_load(&blinker->user->clients[i]->nodes->ios[0].server);
    }
    for (uint64_t round = 0; !atomic_load(&blinker->ends); round++) {
        for (size_t i = 0; i < 3; i++) {
            atomic_store(&blinker->user->clients[i]->nodes->ios[0].server,
                         (round + i) % 2 == 0 ? numbers[i] : 0);
        }
    }
    return NULL;
}

FIXTURE_WITH_TEST(servers_that_go_at_one_time_are_not_taken_for_one, f, .servers = 3)
{
    struct blinker blinker = {.user = user_open(f, USUAL)};

    assert_code(user_visit(blinker.user, 1000, NULL), 0);
    TEST_CHECK(pthread_create(&blinker.thread, NULL, blink, &blinker) == 0);
    for (int i = 0; i < 2000; i++) {
        assert_code(user_visit(blinker.user, 1000, NULL), 0);
    }
    atomic_store(&blinker.ends, true);
    pthread_join(blinker.thread, NULL);
}

/*
 * Under a hold: with most of them it stays valid beyond its lease, with fewer it is lost and told.
 * With three servers, and leases as short as a busy machine allows.
 */
FIXTURE_WITH_TEST(each_subset_that_dies_under_a_hold_follows_the_majority, f, .servers = 3,
                  .proxy = PROXY_ON_UNIX)
{
    const int64_t lease_ms = test_slack() > 1 ? 900 : 400;
    struct user *user;
    unsigned int losses = 0;

    user = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms));
    for (unsigned int mask = 0; mask < 8; mask++) {
        bool most = __builtin_popcount(mask) >= 2;
        int64_t since_us;

        user_take_everywhere(user);
        fixture_reach_only(f, mask);
        since_us = test_now_us();
        losses += !most;
        assert_true(TEST_EVENTUALLY(user_losses(user) == losses &&
                                        test_elapsed_us(since_us) > most * lease_ms * 1500,
                                    5000));
        assert_true(rlock_is_valid(user->lock) == most);
        assert_code(rlock_unlock(user->lock), most ? 0 : RLOCK_ELOST);
        fixture_reach_only(f, 7);
        assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
    }
}

FIXTURE_WITH_TEST(who_answers_late_joins, f, .servers = 5, .proxy = PROXY_ON_UNIX)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000));
    int64_t began_us;

    assert_code(user_visit(user, 5000, NULL), 0);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 2000));
    for (size_t i = 0; i < 5; i++) { /* who is still being left is not asked: behind its answer */
        struct rlock_info info = RLOCK_INFO_INIT;

        assert_code(rlock_inspect(user->members[i], &info), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        proxy_delay_us(f->proxies[i], 300000);
    }
    began_us = test_now_us();
    assert_code(rlock_try_lock(user->lock), 0);
    assert_in_time(began_us, 300000 * test_slack());
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 5, 5000));
    for (size_t i = 2; i < 4; i++) { /* without those that came late, this would be the end */
        fixture_reach(f, i, false);
        assert_int_equal(test_server_int(f->servers[i], "DEL a"), 1);
    }
    assert_true(rlock_is_valid(user->lock));
    for (size_t i = 2; i < 4; i++) {
        fixture_reach(f, i, true);
    }
    assert_code(rlock_unlock(user->lock), 0);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
}

FIXTURE_WITH_TEST(who_answers_after_the_unlock_is_left, f, .servers = 3, .proxy = PROXY_ON_UNIX)
{
    struct user *user = user_open(f, USUAL);

    assert_code(user_visit(user, 5000, NULL), 0);
    proxy_delay_us(f->proxies[1], 200000);
    for (int i = 0; i < 3; i++) {
        assert_code(user_visit(user, 5000, NULL), 0);
    }
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
    proxy_delay_us(f->proxies[1], 0);
}

FIXTURE_WITH_TEST(a_frozen_server_costs_nothing, f, .servers = 3)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 1000));
    int64_t began_us;

    assert_code(user_visit(user, 5000, NULL), 0);
    test_server_freeze(f->servers[1]);
    began_us = test_now_us();
    assert_code(rlock_try_lock(user->lock), 0);
    assert_code(rlock_unlock(user->lock), 0);
    assert_in_time(began_us, 300000 * test_slack());
    test_server_thaw(f->servers[1]);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
}

/* However long ago its lease would have ended: what was sent lies in the server's socket. */
FIXTURE_WITH_TEST(what_a_frozen_server_may_yet_run_stays_in_doubt, f, .redlock = true)
{
    const int64_t lease_ms = 50 * test_slack();
    struct user *user;

    user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = lease_ms));
    assert_code(user_visit(user, 5000, NULL), 0);
    test_server_freeze(f->servers[0]);
    assert_code(rlock_lock_for(user->lock, 10 * lease_ms, RLOCK_TAKE(.lease_ms = lease_ms), NULL),
                RLOCK_EINDOUBT);
    test_server_thaw(f->servers[0]);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
}

/* A copy may come after the answer that it is busy, where nobody may kill its connection. */
FIXTURE_WITH_TEST(what_is_busy_after_a_doubt_stays_in_doubt, f, .redlock = true,
                  .proxy = PROXY_ON_UNIX)
{
    const int64_t op_ms = 50 * test_slack();
    struct user *user;

    test_server_do(f->servers[0], "ACL SETUSER default -client|kill");
    user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = op_ms, .renewed_lease_ms = 60 * op_ms));
    assert_code(user_visit(user, 5000, NULL), 0);
    test_server_do(f->servers[0], "HSET a somebody:1 1");
    proxy_add(f->proxies[0], &(struct proxy_rule){.act = PROXY_HOLD, .command = "EVALSHA"});
    assert_code(rlock_lock_for(user->lock, 20 * op_ms, NULL, NULL), RLOCK_EINDOUBT);
    test_server_do(f->servers[0], "DEL a");
    proxy_hold_requests(f->proxies[0], false);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 1, 5000));
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
}

/* Whether the text says when the lock is free, and names the i-th server. */
static bool says_doubt_about(const struct fixture *f, size_t i)
{
    return strstr(rlock_detail(), "free again in ") != NULL &&
           strstr(rlock_detail(), test_server_url(f->servers[i])) != NULL;
}

FIXTURE_WITH_TEST(a_doubt_says_when_it_is_free_and_names_the_servers, f, .servers = 4)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 50 * test_slack()));

    assert_code(user_visit(user, 5000, NULL), 0);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 2000));
    for (size_t i = 0; i < 2; i++) {
        test_server_freeze(f->servers[i]);
    }
    assert_code(rlock_try_lock(user->lock), RLOCK_EINDOUBT); /* two of four: others need three */
    for (size_t i = 0; i < 4; i++) {
        assert_true(says_doubt_about(f, i) == (i < 2));
    }
    for (size_t i = 0; i < 2; i++) {
        test_server_thaw(f->servers[i]);
    }
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
}

/* ---- Nobody is helped to a second quorum ---- */

struct trier {
    pthread_t thread;
    const struct user *user;
    int code;
};

static void *trier_main(void *arg)
{
    struct trier *trier = arg;

    trier->code = rlock_try_lock(trier->user->lock);
    if (trier->code == RLOCK_EINDOUBT) { /* its links were cut with the request on them */
        trier->code = rlock_try_lock(trier->user->lock);
    }
    return NULL;
}

static void both_try(struct user *const users[static 2], int ret_codes[static 2])
{
    struct trier triers[2];

    for (size_t i = 0; i < 2; i++) {
        triers[i] = (struct trier){.user = users[i]};
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
    struct fixture f, *views[2];
    struct user *users[2];
    int codes[2];

    fixture_open(&f, &(struct fixture_opts){.servers = 5});
    for (size_t i = 0; i < 2; i++) {
        views[i] = fixture_view(&f);
        users[i] =
            user_open(views[i], *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_slack() > 1 ? 200 : 60));
        assert_code(user_visit(users[i], 5000, NULL), 0);
    }
    for (unsigned int masks = 0; masks < 32 * 32; masks++) {
        unsigned int one = masks / 32, two = masks % 32;

        if ((one & two) != 0 || __builtin_popcount(one) != 2 || __builtin_popcount(two) != 2) {
            continue;
        }
        assert_true(TEST_EVENTUALLY(fixture_holding(&f, "a") == 0, 5000));
        fixture_reach_only(views[0], one);
        fixture_reach_only(views[1], two);
        both_try(users, codes);
        assert_int_equal(codes[0], RLOCK_ENOQUORUM);
        assert_int_equal(codes[1], RLOCK_ENOQUORUM);
        fixture_reach_only(views[0], 31);
        fixture_reach_only(views[1], 31);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_code(user_visit(users[i], 5000, NULL), 0);
    }
    assert_true(TEST_EVENTUALLY(fixture_holding(&f, "a") == 0, 2000));
    fixture_close(&f);
}

/* Longer than anything that is done under it, however slow the machine. */
static int lease_ms(void)
{
    return test_slack() > 1 ? 6000 : 3000;
}

/* Takes it on every server, not renewed: as soon as each has run for long enough to count. What the
 * last ones answered comes late; behind the answers to another question it has been read. */
static bool takes_all(const struct user *user)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    bool all;

    assert_code(rlock_lock_for(user->lock, 20000, RLOCK_TAKE(.lease_ms = lease_ms()), NULL), 0);
    all = TEST_EVENTUALLY(fixture_holding(user->f, "a") == user->f->n, 200);
    assert_code(rlock_inspect(user->lock, &info), 0);
    if (!all) {
        assert_code(rlock_unlock(user->lock), 0);
    }
    return all;
}

/* One holds on servers 0 to 2, the other reaches 2 to 4; server 2 restarts empty in between. */
static int second_taker(struct fixture *f, const struct user *one, const struct user *two)
{
    /* as if nobody could reach the last two: they are free for the other */
    assert_true(TEST_EVENTUALLY(takes_all(one), 20000));
    for (size_t i = 3; i < 5; i++) {
        assert_int_equal(test_server_int(f->servers[i], "DEL a"), 1);
    }
    test_server_restart(f->servers[2], false);
    return rlock_lock_for(two->lock, 500, NULL, NULL);
}

struct codes {
    const struct fixture *f;
    int *codes;
};

static void note_code(const struct rlock_member *member, void *payload)
{
    const struct codes *codes = payload;

    for (size_t i = 0; i < codes->f->n; i++) {
        const char *url = test_server_url(codes->f->servers[i]);

        if (strstr(url, member->server) != NULL || strstr(member->server, url) != NULL) {
            codes->codes[i] = member->code;
        }
    }
}

/* The code of each member in the latest call on the lock, in the servers' order. */
static void member_codes(const struct user *user, int codes[static FIXTURE_SERVERS])
{
    for (size_t i = 0; i < FIXTURE_SERVERS; i++) {
        codes[i] = 1;
    }
    assert_code(rlock_members(user->lock, note_code, &(struct codes){user->f, codes}), 0);
}

FIXTURE_WITH_TEST(a_restarted_server_does_not_help_to_a_second_quorum, f, .servers = 5,
                  .max_lease_ms = lease_ms())
{
    struct user *one = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms()));
    struct user *two = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms()));
    int code, codes[FIXTURE_SERVERS];

    assert_code(second_taker(f, one, two), RLOCK_ETIMEDOUT);
    code = rlock_try_lock(two->lock);
    member_codes(two, codes);
    if (rlock_is_valid(one->lock)) { /* else it has given its members back by now */
        assert_code(code, RLOCK_EBUSY);
        assert_int_equal(codes[0], RLOCK_EBUSY);
    }
    assert_int_not_equal(code, 0);
    assert_int_equal(codes[2], RLOCK_ERESTARTED);
    assert_true(TEST_EVENTUALLY(user_losses(one) == 1, 5000)); /* it has 0 and 1 left */
    assert_code(rlock_unlock(one->lock), RLOCK_ELOST);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
}

/* ---- Losses ---- */

/* Whether the lease on the last server was extended since the last look. */
static bool is_renewed(const struct fixture *f, long long *inout_ttl)
{
    long long last = *inout_ttl;

    *inout_ttl = test_server_int(f->servers[f->n - 1], "PTTL a");
    return *inout_ttl > last;
}

FIXTURE_WITH_TEST(losing_a_minority_leaves_it_valid_losing_more_is_told_once, f, .servers = 5)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = 600));

    assert_code(rlock_lock_for(user->lock, 5000, NULL, NULL), 0);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 5, 5000));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(test_server_int(f->servers[i], "DEL a"), 1);
    }
    assert_true(TEST_EVENTUALLY(user_logged(user, "deleted"), 5000));
    for (int i = 0; i < 3; i++) { /* renewals go on */
        long long ttl = test_server_int(f->servers[4], "PTTL a");

        assert_true(TEST_EVENTUALLY(is_renewed(f, &ttl), 5000));
    }
    assert_true(rlock_is_valid(user->lock));
    assert_int_equal(user_losses(user), 0);
    assert_int_equal(test_server_int(f->servers[2], "DEL a"), 1);
    assert_true(TEST_EVENTUALLY(user_losses(user) == 1, 5000));
    assert_false(rlock_is_valid(user->lock));
    assert_string_equal(user_last_loss(user)->loss.kind, "redlock");
    assert_string_equal(user_last_loss(user)->name, "a");
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000)); /* the others are free */
    assert_code(rlock_unlock(user->lock), RLOCK_ELOST);
    assert_code(rlock_unlock(user->lock), RLOCK_ENOTOWNER);
    assert_int_equal(user_losses(user), 1);
    assert_code(user_visit(user, 5000, NULL), 0);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
}

/* ---- Arguments ---- */

FIXTURE_WITH_TEST(members_that_it_cannot_have_are_refused, f, .servers = 2, .max_lease_ms = 3000)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = 1000));
    struct rlock_handle *fenced, *twice, *made;
    struct rlock_take take = {.size = sizeof(take), .lease_ms = 3001};

    assert_true(TEST_EVENTUALLY(user_logged(user, "survives the loss of 0"), 5000));
    assert_code(rlock_fenced_new(user->clients[0], "f", NULL, &fenced), 0);
    assert_code(rlock_redlock_new(&fenced, 1, NULL, &made), RLOCK_ENOTSUP);
    assert_code(rlock_redlock_new(&user->lock, 1, NULL, &made), RLOCK_ENOTSUP);
    twice = user_lock(user, "b");
    assert_code(
        rlock_redlock_new((struct rlock_handle *[]){twice, user->members[0]}, 2, NULL, &made),
        RLOCK_EINVAL);
    assert_code(rlock_redlock_new(NULL, 1, NULL, &made), RLOCK_EINVAL);
    assert_code(rlock_redlock_new(user->members, 0, NULL, &made), RLOCK_EINVAL);
    assert_code(rlock_lock_for(user->lock, 0, &take, NULL), RLOCK_EINVAL);
    fenced = rlock_free(fenced);
}

/* The loss of that one would be the loss of two. */
TEST(two_members_on_one_server_are_refused)
{
    struct fixture f, *view;
    struct user *one, *two;
    struct rlock_handle *b, *made;
    int code = 0;

    fixture_open(&f, &(struct fixture_opts){.servers = 1});
    view = fixture_view(&f);
    one = user_open(&f, USUAL);
    two = user_open(view, USUAL);
    b = user_lock(two, "b");
    assert_code(rlock_redlock_new((struct rlock_handle *[]){one->members[0], b}, 2,
                                  RLOCK_OPTS(.max_lease_ms = -1), &made),
                0);
    if (!TEST_EVENTUALLY((code = rlock_try_lock(made)) == RLOCK_EINVAL, 5000)) {
        fail_msg("%s: %s", rlock_code_name(code), rlock_detail());
    }
    assert_non_null(strstr(rlock_detail(), "one server"));
    assert_int_equal(fixture_holding(&f, "a"), 0);
    made = rlock_free(made);
    fixture_close(&f);
}
