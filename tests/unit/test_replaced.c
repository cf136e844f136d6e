/* SPDX-License-Identifier: Apache-2.0 */
/* Another server answers at the address: one that took the first one's place, or was started again.
 * It may not have what that one granted last, nor what it was given back. */
#include <utlist.h>

#include "lock/hold/recent.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

struct scene {
    struct alone_scene alone;
    uint64_t gen;
    unsigned demotions;
};

static struct scene scene;

static struct rlock__pipeline *pipeline_of(struct scene *s)
{
    return &alone_link(&s->alone.core)->pipeline;
}

static void on_demoted(struct rlock__core *core)
{
    (void)core;
    scene.demotions++;
}

static struct scene *scene_open(void)
{
    scene = (struct scene){0};
    alone_open(&scene.alone, NOW);
    scene.alone.core.driver.on_demoted = on_demoted;
    rlock__core_found(&scene.alone.server, "a", 1000, NOW);
    rlock__core_link_up(alone_link(&scene.alone.core), 1, true, NOW);
    return &scene;
}

static void scene_close(struct scene *s)
{
    struct rlock__loss *loss, *after;

    DL_FOREACH_SAFE(s->alone.core.lost, loss, after) {
        (void)rlock__loss_free(loss);
    }
    s->alone.core.lost = NULL;
    s->alone.core.done = NULL;
    rlock__core_fini(&s->alone.core);
    assert_int_equal(atomic_load(&s->alone.spec->refs), 1);
    (void)rlock__spec_unref(s->alone.spec);
}

/* The server's answer to the oldest request: these numbers. */
static void answer(struct scene *s, size_t n, const int64_t numbers[], int64_t now)
{
    alone_answer(&s->alone.core, n, numbers, now);
}

static void refuse(struct scene *s, const char *text)
{
    const struct rlock__value value = {
        .type = RLOCK__REPLY_ERROR, .str = text, .len = strlen(text)};
    const struct rlock__reply reply = {.v = &value, .n = 1};

    alone_carry(pipeline_of(s));
    rlock__core_reply(alone_link(&s->alone.core), pipeline_of(s)->gen, &reply, NOW);
}

static void lock(struct scene *s, int64_t lease_us)
{
    struct rlock__call call = alone_call(&s->alone, RLOCK__ACQUIRE);

    call.acquire.lease_us = lease_us;
    rlock__core_begin(&s->alone.core, &call, NOW);
    answer(s, 1, (const int64_t[]){1}, NOW);
    assert_int_equal(call.code, 0);
    (void)rlock__view_unref(call.view);
    s->alone.core.done = NULL; /* the call is gone */
}

static void unlock(struct scene *s)
{
    struct rlock__call call = alone_call(&s->alone, RLOCK__RELEASE);

    rlock__core_begin(&s->alone.core, &call, NOW);
    answer(s, 2, (const int64_t[]){1, 0}, NOW);
    assert_int_equal(call.code, 0);
    s->alone.core.done = NULL;
}

/* The link breaks, and the next one finds this run of the server. */
static void reconnect(struct scene *s, const char *run_id, int64_t now)
{
    struct rlock__link *link = alone_link(&s->alone.core);

    rlock__core_link_down(link, pipeline_of(s)->gen, RLOCK_ECONN, false, "cut", now);
    rlock__core_found(&s->alone.server, run_id, 1000, now);
    rlock__core_link_up(link, 2, true, now);
}

/* What is sent next; NULL nothing. */
static const char *asked(struct scene *s)
{
    const struct rlock__request *request = pipeline_of(s)->sent;

    return request != NULL ? request->cmd.script->name : NULL;
}

TEST(what_was_released_of_late_is_released_again_at_another_server)
{
    struct scene *s = scene_open();

    lock(s, 0);
    unlock(s);
    reconnect(s, "b", NOW + 5 * RLOCK__SECOND); /* nobody was heard for so long */
    assert_string_equal(asked(s), "plain/release");
    answer(s, 2, (const int64_t[]){-1, 0}, NOW);
    assert_null(s->alone.core.recovery.tickets);
    scene_close(s);
}

TEST(what_was_released_is_not_released_again_at_the_same_server)
{
    struct scene *s = scene_open();

    lock(s, 0);
    unlock(s);
    reconnect(s, "a", NOW);
    assert_null(asked(s));
    scene_close(s);
}

