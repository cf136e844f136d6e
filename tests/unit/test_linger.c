/* SPDX-License-Identifier: Apache-2.0 */
/* A hold that lingers, event by event: what ends it, and who takes it over. */
#include "lock/server/channel.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)
#define COMMON "redisson_lock__channel:{a}"
#define OWN COMMON ":11111111-0000-8000-8000-000000000001"
#define OTHER "22222222-0000-8000-8000-000000000000:1"
#define LINGER_US (5 * RLOCK__MS)

struct scene {
    struct alone_scene alone;
    struct rlock__call call, next;
};

static void hears(struct scene *s, const char *kind, const char *message, int64_t now)
{
    alone_hears(&s->alone.server, kind, OWN, message, now);
}

static void begin_call(struct scene *s, struct rlock__call *call, enum rlock__call_kind kind,
                       int64_t now)
{
    (void)rlock__view_unref(call->view);
    s->alone.core.done = NULL; /* a call is used again */
    *call = alone_call(&s->alone, kind);
    rlock__core_begin(&s->alone.core, call, now);
}

static void is_granted(struct scene *s, int64_t now)
{
    alone_answer(&s->alone.core, 1, (const int64_t[]){1}, now);
}

static void is_released(struct scene *s, int64_t receivers, int64_t now)
{
    alone_answer(&s->alone.core, 2, (const int64_t[]){1, receivers}, now);
}

static void take(struct scene *s, int64_t now)
{
    begin_call(s, &s->call, RLOCK__ACQUIRE, now);
    is_granted(s, now);
    assert_int_equal(s->call.code, 0);
}

static void unlock(struct scene *s, int64_t now)
{
    begin_call(s, &s->call, RLOCK__RELEASE, now);
}

static bool lingers(const struct scene *s)
{
    return s->call.step == RLOCK__COMPLETE && s->call.code == 0 &&
           s->alone.core.rows.n_lingering == 1;
}

/* Whether something was sent that the server has not answered. */
static bool awaits_answer(const struct scene *s)
{
    alone_carry(&alone_link(&s->alone.core)->pipeline);
    return alone_link(&s->alone.core)->pipeline.sent != NULL;
}

/* The first unlock subscribes; the second one, at NOW, lingers. */
static void begin(struct scene *s)
{
    const struct rlock__tuning tuning = {.linger_us = LINGER_US};

    *s = (struct scene){.call.code = 0};
    alone_open(&s->alone, NOW);
    s->alone.core.opts.queues = true;
    (void)snprintf(s->alone.core.opts.uuid, sizeof(s->alone.core.opts.uuid),
                   "11111111-0000-8000-8000-000000000001");
    (void)rlock__spec_unref(s->alone.spec);
    s->alone.spec =
        rlock__spec_new(&s->alone.core, &rlock__reentrant_ops, rlock__bytes_of("a"), &tuning);
    rlock__core_sub_up(&s->alone.server, NOW);
    take(s, NOW);
    unlock(s, NOW);
    assert_false(lingers(s)); /* nobody would tell this client that another one waits */
    is_released(s, 0, NOW);
    hears(s, "subscribe", "", NOW);
    take(s, NOW);
    unlock(s, NOW);
    assert_true(lingers(s));
    assert_false(awaits_answer(s));
}

static void end(struct scene *s)
{
    (void)rlock__view_unref(s->call.view);
    (void)rlock__view_unref(s->next.view);
    rlock__core_abandon(&s->alone.core);
    rlock__core_fini(&s->alone.core);
    (void)rlock__spec_unref(s->alone.spec);
}

#define LINGER_TEST(name) TEST_AROUND(name, struct scene, s, begin(s), end(s))

LINGER_TEST(a_hold_lingers_for_its_time)
{
    rlock__core_tick(&s->alone.core, NOW + LINGER_US - 1);
    assert_false(awaits_answer(s));
    rlock__core_tick(&s->alone.core, NOW + LINGER_US);
    assert_true(awaits_answer(s));
    is_released(s, 0, NOW + LINGER_US);
    assert_null(s->alone.core.rows.holds);
}

LINGER_TEST(the_next_call_takes_it_over)
{
    begin_call(s, &s->next, RLOCK__ACQUIRE, NOW + RLOCK__MS);
    assert_int_equal(s->next.step, RLOCK__COMPLETE);
    assert_int_equal(s->next.code, 0);
    assert_int_equal(s->next.number, 2);
    assert_int_equal(s->alone.core.rows.n_lingering, 0);
    rlock__core_tick(&s->alone.core, NOW + 9 * RLOCK__SECOND);
    assert_false(awaits_answer(s));
    rlock__core_tick(&s->alone.core, NOW + 10 * RLOCK__SECOND); /* a third of its lease */
    assert_true(awaits_answer(s));
}

