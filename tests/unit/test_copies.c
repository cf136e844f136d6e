/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hold of which a copy of the acquire lies on a broken link still, where the server does not let
 * us fence: the copy may run once the lock is free, and take it for nobody. However the hold ends,
 * its number is released.
 */
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

/* The server grants what was asked for on the second link. */
static void grant(struct rlock__core *core)
{
    const struct rlock__value value = {.type = RLOCK__REPLY_INT, .num = 1};
    const struct rlock__reply reply = {.v = &value, .n = 1, .is_array = true};

    rlock__core_reply(alone_link(core), 2, &reply, NOW);
}

static void open_core(struct rlock__core *core, struct rlock__call *call)
{
    static struct rlock__server server;

    server = (struct rlock__server){0};
    *core = (struct rlock__core){.opts.op_timeout_us = RLOCK__SECOND,
                                 .opts.renewed_lease_us = 30 * RLOCK__SECOND,
                                 .driver.unref = alone_unref};
    alone_init(core, &server, "here");
    call->spec = rlock__spec_new(core, &rlock__reentrant_ops, rlock__bytes_of("a"), NULL);
}

static void close_core(struct rlock__core *core, const struct rlock__call *call)
{
    core->done = NULL;
    rlock__core_fini(core);
    (void)rlock__spec_unref(call->spec);
}

/* The first link breaks with a copy of the acquire on it, and the second one carries another copy.
 * fenced: the first link can run nothing any more. */
static void send_two_copies(struct rlock__core *core, struct rlock__call *call, bool fenced)
{
    open_core(core, call);
    rlock__core_link_up(alone_link(core), 1, false, NOW);
    rlock__core_begin(core, call, NOW);
    alone_carry(&alone_link(core)->pipeline);
    rlock__core_link_down(alone_link(core), 1, RLOCK_ECONN, false, "cut", NOW);
    rlock__core_link_up(alone_link(core), 2, fenced, NOW);
    alone_carry(&alone_link(core)->pipeline);
}

/* The second copy is granted. */
static void lock(struct rlock__core *core, struct rlock__call *call, bool fenced)
{
    send_two_copies(core, call, fenced);
    grant(core);
    assert_int_equal(call->step, RLOCK__COMPLETE);
    assert_int_equal(call->code, 0);
    (void)rlock__view_unref(call->view);
}

/* The script that waits for an answer on the link; NULL: none does. */
static const char *sent(const struct rlock__core *core)
{
    const struct rlock__pipeline *pipeline = &alone_link(core)->pipeline;

    return pipeline->sent != NULL ? pipeline->sent->cmd.script->name : NULL;
}

/* The script that goes out once the hold is forced open. */
static const char *sent_after_force(bool fenced)
{
    static struct rlock__core core;
    struct rlock__call call = {.kind = RLOCK__ACQUIRE, .owner = {.id = 1, .given = true}};
    const char *script;

    lock(&core, &call, fenced);
    rlock__core_forced(&core, call.number, NOW);
    assert_non_null(core.lost);
    script = sent(&core);
    close_core(&core, &call);
    return script;
}

TEST(a_hold_that_is_gone_is_released_while_a_copy_may_take_it_again)
{
    const char *sent = sent_after_force(false);

    assert_non_null(sent);
    assert_string_equal(sent, "plain/release");
}

TEST(a_hold_that_is_gone_is_not_released_once_all_copies_are_accounted_for)
{
    assert_null(sent_after_force(true));
}

/* The server answers the unlock. Then the first copy may take the free lock. */
TEST(a_number_is_released_again_after_its_unlock_while_a_copy_may_run)
{
    static struct rlock__core core;
    struct rlock__call call = {.kind = RLOCK__ACQUIRE, .owner = {.id = 1, .given = true}};
    struct rlock__call unlock = {.kind = RLOCK__RELEASE, .owner = call.owner};

    lock(&core, &call, false);
    core.done = NULL;
    unlock.spec = call.spec;
    rlock__core_begin(&core, &unlock, NOW);
    alone_answer(&core, 2, (const int64_t[]){1, 0}, NOW);
    assert_int_equal(unlock.step, RLOCK__COMPLETE);
    assert_int_equal(unlock.code, 0);
    assert_non_null(core.recovery.tickets);
    close_core(&core, &call);
}