TEST(what_was_released_long_before_the_last_answer_is_not_released_again)
{
    struct scene *s = scene_open();

    lock(s, 0);
    unlock(s);
    pipeline_of(s)->heard_at = NOW + RLOCK__RECENT_US + 1;
    reconnect(s, "b", NOW + 5 * RLOCK__SECOND);
    assert_null(asked(s));
    scene_close(s);
}

/* Its server may be asked again, and have it until the lease ends. */
TEST(what_a_replaced_server_may_have_is_released_again_for_a_lease)
{
    struct scene *s = scene_open();
    const struct rlock__link *link = alone_link(&s->alone.core);

    rlock__recent_add(link, s->alone.spec, 7, true, NOW);
    pipeline_of(s)->heard_at = NOW + 20 * RLOCK__SECOND;
    reconnect(s, "b", NOW + 20 * RLOCK__SECOND);
    assert_string_equal(asked(s), "plain/release");
    scene_close(s);
}

TEST(no_more_than_the_latest_thousand_are_released_again)
{
    struct scene *s = scene_open();
    const struct rlock__link *link = alone_link(&s->alone.core);
    const struct rlock__ticket *ticket = NULL;

    for (uint64_t number = 0; number < RLOCK__RECENT_MAX + 100; number++) {
        rlock__recent_add(link, s->alone.spec, number, false, NOW);
    }
    reconnect(s, "b", NOW);
    ticket = s->alone.core.recovery.tickets;
    assert_non_null(ticket);
    assert_int_equal(atomic_load(&s->alone.spec->refs) >= RLOCK__RECENT_MAX, 1);
    assert_int_equal(alone_link(&s->alone.core)->releasing, RLOCK__RELEASES);
    scene_close(s);
}

TEST(a_hold_with_a_lease_is_asked_for_at_another_server)
{
    struct scene *s = scene_open();

    lock(s, 20 * RLOCK__SECOND);
    reconnect(s, "b", NOW);
    rlock__core_tick(&s->alone.core, NOW);
    assert_string_equal(asked(s), "plain/renew");
    answer(s, 3, (const int64_t[]){NOW / RLOCK__SECOND, 0, 0}, NOW);
    assert_non_null(s->alone.core.lost);
    assert_int_equal(s->alone.core.lost->reason, RLOCK_LOST_DELETED);
    scene_close(s);
}

/* The client had no connection until the lease had ended. */
TEST(a_lease_that_has_ended_is_not_renewed_at_another_server)
{
    struct scene *s = scene_open();
    struct rlock__core *core = &s->alone.core;
    const int64_t later = NOW + 21 * RLOCK__SECOND;

    lock(s, 20 * RLOCK__SECOND);
    rlock__core_found(&s->alone.server, "b", 1000, NOW);
    rlock__core_tick(core, NOW);
    rlock__core_link_up(alone_link(core), 2, true, later);
    assert_null(asked(s));
    rlock__core_tick(core, later);
    assert_string_equal(asked(s), "plain/release"); /* of what may be left of it */
    assert_non_null(core->lost);
    assert_int_equal(core->lost->reason, RLOCK_LOST_EXPIRED);
    scene_close(s);
}

TEST(a_hold_with_a_lease_is_not_asked_for_at_the_same_server)
{
    struct scene *s = scene_open();

    lock(s, 20 * RLOCK__SECOND);
    reconnect(s, "a", NOW);
    rlock__core_tick(&s->alone.core, NOW);
    assert_null(asked(s));
    scene_close(s);
}

/* Its release was sent, and lost with the link; the next one finds nothing there. */
static int unlock_over(struct scene *s, bool promoted)
{
    struct rlock__call call = alone_call(&s->alone, RLOCK__RELEASE);

    lock(s, 20 * RLOCK__SECOND);
    rlock__core_begin(&s->alone.core, &call, NOW);
    alone_carry(pipeline_of(s));
    s->alone.core.rows.holds->grant->failed_over = promoted;
    reconnect(s, "b", NOW);
    assert_string_equal(asked(s), "plain/release");
    answer(s, 2, (const int64_t[]){-1, 0}, NOW);
    assert_int_equal(call.step, RLOCK__COMPLETE);
    s->alone.core.done = NULL;
    return call.code;
}

