/* SPDX-License-Identifier: Apache-2.0 */
/* Which primary a client uses, by the answers of its Sentinels. */
#include <stdio.h>

#include "support/test.h"
#include "topology/choice.h"

enum { SENTINELS = 3 };

/* A client's choice, and what the Sentinels answer next. */
struct scene {
    struct rlock__choice choice;
    struct rlock__vote votes[5];
    size_t n;
    struct rlock__evidence evidence;
    struct rlock__round round;
};

static const struct scene start = {.choice = {.n_sentinels = SENTINELS},
                                   .round = {.now = 100 * RLOCK__SECOND}};

static struct rlock__primary primary_of(const char *host, int64_t epoch)
{
    struct rlock__primary primary = {.port = 6379, .epoch = epoch};

    (void)snprintf(primary.host, sizeof(primary.host), "%s", host);
    return primary;
}

/* One more Sentinel answers. */
static void vote(struct scene *s, const char *host, int64_t epoch)
{
    static const char *const names[] = {"s1:26379", "s2:26379", "s3:26379", "s4:26379", "s5:26379"};

    s->votes[s->n] = (struct rlock__vote){
        .primary = primary_of(host, epoch), .sentinel = names[s->n], .knows_peer = true};
    s->n++;
}

/* Plays a round some time after the one before. */
static enum rlock__verdict after(struct scene *s, int64_t ms)
{
    s->round.votes = s->votes;
    s->round.n = s->n;
    s->round.evidence = &s->evidence;
    s->round.now += ms * RLOCK__MS;
    return rlock__choice_round(&s->choice, &s->round);
}

static void assert_uses(const struct scene *s, const char *host, int64_t epoch)
{
    assert_string_equal(s->choice.known.host, host);
    assert_int_equal(s->choice.known.epoch, epoch);
}

/* All Sentinels have named this one. */
static struct scene knows(const char *host, int64_t epoch)
{
    struct scene s = start;

    for (size_t i = 0; i < SENTINELS; i++) {
        vote(&s, host, epoch);
    }
    assert_int_equal(after(&s, 0), RLOCK__DECIDED);
    assert_uses(&s, host, epoch);
    s.n = 0;
    return s;
}

static void prove(struct scene *s, const char *host, bool is_primary, bool descends)
{
    s->evidence = (struct rlock__evidence){
        .of = primary_of(host, 0), .is_primary = is_primary, .descends = descends};
}

/* ---- A majority ---- */

TEST(what_more_than_half_of_the_sentinels_name_is_used)
{
    struct scene s = knows("a", 1);

    vote(&s, "b", 2);
    vote(&s, "b", 2);
    assert_int_equal(after(&s, 100), RLOCK__DECIDED);
    assert_uses(&s, "b", 2);
}

TEST(one_sentinel_with_a_later_epoch_moves_no_client)
{
    struct scene s = knows("a", 1);

    vote(&s, "a", 1);
    vote(&s, "foreign", 9);
    vote(&s, "a", 1);
    assert_int_equal(after(&s, 100), RLOCK__ASK_AGAIN); /* the others may be about to follow */
    for (int i = 0; i < 100; i++) {
        (void)after(&s, 100);
        assert_uses(&s, "a", 1);
    }
    assert_int_equal(after(&s, 100), RLOCK__DECIDED); /* they are not */
}

TEST(one_sentinel_with_a_later_epoch_does_not_choose_for_a_new_client)
{
    struct scene s = start;

    vote(&s, "foreign", 9);
    vote(&s, "a", 1);
    vote(&s, "a", 1);
    assert_int_equal(after(&s, 0), RLOCK__ASK_AGAIN);
    assert_int_equal(after(&s, 1100), RLOCK__DECIDED);
    assert_uses(&s, "a", 1);
}

TEST(a_later_epoch_is_news_until_it_is_known_to_be_outvoted)
{
    struct scene s = knows("a", 1);
    const struct rlock__primary foreign = primary_of("foreign", 9), next = primary_of("b", 2);

    assert_true(rlock__choice_is_news(&s.choice, &foreign));
    vote(&s, "a", 1);
    vote(&s, "a", 1);
    vote(&s, "foreign", 9);
    (void)after(&s, 100);
    assert_false(rlock__choice_is_news(&s.choice, &foreign));
    assert_true(rlock__choice_is_news(&s.choice, &next));
}

