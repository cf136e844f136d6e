/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many holds at once: however many need something at one time, an event does a slice of it, and
 * says that there is more. Counted, not timed. The server is this test: it grants and renews all,
 * when it answers.
 */
#include <utlist.h>

#include "support/alone.h"
#include "support/test.h"

enum { N = 3000, SLICE = 50, LEASE_MS = 30000 };

struct crowd {
    struct rlock__core core;
    struct rlock__server server;
    int64_t now;
    uint64_t gen;
    size_t told; /* losses */
    struct rlock__spec *specs[N];
    struct rlock__call calls[N];
};

/* Takes what an event reports, and sends what it wants sent. */
static void take(struct crowd *crowd)
{
    struct rlock__core *core = &crowd->core;
    struct rlock__call *call, *call_after;
    struct rlock__loss *loss, *loss_after;

    DL_FOREACH_SAFE(core->done, call, call_after) {
        assert_int_equal(call->code, 0);
        call->view = rlock__view_unref(call->view);
    }
    DL_FOREACH_SAFE(core->lost, loss, loss_after) {
        crowd->told++;
        (void)rlock__loss_free(loss);
    }
    core->done = NULL;
    core->lost = NULL;
    alone_carry(&alone_link(core)->pipeline);
}

/* The server answers the oldest request: yes, to as many as it asks for. */
static void answer(struct crowd *crowd)
{
    const struct rlock__request *request = alone_link(&crowd->core)->pipeline.sent;
    struct rlock__value values[RLOCK__BATCH + 2];
    struct rlock__reply reply = {.v = values, .n = 1, .is_array = true};

    for (size_t i = 0; i < RLOCK__BATCH + 2; i++) {
        values[i] = (struct rlock__value){.type = RLOCK__REPLY_INT, .num = 1};
    }
    if (request->cmd.script == NULL) { /* PING */
        reply.is_array = false;
    } else if (strcmp(request->cmd.script->name, "plain/renew") == 0) {
        reply.n = 2 + request->cmd.n_keys;
        values[0].num = crowd->now / RLOCK__SECOND;
        values[1].num = crowd->now % RLOCK__SECOND;
    } else if (strcmp(request->cmd.script->name, "plain/release") == 0) {
        reply.n = 2;
    }
    rlock__core_reply(alone_link(&crowd->core), crowd->gen, &reply, crowd->now);
}

static size_t in_flight(const struct crowd *crowd)
{
    const struct rlock__request *request;
    size_t n = 0;

    DL_COUNT(alone_link(&crowd->core)->pipeline.sent, request, n);
    return n;
}

static void link_up(struct crowd *crowd)
{
    crowd->gen = rlock__core_link_up(alone_link(&crowd->core), crowd->gen + 1, true, crowd->now);
    take(crowd);
}

static void link_down(struct crowd *crowd)
{
    rlock__core_link_down(alone_link(&crowd->core), crowd->gen, RLOCK_ECONN, false, "cut",
                          crowd->now);
    take(crowd);
}

/* The i-th takes its lock: the later, the longer it is valid. */
static void take_all(struct crowd *crowd, int64_t min_uptime_us)
{
    for (size_t i = 0; i < N; i++) {
        crowd->calls[i] = (struct rlock__call){.kind = RLOCK__ACQUIRE,
                                               .spec = crowd->specs[i],
                                               .owner = {.id = 1, .given = true},
                                               .acquire.min_uptime_us = min_uptime_us};
        rlock__core_begin(&crowd->core, &crowd->calls[i], crowd->now);
        take(crowd);
        answer(crowd);
        take(crowd);
        crowd->now += 10;
    }
}

static int set_up(void **state)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));

    crowd->now = 1000 * RLOCK__SECOND;
    crowd->core.opts.op_timeout_us = RLOCK__SECOND;
    crowd->core.opts.renewed_lease_us = LEASE_MS * RLOCK__MS;
    crowd->core.opts.slice = SLICE;
    crowd->core.driver.unref = alone_unref;
    alone_init(&crowd->core, &crowd->server, "here");
    for (size_t i = 0; i < N; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "lock-%zu", i);
        crowd->specs[i] =
            rlock__spec_new(&crowd->core, &rlock__reentrant_ops, rlock__bytes_of(name), NULL);
    }
    link_up(crowd);
    *state = crowd;
    return 0;
}

static int tear_down(void **state)
{
    struct crowd *crowd = *state;

    take(crowd);
    rlock__core_fini(&crowd->core);
    for (size_t i = 0; i < N; i++) {
        (void)rlock__spec_unref(crowd->specs[i]);
    }
    free(crowd);
    return 0;
}

#define CROWD_TEST(name, crowd) TEST_WITH(set_up, tear_down, name, struct crowd *crowd)