TEST(an_unlock_that_finds_nothing_was_done_before_the_restart)
{
    struct scene *s = scene_open();

    assert_int_equal(unlock_over(s, false), 0);
    scene_close(s);
}

TEST(an_unlock_that_finds_nothing_at_a_promoted_replica_is_told_that_it_was_lost)
{
    struct scene *s = scene_open();

    assert_int_equal(unlock_over(s, true), RLOCK_ELOST);
    scene_close(s);
}

TEST(links_to_the_server_before_are_not_believed_any_more)
{
    struct scene *s = scene_open();

    rlock__core_found(&s->alone.server, "b", 1000, NOW); /* over another link */
    assert_false(pipeline_of(s)->up);
    assert_true(pipeline_of(s)->close);
    scene_close(s);
}

/* The new run may forbid INFO. */
TEST(another_run_has_just_started_whether_or_not_it_tells_its_uptime)
{
    struct scene *s = scene_open();
    struct rlock__server *server = &s->alone.server;

    assert_false(rlock__server_is_young(server, RLOCK__SECOND, NOW));
    rlock__core_found(server, "", RLOCK__UNKNOWN, NOW);
    rlock__core_found(server, "", RLOCK__UNKNOWN, NOW); /* over its other link */
    assert_true(rlock__server_is_young(server, RLOCK__SECOND, NOW));
    rlock__core_found(server, "b", 1000, NOW + 1); /* a later connection learns the run */
    assert_true(rlock__server_is_young(server, RLOCK__SECOND, NOW + 1));
    assert_false(rlock__server_is_young(server, RLOCK__SECOND, NOW + RLOCK__SECOND));
    scene_close(s);
}

/* A server that closed two connections was not asked for its run, and may have restarted. */
TEST(a_server_that_was_not_asked_has_just_started_each_time)
{
    struct scene *s = scene_open();
    struct rlock__server server = {.address = "127.0.0.1:6380"};

    rlock__core_add_server(&s->alone.core, &server, 1, 0);
    rlock__core_found(&server, "", 0, NOW);
    assert_true(rlock__server_is_young(&server, RLOCK__SECOND, NOW));
    assert_false(rlock__server_is_young(&server, RLOCK__SECOND, NOW + RLOCK__SECOND));
    rlock__core_found(&server, "", 0, NOW + RLOCK__SECOND);
    assert_true(rlock__server_is_young(&server, RLOCK__SECOND, NOW + RLOCK__SECOND));
    scene_close(s);
}

/* ---- It says that it is a replica ---- */

#define READONLY "READONLY You can't write against a read only replica."

/* Two are asked for; the server refuses the first. */
static void demote(struct scene *s, struct rlock__call calls[2])
{
    for (int i = 0; i < 2; i++) {
        calls[i] = alone_call(&s->alone, RLOCK__ACQUIRE);
        calls[i].owner.id = (uint64_t)i + 1;
        rlock__core_begin(&s->alone.core, &calls[i], NOW);
    }
    refuse(s, READONLY);
}

TEST(a_link_to_a_replica_ends_when_all_is_answered)
{
    struct scene *s = scene_open();
    struct rlock__call calls[2];

    demote(s, calls);
    assert_int_equal(s->demotions, 1);
    assert_true(pipeline_of(s)->up);
    assert_non_null(pipeline_of(s)->sent); /* the other one, which nobody has to doubt */
    refuse(s, READONLY);
    assert_int_equal(s->demotions, 1);
    assert_false(pipeline_of(s)->up);
    assert_true(pipeline_of(s)->close);
    rlock__core_abandon(&s->alone.core);
    scene_close(s);
}

TEST(what_a_replica_refused_waits_for_the_next_link)
{
    struct scene *s = scene_open();
    struct rlock__call calls[2];

    demote(s, calls);
    while (pipeline_of(s)->waiting == NULL) {
        assert_true(rlock__core_next(&s->alone.core) <= NOW + 10 * RLOCK__BACKOFF_US);
        rlock__core_tick(&s->alone.core, rlock__core_next(&s->alone.core));
    }
    assert_non_null(pipeline_of(s)->waiting);
    assert_null(pipeline_of(s)->sent->next); /* only what had been sent before */
    rlock__core_abandon(&s->alone.core);
    scene_close(s);
}
