/* SPDX-License-Identifier: Apache-2.0 */
/* Messages for the calls in a lock's queue on the server, and for a call that has ended. */
#include "lock/hold/ticket.h"
#include "lock/server/channel.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)
#define COMMON "redisson_lock__channel:{a}"
#define OWN COMMON ":11111111-0000-8000-8000-000000000001"
#define HOLDER "22222222-0000-8000-8000-000000000000:1"
#define PEER "22222222-0000-4000-8000-000000000000:1" /* of another library */

struct scene {
    struct alone_scene alone;
    struct rlock__call gone, waiter; /* their numbers are 1 and 2 */
    struct rlock__call other, release;
};

static void hears_on(struct scene *s, const char *channel, const char *kind, const char *message,
                     int64_t now)
{
    alone_hears(&s->alone.server, kind, channel, message, now);
}

static void hears(struct scene *s, const char *kind, const char *message, int64_t now)
{
    hears_on(s, OWN, kind, message, now);
}

/* The waiter's attempt found the lock busy. It has this place in its queue, behind turns of
 * others. */
static void is_at_with(struct scene *s, int place, int marks, const char *holder, int64_t ticket,
                       int64_t now)
{
    const struct rlock__value values[] = {
        {.type = RLOCK__REPLY_INT, .num = 0},
        {.type = RLOCK__REPLY_INT, .num = 30000},
        {.type = RLOCK__REPLY_STR, .str = holder, .len = strlen(holder)},
        {.type = RLOCK__REPLY_INT, .num = place},
        {.type = RLOCK__REPLY_INT, .num = ticket},
        {.type = RLOCK__REPLY_INT, .num = marks}};
    struct rlock__link *link = alone_link(&s->alone.core);

    alone_carry(&link->pipeline);
    rlock__core_reply(link, link->pipeline.gen,
                      &(struct rlock__reply){.v = values, .n = 6, .is_array = true}, now);
}

static void is_at(struct scene *s, int place, int marks, const char *holder, int64_t now)
{
    is_at_with(s, place, marks, holder, 1700000000000000, now);
}

static void is_behind(struct scene *s, int marks, const char *holder, int64_t now)
{
    is_at(s, 1, marks, holder, now);
}

static void is_first(struct scene *s, int64_t now)
{
    is_behind(s, 0, HOLDER, now);
}

static void begin(struct scene *s)
{
    *s = (struct scene){.gone.code = 0};
    alone_open(&s->alone, NOW);
    s->alone.core.opts.queues = true;
    (void)snprintf(s->alone.core.opts.uuid, sizeof(s->alone.core.opts.uuid),
                   "11111111-0000-8000-8000-000000000001");
    rlock__core_sub_up(&s->alone.server, NOW);
    s->gone = alone_call(&s->alone, RLOCK__ACQUIRE);
    rlock__core_begin(&s->alone.core, &s->gone, NOW);
    alone_busy(&s->alone.core, NOW);
    assert_int_equal(s->gone.code, RLOCK_EBUSY);
    s->waiter = alone_call(&s->alone, RLOCK__ACQUIRE);
    s->waiter.acquire.wait_us = -1;
    rlock__core_begin(&s->alone.core, &s->waiter, NOW);
    alone_busy(&s->alone.core, NOW);
    hears(s, "subscribe", "", NOW); /* and asks again */
    is_first(s, NOW);
    assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
    assert_int_equal(s->waiter.number, 2);
}

static void end(struct scene *s)
{
    (void)rlock__view_unref(s->waiter.view);
    (void)rlock__view_unref(s->other.view);
    rlock__core_abandon(&s->alone.core);
    rlock__core_fini(&s->alone.core);
    (void)rlock__spec_unref(s->alone.spec);
}

#define TOLD_TEST(name) TEST_AROUND(name, struct scene, s, begin(s), end(s))

