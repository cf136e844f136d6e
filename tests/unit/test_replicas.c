/* SPDX-License-Identifier: Apache-2.0 */
/* Which replicas must have what their primary grants: when one is left out, and when it is back. */
#include <stdio.h>

#include "lock/server/replicas.h"
#include "rlock/rlock.h"
#include "support/test.h"

#define START (1000 * RLOCK__SECOND)
#define AT(ms) (START + (ms)*RLOCK__MS)
#define ONE "10.0.0.1:6379"
#define TWO "10.0.0.2:6379"

static struct rlock__replicas all;

static void know(size_t n, const struct rlock__replica_word words[], int64_t ms)
{
    rlock__replicas_known(&all, words, n, AT(ms));
}

/* The primary lists these, every second up to then: "slave0:…" lines. */
static void lists(const char *text, int64_t ms)
{
    while (all.listed_at != 0 && all.listed_at + RLOCK__SECOND < AT(ms)) {
        rlock__replicas_listed(&all, rlock__bytes_of(text), all.listed_at + RLOCK__SECOND);
    }
    rlock__replicas_ask(&all);
    rlock__replicas_listed(&all, rlock__bytes_of(text), AT(ms));
}

#define FOLLOWS(n, ip) "slave" n ":ip=" ip ",port=6379,state=online,offset=100,lag=0\r\n"
#define LAGS(n, ip) "slave" n ":ip=" ip ",port=6379,state=online,offset=100,lag=3\r\n"
#define COPIES(n, ip) "slave" n ":ip=" ip ",port=6379,state=send_bulk,offset=0,lag=0\r\n"

static unsigned needed(int acks)
{
    struct rlock__need need = rlock__replicas_need(&all, acks);

    return rlock__need_size(&need);
}

/* Two replicas that the primary lists. */
static void begin(void)
{
    static const struct rlock__replica_word words[] = {{.place = ONE}, {.place = TWO}};

    all = (struct rlock__replicas){.n_known = 0};
    know(2, words, 0);
    lists(FOLLOWS("0", "10.0.0.1") FOLLOWS("1", "10.0.0.2"), 0);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 2);
}

static void hold_down(const char *place, int64_t ms)
{
    struct rlock__replica_word words[] = {{.place = ONE}, {.place = TWO}};

    words[strcmp(place, TWO) == 0].is_held_down = true;
    know(2, words, ms);
}

TEST(every_replica_that_may_be_promoted_is_needed)
{
    begin();
    assert_int_equal(needed(RLOCK_ACKS_ALL), 2);
    assert_int_equal(needed(RLOCK_ACKS_OFF), 0);
    assert_int_equal(needed(1), 1);
}

TEST(a_replica_is_out_once_it_is_missing_and_held_down_and_its_primary_alive)
{
    begin();
    lists(FOLLOWS("0", "10.0.0.1"), 1000);
    hold_down(TWO, 1500);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 2); /* the primary may be cut off */
    lists(FOLLOWS("0", "10.0.0.1"), 2900);
    rlock__replicas_alive(&all, AT(2900));
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 2);
    rlock__replicas_alive(&all, AT(3000));
    lists(FOLLOWS("0", "10.0.0.1"), 3100);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 1);
    assert_int_equal(needed(RLOCK_ACKS_ALL), 2);
    assert_int_equal(needed(2), 2);
}

TEST(a_replica_that_is_held_down_by_none_is_out_after_a_while)
{
    begin();
    lists(FOLLOWS("0", "10.0.0.1"), 1000);
    rlock__replicas_alive(&all, AT(5900));
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 2);
    lists(FOLLOWS("0", "10.0.0.1"), 6000);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 1);
}

TEST(a_replica_that_says_itself_that_it_has_no_link_is_not_missed_for_long)
{
    static const struct rlock__replica_word words[] = {{.place = ONE},
                                                       {.place = TWO, .is_unlinked = true}};

    all = (struct rlock__replicas){.n_known = 0};
    know(2, words, 0);
    lists(FOLLOWS("0", "10.0.0.1"), 0);
    rlock__replicas_alive(&all, AT(1900));
    lists(FOLLOWS("0", "10.0.0.1"), 1950);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 2); /* the primary may be cut off */
    rlock__replicas_alive(&all, AT(2000));
    lists(FOLLOWS("0", "10.0.0.1"), 2100);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 1);
}

