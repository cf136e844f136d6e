/* SPDX-License-Identifier: Apache-2.0 */
/* Channels of keys that the server tracks: when a client looks, and what the answers do. */
#include "lock/server/tracked.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

extern const struct rlock_ops rlock__setnx_ops;

struct scene {
    struct alone_scene alone;
    struct rlock__call waiter;
};

static struct rlock__subscriber *sub_of(struct scene *s)
{
    return &s->alone.server.sub;
}

/* How many looks the core has sent since the last time. */
static size_t looks(struct scene *s)
{
    struct rlock__buf *out = &sub_of(s)->out;
    size_t n = 0;

    for (size_t at = 0; at + 4 <= out->len; at++) {
        n += memcmp(out->data + at, "PTTL", 4) == 0;
    }
    rlock__buf_clear(out);
    return n;
}

static void look_answers(struct scene *s, int64_t ttl_ms, int64_t now)
{
    const struct rlock__value value = {.type = RLOCK__REPLY_INT, .num = ttl_ms};

    rlock__core_sub_reply(&s->alone.server, &(struct rlock__reply){.v = &value, .n = 1}, now);
}

static void look_fails(struct scene *s, const char *why)
{
    const struct rlock__value value = {.type = RLOCK__REPLY_ERROR, .str = why, .len = strlen(why)};

    rlock__core_sub_reply(&s->alone.server, &(struct rlock__reply){.v = &value, .n = 1}, NOW);
}

/* The server tells that this key has changed; NULL: that all have. */
static void changes(struct scene *s, const char *key)
{
    const struct rlock__value values[] = {
        {.type = RLOCK__REPLY_STR, .str = "invalidate", .len = 10},
        {.type = key != NULL ? RLOCK__REPLY_STR : RLOCK__REPLY_NIL,
         .str = key,
         .len = key != NULL ? strlen(key) : 0}};

    rlock__core_sub_reply(
        &s->alone.server,
        &(struct rlock__reply){
            .v = values, .n = 2, .is_array = true, .is_nested = key != NULL, .is_push = true},
        NOW);
}

static void connect(struct scene *s, bool tracks)
{
    assert_true(rlock__subscriber_begin(&s->alone.server, NOW));
    assert_true(sub_of(s)->asked_tracking);
    sub_of(s)->tracks = tracks;
    rlock__core_sub_up(&s->alone.server, NOW);
}

/* A call has found the lock busy for 30 s, and sleeps. */
static void begin(struct scene *s)
{
    *s = (struct scene){.waiter.code = 0};
    alone_open(&s->alone, NOW);
    (void)rlock__spec_unref(s->alone.spec);
    s->alone.spec = rlock__spec_new(&s->alone.core, &rlock__setnx_ops, rlock__bytes_of("a"), NULL);
    s->waiter = alone_call(&s->alone, RLOCK__ACQUIRE);
    s->waiter.acquire.wait_us = -1;
    rlock__core_begin(&s->alone.core, &s->waiter, NOW);
    alone_busy(&s->alone.core, NOW);
}

static void end(struct scene *s)
{
    (void)rlock__view_unref(s->waiter.view);
    rlock__core_abandon(&s->alone.core);
    rlock__core_fini(&s->alone.core);
    (void)rlock__spec_unref(s->alone.spec);
}

#define TRACKED_TEST(name) TEST_AROUND(name, struct scene, s, begin(s), end(s))

TRACKED_TEST(a_call_polls_until_the_connection_is_up)
{
    assert_int_equal(s->waiter.step, RLOCK__SUBSCRIBING);
    assert_in_range(s->waiter.timer.at - NOW, 1, 15 * RLOCK__MS); /* the first pause is 10 ms */
    connect(s, true);
    assert_int_equal(looks(s), 1);
}

TRACKED_TEST(a_look_that_finds_the_key_keeps_the_call_asleep)
{
    connect(s, true);
    look_answers(s, 30000, NOW);
    assert_int_equal(s->waiter.step, RLOCK__SUBSCRIBING);
    rlock__core_tick(&s->alone.core, s->waiter.timer.at); /* its last poll */
    alone_busy(&s->alone.core, NOW);
    assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
    assert_true(s->waiter.timer.at > NOW + RLOCK__SECOND);
    assert_int_equal(looks(s), 1);
}

TRACKED_TEST(a_look_that_finds_no_key_wakes_the_call)
{
    connect(s, true);
    look_answers(s, -2, NOW);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
}