/* However often it was taken over, it ends 10 ms after the server granted it. */
LINGER_TEST(a_hold_that_is_taken_over_does_not_linger_past_10_ms)
{
    begin_call(s, &s->call, RLOCK__ACQUIRE, NOW + 4 * RLOCK__MS);
    assert_int_equal(s->call.code, 0);
    unlock(s, NOW + 8 * RLOCK__MS);
    assert_true(lingers(s));
    rlock__core_tick(&s->alone.core, NOW + 10 * RLOCK__MS);
    assert_true(awaits_answer(s));
}

LINGER_TEST(a_hold_that_was_granted_10_ms_ago_does_not_linger)
{
    begin_call(s, &s->call, RLOCK__ACQUIRE, NOW + 4 * RLOCK__MS);
    unlock(s, NOW + 10 * RLOCK__MS);
    assert_true(awaits_answer(s));
}

LINGER_TEST(a_call_elsewhere_that_waits_ends_it)
{
    hears(s, "message", "w 2", NOW + RLOCK__MS);
    rlock__core_tick(&s->alone.core, NOW + RLOCK__MS);
    assert_true(awaits_answer(s));
}

LINGER_TEST(a_call_elsewhere_that_waits_for_another_hold_does_not_end_it)
{
    hears(s, "message", "w 1", NOW + RLOCK__MS);
    rlock__core_tick(&s->alone.core, NOW + RLOCK__MS);
    assert_false(awaits_answer(s));
}

LINGER_TEST(a_hold_that_others_wait_for_does_not_linger)
{
    begin_call(s, &s->call, RLOCK__ACQUIRE, NOW + RLOCK__MS);
    hears(s, "message", "w 2", NOW + 2 * RLOCK__MS);
    assert_false(awaits_answer(s));
    unlock(s, NOW + 2 * RLOCK__MS);
    assert_true(awaits_answer(s));
}

static void assert_lingers_again_after_a_second(struct scene *s, int64_t now)
{
    take(s, now + 900 * RLOCK__MS);
    unlock(s, now + 900 * RLOCK__MS);
    assert_true(awaits_answer(s));
    is_released(s, 0, now + 900 * RLOCK__MS);
    rlock__core_tick(&s->alone.core, now + RLOCK__SECOND);
    take(s, now + RLOCK__SECOND);
    unlock(s, now + RLOCK__SECOND);
    assert_true(lingers(s));
}

LINGER_TEST(after_a_call_elsewhere_waited_no_hold_lingers_for_a_second)
{
    hears(s, "message", "w 2", NOW + RLOCK__MS);
    rlock__core_tick(&s->alone.core, NOW + RLOCK__MS);
    is_released(s, 0, NOW + RLOCK__MS); /* it was given to that call, so nobody else heard it */
    assert_lingers_again_after_a_second(s, NOW + RLOCK__MS);
}

LINGER_TEST(after_others_heard_a_release_no_hold_lingers_for_a_second)
{
    rlock__core_tick(&s->alone.core, NOW + LINGER_US);
    is_released(s, 1, NOW + LINGER_US);
    assert_lingers_again_after_a_second(s, NOW + LINGER_US);
}

/* The answer says so, though the message that a call waits has not come. */
LINGER_TEST(after_a_release_gave_the_lock_to_another_client_no_hold_lingers_for_a_second)
{
    rlock__core_tick(&s->alone.core, NOW + LINGER_US);
    alone_answer(&s->alone.core, 2, (const int64_t[]){3, 0}, NOW + LINGER_US);
    assert_lingers_again_after_a_second(s, NOW + LINGER_US);
}

/* The call wants another lease, so the hold cannot be passed to it. */
LINGER_TEST(a_hold_does_not_linger_while_a_call_waits_here)
{
    begin_call(s, &s->call, RLOCK__ACQUIRE, NOW + RLOCK__MS);
    s->next = alone_call(&s->alone, RLOCK__ACQUIRE);
    s->next.owner.id = 2;
    s->next.acquire.lease_us = RLOCK__SECOND;
    s->next.acquire.wait_us = -1;
    rlock__core_begin(&s->alone.core, &s->next, NOW + RLOCK__MS);
    unlock(s, NOW + 2 * RLOCK__MS);
    assert_false(lingers(s));
    assert_true(awaits_answer(s));
}