TEST(a_primary_that_is_not_known_to_be_alive_leaves_out_nobody)
{
    begin();
    lists("", 1000);
    hold_down(ONE, 2000);
    lists("", 60000);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 2);
}

/* It may have been back meanwhile. */
TEST(an_old_list_leaves_out_nobody)
{
    begin();
    lists(FOLLOWS("0", "10.0.0.1"), 1000);
    hold_down(TWO, 5000);
    rlock__replicas_ask(&all);
    rlock__replicas_alive(&all, AT(60000));
    rlock__replicas_listed(&all, rlock__bytes_of(FOLLOWS("0", "10.0.0.1")), AT(3000));
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 2);
    lists(FOLLOWS("0", "10.0.0.1"), 4000);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 1);
}

TEST(a_replica_that_may_have_been_back_is_missing_since_the_latest_list)
{
    begin();
    lists("", 1000);
    rlock__replicas_alive(&all, AT(9000));
    rlock__replicas_ask(&all);
    rlock__replicas_listed(&all, rlock__bytes_of(""), AT(9000));
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 2);
}

TEST(a_replica_that_stood_still_is_missing_though_it_is_in_the_list)
{
    begin();
    lists(FOLLOWS("0", "10.0.0.1") LAGS("1", "10.0.0.2"), 1000);
    rlock__replicas_alive(&all, AT(5000));
    lists(FOLLOWS("0", "10.0.0.1") LAGS("1", "10.0.0.2"), 6000);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 1);
}

/* ROLE does not list it meanwhile. */
TEST(a_replica_that_copies_all_data_is_out_after_a_while)
{
    static const char copies[] = FOLLOWS("0", "10.0.0.1") COPIES("1", "10.0.0.2");
    const struct rlock__value values[] = {{.type = RLOCK__REPLY_STR, .str = "master", .len = 6},
                                          {.type = RLOCK__REPLY_INT, .num = 100},
                                          {.type = RLOCK__REPLY_STR, .str = "10.0.0.1", .len = 8},
                                          {.type = RLOCK__REPLY_STR, .str = "6379", .len = 4},
                                          {.type = RLOCK__REPLY_STR, .str = "100", .len = 3}};
    const struct rlock__reply one = {.v = values, .n = 5, .is_array = true, .is_nested = true};

    begin();
    for (int64_t ms = 1000; ms <= 6000; ms += 1000) {
        lists(copies, ms);
        (void)rlock__replicas_role(&all, &one, 100, AT(ms + 500));
    }
    rlock__replicas_alive(&all, AT(6500));
    lists(copies, 7000);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 1);
}

/* It lagged, caught up, and was cut off before the next list: maybe the primary was, with it. */
TEST(a_replica_that_lagged_is_missing_anew_when_it_leaves_the_list)
{
    begin();
    lists(FOLLOWS("0", "10.0.0.1") LAGS("1", "10.0.0.2"), 1000);
    lists(FOLLOWS("0", "10.0.0.1") LAGS("1", "10.0.0.2"), 2900);
    rlock__replicas_alive(&all, AT(3500));
    lists(FOLLOWS("0", "10.0.0.1"), 3800);
    hold_down(TWO, 4000);
    rlock__replicas_alive(&all, AT(4500));
    lists(FOLLOWS("0", "10.0.0.1"), 4800);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 2);
    rlock__replicas_alive(&all, AT(5900));
    lists(FOLLOWS("0", "10.0.0.1"), 6000);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 1);
}

/* It is needed again when the primary lists it, and not when the Sentinels reach it. */
TEST(a_replica_is_back_when_its_primary_lists_it)
{
    begin();
    lists(FOLLOWS("0", "10.0.0.1"), 1000);
    rlock__replicas_alive(&all, AT(3000));
    hold_down(TWO, 3000);
    lists(FOLLOWS("0", "10.0.0.1"), 3000);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 1);
    hold_down(ONE, 4000); /* and TWO no more */
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 1);
    lists(FOLLOWS("0", "10.0.0.1") FOLLOWS("1", "10.0.0.2"), 5000);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 2);
}

TEST(a_replaced_primary_that_was_held_down_is_out_at_once)
{
    const struct rlock__replica_word words[] = {{.place = ONE, .was_replaced = true}};

    all = (struct rlock__replicas){.n_known = 0};
    know(1, words, 0);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 0);
    assert_int_equal(needed(1), 1);
    lists(FOLLOWS("0", "10.0.0.1"), 100);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 1);
}