/* Ticks whenever the core wants it, for that time; each tick tells of no more than a slice. */
static void tick_until(struct crowd *crowd, int64_t until)
{
    while (rlock__core_next(&crowd->core) <= until) {
        size_t before = crowd->told;

        crowd->now = rlock__max(crowd->now, rlock__core_next(&crowd->core));
        rlock__core_tick(&crowd->core, crowd->now);
        take(crowd);
        assert_true(crowd->told - before <= SLICE);
    }
    crowd->now = rlock__max(crowd->now, until);
}

CROWD_TEST(all_that_end_at_one_time_are_told_slice_by_slice, crowd)
{
    int64_t since;

    take_all(crowd, 0);
    link_down(crowd);
    since = crowd->now += 2 * LEASE_MS * RLOCK__MS; /* this process was stopped, say */
    tick_until(crowd, since + RLOCK__SECOND);
    assert_int_equal(crowd->told, N);
}

/* A grant has one timer, whatever it waits for. */
CROWD_TEST(who_waits_to_be_renewed_is_lost_when_its_validity_ends, crowd)
{
    const int64_t lease_us = LEASE_MS * RLOCK__MS, since = crowd->now;

    take_all(crowd, 0);
    link_down(crowd);
    tick_until(crowd, since + lease_us * 9 / 10);
    assert_non_null(alone_link(&crowd->core)->due.root);
    assert_int_equal(crowd->told, 0);
    tick_until(crowd, since + lease_us + RLOCK__SECOND);
    assert_null(alone_link(&crowd->core)->due.root);
    assert_int_equal(crowd->told, N);
}

/* A table doubles in one event: each has its share of the rows, and none has many. */
CROWD_TEST(a_crowd_is_spread_over_many_tables, crowd)
{
    take_all(crowd, 0);
    for (size_t i = 0; i < RLOCK__TABLES; i++) {
        assert_in_range(crowd->core.rows.tables[i].n, 1, 2 * N / RLOCK__TABLES);
        assert_in_range(crowd->core.rows.numbers[i].n, 1, 2 * N / RLOCK__TABLES);
    }
}

CROWD_TEST(calls_end_in_time_while_a_crowd_ends, crowd)
{
    struct rlock__call call = {
        .kind = RLOCK__ACQUIRE, .spec = crowd->specs[0], .owner = {.id = 2, .given = true}};

    take_all(crowd, 0);
    link_down(crowd);
    crowd->now += (LEASE_MS - 500) * RLOCK__MS;
    rlock__core_begin(&crowd->core, &call, crowd->now);
    crowd->now += RLOCK__SECOND;
    rlock__core_tick(&crowd->core, crowd->now);
    assert_int_equal(call.step, RLOCK__COMPLETE);
    crowd->core.done = NULL;
    assert_true(crowd->core.rows.holds->next != NULL);
}

CROWD_TEST(renewals_after_a_break_go_few_at_a_time_and_the_most_urgent_first, crowd)
{
    int64_t before = 0;

    take_all(crowd, 0);
    link_down(crowd);
    tick_until(crowd, crowd->now + LEASE_MS * 2 / 3 * RLOCK__MS);
    assert_int_equal(alone_link(&crowd->core)->pipeline.out.len, 0);
    for (int i = 0; i < 3; i++) { /* and breaks again */
        link_up(crowd);
        link_down(crowd);
    }
    tick_until(crowd, crowd->now + 2 * RLOCK__SECOND);
    link_up(crowd);
    assert_int_equal(in_flight(crowd), RLOCK__BATCHES);
    while (alone_link(&crowd->core)->due.root != NULL) {
        const struct rlock__grant *first =
            RLOCK__OF(struct rlock__grant, timer, alone_link(&crowd->core)->due.root);
        int64_t urgent = first->valid_until;

        assert_true(urgent >= before);
        before = urgent;
        answer(crowd);
        take(crowd);
        assert_true(in_flight(crowd) <= RLOCK__BATCHES);
    }
    while (in_flight(crowd) > 0) {
        answer(crowd);
        take(crowd);
    }
    for (size_t i = 0; i < N; i++) {
        uint32_t count;

        assert_true(rlock__core_valid_until(&crowd->core, crowd->specs[i],
                                            (struct rlock__owner){.id = 1, .given = true},
                                            &count) > crowd->now + LEASE_MS * 9 / 10 * RLOCK__MS);
    }
    assert_int_equal(crowd->told, 0);
}

