/* SPDX-License-Identifier: Apache-2.0 */
/* Which servers of a cluster are let go, and what keeps one. */
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)
#define LATER (NOW + 2 * RLOCK__UNUSED_US)

static unsigned any_slot(struct rlock__bytes key)
{
    (void)key;
    return 0;
}

/* A link that is up, to a server of a cluster. */
static void open_scene(struct alone_scene *s)
{
    alone_open(s, NOW);
    rlock__core_link_down(alone_link(&s->core), s->core.last_gen, RLOCK_ECONN, false, "", NOW);
    s->server.links[0].n_unfenced = 0;
    s->core.driver.slot = any_slot;
    rlock__core_link_up(alone_link(&s->core), 7, true, NOW);
}

static void close_scene(struct alone_scene *s)
{
    s->core.done = NULL;
    rlock__core_fini(&s->core);
    (void)rlock__spec_unref(s->spec);
}

/* Time passes. The server answers whoever tries the link. */
static void pass(struct alone_scene *s, int64_t from, int64_t to)
{
    const struct rlock__value pong = {.type = RLOCK__REPLY_STATUS, .str = "PONG", .len = 4};
    const struct rlock__reply reply = {.v = &pong, .n = 1};
    struct rlock__pipeline *pipeline = &alone_link(&s->core)->pipeline;

    for (int64_t now = from; now <= to && pipeline->up; now += RLOCK__SECOND) {
        rlock__core_tick(&s->core, now);
        if (pipeline->sent != NULL) {
            alone_carry(pipeline);
            rlock__core_reply(alone_link(&s->core), pipeline->gen, &reply, now);
        }
    }
}

static bool is_let_go(const struct alone_scene *s)
{
    return alone_link(&s->core)->pipeline.close && alone_link(&s->core)->is_let_go;
}

/* As the driver does when it has closed it. */
static void carry_out(struct alone_scene *s)
{
    struct rlock__link *link = alone_link(&s->core);

    rlock__core_link_down(link, link->pipeline.gen, RLOCK_ECONN, false, "closed", LATER);
}

TEST(a_server_that_nothing_needs_is_let_go)
{
    static struct alone_scene s;

    open_scene(&s);
    pass(&s, NOW, NOW + RLOCK__UNUSED_US - RLOCK__SECOND);
    assert_false(is_let_go(&s));
    pass(&s, NOW + RLOCK__UNUSED_US, LATER);
    assert_true(is_let_go(&s));
    carry_out(&s);
    assert_true(rlock__link_due(alone_link(&s.core)) == RLOCK__NEVER);
    close_scene(&s);
}

TEST(a_connection_on_which_all_was_answered_need_not_be_killed)
{
    static struct alone_scene s;

    open_scene(&s);
    pass(&s, NOW, LATER);
    carry_out(&s);
    assert_int_equal(alone_link(&s.core)->n_unfenced, 0);
    assert_false(alone_link(&s.core)->pipeline.fence.is_final);
    assert_false(rlock__link_is_down(alone_link(&s.core)));
    close_scene(&s);
}

TEST(a_server_that_was_let_go_is_connected_to_when_a_call_needs_it)
{
    static struct alone_scene s;
    struct rlock__call acquire;

    open_scene(&s);
    acquire = alone_call(&s, RLOCK__ACQUIRE);
    pass(&s, NOW, LATER);
    carry_out(&s);
    rlock__core_begin(&s.core, &acquire, LATER);
    assert_true(rlock__link_due(alone_link(&s.core)) <= LATER);
    assert_non_null(alone_link(&s.core)->pipeline.waiting);
    rlock__core_abandon(&s.core);
    close_scene(&s);
}

/* The call comes after the core has let go, and before the driver has closed. */
TEST(a_call_that_comes_while_a_server_is_let_go_is_served)
{
    static struct alone_scene s;
    struct rlock__call acquire;

    open_scene(&s);
    acquire = alone_call(&s, RLOCK__ACQUIRE);
    acquire.prompt = true;
    pass(&s, NOW, LATER);
    rlock__core_begin(&s.core, &acquire, LATER);
    carry_out(&s);
    assert_int_not_equal(acquire.step, RLOCK__COMPLETE);
    assert_true(rlock__link_due(alone_link(&s.core)) <= LATER);
    rlock__core_abandon(&s.core);
    close_scene(&s);
}

TEST(a_hold_keeps_its_server)
{
    const struct rlock__value granted = {.type = RLOCK__REPLY_INT, .num = 1};
    const struct rlock__reply reply = {.v = &granted, .n = 1, .is_array = true};
    static struct alone_scene s;
    struct rlock__call acquire;

    open_scene(&s);
    acquire = alone_call(&s, RLOCK__ACQUIRE);
    acquire.acquire.lease_us = 10 * RLOCK__UNUSED_US;
    rlock__core_begin(&s.core, &acquire, NOW);
    alone_carry(&alone_link(&s.core)->pipeline);
    rlock__core_reply(alone_link(&s.core), s.core.last_gen, &reply, NOW);
    assert_int_equal(acquire.code, 0);
    pass(&s, NOW, LATER);
    assert_false(is_let_go(&s));
    (void)rlock__view_unref(acquire.view);
    close_scene(&s);
}