TEST(a_minority_that_lasts_is_reported)
{
    struct scene s = knows("a", 1);

    vote(&s, "a", 1);
    vote(&s, "a", 1);
    vote(&s, "foreign", 9);
    (void)after(&s, 100);
    (void)after(&s, 2900);
    assert_int_equal(s.choice.discord, RLOCK__AGREED);
    (void)after(&s, 100);
    assert_int_equal(s.choice.discord, RLOCK__OUTVOTED);
    assert_string_equal(s.choice.why,
                        "Sentinel s3:26379 names foreign:6379 (epoch 9), most name a:6379 (epoch "
                        "1), which is used");
}

/* ---- No majority ---- */

TEST(half_of_the_sentinels_is_no_majority)
{
    struct scene s = knows("a", 1);

    s.choice.n_sentinels = 4;
    vote(&s, "b", 2);
    vote(&s, "b", 2);
    vote(&s, "a", 1);
    vote(&s, "a", 1);
    for (int i = 0; i < 10; i++) {
        assert_int_not_equal(after(&s, 100), RLOCK__DECIDED);
        assert_uses(&s, "a", 1);
    }
    assert_int_equal(s.choice.discord, RLOCK__SPLIT);
    assert_non_null(strstr(s.choice.why, "4 of 4 Sentinels answer: s1:26379 names b:6379"));
}

TEST(a_sentinel_that_is_left_is_asked_twice_and_must_know_another_one)
{
    struct scene s = knows("a", 1);

    vote(&s, "b", 2);
    s.votes[0].knows_peer = false;
    for (int i = 0; i < 10; i++) {
        assert_int_not_equal(after(&s, 100), RLOCK__DECIDED);
    }
    assert_uses(&s, "a", 1);
    s.votes[0].knows_peer = true;
    assert_int_equal(after(&s, 100), RLOCK__DECIDED);
    assert_uses(&s, "b", 2);

    s = knows("a", 1);
    vote(&s, "b", 2);
    assert_int_equal(after(&s, 100), RLOCK__ASK_AGAIN);
    assert_int_equal(after(&s, 20), RLOCK__DECIDED);
}

TEST(sentinels_that_are_left_must_agree)
{
    struct scene s = knows("a", 1);

    s.choice.n_sentinels = 5;
    vote(&s, "b", 2);
    vote(&s, "foreign", 9);
    for (int i = 0; i < 10; i++) {
        assert_int_not_equal(after(&s, 100), RLOCK__DECIDED);
        assert_uses(&s, "a", 1);
    }
}

TEST(a_sentinel_that_is_left_does_not_lower_the_epoch)
{
    struct scene s = knows("a", 2);

    vote(&s, "b", 1);
    prove(&s, "b", true, true);
    s.round.known_is_out = true;
    for (int i = 0; i < 1000; i++) {
        assert_int_not_equal(after(&s, 100), RLOCK__DECIDED);
    }
    assert_uses(&s, "a", 2);
}

TEST(without_a_majority_a_server_that_was_promoted_from_the_lost_primary_follows_it)
{
    struct scene s = knows("a", 1);

    vote(&s, "foreign", 9);
    vote(&s, "b", 2);
    s.round.known_is_out = true;
    for (int i = 0; i < 4; i++) { /* each is probed in its turn, and proves nothing */
        (void)after(&s, 100);
        prove(&s, s.choice.probe.host, true, false);
    }
    prove(&s, "b", false, true);
    assert_int_not_equal(after(&s, 100), RLOCK__DECIDED);
    prove(&s, "b", true, true);
    s.round.known_is_out = false;
    assert_int_not_equal(after(&s, 100), RLOCK__DECIDED);
    s.round.known_is_out = true;
    assert_int_equal(after(&s, 100), RLOCK__DECIDED);
    assert_uses(&s, "b", 2);
}

/* ---- A lower epoch ---- */

static struct scene lowered(void)
{
    struct scene s = knows("a", 5);

    vote(&s, "b", 1);
    vote(&s, "b", 1);
    prove(&s, "b", true, false);
    return s;
}