/* The server refuses the second copy, which therefore did nothing. */
static void refuse_the_second_copy(struct rlock__core *core)
{
    static const char text[] = "OOM command not allowed when used memory > 'maxmemory'.";
    const struct rlock__value value = {
        .type = RLOCK__REPLY_ERROR, .str = text, .len = sizeof(text) - 1};

    rlock__core_reply(alone_link(core), 2, &(struct rlock__reply){.v = &value, .n = 1}, NOW);
}

/* The code of a call whose second copy is refused while the first one may have taken the lock. */
static int code_after_refusal(bool wait_has_ended)
{
    static struct rlock__core core;
    struct rlock__call call = {.kind = RLOCK__ACQUIRE, .owner = {.id = 1, .given = true}};

    send_two_copies(&core, &call, false);
    if (wait_has_ended) {
        rlock__core_give_up(&core, &call, RLOCK_ETIMEDOUT, NOW);
    }
    refuse_the_second_copy(&core);
    while (call.step != RLOCK__COMPLETE && rlock__core_next(&core) <= NOW + RLOCK__SECOND) {
        rlock__core_tick(&core, rlock__core_next(&core));
    }
    assert_int_equal(call.step, RLOCK__COMPLETE);
    close_core(&core, &call);
    return call.code;
}

TEST(a_refusal_of_the_second_copy_does_not_end_a_call_whose_first_copy_is_open)
{
    assert_int_equal(code_after_refusal(false), RLOCK_EINDOUBT);
}

TEST(a_refusal_after_the_end_of_the_wait_does_not_account_for_the_first_copy)
{
    assert_int_equal(code_after_refusal(true), RLOCK_EINDOUBT);
}

/* With a wait without end it would hang for ever. */
TEST(who_lost_a_copy_is_in_doubt_once_the_server_turns_us_away)
{
    static struct rlock__core core;
    struct rlock__call call = {
        .kind = RLOCK__ACQUIRE, .owner = {.id = 1, .given = true}, .acquire.wait_us = -1};

    open_core(&core, &call);
    rlock__core_link_up(alone_link(&core), 1, false, NOW);
    rlock__core_begin(&core, &call, NOW);
    alone_carry(&alone_link(&core)->pipeline);
    rlock__core_link_down(alone_link(&core), 1, RLOCK_ECONN, false, "cut", NOW);
    assert_int_equal(call.step, RLOCK__ASKING);
    rlock__core_link_down(alone_link(&core), 0, RLOCK_EAUTH, true, "WRONGPASS", NOW);
    while (rlock__core_next(&core) <= NOW + RLOCK__SECOND) {
        rlock__core_tick(&core, rlock__core_next(&core));
    }
    assert_int_equal(call.step, RLOCK__COMPLETE);
    assert_int_equal(call.code, RLOCK_EINDOUBT);
    rlock__core_link_up(alone_link(&core), 2, false,
                        NOW + RLOCK__SECOND); /* what may have been granted goes */
    assert_non_null(alone_link(&core)->pipeline.sent);
    assert_string_equal(alone_link(&core)->pipeline.sent->cmd.script->name, "plain/release");
    close_core(&core, &call);
}

/* Takes the lock, and sends its first renewal. */
static const struct rlock__hold *send_renewal(struct rlock__core *core, struct rlock__call *call,
                                              int64_t *ret_now)
{
    int64_t now = NOW;

    open_core(core, call);
    rlock__core_link_up(alone_link(core), 1, true, now);
    rlock__core_begin(core, call, now);
    alone_answer(core, 1, (const int64_t[]){1}, now);
    assert_int_equal(call->code, 0);
    (void)rlock__view_unref(call->view);
    while (alone_link(core)->pipeline.sent == NULL) {
        now = rlock__core_next(core);
        rlock__core_tick(core, now);
    }
    alone_carry(&alone_link(core)->pipeline);
    *ret_now = now;
    return rlock__hold_by_number(core, call->number);
}