TRACKED_TEST(a_change_of_the_key_wakes_the_call_which_looks_when_it_sleeps_again)
{
    connect(s, true);
    look_answers(s, 30000, NOW);
    assert_int_equal(looks(s), 1);
    changes(s, "a");
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
    assert_int_equal(looks(s), 0);
    alone_busy(&s->alone.core, NOW);
    assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
    assert_int_equal(looks(s), 1);
}

TRACKED_TEST(a_change_of_another_key_wakes_nobody)
{
    connect(s, true);
    look_answers(s, 30000, NOW);
    changes(s, "b");
    assert_int_equal(s->waiter.step, RLOCK__SUBSCRIBING);
}

TRACKED_TEST(a_change_of_all_keys_wakes_the_call)
{
    connect(s, true);
    look_answers(s, 30000, NOW);
    changes(s, NULL);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
}

/* Somebody has shortened the lease since the call asked. */
TRACKED_TEST(a_call_sleeps_no_longer_than_the_lease_that_a_look_found)
{
    connect(s, true);
    rlock__core_tick(&s->alone.core, s->waiter.timer.at);
    alone_busy(&s->alone.core, NOW);
    assert_true(s->waiter.timer.at > NOW + RLOCK__SECOND);
    look_answers(s, 100, NOW);
    assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
    assert_in_range(s->waiter.timer.at - NOW, 100 * RLOCK__MS, 110 * RLOCK__MS);
}

TRACKED_TEST(a_refused_look_makes_the_call_poll_and_is_not_sent_again)
{
    connect(s, true);
    rlock__core_tick(&s->alone.core, s->waiter.timer.at);
    alone_busy(&s->alone.core, NOW);
    assert_int_equal(looks(s), 1);
    look_fails(s, "NOPERM this user has no permissions to run the 'pttl' command");
    assert_int_equal(s->waiter.step, RLOCK__SUBSCRIBING);
    assert_true(s->waiter.timer.at <= NOW + 240 * RLOCK__MS);
    rlock__core_tick(&s->alone.core, s->waiter.timer.at);
    alone_busy(&s->alone.core, NOW);
    assert_int_equal(looks(s), 0);
}

TRACKED_TEST(a_call_polls_where_the_server_does_not_track)
{
    connect(s, false);
    assert_int_equal(looks(s), 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(s->waiter.step, RLOCK__SUBSCRIBING);
        assert_true(s->waiter.timer.at <= NOW + 240 * RLOCK__MS);
        rlock__core_tick(&s->alone.core, s->waiter.timer.at);
        assert_int_equal(s->waiter.step, RLOCK__ASKING);
        alone_busy(&s->alone.core, NOW);
    }
    assert_int_equal(looks(s), 0);
}

TRACKED_TEST(a_connection_that_broke_tracks_nothing)
{
    connect(s, true);
    rlock__core_tick(&s->alone.core, s->waiter.timer.at);
    alone_busy(&s->alone.core, NOW);
    look_answers(s, 30000, NOW);
    rlock__core_sub_down(&s->alone.server, NOW);
    assert_int_equal(s->waiter.step, RLOCK__SUBSCRIBING);
    assert_true(s->waiter.timer.at <= NOW + 240 * RLOCK__MS);
    connect(s, true);
    assert_int_equal(looks(s), 1);
}

/* It was made for a lock of another kind. */
TRACKED_TEST(a_connection_that_did_not_ask_to_track_is_replaced)
{
    connect(s, true);
    look_answers(s, 30000, NOW);
    sub_of(s)->asked_tracking = false;
    sub_of(s)->tracks = false;
    assert_int_equal(rlock__subscriber_due(&s->alone.server), 0);
    assert_false(rlock__subscriber_check(&s->alone.server, NOW));
    rlock__core_sub_down(&s->alone.server, NOW);
    assert_int_equal(sub_of(s)->tries.broke_at, 0); /* nothing broke */
    connect(s, true);
    assert_true(rlock__subscriber_check(&s->alone.server, NOW));
}

/* No server sends it. */
TRACKED_TEST(a_number_that_answers_no_look_is_ignored)
{
    connect(s, true);
    look_answers(s, 30000, NOW);
    look_answers(s, -2, NOW);
    assert_int_equal(s->waiter.step, RLOCK__SUBSCRIBING);
}
