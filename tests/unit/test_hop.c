/* SPDX-License-Identifier: Apache-2.0 */
/* Requests whose lock is gone when their link breaks: nothing of it is looked at any more. */
#include <utlist.h>

#include "lock/hold/recovery.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

static void lock(struct alone_scene *s)
{
    const struct rlock__value granted = {.type = RLOCK__REPLY_INT, .num = 1};
    const struct rlock__reply reply = {.v = &granted, .n = 1, .is_array = true};
    struct rlock__call call = alone_call(s, RLOCK__ACQUIRE);

    rlock__core_begin(&s->core, &call, NOW);
    alone_carry(&alone_link(&s->core)->pipeline);
    rlock__core_reply(alone_link(&s->core), alone_link(&s->core)->pipeline.gen, &reply, NOW);
    assert_int_equal(call.code, 0);
    (void)rlock__view_unref(call.view);
    s->core.done = NULL; /* the call is gone */
}

/* Its last handle is freed, then the link breaks on which something is awaited. */
static void close_scene(struct alone_scene *s)
{
    struct rlock__link *link = alone_link(&s->core);
    struct rlock__loss *loss, *after;

    s->core.done = NULL;
    DL_FOREACH_SAFE(s->core.lost, loss, after) {
        (void)rlock__loss_free(loss);
    }
    s->core.lost = NULL;
    assert_int_equal(atomic_load(&s->spec->refs), 1);
    (void)rlock__spec_unref(s->spec);
    assert_non_null(link->pipeline.sent);
    rlock__core_link_down(link, link->pipeline.gen, RLOCK_ECONN, false, "cut", NOW);
    assert_null(link->pipeline.sent);
    assert_null(link->pipeline.waiting);
    rlock__core_fini(&s->core);
}

TEST(a_query_that_nobody_waits_for_outlives_its_lock)
{
    static struct alone_scene s;
    struct rlock__call query;

    alone_open(&s, NOW);
    query = alone_call(&s, RLOCK__COMMAND);
    s.spec->ops->inspect(s.spec, &query.command.cmd);
    rlock__core_begin(&s.core, &query, NOW);
    alone_carry(&alone_link(&s.core)->pipeline);
    rlock__core_give_up(&s.core, &query, RLOCK_ETIMEDOUT, NOW);
    assert_int_equal(query.step, RLOCK__COMPLETE);
    close_scene(&s);
}

TEST(a_release_whose_lease_has_ended_outlives_its_lock)
{
    static struct alone_scene s;
    struct rlock__hold *hold;
    struct rlock__call release;

    alone_open(&s, NOW);
    lock(&s);
    release = alone_call(&s, RLOCK__RELEASE);
    rlock__core_begin(&s.core, &release, NOW);
    alone_carry(&alone_link(&s.core)->pipeline);
    hold = rlock__hold_find(&s.core, s.spec, release.owner);
    rlock__release_due(hold, hold->grant->free_by);
    assert_int_equal(release.step, RLOCK__COMPLETE);
    close_scene(&s);
}

/* It lies on a connection to another server, and is killed when there is a new one. That server may
 * run it until then, however long that takes. */
TEST(a_number_whose_copy_cannot_be_fenced_yet_outlives_its_lease)
{
    const struct rlock__value no[] = {{.type = RLOCK__REPLY_INT, .num = -1},
                                      {.type = RLOCK__REPLY_INT, .num = 0}};
    const struct rlock__reply gone = {.v = no, .n = 2, .is_array = true};
    static struct rlock__server other;
    static struct alone_scene s;
    struct rlock__in_flight set = {.n = 0};
    struct rlock__link *route, *copied = &other.links[0];
    int64_t later;

    other = (struct rlock__server){.address = "other"};
    alone_open(&s, NOW);
    route = alone_link(&s.core);
    later = NOW + s.core.opts.renewed_lease_us + RLOCK__SECOND;
    rlock__core_add_server(&s.core, &other, 1, 0);
    rlock__in_flight_add_lost(&set, copied, rlock__core_link_up(copied, 7, true, NOW));
    rlock__core_link_down(copied, copied->pipeline.gen, RLOCK_ECONN, false, "cut", NOW);
    rlock__recover_released(s.spec, 5, set, NOW);
    rlock__core_tick(&s.core, NOW);
    alone_carry(&route->pipeline);
    rlock__core_reply(route, route->pipeline.gen, &gone, later);
    assert_non_null(s.core.recovery.tickets);
    rlock__core_link_up(copied, 8, true, later);
    later += s.core.opts.renewed_lease_us / 3;
    rlock__core_tick(&s.core, later);
    alone_carry(&route->pipeline);
    while (route->pipeline.sent != NULL) { /* a PING, and the release */
        rlock__core_reply(route, route->pipeline.gen, &gone, later);
    }
    assert_int_equal(copied->releasing, 1); /* it is released there too */
    rlock__core_fini(&s.core);
    (void)rlock__spec_unref(s.spec);
}

/* ---- A request that was sent elsewhere, and waits there ---- */

static struct rlock__server elsewhere;

static enum rlock__redirect to_elsewhere(struct rlock__core *core, const struct rlock__link *link,
                                         const struct rlock__reply *reply,
                                         struct rlock__server **ret_server)
{
    (void)core;
    (void)link;
    (void)reply;
    *ret_server = &elsewhere;
    return RLOCK__MOVED;
}

/* Its first copy was lost. The second was sent elsewhere, where no connection is up. */
TEST(a_request_that_waits_elsewhere_has_no_copy_there)
{
    static const char text[] = "MOVED 1 elsewhere:1";
    const struct rlock__value error = {
        .type = RLOCK__REPLY_ERROR, .str = text, .len = sizeof(text) - 1};
    const struct rlock__reply moved = {.v = &error, .n = 1};
    static struct alone_scene s;
    struct rlock__call acquire;
    struct rlock__link *link;

    elsewhere = (struct rlock__server){.address = "elsewhere"};
    alone_open(&s, NOW);
    rlock__core_add_server(&s.core, &elsewhere, 1, 0);
    s.core.driver.redirect = to_elsewhere;
    link = alone_link(&s.core);
    acquire = alone_call(&s, RLOCK__ACQUIRE);
    rlock__core_begin(&s.core, &acquire, NOW);
    alone_carry(&link->pipeline);
    rlock__core_link_down(link, link->pipeline.gen, RLOCK_ECONN, false, "cut", NOW);
    rlock__core_link_up(link, 7, false, NOW);
    alone_carry(&link->pipeline);
    rlock__core_reply(link, link->pipeline.gen, &moved, NOW);
    assert_non_null(elsewhere.links[0].pipeline.waiting);
    rlock__core_give_up(&s.core, &acquire, RLOCK_ECANCELED, NOW);
    assert_non_null(s.core.recovery.tickets);
    assert_int_equal(s.core.recovery.tickets->in_flight.n, 1);
    assert_ptr_equal(s.core.recovery.tickets->in_flight.open[0].link, link);
    rlock__core_abandon(&s.core);
    s.core.done = NULL;
    rlock__core_fini(&s.core);
    (void)rlock__spec_unref(s.spec);
}