/* As long as nothing fences the copy of the renewal, it may run and begin another lease. */
TEST(a_renewal_without_an_answer_may_keep_the_lock_for_two_leases)
{
    struct rlock__core core;
    struct rlock__call call = {.kind = RLOCK__ACQUIRE};
    int64_t now;
    const struct rlock__hold *hold = send_renewal(&core, &call, &now);

    rlock__core_link_down(alone_link(&core), 1, RLOCK_ECONN, false, "cut", now);
    assert_true(hold->grant->free_by >= now + 60 * RLOCK__SECOND);
    close_core(&core, &call);
}

TEST(a_renewal_that_the_server_stopped_halfway_may_have_begun_another_lease)
{
    static const char aborted[] = "ERR Script attempted to access a non local key";
    const struct rlock__value error = {
        .type = RLOCK__REPLY_ERROR, .str = aborted, .len = sizeof(aborted) - 1};
    const struct rlock__reply reply = {.v = &error, .n = 1};
    struct rlock__core core;
    struct rlock__call call = {.kind = RLOCK__ACQUIRE};
    int64_t now;
    const struct rlock__hold *hold = send_renewal(&core, &call, &now);

    alone_answer(&core, 1, (const int64_t[]){1}, now); /* the PING before it */
    rlock__core_reply(alone_link(&core), 1, &reply, now);
    assert_true(hold->grant->free_by >= now + 30 * RLOCK__SECOND);
    close_core(&core, &call);
}

TEST(an_answer_accounts_for_what_was_fenced_and_not_for_what_may_run_yet)
{
    static struct rlock__link link;
    struct rlock__in_flight copies = {.n = 0};

    rlock__in_flight_add_lost(&copies, &link, 1);
    link.pipeline.fence.below = 2;
    assert_true(rlock__in_flight_fence(&copies));
    rlock__in_flight_add_lost(&copies, &link, 2); /* of the next connection */
    rlock__in_flight_answered(&copies, &link, 3);
    assert_int_equal(copies.n, 1);
    assert_false(copies.open[0].unproven);
    assert_true(rlock__in_flight_may_run(&copies));
}

TEST(a_refusal_proves_that_a_copy_was_read_and_not_what_it_did)
{
    static struct rlock__link link;
    struct rlock__in_flight copies = {.n = 0};

    link.pipeline.up = true;
    link.pipeline.gen = 1;
    rlock__in_flight_add_sent(&copies, &link, 1);
    rlock__in_flight_read(&copies, &link, 1);
    assert_false(rlock__in_flight_may_run(&copies));
    assert_true(rlock__in_flight_is_open(&copies));
    rlock__in_flight_answered(&copies, &link, 1);
    rlock__in_flight_refuted(&copies);
    assert_false(rlock__in_flight_is_open(&copies));
}

/* It may have run after the release that the answer is of. */
TEST(what_is_fenced_on_another_link_stays_open_until_something_sent_later_is_answered_there)
{
    static struct rlock__link asked, other;
    struct rlock__in_flight copies = {.n = 0};

    rlock__in_flight_add_lost(&copies, &other, 1);
    asked.pipeline.up = true;
    asked.pipeline.gen = 1;
    rlock__in_flight_add_sent(&copies, &asked, 1);
    other.pipeline.fence.below = 2; /* after the release was sent, and before its answer */
    rlock__in_flight_answered(&copies, &asked, 1);
    rlock__in_flight_refuted(&copies);
    assert_true(rlock__in_flight_is_open(&copies));
    assert_true(rlock__in_flight_fence(&copies)); /* before the release is sent once more */
    assert_false(rlock__in_flight_may_run(&copies));
    rlock__in_flight_answered(&copies, &asked, 1);
    rlock__in_flight_refuted(&copies); /* what was asked elsewhere proves nothing of it */
    assert_true(rlock__in_flight_is_open(&copies));
    rlock__in_flight_answered(&copies, &other, 2);
    rlock__in_flight_refuted(&copies);
    assert_false(rlock__in_flight_is_open(&copies));
}

/* Its replica may have what the copy did. */
TEST(a_copy_that_a_replaced_server_may_have_run_stays_open)
{
    static struct rlock__link link;
    struct rlock__in_flight copies = {.n = 0};

    rlock__in_flight_add_sent(&copies, &link, 1);
    link.replaced = true;
    assert_true(rlock__in_flight_is_open(&copies));
}