TOLD_TEST(a_call_that_the_lock_is_reserved_for_asks)
{
    hears(s, "message", "g 2 1700000000000000 50", NOW);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
}

TOLD_TEST(a_call_asks_when_a_message_says_so)
{
    hears(s, "message", "s 2 10", NOW);
    assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
    rlock__core_tick(&s->alone.core, NOW + 9 * RLOCK__MS);
    assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
    rlock__core_tick(&s->alone.core, NOW + 10 * RLOCK__MS);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
}

TOLD_TEST(a_message_while_a_call_asks_counts_after_the_answer)
{
    hears(s, "message", "s 2 0", NOW);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
    hears(s, "message", "s 2 10", NOW);
    is_first(s, NOW);
    assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
    rlock__core_tick(&s->alone.core, NOW + 10 * RLOCK__MS);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
}

TOLD_TEST(a_lock_that_is_reserved_for_a_call_that_is_gone_is_given_back)
{
    hears(s, "message", "g 1 1700000000000000 50", NOW);
    assert_non_null(s->alone.core.recovery.tickets);
    assert_int_equal(s->alone.core.recovery.tickets->number, 1);
    assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
}

/* A later call may get that number: nothing may release it then. */
TOLD_TEST(a_reservation_for_a_number_that_no_call_has_had_is_ignored)
{
    hears(s, "message", "g 3 1700000000000000 50", NOW);
    hears(s, "message", "g 18446744073709551615 1 50", NOW);
    assert_null(s->alone.core.recovery.tickets);
}

TOLD_TEST(messages_without_sense_are_ignored)
{
    static const char *const messages[] = {"", "g", "g ", "g 2x", "g -2", "s", "s 2 ", "0", "  2 "};

    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        hears(s, "message", messages[i], NOW);
        assert_null(s->alone.core.recovery.tickets);
        if (s->waiter.step == RLOCK__ASKING) { /* it looks once more, and no harm is done */
            is_first(s, NOW);
        }
        assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
    }
}

/* ---- Turns of others ---- */

/* The subscriptions that it needs for that are there. */
static void hears_others(struct scene *s, int64_t now)
{
    hears_on(s, COMMON ":rlock", "subscribe", "", now);
    hears_on(s, COMMON, "subscribe", "", now);
}

static void hears_a_release(struct scene *s, int64_t now)
{
    hears_on(s, COMMON, "message", "0", now);
}

TOLD_TEST(a_call_asks_when_others_release_the_lock_in_their_turn)
{
    hears(s, "message", "o 2 10", NOW);
    hears_others(s, NOW);
    assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
    hears_a_release(s, NOW + RLOCK__MS);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
}

TOLD_TEST(a_call_asks_after_a_turn_of_others_that_nobody_took)
{
    hears(s, "message", "o 2 10", NOW);
    rlock__core_tick(&s->alone.core, NOW + 9 * RLOCK__MS);
    assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
    rlock__core_tick(&s->alone.core, NOW + 10 * RLOCK__MS);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
}

/* Each turn that begins is one less before the call. */
TOLD_TEST(a_turn_of_others_counts_once)
{
    int64_t now = NOW;

    hears(s, "message", "s 2 0", now);
    is_behind(s, 2, PEER, now);
    hears_others(s, now); /* and asks again */
    is_behind(s, 2, PEER, now);
    s->waiter.acquire.entry->marks = 2; /* as if they had stood there when it entered */
    for (int turns = 0; turns < 2; turns++) {
        hears(s, "message", "o 2 1", now);
        now += RLOCK__MS;
        rlock__core_tick(&s->alone.core, now);
        is_behind(s, 2, PEER, now);
        assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
    }
    hears_a_release(s, now);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
}

static void is_granted(struct scene *s, int64_t now)
{
    alone_answer(&s->alone.core, 1, (const int64_t[]){1}, now);
}