TEST(a_connection_that_is_to_be_killed_keeps_its_server)
{
    static struct alone_scene s;

    open_scene(&s);
    rlock__core_link_down(alone_link(&s.core), s.core.last_gen, RLOCK_ECONN, false, "", NOW);
    assert_int_equal(alone_link(&s.core)->n_unfenced, 1);
    rlock__core_link_up(alone_link(&s.core), 8, false, NOW);
    pass(&s, NOW, LATER);
    assert_false(is_let_go(&s));
    assert_int_equal(alone_link(&s.core)->n_unfenced, 1);
    close_scene(&s);
}

TEST(the_only_server_is_never_let_go)
{
    static struct alone_scene s;

    alone_open(&s, NOW);
    pass(&s, NOW, LATER);
    assert_true(alone_link(&s.core)->pipeline.up);
    close_scene(&s);
}

/* One that was refused for good. Nobody who asks it later is told that it granted. */
TEST(a_server_that_refused_for_good_is_asked_again_after_it_was_let_go)
{
    static struct alone_scene s;
    struct rlock__call acquire;

    open_scene(&s);
    acquire = alone_call(&s, RLOCK__ACQUIRE);
    rlock__core_link_down(alone_link(&s.core), s.core.last_gen, RLOCK_ECONN, false, "", NOW);
    alone_link(&s.core)->n_unfenced = 0; /* there is nothing to be killed */
    rlock__core_link_down(alone_link(&s.core), 0, RLOCK_EAUTH, true, "WRONGPASS", NOW);
    for (int64_t now = NOW; now <= LATER; now += RLOCK__SECOND) {
        rlock__core_tick(&s.core, now);
    }
    assert_true(s.server.is_let_go);
    rlock__core_begin(&s.core, &acquire, LATER);
    assert_int_equal(acquire.step, RLOCK__ASKING);
    assert_true(rlock__link_due(alone_link(&s.core)) != RLOCK__NEVER);
    rlock__core_abandon(&s.core);
    close_scene(&s);
}

/* ---- A server that takes another one's place ---- */

static struct rlock__server second;

static struct rlock__server *to_second(struct rlock__core *core, const struct rlock__spec *spec)
{
    (void)core;
    (void)spec;
    return &second;
}

/* The second has been let go. */
static void open_two(struct alone_scene *s)
{
    second = (struct rlock__server){.address = "second"};
    open_scene(s);
    rlock__core_add_server(&s->core, &second, 1, 0);
    second.is_let_go = true;
    assert_int_equal(rlock__link_due(&second.links[0]), RLOCK__NEVER);
}

/* The first one is replaced at that time; what is due at once is begun. */
static void replace(struct alone_scene *s, int64_t now)
{
    s->core.driver.route = to_second;
    rlock__core_replaced(&s->server, now);
    rlock__core_rerouted(&s->core, now);
    rlock__core_tick(&s->core, now);
}

TEST(a_server_that_was_let_go_is_connected_to_for_what_was_held_at_another)
{
    const struct rlock__value granted = {.type = RLOCK__REPLY_INT, .num = 1};
    const struct rlock__reply reply = {.v = &granted, .n = 1, .is_array = true};
    static struct alone_scene s;
    struct rlock__call acquire;

    open_two(&s);
    acquire = alone_call(&s, RLOCK__ACQUIRE);
    rlock__core_begin(&s.core, &acquire, NOW);
    alone_carry(&s.server.links[0].pipeline);
    rlock__core_reply(&s.server.links[0], s.core.last_gen, &reply, NOW);
    assert_int_equal(acquire.code, 0);
    replace(&s, NOW);
    assert_true(rlock__link_due(&second.links[0]) <= NOW);
    (void)rlock__view_unref(acquire.view);
    close_scene(&s);
}

TEST(a_server_that_was_let_go_is_connected_to_for_what_is_to_be_released)
{
    static struct alone_scene s;

    open_two(&s);
    s.core.driver.route = to_second;
    rlock__recover_released(s.spec, 7, (struct rlock__in_flight){.n = 0}, NOW);
    assert_true(rlock__link_due(&second.links[0]) <= NOW);
    close_scene(&s);
}

/* ---- How many connections are made at the same time ---- */

enum { MANY = RLOCK__CONNECTING_MAX + 2 };

static struct rlock__server many[MANY];

static void begin_link(struct rlock__link *link)
{
    uint64_t unfenced[RLOCK__UNFENCED_MAX];

    assert_true(rlock__link_due(link) <= NOW);
    (void)rlock__link_begin(link, unfenced);
}

/* The one before the last is being made when one has come to something, the last when one has not.
 */
TEST(so_many_connections_are_made_at_the_same_time_and_no_more)
{
    static struct alone_scene s;
    struct rlock__link *next = &many[MANY - 2].links[0], *last = &many[MANY - 1].links[0];

    open_scene(&s);
    for (int i = 0; i < MANY; i++) {
        many[i] = (struct rlock__server){.address = "one of many"};
        rlock__core_add_server(&s.core, &many[i], 1, 0);
    }
    for (int i = 0; i < RLOCK__CONNECTING_MAX; i++) {
        begin_link(&many[i].links[0]);
    }
    assert_true(rlock__link_due(next) == RLOCK__NEVER);
    rlock__core_link_up(&many[0].links[0], 9, true, NOW);
    begin_link(next);
    assert_true(rlock__link_due(last) == RLOCK__NEVER);
    rlock__core_link_down(&many[1].links[0], 0, RLOCK_ECONN, false, "refused", NOW);
    begin_link(last);
    close_scene(&s);
}
