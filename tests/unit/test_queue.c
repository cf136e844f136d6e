/* SPDX-License-Identifier: Apache-2.0 */
/* The wait queue of a lock, and numbers beyond all reason, which a broken server may report. */
#include "lock/hold/queue.h"

#include "lock/server/channel.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)
#define CHANNEL "redisson_lock__channel:{a}"
#define REDISSON "11111111-2222-4333-8444-555555555555:1"

struct scene {
    struct alone_scene alone;
    struct rlock__call waiter;
};

/* A call waits for a lock that another client has. Its channel is live. */
static void begin(struct scene *s)
{
    static const struct rlock__value subscribed[] = {
        {.type = RLOCK__REPLY_STR, .str = "subscribe", .len = 9},
        {.type = RLOCK__REPLY_STR, .str = CHANNEL, .len = sizeof(CHANNEL) - 1},
        {.type = RLOCK__REPLY_INT, .num = 1}};

    *s = (struct scene){.waiter.code = 0};
    alone_open(&s->alone, NOW);
    s->waiter = alone_call(&s->alone, RLOCK__ACQUIRE);
    s->waiter.acquire.wait_us = -1;
    rlock__core_sub_up(&s->alone.server, NOW);
    rlock__core_begin(&s->alone.core, &s->waiter, NOW);
    alone_busy(&s->alone.core, NOW);
    rlock__core_sub_reply(&s->alone.server,
                          &(struct rlock__reply){.v = subscribed, .n = 3, .is_array = true}, NOW);
    assert_true(rlock__channel_is_subscribed(s->waiter.channel));
    assert_true(rlock__queue_is_head(&s->waiter));
}

static void end(struct scene *s)
{
    rlock__core_abandon(&s->alone.core);
    rlock__core_fini(&s->alone.core);
    (void)rlock__spec_unref(s->alone.spec);
}

#define QUEUE_TEST(name) TEST_AROUND(name, struct scene, s, begin(s), end(s))

/* A Redisson has the lock, and its lease ends in ttl_ms. Returns whether its hold is a new one. */
static bool saw(struct scene *s, int64_t ttl_ms, int64_t now)
{
    const struct rlock__answer answer = {
        .outcome = RLOCK__BUSY, .ttl_ms = ttl_ms, .holder = rlock__bytes_of(REDISSON)};

    return rlock__queue_saw(&s->waiter, &answer, now);
}

/* A release was answered, and so many received its message. */
static void released(struct scene *s, int64_t receivers, int64_t now)
{
    const struct rlock__answer answer = {.outcome = RLOCK__DONE, .receivers = receivers};

    rlock__queue_released(&s->alone.core, s->alone.spec, &answer, now);
}

QUEUE_TEST(a_lease_beyond_all_reason_ends_in_a_thousand_years)
{
    assert_true(saw(s, INT64_MAX / RLOCK__MS, NOW));
    assert_false(saw(s, INT64_MAX, NOW));
    assert_false(saw(s, RLOCK__MOST_MS, NOW));
    assert_false(saw(s, INT64_MIN, NOW));
    assert_true(saw(s, INT64_MAX, NOW + RLOCK__SECOND));
}

QUEUE_TEST(receivers_below_0_are_nobody)
{
    released(s, INT64_MIN, NOW);
    assert_int_equal(rlock__queue_paused_until(&s->waiter), 0);
}

QUEUE_TEST(receivers_beyond_all_reason_are_others_that_go_first)
{
    released(s, INT64_MAX, NOW);
    assert_true(rlock__queue_paused_until(&s->waiter) > NOW);
    assert_true(rlock__queue_paused_until(&s->waiter) < NOW + RLOCK__SECOND);
}

/* The queue counts the releases of the last second, so it still remembers when that poller came. */
QUEUE_TEST(waiters_do_not_pause_for_a_poller_that_has_not_come_for_a_second)
{
    s->alone.spec->ops = &rlock__spin_ops;
    (void)saw(s, 1000, NOW);
    released(s, 0, NOW + 900 * RLOCK__MS);
    assert_true(rlock__queue_paused_until(&s->waiter) >= NOW + 904 * RLOCK__MS);
    released(s, 0, NOW + 1500 * RLOCK__MS);
    assert_true(rlock__queue_paused_until(&s->waiter) < NOW + 1505 * RLOCK__MS);
}