/* Its release is the first one that the common channel announces, theirs the second. */
TOLD_TEST(the_next_call_here_asks_when_others_release_the_lock_in_their_turn)
{
    struct rlock__call *next = &s->other, *release = &s->release;

    *next = alone_call(&s->alone, RLOCK__ACQUIRE);
    *release = alone_call(&s->alone, RLOCK__RELEASE);
    hears(s, "message", "s 2 0", NOW);
    is_behind(s, 0, PEER, NOW);
    hears_others(s, NOW);
    is_granted(s, NOW);
    assert_int_equal(s->waiter.code, 0);
    next->owner.id = 2;
    next->acquire.wait_us = -1;
    rlock__core_begin(&s->alone.core, next, NOW);
    is_first(s, NOW); /* its own client holds the lock */
    rlock__core_begin(&s->alone.core, release, NOW);
    alone_answer(&s->alone.core, 2, (const int64_t[]){2, 2}, NOW);
    assert_int_equal(release->code, 0);
    assert_int_not_equal(next->step, RLOCK__ASKING);
    hears_a_release(s, NOW);
    assert_int_not_equal(next->step, RLOCK__ASKING);
    hears_a_release(s, NOW + RLOCK__MS / 2);
    assert_int_equal(next->step, RLOCK__ASKING);
}

/* It has nothing to ask then: the hold here is given up before another owner here gets the lock. */
TOLD_TEST(a_call_that_was_told_to_ask_sleeps_while_its_client_holds_the_lock)
{
    const int64_t then = NOW + 10 * RLOCK__MS;

    hears(s, "message", "s 2 10", NOW);
    s->other = alone_call(&s->alone, RLOCK__ACQUIRE);
    s->other.owner.id = 2;
    rlock__core_begin(&s->alone.core, &s->other, NOW);
    is_granted(s, NOW);
    assert_int_equal(s->other.code, 0);
    rlock__core_tick(&s->alone.core, then);
    assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
    assert_true(s->waiter.timer.at > then);
}

/* Otherwise it would take the lock before the first one. */
TOLD_TEST(a_call_that_is_not_the_first_hears_no_release_of_others)
{
    hears(s, "message", "s 2 0", NOW);
    is_at(s, 1, 0, PEER, NOW);
    hears_others(s, NOW); /* and asks again */
    is_at(s, 2, 0, PEER, NOW);
    assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
    hears_a_release(s, NOW);
    assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
}

/* ---- A grant that a release pushes ---- */

#define PUSHED "p 2 1700000000000000"

static void is_pushed(struct scene *s, int64_t now)
{
    hears(s, "message", PUSHED, now);
    assert_int_equal(s->waiter.step, RLOCK__COMPLETE);
    assert_int_equal(s->waiter.code, 0);
    assert_int_equal(s->waiter.hold->state, RLOCK__HOLD_HELD);
}

TOLD_TEST(a_pushed_grant_counts_from_the_attempt_that_entered)
{
    const int64_t valid_until = rlock__valid_until(&s->alone.core, NOW, RLOCK__PUSH_US);

    hears(s, "message", "s 2 0", NOW + 200 * RLOCK__MS);
    is_first(s, NOW + 200 * RLOCK__MS); /* with the same ticket */
    is_pushed(s, NOW + 400 * RLOCK__MS);
    assert_int_equal(s->waiter.acquire.valid_until, valid_until);
    assert_int_equal(s->waiter.acquire.lease_granted_us, 30 * RLOCK__SECOND);
}