/* Goes on for that time, and answers at once. Returns how many batches were sent. */
static unsigned renew_for(struct crowd *crowd, int64_t us)
{
    int64_t until = crowd->now + us;
    unsigned n = 0;

    while (rlock__core_next(&crowd->core) <= until) {
        crowd->now = rlock__max(crowd->now, rlock__core_next(&crowd->core));
        rlock__core_tick(&crowd->core, crowd->now);
        take(crowd);
        for (; in_flight(crowd) > 0; n++) {
            answer(crowd);
            take(crowd);
        }
    }
    crowd->now = until;
    return n;
}

static void assert_renewed_in_time(struct crowd *crowd)
{
    for (size_t i = 0; i < N; i++) {
        uint32_t count;

        assert_true(rlock__core_valid_until(&crowd->core, crowd->specs[i],
                                            (struct rlock__owner){.id = 1, .given = true},
                                            &count) > crowd->now + LEASE_MS / 2 * RLOCK__MS);
    }
}

/* They were taken within 30 ms, and are due together. In no tenth of the period are there many more
 * batches than a tenth of them, and none of the holds comes near its end. */
CROWD_TEST(renewals_of_what_was_taken_together_are_spread_over_the_period, crowd)
{
    const int64_t period = LEASE_MS / 3 * RLOCK__MS;
    const unsigned whole = N / RLOCK__BATCH;

    take_all(crowd, 0);
    assert_int_equal(renew_for(crowd, period * 9 / 10), 0);
    for (unsigned round = 0; round < 5; round++) {
        unsigned sum = 0;

        for (unsigned tenth = 0; tenth < 10; tenth++) {
            unsigned n = renew_for(crowd, period / 10);

            assert_in_range(n, 0, whole * 2 / 10);
            sum += n;
        }
        assert_in_range(sum, whole * 9 / 10, whole * 11 / 10);
    }
    assert_renewed_in_time(crowd);
}

/* On a busy machine: all are renewed in their period nevertheless, and not when they are urgent. */
CROWD_TEST(whoever_comes_late_makes_up_for_it, crowd)
{
    const int64_t period = LEASE_MS / 3 * RLOCK__MS;
    int64_t end;

    crowd->core.opts.slice = RLOCK__SLICE;
    take_all(crowd, 0);
    for (end = crowd->now + period * 19 / 10; crowd->now < end;) {
        crowd->now += period / 30;
        rlock__core_tick(&crowd->core, crowd->now);
        take(crowd);
        while (in_flight(crowd) > 0) {
            answer(crowd);
            take(crowd);
        }
    }
    assert_renewed_in_time(crowd);
}

/* A hold that was refused is not kept waiting for its turn. */
CROWD_TEST(what_could_not_be_renewed_is_tried_again_soon, crowd)
{
    struct rlock__value value = {.type = RLOCK__REPLY_ERROR, .str = "LOADING", .len = 7};
    struct rlock__reply reply = {.v = &value, .n = 1};
    size_t renewed = 0;
    int64_t since;

    take_all(crowd, 0);
    tick_until(crowd, crowd->now + LEASE_MS / 3 * RLOCK__MS);
    since = crowd->now;
    rlock__core_reply(alone_link(&crowd->core), crowd->gen, &reply, crowd->now);
    take(crowd);
    while (crowd->now < since + 100 * RLOCK__MS) {
        renewed += renew_for(crowd, RLOCK__MS);
    }
    assert_true(renewed > 1);
}

/* The server refuses the oldest request: its keys are being moved. Returns how many it names. */
static size_t try_again(struct crowd *crowd)
{
    struct rlock__bytes text = rlock__bytes_of("TRYAGAIN Multiple keys request during rehashing");
    struct rlock__value value = {.type = RLOCK__REPLY_ERROR, .str = text.at, .len = text.len};
    struct rlock__reply reply = {.v = &value, .n = 1};
    size_t keys = alone_link(&crowd->core)->pipeline.sent->cmd.n_keys;

    rlock__core_reply(alone_link(&crowd->core), crowd->gen, &reply, crowd->now);
    take(crowd);
    return keys;
}

CROWD_TEST(a_batch_that_is_refused_for_its_keys_places_is_split, crowd)
{
    size_t refused, alone = 0;

    take_all(crowd, 0);
    tick_until(crowd, crowd->now + LEASE_MS / 3 * RLOCK__MS);
    assert_true(in_flight(crowd) > 0);
    refused = try_again(crowd);
    assert_in_range(refused, 2, RLOCK__BATCH);
    while (in_flight(crowd) > 0 && alone_link(&crowd->core)->pipeline.sent->cmd.n_keys > 1) {
        answer(crowd);
        take(crowd);
    }
    for (int ms = 0; ms < 1000; ms++) {
        tick_until(crowd, crowd->now + RLOCK__MS);
        while (in_flight(crowd) > 0) {
            alone += alone_link(&crowd->core)->pipeline.sent->cmd.n_keys == 1;
            answer(crowd);
            take(crowd);
        }
    }
    assert_int_equal(alone, refused);
    assert_int_equal(crowd->told, 0);
}