TEST(a_lower_epoch_is_followed_when_all_leases_have_ended)
{
    struct scene s = lowered();

    assert_int_equal(after(&s, 0), RLOCK__UNDECIDED);
    assert_int_equal(after(&s, 31900), RLOCK__UNDECIDED);
    assert_uses(&s, "a", 5);
    assert_true(rlock__choice_suspends(&s.choice));
    assert_int_equal(after(&s, 100), RLOCK__DECIDED);
    assert_uses(&s, "b", 1);
    assert_false(rlock__choice_suspends(&s.choice));

    s = lowered();
    s.round.lease_us = 100 * RLOCK__SECOND;
    (void)after(&s, 0);
    assert_int_equal(after(&s, 101900), RLOCK__UNDECIDED);
    assert_int_equal(after(&s, 100), RLOCK__DECIDED);
}

TEST(a_lower_epoch_is_reported_at_once)
{
    struct scene s = lowered();

    (void)after(&s, 0);
    assert_int_equal(s.choice.discord, RLOCK__LOWERED);
    assert_string_equal(s.choice.why,
                        "most Sentinels name b:6379 (epoch 1), but a:6379 (epoch 5) was in use: "
                        "the client pauses, and uses the former in 32 s");
}

TEST(a_lower_epoch_is_followed_at_once_by_descent)
{
    struct scene s = lowered();

    assert_int_equal(after(&s, 0), RLOCK__UNDECIDED);
    assert_string_equal(s.choice.probe.host, "b");
    prove(&s, "b", false, true);
    assert_int_equal(after(&s, 20), RLOCK__UNDECIDED);
    prove(&s, "b", true, true);
    assert_int_equal(after(&s, 20), RLOCK__DECIDED);
    assert_uses(&s, "b", 1);
}

TEST(a_lower_epoch_of_no_primary_is_not_followed)
{
    struct scene s = lowered();

    prove(&s, "b", false, false);
    (void)after(&s, 0);
    assert_int_equal(after(&s, 60000), RLOCK__UNDECIDED);
    prove(&s, "c", true, true);
    assert_int_equal(after(&s, 100), RLOCK__UNDECIDED);
}

TEST(a_round_that_differs_begins_the_time_again)
{
    struct scene s = lowered();

    (void)after(&s, 0);
    s.n = 1; /* no majority */
    (void)after(&s, 20000);
    assert_false(rlock__choice_suspends(&s.choice));
    s.n = 2;
    (void)after(&s, 100);
    assert_int_equal(after(&s, 31900), RLOCK__UNDECIDED);
    assert_int_equal(after(&s, 100), RLOCK__DECIDED);

    s = lowered();
    (void)after(&s, 0);
    s.votes[0].primary = s.votes[1].primary = primary_of("c", 2);
    prove(&s, "c", true, false);
    (void)after(&s, 20000);
    assert_int_equal(after(&s, 31900), RLOCK__UNDECIDED);
    assert_int_equal(after(&s, 100), RLOCK__DECIDED);
    assert_uses(&s, "c", 2);
}

TEST(a_lower_epoch_is_not_followed_while_a_sentinel_names_another_server_with_a_higher_one)
{
    struct scene s = lowered();

    vote(&s, "a", 5);
    prove(&s, "b", true, true);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(after(&s, 100), RLOCK__UNDECIDED);
        assert_uses(&s, "a", 5);
        assert_false(rlock__choice_suspends(&s.choice));
    }
    assert_int_equal(s.choice.discord, RLOCK__DENIED);
    assert_non_null(strstr(s.choice.why, "Sentinel s3:26379 names a:6379 (epoch 5)"));
}

/* Sentinels lost their memory, and name the same primary as before. */
TEST(a_lower_epoch_of_the_same_primary_pauses_nothing_and_counts_in_time)
{
    struct scene s = knows("a", 5);

    vote(&s, "a", 1);
    vote(&s, "a", 1);
    assert_int_equal(after(&s, 0), RLOCK__DECIDED);
    assert_false(rlock__choice_suspends(&s.choice));
    assert_uses(&s, "a", 5);
    (void)after(&s, 32000);
    assert_uses(&s, "a", 1);
    s.votes[0].primary = s.votes[1].primary = primary_of("b", 2);
    assert_int_equal(after(&s, 100), RLOCK__DECIDED);
    assert_uses(&s, "b", 2);
}