/* The refused attempt may have entered with the ticket that the next one finds. */
TOLD_TEST(a_pushed_grant_counts_from_the_first_attempt_without_an_answer)
{
    const int64_t asked_at = NOW + 200 * RLOCK__MS, then = NOW + 700 * RLOCK__MS;
    const int64_t valid_until = rlock__valid_until(&s->alone.core, asked_at, RLOCK__PUSH_US);
    struct rlock__link *link = alone_link(&s->alone.core);
    const struct rlock__value oom = {.type = RLOCK__REPLY_ERROR, .str = "OOM", .len = 3};

    hears(s, "message", "s 2 0", asked_at);
    alone_carry(&link->pipeline);
    rlock__core_reply(link, link->pipeline.gen, &(struct rlock__reply){.v = &oom, .n = 1},
                      asked_at);
    hears(s, "message", "s 2 0", then);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
    is_at_with(s, 1, 0, HOLDER, 1700000000000001, then);
    hears(s, "message", "p 2 1700000000000001", then);
    assert_int_equal(s->waiter.code, 0);
    assert_int_equal(s->waiter.acquire.valid_until, valid_until);
}

TOLD_TEST(a_pushed_grant_is_renewed_soon)
{
    is_pushed(s, NOW + 400 * RLOCK__MS);
    rlock__core_tick(&s->alone.core, NOW + 499 * RLOCK__MS);
    assert_int_equal(alone_link(&s->alone.core)->renewing, 0);
    rlock__core_tick(&s->alone.core, NOW + 501 * RLOCK__MS);
    assert_int_equal(alone_link(&s->alone.core)->renewing, 1);
}

TOLD_TEST(a_pushed_grant_that_is_half_over_is_asked_about)
{
    hears(s, "message", PUSHED, NOW + 1100 * RLOCK__MS);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
    assert_null(s->waiter.view);
}

/* Another server may have taken its place, and the old one goes on. */
TOLD_TEST(a_pushed_grant_of_a_server_that_no_link_leads_to_is_asked_about)
{
    struct rlock__link *link = alone_link(&s->alone.core);

    rlock__core_link_down(link, link->pipeline.gen, RLOCK_ECONN, false, "overdue", NOW);
    hears(s, "message", PUSHED, NOW);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
    assert_null(s->waiter.view);
}

TOLD_TEST(a_late_message_of_a_pushed_grant_grants_nothing)
{
    hears(s, "message", "p 2 1699999999999999", NOW);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
    assert_null(s->waiter.view);
}

TOLD_TEST(an_answer_counts_more_than_a_pushed_grant)
{
    hears(s, "message", "s 2 0", NOW);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
    hears(s, "message", PUSHED, NOW);
    is_first(s, NOW);
    assert_int_equal(s->waiter.step, RLOCK__ASKING);
    assert_null(s->waiter.view);
    is_first(s, NOW);
    assert_int_equal(s->waiter.step, RLOCK__SLEEPING);
    hears(s, "message", "s 2 0", NOW);
    assert_null(s->waiter.view);
}

TOLD_TEST(a_pushed_grant_that_no_call_waits_for_is_given_back)
{
    hears(s, "message", "p 1 1700000000000000", NOW);
    assert_non_null(s->alone.core.recovery.tickets);
    assert_int_equal(s->alone.core.recovery.tickets->number, 1);
}

/* ---- The same for a fair lock ---- */

#define FAIR_OWN "redisson_lock__channel:{f}:11111111-0000-8000-8000-000000000001:3"
#define TICKET 1700000000000000
#define GRANT "p 3 1700000000000000"

/* The fair call's attempt found the lock busy. It is the first one behind the holder, and has this
 * ticket. */
static void is_queued(struct scene *s, int64_t ticket, int64_t now)
{
    const struct rlock__value values[] = {
        {.type = RLOCK__REPLY_INT, .num = 0},
        {.type = RLOCK__REPLY_INT, .num = 30000},
        {.type = RLOCK__REPLY_STR, .str = HOLDER, .len = strlen(HOLDER)},
        {.type = RLOCK__REPLY_INT, .num = 1},
        {.type = RLOCK__REPLY_INT, .num = 0},
        {.type = RLOCK__REPLY_INT, .num = 0},
        {.type = RLOCK__REPLY_INT, .num = ticket}};
    struct rlock__link *link = alone_link(&s->alone.core);

    alone_carry(&link->pipeline);
    rlock__core_reply(link, link->pipeline.gen,
                      &(struct rlock__reply){.v = values, .n = 7, .is_array = true}, now);
}