/* What max_hold leaves is less than it has: nothing is due until its end. */
CROWD_TEST(a_renewal_of_no_use_is_not_due_again_and_again, crowd)
{
    const struct rlock__tuning tuning = {.max_hold_us = 160 * RLOCK__MS};
    int64_t end = crowd->now + 160 * RLOCK__MS;
    unsigned ticks = 0;

    crowd->core.opts.renewed_lease_us = 150 * RLOCK__MS;
    crowd->specs[0]->tuning = &tuning;
    crowd->calls[0] = (struct rlock__call){
        .kind = RLOCK__ACQUIRE, .spec = crowd->specs[0], .owner = {.id = 1, .given = true}};
    rlock__core_begin(&crowd->core, &crowd->calls[0], crowd->now);
    take(crowd);
    answer(crowd);
    while (rlock__core_next(&crowd->core) < end && ticks < 100) {
        crowd->now = rlock__max(crowd->now, rlock__core_next(&crowd->core));
        rlock__core_tick(&crowd->core, crowd->now);
        ticks++;
        take(crowd);
        while (in_flight(crowd) > 0) {
            answer(crowd);
            take(crowd);
        }
    }
    assert_in_range(ticks, 1, 20);
}

CROWD_TEST(what_was_lost_is_given_back_few_at_a_time, crowd)
{
    take_all(crowd, 0);
    link_down(crowd);
    tick_until(crowd, crowd->now + 2 * LEASE_MS * RLOCK__MS);
    assert_int_equal(crowd->told, N);
    link_up(crowd);
    assert_int_equal(in_flight(crowd), RLOCK__RELEASES);
    while (in_flight(crowd) > 0) {
        assert_true(in_flight(crowd) <= RLOCK__RELEASES);
        answer(crowd);
        take(crowd);
    }
    assert_null(crowd->core.recovery.tickets);
}

CROWD_TEST(close_gives_a_crowd_back_slice_by_slice, crowd)
{
    take_all(crowd, 0);
    rlock__core_close(&crowd->core, crowd->now);
    take(crowd);
    assert_int_equal(crowd->told, SLICE);
    while (!rlock__core_is_settled(&crowd->core)) {
        if (in_flight(crowd) > 0) {
            answer(crowd);
            take(crowd);
        }
        tick_until(crowd, crowd->now);
    }
    assert_int_equal(crowd->told, N);
}

CROWD_TEST(what_close_could_not_give_back_is_one_line, crowd)
{
    const struct rlock__note *note;

    take_all(crowd, 0);
    link_down(crowd);
    rlock__core_close(&crowd->core, crowd->now);
    crowd->core.opts.log_level = RLOCK_LOG_WARNING;
    while (crowd->core.rows.sweep != NULL) {
        (void)rlock__holds_sweep(&crowd->core, SIZE_MAX, crowd->now);
    }
    take(crowd);
    assert_int_equal(crowd->told, N);
    note = crowd->core.notes->prev; /* behind the losses' */
    assert_non_null(strstr(note->text, "lost"));
    rlock__core_note_rest(&crowd->core, crowd->now);
    assert_ptr_equal(note->next, crowd->core.notes->prev);
    assert_string_equal(note->next->text,
                        "3000 locks: not released, the last is free in 30001 ms (server here)");
}

CROWD_TEST(a_restart_ends_a_crowd_slice_by_slice, crowd)
{
    rlock__core_found(crowd->core.servers, "a", 1000, crowd->now);
    take_all(crowd, RLOCK__SECOND);
    link_down(crowd);
    rlock__core_found(crowd->core.servers, "b", 1000, crowd->now);
    take(crowd);
    assert_int_equal(crowd->told, SLICE);
    link_up(crowd);
    tick_until(crowd, crowd->now + RLOCK__SECOND);
    assert_int_equal(crowd->told, N);
}

CROWD_TEST(a_crowd_is_asked_for_soon_when_another_server_is_there, crowd)
{
    size_t asked = 0;
    int64_t since;

    rlock__core_found(crowd->core.servers, "a", 1000, crowd->now);
    take_all(crowd, 0);
    link_down(crowd);
    rlock__core_found(crowd->core.servers, "b", 1000, crowd->now);
    link_up(crowd);
    since = crowd->now;
    while (asked < N && crowd->now - since < 250 * RLOCK__MS) {
        if (in_flight(crowd) > 0) {
            asked += alone_link(&crowd->core)->pipeline.sent->cmd.n_keys;
            answer(crowd);
            take(crowd);
        }
        tick_until(crowd, crowd->now + RLOCK__REST_US);
    }
    assert_int_equal(asked, N); /* a third of the lease is ten seconds */
}
