/* SPDX-License-Identifier: Apache-2.0 */
/* Releases of a doubtful attempt that prove nothing about the attempt's copy: no server has read
 * the release, or a server refused it. Meanwhile the slot map changes. */
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

struct scene {
    struct alone_pair pair;
    struct rlock__link *first, *second; /* to the two servers */
    struct rlock__call call;            /* open when a test ends */
};

static enum rlock__redirect names_nobody(struct rlock__core *core, const struct rlock__link *link,
                                         const struct rlock__reply *reply,
                                         struct rlock__server **ret_server)
{
    (void)core;
    (void)link;
    (void)reply;
    *ret_server = NULL;
    return RLOCK__NO_REDIRECT;
}

/* The call's attempt was sent to the first server. */
static void begin(struct scene *s)
{
    *s = (struct scene){.call.code = 0};
    alone_pair_open(&s->pair, NOW);
    s->pair.alone.core.driver.redirect = names_nobody;
    s->first = alone_link(&s->pair.alone.core);
    s->second = &s->pair.other.links[0];
    s->call = alone_call(&s->pair.alone, RLOCK__ACQUIRE);
    rlock__core_begin(&s->pair.alone.core, &s->call, NOW);
    alone_carry(&s->first->pipeline);
}

#define REFUSED_TEST(name) TEST_AROUND(name, struct scene, s, begin(s), alone_pair_close(&s->pair))

static struct rlock__ticket *ticket_of(struct scene *s)
{
    return s->pair.alone.core.recovery.tickets;
}

static void cut(struct rlock__link *link)
{
    rlock__core_link_down(link, link->pipeline.gen, RLOCK_ECONN, false, "cut", NOW);
}

static void moves(struct scene *s)
{
    s->pair.is_moved = true;
    rlock__core_rerouted(&s->pair.alone.core, NOW);
}

REFUSED_TEST(a_copy_stays_open_though_the_map_changes_before_its_release_is_sent)
{
    rlock__core_give_up(&s->pair.alone.core, &s->call, RLOCK_ECANCELED, NOW);
    assert_non_null(ticket_of(s)); /* its release is not sent */
    cut(s->first);
    moves(s);
    assert_non_null(ticket_of(s));
    assert_true(rlock__in_flight_may_run(&ticket_of(s)->in_flight));
}

static void answers(struct rlock__link *link, struct rlock__value first, int64_t now)
{
    const struct rlock__value values[] = {first, {.type = RLOCK__REPLY_INT, .num = 0}};
    bool is_array = first.type == RLOCK__REPLY_INT;

    alone_carry(&link->pipeline);
    assert_non_null(link->pipeline.sent);
    rlock__core_reply(
        link, link->pipeline.gen,
        &(struct rlock__reply){.v = values, .n = is_array ? 2 : 1, .is_array = is_array}, now);
}

/* What a release found: 1 the attempt's hold, -1 nothing. */
static void finds(struct rlock__link *link, int64_t what, int64_t now)
{
    answers(link, (struct rlock__value){.type = RLOCK__REPLY_INT, .num = what}, now);
}

static void refuses(struct rlock__link *link)
{
    static const char oom[] = "OOM command not allowed when used memory > 'maxmemory'.";

    answers(link,
            (struct rlock__value){.type = RLOCK__REPLY_ERROR, .str = oom, .len = sizeof(oom) - 1},
            NOW);
}

/* The first server may have run the attempt before its connection broke. Only a release that runs
 * there proves that nothing of the attempt is left. */
REFUSED_TEST(a_copy_is_undone_where_it_ran_though_that_server_refused_its_release)
{
    struct rlock__core *core = &s->pair.alone.core;
    int64_t later = NOW;

    cut(s->first);
    rlock__core_link_up(s->first, 2, true, NOW);
    rlock__core_link_up(s->second, 3, true, NOW);
    rlock__core_give_up(core, &s->call, RLOCK_ECANCELED, NOW);
    refuses(s->first); /* the attempt once more */
    refuses(s->first); /* its release */
    moves(s);
    while (s->second->pipeline.sent == NULL) {
        later = rlock__core_next(core);
        assert_true(later < NOW + RLOCK__SECOND);
        rlock__core_tick(core, later);
        alone_carry(&s->second->pipeline);
    }
    finds(s->second, -1, later);
    assert_non_null(ticket_of(s));
    assert_ptr_equal(ticket_of(s)->link, s->first);
    answers(s->first, (struct rlock__value){.type = RLOCK__REPLY_STATUS, .str = "OK", .len = 2},
            later); /* to ASKING */
    finds(s->first, 1, later);
    assert_null(ticket_of(s));
}