/* Its release goes ahead of the call's attempt. */
LINGER_TEST(a_call_that_wants_another_lease_ends_it)
{
    s->next = alone_call(&s->alone, RLOCK__ACQUIRE);
    s->next.acquire.lease_us = RLOCK__SECOND;
    rlock__core_begin(&s->alone.core, &s->next, NOW + RLOCK__MS);
    assert_int_equal(s->next.step, RLOCK__ASKING);
    is_released(s, 0, NOW + RLOCK__MS);
    is_granted(s, NOW + RLOCK__MS);
    assert_int_equal(s->next.code, 0);
    assert_int_equal(s->next.number, 3);
}

/* The attempt of another call is on its way when the hold begins to linger. */
static void linger_beside_an_attempt(struct scene *s)
{
    begin_call(s, &s->call, RLOCK__ACQUIRE, NOW + RLOCK__MS);
    s->next = alone_call(&s->alone, RLOCK__ACQUIRE);
    s->next.owner.id = 2;
    rlock__core_begin(&s->alone.core, &s->next, NOW + RLOCK__MS);
    unlock(s, NOW + 2 * RLOCK__MS);
    assert_true(lingers(s));
}

/* The server would not grant the lock if it still had the hold that lingers. */
LINGER_TEST(a_grant_to_another_call_ends_it)
{
    linger_beside_an_attempt(s);
    is_granted(s, NOW + 3 * RLOCK__MS);
    assert_int_equal(s->next.code, 0);
    assert_int_equal(s->alone.core.rows.n_lingering, 0);
    assert_true(awaits_answer(s));
}

LINGER_TEST(a_refusal_of_another_call_ends_it)
{
    linger_beside_an_attempt(s);
    alone_busy(&s->alone.core, NOW + 3 * RLOCK__MS);
    assert_int_equal(s->next.code, RLOCK_EBUSY);
    assert_int_equal(s->alone.core.rows.n_lingering, 0);
    assert_true(awaits_answer(s));
}

LINGER_TEST(a_broken_connection_ends_it)
{
    struct rlock__link *link = alone_link(&s->alone.core);

    rlock__core_link_down(link, link->pipeline.gen, RLOCK_ECONN, false, "broken", NOW + RLOCK__MS);
    begin_call(s, &s->next, RLOCK__ACQUIRE, NOW + RLOCK__MS);
    assert_int_not_equal(s->next.step, RLOCK__COMPLETE);
    assert_int_equal(s->alone.core.rows.n_lingering, 0);
}

LINGER_TEST(closing_ends_it)
{
    rlock__core_close(&s->alone.core, NOW + RLOCK__MS);
    rlock__core_tick(&s->alone.core, NOW + RLOCK__MS);
    assert_true(awaits_answer(s));
    is_released(s, 0, NOW + RLOCK__MS);
    assert_true(rlock__core_is_settled(&s->alone.core));
}

static uint64_t holds_counted(const struct scene *s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < RLOCK_HISTOGRAM_BUCKETS; i++) {
        n += s->alone.core.stats.hold.counts[i];
    }
    return n;
}

/* Each hold is counted once, and without the time for which it lingered. */
LINGER_TEST(the_time_for_which_it_lingers_is_not_held)
{
    uint64_t before_us = s->alone.core.stats.hold.sum_us;

    assert_int_equal(holds_counted(s), 2);
    begin_call(s, &s->call, RLOCK__ACQUIRE, NOW + RLOCK__MS);
    unlock(s, NOW + 2 * RLOCK__MS);
    assert_int_equal(holds_counted(s), 3);
    rlock__core_tick(&s->alone.core, NOW + 2 * RLOCK__MS + LINGER_US);
    is_released(s, 0, NOW + 2 * RLOCK__MS + LINGER_US);
    assert_int_equal(holds_counted(s), 3);
    assert_int_equal(s->alone.core.stats.hold.sum_us - before_us, RLOCK__MS);
}

/* A client that takes the lock no more unsubscribes. */
LINGER_TEST(the_subscription_ends_with_the_last_use)
{
    rlock__core_tick(&s->alone.core, NOW + LINGER_US);
    is_released(s, 0, NOW + LINGER_US);
    rlock__core_tick(&s->alone.core, NOW + 9 * RLOCK__SECOND);
    assert_non_null(rlock__channel_find(&s->alone.server, rlock__bytes_of(OWN)));
    rlock__core_tick(&s->alone.core, NOW + 10 * RLOCK__SECOND);
    hears(s, "unsubscribe", "", NOW + 10 * RLOCK__SECOND);
    assert_null(rlock__channel_find(&s->alone.server, rlock__bytes_of(OWN)));
}