/* Such as tools that copy all that is written, and replicas of another site. */
TEST(a_replica_that_nobody_promotes_does_not_count)
{
    const struct rlock__replica_word words[] = {{.place = ONE, .is_free = true},
                                                {.place = TWO, .is_barred = true}};
    const struct rlock__replica_word unsure[] = {{.place = ONE, .is_free = true}, {.place = TWO}};
    struct rlock__need need;

    all = (struct rlock__replicas){.n_known = 0};
    know(2, words, 0);
    lists(FOLLOWS("0", "10.0.0.2") FOLLOWS("1", "10.0.0.9"), 0);
    need = rlock__replicas_need(&all, RLOCK_ACKS_AUTO);
    assert_int_equal(rlock__need_size(&need), 1);
    assert_false(rlock__need_is_met(&need, ~need.must));
    need = rlock__replicas_need(&all, 1);
    assert_int_equal(rlock__rows(need.may), 1);
    assert_false(rlock__need_is_met(&need, ~need.may));
    know(2, unsure, 1000); /* most Sentinels do not answer */
    need = rlock__replicas_need(&all, 1);
    assert_int_equal(rlock__rows(need.may), 1);
}

static struct rlock__reply role(const struct rlock__value values[], size_t n)
{
    return (struct rlock__reply){.v = values, .n = n, .is_array = true, .is_nested = true};
}

#define TEXT(s)                                                                                    \
    {                                                                                              \
        .type = RLOCK__REPLY_STR, .str = (s), .len = sizeof(s) - 1                                 \
    }
#define NUMBER(i)                                                                                  \
    {                                                                                              \
        .type = RLOCK__REPLY_INT, .num = (i)                                                       \
    }

TEST(role_names_the_replicas_that_have_what_was_written)
{
    const struct rlock__value values[] = {TEXT("master"), NUMBER(200), TEXT("10.0.0.1"),
                                          TEXT("6379"),   TEXT("150"), TEXT("10.0.0.2"),
                                          TEXT("6379"),   TEXT("149")};
    const struct rlock__reply reply = role(values, 8);
    struct rlock__need need;
    uint32_t have;

    begin();
    need = rlock__replicas_need(&all, RLOCK_ACKS_AUTO);
    have = rlock__replicas_role(&all, &reply, 150, AT(100));
    assert_int_equal(rlock__rows(have), 1);
    assert_false(rlock__need_is_met(&need, have));
    have = rlock__replicas_role(&all, &reply, 149, AT(200));
    assert_true(rlock__need_is_met(&need, have));
    assert_int_equal(rlock__role_offset(&reply), 200);
    assert_int_equal(rlock__replicas_role(&all, &reply, -1, AT(300)), 0);
}

/* Behind NAT, for example. */
TEST(places_that_the_map_does_not_know_are_of_no_use)
{
    const struct rlock__replica_word words[] = {{.place = ONE}, {.place = TWO}};

    all = (struct rlock__replicas){.n_known = 0};
    know(2, words, 0);
    lists(FOLLOWS("0", "192.168.0.1") FOLLOWS("1", "192.168.0.2"), 0);
    assert_false(rlock__replicas_have_names(&all));
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 1);
    rlock__replicas_alive(&all, AT(60000));
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 1); /* nobody is left out by that */
    begin();
    lists(FOLLOWS("0", "192.168.0.1"), 1000); /* they were of use before */
    assert_true(rlock__replicas_have_names(&all));
    rlock__replicas_counted(&all, 2);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 1);
    assert_int_equal(needed(RLOCK_ACKS_ALL), 2);
}

/* The map may not know it yet. */
TEST(a_fresh_replica_is_needed_where_all_others_are_out)
{
    const struct rlock__replica_word words[] = {{.place = ONE}};

    all = (struct rlock__replicas){.n_known = 0};
    know(1, words, 0);
    lists(FOLLOWS("0", "10.0.0.1"), 0);
    lists(FOLLOWS("0", "10.0.0.7"), 1000);
    rlock__replicas_alive(&all, AT(6000));
    lists(FOLLOWS("0", "10.0.0.7"), 6000);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 1);
    lists(FOLLOWS("0", "10.0.0.7"), 17000);
    assert_int_equal(needed(RLOCK_ACKS_AUTO), 0);
}