static void fair_hears(struct scene *s, const char *message, int64_t now)
{
    hears_on(s, FAIR_OWN, "message", message, now);
}

static void begin_fair(struct scene *s)
{
    struct rlock__spec *fair;

    begin(s);
    fair = rlock__spec_new(&s->alone.core, &rlock__fair_ops, rlock__bytes_of("f"), NULL);
    s->other = alone_call(&s->alone, RLOCK__ACQUIRE);
    s->other.spec = fair;
    s->other.acquire.wait_us = -1;
    rlock__core_begin(&s->alone.core, &s->other, NOW);
    (void)rlock__spec_unref(fair); /* the hold has it */
    is_queued(s, 0, NOW);
    hears_on(s, FAIR_OWN, "subscribe", "", NOW); /* and asks again */
    is_queued(s, TICKET, NOW);
    assert_int_equal(s->other.step, RLOCK__SLEEPING);
    assert_int_equal(s->other.number, 3);
}

#define FAIR_TEST(name) TEST_AROUND(name, struct scene, s, begin_fair(s), end(s))

FAIR_TEST(a_fair_grant_counts_from_the_attempt_that_has_its_ticket)
{
    const int64_t then = NOW + 400 * RLOCK__MS;

    fair_hears(s, GRANT, then);
    assert_int_equal(s->other.step, RLOCK__COMPLETE);
    assert_int_equal(s->other.code, 0);
    assert_int_equal(s->other.acquire.valid_until,
                     rlock__valid_until(&s->alone.core, NOW, RLOCK__PUSH_US));
    rlock__core_tick(&s->alone.core, then + 101 * RLOCK__MS);
    assert_int_equal(alone_link(&s->alone.core)->renewing, 1);
}

/* An attempt that got no answer may have a ticket, too. */
FAIR_TEST(a_fair_grant_counts_from_the_first_attempt_without_an_answer)
{
    const int64_t asked_at = NOW + 200 * RLOCK__MS, then = NOW + 700 * RLOCK__MS;
    const struct rlock__value oom = {.type = RLOCK__REPLY_ERROR, .str = "OOM", .len = 3};
    struct rlock__link *link = alone_link(&s->alone.core);

    fair_hears(s, "0", asked_at);
    alone_carry(&link->pipeline);
    rlock__core_reply(link, link->pipeline.gen, &(struct rlock__reply){.v = &oom, .n = 1},
                      asked_at);
    fair_hears(s, "0", then);
    is_queued(s, TICKET + 1, then);
    fair_hears(s, "p 3 1700000000000001", then);
    assert_int_equal(s->other.code, 0);
    assert_int_equal(s->other.acquire.valid_until,
                     rlock__valid_until(&s->alone.core, asked_at, RLOCK__PUSH_US));
}

FAIR_TEST(a_fair_grant_by_another_ticket_is_asked_about)
{
    fair_hears(s, "p 3 1699999999999999", NOW);
    assert_int_equal(s->other.step, RLOCK__ASKING);
    assert_null(s->other.view);
}

FAIR_TEST(a_fair_grant_that_is_half_over_is_asked_about)
{
    fair_hears(s, GRANT, NOW + 1100 * RLOCK__MS);
    assert_int_equal(s->other.step, RLOCK__ASKING);
    assert_null(s->other.view);
}

FAIR_TEST(a_fair_grant_while_a_call_asks_is_asked_about)
{
    fair_hears(s, "0", NOW);
    assert_int_equal(s->other.step, RLOCK__ASKING);
    fair_hears(s, GRANT, NOW);
    is_queued(s, TICKET, NOW);
    assert_int_equal(s->other.step, RLOCK__ASKING);
    assert_null(s->other.view);
}
